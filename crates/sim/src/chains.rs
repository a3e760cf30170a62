//! What one interval of a group went on from, each later one does: no entry comes back that did not count, and no request is forgotten.
//!
//! Looked at now and then, in groups that are active: a group's log ends somewhere when an interval is active, and what stands above that in the log of a
//! later interval was written in this one or since. Each acknowledged write is known by its request, at its version, in the log or among the duplicates
//! that outlive entries. Shares no code with the cores.

use osd_core::pg::Pg;
use std::collections::BTreeMap;
use types::{EVersion, Epoch, HObject, ReqId, SpgId};

/// Versions for which requests are known at least: the cores keep 3,000.
const KNOWN_VERSIONS: u64 = 2_500;

/// A write that was acknowledged.
#[derive(Debug)]
struct Acked {
    obj: HObject,
    version: EVersion,
    request: ReqId,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Chains {
    acked: Vec<Acked>,
    /// Of each group the newest interval that was active: when it began, and where the log ended.
    begun: BTreeMap<SpgId, (Epoch, EVersion)>,
    /// Intervals that were looked at: life of an OSD, group, and when it was activated.
    seen: BTreeMap<(u32, SpgId), Epoch>,
}

impl Chains {
    /// A client is answered that a write is done.
    pub fn acknowledged(&mut self, obj: &HObject, version: EVersion, request: Option<ReqId>) {
        if let Some(request) = request.filter(|request| *request != ReqId::default()) {
            self.acked.push(Acked { obj: obj.clone(), version, request });
        }
    }
    /// Looks at a group that is active on its primary. `forgets`: its requests may be unknown.
    ///
    /// # Errors
    /// What is wrong with its log.
    pub fn look(&mut self, life: u32, pg: &Pg, forgets: bool) -> Result<(), String> {
        let started = pg.record().info().last_epoch_started;
        if self.seen.insert((life, pg.pgid), started) == Some(started) {
            return Ok(());
        }
        let (newest, head) = self.begun.get(&pg.pgid).copied().unwrap_or_default();
        if started <= newest {
            return Ok(());
        }
        if let Some(old) = pg.record().log().versions_after(head).find(|version| version.epoch < newest) {
            return Err(format!(
                "{}: entry {old} is back, and an interval of epoch {newest} was active with a log that ended at {head}",
                pg.pgid
            ));
        }
        self.begun.insert(pg.pgid, (started, pg.record().log().head()));
        if forgets { Ok(()) } else { self.requests_are_known(pg) }
    }
    /// Looks whether each acknowledged write of this group is known by its request.
    ///
    /// # Errors
    /// One that is not.
    pub fn requests_are_known(&self, pg: &Pg) -> Result<(), String> {
        let is_here = |obj: &HObject| obj.pool == pg.pgid.pgid.pool && pg.pool().fold(obj.hash) == pg.pgid.pgid.seed;
        let head = pg.record().log().head();
        for acked in self.acked.iter().filter(|acked| is_here(&acked.obj)) {
            if acked.version.version + KNOWN_VERSIONS < head.version {
                continue;
            }
            let known = pg.record().log().find(&acked.request).map(|item| item.version());
            if known != Some(acked.version) {
                let (obj, version, request) = (&acked.obj, acked.version, acked.request);
                return Err(format!("{}: request {request}, acknowledged as {version} of {obj}, is known as {known:?}", pg.pgid));
            }
        }
        Ok(())
    }
}
