//! The block store on a modelled SSD that answers nothing while it discards: room goes back to it, and a 99th percentile does not see that.

use bytes::Bytes;
use disk::{AlignedBuf, Completion, Dev, Disks, Durability, MemDisks, Token};
use lab::model::{Ask, Device};
use lab::study::file::Model;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;
use store::conformance::{object_coll, object_name};
use store::{ObjectStore, StoreHints};
use store_block::{BlockStore, Config};
use types::Transaction;

/// Data, log and metadata: parts of one device.
const LENS: [u64; 3] = [256 << 20, 64 << 20, 16 << 20];
const OBJECT: usize = 64 << 10;
/// Objects that are there at a time.
const LIVE: u64 = 500;
/// Changes, and the time between two of them. Longer than the device takes, so that they queue up behind a stall only.
const CHANGES: u64 = 20_000;
const EVERY_NS: u64 = 3_000_000;
const STALL_US: u64 = 30_000;

/// Devices in memory that answer when the model says so, in a time of the test's own.
struct Timed {
    disks: MemDisks,
    device: Device,
    now: Rc<Cell<u64>>,
    /// By token, and by time.
    due: BTreeMap<Token, u64>,
    waiting: BTreeMap<(u64, Token), Completion>,
}

impl Timed {
    fn at(dev: Dev, offset: u64) -> u64 {
        LENS[..usize::from(dev.0)].iter().sum::<u64>() + offset
    }
    fn ask(&mut self, token: Token, asks: &[Ask]) {
        let due = asks.iter().fold(self.now.get(), |now, ask| self.device.answers(now, *ask));
        self.due.insert(token, due);
    }
}

impl Disks for Timed {
    fn len_bytes(&self, dev: Dev) -> u64 {
        self.disks.len_bytes(dev)
    }
    fn read(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize) {
        self.ask(token, &[Ask::Read { at: Self::at(dev, offset), len: len_bytes as u64 }]);
        self.disks.read(token, dev, offset, len_bytes);
    }
    fn write(&mut self, token: Token, dev: Dev, offset: u64, bufs: Vec<Bytes>, durability: Durability) {
        let write = Ask::Write { at: Self::at(dev, offset), len: bufs.iter().map(|b| b.len() as u64).sum() };
        let asks = [write, Ask::Flush];
        self.ask(token, if durability == Durability::Durable { &asks } else { &asks[..1] });
        self.disks.write(token, dev, offset, bufs, durability);
    }
    fn flush(&mut self, token: Token, dev: Dev) {
        self.ask(token, &[Ask::Flush]);
        self.disks.flush(token, dev);
    }
    fn discard(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize) {
        self.ask(token, &[Ask::Discard { at: Self::at(dev, offset), len: len_bytes as u64 }]);
        self.disks.discard(token, dev, offset, len_bytes);
    }
    fn kick(&mut self) {
        self.disks.kick();
        let mut done = Vec::new();
        self.disks.poll(&mut done);
        for completion in done {
            let due = self.due.remove(&completion.token).expect("it was asked");
            self.waiting.insert((due, completion.token), completion);
        }
    }
    fn poll(&mut self, out: &mut Vec<Completion>) {
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= self.now.get()) {
            out.push(first.remove());
        }
    }
    fn in_flight(&self) -> usize {
        self.waiting.len() + self.disks.in_flight()
    }
    /// The time of the first answer comes.
    fn wait(&mut self) {
        self.kick();
        if let Some(((due, _), _)) = self.waiting.first_key_value() {
            self.now.set(self.now.get().max(*due));
        }
    }
    fn event_fd(&self) -> Option<RawFd> {
        None
    }
}

fn ssd() -> Device {
    Device::new(
        &Model {
            mib_s: Some(540),
            flush_us: Some(300),
            cache_mib: Some(64),
            cache_mib_s: Some(540),
            discard_us: Some(STALL_US as i64),
            ..Model::default()
        },
        1 << 30,
    )
}

/// Whether room is given back, and by which clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gives {
    Nothing,
    Paced,
    /// By a clock that stands: no discard takes any time, it says, and no rest is needed.
    Hurried,
}

/// The latencies of changes in ns, ascending, and the bytes that the device had back.
fn latencies(gives: Gives) -> (Vec<u64>, u64) {
    let now = Rc::new(Cell::new(0));
    let disks = MemDisks::new(&LENS);
    let timed = |now: &Rc<Cell<u64>>| -> Box<dyn Disks> {
        Box::new(Timed { disks: disks.clone(), device: ssd(), now: now.clone(), due: BTreeMap::new(), waiting: BTreeMap::new() })
    };
    BlockStore::mkfs(timed(&now), [7; 16]).expect("a store");
    let mut store = BlockStore::open(Config::default(), timed(&now)).expect("it opens");
    store.gives_back(gives != Gives::Nothing);
    let data = AlignedBuf::padded(&vec![5; OBJECT]).freeze();
    let (mut given, mut all, mut done) = (BTreeMap::new(), Vec::new(), Vec::new());
    let start = now.get();
    let mut turn = |store: &mut BlockStore, given: &mut BTreeMap<u64, u64>| {
        store.turn_end();
        store.take_commits(&mut done);
        all.extend(done.drain(..).map(|token| now.get() - given.remove(&token).expect("it was given")));
        store.give_back(if gives == Gives::Paced { Duration::from_nanos(now.get()) } else { Duration::ZERO });
    };
    for n in 0..CHANGES {
        let at = start + n * EVERY_NS;
        // Whatever is answered until then is a turn of its own.
        while now.get() < at {
            let before = now.get();
            if store.stats().idle {
                now.set(at);
            } else {
                store.wait();
                now.set(now.get().min(at).max(before));
            }
            turn(&mut store, &mut given);
        }
        let mut txn = Transaction::new(object_coll(0));
        if n == 0 {
            txn.create_collection(object_coll(0), 0);
        }
        txn.write(&object_name(n), 0, data.clone(), 0);
        if n >= LIVE {
            txn.remove(&object_name(n - LIVE));
        }
        store.submit(txn, None, n).expect("there is room");
        given.insert(n, at);
        if n % 500 == 499 {
            store.checkpoint();
        }
        turn(&mut store, &mut given);
    }
    while !given.is_empty() {
        store.wait();
        turn(&mut store, &mut given);
    }
    let bytes = store.given_back();
    assert_eq!(store.failure(), None);
    drop(turn);
    all.sort_unstable();
    (all, bytes)
}

#[test]
fn a_percentile_does_not_see_a_device_stall_for_discards() {
    let all = [Gives::Nothing, Gives::Paced, Gives::Hurried].map(latencies);
    let [p99, max] = [99, 100].map(|share| all.each_ref().map(|(ns, _)| ns[(ns.len() * share / 100).min(ns.len() - 1)] / 1000));
    let bytes = all.each_ref().map(|(_, bytes)| *bytes);
    println!("nothing, paced, hurried: p99 {p99:?} us, max {max:?} us, {bytes:?} bytes given back");
    assert!(all.iter().all(|(ns, _)| ns.len() == CHANGES as usize));
    assert!(bytes[0] == 0 && bytes[1] >= 4 << 20 && bytes[2] > bytes[1], "{bytes:?}");
    assert!(max[0] < STALL_US && max[1] >= STALL_US, "some change met a stall: {max:?}");
    assert!(p99[1] * 10 <= p99[0] * 12, "{p99:?}");
    assert!(p99[2] * 10 > p99[0] * 12, "without a rest it is seen: {p99:?}");
}
