//! The block store's planted bugs, each with the setting that provokes it soonest, and that all of them are noticed.

use super::setting::{CHURN, COPIES, DISCARDS, ROUND, SETTINGS, SPILLS, STEADY};
use super::subject::Block;
use super::{by_turns, share};
use crate::planted::Bug;
use store::crash::bugs;

/// A bug and the setting (of [`super::setting`], by number) that provokes it soonest.
const fn on(bug: Bug, setting: u64) -> (Bug, u64, u64) {
    (bug, setting, if setting < SETTINGS { SETTINGS } else { ROUND })
}
/// The same with the seed of its setting that notices it first: in those in front of it nothing is seen.
const fn from(bug: Bug, seed: u64) -> (Bug, u64, u64) {
    (bug, seed, SETTINGS)
}

/// In the lives whose store gives room back.
const fn discarding(bug: Bug, setting: u64) -> (Bug, u64, u64) {
    let (bug, setting, again) = on(bug, setting);
    (bug, DISCARDS + setting, again)
}

pub const BUGS: [(Bug, u64, u64); 56] = [
    on(Bug::AckBeforeDurable, 0),
    on(Bug::AckOutOfOrder, 0),
    on(Bug::VolatileRecord, 0),
    on(Bug::VolatileRun, 0),
    on(Bug::SkipDataFlush, 0),
    on(Bug::SkipMetaFlush, 0),
    on(Bug::SkipDrain, 0),
    on(Bug::SkipLentFlush, 6),
    on(Bug::StoreLent, 6),
    on(Bug::SkipBarrier, 3),
    from(Bug::TrimEarly, 14),
    from(Bug::SuperblockInPlace, 13),
    on(Bug::KeepFreedImage, 5),
    on(Bug::ReuseFreedEarly, 5),
    on(Bug::WriteSharedInPlace, 0),
    on(Bug::TakeTornImages, 0),
    on(Bug::TakeMissingRun, 0),
    on(Bug::DamageIsTheEnd, 0),
    on(Bug::ForgetDataCrc, 0),
    on(Bug::ForgetLeafCrc, 0),
    on(Bug::TrustCaches, 0),
    on(Bug::LoseDup, 0),
    on(Bug::HalfTransaction, 0),
    on(Bug::LeakAside, 0),
    on(Bug::ForgetShares, 0),
    // A place that was freed must be given again, with data beside a record, while an old image is on its way to it.
    on(Bug::ReuseWhileWriting, CHURN),
    // A record that a crash left behind the end of the log must fit what is written there later.
    on(Bug::KeepEpoch, STEADY),
    // A record must be sealed while a copied range waits for what is under it.
    on(Bug::HalfChange, COPIES),
    on(Bug::VolatileSpill, SPILLS),
    on(Bug::TakeMissingSpill, SPILLS),
    on(Bug::ReuseSpill, SPILLS),
    discarding(Bug::DiscardFreedEarly, 0),
    discarding(Bug::DiscardBeforeCheckpoint, SPILLS),
    discarding(Bug::GiveWhileDiscarding, 5),
    on(Bug::DropSharedLayer, 0),
    on(Bug::ForgetLayers, 0),
    on(Bug::WriteLayer, 0),
    on(Bug::KeepReplaced, 0),
    on(Bug::KeepLargeAttr, 0),
    on(Bug::LieInFilter, 0),
    on(Bug::ForgetLeafGone, 0),
    on(Bug::LoseIndexChanges, 0),
    on(Bug::ForgetFreedBlocks, 0),
    on(Bug::StoreAside, 0),
    on(Bug::LoseLastBlock, 0),
    on(Bug::TakeOldBlocks, 0),
    on(Bug::AckOneEarly, 0),
    from(Bug::SkipLastBarrier, 8),
    on(Bug::ReuseOneEarly, 5),
    on(Bug::TakeLastTorn, 0),
    on(Bug::TakeShortRun, 0),
    on(Bug::KeepLastReplaced, 0),
    on(Bug::DropAtTwo, 0),
    on(Bug::WriteLastShared, 0),
    on(Bug::LeakLastAside, 0),
    on(Bug::ForgetLastShare, 0),
];

#[test]
fn nothing_is_noticed_where_nothing_is_planted() {
    for seed in by_turns((0..SETTINGS).chain(SPILLS..ROUND).chain(DISCARDS..DISCARDS + SETTINGS)) {
        bugs::one_seed::<Block>(seed).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn planted_bugs_are_noticed() {
    let missed = bugs::missed::<Block>(32, std::env::var("BUG").ok().as_deref(), share());
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
