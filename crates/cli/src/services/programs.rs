//! Programs of Ceph: where they are, and how one is asked something. Absent: which ones a service needs.

use anyhow::{Context, Result, bail, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a program of that name is, as a shell finds it. An error says how to get it: `debian` and `fedora` are packages.
pub fn find(name: &str, debian: &str, fedora: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |at: &PathBuf| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(at).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    match std::env::split_paths(&path).map(|dir| dir.join(name)).find(is_program) {
        Some(at) => Ok(at),
        None => bail!(
            "{name} is not installed: it is Ceph's, of 16.2 or later; `apt install {debian}` (Debian, Ubuntu) or `dnf install {fedora}` \
             (Fedora, Rocky), then start again"
        ),
    }
}

/// An answer of a program.
pub struct Answer {
    /// Of its end; -1 if a signal ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a program to its end. It ends with this process.
pub fn ask(program: &Path, args: &[&str], conf: &Path, input: &str) -> Result<Answer> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut command = Command::new(program);
    command.arg("-c").arg(conf).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = crate::kept::end_with_us(&mut command).spawn().with_context(|| format!("starting {name}"))?;
    let mut stdin = child.stdin.take().context("its input is piped")?;
    // A program that reads nothing may end before that; its answer tells more.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let out = child.wait_with_output().with_context(|| name)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Answer { code: out.status.code().unwrap_or(-1), stdout: text(&out.stdout), stderr: text(&out.stderr) })
}

impl Answer {
    /// Its output, of one that must succeed at `what`.
    pub fn must(self, what: &str) -> Result<String> {
        let last = self.stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        ensure!(self.code == 0, "{what} ended with {}: {last}", self.code);
        Ok(self.stdout)
    }
}
