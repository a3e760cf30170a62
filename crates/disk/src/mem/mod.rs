//! Devices in memory: completions in an order of the test's choosing, faults, and a recording of everything that was written.

mod fault;
mod image;
mod queue;

pub use fault::{Fault, FaultKind};
pub use image::Image;
pub(crate) use image::{Block, Blocks};

use crate::crash::Recording;
use crate::disks::{Completion, Dev, Disks, Durability, Token};
use crate::{AlignedBuf, BLOCK_BYTES};
use base::Rng;
use bytes::Bytes;
use fault::{Faults, OpKind};
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};

/// In which order operations complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All, in order, as soon as they are started.
    AtOnce,
    /// Each poll completes some of those under way, in any order.
    Shuffled,
    /// When the test says so: [`MemDisks::complete`], [`MemDisks::complete_any`]; or when a caller waits.
    Held,
}

/// What lags behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slow {
    Device(Dev),
    /// Writes that need not be durable.
    Volatile,
}

/// A set of devices in memory. Clones are handles of one set: a test keeps one and gives one to the store.
#[derive(Debug, Clone)]
pub struct MemDisks(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Op {
    token: Token,
    dev: Dev,
    offset: u64,
    len_bytes: usize,
    work: Work,
    /// Its place in the recording.
    recorded: Option<usize>,
    fault: Option<FaultKind>,
}

#[derive(Debug)]
enum Work {
    Read,
    Write(Vec<Bytes>, Durability),
    /// With the bytes that are there from then on. So it is a write, but for the counts.
    Discard(Vec<Bytes>),
    Flush,
}

/// What was done to one device so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// Of the writes, those that were durable ones.
    pub durable_writes: u64,
    pub flushes: u64,
    pub discards: u64,
    pub discarded_bytes: u64,
}

#[derive(Debug)]
struct Inner {
    base: Arc<Image>,
    /// Blocks that differ from `base`.
    over: Blocks<Block>,
    queued: Vec<Op>,
    under_way: Vec<Op>,
    done: Vec<Completion>,
    order: Order,
    rng: Rng,
    started: u64,
    faults: Faults,
    recording: Option<Recording>,
    traffic: Vec<Traffic>,
    /// Of each device, the blocks of its newest writes, the newest one last.
    newest: Vec<VecDeque<Range<u64>>>,
}

/// So many writes are the newest ones: see [`MemDisks::is_new`].
const NEWEST: usize = 32;

impl MemDisks {
    /// Devices of these sizes in bytes, all zeros.
    pub fn new(lens_bytes: &[u64]) -> Self {
        Self::of(Arc::new(Image::zeros(lens_bytes)), Blocks::default())
    }
    /// Devices with this content.
    pub fn with(image: Arc<Image>) -> Self {
        Self::of(image, Blocks::default())
    }
    /// Devices with the content of `base`, but for the blocks in `over`.
    pub(crate) fn of(base: Arc<Image>, over: Blocks<Block>) -> Self {
        let traffic = vec![Traffic::default(); base.devs()];
        let newest = vec![VecDeque::with_capacity(NEWEST); base.devs()];
        Self(Arc::new(Mutex::new(Inner {
            base,
            over,
            queued: Vec::new(),
            under_way: Vec::new(),
            done: Vec::new(),
            order: Order::AtOnce,
            rng: Rng::new(0),
            started: 0,
            faults: Faults::default(),
            recording: None,
            traffic,
            newest,
        })))
    }
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// From now on, operations complete in this order; `seed` is for the shuffled one and for what faults tear.
    pub fn set_order(&self, order: Order, seed: u64) {
        let mut inner = self.lock();
        inner.order = order;
        inner.rng = Rng::new(seed);
    }
    /// Operations that are under way.
    pub fn under_way(&self) -> usize {
        self.lock().under_way.len()
    }
    /// Completes the `n` oldest operations that are under way.
    pub fn complete(&self, n: usize) {
        let mut inner = self.lock();
        for _ in 0..n.min(inner.under_way.len()) {
            inner.finish(0);
        }
    }
    /// Completes one operation that is under way, whichever; false if there is none.
    pub fn complete_any(&self, rng: &mut Rng) -> bool {
        let mut inner = self.lock();
        let n = inner.under_way.len() as u64;
        if n > 0 {
            inner.finish(rng.below(n) as usize);
        }
        n > 0
    }
    /// As [`MemDisks::complete_any`], but a slow one only one time in `late`, whether there are others or not.
    pub fn complete_any_but(&self, slow: Slow, late: u64, rng: &mut Rng) -> bool {
        let mut inner = self.lock();
        let is_slow = |op: &Op| match slow {
            Slow::Device(dev) => op.dev == dev,
            Slow::Volatile => matches!(op.work, Work::Write(_, Durability::Volatile) | Work::Discard(_)),
        };
        let late = rng.chance(1, late);
        let may: Vec<usize> = (0..inner.under_way.len()).filter(|n| is_slow(&inner.under_way[*n]) == late).collect();
        if !may.is_empty() {
            inner.finish(may[rng.below(may.len() as u64) as usize]);
        }
        !may.is_empty()
    }
    /// Operations that were started since the set was made: what [`Fault::nth`] counts.
    pub fn started(&self) -> u64 {
        self.lock().started
    }
    pub fn add_fault(&self, fault: Fault) {
        self.lock().faults.add(fault);
    }
    /// No more faults.
    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }
    /// How often faults have struck.
    pub fn faults_fired(&self) -> u64 {
        self.lock().faults.fired
    }
    pub fn traffic(&self, dev: Dev) -> Traffic {
        self.lock().traffic[dev.0 as usize]
    }
    /// What is stored now; writes under way are not in it.
    pub fn image(&self) -> Arc<Image> {
        let mut inner = self.lock();
        let over = std::mem::take(&mut inner.over);
        if !over.is_empty() {
            let base = Arc::make_mut(&mut inner.base);
            over.into_iter().for_each(|((dev, block), bytes)| base.set(dev, block, bytes));
        }
        inner.base.clone()
    }
    /// The process that used the set is gone: what it had started is finished, what it had only queued is forgotten, nothing is told of either. What
    /// was to be durable may be in a cache: the flush that is a part of it died with the process.
    pub fn restart(&self) {
        let mut inner = self.lock();
        inner.queued.clear();
        while !inner.under_way.is_empty() {
            inner.land_unheard();
        }
        inner.done.clear();
    }
    /// A device becomes larger, while the set is not open.
    pub fn enlarge(&self, dev: Dev, len_bytes: u64) {
        drop(self.image());
        Arc::make_mut(&mut self.lock().base).enlarge(dev, len_bytes);
    }
    /// A second set with the same content and nothing under way.
    pub fn copy(&self) -> Self {
        Self::of(self.image(), Blocks::default())
    }
    /// Changes stored bytes behind everyone's back.
    pub fn damage(&self, dev: Dev, offset: u64, change: impl FnOnce(&mut [u8; BLOCK_BYTES])) {
        let mut inner = self.lock();
        let block = offset / BLOCK_BYTES as u64;
        let mut bytes = [0; BLOCK_BYTES];
        inner.copy_block(dev, block, &mut bytes);
        change(&mut bytes);
        inner.over.insert((dev, block), Block::of(&bytes));
    }
    /// From now on a block can't be read (EIO), for as many reads as `times` says, or until it is written; `u32::MAX`: it does not come back by itself.
    pub fn make_bad(&self, dev: Dev, block: u64, times: u32) {
        self.lock().faults.add_bad(dev, block, times);
    }
    /// True if a read of the block would fail now.
    pub fn is_bad(&self, dev: Dev, block: u64) -> bool {
        self.lock().faults.bad().get(&(dev, block)).is_some_and(|times| *times > 0)
    }
    /// The same devices, looked at as another set: bad blocks stay bad, and new ones new.
    pub fn go_on_from(&self, other: &Self) {
        let (bad, newest): (Vec<_>, _) = {
            let other = other.lock();
            (other.faults.bad().iter().map(|(at, times)| (*at, *times)).collect(), other.newest.clone())
        };
        bad.into_iter().for_each(|((dev, block), times)| self.make_bad(dev, block, times));
        self.lock().newest = newest;
    }
    /// The blocks of a device that were ever written, ascending.
    pub fn written(&self, dev: Dev) -> Vec<u64> {
        let inner = self.lock();
        let over = inner.over.keys().filter(|(d, _)| *d == dev).map(|(_, block)| *block);
        let mut all: Vec<u64> = inner.base.written(dev).chain(over).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
    /// True if one of a device's newest writes, a few dozen, went to this block.
    pub fn is_new(&self, dev: Dev, block: u64) -> bool {
        self.lock().newest[dev.0 as usize].iter().any(|blocks| blocks.contains(&block))
    }
    /// Everything that is written from now on is recorded. Nothing may be under way.
    pub fn record(&self) {
        self.record_as(Recording::new);
    }
    /// The same, for the states of the last moment alone: the recording stays small, however long it goes on.
    pub fn record_the_end(&self) {
        const KEPT_BYTES: u64 = 8 << 20;
        self.record_as(|base| Recording::of_the_end(base, KEPT_BYTES));
    }
    fn record_as(&self, make: impl FnOnce(Arc<Image>) -> Recording) {
        let base = self.image();
        let mut inner = self.lock();
        assert!(inner.under_way.is_empty() && inner.queued.is_empty(), "a recording starts at rest");
        inner.recording = Some(make(base));
    }
    /// Puts a mark of the test's own into the recording: "transaction 7 was acknowledged", say.
    pub fn note(&self, mark: u64) {
        if let Some(recording) = &mut self.lock().recording {
            recording.note(mark);
        }
    }
    /// Ends the recording.
    pub fn take_recording(&self) -> Recording {
        self.lock().recording.take().expect("a recording was started")
    }
}

impl Disks for MemDisks {
    fn len_bytes(&self, dev: Dev) -> u64 {
        self.lock().base.len_bytes(dev)
    }
    fn read(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize) {
        self.lock().queue(token, dev, offset, len_bytes, Work::Read);
    }
    fn write(&mut self, token: Token, dev: Dev, offset: u64, bufs: Vec<Bytes>, durability: Durability) {
        for buf in &bufs {
            assert!((buf.as_ptr() as usize).is_multiple_of(BLOCK_BYTES) && buf.len().is_multiple_of(BLOCK_BYTES), "aligned blocks");
        }
        let len_bytes = bufs.iter().map(Bytes::len).sum();
        self.lock().queue(token, dev, offset, len_bytes, Work::Write(bufs, durability));
    }
    fn flush(&mut self, token: Token, dev: Dev) {
        self.lock().queue(token, dev, 0, 0, Work::Flush);
    }
    /// Leaves garbage there: a store that still looks at it shall notice.
    fn discard(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize) {
        let mut garbage = vec![0; len_bytes];
        Rng::new(offset ^ token << 32).fill(&mut garbage);
        let garbage = vec![AlignedBuf::padded(&garbage).freeze()];
        self.lock().queue(token, dev, offset, len_bytes, Work::Discard(garbage));
    }
    fn kick(&mut self) {
        self.lock().kick();
    }
    fn poll(&mut self, out: &mut Vec<Completion>) {
        let mut inner = self.lock();
        if inner.order == Order::Shuffled {
            inner.finish_some();
        }
        out.append(&mut inner.done);
    }
    fn in_flight(&self) -> usize {
        let inner = self.lock();
        inner.queued.len() + inner.under_way.len() + inner.done.len()
    }
    fn wait(&mut self) {
        let mut inner = self.lock();
        inner.kick();
        if inner.done.is_empty() && !inner.under_way.is_empty() {
            let n = inner.under_way.len() as u64;
            let at = if inner.order == Order::Shuffled { inner.rng.below(n) as usize } else { 0 };
            inner.finish(at);
        }
    }
    fn event_fd(&self) -> Option<RawFd> {
        None
    }
}

#[cfg(test)]
mod tests;
