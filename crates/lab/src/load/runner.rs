//! One running load: its output kept, its marks heard, a time limit always, and a look at everything a few times a second.

use crate::sys;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often [`Watch::look`] is called.
const LOOK: Duration = Duration::from_millis(200);
/// How long a load may go on after its target is gone.
const ALONE: Duration = Duration::from_secs(2);

/// Hears how a load goes on.
pub trait Watch {
    /// The measured part begins: at once for tools that don't say when.
    fn begins(&mut self, pid: u32);
    /// It is over; the tool may go on with clearing away.
    fn ends(&mut self, pid: u32);
    fn look(&mut self, pid: u32);
    /// True if the load is to be ended: asked for by a signal.
    fn stop(&mut self) -> bool;
    /// True if what it loads is gone.
    fn target_gone(&mut self) -> bool;
}

/// How a load ended. Code -1 stands for a signal, 124 for the time limit, 130 for an end from outside.
#[derive(Debug, Clone)]
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
    /// True if both marks came, or none was due.
    pub marked: bool,
}

fn reader(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A child that is killed if we leave before its end.
struct Leash(Child);

impl Drop for Leash {
    fn drop(&mut self) {
        sys::signal_group(self.0.id(), libc::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Runs a load to its end. `marks`: it says when the measured part begins and ends, by `{"mark":"start"}` and `{"mark":"end"}` on lines of
/// their own, and waits behind the second for a line on its standard input.
pub fn run(cmd: &mut Command, marks: bool, limit: Duration, watch: &mut dyn Watch) -> Result<Ended> {
    let shown = format!("{cmd:?}");
    let child = sys::ends_with_us(cmd).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = Leash(child.with_context(|| format!("starting {shown}"))?);
    let pid = child.0.id();
    let mut input = child.0.stdin.take();
    let err = reader(child.0.stderr.take().expect("piped"));
    let pipe = child.0.stdout.take().expect("piped");
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    if !marks {
        watch.begins(pid);
    }
    let (end, mut out, mut seen, mut next_look, mut gone_at, mut code) =
        (Instant::now() + limit, String::new(), 0, Instant::now() + LOOK, None::<Instant>, None);
    loop {
        match lines.recv_timeout(next_look.saturating_duration_since(Instant::now()).min(Duration::from_millis(50))) {
            Ok(line) => {
                if marks && line.starts_with("{\"mark\":\"start\"") {
                    seen += 1;
                    watch.begins(pid);
                } else if marks && line.starts_with("{\"mark\":\"end\"") {
                    seen += 1;
                    watch.ends(pid);
                    // It may have ended without waiting.
                    let _ = input.take().map(|mut i| i.write_all(b"go\n"));
                } else {
                    out.push_str(&line);
                    out.push('\n');
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        if now >= next_look {
            watch.look(pid);
            next_look = now + LOOK;
        }
        if gone_at.is_none() && watch.target_gone() {
            gone_at = Some(now);
        }
        let over = if watch.stop() {
            Some(130)
        } else if now >= end {
            Some(124)
        } else {
            None
        };
        let over = over.or(gone_at.filter(|at| now >= *at + ALONE).map(|_| -1));
        if let Some(why) = over {
            code = Some(why);
            sys::signal_group(pid, libc::SIGKILL);
            break;
        }
    }
    let status = child.0.wait()?;
    if !marks {
        watch.ends(pid);
    }
    let code = code.unwrap_or(status.code().unwrap_or(-1));
    // A process that inherited its output may live on: what came until now is what counts.
    out.extend(lines.try_iter().map(|l| l + "\n"));
    Ok(Ended { code, out, err: err.join().unwrap_or_default(), marked: !marks || seen == 2 })
}

/// Runs a chore beside the measurements; an error shows the end of what it said.
pub fn chore(cmd: &mut Command, limit: Duration) -> Result<String> {
    struct Nobody(u32);
    impl Watch for Nobody {
        fn begins(&mut self, _: u32) {}
        fn ends(&mut self, _: u32) {}
        fn look(&mut self, _: u32) {}
        fn stop(&mut self) -> bool {
            crate::run::interrupt::asked()
        }
        fn target_gone(&mut self) -> bool {
            self.0 > 0
        }
    }
    let shown = format!("{cmd:?}");
    let ended = run(cmd, false, limit, &mut Nobody(0))?;
    anyhow::ensure!(ended.code == 0, "{shown} ended with {}: {}", ended.code, super::tail(&format!("{}\n{}", ended.out, ended.err)));
    Ok(ended.out)
}
