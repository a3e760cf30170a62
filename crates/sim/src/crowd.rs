//! Stores of different size that fill: some OSDs have little room, and the others much.
//!
//! A full OSD stops its pools: writes wait, and what removes goes on. Recovery and backfill don't make a full OSD fuller: that is checked here, by what pushes
//! add to a store whose OSD knows for some seconds that the map has it full. In the end everything is deleted, in groups that are too full to recover as well,
//! and the cluster comes to rest: a member that is full of what the others have deleted meanwhile loses that first, and is filled then.
//! A store that refuses a change says that it is nearly full.

use crate::SEC;
use crate::cluster::Cluster;
use crate::drive::Drive;
use crate::model::Op;
use crate::osd::osd_uuid;
use crate::plan::Plan;
use maps::osd_state;
use std::collections::BTreeMap;
use types::StoreStatfs;

/// The ratios from which on an OSD counts as fuller and fuller.
const RATIOS: [(&str, f64); 3] = [("nearfull", 0.5), ("backfillfull", 0.55), ("full", 0.6)];
/// Those of a cluster where clients write until the store itself refuses.
const TO_THE_BRIM: [(&str, f64); 3] = [("nearfull", 0.97), ("backfillfull", 0.98), ("full", 0.99)];
/// Of so many OSDs one has a small store: the first of them.
const SMALL_EVERY: usize = 2;
/// So long after it knows that it is full, an OSD and its primaries have stopped.
const STOPPED_NS: u64 = 5 * SEC;
/// What may still come in a while, as a share of the store: what a client waits for.
const WHILE_NS: u64 = 30 * SEC;
const SHARE_MAX: u64 = 20;

/// The share of a store that may be called available at a refusal, beside four times the refused bytes.
const REFUSED_SHARE: u64 = 8;

#[derive(Debug)]
struct Full {
    since_ns: u64,
    /// A while, and what pushes have added in it.
    while_ns: u64,
    added: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// OSDs that know that they are full.
    full: BTreeMap<usize, Full>,
}

/// A store that refuses a change has said that it is nearly full: clients are to hear of it before. Returns the fault of a refusal of
/// `wanted` bytes of data.
pub(crate) fn refused(wanted: u64, fs: &StoreStatfs) -> Option<String> {
    let (available, total) = (fs.available, fs.total);
    (available > total / REFUSED_SHARE + 4 * wanted)
        .then(|| format!("crowd: a store refuses {wanted} bytes, and says that {available} of {total} are available"))
}

/// Bytes in use.
fn used(fs: &StoreStatfs) -> u64 {
    fs.total.saturating_sub(fs.available)
}

impl Drive {
    /// An OSD's first store.
    pub(crate) fn first(plan: &Plan, id: usize) -> Self {
        Self::of_size(plan, id, 0)
    }
    /// The store of an OSD's device, which may be a small one.
    pub(crate) fn of_size(plan: &Plan, id: usize, generation: u8) -> Self {
        let bytes = if id.is_multiple_of(SMALL_EVERY) { plan.small_bytes } else { 0 };
        Self::with_room(plan.store, osd_uuid(id as i32, generation).0, bytes, plan.older)
    }
}

impl Cluster {
    /// What an OSD has in use before a push comes to it; `None`: stores have room.
    pub(crate) fn before_push(&self, id: usize) -> Option<u64> {
        let osd = self.osds[id].as_ref().filter(|_| self.plan.small_bytes > 0)?;
        Some(used(&osd.core().store().statfs()))
    }
    /// A push has come.
    pub(crate) fn after_push(&mut self, id: usize, before: u64) {
        // In the end clients wait for all that is to be deleted.
        let Some(osd) = self.osds[id].as_ref().filter(|_| self.troubled) else { return };
        let fs = osd.core().store().statfs();
        if osd.core().map().state(id as i32) & osd_state::FULL == 0 {
            self.crowd.full.remove(&id);
            return;
        }
        let now_ns = self.net.now_ns;
        let full = self.crowd.full.entry(id).or_insert(Full { since_ns: now_ns, while_ns: now_ns, added: 0 });
        if now_ns - full.since_ns > STOPPED_NS {
            full.added += used(&fs).saturating_sub(before);
        }
        if now_ns - full.while_ns > WHILE_NS {
            (full.while_ns, full.added) = (now_ns, 0);
        }
        if full.added > fs.total / SHARE_MAX {
            let (full_s, added) = ((now_ns - full.since_ns) / SEC, full.added);
            let why = format!("crowd: osd.{id} is full since {full_s} s, and pushes have added {added} bytes in a while");
            self.broken.get_or_insert(why);
        }
    }
    /// An OSD counts as full early: of a store so small the usual rest is less than what is under way at a time.
    pub(crate) fn set_ratios(&mut self) {
        if self.plan.small_bytes > 0 {
            for (name, ratio) in if self.plan.brim { TO_THE_BRIM } else { RATIOS } {
                self.say(format!(r#"{{"prefix":"osd set-{name}-ratio","ratio":{ratio}}}"#));
            }
        }
    }
    /// Everything is deleted, so that what is left fits everywhere.
    ///
    /// # Errors
    /// A deletion is not answered.
    pub(crate) fn make_room(&mut self) -> Result<(), String> {
        if self.plan.small_bytes == 0 {
            return Ok(());
        }
        let first = self.history.calls.len();
        for object in 0..self.plan.objects {
            if let Some(client) = self.clients.iter_mut().flatten().next() {
                client.submit(object, Op::Delete, &mut self.history, &mut self.net);
            }
        }
        let is_over = move |c: &Self| c.history.calls[first..].iter().all(|call| call.outcome.is_some());
        self.until(self.plan.rest_ns, "rid of all objects", is_over)
    }
}
