//! `kill -9` of the lab at random moments: after --resume the results are whole, and no process of a killed run is left.

use super::words::Words;
use super::{FAKE, Temp, lies, run_fakes};
use crate::results::{Results, Run};
use crate::run::folder;
use anyhow::{Context, Result, ensure};
use base::Rng;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `lab fake run --out DIR`: the study of lies, in a process that can be killed. Goes on if there is something.
pub(super) fn run(words: &Words) -> Result<()> {
    let out = Path::new(words.text("out").context("--out is missing")?);
    run_fakes(lies::STUDY, &std::env::current_exe()?, out, out.join("plan.json").exists()).map(drop)
}

/// Processes whose command line names the folder.
fn left(dir: &Path) -> Vec<String> {
    let name = dir.display().to_string();
    let lines = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = lines.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
    lines.map(|l| String::from_utf8_lossy(&l).replace('\0', " ")).filter(|l| l.contains(&name)).collect()
}

/// Loop devices on files of ours, and mounts of ours.
fn loop_devices() -> usize {
    let all = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let files = all.filter_map(|d| std::fs::read_to_string(d.path().join("loop/backing_file")).ok());
    files.filter(|f| f.contains("humboldt-lab-")).count()
}

fn mounts() -> usize {
    std::fs::read_to_string("/proc/self/mounts").unwrap_or_default().lines().filter(|l| l.contains("humboldt-lab-")).count()
}

/// Kills it `times` times, then lets it end.
pub fn prove(program: &Path, times: u32) -> Result<String> {
    let temp = Temp::new("k")?;
    let out = temp.0.join("r");
    let mut rng = Rng::new(std::process::id().into());
    let mut finished = 0;
    let (loops, mounts) = (loop_devices(), mounts());
    for time in 0..=times {
        let mut child = Command::new(program)
            .args(FAKE)
            .args(["run", "--out"])
            .arg(&out)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if time == times {
            let ended = child.wait_with_output()?;
            ensure!(ended.status.success(), "the last resume failed: {}", String::from_utf8_lossy(&ended.stderr));
            break;
        }
        std::thread::sleep(Duration::from_millis(300 + rng.below(1500)));
        child.kill()?;
        child.wait()?;
        let end = Instant::now() + Duration::from_secs(5);
        while !left(&out).is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        ensure!(left(&out).is_empty(), "left behind: {:?}", left(&out));
        // What a killed run has finished stays finished.
        let lines = folder::journal(&out).map_or(0, |l| l.len());
        ensure!(lines >= finished, "{lines} rounds after a kill, {finished} before");
        finished = lines;
    }
    let run = Run::load(&out)?;
    let results = Results::of(&run);
    ensure!(results.complete, "rounds are missing after the last resume");
    let lines = folder::journal(&out)?;
    ensure!(lines.iter().filter(|l| l.last).count() == run.plan.steps.len(), "a round stands twice in the journal");
    lies::check(&results)?;
    ensure!(
        loop_devices() <= loops && self::mounts() <= mounts,
        "a loop device or a mount is left: {:?}, {:?}",
        loop_devices(),
        self::mounts()
    );
    ensure!(!out.join("scratch").exists() && left(&out).is_empty(), "the scratch folder is left");
    Ok(format!("        killed {times} times, {} rounds whole, nothing left behind", run.plan.steps.len()))
}
