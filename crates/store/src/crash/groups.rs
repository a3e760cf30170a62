//! What placement groups remember in a life: each transaction changes one of them, and one after the other says how many there were.

use crate::{FastInfo, InfoChange, LogDelta, PgRecord};
use base::Rng;
use std::collections::BTreeMap;
use std::rc::Rc;
use types::{EVersion, HObject, LogOp, ModDesc, PgId, PgInfo, PgLogEntry, PgMissingItem, ReqId, SpgId};

pub const GROUPS: u32 = 3;

pub fn group(n: u32) -> SpgId {
    SpgId::whole(PgId::new(1, n))
}

/// What all groups remember. Copies share what did not change.
#[derive(Debug, Clone, Default)]
pub struct Groups(pub BTreeMap<SpgId, Rc<PgRecord>>);

impl Groups {
    /// The newest version of any group: the number of the transaction, but where that one had a group forgotten.
    pub fn newest(&self) -> usize {
        self.0.values().map(|r| r.info.last_update.version as usize).max().unwrap_or(0)
    }
    pub fn apply(&mut self, delta: LogDelta) {
        for delta in delta.apart() {
            let pg = delta.pg;
            let mut record = self.0.remove(&pg).map(Rc::unwrap_or_clone);
            PgRecord::apply(&mut record, delta);
            self.0.extend(record.map(|r| (pg, Rc::new(r))));
        }
    }
    /// The change of transaction `n`: an entry mostly, now and then a group that begins anew or is forgotten.
    pub fn change(&self, rng: &mut Rng, n: usize, object: HObject) -> LogDelta {
        let pg = group(if rng.chance(2, 3) { 0 } else { rng.below(u64::from(GROUPS)) as u32 });
        let version = EVersion::new(1, n as u64);
        let Some(record) = self.0.get(&pg) else { return fresh(pg, version) };
        if rng.chance(1, 30) {
            // Another group must still say how many transactions there were.
            let others = self.0.iter().filter(|(id, _)| **id != pg).map(|(_, r)| r.info.last_update.version).max();
            if others >= Some(record.info.last_update.version) && rng.chance(1, 2) {
                return LogDelta::forget(pg);
            }
            return LogDelta { reset: true, ..fresh(pg, version) };
        }
        let mut delta = LogDelta::new(pg);
        if rng.chance(1, 20) && record.log.len() > 3 {
            // The newest entries were divergent.
            delta.rewind_to = Some(record.log[record.log.len() - 3].version);
        }
        delta.entries.push(entry(rng, version, object));
        if record.log.len() > 10 {
            let out = record.log.iter().take(4);
            delta.dups = out.clone().map(PgLogEntry::to_dup).collect();
            delta.trim_to = out.last().map(|e| e.version);
        }
        if record.dups.len() > 14 {
            delta.trim_dups_to = Some(record.dups[8].version);
        }
        delta.info = match rng.below(8) {
            0 => InfoChange::Full(Box::new(PgInfo { last_update: version, last_complete: version, ..record.info.clone() })),
            _ => InfoChange::Fast(FastInfo { last_update: version, last_complete: version, ..FastInfo::of(&record.info) }),
        };
        if rng.chance(1, 10) {
            delta.epoch = Some(record.epoch + 1);
        }
        if rng.chance(1, 12) {
            // As a split does: another group begins with what this one has.
            let other = group((pg.pgid.seed + 1) % GROUPS);
            let dups = record.dups.iter().cloned().collect();
            delta.with.push(LogDelta { reset: true, dups, entries: delta.entries.clone(), ..fresh(other, version) });
        }
        delta.rolled_forward_to = (n % 5 == 2).then_some(version);
        if rng.chance(1, 6) {
            let item = rng.chance(1, 2).then(|| PgMissingItem { need: version, ..PgMissingItem::default() });
            delta.missing.push((crate::conformance::object_name(rng.below(6)).hobj, item));
        }
        delta
    }
}

fn fresh(pg: SpgId, version: EVersion) -> LogDelta {
    let info = PgInfo { last_update: version, last_complete: version, ..PgInfo::new(pg) };
    LogDelta { epoch: Some(1), info: InfoChange::Full(Box::new(info)), ..LogDelta::new(pg) }
}

fn entry(rng: &mut Rng, version: EVersion, object: HObject) -> PgLogEntry {
    PgLogEntry {
        op: LogOp::MODIFY,
        soid: object,
        version,
        reqid: ReqId { tid: rng.u64(), ..ReqId::default() },
        user_version: version.version,
        mod_desc: ModDesc::unrollbackable(),
        ..PgLogEntry::default()
    }
}
