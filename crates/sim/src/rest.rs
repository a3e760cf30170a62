//! Has a healed cluster come to rest? Every OSD up, every group clean and on no other OSD than its members, every call answered.

use crate::client::ClientProcess;
use crate::monitor::Monitor;
use crate::osd::OsdProcess;
use osd_core::pg::members::peering::State;

/// How a healed cluster ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// At rest, with every OSD.
    Whole,
    /// The OSD that rots does not start any more; the others serve.
    WithoutOne,
    /// Objects are not found whose newest write was never answered.
    Unfound,
    /// More devices rotted than is promised to be survived.
    Beyond,
}

/// What is not at rest yet; `None`: all is.
pub fn restless(monitor: Option<&Monitor>, osds: &[Option<OsdProcess>], clients: &[Option<ClientProcess>]) -> Option<String> {
    let Some(monitor) = monitor else { return Some("the monitor is down".into()) };
    let map = &monitor.core().osd.map;
    for (id, osd) in osds.iter().enumerate() {
        let Some(osd) = osd else { return Some(format!("osd.{id} is down")) };
        if !map.is_up(id as i32) || !osd.core().is_up() {
            let own = osd.core().map().epoch;
            let groups: Vec<String> = osd.core().pgs().map(|pg| format!("{} {:?}", pg.pgid, pg.peering().state())).collect();
            return Some(format!("osd.{id} (at epoch {own}) is not up in epoch {}: {}", map.epoch, groups.join(", ")));
        }
        if osd.core().map().epoch != map.epoch {
            return Some(format!("osd.{id} has epoch {} of {}", osd.core().map().epoch, map.epoch));
        }
        for pg in osd.core().pgs() {
            let rests = if pg.peering().is_primary() { pg.peering().is_clean() } else { pg.peering().state() == State::ReplicaActive };
            if !rests {
                let (m, p) = (&pg.peering().mapping, pg.peering());
                let (state, is_recovered) = (p.state(), p.is_recovered());
                let unfound: Vec<String> = pg.unfound().map(|(obj, lacked)| format!("{obj}: {lacked:?}")).collect();
                return Some(format!(
                    "osd.{id} has {} {state:?}, recovered: {is_recovered}, up {:?}, acting {:?}, is {}, works at {:?}, unfound: {unfound:?}",
                    pg.pgid,
                    m.up,
                    m.acting,
                    types::pg_stat::pg_state::to_text(pg.state_bits()),
                    pg.work()
                ));
            }
        }
    }
    if let Some((pool, snaps)) = map.removed_snaps_queue.iter().find(|(_, snaps)| !snaps.is_empty()) {
        return Some(format!("snapshots {snaps} of pool {pool} are not purged"));
    }
    for (id, osd) in osds.iter().enumerate() {
        let mut waiting = osd.iter().flat_map(|osd| osd.core().pgs()).flat_map(|pg| pg.unanswered().map(move |op| (pg.pgid, *op.0, op.3)));
        if let Some((pgid, reqid, why)) = waiting.next() {
            return Some(format!("osd.{id} has not answered {reqid} of {pgid}, which is {why}"));
        }
    }
    let here: usize = osds.iter().flatten().map(|o| o.core().pgs().count()).sum();
    let wanted: usize = map.pools.values().map(|p| (p.pg_num * u32::from(p.size)) as usize).sum();
    if here != wanted {
        return Some(format!("{here} groups are there of {wanted}"));
    }
    clients.iter().flatten().find(|c| c.in_flight() > 0).map(|c| {
        format!(
            "{:?}, at epoch {} of {}, flags {:#x}, has no answer to {}",
            c.life.0,
            c.epoch(),
            map.epoch,
            map.flags,
            c.open_calls().join(", ")
        )
    })
}
