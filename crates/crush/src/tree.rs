//! Where things stand in the tree: parents, locations, roots, and the walk that `osd tree` prints.

use crate::map::CrushMap;
use crate::rule::op;
use std::collections::{BTreeMap, BTreeSet};

/// How many nodes a walk visits at most.
const WALK_MAX: usize = 1 << 20;

/// A step of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeNode {
    pub id: i32,
    /// The bucket that it was reached from; none for roots.
    pub parent: Option<i32>,
    /// Steps below the root.
    pub depth: usize,
    /// 16.16: a bucket's own weight at a root, else the weight in the parent.
    pub weight: u32,
}

impl CrushMap {
    /// The bucket that holds an item, other than a shadow bucket unless the item is one.
    pub fn parent(&self, item: i32) -> Option<i32> {
        let shadow = self.is_shadow(item);
        self.iter_buckets().find(|b| (shadow || !self.is_shadow(b.id)) && b.position(item).is_some()).map(|b| b.id)
    }
    /// Every bucket that holds an item, shadow ones too.
    pub fn parents(&self, item: i32) -> Vec<i32> {
        self.iter_buckets().filter(|b| b.position(item).is_some()).map(|b| b.id).collect()
    }
    /// Buckets above an item, from its parent to its root: (type name, bucket name).
    pub fn full_location(&self, item: i32) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let mut at = item;
        while let Some(parent) = self.parent(at) {
            let kind = self.item_type(parent).and_then(|t| self.type_name(t)).unwrap_or_default();
            out.push((kind.to_owned(), self.item_name(parent).unwrap_or_default().to_owned()));
            at = parent;
        }
        out
    }
    /// The bucket of type `kind` above an item.
    pub fn ancestor_of_type(&self, item: i32, kind: i32) -> Option<i32> {
        let mut at = item;
        while let Some(parent) = self.parent(at) {
            if self.item_type(parent) == Some(kind) {
                return Some(parent);
            }
            at = parent;
        }
        None
    }
    /// Buckets that no bucket holds, ascending.
    pub fn roots(&self) -> BTreeSet<i32> {
        let mut roots: BTreeSet<i32> = self.iter_buckets().map(|b| b.id).collect();
        for bucket in self.iter_buckets() {
            for item in &bucket.items {
                roots.remove(item);
            }
        }
        roots
    }
    /// Roots of the tree that people see.
    pub fn nonshadow_roots(&self) -> Vec<i32> {
        self.roots().into_iter().filter(|id| !self.is_shadow(*id)).collect()
    }
    /// Buckets that rules start at.
    pub fn takes(&self) -> BTreeSet<i32> {
        self.rules.iter().flatten().flat_map(|r| &r.steps).filter(|s| s.op == op::TAKE).map(|s| s.arg1).collect()
    }
    /// Buckets that a rule starts at.
    pub fn rule_takes(&self, rule: u32) -> Vec<i32> {
        self.rule(rule).map(|r| r.steps.iter().filter(|s| s.op == op::TAKE).map(|s| s.arg1).collect()).unwrap_or_default()
    }
    /// The item and everything below it, breadth first. What is linked to several places comes once.
    pub fn subtree(&self, item: i32) -> Vec<i32> {
        let mut out = vec![item];
        let mut seen = BTreeSet::from([item]);
        let mut at = 0;
        while at < out.len() {
            if let Some(bucket) = self.bucket(out[at]) {
                out.extend(bucket.items.iter().filter(|item| seen.insert(**item)));
            }
            at += 1;
        }
        out
    }
    pub fn subtree_contains(&self, root: i32, item: i32) -> bool {
        self.subtree(root).contains(&item)
    }
    /// Devices below an item, with the sum of their weights there: what share each has of a rule that starts at `item`.
    pub fn devices_below(&self, item: i32) -> BTreeMap<i32, u32> {
        let mut out = BTreeMap::new();
        for id in self.subtree(item) {
            for (child, weight) in self.bucket(id).into_iter().flat_map(|b| b.weighted()) {
                if child >= 0 {
                    let sum: &mut u32 = out.entry(child).or_insert(0);
                    *sum = sum.saturating_add(weight);
                }
            }
        }
        out
    }
    /// The weight that an item has where it stands (first place); 0 if nowhere.
    pub fn item_weight(&self, item: i32) -> u32 {
        self.parent(item).and_then(|p| self.bucket(p)).and_then(|b| Some(b.item_weight(b.position(item)?))).unwrap_or(0)
    }
    /// The tree in the order of `osd tree`: roots by id, each followed by what is below it; buckets sorted by name, devices by class and
    /// number. `shadow`: shadow trees too.
    pub fn walk(&self, shadow: bool) -> Vec<TreeNode> {
        let mut out = Vec::new();
        let roots = self.roots();
        for root in roots.into_iter().filter(|id| shadow || !self.is_shadow(*id)) {
            let weight = self.bucket(root).map_or(0, |b| b.weight);
            self.walk_into(TreeNode { id: root, parent: None, depth: 0, weight }, &mut out);
        }
        out
    }
    /// The same below one item.
    pub fn walk_from(&self, item: i32) -> Vec<TreeNode> {
        let mut out = Vec::new();
        let weight = if item < 0 { self.bucket(item).map_or(0, |b| b.weight) } else { self.item_weight(item) };
        self.walk_into(TreeNode { id: item, parent: None, depth: 0, weight }, &mut out);
        out
    }
    fn walk_into(&self, node: TreeNode, out: &mut Vec<TreeNode>) {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            // A few buckets that hold each other twice make more paths than memory has room for.
            if out.len() >= WALK_MAX {
                return;
            }
            out.push(node);
            let Some(bucket) = self.bucket(node.id) else { continue };
            let mut children: Vec<(i32, u32)> = bucket.weighted().collect();
            children.sort_by_key(|(id, _)| self.walk_key(*id));
            for (id, weight) in children.into_iter().rev() {
                open.push(TreeNode { id, parent: Some(node.id), depth: node.depth + 1, weight });
            }
        }
    }
    /// Devices sort by class and number, buckets by name.
    fn walk_key(&self, id: i32) -> String {
        if id >= 0 {
            format!("{}_osd.{id:08}", self.item_class(id).unwrap_or_default())
        } else {
            format!("_{}", self.item_name(id).unwrap_or_default())
        }
    }
}
