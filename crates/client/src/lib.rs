//! A small client library in the manner of librados, and the load generator behind `humboldt bench`.
//!
//! Holds the shell around `objecter`: sockets, timers, files. Everything lives on one thread, inside a tokio `LocalSet`.
//!
//! ```no_run
//! # async fn f() -> Result<(), client::ClientError> {
//! let conf = client::setup::load(None, "client.admin")?;
//! let cluster = client::Cluster::connect(conf, std::time::Duration::from_secs(10)).await?;
//! let pool = cluster.pool("rbd")?;
//! pool.write_full("greeting", "hello".into()).await?;
//! # Ok(()) }
//! ```

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a shell: it has clocks, files and threads
#![forbid(unsafe_code)]

pub mod bench;
mod cluster;
mod daemons;
pub mod describe;
mod error;
mod pool;
pub mod setup;

pub use cluster::{Cluster, CommandOutput};
pub use error::ClientError;
pub use objecter::monc::{Answer, Request};
pub use objecter::ops::{self, Ops};
pub use pool::{Listed, Pool, Stat, Watch, WatchEvent};
