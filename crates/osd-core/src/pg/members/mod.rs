//! A group and its other members: which there are and what each has ([`peering`]), until when the group may serve ([`lease`]), what members say to each
//! other ([`said`]) and how it is sent ([`tell`]), and what the group reports ([`stats`]).
//!
//! [`primary`] is the side of the member that leads, [`replica`] that of one that follows.

mod adopt;
pub mod lease;
pub mod peering;
mod primary;
mod replica;
pub(super) mod said;
pub mod stats;
pub(super) mod tell;

use crate::pg::record::Record;
use crate::shared::Cx;
use lease::Lease;
use peering::{PeerOut, Peering};
use said::InOrder;
use std::collections::VecDeque;
use tell::Tell;
use types::PgShard;

/// The members of a group, ourselves among them. Peering and lease are owners of their own: what is theirs changes by their methods.
pub(super) struct Members {
    pub(in crate::pg) peering: Peering,
    /// Until when the group may serve.
    pub(in crate::pg) lease: Lease,
    /// What members said, while the first of it waits for the store.
    parked: VecDeque<(PgShard, InOrder)>,
}

impl Members {
    pub fn new(peering: Peering) -> Self {
        Self { peering, lease: Lease::default(), parked: VecDeque::new() }
    }

    /// The group as it speaks to other members.
    pub fn tell<'a>(&'a self, record: &'a Record) -> Tell<'a> {
        Tell { pgid: self.peering.pgid, record, peering: &self.peering, lease: &self.lease }
    }
    /// What peering wants said to a member is said. True for the rest, which is the monitor's to hear.
    pub fn is_for_monitor(&self, one: &PeerOut, record: &Record, cx: &mut Cx<'_>) -> bool {
        match one {
            PeerOut::Query(member) => self.tell(record).query(*member, cx),
            PeerOut::QueryLog(member, since) => self.tell(record).query_log(*member, *since, cx),
            PeerOut::Notify(member) => self.tell(record).notify(*member, 0, cx),
            PeerOut::Activate => {}
            PeerOut::UpThru(_) | PeerOut::PgTemp(_) => return true,
        }
        false
    }

    /// A member says something that is taken in order. True if nothing is before it.
    pub fn park(&mut self, from: PgShard, said: InOrder) -> bool {
        self.parked.push_back((from, said));
        self.parked.len() == 1
    }
    pub fn next_parked(&mut self) -> Option<(PgShard, InOrder)> {
        self.parked.pop_front()
    }
    /// It waits on.
    pub fn park_again(&mut self, from: PgShard, said: InOrder) {
        self.parked.push_front((from, said));
    }
    /// The interval is over: what was said in it means nothing any more.
    pub fn forget_parked(&mut self) {
        self.parked.clear();
    }
}
