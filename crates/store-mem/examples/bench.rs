//! Prints what a 4 KiB write and read cost in the memory store, in nanoseconds.
//!
//! `cargo run --release -p store-mem --example bench`

use base::Rng;
use bytes::Bytes;
use std::hint::black_box;
use std::time::Instant;
use store::{FastInfo, InfoChange, LogDelta, ObjectStore};
use store_mem::MemStore;
use types::{CEPH_NOSNAP, CollId, EVersion, GHObject, HObject, LogOp, ModDesc, ObjectInfo, PgId, PgInfo, PgLogEntry, SpgId, Transaction};

const OPS: u64 = 200_000;

/// What this thread has had of the processor: a machine that others use too does not count against it.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn measure(what: &str, mut f: impl FnMut(u64)) {
    let (start, cpu) = (Instant::now(), cpu_ns());
    (0..OPS).for_each(&mut f);
    let per_op = |ns: u128| ns as f64 / OPS as f64;
    println!("{what:48} {:6.0} ns, {:6.0} ns of CPU", per_op(start.elapsed().as_nanos()), per_op(u128::from(cpu_ns() - cpu)));
}

fn main() {
    let pg = SpgId::whole(PgId::new(1, 0));
    let coll = CollId::Pg(pg);
    let mut rng = Rng::new(1);
    let names: Vec<GHObject> = (0..OPS)
        .map(|i| {
            let oid = format!("rbd_data.0123456789ab.{i:016x}").as_str().into();
            GHObject::plain(HObject { oid, pool: 1, hash: rng.u64() as u32, snap: CEPH_NOSNAP, ..HObject::min() })
        })
        .collect();
    let mut store = MemStore::new(64 << 30);
    let mut t = Transaction::new(coll);
    t.create_collection(coll, 0);
    store.submit(t, None, 0).expect("a fresh store takes a collection");
    let frame = Bytes::from(vec![7; 65536]);
    let payload = frame.slice(100..4196);
    let info = ObjectInfo::new(names[0].hobj.clone());
    let attr = denc::Denc::to_bytes(&info, denc::ALL_FEATURES);
    let mut commits = Vec::new();
    let mut write = |store: &mut MemStore, name: &GHObject, offset: u64, log: bool, i: u64| {
        let mut t = Transaction::new(coll);
        t.write(name, offset, payload.clone(), 0);
        t.set_attr(name, types::ByteStr::from_static("_"), attr.clone());
        let delta = log.then(|| {
            let version = EVersion::new(1, i + 1);
            let mut delta = LogDelta::new(pg);
            delta.info = InfoChange::Fast(FastInfo { last_update: version, ..FastInfo::of(&PgInfo::new(pg)) });
            delta.entries.push(PgLogEntry {
                op: LogOp::MODIFY,
                soid: name.hobj.clone(),
                version,
                mod_desc: ModDesc::unrollbackable(),
                ..PgLogEntry::default()
            });
            if i > 3000 {
                delta.trim_to = Some(EVersion::new(1, i - 3000));
            }
            delta
        });
        store.submit(t, delta, i).expect("it has room");
        commits.clear();
        store.take_commits(&mut commits);
    };
    measure("the load alone: a transaction that is thrown away", |_| {
        let name = &names[rng.below(OPS) as usize];
        let mut t = Transaction::new(coll);
        t.write(name, 0, payload.clone(), 0);
        t.set_attr(name, types::ByteStr::from_static("_"), attr.clone());
        black_box(t);
    });
    measure("write 4 KiB, new object", |i| write(&mut store, &names[i as usize], 0, false, i));
    measure("overwrite 4 KiB, 200,000 objects", |i| write(&mut store, &names[rng.below(OPS) as usize], 0, false, i));
    let big = &names[0];
    (0..1024).for_each(|i| write(&mut store, big, i * 4096, false, i));
    measure("overwrite 4 KiB of 4 MiB", |i| write(&mut store, big, rng.below(1024) * 4096, false, i));
    measure("overwrite 4 KiB of 4 MiB, with a log entry", |i| write(&mut store, big, rng.below(1024) * 4096, true, i));
    measure("read 4 KiB of 4 MiB", |_| {
        black_box(store.read(coll, big, rng.below(1024) * 4096, 4096).expect("it is there"));
    });
    measure("read 4 KiB, 200,000 objects", |_| {
        black_box(store.read(coll, &names[rng.below(OPS) as usize], 0, 4096).expect("it is there"));
    });
    measure("write 4 KiB while the last read is held", |i| {
        let offset = rng.below(1024) * 4096;
        let held = store.read(coll, big, offset, 4096).expect("it is there");
        write(&mut store, big, offset, false, i);
        drop(held);
    });
}
