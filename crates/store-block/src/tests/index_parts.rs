//! Checkpoints write of the index what they changed: how much that is, in which stores, and that a part which does not belong is noticed.

use crate::open::layout::{BLOCK, DATA, META, ON_DATA};
use crate::planted::{Bug, with};
use crate::tests::large_rows::{Mkfs, Subject, name};
use crate::{BlockStore, Config};
use store::ObjectStore;
use types::GHObject;

/// The attribute that an object gets.
pub fn value(n: u32, v: u8) -> Vec<u8> {
    [&n.to_le_bytes()[..], &[v; 300]].concat()
}
pub fn set(subject: &mut Subject, n: u32, v: u8) {
    subject.submit(|txn| {
        txn.touch(&name(n));
        txn.set_attr(&name(n), "a", value(n, v).into());
    });
}
pub fn get(subject: &mut Subject, n: u32) -> Option<Vec<u8>> {
    let object: GHObject = name(n);
    subject.ask("an attribute", |store| store.attr(store::conformance::object_coll(0), &object, b"a")).map(|value| value.to_vec())
}
pub fn checkpoint(subject: &mut Subject) {
    subject.settle();
    subject.store.checkpoint();
    subject.settle();
}
/// A store with so many objects in leaves.
pub fn filled(mkfs: Mkfs, objects: u32) -> Subject {
    let mut subject = Subject::of(mkfs);
    (0..objects).for_each(|n| set(&mut subject, n, 1));
    checkpoint(&mut subject);
    subject
}
fn pieces(subject: &Subject) -> Vec<(u64, u64)> {
    subject.store.index_runs()[0].clone()
}

/// One object changes, again and again: the fewest blocks of metadata that a checkpoint writes.
fn fewest(mkfs: Mkfs, objects: u32) -> u64 {
    let mut subject = filled(mkfs, objects);
    let blocks = |v: u8| {
        let before = subject.store.stats().wrote.meta;
        set(&mut subject, objects / 2, v);
        checkpoint(&mut subject);
        subject.store.stats().wrote.meta - before
    };
    (2..8).map(blocks).min().expect("some")
}

#[test]
fn a_change_in_many_leaves_writes_what_one_in_few_does() {
    let (few, many) = (fewest(BlockStore::mkfs, 300), fewest(BlockStore::mkfs, 6000));
    assert!(many <= few + 2 && many < 12, "{few} blocks for a change, {many} among twenty times as many objects");
    let before = fewest(BlockStore::mkfs_with_attr_cells, 6000);
    assert!(before >= many + 5, "a store of version 9 writes the index whole: {before} blocks");
}

/// A store of version 9 has its index in one part, so that the older program reads it, until it is finalized.
#[test]
fn a_store_of_version_9_writes_the_index_whole_until_it_is_finalized() {
    let mut subject = filled(BlockStore::mkfs_with_attr_cells, 300);
    let changes = |subject: &mut Subject, v: u8| {
        let before = pieces(subject);
        set(subject, 7, v);
        checkpoint(subject);
        (before.clone(), pieces(subject).starts_with(&before))
    };
    assert!((2..6).all(|v| !changes(&mut subject, v).1) && !subject.store.is_final());
    let mut subject = subject.forgotten();
    assert!(!subject.store.is_final() && !changes(&mut subject, 6).1, "nor when it is opened again");
    assert_eq!((subject.store.finalize(), subject.store.is_final()), (Ok(true), true));
    assert!((7..12).any(|v| changes(&mut subject, v).1), "changes come behind the whole");
    let mut subject = subject.forgotten();
    assert!((12..18).any(|v| changes(&mut subject, v).1), "and when it is opened again");
    set(&mut subject, 7, 99);
    let mut subject = subject.forgotten();
    assert!((0..300).all(|n| get(&mut subject, n) == Some(value(n, if n == 7 { 99 } else { 1 }))));
    assert_eq!(subject.store.fsck(false).errors, [""; 0]);
}

/// A part in whose place the device has an older one, whole by itself.
#[test]
fn a_part_that_does_not_belong_is_noticed() {
    let mut subject = filled(BlockStore::mkfs, 300);
    let mut part = |v: u8| {
        let before = pieces(&subject);
        set(&mut subject, 7, v);
        checkpoint(&mut subject);
        let part = pieces(&subject).strip_prefix(&before[..]).filter(|part| part.len() == 1)?[0].0;
        Some(if part < ON_DATA { (META, part) } else { (DATA, part - ON_DATA) })
    };
    // Two parts, one behind the other.
    let (older, place) = (2..10).find_map(|v| part(v).zip(part(v + 100))).expect("changes come behind the whole");
    let old = *subject.disks.image().block(older.0, older.1).expect("it was written");
    let open = || {
        let disks = subject.disks.copy();
        disks.damage(place.0, place.1 * BLOCK, |block| block.copy_from_slice(&old));
        BlockStore::open(Config::default(), Box::new(disks)).map(drop).map_err(|e| e.to_string())
    };
    let error = open().expect_err("the part is an older one");
    assert!(error.contains("index"), "{error}");
    let taken = with(Bug::TakeStalePart, open).err().unwrap_or_default();
    assert!(!taken.contains("the superblock means") && !taken.contains("does not follow"), "its crc is right: {taken}");
}
