//! Links that are real `msgr` connections: in a share of the seeds each link of [`Net`] is two of them, joined by a byte pipe.
//!
//! ```text
//!   dial ─► Syn ─────► accept ─► Connected ─► banners, handshake, session        (Refused: nothing listens there)
//!   send ─► Connection::send ─► bytes ─► pieces of any size, each with its delay ─► Connection::next ─► Deliver
//!   cut  ─► of what is under way both ways a part arrives, cut at any byte; each end notices by itself, one of them perhaps late
//! ```
//! Framing, handshakes, replay, acknowledgements, races of two dials and resets are [`msgr::Connection`]'s. What a daemon's or a client's messenger
//! (crate `net`) does around it is a model here, in [`drive`]: which connection a peer's address means, dialling, pauses between dials, the time that a
//! handshake may take, the timer of acknowledgements, and what the layers above hear. [`witness`] checks what lossless sessions promise.
//!
//! Absent: a socket that takes only a part of what it is given, budgets of clients, memory of its own for large data, tickets: keys are the plan's.

mod auth;
mod drive;
mod pipe;
pub(crate) mod witness;

use crate::SEC;
use crate::monitor::Who;
use crate::net::{Life, Link, LinkId, Net, Port, Proc, What};
use crate::plan::Wire;
use bytes::BytesMut;
use messages::RawMessage;
use msgr::{Connection, Local, Policy, State};
use pipe::Socket;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use types::{EntityAddr, EntityAddrVec, EntityKind};
use witness::Witness;

pub type SocketId = u64;

/// Something that happens below the processes.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A dial reaches the machine that it is for.
    Syn(SocketId),
    /// The dialling end hears that its socket is there, or that nothing listens.
    Connected(SocketId),
    Refused(SocketId),
    /// The next piece comes to this side of a socket.
    Arrives(SocketId, usize),
    /// The pause before a dial is over. As the two below, only if the connection still has the transport that it had.
    Dial(LinkId, u64),
    /// The time for a dial or a handshake is over.
    Deadline(LinkId, u64),
    /// What was received is to be acknowledged.
    Ack(LinkId, u64),
}

/// One end of a session.
struct Conn {
    me: Life,
    port: Port,
    core: Connection,
    /// What came and is not understood yet.
    buf: BytesMut,
    socket: Option<(SocketId, usize)>,
    /// Counts its transports.
    transport: u64,
    /// Dials that failed in a row.
    attempts: u32,
    /// The process knows it.
    announced: bool,
    ack_is_due: bool,
}

/// All connections of one network of a process.
struct Messenger {
    local: Rc<Local>,
    /// Those that are found by their peer's address: what was dialled, and lossless ones.
    by_addr: BTreeMap<String, LinkId>,
}

/// See the module.
#[derive(Default)]
pub struct Wires {
    mode: Wire,
    messengers: BTreeMap<(Life, Port), Messenger>,
    /// Who listens where, whatever its nonce: a process that starts again may have the port of its last life.
    ports: BTreeMap<String, (Life, Port)>,
    conns: BTreeMap<LinkId, Conn>,
    sockets: BTreeMap<SocketId, Socket>,
    last_socket: SocketId,
    /// What these have to send goes out before the next event.
    dirty: BTreeSet<LinkId>,
    witness: Witness,
    /// What of the protocol was seen: states, decisions, what cuts led to, errors.
    pub seen: BTreeSet<String>,
}

impl Wires {
    pub fn new(mode: Wire) -> Self {
        Self { mode, ..Self::default() }
    }
    pub fn are_real(&self) -> bool {
        self.mode != Wire::Messages
    }
    /// Connections of one of a process's networks, half-open ones, too.
    pub fn of(&self, life: Life, port: Port) -> Vec<LinkId> {
        self.conns.iter().filter(|(_, c)| (c.me, c.port) == (life, port)).map(|(id, _)| *id).collect()
    }
}

fn host_and_port(addr: &EntityAddr) -> String {
    addr.socket().map_or_else(String::new, |at| at.to_string())
}
/// What a connection is found by.
fn address(addrs: &EntityAddrVec) -> String {
    addrs.msgr2().unwrap_or_else(|| addrs.front()).to_string()
}

/// What processes do, where links are real; [`Net`]'s methods of the same names call these.
impl Net {
    /// A process has a messenger; others can dial it if it `listens`.
    pub(super) fn wire_messenger(&mut self, who: &Who, life: Life, port: Port, listens: bool) {
        let local = Rc::new(auth::local(who, life, port, self.wires.mode, self.rng.u64()));
        self.wires.messengers.insert((life, port), Messenger { local, by_addr: BTreeMap::new() });
        if listens {
            self.wires.ports.insert(host_and_port(&who.addrs.front()), (life, port));
        }
    }
    /// As `net::Messenger::connect`: the connection that there is, or one that is dialled from now on.
    pub(super) fn wire_dial(&mut self, me: Life, port: Port, kind: EntityKind, addrs: &EntityAddrVec, lossless: bool) -> LinkId {
        let key = address(addrs);
        let messenger = &self.wires.messengers[&(me, port)];
        if let Some(conn) = messenger.by_addr.get(&key) {
            return *conn;
        }
        let policy = if lossless { Policy::lossless_peer() } else { Policy::lossy_client() };
        let core = Connection::dial(messenger.local.clone(), policy, kind, addrs.clone());
        let conn = self.new_link();
        self.add_conn(conn, me, port, core, true);
        self.wires.messengers.get_mut(&(me, port)).expect("it was there").by_addr.insert(key, conn);
        self.dial_now(conn);
        conn
    }
    fn add_conn(&mut self, conn: LinkId, me: Life, port: Port, core: Connection, announced: bool) {
        let new = Conn { me, port, core, buf: BytesMut::new(), socket: None, transport: 0, attempts: 0, announced, ack_is_due: false };
        self.wires.conns.insert(conn, new);
    }
    pub(super) fn wire_send(&mut self, conn: LinkId, msg: RawMessage) {
        let Some(c) = self.wires.conns.get_mut(&conn) else { return };
        if !c.core.policy().lossy {
            self.wires.witness.sent(self.now_ns, (c.me, c.port), &address(&c.core.peer().addrs), &msg);
        }
        c.core.send(msg);
        self.wires.dirty.insert(conn);
        if c.core.state() == State::Standby {
            c.core.wake();
            self.dial_now(conn);
        }
    }
    /// A process ends a session; what is queued is dropped.
    pub(super) fn wire_close(&mut self, conn: LinkId) {
        self.remove_conn(conn);
    }
    /// The socket below a session is cut; neither end has noticed yet.
    pub(super) fn wire_cut(&mut self, conn: LinkId) {
        if let Some((socket, _)) = self.wires.conns.get(&conn).and_then(|c| c.socket) {
            self.cut_socket(socket);
        }
    }
    pub(super) fn wire_died(&mut self, life: Life) {
        self.wires.ports.retain(|_, (l, _)| *l != life);
        let gone: Vec<LinkId> = self.wires.conns.iter().filter(|(_, c)| c.me == life).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|conn| self.remove_conn(conn));
        self.wires.messengers.retain(|(l, _), _| *l != life);
    }
    /// Asks for a sign of life.
    pub(super) fn wire_keepalive(&mut self, conn: LinkId, wall_ns: u64) {
        if let Some(c) = self.wires.conns.get_mut(&conn) {
            c.core.keepalive((wall_ns / 1_000_000_000) as u32, (wall_ns % 1_000_000_000) as u32);
            self.wires.dirty.insert(conn);
        }
    }
    pub(super) fn wire_keepalive_acked(&self, conn: LinkId) -> Option<u64> {
        let (sec, nsec) = self.wires.conns.get(&conn)?.core.last_keepalive_ack()?;
        Some(u64::from(sec) * 1_000_000_000 + u64::from(nsec))
    }
    /// Who is at the other end, as its handshake says.
    pub(super) fn wire_who(&self, conn: LinkId) -> Option<Who> {
        let peer = self.wires.conns.get(&conn)?.core.peer();
        let dialled = types::EntityText::new(peer.name.kind, peer.name.num.to_string());
        // Only the end that accepted knows how the other authenticated.
        let entity = if peer.auth_name.id.is_empty() { dialled } else { peer.auth_name.clone() };
        Some(Who { entity, global_id: peer.global_id, addrs: peer.addrs.clone() })
    }
    /// The process that an event is for. `None`: there is none.
    pub(super) fn wire_target(&self, event: &Event) -> Option<Life> {
        let conn = match event {
            Event::Syn(socket) => {
                let socket = self.wires.sockets.get(socket)?;
                return self.wires.ports.get(&host_and_port(&socket.target)).map(|(life, _)| *life);
            }
            Event::Connected(socket) | Event::Refused(socket) => self.wires.sockets.get(socket)?.ends[0]?,
            Event::Arrives(socket, side) => self.wires.sockets.get(socket)?.ends[*side]?,
            Event::Dial(conn, _) | Event::Deadline(conn, _) | Event::Ack(conn, _) => *conn,
        };
        self.wires.conns.get(&conn).map(|c| c.me)
    }
    /// What no process is there for.
    pub(super) fn wire_nowhere(&mut self, event: Event) {
        if let Event::Syn(id) = event
            && let Some(socket) = self.wires.sockets.get(&id)
        {
            let (a, b) = (socket.procs[0], socket.procs[1]);
            let at_ns = self.arrival(b, a, 0);
            self.at(at_ns, What::Wire(Event::Refused(id)));
        }
    }
    /// Sessions of OSDs with each other that are at rest keep no message for long.
    ///
    /// # Errors
    /// The text of one that does, or of a promise of a session that was broken before.
    pub fn look_at_wires(&self) -> Result<(), String> {
        for (conn, c) in self.wires.conns.iter().filter(|(_, c)| c.core.state() == State::Ready && !c.core.policy().lossy) {
            let peer = address(&c.core.peer().addrs);
            let other = self.links.get(conn).map_or(Proc::Mon, |l| if l.dialer == c.me { l.server.0 } else { l.dialer.0 });
            if self.held_until(c.me.0, other).max(self.held_until(other, c.me.0)) + 5 * SEC > self.now_ns {
                continue;
            }
            let recent = self.wires.witness.recent_bytes(self.now_ns, (c.me, c.port), &peer);
            let kept = c.core.kept_bytes();
            if kept > recent {
                return Err(format!("wire: {:?} keeps {kept} bytes of messages to {peer}, and has sent {recent} lately", c.me.0));
            }
        }
        Ok(())
    }
    /// The two ends by their roles, as the link's last handshake had them.
    fn set_link(&mut self, conn: LinkId, dialer: Life, server: Life, port: Port) {
        self.links.insert(conn, Link { dialer, server, port, last_ns: [0, 0] });
    }
}
