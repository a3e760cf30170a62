//! CPU profiles of servers: `perf record` by the CPU's clock (virtual machines have no counters), folded to stacks. A profiled round does
//! not count as a figure.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SAMPLES_A_SECOND: &str = "499";
/// How long `perf script` may take over what was recorded.
const SCRIPT: Duration = Duration::from_secs(120);
/// Stacks that are kept; the rest is too small to be seen.
const STACKS_MAX: usize = 4000;

/// Why there can be none, if there can't.
pub fn lacks() -> Option<String> {
    let there = std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join("perf").exists()));
    match () {
        () if !there => Some("needs package linux-perf (humboldt lab setup STUDY)".into()),
        () if !crate::sys::is_root() => Some("needs root, for profiles".into()),
        () => None,
    }
}

/// `perf record` while it runs.
pub struct Recording {
    child: Child,
    data: PathBuf,
}

impl Recording {
    pub fn start(pids: &[u32], dir: &Path) -> Result<Self> {
        let data = dir.join("perf.data");
        let pids = crate::sample::tree(pids).iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut cmd = Command::new("perf");
        cmd.args(["record", "-q", "-e", "cpu-clock", "-F", SAMPLES_A_SECOND, "-g", "-p", &pids, "-o"]).arg(&data);
        let child = crate::sys::ends_with_us(&mut cmd).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self { child: child.context("starting perf")?, data })
    }
    /// The stacks with their counts.
    pub fn finish(mut self) -> Result<Folded> {
        crate::sys::signal(self.child.id(), libc::SIGINT);
        self.child.wait()?;
        let mut script = Command::new("perf");
        script.args(["script", "-i"]).arg(&self.data).args(["-F", "comm,ip,sym,dso"]);
        let text = crate::load::runner::chore(&mut script, SCRIPT);
        // It is large, and says nothing that the stacks don't.
        let _ = std::fs::remove_file(&self.data);
        Ok(fold(&text?))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stacks, root first, joined by `;`, the thread's name in front; and how often each was met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folded(pub BTreeMap<String, u64>);

/// Reads what `perf script` prints: a thread's name at the margin, its frames below it, innermost first, and an empty line.
pub fn fold(text: &str) -> Folded {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    let (mut comm, mut frames): (Option<String>, Vec<String>) = (None, Vec::new());
    for line in text.lines().chain([""]) {
        let is_frame = line.starts_with(char::is_whitespace) && !line.trim().is_empty();
        match (is_frame, line.trim()) {
            (true, frame) => frames.push(symbol(frame)),
            (false, "") => {
                if let Some(comm) = comm.take() {
                    let stack = std::iter::once(comm).chain(frames.drain(..).rev()).collect::<Vec<_>>().join(";");
                    *all.entry(stack).or_default() += 1;
                }
                frames.clear();
            }
            (false, name) => comm = Some(name.trim_end_matches(':').replace(';', ",")),
        }
    }
    if all.len() > STACKS_MAX {
        let mut counts: Vec<u64> = all.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        all.retain(|_, n| *n > counts[STACKS_MAX]);
    }
    Folded(all)
}

/// `ffffffff81234 do_syscall_64 ([kernel.kallsyms])`: the symbol, or the program where there is none.
fn symbol(frame: &str) -> String {
    let rest = frame.split_once(' ').map_or(frame, |(_, rest)| rest).trim();
    let (name, dso) = rest.rsplit_once(" (").unwrap_or((rest, ""));
    let dso = dso.trim_end_matches(')').rsplit('/').next().unwrap_or_default();
    // Rust's hashes differ from build to build.
    let name = name.split("+0x").next().unwrap_or(name);
    let name = name.rsplit_once("::h").filter(|(_, h)| h.len() == 16 && h.bytes().all(|b| b.is_ascii_hexdigit())).map_or(name, |(n, _)| n);
    if name == "[unknown]" { format!("[{dso}]") } else { name.replace(';', ",") }
}

impl Folded {
    pub fn samples(&self) -> u64 {
        self.0.values().sum()
    }
    /// Samples by thread.
    pub fn threads(&self) -> Vec<(String, u64)> {
        self.by(|stack| stack.split(';').next())
    }
    /// Samples by the function that ran.
    pub fn functions(&self) -> Vec<(String, u64)> {
        self.by(|stack| stack.rsplit(';').next())
    }
    fn by<'a>(&'a self, key: impl Fn(&'a str) -> Option<&'a str>) -> Vec<(String, u64)> {
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        self.0.iter().for_each(|(stack, n)| *all.entry(key(stack).unwrap_or_default()).or_default() += n);
        let mut all: Vec<(String, u64)> = all.into_iter().map(|(k, n)| (k.to_string(), n)).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "osd.0 \n\t    7f00 write+0x10 (/usr/lib/libc.so)\n\t    5500 store::commit::h0123456789abcdef (/usr/bin/humboldt)\n\n\
        osd.0 \n\t    7f00 write+0x12 (/usr/lib/libc.so)\n\t    5500 store::commit::h0123456789abcdef (/usr/bin/humboldt)\n\n\
        mon \n\t    7f00 [unknown] (/usr/bin/humboldt)\n";

    #[test]
    fn equal_stacks_are_counted_together() {
        let folded = fold(TEXT);
        assert_eq!(folded.0, [("mon;[humboldt]".to_string(), 1), ("osd.0;store::commit;write".to_string(), 2)].into());
        assert_eq!(folded.threads()[0], ("osd.0".to_string(), 2));
        assert_eq!(folded.functions()[0], ("write".to_string(), 2));
    }
}
