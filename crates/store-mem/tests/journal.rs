//! The crash-state judge before a second durable store: the memory store behind a journal of one block a turn. What a store must bring is a
//! [`Subject`]; that the judge notices this one's broken promises, too, shows that it judges stores and not one store.
//!
//! A record names transactions that this process remembers: which records count is what is judged, not how a transaction is written.

use base::{Rng, crc32c};
use disk::{AlignedBuf, BLOCK_BYTES, Completion, Dev, Disks, Durability, Order, Slow};
use std::cell::{Cell, RefCell};
use store::conformance::Shape;
use store::crash::{self, Kind, Setting, Subject};
use store::{LogDelta, ObjectStore, StoreError, StoreHints, StoreResult};
use store_mem::MemStore;
use types::Transaction;

const DEV: Dev = Dev(0);
const BLOCKS: u64 = 160;
const MAGIC: u64 = 0x006a_6f75_726e_616c;
/// Magic, sequence number, how many transactions, the first of them, checksum.
const HEAD: usize = 36;
/// The token of a flush; records' are their sequence numbers.
const FLUSH: u64 = u64::MAX;

type Given = (Transaction, Option<LogDelta>);

thread_local! {
    static REMEMBERED: RefCell<Vec<Given>> = const { RefCell::new(Vec::new()) };
    static BROKEN: Cell<Option<Bug>> = const { Cell::new(None) };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// Acknowledged when the record is sent.
    AckBeforeDurable,
    /// The record is written without durability.
    VolatileRecord,
    /// A record is taken whatever its checksum says.
    TakeTorn,
    /// A start does not flush what a killed process left in the device's cache.
    TrustCache,
    /// A bad record is the end, whatever stands behind it.
    DamageIsTheEnd,
}

fn is_broken(bug: Bug) -> bool {
    BROKEN.get() == Some(bug)
}

struct Journaled {
    inner: MemStore,
    disks: Box<dyn Disks>,
    /// Of the next record.
    seq: u64,
    /// Number of the first transaction that no record has, and the tokens of those behind it.
    open: (u64, Vec<u64>),
    under_way: Vec<u64>,
    durable: Vec<u64>,
    stopped: Option<String>,
}

fn record(seq: u64, first: u64, count: u64) -> AlignedBuf {
    let mut head = [MAGIC, seq, count, first].map(u64::to_le_bytes).concat();
    head.extend(crc32c(u32::MAX, &head).to_le_bytes());
    AlignedBuf::padded(&head)
}
/// The record that a block has: its number, its first transaction, and how many.
fn parse(block: &[u8]) -> Option<(u64, u64, u64)> {
    let word = |n: usize| u64::from_le_bytes(block[8 * n..8 * n + 8].try_into().expect("eight bytes"));
    let crc = u32::from_le_bytes(block[HEAD - 4..HEAD].try_into().expect("four bytes"));
    let is_whole = is_broken(Bug::TakeTorn) || crc == crc32c(u32::MAX, &block[..HEAD - 4]);
    (word(0) == MAGIC && is_whole).then(|| (word(1), word(3), word(2)))
}

/// Waits for one operation at the start.
fn wait(disks: &mut dyn Disks) -> Result<Option<AlignedBuf>, String> {
    let mut done: Vec<Completion> = Vec::new();
    while done.is_empty() {
        disks.wait();
        disks.poll(&mut done);
    }
    done.remove(0).result.map_err(|e| e.to_string())
}

impl Journaled {
    fn open(mut disks: Box<dyn Disks>) -> Result<Self, String> {
        if !is_broken(Bug::TrustCache) {
            disks.flush(FLUSH, DEV);
            wait(&mut *disks)?;
        }
        disks.read(0, DEV, 0, BLOCKS as usize * BLOCK_BYTES);
        let all = wait(&mut *disks)?.ok_or("nothing was read")?;
        let mut inner = MemStore::new(1 << 30);
        let found: Vec<_> = all.chunks(BLOCK_BYTES).enumerate().map(|(n, block)| parse(block).filter(|r| r.0 == n as u64)).collect();
        let end = found.iter().position(Option::is_none).unwrap_or(found.len());
        if end == 0 || (found[end..].iter().any(Option::is_some) && !is_broken(Bug::DamageIsTheEnd)) {
            return Err(format!("record {end} is damaged"));
        }
        for (_, first, count) in found[1..end].iter().flatten() {
            for n in *first..first + count {
                let given = REMEMBERED.with_borrow(|all| all.get(n as usize).cloned()).ok_or("no such transaction")?;
                inner.submit(given.0, given.1, n).map_err(|e| e.to_string())?;
            }
        }
        inner.take_commits(&mut Vec::new());
        Ok(Self { inner, disks, seq: end as u64, open: (0, Vec::new()), under_way: Vec::new(), durable: Vec::new(), stopped: None })
    }
    fn poll(&mut self) {
        let mut done = Vec::new();
        self.disks.poll(&mut done);
        for completion in done {
            match completion.result {
                Ok(_) => self.durable.append(&mut self.under_way),
                Err(e) => self.stopped = Some(e.to_string()),
            }
        }
    }
}

impl StoreHints for Journaled {}

impl ObjectStore for Journaled {
    fn submit(&mut self, txn: Transaction, log: Option<LogDelta>, token: u64) -> StoreResult<()> {
        if let Some(why) = &self.stopped {
            return Err(StoreError::Stopped(why.clone()));
        }
        if self.seq >= BLOCKS - 1 {
            return Err(StoreError::Full);
        }
        self.inner.submit(txn.clone(), log.clone(), token)?;
        let number = REMEMBERED.with_borrow_mut(|all| {
            all.push((txn, log));
            all.len() as u64 - 1
        });
        if self.open.1.is_empty() {
            self.open.0 = number;
        }
        self.open.1.push(token);
        Ok(())
    }
    fn take_commits(&mut self, tokens: &mut Vec<u64>) {
        tokens.append(&mut self.durable);
    }
    /// One record at a time: the next one begins when the last is durable.
    fn turn_end(&mut self) {
        self.poll();
        if self.open.1.is_empty() || self.disks.in_flight() > 0 || self.stopped.is_some() {
            return;
        }
        let (first, tokens) = std::mem::take(&mut self.open);
        let durability = if is_broken(Bug::VolatileRecord) { Durability::Volatile } else { Durability::Durable };
        let bytes = record(self.seq, first, tokens.len() as u64).freeze();
        self.disks.write(self.seq, DEV, self.seq * BLOCK_BYTES as u64, vec![bytes], durability);
        self.disks.kick();
        self.seq += 1;
        if is_broken(Bug::AckBeforeDurable) {
            self.durable.extend(tokens)
        } else {
            self.under_way = tokens
        }
        self.poll();
    }
    store::forward_reads!(inner);
}

struct Journal;

impl Subject for Journal {
    type Store = Journaled;
    type Opening = ();
    type Bug = Bug;

    const DAMAGED: &'static [Dev] = &[DEV];
    const DAMAGE_MAY_TAKE: usize = 1;
    const BUGS: &'static [(Bug, u64, u64)] = &[
        (Bug::AckBeforeDurable, 0, 1),
        (Bug::VolatileRecord, 0, 1),
        (Bug::TakeTorn, 0, 1),
        (Bug::TrustCache, 0, 1),
        (Bug::DamageIsTheEnd, 0, 1),
    ];

    fn setting(seed: u64) -> Setting<()> {
        Setting {
            devices: vec![BLOCKS * BLOCK_BYTES as u64],
            kind: [Kind::Chance, Kind::Steady, Kind::Churn, Kind::Copies][seed as usize % 4],
            shape: Shape { names: 8, offset_max: 40_000, changes_max: 3 },
            slow: Some((Slow::Device(DEV), 4)),
            order: [Order::Held, Order::Shuffled, Order::AtOnce][seed as usize % 3],
            checkpoint_every: 10,
            settle_every: 40,
            turn_every: 2,
            go_on_every: 32,
            go_on_max: 6,
            completions: 2,
            opening: (),
        }
    }
    fn make(mut disks: Box<dyn Disks>, _: u64) {
        disks.write(0, DEV, 0, vec![record(0, 0, 0).freeze()], Durability::Durable);
        wait(&mut *disks).expect("a device without faults");
    }
    fn open(disks: Box<dyn Disks>, _: &mut Rng, _: Option<&Setting<()>>) -> Result<Journaled, String> {
        Journaled::open(disks)
    }
    fn poll(store: &mut Journaled) {
        store.poll();
    }
    fn is_idle(store: &Journaled) -> bool {
        store.open.1.is_empty() && store.under_way.is_empty()
    }
    fn checkpoint(_: &mut Journaled) {}
    fn fsck(_: &mut Journaled) -> Vec<String> {
        Vec::new()
    }
    fn is_damaged(_: &Journaled) -> bool {
        false
    }
    fn stand(store: &Journaled) -> String {
        format!("record {}, {} open, {:?} under way, {:?}", store.seq, store.open.1.len(), store.under_way, store.stopped)
    }
    fn with_bug<T>(bug: Bug, f: impl FnOnce() -> T) -> T {
        BROKEN.set(Some(bug));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        BROKEN.set(None);
        result.unwrap_or_else(|e| std::panic::resume_unwind(e))
    }
}

#[test]
fn every_crash_state_comes_up_right() {
    assert!(crash::run_states::<Journal>(0, 2000, 0) >= 2000);
}
#[test]
fn nothing_is_noticed_where_nothing_is_planted() {
    for seed in 0..4 {
        crash::bugs::one_seed::<Journal>(seed).unwrap_or_else(|e| panic!("{e}"));
    }
}
#[test]
fn planted_bugs_are_noticed() {
    let missed = crash::bugs::missed::<Journal>(32, None, (1, 1));
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
