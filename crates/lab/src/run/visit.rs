//! One visit: a target under a load, once, with everything that is measured about it.

use super::folder::Folder;
use super::interrupt;
use super::judge::{self, Seen, State};
use crate::load::runner::{self, Watch, chore};
use crate::load::{Job, Told, Tool};
use crate::plan::Cell;
use crate::sample::{Sample, Subject, Used};
use crate::target::{Counted, Target};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// stat.json: what a round came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    pub schema: u32,
    pub state: Option<State>,
    pub marks: Vec<String>,
    pub told: Option<Told>,
    pub used: Used,
    pub counted: Option<Counted>,
    /// Of the target: what it is.
    pub target: serde_json::Value,
}

/// Version of results' files.
pub const SCHEMA: u32 = 1;
/// How long a store may go on writing after a load, before that counts no more.
const SETTLE: Duration = Duration::from_secs(5);
/// What a quiet device is.
const QUIET: Duration = Duration::from_millis(600);
/// Beyond the time that a load measures.
const GRACE: Duration = Duration::from_secs(60);
const CHORE: Duration = Duration::from_secs(300);

struct Eyes<'a> {
    target: &'a mut dyn Target,
    subject: Subject,
    before: Option<(Sample, Option<Counted>)>,
    after: Option<(Sample, Option<Counted>)>,
    samples: File,
    rss: u64,
    died: bool,
}

impl Eyes<'_> {
    fn count(&mut self) -> Option<Counted> {
        self.target.counted().ok().flatten()
    }
}

impl Watch for Eyes<'_> {
    fn begins(&mut self, pid: u32) {
        self.subject.client = Some(pid);
        let counted = self.count();
        self.before = Some((self.subject.sample(true), counted));
    }
    fn ends(&mut self, pid: u32) {
        self.subject.client = Some(pid);
        let sample = self.subject.sample(true);
        self.after = Some((sample, self.count()));
    }
    fn look(&mut self, pid: u32) {
        self.subject.client = Some(pid);
        let sample = self.subject.sample(false);
        self.rss = self.rss.max(sample.rss_bytes);
        let _ = writeln!(self.samples, "{}", serde_json::to_string(&sample).expect("plain data"));
    }
    fn stop(&mut self) -> bool {
        interrupt::asked()
    }
    fn target_gone(&mut self) -> bool {
        self.died |= !self.target.alive();
        self.died
    }
}

/// Waits until the target's devices are quiet; bytes that were written meanwhile.
fn settle(subject: &Subject, after: &Sample) -> u64 {
    let (end, mut last, mut since) = (Instant::now() + SETTLE, after.clone(), Instant::now());
    while Instant::now() < end && since.elapsed() < QUIET && !interrupt::asked() {
        std::thread::sleep(Duration::from_millis(50));
        let now = subject.sample(false);
        if (now.sectors, now.server_written) != (last.sectors, last.server_written) {
            (last, since) = (now, Instant::now());
        }
    }
    Used::between(after, &last).written_bytes.unwrap_or(0)
}

/// What a visit needs besides target and load.
pub struct Visit<'a> {
    pub cell: &'a Cell,
    pub round: u32,
    pub attempt: u32,
    pub seconds: f64,
    pub warm_s: f64,
    pub foreign_max: f64,
    pub program: &'a Path,
    /// What the load reads is not there yet.
    pub prepare: bool,
}

impl Visit<'_> {
    fn limit(&self) -> Duration {
        Duration::from_secs_f64((self.seconds + self.warm_s) * 2.0) + GRACE
    }
    /// Runs it. Errors are the lab's own; what goes wrong with target or load is a state.
    pub fn run(&self, target: &mut dyn Target, folder: &Folder) -> Result<Stat> {
        let dir = folder.path.join(format!("cells/{}/{}-{}", self.cell.hash, self.round, self.attempt));
        fs::create_dir_all(&dir)?;
        let mut stat = Stat { schema: SCHEMA, ..Stat::default() };
        let failed = |mut stat: Stat, why: String| {
            stat.state = Some(State::Failed(why));
            Ok(stat)
        };
        if let Err(e) = target.start() {
            return failed(stat, format!("{e:#}"));
        }
        stat.target = target.describe();
        let place = target.place();
        let work = &self.cell.work;
        let tag = format!("lab-{}-{}", self.round, self.attempt);
        let job = Job { work, place: &place, dir: &dir, seconds: self.seconds, warm_s: self.warm_s, tag: &tag, program: self.program };
        if let Err(e) = self.prepare(&job) {
            return failed(stat, format!("{e:#}"));
        }
        let mut cmd = work.tool.command(&job);
        fs::write(dir.join("cmd"), format!("{cmd:?}\n"))?;
        let subject = Subject { servers: target.servers(), client: None, devices: target.devices() };
        let durable = target.durable();
        let mut eyes =
            Eyes { target, subject, before: None, after: None, samples: File::create(dir.join("samples.jsonl"))?, rss: 0, died: false };
        let ended = runner::run(&mut cmd, work.tool.marks(), self.limit(), &mut eyes)?;
        fs::write(dir.join("out"), &ended.out)?;
        fs::write(dir.join("err"), &ended.err)?;
        eyes.died |= !eyes.target.alive();
        let (died, rss, subject) = (eyes.died, eyes.rss, eyes.subject.clone());
        if let Some(((a, counted_a), (b, counted_b))) = eyes.before.zip(eyes.after) {
            stat.used = Used::between(&a, &b);
            stat.used.rss_bytes = stat.used.rss_bytes.max(rss);
            stat.counted = counted_a.zip(counted_b).map(|(a, b)| b.since(&a));
            if durable && !work.op.reads() && !died {
                let later = settle(&subject, &b);
                stat.used.written_bytes = stat.used.written_bytes.map(|w| w + later);
            }
        }
        let told = work.tool.read(&job, ended.code, &ended.out, &ended.err);
        let seen = Seen {
            used: stat.used.clone(),
            wanted_s: self.seconds,
            counted: stat.counted,
            durable,
            copies: self.cell.setup.replicas,
            target_died: died,
            marked: ended.marked,
            code: ended.code,
        };
        stat.state = Some(judge::judge(work, &told, &seen));
        if let Ok(told) = told {
            stat.marks = judge::marks(&told, &stat.used, self.foreign_max);
            stat.told = Some(told);
        }
        if !died {
            // What stays behind is the next round's to meet, but no reason to lose this one.
            for mut cmd in work.tool.clean(&job) {
                if let Err(e) = chore(&mut cmd, CHORE) {
                    stat.marks.push(format!("not cleared away: {e:#}"));
                }
            }
        }
        Ok(stat)
    }

    fn prepare(&self, job: &Job) -> Result<()> {
        let work = &self.cell.work;
        // rados bench's objects belong to a run; images and files stay.
        if self.prepare || work.tool == Tool::RadosBench {
            for mut cmd in work.tool.prepare(job) {
                match chore(&mut cmd, CHORE) {
                    Err(e) if !e.to_string().contains("File exists") => return Err(e.context("preparing the load")),
                    _ => {}
                }
            }
        }
        if self.warm_s > 0.0 && !work.tool.marks() {
            let dir = job.dir.join("warm");
            fs::create_dir_all(&dir)?;
            let warm = Job { seconds: self.warm_s, warm_s: 0.0, dir: &dir, tag: job.tag, ..*job };
            chore(&mut work.tool.command(&warm), self.limit()).map_err(|e| e.context("warming up"))?;
        }
        Ok(())
    }
}
