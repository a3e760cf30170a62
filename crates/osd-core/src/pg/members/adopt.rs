//! What other members ask and say of logs: our own is told, or becomes another's that counts.

use super::Members;
use super::said::Stop;
use crate::event::Effect;
use crate::pg::backend::at_store::Submitted;
use crate::pg::group::Group;
use crate::pg::reconcile::merge::Merged;
use crate::pg::reconcile::{PeerLog, part};
use crate::pg::record::Record;
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use messages::PgQuery;
use messages::osd_peering::query_kind;
use store::LogDelta;
use types::{EVersion, PgInfo, PgLogEntry, PgShard, Transaction};

impl Members {
    /// True if peering waits for the store.
    pub(crate) fn waits_for_log(&self) -> bool {
        !self.parked.is_empty() || self.peering.wants_log.is_some()
    }

    /// A primary asks what we have.
    pub(in crate::pg) fn queried(&self, from: PgShard, query: &PgQuery, record: &Record, cx: &mut Cx<'_>) -> Result<(), Stop> {
        if self.peering.is_old(query.epoch_sent) {
            return Ok(());
        }
        let log = match query.kind {
            query_kind::INFO => {
                self.tell(record).notify(from, query.epoch_sent, cx);
                return Ok(());
            }
            query_kind::LOG => {
                let entries = cx.sh.store.pg_log(self.peering.pgid, query.since, usize::MAX)?;
                part::after(record.log(), &entries, query.since, cx.sh.log_bounds.dups as u64)
            }
            query_kind::FULLLOG => part::whole(record.log(), &cx.sh.store.pg_log(self.peering.pgid, EVersion::ZERO, usize::MAX)?),
            other => return Err(Stop::Bad(format!("a question of kind {other}"))),
        };
        self.tell(record).log(from, log, query.epoch_sent, cx);
        Ok(())
    }
}

impl Group {
    /// Our log becomes another member's, which counts.
    pub(in crate::pg) fn merge_log(&mut self, theirs: PeerLog, info: &PgInfo, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let common = self.record.common_point(&theirs, info)?;
        let entries = cx.sh.store.pg_log(self.pgid, EVersion::ZERO, usize::MAX)?;
        let divergent = &entries[entries.partition_point(|e| e.version <= common)..];
        let merged = self.record.merge(self.backend.layout(), theirs, divergent, info)?;
        self.take_merged(&merged, entries, cx);
        Ok(())
    }
    /// Our log goes back to an older head, which is the primary's.
    pub(in crate::pg) fn rewind_log(&mut self, info: &PgInfo, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let divergent = cx.sh.store.pg_log(self.pgid, info.last_update, usize::MAX)?;
        let merged = self.record.rewind(self.backend.layout(), &divergent, info)?;
        self.take_merged(&merged, divergent, cx);
        Ok(())
    }
    /// No log reaches back to what we have: the primary's newest part of it becomes ours, and all objects come by a backfill.
    pub(in crate::pg) fn start_anew(&mut self, theirs: PeerLog, info: &PgInfo, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let merged = self.record.start_anew(self.backend.layout(), theirs, info)?;
        self.take_merged(&merged, Vec::new(), cx);
        Ok(())
    }
    /// The store follows what the record has become. `entries` are those that it has.
    fn take_merged(&mut self, merged: &Merged, entries: Vec<PgLogEntry>, cx: &mut Cx<'_>) {
        self.members.peering.mapping.note_in(self.record.stats_mut());
        let mut txn = Transaction::new(self.coll);
        self.backend.layout().undo(&merged.undone);
        for obj in &merged.remove {
            // It need not be there.
            let obj = self.name(obj);
            txn.touch(&obj);
            txn.remove(&obj);
        }
        let delta = self.record.adopted(merged, self.members.peering.mapping.epoch, &self.members.peering.past, entries);
        let delta = match planted(Bug::ForgetMissingRecord) {
            true => LogDelta { missing: Vec::new(), ..delta },
            false => delta,
        };
        if !self.backend.takes(txn, Some(delta), Submitted::Record, cx) {
            let why = format!("{}: the store has no room for what peering found", self.pgid);
            cx.out.push(Effect::Stop { why: Some(why) });
        }
    }
}
