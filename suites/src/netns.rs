//! A network of a test's own: one namespace for monitors, manager and clients, one for each OSD, and ways to cut what lies between. Needs root and
//! `ip`.
//!
//! ```text
//!  hub   10.77.0.1 .2 .3 monitors, .4 manager     10.77.(10+i).1, 10.78.(10+i).1
//!                                                     │ a link for each OSD, the hub routes between them
//!  node i                          10.77.(10+i).2 public, 10.78.(10+i).2 cluster network
//! ```
//! What is cut is cut on the node's side, by its routes: whatever it sends there is lost (or refused at once), and so nothing is acknowledged.

use crate::clients::apt;
use crate::run::quietly;
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where monitors `a`, `b`, `c` are.
pub const MONS: [&str; 3] = ["10.77.0.1", "10.77.0.2", "10.77.0.3"];
pub const MGR: &str = "10.77.0.4";
/// Everything in the hub that has an address of its own; clients come from a node's own link.
pub const CONTROL_PLANE: &str = "10.77.0.0/24";

/// The namespaces; all of them go with the value.
pub struct Net {
    prefix: String,
    nodes: usize,
}

impl Net {
    pub fn new(nodes: usize) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        have_ip()?;
        // Two cases of one run may each have one.
        let net = Self { prefix: format!("hb{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)), nodes };
        let hub = net.hub();
        ip(&format!("netns add {hub}"))?;
        ip(&format!("-n {hub} link set lo up"))?;
        for addr in MONS.iter().chain([&MGR]) {
            ip(&format!("-n {hub} addr add {addr}/32 dev lo"))?;
        }
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        quietly(Command::new("ip").args(["netns", "exec", &hub, "sh", "-c", forward]))?;
        for i in 0..nodes {
            let (node, link, third) = (net.node(i), format!("n{i}"), 10 + i);
            ip(&format!("netns add {node}"))?;
            ip(&format!("-n {node} link set lo up"))?;
            ip(&format!("link add {link} netns {hub} type veth peer name eth netns {node}"))?;
            for side in ["77", "78"] {
                ip(&format!("-n {hub} addr add 10.{side}.{third}.1/24 dev {link}"))?;
                ip(&format!("-n {node} addr add 10.{side}.{third}.2/24 dev eth"))?;
            }
            ip(&format!("-n {hub} link set {link} up"))?;
            net.heal(i)?;
        }
        Ok(net)
    }
    pub fn hub(&self) -> String {
        format!("{}-hub", self.prefix)
    }
    pub fn node(&self, i: usize) -> String {
        format!("{}-{i}", self.prefix)
    }
    /// Its address among OSDs.
    pub fn cluster(i: usize) -> String {
        format!("10.78.{}.2", 10 + i)
    }
    /// The same command inside a namespace.
    pub fn inside(namespace: &str, cmd: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", namespace]).arg(cmd.get_program()).args(cmd.get_args());
        for (name, value) in cmd.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }
    /// What the node sends there is lost without a word: sockets stay open and nothing arrives.
    pub fn silence(&self, i: usize, to: &str) -> Result<()> {
        ip(&format!("-n {} route replace blackhole {to}", self.node(i)))
    }
    /// What it dials there is refused at once, and what it sends on open sockets is lost.
    pub fn refuse(&self, i: usize, to: &str) -> Result<()> {
        ip(&format!("-n {} route replace unreachable {to}", self.node(i)))
    }
    pub fn allow(&self, i: usize, to: &str) -> Result<()> {
        ip(&format!("-n {} route del {to}", self.node(i)))
    }
    /// The node's link is out.
    pub fn unplug(&self, i: usize) -> Result<()> {
        ip(&format!("-n {} link set eth down", self.node(i)))
    }
    /// The node's link is there, with its way to everybody: to each network from its address there.
    pub fn heal(&self, i: usize) -> Result<()> {
        let (node, third) = (self.node(i), 10 + i);
        ip(&format!("-n {node} link set eth up"))?;
        ip(&format!("-n {node} route replace default via 10.77.{third}.1"))?;
        ip(&format!("-n {node} route replace 10.78.0.0/16 via 10.78.{third}.1 src 10.78.{third}.2"))
    }
    /// Ends every open socket between the node and there, both sides being told. An error where the kernel has no such thing.
    pub fn cut_sockets(&self, i: usize, to: &str) -> Result<()> {
        let out = Command::new("ip").args(["netns", "exec", &self.node(i), "ss", "-K", "-t", "-n", "dst", to]).output()?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        ensure!(out.status.success() && text.contains("ESTAB"), "ss -K dst {to}: {text}{}", String::from_utf8_lossy(&out.stderr));
        Ok(())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let names = (0..self.nodes).map(|i| self.node(i)).chain([self.hub()]);
        names.for_each(|name| drop(ip(&format!("netns del {name}"))));
    }
}

/// A namespace with a tap: a machine in an emulator on its one end, everything in the namespace on the other.
pub struct Tap {
    pub namespace: Namespace,
}

/// A namespace with nothing but a loopback: what runs in it reaches nothing else.
pub struct Namespace {
    pub name: String,
}

impl Namespace {
    pub fn new(kind: &str) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        have_ip()?;
        let space = Self { name: format!("hb{}-{kind}{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)) };
        ip(&format!("netns add {}", space.name))?;
        ip(&format!("-n {} link set lo up", space.name))?;
        Ok(space)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(ip(&format!("netns del {}", self.name)));
    }
}

impl Tap {
    pub const DEVICE: &str = "tap0";
    /// Addresses of the namespace and of the emulated machine.
    pub const HOST: &str = "10.79.0.1";
    pub const GUEST: &str = "10.79.0.2";

    pub fn new() -> Result<Self> {
        let tap = Self { namespace: Namespace::new("tap")? };
        let (name, device) = (&tap.namespace.name, Self::DEVICE);
        ip(&format!("-n {name} tuntap add {device} mode tap"))?;
        ip(&format!("-n {name} addr add {}/24 dev {device}", Self::HOST))?;
        ip(&format!("-n {name} link set {device} up"))?;
        Ok(tap)
    }
}

fn have_ip() -> Result<()> {
    if Path::new("/usr/sbin/ip").exists() || Path::new("/sbin/ip").exists() {
        return Ok(());
    }
    apt(&["install", "-y", "-q", "--no-install-recommends", "iproute2"])
}

fn ip(line: &str) -> Result<()> {
    quietly(Command::new("ip").args(line.split(' ')))
}
