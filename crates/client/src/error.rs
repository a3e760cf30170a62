//! What a caller of the client hears when something fails.

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The cluster's answer: a positive errno.
    #[error("errno {0}")]
    Errno(i32),
    /// Seconds, and the monitors that were asked.
    #[error("no answer from the monitors at {at} within {seconds} s")]
    Timeout { seconds: u64, at: String },
    #[error("the monitor refused {name}: errno {errno}")]
    Refused { name: String, errno: i32 },
    /// A daemon takes none of the modes that we offer it.
    #[error("{0}")]
    NoMode(String),
    /// Writes wait until there is room: what is full, and how to go on.
    #[error("full: {0}")]
    Full(String),
    #[error("there is no pool {0}")]
    NoPool(String),
    /// There is no ceph.conf: the path, and why.
    #[error("{0}")]
    NoConf(String),
    /// The name, and the files in which its key was looked for.
    #[error("no key for {name} in {files}")]
    NoKey { name: String, files: String },
    #[error("{0}")]
    Config(String),
    #[error("a reply that can't be read: {0}")]
    Malformed(#[from] denc::DencError),
    #[error("the client is shut down")]
    Shutdown,
}

impl ClientError {
    /// The errno, if the cluster answered one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Errno(e) | Self::Refused { errno: e, .. } => Some(*e),
            Self::Full(_) => Some(types::errno::ENOSPC),
            Self::NoPool(_) => Some(types::errno::ENOENT),
            _ => None,
        }
    }
}
