//! A script that stays: told a line at a time, it answers each with a line of JSON.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

pub struct Script {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Script {
    /// Starts it, and waits until it says `{"ready": …}`.
    pub fn start(cmd: &mut Command) -> Result<Self> {
        let mut child = cmd.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().with_context(|| format!("starting {cmd:?}"))?;
        let (stdin, stdout) = (child.stdin.take().context("piped")?, child.stdout.take().context("piped")?);
        let (send, lines) = channel();
        std::thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let script = Self { child, stdin, lines };
        let ready = script.answer(Duration::from_secs(60))?;
        ensure!(ready.get("ready").is_some(), "{cmd:?} says {ready}");
        Ok(script)
    }
    pub fn tell(&mut self, line: &str) -> Result<()> {
        writeln!(self.stdin, "{line}").context("the script has ended; librados' Python module is needed, and a cluster that serves")
    }
    /// The next answer; an error if there is none within the limit.
    pub fn answer(&self, limit: Duration) -> Result<Value> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => serde_json::from_str(&line).with_context(|| line),
            Err(RecvTimeoutError::Timeout) => bail!("no answer within {} s", limit.as_secs()),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the script has ended; librados' Python module is needed, and a cluster that serves")
            }
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_answers_and_its_silence_and_end_are_errors() {
        let shell = |text: &str| Script::start(Command::new("sh").args(["-c", text]));
        let mut script = shell(r#"echo '{"ready": 1}'; while read line; do echo "{\"said\": \"$line\"}"; done"#).unwrap();
        script.tell("one").unwrap();
        assert_eq!(script.answer(Duration::from_secs(60)).unwrap()["said"], "one");
        assert!(script.answer(Duration::from_millis(1)).unwrap_err().to_string().contains("no answer"));
        assert!(shell("echo '{}'").is_err() && shell("true").is_err());
    }
}
