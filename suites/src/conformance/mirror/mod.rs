//! Images mirrored by stock rbd-mirror between two clusters, by journal and by snapshots, each way: daemons and clusters killed with -9 under writes,
//! images handed over, taken by force and copied anew. After each step both sites must hold what was acknowledged, byte for byte.
//!
//! Two pairs: ours and a stock cluster, ours and ours; with a stock cluster asked for, two stock ones. [`site`] is one cluster with its daemon,
//! `images.py` writes images and compares them.

mod site;

use super::runs::Runs;
use super::{Manner, Run};
use crate::clients::{Release, rbd_mirror};
use crate::run::{Output, ended, until};
use anyhow::{Context, Result, bail, ensure};
use site::{PATIENCE, POOL, Site};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Instant;

pub const NAME: &str = "mirror";
const SIZE: &str = "8M";
const OBJECT: &str = "256K";
/// Writes of a step.
const WRITES: &str = "60";
/// Writes that must be acknowledged between two kills.
const BETWEEN: u64 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Journal,
    Snapshot,
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Snapshot => "snapshot",
        }
    }
}

/// A mirrored image.
struct Image {
    mode: Mode,
    name: String,
    /// The site that it was made at.
    first: usize,
    /// The site that it is written at.
    primary: usize,
}

impl Image {
    fn spec(&self) -> String {
        format!("{POOL}/{}", self.name)
    }
}

/// A client that writes until it is told to stop.
struct Writer {
    child: Child,
    log: PathBuf,
    stop: PathBuf,
}

impl Writer {
    /// A dot for each write.
    fn count(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |m| m.len())
    }
    fn goes_on(&mut self) -> Result<()> {
        let due = self.count() + BETWEEN;
        let mut gone = false;
        let goes = until(PATIENCE, || {
            gone = ended(&mut self.child);
            gone || self.count() >= due
        });
        ensure!(goes && !gone, "the writer of {} {}", self.log.display(), if gone { "ended" } else { "stands still" });
        Ok(())
    }
    fn finish(mut self) -> Result<()> {
        std::fs::write(&self.stop, "")?;
        ensure!(until(PATIENCE, || ended(&mut self.child)), "the writer of {} does not end", self.log.display());
        ensure!(self.child.wait()?.success(), "the writer of {} failed", self.log.display());
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Pair {
    sites: [Site; 2],
    images: Vec<Image>,
    /// A seed for each writer that ever ran.
    seed: u32,
}

impl Pair {
    fn start(release: Release, manners: [Manner; 2], modes: &[Mode]) -> Result<Self> {
        let [a, b] = manners;
        let mut sites = [Site::start("a", release, a)?, Site::start("b", release, b)?];
        let token = sites[1].dir().join("token");
        std::fs::write(&token, sites[0].must(&format!("rbd mirror pool peer bootstrap create --site-name a {POOL}"))?)?;
        sites[1].must(&format!("rbd mirror pool peer bootstrap import --site-name b --direction rx-tx {POOL} {}", token.display()))?;
        sites.iter_mut().try_for_each(Site::start_daemon)?;
        let mut images = Vec::new();
        for mode in modes {
            for site in 0..2 {
                let name = format!("{}-{}", mode.word(), sites[site].name);
                images.push(Image { mode: *mode, name, first: site, primary: site });
            }
        }
        let pair = Self { sites, images, seed: 0 };
        for image in &pair.images {
            let features = if image.mode == Mode::Journal {
                "layering,exclusive-lock,journaling"
            } else {
                "layering,exclusive-lock,object-map,fast-diff"
            };
            let site = &pair.sites[image.primary];
            site.must(&format!("rbd create {} --size {SIZE} --object-size {OBJECT} --image-feature {features}", image.spec()))?;
            site.must(&format!("rbd mirror image enable {} {}", image.spec(), image.mode.word()))?;
        }
        Ok(pair)
    }
    /// The file with what an image holds, where clients of both sites see it.
    fn model(&self, image: &Image) -> PathBuf {
        self.sites[0].dir().join(format!("{}.model", image.name))
    }
    /// Writes to each image at the site that it belongs to.
    fn write(&mut self) -> Result<()> {
        for n in 0..self.images.len() {
            self.write_one(n)?;
        }
        Ok(())
    }
    fn write_one(&mut self, n: usize) -> Result<()> {
        self.seed += 1;
        let (image, seed) = (&self.images[n], self.seed.to_string());
        let model = self.model(image).display().to_string();
        self.sites[image.primary].images_say(&["write", POOL, &image.name, &model, &seed, WRITES])?;
        Ok(())
    }
    fn writers(&mut self) -> Result<Vec<Writer>> {
        let mut writers = Vec::new();
        for image in &self.images {
            self.seed += 1;
            let log = self.sites[0].dir().join(format!("{}.written-{}", image.name, self.seed));
            let (stop, file) = (log.with_extension("stop"), std::fs::File::create(&log)?);
            let words = [&image.name, &self.model(image).display().to_string(), &self.seed.to_string(), &stop.display().to_string()];
            let mut cmd = self.sites[image.primary].images(&[&["stream", POOL], &words.map(String::as_str)[..]].concat());
            let errors = std::fs::File::create(log.with_extension("errors"))?;
            writers.push(Writer { child: cmd.stdin(Stdio::null()).stdout(file).stderr(errors).spawn()?, log, stop });
        }
        Ok(writers)
    }
    /// What speaks against an image: its bytes at either site, or what a daemon says of it.
    fn differs(&self, image: &Image, snapshot: Option<&str>) -> Result<Option<String>> {
        let model = match snapshot {
            Some(snapshot) => self.model(image).with_extension(snapshot),
            None => self.model(image),
        };
        let model = model.display().to_string();
        let words: Vec<&str> = ["check", POOL, &image.name, &model].into_iter().chain(snapshot).collect();
        let holds = self.sites[image.primary].images_say(&words)?;
        if holds != "same" {
            return Ok(Some(format!("where it is written, at {}: {holds}", self.sites[image.primary].name)));
        }
        if image.mode == Mode::Snapshot {
            self.sites[image.primary].insist(&format!("rbd mirror image snapshot {}", image.spec()))?;
        }
        let other = &self.sites[1 - image.primary];
        let mut last = String::new();
        let line = format!("rbd mirror image status {}", image.spec());
        let good = until(PATIENCE, || {
            last = other.images_say(&words).unwrap_or_else(|e| format!("{e:#}"));
            if last != "same" {
                return false;
            }
            let status = other.json(&line).unwrap_or_default();
            last = format!("{} ({})", status["state"], status["description"]);
            status["state"] == "up+replaying"
        });
        if good {
            return Ok(None);
        }
        let status = other.must(&line).unwrap_or_else(|e| format!("{e:#}"));
        Ok(Some(format!("at {}: {last}; {}", other.name, status.split_whitespace().collect::<Vec<_>>().join(" "))))
    }

    /// Kills both daemons and both clusters, one after the other, while all images are written.
    fn kills(&mut self) -> Result<()> {
        let mut writers = self.writers()?;
        for kill in 0..4 {
            writers.iter_mut().try_for_each(Writer::goes_on).with_context(|| format!("before kill {kill}"))?;
            let site = &mut self.sites[kill % 2];
            if kill < 2 {
                site.kill_daemon()?;
                site.start_daemon()?;
            } else {
                site.kill_cluster()?;
            }
        }
        writers.iter_mut().try_for_each(Writer::goes_on).context("after the last kill")?;
        writers.into_iter().try_for_each(Writer::finish)
    }
    /// A snapshot of each image, and writes behind it.
    fn snapshots(&mut self) -> Result<()> {
        for image in &self.images {
            self.sites[image.primary].must(&format!("rbd snap create {}@s --no-progress", image.spec()))?;
            std::fs::copy(self.model(image), self.model(image).with_extension("s"))?;
        }
        self.write()
    }
    /// Each image in order: demoted here, promoted there as soon as that is told, and written there.
    fn hand_over(&mut self) -> Result<()> {
        for image in &mut self.images {
            self.sites[image.primary].must(&format!("rbd mirror image demote {}", image.spec()))?;
            image.primary = 1 - image.primary;
        }
        for image in &self.images {
            self.sites[image.primary].insist(&format!("rbd mirror image promote {}", image.spec()))?;
        }
        self.write()
    }
    /// Each image by force, while the other site still writes it; what that wrote then is given up.
    fn take_by_force(&mut self) -> Result<()> {
        for n in 0..self.images.len() {
            let spec = self.images[n].spec();
            let (old, new) = (self.images[n].primary, 1 - self.images[n].primary);
            self.sites[new].insist(&format!("rbd mirror image promote --force {spec}"))?;
            self.images[n].primary = new;
            self.write_one(n)?;
            let lost = format!("{}.lost", self.model(&self.images[n]).display());
            self.seed += 1;
            self.sites[old].images_say(&["write", POOL, &self.images[n].name, &lost, &self.seed.to_string(), "5"])?;
        }
        for image in &self.images {
            let old = &self.sites[1 - image.primary];
            old.insist(&format!("rbd mirror image demote {}", image.spec()))?;
            old.insist(&format!("rbd mirror image resync {}", image.spec()))?;
        }
        Ok(())
    }
}

/// The steps of a pair, each noted for each image.
struct Story {
    pair: Pair,
    runs: Runs,
}

impl Story {
    /// Does a step and looks at all images; false if nothing can follow it.
    fn step(&mut self, what: &str, snapshot: Option<&str>, step: impl FnOnce(&mut Pair) -> Result<()>) -> bool {
        let started = Instant::now();
        let nothing = Output { code: 0, stdout: String::new(), stderr: String::new() };
        if let Err(e) = step(&mut self.pair) {
            self.runs.add(what.into(), started.elapsed(), Some(format!("{e:#}").replace('\n', " ")), &nothing);
            return false;
        }
        let mut good = true;
        for image in &self.pair.images {
            let against = self.pair.differs(image, snapshot).unwrap_or_else(|e| Some(format!("{e:#}").replace('\n', " ")));
            good &= against.is_none();
            let case = format!("{}, made at {}: {what}", image.mode.word(), self.pair.sites[image.first].of_name());
            self.runs.add(case, started.elapsed(), against, &nothing);
        }
        good
    }
    fn whole(&mut self, failovers: u32) {
        let forced = format!("taken by force and copied anew, {failovers} times");
        let _ = self.step("copied", None, Pair::write)
            && self.step("a snapshot", Some("s"), Pair::snapshots)
            && self.step("kill -9 of daemons and clusters under writes", None, Pair::kills)
            && self.step("handed over", None, Pair::hand_over)
            && self.step("handed back", None, Pair::hand_over)
            && self.step(&forced, None, |pair| by_force(pair, failovers));
    }
    /// What takes half a minute of the mode: the first copy by snapshots alone waits for most of that.
    fn short(&mut self, mode: Mode) {
        let _ = self.step("copied", None, Pair::write)
            && match mode {
                Mode::Journal => self.step("taken by force and copied anew", None, |pair| by_force(pair, 1)),
                Mode::Snapshot => self.step("a snapshot", Some("s"), Pair::snapshots),
            };
    }
}

impl Site {
    /// `a, ours`.
    fn of_name(&self) -> String {
        format!("{}, {}", self.name, self.of)
    }
}

/// So many times; all images are equal after each.
fn by_force(pair: &mut Pair, failovers: u32) -> Result<()> {
    for n in 1..=failovers {
        pair.take_by_force().with_context(|| format!("failover {n}"))?;
        for image in &pair.images {
            if let Some(why) = pair.differs(image, None)? {
                bail!("failover {n}: {}: {why}", image.name);
            }
        }
    }
    Ok(())
}

fn run_pair(release: Release, manners: [Manner; 2], modes: &[Mode], tell: impl FnOnce(&mut Story)) -> Result<Runs> {
    let pair = Pair::start(release, manners, modes)?;
    let program = format!("rbd-mirror, {} and {}", pair.sites[0].of, pair.sites[1].of);
    let mut story = Story { pair, runs: Runs::new(&program) };
    tell(&mut story);
    let Story { pair, runs } = story;
    // Of a pair that failed the folders are looked at.
    if runs.outcome.failed().count() == 0 {
        pair.sites.into_iter().try_for_each(Site::stop)?;
    }
    Ok(runs)
}

/// Both pairs, whole; each image of the first is taken by force so many times.
pub fn mirror(release: Release, manner: Manner, failovers: u32) -> Result<Run> {
    rbd_mirror(release)?;
    let started = Instant::now();
    let modes = [Mode::Journal, Mode::Snapshot];
    // What is killed with -9 keeps its objects on a device.
    let manner = Manner { store: "block", ..manner };
    let stock = Manner { stock: Some(release), ..manner };
    let mut outcomes = vec![run_pair(release, [manner, stock], &modes, |story| story.whole(failovers))?.end()];
    if manner.stock.is_none() {
        outcomes.push(run_pair(release, [manner, manner], &modes, |story| story.whole(1))?.end());
    }
    Ok(Run { section: manner.section(NAME, release), outcomes, took: started.elapsed() })
}

/// One mode between two clusters of ours, for the tests.
pub fn short(mode: Mode) -> Result<()> {
    rbd_mirror(Release::Reef)?;
    let manner = Manner { store: "block", ..Manner::default() };
    let bad = run_pair(Release::Reef, [manner, manner], &[mode], |story| story.short(mode))?.end().unexpected();
    ensure!(bad.is_empty(), "{}", bad.join("\n"));
    Ok(())
}
