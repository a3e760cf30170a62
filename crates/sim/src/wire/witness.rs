//! What lossless sessions promise, looked at from outside: each message comes once, whole and in the order in which it was sent, over any number of
//! sockets, for as long as neither end gives the session up.

use crate::SEC;
use crate::net::{Life, Port};
use base::crc32c;
use messages::RawMessage;
use std::collections::{BTreeMap, VecDeque};

/// Messages of one direction that are remembered after they came.
const REMEMBERED: usize = 2000;
/// An acknowledgement is on its way for less than this, at rest.
const LATELY_NS: u64 = 5 * SEC;

#[derive(Clone, Copy, PartialEq, Debug)]
struct Sent {
    at_ns: u64,
    kind: u16,
    tid: u64,
    len: usize,
    crc: u32,
}

impl Sent {
    fn of(at_ns: u64, msg: &RawMessage) -> Self {
        let data = msg.data.iter().fold(u32::MAX, |crc, piece| crc32c(crc, piece));
        let crc = crc32c(crc32c(data, &msg.front), &msg.middle);
        Self { at_ns, kind: msg.kind, tid: msg.tid, len: msg.len(), crc }
    }
    fn is(&self, other: &Self) -> bool {
        (self.kind, self.tid, self.len, self.crc) == (other.kind, other.tid, other.len, other.crc)
    }
}

/// One direction.
#[derive(Default)]
struct Way {
    sent: VecDeque<Sent>,
    /// So many of them have come.
    came: usize,
    /// An end gave up a session with the other: what was under way may be lost, and what was not acknowledged may come again.
    is_loose: bool,
}

/// A messenger and the address of its peer's.
type Key = ((Life, Port), String);

/// See the module.
#[derive(Default)]
pub(crate) struct Witness {
    ways: BTreeMap<Key, Way>,
}

impl Witness {
    pub fn sent(&mut self, now_ns: u64, from: (Life, Port), to: &str, msg: &RawMessage) {
        let way = self.ways.entry((from, to.to_owned())).or_default();
        way.sent.push_back(Sent::of(now_ns, msg));
        if way.came > REMEMBERED {
            way.sent.pop_front();
            way.came -= 1;
        }
    }
    /// An end gives up its session, or hears that the other did.
    pub fn given_up(&mut self, one: (Life, Port), other: &str, back: Option<((Life, Port), &str)>) {
        self.ways.entry((one, other.to_owned())).or_default().is_loose = true;
        if let Some((from, to)) = back {
            self.ways.entry((from, to.to_owned())).or_default().is_loose = true;
        }
    }
    /// # Errors
    /// The text of what is wrong with a message that comes.
    pub fn came(&mut self, from: (Life, Port), to: &str, msg: &RawMessage) -> Result<(), String> {
        let got = Sent::of(0, msg);
        let way = self.ways.entry((from, to.to_owned())).or_default();
        if way.sent.get(way.came).is_some_and(|next| next.is(&got)) {
            way.came += 1;
            return Ok(());
        }
        let what = format!("{} {} of {:?} to {to}", messages::kind_name(got.kind), got.tid, from.0.0);
        let at = way.sent.iter().position(|sent| sent.is(&got));
        match at {
            Some(at) if way.is_loose => {
                way.came = at + 1;
                Ok(())
            }
            Some(at) if at < way.came => Err(format!("{what} comes again")),
            Some(at) => Err(format!("{what} comes, and the {} before it did not", at - way.came)),
            None => Err(format!("{what} was never sent like this")),
        }
    }
    /// Bytes of what was sent so lately that its acknowledgement may be on its way.
    pub fn recent_bytes(&self, now_ns: u64, from: (Life, Port), to: &str) -> usize {
        let way = self.ways.get(&(from, to.to_owned()));
        way.map_or(0, |way| way.sent.iter().rev().take_while(|s| s.at_ns + LATELY_NS > now_ns).map(|s| s.len).sum())
    }
}
