//! `humboldt lab`: lists, checks, plans and runs studies, shows and compares their results. What is measured, and how, is crate `lab`'s.

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use lab::plan::{Machine, Plan, Times, lacks_here};
use lab::report;
use lab::results;
use lab::run::{self, Options, folder, interrupt};
use lab::sample::memory;
use lab::study::{Study, shipped};
use lab::target::ceph::chroot;
use lab::value::Filter;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: Lab,
}

#[derive(Debug, Subcommand)]
enum Lab {
    /// List the studies that come with the program.
    List,
    /// Print a study that comes with the program: a start for a file of your own.
    Show {
        /// Its name, as `humboldt lab list` has it.
        study: String,
    },
    /// Read a study file and say what is wrong with it, with line and column.
    Check {
        /// A file in TOML; `humboldt lab show` prints one.
        file: PathBuf,
    },
    /// Say what a run would do: what is measured, minutes, memory, what this machine lacks. Changes nothing.
    Plan {
        #[command(flatten)]
        what: What,
    },
    /// Install the packages that a study needs (apt-get, as root), and the chroots of stock releases that this Debian does not have.
    Setup {
        /// A shipped study's name, or a file.
        study: String,
    },
    /// Measure. Each result is on the disk before the next begins.
    Run {
        #[command(flatten)]
        what: What,
        /// A new folder for the results.
        #[arg(long, conflicts_with = "resume", required_unless_present = "resume")]
        out: Option<PathBuf>,
        /// Go on with the folder of a run that was interrupted; at most one round is repeated.
        #[arg(long)]
        resume: Option<PathBuf>,
        /// Where the clusters under test keep their data. Default: below the results.
        #[arg(long)]
        scratch: Option<PathBuf>,
        /// Succeed although some of the study can't run on this machine.
        #[arg(long)]
        allow_skips: bool,
        /// A device that the study names and may overwrite. Give it for each such device.
        #[arg(long, value_name = "DEVICE")]
        may_destroy: Vec<PathBuf>,
    },
    /// Write report.html from a results folder.
    Report {
        /// The folder that `humboldt lab run --out` made.
        dir: PathBuf,
    },
    /// Compare two results folders, figure by figure.
    Compare {
        /// The folder of one run.
        a: PathBuf,
        /// The folder of the other.
        b: PathBuf,
    },
    /// Print a study made from a CBT YAML file. What has no meaning here is named on standard error.
    Import {
        /// The YAML file.
        file: PathBuf,
        /// The ceph.conf that belongs to it.
        #[arg(long)]
        conf: Option<PathBuf>,
        /// The benchmark or workload, where the file has several.
        #[arg(long)]
        part: Option<String>,
    },
    /// Test the laboratory itself, with targets whose results are known.
    Selftest,
    /// A modelled device: a FUSE file that answers as slowly as it should.
    #[command(hide = true)]
    Model(ModelArgs),
    /// What the self-test measures.
    #[command(hide = true)]
    Fake {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct ModelArgs {
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    file: PathBuf,
    #[arg(long)]
    seek_us: Option<i64>,
    #[arg(long)]
    seek_min_us: Option<i64>,
    #[arg(long)]
    rpm: Option<i64>,
    #[arg(long)]
    mib_s: Option<i64>,
    #[arg(long)]
    flush_us: Option<i64>,
    #[arg(long)]
    cache_mib: Option<i64>,
    #[arg(long)]
    cache_mib_s: Option<i64>,
    #[arg(long)]
    discard_us: Option<i64>,
    #[arg(long)]
    disks: Option<i64>,
    #[arg(long)]
    stripe_kib: Option<i64>,
}

#[derive(Debug, Args)]
struct What {
    /// A shipped study's name, or a file.
    study: String,
    /// Few short rounds: minutes instead of hours, but small differences do not show.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// As many and as long rounds as the study says (the default).
    #[arg(long)]
    full: bool,
    /// Only a part of the study, such as depth=1. Of several, all must hold.
    #[arg(long, value_name = "AXIS=VALUE")]
    only: Vec<String>,
}

/// The exit code of a run with cells that could not run.
const SKIPS: u8 = 3;

pub fn run(args: &LabArgs) -> ExitCode {
    match command(&args.command) {
        Ok(code) => code,
        Err(e) => {
            say::eprintln!("humboldt lab: {e:#}");
            crate::advice::print(&e);
            ExitCode::FAILURE
        }
    }
}

fn command(command: &Lab) -> Result<ExitCode> {
    match command {
        Lab::List => shipped::ALL.iter().try_for_each(|(name, text)| {
            say::println!("{name:<16} {}", Study::parse(name, text)?.title);
            anyhow::Ok(())
        })?,
        Lab::Show { study } => match shipped::find(study) {
            Some(text) => say::print!("{text}"),
            None => bail!("no study is called {study}; the studies are {}", shipped_names()),
        },
        Lab::Check { file } => {
            let (study, _) = load(&file.display().to_string())?;
            say::println!("{}: {} targets, {} points", study.name(), study.targets.len(), lab::study::axes::points(&study).len());
        }
        Lab::Plan { what } => {
            let (study, _) = load(&what.study)?;
            let plan = plan(&study, what)?;
            let packages = lab::plan::packages(&plan).into_iter().collect::<Vec<_>>().join(" ");
            let disk = lab::plan::room::disk_bytes(&study, &plan) >> 20;
            say::println!("{}  disk {disk} MiB\n  packages: {packages}", report::text::plan(&plan, minutes(&study, &plan)));
            for (release, packages) in chroot::packages(&plan) {
                say::println!("  packages of {release}: {}", packages.into_iter().collect::<Vec<_>>().join(" "));
            }
        }
        Lab::Setup { study } => setup(&load(study)?.0)?,
        Lab::Run { what, out, resume, scratch, allow_skips, may_destroy } => {
            let out = resume.as_ref().or(out.as_ref()).context("--out is missing")?;
            let (out, scratch, may_destroy) = (out.clone(), scratch.clone(), may_destroy.clone());
            let options = Options {
                file: what.study.clone(),
                out,
                resume: resume.is_some(),
                scratch,
                program: program()?,
                commit: env!("HUMBOLDT_COMMIT"),
                may_destroy,
                prefix: "",
            };
            return measure(what, &options, *allow_skips);
        }
        Lab::Report { dir } => say::println!("{}", report::write(dir)?.display()),
        Lab::Compare { a, b } => say::print!("{}", report::compare::compare(a, b)?),
        Lab::Import { file, conf, part } => {
            let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
            let conf = conf.as_deref().map(read).transpose()?;
            let imported = lab::import::cbt(&file.display().to_string(), &read(file)?, conf.as_deref(), part.as_deref())?;
            imported.named.iter().for_each(|n| say::eprintln!("humboldt lab: {n}"));
            say::print!("{}", imported.study);
        }
        Lab::Selftest => {
            interrupt::listen()?;
            lab::selftest::all(&program()?)?;
        }
        Lab::Model(args) => {
            let ModelArgs { seek_us, seek_min_us, rpm, mib_s, flush_us, cache_mib, cache_mib_s, discard_us, disks, stripe_kib, .. } = *args;
            let model = lab::study::file::Model {
                seek_us,
                seek_min_us,
                rpm,
                mib_s,
                flush_us,
                cache_mib,
                cache_mib_s,
                discard_us,
                disks,
                stripe_kib,
            };
            lab::model::fuse::serve(lab::model::Served { dir: args.dir.clone(), file: args.file.clone(), model })?;
        }
        Lab::Fake { args } => lab::selftest::fake(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn program() -> Result<PathBuf> {
    std::env::current_exe().context("finding our own program")
}

fn shipped_names() -> String {
    shipped::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// A shipped study or a file; with its text.
fn load(name: &str) -> Result<(Study, String)> {
    if let Some(text) = shipped::find(name) {
        return Ok((Study::parse(name, text)?, text.into()));
    }
    if !Path::new(name).exists() {
        bail!("no study and no file is called {name}; the studies are {}", shipped_names());
    }
    let text = std::fs::read_to_string(name).with_context(|| name.to_string())?;
    Ok((Study::parse(name, &text)?, text))
}

fn plan(study: &Study, what: &What) -> Result<Plan> {
    let only = Filter::parse(&what.only.join(",")).map_err(anyhow::Error::msg)?;
    let machine = Machine { memory_bytes: memory().0, lacks: Box::new(lacks_here) };
    let plan = Plan::new(study, what.quick, &only, &machine);
    anyhow::ensure!(!plan.cells.is_empty(), "--only leaves nothing of the study");
    Ok(plan)
}

fn minutes(study: &Study, plan: &Plan) -> f64 {
    plan.seconds(study, &Times::here()) / 60.0
}

fn setup(study: &Study) -> Result<()> {
    let everything = What { study: String::new(), quick: false, full: false, only: Vec::new() };
    let plan = plan(study, &everything)?;
    let (packages, chroots) = (lab::plan::packages(&plan), chroot::packages(&plan));
    if packages.is_empty() && chroots.is_empty() {
        say::println!("{} needs no package", study.name());
        return Ok(());
    }
    let shown = |packages: &BTreeSet<&str>| packages.iter().copied().collect::<Vec<_>>().join(" ");
    let all = chroots.iter().map(|(release, packages)| format!(", {} of {release}", shown(packages)));
    anyhow::ensure!(run::is_root(), "installing {}{} needs root", shown(&packages), all.collect::<String>());
    let packages: Vec<&str> = packages.into_iter().collect();
    for args in [&["update", "-q"][..], &[&["install", "-y", "-q", "--no-install-recommends"], packages.as_slice()].concat()] {
        let status = std::process::Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive").status()?;
        anyhow::ensure!(status.success(), "apt-get {} ended with {status}", args.join(" "));
    }
    chroots.iter().try_for_each(|(release, packages)| chroot::install(release, packages))
}

fn measure(what: &What, options: &Options, allow_skips: bool) -> Result<ExitCode> {
    let (study, text) = load(&what.study)?;
    let plan = plan(&study, what)?;
    anyhow::ensure!(!plan.steps.is_empty(), "not one cell can run here:\n{}", report::text::skips(&plan));
    interrupt::listen()?;
    let planned = minutes(&study, &plan);
    say::print!("{}", report::text::plan(&plan, planned));
    let started = Instant::now();
    let outcome = run::run(&study, &text, &plan, options)?;
    if outcome.interrupted {
        let quick = if what.quick { " --quick" } else { "" };
        let only: String = what.only.iter().map(|only| format!(" --only {only}")).collect();
        say::eprintln!(
            "humboldt lab: interrupted; go on with: humboldt lab run {}{quick}{only} --resume {}",
            what.study,
            options.out.display()
        );
        return Ok(ExitCode::from(130));
    }
    say::print!("{}", report::text::verdicts(&results::Results::of(&results::Run::load(&options.out)?)));
    let mut times = Times::here();
    times.learn(&plan, &folder::attempts(&options.out)?);
    if let Err(e) = times.keep() {
        say::eprintln!("humboldt lab: later plans will guess how long this takes: {e:#}");
    }
    say::println!("{}", report::write(&options.out)?.display());
    let run::Outcome { valid, invalid, failed, skipped, .. } = outcome;
    say::println!("{valid} rounds valid, {invalid} invalid, {failed} failed; {skipped} cells skipped");
    if !options.resume {
        say::println!("it took {:.1} minutes, where {planned:.1} were planned", started.elapsed().as_secs_f64() / 60.0);
    }
    Ok(match () {
        () if invalid + failed > 0 => ExitCode::FAILURE,
        () if skipped > 0 && !allow_skips => ExitCode::from(SKIPS),
        () => ExitCode::SUCCESS,
    })
}
