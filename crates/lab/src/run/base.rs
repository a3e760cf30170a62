//! The base load: a rated load beside the measured one, as a share of what the target gives alone, which is measured first.

use crate::load::Job;
use crate::load::fio;
use crate::load::runner::chore;
use crate::study::file::Base;
use crate::target::process::Daemon;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// How long the capacity is measured, seconds.
const LOOK_S: f64 = 2.0;
const CHORE: Duration = Duration::from_secs(120);
/// It is ended with the measured load; this is for the case that it is not.
const LONGEST_S: f64 = 3600.0;

/// Bytes a second that the target gives to the base load alone.
pub fn capacity(job: &Job, base: &Base) -> Result<f64> {
    let look = Job { seconds: LOOK_S, ..*job };
    let [mut create, mut load] = fio::base_load(&look, &base.options, None);
    match chore(&mut create, CHORE) {
        Err(e) if !e.to_string().contains("File exists") => return Err(e.context("the base load's image")),
        _ => {}
    }
    // Reads of what was never written would cost the target nothing.
    chore(&mut fio::base_fill(job), CHORE).context("filling the base load's image")?;
    let out = chore(&mut load, CHORE).context("the base load alone")?;
    fio::base_rate(&out).context("the base load tells no rate")
}

/// Starts it at a share, in thousandths; it ends when it is dropped.
pub fn start(job: &Job, base: &Base, capacity: f64, share: u32, dir: &Path) -> Result<Daemon> {
    let rate = (capacity * f64::from(share) / 1000.0 / 2.0).max(1.0) as u64;
    let long = Job { seconds: LONGEST_S, ..*job };
    let [_, mut load] = fio::base_load(&long, &base.options, Some(rate));
    Daemon::start(&mut load, &dir.join("base"))
}
