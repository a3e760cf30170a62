//! Which blocks of metadata are free is stored: a start looks at no leaf for it, a store of an older version goes on without it, and one in
//! which it is wrong is noticed and put right.

use crate::open::layout::{META, WITH_INDEX_PARTS};
use crate::planted::{Bug, with};
use crate::tests::index_parts::{checkpoint, filled, get, set, value};
use crate::tests::large_rows::{Mkfs, Subject};
use crate::{BlockStore, Config, OpenError};
use disk::MemDisks;

/// The words that the stored index begins with say of which form it is.
fn magic(subject: &Subject) -> [u8; 4] {
    let block = subject.store.index_runs()[0][0].0;
    subject.disks.image().block(META, block).expect("it was written")[4..8].try_into().expect("four bytes")
}
fn open(disks: &MemDisks, salvage: bool) -> Result<BlockStore, OpenError> {
    disks.restart();
    BlockStore::open(Config { memory: 8 << 20, salvage, ..Config::default() }, Box::new(disks.clone()))
}

/// Steps that a start takes to know which blocks of metadata are in use, and how many leaves there are.
fn steps_of_a_start(mkfs: Mkfs, objects: u32) -> (u64, u64) {
    let mut subject = filled(mkfs, objects);
    // The next part of the index is a whole, if parts are changes at all.
    for v in 2.. {
        let before = subject.store.index_runs();
        set(&mut subject, 7, v);
        checkpoint(&mut subject);
        if !subject.store.index_runs()[0].starts_with(&before[0]) {
            break;
        }
    }
    let subject = subject.forgotten();
    let steps = subject.store.with_core(|core| core.space.take_steps());
    (steps, subject.store.with_core(|core| core.table.index().len() as u64))
}

/// Words of bits of the metadata device.
fn words() -> u64 {
    Subject::of(BlockStore::mkfs).store.with_core(|core| core.space.own_blocks().div_ceil(64))
}
#[test]
fn a_start_looks_at_no_leaf_for_free_blocks() {
    let (few, many) = (steps_of_a_start(BlockStore::mkfs, 600), steps_of_a_start(BlockStore::mkfs, 6000));
    println!("{few:?}, {many:?} steps and leaves, {} words of bits", words());
    let words = words();
    assert!(many.1 > 8 * few.1 && many.1 > 2 * words && few.0.max(many.0) < words + 16, "{few:?}, {many:?} steps and leaves");
    let older = steps_of_a_start(BlockStore::mkfs_with_index_parts, 6000);
    assert!(older.0 > older.1, "a store of version 10 looks at each: {older:?}");
}

/// A store of version 10, with data, keeps the form that the older program reads, until it is finalized.
#[test]
fn a_store_of_version_10_stores_no_blocks_until_it_is_finalized() {
    let mut subject = filled(BlockStore::mkfs_with_index_parts, 300);
    for v in 2..8 {
        set(&mut subject, 7, v);
        checkpoint(&mut subject);
        assert_eq!((magic(&subject), subject.store.with_core(|core| core.sb.version)), (*b"HIX4", WITH_INDEX_PARTS));
        if v == 4 {
            subject = subject.forgotten();
        }
    }
    assert_eq!((subject.store.is_final(), subject.store.finalize(), subject.store.is_final()), (false, Ok(true), true));
    assert_eq!(magic(&subject), *b"HIX5");
    set(&mut subject, 7, 99);
    let mut subject = subject.forgotten();
    assert_eq!(magic(&subject), *b"HIX5");
    assert!((0..300).all(|n| get(&mut subject, n) == Some(value(n, if n == 7 { 99 } else { 1 }))));
    assert_eq!(subject.store.fsck(false).errors, [""; 0]);
}

/// A store whose stored blocks are not those of its leaves: a check says so, or the start, and a repair takes them from the leaves.
#[test]
fn wrong_blocks_are_noticed_and_taken_from_the_leaves() {
    for (bug, wrong) in [
        (Bug::LoseLastBlock, "in use and free to be given"),
        (Bug::StoreAside, "nobody's and not free"),
        (Bug::ForgetFreedBlocks, "nobody's and not free"),
    ] {
        let mut subject = filled(BlockStore::mkfs, 300);
        // A whole has all of them, changes behind it what came and went.
        let is_of_changes = bug == Bug::ForgetFreedBlocks;
        for v in 2.. {
            let before = subject.store.index_runs();
            set(&mut subject, 7, v);
            with(bug, || checkpoint(&mut subject));
            if subject.store.index_runs()[0].starts_with(&before[0]) == is_of_changes {
                break;
            }
        }
        let Subject { disks, store, .. } = subject;
        drop(store);
        let found = open(&disks, false).expect("nothing has gone wrong yet").fsck(false);
        assert!(found.errors.iter().any(|e| e.contains(wrong)), "{bug:?}: {:?}", found.errors);
        repair(&disks);
    }
}
/// Wrong blocks behind which a change has come that can't be: a leaf goes whose block was free.
#[test]
fn blocks_that_can_not_be_are_refused_and_taken_from_the_leaves() {
    let mut subject = filled(BlockStore::mkfs, 300);
    for v in 2.. {
        set(&mut subject, 7, v);
        with(Bug::LoseLastBlock, || checkpoint(&mut subject));
        let disks = subject.disks.copy();
        let Err(error) = open(&disks.copy(), false) else {
            assert!(v < 20, "the leaf went whose block was stored as free");
            continue;
        };
        let said = error.to_string();
        assert!(said.contains("free room of the metadata is stored wrong") && said.contains("humboldt store --dir DIR repair"), "{said}");
        return repair(&disks);
    }
}
fn repair(disks: &MemDisks) {
    let mut store = open(disks, true).expect("a repair opens it");
    let repaired = store.repair();
    assert!(repaired.is_clean() && repaired.lost.is_empty(), "{repaired:?}");
    assert!(repaired.repaired.iter().any(|what| what.contains("taken from the leaves")), "{repaired:?}");
    drop(store);
    assert_eq!(open(disks, false).expect("it is repaired").fsck(false).errors, [""; 0]);
    let again = open(disks, true).expect("it is repaired").repair();
    assert!(again.repaired.is_empty(), "it is right now: {again:?}");
}
