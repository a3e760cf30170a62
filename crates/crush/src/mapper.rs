//! The mapping: from a placement seed to devices, by a rule. It must give what Ceph gives, draw for draw.
//!
//! Source of the facts: Ceph 18.2 `src/crush/mapper.c` (what each retry feeds back into the hash, which counters bound it).

use crate::bucket::{Bucket, Weights};
use crate::hash::{hash32_2, hash32_3, hash32_4};
use crate::ln::straw2_draw;
use crate::map::{ChooseArg, ChooseArgMap, CrushMap, place};
use crate::rule::op;
use crate::{ITEM_NONE, ITEM_UNDEF, WEIGHT_ONE};

/// Vectors that a mapping works in, kept between mappings so that one costs no allocation.
#[derive(Debug, Default)]
pub struct Scratch {
    work: Vec<i32>,
    out: Vec<i32>,
    leaves: Vec<i32>,
    permutation: Vec<u32>,
}

/// True if the seed `x` passes over a device that is reweighted (`weights` by device, 16.16): always at 0 and past the end, never at one.
#[inline]
pub fn is_out(weights: &[u32], device: i32, x: u32) -> bool {
    match weights.get(device as usize).copied() {
        None | Some(0) => true,
        Some(w) if w >= WEIGHT_ONE => false,
        Some(w) => hash32_2(x, device as u32) & 0xffff >= w,
    }
}

/// No map asks for more tries than this in earnest; one that does (a damaged one) must not hold up its reader for minutes.
const TRIES_MAX: u32 = 10_000;

/// How often to try, for one rule.
#[derive(Clone, Copy)]
struct Tries {
    total: u32,
    leaf: u32,
    local: u32,
    local_fallback: u32,
    vary_r: u32,
    stable: bool,
}

/// What stays the same during one mapping.
struct Mapping<'a> {
    map: &'a CrushMap,
    weights: &'a [u32],
    args: Option<&'a ChooseArgMap>,
    x: u32,
}

/// What one descent ended at.
enum Landed {
    Item {
        item: i32,
        kind: i32,
    },
    /// The bucket has no items.
    Empty,
    /// The map is not sound there: this replica is given up.
    Bad,
}

impl CrushMap {
    /// Maps `x` by a rule to at most `max` devices. `weights` are the devices' reweights (16.16); `pool` chooses among the choose_args.
    /// `indep` rules leave [`ITEM_NONE`] where they found nothing; other rules give a shorter result.
    pub fn do_rule(&self, rule: u32, x: u32, max: usize, weights: &[u32], pool: i64, scratch: &mut Scratch) -> Vec<i32> {
        let mut result = Vec::new();
        let Some(rule) = self.rule(rule) else { return result };
        if rule.is_msr() {
            return rule.maps_nothing(max);
        }
        let mapping = Mapping { map: self, weights, args: self.choose_args_for(pool), x };
        let t = &self.tunables;
        // The tunable counts retries, the code tries.
        let (mut choose_tries, mut leaf_tries) = (t.choose_total_tries.min(TRIES_MAX) + 1, 0);
        let (mut local, mut local_fallback) = (t.choose_local_tries.min(TRIES_MAX), t.choose_local_fallback_tries.min(TRIES_MAX));
        let (mut vary_r, mut stable) = (u32::from(t.chooseleaf_vary_r), t.chooseleaf_stable != 0);
        let Scratch { work, out, leaves, permutation } = scratch;
        work.clear();

        for step in &rule.steps {
            match step.op {
                op::TAKE => {
                    let known = if step.arg1 >= 0 { step.arg1 < self.max_devices } else { self.bucket(step.arg1).is_some() };
                    if known {
                        work.clear();
                        work.push(step.arg1);
                    }
                }
                op::SET_CHOOSE_TRIES if step.arg1 > 0 => choose_tries = (step.arg1 as u32).min(TRIES_MAX),
                op::SET_CHOOSELEAF_TRIES if step.arg1 > 0 => leaf_tries = (step.arg1 as u32).min(TRIES_MAX),
                op::SET_CHOOSE_LOCAL_TRIES if step.arg1 >= 0 => local = (step.arg1 as u32).min(TRIES_MAX),
                op::SET_CHOOSE_LOCAL_FALLBACK_TRIES if step.arg1 >= 0 => local_fallback = (step.arg1 as u32).min(TRIES_MAX),
                op::SET_CHOOSELEAF_VARY_R if step.arg1 >= 0 => vary_r = step.arg1 as u32,
                op::SET_CHOOSELEAF_STABLE if step.arg1 >= 0 => stable = step.arg1 != 0,
                op::CHOOSE_FIRSTN | op::CHOOSELEAF_FIRSTN | op::CHOOSE_INDEP | op::CHOOSELEAF_INDEP => {
                    if work.is_empty() {
                        continue;
                    }
                    let to_leaf = matches!(step.op, op::CHOOSELEAF_FIRSTN | op::CHOOSELEAF_INDEP);
                    let firstn = matches!(step.op, op::CHOOSE_FIRSTN | op::CHOOSELEAF_FIRSTN);
                    out.clear();
                    leaves.clear();
                    for &from in work.iter() {
                        let mut wanted = i64::from(step.arg1);
                        if wanted <= 0 {
                            wanted += max as i64;
                        }
                        if wanted <= 0 {
                            continue;
                        }
                        let wanted = wanted as u32;
                        let Some(bucket) = self.bucket(from) else { continue };
                        let room = max - out.len();
                        let (start, kind) = (out.len(), step.arg2);
                        if firstn {
                            let leaf = match leaf_tries {
                                0 if t.chooseleaf_descend_once != 0 => 1,
                                0 => choose_tries,
                                n => n,
                            };
                            let tries = Tries { total: choose_tries, leaf, local, local_fallback, vary_r, stable };
                            let targets = Targets { out: &mut *out, leaves: &mut *leaves, start, permutation: &mut *permutation };
                            mapping.firstn(bucket, wanted, room, kind, tries, to_leaf, targets);
                        } else {
                            let n = room.min(wanted as usize);
                            out.resize(start + n, ITEM_UNDEF);
                            leaves.resize(start + n, ITEM_UNDEF);
                            let leaf = if leaf_tries == 0 { 1 } else { leaf_tries };
                            let slots = Slots { out: &mut out[start..], leaves: &mut leaves[start..], permutation: &mut *permutation };
                            mapping.indep(bucket, wanted, kind, choose_tries, leaf, to_leaf, slots);
                        }
                    }
                    std::mem::swap(work, if to_leaf { leaves } else { out });
                }
                op::EMIT => {
                    let room = max - result.len();
                    result.extend(work.iter().take(room));
                    work.clear();
                }
                _ => {}
            }
        }
        result
    }
}

/// Where `firstn` puts what it finds: behind `start`, items and (one for one) the devices below them.
struct Targets<'s> {
    out: &'s mut Vec<i32>,
    leaves: &'s mut Vec<i32>,
    start: usize,
    permutation: &'s mut Vec<u32>,
}

/// The positions that `indep` fills.
struct Slots<'s> {
    out: &'s mut [i32],
    leaves: &'s mut [i32],
    permutation: &'s mut Vec<u32>,
}

impl Mapping<'_> {
    /// Up to `wanted` distinct items of type `kind` below `bucket`, at most `room`, shifted together.
    #[allow(clippy::too_many_arguments)]
    fn firstn(&self, bucket: &Bucket, wanted: u32, room: usize, kind: i32, tries: Tries, to_leaf: bool, t: Targets<'_>) {
        let Targets { out, leaves, start, permutation } = t;
        let mut room = room;
        let mut rep = 0;
        while rep < wanted && room > 0 {
            let found = out.len() - start;
            let taken = |item: i32, _: i32| out[start..].contains(&item);
            let leaf_at = |r: u32, item: i32, permutation: &mut Vec<u32>| {
                if to_leaf { self.leaf(item, r, found, &leaves[start..], tries, permutation) } else { Some(item) }
            };
            if let Some((item, leaf)) = self.draw(bucket, rep, 0, found, kind, tries.total, tries, permutation, taken, leaf_at) {
                out.push(item);
                leaves.push(leaf);
                room -= 1;
            }
            rep += 1;
        }
    }

    /// One device below `item`, other than those in `have`; `r` is the draw that led to the item.
    fn leaf(&self, item: i32, r: u32, found: usize, have: &[i32], tries: Tries, permutation: &mut Vec<u32>) -> Option<i32> {
        if item >= 0 {
            return Some(item);
        }
        let bucket = self.map.bucket(item)?;
        let parent_r = if tries.vary_r == 0 { 0 } else { r.checked_shr(tries.vary_r - 1).unwrap_or(0) };
        let rep = if tries.stable { 0 } else { found as u32 };
        let taken = |item: i32, _: i32| have.contains(&item);
        self.draw(bucket, rep, parent_r, found, 0, tries.leaf, tries, permutation, taken, |_, item, _| Some(item)).map(|(item, _)| item)
    }

    /// Descends until an item of type `kind` is found that is not taken, has a leaf if one is wanted, and (a device) is not out. Each
    /// refusal raises what is fed to the hash.
    #[allow(clippy::too_many_arguments)]
    fn draw(
        &self,
        bucket: &Bucket,
        rep: u32,
        parent_r: u32,
        position: usize,
        kind: i32,
        tries_total: u32,
        tries: Tries,
        permutation: &mut Vec<u32>,
        taken: impl Fn(i32, i32) -> bool,
        leaf_at: impl Fn(u32, i32, &mut Vec<u32>) -> Option<i32>,
    ) -> Option<(i32, i32)> {
        let mut failed = 0_u32;
        'descent: loop {
            let mut at = bucket;
            let mut failed_here = 0_u32;
            loop {
                let r = rep.wrapping_add(parent_r).wrapping_add(failed);
                let permute = tries.local_fallback > 0 && failed_here as usize >= at.len() >> 1 && failed_here > tries.local_fallback;
                let mut collided = false;
                match self.step(at, r, position, permute, permutation) {
                    Landed::Bad => return None,
                    Landed::Item { item, kind: below } if below != kind => {
                        // A device above the wanted level, or a bucket that isn't there, ends this replica.
                        at = self.map.bucket(item)?;
                        continue;
                    }
                    Landed::Item { item, .. } => {
                        collided = taken(item, kind);
                        if !collided
                            && let Some(leaf) = leaf_at(r, item, permutation)
                            && (kind != 0 || !is_out(self.weights, item, self.x))
                        {
                            return Some((item, leaf));
                        }
                    }
                    Landed::Empty => {}
                }
                failed += 1;
                failed_here += 1;
                let again_here = collided && failed_here <= tries.local
                    || tries.local_fallback > 0 && failed_here as usize <= at.len().saturating_add(tries.local_fallback as usize);
                if again_here {
                    continue;
                }
                if failed < tries_total {
                    continue 'descent;
                }
                return None;
            }
        }
    }

    /// Fills every slot with an item of type `kind`, breadth first, so that a change of one slot leaves the others alone.
    #[allow(clippy::too_many_arguments)]
    fn indep(&self, bucket: &Bucket, wanted: u32, kind: i32, tries: u32, leaf_tries: u32, to_leaf: bool, slots: Slots<'_>) {
        let Slots { out, leaves, permutation } = slots;
        let mut left = out.len();
        for failed in 0..tries {
            if left == 0 {
                break;
            }
            for slot in 0..out.len() {
                if out[slot] != ITEM_UNDEF {
                    continue;
                }
                match self.indep_draw(bucket, slot as u32, 0, failed, wanted, kind, 0, permutation) {
                    (_, Landed::Empty) => {}
                    (_, Landed::Bad) => {
                        out[slot] = ITEM_NONE;
                        leaves[slot] = ITEM_NONE;
                        left -= 1;
                    }
                    (r, Landed::Item { item, .. }) => {
                        if out.contains(&item) {
                            continue;
                        }
                        if to_leaf {
                            leaves[slot] = self.indep_leaf(item, slot as u32, r, wanted, leaf_tries, permutation);
                            if leaves[slot] == ITEM_NONE {
                                // Stays undecided for the next round, where a stale value is overwritten.
                                continue;
                            }
                        }
                        if kind == 0 && is_out(self.weights, item, self.x) {
                            continue;
                        }
                        out[slot] = item;
                        left -= 1;
                    }
                }
            }
        }
        for item in out.iter_mut().chain(leaves) {
            if *item == ITEM_UNDEF {
                *item = ITEM_NONE;
            }
        }
    }

    /// One device below `item` for `slot`, or [`ITEM_NONE`].
    fn indep_leaf(&self, item: i32, slot: u32, parent_r: u32, wanted: u32, tries: u32, permutation: &mut Vec<u32>) -> i32 {
        if item >= 0 {
            return item;
        }
        let Some(bucket) = self.map.bucket(item) else { return ITEM_NONE };
        for failed in 0..tries {
            match self.indep_draw(bucket, slot, parent_r, failed, wanted, 0, slot as usize, permutation).1 {
                Landed::Item { item, .. } if !is_out(self.weights, item, self.x) => return item,
                Landed::Bad => return ITEM_NONE,
                _ => {}
            }
        }
        ITEM_NONE
    }

    /// One descent for a slot, with the draw number that chose the item.
    #[allow(clippy::too_many_arguments)]
    fn indep_draw(
        &self,
        bucket: &Bucket,
        slot: u32,
        parent_r: u32,
        failed: u32,
        wanted: u32,
        kind: i32,
        position: usize,
        permutation: &mut Vec<u32>,
    ) -> (u32, Landed) {
        let mut at = bucket;
        loop {
            // Uniform buckets whose size the count divides would otherwise try the same items for ever.
            let uniform = matches!(at.weights, Weights::Uniform { .. }) && (at.len() as u32).is_multiple_of(wanted);
            let stride = if uniform { wanted.wrapping_add(1) } else { wanted };
            let r = slot.wrapping_add(parent_r).wrapping_add(stride.wrapping_mul(failed));
            match self.step(at, r, position, false, permutation) {
                Landed::Item { item, kind: below } if below != kind => match self.map.bucket(item) {
                    Some(next) => at = next,
                    None => return (r, Landed::Bad),
                },
                landed => return (r, landed),
            }
        }
    }

    /// One choice in one bucket.
    fn step(&self, at: &Bucket, r: u32, position: usize, permute: bool, permutation: &mut Vec<u32>) -> Landed {
        if at.is_empty() {
            return Landed::Empty;
        }
        let item = if permute { self.permuted(at, r, permutation) } else { self.choose(at, r, position, permutation) };
        if item >= self.map.max_devices {
            return Landed::Bad;
        }
        match self.map.item_type(item) {
            Some(kind) => Landed::Item { item, kind },
            None => Landed::Bad,
        }
    }

    fn choose(&self, b: &Bucket, r: u32, position: usize, permutation: &mut Vec<u32>) -> i32 {
        let x = self.x;
        let hash3 = |item: i32| if b.hash == 0 { hash32_3(x, item as u32, r) } else { 0 };
        let hash4 = |item: i32| if b.hash == 0 { hash32_4(x, item as u32, r, b.id as u32) } else { 0 };
        match &b.weights {
            Weights::Uniform { .. } => self.permuted(b, r, permutation),
            Weights::List { item_weights, sum_weights } => {
                let wins =
                    |i: &usize| (u64::from(hash4(b.items[*i]) & 0xffff) * u64::from(sum_weights[*i])) >> 16 < u64::from(item_weights[*i]);
                b.items[(0..b.items.len()).rev().find(wins).unwrap_or(0)]
            }
            Weights::Tree { node_weights } => {
                let mut node = node_weights.len() >> 1;
                while node & 1 == 0 && node != 0 {
                    let half = 1 << (node.trailing_zeros() - 1);
                    let point = (u64::from(hash4(node as i32)) * u64::from(node_weights[node])) >> 32;
                    let left = node_weights.get(node - half).copied().unwrap_or(0);
                    node = if point < u64::from(left) { node - half } else { node + half };
                    if node >= node_weights.len() {
                        break;
                    }
                }
                b.items.get(node >> 1).copied().unwrap_or(b.items[0])
            }
            Weights::Straw { straws, .. } => {
                let mut best = (0, b.items[0]);
                for (i, (item, straw)) in b.items.iter().zip(straws).enumerate() {
                    let draw = u64::from(hash3(*item) & 0xffff) * u64::from(*straw);
                    if i == 0 || draw > best.0 {
                        best = (draw, *item);
                    }
                }
                best.1
            }
            Weights::Straw2 { item_weights } => {
                let arg: Option<&ChooseArg> = self.args.and_then(|args| args.get(&(place(b.id)? as u32)));
                let weights = match arg.map(|arg| &arg.weight_set) {
                    Some(set) if !set.is_empty() => &set[position.min(set.len() - 1)],
                    _ => item_weights,
                };
                let ids = match arg {
                    Some(arg) if !arg.ids.is_empty() => &arg.ids,
                    _ => &b.items,
                };
                let (mut best, mut item) = (i64::MIN, b.items[0]);
                for i in 0..b.items.len() {
                    let weight = weights.get(i).copied().unwrap_or(0);
                    if weight == 0 {
                        continue;
                    }
                    let draw = straw2_draw(hash3(ids.get(i).copied().unwrap_or(b.items[i])), weight);
                    if draw > best {
                        best = draw;
                        item = b.items[i];
                    }
                }
                item
            }
        }
    }

    /// The item at place `r` of a permutation that the seed and the bucket determine.
    fn permuted(&self, b: &Bucket, r: u32, permutation: &mut Vec<u32>) -> i32 {
        let n = b.len() as u32;
        let wanted = r % n;
        permutation.clear();
        permutation.extend(0..n);
        for at in 0..=wanted {
            if at < n - 1 {
                let hash = if b.hash == 0 { hash32_3(self.x, b.id as u32, at) } else { 0 };
                permutation.swap(at as usize, (at + hash % (n - at)) as usize);
            }
        }
        b.items[permutation[wanted as usize] as usize]
    }
}
