//! Requests that wait, and what they hold meanwhile: a connection's end takes them away, they keep nothing from others, and those that wait for what
//! will never come end their connection.

use crate::world::{Kind, POOL, World, addr, received};
use base::{Account, Budget, BudgetStats, Permit, Turn};
use bytes::Bytes;
use cephx::caps::OsdCap;
use messages::{InOp, MCommand, MCommandReply, MOSDAlive, MOSDOp, MOSDOpReply, Message};
use osd_core::daemon::Network;
use osd_core::planted::{Bug, plant};
use osd_core::{ConnId, Effect, Event, Peer};
use std::rc::Rc;
use std::task::Waker;
use types::errno::EPERM;
use types::osd_op::OpCode;
use types::{EntityName, OsdOp, features};

const MIB: u64 = 1 << 20;
/// A map that nobody has.
const NEVER: u32 = 4_000_000_000;

/// Connections behind one budget.
struct Gate {
    budget: Rc<Budget>,
    account: Rc<Account>,
}
impl Gate {
    fn new() -> Self {
        let budget = Budget::new(64 * MIB, 8);
        Self { account: budget.account(), budget }
    }
    fn permit(&self, bytes: u64) -> Option<Permit> {
        let mut permit = self.budget.reserve(bytes, &self.account, &mut Turn::default(), Waker::noop()).ok()?;
        permit.admit(false, &mut Turn::default(), Waker::noop()).ok()?;
        Some(permit)
    }
    /// A request with a permit, if it is admitted.
    fn send(&self, w: &mut World, conn: u64, m: &MOSDOp) -> bool {
        let raw = received(&m.encode(features::SUPPORTED));
        let Some(permit) = self.permit(raw.len() as u64) else { return false };
        w.feed(Event::Request { conn: ConnId(conn), msg: raw, permit: Some(permit) });
        true
    }
    fn assert_holds_nothing(&self) -> BudgetStats {
        let now = self.budget.stats();
        assert_eq!((now.bytes, now.messages, now.answers), (0, 0, 0), "others have all of the budget");
        now
    }
}

fn read(w: &mut World, name: &str) -> MOSDOp {
    w.request(name, vec![InOp::new(OsdOp::range(OpCode::READ, 0, 4 * MIB), Bytes::new())])
}
fn ops_in_flight(w: &mut World) -> u64 {
    let msg = MCommand { tid: 1, cmd: vec![r#"{"prefix": "dump_ops_in_flight"}"#.into()], ..MCommand::default() };
    w.feed(Event::Message { conn: ConnId(1), msg: msg.encode(features::SUPPORTED) });
    let told: serde_json::Value = serde_json::from_slice(&w.sent::<MCommandReply>(1).remove(0).data).unwrap();
    told["num_ops"].as_u64().unwrap()
}
fn is_closed(w: &World, conn: u64) -> bool {
    w.out.iter().any(|e| matches!(e, Effect::Close(c) if c.0 == conn))
}

fn no_map() {
    let mut w = World::new(Kind::Memory, 8);
    w.write("a", b"here");
    w.connect(2, 4002);
    w.connect(3, 4003);
    let gate = Gate::new();
    for n in 0..40 {
        let m = MOSDOp { map_epoch: if n % 2 == 0 { NEVER } else { w.map.epoch }, ..read(&mut w, "a") };
        assert!(gate.send(&mut w, 2, &m), "request {n} of 40 finds a slot");
        gate.assert_holds_nothing();
    }
    assert!(gate.budget.stats().aside > 0);
    // A map that is on its way: its request is not given up.
    let coming = MOSDOp { map_epoch: w.map.epoch + 1, ..read(&mut w, "a") };
    assert!(gate.send(&mut w, 3, &coming));
    assert_eq!(ops_in_flight(&mut w), 41, "what waits is shown");
    // Another client's is answered beside them.
    let m = read(&mut w, "a");
    assert!(gate.send(&mut w, 1, &m));
    assert_eq!(w.sent::<MOSDOpReply>(1).len(), 1);
    // The monitors are asked, and don't have that map.
    w.out.clear();
    w.feed(Event::Tick);
    assert!(!w.out.iter().any(|e| matches!(e, Effect::AskMapVersions)), "maps take a while");
    w.now_s += 6;
    w.feed(Event::Tick);
    assert!(w.out.iter().any(|e| matches!(e, Effect::AskMapVersions)));
    let newest = w.map.epoch + 1;
    w.feed(Event::MapVersions { oldest: 1, newest });
    assert!(is_closed(&w, 2) && !is_closed(&w, 3));
    assert!(w.out.iter().any(|e| matches!(e, Effect::Log { text, .. } if text.contains("4000000000"))));
    w.feed(Event::Reset { conn: ConnId(2) });
    w.publish(|_| ());
    assert_eq!(w.sent::<MOSDOpReply>(3).iter().map(|r| r.tid).collect::<Vec<_>>(), [coming.tid]);
    assert_eq!(gate.assert_holds_nothing().aside, 0);
}

#[test]
fn a_request_by_a_map_that_there_is_not_holds_nothing_and_ends_its_connection() {
    no_map();
}

/// One whose capability allows nothing has its answer at once, whatever else its requests say.
fn powerless() {
    let mut w = World::new(Kind::Memory, 8);
    let peer = Peer {
        name: EntityName::client(4002),
        entity: "client.nobody".into(),
        global_id: 4002,
        features: features::SUPPORTED,
        supported: features::SUPPORTED,
        addr: addr(0, 4002),
        from: addr(0, 4002),
        network: Network::Public,
        cap: Some(OsdCap::default()),
    };
    w.feed(Event::Connected { conn: ConnId(2), peer });
    let gate = Gate::new();
    for epoch in [NEVER, w.map.epoch] {
        let m = MOSDOp { map_epoch: epoch, ..read(&mut w, "a") };
        assert!(gate.send(&mut w, 2, &m));
        assert_eq!(w.sent::<MOSDOpReply>(2).iter().map(|r| (r.tid, r.result)).collect::<Vec<_>>(), [(m.tid, -EPERM)]);
        assert_eq!(gate.assert_holds_nothing().aside, 0);
    }
}

#[test]
fn a_client_without_any_capability_is_refused_at_once() {
    powerless();
}

/// Requests wait for a group that peers, or that is not made; they hold nothing, and go with their connection.
fn groups() {
    let mut w = World::new(Kind::Memory, 1);
    w.connect(2, 4002);
    w.write("a", b"here");
    // Another interval, of which the monitor does not hear.
    w.publish(|m| m.pools.get_mut(&POOL).unwrap().size = 2);
    let (kept, gone) = (Gate::new(), Gate::new());
    let mut tids = Vec::new();
    for n in 0..20 {
        let m = read(&mut w, "a");
        let (gate, conn) = if n % 2 == 0 { (&kept, 1) } else { (&gone, 2) };
        assert!(gate.send(&mut w, conn, &m), "request {n} of 20 finds a slot");
        gate.assert_holds_nothing();
        tids.extend((conn == 1).then_some(m.tid));
    }
    assert_eq!(ops_in_flight(&mut w), 20);
    w.feed(Event::Reset { conn: ConnId(2) });
    assert_eq!(gone.assert_holds_nothing().aside, 0);
    let want = w.sent_to_mon::<MOSDAlive>().iter().map(|m| m.want).max().expect("it waits for the monitor");
    w.publish(|m| m.osd_info[0].up_thru = want);
    w.turn_end();
    assert_eq!(w.sent::<MOSDOpReply>(1).iter().map(|r| r.tid).collect::<Vec<_>>(), tids);
    assert_eq!(kept.assert_holds_nothing().aside, 0);
}

#[test]
fn what_waits_for_a_group_holds_nothing_and_goes_with_its_connection() {
    groups();
}

#[test]
fn broken_promises_about_what_waits_are_noticed() {
    for (bug, case) in
        [(Bug::HoldWaiting, no_map as fn()), (Bug::HoldWaiting, groups), (Bug::WaitForNoMap, no_map), (Bug::HoldPowerless, powerless)]
    {
        plant(Some(bug));
        let result = std::panic::catch_unwind(case);
        plant(None);
        assert!(result.is_err(), "{bug:?}");
    }
}
