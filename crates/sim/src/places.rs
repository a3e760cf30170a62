//! Do OSDs keep to the protocol of places for recovery and backfill? A model of each side, by what it sends and what reaches it.
//!
//! ```text
//!   primary   None ── asks ──▶ Asked ── granted ──▶ Held ── gives back ──▶ None        Held ── taken back ──▶ Revoked ── gives back ──▶ None
//!   member    None ── asked ──▶ Asked ── grants ──▶ Held ── given back, or takes back ──▶ None
//! ```
//! A stock member takes a request in one state alone, and a stock primary one answer to each: what is wrong here ends one of them by an assertion, or leaves its
//! place taken for ever. Between our own OSDs most of it does no harm, so nothing else notices. Besides, no OSD lends or uses more places than it has.
//!
//! Source of the facts: the transitions of Ceph 18.2 `src/osd/PeeringState.h`.

use messages::osd_peering::{backfill_reserve, recovery_reserve};
use messages::{MBackfillReserve, MRecoveryReserve, Message, RawMessage};
use osd_core::Osd;
use std::collections::BTreeMap;
use types::{Epoch, OsdId, SpgId, pg_state};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Asked,
    Held,
    /// Taken back, and not given back yet.
    Revoked,
    /// What came is for a map that is not there yet.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Request,
    Grant,
    Refuse,
    Release,
    Revoke,
}

/// A life of an OSD, a group there, since when its interval is; on a primary the other member.
type Key = (u32, SpgId, Epoch, OsdId);

/// What stands for the other one on a member: there is one primary.
const PRIMARY: OsdId = -1;

/// See the module.
#[derive(Debug, Default)]
pub struct Places {
    states: BTreeMap<Key, State>,
}

/// The group, the epoch, and what is said.
fn word(msg: &RawMessage) -> Option<(SpgId, Epoch, Word)> {
    if msg.kind == MBackfillReserve::KIND {
        let m = MBackfillReserve::decode(msg).ok()?;
        let word = match m.kind {
            backfill_reserve::REQUEST => Word::Request,
            backfill_reserve::GRANT => Word::Grant,
            backfill_reserve::REJECT_TOOFULL => Word::Refuse,
            backfill_reserve::RELEASE => Word::Release,
            _ => Word::Revoke,
        };
        return Some((m.pgid, m.query_epoch, word));
    }
    let m = (msg.kind == MRecoveryReserve::KIND).then(|| MRecoveryReserve::decode(msg).ok())??;
    let word = match m.kind {
        recovery_reserve::REQUEST => Word::Request,
        recovery_reserve::GRANT => Word::Grant,
        recovery_reserve::RELEASE => Word::Release,
        _ => Word::Revoke,
    };
    Some((m.pgid, m.query_epoch, word))
}

/// Since when the group's interval is, if it is here.
fn since(osd: &Osd, pgid: SpgId) -> Option<Epoch> {
    osd.pgs().find(|pg| pg.pgid == pgid).map(|pg| pg.peering().last_peering_reset)
}

impl Places {
    /// A message is about to reach an OSD.
    pub fn comes(&mut self, life: u32, osd: &Osd, from: OsdId, msg: &RawMessage) {
        let Some((pgid, sent, word)) = word(msg) else { return };
        let Some(since) = since(osd, pgid).filter(|since| sent >= *since) else { return };
        let is_of_member = matches!(word, Word::Grant | Word::Refuse | Word::Revoke);
        let key = (life, pgid, since, if is_of_member { from } else { PRIMARY });
        let is_behind = osd.map().epoch < sent || osd.pgs().any(|pg| pg.pgid == pgid && pg.peering().mapping.epoch < sent);
        let next = match (self.states.get(&key).copied(), word) {
            (Some(State::Unknown), _) => return,
            _ if is_behind => Some(State::Unknown),
            (_, Word::Request) => Some(State::Asked),
            (Some(State::Asked), Word::Grant) => Some(State::Held),
            (Some(State::Held), Word::Revoke) => Some(State::Revoked),
            (Some(State::Asked), Word::Refuse) | (_, Word::Release) => None,
            // Late, about something that is over.
            _ => return,
        };
        self.put(key, next);
    }
    fn put(&mut self, key: Key, state: Option<State>) {
        match state {
            Some(state) => drop(self.states.insert(key, state)),
            None => drop(self.states.remove(&key)),
        }
    }
    /// An OSD has sent a message.
    ///
    /// # Errors
    /// It must not, as things stand; or it lends more than it has.
    pub fn goes(&mut self, life: u32, osd: &Osd, to: OsdId, msg: &RawMessage) -> Result<(), String> {
        let Some((pgid, _, word)) = word(msg) else { return Ok(()) };
        let Some(since) = since(osd, pgid) else { return Ok(()) };
        let is_of_primary = matches!(word, Word::Request | Word::Release);
        let key = (life, pgid, since, if is_of_primary { to } else { PRIMARY });
        let state = self.states.get(&key).copied();
        let next = match (state, word) {
            (Some(State::Unknown), _) => return Ok(()),
            (None, Word::Request) => Some(State::Asked),
            (Some(State::Asked), Word::Grant) => Some(State::Held),
            (Some(State::Held | State::Revoked) | None, Word::Release) => None,
            (Some(State::Asked), Word::Refuse) | (Some(State::Held), Word::Revoke) => None,
            _ => {
                let me = osd.whoami();
                return Err(format!("osd.{me} says {word:?} to osd.{to} of a place for {pgid}, where it stands as {state:?}"));
            }
        };
        self.put(key, next);
        self.counts(life, osd)
    }
    /// No OSD has more places than its option says, 1 by default, neither for itself nor for others.
    fn counts(&self, life: u32, osd: &Osd) -> Result<(), String> {
        let is_lent = |pgid, since| self.states.get(&(life, pgid, since, PRIMARY)) == Some(&State::Held);
        let lent = osd.pgs().filter(|pg| is_lent(pg.pgid, pg.peering().last_peering_reset)).count();
        let used = osd.pgs().filter(|pg| pg.state_bits() & (pg_state::RECOVERING | pg_state::BACKFILLING) != 0).count();
        if lent.max(used) > 1 {
            return Err(format!("osd.{} lends {lent} places and uses {used} itself, and has one of each", osd.whoami()));
        }
        Ok(())
    }
    /// Nothing is lent by an OSD of a cluster at rest.
    ///
    /// # Errors
    /// A place that is.
    pub fn rest(&self, life: u32, osd: &Osd) -> Result<(), String> {
        for pg in osd.pgs() {
            let (first, last) = ((life, pg.pgid, pg.peering().last_peering_reset, OsdId::MIN), OsdId::MAX);
            let left = self.states.range(first..=(first.0, first.1, first.2, last)).find(|(_, state)| **state != State::Unknown);
            if let Some((key, state)) = left {
                return Err(format!("osd.{} is at rest, and a place for {} with {} stands as {state:?}", osd.whoami(), pg.pgid, key.3));
            }
        }
        Ok(())
    }
}
