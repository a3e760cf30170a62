//! A group's places on its OSD and on others: when it wants them, what it says to other members of them, and what it is allowed by them.
//!
//! The states are [`super::want`]'s, the places of an OSD [`crate::reserver`]'s. As another member, the group lends a place to its primary.

use super::lend::{Do as Lend, Lender};
use super::want::{Do, Kind, State, Urgency, priority};
use crate::pg::group::Group;
use crate::pg::members::peering::{Peering, State as Peered};
use crate::pg::members::said::Word;
use crate::pg::requests::Requests;
use crate::pg::work::Jobs;
use crate::pg::work::recovery::objects::Gates;
use crate::planted::{Bug, planted};
use crate::reserver::News;
use crate::shared::{Cx, Shared};
use base::Stamp;
use maps::{OptKey, map_flags, osd_state};
use messages::force_recovery::{BACKFILL, CANCEL, RECOVERY};
use messages::osd_peering::{backfill_reserve, recovery_reserve};
use std::time::Duration;
use types::{Epoch, PgShard, pg_state};

/// True if a member that writes go to is full, or we are.
fn has_full_member(peering: &Peering, cx: &mut Cx<'_>) -> bool {
    if planted(Bug::ReserveIntoFull) {
        return false;
    }
    let map = &cx.sh.map;
    peering.members().iter().any(|member| map.state(member.osd) & osd_state::FULL != 0) || cx.sh.is_full(0)
}

impl Jobs {
    /// What the group needs places for.
    fn needed(&self, group: &Group) -> Option<Kind> {
        let peering = &group.members.peering;
        let serves = peering.is_active() || (peering.state() == Peered::Peered && !peering.is_premerge());
        let recovery = self.kept.recovery().filter(|_| serves && peering.is_primary())?;
        match () {
            // What was queued and is not lacking any more, since clients waited for it, needs no place.
            _ if recovery.has_log_work() && group.members.peering.is_lacking(&group.record) => Some(Kind::Recovery),
            // What no member has is not filled in.
            _ if recovery.unfound().len() > 0 || peering.targets().is_empty() => None,
            _ => Some(Kind::Backfill),
        }
    }
    fn urgency(&self, kind: Kind, group: &Group) -> Urgency {
        let counts = group.members.peering.copies(&group.record);
        let forced = if kind == Kind::Recovery { pg_state::FORCED_RECOVERY } else { pg_state::FORCED_BACKFILL };
        let m = &group.members.peering.mapping;
        let serving = if kind == Kind::Recovery { counts.whole.len() } else { m.serving() };
        Urgency {
            is_forced: self.forced & forced != 0,
            is_degraded: counts.degraded > 0,
            serving: serving as u32,
            size: m.size,
            min_size: m.min_size,
            pool: group.pool.opts.int(OptKey::RECOVERY_PRIORITY).unwrap_or(0),
        }
    }

    /// Asks for the places that the group needs now, and gives those back that it needs no longer.
    pub(in crate::pg) fn reserve_on(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        let (needed, mut out) = (self.needed(group), Vec::new());
        if needed != self.reservation.kind() {
            cx.sh.wishes.report_soon = true;
            match needed {
                None => self.reservation.release(&mut out),
                Some(kind) => {
                    let priority = priority(kind, &self.urgency(kind, group));
                    let members = match kind {
                        Kind::Recovery => group.members.peering.others().collect(),
                        Kind::Backfill => group.members.peering.targets().iter().copied().collect(),
                    };
                    if kind == Kind::Recovery && has_full_member(&group.members.peering, cx) {
                        self.reservation.want_later(kind, priority, members, retry_at("osd_recovery_retry_interval", cx), &mut out);
                    } else {
                        self.reservation.want(kind, priority, members, &mut out);
                    }
                }
            }
        }
        do_reserve(out, group, cx);
        self.gate(requests, group, cx);
    }
    /// Recovery that was let begin stops where a member has got full: at the primary until none is, at another member until the primary has noticed.
    /// What clients wait for, and deletions, go on with the room that is left behind the ratio.
    pub(in crate::pg) fn stop_if_full(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if planted(Bug::RecoverIntoFull) {
            return;
        }
        if !group.members.peering.is_primary() {
            if cx.sh.is_full(0) && !planted(Bug::ReserveIntoFull) {
                self.lend(Lender::full, group, cx);
            }
            return;
        }
        let goes_on = self.reservation.kind() == Some(Kind::Recovery) && !matches!(self.reservation.state(), State::Refused(..));
        if goes_on && has_full_member(&group.members.peering, cx) {
            let mut out = Vec::new();
            self.reservation.refuse(Kind::Recovery, retry_at("osd_recovery_retry_interval", cx), &mut out);
            cx.sh.wishes.report_soon = true;
            do_reserve(out, group, cx);
            self.gate(requests, group, cx);
        }
    }
    /// What the places and the map's flags allow.
    pub(in crate::pg) fn gate(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        let (map, held) = (cx.sh.map.clone(), |kind| self.reservation.holds(kind));
        let goes = !map.has_flag(map_flags::NORECOVER);
        let moves = !map.has_flag(map_flags::NOBACKFILL)
            && (!map.has_flag(map_flags::NOREBALANCE) || group.members.peering.copies(&group.record).degraded > 0);
        let too_full = matches!(self.reservation.state(), State::Refused(Kind::Recovery, _));
        let recovery = goes && held(Kind::Recovery);
        let gates = Gates { recovery, deletions: recovery || goes && too_full, backfill: goes && moves && held(Kind::Backfill) };
        let begins = held(Kind::Backfill) && self.kept.recovery().is_some_and(|recovery| recovery.backfill().is_none());
        if let Some(recovery) = self.kept.recovery_mut() {
            recovery.set_gates(gates);
            cx.sh.turns.want(recovery.work());
        }
        if begins {
            self.recover(requests, group, cx, |recovery, host| recovery.begin_backfill(host));
        }
    }

    /// Another member says something of a place.
    pub(crate) fn place_word(
        &mut self,
        from: PgShard,
        sent: Epoch,
        word: Word,
        requests: &mut Requests,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) {
        if sent < group.members.peering.last_peering_reset {
            return;
        }
        let mut out = Vec::new();
        match word {
            Word::Grant if group.members.peering.is_primary() => self.reservation.granted(from, &mut out),
            Word::Revoke if group.members.peering.is_primary() => self.reservation.revoked(from, None, &mut out),
            Word::Refuse { .. } if group.members.peering.is_primary() => {
                self.reservation.refused(from, retry_at("osd_backfill_retry_interval", cx), &mut out);
            }
            Word::RevokeTooFull { .. } if group.members.peering.is_primary() => {
                self.reservation.revoked(from, Some(retry_at("osd_backfill_retry_interval", cx)), &mut out);
            }
            Word::Request { kind, priority, bytes } if group.members.peering.is_of_primary(from, sent) => {
                let is_refused = match kind {
                    Kind::Backfill => is_rejected_by_chance(cx.sh) || is_too_full(cx.sh, bytes),
                    Kind::Recovery => cx.sh.is_full(0) && !planted(Bug::ReserveIntoFull),
                };
                return self.lend(|lender, out| lender.asked(kind, priority, is_refused, out), group, cx);
            }
            Word::Release if group.members.peering.is_of_primary(from, sent) => return self.lend(Lender::release, group, cx),
            _ => return,
        }
        cx.sh.wishes.report_soon = true;
        do_reserve(out, group, cx);
        self.gate(requests, group, cx);
        if let Word::Refuse { lists: true } | Word::RevokeTooFull { lists: true } = word {
            self.begin_sweep(from, group, cx);
        }
    }
    pub(in crate::pg) fn lend(&mut self, does: impl FnOnce(&mut Lender, &mut Vec<Lend>), group: &Group, cx: &mut Cx<'_>) {
        let mut out = Vec::new();
        does(&mut self.lender, &mut out);
        do_lend(out, group, cx);
    }

    /// Our OSD has a place for the group, of which we are the primary (`is_local`) or another OSD is; or it takes it back.
    pub(in crate::pg) fn place_news(&mut self, is_local: bool, news: News, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if !is_local {
            return self.lend(|lender, out| lender.news(news, out), group, cx);
        }
        let mut out = Vec::new();
        match news {
            News::Granted => self.reservation.local_granted(&mut out),
            News::Preempted => self.reservation.preempted(&mut out),
        }
        cx.sh.wishes.report_soon = true;
        do_reserve(out, group, cx);
        self.gate(requests, group, cx);
    }

    /// Time passes.
    pub(in crate::pg) fn tick_places(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if group.members.peering.is_primary() || cx.sh.is_full(0) {
            self.stop_if_full(requests, group, cx);
        } else {
            self.lend(Lender::has_room, group, cx);
        }
        let mut out = Vec::new();
        match self.reservation.state() {
            State::Refused(Kind::Recovery, at) if at <= cx.clock.mono && has_full_member(&group.members.peering, cx) => {
                self.reservation.refuse(Kind::Recovery, retry_at("osd_recovery_retry_interval", cx), &mut out);
            }
            _ => self.reservation.pass(cx.clock.mono, &mut out),
        }
        do_reserve(out, group, cx);
        if !group.members.peering.targets().is_empty() {
            self.kept.run().is_free_again();
        }
        self.reserve_on(requests, group, cx);
    }
    /// The interval is over, or the group.
    pub(crate) fn end_places(&mut self, group: &Group, sh: &mut Shared) {
        self.reservation.end_interval(&mut Vec::new());
        self.sweep = None;
        sh.bounds.local_places.cancel(group.pgid);
        self.lender.release(&mut Vec::new());
        sh.bounds.remote_places.cancel(group.pgid);
    }

    /// An operator wants the group recovered or filled before others, or no longer.
    pub(crate) fn force(&mut self, options: u8, group: &Group, cx: &mut Cx<'_>) {
        let bits = self.state_bits(group);
        let wants = [
            (RECOVERY, pg_state::FORCED_RECOVERY, pg_state::DEGRADED | pg_state::RECOVERY_WAIT | pg_state::RECOVERING),
            (BACKFILL, pg_state::FORCED_BACKFILL, pg_state::DEGRADED | pg_state::BACKFILL_WAIT | pg_state::BACKFILLING),
        ];
        for (_, forced, needs) in wants.into_iter().filter(|(option, ..)| options & option != 0) {
            if options & CANCEL != 0 {
                self.forced &= !forced;
            } else if bits & needs != 0 {
                self.forced |= forced;
            }
        }
        let mut out = Vec::new();
        if let Some(kind) = self.reservation.kind() {
            self.reservation.revalue(priority(kind, &self.urgency(kind, group)), &mut out);
        }
        cx.sh.wishes.report_soon = true;
        do_reserve(out, group, cx);
    }

    /// State bits that the places say.
    pub(in crate::pg) fn reserve_bits(&self, group: &Group) -> u64 {
        let unfound = group.members.peering.lacking(&group.record, self.kept.unfound_len()).unfound > 0;
        let bits = match self.reservation.state() {
            State::None if unfound && self.kept.recovery().is_some_and(|recovery| recovery.backfill().is_some()) => {
                pg_state::BACKFILL_UNFOUND
            }
            State::None if unfound => pg_state::RECOVERY_UNFOUND,
            State::None => 0,
            State::Local(Kind::Recovery) | State::Remote(Kind::Recovery) => pg_state::RECOVERY_WAIT,
            State::Held(Kind::Recovery) => pg_state::RECOVERING,
            State::Refused(Kind::Recovery, _) => pg_state::RECOVERY_TOOFULL,
            State::Local(Kind::Backfill) | State::Remote(Kind::Backfill) => pg_state::BACKFILL_WAIT,
            State::Held(Kind::Backfill) => pg_state::BACKFILLING,
            State::Refused(Kind::Backfill, _) => pg_state::BACKFILL_TOOFULL,
        };
        bits | self.forced
    }
}

fn do_reserve(out: Vec<Do>, group: &Group, cx: &mut Cx<'_>) {
    for one in out {
        match one {
            Do::AskOurs(priority) => cx.sh.bounds.local_places.ask(group.pgid, priority),
            Do::GiveOursBack => cx.sh.bounds.local_places.cancel(group.pgid),
            Do::Ask(member, Kind::Recovery, priority) => group.tell().recovery_place(member, recovery_reserve::REQUEST, priority, cx),
            Do::Ask(member, Kind::Backfill, priority) => group.tell().backfill_place(member, backfill_reserve::REQUEST, priority, cx),
            Do::GiveBack(member, Kind::Recovery) => group.tell().recovery_place(member, recovery_reserve::RELEASE, 0, cx),
            Do::GiveBack(member, Kind::Backfill) => group.tell().backfill_place(member, backfill_reserve::RELEASE, 0, cx),
        }
    }
}

fn do_lend(out: Vec<Lend>, group: &Group, cx: &mut Cx<'_>) {
    let primary = group.members.peering.primary();
    for one in out {
        match one {
            Lend::AskOurs(priority) => cx.sh.bounds.remote_places.ask(group.pgid, priority),
            Lend::GiveOursBack => cx.sh.bounds.remote_places.cancel(group.pgid),
            Lend::Grant(Kind::Recovery) => group.tell().recovery_place(primary, recovery_reserve::GRANT, 0, cx),
            Lend::Grant(Kind::Backfill) => group.tell().backfill_place(primary, backfill_reserve::GRANT, 0, cx),
            Lend::Revoke(Kind::Recovery) => group.tell().recovery_place(primary, recovery_reserve::REVOKE, 0, cx),
            Lend::Revoke(Kind::Backfill) => group.tell().backfill_place(primary, backfill_reserve::REVOKE, 0, cx),
            Lend::Refuse => group.tell().backfill_place(primary, backfill_reserve::REJECT_TOOFULL, 0, cx),
            Lend::RevokeTooFull => group.tell().backfill_place(primary, backfill_reserve::REVOKE_TOOFULL, 0, cx),
        }
    }
}

/// True at times if an operator tests what comes of it.
fn is_rejected_by_chance(sh: &mut Shared) -> bool {
    let chance = sh.config.num("osd_debug_reject_backfill_probability");
    chance > 0.0 && sh.rng.below(1_000_000) < (chance * 1e6) as u64
}
fn retry_at(option: &str, cx: &Cx<'_>) -> Stamp {
    cx.clock.mono + Duration::from_secs_f64(cx.sh.config.num(option).clamp(0.0, 86_400.0))
}
/// True if the store is, or would be with so many bytes more, fuller than backfill may make it.
pub(in crate::pg) fn is_too_full(sh: &Shared, more: i64) -> bool {
    const FULL: u32 = osd_state::BACKFILLFULL | osd_state::FULL;
    if sh.map.state(sh.whoami) & FULL != 0 || sh.bounds.is_backfillfull {
        return true;
    }
    let (fs, ratio) = (sh.store.statfs(), f64::from(sh.map.backfillfull_ratio));
    let used = fs.total.saturating_sub(fs.available) as f64 + more.max(0) as f64;
    more > 0 && ratio > 0.0 && fs.total > 0 && used >= ratio * fs.total as f64
}
