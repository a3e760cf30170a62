//! The map's encoding.
//!
//! There is no frame: fields that came later stand at the end, and a reader stops where the bytes do.
//! Source of the facts: Ceph 18.2 `CrushWrapper::encode` and `decode`.

use crate::ITEM_UNDEF;
use crate::bucket::{Alg, Bucket, Weights};
use crate::map::{ChooseArg, ChooseArgMap, CrushMap, Tunables, place};
use crate::rule::Rule;
use denc::features;
use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::BTreeMap;

const MAGIC: u32 = 0x0001_0000;

impl Denc for CrushMap {
    fn encode(&self, e: &mut Encoder) {
        e.u32(MAGIC);
        e.count(self.buckets.len());
        e.count(self.rules.len());
        e.i32(self.max_devices);
        // A reader without choose_args gets the first set's weights as the buckets' own.
        let stand_in = if e.has(features::CRUSH_CHOOSE_ARGS) { None } else { self.choose_args.values().next() };
        for (i, bucket) in self.buckets.iter().enumerate() {
            match bucket {
                None => e.u32(0),
                Some(bucket) => {
                    let weights = stand_in.and_then(|args| args.get(&(i as u32))?.weight_set.first());
                    encode_bucket(bucket, weights, e);
                }
            }
        }
        let quincy = e.has(features::SERVER_QUINCY);
        for (i, rule) in self.rules.iter().enumerate() {
            e.u32(rule.is_some().into());
            if let Some(rule) = rule {
                rule.encode(i, quincy, e);
            }
        }
        self.type_names.encode(e);
        self.names.encode(e);
        self.rule_names.encode(e);
        let t = &self.tunables;
        e.u32(t.choose_local_tries);
        e.u32(t.choose_local_fallback_tries);
        e.u32(t.choose_total_tries);
        e.u32(t.chooseleaf_descend_once);
        e.u8(t.chooseleaf_vary_r);
        e.u8(t.straw_calc_version);
        e.u32(t.allowed_bucket_algs);
        if e.has(features::CRUSH_TUNABLES5) {
            e.u8(t.chooseleaf_stable);
        }
        if e.has(features::SERVER_LUMINOUS) {
            self.class_map.encode(e);
            self.class_names.encode(e);
            self.class_bucket.encode(e);
            self.encode_choose_args(e);
        }
    }

    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        if d.u32()? != MAGIC {
            return Err(d.invalid("a CRUSH map starts with its magic"));
        }
        // An absent bucket or rule still takes a word.
        let max_buckets = d.u32()? as usize;
        let max_rules = d.u32()? as usize;
        let max_devices = d.i32()?;
        if max_buckets.saturating_add(max_rules).saturating_mul(4) > d.remaining() {
            return Err(d.invalid("a CRUSH map has more buckets and rules than bytes"));
        }
        if max_devices < 0 || max_rules > 256 {
            return Err(d.invalid("a CRUSH map's bounds are out of range"));
        }
        let buckets = (0..max_buckets).map(|i| decode_bucket(i, d)).collect::<Result<Vec<_>, _>>()?;
        let rules =
            (0..max_rules).map(|i| if d.u32()? != 0 { Rule::decode(i, d).map(Some) } else { Ok(None) }).collect::<Result<Vec<_>, _>>()?;
        let mut map = CrushMap {
            buckets,
            rules,
            max_devices,
            type_names: decode_names(d)?,
            names: decode_names(d)?,
            rule_names: decode_names(d)?,
            tunables: Tunables::LEGACY,
            ..CrushMap::default()
        };
        let t = &mut map.tunables;
        if !d.is_empty() {
            t.choose_local_tries = d.u32()?;
            t.choose_local_fallback_tries = d.u32()?;
            t.choose_total_tries = d.u32()?;
        }
        if !d.is_empty() {
            t.chooseleaf_descend_once = d.u32()?;
        }
        if !d.is_empty() {
            t.chooseleaf_vary_r = d.u8()?;
        }
        if !d.is_empty() {
            t.straw_calc_version = d.u8()?;
        }
        if !d.is_empty() {
            t.allowed_bucket_algs = d.u32()?;
        }
        if !d.is_empty() {
            t.chooseleaf_stable = d.u8()?;
        }
        if !d.is_empty() {
            map.class_map = d.get()?;
            map.class_names = d.get()?;
            map.class_bucket = d.get()?;
        }
        if !d.is_empty() {
            map.decode_choose_args(d)?;
        }
        // What was stated is not trusted: it follows from the items, and from names of devices that lie nowhere.
        let items = map.iter_buckets().flat_map(|b| b.items.iter()).chain(map.names.keys());
        map.max_devices = items.max().map_or(0, |item| item.saturating_add(1).max(0));
        if map.has_cycle() {
            return Err(d.invalid("a CRUSH bucket holds itself"));
        }
        Ok(map)
    }
}

impl CrushMap {
    fn encode_choose_args(&self, e: &mut Encoder) {
        e.count(self.choose_args.len());
        for (index, args) in &self.choose_args {
            e.i64(*index);
            let used = || args.iter().filter(|(_, arg)| !(arg.weight_set.is_empty() && arg.ids.is_empty()));
            e.count(used().count());
            for (place, arg) in used() {
                e.u32(*place);
                arg.weight_set.encode(e);
                arg.ids.encode(e);
            }
        }
    }

    fn decode_choose_args(&mut self, d: &mut Decoder) -> Result<(), DencError> {
        for _ in 0..d.count(12)? {
            let index = d.i64()?;
            let mut args = ChooseArgMap::new();
            for _ in 0..d.count(12)? {
                let place = d.u32()?;
                let arg = ChooseArg { weight_set: d.get()?, ids: d.get()? };
                let Some(bucket) = self.buckets.get(place as usize) else {
                    return Err(d.invalid("choose_args name a bucket beyond the last"));
                };
                if !arg.ids.is_empty() && bucket.as_ref().is_none_or(|b| b.len() != arg.ids.len()) {
                    return Err(d.invalid("choose_args have other ids than their bucket has items"));
                }
                args.insert(place, arg);
            }
            self.fit_choose_args(&mut args);
            self.choose_args.insert(index, args);
        }
        Ok(())
    }

    /// Drops what has no straw2 bucket and cuts or pads weights to the bucket's length.
    pub(crate) fn fit_choose_args(&self, args: &mut ChooseArgMap) {
        let positions = args.values().map(|arg| arg.weight_set.len()).find(|n| *n > 0).unwrap_or(1);
        args.retain(|place, arg| {
            let Some(bucket) = self.buckets.get(*place as usize).and_then(Option::as_ref) else { return false };
            if bucket.alg() != Alg::Straw2 {
                return false;
            }
            if arg.weight_set.len() == positions {
                for weights in &mut arg.weight_set {
                    weights.resize(bucket.len(), 0);
                }
            }
            true
        });
    }

    /// True if a walk down from some bucket comes back to it.
    fn has_cycle(&self) -> bool {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.buckets.len()];
        // Explicit stack of (place, next item): depth is the peer's choice.
        let mut stack: Vec<(usize, usize)> = Vec::new();
        for start in 0..self.buckets.len() {
            if marks[start] != Mark::New {
                continue;
            }
            marks[start] = Mark::Open;
            stack.push((start, 0));
            while let Some((at, next)) = stack.last_mut() {
                let item = self.buckets[*at].as_ref().and_then(|b| b.items.get(*next));
                match item {
                    None => {
                        marks[*at] = Mark::Done;
                        stack.pop();
                    }
                    Some(item) => {
                        *next += 1;
                        let Some(child) = place(*item).filter(|p| *p < marks.len()) else { continue };
                        match marks[child] {
                            Mark::Open => return true,
                            Mark::Done => {}
                            Mark::New => {
                                marks[child] = Mark::Open;
                                stack.push((child, 0));
                            }
                        }
                    }
                }
            }
        }
        false
    }
}

fn encode_bucket(b: &Bucket, stand_in: Option<&Vec<u32>>, e: &mut Encoder) {
    e.u32(b.alg() as u32);
    e.i32(b.id);
    e.u16(b.kind);
    e.u8(b.alg() as u8);
    e.u8(b.hash);
    e.u32(b.weight);
    b.items.encode(e);
    let pairs = |e: &mut Encoder, a: &[u32], b: &[u32]| {
        for (x, y) in a.iter().zip(b) {
            e.u32(*x);
            e.u32(*y);
        }
    };
    match &b.weights {
        Weights::Uniform { item_weight } => e.u32(*item_weight),
        Weights::List { item_weights, sum_weights } => pairs(e, item_weights, sum_weights),
        Weights::Straw { item_weights, straws } => pairs(e, item_weights, straws),
        Weights::Tree { node_weights } => {
            e.u8(node_weights.len() as u8);
            for weight in node_weights {
                e.u32(*weight);
            }
        }
        Weights::Straw2 { item_weights } => {
            for weight in stand_in.unwrap_or(item_weights) {
                e.u32(*weight);
            }
        }
    }
}

fn decode_bucket(at: usize, d: &mut Decoder) -> Result<Option<Bucket>, DencError> {
    let stated = d.u32()?;
    if stated == 0 {
        return Ok(None);
    }
    let id = d.i32()?;
    let kind = d.u16()?;
    let alg = d.u8()?;
    let hash = d.u8()?;
    let weight = d.u32()?;
    if u32::from(alg) != stated {
        return Err(d.invalid("a CRUSH bucket states two algorithms"));
    }
    if place(id) != Some(at) {
        return Err(d.invalid("a CRUSH bucket stands at another's place"));
    }
    if kind == 0 {
        return Err(d.invalid("a CRUSH bucket has the type of devices"));
    }
    let alg = Alg::from_u8(alg).ok_or_else(|| d.invalid("a CRUSH bucket's algorithm is unknown"))?;
    let items: Vec<i32> = {
        let n = d.count(4)?;
        (0..n).map(|_| d.i32()).collect::<Result<_, _>>()?
    };
    if items.iter().any(|item| *item >= ITEM_UNDEF) {
        return Err(d.invalid("a CRUSH bucket holds what is no device"));
    }
    let words = |d: &mut Decoder, n: usize| (0..n).map(|_| d.u32()).collect::<Result<Vec<_>, _>>();
    let pairs = |d: &mut Decoder, n: usize| -> Result<(Vec<u32>, Vec<u32>), DencError> {
        let mut out = (Vec::with_capacity(n), Vec::with_capacity(n));
        for _ in 0..n {
            out.0.push(d.u32()?);
            out.1.push(d.u32()?);
        }
        Ok(out)
    };
    let weights = match alg {
        Alg::Uniform => Weights::Uniform { item_weight: d.u32()? },
        Alg::List => {
            let (item_weights, sum_weights) = pairs(d, items.len())?;
            Weights::List { item_weights, sum_weights }
        }
        Alg::Tree => {
            let n = d.u8()?.into();
            Weights::Tree { node_weights: words(d, n)? }
        }
        Alg::Straw => {
            let (item_weights, straws) = pairs(d, items.len())?;
            Weights::Straw { item_weights, straws }
        }
        Alg::Straw2 => Weights::Straw2 { item_weights: words(d, items.len())? },
    };
    Ok(Some(Bucket { id, kind, hash, weight, items, weights }))
}

/// Old writers had 64-bit keys in these maps; names are never empty, so a length of 0 is the key's upper half.
fn decode_names(d: &mut Decoder) -> Result<BTreeMap<i32, String>, DencError> {
    let n = d.count(8)?;
    let mut names = BTreeMap::new();
    for _ in 0..n {
        let key = d.i32()?;
        let mut len = d.u32()?;
        if len == 0 {
            len = d.u32()?;
        }
        let text = d.raw(len as usize)?;
        let text = String::from_utf8(text.to_vec()).map_err(|_| d.invalid("a CRUSH name is not UTF-8"))?;
        names.insert(key, text);
    }
    Ok(names)
}
