//! Random input over real sockets, by peers that have logged in with weak keys: frames and messages at each daemon, requests at an OSD.
//!
//! Holds the keys and the cluster. Whatever is sent: no daemon ends, a good client beside it gets its answers, no connection stands, and nothing is held
//! for connections that have gone. `HUMBOLDT_LIVE_FUZZ=N` makes N times as many inputs, from a seed of their own each time: `cargo xtask live-fuzz`.
//! `HUMBOLDT_FUZZ_SEED` repeats a run.
//!
//! Absent: well-formed messages of the wrong sender (`rogue.rs`), peers without a key (`hostile.rs`, `crowd.rs`), decoders by themselves (`fuzz_…`).

#[path = "../../../base/tests/fuzzing/mod.rs"]
mod fuzzing;
#[path = "../hostile_peer/mod.rs"]
mod hostile_peer;

mod frames;
mod requests;

use hostile_peer::{Cluster, Evil, Recorder};
use mon::AuthMode;
use msgr::AuthClients;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use types::{EntityKind, EntityText};

const FEATURES: u64 = types::features::SUPPORTED;
const DAEMONS: [EntityKind; 3] = [EntityKind::MON, EntityKind::MGR, EntityKind::OSD];

/// A key's entity and its capabilities.
type Weak = (&'static str, &'static [(&'static str, &'static str)]);

const NOTHING: Weak = ("client.nothing", &[]);
const READER: Weak = ("client.reader", &[("mon", "allow r"), ("mgr", "allow r"), ("osd", "allow r")]);
const ONE_POOL: Weak = ("client.onepool", &[("mon", "allow r"), ("osd", "allow rwx pool=mine")]);
const READS_ONE_POOL: Weak = ("client.readsone", &[("mon", "allow r"), ("osd", "allow r pool=mine")]);
const DISK: Weak = ("client.disk", &[("mon", "profile rbd"), ("mgr", "profile rbd"), ("osd", "profile rbd pool=mine")]);

/// How many times the tests' share.
fn times() -> u64 {
    std::env::var("HUMBOLDT_LIVE_FUZZ").map_or(1, |n| n.parse().expect("HUMBOLDT_LIVE_FUZZ is a number"))
}

/// The seed of this run, which it says.
fn seed(name: &str) -> u64 {
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let given = std::env::var("HUMBOLDT_FUZZ_SEED").map(|n| n.parse().expect("HUMBOLDT_FUZZ_SEED is a number"));
    let seed = given.unwrap_or_else(|_| if times() > 1 { fresh() } else { 1 });
    println!("{name}: HUMBOLDT_FUZZ_SEED={seed} HUMBOLDT_LIVE_FUZZ={} repeats this run", times());
    seed
}

/// A cluster with a pool that weak keys may use, beside the good client's.
fn cluster() -> Cluster {
    let cluster = Cluster::start(AuthMode::Cephx);
    cluster.command(r#"{"prefix": "osd pool create", "pool": "mine", "pg_num": 1, "pgp_num": 1}"#);
    cluster.newest_map();
    cluster
}

/// Logs in with a key of those capabilities; what dials the services with the tickets.
fn logged_in(cluster: &Cluster, (name, caps): Weak, secure: bool) -> Rc<dyn AuthClients> {
    let key = cluster.entity(name, caps);
    let live = Recorder::in_mode(EntityText::parse(name).unwrap(), key, secure).live();
    // A key without any right hears so, or has tickets that open nothing.
    let session = Evil::dial(cluster, EntityKind::MON, live.clone());
    assert!(session.is_some() || caps.is_empty(), "{name} logs in");
    live
}
