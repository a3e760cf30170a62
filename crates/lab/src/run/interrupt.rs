//! Ctrl-C and SIGTERM: asked once, everything ends in order; asked again, at once.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on signals are ours.
pub fn listen() -> std::io::Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // The second one finds the flag set and ends us; children end with us.
        signal_hook::flag::register_conditional_shutdown(signal, 130, asked.clone())?;
        signal_hook::flag::register(signal, asked.clone())?;
    }
    Ok(())
}

/// True if a signal asked us to end.
pub fn asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed))
}
