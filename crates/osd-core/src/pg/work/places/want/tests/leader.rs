//! The primary of the group under test: ours, or a stock one that ends where 18.2 ends.
//!
//! The stock one is written down from the reactions of each state in Ceph 18.2 `src/osd/PeeringState.h` and `.cc`. It gives up no place that it still
//! waits for, unless a member says no to backfill.

use super::member::Msg;
use crate::pg::work::places::want::{Do, Kind, Reservation, State};
use crate::reserver::News;
use base::Stamp;
use types::PgShard;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Clean, or not recovering and not asked to.
    Rest,
    /// Backfill was refused, or taken back while it was asked for: it is tried again then.
    NotBackfilling(Stamp),
    WaitLocal(Kind),
    /// So many members were asked.
    WaitRemote(Kind, usize),
    Going(Kind),
}

#[derive(Debug)]
pub struct Stock {
    at: At,
    priority: u32,
    members: Vec<PgShard>,
}

#[derive(Debug)]
pub enum Leader {
    Ours(Reservation),
    Stock(Stock),
}

impl Leader {
    pub fn new(is_stock: bool) -> Self {
        match is_stock {
            true => Self::Stock(Stock { at: At::Rest, priority: 0, members: Vec::new() }),
            false => Self::Ours(Reservation::default()),
        }
    }
    pub fn is_stock(&self) -> bool {
        matches!(self, Self::Stock(_))
    }
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Self::Ours(ours) => ours.kind(),
            Self::Stock(Stock { at: At::Rest, .. }) => None,
            Self::Stock(Stock { at: At::NotBackfilling(_), .. }) => Some(Kind::Backfill),
            Self::Stock(Stock { at: At::WaitLocal(kind) | At::WaitRemote(kind, _) | At::Going(kind), .. }) => Some(*kind),
        }
    }
    /// The place that it holds, all others with it.
    pub fn held(&self) -> Option<Kind> {
        match self {
            Self::Ours(ours) => {
                if let State::Held(kind) = ours.state() {
                    Some(kind)
                } else {
                    None
                }
            }
            Self::Stock(stock) => {
                if let At::Going(kind) = stock.at {
                    Some(kind)
                } else {
                    None
                }
            }
        }
    }
    pub fn need(&mut self, needed: Option<Kind>, priority: u32, mut members: Vec<PgShard>, out: &mut Vec<Do>) {
        match (self, needed) {
            (Self::Ours(ours), None) => ours.release(out),
            (Self::Ours(ours), Some(kind)) => ours.want(kind, priority, members, out),
            (Self::Stock(stock), _) if !matches!(stock.at, At::Rest | At::Going(_)) => {}
            (Self::Stock(stock), needed) => {
                if matches!(stock.at, At::Going(_)) {
                    stock.release(out);
                    out.push(Do::GiveOursBack);
                }
                stock.at = At::Rest;
                members.sort_unstable();
                (stock.priority, stock.members) = (priority, members);
                if let Some(kind) = needed {
                    stock.wait_local(kind, out);
                }
            }
        }
    }
    pub fn local_news(&mut self, news: News, out: &mut Vec<Do>) {
        match (self, news) {
            (Self::Ours(ours), News::Granted) => ours.local_granted(out),
            (Self::Ours(ours), News::Preempted) => ours.preempted(out),
            (Self::Stock(stock), news) => match (stock.at, news) {
                (At::WaitLocal(kind), News::Granted) => stock.ask_next(kind, 0, out),
                // Its queue of places would have said both: that it has one, and that it has it no longer.
                (At::WaitLocal(kind), News::Preempted) => stock.wait_local(kind, out),
                (At::Going(kind), News::Preempted) => stock.defer(kind, out),
                _ => {}
            },
        }
    }
    pub fn hear(&mut self, from: PgShard, msg: Msg, again: Stamp, out: &mut Vec<Do>) {
        match (self, msg) {
            (Self::Ours(ours), Msg::Grant(_)) => ours.granted(from, out),
            (Self::Ours(ours), Msg::Revoke(_)) => ours.revoked(from, None, out),
            (Self::Ours(ours), Msg::Refuse) => ours.refused(from, again, out),
            (Self::Ours(ours), Msg::RevokeTooFull) => ours.revoked(from, Some(again), out),
            (Self::Ours(_), msg) => panic!("a primary hears {msg:?}"),
            (Self::Stock(stock), msg) => stock.hear(msg, again, out),
        }
    }
    pub fn pass(&mut self, now: Stamp, out: &mut Vec<Do>) {
        match self {
            Self::Ours(ours) => ours.pass(now, out),
            Self::Stock(stock) => {
                if let At::NotBackfilling(at) = stock.at
                    && at <= now
                {
                    stock.wait_local(Kind::Backfill, out);
                }
            }
        }
    }
    pub fn revalue(&mut self, priority: u32, out: &mut Vec<Do>) {
        if let Self::Ours(ours) = self {
            ours.revalue(priority, out);
        }
    }
    pub fn end_interval(&mut self) {
        match self {
            Self::Ours(ours) => ours.end_interval(&mut Vec::new()),
            Self::Stock(stock) => stock.at = At::Rest,
        }
    }
}

impl Stock {
    fn wait_local(&mut self, kind: Kind, out: &mut Vec<Do>) {
        self.at = At::WaitLocal(kind);
        out.push(Do::AskOurs(self.priority));
    }
    fn ask_next(&mut self, kind: Kind, asked: usize, out: &mut Vec<Do>) {
        self.at = match self.members.get(asked) {
            Some(member) => {
                out.push(Do::Ask(*member, kind, self.priority));
                At::WaitRemote(kind, asked + 1)
            }
            None => At::Going(kind),
        };
    }
    fn release(&self, out: &mut Vec<Do>) {
        let At::Going(kind) = self.at else { return };
        out.extend(self.members.iter().map(|member| Do::GiveBack(*member, kind)));
    }
    /// Its places are given back and asked for again.
    fn defer(&mut self, kind: Kind, out: &mut Vec<Do>) {
        self.release(out);
        out.push(Do::GiveOursBack);
        self.wait_local(kind, out);
    }
    fn hear(&mut self, msg: Msg, again: Stamp, out: &mut Vec<Do>) {
        match (self.at, msg) {
            (At::WaitRemote(kind, asked), Msg::Grant(granted)) if kind == granted => self.ask_next(kind, asked, out),
            (At::WaitLocal(Kind::Backfill) | At::NotBackfilling(_), Msg::Grant(Kind::Backfill)) => {}
            (At::Going(kind), Msg::Revoke(revoked)) if kind == revoked => self.defer(kind, out),
            (At::WaitRemote(Kind::Backfill, asked), Msg::Refuse | Msg::Revoke(Kind::Backfill)) => {
                out.push(Do::GiveOursBack);
                out.extend(self.members[..asked].iter().map(|member| Do::GiveBack(*member, Kind::Backfill)));
                self.at = At::NotBackfilling(again);
            }
            (At::Going(Kind::Backfill), Msg::Refuse | Msg::RevokeTooFull) => {
                self.release(out);
                out.push(Do::GiveOursBack);
                self.at = At::NotBackfilling(again);
            }
            (At::NotBackfilling(_), Msg::Refuse) => {}
            // In every active state.
            (_, Msg::Revoke(_) | Msg::RevokeTooFull) => {}
            (at, msg) => panic!("a stock primary ends: bad state machine event, {msg:?} in {at:?}"),
        }
    }
}
