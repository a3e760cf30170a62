//! Groups that are behind the OSD's map, because a split or a merge waits for their own store.
//!
//! A map is taken in at once, group by group. A group that a map splits or merges is the exception: everything that it gave to its store must be
//! durable and its log must be at hand. Until then it stays at its own map and takes no new request, together with the groups that it is to be
//! merged with; all other groups go on. Holds those groups, the maps that they have yet to take in, and requests and messages of
//! other OSDs for them. Holds no rule of what a map changes: that is `advance`.

use super::Shard;
use super::waiting::Waiting;
use crate::joint::Came;
use crate::pg::members::peering::children;
use crate::request::ClientOp;
use crate::shared::EventCx;
use maps::OsdMap;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use types::{Epoch, SpgId};

/// Messages of other OSDs that wait for a group; more of them are dropped, and asked for again when the next interval begins.
const MESSAGES_MAX: usize = 4096;

/// What becomes of a group when it is shown a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advance {
    /// The group has taken it in, or is no more.
    Done,
    /// The group stays at its map until the store has news.
    Waits,
}

/// The groups, by their places, and what they wait with.
#[derive(Default)]
pub(crate) struct Behind {
    groups: BTreeSet<usize>,
    /// From the oldest map of one of them to the newest.
    maps: BTreeMap<Epoch, Rc<OsdMap>>,
    messages: Vec<Came>,
    /// Requests, by whatever map: a group that is over before its turn comes must not take later requests along.
    pub requests: Waiting,
}

impl Behind {
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
    pub fn has(&self, slot: usize) -> bool {
        !self.groups.is_empty() && self.groups.contains(&slot)
    }
    /// This group doesn't take in `new` now.
    pub fn put(&mut self, slot: usize) {
        self.groups.insert(slot);
    }
    /// The OSD has taken in a map while groups are behind.
    pub fn note_maps(&mut self, old: &Rc<OsdMap>, new: &Rc<OsdMap>) {
        if !self.groups.is_empty() {
            self.maps.entry(old.epoch).or_insert_with(|| old.clone());
            self.maps.insert(new.epoch, new.clone());
        }
    }
    /// The map that a group at this epoch has, and the one that it takes in next.
    fn step_from(&self, epoch: Epoch) -> Option<(Rc<OsdMap>, Rc<OsdMap>)> {
        let (_, old) = self.maps.range(..=epoch).next_back()?;
        let (_, new) = self.maps.range(epoch + 1..).next()?;
        Some((old.clone(), new.clone()))
    }
}

impl Shard {
    /// True if this group, or one that it is to be split from, is behind.
    pub(super) fn awaits_map(&self, pgid: SpgId) -> bool {
        if self.behind.is_empty() {
            return false;
        }
        if let Some(slot) = self.index.get(&pgid) {
            return self.behind.has(*slot as usize);
        }
        let Some(pool) = self.sh.map.pool(pgid.pgid.pool) else { return false };
        self.behind.groups.iter().filter_map(|slot| self.pgs[*slot].as_ref()).any(|pg| {
            pg.pgid.pgid.pool == pgid.pgid.pool
                && children(pg.pgid.pgid.seed, pg.peering().mapping.pg_num, pool.pg_num).contains(&pgid.pgid.seed)
        })
    }
    /// A message about a group that is behind: looked at again when the group is not.
    pub(super) fn hold_message(&mut self, came: Came) {
        if self.behind.messages.len() < MESSAGES_MAX {
            self.behind.messages.push(came);
        }
    }

    /// A request to a group that is behind, or that is to be split from one.
    pub(super) fn hold_request(&mut self, op: Box<ClientOp>, cx: &mut EventCx<'_>) {
        let conn = op.conn;
        if !self.behind.requests.push(op, "waiting for a map") {
            self.crowds(conn, cx);
        }
    }

    /// Groups that are behind take in maps as far as their store lets them. True if any did.
    pub(super) fn catch_up(&mut self, cx: &mut EventCx<'_>) -> bool {
        if self.behind.is_empty() {
            return false;
        }
        // A group that one takes in, or that is split from one, is looked at in its turn.
        let (mut progress, mut any) = (true, false);
        while std::mem::take(&mut progress) {
            for slot in self.behind.groups.clone() {
                let Some(pg) = self.pgs[slot].as_ref() else {
                    progress |= self.behind.groups.remove(&slot);
                    continue;
                };
                let Some((old, new)) = self.behind.step_from(pg.epoch()) else {
                    progress |= self.behind.groups.remove(&slot);
                    continue;
                };
                progress |= self.advance_group(slot, &old, &new, cx) == Advance::Done;
            }
            any |= progress;
        }
        if !any {
            return false;
        }
        if self.behind.is_empty() {
            self.behind.maps.clear();
        }
        self.activate_all(cx);
        for came in std::mem::take(&mut self.behind.messages) {
            self.peer_message(&came, cx);
        }
        for op in self.behind.requests.take_all() {
            self.place(op, cx);
        }
        self.replay_waiting(cx);
        true
    }
}
