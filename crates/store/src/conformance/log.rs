//! What groups remember: random deltas, compared with what [`PgRecord::apply`] makes of them.

use super::{Subject, ask, wait_for};
use crate::{FastInfo, InfoChange, LogDelta, ObjectStore, PgRecord};
use base::Rng;
use std::collections::{BTreeMap, VecDeque};
use types::{EVersion, LogOp, ModDesc, PgId, PgInfo, PgLogEntry, PgMissingItem, ReqId, SpgId, Transaction};

fn entry(rng: &mut Rng, version: EVersion) -> PgLogEntry {
    PgLogEntry {
        op: if rng.chance(1, 9) { LogOp::DELETE } else { LogOp::MODIFY },
        soid: super::workload::name(rng.below(10)).hobj,
        version,
        reqid: ReqId { tid: rng.u64(), ..ReqId::default() },
        user_version: version.version,
        mod_desc: ModDesc::unrollbackable(),
        ..PgLogEntry::default()
    }
}

/// A change that makes sense after `record`.
fn delta(rng: &mut Rng, pg: SpgId, record: Option<&PgRecord>) -> LogDelta {
    let mut delta = LogDelta::new(pg);
    let Some(record) = record else {
        delta.info = InfoChange::Full(Box::new(PgInfo::new(pg)));
        delta.epoch = Some(1);
        return delta;
    };
    if rng.chance(1, 40) {
        return LogDelta::forget(pg);
    }
    let mut at = record.info.last_update;
    if rng.chance(1, 20) && record.log.len() > 2 {
        at = record.log[record.log.len() - 2].version;
        delta.rewind_to = Some(at);
    }
    for _ in 0..rng.below(3) {
        at = EVersion::new(record.epoch, at.version + 1);
        delta.entries.push(entry(rng, at));
    }
    if record.log.len() > 30 {
        let out = record.log.iter().take(10);
        delta.dups = out.clone().map(PgLogEntry::to_dup).collect();
        delta.trim_to = out.last().map(|e| e.version);
    }
    if record.dups.len() > 50 {
        delta.trim_dups_to = Some(record.dups[20].version);
    }
    delta.info = match rng.below(6) {
        0 => InfoChange::Full(Box::new(PgInfo { last_update: at, last_epoch_started: record.epoch, ..record.info.clone() })),
        _ => InfoChange::Fast(FastInfo { last_update: at, ..FastInfo::of(&record.info) }),
    };
    if rng.chance(1, 10) {
        delta.epoch = Some(record.epoch + 1);
    }
    if rng.chance(1, 5) {
        let item = rng.chance(1, 2).then(|| PgMissingItem { need: at, ..PgMissingItem::default() });
        delta.missing.push((super::workload::name(rng.below(10)).hobj, item));
    }
    // Kept by what comes behind it, and gone with a reset. Not drawn: lives stay what they were.
    delta.rolled_forward_to = (at.version % 5 == 2).then_some(at);
    delta
}

/// Ranges of a group's log: from the beginning, from an entry, from between, from above the last; page by page, and all at once.
fn ranges(subject: &mut dyn Subject, store: &mut dyn ObjectStore, rng: &mut Rng, pg: SpgId, record: Option<&PgRecord>) {
    let log: Vec<PgLogEntry> = record.map(|r| r.log.iter().cloned().collect()).unwrap_or_default();
    let last = log.last().map_or(EVersion::ZERO, |e| e.version);
    let at = |rng: &mut Rng| log.get(rng.below(log.len().max(1) as u64) as usize).map_or(EVersion::ZERO, |e| e.version);
    let some = at(rng);
    let before = EVersion::new(some.epoch, some.version.saturating_sub(1));
    let beyond = EVersion::new(last.epoch + 1, 0);
    for after in [EVersion::ZERO, some, before, last, beyond, EVersion::MAX] {
        for max in [0, 1, 7, usize::MAX] {
            let wanted: Vec<PgLogEntry> = log.iter().filter(|e| e.version > after).take(max).cloned().collect();
            let found = ask(subject, store, |s| s.pg_log(pg, after, max)).expect("a log");
            assert_eq!(found, wanted, "{pg}: {max} entries above {after}");
        }
    }
    let (mut after, mut all) = (EVersion::ZERO, Vec::new());
    loop {
        let page = ask(subject, store, |s| s.pg_log(pg, after, 5)).expect("a page");
        let Some(last) = page.last() else { break };
        after = last.version;
        all.extend(page);
    }
    assert_eq!(all, log);
    let nowhere = SpgId::whole(PgId::new(99, 0));
    assert_eq!(ask(subject, store, |s| s.pg_log(nowhere, EVersion::ZERO, 5)), Ok(Vec::new()));
}

pub fn run(subject: &mut dyn Subject) {
    let mut rng = Rng::new(5);
    let mut store = subject.fresh();
    let mut model: BTreeMap<SpgId, Option<PgRecord>> = BTreeMap::new();
    let mut tokens = VecDeque::new();
    for step in 0..1500 {
        let pg = SpgId::whole(PgId::new(2, rng.below(3) as u32));
        let mut change = delta(&mut rng, pg, model.entry(pg).or_default().as_ref());
        // Other groups change with it, as in a split or a merge.
        for _ in 0..if rng.chance(1, 10) { 1 + rng.below(2) } else { 0 } {
            let other = SpgId::whole(PgId::new(2, (pg.pgid.seed + 1 + change.with.len() as u32) % 3));
            change.with.push(delta(&mut rng, other, model.entry(other).or_default().as_ref()));
        }
        change.clone().apart().for_each(|delta| PgRecord::apply(model.entry(delta.pg).or_default(), delta));
        store.submit(Transaction::default(), Some(change), step).expect("a delta");
        tokens.push_back(step);
        if rng.chance(1, 30) {
            let record = &model[&pg];
            assert_eq!(&ask(subject, &mut *store, |s| s.load_pg(pg)).expect("a record"), record, "step {step}");
            ranges(subject, &mut *store, &mut rng, pg, record.as_ref());
        }
        if rng.chance(1, 300) {
            wait_for(subject, &mut *store, &mut tokens);
            store = subject.reopen(store);
        }
    }
    wait_for(subject, &mut *store, &mut tokens);
    for (pg, record) in &model {
        assert_eq!(&ask(subject, &mut *store, |s| s.load_pg(*pg)).expect("a record"), record);
        ranges(subject, &mut *store, &mut rng, *pg, record.as_ref());
    }
    let known: Vec<_> = model.iter().filter(|(_, r)| r.is_some()).map(|(pg, _)| *pg).collect();
    assert_eq!(ask(subject, &mut *store, |s| s.pgs()), Ok(known));
}
