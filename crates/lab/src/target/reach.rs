//! Reach: did the bytes that a client sent come to the target? Its own counters say, over its admin socket.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// What servers counted since they started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub ops: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Counted {
    pub fn since(&self, before: &Self) -> Self {
        Self {
            ops: self.ops.saturating_sub(before.ops),
            bytes_in: self.bytes_in.saturating_sub(before.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(before.bytes_out),
        }
    }
    /// Out of an OSD's `perf dump`.
    pub fn of_perf(dump: &Value) -> Result<Self> {
        let of = |name: &str| {
            dump.pointer(&format!("/osd/{name}")).and_then(Value::as_u64).with_context(|| format!("perf dump has no osd.{name}"))
        };
        Ok(Self { ops: of("op")?, bytes_in: of("op_in_bytes")?, bytes_out: of("op_out_bytes")? })
    }
    pub fn plus(self, other: Self) -> Self {
        Self { ops: self.ops + other.ops, bytes_in: self.bytes_in + other.bytes_in, bytes_out: self.bytes_out + other.bytes_out }
    }
}

/// How long a daemon may take over an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// No answer is longer.
const ANSWER_MAX: usize = 16 << 20;

/// Asks a daemon by its admin socket: JSON that ends in a zero byte; the answer's length (four bytes, big-endian) and its text. Ceph's
/// protocol, `src/common/admin_socket.cc` of 18.2.
pub fn ask(socket: &Path, command: &Value) -> Result<Value> {
    let mut stream = UnixStream::connect(socket).with_context(|| socket.display().to_string())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{command}\0").as_bytes())?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > ANSWER_MAX {
        bail!("{}: an answer of {length} bytes", socket.display());
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text)?;
    serde_json::from_slice(&text).with_context(|| format!("{}: no JSON", socket.display()))
}

/// The sum of what OSDs counted.
pub fn counted<'a>(sockets: impl IntoIterator<Item = &'a Path>) -> Result<Counted> {
    let dump = serde_json::json!({ "prefix": "perf dump" });
    sockets.into_iter().try_fold(Counted::default(), |all, socket| Ok(all.plus(Counted::of_perf(&ask(socket, &dump)?)?)))
}
