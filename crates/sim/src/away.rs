//! OSDs that are away for minutes, so that the others become clean without them and go on.
//!
//! Where clients have lulls ([`crate::plan::Plan::lulls`]), the OSD dies while they work, and is put out when they have fallen silent. The OSD
//! lacks the last writes of some groups, in an epoch that it knows. Nothing is written while the others become clean, and merge or split.
//! An operator puts the OSD in before its start, so that it comes to its groups with all that it had.

use crate::SEC;
use crate::cluster::Cluster;
use crate::net::What;

/// So long clients go on at most after an OSD has died.
const LAST_WRITES_NS: u64 = 3 * SEC;
/// So long it takes at most until an operator puts the OSD out.
const OUT_NS: u64 = 5 * SEC;
/// So long before its start the OSD is put in, at most.
const IN_NS: u64 = 10 * SEC;

/// Steps of an OSD that is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Clients begin nothing for a while.
    Lull,
    Out,
    In,
}

/// An OSD is put out and dies, and the others become clean without it. One that was away before comes in again.
pub(crate) fn begin(cluster: &mut Cluster, id: usize) {
    if cluster.away.values().any(|until| *until > cluster.net.now_ns) {
        return;
    }
    let before: Vec<usize> = cluster.away.keys().copied().filter(|other| *other != id).collect();
    before.iter().for_each(|other| cluster.say(format!(r#"{{"prefix":"osd in","ids":["{other}"]}}"#)));
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
    }
}
