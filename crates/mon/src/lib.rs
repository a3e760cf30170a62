//! The monitor's shell: a thread with two listeners and a web address, a timer and a small embedded database around `mon_core`.
//!
//! Holds what touches the world: sockets (through `net`), the store's file, the clock, entropy, and the files that clients need
//! (`ceph.conf`, keyrings). What the monitor decides is `mon_core`'s.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a shell: it has clocks, files and threads
#![forbid(unsafe_code)]

mod auth_server;
mod copy;
mod files;
mod http;
mod manager;
mod run;
mod store;

pub use files::{Cluster, DEV_SETTINGS, MkfsOptions, SECURE_SETTINGS, admin_socket, conf_text, mkfs, open_or_mkfs};
pub use http::{HttpConfig, PORT as HTTP_PORT, health};
pub use mon_core::CEPH_VERSION;
pub use run::{MonConfig, MonHandle, start};
pub use store::{Store, restore};

/// What connections must prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthMode {
    #[default]
    Cephx,
    /// Every peer has the name that it gives.
    None,
}

impl AuthMode {
    /// As `ceph.conf` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cephx => "cephx",
            Self::None => "none",
        }
    }
}
