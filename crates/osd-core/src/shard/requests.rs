//! Requests on their way to their groups: decoded, gathered while a batch is read, and put where they wait for a map or for their group.

use super::Shard;
use crate::event::{ConnId, Effect, Level, Peer};
use crate::request::{ClientOp, answer_bytes, error_reply};
use crate::session::Session;
use crate::shared::EventCx;
use base::Permit;
use messages::{MOSDOp, Message, RawMessage};
use std::collections::VecDeque;
use types::{CollId, EntityKind, OsdId};

/// Requests that wait for maps or groups; more of them are dropped, and their clients send them again with the next map.
const WAITING_MAX: usize = 4096;
/// Requests of one turn that are looked for in the store together.
const ARRIVED_MAX: usize = 64;
const _: () = assert!(ARRIVED_MAX <= WAITING_MAX);

impl Shard {
    pub(super) fn connected(&mut self, conn: ConnId, peer: Peer) {
        self.sh.sessions.insert(conn, Session::new(peer));
    }

    pub(super) fn reset(&mut self, conn: ConnId, cx: &mut EventCx<'_>) {
        if let Some(session) = self.sh.sessions.remove(&conn)
            && session.peer.name.kind == EntityKind::OSD
        {
            self.copy_reset(session.peer.name.num as OsdId, cx);
        }
        for pg in self.pgs.iter_mut().flatten() {
            pg.reset(conn, cx.clock.mono);
        }
        self.behind.requests.retain(|op| op.conn != conn);
        self.waiting_map.retain(|op| op.conn != conn);
        self.waiting_pg.values_mut().for_each(|ops| ops.retain(|op| op.conn != conn));
    }

    /// A request: decoded, and taken with others of this turn.
    pub(super) fn client_op(&mut self, conn: ConnId, raw: &RawMessage, mut permit: Option<Permit>, cx: &mut EventCx<'_>) {
        let Some(session) = self.sh.sessions.get_mut(&conn) else { return };
        let msg = match MOSDOp::decode(raw) {
            Ok(msg) => msg,
            Err(error) => {
                let text = format!("{}: a request that can't be read: {error}", session.peer.name);
                cx.out.push(Effect::Log { level: Level::Warn, text });
                cx.out.push(Effect::Close(conn));
                return;
            }
        };
        let reqid = session.reqid_of(&msg);
        let bytes_in = raw.data.iter().map(|d| d.len() as u64).sum();
        session.map_epoch = session.map_epoch.max(msg.map_epoch);
        let newest = self.sh.map.epoch;
        if session.map_epoch < newest && newest > 0 {
            // A client that lags behind gets the maps with the answer.
            if let Some((maps, reached)) = self.sh.maps.read().message(self.sh.cluster_fsid, session.map_epoch, newest) {
                session.map_epoch = reached;
                cx.out.push(Effect::Send { conn, msg: maps });
            }
        }
        if let Some(permit) = &mut permit {
            permit.expect_answer(answer_bytes(&msg));
        }
        let (received, waits_for) = (cx.clock.mono, "");
        let op = Box::new(ClientOp {
            conn,
            msg,
            reqid,
            info: None,
            received,
            bytes_in,
            waits_for,
            fetches: None,
            unanswered: None,
            was_inspected: false,
            passes: Default::default(),
            permit,
        });
        self.arrived.push(op);
        if self.arrived.len() == ARRIVED_MAX {
            self.take_arrived(cx);
        }
    }
    /// The requests that have come go to their groups, in order. Before anything else that happens, so it is not seen that they were gathered.
    pub(super) fn take_arrived(&mut self, cx: &mut EventCx<'_>) {
        if self.arrived.is_empty() {
            return;
        }
        let mut arrived = std::mem::take(&mut self.arrived);
        if arrived.len() > 1 {
            self.sh.store.soon(&mut arrived.iter().map(|op| (CollId::Pg(op.msg.pgid), &op.msg.hobj)));
        }
        for op in arrived.drain(..) {
            self.place(op, cx);
        }
        self.arrived = arrived;
    }

    /// Gives a request to its group, or puts it where it waits.
    pub(super) fn place(&mut self, mut op: Box<ClientOp>, cx: &mut EventCx<'_>) {
        let ahead = op.msg.map_epoch > self.sh.map.epoch || !self.sh.serves;
        if ahead || (!self.waiting_map.is_empty() && self.waiting_map.iter().any(|w| w.conn == op.conn)) {
            if self.waiting_map.len() < WAITING_MAX {
                self.sh.wants_maps = true;
                op.waits_for = "waiting for a map";
                self.waiting_map.push_back(op);
            }
            return;
        }
        if self.awaits_map(op.msg.pgid) {
            return self.hold_request(op);
        }
        let Some(slot) = self.index.get(&op.msg.pgid) else { return self.no_such_pg(op, cx) };
        let pg = self.pgs[*slot as usize].as_mut().expect("the index names groups that are here");
        pg.client_op(op, &mut cx.with(&mut self.sh));
    }

    /// A group that is ours by the map is being created; any other isn't our business, and the client finds out by the next map.
    fn no_such_pg(&mut self, mut op: Box<ClientOp>, cx: &mut EventCx<'_>) {
        let pgid = op.msg.pgid;
        let ours = self.sh.map.pool(pgid.pgid.pool).is_some_and(|p| pgid.pgid.seed < p.pg_num)
            && self.sh.map.pg_to_up_acting(pgid.pgid, &mut self.placement).acting_primary == self.sh.whoami;
        if ours && self.sh.map.pool(pgid.pgid.pool).is_some_and(|p| p.is_erasure()) {
            // No group of such a pool is made here: the client that asks is told so, rather than left waiting.
            let msg = error_reply(&op.msg, -types::errno::EOPNOTSUPP, self.sh.map.epoch, Default::default(), 0, None);
            cx.with(&mut self.sh).send(op.conn, msg);
            return;
        }
        let waiting: usize = self.waiting_pg.values().map(VecDeque::len).sum();
        if ours && waiting < WAITING_MAX {
            op.waits_for = "waiting for the group's creation";
            self.waiting_pg.entry(pgid).or_default().push_back(op);
        }
    }

    /// After maps or groups came: what waited for them goes on.
    pub(super) fn replay_waiting(&mut self, cx: &mut EventCx<'_>) {
        if self.sh.serves {
            self.replay_peers(cx);
            for op in std::mem::take(&mut self.waiting_map) {
                self.place(op, cx);
            }
        }
        for (_, ops) in std::mem::take(&mut self.waiting_pg) {
            for op in ops {
                self.place(op, cx);
            }
        }
    }
}
