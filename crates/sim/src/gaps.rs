//! A client, or an OSD, that hears of no map until the monitor has trimmed the one that it would need next: what it lacks then comes no more, and it must go
//! on with a whole map, without knowing what was between.
//!
//! ```text
//!   cut off ┆ monitor, by chance the OSDs      epochs are made meanwhile; groups of its requests go to other members and come back
//! ```
//! By chance members hear nothing of each other when a client is cut off, so that what it asked last waits at primaries, which drop it when
//! their groups go.
//! What it asked meanwhile ends, and right: the histories and the rest of the cluster show that.

use crate::client::POOL;
use crate::cluster::Cluster;
use crate::net::{Proc, What};
use crate::plan::Plan;
use crate::{MS, SEC};
use base::Rng;
use types::PgId;

/// Gaps of a run.
const GAPS: u32 = 3;
/// How often it is looked at, and how long a cut lasts, at least and at most: one that was prolonged would let through what was held before.
const LOOK_NS: u64 = 500 * MS;
const LASTS_NS: [u64; 2] = [30 * SEC, 80 * SEC];
/// How long members hear nothing of each other, and how long the client asks on at primaries which wait for them.
const STALLED_NS: u64 = 8 * SEC;
const ASKS_NS: u64 = 1500 * MS;
/// How much longer an OSD hears no other.
const APART_NS: u64 = 15 * SEC;
/// Epochs of each look at least: OSDs keep some ten, and say that they need them.
const EPOCHS: u32 = 3;
/// For so many looks groups go to and fro; behind that they are to become clean, so that maps are trimmed.
const RESTLESS: u32 = 12;

#[derive(Debug)]
struct Gap {
    proc: Proc,
    life: u32,
    /// OSDs are cut off from it, too.
    is_whole: bool,
    /// What it needs next is trimmed.
    is_counted: bool,
    /// A group whose members change and come back.
    group: Option<PgId>,
    looks: u32,
    /// It is cut off from then on.
    from_ns: u64,
    is_held: bool,
    until_ns: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Gaps {
    rng: Rng,
    gap: Option<Gap>,
    begun: u32,
    /// How often a client, and an OSD, was left with a map that the monitor could not lead on from.
    pub clients: u32,
    pub osds: u32,
}

impl Gaps {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed ^ 0x06a9_5cc1), gap: None, begun: 0, clients: 0, osds: 0 }
    }
    /// True if all that the plan has are over.
    pub fn are_over(&self, plan: &Plan) -> bool {
        plan.gap == 0 || self.begun == GAPS && self.gap.is_none()
    }
}

/// See the module.
pub(crate) fn begin(cluster: &mut Cluster, id: usize) {
    if cluster.gaps.gap.is_some() || cluster.gaps.begun == GAPS {
        return;
    }
    let rng = &mut cluster.gaps.rng;
    // Another client is to speak with the monitor meanwhile.
    let is_client = cluster.plan.clients > 1 && (cluster.osds.len() as u32 <= cluster.plan.size || rng.chance(2, 3));
    let (proc, is_whole) = match is_client {
        true => (Proc::Client(rng.below(cluster.plan.clients.into()) as u32), rng.chance(3, 4)),
        false => (Proc::Osd(id as i32), true),
    };
    let Some(life) = life_of(cluster, proc) else { return };
    cluster.gaps.begun += 1;
    cluster.net.note(format!("{proc:?} hears of no map"));
    let until_ns = cluster.net.now_ns + LASTS_NS[0] + cluster.gaps.rng.below(LASTS_NS[1] - LASTS_NS[0]);
    let from_ns = cluster.net.now_ns + if is_client { stall(cluster) } else { 0 };
    let gap = Gap { proc, life, is_whole, is_counted: false, group: None, looks: 0, from_ns, is_held: false, until_ns };
    cluster.gaps.gap = Some(gap);
    look(cluster);
}
/// By chance writes wait for their members for a while: how long the client goes on asking.
fn stall(cluster: &mut Cluster) -> u64 {
    if cluster.plan.size < 2 || !cluster.gaps.rng.chance(5, 6) {
        return 0;
    }
    cluster.net.note("members hear nothing of each other".into());
    let (until, count) = (cluster.net.now_ns + STALLED_NS, cluster.osds.len() as i32);
    for (one, other) in (0..count).flat_map(|one| (0..count).map(move |other| (one, other))).filter(|(one, other)| one != other) {
        cluster.net.partition(Proc::Osd(one), Proc::Osd(other), until);
    }
    ASKS_NS
}
fn life_of(cluster: &Cluster, proc: Proc) -> Option<u32> {
    match proc {
        Proc::Client(n) => cluster.clients[n as usize].as_ref().map(|client| client.life.1),
        Proc::Osd(id) => cluster.osds[id as usize].as_ref().map(|osd| osd.life.1),
        Proc::Mon | Proc::Guest(_) => None,
    }
}
pub(crate) fn look(cluster: &mut Cluster) {
    let Some(mut gap) = cluster.gaps.gap.take() else { return };
    if !cluster.troubled || life_of(cluster, gap.proc) != Some(gap.life) || cluster.net.now_ns > gap.until_ns {
        return take_back(cluster, &gap);
    }
    if cluster.net.now_ns < gap.from_ns {
        cluster.gaps.gap = Some(gap);
        return cluster.net.after(LOOK_NS, What::Gap);
    }
    if !std::mem::replace(&mut gap.is_held, true) {
        hold(cluster, &gap);
    }
    let epoch = match gap.proc {
        Proc::Client(n) => cluster.clients[n as usize].as_ref().map_or(0, |client| client.epoch()),
        Proc::Osd(id) => cluster.osds[id as usize].as_ref().map_or(0, |osd| osd.core().map().epoch),
        Proc::Mon | Proc::Guest(_) => 0,
    };
    let oldest = cluster.monitor.as_ref().map_or(0, |monitor| monitor.core().osd.first_epoch());
    if epoch + 1 < oldest && !gap.is_counted {
        gap.is_counted = true;
        cluster.net.note(format!("{:?} has the map of epoch {epoch}, the monitor those from {oldest} on", gap.proc));
        *(if matches!(gap.proc, Proc::Osd(_)) { &mut cluster.gaps.osds } else { &mut cluster.gaps.clients }) += 1;
    }
    makes_epoch(cluster, &mut gap);
    gap.looks += 1;
    cluster.gaps.gap = Some(gap);
    cluster.net.after(LOOK_NS, What::Gap);
}
fn hold(cluster: &mut Cluster, gap: &Gap) {
    let until = gap.until_ns;
    // An OSD hears the monitor before the others, which keep more maps and would lead it on.
    let later = if matches!(gap.proc, Proc::Osd(_)) { APART_NS } else { 0 };
    let osds = (0..cluster.osds.len() as i32).map(Proc::Osd).filter(|osd| gap.is_whole && *osd != gap.proc);
    for other in osds.chain([Proc::Mon]).collect::<Vec<_>>() {
        let until = if other == Proc::Mon { until } else { until + later };
        cluster.net.partition(gap.proc, other, until);
        cluster.net.partition(other, gap.proc, until);
    }
    // A link that is only held brings all in the end, map by map: mostly the session with the monitor is over, too.
    if cluster.gaps.rng.chance(3, 4) {
        cluster.net.links_between(gap.proc, Proc::Mon).into_iter().for_each(|link| cluster.net.cut(link));
    }
}
/// Something changes, be it nothing to anybody; and for a while a group goes elsewhere and comes back, whose primary drops what it was asked.
fn makes_epoch(cluster: &mut Cluster, gap: &mut Gap) {
    for _ in 0..EPOCHS {
        let host = cluster.gaps.rng.below(200);
        let words = format!(r#"{{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.8.{host}:0/1","expire":1.0}}"#);
        say_beside(cluster, gap.proc, words);
    }
    let Proc::Client(n) = gap.proc else {
        // No other OSD may hear that it is silent.
        if let (Proc::Osd(id), 8) = (gap.proc, gap.looks) {
            say_beside(cluster, gap.proc, format!(r#"{{"prefix":"osd down","ids":["{id}"]}}"#));
        }
        return;
    };
    if gap.looks % 4 != 1 {
        return;
    }
    if let Some(pgid) = gap.group.take() {
        return say_beside(cluster, gap.proc, format!(r#"{{"prefix":"osd rm-pg-upmap-items","pgid":"{pgid}"}}"#));
    }
    let open = cluster.clients[n as usize].as_ref().and_then(|client| client.unanswered().next());
    let Some(object) = open.map(|call| cluster.history.calls[call].object).filter(|_| gap.looks < RESTLESS) else { return };
    let Some(map) = cluster.monitor.as_ref().map(|monitor| &monitor.core().osd.map) else { return };
    let Some((id, pool)) = map.pool_by_name(POOL).and_then(|id| Some((id, map.pools.get(&id)?))) else { return };
    let pgid = PgId::new(id, pool.fold(pool.hash_key(format!("o{object}").as_bytes(), &[])));
    let at = map.pg_to_up_acting(pgid, &mut maps::Placement::default());
    let other = (0..cluster.osds.len() as i32).find(|osd| !at.up.contains(osd) && map.is_up(*osd));
    if let (Some(from), Some(to)) = (at.up.first(), other) {
        gap.group = Some(pgid);
        let words = format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"{pgid}","id":["{from}","{to}"]}}"#);
        say_beside(cluster, gap.proc, words);
    }
}
fn take_back(cluster: &mut Cluster, gap: &Gap) {
    if let Some(pgid) = gap.group {
        say_beside(cluster, gap.proc, format!(r#"{{"prefix":"osd rm-pg-upmap-items","pgid":"{pgid}"}}"#));
    }
}
/// A command by a client that is not this process.
fn say_beside(cluster: &mut Cluster, proc: Proc, json: String) {
    if let Some(client) = cluster.clients.iter_mut().flatten().find(|client| client.life.0 != proc) {
        client.command(json, &mut cluster.history, &mut cluster.net);
    }
}
