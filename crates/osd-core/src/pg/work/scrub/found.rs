//! A scrub's words: what is compared, and what comparing found, whichever back end compares.
//!
//! Holds no rule: what is wrong with a member's part of an object is the back end's to say ([`crate::pg::backend`]), of a head and its
//! clones [`super::snapsets`]'.

use crate::event::Level;
use std::collections::{BTreeMap, BTreeSet};
use types::scrub_results::{InconsistentObj, InconsistentSnapset};
use types::{EVersion, HObject, ObjectStatSum, PgShard, ScrubObject, SpgId};

/// The copies that are compared, and how that is called.
#[derive(Debug, Clone, Copy)]
pub struct Comparing {
    pub pgid: SpgId,
    pub whoami: PgShard,
    /// `scrub`, `deep-scrub` or `repair`.
    pub mode: &'static str,
    pub repair: bool,
    /// `osd_max_object_size`.
    pub size_max: u64,
}

/// Copies of an object that are to be made anew from another one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bad {
    pub missing: BTreeSet<PgShard>,
    pub inconsistent: BTreeSet<PgShard>,
    /// The version that the good copies have.
    pub version: EVersion,
}

impl Bad {
    pub fn shards(&self) -> impl Iterator<Item = PgShard> {
        self.missing.union(&self.inconsistent).copied()
    }
}

/// Digests that an object's record lacks, or has wrong while all copies agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDigests {
    pub obj: HObject,
    pub data: Option<u32>,
    pub omap: Option<u32>,
}

/// The result of comparing.
#[derive(Debug, Clone, Default)]
pub struct Found {
    pub objects: Vec<InconsistentObj>,
    pub snapsets: Vec<InconsistentSnapset>,
    pub shallow: u64,
    pub deep: u64,
    pub lines: Vec<(Level, String)>,
    /// By object; each has a good copy.
    pub bad: BTreeMap<HObject, Bad>,
    /// Objects of which no copy is to be relied on.
    pub hopeless: BTreeSet<HObject>,
    pub digests: Vec<NewDigests>,
    /// Heads whose set of snapshots differs in the leader's copy, which nothing else speaks against: that copy.
    pub own_sets: BTreeMap<HObject, ScrubObject>,
    /// Clones that their heads don't name, with the version of their record.
    pub extra: BTreeMap<HObject, EVersion>,
    pub sum: ObjectStatSum,
    pub count: i64,
}

impl Found {
    pub fn error(&mut self, text: String) {
        self.lines.push((Level::Error, text));
    }
    /// Objects that members lack, as stock shows them in a line.
    pub fn missing_objects(&self) -> String {
        let of = |(obj, bad): (&HObject, &Bad)| {
            let shards: Vec<String> = bad.missing.iter().map(ToString::to_string).collect();
            (!shards.is_empty()).then(|| format!("{obj}={}", shards.join(",")))
        };
        format!("{{{}}}", self.bad.iter().filter_map(of).collect::<Vec<_>>().join(","))
    }
    pub fn errors(&self) -> u64 {
        self.shallow + self.deep
    }
    /// How many objects some members lack, and of how many some have another copy.
    pub fn bad_counts(&self) -> (usize, usize) {
        let count = |of: fn(&Bad) -> &BTreeSet<PgShard>| self.bad.values().filter(|bad| !of(bad).is_empty()).count();
        (count(|bad| &bad.missing), count(|bad| &bad.inconsistent))
    }
    /// A name was written: its head's good copies are of another version now, or gone. What became of its clones is for the next scrub to say.
    pub fn changed(&mut self, head: &HObject, version: Option<EVersion>) {
        let names: Vec<HObject> = self.bad.range(head.at_snap(0)..=head.clone()).map(|(name, _)| name.clone()).collect();
        for name in names {
            match version.filter(|_| name.is_head()) {
                Some(version) => self.bad.get_mut(&name).expect("it was listed").version = version,
                None => drop(self.bad.remove(&name)),
            }
        }
    }
    /// Takes in what was found of other objects.
    pub fn append(&mut self, other: Self) {
        self.objects.extend(other.objects);
        self.snapsets.extend(other.snapsets);
        (self.shallow, self.deep, self.count) = (self.shallow + other.shallow, self.deep + other.deep, self.count + other.count);
        self.lines.extend(other.lines);
        self.bad.extend(other.bad);
        self.hopeless.extend(other.hopeless);
        self.digests.extend(other.digests);
        self.own_sets.extend(other.own_sets);
        self.extra.extend(other.extra);
        self.sum += &other.sum;
    }
}
