//! What a target's servers and a load have at a point: the study's own settings and the axes' values, together.

use crate::load::{Op, Tool, Work};
use crate::study::file::{Device, Load, Target};
use crate::target::Kind;
use crate::value::{Point, Value, parse_size};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A target with everything settled that its servers have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setup {
    pub target: String,
    pub kind: Kind,
    pub release: Option<String>,
    pub store: String,
    pub auth: String,
    pub osds: u32,
    pub replicas: u32,
    pub memory: Option<u64>,
    pub data: Option<String>,
    pub wal: Option<String>,
    pub meta: Option<String>,
    pub fs: Option<String>,
    pub path: Option<String>,
    pub conf: BTreeMap<String, Value>,
    pub args: Vec<String>,
    /// Daemons are processes that the lab keeps, for drills.
    pub apart: bool,
    /// The reference under its second name.
    pub control: bool,
    /// `modelled` or `throttled`, if a device below it is: its figures are never shown as others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_up: Option<String>,
}

impl Setup {
    /// What it is called in tables.
    pub fn show(&self) -> String {
        let notes = self.made_up.as_deref().into_iter().chain(self.control.then_some("control"));
        notes.fold(self.target.clone(), |name, note| format!("{name} ({note})"))
    }
    /// True if it keeps something on the device of that name.
    pub(super) fn uses(&self, device: &str) -> bool {
        [&self.data, &self.wal, &self.meta].into_iter().flatten().any(|name| name == device)
    }
    /// The same, with what the study makes up about its devices.
    pub(super) fn on(self, devices: &[Device]) -> Self {
        let used = || devices.iter().filter(|d| self.uses(&d.name));
        let modelled = used().any(|d| d.model.is_some()).then_some("modelled");
        let made_up = modelled.or(used().any(|d| d.throttle.is_some()).then_some("throttled")).map(String::from);
        Self { made_up, ..self }
    }
    /// Memory that it takes, by experience; bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        const MIB: u64 = 1 << 20;
        let osds = u64::from(self.osds);
        match self.kind {
            Kind::Humboldt => self.memory.unwrap_or(if self.store == "mem" { 1024 * MIB } else { 160 * MIB * osds }) + 100 * MIB,
            // The monitor, and an OSD each.
            Kind::Ceph => 560 * MIB + self.memory.unwrap_or(2000 * MIB) * osds,
            Kind::Glusterfs => 120 * MIB + 120 * MIB * u64::from(self.replicas),
            Kind::Null => 64 * MIB,
            Kind::Device | Kind::Existing | Kind::Fake => 16 * MIB,
        }
    }
}

/// Parameters of a server by axis name, for kinds that have them; `drilled`: it will be hurt.
pub(super) fn setup(target: &Target, kind: Kind, point: &Point, drilled: bool) -> Option<Setup> {
    let text = |axis: &str| point.get(axis).map(Value::to_string);
    // What a target settles by itself is measured only at the points that agree.
    let settled = |own: &Option<String>, axis: &str, unless: &str| match (own, text(axis)) {
        (Some(own), Some(at)) if *own != at => None,
        (Some(own), _) => Some(own.clone()),
        (None, Some(at)) => Some(at),
        (None, None) => Some(unless.into()),
    };
    let number = |own: Option<i64>, axis: &str| settled(&own.map(|n| n.to_string()), axis, "1")?.parse::<u32>().ok();
    let place = |own: &Option<String>, axis: &str| settled(own, axis, "").map(|s| Some(s).filter(|s| !s.is_empty()));
    let cluster = kind.is_cluster() || kind == Kind::Fake;
    let is_null = kind == Kind::Null;
    Some(Setup {
        target: target.name.clone(),
        kind,
        release: target.release.clone(),
        // A store, osds and devices mean nothing to what keeps nothing: one cell stands in all those rows.
        store: if cluster && !is_null { settled(&target.store, "store", "block")? } else { String::new() },
        auth: if cluster { settled(&target.auth, "auth", "none")? } else { String::new() },
        osds: if cluster && !is_null { number(target.osds, "osds")? } else { 1 },
        replicas: if kind == Kind::Device || is_null { 1 } else { number(target.replicas, "replicas")? },
        memory: match settled(&target.memory, "memory", "")? {
            empty if empty.is_empty() => None,
            size => parse_size(&size).ok(),
        },
        data: if is_null { None } else { place(&target.data, "data")? },
        wal: if is_null { None } else { place(&target.wal, "wal")? },
        meta: if is_null { None } else { place(&target.meta, "meta")? },
        fs: match kind {
            Kind::Null | Kind::Existing => None,
            // Its mount is all that it has.
            Kind::Glusterfs => Some("glusterfs".into()),
            _ => place(&target.fs, "fs")?,
        },
        path: target.path.clone(),
        conf: target.conf.clone(),
        args: target.args.clone(),
        apart: drilled && kind == Kind::Humboldt,
        control: false,
        made_up: None,
    })
}

/// `row` is what the load is called there, `base` the base load beside it in thousandths of the capacity.
pub(super) fn work(load: &Load, point: &Point, row: &str, base: Option<u32>) -> Option<Work> {
    let text = |own: &Option<String>, axis: &str, unless: &str| {
        point.get(axis).map(Value::to_string).or(own.clone()).unwrap_or_else(|| unless.to_string())
    };
    let number = |own: Option<i64>, axis: &str| text(&own.map(|n| n.to_string()), axis, "1").parse::<u32>().ok();
    let tool = Tool::parse(&load.tool).ok()?;
    Some(Work {
        name: row.into(),
        tool,
        op: Op::parse(&text(&load.op, "op", "write")).ok()?,
        block: parse_size(&text(&load.block, "block", "4 KiB")).ok()?,
        depth: number(load.depth, "depth")?,
        jobs: number(load.jobs, "jobs")?,
        size: parse_size(&text(&load.size, "size", "64 MiB")).ok()?,
        cache: point.get("cache").is_some_and(|v| *v == Value::Flag(true)),
        under: load.under.clone(),
        base,
        options: load.options.clone(),
    })
}
