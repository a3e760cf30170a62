//! What members of a scrub tell each other: slots, and maps of a range of objects.
//!
//! A map is made of what our store has after every write that came before the question, as messages of one primary come in its order.

use super::agenda::{Agenda, Asked};
use super::chunks::Out;
use super::scan::Scan;
use super::slots::ScrubSlots;
use super::{Scrubbing, scan_limits};
use crate::event::Level;
use crate::pg::group::Group;
use crate::pg::members::peering::State;
use crate::shared::Cx;
use crate::work::Work;
use denc::Denc;
use messages::{MOSDRepScrub, MOSDRepScrubMap, MOSDScrubReserve, scrub_reserve};
use store::StoreError;
use types::{PgShard, ScrubMap};

impl Agenda {
    /// Our primary wants a slot here, or has done with it.
    fn lend_slot(&mut self, m: &MOSDScrubReserve, group: &Group, cx: &mut Cx<'_>) {
        if m.kind == scrub_reserve::RELEASE {
            self.lent_slot = None;
            return;
        }
        let max = cx.sh.config.int("osd_max_scrubs").max(1) as usize;
        let may = cx.sh.config.get("osd_scrub_during_recovery") == Some("true") || !cx.sh.bounds.recovery_slots.is_used();
        if self.lent_slot.is_none() && may {
            self.lent_slot = ScrubSlots::take(&cx.sh.bounds.scrub_slots, max);
        }
        let kind = if self.lent_slot.is_some() { scrub_reserve::GRANT } else { scrub_reserve::REJECT };
        group.tell().scrub_slot(m.from, kind, m.nonce, cx);
    }
    /// A member says whether it has a slot for our scrub. Nothing if there is none any more.
    fn slot_answered(&mut self, m: &MOSDScrubReserve, cx: &mut Cx<'_>) -> Option<Vec<Out>> {
        let run = self.run.as_mut()?;
        let mut out = Vec::new();
        if m.kind == scrub_reserve::GRANT {
            run.granted(m.from, &mut out);
        } else if let order = run.order()
            && run.refused(m.from, &mut out)
        {
            self.own_slot = None;
            self.wanted = self.wanted.or(order.filter(|order| order.is_requested));
            self.put_off(cx);
        }
        self.run.take_if(|run| run.is_over());
        Some(out)
    }
    /// The map that our primary asked for is made, as far as the store gives what it takes. True if that goes on.
    fn make_map(&mut self, group: &Group, cx: &mut Cx<'_>) -> bool {
        let Some(mut asked) = self.asked.take_if(|asked| asked.work.is_busy()) else { return false };
        let limits = scan_limits(cx);
        match asked.scan.turn(&mut *cx.sh.store, group.coll, &limits) {
            Ok(Some(map)) => {
                group.tell().scrub_map(asked.to, &map, asked.min_epoch, cx);
                return false;
            }
            Ok(None) => {}
            Err(error @ (StoreError::Wait(_) | StoreError::Full)) => asked.work = Work::stopped(&error),
            // The primary waits for it until the interval ends.
            Err(error) => {
                cx.log(Level::Error, format!("{}: a map for a scrub: {error}", group.pgid));
                return false;
            }
        }
        self.asked = Some(asked);
        true
    }
}

impl Scrubbing<'_, '_> {
    /// Slots: a primary asks us, or a member answers us.
    pub(in crate::pg) fn slot_came(&mut self, m: &MOSDScrubReserve) {
        let peering = &self.group.members.peering;
        if m.map_epoch < peering.last_peering_reset {
            return;
        }
        match m.kind {
            scrub_reserve::REQUEST | scrub_reserve::RELEASE if peering.is_of_primary(m.from, m.map_epoch) => {
                self.work.scrubs.lend_slot(m, self.group, self.cx);
            }
            scrub_reserve::GRANT | scrub_reserve::REJECT => {
                let Some(out) = self.work.scrubs.slot_answered(m, self.cx) else { return };
                self.carry_out(out);
                self.want_turn();
            }
            _ => {}
        }
    }
    /// Our primary asks for our map of a range.
    pub(in crate::pg) fn map_wanted(&mut self, from: PgShard, m: &MOSDRepScrub) {
        let peering = &self.group.members.peering;
        if peering.is_of_primary(from, m.map_epoch) && peering.state() == State::ReplicaActive {
            let scan = Scan::new(self.group.coll, m.start.detach(), m.end.detach(), m.deep);
            self.work.scrubs.asked = Some(Box::new(Asked { to: from, min_epoch: m.min_epoch, scan, work: Work::Busy }));
            self.make_map();
        }
    }
    /// One turn of that.
    pub(in crate::pg) fn make_map(&mut self) {
        if self.work.scrubs.make_map(self.group, self.cx) {
            self.want_turn();
        }
    }
    /// A member's map.
    pub(in crate::pg) fn map_came(&mut self, m: &MOSDRepScrubMap) {
        if m.map_epoch < self.group.members.peering.last_peering_reset {
            return;
        }
        let map = match ScrubMap::from_bytes(&m.data) {
            Ok(map) => map,
            Err(error) => return self.cx.log(Level::Error, format!("{}: the map of osd.{}: {error}", self.group.pgid, m.from)),
        };
        if let Some(run) = &mut self.work.scrubs.run {
            run.map_came(m.from, map, m.preempted);
        }
        self.want_turn();
    }
}
