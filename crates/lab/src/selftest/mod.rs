//! `lab selftest`: the instrument is shown things whose truth is known, and must say it; and is lied to, and must notice.
//!
//! | part | what is known | what must come out |
//! |---|---|---|
//! | [`statistics`] | a machine in numbers: noise, drift, effects | words, right in 95 of 100, false in at most 5 |
//! | [`instrument`] | a process: latencies, CPU, sectors, a stall | the same figures |
//! | [`lies`] | loads and targets that lie, or die | each noticed, and the study goes on |
//! | [`kills`] | `kill -9` of the lab itself | the same results after --resume, nothing left behind |
//!
//! Needs no package, no root and no other machine; under three minutes.

pub mod instrument;
pub mod kills;
pub mod lies;
mod load;
mod serve;
pub mod statistics;
mod words;

use crate::load::Tool;
use crate::plan::{Machine, Plan};
use crate::run::{self, Outcome};
use crate::study::Study;
use crate::value::Filter;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::time::Instant;
use words::Words;

/// How often the lab is killed.
const KILLS: u32 = 20;

/// The words of our own command line that lead to [`fake`].
pub const FAKE: &[&str] = &["lab", "fake"];

/// The fakes' processes: `serve`, `load`, and `run`, which runs a study on them.
pub fn fake(args: &[String]) -> Result<()> {
    let Some((what, rest)) = args.split_first() else { bail!("serve, load or run is wanted") };
    let words = Words::parse(rest)?;
    match what.as_str() {
        "serve" => serve::serve(&words),
        "load" => load::load(&words),
        "run" => kills::run(&words),
        other => bail!("{other}: serve, load or run is wanted"),
    }
}

/// A folder that is removed with its value. Short, since sockets go into it.
pub struct Temp(pub PathBuf);

impl Temp {
    pub fn new(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("humboldt-lab-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a study on fakes into `out`.
pub fn run_fakes(text: &str, program: &Path, out: &Path, resume: bool) -> Result<Outcome> {
    let study = Study::parse("selftest", text)?;
    let plan = Plan::new(&study, true, &Filter::default(), &Machine::with_everything());
    assert!(plan.cells.iter().all(|c| c.work.tool == Tool::Fake), "the self-test runs on fakes alone");
    let options = run::Options {
        file: study.name().into(),
        out: out.into(),
        resume,
        scratch: None,
        program: program.into(),
        commit: "",
        may_destroy: Vec::new(),
        prefix: if text == lies::STUDY { lies::EXPECTED } else { "self-test: " },
    };
    run::run(&study, text, &plan, &options)
}

/// All of it; `program` is our own. An error names the parts that failed.
pub fn all(program: &Path) -> Result<()> {
    type Part<'a> = (&'a str, Box<dyn Fn() -> Result<String> + 'a>);
    let parts: [Part; 4] = [
        ("statistics", Box::new(statistics::prove)),
        ("instrument", Box::new(|| instrument::prove(program))),
        ("lies", Box::new(|| lies::prove(program))),
        ("kills", Box::new(|| kills::prove(program, KILLS))),
    ];
    let mut failed = Vec::new();
    for (name, part) in parts {
        let start = Instant::now();
        let result = part();
        let took = start.elapsed().as_secs_f64();
        match result {
            Ok(said) => say::println!("ok      {name} ({took:.1} s)\n{said}"),
            Err(e) => {
                say::println!("FAILED  {name} ({took:.1} s)\n        {e:#}");
                failed.push(name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("the instrument is not to be trusted here: {} failed", failed.join(", "));
    }
    Ok(())
}
