//! What a messenger does around its connections: a model of crate `net`'s task a connection, without its sockets and timers.

use super::{Conn, Event, address, host_and_port};
use crate::net::{Life, LinkId, Net, Proc, What};
use crate::{MS, SEC};
use msgr::{Connection, Decision, Fault, MsgrError, State, Up};
use std::net::{IpAddr, Ipv4Addr};
use types::{AddrType, EntityAddr};

use super::pipe::Socket;

/// `net::Config::handshake_timeout`: for a dial, and then for the handshake.
const HANDSHAKE_NS: u64 = 10 * SEC;
/// A session that has nothing to say acknowledges after this.
const ACK_NS: u64 = 50 * MS;

impl Net {
    fn conn(&mut self, conn: LinkId) -> Option<&mut Conn> {
        self.wires.conns.get_mut(&conn)
    }
    fn saw(&mut self, what: String) {
        if !self.wires.seen.contains(&what) {
            self.wires.seen.insert(what);
        }
    }
    /// Another transport from now on, or none: timers of the last one mean nothing.
    fn next_transport(&mut self, conn: LinkId, ends_in_ns: Option<u64>) {
        let c = self.conn(conn).expect("it is there");
        c.transport += 1;
        c.ack_is_due = false;
        let deadline = Event::Deadline(conn, c.transport);
        if let Some(in_ns) = ends_in_ns {
            self.after(in_ns, What::Wire(deadline));
        }
    }
    pub(super) fn dial_now(&mut self, conn: LinkId) {
        let c = self.wires.conns.get(&conn).expect("it is there");
        let (me, target) = (c.me.0, c.core.target());
        let listener = self.wires.ports.get(&host_and_port(&target)).map(|(life, _)| life.0);
        let to = listener.or_else(|| proc_at(&target)).unwrap_or(me);
        self.wires.last_socket += 1;
        let socket = self.wires.last_socket;
        self.wires.sockets.insert(socket, Socket::new(conn, [me, to], target));
        self.conn(conn).expect("it is there").socket = Some((socket, 0));
        self.next_transport(conn, Some(HANDSHAKE_NS));
        let at_ns = self.arrival(me, to, 0);
        self.at(at_ns, What::Wire(Event::Syn(socket)));
    }
    /// Something happens to a process that lives and goes on.
    pub(crate) fn wire_happens(&mut self, event: Event) {
        match event {
            Event::Syn(socket) => self.accept_socket(socket),
            Event::Connected(id) => {
                let Some(conn) = self.wires.sockets.get(&id).and_then(|s| s.ends[0]) else { return };
                self.next_transport(conn, Some(HANDSHAKE_NS));
                self.conn(conn).expect("it has an end").core.start();
                self.wires.dirty.insert(conn);
            }
            Event::Refused(id) => {
                if let Some(conn) = self.wires.sockets.get(&id).and_then(|s| s.ends[0]) {
                    self.lost_transport(conn, true);
                }
            }
            Event::Arrives(id, side) => {
                let Some(socket) = self.wires.sockets.get_mut(&id) else { return };
                let (Some(conn), Some(piece)) = (socket.ends[side], socket.take(side)) else { return };
                match piece {
                    None => self.lost_transport(conn, false),
                    Some(bytes) => {
                        self.conn(conn).expect("it has an end").buf.extend_from_slice(&bytes);
                        self.pump(conn);
                    }
                }
            }
            Event::Dial(conn, transport) => {
                if self.conn(conn).is_some_and(|c| c.transport == transport && c.core.state() == State::Idle) {
                    self.dial_now(conn);
                }
            }
            Event::Deadline(conn, transport) => {
                if self.conn(conn).is_some_and(|c| c.transport == transport && c.core.state() != State::Ready) {
                    self.saw("timeout".into());
                    self.lost_transport(conn, false);
                }
            }
            Event::Ack(conn, transport) => {
                if let Some(c) = self.conn(conn).filter(|c| c.transport == transport) {
                    c.ack_is_due = false;
                    c.core.ack(true);
                    self.wires.dirty.insert(conn);
                }
            }
        }
    }
    fn accept_socket(&mut self, id: u64) {
        let Some(socket) = self.wires.sockets.get(&id) else { return };
        let Some((me, port)) = self.wires.ports.get(&host_and_port(&socket.target)).copied() else { return };
        let Some(dialler) = socket.ends[0] else { return };
        let procs = socket.procs;
        let from = EntityAddr { kind: AddrType::MSGR2, ip: Some(ip_of(procs[0])), port: 40_000 + (id % 20_000) as u16, nonce: 0 };
        let core = Connection::accept(self.wires.messengers[&(me, port)].local.clone(), from);
        let conn = self.new_link();
        self.add_conn(conn, me, port, core, false);
        self.conn(conn).expect("just made").socket = Some((id, 1));
        let socket = self.wires.sockets.get_mut(&id).expect("it was there");
        (socket.ends[1], socket.procs[1]) = (Some(conn), me.0);
        let peer = self.wires.conns[&dialler].me;
        self.set_link(conn, peer, me, port);
        self.set_link(dialler, peer, me, port);
        self.next_transport(conn, Some(HANDSHAKE_NS));
        let at_ns = self.arrival(me.0, procs[0], 0);
        // What the server says first comes behind this.
        self.wires.sockets.get_mut(&id).expect("it was there").comes_behind(0, at_ns);
        self.at(at_ns, What::Wire(Event::Connected(id)));
        self.wires.dirty.insert(conn);
    }
    /// The transport is gone, or is given up.
    fn lost_transport(&mut self, conn: LinkId, is_refused: bool) {
        let c = self.conn(conn).expect("it is there");
        let (me, socket) = (c.me, c.socket.take());
        c.buf.clear();
        if c.core.dialled() && c.core.state() != State::Ready && c.announced {
            c.attempts += 1;
            let attempts = c.attempts;
            self.after(0, What::DialFailed { life: me, link: conn, is_refused, attempts });
        }
        if let Some((socket, side)) = socket {
            self.leave_socket(socket, side);
        }
        self.next_transport(conn, None);
        let c = self.conn(conn).expect("it is there");
        let was = c.core.state();
        let (fault, transport, announced) = (c.core.fault(), c.transport, c.announced);
        match fault {
            Fault::Closed => {
                self.remove_conn(conn);
                if announced {
                    self.after(0, What::Closed { life: me, link: conn });
                }
            }
            Fault::Standby => {}
            Fault::Redial(pause) => self.after(pause.as_nanos() as u64, What::Wire(Event::Dial(conn, transport))),
        }
        self.saw(format!("{was:?} cut"));
        if self.wires.conns.contains_key(&conn) && was == State::Ready {
            self.note(format!("{:?} loses a socket of a session: {fault:?}", me.0));
        }
    }
    /// A connection is over, and its process knows that or does not live.
    pub(super) fn remove_conn(&mut self, conn: LinkId) {
        let Some(mut c) = self.wires.conns.remove(&conn) else { return };
        let link = self.links.remove(&conn);
        if let Some(messenger) = self.wires.messengers.get_mut(&(c.me, c.port)) {
            messenger.by_addr.retain(|_, other| *other != conn);
            if !c.core.policy().lossy {
                let ours = address(&messenger.local.addrs.borrow());
                let peer = link.map(|l| if l.dialer == c.me { l.server } else { l.dialer });
                let back = peer.map(|peer| ((peer, c.port), &*ours));
                self.wires.witness.given_up((c.me, c.port), &address(&c.core.peer().addrs), back);
            }
        }
        c.core.close();
        if let Some((socket, side)) = c.socket {
            self.leave_socket(socket, side);
        }
    }
    /// All that the bytes which are here mean.
    fn pump(&mut self, conn: LinkId) {
        loop {
            let Some(c) = self.conn(conn) else { return };
            let me = c.me;
            match c.core.next(&mut c.buf) {
                Err(error) => {
                    let state = c.core.state();
                    self.saw(format!("{state:?}: {error}"));
                    if !matches!(error, MsgrError::Waiting | MsgrError::Stale | MsgrError::NotUs | MsgrError::WrongPeer) {
                        self.wrong.get_or_insert(format!("wire: {:?} in {state:?}: {error}", me.0));
                    }
                    return self.lost_transport(conn, false);
                }
                Ok(None) => break,
                Ok(Some(Up::Message(msg))) => {
                    if !c.core.policy().lossy {
                        self.witnessed(conn, &msg);
                    }
                    self.after(0, What::Deliver { link: conn, to: me, msg });
                }
                Ok(Some(Up::Ready)) => self.is_ready(conn),
                Ok(Some(Up::RemoteReset)) => {
                    self.saw("remote reset".into());
                    self.note(format!("{:?} hears that its peer has lost their session", me.0));
                    self.gives_way(conn);
                }
                Ok(Some(Up::Identified)) => {
                    if let Some(other) = self.decide(conn) {
                        return self.pump(other);
                    }
                }
            }
        }
        self.wires.dirty.insert(conn);
    }
    /// The end of a link that is not this one's.
    fn peer_of(&self, conn: LinkId, me: Life) -> Option<Life> {
        self.links.get(&conn).map(|l| if l.dialer == me { l.server } else { l.dialer })
    }
    fn own_address(&self, c: &Conn) -> String {
        address(&self.wires.messengers[&(c.me, c.port)].local.addrs.borrow())
    }
    fn witnessed(&mut self, conn: LinkId, msg: &messages::RawMessage) {
        let c = &self.wires.conns[&conn];
        let Some(peer) = self.peer_of(conn, c.me) else { return };
        let (port, ours) = (c.port, self.own_address(c));
        if let Err(why) = self.wires.witness.came((peer, port), &ours, msg) {
            self.wrong.get_or_insert(format!("wire: {why}"));
        }
    }
    /// What this end had sent is dropped by the protocol.
    fn gives_way(&mut self, conn: LinkId) {
        let c = &self.wires.conns[&conn];
        let (me, port, theirs, ours) = (c.me, c.port, address(&c.core.peer().addrs), self.own_address(c));
        let back = self.peer_of(conn, me).map(|peer| ((peer, port), &*ours));
        self.wires.witness.given_up((me, port), &theirs, back);
    }
    fn is_ready(&mut self, conn: LinkId) {
        let c = self.conn(conn).expect("it is pumped");
        (c.attempts, c.announced) = (0, true);
        let (me, port, dialled) = (c.me, c.port, c.core.dialled());
        let Some(peer) = self.peer_of(conn, me) else { return };
        let to = self.links[&conn].port;
        if dialled {
            self.set_link(conn, me, peer, to);
            self.after(0, What::Opened { life: me, link: conn });
        } else {
            self.set_link(conn, peer, me, port);
            self.after(0, What::Open { life: me, link: conn });
        }
    }
    /// As `net::Messenger` does: looks for another connection of the same peer, and lets the cores decide. The other one, if it takes over the transport.
    fn decide(&mut self, conn: LinkId) -> Option<LinkId> {
        let mut new = self.wires.conns.remove(&conn).expect("it is pumped");
        let (me, port, key) = (new.me, new.port, address(&new.core.peer().addrs));
        let existing = self.wires.messengers[&(me, port)].by_addr.get(&key).copied().filter(|other| *other != conn);
        let decision = match existing.and_then(|other| self.wires.conns.get_mut(&other)) {
            Some(other) => new.core.decide(Some(&mut other.core)),
            None => new.core.decide(None),
        };
        self.saw(decision.as_ref().map_or_else(|error| error.to_string(), |decision| format!("{decision:?}")));
        let socket = new.socket;
        let buf = new.buf.split();
        self.wires.conns.insert(conn, new);
        match (decision, existing) {
            (Err(_), _) => {
                self.lost_transport(conn, false);
                return Some(conn);
            }
            (Ok(Decision::TakeOver), Some(other)) => {
                let (socket, side) = socket.expect("a transport has brought it");
                self.wires.sockets.get_mut(&socket).expect("it is there").ends[side] = Some(other);
                let link = self.links.remove(&conn);
                self.wires.conns.remove(&conn);
                let c = self.conn(other).expect("it took over");
                let old = c.socket.replace((socket, side));
                (c.buf, c.attempts) = (buf, 0);
                if let Some((old, side)) = old {
                    self.leave_socket(old, side);
                }
                if let Some(link) = link {
                    self.links.insert(other, link);
                }
                self.next_transport(other, Some(HANDSHAKE_NS));
                return Some(other);
            }
            (Ok(Decision::Told), Some(other)) => {
                // If it lost against a dial of ours, that one must get through, also if we have nothing to say.
                let c = self.conn(other).expect("it is there");
                if c.core.state() == State::Standby {
                    c.core.wake();
                    self.dial_now(other);
                }
            }
            (Ok(Decision::Told | Decision::TakeOver), _) => {}
            (Ok(Decision::Proceed | Decision::Replace), other) => {
                if let Some(other) = other {
                    let announced = self.wires.conns.get(&other).is_some_and(|c| c.announced);
                    self.remove_conn(other);
                    if announced {
                        self.after(0, What::Closed { life: me, link: other });
                    }
                }
                self.wires.messengers.get_mut(&(me, port)).expect("it lives").by_addr.insert(key, conn);
            }
        }
        self.conn(conn).expect("put back").buf = buf;
        None
    }
    /// What was sent since the last event goes into the sockets.
    pub(crate) fn flush_wires(&mut self) {
        while let Some(conn) = self.wires.dirty.pop_first() {
            let Some(c) = self.wires.conns.get_mut(&conn) else { continue };
            if c.core.has_news() {
                // Sending went wrong: the connection says so when it is asked.
                self.pump(conn);
                continue;
            }
            c.core.ack(false);
            let bytes = c.core.out().take_flat();
            let (socket, transport) = (c.socket, c.transport);
            if c.core.owes_ack() && !std::mem::replace(&mut c.ack_is_due, true) {
                self.after(ACK_NS, What::Wire(Event::Ack(conn, transport)));
            }
            if let Some((socket, side)) = socket {
                self.write_socket(socket, 1 - side, bytes);
            }
        }
    }
}

fn ip_of(proc: Proc) -> IpAddr {
    let (net, host) = match proc {
        Proc::Mon => (0, 1),
        Proc::Osd(id) => (1, id as u8),
        Proc::Client(n) => (2, n as u8),
        Proc::Guest(n) => (3, n as u8),
    };
    IpAddr::V4(Ipv4Addr::new(10, 0, net, host))
}
/// The process whose machine this is, whether or not it lives.
fn proc_at(addr: &EntityAddr) -> Option<Proc> {
    let IpAddr::V4(ip) = addr.ip? else { return None };
    match ip.octets() {
        [10, 0, 0, _] => Some(Proc::Mon),
        [10, 0, 1, id] => Some(Proc::Osd(id.into())),
        [10, 0, 2, n] => Some(Proc::Client(n.into())),
        [10, 0, 3, n] => Some(Proc::Guest(n.into())),
        _ => None,
    }
}
