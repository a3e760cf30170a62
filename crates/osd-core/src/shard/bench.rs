//! `tell osd.N bench`: writes to the store itself, past the network and the groups.

use super::Shard;
use crate::event::{ConnId, Effect};
use crate::shared::EventCx;
use crate::work::{Status, Work};
use base::{Rng, Stamp};
use bytes::Bytes;
use messages::{MCommandReply, Message};
use serde_json::{Map, Value};
use types::errno::EINVAL;
use types::{CollId, GHObject, HObject, Transaction, features};

/// Bytes written in one turn, so that clients have theirs in between.
const TURN_BYTES: u64 = 8 << 20;
/// No group has this place: whose commits are the bench's.
pub(crate) const SLOT: u32 = 0xff_ffff;

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
    highest: u64,
}

impl Bench {
    pub(super) fn status(&self) -> Status {
        let progress = format!("{} of {} bytes written", self.written, self.count);
        Status { what: "bench", pgid: None, work: Work::Busy, progress }
    }
}

fn int(cmd: &Map<String, Value>, name: &str) -> Option<u64> {
    let v = cmd.get(name)?;
    v.as_u64().or_else(|| v.as_str().and_then(|s| s.parse().ok()))
}

impl Shard {
    pub(crate) fn start_bench(&mut self, cmd: &Map<String, Value>, conn: ConnId, tid: u64) -> Result<(), (i32, String)> {
        if self.bench.is_some() {
            return Err((types::errno::EBUSY, "a bench is running".into()));
        }
        let config = &self.sh.config;
        let count = int(cmd, "count").unwrap_or(1 << 30);
        let size = int(cmd, "size").unwrap_or(4 << 20);
        let (object_size, object_num) = (int(cmd, "object_size").unwrap_or(0), int(cmd, "object_num").unwrap_or(0));
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
        let count_max = if size < 1 << 20 {
            size * duration * config.int("osd_bench_small_size_max_iops")
        } else {
            duration * config.int("osd_bench_large_size_max_throughput")
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
        self.bench = Some(Bench { conn, tid, count, size, object_size, object_num, written: 0, started: None, data, rng, highest: 0 });
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

    fn bench_over(&mut self, b: Bench, started: Stamp, cx: &mut EventCx<'_>) {
        for n in 0..b.highest {
            let mut txn = Transaction::new(CollId::Meta);
            txn.remove(&object(n));
            self.bench_submit(txn);
        }
        let elapsed = cx.clock.mono.since(started).as_secs_f64().max(1e-9);
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
        let _ = self.sh.store.submit(txn, None, u64::from(SLOT) << 40);
    }
}

fn object(n: u64) -> GHObject {
    let name = format!("disk_bw_test_{n}");
    GHObject::plain(HObject { oid: name.into_bytes().into(), hash: n as u32, pool: -1, snap: types::CEPH_NOSNAP, ..HObject::min() })
}
