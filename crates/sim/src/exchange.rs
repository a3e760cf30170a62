//! All members of a group are exchanged at once (`osd pg-upmap`), and the old ones die together at the first acknowledgement behind that: of one of theirs,
//! while the new ones have next to nothing, or of a new one's, when the old ones may still be letting go of what they had.

use crate::client::POOL;
use crate::cluster::Cluster;
use crate::plan::StoreKind;
use crate::{MS, SEC};
use base::Rng;
use messages::{MOSDOpReply, Message, RawMessage};
use types::{EVersion, Epoch, OsdId, PgId};

/// How long an acknowledgement is waited for.
const WAITS_NS: u64 = 60 * SEC;

#[derive(Debug)]
struct Exchange {
    pgid: PgId,
    old: Vec<OsdId>,
    new: Vec<OsdId>,
    /// The monitor's before.
    epoch: Epoch,
    /// Waits for an acknowledgement of one of the new members.
    waits_for_new: bool,
    until_ns: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Exchanges {
    rng: Rng,
    under_way: Option<Exchange>,
    /// How often all old members died, by whose acknowledgement: an old one's, a new one's.
    pub done: [u32; 2],
}

impl Exchanges {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed ^ 0x0e8c_4a16), under_way: None, done: [0; 2] }
    }
}

/// See the module.
pub(crate) fn begin(cluster: &mut Cluster) {
    if cluster.exchanges.under_way.as_ref().is_some_and(|exchange| exchange.until_ns > cluster.net.now_ns) {
        return;
    }
    let Some(pgid) = cluster.any_group() else { return };
    let Some(monitor) = &cluster.monitor else { return };
    let (map, epoch) = (&monitor.core().osd.map, monitor.core().osd.epoch());
    let old = map.pg_to_up_acting(pgid, &mut maps::Placement::default()).acting;
    let mut others: Vec<OsdId> = (0..cluster.osds.len() as OsdId).filter(|osd| map.is_up(*osd) && !old.contains(osd)).collect();
    let size = map.pools.get(&pgid.pool).map_or(0, |pool| pool.size as usize);
    if others.len() < size || old.is_empty() {
        return;
    }
    let rng = &mut cluster.exchanges.rng;
    let new: Vec<OsdId> = (0..size).map(|_| others.swap_remove(rng.below(others.len() as u64) as usize)).collect();
    let (waits_for_new, until_ns) = (rng.chance(1, 2), cluster.net.now_ns + WAITS_NS);
    cluster.net.note(format!("{pgid} goes from {old:?} to {new:?}"));
    let ids: Vec<String> = new.iter().map(|osd| format!("\"{osd}\"")).collect();
    cluster.say(format!(r#"{{"prefix":"osd pg-upmap","pgid":"{pgid}","id":[{}]}}"#, ids.join(",")));
    cluster.exchanges.under_way = Some(Exchange { pgid, old, new, epoch, waits_for_new, until_ns });
}
/// A client has heard something of an OSD.
pub(crate) fn heard_of(cluster: &mut Cluster, osd: OsdId, msg: &RawMessage) {
    let Some(exchange) = cluster.exchanges.under_way.as_ref().filter(|_| cluster.troubled && msg.kind == MOSDOpReply::KIND) else { return };
    let from = if exchange.waits_for_new { &exchange.new } else { &exchange.old };
    let Some(reply) = from.contains(&osd).then(|| MOSDOpReply::decode(msg).ok()).flatten() else { return };
    let is_write = reply.result >= 0 && reply.replay_version != EVersion::ZERO;
    let map =
        cluster.monitor.as_ref().map(|monitor| &monitor.core().osd.map).filter(|map| map.pool_by_name(POOL) == Some(exchange.pgid.pool));
    let pool = map.and_then(|map| map.pools.get(&exchange.pgid.pool));
    let is_of_group = pool.is_some_and(|pool| pool.fold(pool.hash_key(reply.oid.as_slice(), &[])) == exchange.pgid.seed);
    if !is_write || !is_of_group || reply.replay_version.epoch <= exchange.epoch {
        return;
    }
    let Exchange { pgid, old, waits_for_new, .. } = cluster.exchanges.under_way.take().expect("looked at above");
    cluster.net.note(format!("fault at an acknowledgement of osd.{osd}: {old:?} die, which had {pgid}"));
    (cluster.faults, cluster.exchanges.done[usize::from(waits_for_new)]) =
        (cluster.faults + 1, cluster.exchanges.done[usize::from(waits_for_new)] + 1);
    let power_cut = cluster.plan.store == StoreKind::Block && cluster.exchanges.rng.below(100) < cluster.plan.power_cuts;
    for osd in old {
        if waits_for_new {
            let away_ns = cluster.exchanges.rng.below(20_000 * MS);
            cluster.away.insert(osd as usize, cluster.net.now_ns + away_ns);
        }
        cluster.kill_osd(osd as usize, power_cut);
    }
}
