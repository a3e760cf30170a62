//! Which address of this machine is ours: `public addr`, `public network` and their like.

use anyhow::{Context, Result, bail};
use objecter::conf::Conf;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// `127.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    base: IpAddr,
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (base, bits) = text.trim().split_once('/')?;
        let (base, bits) = (base.parse::<IpAddr>().ok()?, bits.parse().ok()?);
        (bits <= if base.is_ipv4() { 32 } else { 128 }).then_some(Self { base, bits })
    }
    fn contains(&self, ip: IpAddr) -> bool {
        match (self.base, ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a) ^ u32::from(b)).checked_shr(32 - self.bits).unwrap_or(0) == 0,
            (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b)).checked_shr(128 - self.bits).unwrap_or(0) == 0,
            _ => false,
        }
    }
}

/// Addresses of IPv4 out of `/proc/net/fib_trie`: each one that is followed by `/32 host LOCAL`.
fn local_v4(fib_trie: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut last = None;
    for line in fib_trie.lines() {
        let line = line.trim();
        if let Some(ip) = line.strip_prefix("|-- ") {
            last = ip.parse::<Ipv4Addr>().ok();
        } else if line.starts_with("/32 host LOCAL")
            && let Some(ip) = last
            && !found.contains(&IpAddr::V4(ip))
        {
            found.push(IpAddr::V4(ip));
        }
    }
    found
}

/// Addresses of IPv6 out of `/proc/net/if_inet6`: hexadecimal, without colons.
fn local_v6(if_inet6: &str) -> Vec<IpAddr> {
    let ips = if_inet6.lines().filter_map(|l| u128::from_str_radix(l.split_whitespace().next()?, 16).ok());
    ips.map(|ip| IpAddr::V6(Ipv6Addr::from(ip))).collect()
}

/// This machine's address by `{side} addr` or `{side} network`; `None` if ceph.conf says neither.
pub fn configured(conf: &Conf, side: &str) -> Result<Option<IpAddr>> {
    if let Some(addr) = conf.get(&format!("{side} addr")).filter(|a| !a.is_empty() && a != "-") {
        let ip = addr.parse().ok().or_else(|| types::EntityAddr::parse(&addr, types::AddrType::MSGR2)?.ip);
        return ip.map(Some).with_context(|| format!("{side} addr = {addr}: no address"));
    }
    let networks = conf.list(&format!("{side} network"));
    if networks.is_empty() {
        return Ok(None);
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut local = local_v4(&read("/proc/net/fib_trie"));
    local.extend(local_v6(&read("/proc/net/if_inet6")));
    for text in &networks {
        let network = Network::parse(text).with_context(|| format!("{side} network = {text}: no network"))?;
        if let Some(ip) = local.iter().find(|ip| network.contains(**ip)) {
            return Ok(Some(*ip));
        }
    }
    bail!("no address of this machine lies in {side} network = {}", networks.join(", "))
}

/// The address by which this machine reaches what listens there.
pub fn from_here(addr: SocketAddr) -> SocketAddr {
    if addr.ip().is_unspecified() { SocketAddr::new(Ipv4Addr::LOCALHOST.into(), addr.port()) } else { addr }
}

/// The address from which `peer` is reached. Nothing is sent.
pub fn towards(peer: SocketAddr) -> Result<IpAddr> {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer).with_context(|| format!("no way to {peer}"))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks() {
        let trie = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 127.0.0.0\n        /8 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 10.1.2.3\n        /32 host LOCAL\n     |-- 10.1.2.255\n        /32 link BROADCAST\n";
        let local = local_v4(trie);
        assert_eq!(local, ["127.0.0.1", "10.1.2.3"].map(|a| a.parse::<IpAddr>().unwrap()));
        let lies = |network: &str, ip: &str| Network::parse(network).unwrap().contains(ip.parse().unwrap());
        assert!(lies("10.1.0.0/16", "10.1.2.3") && !lies("10.2.0.0/16", "10.1.2.3") && lies("0.0.0.0/0", "10.1.2.3"));
        assert!(lies("fd00::/8", "fd12::1") && !lies("fd00::/8", "fe80::1") && !lies("10.0.0.0/8", "fd12::1"));
        assert!(Network::parse("10.0.0.0/33").is_none() && Network::parse("10.0.0.0").is_none());
        assert_eq!(
            local_v6("fe80000000000000021122fffe334455 02 40 20 80 eth0\n"),
            ["fe80::211:22ff:fe33:4455".parse::<IpAddr>().unwrap()]
        );
    }
}
