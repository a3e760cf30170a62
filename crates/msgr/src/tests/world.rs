//! Two peers with lossless sessions in a world where sockets break at any byte: each message arrives once and in order.

use super::*;
use base::Rng;
use std::collections::VecDeque;

#[derive(Clone, Copy, PartialEq, Debug)]
struct End {
    node: usize,
    conn: usize,
}

struct Socket {
    /// Dialler first.
    ends: [Option<End>; 2],
    /// What is on its way to each end.
    wires: [VecDeque<u8>; 2],
    cut: bool,
}

struct NodeConn {
    core: Connection,
    buf: BytesMut,
    socket: Option<usize>,
    /// Steps until it may dial.
    redial: Option<u32>,
}

struct Node {
    local: Rc<Local>,
    conns: Vec<Option<NodeConn>>,
    /// The connection to the other peer.
    session: Option<usize>,
    sent: u64,
    got: Vec<u64>,
}

struct World {
    nodes: [Node; 2],
    sockets: Vec<Socket>,
    rng: Rng,
    cuts: u32,
    /// How often each decision was met, and WAIT obeyed.
    met: [u32; 4],
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mode = if rng.chance(1, 3) { ConMode::SECURE } else { ConMode::CRC };
        let node = |n: u16| Node {
            local: Rc::new(keyed_local(EntityKind::OSD, n, mode, |_| Policy::lossless_peer())),
            conns: Vec::new(),
            session: None,
            sent: 0,
            got: Vec::new(),
        };
        Self { nodes: [node(1), node(2)], sockets: Vec::new(), rng, cuts: 0, met: [0; 4] }
    }
    fn conn(&mut self, end: End) -> &mut NodeConn {
        self.nodes[end.node].conns[end.conn].as_mut().expect("a connection in use is there")
    }
    fn add(&mut self, node: usize, core: Connection, socket: Option<usize>) -> End {
        let conns = &mut self.nodes[node].conns;
        conns.push(Some(NodeConn { core, buf: BytesMut::new(), socket, redial: None }));
        End { node, conn: conns.len() - 1 }
    }
    /// What the application does: gets the connection, or has one dialled, and sends.
    fn send(&mut self, node: usize) {
        let conn = match self.nodes[node].session {
            Some(conn) => conn,
            None => {
                let addrs = self.nodes[1 - node].local.addrs.borrow().clone();
                let core = Connection::dial(self.nodes[node].local.clone(), Policy::lossless_peer(), EntityKind::OSD, addrs);
                let end = self.add(node, core, None);
                self.conn(end).redial = Some(0);
                self.nodes[node].session = Some(end.conn);
                end.conn
            }
        };
        let tid = self.nodes[node].sent;
        self.nodes[node].sent += 1;
        let size = self.rng.below(300) as usize;
        let c = self.conn(End { node, conn });
        c.core.send(message(tid, size, 0, &[3]));
        if c.core.state() == State::Standby {
            c.core.wake();
            c.redial = Some(0);
        }
    }
    fn dial(&mut self, end: End) {
        let socket = self.sockets.len();
        let c = self.conn(end);
        c.redial = None;
        c.core.start();
        c.buf.clear();
        c.socket = Some(socket);
        let other = 1 - end.node;
        let core = Connection::accept(self.nodes[other].local.clone(), addr(999));
        let accepted = self.add(other, core, Some(socket));
        self.sockets.push(Socket { ends: [Some(end), Some(accepted)], wires: Default::default(), cut: false });
    }
    /// The end notices that its socket is gone.
    fn fault(&mut self, end: End) {
        let c = self.conn(end);
        if let Some(socket) = c.socket.take() {
            self.leave(socket, end);
        }
        let c = self.conn(end);
        c.buf.clear();
        match c.core.fault() {
            Fault::Closed => {
                assert_ne!(self.nodes[end.node].session, Some(end.conn), "a lossless session is never closed");
                self.nodes[end.node].conns[end.conn] = None;
            }
            Fault::Standby => {}
            Fault::Redial(pause) => c.redial = Some(if pause.as_secs() >= 15 { 300 } else { 3 }),
        }
    }
    fn leave(&mut self, socket: usize, end: End) {
        let s = &mut self.sockets[socket];
        s.cut = true;
        for slot in &mut s.ends {
            if *slot == Some(end) {
                *slot = None;
            }
        }
    }
    fn pump(&mut self, end: End) {
        loop {
            let c = self.conn(end);
            let up = c.core.next(&mut c.buf);
            match up {
                Err(error) => {
                    self.met[3] += u32::from(error == MsgrError::Waiting);
                    return self.fault(end);
                }
                Ok(None) => return,
                Ok(Some(Up::Message(m))) => self.nodes[end.node].got.push(m.tid),
                Ok(Some(Up::Ready)) => {}
                Ok(Some(Up::RemoteReset)) => panic!("nobody lost a session"),
                Ok(Some(Up::Identified)) => {
                    if self.decide(end) {
                        return;
                    }
                }
            }
        }
    }
    /// True if the transport went to another connection.
    fn decide(&mut self, end: End) -> bool {
        let session = self.nodes[end.node].session.filter(|s| *s != end.conn);
        let mut new = self.nodes[end.node].conns[end.conn].take().unwrap();
        let decision = match session {
            Some(old) => new.core.decide(Some(&mut self.nodes[end.node].conns[old].as_mut().unwrap().core)),
            None => new.core.decide(None),
        };
        match decision {
            Err(_) => {
                self.leave(new.socket.unwrap(), end);
                true
            }
            Ok(Decision::Proceed) => {
                self.met[0] += 1;
                self.nodes[end.node].session = Some(end.conn);
                self.nodes[end.node].conns[end.conn] = Some(new);
                false
            }
            Ok(Decision::Told) => {
                self.met[1] += 1;
                self.nodes[end.node].conns[end.conn] = Some(new);
                if let Some(old) = session {
                    let c = self.conn(End { conn: old, ..end });
                    c.core.wake();
                    if c.core.state() == State::Idle && c.redial.is_none() {
                        c.redial = Some(0);
                    }
                }
                false
            }
            Ok(Decision::Replace) => panic!("no session here is lossy"),
            Ok(Decision::TakeOver) => {
                self.met[2] += 1;
                let old = End { conn: session.unwrap(), ..end };
                if let Some(socket) = self.conn(old).socket.take() {
                    self.leave(socket, old);
                }
                let socket = new.socket.unwrap();
                for slot in &mut self.sockets[socket].ends {
                    if *slot == Some(end) {
                        *slot = Some(old);
                    }
                }
                let c = self.conn(old);
                (c.socket, c.buf, c.redial) = (Some(socket), new.buf, None);
                self.pump(old);
                true
            }
        }
    }
    /// Bytes from cores to wires, from wires to cores, or a broken socket noticed.
    fn step_socket(&mut self, i: usize) -> bool {
        let mut moved = false;
        for side in 0..2 {
            let Some(end) = self.sockets[i].ends[side] else { continue };
            if self.sockets[i].cut {
                if self.rng.chance(1, 5) {
                    self.fault(end);
                }
                moved = true;
                continue;
            }
            let now = self.rng.chance(1, 10);
            let c = self.conn(end);
            c.core.ack(now);
            let out = c.core.out().take_flat();
            moved |= !out.is_empty() || c.core.owes_ack();
            self.sockets[i].wires[1 - side].extend(out);
            let len = self.sockets[i].wires[side].len();
            if len > 0 {
                let n = 1 + self.rng.below(len.min(400) as u64) as usize;
                let bytes: Vec<u8> = self.sockets[i].wires[side].drain(..n).collect();
                self.conn(end).buf.extend_from_slice(&bytes);
                self.pump(end);
                moved = true;
            }
        }
        moved
    }
    fn step(&mut self, calm: bool) -> bool {
        let mut moved = false;
        for i in 0..self.sockets.len() {
            if !calm && !self.sockets[i].cut && self.rng.chance(1, 40) {
                self.sockets[i].cut = true;
                self.cuts += 1;
            }
            moved |= self.step_socket(i);
        }
        for node in 0..2 {
            for conn in 0..self.nodes[node].conns.len() {
                let Some(c) = &mut self.nodes[node].conns[conn] else { continue };
                if let Some(left) = &mut c.redial {
                    moved = true;
                    if *left > 0 {
                        *left -= 1;
                    } else {
                        self.dial(End { node, conn });
                    }
                }
            }
        }
        moved
    }
}

#[test]
fn each_message_arrives_once_and_in_order_over_sockets_that_break() {
    let (mut cuts, mut met) = (0, [0; 4]);
    for seed in 0..400 {
        let mut world = World::new(seed);
        let both_start = world.rng.chance(1, 2);
        for step in 0..300 {
            for node in 0..2 {
                if (node == 0 || both_start || step > 100) && world.rng.chance(1, 6) {
                    world.send(node);
                }
            }
            world.step(false);
        }
        let mut calm = 0;
        while world.step(true) {
            calm += 1;
            assert!(calm < 10_000, "seed {seed}: no end");
        }
        for node in 0..2 {
            let want: Vec<u64> = (0..world.nodes[1 - node].sent).collect();
            assert!(world.nodes[node].got == want, "seed {seed}, node {node}: {:?} of {}", world.nodes[node].got, want.len());
        }
        let kept: usize = world.nodes.iter().map(|n| n.session.map_or(0, |s| n.conns[s].as_ref().unwrap().core.kept_bytes())).sum();
        assert_eq!(kept, 0, "seed {seed}: everything is acknowledged");
        cuts += world.cuts;
        met.iter_mut().zip(world.met).for_each(|(all, n)| *all += n);
    }
    assert!(cuts > 2000 && met.iter().all(|n| *n > 100), "{cuts} cuts, decisions {met:?}");
}

/// One cut, at each step of the same conversation in turn: in the handshake, in the middle of a frame, before and after each ack.
#[test]
fn a_cut_at_any_step_loses_nothing() {
    let mut cuts = 0;
    for seed in 0..4 {
        for cut_at in 0..160 {
            let mut world = World::new(seed);
            for step in 0..200 {
                if step % 8 == 0 && step < 120 {
                    world.send(step / 8 % 2);
                }
                if step == cut_at {
                    for socket in world.sockets.iter_mut().filter(|s| !s.cut) {
                        socket.cut = true;
                        cuts += 1;
                    }
                }
                world.step(true);
            }
            let mut calm = 0;
            while world.step(true) {
                calm += 1;
                assert!(calm < 10_000, "seed {seed}, cut at {cut_at}: no end");
            }
            for node in 0..2 {
                let want: Vec<u64> = (0..world.nodes[1 - node].sent).collect();
                assert!(world.nodes[node].got == want, "seed {seed}, cut at {cut_at}, node {node}: {:?}", world.nodes[node].got);
            }
        }
    }
    assert!(cuts > 500, "{cuts}");
}

#[test]
fn a_peer_that_restarts_is_a_remote_reset() {
    let local = |n| keyed_local(EntityKind::OSD, n, ConMode::CRC, |_| Policy::lossless_peer());
    let (mut a, mut b) = pair(local(1), local(2), Policy::lossless_peer());
    settle(&mut a, &mut b, usize::MAX).unwrap();
    a.send(message(1, 1, 0, &[]));
    assert_eq!(a.fault(), Fault::Redial(std::time::Duration::ZERO));
    a.start();
    let mut b = Connection::accept(Rc::new(local(2)), addr(1));
    let (ups, got) = settle(&mut a, &mut b, usize::MAX).unwrap();
    assert_eq!((a.state(), b.state()), (State::Ready, State::Ready));
    assert!(matches!(&ups[..], [Up::RemoteReset, Up::Ready]), "{ups:?}");
    assert!(matches!(&got[..], [Up::Identified, Up::Identified, Up::Ready]), "{got:?}");
}
