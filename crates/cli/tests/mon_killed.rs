//! `humboldt mon` is killed with -9 again and again while clients log in, make snapshots and change the map: no number that was given is ever
//! given again, and an epoch never means two maps. What clients read to find it is whole at every moment.

mod up;

use client::{Cluster, setup};
use messages::MPoolOp;
use messages::mon_client::pool_op;
use objecter::monc::{Answer, Request};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use up::{How, Up};

const CYCLES: u64 = 12;
/// Longer than a commit ever takes, also on a busy machine.
const COMMIT_MAX: Duration = Duration::from_secs(5);

/// A monitor that serves.
fn start(dir: &Path, port: u16) -> Up {
    let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
    cmd.arg("mon").arg("--dir").arg(dir).args(["--port", &port.to_string()]);
    Up::start(cmd, How { ready: "serves", ..How::default() })
}

/// What was given out, over all lives of the monitor.
#[derive(Default)]
struct Given {
    snaps: BTreeSet<u64>,
    global_ids: BTreeSet<u64>,
    maps: BTreeMap<u32, Vec<u8>>,
    slowest: Duration,
}

impl Given {
    fn map(&mut self, cluster: &Cluster) {
        let map = cluster.map();
        let bytes = map.encode_canonical().0.to_vec();
        let known = self.maps.entry(map.epoch).or_insert_with(|| bytes.clone());
        assert!(*known == bytes, "epoch {} has two maps", map.epoch);
    }
}

async fn change_things(conf: &Path, given: &RefCell<Given>) {
    let load = || setup::load(Some(conf), "client.admin").expect("its ceph.conf");
    loop {
        let Ok(cluster) = Cluster::connect(load(), Duration::from_secs(20)).await else { continue };
        assert!(given.borrow_mut().global_ids.insert(cluster.global_id()), "global_id {} was given twice", cluster.global_id());
        given.borrow_mut().map(&cluster);
        if cluster.pool("p").is_err() {
            let _ = cluster.mon_command(r#"{"prefix":"osd pool create","pool":"p","pg_num":4,"pgp_num":4}"#, Default::default()).await;
            let _ = cluster.wait_for_newest_map().await;
        }
        let Ok(pool) = cluster.pool("p") else { continue };
        for _ in 0..20 {
            let op = MPoolOp {
                fsid: cluster.fsid().expect("it is connected"),
                pool: pool.id() as u32,
                op: pool_op::CREATE_UNMANAGED_SNAP,
                ..MPoolOp::default()
            };
            let asked = Instant::now();
            let Ok(Answer::PoolOp { reply, .. }) = cluster.ask(Request::PoolOp(op)).await else { break };
            assert_eq!(reply.result, 0);
            let bytes = reply.response.expect("a number");
            let snap = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            let mut given = given.borrow_mut();
            given.slowest = given.slowest.max(asked.elapsed());
            let newest = given.snaps.last().copied().unwrap_or(0);
            assert!(snap > newest, "snapshot {snap} after {newest}");
            given.snaps.insert(snap);
            given.map(&cluster);
        }
        cluster.shutdown();
    }
}

#[test]
fn no_number_is_given_twice() {
    let dir = std::env::temp_dir().join(format!("humboldt-mon-killed-{}", std::process::id()));
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
    let given = RefCell::new(Given::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for cycle in 0..CYCLES {
        let mon = start(&dir, port);
        let before = given.borrow().snaps.len();
        let conf = dir.join("ceph.conf");
        // Until something was given in this life, and then a little longer, differently each time.
        let work = async {
            tokio::select! {
                () = change_things(&conf, &given) => {}
                () = async {
                    while given.borrow().snaps.len() < before + 1 + cycle as usize * 3 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    tokio::time::sleep(Duration::from_micros(cycle * 371 % 2000)).await;
                } => {}
            }
        };
        tokio::task::LocalSet::new().block_on(&runtime, work);
        drop(mon);
    }
    let given = given.into_inner();
    assert!(given.snaps.len() as u64 > CYCLES && given.global_ids.len() as u64 >= CYCLES && given.maps.len() as u64 > CYCLES);
    assert!(given.slowest < COMMIT_MAX, "a commit took {:?}", given.slowest);
    println!(
        "{} snapshots, {} logins, {} maps; the slowest answer took {:?}",
        given.snaps.len(),
        given.global_ids.len(),
        given.maps.len(),
        given.slowest
    );
    std::fs::remove_dir_all(&dir).expect("its folder");
}

/// Clients read `ceph.conf` when they start, which may be while the monitor does.
#[test]
fn a_client_that_starts_with_it_finds_a_whole_ceph_conf() {
    let dir = std::env::temp_dir().join(format!("humboldt-mon-conf-{}", std::process::id()));
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
    let (ports, end) = ([free(), free()], AtomicBool::new(false));
    drop(start(&dir, ports[0]));
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).expect("it is always there");
    std::thread::scope(|s| {
        let reader = s.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                let (conf, keyring) = (read("ceph.conf"), read("ceph.client.admin.keyring"));
                assert!(conf.contains("mon host = ") && conf.ends_with("$name.asok\n"), "ceph.conf: {conf:?}");
                assert!(keyring.contains("key = "), "keyring: {keyring:?}");
            }
        });
        for cycle in 1..=CYCLES as usize {
            let port = ports[cycle % 2];
            let mon = start(&dir, port);
            assert!(read("ceph.conf").contains(&format!(":{port}]")), "it says where the monitor is");
            drop(mon);
        }
        end.store(true, Ordering::Relaxed);
        reader.join().expect("each look found both whole");
    });
    std::fs::remove_dir_all(&dir).expect("its folder");
}
