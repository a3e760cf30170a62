//! Faults of a device in memory: what goes wrong, and at which operation.

use crate::DiskError;
use crate::disks::Dev;
use base::Rng;
use std::collections::BTreeMap;
use std::ops::Range;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// EIO on a read or a write; of a write, some sectors land.
    Error,
    /// A read or write ends early and can't be continued; of a write, the first part lands.
    Short,
    /// A write finds no room; some sectors land.
    NoSpace,
    /// A flush fails: what it should have covered may be lost for good, whatever later flushes say.
    FlushError,
    /// A device that does not discard, and says so; some sectors are forgotten.
    DiscardError,
    /// A read gives one bit wrong, and does not say so.
    FlipRead,
    /// A write stores one bit wrong, and does not say so.
    FlipWrite,
}

/// One fault: it strikes the first operation that it fits, counted from the `nth` (0: the first) that the set starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub nth: u64,
    pub kind: FaultKind,
    /// It strikes every later operation that it fits, too.
    pub sticky: bool,
    /// On this device only.
    pub dev: Option<Dev>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpKind {
    Read,
    Write,
    Flush,
    Discard,
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    pending: Vec<Fault>,
    pub(crate) fired: u64,
    /// Blocks that can't be read, and how many more reads each fails.
    bad: BTreeMap<(Dev, u64), u32>,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.pending.push(fault);
    }
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }
    pub(crate) fn add_bad(&mut self, dev: Dev, block: u64, times: u32) {
        self.bad.insert((dev, block), times);
    }
    pub(crate) fn bad(&self) -> &BTreeMap<(Dev, u64), u32> {
        &self.bad
    }
    /// True if one of these blocks can't be read now. Those that come back are so much nearer to it.
    pub(crate) fn fails(&mut self, dev: Dev, blocks: Range<u64>) -> bool {
        let mut fails = false;
        self.bad.range_mut((dev, blocks.start)..(dev, blocks.end)).for_each(|(_, times)| {
            fails |= *times > 0;
            *times = if *times == u32::MAX { u32::MAX } else { times.saturating_sub(1) };
        });
        fails
    }
    /// A device has another place for a bad block that is written.
    pub(crate) fn written(&mut self, dev: Dev, block: u64) {
        if !self.bad.is_empty() {
            self.bad.remove(&(dev, block));
        }
    }
    /// What happens to operation number `nth`.
    pub(crate) fn strike(&mut self, nth: u64, op: OpKind, dev: Dev) -> Option<FaultKind> {
        let fits = |f: &Fault| nth >= f.nth && f.dev.is_none_or(|d| d == dev) && f.kind.fits(op);
        let at = self.pending.iter().position(fits)?;
        self.fired += 1;
        let fault = self.pending[at];
        if !fault.sticky {
            self.pending.remove(at);
        }
        Some(fault.kind)
    }
}

impl FaultKind {
    fn fits(self, op: OpKind) -> bool {
        match self {
            Self::Error | Self::Short => matches!(op, OpKind::Read | OpKind::Write),
            Self::NoSpace | Self::FlipWrite => op == OpKind::Write,
            Self::FlipRead => op == OpKind::Read,
            Self::FlushError => op == OpKind::Flush,
            Self::DiscardError => op == OpKind::Discard,
        }
    }
    /// The error that the caller sees; `None`: none.
    pub(crate) fn error(self, op: OpKind, dev: Dev, offset: u64, len_bytes: usize, rng: &mut Rng) -> Option<DiskError> {
        const EIO: i32 = 5;
        const EOPNOTSUPP: i32 = 95;
        Some(match (self, op) {
            (Self::FlipRead | Self::FlipWrite, _) => return None,
            (Self::NoSpace, _) => DiskError::NoSpace { dev, offset, len_bytes },
            (Self::Short, _) => DiskError::Short { dev, offset, len_bytes, done_bytes: rng.below(len_bytes as u64) as usize & !511 },
            (_, OpKind::Flush) => DiskError::Flush { dev, errno: EIO },
            (_, OpKind::Discard) => DiskError::Discard { dev, offset, len_bytes, errno: EOPNOTSUPP },
            (_, OpKind::Read) => DiskError::Read { dev, offset, len_bytes, errno: EIO },
            (_, OpKind::Write) => DiskError::Write { dev, offset, len_bytes, errno: EIO },
        })
    }
}
