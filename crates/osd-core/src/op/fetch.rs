//! What a request wants of other objects before it can be planned, and how it is got: question by question, by the code that planned it.
//!
//! A plan that lacks something stops with [`PlanStop::Fetch`](super::PlanStop::Fetch); its owner asks as [`Questions`] says until there is a
//! [`Got`], and plans again with all that the request got so far ([`PlanCtx::fetched`](super::PlanCtx::fetched)).

use super::copy::{Copied, CopySource, Gather};
use super::exec::Exec;
use messages::{InOp, OutOp};
use std::collections::BTreeMap;
use types::errno::{EFBIG, EINPROGRESS, EIO};
use types::osd_op::CallArgs;
use types::{ByteStr, Bytes, CEPH_NOSNAP, ObjectLocator, OpCode, OsdOp, SnapId};

/// A class's method, to be called on each of some objects of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSource {
    /// The pool's name; objects of its default namespace.
    pub pool: String,
    pub objects: Vec<ByteStr>,
    pub class: ByteStr,
    pub method: ByteStr,
    pub input: Bytes,
}

/// Something of other objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A whole object.
    Copy(CopySource),
    /// What methods answer.
    Calls(CallSource),
}

/// Something that a plan lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    pub wanted: Wanted,
    /// Results of the request's operations up to the one that wants it. A request that can't have it is answered with these: a client reads
    /// the code of an operation that may fail, whatever stops the request behind it.
    pub codes: Vec<i32>,
}

impl Lack {
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, codes: Vec::new() }
    }
    /// Notes the results of the operations before the one that stops. Source of the code of a copy under way: Ceph 18.2, whose error
    /// replies have the codes that were set by then.
    pub fn behind(&mut self, results: impl Iterator<Item = i32>) {
        let own = match self.wanted {
            Wanted::Copy(_) => -EINPROGRESS,
            Wanted::Calls(_) => 0,
        };
        self.codes = results.chain([own]).collect();
    }
}

/// What became of it.
#[derive(Debug, Clone)]
pub enum Got {
    Copy(Box<Copied>),
    /// Answers by the objects' names.
    Calls(BTreeMap<ByteStr, Bytes>),
}

/// All that a request got so far, each with what was asked for.
pub type Fetched = [(Wanted, Got)];

impl Exec<'_> {
    /// What the request got, if it has it.
    pub fn fetched(&self, wanted: &Wanted) -> Option<&Got> {
        self.ctx.fetched.iter().find(|(w, _)| w == wanted).map(|(_, got)| got)
    }
}

/// Where the next question goes.
pub enum Place<'a> {
    Locator(&'a ObjectLocator),
    PoolName(&'a str),
}

/// Something wanted, on its way.
#[derive(Debug)]
pub enum Questions {
    Copy { gather: Gather, source: CopySource },
    Calls { source: CallSource, answers: BTreeMap<ByteStr, Bytes>, bytes_left: u64 },
}

impl Questions {
    /// `size_max` bounds what is kept of the answers, bytes.
    pub fn new(wanted: Wanted, size_max: u64) -> Self {
        match wanted {
            Wanted::Copy(source) => Self::Copy { gather: Gather::new(source.clone(), size_max), source },
            Wanted::Calls(source) => Self::Calls { source, answers: BTreeMap::new(), bytes_left: size_max },
        }
    }
    /// What is being fetched.
    pub fn wanted(&self) -> Wanted {
        match self {
            Self::Copy { source, .. } => Wanted::Copy(source.clone()),
            Self::Calls { source, .. } => Wanted::Calls(source.clone()),
        }
    }
    /// The object that the next question is for; `None` if nothing is to be asked.
    pub fn object(&self) -> Option<(&ByteStr, Place<'_>, SnapId)> {
        match self {
            Self::Copy { source, .. } => Some((&source.oid, Place::Locator(&source.locator), source.snap)),
            Self::Calls { source, .. } => self.next_call().map(|oid| (oid, Place::PoolName(&source.pool), CEPH_NOSNAP)),
        }
    }
    fn next_call(&self) -> Option<&ByteStr> {
        match self {
            Self::Calls { source, answers, .. } => source.objects.iter().find(|oid| !answers.contains_key(*oid)),
            Self::Copy { .. } => None,
        }
    }
    /// `CEPH_OSD_FLAG_*` of the questions.
    pub fn flags(&self) -> u32 {
        match self {
            Self::Copy { source, .. } => source.flags,
            Self::Calls { .. } => 0,
        }
    }
    /// The next question's operations.
    pub fn ops(&self) -> Vec<InOp> {
        match self {
            Self::Copy { gather, .. } => gather.ops(),
            Self::Calls { source, .. } => {
                let (class, method) = (source.class.as_slice(), source.method.as_slice());
                let indata = [class, method, &source.input].concat();
                let args = CallArgs {
                    class_len: class.len() as u8,
                    method_len: method.len() as u8,
                    argc: 0,
                    indata_len: source.input.len() as u32,
                };
                vec![InOp::new(OsdOp::with_call(OpCode::CALL, args), indata.into())]
            }
        }
    }
    /// Takes what the operations of the last question brought, and the version that they found. What was wanted, once it is complete; an errno if
    /// it can't be had.
    pub fn take(&mut self, user_version: u64, ops: &[OutOp]) -> Result<Option<Got>, i32> {
        let out = &ops.last().ok_or(EIO)?.outdata;
        let next = self.next_call().cloned();
        match self {
            Self::Copy { gather, .. } => Ok(gather.take(user_version, out)?.map(|copied| Got::Copy(Box::new(copied)))),
            Self::Calls { source, answers, bytes_left } => {
                *bytes_left = bytes_left.checked_sub(out.len() as u64).ok_or(EFBIG)?;
                answers.insert(next.ok_or(EIO)?, out.clone());
                let complete = source.objects.iter().all(|oid| answers.contains_key(oid));
                Ok(complete.then(|| Got::Calls(std::mem::take(answers))))
            }
        }
    }
}
