//! Running programs: output kept, a time limit always.

use crate::{pace, story};
use anyhow::{Context, Result, bail};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a program said and how it ended. A code of -1 stands for a signal, 124 for the time limit.
#[derive(Debug, Clone)]
pub struct Output {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    pub fn ok(&self) -> bool {
        self.code == 0
    }
}

/// The workspace's root.
pub fn root() -> PathBuf {
    // Cargo says at run time where the package is: a build folder that several clones share holds whichever was built last.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here).parent().expect("xtask stands in the workspace").to_path_buf()
}

/// Runs to the end or to `limit`, whichever comes first. A slow machine has longer ([`pace`]).
pub fn run(cmd: &mut Command, limit: Duration) -> Result<Output> {
    let name = format!("{cmd:?}");
    let mut child =
        cmd.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().with_context(|| format!("starting {name}"))?;
    let reader = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = reader(Box::new(child.stdout.take().expect("piped")));
    let stderr = reader(Box::new(child.stderr.take().expect("piped")));
    let started = Instant::now();
    let code = loop {
        match child.try_wait()? {
            Some(status) => break status.code().unwrap_or(-1),
            None if pace::is_over(started, limit) => {
                let _ = child.kill();
                let _ = child.wait();
                break 124;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let out = Output { code, stdout: stdout.join().unwrap_or_default(), stderr: stderr.join().unwrap_or_default() };
    story::asked(&name, &out, started.elapsed());
    Ok(out)
}

/// Runs a chore whose output matters only if it fails: then its end is shown.
pub fn quietly(cmd: &mut Command) -> Result<()> {
    let out = run(cmd, Duration::from_secs(1200))?;
    if !out.ok() {
        let text = format!("{}{}", out.stdout, out.stderr);
        let tail: Vec<&str> = text.lines().rev().take(30).collect();
        bail!("{cmd:?} ended with {}:\n{}", out.code, tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }
    Ok(())
}

/// Runs a chore whose failure ends everything, its output shown as it comes.
pub fn must(cmd: &mut Command) -> Result<()> {
    println!("+ {cmd:?}");
    let status = cmd.stdin(Stdio::null()).status().with_context(|| format!("starting {cmd:?}"))?;
    if !status.success() {
        bail!("{cmd:?} ended with {status}");
    }
    Ok(())
}

/// Splits a line as a shell does, with single quotes only.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut any) = (Vec::new(), String::new(), false, false);
    for c in line.chars() {
        match c {
            '\'' => (quoted, any) = (!quoted, true),
            ' ' if !quoted => {
                if any {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            c => {
                word.push(c);
                any = true;
            }
        }
    }
    if any {
        words.push(word);
    }
    words
}

/// True once a child has ended.
pub fn ended(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(Some(_)))
}

/// A process of this machine whose command line, word by word, is such a one.
pub fn process(is: impl Fn(&[&str]) -> bool) -> Option<u32> {
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let text = String::from_utf8_lossy(&line);
        is(&text.split('\0').collect::<Vec<_>>()).then_some(pid)
    })
}

/// True as soon as `check` is; false when `limit` has passed without it, on a machine at rest. A slow one has longer ([`pace`]).
pub fn until(limit: Duration, check: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    look(check, || pace::is_over(started, limit))
}

/// The same, for so long by the clock and no longer: what must not come, or is not waited for further.
pub fn meanwhile(time: Duration, check: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    look(check, || started.elapsed() >= time)
}

fn look(mut check: impl FnMut() -> bool, over: impl Fn() -> bool) -> bool {
    loop {
        if check() {
            return true;
        }
        if over() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
