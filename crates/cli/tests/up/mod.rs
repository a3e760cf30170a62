//! A `humboldt up` that a test starts, and that ends with it.
//!
//! Tests differ in the words of the command, which are theirs, and in [`How`]: which line says that it is ready, where it goes with what it
//! says, and how it ends. Holds no client: tests have their own.

#![allow(dead_code)] // each test program uses a part

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a state may take to come.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Where its errors go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errors {
    /// To the test's own.
    Shown,
    /// Kept for [`Up::said`].
    Kept,
    /// To a pipe whose reader leaves once it is ready.
    Unread,
    /// Where the command says.
    AsTold,
}

/// How it is started and ended.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// A line of its output with this says that it is ready.
    pub ready: &'static str,
    /// Its output is read to the end; otherwise the reader leaves with that line.
    pub is_read: bool,
    pub errors: Errors,
    /// It ends by SIGTERM; otherwise by SIGKILL.
    pub by_term: bool,
}

impl Default for How {
    fn default() -> Self {
        Self { ready: "ready in", is_read: true, errors: Errors::Shown, by_term: false }
    }
}

/// See the module.
pub struct Up {
    pub child: Child,
    /// The line that said that it is ready.
    pub ready: String,
    how: How,
    said: Arc<Mutex<String>>,
    /// Gone when it has ended.
    folder: Option<PathBuf>,
}

impl Up {
    /// Starts a command; it is ready then.
    #[track_caller]
    pub fn start(mut cmd: Command, how: How) -> Self {
        cmd.stdin(Stdio::null()).stdout(Stdio::piped());
        match how.errors {
            Errors::Shown => drop(cmd.stderr(Stdio::inherit())),
            Errors::Kept | Errors::Unread => drop(cmd.stderr(Stdio::piped())),
            Errors::AsTold => {}
        }
        let mut child = cmd.spawn().expect("the program is there");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut up = Self { child, ready: String::new(), how, said: Arc::default(), folder: None };
        if how.errors == Errors::Kept {
            let (errors, kept) = (BufReader::new(up.child.stderr.take().expect("it is piped")), up.said.clone());
            std::thread::spawn(move || errors.lines().map_while(Result::ok).for_each(|line| *kept.lock().unwrap() += &(line + "\n")));
        }
        while !up.ready.contains(how.ready) {
            up.ready.clear();
            assert!(output.read_line(&mut up.ready).expect("text") > 0, "it ended before it was ready: {}", up.said());
        }
        if how.is_read {
            std::thread::spawn(move || output.lines().for_each(drop));
        }
        if how.errors == Errors::Unread {
            drop(up.child.stderr.take());
        }
        up
    }
    /// This folder goes when it has ended.
    pub fn with_folder(mut self, dir: PathBuf) -> Self {
        self.folder = Some(dir);
        self
    }
    /// That folder.
    pub fn dir(&self) -> &Path {
        self.folder.as_ref().expect("it was started with one")
    }
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
    /// True while it has not ended.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    /// Its errors so far, if they are kept.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }
    /// Waits for a line of its errors with this text.
    #[track_caller]
    pub fn says(&self, text: &str) -> String {
        assert_eq!(self.how.errors, Errors::Kept, "its errors are kept");
        let line = || self.said().lines().find(|line| line.contains(text)).map(str::to_string);
        wait_for(&format!("{text:?} of {}", self.said()), || line().is_some());
        line().expect("it was there")
    }

    /// The process that is `osd --id N` below this one.
    pub fn osd(&self, id: u32) -> Option<u32> {
        let up = self.pid();
        let words = |pid: u32| -> Vec<String> {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
        };
        let children = std::fs::read_to_string(format!("/proc/{up}/task/{up}/children")).ok()?;
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid| {
            let words = words(*pid);
            words.get(1).is_some_and(|word| word == "osd") && words.windows(2).any(|w| w[0] == "--id" && w[1] == id.to_string())
        })
    }
    /// SIGKILL, and all of it is gone: an OSD of its own process ends behind it.
    #[track_caller]
    pub fn kill(mut self) {
        let osds: Vec<u32> = (0..3).filter_map(|id| self.osd(id)).collect();
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        wait_for("the end of each OSD", || osds.iter().all(|pid| is_gone(*pid)));
    }
    /// SIGTERM: it ends as it should.
    #[track_caller]
    pub fn stop(mut self) {
        assert!(signal(self.pid(), "TERM"), "it runs");
        let status = self.child.wait().expect("it is our child");
        assert!(status.success(), "it ends as it should: {status}: {}", self.said());
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may stand still: then only SIGKILL ends it.
        if self.how.by_term && self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            signal(self.child.id(), "TERM");
        } else {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        if let Some(dir) = &self.folder {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

/// `humboldt up` in this folder, at ports that are free.
pub fn up(dir: &Path, words: &[&str]) -> Command {
    let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
    cmd.arg("up").arg("--dir").arg(dir).args(["--port", "0"]).args(words);
    cmd
}
/// The name of a folder of this test's own, which is not there.
pub fn fresh(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("humboldt-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}
/// True if there was such a process.
pub fn signal(pid: u32, name: &str) -> bool {
    Command::new("kill").args(["-s", name, &pid.to_string()]).status().is_ok_and(|status| status.success())
}
pub fn is_gone(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty())
}
#[track_caller]
pub fn wait_for(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}
