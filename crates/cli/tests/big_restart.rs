//! How long a start takes with a million small objects and a full log, after kill -9. By hand: it takes minutes and gigabytes, and its figures
//! are worth something on a machine at rest only.
//!
//! `RESTART_OBJECTS=N cargo test --release -p cli --test big_restart -- --ignored --nocapture`

mod up;

use denc::Denc;
use disk::{Disks, FileDisks};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use store::ObjectStore;
use store_block::{BlockStore, Config};
use types::{CollId, GHObject, HObject, ObjectInfo, PgId, SnapSet, SpgId, Transaction, hash};
use up::{How, Up};

const PGS: u32 = 32;
/// Of one object, as small ones are.
const BYTES: usize = 512;
/// Processor time of a start: what the wall clock shows depends on the device, too.
const CPU_MAX: Duration = Duration::from_secs(1);

/// Starts it; how long it took until it served.
fn start(dir: &Path) -> (Up, Duration) {
    let started = Instant::now();
    let up = Up::start(up::up(dir, &["--auth", "none", "--size", "12G"]), How::default());
    (up, started.elapsed())
}
/// User and system time so far.
fn cpu(up: &Up) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", up.pid())).expect("it runs");
    let fields = stat.rsplit(')').next().expect("a name in brackets").split_whitespace().skip(11).take(2);
    Duration::from_millis(fields.map(|f| f.parse::<u64>().expect("ticks") * 10).sum())
}

fn bench(dir: &Path, seconds: &str) {
    let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
    let status = cmd.args(["bench", "write", "-t", "64", "--keep", "-s", seconds, "-c"]).arg(dir.join("ceph.conf")).status();
    assert!(status.expect("it starts").success());
}

fn open(dir: &Path) -> BlockStore {
    let paths = ["data", "wal", "meta"].map(|name| dir.join("osd.0").join(name));
    let mut tries = 0;
    let disks: Box<dyn Disks> = loop {
        match FileDisks::open(&paths.each_ref().map(|p| p.as_path())) {
            Ok(disks) => break Box::new(disks),
            // The kernel lets go of a killed process' files in its own time.
            Err(e) => assert!(tries < 100, "{e}"),
        }
        tries += 1;
        std::thread::sleep(Duration::from_millis(50));
    };
    BlockStore::open(Config::default(), disks).expect("the store opens")
}

/// Puts objects into the pool's groups as an OSD would have, but for the log: that is what the bench fills.
fn fill(dir: &Path, pool: i64, objects: u64) {
    let mut store = open(dir);
    let (mut commits, mut open) = (Vec::new(), 0_u64);
    let data = denc::Bytes::from(vec![7; BYTES]);
    for n in 0..objects {
        let oid = format!("small.{n}");
        let hash = hash::rjenkins(oid.as_bytes());
        let seed = hash::stable_mod(hash, PGS, hash::bins_mask(PGS));
        let hobj = HObject { oid: oid.into_bytes().into(), hash, pool, snap: types::CEPH_NOSNAP, ..HObject::min() };
        let coll = CollId::Pg(SpgId::whole(PgId::new(pool, seed)));
        let mut txn = Transaction::new(coll);
        let info = ObjectInfo { size: BYTES as u64, ..ObjectInfo::new(hobj.clone()) };
        let obj = GHObject::plain(hobj);
        txn.create(&obj);
        txn.write(&obj, 0, data.clone(), 0);
        txn.set_attr(&obj, b"_".to_vec(), info.to_bytes(types::features::SUPPORTED));
        txn.set_attr(&obj, b"snapset".to_vec(), SnapSet::default().to_bytes(0));
        store.submit(txn, None, n).expect("there is room");
        open += 1;
        while open > 512 {
            store.poll();
            store.take_commits(&mut commits);
            open -= commits.len() as u64;
            if commits.is_empty() {
                store.wait();
            }
            commits.clear();
        }
    }
    while open > 0 {
        store.poll();
        store.take_commits(&mut commits);
        open -= commits.drain(..).count() as u64;
        store.wait();
    }
}

/// How long the log takes to be read, as a start must: what the device allows.
fn read_log(dir: &Path) -> Duration {
    let started = Instant::now();
    let mut file = std::fs::File::open(dir.join("osd.0/wal")).expect("the log");
    let mut buf = vec![0; 8 << 20];
    while file.read(&mut buf).expect("it can be read") > 0 {}
    started.elapsed()
}

#[test]
#[ignore = "takes minutes and gigabytes"]
fn a_million_objects_and_a_full_log() {
    let objects = std::env::var("RESTART_OBJECTS").map_or(1_000_000, |n| n.parse().expect("a number"));
    let dir =
        std::env::var_os("RESTART_DIR").map_or_else(std::env::temp_dir, Into::into).join(format!("humboldt-big-{}", std::process::id()));
    let (up, took) = start(&dir);
    println!("new: ready in {took:?}");
    // Makes its pool, the first of all.
    bench(&dir, "1");
    drop(up);
    let started = Instant::now();
    fill(&dir, 1, objects);
    println!("{objects} objects in {:?}", started.elapsed());
    for round in 1..=3 {
        let (up, took) = start(&dir);
        let cpu = cpu(&up);
        println!("round {round}: ready in {took:?}, {cpu:?} of a processor");
        assert!(cpu < CPU_MAX, "a start takes {cpu:?} of a processor");
        // The log is as full as it ever gets.
        bench(&dir, "20");
        drop(up);
        println!("the log alone is read in {:?}", read_log(&dir));
    }
    std::fs::remove_dir_all(&dir).expect("its folder");
}
