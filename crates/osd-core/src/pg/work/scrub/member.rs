//! What members of a scrub tell each other: slots, and maps of a range of objects.
//!
//! A map is made of what our store has after every write that came before the question, as messages of one primary come in its order.

use super::agenda::Asked;
use super::scan::Scan;
use super::scan_limits;
use super::slots::ScrubSlots;
use crate::event::Level;
use crate::pg::group::Group;
use crate::pg::requests::Requests;
use crate::pg::work::Jobs;
use crate::shared::Cx;
use crate::work::Work;
use denc::Denc;
use messages::{MOSDRepScrub, MOSDRepScrubMap, MOSDScrubReserve, scrub_reserve};
use store::StoreError;
use types::{PgShard, ScrubMap};

impl Jobs {
    /// Slots: a primary asks us, or a member answers us.
    pub(crate) fn reserve_came(&mut self, m: &MOSDScrubReserve, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if m.map_epoch < group.members.peering.last_peering_reset {
            return;
        }
        match m.kind {
            scrub_reserve::REQUEST if group.members.peering.is_of_primary(m.from, m.map_epoch) => {
                let max = cx.sh.config.int("osd_max_scrubs").max(1) as usize;
                let may = cx.sh.config.get("osd_scrub_during_recovery") == Some("true") || !cx.sh.bounds.recovery_slots.is_used();
                if self.scrubs.lent_slot.is_none() && may {
                    self.scrubs.lent_slot = ScrubSlots::take(&cx.sh.bounds.scrub_slots, max);
                }
                let kind = if self.scrubs.lent_slot.is_some() { scrub_reserve::GRANT } else { scrub_reserve::REJECT };
                group.tell().scrub_slot(m.from, kind, m.nonce, cx);
            }
            scrub_reserve::RELEASE if group.members.peering.is_of_primary(m.from, m.map_epoch) => self.scrubs.lent_slot = None,
            scrub_reserve::GRANT | scrub_reserve::REJECT => {
                let Some(run) = &mut self.scrubs.run else { return };
                let mut out = Vec::new();
                if m.kind == scrub_reserve::GRANT {
                    run.granted(m.from, &mut out);
                } else if let order = run.order()
                    && run.refused(m.from, &mut out)
                {
                    self.scrubs.own_slot = None;
                    self.scrubs.wanted = self.scrubs.wanted.or(order.filter(|order| order.is_requested));
                    self.scrubs.put_off(cx);
                }
                if self.scrubs.run.as_ref().is_some_and(|run| run.is_over()) {
                    self.scrubs.run = None;
                }
                self.scrub_out(out, requests, group, cx);
                cx.sh.turns.want(self.work(requests, group));
            }
            _ => {}
        }
    }

    /// Our primary asks for our map of a range.
    pub(crate) fn scrub_asked(&mut self, from: PgShard, m: &MOSDRepScrub, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if group.members.peering.is_of_primary(from, m.map_epoch)
            && group.members.peering.state() == crate::pg::members::peering::State::ReplicaActive
        {
            let scan = Scan::new(group.coll, m.start.detach(), m.end.detach(), m.deep);
            self.scrubs.asked = Some(Box::new(Asked { to: from, min_epoch: m.min_epoch, scan, work: Work::Busy }));
            self.asked_turn(requests, group, cx);
        }
    }
    pub(crate) fn asked_turn(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        let Some(mut asked) = self.scrubs.asked.take_if(|asked| asked.work.is_busy()) else { return };
        let limits = scan_limits(cx);
        match asked.scan.turn(&mut *cx.sh.store, group.coll, &limits) {
            Ok(Some(map)) => {
                return group.tell().scrub_map(asked.to, &map, asked.min_epoch, cx);
            }
            Ok(None) => {}
            Err(error @ (StoreError::Wait(_) | StoreError::Full)) => asked.work = Work::stopped(&error),
            // The primary waits for it until the interval ends.
            Err(error) => return cx.log(Level::Error, format!("{}: a map for a scrub: {error}", group.pgid)),
        }
        self.scrubs.asked = Some(asked);
        cx.sh.turns.want(self.work(requests, group));
    }

    /// A member's map.
    pub(crate) fn scrub_map_came(&mut self, m: &MOSDRepScrubMap, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if m.map_epoch < group.members.peering.last_peering_reset {
            return;
        }
        let map = match ScrubMap::from_bytes(&m.data) {
            Ok(map) => map,
            Err(error) => return cx.log(Level::Error, format!("{}: the map of osd.{}: {error}", group.pgid, m.from)),
        };
        if let Some(run) = &mut self.scrubs.run {
            run.map_came(m.from, map, m.preempted);
        }
        cx.sh.turns.want(self.work(requests, group));
    }
}
