//! What a client that wants harm may be told: never that something was done which it may not do, and at once that it may do nothing.

use super::{Guise, OWN};
use crate::cluster::Cluster;
use crate::net::{Life, Proc};
use crate::osd::OsdProcess;
use denc::Decoder;
use messages::{MCommandReply, MMonCommandAck, MOSDOpReply, Message, RawMessage};
use types::errno::EPERM;
use types::{HObject, OpCode, PgId};

/// A request that was sent.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub pgid: PgId,
    pub object: String,
    pub codes: Vec<OpCode>,
    /// It copies an object that its client may not read.
    pub copies: bool,
    /// Its hash is another group's, of a pool of so many, and it asks for nothing that has no object.
    pub is_elsewhere: Option<u32>,
    /// Where its listing goes on.
    pub lists_from: Option<HObject>,
}

impl Asked {
    /// Whether its client may be told that this is done.
    fn may_be_done(&self, guise: Guise) -> bool {
        let writes = self.codes.iter().any(|code| code.is_write());
        match guise {
            Guise::Owner => !self.copies && (!writes || self.object.starts_with(OWN)),
            Guise::Reader | Guise::Numbered => !writes,
            _ => false,
        }
    }
}

/// The place that an answer to a listing goes on from; `None`: it is at its end, or there is none in it.
fn goes_on_from(reply: &MOSDOpReply) -> Option<HObject> {
    let out = reply.ops.first().filter(|_| reply.result == 0)?.outdata.clone();
    let at = if reply.ops[0].op.code == OpCode::PGNLS { 6 } else { 1 };
    (out.len() > at).then(|| Decoder::new(out.slice(at..)).get().ok()).flatten()
}

impl Cluster {
    /// An answer to a session.
    pub(super) fn rogue_hears(&mut self, life: Life, msg: &RawMessage) {
        let pools = self.newest_map();
        let session = self.hostile.sessions.iter_mut().find(|session| session.life == life).expect("it lives");
        let guise = session.guise;
        let wrong = match msg.kind {
            MOSDOpReply::KIND => {
                let Ok(reply) = MOSDOpReply::decode(msg) else { return };
                let Some(asked) = session.asked.remove(&msg.tid) else { return };
                let what = || format!("a {guise:?} that asked {:?} of {} in {}", asked.codes, asked.object, asked.pgid);
                let pg_num = pools.and_then(|map| map.pools.get(&asked.pgid.pool).map(|pool| pool.pg_num));
                let next = goes_on_from(&reply);
                let stands = asked.lists_from.as_ref().is_some_and(|from| next.as_ref().is_some_and(|next| next <= from));
                session.cursor = if asked.lists_from.is_some() { next } else { session.cursor.take() };
                match () {
                    () if guise == Guise::Powerless && reply.result != -EPERM => Some(format!("{} is told {}", what(), reply.result)),
                    () if reply.result >= 0 && !asked.may_be_done(guise) => Some(format!("{} is told that it is done", what())),
                    () if asked.is_elsewhere.is_some() && asked.is_elsewhere == pg_num => {
                        Some(format!("{}, where it does not lie, is told {}", what(), reply.result))
                    }
                    () if stands => Some(format!("{} gets no further in its listing", what())),
                    () => None,
                }
            }
            MMonCommandAck::KIND => {
                MMonCommandAck::decode(msg).ok().filter(|m| m.result >= 0).map(|m| format!("a {guise:?} may say {:?}", m.cmd))
            }
            MCommandReply::KIND => {
                MCommandReply::decode(msg).ok().filter(|m| m.result >= 0).map(|m| format!("a {guise:?}'s command is done: {}", m.status))
            }
            _ => None,
        };
        if let Some(why) = wrong {
            self.broken.get_or_insert(format!("hostile: {why}"));
        }
    }
    /// A request of a session has come to an OSD, which held so many before: if its client may do nothing, or it was sent by a map that there is not, it
    /// holds nothing there.
    pub(crate) fn look_at_held(&mut self, from: Life, msg: &RawMessage, held: u64) {
        let Some(session) = self.hostile.of(from) else { return };
        let Proc::Osd(id) = session.to else { return };
        let Some(process) = self.osds[id as usize].as_ref() else { return };
        let is_ahead = messages::MOSDOp::decode(msg).is_ok_and(|m| m.map_epoch > process.core().map().epoch);
        if (session.guise == Guise::Powerless || is_ahead) && process.held() > held {
            let why = format!("hostile: a request of a {:?} holds a slot of osd.{id}", session.guise);
            self.broken.get_or_insert(why);
        }
    }
    /// True if no OSD has set a request aside: a session may be open though its request was answered at once.
    pub(crate) fn is_nothing_aside(&self) -> bool {
        self.osds.iter().flatten().all(|osd| osd.budget().stats().aside == 0)
    }
    /// Nothing is under way, so nothing is held of any OSD's budget.
    ///
    /// # Errors
    /// The text of what is.
    pub(crate) fn look_at_budgets(&self) -> Result<(), String> {
        let holds = |osd: &&OsdProcess| {
            let held = osd.budget().stats();
            held.bytes + held.messages + held.answers + held.aside > 0
        };
        match self.osds.iter().flatten().find(holds) {
            Some(osd) => Err(self.tell(&format!("budget: osd.{} holds {:?} at rest", osd.id(), osd.budget().stats()), &[])),
            None => Ok(()),
        }
    }
}
