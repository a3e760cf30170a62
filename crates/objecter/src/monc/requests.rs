//! Questions to the monitor that have an answer.

use bytes::Bytes;
use messages::{
    MGetPoolStats, MGetPoolStatsReply, MMonCommand, MMonCommandAck, MMonGetVersion, MMonGetVersionReply, MPoolOp, MPoolOpReply, MStatfs,
    MStatfsReply, Message, RawMessage,
};
use std::collections::BTreeMap;
use types::{Uuid, features};

/// A question. Number and cluster are filled in when it is sent.
#[derive(Debug, Clone)]
pub enum Request {
    /// A JSON text and input data.
    Command {
        cmd: Vec<String>,
        input: Bytes,
    },
    /// The newest and oldest version of a map.
    Version(String),
    PoolOp(MPoolOp),
    Statfs {
        data_pool: Option<i64>,
    },
    PoolStats(Vec<String>),
}

/// What came back; `tid` is the number that the question was given.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Command { tid: u64, result: i32, status: String, output: Bytes },
    Version { tid: u64, newest: u64, oldest: u64 },
    PoolOp { tid: u64, reply: MPoolOpReply },
    Statfs { tid: u64, reply: MStatfsReply },
    PoolStats { tid: u64, reply: MGetPoolStatsReply },
}

impl Answer {
    pub fn tid(&self) -> u64 {
        match self {
            Self::Command { tid, .. }
            | Self::Version { tid, .. }
            | Self::PoolOp { tid, .. }
            | Self::Statfs { tid, .. }
            | Self::PoolStats { tid, .. } => *tid,
        }
    }
}

/// Questions without an answer so far, by number.
#[derive(Debug, Default)]
pub(super) struct Requests {
    last_tid: u64,
    open: BTreeMap<u64, Request>,
}

impl Requests {
    pub fn add(&mut self, request: Request) -> u64 {
        self.last_tid += 1;
        self.open.insert(self.last_tid, request);
        self.last_tid
    }
    pub fn remove(&mut self, tid: u64) {
        self.open.remove(&tid);
    }
    pub fn one(&self, tid: u64, fsid: Uuid) -> Option<RawMessage> {
        self.open.get(&tid).map(|r| r.message(tid, fsid))
    }
    pub fn all(&self, fsid: Uuid) -> impl Iterator<Item = RawMessage> {
        self.open.iter().map(move |(tid, r)| r.message(*tid, fsid))
    }
    /// The answer to an open question; None for anything else.
    pub fn answer(&mut self, raw: &RawMessage) -> Option<Answer> {
        let answer = match raw.kind {
            MMonCommandAck::KIND => {
                let m = MMonCommandAck::decode(raw).ok()?;
                Answer::Command { tid: m.tid, result: m.result, status: m.status, output: m.data }
            }
            MMonGetVersionReply::KIND => {
                let m = MMonGetVersionReply::decode(raw).ok()?;
                Answer::Version { tid: m.handle, newest: m.version, oldest: m.oldest }
            }
            MPoolOpReply::KIND => {
                let reply = MPoolOpReply::decode(raw).ok()?;
                Answer::PoolOp { tid: reply.tid, reply }
            }
            MStatfsReply::KIND => {
                let reply = MStatfsReply::decode(raw).ok()?;
                Answer::Statfs { tid: reply.tid, reply }
            }
            MGetPoolStatsReply::KIND => {
                let reply = MGetPoolStatsReply::decode(raw).ok()?;
                Answer::PoolStats { tid: reply.tid, reply }
            }
            _ => return None,
        };
        self.open.remove(&answer.tid())?;
        Some(answer)
    }
}

impl Request {
    fn message(&self, tid: u64, fsid: Uuid) -> RawMessage {
        const F: u64 = features::SUPPORTED;
        match self {
            Self::Command { cmd, input } => {
                MMonCommand { tid, data: input.clone(), paxos: Default::default(), fsid, cmd: cmd.clone() }.encode(F)
            }
            Self::Version(what) => MMonGetVersion { handle: tid, what: what.clone() }.encode(F),
            Self::PoolOp(op) => MPoolOp { tid, fsid, ..op.clone() }.encode(F),
            Self::Statfs { data_pool } => MStatfs { tid, paxos: Default::default(), fsid, data_pool: *data_pool }.encode(F),
            Self::PoolStats(pools) => MGetPoolStats { tid, paxos: Default::default(), fsid, pools: pools.clone() }.encode(F),
        }
    }
}
