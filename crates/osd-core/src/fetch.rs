//! What a request wants of objects of other groups (COPY_FROM, methods that gather), and how far it has come with that. How it is had is the shard's.

use crate::event::ConnId;
use crate::op::fetch::{Got, Wanted};
use types::{HObject, ReqId, SpgId};

/// The connection to ourselves.
pub(crate) const OWN_CONN: ConnId = ConnId(u64::MAX);

/// A request that wants something of other objects.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub pgid: SpgId,
    /// The head of the object that the request is on.
    pub obj: HObject,
    pub reqid: ReqId,
    pub wanted: Wanted,
}

/// How far a request has come with what it wants.
#[derive(Debug, Default)]
pub struct Fetches {
    /// It stands first at its object until something comes.
    pub waiting: bool,
    pub got: Vec<(Wanted, Got)>,
    /// Results of its operations up to the one that wants something.
    pub codes: Vec<i32>,
}
