//! A stock client that stays connected and answers command lines of `ceph`: what waits for a state asks many times, and each `ceph` is a
//! process that costs more than its question.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

pub struct PersistentClient {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl PersistentClient {
    /// `cmd`: stay.py with `ask`.
    pub fn start(mut cmd: Command) -> Result<Self> {
        let mut child =
            cmd.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("starting a client that stays")?;
        let (stdin, stdout) = (child.stdin.take().context("piped")?, child.stdout.take().context("piped")?);
        let (send, lines) = channel();
        std::thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Ok(Self { child, stdin, lines })
    }
    /// The answer to `ceph …`, its error if the command has failed. None if there is none in time: then this client is good for nothing more.
    pub fn ask(&mut self, line: &str, limit: Duration) -> Option<Result<String>> {
        writeln!(self.stdin, "{line}").ok()?;
        let said = self.lines.recv_timeout(limit).ok()?;
        Some(answer(line, &said))
    }
}

/// `ret`, `out` and `err` of one command.
fn answer(line: &str, said: &str) -> Result<String> {
    let answer: Value = serde_json::from_str(said).with_context(|| format!("`{line}` is answered with {said}"))?;
    let text = |name: &str| answer[name].as_str().unwrap_or_default().to_string();
    ensure!(answer["ret"] == 0, "`{line}` ended with {}:\n{}{}", answer["ret"], text("out"), text("err"));
    Ok(text("out"))
}

impl Drop for PersistentClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
