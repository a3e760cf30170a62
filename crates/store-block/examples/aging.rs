//! How a store ages: `cargo run --release -p store-block --example aging -- FOLDER|mem [PICTURE.svg] [TIMES]`.
//!
//! An image of 256 MiB in objects of 4 MiB gets overwrites of 4 KiB, 64 KiB and 1 MiB, ten times its size unless TIMES says otherwise, with a
//! snapshot now and then: objects are cloned when they are first written behind it, and the clones of the fourth snapshot before are
//! removed. Shown over time: how fast it goes, and in how many pieces the worst object lies. Then the aged store does the work of a tenth once more,
//! a little at a time and in turns with a young one that does the same: a machine that others use is a fifth faster or slower from one second to the
//! next. Exits with an error when an object is in more pieces than the layout promises (one for each 64 KiB), or when the aged store needs more than
//! 10 % more CPU time than the young one.

// As the program has it: glibc's heap ages, too.
#[path = "../../cli/src/allocator.rs"]
mod allocator;
mod shared;

use bytes::Bytes;
use shared::{ask, devices};
use std::collections::VecDeque;
use std::time::Instant;
use store::ObjectStore;
use store_block::{BlockStore, Config};
use types::{CEPH_NOSNAP, CollId, GHObject, HObject, OI_ATTR, PgId, SpgId, Transaction};

const OBJECT: u64 = 4 << 20;
const OBJECTS: u64 = 64;
const IMAGE: u64 = OBJECT * OBJECTS;
const DEPTH: usize = 16;
/// Snapshots for each time that the image's size is written.
const SNAPS: u64 = 4;
const SNAPS_KEPT: u64 = 3;
const PIECES_MAX: usize = (OBJECT / (64 << 10)) as usize;
/// Points of the curve.
const POINTS: usize = 100;
/// Turns of the aged and the young store.
const TURNS: u64 = 80;

const COLL: CollId = CollId::Pg(SpgId::whole(PgId::new(1, 0)));

fn object(n: u64, snap: u64) -> GHObject {
    let hash = (n as u32).wrapping_mul(0x9e37_79b9);
    GHObject::plain(HObject { oid: format!("rbd_data.aged.{n:016x}").into(), hash, pool: 1, snap, ..HObject::min() })
}

fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

struct Image {
    store: BlockStore,
    rng: base::Rng,
    next: u64,
    waiting: VecDeque<u64>,
    data: Bytes,
    snap: u64,
    /// Bytes since the last snapshot.
    since_snap: u64,
    /// By object: the snapshot before which it was last written; clones there are.
    written_at: Vec<u64>,
    clones: Vec<(u64, u64)>,
}

impl Image {
    /// On new devices: filled, and with as many snapshots as there are later, so that the first overwrites are the same work as the last ones.
    fn new(folder: &str) -> Self {
        let uuid = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |t| t.as_nanos()).to_le_bytes();
        let disks = BlockStore::mkfs(devices(folder, LENS), uuid).expect("a store");
        let store = BlockStore::open(Config::default(), disks).expect("it opens");
        let mut data = vec![0; 8 << 20];
        base::Rng::new(9).fill(&mut data);
        let mut image = Self {
            store,
            rng: base::Rng::new(1),
            next: 0,
            waiting: VecDeque::new(),
            data: data.into(),
            snap: 0,
            since_snap: 0,
            written_at: vec![0; OBJECTS as usize],
            clones: Vec::new(),
        };
        let mut txn = Transaction::new(COLL);
        txn.create_collection(COLL, 0);
        image.submit(txn);
        (0..OBJECTS).for_each(|n| (0..OBJECT >> 20).for_each(|mib| image.write(n, mib << 20, 1 << 20)));
        for _ in 0..SNAPS_KEPT {
            image.take_snap();
            (0..OBJECTS).for_each(|n| image.write(n, 0, 4 << 10));
        }
        image.take_snap();
        image.settle(1);
        image
    }
    /// Overwrites of so many bytes or some more, until they are durable; the bytes, and the seconds that they took of the clock and of CPU.
    fn work(&mut self, bytes: u64) -> (u64, f64, f64) {
        let (wall, cpu, mut written) = (Instant::now(), cpu_seconds(), 0);
        while written < bytes {
            let len = self.overwrite();
            written += len;
            self.since_snap += len;
            if self.since_snap >= IMAGE / SNAPS {
                self.take_snap();
            }
        }
        self.settle(1);
        (written, wall.elapsed().as_secs_f64(), (cpu_seconds() - cpu).max(1e-6))
    }
    fn submit(&mut self, txn: Transaction) {
        self.next += 1;
        self.store.submit(txn, None, self.next).expect("it fits");
        self.waiting.push_back(self.next);
        self.settle(DEPTH);
    }
    fn settle(&mut self, depth: usize) {
        let mut done = Vec::new();
        loop {
            self.store.turn_end();
            self.store.take_commits(&mut done);
            self.store.take_ready(&mut Vec::new());
            done.drain(..).for_each(|token| assert_eq!(self.waiting.pop_front(), Some(token)));
            if self.waiting.len() < depth.max(1) {
                return;
            }
            if let Some(why) = self.store.failure() {
                panic!("{why}");
            }
            self.store.wait();
        }
    }
    fn write(&mut self, n: u64, offset: u64, len: u64) {
        let head = object(n, CEPH_NOSNAP);
        let mut txn = Transaction::new(COLL);
        let written = std::mem::replace(&mut self.written_at[n as usize], self.snap);
        if written < self.snap {
            txn.clone_object(&head, &object(n, self.snap));
            self.clones.push((n, self.snap));
        }
        let at = self.rng.below(self.data.len() as u64 - len) as usize;
        txn.write(&head, offset, self.data.slice(at..at + len as usize), 0);
        txn.set_attr(&head, OI_ATTR, Bytes::from(vec![self.next as u8; 250]));
        self.submit(txn);
    }
    /// One overwrite: mostly small, most bytes in large ones. Returns its bytes.
    fn overwrite(&mut self) -> u64 {
        let len = match self.rng.below(100) {
            0..70 => 4 << 10,
            70..95 => 64 << 10,
            _ => 1 << 20,
        };
        let (n, slot) = (self.rng.below(OBJECTS), self.rng.below(OBJECT / len));
        self.write(n, slot * len, len);
        len
    }
    fn take_snap(&mut self) {
        self.snap += 1;
        self.since_snap = 0;
        let gone = self.snap.saturating_sub(SNAPS_KEPT);
        for (n, snap) in self.clones.extract_if(.., |(_, snap)| *snap <= gone).collect::<Vec<_>>() {
            let mut txn = Transaction::new(COLL);
            txn.remove(&object(n, snap));
            self.submit(txn);
        }
    }
    fn worst_pieces(&mut self) -> usize {
        self.settle(1);
        let heads = (0..OBJECTS).map(|n| object(n, CEPH_NOSNAP));
        let all: Vec<GHObject> = heads.chain(self.clones.iter().map(|(n, snap)| object(*n, *snap))).collect();
        all.iter().map(|obj| ask(&mut self.store, |store| store.pieces(COLL, obj))).max().unwrap_or(0)
    }
}

/// Bytes of data, log and metadata.
const LENS: [u64; 3] = [2 << 30, 64 << 20, 256 << 20];

/// A point of the curve.
#[derive(Clone, Copy)]
struct Point {
    times: f64,
    wall_mib_s: f64,
    cpu_mib_s: f64,
    pieces: usize,
}

fn picture(points: &[Point]) -> String {
    const W: f64 = 900.0;
    const H: f64 = 360.0;
    let last = points.last().map_or(1.0, |p| p.times);
    let line = |name: &str, color: &str, value: &dyn Fn(&Point) -> f64, unit: &str, row: usize| {
        let top = points.iter().map(value).fold(1e-9, f64::max) * 1.1;
        let at: Vec<String> = points
            .iter()
            .map(|p| format!("{:.1},{:.1}", 60.0 + p.times / last * (W - 80.0), H - 40.0 - value(p) / top * (H - 80.0)))
            .collect();
        format!(
            "<polyline fill='none' stroke='{color}' stroke-width='1.5' points='{}'/>\n<text x='{}' y='20' fill='{color}'>{name} (top: {top:.0} {unit})</text>\n",
            at.join(" "),
            60 + row * 270
        )
    };
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {W} {H}' font-family='sans-serif' font-size='12'>\n<rect width='{W}' height='{H}' fill='white'/>\n\
         <path d='M60 {0} H{1} M60 40 V{0}' stroke='black' fill='none'/>\n<text x='{2}' y='{3}'>written, in image sizes: 0 to {last:.1}</text>\n{4}{5}{6}</svg>\n",
        H - 40.0,
        W - 20.0,
        W / 2.0 - 90.0,
        H - 15.0,
        line("speed by the clock", "steelblue", &|p| p.wall_mib_s, "MiB/s", 0),
        line("speed by CPU time", "seagreen", &|p| p.cpu_mib_s, "MiB/s", 1),
        line("pieces of the worst object", "firebrick", &|p| p.pieces as f64, "pieces", 2)
    )
}

fn main() {
    allocator::tune();
    let args: Vec<String> = std::env::args().collect();
    let folder = args.get(1).map_or("mem", |s| s.as_str());
    let times: u64 = args.get(3).map_or(10, |s| s.parse().expect("how many times the image's size"));
    let mut image = Image::new(folder);
    let total = IMAGE * times;
    let (mut written, mut points) = (0, Vec::<Point>::new());
    while written < total {
        let (bytes, wall, cpu) = image.work((total / POINTS as u64).min(total - written));
        written += bytes;
        let mib = bytes as f64 / f64::from(1 << 20);
        let times = written as f64 / IMAGE as f64;
        points.push(Point { times, wall_mib_s: mib / wall, cpu_mib_s: mib / cpu, pieces: image.worst_pieces() });
    }
    if let Some(path) = args.get(2) {
        std::fs::write(path, picture(&points)).expect("the picture");
    }
    let tenth = points.len().div_ceil(10);
    // Medians: what else the machine does comes in bursts.
    fn median<T>(part: &[T], f: impl Fn(&T) -> f64) -> f64 {
        let mut all: Vec<f64> = part.iter().map(f).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }
    let (first, last) = (&points[..tenth], &points[points.len() - tenth..]);
    let tenths: Vec<String> = points.chunks(tenth).map(|part| format!("{:.0}", median(part, |p| p.cpu_mib_s))).collect();
    println!("MiB for each second of CPU time, by tenth: {}", tenths.join(" "));
    let pieces = points.iter().map(|p| p.pieces).max().unwrap_or(0);
    println!(
        "{:.1} times the image written: first tenth {:.0} MiB/s ({:.0} by CPU time), last tenth {:.0} MiB/s ({:.0}); the worst object in {pieces} pieces, {PIECES_MAX} allowed; {:?}",
        written as f64 / IMAGE as f64,
        median(first, |p| p.wall_mib_s),
        median(first, |p| p.cpu_mib_s),
        median(last, |p| p.wall_mib_s),
        median(last, |p| p.cpu_mib_s),
        image.store.stats().memory
    );
    assert!(pieces <= PIECES_MAX, "an object is in {pieces} pieces");
    let mut young = Image::new(&if folder == "mem" { folder.to_string() } else { format!("{folder}/young") });
    image.take_snap();
    let mut turns = Vec::new();
    for turn in 0..TURNS {
        // The same overwrites; which comes first takes turns, too.
        let mut both = [&mut image, &mut young];
        both.iter_mut().for_each(|image| image.rng = base::Rng::new(100 + turn));
        if turn % 2 == 1 {
            both.reverse();
        }
        let mut took = both.map(|image| image.work(total / 10 / TURNS));
        if turn % 2 == 1 {
            took.reverse();
        }
        turns.push((took[1].1 / took[0].1, took[1].2 / took[0].2));
    }
    let (wall, cpu) = (median(&turns, |t| t.0), median(&turns, |t| t.1));
    println!(
        "the aged store in turns with a young one: {wall:.2} times its speed by the clock, {cpu:.2} times by CPU time (medians of {TURNS})"
    );
    assert!(cpu > 0.9, "the aged store has {cpu:.2} times the speed of a young one");
}
