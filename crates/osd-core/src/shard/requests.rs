//! Requests on their way to their groups: decoded, gathered while a batch is read, and put where they wait for a map or for their group.

use super::Shard;
use super::waiting::AHEAD_MAX;
use crate::event::{ConnId, Effect, Level, Peer};
use crate::map_cache::Reader;
use crate::planted::{Bug, planted};
use crate::request::{ClientOp, answer_bytes, error_reply};
use crate::session::Session;
use crate::shared::EventCx;
use base::Permit;
use messages::{MOSDOp, Message, RawMessage};
use types::errno::{EAGAIN, EPERM};
use types::osd_op::osd_flag;
use types::{CollId, EVersion, EntityKind, Epoch, OsdId};

/// Requests of one turn that are looked for in the store together.
const ARRIVED_MAX: usize = 64;

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
        self.behind.requests.remove(conn);
        self.waiting_map.remove(conn);
        self.waiting_pg.values_mut().for_each(|ops| ops.remove(conn));
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
        if session.is_powerless && !planted(Bug::HoldPowerless) {
            // Whatever it waited for, this would be the answer.
            let reply = error_reply(&msg, -EPERM, self.sh.map.epoch, EVersion::ZERO, 0, None);
            cx.out.push(Effect::Send { conn, msg: reply });
            return;
        }
        let reqid = session.reqid_of(&msg);
        let bytes_in = raw.data.iter().map(|d| d.len() as u64).sum();
        session.map_epoch = session.map_epoch.max(msg.map_epoch);
        let newest = self.sh.map.epoch;
        if session.map_epoch < newest && newest > 0 {
            // A client that lags behind gets the maps with the answer.
            let reader = Reader::of(session.peer.features, &self.sh.map);
            if let Some((maps, reached)) = self.sh.maps.read().message(self.sh.cluster_fsid, session.map_epoch, newest, reader) {
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
    pub(super) fn place(&mut self, op: Box<ClientOp>, cx: &mut EventCx<'_>) {
        let ahead = op.msg.map_epoch > self.sh.map.epoch && !planted(Bug::ServeByOlderMap) || !self.sh.serves;
        if ahead || self.waiting_map.has(op.conn) {
            self.sh.wishes.wants_maps = true;
            let conn = op.conn;
            if !self.waiting_map.push(op, "waiting for a map") {
                self.crowds(conn, cx);
            }
            return;
        }
        if self.awaits_map(op.msg.pgid) {
            return self.hold_request(op, cx);
        }
        let Some(slot) = self.index.get(&op.msg.pgid) else { return self.no_such_pg(op, cx) };
        let pg = self.pgs[*slot as usize].as_mut().expect("the index names groups that are here");
        pg.client_op(op, &mut cx.with(&mut self.sh));
    }

    /// A group that is ours by the map is being created; any other isn't our business, and the client finds out by the next map.
    fn no_such_pg(&mut self, op: Box<ClientOp>, cx: &mut EventCx<'_>) {
        let pgid = op.msg.pgid;
        let is_there = self.sh.map.pool(pgid.pgid.pool).is_some_and(|p| pgid.pgid.seed < p.pg_num);
        let set = self.sh.map.pg_to_up_acting(pgid.pgid, &mut self.placement);
        let ours = is_there && set.acting_primary == self.sh.whoami;
        let is_balanced = op.msg.flags & (osd_flag::BALANCE_READS | osd_flag::LOCALIZE_READS) != 0;
        if is_there && !ours && is_balanced && set.acting.contains(&self.sh.whoami) {
            // The primary has not made the group known here yet. No later map would send the request anywhere else.
            let msg = error_reply(&op.msg, -EAGAIN, self.sh.map.epoch, Default::default(), 0, None);
            cx.with(&mut self.sh).send(op.conn, msg);
            return;
        }
        if ours && self.sh.map.pool(pgid.pgid.pool).is_some_and(|p| p.is_erasure()) {
            // No group of such a pool is made here: the client that asks is told so, rather than left waiting.
            let msg = error_reply(&op.msg, -types::errno::EOPNOTSUPP, self.sh.map.epoch, Default::default(), 0, None);
            cx.with(&mut self.sh).send(op.conn, msg);
            return;
        }
        let conn = op.conn;
        if ours && !self.waiting_pg.entry(pgid).or_default().push(op, "waiting for the group's creation") {
            self.crowds(conn, cx);
        }
    }
    /// More requests of that connection wait than one may have.
    pub(super) fn crowds(&mut self, conn: ConnId, cx: &mut EventCx<'_>) {
        self.end_connection(conn, "too many of its requests wait; it is cut, and may send them again", cx);
    }
    fn end_connection(&mut self, conn: ConnId, why: &str, cx: &mut EventCx<'_>) {
        let Some(session) = self.sh.sessions.get(&conn) else { return };
        let text = format!("{} at {}: {why}", session.peer.entity, session.peer.addr);
        cx.out.push(Effect::Log { level: Level::Warn, text });
        cx.out.push(Effect::Close(conn));
    }

    /// Some requests wait for a map longer than maps take: the monitors are asked whether there is one.
    pub(super) fn look_up_epochs(&mut self, cx: &mut EventCx<'_>) {
        let now = cx.clock.mono;
        if self.waiting_map.is_empty() || !self.sh.serves || self.epochs_asked.is_some_and(|at| now.since(at) < AHEAD_MAX) {
            return;
        }
        if self.waiting_map.is_any_since(now - AHEAD_MAX) {
            self.epochs_asked = Some(now);
            cx.out.push(Effect::AskMapVersions);
        }
    }
    /// The monitors' newest map. Those who asked for a later one so long ago that it would be here have made it up.
    pub(super) fn newest_map(&mut self, newest: Epoch, cx: &mut EventCx<'_>) {
        let Some(asked) = self.epochs_asked.take() else { return };
        for (conn, epoch) in self.waiting_map.of_no_map(newest, asked - AHEAD_MAX) {
            let why = format!("a request by map {epoch}, and the monitors' newest is {newest}: it is cut");
            self.end_connection(conn, &why, cx);
        }
    }

    /// After maps or groups came: what waited for them goes on.
    pub(super) fn replay_waiting(&mut self, cx: &mut EventCx<'_>) {
        if self.sh.serves {
            self.replay_peers(cx);
            for op in self.waiting_map.take_all() {
                self.place(op, cx);
            }
        }
        for mut ops in std::mem::take(&mut self.waiting_pg).into_values() {
            for op in ops.take_all() {
                self.place(op, cx);
            }
        }
    }
}
