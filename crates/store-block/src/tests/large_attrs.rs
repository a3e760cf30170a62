//! Large attributes, in stores that have cells for them and in those that an older program made.

use crate::BlockStore;
use crate::tests::large_rows::{Subject, name};
use bytes::Bytes;
use store::conformance::object_coll;
use store::{AttrsMax, ObjectStore};

fn value(n: u8, len: usize) -> Bytes {
    (0..len).map(|at| (at / 7) as u8 ^ n).collect::<Vec<_>>().into()
}
fn set(subject: &mut Subject, n: u32, key: &str, value: &Bytes) {
    subject.submit(|txn| {
        txn.touch(&name(n));
        txn.set_attr(&name(n), key, value.clone());
    });
}
fn get(subject: &mut Subject, n: u32, key: &str) -> Option<Bytes> {
    subject.ask("an attribute", |s| s.attr(object_coll(0), &name(n), key.as_bytes()))
}
fn used(subject: &mut Subject) -> i64 {
    subject.store.statfs().allocated
}
fn check(subject: &mut Subject) {
    let report = subject.store.fsck(true);
    assert!(report.is_clean(), "{:?}", report.errors);
}

#[test]
fn a_large_attribute_is_what_was_set_and_goes_whole() {
    let mut subject = Subject::of(BlockStore::mkfs);
    let lens = [1001, 4096, 65_536, 65_537, 4 << 20];
    let before = used(&mut subject);
    for (n, len) in lens.into_iter().enumerate() {
        set(&mut subject, 0, &format!("a{n}"), &value(n as u8, len));
    }
    set(&mut subject, 0, "small", &value(9, 10));
    subject.submit(|txn| txn.write(&name(0), 0, value(1, 5000), 0));
    for _ in 0..2 {
        for (n, len) in lens.into_iter().enumerate() {
            assert!(get(&mut subject, 0, &format!("a{n}")) == Some(value(n as u8, len)), "{len} bytes");
        }
        let all = subject.ask("all", |s| s.attrs(object_coll(0), &name(0)));
        assert_eq!(all.iter().map(|(_, value)| value.len()).collect::<Vec<_>>(), [1001, 4096, 65_536, 65_537, 4 << 20, 10]);
        let bytes = subject.ask("their bytes", |s| s.attrs_bytes(object_coll(0), &name(0)));
        assert_eq!(bytes, all.iter().map(|(_, value)| value.len() as u64).sum::<u64>());
        let two = subject.ask("two", |s| s.two_attrs(object_coll(0), &name(0), [b"a4", b"small"]));
        assert!(two == [Some(value(4, 4 << 20)), Some(value(9, 10))]);
        let data = subject.ask("data", |s| s.read(object_coll(0), &name(0), 0, u64::MAX)).flat();
        assert!(data == value(1, 5000), "data are beside it");
        check(&mut subject);
        subject = subject.forgotten();
    }
    // A shorter one over it, a small one, none; what is cut off of the data is not an attribute's.
    set(&mut subject, 0, "a4", &value(5, 70_000));
    set(&mut subject, 0, "a3", &value(5, 3));
    subject.submit(|txn| {
        txn.rm_attr(&name(0), "a2");
        txn.truncate(&name(0), 0);
    });
    assert_eq!((get(&mut subject, 0, "a4"), get(&mut subject, 0, "a3")), (Some(value(5, 70_000)), Some(value(5, 3))));
    assert_eq!(get(&mut subject, 0, "a2"), None);
    check(&mut subject);
    subject.submit(|txn| txn.rm_attrs(&name(0)));
    assert!(subject.ask("all", |s| s.attrs(object_coll(0), &name(0))).is_empty());
    assert_eq!(used(&mut subject), before, "every block is given back");
    check(&mut subject);
}

#[test]
fn clones_share_a_large_attribute_until_one_of_them_sets_it() {
    let mut subject = Subject::of(BlockStore::mkfs);
    let before = used(&mut subject);
    set(&mut subject, 0, "a", &value(1, 1 << 20));
    let one = used(&mut subject);
    subject.submit(|txn| txn.clone_object(&name(0), &name(1)));
    assert_eq!(used(&mut subject), one, "it is there once");
    set(&mut subject, 0, "a", &value(2, 1 << 20));
    let mut subject = subject.forgotten();
    assert!(get(&mut subject, 0, "a") == Some(value(2, 1 << 20)) && get(&mut subject, 1, "a") == Some(value(1, 1 << 20)));
    check(&mut subject);
    subject.submit(|txn| txn.remove(&name(1)));
    assert_eq!(used(&mut subject), one);
    subject.submit(|txn| txn.remove(&name(0)));
    assert_eq!(used(&mut subject), before);
    check(&mut subject);
}

/// A store of version 8 keeps them in its rows, so that the older program reads it, until it is finalized.
#[test]
fn a_store_of_version_8_has_them_in_rows_until_it_is_finalized() {
    let mut subject = Subject::of(BlockStore::mkfs_with_places);
    assert!(!subject.store.is_final() && subject.store.attrs_max().one == 64 << 10);
    set(&mut subject, 0, "a", &value(1, 60_000));
    assert_eq!(used(&mut subject), 0, "no block is its");
    let mut subject = subject.forgotten();
    assert!(!subject.store.is_final() && get(&mut subject, 0, "a") == Some(value(1, 60_000)));
    assert_eq!(subject.store.finalize(), Ok(true));
    assert_eq!(subject.store.attrs_max(), AttrsMax::default());
    assert!(get(&mut subject, 0, "a") == Some(value(1, 60_000)), "it stays where it is");
    set(&mut subject, 0, "a", &value(2, 60_000));
    assert!(used(&mut subject) > 0 && get(&mut subject, 0, "a") == Some(value(2, 60_000)));
    check(&mut subject);
    let mut subject = subject.forgotten();
    assert!(subject.store.is_final() && get(&mut subject, 0, "a") == Some(value(2, 60_000)));
}
