//! What members say while they peer, in the order in which it came: some of it needs our own log, which the store may have to fetch. What comes
//! behind such a message waits with it.

use super::Pg;
use super::at_store::Submitted;
use super::logs::member::Member;
use super::logs::merge::Merged;
use super::logs::missing::Missing;
use super::logs::{LogError, PeerLog, part};
use super::said::{Said, Stop};
use crate::event::{Effect, Level};
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use messages::osd_peering::query_kind;
use messages::{MOSDPGLog, PgQuery};
use store::LogDelta;
use types::{EVersion, GHObject, PgInfo, PgLogEntry, PgShard, Transaction};

impl Pg {
    /// Another member says something.
    pub(crate) fn hear(&mut self, from: PgShard, said: Said, cx: &mut Cx<'_>) {
        self.parked.push_back((from, said));
        if self.parked.len() == 1 {
            self.hear_parked(cx);
        }
    }
    /// What was said goes on, as far as the store lets it.
    pub(crate) fn hear_parked(&mut self, cx: &mut Cx<'_>) {
        while let Some((from, said)) = self.parked.pop_front_if(|_| !self.at_store.is_unsettled()) {
            let result = match &said {
                Said::Query(query) => self.queried(from, query, cx),
                Said::Info(m) => self.info_came(from, m, cx),
                Said::Log(m) => self.log_came(from, m, cx),
                Said::Write(m) => self.write_came(m, cx).map_err(Stop::Bad),
                Said::Entries(m) => self.entries_came(from, m, cx).map_err(Stop::Bad),
                Said::Scrub(m) => {
                    self.scrub_asked(from, m, cx);
                    Ok(())
                }
            };
            match result {
                Ok(()) => {}
                Err(Stop::Wait) => return self.parked.push_front((from, said)),
                Err(Stop::Bad(why)) => cx.log(Level::Error, format!("{}: osd.{from}: {why}", self.pgid)),
            }
        }
    }
    /// True if peering waits for the store.
    pub(crate) fn waits_for_log(&self) -> bool {
        !self.parked.is_empty() || self.peering.wants_log.is_some()
    }

    /// A primary asks what we have.
    fn queried(&mut self, from: PgShard, query: &PgQuery, cx: &mut Cx<'_>) -> Result<(), Stop> {
        if self.peering.is_old(query.epoch_sent) {
            return Ok(());
        }
        let log = match query.kind {
            query_kind::INFO => {
                self.tell().notify(from, query.epoch_sent, cx);
                return Ok(());
            }
            query_kind::LOG => {
                let entries = cx.sh.store.pg_log(self.pgid, query.since, usize::MAX)?;
                part::after(self.record.log(), &entries, query.since, cx.sh.log_bounds.dups as u64)
            }
            query_kind::FULLLOG => part::whole(self.record.log(), &cx.sh.store.pg_log(self.pgid, EVersion::ZERO, usize::MAX)?),
            other => return Err(Stop::Bad(format!("a question of kind {other}"))),
        };
        self.tell().log(from, log, query.epoch_sent, cx);
        Ok(())
    }

    /// A log comes: that of our primary, or what we asked for as one.
    fn log_came(&mut self, from: PgShard, m: &MOSDPGLog, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let sent = m.epoch.min(m.query_epoch);
        if !self.peering.is_primary() {
            return self.log_of_primary(from, sent, m, cx);
        }
        if self.peering.is_old(sent) {
            return Ok(());
        }
        if self.peering.best() == Some(from) {
            self.merge_log(PeerLog::check(m.log.clone())?, &m.info, cx)?;
            self.record.history_mut().merge(&m.info.history);
            self.peering.merged(m.info.clone(), Missing::from(m.missing.clone()), cx.clock.mono);
        } else if self.peering.is_asked_for_log(from) {
            let missing = Missing::from(m.missing.clone());
            let member = match Member::judge(self.record.log(), m.info.clone(), &PeerLog::check(m.log.clone())?, missing) {
                // The part that was asked for begins behind the point where the logs part.
                Err(LogError::Unanchored(_)) => {
                    self.tell().query_log(from, None, cx);
                    return Ok(());
                }
                member => member?,
            };
            self.peering.judged(from, member);
            self.look_for_unfound(cx);
        }
        Ok(())
    }

    /// Our log becomes another member's, which counts.
    pub(super) fn merge_log(&mut self, theirs: PeerLog, info: &PgInfo, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let common = self.record.common_point(&theirs, info)?;
        let entries = cx.sh.store.pg_log(self.pgid, EVersion::ZERO, usize::MAX)?;
        let divergent = &entries[entries.partition_point(|e| e.version <= common)..];
        let merged = self.record.merge(theirs, divergent, info)?;
        self.take_merged(&merged, entries, cx);
        Ok(())
    }
    /// Our log goes back to an older head, which is the primary's.
    pub(super) fn rewind_log(&mut self, info: &PgInfo, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let divergent = cx.sh.store.pg_log(self.pgid, info.last_update, usize::MAX)?;
        let merged = self.record.rewind(&divergent, info)?;
        self.take_merged(&merged, divergent, cx);
        Ok(())
    }
    /// No log reaches back to what we have: the primary's newest part of it becomes ours, and all objects come by a backfill.
    pub(super) fn start_anew(&mut self, theirs: PeerLog, info: &PgInfo, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let merged = self.record.start_anew(theirs, info)?;
        self.take_merged(&merged, Vec::new(), cx);
        Ok(())
    }
    /// The store follows what the record has become. `entries` are those that it has.
    fn take_merged(&mut self, merged: &Merged, entries: Vec<PgLogEntry>, cx: &mut Cx<'_>) {
        self.peering.mapping.note_in(self.record.stats_mut());
        let mut txn = Transaction::new(self.coll);
        for obj in &merged.remove {
            // It need not be there.
            let obj = GHObject::plain(obj.clone());
            txn.touch(&obj);
            txn.remove(&obj);
        }
        let delta = self.record.adopted(merged, self.peering.mapping.epoch, &self.peering.past, entries);
        let delta = match planted(Bug::ForgetMissingRecord) {
            true => LogDelta { missing: Vec::new(), ..delta },
            false => delta,
        };
        if !self.at_store.takes(txn, Some(delta), Submitted::Record, cx) {
            let why = format!("{}: the store has no room for what peering found", self.pgid);
            cx.out.push(Effect::Stop { why: Some(why) });
        }
    }
}
