//! Waiting for the end: SIGTERM, Ctrl-C, or a daemon that stops by itself.

use anyhow::Result;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Between two looks at what may have ended.
const LOOK: Duration = Duration::from_millis(200);

/// Blocks until a signal asks this process to end (true), or `ended` says that there is nothing left to wait for (false).
pub fn wait(mut ended: impl FnMut() -> bool) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        loop {
            tokio::select! {
                _ = term.recv() => return Ok(true),
                _ = int.recv() => return Ok(true),
                () = tokio::time::sleep(LOOK) => if ended() { return Ok(false) },
            }
        }
    })
}
