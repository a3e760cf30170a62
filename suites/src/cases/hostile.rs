//! What a port must stand: garbage, half-open handshakes, many connections. A good client goes on beside it.

use super::Case;
use crate::clients::Release::Pacific;
use crate::cluster::Cluster;
use crate::run::until;
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "hostile_connections", needs: &[Pacific], run: hostile }];

/// The ports of the monitor and of osd.0.
fn ports(c: &Cluster) -> Result<Vec<SocketAddr>> {
    let mut found = Vec::new();
    for (line, pointer) in
        [("ceph mon dump -f json", "/mons/0/public_addrs/addrvec/0/addr"), ("ceph osd dump -f json", "/osds/0/public_addrs/addrvec/0/addr")]
    {
        let dump: serde_json::Value = serde_json::from_str(c.must(Pacific, line)?.trim())?;
        let addr = dump.pointer(pointer).and_then(|a| a.as_str()).with_context(|| format!("{line} has {pointer}"))?;
        found.push(addr.split('/').next().unwrap_or_default().parse()?);
    }
    Ok(found)
}

const BANNER: &[u8] = b"ceph v2\n\x10\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";

/// A connection's worth of bytes, by number: each kind of nonsense comes round.
fn nonsense(n: u64) -> Vec<u8> {
    let mut state = n.wrapping_mul(0x9e3779b97f4a7c15) | 1;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    let mut noise = |n: usize| (0..n).map(|_| random()).collect::<Vec<u8>>();
    match n % 8 {
        0 => noise(200),
        1 => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        2 => b"ceph v027\0\0\0\0".to_vec(),
        3 => [BANNER, &noise(64)].concat(),
        // A preamble that claims a huge segment, with no crc to match.
        4 => [BANNER, &[1, 1, 0xff, 0xff, 0xff, 0x7f, 8, 0][..], &[0; 24]].concat(),
        5 => BANNER[..(n / 8 % BANNER.len() as u64) as usize].to_vec(),
        6 => [BANNER, &noise(4096)].concat(),
        _ => Vec::new(),
    }
}

fn hostile() -> Result<()> {
    let mut c = Cluster::start("hostile", &[])?;
    c.must(Pacific, "ceph osd pool create p 8")?;
    let ports = ports(&c)?;
    // The good client's load fills logs and buffers: what it needs is there before the counting starts.
    c.must(Pacific, "rados -p p bench 2 write -b 4096 -t 16")?;
    let before = c.rss_bytes();
    // Some are held open: a peer that says nothing sensible is cut.
    let mut held = Vec::new();
    for n in 0..500_u64 {
        for port in &ports {
            let Ok(mut socket) = TcpStream::connect_timeout(port, Duration::from_secs(1)) else { continue };
            let _ = socket.write_all(&nonsense(n));
            if n % 25 == 0 {
                held.push(socket);
            }
        }
    }
    ensure!(!c.ended(), "humboldt ended under malformed connections; it said:\n{}", c.log());
    c.must(Pacific, "ceph -s")?;
    c.must(Pacific, "rados -p p bench 1 write -b 4096 -t 16")?;
    for mut socket in held {
        socket.set_read_timeout(Some(Duration::from_secs(15)))?;
        let mut sink = [0; 4096];
        loop {
            match socket.read(&mut sink) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                    anyhow::bail!("a handshake that does not go on is not cut within 15 s");
                }
                Err(_) => break,
            }
        }
    }
    let grown = || c.rss_bytes().saturating_sub(before);
    ensure!(until(Duration::from_secs(15), || grown() < 64 << 20), "memory grew by {} MiB", grown() >> 20);
    c.stop()
}
