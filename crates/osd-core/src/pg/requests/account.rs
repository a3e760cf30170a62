//! What is counted of a request that is answered: the OSD's counters, the slowest requests of late, and what the manager asks for by client or
//! image. Decides nothing.

use crate::history::Done;
use crate::perf::C;
use crate::perf_queries::Seen;
use crate::request::ClientOp;
use crate::session::Session;
use crate::shared::Cx;
use std::time::Duration;
use types::SpgId;

/// A request that only reads.
pub fn read_answered(pgid: SpgId, op: &ClientOp, bytes_out: u64, cx: &mut Cx<'_>) {
    let took_ns = answered(pgid, op, (true, false), (0, bytes_out), cx);
    let perf = &mut cx.sh.counters.perf;
    perf.inc(C::op_r);
    perf.add(C::op_r_out_bytes, bytes_out);
    perf.time(C::op_r_latency, took_ns);
    perf.time(C::op_r_process_latency, took_ns);
}

/// A request that is logged: a change, also one that failed or had nothing to do.
pub fn write_answered(pgid: SpgId, op: &ClientOp, bytes_out: u64, cx: &mut Cx<'_>) {
    let reads = op.info.as_ref().is_some_and(|i| i.may_read);
    let took_ns = answered(pgid, op, (reads, true), (op.bytes_in, bytes_out), cx);
    let perf = &mut cx.sh.counters.perf;
    if reads {
        perf.inc(C::op_rw);
        perf.add(C::op_rw_in_bytes, op.bytes_in);
        perf.add(C::op_rw_out_bytes, bytes_out);
        perf.time(C::op_rw_latency, took_ns);
        perf.time(C::op_rw_process_latency, took_ns);
    } else {
        perf.inc(C::op_w);
        perf.add(C::op_w_in_bytes, op.bytes_in);
        perf.time(C::op_w_latency, took_ns);
        perf.time(C::op_w_process_latency, took_ns);
    }
}

/// What both kinds have in common; how long it took, in nanoseconds.
fn answered(pgid: SpgId, op: &ClientOp, (reads, writes): (bool, bool), (bytes_in, bytes_out): (u64, u64), cx: &mut Cx<'_>) -> u64 {
    let took_ns = cx.clock.mono.0.saturating_sub(op.received.0);
    if cx.sh.counters.history.wants(took_ns) {
        remember(pgid, op, writes, took_ns, cx);
    }
    if !cx.sh.counters.perf_queries.is_empty() {
        let client = cx.sh.sessions.get(&op.conn).map(Session::shown_addr);
        let (reqid, hobj, pgid) = (&op.reqid, &op.msg.hobj, pgid.pgid);
        let seen = Seen { reqid, client, pgid, hobj, reads, writes, bytes_in, bytes_out, took_ns };
        cx.sh.counters.perf_queries.count(cx.sh.whoami, &seen);
    }
    let perf = &mut cx.sh.counters.perf;
    perf.inc(C::op);
    perf.add(C::op_in_bytes, bytes_in);
    perf.add(C::op_out_bytes, bytes_out);
    perf.time(C::op_latency, took_ns);
    perf.time(C::op_process_latency, took_ns);
    took_ns
}

/// One of the slowest requests of late.
#[cold]
fn remember(pgid: SpgId, op: &ClientOp, writes: bool, took_ns: u64, cx: &mut Cx<'_>) {
    let (obj, took) = (op.msg.hobj.detach(), Duration::from_nanos(took_ns));
    let client = cx.sh.sessions.get(&op.conn).map(Session::shown_addr);
    cx.sh.counters.history.put(Done { reqid: op.reqid, pgid, obj, client, received: op.received, took, writes });
}
