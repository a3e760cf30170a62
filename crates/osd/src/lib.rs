//! The OSD's shell: sockets, timers, the monitor's and the manager's connections around `osd-core`.
//!
//! Holds what touches the world. [`start`] runs an OSD on a thread of its own; what the OSD decides is `osd_core`'s. Four messengers: one for
//! clients, monitors and the manager, one for other OSDs, and one for heartbeats on either network.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a shell: it has clocks, files and threads
#![deny(unsafe_code)]

pub mod beneath;
mod bootstrap;
pub mod data_dir;
pub mod deployment;
mod devices;
mod hanging;
mod metadata;
mod parts;
mod pin;
mod ports;
mod receive_buffers;
mod run;
mod shell;
mod spare;
pub mod store;
mod unbroken;
mod wake;
mod watchdog;

pub use data_dir::DataDir;
pub use deployment::Deployment;
pub use hanging::HANGS;
pub use run::{OsdHandle, StoreDamaged, StoreFailed, is_of_damage, is_of_disk, start};
pub use spare::Spare;
pub use store::{NewStore, StoreConfig};
pub use watchdog::Stands;

use cephx::{CryptoKey, EntityAuth};
use std::net::IpAddr;
use types::{EntityAddrVec, EntityText, OsdId, Uuid};

/// What an OSD needs to start.
#[derive(Debug, Clone)]
pub struct OsdConfig {
    pub id: OsdId,
    /// Where monitors are.
    pub monitors: Vec<EntityAddrVec>,
    /// The key of `osd.N`; `None`: no authentication.
    pub key: Option<CryptoKey>,
    /// Who may say `osd new` for us. Without it the map must know our uuid already.
    pub admin: Option<Admin>,
    /// Addresses to listen on; ports are free ones.
    pub listen: IpAddr,
    /// The file that keeps the ports of the last run: they are taken again where they are free, so that clients find the OSD where it was.
    pub ports_file: Option<std::path::PathBuf>,
    /// Where objects are kept.
    pub store: StoreConfig,
    /// Place in the CRUSH map: bucket types and names (`host` `a`, `root` `default`).
    pub location: Vec<(String, String)>,
    /// Options by name.
    pub options: Vec<(String, String)>,
    /// CPUs to run on alone, as `0-3,8`.
    pub cpus: Option<String>,
    /// Look for more input this long before sleeping; 0: not at all.
    pub spin_us: u64,
    /// Where to take commands of this machine (`ceph daemon osd.N`), if at all.
    pub admin_socket: Option<std::path::PathBuf>,
    /// Told in the metadata.
    pub data_dir: String,
    /// Lines for people go here; `None`: standard error.
    pub quiet: bool,
    /// Answers requests from what they say and keeps nothing: the floor of a measurement.
    pub null: bool,
    /// Its process is its own: a loop that stands ends it. In a process with a monitor and other OSDs it is told of instead, see
    /// [`OsdHandle::stands`].
    pub is_alone: bool,
    /// The store was made for this start: if the map knows another one under this number, that one is gone.
    pub store_is_new: bool,
    /// Memory that the process can spare, if that is bounded.
    pub spare: Option<tokio::sync::watch::Receiver<Spare>>,
    pub deployment: Deployment,
}

/// A user that the monitor lets register OSDs.
#[derive(Debug, Clone)]
pub struct Admin {
    pub name: EntityText,
    /// `None`: no authentication.
    pub key: Option<CryptoKey>,
}

impl Admin {
    /// Out of a keyring's entry.
    pub fn of(name: EntityText, auth: &EntityAuth) -> Self {
        Self { name, key: Some(auth.key.clone()) }
    }
}

/// An OSD's identity on its store: lost with a store in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Me {
    pub osd: OsdId,
    pub osd_fsid: Uuid,
}
