//! OSDs that are away for minutes, so that the others become clean without them and go on.
//!
//! Where clients have lulls ([`crate::plan::Plan::lulls`]), the OSD dies while they work, and is put out when they have fallen silent. The OSD
//! lacks the last writes of some groups, in an epoch that it knows. Nothing is written while the others become clean, and merge or split.
//! An operator puts the OSD in before its start, so that it comes to its groups with all that it had.
//!
//! Where groups are halved ([`crate::plan::Plan::halves`]), the OSD hangs before it dies, and clients fall silent meanwhile.
//! It lacks the last writes of some groups, which began while it counted as up, and has all of the others. Clients go on
//! when it is back. The next one dies when there are as many groups as before.

use crate::SEC;
use crate::client::POOL;
use crate::cluster::Cluster;
use crate::net::{Proc, What};

/// So long clients go on at most after an OSD has died.
const LAST_WRITES_NS: u64 = 3 * SEC;
/// So long it takes at most until an operator puts the OSD out.
const OUT_NS: u64 = 5 * SEC;
/// So long before its start the OSD is put in, at most.
const IN_NS: u64 = 10 * SEC;
/// Where groups are halved clients go on so long at most while the OSD hangs, it hangs so much longer at most, and they
/// are silent so long at most behind its return.
const HUSH_NS: u64 = SEC;
const HANGS_NS: u64 = SEC;
const HUSHED_NS: u64 = 20 * SEC;
/// So long an operator waits at most for the groups to be halved.
const HALVED_NS: u64 = 180 * SEC;

/// Steps of an OSD that is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Clients begin nothing for a while.
    Lull,
    Out,
    In,
    /// Clients begin nothing until the OSD is back.
    Hush,
    Die,
    Down,
    /// An operator wants half as many groups, and looks whether it is done.
    Halve,
    Look,
}

/// An OSD is put out and dies, and the others become clean without it. One that was away before comes in again.
pub(crate) fn begin(cluster: &mut Cluster, id: usize) {
    if cluster.away.values().any(|until| *until > cluster.net.now_ns) {
        return;
    }
    if cluster.plan.halves && cluster.net.now_ns < cluster.silent_ns {
        return;
    }
    if cluster.plan.halves && pg_num(cluster) != Some(cluster.plan.pg_num) {
        return wish_pg_num(cluster, cluster.plan.pg_num);
    }
    let before: Vec<usize> = cluster.away.keys().copied().filter(|other| *other != id).collect();
    before.iter().for_each(|other| cluster.say(format!(r#"{{"prefix":"osd in","ids":["{other}"]}}"#)));
    if cluster.plan.halves {
        return halve(cluster, id);
    }
    let until_ns = cluster.net.now_ns + (60 + cluster.net.rng.below(120)) * SEC;
    cluster.away.insert(id, until_ns);
    if cluster.plan.lulls {
        cluster.kill_osd(id, false);
        let lull_ns = cluster.net.rng.below(LAST_WRITES_NS);
        cluster.net.after(lull_ns, What::Away(id, Step::Lull));
        let in_ns = until_ns - cluster.net.rng.below(IN_NS);
        return cluster.net.at(in_ns, What::Away(id, Step::In));
    }
    step(cluster, id, Step::Out);
    cluster.kill_osd(id, false);
}

pub(crate) fn step(cluster: &mut Cluster, id: usize, step: Step) {
    // At the end all are in.
    if !cluster.troubled {
        return;
    }
    match step {
        Step::Lull => {
            cluster.silent_ns = cluster.net.now_ns + (20 + cluster.net.rng.below(40)) * SEC;
            cluster.net.note("clients begin nothing for a while".into());
            let out_ns = cluster.net.rng.below(OUT_NS);
            cluster.net.after(out_ns, What::Away(id, Step::Out));
        }
        Step::Out => cluster.say(format!(r#"{{"prefix":"osd out","ids":["{id}"]}}"#)),
        Step::In => cluster.say(format!(r#"{{"prefix":"osd in","ids":["{id}"]}}"#)),
        Step::Down => cluster.say(format!(r#"{{"prefix":"osd down","ids":["{id}"]}}"#)),
        Step::Die => cluster.kill_osd(id, false),
        Step::Hush => {
            cluster.silent_ns = cluster.away.get(&id).copied().unwrap_or_default();
            cluster.net.note("clients begin nothing until all are back".into());
        }
        Step::Halve => {
            wish_pg_num(cluster, cluster.plan.pg_num / 2);
            cluster.net.after(SEC, What::Away(id, Step::Look));
        }
        Step::Look => look(cluster, id),
    }
}

/// How many groups the clients' pool has.
fn pg_num(cluster: &Cluster) -> Option<u32> {
    let map = &cluster.monitor.as_ref()?.core().osd.map;
    map.pools.get(&map.pool_by_name(POOL)?).map(|pool| pool.pg_num)
}
fn wish_pg_num(cluster: &mut Cluster, n: u32) {
    cluster.say(format!(r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"pg_num","val":"{n}"}}"#));
}
/// An OSD hangs and dies, and the pool's groups are halved while it is away.
fn halve(cluster: &mut Cluster, id: usize) {
    cluster.away.insert(id, cluster.net.now_ns + HALVED_NS + IN_NS);
    let hush_ns = cluster.net.rng.below(HUSH_NS);
    let dies_ns = hush_ns + cluster.net.rng.below(HANGS_NS);
    cluster.pause_osd(id as i32, HUSH_NS + HANGS_NS);
    cluster.net.after(hush_ns, What::Away(id, Step::Hush));
    cluster.net.after(dies_ns, What::Away(id, Step::Die));
    for (step, within_ns) in [(Step::Down, OUT_NS), (Step::Out, OUT_NS), (Step::Halve, 2 * OUT_NS)] {
        let delay_ns = dies_ns + cluster.net.rng.below(within_ns);
        cluster.net.after(delay_ns, What::Away(id, step));
    }
}
/// When the groups are halved, or that takes too long, the OSD comes back.
fn look(cluster: &mut Cluster, id: usize) {
    let Some(until_ns) = cluster.away.get(&id).copied() else { return };
    let is_done = pg_num(cluster).is_some_and(|now| now <= cluster.plan.pg_num / 2);
    if !is_done && cluster.net.now_ns + IN_NS < until_ns {
        return cluster.net.after(SEC, What::Away(id, Step::Look));
    }
    step(cluster, id, Step::In);
    let start_ns = cluster.net.now_ns + cluster.net.rng.below(IN_NS);
    cluster.away.insert(id, start_ns);
    cluster.net.at(start_ns, What::Start(Proc::Osd(id as i32)));
    cluster.silent_ns = start_ns + cluster.net.rng.below(HUSHED_NS);
    cluster.net.note(format!("osd.{id} comes back to {:?} groups", pg_num(cluster)));
}
