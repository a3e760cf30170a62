//! `tell osd.N bench`: writes to the store itself, past the network and the groups.

use super::Shard;
use crate::event::{ConnId, Effect};
use crate::persist::BENCH_SLOT;
use crate::shared::EventCx;
use crate::work::{Status, Work};
use base::{Rng, Stamp};
use bytes::Bytes;
use messages::{MCommandReply, Message};
use serde_json::{Map, Value};
use std::time::Duration;
use types::errno::EINVAL;
use types::{CollId, GHObject, HObject, Transaction, features};

/// Bytes written in one turn, so that clients have theirs in between.
const TURN_BYTES: u64 = 8 << 20;
/// Objects removed in one turn, when it is over.
const TURN_REMOVALS: u64 = 512;
/// Objects among which blocks are spread.
const OBJECTS_MAX: u64 = 1 << 16;

/// A bench that runs.
pub struct Bench {
    conn: ConnId,
    tid: u64,
    count: u64,
    size: u64,
    object_size: u64,
    object_num: u64,
    written: u64,
    started: Option<Stamp>,
    data: Bytes,
    rng: Rng,
    /// Objects below this were written.
    highest: u64,
    /// How long it took, once everything is durable; from then on objects are removed.
    elapsed: Option<Duration>,
    removed: u64,
}

impl Bench {
    pub(super) fn status(&self) -> Status {
        let progress = format!("{} of {} bytes written", self.written, self.count);
        Status { what: "bench", pgid: None, work: Work::Busy, progress }
    }
}

/// An argument, or what stands for it if it is not given.
fn int(cmd: &Map<String, Value>, name: &str, default: u64) -> Result<u64, (i32, String)> {
    let Some(v) = cmd.get(name) else { return Ok(default) };
    let number = v.as_u64().or_else(|| v.as_str().and_then(|s| s.parse().ok()));
    number.ok_or_else(|| (EINVAL, format!("'{name}' must be a number from 0 to {}, and is {v}", u64::MAX)))
}

impl Shard {
    pub(crate) fn start_bench(&mut self, cmd: &Map<String, Value>, conn: ConnId, tid: u64) -> Result<(), (i32, String)> {
        if self.bench.is_some() {
            return Err((types::errno::EBUSY, "a bench is running".into()));
        }
        let config = &self.sh.config;
        let (count, size) = (int(cmd, "count", 1 << 30)?, int(cmd, "size", 4 << 20)?);
        let (object_size, object_num) = (int(cmd, "object_size", 0)?, int(cmd, "object_num", 0)?);
        let (size_max, duration) = (config.int("osd_bench_max_block_size"), config.int("osd_bench_duration"));
        if size == 0 {
            return Err((EINVAL, "'size' must be above 0".into()));
        }
        if size > size_max {
            let mib = size_max >> 20;
            let text = format!(
                "block 'size' values are capped at {mib} MiB. If you wish to use a higher value, please adjust 'osd_bench_max_block_size'"
            );
            return Err((EINVAL, text));
        }
        if object_num > OBJECTS_MAX {
            return Err((EINVAL, format!("'object_num' is at most {OBJECTS_MAX}, and is {object_num}")));
        }
        let object_size_max = config.int("osd_max_object_size");
        if object_size > object_size_max {
            return Err((EINVAL, format!("'object_size' is at most {object_size_max} (osd_max_object_size), and is {object_size}")));
        }
        let count_max = if size < 1 << 20 {
            size.saturating_mul(duration).saturating_mul(config.int("osd_bench_small_size_max_iops"))
        } else {
            duration.saturating_mul(config.int("osd_bench_large_size_max_throughput"))
        };
        if count > count_max {
            let text = format!(
                "'count' values greater than {count_max} for a block size of {size} bytes, for {duration} seconds, can cause ill effects on \
                 osd. Please adjust 'osd_bench_small_size_max_iops' or 'osd_bench_large_size_max_throughput' with a higher value if you wish \
                 to use a higher 'count'."
            );
            return Err((EINVAL, text));
        }
        let mut rng = Rng::new(self.sh.rng.u64());
        let mut data = vec![0; size as usize];
        rng.fill(&mut data);
        let data = Bytes::from(data);
        let (started, elapsed) = (None, None);
        let bench =
            Bench { conn, tid, count, size, object_size, object_num, written: 0, started, data, rng, highest: 0, elapsed, removed: 0 };
        self.bench = Some(bench);
        Ok(())
    }

    pub(super) fn bench_step(&mut self, cx: &mut EventCx<'_>) {
        let Some(mut b) = self.bench.take() else { return };
        let started = *b.started.get_or_insert(cx.clock.mono);
        // What was written last turn is durable now: that is when it is over.
        if b.written >= b.count {
            return self.bench_over(b, started, cx);
        }
        if b.written == 0 && self.sh.store.collection_bits(CollId::Meta).ok().flatten().is_none() {
            let mut txn = Transaction::new(CollId::Meta);
            txn.create_collection(CollId::Meta, 0);
            self.bench_submit(txn);
        }
        let mut turn = 0;
        while b.written < b.count && turn < TURN_BYTES {
            // Without sizes of objects: one object a block. With them: blocks at random places of so many objects.
            let (n, offset) = if b.object_size > 0 && b.object_num > 0 {
                let blocks = (b.object_size / b.size).max(1);
                (b.rng.below(b.object_num), b.rng.below(blocks) * b.size)
            } else {
                (b.written / b.size, 0)
            };
            b.highest = b.highest.max(n + 1);
            let mut txn = Transaction::new(CollId::Meta);
            let len = b.size.min(b.count - b.written);
            txn.write(&object(n), offset, b.data.slice(..len as usize), 0);
            self.bench_submit(txn);
            b.written += len;
            turn += len;
        }
        self.sh.store.turn_end();
        self.bench = Some(b);
        self.want_turn(cx);
    }

    /// Removes what was written, a part each turn, and answers in the end.
    fn bench_over(&mut self, mut b: Bench, started: Stamp, cx: &mut EventCx<'_>) {
        let elapsed = b.elapsed.get_or_insert(cx.clock.mono.since(started)).as_secs_f64().max(1e-9);
        let until = b.highest.min(b.removed + TURN_REMOVALS);
        for n in b.removed..until {
            let mut txn = Transaction::new(CollId::Meta);
            txn.remove(&object(n));
            self.bench_submit(txn);
        }
        b.removed = until;
        if b.removed < b.highest {
            self.sh.store.turn_end();
            self.bench = Some(b);
            return self.want_turn(cx);
        }
        let rate = b.written as f64 / elapsed;
        let text = format!(
            "{{\n    \"bytes_written\": {},\n    \"blocksize\": {},\n    \"elapsed_sec\": {elapsed},\n    \"bytes_per_sec\": {rate},\n    \
             \"iops\": {}\n}}\n",
            b.written,
            b.size,
            rate / b.size as f64
        );
        let reply = MCommandReply { tid: b.tid, result: 0, status: String::new(), data: text.into_bytes().into() };
        cx.out.push(Effect::Send { conn: b.conn, msg: reply.encode(features::SUPPORTED) });
    }

    fn bench_submit(&mut self, txn: Transaction) {
        // A store that refuses says so again where something can be done about it.
        let _ = self.sh.store.submit(txn, None, u64::from(BENCH_SLOT) << 40);
    }
}

fn object(n: u64) -> GHObject {
    let name = format!("disk_bw_test_{n}");
    GHObject::plain(HObject { oid: name.into_bytes().into(), hash: n as u32, pool: -1, snap: types::CEPH_NOSNAP, ..HObject::min() })
}
