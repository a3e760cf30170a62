//! The order of object names.

use base::Rng;
use denc::Denc;
use std::cmp::Ordering;
use types::*;

fn random_name(rng: &mut Rng) -> HObject {
    let text = |rng: &mut Rng| ["", "a", "aa", "b", "\u{1}"][rng.below(5) as usize].into();
    match rng.below(12) {
        0 => HObject::min(),
        1 => HObject::max(),
        _ => HObject {
            oid: text(rng),
            key: text(rng),
            snap: [0, 1, CEPH_NOSNAP, CEPH_SNAPDIR][rng.below(4) as usize],
            hash: [0, 1, 2, 0x8000_0000, u32::MAX, 6][rng.below(6) as usize],
            nspace: text(rng),
            pool: rng.below(3) as i64 - 1,
            max: false,
        },
    }
}

#[test]
fn it_is_total() {
    let mut rng = Rng::new(1);
    for _ in 0..20_000 {
        let [a, b, c] = [random_name(&mut rng), random_name(&mut rng), random_name(&mut rng)];
        assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        if a.cmp(&b) == b.cmp(&c) {
            assert_eq!(a.cmp(&c), a.cmp(&b), "{a} {b} {c}");
        }
        assert!(HObject::min() <= a || a.pool < 0 || a == HObject::min());
        assert!(a <= HObject::max());
        let (ga, gb) = (GHObject::plain(a.clone()), GHObject::plain(b.clone()));
        assert_eq!(ga.cmp(&gb), a.cmp(&b));
        let again = HObject::from_bytes(&a.to_bytes(denc::ALL_FEATURES)).unwrap();
        assert!(again == a || a.pool == -1 && again.is_min());
    }
}

/// Objects of a placement group, and of each half after a split, lie together.
#[test]
fn a_split_group_is_two_ranges() {
    let mut rng = Rng::new(2);
    let mut names: Vec<_> = (0..2000).map(|_| HObject { hash: rng.u64() as u32, pool: 1, ..HObject::min() }).collect();
    names.sort();
    for bits in 1..6 {
        let group: Vec<_> = names.iter().map(|n| n.hash & ((1 << bits) - 1)).collect();
        let changes = group.windows(2).filter(|w| w[0] != w[1]).count();
        assert_eq!(changes, (1 << bits) - 1, "as many ranges as groups");
    }
}

/// The locator key, where there is one, sorts before the name; heads sort behind their clones.
#[test]
fn keys_then_names_then_snapshots() {
    let name = |key: &str, oid: &str, snap| HObject { key: key.into(), oid: oid.into(), snap, pool: 1, ..HObject::min() };
    let sorted = [name("", "a", 4), name("", "a", CEPH_NOSNAP), name("", "b", 1), name("b", "a", 1).at_snap(2)];
    assert_eq!(sorted[0].cmp(&sorted[1]), Ordering::Less);
    assert_eq!(sorted[1].cmp(&sorted[2]), Ordering::Less);
    assert_eq!(name("b", "a", 1).cmp(&name("", "b", 1)), Ordering::Less, "same key, then the name");
    assert_eq!(name("a", "z", 1).cmp(&name("", "b", 1)), Ordering::Less);
}
