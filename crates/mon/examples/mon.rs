//! A monitor alone, for trying clients against it: `cargo run -p mon --example mon DIR PORT [none|cephx]`.

use std::path::Path;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let dir = Path::new(args.get(1).map_or("mon-data", String::as_str));
    let port: u16 = args.get(2).map_or(Ok(0), |p| p.parse())?;
    let auth = if args.get(3).is_some_and(|a| a == "none") { mon::AuthMode::None } else { mon::AuthMode::Cephx };
    let listen = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let cluster = mon::open_or_mkfs(
        dir,
        &mon::MkfsOptions { auth, key_type: cephx::KeyType::AES, listen, osds: 1, devices: None, config: Vec::new(), secure: false },
        || Ok(()),
    )?;
    let fsid = cluster.fsid;
    let handle = mon::start(mon::MonConfig { cluster, listen, mgr_port: 0, admin_socket: None, http: None })?;
    std::fs::write(dir.join("ceph.conf"), mon::conf_text(dir, fsid, handle.mon_addr, auth, &[]))?;
    println!("mon {} mgr {}", handle.mon_addr, handle.mgr_addr);
    while !handle.is_finished() {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    handle.stop()
}
