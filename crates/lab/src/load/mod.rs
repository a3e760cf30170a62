//! Loads: the tools that put work on a target, their command lines, and what they tell.
//!
//! Holds the tools' names and what fits what (this file), one file for each tool's command line and output, and the process of a running
//! one (`runner`). Absent: whether what they tell is true; that is `crate::run::judge`'s.

pub mod bench;
pub mod fake;
pub mod files;
pub mod fio;
pub mod rados;
pub mod runner;

use crate::stats::Latency;
use crate::target::{Kind, Place};
use crate::value::{Value, show_size};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Write,
    RandWrite,
    Read,
    RandRead,
    /// 70 % reads.
    Mix,
}

impl Op {
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "write" => Self::Write,
            "randwrite" => Self::RandWrite,
            "read" => Self::Read,
            "randread" => Self::RandRead,
            "mix" => Self::Mix,
            _ => return Err(format!("op = {text}: one of write, randwrite, read, randread, mix is wanted")),
        })
    }
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::RandWrite => "randwrite",
            Self::Read => "read",
            Self::RandRead => "randread",
            Self::Mix => "mix",
        }
    }
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::RandWrite)
    }
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::RandRead)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tool {
    #[serde(rename = "humboldt bench")]
    HumboldtBench,
    #[serde(rename = "rados bench")]
    RadosBench,
    #[serde(rename = "fio rbd")]
    FioRbd,
    #[serde(rename = "fio rados")]
    FioRados,
    #[serde(rename = "fio gfapi")]
    FioGfapi,
    #[serde(rename = "fio libaio")]
    FioLibaio,
    #[serde(rename = "fio psync")]
    FioPsync,
    #[serde(rename = "fs_mark")]
    FsMark,
    #[serde(rename = "dbench")]
    Dbench,
    #[serde(rename = "sqlite")]
    Sqlite,
    /// The self-test's own.
    #[serde(rename = "fake")]
    Fake,
}

/// Each tool with its name in a study, the package that has its program, and the program.
const TOOLS: &[(Tool, &str, &str, &str)] = &[
    (Tool::HumboldtBench, "humboldt bench", "", ""),
    (Tool::RadosBench, "rados bench", "ceph-common", "rados"),
    (Tool::FioRbd, "fio rbd", "fio", "fio"),
    (Tool::FioRados, "fio rados", "fio", "fio"),
    (Tool::FioGfapi, "fio gfapi", "fio", "fio"),
    (Tool::FioLibaio, "fio libaio", "fio", "fio"),
    (Tool::FioPsync, "fio psync", "fio", "fio"),
    (Tool::FsMark, "fs_mark", "fsmark", "fs_mark"),
    (Tool::Dbench, "dbench", "dbench", "dbench"),
    (Tool::Sqlite, "sqlite", "sqlite3", "sqlite3"),
    (Tool::Fake, "fake", "", ""),
];

impl Tool {
    fn row(self) -> &'static (Tool, &'static str, &'static str, &'static str) {
        TOOLS.iter().find(|(tool, ..)| *tool == self).expect("the table has every tool")
    }
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = || TOOLS.iter().filter(|t| t.0 != Self::Fake).map(|t| t.1).collect::<Vec<_>>().join(", ");
        TOOLS
            .iter()
            .find(|(_, name, ..)| *name == text)
            .map(|t| t.0)
            .ok_or_else(|| format!("unknown tool `{text}`, expected one of {}", names()))
    }
    pub fn name(self) -> &'static str {
        self.row().1
    }
    /// The package and program that it needs, if any.
    pub fn needs(self) -> Option<(&'static str, &'static str)> {
        let (_, _, package, program) = *self.row();
        (!program.is_empty()).then_some((package, program))
    }
    /// True if it tells each latency, not only mean and extremes.
    pub fn has_histogram(self) -> bool {
        !matches!(self, Self::RadosBench | Self::FsMark | Self::Dbench | Self::Sqlite)
    }
    /// True if it can load a target of this kind.
    pub fn fits(self, kind: Kind, fs: bool) -> bool {
        match self {
            Self::HumboldtBench | Self::RadosBench | Self::FioRados => kind.is_cluster(),
            // An image is read before it is written.
            Self::FioRbd => kind.is_cluster() && kind != Kind::Null && !fs,
            Self::FioGfapi => kind == Kind::Glusterfs,
            Self::FioLibaio | Self::FioPsync => kind == Kind::Device || fs,
            Self::FsMark | Self::Dbench | Self::Sqlite => fs,
            Self::Fake => kind == Kind::Fake,
        }
    }
    /// Why it can't do this, if it can't.
    pub fn lacks(self, work: &Work) -> Option<String> {
        let name = self.name();
        match self {
            Self::HumboldtBench | Self::RadosBench if matches!(work.op, Op::RandWrite | Op::Mix) => {
                Some(format!("{name} has no {}", work.op.name()))
            }
            Self::HumboldtBench | Self::RadosBench | Self::Fake if work.jobs > 1 => Some(format!("{name} runs as one job")),
            Self::Sqlite if work.jobs > 1 => Some("sqlite runs as one job".into()),
            _ => None,
        }
    }
}

/// The course of drills that a load is under, out of `drill COURSE`; the nameless one of `drill`.
pub fn course(under: &str) -> Option<&str> {
    under.strip_prefix("drill").filter(|rest| rest.is_empty() || rest.starts_with(' ')).map(str::trim)
}

/// A load with everything settled but its length.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Work {
    pub name: String,
    pub tool: Tool,
    pub op: Op,
    pub block: u64,
    pub depth: u32,
    pub jobs: u32,
    pub size: u64,
    /// librbd's cache.
    pub cache: bool,
    /// `base` or `drill`: see the study file.
    pub under: Option<String>,
    /// The base load beside it, in thousandths of the capacity.
    pub base: Option<u32>,
    pub options: BTreeMap<String, Value>,
}

impl Work {
    /// One line for people.
    pub fn show(&self) -> String {
        let jobs = if self.jobs > 1 { format!(", {} jobs", self.jobs) } else { String::new() };
        let size = Some(show_size(self.block)).filter(|size| !self.is_named(size)).map_or(String::new(), |size| size + " ");
        format!("{} {size}{}, depth {}{jobs}", self.name, self.op.name(), self.depth)
    }
    /// True if the name says the size: "write-4K" says "4K", "write-64K" does not.
    fn is_named(&self, size: &str) -> bool {
        self.name.match_indices(size).any(|(at, _)| !self.name[..at].ends_with(|c: char| c.is_ascii_digit()))
    }
    /// True if it ends when all that is there has been read: `rados bench seq` reads each object once.
    pub fn may_run_out(&self) -> bool {
        self.tool == Tool::RadosBench && self.op == Op::Read
    }
    pub fn is_drill(&self) -> bool {
        self.under.as_deref().and_then(course).is_some()
    }
    /// True if each operation's bytes must reach the target while it runs: else a cache may answer, or join several into one.
    pub fn reaches_whole(&self) -> bool {
        self.tool != Tool::Dbench && !self.cache
    }
    /// How many operations are under way at most.
    pub fn under_way(&self) -> u64 {
        u64::from(self.depth) * u64::from(self.jobs)
    }
}

/// What a tool says that it did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    pub ops: u64,
    pub errors: u64,
    /// How long it measured, by its own clock.
    pub seconds: f64,
    pub mean_ns: f64,
    pub latency: Option<Latency>,
    /// Operations in each slot of time.
    pub slots: Vec<u64>,
    pub slot_ms: u64,
    /// The longest time without an answer.
    pub gap_ms: Option<f64>,
    /// What part of the operations wrote.
    pub write_share: f64,
    /// Bytes that were moved, where operations are not all of one size.
    pub bytes: Option<u64>,
}

/// Output that can't be believed, or says that the load failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadOutput {
    #[error("the output is cut off: {0}")]
    CutOff(String),
    #[error("the store is full: {0}")]
    Full(String),
    #[error("the load failed: {0}")]
    Failed(String),
}

/// What one run of a tool needs to know.
pub struct Job<'a> {
    pub work: &'a Work,
    pub place: &'a Place,
    /// Where the tool may leave files.
    pub dir: &'a Path,
    pub seconds: f64,
    pub warm_s: f64,
    /// Names what it writes.
    pub tag: &'a str,
    /// Our own program.
    pub program: &'a Path,
}

impl Tool {
    /// True if it tells when the measured part begins and ends (`runner::Mark`), and warms up by itself.
    pub fn marks(self) -> bool {
        matches!(self, Self::HumboldtBench | Self::Fake)
    }
    /// True if it runs for a time; else for an amount of work.
    pub fn is_timed(self) -> bool {
        !matches!(self, Self::FsMark | Self::Sqlite)
    }
    /// True if it works on files.
    pub fn wants_files(self) -> bool {
        matches!(self, Self::FsMark | Self::Dbench | Self::Sqlite)
    }
    /// What runs before, unmeasured: what a load reads must be there.
    pub fn prepare(self, job: &Job) -> Vec<Command> {
        match self {
            Self::RadosBench => rados::prepare(job),
            Self::FioRbd | Self::FioRados | Self::FioLibaio | Self::FioPsync | Self::FioGfapi => fio::prepare(job),
            Self::FsMark | Self::Dbench | Self::Sqlite => files::prepare(job),
            _ => Vec::new(),
        }
    }
    /// Objects that are there to be read, by what [`Tool::prepare`]'s command said; none for tools that don't count them.
    pub fn made(self, out: &str) -> Option<u64> {
        if self == Self::RadosBench { rados::made(out) } else { None }
    }
    /// Names what warming up writes: else what is measured would overwrite that, and find it made.
    pub fn warm_tag(self, job: &Job) -> String {
        if self == Self::RadosBench && job.work.op == Op::Write { rados::warm_tag(job) } else { job.tag.into() }
    }
    /// The load itself; with `warm_s` in the job's place of `seconds` for tools without marks.
    pub fn command(self, job: &Job) -> Command {
        match self {
            Self::HumboldtBench => bench::command(job),
            Self::RadosBench => rados::command(job),
            Self::Fake => fake::command(job),
            Self::FsMark | Self::Dbench | Self::Sqlite => files::command(job),
            _ => fio::command(job),
        }
    }
    /// What runs afterwards, unmeasured.
    pub fn clean(self, job: &Job) -> Vec<Command> {
        match self {
            Self::RadosBench => rados::clean(job),
            Self::FsMark | Self::Dbench | Self::Sqlite => files::clean(job),
            _ => Vec::new(),
        }
    }
    pub fn read(self, job: &Job, code: i32, out: &str, err: &str) -> Result<Told, BadOutput> {
        match self {
            Self::HumboldtBench | Self::Fake => bench::read(code, out, err),
            Self::RadosBench => rados::read(job, code, out, err),
            Self::FsMark | Self::Dbench | Self::Sqlite => files::read(job, code, out, err),
            _ => fio::read(job, code, out, err),
        }
    }
}

/// The last lines of what a tool said, for an error.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}
