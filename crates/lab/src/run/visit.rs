//! One visit: a target under a load, once, with everything that is measured about it.

use super::drill::{Course, Drilled, Ledger};
use super::folder::{self, Folder};
use super::judge::{self, Seen, State};
use super::{base, interrupt};
use crate::lasting::{Point, Tenths};
use crate::load::runner::{self, Watch, chore};
use crate::load::{Job, Told, Tool, course};
use crate::plan::{Cell, Mode, Setup};
use crate::profile::{Folded, Recording};
use crate::sample::{Sample, Subject, Used};
use crate::study::file::{Base, Drill};
use crate::sys;
use crate::target::process::Daemon;
use crate::target::{Counted, Target};
use crate::trace::{self, Tracing};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the parts of a visit took, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Took {
    /// Until the target ran; none if it ran already.
    pub start_s: Option<f64>,
    /// All but the start and what the load measures.
    pub beyond_s: f64,
    /// What the load was to measure; 0 for one that has an amount of work.
    #[serde(default)]
    pub asked_s: f64,
}

/// stat.json: what a round came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    pub schema: u32,
    pub state: Option<State>,
    pub marks: Vec<String>,
    pub told: Option<Told>,
    pub used: Used,
    /// Server CPU by tenths of a load that ran for a while.
    #[serde(default)]
    pub tenths: Tenths,
    pub counted: Option<Counted>,
    /// Of the target: what it is.
    pub target: serde_json::Value,
    #[serde(default)]
    pub took: Took,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drill: Option<Drilled>,
    /// Of the base load alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<trace::Summary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Folded>,
}

impl Stat {
    /// What the target keeps on a device, by the kernel's number of it.
    pub fn role(&self, number: &str) -> Option<&str> {
        let of = |d: &&serde_json::Value| d["number"] == number;
        self.target["devices"].as_array().into_iter().flatten().find(of)?["role"].as_str()
    }
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
/// How much longer than the load its objects' removal may take: stock removes more slowly than it writes.
const CLEAN_TIMES: f64 = 3.0;

struct Eyes<'a> {
    target: &'a mut dyn Target,
    subject: Subject,
    before: Option<(Sample, Option<Counted>)>,
    after: Option<(Sample, Option<Counted>)>,
    samples: File,
    /// CPU that the servers had used, at each look.
    points: Vec<Point>,
    rss: u64,
    died: bool,
    /// When the target was first asked what it had counted.
    counted_at_ns: u64,
    course: Option<Course>,
}

impl Eyes<'_> {
    fn count(&mut self) -> Option<Counted> {
        self.target.counted().ok().flatten()
    }
}

impl Watch for Eyes<'_> {
    fn begins(&mut self, pid: u32) {
        self.subject.client = Some(pid);
        // What a cluster's own commands count takes its time, and is late anyway.
        let early = (!self.target.counts_late().is_zero()).then(|| self.subject.sample(true));
        let counted = self.count();
        self.counted_at_ns = sys::monotonic_ns();
        self.before = Some((early.unwrap_or_else(|| self.subject.sample(true)), counted));
        self.course.iter_mut().for_each(Course::begin);
    }
    fn ends(&mut self, pid: u32) {
        self.subject.client = Some(pid);
        let sample = self.subject.sample(true);
        std::thread::sleep(self.target.counts_late());
        self.after = Some((sample, self.count()));
    }
    fn look(&mut self, pid: u32) {
        self.subject.client = Some(pid);
        let sample = self.subject.sample(false);
        self.rss = self.rss.max(sample.rss_bytes);
        self.points.push(point(&sample));
        if let Some(course) = &mut self.course {
            course.look(self.target, &mut self.subject);
        }
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

fn point(sample: &Sample) -> Point {
    Point { monotonic_ns: sample.monotonic_ns, server_cpu_ns: sample.server_cpu_ns }
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
    pub mode: Mode,
    pub round: u32,
    pub attempt: u32,
    pub seconds: f64,
    pub warm_s: f64,
    pub foreign_max: f64,
    pub program: &'a Path,
    /// When it began: before other targets were stopped for it.
    pub begun: Instant,
    /// The target does not run yet.
    pub starts: bool,
    /// What the load reads is not there yet.
    pub prepare: bool,
    pub drills: &'a [Drill],
    pub base: Option<&'a Base>,
    /// Of the base load alone, bytes a second, by target: measured once.
    pub capacities: &'a RefCell<BTreeMap<Setup, f64>>,
}

impl Visit<'_> {
    fn limit(&self) -> Duration {
        Duration::from_secs_f64((self.seconds + self.warm_s) * 2.0) + GRACE
    }
    /// Where everything of it goes.
    pub fn dir(&self, folder: &Folder) -> PathBuf {
        folder.path.join(folder::dir(self.mode, &self.cell.hash, self.round, self.attempt))
    }
    /// Runs it. Errors are the lab's own; what goes wrong with target or load is a state.
    pub fn run(&self, target: &mut dyn Target, folder: &Folder) -> Result<Stat> {
        let dir = self.dir(folder);
        fs::create_dir_all(&dir)?;
        let mut stat = Stat { schema: SCHEMA, ..Stat::default() };
        let work = &self.cell.work;
        let tag = format!("lab-{}-{}-{}", self.mode as u8, self.round, self.attempt);
        let program = self.program;
        let ready = target.start().and_then(|()| {
            stat.took.start_s = self.starts.then(|| self.begun.elapsed().as_secs_f64());
            stat.target = target.describe();
            let place = target.place();
            ensure!(place.dir.is_some() || !work.tool.wants_files(), "it has no files");
            let job = Job { work, place: &place, dir: &dir, seconds: self.seconds, warm_s: self.warm_s, tag: &tag, program };
            let there = self.prepare(&job)?;
            let base = self.base_load(&job, &mut stat)?;
            Ok((place, base, there))
        });
        let (place, base, there) = match ready {
            Ok(ready) => ready,
            Err(e) => {
                stat.state = Some(State::Failed(format!("{e:#}")));
                return Ok(stat);
            }
        };
        let job = Job { work, place: &place, dir: &dir, seconds: self.seconds, warm_s: self.warm_s, tag: &tag, program };
        self.measure(&job, target, there, &mut stat)?;
        drop(base);
        if target.alive() {
            // What stays behind is the next round's to meet, but no reason to lose this one.
            for mut cmd in work.tool.clean(&job) {
                if let Err(e) = chore(&mut cmd, CHORE + Duration::from_secs_f64(self.seconds * CLEAN_TIMES)) {
                    stat.marks.push(format!("not cleared away: {e:#}"));
                }
            }
        }
        Ok(stat)
    }
    fn base_load(&self, job: &Job, stat: &mut Stat) -> Result<Option<Daemon>> {
        let (Some(share), Some(base)) = (self.cell.work.base, self.base) else { return Ok(None) };
        let known = self.capacities.borrow().get(&self.cell.setup).copied();
        let capacity = match known {
            Some(capacity) => capacity,
            None => base::capacity(job, base)?,
        };
        self.capacities.borrow_mut().insert(self.cell.setup.clone(), capacity);
        stat.capacity_bytes_s = Some(capacity);
        base::start(job, base, capacity, share, job.dir).map(Some)
    }
    fn measure(&self, job: &Job, target: &mut dyn Target, there: Option<u64>, stat: &mut Stat) -> Result<()> {
        let (work, dir) = (&self.cell.work, job.dir);
        let mut cmd = work.tool.command(job);
        fs::write(dir.join("cmd"), format!("{cmd:?}\n"))?;
        let subject = Subject { servers: target.servers(), client: None, helpers: target.helpers(), devices: target.devices() };
        let durable = target.durable();
        let is_drill = work.is_drill();
        let course = work.under.as_deref().and_then(course).map(|name| Course::new(self.drills.iter().filter(|d| d.course == name)));
        let ledger = is_drill.then(|| Ledger::start(job.place, dir));
        let look = Look::start(self.mode, &subject, dir)?;
        let samples = File::create(dir.join("samples.jsonl"))?;
        let mut eyes =
            Eyes { target, subject, before: None, after: None, samples, points: Vec::new(), rss: 0, died: false, counted_at_ns: 0, course };
        let ended = runner::run(&mut cmd, work.tool.marks(), self.limit(), &mut eyes)?;
        look.finish(stat);
        fs::write(dir.join("out"), &ended.out)?;
        fs::write(dir.join("err"), &ended.err)?;
        eyes.died |= !eyes.target.alive();
        let Eyes { target, mut subject, before, after, points, rss, died, counted_at_ns, course, .. } = eyes;
        let mut counted_s = None;
        if let Some(((a, counted_a), (b, counted_b))) = before.zip(after) {
            stat.used = Used::between(&a, &b);
            let measured = points.into_iter().filter(|p| (a.monotonic_ns..b.monotonic_ns).contains(&p.monotonic_ns));
            stat.tenths = Tenths::of(&std::iter::once(point(&a)).chain(measured).chain([point(&b)]).collect::<Vec<_>>());
            stat.used.rss_bytes = stat.used.rss_bytes.max(rss);
            stat.counted = counted_a.zip(counted_b).map(|(a, b)| b.since(&a));
            counted_s = Some(b.monotonic_ns.saturating_sub(counted_at_ns) as f64 / 1e9);
            if durable && !work.op.reads() && !died {
                let later = settle(&subject, &b);
                stat.used.written_bytes = stat.used.written_bytes.map(|w| w + later);
            }
        }
        let told = work.tool.read(job, ended.code, &ended.out, &ended.err);
        let mut seen = Seen {
            used: stat.used.clone(),
            wanted_s: self.seconds,
            there,
            // Counters of an OSD that was killed begin at nothing.
            counted: stat.counted.filter(|_| !is_drill),
            counted_s,
            durable: durable && !is_drill,
            copies: self.cell.setup.replicas,
            target_died: died,
            marked: ended.marked,
            code: ended.code,
            ledger: None,
        };
        let hurt =
            course.zip(ledger).and_then(|(course, ledger)| drilled(course, ledger, target, &mut subject, told.as_ref().ok(), stat).err());
        seen.ledger = stat.drill.as_ref().map(|d| (d.acknowledged, d.lost));
        stat.state = Some(match hurt {
            Some(e) => State::Failed(format!("{e:#}")),
            None => judge::judge(work, &told, &seen),
        });
        if let Ok(told) = told {
            if !is_drill {
                stat.marks.extend(judge::marks(work, &told, &stat.used, self.foreign_max));
                if work.may_run_out() && told.seconds < self.seconds * 0.9 {
                    stat.marks.push(format!("all objects were read after {:.2} s", told.seconds));
                }
            }
            stat.told = Some(told);
        }
        Ok(())
    }

    /// Makes what the load reads, and warms up; how many objects are there to be read, where they are counted.
    fn prepare(&self, job: &Job) -> Result<Option<u64>> {
        let (work, mut there) = (&self.cell.work, None);
        // Objects of rados bench and folders of files belong to a run; images and large files stay.
        if self.prepare || work.tool == Tool::RadosBench || work.tool.wants_files() {
            for mut cmd in work.tool.prepare(job) {
                match chore(&mut cmd, CHORE) {
                    Err(e) if !e.to_string().contains("File exists") => return Err(e.context("preparing the load")),
                    Err(_) => {}
                    Ok(out) => there = work.tool.made(&out).or(there),
                }
            }
        }
        if self.warm_s > 0.0 && !work.tool.marks() && !work.tool.wants_files() {
            let dir = job.dir.join("warm");
            fs::create_dir_all(&dir)?;
            let tag = work.tool.warm_tag(job);
            let warm = Job { seconds: self.warm_s, warm_s: 0.0, dir: &dir, tag: &tag, ..*job };
            chore(&mut work.tool.command(&warm), self.limit()).map_err(|e| e.context("warming up"))?;
        }
        Ok(there)
    }
}

/// The drills' end: the target is whole again, and what it acknowledged is there.
fn drilled(
    mut course: Course,
    ledger: Ledger,
    target: &mut dyn Target,
    subject: &mut Subject,
    told: Option<&Told>,
    stat: &mut Stat,
) -> Result<()> {
    ledger.stop();
    let whole = course.finish(target, subject);
    let mut drilled = course.drilled;
    let slowest = |t: &Told| t.latency.as_ref().and_then(|l| l.max_ns()).map(|ns| ns as f64 / 1e6);
    drilled.pause_ms = told.and_then(|t| t.gap_ms.or_else(|| slowest(t)));
    let settled = ledger.settle();
    if let Ok((acknowledged, lost)) = settled {
        (drilled.acknowledged, drilled.lost) = (acknowledged, lost);
    }
    stat.drill = Some(drilled);
    whole.and(settled.map(drop))
}

/// What looks closer while a load runs, if anything does.
enum Look {
    Nothing,
    Trace(Tracing),
    Profile(Recording),
}

impl Look {
    fn start(mode: Mode, subject: &Subject, dir: &Path) -> Result<Self> {
        Ok(match mode {
            Mode::Figures => Self::Nothing,
            Mode::Trace => Self::Trace(Tracing::start(&subject.devices)?),
            Mode::Profile => Self::Profile(Recording::start(&subject.servers, dir)?),
        })
    }
    fn finish(self, stat: &mut Stat) {
        let result = match self {
            Self::Nothing => Ok(()),
            Self::Trace(tracing) => tracing.finish().map(|(text, lost)| {
                stat.trace = trace::summaries(&trace::requests(&text));
                if lost > 0 {
                    stat.marks.push(format!("the trace lost {lost} events"));
                }
            }),
            Self::Profile(recording) => recording.finish().map(|folded| stat.profile = Some(folded)),
        };
        if let Err(e) = result {
            stat.marks.push(format!("nothing to see: {e:#}"));
        }
    }
}
