//! Transactions that a group has given to its own store, and the store has not committed.
//!
//! Holds no transaction: only what each was, in order.

use crate::event::Effect;
use crate::shared::Cx;
use std::collections::VecDeque;
use store::{LogDelta, StoreError, StoreResult};
use types::{EVersion, Epoch, SpgId, Transaction};

/// Kinds of what a group gives to its own store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pg) enum Submitted {
    /// The group's record, or what it does by itself without an entry.
    Record,
    /// The record with which the group becomes active in the interval that began at this epoch.
    Activation(Epoch),
    /// Something of recovery.
    Recovery,
    /// Entries of the log up to this one.
    Write(EVersion),
    /// What the primary wrote.
    ReplicaWrite,
}

/// The part of a token that numbers a group's transactions.
const TOKEN_NUMBER: u64 = (1 << 40) - 1;

/// The group's place out of a token.
pub(crate) fn slot_of(token: u64) -> u32 {
    (token >> 40) as u32
}

/// What the group's own store has not committed, of this interval and of earlier ones, in the order in which the store commits it.
#[derive(Debug)]
pub(in crate::pg) struct AtStore {
    pgid: SpgId,
    /// The group's place among the OSD's groups.
    slot: u32,
    /// The number of the first.
    first: u64,
    submitted: VecDeque<Submitted>,
    /// Numbers below it are of former intervals.
    since: u64,
}

impl AtStore {
    pub fn new(pgid: SpgId, slot: u32) -> Self {
        Self { pgid, slot, first: 0, submitted: VecDeque::new(), since: 0 }
    }
    pub fn is_empty(&self) -> bool {
        self.submitted.is_empty()
    }
    /// An interval begins.
    pub fn start_interval(&mut self) {
        self.since = self.given();
    }
    /// True while something of a former interval is not durable. The group says nothing of its log until then: another member would go by entries
    /// that are gone if this OSD dies now, and lack objects that no member has.
    pub fn is_unsettled(&self) -> bool {
        self.first < self.since
    }
    /// How many transactions the store was ever given: while it is the same, the group's objects are.
    pub fn given(&self) -> u64 {
        self.first + self.submitted.len() as u64
    }
    /// What the store is to say when the next transaction is durable: the group's place and the transaction's number.
    fn token(&self) -> u64 {
        u64::from(self.slot) << 40 | self.given() & TOKEN_NUMBER
    }
    /// Gives a transaction with its record to the store. What the store does not take has not happened, whatever the reason; a store that can't go on
    /// ends the OSD.
    pub fn give(&mut self, txn: Transaction, delta: Option<LogDelta>, what: Submitted, cx: &mut Cx<'_>) -> StoreResult<()> {
        let given = cx.sh.store.submit(txn, delta, self.token());
        match &given {
            Ok(()) => self.submitted.push_back(what),
            Err(StoreError::Full) => cx.sh.wishes.store_refused = true,
            Err(error) => cx.out.push(Effect::Stop { why: Some(format!("{}: {error}", self.pgid)) }),
        }
        given
    }
    /// The same; false if the store has no room for it.
    pub fn takes(&mut self, txn: Transaction, delta: Option<LogDelta>, what: Submitted, cx: &mut Cx<'_>) -> bool {
        self.give(txn, delta, what, cx) != Err(StoreError::Full)
    }
    /// What is durable when the store says this token.
    pub fn committed(&mut self, token: u64) -> Submitted {
        let Some(what) = self.submitted.pop_front() else { panic!("group {}: the store commits what it was not given", self.slot) };
        assert!(token & TOKEN_NUMBER == self.first & TOKEN_NUMBER, "a store commits in the order of submission");
        self.first += 1;
        what
    }
}
