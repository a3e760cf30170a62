//! Changes of the tree: items and their weights, and the buckets that are made for them.
//!
//! After every change the weights above sum up again (of weight-sets too) and the shadow trees are rebuilt. Bucket numbers and array
//! lengths come out as Ceph's, so that a map edited here and one edited by a stock monitor are alike.

use crate::bucket::{Bucket, Weights};
use crate::device::{DEVICE, add_type, levels};
use crate::map::{CrushMap, DEFAULT_TYPES, place};
use crate::rule::{Rule, op};
use crate::{ITEM_UNDEF, WEIGHT_ONE};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Why a change is refused. The map is as it was.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CrushError {
    #[error("'{0}' is no name: it may have letters, digits, '-', '_' and '.'")]
    BadName(String),
    #[error("'{0}' does not exist")]
    NoItem(String),
    #[error("item {0} does not exist")]
    NoId(i32),
    #[error("'{name}' exists as id {id}")]
    NameTaken { name: String, id: i32 },
    #[error("type '{0}' does not exist")]
    NoType(String),
    #[error("bucket '{name}' is of another type than '{wanted}'")]
    WrongType { name: String, wanted: String },
    #[error("the item would come to lie below itself")]
    Loop,
    #[error("the location names no bucket to put the item into")]
    NoLocation,
    #[error("the item is below that bucket already")]
    AlreadyBelow,
    #[error("bucket {0} is not empty")]
    NotEmpty(i32),
    #[error("bucket {0} is used by a rule or a shadow tree")]
    InUse(i32),
    #[error("osd.{osd} has class '{class}' already")]
    ClassBound { osd: i32, class: String },
    #[error("device class '{0}' does not exist")]
    NoClass(String),
    #[error("root '{root}' has no devices of class '{class}'")]
    NoClassBelow { root: String, class: String },
    #[error("rule '{0}' exists")]
    RuleExists(String),
    #[error("rule '{0}' does not exist")]
    NoRule(String),
    #[error("there are 256 rules already")]
    TooManyRules,
    #[error("bucket {bucket} is a tree of {items} items: the encoding has room for {TREE_ITEMS_MAX}")]
    TooManyItems { bucket: i32, items: usize },
    #[error("bucket {0} keeps weights that are not its items'")]
    BadWeights(i32),
    #[error("osd.{0} lies in several buckets")]
    SeveralPlaces(i32),
    #[error("buckets lie more than {DEPTH_MAX} deep in each other")]
    TooDeep,
}

/// Items of a bucket of algorithm `tree`: it has up to twice as many nodes, whose number is kept in a byte.
const TREE_ITEMS_MAX: usize = 64;
/// Levels of a tree. A map in use has as many as it has types, a dozen; walks go down by calls.
const DEPTH_MAX: usize = 64;

/// A place in the tree: type name to bucket name.
pub type Location = BTreeMap<String, String>;

/// True for texts that may name a bucket or a type.
pub fn is_valid_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))
}

impl CrushMap {
    /// The map of a new cluster: the default types, a root `default`, and `replicated_rule` (0) over buckets of type `failure_domain`.
    /// Type `device` is there only if that is the domain.
    pub fn new_cluster(failure_domain: &str) -> Self {
        let mut map = Self::default();
        map.type_names = (0..).zip(DEFAULT_TYPES).map(|(id, name)| (id, name.to_owned())).collect();
        if failure_domain == DEVICE {
            add_type(&mut map);
        }
        let root = map.new_bucket(11);
        map.names.insert(root, "default".into());
        map.create_rule("replicated_rule", "default", failure_domain, "", false, Rule::REPLICATED)
            .expect("an empty map has room for a rule");
        map
    }

    /// Refuses a map that can't be encoded, or that can't be walked in bounded time: to be asked of each that is to become a cluster's.
    pub fn check(&self) -> Result<(), CrushError> {
        for b in self.iter_buckets() {
            if let Weights::Tree { node_weights } = &b.weights {
                if b.len() > TREE_ITEMS_MAX {
                    return Err(CrushError::TooManyItems { bucket: b.id, items: b.len() });
                }
                if node_weights.len() < 2 * b.len() {
                    return Err(CrushError::BadWeights(b.id));
                }
            }
        }
        // Layer by layer from what lies below nothing: a layer that is not empty is a level.
        let mut layer: BTreeSet<i32> = self.roots();
        for _ in 0..DEPTH_MAX {
            layer = layer.iter().filter_map(|id| self.bucket(*id)).flat_map(|b| b.items.iter().copied()).filter(|id| *id < 0).collect();
            if layer.is_empty() {
                return Ok(());
            }
        }
        Err(CrushError::TooDeep)
    }

    /// Makes an empty bucket with the first free number.
    fn new_bucket(&mut self, kind: i32) -> i32 {
        let at = self.buckets.iter().position(Option::is_none).unwrap_or(self.buckets.len());
        let id = -1 - at as i32;
        self.place_bucket(Bucket::straw2(id, kind as u16));
        id
    }
    /// Puts a bucket at its place; the array doubles when it is too short.
    pub(crate) fn place_bucket(&mut self, bucket: Bucket) {
        let at = place(bucket.id).expect("buckets have numbers below 0");
        while at >= self.buckets.len() {
            let len = if self.buckets.is_empty() { 8 } else { 2 * self.buckets.len() };
            self.buckets.resize(len, None);
        }
        self.buckets[at] = Some(bucket);
    }

    /// `osd crush add-bucket`: an empty bucket below nothing.
    pub fn add_bucket(&mut self, name: &str, kind: &str) -> Result<i32, CrushError> {
        self.check_new_name(name)?;
        let kind = self.type_id(kind).filter(|t| *t > 0).ok_or_else(|| CrushError::NoType(kind.into()))?;
        let id = self.new_bucket(kind);
        // Its shadows come when something moves, as in Ceph.
        self.names.insert(id, name.into());
        Ok(id)
    }
    fn check_new_name(&self, name: &str) -> Result<(), CrushError> {
        if !is_valid_name(name) {
            return Err(CrushError::BadName(name.into()));
        }
        match self.item_id(name) {
            Some(id) => Err(CrushError::NameTaken { name: name.into(), id }),
            None => Ok(()),
        }
    }

    /// Adds an item below the lowest bucket that `loc` names, making the buckets that don't exist. `weight` is 16.16.
    pub fn insert_item(&mut self, item: i32, weight: u32, name: &str, loc: &Location) -> Result<(), CrushError> {
        if !is_valid_name(name) {
            return Err(CrushError::BadName(name.into()));
        }
        if let Some(id) = self.item_id(name).filter(|id| *id != item) {
            return Err(CrushError::NameTaken { name: name.into(), id });
        }
        if item >= ITEM_UNDEF {
            return Err(CrushError::NoId(item));
        }
        // Look before anything changes: which buckets are new, and where does the chain of new ones hang?
        let mut fresh: Vec<(i32, &str)> = Vec::new();
        let mut anchor = None;
        for (kind, kind_name) in levels(self) {
            let Some(bucket_name) = loc.get(kind_name) else { continue };
            if !is_valid_name(bucket_name) {
                return Err(CrushError::BadName(bucket_name.clone()));
            }
            let Some(id) = self.item_id(bucket_name) else {
                fresh.push((kind, bucket_name));
                continue;
            };
            let bucket = self.bucket(id).ok_or_else(|| CrushError::NoItem(bucket_name.clone()))?;
            if i32::from(bucket.kind) != kind {
                return Err(CrushError::WrongType { name: bucket_name.clone(), wanted: kind_name.to_owned() });
            }
            if self.subtree_contains(item, id) {
                return Err(CrushError::Loop);
            }
            if fresh.is_empty() && self.subtree_contains(id, item) {
                return Err(CrushError::AlreadyBelow);
            }
            anchor = Some(id);
            break;
        }
        if fresh.is_empty() && anchor.is_none() {
            return Err(CrushError::NoLocation);
        }
        if let Some(unknown) = loc.keys().find(|kind| self.type_id(kind).is_none()) {
            return Err(CrushError::NoType(unknown.clone()));
        }
        let fresh: Vec<(i32, String)> = fresh.into_iter().map(|(kind, name)| (kind, name.to_owned())).collect();

        self.names.insert(item, name.into());
        let (mut below, mut parent) = (item, None);
        for (kind, name) in fresh {
            let id = self.new_bucket(kind);
            self.names.insert(id, name);
            self.add_to(id, below, 0);
            parent = parent.or(Some(id));
            below = id;
        }
        if let Some(anchor) = anchor {
            self.add_to(anchor, below, 0);
            parent = parent.or(Some(anchor));
        }
        let parent = parent.expect("a bucket was made or found");
        self.set_weight_in(parent, item, weight);
        self.max_devices = self.max_devices.max(item.saturating_add(1));
        self.rebuild_shadows();
        Ok(())
    }

    /// True if the item lies in the lowest bucket that `loc` names.
    pub fn is_at(&self, item: i32, loc: &Location) -> bool {
        let lowest = levels(self).into_iter().find_map(|(_, kind)| loc.get(kind));
        lowest.and_then(|name| self.bucket(self.item_id(name)?)).is_some_and(|b| b.position(item).is_some())
    }

    /// `osd crush create-or-move`: an item that is somewhere keeps its weight. True if something changed.
    pub fn create_or_move(&mut self, item: i32, weight: u32, name: &str, loc: &Location) -> Result<bool, CrushError> {
        if self.is_at(item, loc) {
            return Ok(false);
        }
        self.put(item, if self.parent(item).is_some() { self.item_weight(item) } else { weight }, name, loc)?;
        Ok(true)
    }
    /// `osd crush add` and `set`: an item with this weight at this place. True if something changed.
    pub fn update_item(&mut self, item: i32, weight: u32, name: &str, loc: &Location) -> Result<bool, CrushError> {
        if !is_valid_name(name) {
            return Err(CrushError::BadName(name.into()));
        }
        if !self.is_at(item, loc) {
            self.put(item, weight, name, loc)?;
            return Ok(true);
        }
        let changed = self.item_weight(item) != weight || self.item_name(item) != Some(name);
        self.names.insert(item, name.into());
        self.reweight_item(item, weight)?;
        Ok(changed)
    }
    /// `osd crush move`, of a bucket or a device.
    pub fn move_item(&mut self, name: &str, loc: &Location) -> Result<bool, CrushError> {
        let id = self.item_id(name).ok_or_else(|| CrushError::NoItem(name.into()))?;
        if self.is_at(id, loc) {
            return Ok(false);
        }
        let weight = if id < 0 { self.bucket(id).ok_or(CrushError::NoId(id))?.weight } else { self.item_weight(id) };
        self.put(id, weight, name, loc)?;
        Ok(true)
    }
    /// Takes the item from wherever it is and inserts it; nothing changes if that fails.
    fn put(&mut self, item: i32, weight: u32, name: &str, loc: &Location) -> Result<(), CrushError> {
        let mut next = self.clone();
        next.unlink(item);
        next.insert_item(item, weight, name, loc)?;
        *self = next;
        Ok(())
    }
    /// `osd crush link`: one more place for a bucket.
    pub fn link_bucket(&mut self, name: &str, loc: &Location) -> Result<bool, CrushError> {
        let id = self.item_id(name).filter(|id| *id < 0).ok_or_else(|| CrushError::NoItem(name.into()))?;
        if self.is_at(id, loc) {
            return Ok(false);
        }
        let weight = self.bucket(id).ok_or(CrushError::NoId(id))?.weight;
        self.insert_item(id, weight, name, loc)?;
        Ok(true)
    }

    /// `osd crush reweight`: the weight of an item wherever it lies.
    pub fn reweight_item(&mut self, item: i32, weight: u32) -> Result<(), CrushError> {
        let parents: Vec<i32> = self.parents(item).into_iter().filter(|id| !self.is_shadow(*id)).collect();
        if parents.is_empty() {
            return Err(CrushError::NoId(item));
        }
        for parent in parents {
            self.set_weight_in(parent, item, weight);
        }
        self.rebuild_shadows();
        Ok(())
    }
    /// `osd crush reweight-subtree`: every device below an item.
    pub fn reweight_subtree(&mut self, item: i32, weight: u32) -> Result<(), CrushError> {
        let devices: Vec<i32> = self.subtree(item).into_iter().filter(|id| *id >= 0).collect();
        for device in devices {
            self.reweight_item(device, weight)?;
        }
        Ok(())
    }

    /// `osd crush remove`: from everywhere; a bucket must be empty and unused. With `unlink_only` a bucket stays, below nothing.
    pub fn remove_item(&mut self, item: i32, unlink_only: bool) -> Result<(), CrushError> {
        if item < 0 && !unlink_only {
            let bucket = self.bucket(item).ok_or(CrushError::NoId(item))?;
            if !bucket.is_empty() {
                return Err(CrushError::NotEmpty(item));
            }
            if self.takes().contains(&item) {
                return Err(CrushError::InUse(item));
            }
        }
        if !self.names.contains_key(&item) && self.parent(item).is_none() {
            return Err(CrushError::NoId(item));
        }
        // A rule over a shadow of the bucket holds it too.
        let shadows: Vec<i32> = self.class_bucket.get(&item).into_iter().flat_map(|m| m.values().copied()).collect();
        if item < 0 && !unlink_only && shadows.iter().any(|id| self.takes().contains(id)) {
            return Err(CrushError::InUse(item));
        }
        self.unlink(item);
        if item >= 0 || !unlink_only {
            self.names.remove(&item);
            self.class_map.remove(&item);
        }
        if item < 0 && !unlink_only {
            self.drop_bucket(item);
        }
        self.rebuild_shadows();
        Ok(())
    }
    /// Takes an item out of every bucket of the visible tree.
    fn unlink(&mut self, item: i32) {
        for parent in self.parents(item) {
            if !self.is_shadow(parent) {
                self.set_weight_in(parent, item, 0);
                self.remove_from(parent, item);
            }
        }
    }
    pub(crate) fn drop_bucket(&mut self, id: i32) {
        let at = place(id).expect("buckets have numbers below 0");
        self.buckets[at] = None;
        for args in self.choose_args.values_mut() {
            args.remove(&(at as u32));
        }
    }

    /// `osd crush rename-bucket`.
    pub fn rename_item(&mut self, from: &str, to: &str) -> Result<(), CrushError> {
        let id = self.item_id(from).ok_or_else(|| CrushError::NoItem(from.into()))?;
        self.check_new_name(to)?;
        self.names.insert(id, to.into());
        self.rebuild_shadows();
        Ok(())
    }

    /// Makes a rule: one device in each of as many buckets of type `failure_domain` (empty: devices) below `root` as a pool has copies;
    /// `class` (empty: any) narrows it. `indep` and [`Rule::ERASURE`] for erasure-coded pools. The rule's number.
    pub fn create_rule(
        &mut self,
        name: &str,
        root: &str,
        failure_domain: &str,
        class: &str,
        indep: bool,
        kind: u8,
    ) -> Result<u32, CrushError> {
        if self.rule_id(name).is_some() {
            return Err(CrushError::RuleExists(name.into()));
        }
        let mut take = self.item_id(root).ok_or_else(|| CrushError::NoItem(root.into()))?;
        let domain = match failure_domain {
            "" => 0,
            name => self.type_id(name).ok_or_else(|| CrushError::NoType(name.into()))?,
        };
        if !class.is_empty() {
            let id = self.class_id(class).ok_or_else(|| CrushError::NoClass(class.into()))?;
            let shadow = self.class_bucket.get(&take).and_then(|m| m.get(&id));
            take = *shadow.ok_or_else(|| CrushError::NoClassBelow { root: root.into(), class: class.into() })?;
        }
        let id = self.rules.iter().position(Option::is_none).unwrap_or(self.rules.len());
        if id >= 256 {
            return Err(CrushError::TooManyRules);
        }
        if id == self.rules.len() {
            self.rules.push(None);
        }
        self.rules[id] = Some(Rule::simple(take, domain, indep, kind));
        self.rule_names.insert(id as i32, name.into());
        Ok(id as u32)
    }
    /// `osd crush rule create-replicated`.
    pub fn create_replicated_rule(&mut self, name: &str, root: &str, failure_domain: &str, class: &str) -> Result<u32, CrushError> {
        self.create_rule(name, root, failure_domain, class, false, Rule::REPLICATED)
    }
    pub fn remove_rule(&mut self, name: &str) -> Result<(), CrushError> {
        let id = self.rule_id(name).ok_or_else(|| CrushError::NoRule(name.into()))?;
        self.rules[id as usize] = None;
        self.rule_names.remove(&(id as i32));
        self.rebuild_shadows();
        Ok(())
    }
    pub fn rename_rule(&mut self, from: &str, to: &str) -> Result<(), CrushError> {
        let id = self.rule_id(from).ok_or_else(|| CrushError::NoRule(from.into()))?;
        if self.rule_id(to).is_some() {
            return Err(CrushError::RuleExists(to.into()));
        }
        self.rule_names.insert(id as i32, to.into());
        Ok(())
    }
    /// Every weight of the visible tree summed up anew.
    pub fn reweight_all(&mut self) {
        for root in self.nonshadow_roots() {
            let mut order: Vec<i32> = self.subtree(root).into_iter().filter(|id| *id < 0).collect();
            order.reverse();
            for id in order {
                self.sum_up(id);
            }
        }
        self.rebuild_shadows();
    }

    /// Appends an item to a bucket and to the bucket's weight-sets.
    pub(crate) fn add_to(&mut self, bucket: i32, item: i32, weight: u32) {
        let Some(b) = self.bucket_mut(bucket) else { return };
        let mut content: Vec<(i32, u32)> = b.weighted().collect();
        content.push((item, weight));
        b.set_content(&content);
        self.each_arg(bucket, |arg| {
            arg.weight_set.iter_mut().for_each(|weights| weights.push(weight));
            if !arg.ids.is_empty() {
                arg.ids.push(item);
            }
        });
    }
    pub(crate) fn remove_from(&mut self, bucket: i32, item: i32) {
        let Some(b) = self.bucket_mut(bucket) else { return };
        let Some(at) = b.position(item) else { return };
        let mut content: Vec<(i32, u32)> = b.weighted().collect();
        content.remove(at);
        b.set_content(&content);
        self.each_arg(bucket, |arg| {
            arg.weight_set.iter_mut().filter(|weights| at < weights.len()).for_each(|weights| {
                weights.remove(at);
            });
            if at < arg.ids.len() {
                arg.ids.remove(at);
            }
        });
    }
    fn each_arg(&mut self, bucket: i32, change: impl Fn(&mut crate::ChooseArg)) {
        let Some(at) = place(bucket) else { return };
        for args in self.choose_args.values_mut() {
            if let Some(arg) = args.get_mut(&(at as u32)) {
                change(arg);
            }
        }
    }
    /// Sets a weight in one bucket, in its weight-sets too, and sums up above it.
    pub(crate) fn set_weight_in(&mut self, bucket: i32, item: i32, weight: u32) {
        let Some(b) = self.bucket_mut(bucket) else { return };
        let Some(at) = b.position(item) else { return };
        let mut content: Vec<(i32, u32)> = b.weighted().collect();
        match &mut b.weights {
            // One weight for all: a change is one of every item.
            Weights::Uniform { item_weight } => *item_weight = weight,
            _ => content[at].1 = weight,
        }
        if matches!(b.weights, Weights::Uniform { .. }) {
            content.iter_mut().for_each(|(_, w)| *w = weight);
        }
        b.set_content(&content);
        self.each_arg(bucket, |arg| {
            for weights in arg.weight_set.iter_mut().filter(|weights| at < weights.len()) {
                weights[at] = weight;
            }
        });
        self.carry_up(bucket);
    }
    /// Sets a device's weight in the weight-sets only (`osd crush weight-set reweight`), one for each position.
    pub fn set_choose_weight(&mut self, args: i64, item: i32, weights: &[u32]) -> Result<(), CrushError> {
        let parents: Vec<i32> = self.parents(item).into_iter().filter(|id| !self.is_shadow(*id)).collect();
        if parents.is_empty() {
            return Err(CrushError::NoId(item));
        }
        for parent in parents {
            let at = self.bucket(parent).and_then(|b| b.position(item)).expect("a parent holds its item");
            let key = place(parent).expect("buckets have numbers below 0") as u32;
            if let Some(arg) = self.choose_args.get_mut(&args).and_then(|args| args.get_mut(&key)) {
                for (set, weight) in arg.weight_set.iter_mut().zip(weights) {
                    set[at] = *weight;
                }
            }
            self.carry_up(parent);
        }
        self.rebuild_shadows();
        Ok(())
    }
    /// `osd crush weight-set create`: weight-sets of straw2 buckets, equal to the weights, with so many weights an item. False if they are there.
    pub fn create_weight_sets(&mut self, id: i64, positions: usize) -> bool {
        if self.choose_args.contains_key(&id) {
            return false;
        }
        let args = self.iter_buckets().filter(|b| matches!(b.weights, Weights::Straw2 { .. })).map(|b| {
            let weights: Vec<u32> = b.weighted().map(|(_, w)| w).collect();
            let arg = crate::ChooseArg { weight_set: vec![weights; positions], ids: Vec::new() };
            (place(b.id).expect("buckets have numbers below 0") as u32, arg)
        });
        let args = args.collect();
        self.choose_args.insert(id, args);
        true
    }

    /// The bucket's weight from its items', and the same of weight-sets, into the buckets above it.
    pub(crate) fn carry_up(&mut self, bucket: i32) {
        let Some(weight) = self.bucket(bucket).map(|b| b.weight) else { return };
        let key = place(bucket).expect("buckets have numbers below 0") as u32;
        let sum = |weights: &Vec<u32>| weights.iter().fold(0_u32, |sum, w| sum.saturating_add(*w));
        let sums: Vec<(i64, Vec<u32>)> = (self.choose_args.iter())
            .filter_map(|(index, args)| Some((*index, args.get(&key)?.weight_set.iter().map(sum).collect())))
            .collect();
        for parent in self.parents(bucket) {
            if self.is_shadow(parent) {
                continue;
            }
            let Some(b) = self.bucket_mut(parent) else { continue };
            let at = b.position(bucket).expect("a parent holds its item");
            let mut content: Vec<(i32, u32)> = b.weighted().collect();
            content[at].1 = weight;
            b.set_content(&content);
            let parent_key = place(parent).expect("buckets have numbers below 0") as u32;
            for (index, sums) in &sums {
                if let Some(arg) = self.choose_args.get_mut(index).and_then(|args| args.get_mut(&parent_key)) {
                    for (weights, sum) in arg.weight_set.iter_mut().zip(sums).filter(|(weights, _)| at < weights.len()) {
                        weights[at] = *sum;
                    }
                }
            }
            self.carry_up(parent);
        }
    }
    fn sum_up(&mut self, bucket: i32) {
        let Some(b) = self.bucket(bucket) else { return };
        let content: Vec<(i32, u32)> = (b.weighted()).map(|(item, w)| (item, self.bucket(item).map_or(w, |child| child.weight))).collect();
        if let Some(b) = self.bucket_mut(bucket) {
            b.set_content(&content);
        }
    }
}

impl Rule {
    fn simple(take: i32, domain: i32, indep: bool, kind: u8) -> Self {
        let mut rule = Rule { kind, min_size: 1, max_size: 100, ..Rule::replicated(take, domain) };
        if indep {
            rule.steps[1].op = if domain == 0 { op::CHOOSE_INDEP } else { op::CHOOSELEAF_INDEP };
            let set = |op, arg1| crate::RuleStep { op, arg1, arg2: 0 };
            rule.steps.splice(0..0, [set(op::SET_CHOOSELEAF_TRIES, 5), set(op::SET_CHOOSE_TRIES, 100)]);
        }
        rule
    }
}

/// A weight as a fraction (what commands take) in 16.16.
pub fn weight_from_f64(weight: f64) -> u32 {
    (weight * f64::from(WEIGHT_ONE)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loc(pairs: &[(&str, &str)]) -> Location {
        pairs.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
    }

    #[test]
    fn items_come_move_and_go_and_weights_sum() {
        let mut map = CrushMap::new_cluster("host");
        let here = loc(&[("host", "a"), ("root", "default")]);
        assert_eq!(map.create_or_move(0, WEIGHT_ONE, "osd.0", &here), Ok(true));
        assert_eq!(map.create_or_move(1, 2 * WEIGHT_ONE, "osd.1", &here), Ok(true));
        assert_eq!(map.create_or_move(1, WEIGHT_ONE, "osd.1", &here), Ok(false));
        assert_eq!(map.bucket(-1).unwrap().weight, 3 * WEIGHT_ONE);
        assert_eq!(map.item_id("a"), Some(-2));
        let there = loc(&[("host", "b"), ("rack", "r"), ("root", "default")]);
        assert_eq!(map.create_or_move(1, WEIGHT_ONE, "osd.1", &there), Ok(true));
        assert_eq!(map.item_weight(1), 2 * WEIGHT_ONE);
        assert_eq!(map.full_location(1).len(), 3);
        map.reweight_item(1, 5 * WEIGHT_ONE).unwrap();
        assert_eq!(map.bucket(-1).unwrap().weight, 6 * WEIGHT_ONE);
        assert_eq!(map.remove_item(-2, false), Err(CrushError::NotEmpty(-2)));
        map.remove_item(0, false).unwrap();
        map.remove_item(-2, false).unwrap();
        assert_eq!(map.bucket(-1).unwrap().weight, 5 * WEIGHT_ONE);
        assert_eq!(map.remove_item(-1, false), Err(CrushError::NotEmpty(-1)));
    }

    #[test]
    fn a_map_that_can_not_be_encoded_is_refused() {
        use crate::bucket::Bucket;
        let mut map = CrushMap::new_cluster("host");
        let tree = |items: i32| {
            let mut b = Bucket { weights: Weights::Tree { node_weights: Vec::new() }, ..Bucket::straw2(-1, 11) };
            b.set_content(&(0..items).map(|osd| (osd, WEIGHT_ONE)).collect::<Vec<_>>());
            b
        };
        map.place_bucket(tree(64));
        assert_eq!(map.check(), Ok(()));
        map.place_bucket(tree(65));
        assert_eq!(map.check(), Err(CrushError::TooManyItems { bucket: -1, items: 65 }));
        map.place_bucket(Bucket { weights: Weights::Tree { node_weights: vec![0; 8] }, ..tree(6) });
        assert_eq!(map.check(), Err(CrushError::BadWeights(-1)));
        let mut map = CrushMap::new_cluster("host");
        for level in 2..200 {
            let mut b = Bucket::straw2(-level, 1);
            b.set_content(&[(1 - level, WEIGHT_ONE)]);
            map.place_bucket(b);
            assert_eq!(map.check().is_ok(), level < 65, "{level}");
        }
    }

    #[test]
    fn classes_have_shadow_trees_with_lasting_numbers() {
        let mut map = CrushMap::new_cluster("osd");
        let here = loc(&[("host", "a"), ("root", "default")]);
        for osd in 0..3 {
            map.create_or_move(osd, WEIGHT_ONE, &format!("osd.{osd}"), &here).unwrap();
            map.set_device_class(osd, if osd == 0 { "ssd" } else { "hdd" }).unwrap();
        }
        let rule = map.create_replicated_rule("fast", "default", "host", "ssd").unwrap();
        assert_eq!(rule, 1);
        let shadow = map.item_id("default~ssd").unwrap();
        assert_eq!(map.bucket(shadow).unwrap().weight, WEIGHT_ONE);
        assert_eq!(map.devices_below(shadow).into_iter().collect::<Vec<_>>(), [(0, WEIGHT_ONE)]);
        map.reweight_item(0, 4 * WEIGHT_ONE).unwrap();
        assert_eq!(map.item_id("default~ssd"), Some(shadow));
        assert_eq!(map.bucket(shadow).unwrap().weight, 4 * WEIGHT_ONE);
        assert_eq!(map.nonshadow_roots(), [-1]);
        assert!(matches!(map.set_device_class(0, "hdd"), Err(CrushError::ClassBound { .. })));
        // A class that only a rule uses stays.
        map.remove_device_class(0).unwrap();
        assert_eq!(map.bucket(shadow).unwrap().weight, 0);
        map.remove_rule("fast").unwrap();
        assert_eq!(map.class_id("ssd"), None);
    }
}
