//! One run of a test program: its output in a file, the time of each of its tests, and what it says if it fails.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use suites::cluster::target;
use suites::programs::Program;
use suites::share::Share;

/// A program that is not done by then hangs, on a machine at rest or beside a load.
const LIMIT: Duration = Duration::from_secs(3600);

/// How a program ended.
pub struct Ran {
    pub name: String,
    pub took: Duration,
    /// Processor time of it and of what it started and waited for, in seconds.
    pub cpu_s: f64,
    /// Its tests by their time, the longest first.
    pub tests: Vec<(String, f64)>,
    pub passed: usize,
    pub failed: usize,
    /// What it ended with, if it failed; names of failed tests and output are in `said`.
    pub failure: Option<String>,
    said: String,
    kept: PathBuf,
}

/// Runs it to its end.
pub fn run(program: &Program, share: Option<Share>) -> Ran {
    let mut command = Command::new(&program.path);
    // The time of each test is an unstable option of the harness, which asks for this variable where it is stable.
    command.args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder).env("CARGO_PKG_NAME", &program.package);
    if let Some(share) = share {
        command.env(suites::share::VARIABLE, share.to_string());
    }
    let folder = target().join("test-output");
    judge(&program.name, command, folder.join(format!("{}.txt", program.name.replace('/', "-"))))
}

/// The same for any command, with its output in `kept`.
fn judge(name: &str, command: Command, kept: PathBuf) -> Ran {
    let started = Instant::now();
    let ended = start(command, &kept);
    let took = started.elapsed();
    let said = std::fs::read(&kept).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let (passed, failed) = counts(&said);
    let (failure, cpu_s) = match ended {
        Ok((Some(status), cpu_s)) if status.success() => (None, cpu_s),
        Ok((Some(status), cpu_s)) => (Some(status.to_string()), cpu_s),
        Ok((None, cpu_s)) => (Some(format!("it was not done after {} s and was killed", LIMIT.as_secs())), cpu_s),
        Err(e) => (Some(format!("{e:#}")), 0.0),
    };
    // One that dies in the middle of a test has no line that counts.
    let failed = if failure.is_some() { failed.max(1) } else { failed };
    Ran { name: name.into(), took, cpu_s, tests: tests(&said), passed, failed, failure, said, kept }
}

/// Its status, or none if it hung; and the processor time that it used. The output goes to a file: a pipe would stay open with what a test left behind.
fn start(mut command: Command, kept: &Path) -> anyhow::Result<(Option<ExitStatus>, f64)> {
    std::fs::create_dir_all(kept.parent().expect("a folder of the target's"))?;
    let out = File::create(kept)?;
    let mut child = command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()?;
    let (end, mut cpu_s) = (Instant::now() + LIMIT, 0.0);
    loop {
        cpu_s = cpu_of(child.id()).unwrap_or(cpu_s);
        if let Some(status) = child.try_wait()? {
            return Ok((Some(status), cpu_s));
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok((None, cpu_s));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Processor time of a process and of its children that have ended, in seconds.
fn cpu_of(pid: u32) -> Option<f64> {
    const TICKS: f64 = 100.0; // a second: USER_HZ
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11..15)?.iter().filter_map(|f| f.parse::<f64>().ok()).sum();
    Some(ticks / TICKS)
}

/// Tests with their times, the longest first, from lines like `test a::b ... ok <0.012s>`.
fn tests(said: &str) -> Vec<(String, f64)> {
    let one = |line: &str| {
        let (name, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let time = end.rsplit_once('<')?.1.strip_suffix("s>")?;
        Some((name.to_string(), time.parse().ok()?))
    };
    let mut all: Vec<(String, f64)> = said.lines().filter_map(one).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// How many passed and failed, from the line that begins with `test result`.
fn counts(said: &str) -> (usize, usize) {
    let line = said.lines().rev().find(|line| line.starts_with("test result: ")).unwrap_or_default();
    let count = |word: &str| {
        let part = line.split(['.', ';']).find(|part| part.ends_with(word))?;
        part.trim().split(' ').next()?.parse::<usize>().ok()
    };
    (count(" passed").unwrap_or(0), count(" failed").unwrap_or(0))
}

impl Ran {
    /// A line; and, if it failed, what it said without the tests that passed.
    pub fn story(&self) -> String {
        let took = self.took.as_secs_f64();
        let Some(failure) = &self.failure else {
            return format!("ok {} ({} tests, {took:.1} s)\n", self.name, self.passed);
        };
        let passed = |line: &&str| line.starts_with("test ") && (line.contains(" ... ok") || line.contains(" ... ignored"));
        let said: Vec<&str> = self.said.lines().filter(|line| !passed(line)).collect();
        // A test that prints without end must not bury the rest.
        const LINES_MAX: usize = 400;
        let cut = said.len().saturating_sub(LINES_MAX);
        let left_out = if cut > 0 { format!("    ({cut} lines before these are in the file)\n") } else { String::new() };
        let text: String = said[cut..].iter().map(|line| format!("    {line}\n")).collect();
        format!("FAILED {} ({took:.1} s): {failure}; all that it said: {}\n{left_out}{text}", self.name, self.kept.display())
    }
}

#[cfg(test)]
mod tests_of_it {
    use super::*;

    const SAID: &str = "running 3 tests\ntest a::quick ... ok <0.001s>\ntest a::slow ... ok <2.500s>\ntest b ... FAILED <0.100s>\n\n\
        failures:\n\n---- b stdout ----\nno\n\ntest result: FAILED. 2 passed; 1 failed; 4 ignored; 0 measured; 0 filtered out; finished in 2.50s\n";

    #[test]
    fn tests_are_told_by_their_time() {
        assert_eq!(tests(SAID), [("a::slow".to_string(), 2.5), ("b".into(), 0.1), ("a::quick".into(), 0.001)]);
        assert_eq!(counts(SAID), (2, 1));
        assert_eq!(counts("no such line"), (0, 0));
    }

    fn judged(n: u32, script: &str) -> Ran {
        let kept = std::env::temp_dir().join(format!("humboldt-program-{}-{n}.txt", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let ran = judge("none/lib", command, kept);
        std::fs::remove_file(&ran.kept).unwrap();
        ran
    }

    #[test]
    fn a_program_that_fails_shows_what_it_said_and_one_that_passes_a_line() {
        let bad = judged(1, "echo 'test good ... ok <0.1s>'; echo 'thread b panicked' >&2; exit 101");
        assert_eq!((bad.failed, bad.failure.is_some()), (1, true));
        assert!(bad.story().contains("    thread b panicked\n") && !bad.story().contains("test good"), "{}", bad.story());
        let good = judged(2, "echo 'test result: ok. 7 passed; 0 failed; 0 ignored'");
        assert_eq!((good.passed, good.failed, good.story().lines().count()), (7, 0, 1));
    }

    #[test]
    fn a_program_that_a_signal_ends_has_failed() {
        let killed = judged(3, "kill -9 $$");
        assert!(killed.failed == 1 && killed.story().starts_with("FAILED none/lib"), "{}", killed.story());
    }
}
