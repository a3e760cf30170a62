//! The order in which a round visits the targets: a Williams square, so that each target is equally often at each place and behind each
//! other one, with each row followed by its mirror image, so that a drift of the machine cancels within two rounds.

use base::Rng;

/// Rows of a Williams square of `n`, each followed by its mirror image; all of them place and neighbour each number equally often.
fn rows(n: usize) -> Vec<Vec<usize>> {
    // 0, 1, n-1, 2, n-2, …: neighbours differ by each step once.
    let first: Vec<usize> = (0..n).map(|i| if i % 2 == 1 { i.div_ceil(2) } else { (n - i / 2) % n }).collect();
    let row = |by: usize| first.iter().map(|at| (at + by) % n).collect::<Vec<usize>>();
    // Of an even square, half of the rows are the others' mirror images already.
    let count = if n % 2 == 0 { n / 2 } else { n };
    (0..count)
        .flat_map(|by| {
            let row = row(by);
            let mirror = row.iter().rev().copied().collect();
            [row, mirror]
        })
        .collect()
}

/// For each of `rounds` rounds the order of `n` targets. Rows and names are dealt from the seed.
pub fn orders(n: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut rng = Rng::new(seed);
    let mut names: Vec<usize> = (0..n).collect();
    shuffle(&mut names, &mut rng);
    let square = rows(n);
    let mut pairs: Vec<usize> = (0..square.len() / 2).collect();
    let mut out = Vec::with_capacity(rounds);
    while out.len() < rounds && n > 0 {
        shuffle(&mut pairs, &mut rng);
        for pair in &pairs {
            let flip = usize::from(rng.chance(1, 2));
            out.extend([2 * pair + flip, 2 * pair + 1 - flip].map(|row| square[row].iter().map(|at| names[*at]).collect::<Vec<_>>()));
        }
    }
    out.truncate(rounds);
    if n == 0 { vec![Vec::new(); rounds] } else { out }
}

fn shuffle(values: &mut [usize], rng: &mut Rng) {
    for i in (1..values.len()).rev() {
        values.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_is_equally_often_at_each_place_and_behind_each_other() {
        for n in 1..=9 {
            let whole = rows(n).len();
            let orders = orders(n, whole, 5);
            let (mut places, mut followers) = (BTreeMap::new(), BTreeMap::new());
            for order in &orders {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..n).collect::<Vec<_>>());
                order.iter().enumerate().for_each(|p| *places.entry(p).or_insert(0) += 1);
                order.windows(2).for_each(|w| *followers.entry((w[0], w[1])).or_insert(0) += 1);
            }
            assert_eq!(places.len(), n * n);
            assert!(places.values().all(|c| *c == whole / n), "places of {n}");
            assert_eq!(followers.len(), n * (n - 1));
            let each = followers.values().next().copied().unwrap_or_default();
            assert!(followers.values().all(|c| *c == each), "followers of {n}");
        }
    }

    #[test]
    fn two_rounds_are_mirror_images_and_the_seed_decides() {
        for n in 2..=8 {
            let orders = orders(n, 10, 9);
            assert_eq!(orders.len(), 10);
            for pair in orders.chunks(2) {
                assert_eq!(pair[0], pair[1].iter().rev().copied().collect::<Vec<_>>());
            }
            assert_eq!(orders, super::orders(n, 10, 9));
        }
        assert_ne!(orders(6, 10, 1), orders(6, 10, 2));
    }
}
