//! Sockets: bytes both ways, in pieces of any size that arrive one behind the other, until an end or a cut.

use super::{Event, SocketId};
use crate::MS;
use crate::net::{LinkId, Net, Proc, What};
use std::collections::VecDeque;
use types::EntityAddr;

/// Of so many writes one arrives in several pieces; of so many cuts one is noticed late by an end.
const SPLIT_EVERY: u64 = 6;
const LATE_EVERY: u64 = 4;
const LATE_NS: u64 = 4_000 * MS;

/// Two ends: the one that dialled first.
pub(super) struct Socket {
    /// Who has them; an end that is closed or was never there is `None`.
    pub ends: [Option<LinkId>; 2],
    pub procs: [Proc; 2],
    /// Where the dial went.
    pub target: EntityAddr,
    /// On their way to each side; `None` is the end of the stream.
    pieces: [VecDeque<Option<Vec<u8>>>; 2],
    last_ns: [u64; 2],
    /// Nothing more comes to this side.
    is_over: [bool; 2],
}

impl Socket {
    pub fn new(dialler: LinkId, procs: [Proc; 2], target: EntityAddr) -> Self {
        Self { ends: [Some(dialler), None], procs, target, pieces: Default::default(), last_ns: [0, 0], is_over: [false; 2] }
    }
    /// What arrives now at a side.
    pub fn take(&mut self, side: usize) -> Option<Option<Vec<u8>>> {
        self.pieces[side].pop_front()
    }
    /// Of what is on its way to a side only the first `keep` bytes will come.
    fn lose_behind(&mut self, side: usize, mut keep: usize) {
        for piece in self.pieces[side].iter_mut().flatten() {
            piece.truncate(keep);
            keep -= piece.len();
        }
    }
    /// Nothing arrives at a side before then.
    pub fn comes_behind(&mut self, side: usize, at_ns: u64) {
        self.last_ns[side] = self.last_ns[side].max(at_ns);
    }
    fn under_way(&self, side: usize) -> usize {
        self.pieces[side].iter().flatten().map(Vec::len).sum()
    }
}

impl Net {
    /// When something that leaves now arrives, behind what arrives at `behind_ns`.
    pub(super) fn arrival(&mut self, from: Proc, to: Proc, behind_ns: u64) -> u64 {
        let delay = self.delay();
        (self.now_ns + delay).max(behind_ns + 1).max(self.held_until(from, to))
    }
    fn piece(&mut self, id: SocketId, side: usize, piece: Option<Vec<u8>>, later_ns: u64) {
        let socket = &self.wires.sockets[&id];
        let (from, to, last) = (socket.procs[1 - side], socket.procs[side], socket.last_ns[side]);
        let at_ns = self.arrival(from, to, last) + later_ns;
        let socket = self.wires.sockets.get_mut(&id).expect("it is there");
        socket.last_ns[side] = at_ns;
        socket.pieces[side].push_back(piece);
        self.at(at_ns, What::Wire(Event::Arrives(id, side)));
    }
    /// Bytes leave for a side.
    pub(super) fn write_socket(&mut self, id: SocketId, side: usize, mut bytes: Vec<u8>) {
        if bytes.is_empty() || self.wires.sockets.get(&id).is_none_or(|s| s.is_over[side]) {
            return;
        }
        if self.rng.chance(1, SPLIT_EVERY) {
            for _ in 0..1 + self.rng.below(3) {
                let rest = bytes.split_off(self.rng.below(bytes.len() as u64 + 1) as usize);
                self.piece(id, side, Some(std::mem::replace(&mut bytes, rest)), 0);
            }
        }
        self.piece(id, side, Some(bytes), 0);
    }
    /// The stream to a side ends behind what is under way, or, where that `is_cut`, somewhere in it.
    fn end_stream(&mut self, id: SocketId, side: usize, is_cut: bool, later_ns: u64) {
        let Some(socket) = self.wires.sockets.get_mut(&id) else { return };
        if std::mem::replace(&mut socket.is_over[side], true) {
            return;
        }
        if is_cut {
            let keep = self.rng.below(socket.under_way(side) as u64 + 1) as usize;
            socket.lose_behind(side, keep);
        }
        self.piece(id, side, None, later_ns);
    }
    /// Both ends lose it, each in its time.
    pub(super) fn cut_socket(&mut self, id: SocketId) {
        for side in 0..2 {
            let later_ns = if self.rng.chance(1, LATE_EVERY) { self.rng.below(LATE_NS) } else { 0 };
            self.end_stream(id, side, true, later_ns);
        }
    }
    /// One end is given up: what it has not read is lost, and of what it wrote by chance a part.
    pub(super) fn leave_socket(&mut self, id: SocketId, side: usize) {
        let is_cut = self.rng.chance(1, 4);
        self.end_stream(id, 1 - side, is_cut, 0);
        let Some(socket) = self.wires.sockets.get_mut(&id) else { return };
        socket.ends[side] = None;
        socket.is_over[side] = true;
        socket.pieces[side].clear();
        if socket.ends == [None, None] {
            self.wires.sockets.remove(&id);
        }
    }
    /// What is on its way between two processes is not held back; what follows is.
    pub(crate) fn hold_sockets(&mut self, from: Proc, to: Proc, until_ns: u64) {
        for socket in self.wires.sockets.values_mut() {
            for side in 0..2 {
                if (socket.procs[1 - side], socket.procs[side]) == (from, to) {
                    socket.last_ns[side] = socket.last_ns[side].max(until_ns);
                }
            }
        }
    }
}
