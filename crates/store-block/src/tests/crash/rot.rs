//! The rot matrix on devices in memory: one block changes while the store is closed, in each way and in each place. Whatever was hit,
//!
//! - no wrong byte is ever read, and nothing that is damaged is taken for absent by a store that serves;
//! - the store serves everything else, takes changes, and gets through checkpoints;
//! - a repair leaves a store on which fsck is clean, which opens, and which has every object that the damage did not touch;
//! - where the store can't open, the message names the command that goes on.

use super::{from_env, seeds_by_turns};
use crate::open::layout::{DATA, META, WAL};
use crate::planted::{Bug, with};
use crate::{BlockStore, Config, OpenError};
use base::Rng;
use bytes::Bytes;
use disk::{BLOCK_BYTES, Dev, Image, MemDisks};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use store::conformance::{object_coll, object_name};
use store::{ObjectStore, StoreError, StoreResult};
use types::{GHObject, Transaction};

/// What an object is to have: its data, one attribute, one key of its omap.
type Wanted = BTreeMap<u64, Option<u64>>;

const LENS: [u64; 3] = [32 << 20, 2 << 20, 4 << 20];
const OBJECTS: u64 = 1500;

fn config() -> Config {
    Config { memory: 1 << 20, ..Config::default() }
}
fn data(n: u64, version: u64) -> Bytes {
    let mut rng = Rng::new(n << 32 | version);
    let mut bytes = vec![0; 3000 + rng.below(6000) as usize];
    rng.fill(&mut bytes);
    bytes.into()
}
fn value(n: u64, version: u64) -> Bytes {
    format!("{n} in version {version}").into_bytes().into()
}
fn write(n: u64, version: u64) -> Transaction {
    let (name, mut txn) = (object_name(n), Transaction::new(object_coll(0)));
    txn.touch(&name);
    txn.truncate(&name, 0);
    txn.write(&name, 0, data(n, version), 0);
    txn.set_attr(&name, "a", value(n, version));
    if n % 3 == 0 {
        txn.omap_set_keys(&name, vec![("k".into(), value(n, version))]);
    }
    txn
}

/// Drives the store until `f` has its answer.
pub(crate) fn ask<T>(store: &mut BlockStore, mut f: impl FnMut(&BlockStore) -> StoreResult<T>) -> StoreResult<T> {
    loop {
        match f(store) {
            Err(StoreError::Wait(_)) => {
                store.turn_end();
                store.take_ready(&mut Vec::new());
            }
            other => return other,
        }
    }
}
fn settle(store: &mut BlockStore) -> Result<(), String> {
    for _ in 0..10_000 {
        store.poll();
        if let Some(why) = store.failure() {
            return Err(format!("it stopped: {why}"));
        }
        if !store.is_checkpointing() && store.stats().idle {
            return Ok(());
        }
    }
    Err("it never comes to rest".into())
}
pub(crate) fn checkpoint(store: &mut BlockStore) -> Result<(), String> {
    store.checkpoint();
    settle(store)
}
fn open(disks: &MemDisks, config: Config) -> Result<BlockStore, OpenError> {
    disks.restart();
    BlockStore::open(config, Box::new(disks.clone()))
}

/// The object, if it is as it should be: false if it can't be read.
fn look(store: &mut BlockStore, n: u64, wanted: Option<u64>, may_miss: bool) -> Result<bool, String> {
    let (coll, name): (_, GHObject) = (object_coll(0), object_name(n));
    let Some(version) = wanted else {
        return match ask(store, |s| s.stat(coll, &name)) {
            Err(StoreError::NoObject(_)) => Ok(true),
            Err(StoreError::Damaged { .. }) => Ok(false),
            other => Err(format!("object {n} was removed: {other:?}")),
        };
    };
    let have = ask(store, |s| s.read(coll, &name, 0, u64::MAX)).map(|data| data.flat());
    let attr = ask(store, |s| s.attr(coll, &name, b"a"));
    let omap = ask(store, |s| s.omap_get(coll, &name, &["k".into()]));
    let mut whole = true;
    match have {
        Ok(have) if have == data(n, version) => {}
        Ok(_) => return Err(format!("object {n}: other bytes than version {version}'s")),
        Err(StoreError::Damaged { .. }) => whole = false,
        Err(StoreError::NoObject(_)) if may_miss => return Ok(false),
        Err(e) => return Err(format!("object {n}: {e}")),
    }
    match attr {
        Ok(attr) if attr.as_ref() == Some(&value(n, version)) => {}
        Err(StoreError::Damaged { .. }) => whole = false,
        other => return Err(format!("object {n}: its attribute is {other:?}")),
    }
    match omap {
        Ok(_) if n % 3 != 0 => {}
        Ok(keys) if keys.first().is_some_and(|(_, have)| *have == value(n, version)) => {}
        Ok(keys) if keys.is_empty() && may_miss => whole = false,
        Err(StoreError::Damaged { .. }) => whole = false,
        other => return Err(format!("object {n}: its omap is {other:?}")),
    }
    Ok(whole)
}

/// A store that was in use, closed in the midst of it; how it was before its last changes; and what it has.
struct Made {
    before: Arc<Image>,
    last: Arc<Image>,
    wanted: Wanted,
}

fn make(seed: u64) -> Made {
    let disks = MemDisks::new(&LENS);
    BlockStore::mkfs(Box::new(disks.clone()), [9; 16]).expect("a store");
    let mut store = open(&disks, config()).expect("it opens");
    let mut txn = Transaction::new(object_coll(0));
    txn.create_collection(object_coll(0), 0);
    store.submit(txn, None, 0).expect("a collection");
    let (mut rng, mut wanted, mut token) = (Rng::new(seed), Wanted::new(), 0);
    let mut change = |store: &mut BlockStore, n: u64, version: Option<u64>| {
        token += 1;
        let mut txn = Transaction::new(object_coll(0));
        txn.remove(&object_name(n));
        store.submit(version.map_or(txn, |version| write(n, version)), None, token).expect("there is room");
        store.turn_end();
        if token % 8 == 0 {
            settle(store).expect("it serves");
        }
        wanted.insert(n, version);
    };
    for n in 0..OBJECTS {
        change(&mut store, n, Some(1));
    }
    checkpoint(&mut store).expect("a checkpoint");
    let before = disks.image();
    for version in 2..4 {
        for _ in 0..OBJECTS / 8 {
            let n = rng.below(OBJECTS);
            change(&mut store, n, (!rng.chance(1, 8)).then_some(version));
        }
        if version == 2 {
            checkpoint(&mut store).expect("a checkpoint");
        }
    }
    settle(&mut store).expect("it serves");
    Made { before, last: disks.image(), wanted }
}

/// Damages one block; says which and how, if it is another one then.
fn damage(disks: &MemDisks, made: &Made, dev: Dev, rng: &mut Rng) -> Option<(u64, String)> {
    let blocks = LENS[dev.0 as usize] / BLOCK_BYTES as u64;
    let block = (0..64).map(|_| rng.below(blocks)).find(|block| made.last.block(dev, *block).is_some_and(|b| b.iter().any(|b| *b != 0)))?;
    let old = *made.last.block(dev, block).expect("it was found");
    let zeros = [0; BLOCK_BYTES];
    let of = |image: &Arc<Image>, block| image.block(dev, block).copied().unwrap_or(zeros);
    let (what, new) = match rng.below(5) {
        0 => {
            let mut new = old;
            let bit = rng.below(8 * BLOCK_BYTES as u64) as usize;
            new[bit / 8] ^= 1 << (bit % 8);
            ("a bit flipped", new)
        }
        1 => ("zeros", zeros),
        2 => ("as it was before", of(&made.before, block)),
        3 => {
            disks.make_bad(dev, block, u32::MAX);
            return Some((block, format!("device {} block {block} can't be read", dev.0)));
        }
        _ => {
            let other = rng.below(blocks);
            disks.damage(dev, other * BLOCK_BYTES as u64, |b| b.copy_from_slice(&old));
            ("swapped with another", of(&made.last, other))
        }
    };
    disks.damage(dev, block * BLOCK_BYTES as u64, |b| b.copy_from_slice(&new));
    (new != old).then(|| (block, format!("device {} block {block}: {what}", dev.0)))
}

/// What came of the damages.
#[derive(Debug, Default)]
struct Tally {
    done: u64,
    /// Those after which the store did not open before it was repaired.
    refused: u64,
    /// Those for which there is no way back but an export of former times: superblock, labels.
    hopeless: u64,
    /// Objects that could not be read, and that a repair left out.
    unread: u64,
    lost: u64,
}

/// Serves: reads all, changes some, checkpoints, starts again. How many objects can't be read.
fn serve(disks: &MemDisks, wanted: &mut Wanted, rng: &mut Rng) -> Result<Result<u64, OpenError>, String> {
    let mut bad = 0;
    for round in 0..2 {
        let mut store = match open(disks, config()) {
            Ok(store) => store,
            Err(e) if round == 0 => return Ok(Err(e)),
            Err(e) => return Err(format!("it does not open again: {e}")),
        };
        bad = 0;
        let mut here = Vec::new();
        for (n, version) in &*wanted {
            match look(&mut store, *n, *version, false)? {
                true => here.push(*n),
                false => bad += 1,
            }
        }
        for token in 1..60 {
            // An object that can't be read is not changed by a client, which would have to read it.
            let n =
                if here.is_empty() || rng.chance(1, 3) { OBJECTS + rng.below(400) } else { here[rng.below(here.len() as u64) as usize] };
            if !wanted.contains_key(&n) && ask(&mut store, |s| s.exists(object_coll(0), &object_name(n))).is_err() {
                continue;
            }
            if wanted.contains_key(&n) && !here.contains(&n) {
                continue;
            }
            let version = (!rng.chance(1, 4)).then_some(10 + round);
            let mut txn = Transaction::new(object_coll(0));
            txn.remove(&object_name(n));
            store.submit(version.map_or(txn, |version| write(n, version)), None, token).map_err(|e| format!("a change: {e}"))?;
            store.turn_end();
            wanted.insert(n, version);
            if !here.contains(&n) {
                here.push(n);
            }
            if token % 20 == 0 {
                checkpoint(&mut store)?;
            }
        }
        settle(&mut store)?;
        for n in here {
            if !look(&mut store, n, wanted[&n], false)? {
                return Err(format!("object {n} can't be read any more"));
            }
        }
    }
    Ok(Ok(bad))
}

fn one(made: &Made, seed: u64, tally: &mut Tally) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let dev = [DATA, WAL, META, META][seed as usize % 4];
    let disks = MemDisks::with(made.last.clone());
    let Some((block, what)) = damage(&disks, made, dev, &mut rng) else { return Ok(()) };
    let fail = |e: String| format!("seed {seed}, {what}: {}", e.chars().take(300).collect::<String>());
    tally.done += 1;
    let mut wanted = made.wanted.clone();
    // Nothing says of the newest record that it was durable: if it is hit, it is as if it had never been written.
    let served = match serve(&disks, &mut wanted, &mut rng) {
        Err(_) if dev == WAL && newest_is_gone(&disks) => return Ok(()),
        other => other.map_err(fail)?,
    };
    let mut cut = false;
    match served {
        Ok(bad) => tally.unread += bad,
        Err(e) => {
            tally.refused += 1;
            let text = e.to_string();
            if !text.contains("humboldt store --dir DIR repair") {
                let is_root = matches!(e, OpenError::NoStore | OpenError::Foreign(_) | OpenError::Version(_)) || text.contains("index");
                tally.hopeless += 1;
                return if is_root { Ok(()) } else { Err(fail(format!("no way back is named: {text}"))) };
            }
            cut = text.contains("--discard-log-from-damage");
        }
    }
    let salvage = |cut_log| Config { salvage: true, cut_log, ..config() };
    let mut opened = open(&disks, salvage(cut));
    // A block that can't be read is where the log ends by now.
    if let Err(e) = &opened
        && !cut
        && disks.is_bad(dev, block)
        && e.to_string().contains("--discard-log-from-damage")
    {
        cut = true;
        opened = open(&disks, salvage(cut));
    }
    let mut store = opened.map_err(|e| fail(format!("repair does not open it: {e}")))?;
    let report = store.repair();
    if !report.is_clean() {
        return Err(fail(format!("it is not clean when it is repaired: {:?}", report.errors)));
    }
    drop(store);
    let mut store = open(&disks, config()).map_err(|e| fail(format!("it does not open when it is repaired: {e}")))?;
    let after = store.fsck(false);
    if !after.is_clean() || store.damage().leaves > 0 {
        return Err(fail(format!("fsck after the repair: {:?}", after.errors)));
    }
    let mut lost = 0;
    for (n, version) in wanted.iter().filter(|_| !cut) {
        lost += u64::from(!look(&mut store, *n, *version, true).map_err(fail)?);
    }
    if lost > 0 && report.lost.is_empty() && dev != DATA {
        return Err(fail(format!("{lost} objects are lost, and none is named")));
    }
    tally.lost += lost;
    checkpoint(&mut store).map_err(fail)
}
/// True if the store has fewer records than were written: only the last one can go without a word.
fn newest_is_gone(disks: &MemDisks) -> bool {
    open(disks, config()).is_ok_and(|mut store| store.fsck(false).is_clean())
}

fn matrix(seeds: Range<u64>) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let made = make(1);
    for seed in seeds {
        one(&made, seed, &mut tally)?;
    }
    Ok(tally)
}

#[test]
fn rot_takes_what_it_hits_and_no_more() {
    let all = from_env("ROT_COUNT").unwrap_or(60);
    let seeds = seeds_by_turns(all);
    let times = seeds.end - seeds.start;
    let tally = matrix(seeds).unwrap_or_else(|e| panic!("{e}"));
    println!("{tally:?}");
    assert!(tally.done > times / 2 && tally.lost < tally.done * OBJECTS / 20, "{tally:?}");
    // What a few damages hit is chance.
    assert!(times < all || tally.unread > 0 && tally.lost > 0 && tally.hopeless < tally.done / 10, "{tally:?}");
}
#[test]
fn a_checkpoint_that_drops_what_it_can_not_merge_is_noticed() {
    let noticed = with(Bug::DropBesideBadLeaf, || matrix(0..60));
    println!("{}", noticed.expect_err("rows were dropped"));
}
