//! Stories of requests: each names its event, then what it expects to see leave. Placement is by pg_temp, so that a test says which OSD serves.

use super::*;
use crate::ops::Ops;
use maps::{PgPool, osd_state};
use types::osd_op::watch_op;
use types::{AddrType, EntityAddr, OpCode, SpgId};

struct World {
    o: Objecter,
    map: OsdMap,
    out: Vec<Effect>,
    clock: Clock,
}

fn addr(osd: i32, nonce: u32) -> EntityAddrVec {
    EntityAddr::parse(&format!("v2:127.0.0.1:{}/{nonce}", 6800 + osd), AddrType::MSGR2).unwrap().into()
}

/// Three OSDs, pool 1 with one placement group at osd.0.
fn world() -> World {
    let mut map = OsdMap { epoch: 5, ..OsdMap::default() };
    map.set_max_osd(3);
    for osd in 0..3 {
        map.osd_state[osd] = osd_state::EXISTS | osd_state::UP;
        map.osd_weight[osd] = maps::osd_map::ONE;
        map.client_addrs[osd] = addr(osd as i32, 1);
    }
    map.pools.insert(
        1,
        PgPool { kind: PgPool::REPLICATED, size: 1, pg_num: 1, pgp_num: 1, object_hash: PgPool::HASH_RJENKINS, ..PgPool::default() },
    );
    map.pg_temp.insert(PgId::new(1, 0), vec![0]);
    let mut w = World { o: Objecter::new(0), map, out: Vec::new(), clock: Clock { mono: base::Stamp(1_000_000_000), wall_ns: 7 } };
    w.publish();
    w.seen();
    w
}

impl World {
    fn publish(&mut self) {
        self.map.epoch += 1;
        self.o.set_map(Rc::new(self.map.clone()), self.clock, &mut self.out);
    }
    fn submit(&mut self, pool: i64, ops: Ops) -> u64 {
        self.o.submit(Submit::new(ObjectLocator::pool(pool), "obj".into(), ops), self.clock, &mut self.out)
    }
    fn write(&mut self) -> u64 {
        self.submit(1, Ops::new().write(0, Bytes::from_static(b"x")))
    }
    fn read(&mut self) -> u64 {
        self.submit(1, Ops::new().read(0, 1))
    }
    fn reply(&mut self, osd: i32, tid: u64, attempt: i32, result: i32) {
        let raw = MOSDOpReply { tid, attempt, result, ..MOSDOpReply::default() }.encode(0);
        assert!(self.o.on_message(osd, &raw, self.clock, &mut self.out));
    }
    /// A reply that says something.
    fn reply_with(&mut self, osd: i32, tid: u64, outdata: Bytes) {
        let op = messages::OutOp { outdata, ..Default::default() };
        let raw = MOSDOpReply { tid, ops: [op].into_iter().collect(), ..MOSDOpReply::default() }.encode(0);
        let raw = RawMessage { data: vec![raw.data_flat()], ..raw };
        assert!(self.o.on_message(osd, &raw, self.clock, &mut self.out));
    }
    fn reset(&mut self, osd: i32) {
        self.o.on_reset(osd, self.clock, &mut self.out);
    }
    fn later(&mut self, secs: u64) {
        self.clock.mono = base::Stamp(self.clock.mono.0 + secs * 1_000_000_000);
        self.o.tick(self.clock, &mut self.out);
    }
    /// What left since the last look, in short.
    fn seen(&mut self) -> String {
        let short = |effect: &Effect| match effect {
            Effect::Open { osd, .. } => format!("open {osd}"),
            Effect::Close { osd } => format!("close {osd}"),
            Effect::Send { osd, message } if message.kind == MOSDOp::KIND => {
                let m = MOSDOp::decode(message).unwrap();
                let code = m.ops[0].op.code;
                let watch = if code == OpCode::WATCH {
                    format!(":{}.{}", m.ops[0].op.watch().op, m.ops[0].op.watch().generation)
                } else {
                    String::new()
                };
                format!("{} {}{watch} #{}.{}", osd, code, m.tid, m.attempt)
            }
            Effect::Send { osd, message } => format!("{osd} kind {}", message.kind),
            Effect::Done { tid, reply, .. } => format!("done #{tid} {}", reply.result),
            Effect::Linger { event, .. } => format!("{event:?}"),
            Effect::Map(_) => String::new(),
            Effect::WantMap(e) => format!("want {e}"),
            Effect::WantNewest => "newest?".into(),
        };
        let text: Vec<String> = self.out.iter().map(short).filter(|s| !s.is_empty()).collect();
        self.out.clear();
        text.join(", ")
    }
}
use bytes::Bytes;

#[test]
fn a_request_goes_out_and_comes_back_once() {
    let mut w = world();
    w.write();
    w.read();
    assert_eq!(w.seen(), "open 0, 0 write #1.0, 0 read #2.0");
    w.reply(0, 1, 0, 0);
    w.reply(0, 1, 0, 0);
    w.reply(0, 2, 0, -2);
    assert_eq!(w.seen(), "done #1 0, done #2 -2");
    assert_eq!(w.o.in_flight(), 0);
}

#[test]
fn without_a_map_it_waits() {
    let mut w = world();
    w.o = Objecter::new(0);
    w.write();
    assert_eq!(w.seen(), "");
    w.publish();
    assert_eq!(w.seen(), "open 0, 0 write #1.0");
}

#[test]
fn a_cut_connection_sends_again_under_the_same_number() {
    let mut w = world();
    w.write();
    w.seen();
    w.reset(0);
    assert_eq!(w.seen(), "open 0, 0 write #1.1");
    w.reply(0, 1, 0, 0);
    assert_eq!(w.seen(), "", "the answer to the attempt that was given up");
    w.reply(0, 1, 1, 0);
    assert_eq!(w.seen(), "done #1 0");
}

#[test]
fn a_new_primary_gets_it_and_the_old_one_is_not_believed() {
    let mut w = world();
    w.write();
    w.seen();
    w.map.pg_temp.insert(PgId::new(1, 0), vec![1, 0]);
    w.publish();
    assert_eq!(w.seen(), "open 1, 1 write #1.1");
    w.reply(0, 1, 1, 0);
    assert_eq!(w.seen(), "");
    w.reply(1, 1, 1, 0);
    assert_eq!(w.seen(), "done #1 0");
    // A map that changes nothing for the group sends nothing.
    w.write();
    w.seen();
    w.publish();
    assert_eq!(w.seen(), "");
}

#[test]
fn an_osd_that_comes_back_elsewhere_is_dialled_anew() {
    let mut w = world();
    w.write();
    w.seen();
    w.map.client_addrs[0] = addr(0, 2);
    w.publish();
    assert_eq!(w.seen(), "close 0, open 0, 0 write #1.1");
    w.map.osd_state[0] = osd_state::EXISTS;
    w.publish();
    assert_eq!(w.seen(), "close 0");
    w.map.osd_state[0] |= osd_state::UP;
    w.publish();
    assert_eq!(w.seen(), "open 0, 0 write #1.2");
}

#[test]
fn pauses_and_fullness_hold_what_they_name() {
    type Set = fn(&mut OsdMap, bool);
    let cases: [(Set, bool, bool); 4] = [
        (|m, on| m.flags = if on { map_flags::PAUSERD } else { 0 }, true, false),
        (|m, on| m.flags = if on { map_flags::PAUSEWR } else { 0 }, false, true),
        (|m, on| m.flags = if on { map_flags::FULL } else { 0 }, false, true),
        (|m, on| m.pools.get_mut(&1).unwrap().flags = if on { pool_flags::FULL } else { 0 }, false, true),
    ];
    for (set, holds_reads, holds_writes) in cases {
        let mut w = world();
        set(&mut w.map, true);
        w.publish();
        w.read();
        w.write();
        let seen = w.seen();
        assert_eq!((!seen.contains("read"), !seen.contains("write")), (holds_reads, holds_writes));
        set(&mut w.map, false);
        w.publish();
        let seen = w.seen();
        assert_eq!((seen.contains("read"), seen.contains("write")), (holds_reads, holds_writes));
    }
    let mut w = world();
    w.map.flags = map_flags::FULL;
    w.publish();
    let submit = Submit { flags: osd_flag::FULL_TRY, ..Submit::new(ObjectLocator::pool(1), "o".into(), Ops::new().remove()) };
    w.o.submit(submit, w.clock, &mut w.out);
    assert_eq!(w.seen(), "open 0, 0 delete #1.0");
    // A write that was sent before the map was full: its OSD may have known earlier, and dropped it.
    let mut w = world();
    w.write();
    w.seen();
    w.map.flags = map_flags::FULL;
    w.publish();
    assert_eq!(w.seen(), "");
    w.map.flags = 0;
    w.publish();
    assert_eq!(w.seen(), "0 write #1.1");
}

#[test]
fn a_split_and_a_forced_resend_send_again() {
    let mut w = world();
    w.write();
    w.seen();
    w.map.pools.get_mut(&1).unwrap().pg_num = 2;
    w.map.pg_temp.insert(PgId::new(1, 1), vec![0]);
    w.publish();
    assert_eq!(w.seen(), "0 write #1.1");
    w.map.pools.get_mut(&1).unwrap().last_force_op_resend = w.map.epoch + 1;
    w.publish();
    assert_eq!(w.seen(), "0 write #1.2");
}

#[test]
fn a_pool_that_is_nowhere_fails_once_the_map_is_newest() {
    let mut w = world();
    w.submit(9, Ops::new().stat());
    w.submit(9, Ops::new().stat());
    assert_eq!(w.seen(), "newest?");
    w.o.on_newest(w.map.epoch + 1, &mut w.out);
    assert_eq!(w.seen(), "", "there is a newer map to wait for");
    w.publish();
    assert_eq!(w.seen(), "newest?");
    w.o.on_newest(w.map.epoch, &mut w.out);
    assert_eq!(w.seen(), "done #1 -2, done #2 -2");
}

#[test]
fn a_backoff_holds_its_range_until_it_is_lifted() {
    let mut w = world();
    w.write();
    w.seen();
    let pgid = SpgId::whole(PgId::new(1, 0));
    let m = MOSDBackoff { pgid, map_epoch: 6, op: backoff_op::BLOCK, id: 4, begin: HObject::min(), end: HObject::max() };
    assert!(w.o.on_message(0, &m.encode(features::SUPPORTED), w.clock, &mut w.out));
    assert_eq!(w.seen(), "0 kind 61");
    w.read();
    assert_eq!(w.seen(), "");
    w.o.on_message(0, &MOSDBackoff { op: backoff_op::UNBLOCK, ..m.clone() }.encode(features::SUPPORTED), w.clock, &mut w.out);
    assert_eq!(w.seen(), "0 write #1.1, 0 read #2.0");
    // A backoff ends with its connection.
    w.o.on_message(0, &m.encode(features::SUPPORTED), w.clock, &mut w.out);
    w.seen();
    w.reset(0);
    assert_eq!(w.seen(), "open 0, 0 write #1.2, 0 read #2.1");
}

#[test]
fn a_watch_is_pinged_and_follows_its_object() {
    let mut w = world();
    let cookie = w.o.watch(ObjectLocator::pool(1), "obj".into(), 30, w.clock, &mut w.out);
    assert_eq!(w.seen(), format!("open 0, 0 watch:{}.0 #1.0", watch_op::WATCH));
    w.reply(0, 1, 0, 0);
    assert_eq!(w.seen(), "Registered(0)");
    w.later(6);
    assert_eq!(w.seen(), format!("0 watch:{}.0 #2.0", watch_op::PING));
    w.later(6);
    assert_eq!(w.seen(), "", "one ping at a time");
    let pinged = base::Stamp(w.clock.mono.0 - 6_000_000_000);
    w.reply(0, 2, 0, 0);
    let state = w.o.watch_state(cookie).unwrap();
    assert_eq!((state.valid_since, state.generation, state.is_lost), (Some(pinged), 0, false), "since the ping was made that was answered");
    w.reset(0);
    assert_eq!(w.seen(), format!("open 0, 0 watch:{}.1 #3.0", watch_op::RECONNECT));
    w.reply(0, 3, 0, 0);
    w.map.pg_temp.insert(PgId::new(1, 0), vec![2]);
    w.publish();
    assert_eq!(w.seen(), format!("open 2, 2 watch:{}.2 #4.0", watch_op::RECONNECT));
    w.reply(2, 4, 0, -107);
    assert_eq!(w.seen(), "Error(-107)");
    assert!(w.o.watch_state(cookie).is_some_and(|state| state.is_lost && state.generation == 2));
    w.later(60);
    assert_eq!(w.seen(), "", "what is lost is not pinged");
    w.o.unwatch(cookie, w.clock, &mut w.out);
    assert_eq!(w.seen(), format!("2 watch:{}.0 #5.0", watch_op::UNWATCH));
}

#[test]
fn a_notify_ends_when_everybody_answered() {
    let mut w = world();
    let cookie = w.o.notify(ObjectLocator::pool(1), "obj".into(), 10, Bytes::from_static(b"hi"), w.clock, &mut w.out);
    assert_eq!(w.seen(), "open 0, 0 notify #1.0");
    w.reset(0);
    assert_eq!(w.seen(), "open 0, 0 notify #2.0");
    w.reply(0, 2, 0, 0);
    assert_eq!(w.seen(), "");
    let done = messages::MWatchNotify { cookie, event: 2, return_code: -110, ..Default::default() };
    w.o.on_message(0, &done.encode(0), w.clock, &mut w.out);
    assert_eq!(w.seen(), "NotifyDone { result: -110, answers: b\"\" }");
}

/// The OSD says that a notify without watchers is over before it says the notify's number: the number of an earlier try is not waited for.
#[test]
fn a_notify_that_is_sent_again_ends_under_its_new_number() {
    let mut w = world();
    let cookie = w.o.notify(ObjectLocator::pool(1), "obj".into(), 10, Bytes::from_static(b"hi"), w.clock, &mut w.out);
    assert_eq!(w.seen(), "open 0, 0 notify #1.0");
    w.reply_with(0, 1, 7_u64.to_bytes(0));
    w.reset(0);
    assert_eq!(w.seen(), "open 0, 0 notify #2.0");
    let done = messages::MWatchNotify { cookie, event: 2, notify_id: 8, ..Default::default() };
    w.o.on_message(0, &done.encode(0), w.clock, &mut w.out);
    assert_eq!(w.seen(), "NotifyDone { result: 0, answers: b\"\" }");
    w.reply_with(0, 2, 8_u64.to_bytes(0));
    assert_eq!(w.seen(), "", "what is over has no reply");
}

/// An OSD that was down in a map and is up in the next, at the same address, has dropped what it held: a message with both must not hide that.
#[test]
fn an_osd_that_was_down_between_two_maps_of_one_message_gets_its_requests_again() {
    let mut w = world();
    w.write();
    w.seen();
    let first = w.o.epoch() + 1;
    let mut message = MOSDMap { newest: first + 1, trim_lower_bound: 1, ..MOSDMap::default() };
    for (epoch, up) in [(first, false), (first + 1, true)] {
        let mut inc = Incremental { epoch, ..Incremental::default() };
        match up {
            false => drop(inc.new_state.insert(0, osd_state::UP)),
            true => {
                for addrs in [&mut inc.new_up_client, &mut inc.new_up_cluster, &mut inc.new_hb_back_up, &mut inc.new_hb_front_up] {
                    addrs.insert(0, addr(0, 1));
                }
            }
        }
        message.incrementals.insert(epoch, inc.to_bytes(features::SUPPORTED));
    }
    let raw = message.encode(features::SUPPORTED);
    w.o.on_map_message(&raw, w.clock, &mut w.out);
    assert_eq!(w.o.epoch(), first + 1);
    let seen = w.seen();
    assert!(seen.contains("close 0") && seen.contains("open 0, 0 write #1.1"), "{seen}");
}

#[test]
fn balanced_reads_go_to_all_members_and_to_the_primary_in_the_end() {
    let mut w = world();
    w.map.pg_temp.insert(PgId::new(1, 0), vec![0, 1, 2]);
    w.publish();
    w.seen();
    let submit = |w: &mut World, ops: Ops, flags: u32| {
        let submit = Submit { flags, ..Submit::new(ObjectLocator::pool(1), "obj".into(), ops) };
        let tid = w.o.submit(submit, w.clock, &mut w.out);
        let sent = w.out.iter().filter_map(|e| if let Effect::Send { osd, .. } = e { Some(*osd) } else { None }).last();
        w.out.clear();
        (tid, sent.expect("it is sent"))
    };
    let balanced = osd_flag::BALANCE_READS;
    let reads: Vec<(u64, OsdId)> = (0..60).map(|_| submit(&mut w, Ops::new().read(0, 1), balanced)).collect();
    for osd in 0..3 {
        let share = reads.iter().filter(|(_, at)| *at == osd).count();
        assert!((8..=40).contains(&share), "osd.{osd} gets {share} of 60");
    }
    assert!((0..20).all(|_| submit(&mut w, Ops::new().write(0, Bytes::from_static(b"x")), balanced).1 == 0), "writes are the primary's");
    // Its answer counts, and nobody else's; a replica that can't serve it sends the client to the primary.
    let (tid, _) = *reads.iter().find(|(_, at)| *at == 2).expect("there are some");
    w.reply(0, tid, 0, 0);
    assert_eq!(w.seen(), "");
    w.reply(2, tid, 0, -errno::EAGAIN);
    assert_eq!(w.seen(), format!("0 read #{tid}.1"));
    w.reply(2, tid, 1, 0);
    assert_eq!(w.seen(), "");
    w.reply(0, tid, 1, 0);
    assert_eq!(w.seen(), format!("done #{tid} 0"));
    // What a replica that is lost was asked goes out again.
    let (tid, _) = *reads.iter().find(|(_, at)| *at == 1).expect("there are some");
    w.reset(1);
    assert!(w.seen().contains(&format!("1 read #{tid}.1")));
}
