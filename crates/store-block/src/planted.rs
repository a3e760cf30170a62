//! Promises that tests break on purpose, one at a time, to see that a check notices. In every other build none is ever broken: the switch is a
//! constant, and the branches behind it are gone.

/// A promise, by what happens when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(any(test, debug_assertions)), allow(dead_code))]
pub enum Bug {
    /// Acknowledged when the record is sent, not when it is durable.
    AckBeforeDurable,
    /// Acknowledged when the record is durable, though one before it is not.
    AckOutOfOrder,
    /// The record is written without durability.
    VolatileRecord,
    /// Data beside the record are written without durability.
    VolatileRun,
    /// A checkpoint does not flush the data device.
    SkipDataFlush,
    /// A checkpoint does not flush the meta device.
    SkipMetaFlush,
    /// A checkpoint does not flush the data device after it has written metadata to it.
    SkipLentFlush,
    /// Chunks that are lent to metadata are stored as used by data: they are never freed.
    StoreLent,
    /// Transactions are accepted without a look at the room for their rows.
    AcceptWithoutRoom,
    /// Gaps count as available, whatever comes.
    CountGaps,
    /// A small attribute writes all others of its object again.
    RewriteAttrs,
    /// A checkpoint does not wait until images are at their places.
    SkipDrain,
    /// A checkpoint counts though records that it has are not durable.
    SkipBarrier,
    /// The log's room is used again before the checkpoint is durable.
    TrimEarly,
    /// Superblocks are written over the one that counts.
    SuperblockInPlace,
    /// An image survives that its place was freed.
    KeepFreedImage,
    /// Freed blocks are given again before what freed them is durable.
    ReuseFreedEarly,
    /// Freed blocks are given again while an image is still on its way to them.
    ReuseWhileWriting,
    /// Freed blocks are discarded before what freed them is durable.
    DiscardFreedEarly,
    /// Changes beside a record are discarded before the checkpoint is durable that has them.
    DiscardBeforeCheckpoint,
    /// Chunks are given to data while they are being discarded.
    GiveWhileDiscarding,
    /// A clone's chunks are not marked as shared.
    WriteSharedInPlace,
    /// A record is taken though its images have not their crcs.
    TakeTornImages,
    /// The last record is taken though the data beside it are not there.
    TakeMissingRun,
    /// Damage in mid-log is taken for its end.
    DamageIsTheEnd,
    /// Data are given out without a look at their crc.
    ForgetDataCrc,
    /// Metadata are taken without a look at their crc.
    ForgetLeafCrc,
    /// A restart begins no new epoch.
    KeepEpoch,
    /// A start does not flush what a killed process left in the devices' caches.
    TrustCaches,
    /// Of two records of one number, that which an earlier epoch left behind is taken.
    TakeLeftBehind,
    /// A dup is lost.
    LoseDup,
    /// A record is sent while it has half a transaction.
    HalfTransaction,
    /// A record is sent while the first change of a transaction is half made.
    HalfChange,
    /// Blocks that wait to be free are stored as used.
    LeakAside,
    /// What shares what is not stored.
    ForgetShares,
    /// Changes beside a record are written without durability.
    VolatileSpill,
    /// A record is taken though the changes beside it are not there.
    TakeMissingSpill,
    /// Chunks with changes beside a record are given again before the record is trimmed.
    ReuseSpill,
    /// A layer's rows go with the first that stands on it.
    DropSharedLayer,
    /// What stands on layers is not stored.
    ForgetLayers,
    /// An object whose omap was shared goes on changing the rows that are a layer.
    WriteLayer,
    /// A block that is written beside what clones share stays where it was, too.
    KeepReplaced,
    /// A checkpoint drops the changes to rows of a leaf that it can't read.
    DropBesideBadLeaf,
    /// The last cell of a large attribute stays when the attribute goes.
    KeepLargeAttr,
    /// A leaf's filter says that its last row is not there.
    LieInFilter,
    /// Changes of the index don't say that a leaf is gone.
    ForgetLeafGone,
    /// A part of the index has none of its changes.
    LoseIndexChanges,
    /// A part of the index is taken whatever it follows.
    TakeStalePart,
    /// Changes of the index don't say which blocks the leaf had that is gone.
    ForgetFreedBlocks,
    /// Blocks that are free when the checkpoint is durable are stored as leaves'.
    StoreAside,
    /// The last block that a leaf has is stored as free.
    LoseLastBlock,
    /// Of the blocks that leaves have, those are taken that the checkpoint before had.
    TakeOldBlocks,
    /// A scan that makes a range of the removed rows that it passed takes the first row behind them along.
    SweepTooFar,

    // The same promises, broken at the last one only.
    /// A record is acknowledged when the one before it is durable.
    AckOneEarly,
    /// A checkpoint counts though the last record that it has is not durable.
    SkipLastBarrier,
    /// Freed blocks are given again when the record before the one that freed them is durable.
    ReuseOneEarly,
    /// A record is taken though its last image has not its crc.
    TakeLastTorn,
    /// A record is taken though the last block beside it is not there.
    TakeShortRun,
    /// A block that is written beside what clones share stays where it was, if there is one more place.
    KeepLastReplaced,
    /// A layer's rows go with the last but one that stands on it.
    DropAtTwo,
    /// The last of a clone's chunks is not marked as shared.
    WriteLastShared,
    /// The last blocks that wait to be free are stored as used.
    LeakLastAside,
    /// The last count of a block's sharers is not stored.
    ForgetLastShare,
}

base::planted_bugs!(Bug, any(test, debug_assertions));
