//! The study file as it is written: TOML, version `lab = 1`. Each type is a table; a key that is not listed here is refused.
//!
//! Absent: whether the values make sense together (`check`), and what becomes of them (`crate::plan`).

use crate::value::{Point, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Version of the format.
    pub lab: Spanned<i64>,
    /// What results folders and `lab run` call it.
    pub name: Spanned<String>,
    /// One line for people.
    #[serde(default)]
    pub title: String,
    /// Where the study comes from, and the seed of the order.
    #[serde(default)]
    pub seed: String,
    #[serde(default)]
    pub axes: BTreeMap<Spanned<String>, Spanned<AxisEntry>>,
    #[serde(default, rename = "target")]
    pub targets: Vec<Spanned<Target>>,
    #[serde(default, rename = "device")]
    pub devices: Vec<Spanned<Device>>,
    #[serde(default, rename = "load")]
    pub loads: Vec<Spanned<Load>>,
    pub base: Option<Spanned<Base>>,
    #[serde(default, rename = "drill")]
    pub drills: Vec<Spanned<Drill>>,
    #[serde(default)]
    pub rules: Rules,
    #[serde(default, rename = "claim")]
    pub claims: Vec<Spanned<Claim>>,
    #[serde(default, rename = "price")]
    pub prices: Vec<Spanned<Price>>,
    #[serde(default)]
    pub published: Vec<Published>,
}

/// What stands behind a key of `[axes]`: an axis is a list of values; `exclude` is a list of points' parts, `pairs` one of lists of names.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum AxisEntry {
    Values(Vec<Value>),
    Exclude(Vec<Point>),
    Pairs(Vec<Vec<String>>),
}

/// What is measured.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    pub name: String,
    /// `humboldt`, `ceph`, `glusterfs`, `device`, `null` or `existing`.
    pub kind: String,
    /// Of `ceph`: 16.2, 18.2 or 20.2.
    pub release: Option<String>,
    pub store: Option<String>,
    pub auth: Option<String>,
    pub osds: Option<i64>,
    pub replicas: Option<i64>,
    /// Bytes that the servers may keep in memory.
    pub memory: Option<String>,
    /// Names of `[[device]]`s.
    pub data: Option<String>,
    pub wal: Option<String>,
    pub meta: Option<String>,
    /// Files instead of blocks: `xfs` or `ext4` on the device, or on an image of the cluster; `cephfs` of a ceph or humboldt target.
    pub fs: Option<String>,
    /// Of `existing`: its ceph.conf.
    pub path: Option<String>,
    /// Lines of ceph.conf; of a humboldt target, of its clients' one.
    #[serde(default)]
    pub conf: BTreeMap<String, Value>,
    /// More words of the command line that starts it.
    #[serde(default)]
    pub args: Vec<String>,
    /// Points that it is measured at; all unless given.
    pub only: Option<String>,
}

/// Where a target's bytes lie.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    pub name: String,
    /// `file`, `loop` (a loop device on a file, direct I/O; wants root), `ram` (the same on tmpfs) or `path`.
    pub kind: String,
    pub path: Option<String>,
    pub size: Option<String>,
    pub model: Option<Model>,
    pub throttle: Option<Throttle>,
    /// Named in `--may-destroy`: what it holds may be lost. Not of the study.
    #[serde(skip)]
    pub may_destroy: bool,
}

/// What processes may ask of a device in a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    pub read_iops: Option<i64>,
    pub write_iops: Option<i64>,
    pub read_mib_s: Option<i64>,
    pub write_mib_s: Option<i64>,
}

/// A device that behaves like another: the price of seeks, flushes and a full cache.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The mean of all ways of its arm; of any jump, unless one of the next two is told.
    pub seek_us: Option<i64>,
    /// The arm's way to the next track.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seek_min_us: Option<i64>,
    /// Turns a minute of its platters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rpm: Option<i64>,
    pub mib_s: Option<i64>,
    pub flush_us: Option<i64>,
    pub cache_mib: Option<i64>,
    pub cache_mib_s: Option<i64>,
    /// For so long it answers nothing while it discards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard_us: Option<i64>,
    /// So many of them in a row (RAID 0), by stripes of so many KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disks: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stripe_kib: Option<i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Loads of one name are one row: each target takes the one that fits it. The tool unless given.
    pub name: Option<String>,
    pub tool: String,
    pub op: Option<String>,
    pub block: Option<String>,
    pub depth: Option<i64>,
    pub jobs: Option<i64>,
    /// Bytes of the object of I/O: what objects, image or file are used before the first is met again.
    pub size: Option<String>,
    /// More options of the tool.
    #[serde(default)]
    pub options: BTreeMap<String, Value>,
    /// `base`: beside the study's base load; `drill COURSE`: while the drills of that course are carried out (`drill`: those without one).
    pub under: Option<String>,
    /// A second load beside this one, for what its tool doesn't tell (a histogram).
    pub twin: Option<String>,
    pub only: Option<String>,
}

/// A load that goes on beside the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    pub tool: String,
    /// Of the capacity that was measured first, 0 to 1; a row each.
    pub share: Vec<f64>,
    #[serde(default)]
    pub options: BTreeMap<String, Value>,
}

/// What is done to a target under load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drill {
    /// Drills of one course are carried out together, under loads that name it: `under = "drill COURSE"`.
    #[serde(default)]
    pub course: String,
    /// From the load's begin, or with `after` from its end.
    #[serde(default)]
    pub at_s: f64,
    /// It is done when the load is over: what comes then meets an idle cluster.
    #[serde(default)]
    pub after: bool,
    /// `kill -9`, `empty` (a killed OSD loses its data), `hang` (SIGSTOP), `resume` (SIGCONT), `restart`, `mark out` or `mark in`.
    #[serde(rename = "do")]
    pub action: String,
    /// `osd.N`.
    pub what: String,
    /// `active+clean` or `first write`: what is waited for, and timed, from this one on.
    pub until: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    pub full: Option<RuleSet>,
    pub quick: Option<RuleSet>,
    /// Ratios within this of 1 are the same.
    pub margin: Option<f64>,
    /// The target that ratios are to, and that runs twice under two names.
    pub control: Option<Spanned<String>>,
    /// The share of the machine that other processes may take before a round counts as disturbed.
    pub foreign_max: Option<f64>,
    /// A round of block events beside the rounds that count, for targets with devices of their own.
    #[serde(default)]
    pub trace: bool,
    /// A round with `perf`, for targets whose servers are ours.
    #[serde(default)]
    pub profile: bool,
    /// Percentiles to be had; those that can't are an error of `plan`.
    pub percentiles: Option<Spanned<Vec<f64>>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSet {
    pub rounds: u32,
    pub seconds: f64,
    #[serde(default)]
    pub warm_s: f64,
    /// How many more times a load runs whose last five windows are not steady.
    #[serde(default)]
    pub prolong: u32,
    /// How many more times a round runs that other processes disturbed.
    #[serde(default)]
    pub repeats: u32,
    /// Parts of points that this form of the study leaves out, besides what the axes exclude.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Point>,
}

/// A sentence of a study, and the figure that it stands or falls with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub text: String,
    /// `auth=none / auth=cephx`; without one the figure itself is held against the bounds, at each place.
    pub ratio: Option<String>,
    #[serde(default, rename = "where")]
    pub filter: String,
    /// `iops` unless given; see `crate::claims::quantity`.
    pub metric: Option<String>,
    /// Of a trace: what the target keeps on the device that is meant, such as `log`. All its devices together unless given.
    pub device: Option<String>,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    /// The study and place that said so.
    pub seed: Option<String>,
}

/// What a target's hardware costs: an item of the shipped list, or figures of the study's own (`super::prices`).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub target: String,
    pub item: Option<String>,
    pub price: Option<f64>,
    #[serde(default = "dollars")]
    pub currency: String,
    /// Usable capacity, as it is sold: `2 TB`.
    pub usable: Option<String>,
    pub watts: Option<f64>,
    pub source: Option<String>,
}

fn dollars() -> String {
    "USD".into()
}

/// Numbers that others published: shown as shapes and ratios beside ours.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub table: String,
    pub unit: String,
    pub place: String,
    pub hardware: String,
    pub columns: Vec<String>,
    pub rows: Vec<PublishedRow>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    pub name: String,
    pub values: Vec<f64>,
}
