//! A primary and its members: their activation, what they say of writes, and when all of them are told how the group stands.
//!
//! Which members there are is [`super::peering`]'s to say; what a member does with it, [`super::replica`]'s; what messages say, [`super::tell`]'s. The lease
//! by which the primary serves goes with the activations.

use super::Members;
use crate::event::Effect;
use crate::pg::reconcile::member::Bring;
use crate::pg::reconcile::part;
use crate::pg::record::Record;
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use maps::PgPool;
use messages::PgLease;
use store::StoreError;
use types::{EVersion, PgLogEntry};

impl Members {
    /// Starts the interval at each other member: those that have the log hear so, others get what they lack of it. `entries` are those of our log
    /// above what the last of them has.
    pub(in crate::pg) fn activate_members(&mut self, entries: &[PgLogEntry], lease: Option<PgLease>, record: &Record, cx: &mut Cx<'_>) {
        let ours = record.info();
        for member in self.peering.others().collect::<Vec<_>>() {
            let bring = self.peering.bring(member, ours);
            let peer = self.peering.peer_mut(member).expect("a member is chosen by its info");
            peer.brought = Some(bring);
            match bring {
                Bring::Log(since) => peer.member.send_log(entries.iter().filter(|e| e.version > since), ours),
                Bring::Info => {}
                Bring::Backfill => {
                    peer.member.send_backfill(part::newest_tail(record.log(), cx.sh.log_bounds.min), ours);
                    peer.complete_on_disk = EVersion::ZERO;
                }
            }
            self.tell(record).start(member, bring, entries, lease, cx);
        }
    }
    /// Tells members that have not answered to start the interval once more, if the map is much newer by now. A new member drops a log
    /// whose map is older than all that it keeps: it can't know that the interval of that map is the present one.
    ///
    /// Not before: a stock member that has started takes a log that comes behind writes for the group's present one. It cuts its own log
    /// back to that one, and lacks the writes that it has acknowledged since.
    pub(in crate::pg) fn activate_again(&mut self, pool: &PgPool, record: &Record, cx: &mut Cx<'_>) {
        let late = self.peering.told_by_older_map();
        if late.is_empty() {
            return;
        }
        let entries = match cx.sh.store.pg_log(self.peering.pgid, EVersion::ZERO, usize::MAX) {
            Ok(entries) => entries,
            // What the store has to fetch is there at a later tick.
            Err(StoreError::Wait(_)) => return,
            Err(error) => return cx.out.push(Effect::Stop { why: Some(format!("{}: its log: {error}", self.peering.pgid)) }),
        };
        let lease = self.renew_lease(pool, record, cx);
        for (member, bring) in late {
            self.tell(record).start(member, bring, &entries, lease, cx);
        }
        self.peering.told_again();
    }

    /// Members of past intervals may let go of a group that is clean.
    pub(in crate::pg) fn remove_strays(&mut self, record: &Record, cx: &mut Cx<'_>) {
        if !self.peering.is_clean() && !(self.peering.is_active() && planted(Bug::LetGoEarly)) {
            return;
        }
        let map = cx.sh.map.clone();
        for stray in self.peering.take_strays(&*map) {
            self.tell(record).remove(stray, cx);
        }
    }
}
