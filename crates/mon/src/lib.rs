//! The monitor's shell: a thread with a listener, timers and a small embedded database around `mon_core`.

#![forbid(unsafe_code)]
