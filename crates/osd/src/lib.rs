//! The OSD's shell: sockets, timers, the monitor's and the manager's connections around `osd-core`.

#![forbid(unsafe_code)]
