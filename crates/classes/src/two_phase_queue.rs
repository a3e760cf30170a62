//! Class `2pc_queue`: a queue in which room is reserved first and filled later.
//!
//! Reservations stand in the queue's head; those that have no room there, in an attribute.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/2pc_queue/*`; counts of entries (version 2 of the records) and
//! `2pc_queue_get_topic_stats` are of 20.2. Unlike stock, a reservation that ends gives back the room for its entries' frames too, and a
//! full queue takes no reservation.

use crate::queue::head::{self, Head};
use crate::queue::ring::{self, ENTRY_OVERHEAD};
use crate::queue::{InitOp, ListOp, capacity, list};
use crate::registry::{Class, Method};
use crate::rest::{Rest, kept};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode, errno, or_none, reply};
use denc::{ByteStr, Bytes, denc_struct};
use std::collections::BTreeMap;
use types::UTime;
use types::errno::{EAGAIN, EINVAL, ENOENT, ENOSPC};

pub static CLASS: Class = Class {
    name: "2pc_queue",
    families: &[&[
        Method::writes("2pc_queue_init", init),
        Method::reads("2pc_queue_get_capacity", capacity),
        Method::reads("2pc_queue_get_topic_stats", stats),
        Method::writes("2pc_queue_reserve", reserve),
        Method::writes("2pc_queue_commit", commit),
        Method::writes("2pc_queue_abort", abort),
        Method::reads("2pc_queue_list_reservations", list_reservations),
        Method::reads("2pc_queue_list_entries", list),
        Method::writes("2pc_queue_remove_entries", remove),
        Method::writes("2pc_queue_expire_reservations", expire),
    ]],
};

/// Room for reservations in the head: with the rest of it, 24 KiB.
const URGENT_MAX: u64 = 23552;
/// Holds the reservations that the head has no room for.
const ATTRIBUTE: &[u8] = b"cls_queue_urgent_data";

/// `cls_2pc_reservation`.
#[derive(Debug, Clone, Default)]
struct Reservation {
    /// Bytes, without the entries' frames.
    size: u64,
    made: UTime,
    /// 0 where a release before 20.2 wrote it.
    entries: u32,
    pub rest: Rest,
}
kept!(Reservation, v 2, compat 1, { size, made, [since 2] entries });

type Reservations = BTreeMap<u32, Reservation>;

impl Reservation {
    fn bytes(&self) -> u64 {
        self.size.saturating_add(u64::from(self.entries) * ENTRY_OVERHEAD)
    }
}

/// `cls_2pc_urgent_data`: what the queue's head carries for us.
#[derive(Debug, Clone, Default)]
struct Urgent {
    reserved: u64,
    last_id: u32,
    reservations: Reservations,
    has_more: bool,
    committed_entries: u32,
    pub rest: Rest,
}
kept!(Urgent, v 2, compat 1, { reserved, last_id, reservations, has_more, [since 2] committed_entries });

struct ReserveOp {
    size: u64,
    entries: u32,
}
denc_struct!(ReserveOp, v 1, compat 1, { size, entries });

/// What `reserve` answers, and the input of `abort`.
struct ReservationId {
    id: u32,
}
denc_struct!(ReservationId, v 1, compat 1, { id });

struct CommitOp {
    id: u32,
    entries: Vec<Bytes>,
}
denc_struct!(CommitOp, v 1, compat 1, { id, entries });

struct ExpireOp {
    made_before: UTime,
}
denc_struct!(ExpireOp, v 1, compat 1, { made_before });

struct RemoveOp {
    end_marker: ByteStr,
    /// 0 from clients before 20.2: they are counted then.
    entries: u32,
}
denc_struct!(RemoveOp, v 2, compat 1, { end_marker, [since 2] entries });

struct ReservationsReply {
    reservations: Reservations,
}
denc_struct!(ReservationsReply, v 1, compat 1, { reservations });

struct StatsReply {
    bytes: u64,
    entries: u32,
}
denc_struct!(StatsReply, v 1, compat 1, { bytes, entries });

/// The queue with its reservations.
struct Queue {
    head: Head,
    urgent: Urgent,
}

impl Queue {
    fn load(obj: &mut dyn ObjectView) -> ClsResult<Self> {
        let head = Head::load(obj)?;
        let urgent = decode(&head.urgent)?;
        Ok(Self { head, urgent })
    }
    fn store(mut self, obj: &mut dyn ObjectView) -> ClsResult<()> {
        self.head.urgent = encode(&self.urgent);
        self.head.store(obj)
    }
    /// The reservations in the attribute.
    fn more(&self, obj: &mut dyn ObjectView) -> ClsResult<Reservations> {
        if !self.urgent.has_more {
            return Ok(Reservations::new());
        }
        or_none(obj.getxattr(ATTRIBUTE))?.map_or(Ok(Reservations::new()), |bytes| decode(&bytes))
    }
    /// Ends a reservation, wherever it stands.
    fn end(&mut self, obj: &mut dyn ObjectView, id: u32) -> ClsResult<Option<Reservation>> {
        let mut found = self.urgent.reservations.remove(&id);
        if found.is_none() {
            let mut more = self.more(obj)?;
            found = more.remove(&id);
            if found.is_some() {
                obj.setxattr(ATTRIBUTE, encode(&more))?;
            }
        }
        self.urgent.reserved = self.urgent.reserved.saturating_sub(found.as_ref().map_or(0, Reservation::bytes));
        Ok(found)
    }
}

fn init(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: InitOp = decode(&input)?;
    head::init(obj, InitOp { urgent_max: URGENT_MAX, urgent: encode(&Urgent::default()), ..op })?;
    done()
}

fn stats(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let queue = Queue::load(obj)?;
    reply(&StatsReply { bytes: queue.head.used(), entries: queue.urgent.committed_entries })
}

fn reserve(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ReserveOp = decode(&input)?;
    if op.size == 0 || op.entries == 0 {
        return errno(EINVAL);
    }
    let mut queue = Queue::load(obj)?;
    let reservation = Reservation { size: op.size, made: obj.now(), entries: op.entries, rest: Rest::default() };
    let reserved = queue.urgent.reserved.saturating_add(reservation.bytes());
    if reserved > queue.head.free() {
        return errno(ENOSPC);
    }
    let id = queue.urgent.last_id.wrapping_add(1);
    if queue.urgent.reservations.contains_key(&id) {
        return errno(EAGAIN);
    }
    queue.urgent.reserved = reserved;
    queue.urgent.last_id = id;
    queue.urgent.reservations.insert(id, reservation.clone());
    if encode(&queue.urgent).len() as u64 > queue.head.urgent_max {
        queue.urgent.reservations.remove(&id);
        let mut more = queue.more(obj)?;
        if more.insert(id, reservation).is_some() {
            return errno(EAGAIN);
        }
        obj.setxattr(ATTRIBUTE, encode(&more))?;
        queue.urgent.has_more = true;
    }
    queue.store(obj)?;
    reply(&ReservationId { id })
}

fn commit(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CommitOp = decode(&input)?;
    let mut queue = Queue::load(obj)?;
    let Some(reservation) = queue.end(obj, op.id)? else { return errno(ENOENT) };
    if op.entries.iter().map(|data| data.len() as u64).sum::<u64>() > reservation.size {
        return errno(EINVAL);
    }
    ring::enqueue(obj, &mut queue.head, &op.entries)?;
    queue.urgent.committed_entries = queue.urgent.committed_entries.saturating_add(op.entries.len() as u32);
    queue.store(obj)?;
    done()
}

/// Ending what is not there is no error.
fn abort(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ReservationId = decode(&input)?;
    let mut queue = Queue::load(obj)?;
    if queue.end(obj, op.id)?.is_some() {
        queue.store(obj)?;
    }
    done()
}

fn list_reservations(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let queue = Queue::load(obj)?;
    let mut reservations = queue.more(obj)?;
    reservations.extend(queue.urgent.reservations);
    reply(&ReservationsReply { reservations })
}

fn expire(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ExpireOp = decode(&input)?;
    let mut queue = Queue::load(obj)?;
    let mut freed = 0;
    let mut keep = |_: &u32, reservation: &mut Reservation| {
        let stale = reservation.made < op.made_before;
        freed += if stale { reservation.bytes() } else { 0 };
        !stale
    };
    let mut more = queue.more(obj)?;
    let more_before = more.len();
    queue.urgent.reservations.retain(&mut keep);
    more.retain(&mut keep);
    if more.len() != more_before {
        obj.setxattr(ATTRIBUTE, encode(&more))?;
    }
    if freed > 0 {
        queue.urgent.reserved = queue.urgent.reserved.saturating_sub(freed);
        queue.store(obj)?;
    }
    done()
}

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: RemoveOp = decode(&input)?;
    let mut queue = Queue::load(obj)?;
    let mut entries = op.entries;
    if entries == 0 {
        let all = ListOp { entries_max: u64::MAX, start_marker: ByteStr::new(), end_marker: op.end_marker.clone() };
        entries = ring::list(obj, &queue.head, &all)?.entries.len() as u32;
    }
    ring::remove(obj, &mut queue.head, &op.end_marker)?;
    queue.urgent.committed_entries = queue.urgent.committed_entries.saturating_sub(entries);
    queue.store(obj)?;
    done()
}
