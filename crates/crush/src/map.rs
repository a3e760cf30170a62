//! The map's content and how things in it are found by name or number.

use crate::{Bucket, Rule};
use std::collections::BTreeMap;

/// Types of a new map, by number.
pub const DEFAULT_TYPES: [&str; 12] =
    ["osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region", "root"];

/// The choose_args that hold for pools without their own.
pub const DEFAULT_CHOOSE_ARGS: i64 = -1;

/// What steers how often the mapping tries, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunables {
    pub choose_local_tries: u32,
    pub choose_local_fallback_tries: u32,
    /// Retries, so one less than tries.
    pub choose_total_tries: u32,
    pub chooseleaf_descend_once: u32,
    pub chooseleaf_vary_r: u8,
    pub straw_calc_version: u8,
    /// A bit for each [`crate::Alg`].
    pub allowed_bucket_algs: u32,
    pub chooseleaf_stable: u8,
}

impl Tunables {
    /// What a map that names none has.
    pub const LEGACY: Self = Self {
        choose_local_tries: 2,
        choose_local_fallback_tries: 5,
        choose_total_tries: 19,
        chooseleaf_descend_once: 0,
        chooseleaf_vary_r: 0,
        straw_calc_version: 0,
        allowed_bucket_algs: 1 << 1 | 1 << 2 | 1 << 4,
        chooseleaf_stable: 0,
    };
    /// Profile `jewel`, which is `optimal` and `default`.
    pub const JEWEL: Self = Self {
        choose_local_tries: 0,
        choose_local_fallback_tries: 0,
        choose_total_tries: 50,
        chooseleaf_descend_once: 1,
        chooseleaf_vary_r: 1,
        straw_calc_version: 1,
        allowed_bucket_algs: 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5,
        chooseleaf_stable: 1,
    };
}

/// Weights (and ids) that stand in for a bucket's own when choosing: what the balancer's weight-sets are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChooseArg {
    /// By position of the replica; positions past the end use the last. Each as long as the bucket's items.
    pub weight_set: Vec<Vec<u32>>,
    /// Numbers that are hashed instead of the items; empty for none.
    pub ids: Vec<i32>,
}

/// By place of the bucket: bucket -1-i has key i.
pub type ChooseArgMap = BTreeMap<u32, ChooseArg>;

/// `CrushWrapper` with its `crush_map`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrushMap {
    /// Bucket -1-i at place i. Length is `max_buckets`.
    pub buckets: Vec<Option<Bucket>>,
    /// By number. Length is `max_rules`.
    pub rules: Vec<Option<Rule>>,
    /// One above the highest device.
    pub max_devices: i32,
    pub type_names: BTreeMap<i32, String>,
    /// Names of buckets, shadow buckets (`root~ssd`) and devices (`osd.3`).
    pub names: BTreeMap<i32, String>,
    pub rule_names: BTreeMap<i32, String>,
    pub tunables: Tunables,
    /// The device class of a device; shadow buckets stand here too.
    pub class_map: BTreeMap<i32, i32>,
    /// Names of device classes.
    pub class_names: BTreeMap<i32, String>,
    /// Bucket to class to shadow bucket.
    pub class_bucket: BTreeMap<i32, BTreeMap<i32, i32>>,
    /// By pool, or [`DEFAULT_CHOOSE_ARGS`].
    pub choose_args: BTreeMap<i64, ChooseArgMap>,
}

impl Default for CrushMap {
    fn default() -> Self {
        Self {
            buckets: Vec::new(),
            rules: Vec::new(),
            max_devices: 0,
            type_names: BTreeMap::new(),
            names: BTreeMap::new(),
            rule_names: BTreeMap::new(),
            tunables: Tunables::JEWEL,
            class_map: BTreeMap::new(),
            class_names: BTreeMap::new(),
            class_bucket: BTreeMap::new(),
            choose_args: BTreeMap::new(),
        }
    }
}

/// The place of a bucket in the array.
#[inline]
pub(crate) fn place(id: i32) -> Option<usize> {
    if id < 0 { Some((-1 - i64::from(id)) as usize) } else { None }
}

impl CrushMap {
    #[inline]
    pub fn bucket(&self, id: i32) -> Option<&Bucket> {
        self.buckets.get(place(id)?)?.as_ref()
    }
    pub(crate) fn bucket_mut(&mut self, id: i32) -> Option<&mut Bucket> {
        self.buckets.get_mut(place(id)?)?.as_mut()
    }
    /// All buckets, shadow ones too.
    pub fn iter_buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.buckets.iter().flatten()
    }
    pub fn rule(&self, id: u32) -> Option<&Rule> {
        self.rules.get(id as usize)?.as_ref()
    }
    pub fn rule_exists(&self, id: u32) -> bool {
        self.rule(id).is_some()
    }
    pub fn rule_id(&self, name: &str) -> Option<u32> {
        self.rule_names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id as u32)
    }
    pub fn item_id(&self, name: &str) -> Option<i32> {
        self.names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
    }
    pub fn item_name(&self, id: i32) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }
    /// True if the item is a bucket that exists or a device that some bucket holds.
    pub fn item_exists(&self, id: i32) -> bool {
        if id < 0 { self.bucket(id).is_some() } else { self.parent(id).is_some() }
    }
    pub fn type_id(&self, name: &str) -> Option<i32> {
        self.type_names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
    }
    pub fn type_name(&self, id: i32) -> Option<&str> {
        self.type_names.get(&id).map(String::as_str)
    }
    /// The level of an item: 0 for devices; none for buckets that don't exist.
    pub fn item_type(&self, id: i32) -> Option<i32> {
        if id >= 0 { Some(0) } else { Some(self.bucket(id)?.kind.into()) }
    }
    pub fn class_id(&self, name: &str) -> Option<i32> {
        self.class_names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
    }
    pub fn class_name(&self, id: i32) -> Option<&str> {
        self.class_names.get(&id).map(String::as_str)
    }
    /// The device class of an item.
    pub fn item_class(&self, id: i32) -> Option<&str> {
        self.class_name(*self.class_map.get(&id)?)
    }
    /// True for the copies of buckets that hold devices of one class only.
    pub fn is_shadow(&self, id: i32) -> bool {
        id < 0 && self.names.get(&id).is_some_and(|n| n.contains('~'))
    }
    /// The choose_args for a pool: its own, or the default ones.
    pub fn choose_args_for(&self, pool: i64) -> Option<&ChooseArgMap> {
        self.choose_args.get(&pool).or_else(|| self.choose_args.get(&DEFAULT_CHOOSE_ARGS))
    }
}
