//! Read leases: until when the members of an interval may serve, and when those of the next one may begin.
//!
//! ```text
//!   primary ── lease: ends at now + interval ──▶ every other member ── acknowledges that end ──▶ the primary serves until the least of them
//!
//!   another interval begins: what a member granted or acknowledged bounds what the former interval serves. The next primary serves when
//!   that time has passed, or when each member of the former intervals is dead, is itself, or has answered in the new interval
//! ```
//! What a primary served it alone knows: the least of what was acknowledged to it. Followers acknowledge more than that while one of them is
//! silent, so a primary that goes on leading ignores what they say. Members count, not primaries alone: those that follow serve balanced reads.
//!
//! A member that follows serves reads up to an end that the primary names as its own: what was acknowledged to it by then, and no more. So whatever
//! bounds how long the primary serves bounds it, too.
//!
//! A primary that is paused or cut off serves nothing after its lease, and the next one nothing before: no two of them serve at once. Times are
//! those of the holder's own monotonic clock; how clocks of two OSDs differ is `crate::clocks`' to say. A group of one member has no lease.
//! Holds no message and no timer: [`Lease::deadline`] says when [`Lease::pass`] is due.

mod duty;

use crate::planted::{Bug, planted};
use base::Stamp;
use messages::{PgLease, PgLeaseAck, SpanNs};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::time::Duration;
use types::{OsdId, pg_state};

const NEVER: Stamp = Stamp(0);
const FOREVER: Stamp = Stamp(u64::MAX);

fn span(at: Stamp) -> SpanNs {
    SpanNs(at.0.min(i64::MAX as u64) as i64)
}
fn stamp(at: i128) -> Stamp {
    Stamp(at.clamp(0, u64::MAX.into()) as u64)
}

/// What a primary granted.
#[derive(Debug)]
struct Grants {
    interval: Duration,
    /// When the newest lease ends.
    sent: Stamp,
    /// Other members, and the end that each acknowledged.
    acknowledged: SmallVec<[(OsdId, Stamp); 4]>,
    renew_at: Stamp,
    is_laggy: bool,
}

impl Grants {
    fn until(&self) -> Stamp {
        if planted(Bug::ServeUnacknowledged) {
            return self.sent;
        }
        if planted(Bug::ServeAtFirstAck) {
            return self.acknowledged.iter().map(|(_, end)| *end).max().unwrap_or(self.sent);
        }
        self.acknowledged.iter().fold(self.sent, |least, (_, end)| least.min(*end))
    }
}

/// A member's part in the present interval.
#[derive(Debug)]
enum Part {
    /// Not activated.
    None,
    /// The primary, and the only member.
    Alone,
    Primary(Grants),
    /// One that follows: no member serves after `until`; `named` is that end by the primary's clock. Before `reads_until` the primary may serve, as it said
    /// itself, and so may this one.
    Follower {
        until: Stamp,
        named: SpanNs,
        reads_until: Stamp,
    },
}

/// Former intervals that may still be served.
#[derive(Debug, Clone)]
struct Prior {
    until: Stamp,
    /// Members of them, as far as they are known.
    holders: BTreeSet<OsdId>,
}

/// The lease of one group on one OSD.
#[derive(Debug)]
pub struct Lease {
    /// Requests are served before it; 0 while former intervals may still be served.
    serves_until: Stamp,
    part: Part,
    prior: Option<Prior>,
    /// What former intervals may serve is known here, by `prior`: what one of their members says of it is old, or more than is so.
    knows_prior: bool,
}

impl Default for Lease {
    fn default() -> Self {
        Self { serves_until: NEVER, part: Part::None, prior: None, knows_prior: false }
    }
}

impl Lease {
    /// True if a primary may serve now.
    #[inline]
    pub fn may_serve(&self, now: Stamp) -> bool {
        now < self.serves_until
    }
    /// True if a member that follows may serve what its primary would. Former intervals are over, as for the primary.
    pub fn may_read(&self, now: Stamp) -> bool {
        let is_former_over = || self.prior.as_ref().is_none_or(|prior| prior.until <= now);
        match self.part {
            Part::Follower { reads_until, .. } => (now < reads_until || planted(Bug::ReplicaReadsAfterLease)) && is_former_over(),
            _ => false,
        }
    }
    /// Until when it may; for `pg query`.
    pub fn readable_until(&self) -> Stamp {
        self.serves_until
    }
    /// True while former intervals may still be served.
    pub fn waits(&self) -> bool {
        self.prior.is_some()
    }
    /// `wait` and `laggy` of the group's state, as [`Lease::pass`] saw them.
    pub fn bits(&self) -> u64 {
        let waits = if self.prior.is_some() { pg_state::WAIT } else { 0 };
        match &self.part {
            Part::Primary(g) if g.is_laggy => waits | pg_state::LAGGY,
            Part::Primary(_) | Part::Alone => waits,
            Part::None | Part::Follower { .. } => 0,
        }
    }
    /// Nanoseconds that former intervals may still be served: what histories tell other members.
    pub fn remaining_ns(&self, now: Stamp) -> u64 {
        self.prior.as_ref().map_or(0, |prior| prior.until.0.saturating_sub(now.0))
    }

    fn refresh(&mut self) {
        self.serves_until = match &self.part {
            _ if self.prior.is_some() && !planted(Bug::IgnorePriorLease) => NEVER,
            Part::Alone => FOREVER,
            Part::Primary(grants) if planted(Bug::ServeAfterLease) && grants.until() != NEVER => FOREVER,
            Part::Primary(grants) => grants.until(),
            Part::None | Part::Follower { .. } => NEVER,
        };
    }

    /// The interval that these members served is over. `led`: this one was their primary.
    pub fn start_interval(&mut self, acting: &[OsdId], led: bool, now: Stamp) {
        let (until, knows) = match std::mem::replace(&mut self.part, Part::None) {
            // Before it granted the first lease it had heard members of all former intervals.
            Part::Primary(grants) => (grants.until(), true),
            // A lone primary that hears of another interval serves no longer.
            Part::Alone => (NEVER, true),
            Part::Follower { until, .. } => (until, false),
            // What it was the primary of and did not begin was served by none.
            Part::None => (NEVER, self.knows_prior && (led || planted(Bug::TrustOldKnowledge))),
        };
        self.prior.take_if(|prior| prior.until <= now);
        self.knows_prior = knows;
        if until > now {
            let prior = self.extend(until);
            prior.holders.extend(acting);
        }
        self.refresh();
    }
    /// What a group that is split off this one has to know: former intervals served its objects too.
    pub fn for_child(&self) -> Self {
        if planted(Bug::ForgetLeaseAtSplit) {
            return Self::default();
        }
        Self { prior: self.prior.clone(), knows_prior: self.knows_prior, ..Self::default() }
    }
    /// The OSD starts: an earlier life of it may have let others of the last interval serve for so long, and has forgotten.
    pub fn resumed(&mut self, interval: Duration, now: Stamp) {
        self.extend(now + interval);
        self.refresh();
    }
    fn extend(&mut self, until: Stamp) -> &mut Prior {
        let prior = self.prior.get_or_insert_with(|| Prior { until, holders: BTreeSet::new() });
        prior.until = prior.until.max(until);
        prior
    }
    /// Another member knows of former intervals that may be served for so many nanoseconds.
    pub fn heard(&mut self, remaining_ns: u64, now: Stamp) {
        if remaining_ns > 0 && !self.knows_prior {
            self.extend(now + Duration::from_nanos(remaining_ns));
            self.refresh();
        }
    }
    /// The primary of this interval says the same to a member that follows it: it has heard every other.
    pub fn told(&mut self, remaining_ns: u64, now: Stamp) {
        if remaining_ns == 0 {
            self.prior = None;
        }
        self.heard(remaining_ns, now);
    }
    /// Looks whether no member of former intervals can serve any more. `past`: members of all since the group was clean. True if that is so now and
    /// was not. Without any known member only time helps.
    pub fn settle(&mut self, past: impl Iterator<Item = OsdId>, is_settled: impl Fn(OsdId) -> bool) -> bool {
        let Some(prior) = &mut self.prior else { return false };
        prior.holders.extend(past);
        let is_over = !prior.holders.is_empty() && prior.holders.iter().all(|osd| is_settled(*osd));
        if is_over {
            self.knows_prior = true;
            self.prior = None;
            self.refresh();
        }
        is_over
    }

    /// The interval starts with these other members. They are to hear of the lease, if there is one.
    pub fn grant(&mut self, others: impl Iterator<Item = OsdId>, interval: Duration, now: Stamp) -> Option<PgLease> {
        let acknowledged: SmallVec<_> = others.map(|osd| (osd, NEVER)).collect();
        self.part = if acknowledged.is_empty() {
            Part::Alone
        } else {
            Part::Primary(Grants { interval, sent: NEVER, acknowledged, renew_at: now, is_laggy: false })
        };
        self.refresh();
        self.renew(interval, now)
    }
    /// A lease that ends later.
    pub fn renew(&mut self, interval: Duration, now: Stamp) -> Option<PgLease> {
        let Part::Primary(grants) = &mut self.part else { return None };
        (grants.interval, grants.renew_at) = (interval, now + interval / 2);
        grants.sent = grants.sent.max(now + interval);
        Some(PgLease {
            readable_until: span(grants.until()),
            readable_until_ub: span(grants.sent),
            // From now on, whatever it was when this end was named.
            interval: SpanNs(grants.sent.since(now).as_nanos().min(i64::MAX as u128) as i64),
        })
    }
    /// True if a renewal is due.
    pub fn is_due(&self, now: Stamp) -> bool {
        matches!(&self.part, Part::Primary(grants) if grants.renew_at <= now)
    }
    /// True if much of the lease is gone.
    pub fn is_worn(&self, now: Stamp) -> bool {
        matches!(&self.part, Part::Primary(grants) if grants.sent < now + grants.interval * 3 / 4)
    }
    /// Another member has heard of a lease. True if requests that waited may go on.
    pub fn acknowledged(&mut self, from: OsdId, ack: PgLeaseAck, now: Stamp) -> bool {
        let served = self.may_serve(now);
        let Part::Primary(grants) = &mut self.part else { return false };
        let sent = grants.sent;
        if let Some((_, end)) = grants.acknowledged.iter_mut().find(|(osd, _)| *osd == from) {
            *end = stamp(ack.readable_until_ub.0.into()).min(sent).max(*end);
            if planted(Bug::CountFromAnswer) {
                *end = now + grants.interval;
                grants.sent = grants.sent.max(*end);
            }
        }
        self.pass(now);
        !served && self.may_serve(now)
    }

    /// The primary's lease comes. `ahead_ns`: how far its clock is ahead of ours at least, and at most, as far as that is known.
    pub fn granted(&mut self, lease: &PgLease, ahead_ns: (Option<i64>, Option<i64>), now: Stamp) {
        let end = match ahead_ns.0 {
            Some(ahead) => stamp(i128::from(lease.readable_until_ub.0) - i128::from(ahead)),
            None => now + Duration::from_nanos(lease.interval.0.max(0) as u64),
        };
        if !matches!(self.part, Part::Follower { .. }) {
            self.part = Part::Follower { until: NEVER, named: SpanNs(0), reads_until: NEVER };
        }
        if let Part::Follower { until, named, reads_until } = &mut self.part {
            if let Some(most) = ahead_ns.1 {
                *reads_until = stamp(i128::from(lease.readable_until.0) - i128::from(most)).max(*reads_until);
            }
            if *until == NEVER || !planted(Bug::ForgetRenewals) {
                *until = end.max(*until);
            }
            *named = lease.readable_until_ub.max(*named);
        }
    }
    /// What the primary is answered: the end that this member knows of.
    pub fn acknowledgement(&self) -> Option<PgLeaseAck> {
        match self.part {
            Part::Follower { named, .. } => Some(PgLeaseAck { readable_until_ub: named }),
            _ => None,
        }
    }

    /// Time passes: former intervals are over, or this one's lease is. True if requests need not wait for former intervals any more.
    pub fn pass(&mut self, now: Stamp) -> bool {
        let waited = self.prior.take_if(|prior| prior.until <= now).is_some();
        self.refresh();
        if let Part::Primary(grants) = &mut self.part {
            // Before the first answers it is no more than being activated.
            grants.is_laggy = grants.until() != NEVER && grants.until() <= now;
        }
        waited && self.may_serve(now)
    }
    /// When [`Lease::pass`] or [`Lease::renew`] is due.
    pub fn deadline(&self) -> Option<Stamp> {
        let waits = self.prior.as_ref().map(|prior| prior.until);
        match &self.part {
            Part::Alone => waits,
            Part::Primary(grants) => {
                let until = grants.until();
                let lapses = if grants.is_laggy || until == NEVER { FOREVER } else { until };
                Some(grants.renew_at.min(lapses).min(waits.unwrap_or(FOREVER)))
            }
            Part::None | Part::Follower { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
