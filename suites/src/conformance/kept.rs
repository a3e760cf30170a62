//! What is kept of a process whose case failed: all that it printed, and its client's log.
//!
//! Files lie in one folder a run, under the folder that the clients' chroots see too; what passed leaves nothing there.

use crate::clients::SHARED;
use crate::run::Output;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Numbers the processes of this run: two suites may run the same program with the same process id.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// The files of one process: made when it fails, but for the client's log, which the client writes while it runs.
#[derive(Debug)]
pub struct Files {
    stem: PathBuf,
}

impl Files {
    /// Files for a process of that program, in this run's folder.
    pub fn new(program: &str) -> Result<Self> {
        Self::within(&Path::new(SHARED).join(format!("kept-{}", std::process::id())), program)
    }
    fn within(folder: &Path, program: &str) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Self { stem: folder.join(format!("{number:03}-{}", program.replace([' ', '/'], "_"))) })
    }
    /// Names of programs have dots of their own.
    fn named(&self, end: &str) -> PathBuf {
        let mut name = self.stem.clone().into_os_string();
        name.push(format!(".{end}"));
        name.into()
    }
    /// Where a client is to write its log.
    pub fn client_log(&self) -> PathBuf {
        self.named("client.log")
    }
    /// Keeps what the process printed. The files to look at, with the client's log if there is one.
    pub fn keep(self, command: &str, out: &Output) -> Result<Vec<PathBuf>> {
        let path = self.named("out");
        let text = format!("{command}\nended with {}\n--- stdout\n{}\n--- stderr\n{}", out.code, out.stdout, out.stderr);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok([path, self.client_log()].into_iter().filter(|path| path.exists()).collect())
    }
    /// Removes the client's log: no case failed.
    pub fn drop(self) {
        let _ = std::fs::remove_file(self.client_log());
        // The folder goes with the last file.
        let _ = self.stem.parent().map(std::fs::remove_dir);
    }
}

/// File names as a run prints them.
pub fn names(files: &[PathBuf]) -> String {
    files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_kept_whole_and_what_passed_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("humboldt-kept-{}", std::process::id()));
        let files = |name| Files::within(&folder, name).expect("a folder");
        let out = Output { code: 1, stdout: "line\n".repeat(5000), stderr: "a complaint".into() };
        let passed = files("ceph_test_librbd");
        std::fs::write(passed.client_log(), "log").expect("written");
        passed.drop();
        assert!(!folder.exists());
        let failed = files("ceph_test_librbd");
        std::fs::write(failed.client_log(), "log").expect("written");
        let other = files("18.2-ceph_test_librbd");
        assert!(other.client_log().display().to_string().ends_with("-18.2-ceph_test_librbd.client.log"));
        let kept = failed.keep("ceph_test_librbd --gtest_filter=A.B", &out).expect("kept");
        let text = std::fs::read_to_string(&kept[0]).expect("there");
        assert!(text.starts_with("ceph_test_librbd --gtest_filter=A.B\nended with 1\n"));
        assert!(text.contains(&out.stdout) && text.ends_with("a complaint"));
        assert_eq!(std::fs::read_to_string(&kept[1]).expect("there"), "log");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
