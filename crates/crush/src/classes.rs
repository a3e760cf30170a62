//! Device classes. Each class has a copy of the tree with only its devices (`default~ssd`), which rules start at.

use crate::bucket::{Bucket, Weights};
use crate::edit::CrushError;
use crate::map::{ChooseArg, CrushMap, place};
use std::collections::{BTreeMap, BTreeSet};

/// Bucket to class to shadow bucket.
type Shadows = BTreeMap<i32, BTreeMap<i32, i32>>;

impl CrushMap {
    /// Gives a device a class, made if it is new. False if it has it; an error if it has another.
    pub fn set_device_class(&mut self, osd: i32, class: &str) -> Result<bool, CrushError> {
        match self.item_class(osd) {
            Some(old) if old == class => return Ok(false),
            Some(old) => return Err(CrushError::ClassBound { osd, class: old.into() }),
            None => {}
        }
        // A device may have a name before it has a place: OSDs set their class first.
        if osd < 0 || !(self.item_exists(osd) || self.names.contains_key(&osd)) {
            return Err(CrushError::NoId(osd));
        }
        let id = match self.class_id(class) {
            Some(id) => id,
            None => {
                let id = self.class_names.keys().next_back().map_or(Some(0), |id| id.checked_add(1)).ok_or(CrushError::NoId(i32::MAX))?;
                self.class_names.insert(id, class.into());
                id
            }
        };
        self.class_map.insert(osd, id);
        self.rebuild_shadows();
        Ok(true)
    }
    /// Takes a device's class away. False if it has none.
    pub fn remove_device_class(&mut self, osd: i32) -> Result<bool, CrushError> {
        if !self.names.contains_key(&osd) {
            return Err(CrushError::NoId(osd));
        }
        let had = self.class_map.remove(&osd).is_some();
        self.rebuild_shadows();
        Ok(had)
    }
    /// Devices of a class, ascending.
    pub fn devices_of_class(&self, class: &str) -> Vec<i32> {
        let Some(id) = self.class_id(class) else { return Vec::new() };
        self.class_map.iter().filter(|(item, c)| **item >= 0 && **c == id).map(|(item, _)| *item).collect()
    }
    /// The bucket that a shadow bucket is a copy of, and the class; the bucket itself and none for others.
    pub fn split_class(&self, bucket: i32) -> (i32, Option<i32>) {
        for (original, shadows) in &self.class_bucket {
            if let Some((class, _)) = shadows.iter().find(|(_, shadow)| **shadow == bucket) {
                return (*original, Some(*class));
            }
        }
        (bucket, None)
    }

    /// Builds the shadow trees anew. Buckets keep the numbers that they had; a class that neither a device nor a rule uses goes.
    pub fn rebuild_shadows(&mut self) {
        let takes = self.takes();
        let in_use = |class: i32| {
            self.class_map.iter().any(|(item, c)| *item >= 0 && *c == class)
                || self.class_bucket.values().any(|shadows| shadows.get(&class).is_some_and(|id| takes.contains(id)))
        };
        let dead: Vec<i32> = self.class_names.keys().copied().filter(|class| !in_use(*class)).collect();
        for class in dead {
            self.class_names.remove(&class);
        }
        let old = std::mem::take(&mut self.class_bucket);
        let used: BTreeSet<i32> = old.values().flat_map(|shadows| shadows.values().copied()).collect();
        let gone: Vec<i32> = self.iter_buckets().map(|b| b.id).filter(|id| self.is_shadow(*id)).collect();
        for id in gone {
            self.drop_bucket(id);
            self.names.remove(&id);
            self.class_map.remove(&id);
        }
        let classes: Vec<i32> = self.class_names.keys().copied().collect();
        for root in self.nonshadow_roots() {
            for class in &classes {
                self.shadow(root, *class, &old, &used);
            }
        }
    }

    /// The shadow of a bucket and of all below it; its number.
    fn shadow(&mut self, original: i32, class: i32, old: &Shadows, used: &BTreeSet<i32>) -> Option<i32> {
        if let Some(id) = self.class_bucket.get(&original).and_then(|shadows| shadows.get(&class)) {
            return Some(*id);
        }
        let from = self.bucket(original)?.clone();
        let name = format!("{}~{}", self.item_name(original)?, self.class_name(class)?);
        // (item, weight, place in the original)
        let mut content = Vec::new();
        for (at, (item, weight)) in from.weighted().enumerate() {
            if item >= 0 {
                if self.class_map.get(&item) == Some(&class) {
                    content.push((item, weight, at));
                }
            } else if let Some(child) = self.shadow(item, class, old, used) {
                content.push((child, self.bucket(child).map_or(0, |b| b.weight), at));
            }
        }
        let id = old.get(&original).and_then(|shadows| shadows.get(&class)).copied().unwrap_or_else(|| {
            (0..).map(|at| -1 - at).find(|id| self.bucket(*id).is_none() && !used.contains(id)).expect("numbers below 0 abound")
        });
        let empty = match from.weights {
            Weights::Uniform { .. } => Weights::Uniform { item_weight: 0 },
            Weights::List { .. } => Weights::List { item_weights: Vec::new(), sum_weights: Vec::new() },
            Weights::Tree { .. } => Weights::Tree { node_weights: Vec::new() },
            Weights::Straw { .. } => Weights::Straw { item_weights: Vec::new(), straws: Vec::new() },
            Weights::Straw2 { .. } => Weights::Straw2 { item_weights: Vec::new() },
        };
        let mut bucket = Bucket { id, items: Vec::new(), weight: 0, weights: empty, ..from };
        bucket.set_content(&content.iter().map(|(item, weight, _)| (*item, *weight)).collect::<Vec<_>>());
        self.place_bucket(bucket);
        self.names.insert(id, name);
        self.class_map.insert(id, class);
        self.class_bucket.entry(original).or_default().insert(class, id);
        self.shadow_choose_args(original, id, &content);
        Some(id)
    }

    /// Weight-sets of a shadow bucket: devices' as in the original, buckets' the sums of their shadows'.
    fn shadow_choose_args(&mut self, original: i32, shadow: i32, content: &[(i32, u32, usize)]) {
        let key = |id: i32| place(id).expect("buckets have numbers below 0") as u32;
        for args in self.choose_args.values_mut() {
            let Some(from) = args.get(&key(original)).filter(|arg| !arg.weight_set.is_empty()) else { continue };
            let sets = from.weight_set.iter().enumerate().map(|(position, weights)| {
                let weight = |(item, _, at): &(i32, u32, usize)| match *item {
                    device if device >= 0 => weights.get(*at).copied().unwrap_or(0),
                    child => args.get(&key(child)).and_then(|arg| arg.weight_set.get(position)).map_or(0, |w| w.iter().sum()),
                };
                content.iter().map(weight).collect()
            });
            let arg = ChooseArg { weight_set: sets.collect(), ids: Vec::new() };
            args.insert(key(shadow), arg);
        }
    }
}
