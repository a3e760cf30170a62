//! Scans and lookups over layers and leaves, against a map.

use super::*;
use crate::place::alloc::Alloc;
use base::Rng;
use blocks::Blocks;
use leaf::LeafBuilder;
use parts::Form;
use space::Space;
use std::collections::BTreeMap;

fn key(n: u64) -> Key {
    format!("k{n:04}").into_bytes().into()
}

/// Puts everything that the table has into leaves, in place of those that it has.
fn flatten(table: &mut Table, model: &BTreeMap<Key, Bytes>, id: &mut u64) {
    *table = Table::new();
    let mut b = LeafBuilder::default();
    let mut done = |b: &mut LeafBuilder, table: &mut Table| {
        let page = b.cut(1, *id);
        let at = LeafRef::new(*id, &[(0, 1)], page.rows);
        table.add_leaf(&page.start, &at, &page.filter, Leaf::open(page.bytes, 1, *id).unwrap());
        table.leaf_written(*id);
        *id += 1;
    };
    for (i, (k, v)) in model.iter().enumerate() {
        b.push(k, v);
        if i % 7 == 6 {
            done(&mut b, table);
        }
    }
    if !b.is_empty() {
        done(&mut b, table);
    }
}

#[test]
fn layers_over_leaves_are_one_map() {
    one_map();
    let noticed = std::panic::catch_unwind(|| crate::planted::with(Bug::SweepTooFar, one_map));
    assert!(noticed.is_err(), "a range in place of removed rows that is too long");
}

fn one_map() {
    let mut rng = Rng::new(9);
    let (mut table, mut model, mut id) = (Table::new(), BTreeMap::new(), 1);
    for step in 0..6000 {
        let n = rng.below(300);
        match rng.below(100) {
            0..60 => {
                let row = Bytes::from(rng.u64().to_le_bytes().to_vec());
                table.put(&key(n), Val::Row(row.clone()));
                model.insert(key(n), row);
            }
            60..90 => {
                table.put(&key(n), Val::Del);
                model.remove(&key(n));
            }
            90..97 => {
                let end = n + rng.below(40);
                table.remove_range(&key(n), &key(end));
                model.retain(|k, _| *k < key(n) || *k >= key(end));
            }
            97 if table.frozen().is_none() => table.freeze(),
            _ if rng.chance(1, 5) => flatten(&mut table, &model, &mut id),
            _ => {}
        }
        for _ in 0..3 {
            let k = key(rng.below(300));
            match table.get(&k) {
                Found::Row(row) => assert_eq!(Some(&row), model.get(&k), "step {step}"),
                Found::Absent => assert!(!model.contains_key(&k), "step {step}"),
                other => panic!("{other:?}"),
            }
        }
        let (first, last) = (key(rng.below(300)), key(rng.below(310)));
        let mut seen = Vec::new();
        let passed = table
            .scan(&first, &last, 1, &mut |k, row| {
                let Row::Bytes(row) = row else { panic!("no objects here") };
                seen.push((Key::from(k), Bytes::copy_from_slice(row)));
                ControlFlow::Continue(())
            })
            .unwrap();
        if step % 3 == 0 {
            table.sweep(&first, &last, &passed);
        }
        let wanted: Vec<_> =
            if first < last { model.range(first..last).map(|(k, v)| (k.clone(), v.clone())).collect() } else { Vec::new() };
        assert_eq!(seen, wanted, "step {step}");
    }
}

#[test]
fn what_is_not_in_memory_is_asked_for() {
    let mut table = Table::new();
    let model: BTreeMap<Key, Bytes> = (0..100).map(|n| (key(n), Bytes::from_static(b"v"))).collect();
    flatten(&mut table, &model, &mut 1);
    table.shrink_leaves(0);
    table.shrink_leaves(0);
    assert!(matches!(table.get(&key(50)), Found::Read(_)));
    assert!(matches!(table.get(&b"zzz"[..].into()), Found::Absent | Found::Read(_)));
    let missing = table.scan(&key(10), &key(90), 4, &mut |_, _| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(missing.len(), 8, "of one block each: as much as four of two");
    // Leaves that a range covers are not.
    table.remove_range(&key(0), &key(98));
    assert!(matches!(table.get(&key(50)), Found::Absent));
    table.scan(&key(0), &key(98), 4, &mut |_, _| panic!("nothing is left")).unwrap();
}

#[test]
fn an_index_in_pieces_is_the_one_at_once() {
    let mut rng = Rng::new(4);
    for leaves in [0, 1, 300] {
        let mut index = Index::default();
        for n in 0..leaves {
            let mut filter = vec![0; rng.below(200) as usize];
            rng.fill(&mut filter);
            let (id, block) = (rng.below(1 << 40), rng.below(1 << 20));
            let mut runs = vec![(block, 1 + n as u64)];
            (0..n % 3).for_each(|i| runs.push((crate::open::layout::ON_DATA + rng.below(1 << 20), 1 + u64::from(i))));
            index.insert(&key(n), &LeafRef::new(id, &runs, rng.below(900) as u32), &filter);
        }
        for n in (0..leaves).filter(|n| n % 5 == 3) {
            index.remove(&key(n));
        }
        let whole = index.encode(7);
        for piece in [20, 33, 500, 4096, 1 << 20] {
            let (mut encoding, mut pieces, mut crc) = (index.begin(Form::Alone, Vec::new), Vec::new(), None);
            assert_eq!(encoding.len(), whole.len());
            while pieces.len() < whole.len().div_ceil(piece) {
                index.encode_some(&mut encoding, piece);
                let part = encoding.take(piece).expect("a piece, or the rest");
                assert!(part.len() == piece || pieces.len() + 1 == whole.len().div_ceil(piece));
                crc = Some(Index::crc(crc, 7, &part));
                pieces.push(part);
            }
            Index::seal(&mut pieces[0], crc.expect("there is a front"));
            assert_eq!(pieces.concat(), whole, "in pieces of {piece}");
        }
        let (again, blocks) = Index::decode(whole.clone().into(), 7, 0, Blocks::new(64, 2)).expect("it is whole");
        assert!(blocks.is_none(), "it has none");
        assert_eq!((again.encode(7), again.stored()), (whole.clone(), index.stored()));
    }
}

/// A queue: its first row is looked for, and removed, again and again. However many were, the next one takes as many steps as the first.
#[test]
fn the_next_of_a_queue_is_found_as_the_first_was() {
    let steps = |rows: u64| {
        let (mut table, mut id) = (Table::new(), 1);
        let model: BTreeMap<Key, Bytes> = (0..rows).map(|n| (key(n), Bytes::from_static(b"v"))).collect();
        flatten(&mut table, &model, &mut id);
        let (first, last) = (key(0), Key::from(&b"l"[..]));
        let mut most = 0;
        for n in 0..rows {
            if n == rows / 2 {
                // A checkpoint is under way with the first half.
                table.freeze();
            }
            table.take_steps();
            let mut found = None;
            let passed = table
                .scan(&first, &last, 1, &mut |k, _| {
                    found = Some(Key::from(k));
                    ControlFlow::Break(())
                })
                .expect("all leaves are here");
            table.sweep(&first, &last, &passed);
            most = most.max(table.take_steps());
            assert_eq!(found, Some(key(n)));
            table.put(&key(n), Val::Del);
        }
        let passed = table.scan(&first, &last, 1, &mut |_, _| panic!("nothing is left")).expect("all leaves are here");
        table.sweep(&first, &last, &passed);
        most
    };
    let (few, many) = (steps(400), steps(4000));
    assert!(many <= few + 4 && many < 40, "{few} steps for a row, {many} of ten times as many");
}

/// Whatever comes and goes, the index has what a map has: what is found, what follows it, and what is read of its parts.
#[test]
fn an_index_in_groups_and_parts_is_a_map() {
    let mut rng = Rng::new(8);
    let (mut index, mut model) = (Index::default(), BTreeMap::<Key, LeafRef>::new());
    let (mut stored, mut changes) = (Vec::new(), 0);
    for step in 0..30_000_u64 {
        // It grows to thousands of leaves, and shrinks again.
        let (all, comes) = (3000, if step / 6000 % 2 == 0 { 4 } else { 1 });
        let k = key(rng.below(all));
        if rng.below(5) < comes {
            let mut runs = vec![(rng.below(1 << 30), 1 + rng.below(3))];
            (0..rng.below(40) / 37).for_each(|_| runs.push((rng.below(1 << 41), 1)));
            let leaf = LeafRef::new(step, &runs, rng.below(20) as u32);
            if !model.contains_key(&k) {
                index.insert(&k, &leaf, &[step as u8; 9]);
                model.insert(k, leaf);
            }
        } else {
            assert_eq!(index.remove(&k), model.remove(&k));
        }
        assert_eq!(index.len(), model.len());
        let k = key(rng.below(all + 10));
        let known = model.range::<Key, _>((Bound::Unbounded, Bound::Included(&k))).next_back();
        let found = index.leaf_of_key(&k);
        assert_eq!(found.map(|(start, leaf)| (Key::from(start), leaf.leaf())), known.map(|(start, leaf)| (start.clone(), leaf.clone())));
        let start = known.or(model.first_key_value()).map(|(start, _)| start.clone());
        let behind = start.as_ref().and_then(|start| model.range::<Key, _>((Bound::Excluded(start), Bound::Unbounded)).next());
        let wanted = start.as_ref().map(|start| (start.clone(), model[start].clone(), behind.map(|(end, _)| end.clone())));
        assert_eq!(index.leaf_for(&k), wanted);
        assert_eq!(
            index.end_of(&k).map(Key::from).as_ref(),
            model.range::<Key, _>((Bound::Excluded(&k), Bound::Unbounded)).next().map(|(end, _)| end)
        );
        if step % 400 == 0 {
            let seen: Vec<_> = index.leaves_from(&k).map(|(start, leaf)| (Key::from(start), leaf.leaf())).collect();
            let from = start.unwrap_or_default();
            assert_eq!(seen, model.range(from..).map(|(start, leaf)| (start.clone(), leaf.clone())).collect::<Vec<_>>());
            let mut encoding = index.begin(Form::Changes, Vec::new);
            let is_whole = encoding.is_whole();
            index.encode_some(&mut encoding, usize::MAX);
            let mut part = encoding.take(usize::MAX).expect("all is encoded");
            let crc = Index::crc(None, 7, &part);
            Index::seal(&mut part, crc);
            if is_whole {
                stored.clear();
            }
            changes += u32::from(!is_whole);
            stored.resize(stored.len().next_multiple_of(BLOCK as usize), 0);
            stored.extend_from_slice(&part);
            index.parts().stored(is_whole, (part.len() as u64).div_ceil(BLOCK), crc);
            let read = |stored: &[u8], crc| Index::decode(stored.to_vec().into(), 7, crc, Blocks::new(64, 2)).map(|(index, _)| index);
            let again = read(&stored, crc).expect("it is whole");
            assert_eq!((again.encode(7), again.len(), again.stored()), (index.encode(7), index.len(), index.stored()));
            assert!(is_whole || read(&stored, crc ^ 1).is_err(), "another part is meant");
            let bit = rng.below(8 * stored.len() as u64) as usize;
            stored[bit / 8] ^= 1 << (bit % 8);
            let torn = read(&stored, crc).map(|index| index.encode(7));
            assert!(torn.is_err() || torn == Ok(index.encode(7)), "a bit between the parts does no harm, any other is seen");
            stored[bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert!(changes > 40, "{changes} parts of changes");
}

/// A part of the index as a checkpoint stores it, behind those that are stored; its crc.
fn store_part(index: &mut Index, space: &Space, chunks: u64, stored: &mut Vec<u8>) -> u32 {
    let mut encoding = index.begin(Form::Blocks, || space.kept(chunks).encode());
    let is_whole = encoding.is_whole();
    index.encode_some(&mut encoding, usize::MAX);
    let mut part = encoding.take(usize::MAX).expect("all is encoded");
    assert_eq!(part.len(), encoding.len());
    let crc = Index::crc(None, 7, &part);
    Index::seal(&mut part, crc);
    if is_whole {
        stored.clear();
    }
    stored.resize(stored.len().next_multiple_of(BLOCK as usize), 0);
    stored.extend_from_slice(&part);
    index.parts().stored(is_whole, (part.len() as u64).div_ceil(BLOCK), crc);
    crc
}

/// Checkpoint after checkpoint, in wholes and in changes: the blocks that are read are those of the leaves.
#[test]
fn blocks_that_are_stored_are_those_of_the_leaves() {
    const CHUNKS: u64 = 60;
    const OWN: u64 = 300;
    let mut rng = Rng::new(9);
    let mut alloc = Alloc::new(CHUNKS * 16, false);
    let (mut index, mut space, mut here) = (Index::default(), Space::new(OWN, 2), BTreeMap::<Key, ()>::new());
    let (mut stored, mut id, mut wholes, mut larger, mut seen) = (Vec::new(), 0, 0, 0, 0);
    for step in 0..400_u64 {
        // It grows beyond the meta device, and shrinks again.
        let comes = if step / 60 % 2 == 0 { 4 } else { 1 };
        for _ in 0..10 {
            let k = key(rng.below(400));
            if rng.below(5) < comes && !here.contains_key(&k) {
                id += 1;
                let Some(runs) = space.take(1 + rng.below(4), &mut alloc, u64::MAX) else { continue };
                index.insert(&k, &LeafRef::new(id, &runs, 1), &[1; 9]);
                here.insert(k, ());
            } else if here.remove(&k).is_some() {
                let leaf = index.remove(&k).expect("it is there");
                leaf.runs().for_each(|run| space.put_aside(run));
            }
        }
        let before = stored.len();
        let crc = store_part(&mut index, &space, CHUNKS, &mut stored);
        wholes += u32::from(stored.len() <= before);
        let (again, blocks) = Index::decode(stored.clone().into(), 7, crc, Blocks::new(OWN, CHUNKS)).expect("it is whole");
        let (blocks, leaves) =
            (blocks.expect("they are stored").expect("and right"), Blocks::new(OWN, CHUNKS).of_leaves(&index).expect("each has its own"));
        assert_eq!((blocks.differs(&leaves), again.encode(7)), (None, index.encode(7)), "step {step}");
        let (_, other) = Index::decode(stored.clone().into(), 7, crc, Blocks::new(40, 2)).expect("the index is whole");
        let is_small = leaves.lent().is_empty() && leaves.own()[0] >> 40 == 0 && leaves.own()[1..].iter().all(|word| *word == 0);
        assert!(is_small || other.is_some_and(|blocks| blocks.is_err()), "of larger devices");
        larger += u32::from(!is_small);
        let mut torn = stored.clone();
        let bit = rng.below(8 * torn.len() as u64) as usize;
        torn[bit / 8] ^= 1 << (bit % 8);
        match Index::decode(torn.into(), 7, crc, Blocks::new(OWN, CHUNKS)) {
            Err(_) => seen += 1,
            // Between two parts it does no harm.
            Ok((torn, blocks)) => {
                let blocks = blocks.expect("they are stored").expect("and right");
                assert_eq!((torn.encode(7), blocks.differs(&leaves)), (index.encode(7), None));
            }
        }
        space.release(&mut alloc);
        space.assert_counts();
    }
    assert!(space.lent_blocks() > 0 && wholes > 20 && wholes < 380 && larger > 300, "{wholes} wholes, {larger} of large devices");
    assert!(seen > 50, "{seen} bits");
}
