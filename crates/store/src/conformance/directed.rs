//! Cases with a name.

use super::workload::{coll, name};
use super::{Subject, ask, wait_for};
use crate::{ObjectStore, StoreError};
use bytes::Bytes;
use types::{CollId, GHObject, HObject, IntervalSet, Transaction};

pub fn run(subject: &mut dyn Subject) {
    missing_things(subject);
    sparse_objects(subject);
    holes_are_told_to_the_byte(subject);
    of_many_holes_no_data_are_told_as_one(subject);
    a_batch_is_visible_at_once(subject);
    full(subject);
    mistakes_stop(subject);
    temporary_and_own_objects_sort(subject);
    a_page_of_none_has_one(subject);
    statfs_follows(subject);
}

fn with_coll(subject: &mut dyn Subject) -> Box<dyn ObjectStore> {
    let mut store = subject.fresh();
    let mut t = Transaction::new(coll(0));
    t.create_collection(coll(0), 0);
    store.submit(t, None, 1).expect("a collection");
    store
}

fn missing_things(subject: &mut dyn Subject) {
    let mut store = with_coll(subject);
    let (here, there, a) = (coll(0), coll(9), name(0));
    assert_eq!(ask(subject, &mut *store, |s| s.exists(there, &a)), Err(StoreError::NoCollection(there)));
    assert_eq!(ask(subject, &mut *store, |s| s.collection_bits(there)), Ok(None));
    assert_eq!(ask(subject, &mut *store, |s| s.read(here, &a, 0, 1).map(|_| ())), Err(StoreError::NoObject(here)));
    assert_eq!(ask(subject, &mut *store, |s| s.omap_header(here, &a)), Err(StoreError::NoObject(here)));
    // Changes that do nothing to what is not there.
    let mut t = Transaction::new(here);
    t.remove(&a);
    t.truncate(&a, 100);
    t.omap_clear(&a);
    t.rm_attrs(&a);
    t.try_rename(&a, &name(2));
    t.nop();
    store.submit(t, None, 2).expect("nothing to do");
    assert_eq!(ask(subject, &mut *store, |s| s.exists(here, &a)), Ok(false));
}

fn sparse_objects(subject: &mut dyn Subject) {
    let mut store = with_coll(subject);
    let (c, a) = (coll(0), name(0));
    let mut t = Transaction::new(c);
    t.write(&a, 1 << 20, Bytes::from_static(b"far"), 0);
    t.write(&a, 5 << 20, Bytes::new(), 0);
    store.submit(t, None, 2).expect("a write");
    assert_eq!(ask(subject, &mut *store, |s| s.stat(c, &a)).expect("a stat").size, (1 << 20) + 3, "a write of nothing grows nothing");
    let data = ask(subject, &mut *store, |s| s.read(c, &a, (1 << 20) - 2, 100)).expect("a read");
    assert_eq!(data.flat()[..], *b"\0\0far");
    assert!(ask(subject, &mut *store, |s| s.read(c, &a, 2 << 20, 5)).expect("a read").is_empty());
    // Shrunk and grown again: what was cut off is zeros.
    let mut t = Transaction::new(c);
    t.truncate(&a, (1 << 20) + 1);
    t.truncate(&a, 2 << 20);
    store.submit(t, None, 3).expect("truncates");
    let data = ask(subject, &mut *store, |s| s.read(c, &a, 1 << 20, 3)).expect("a read");
    assert_eq!(data.flat()[..], *b"f\0\0");
    let mut t = Transaction::new(c);
    t.zero(&a, 0, 4 << 20);
    store.submit(t, None, 4).expect("zeros");
    assert_eq!(ask(subject, &mut *store, |s| s.stat(c, &a)).expect("a stat").size, 4 << 20);
}

/// Each change of one object, and what a sparse read is to be told afterwards.
fn holes_are_told_to_the_byte(subject: &mut dyn Subject) {
    const FAR: u64 = 40_000;
    let (c, a, b) = (coll(0), name(0), name(1));
    let write = |at: u64, len: usize| move |t: &mut Transaction, a: &GHObject| t.write(a, at, vec![7; len].into(), 0);
    let zero = |at: u64, len: u64| move |t: &mut Transaction, a: &GHObject| t.zero(a, at, len);
    let truncate = |size: u64| move |t: &mut Transaction, a: &GHObject| t.truncate(a, size);
    type Change<'a> = Box<dyn Fn(&mut Transaction, &GHObject) + 'a>;
    let steps: [(Change<'_>, &[(u64, u64)]); 16] = [
        (Box::new(write(1, 1)), &[(1, 1)]),
        (Box::new(write(3, 1)), &[(1, 1), (3, 1)]),
        // Appended to, and written behind the end.
        (Box::new(write(4, 6)), &[(1, 1), (3, 7)]),
        (Box::new(write(5000, 10)), &[(1, 1), (3, 7), (5000, 10)]),
        (Box::new(write(5005, 5000)), &[(1, 1), (3, 7), (5000, 5005)]),
        // Within a unit that is there, over its end, and in front of it.
        (Box::new(write(4990, 5)), &[(1, 1), (3, 7), (4990, 5), (5000, 5005)]),
        (Box::new(write(FAR, 8192)), &[(1, 1), (3, 7), (4990, 5), (5000, 5005), (FAR, 8192)]),
        (Box::new(write(12, 4970)), &[(1, 1), (3, 7), (12, 4970), (4990, 5), (5000, 5005), (FAR, 8192)]),
        // A hole is made in data, at its edge, over several.
        (Box::new(zero(100, 10)), &[(1, 1), (3, 7), (12, 88), (110, 4872), (4990, 5), (5000, 5005), (FAR, 8192)]),
        (Box::new(zero(5, 200)), &[(1, 1), (3, 2), (205, 4777), (4990, 5), (5000, 5005), (FAR, 8192)]),
        (Box::new(zero(4096, 4096)), &[(1, 1), (3, 2), (205, 3891), (8192, 1813), (FAR, 8192)]),
        // Shorter, longer, and written in what was cut off.
        (Box::new(truncate(FAR + 5)), &[(1, 1), (3, 2), (205, 3891), (8192, 1813), (FAR, 5)]),
        (Box::new(truncate(FAR + 9000)), &[(1, 1), (3, 2), (205, 3891), (8192, 1813), (FAR, 5)]),
        (Box::new(write(FAR + 100, 1)), &[(1, 1), (3, 2), (205, 3891), (8192, 1813), (FAR, 5), (FAR + 100, 1)]),
        // Zeros behind the end make it longer; whole units are written.
        (Box::new(zero(FAR + 9000, 100_000)), &[(1, 1), (3, 2), (205, 3891), (8192, 1813), (FAR, 5), (FAR + 100, 1)]),
        (Box::new(write(0, 65_536)), &[(0, 65_536)]),
    ];
    // As one transaction each, with a clone that shares what there is, and after the store was closed.
    for (clones, reopens) in [(false, false), (true, false), (false, true)] {
        let mut store = with_coll(subject);
        for (n, (change, told)) in steps.iter().enumerate() {
            let mut t = Transaction::new(c);
            change(&mut t, &a);
            if clones {
                t.clone_object(&a, &name(10 + n as u64));
            }
            store.submit(t, None, 2 + n as u64).expect("a change");
            if reopens {
                let mut tokens = (if n == 0 { 1 } else { 2 + n as u64 }..=2 + n as u64).collect();
                wait_for(subject, &mut *store, &mut tokens);
                store = subject.reopen(store);
            }
            let extents = ask(subject, &mut *store, |s| s.extents(c, &a, 0, u64::MAX)).expect("extents");
            assert_eq!(extents.as_slice(), *told, "after step {n}");
            let part = ask(subject, &mut *store, |s| s.extents(c, &a, 4, 5000)).expect("extents");
            assert_eq!(part, extents.intersection(&IntervalSet::of(4, 5000)), "of a part, after step {n}");
            if clones {
                let clone = ask(subject, &mut *store, |s| s.extents(c, &name(10 + n as u64), 0, u64::MAX)).expect("extents");
                assert_eq!(clone.as_slice(), *told, "of the clone of step {n}");
            }
        }
        // A range of an earlier clone, beside what is kept.
        if clones {
            let mut t = Transaction::new(c);
            t.write(&b, 0, vec![5; 6000].into(), 0);
            t.clone_range(&name(10 + 8), &b, 0, 5000, 10);
            store.submit(t, None, 100).expect("a copy of a range");
            let extents = ask(subject, &mut *store, |s| s.extents(c, &b, 0, u64::MAX)).expect("extents");
            assert_eq!(extents.as_slice(), [(0, 10), (11, 1), (13, 7), (22, 88), (120, 4872), (5000, 5), (5010, 990)]);
        }
    }
}

/// More holes than a store keeps: what was written is told, whatever else is.
fn of_many_holes_no_data_are_told_as_one(subject: &mut dyn Subject) {
    let (c, a) = (coll(0), name(0));
    let mut store = with_coll(subject);
    let mut written = IntervalSet::new();
    for n in 0..200_u64 {
        let mut t = Transaction::new(c);
        t.write(&a, n * 700 + n % 5, Bytes::from_static(b"some"), 0);
        store.submit(t, None, 2 + n).expect("a write");
        written.insert(n * 700 + n % 5, 4);
    }
    let told = ask(subject, &mut *store, |s| s.extents(c, &a, 0, u64::MAX)).expect("extents");
    assert_eq!(told.intersection(&written), written);
    assert!(told.num_intervals() > 10, "{told:?}");
}

fn a_batch_is_visible_at_once(subject: &mut dyn Subject) {
    let mut store = with_coll(subject);
    for i in 0..100_u64 {
        let mut t = Transaction::new(coll(0));
        t.write(&name(0), 0, i.to_le_bytes().to_vec().into(), 0);
        store.submit(t, None, i).expect("a write");
        let data = ask(subject, &mut *store, |s| s.read(coll(0), &name(0), 0, 8)).expect("a read");
        assert_eq!(data.flat()[..], i.to_le_bytes());
    }
}

fn full(subject: &mut dyn Subject) {
    let Some(mut store) = subject.small(4 << 20) else { return };
    let mut t = Transaction::new(coll(0));
    t.create_collection(coll(0), 0);
    store.submit(t, None, 0).expect("a collection");
    let block = Bytes::from(vec![1; 256 << 10]);
    let write = |store: &mut dyn ObjectStore, i: u64| {
        let mut t = Transaction::new(coll(0));
        t.write(&name(0), i << 18, block.clone(), 0);
        t.write(&name(2), i << 18, block.clone(), 0);
        store.submit(t, None, i)
    };
    let mut fits = 0;
    while write(&mut *store, fits) == Ok(()) {
        fits += 1;
        assert!(fits < 100, "a small store must be full at some time");
    }
    assert_eq!(write(&mut *store, fits), Err(StoreError::Full));
    for object in [name(0), name(2)] {
        assert_eq!(ask(subject, &mut *store, |s| s.stat(coll(0), &object)).expect("a stat").size, fits << 18, "all or nothing");
    }
    // Removing works in a full store, and makes room.
    let mut t = Transaction::new(coll(0));
    t.remove(&name(0));
    store.submit(t, None, 1000).expect("a removal");
    // At once, or when it is durable.
    for _ in 0..super::TRIES {
        store.turn_end();
        store.take_commits(&mut Vec::new());
        if write(&mut *store, 0) == Ok(()) {
            return;
        }
        subject.drive(&mut *store);
    }
    panic!("there is room again");
}

fn mistakes_stop(subject: &mut dyn Subject) {
    let mut store = with_coll(subject);
    let mut t = Transaction::new(coll(0));
    t.omap_set_header(&name(0), Bytes::new());
    assert!(store.submit(t, None, 2).is_err());
    assert!(matches!(store.submit(Transaction::new(coll(0)), None, 3), Err(StoreError::Stopped(_))));
    assert!(matches!(store.collections(), Err(StoreError::Stopped(_))));
}

/// A group's own first object comes before all others, objects of the temporary pool before the pool's.
fn temporary_and_own_objects_sort(subject: &mut dyn Subject) {
    let mut store = with_coll(subject);
    let own = GHObject::plain(HObject::pgmeta(types::PgId::new(1, 0)));
    let temp = GHObject::plain(HObject { pool: -3, ..name(4).hobj });
    let mut t = Transaction::new(coll(0));
    for object in [&name(4), &own, &temp, &name(0)] {
        t.touch(object);
    }
    t.create_collection(CollId::Meta, 0);
    store.submit(t, None, 2).expect("objects");
    let page = ask(subject, &mut *store, |s| s.list(coll(0), &GHObject::min(), &GHObject::max(), 10)).expect("a listing");
    assert_eq!(page.objects, [temp.clone(), own.clone(), name(0), name(4)]);
    let page = ask(subject, &mut *store, |s| s.list(coll(0), &own, &name(4), 1)).expect("a listing");
    assert_eq!((page.objects, page.next), (vec![own], Some(name(0))));
    assert_eq!(ask(subject, &mut *store, |s| s.collections()), Ok(vec![CollId::Meta, coll(0)]));
}

/// A caller that asks for pages of no objects gets to the end all the same.
fn a_page_of_none_has_one(subject: &mut dyn Subject) {
    let mut store = with_coll(subject);
    let mut t = Transaction::new(coll(0));
    [0, 4].iter().for_each(|n| t.touch(&name(*n)));
    store.submit(t, None, 2).expect("objects");
    let page = ask(subject, &mut *store, |s| s.list(coll(0), &GHObject::min(), &GHObject::max(), 0)).expect("a listing");
    assert_eq!((page.objects, page.next), (vec![name(0)], Some(name(4))));
    assert_eq!(super::list_all(subject, &mut *store, coll(0), 0), Ok(vec![name(0), name(4)]));
}

fn statfs_follows(subject: &mut dyn Subject) {
    let mut store = with_coll(subject);
    let empty = store.statfs();
    let mut t = Transaction::new(coll(0));
    t.write(&name(0), 0, vec![1; 1 << 20].into(), 0);
    t.omap_set_keys(&name(0), vec![("key".into(), Bytes::from_static(b"value"))]);
    store.submit(t, None, 2).expect("a write");
    let (all, pool) = (store.statfs(), store.pool_statfs(1));
    assert!(all.total >= all.available && all.available < empty.available);
    assert!(pool.data_stored >= 1 << 20 && pool.allocated >= 1 << 20);
    assert_eq!(store.pool_statfs(2), types::StoreStatfs::default());
    let mut t = Transaction::new(coll(0));
    t.remove(&name(0));
    store.submit(t, None, 3).expect("a removal");
    assert_eq!(store.pool_statfs(1).data_stored, 0);
}
