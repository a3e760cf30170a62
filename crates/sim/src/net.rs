//! The virtual network and the queue of everything that is going to happen.
//!
//! A link is a session between two processes. Each direction keeps its order; a message arrives after a delay by chance. A partition holds a
//! direction's messages until it heals, as TCP does. A cut ends a lossy link for both ends; between OSDs, whose sessions replay what was not
//! acknowledged, it only delays. A dial to an address behind which no process listens is refused.
//!
//! That is a link whose messages pass as they are encoded. In a share of the seeds links are sessions of the shipped protocol instead: [`crate::wire`].

use crate::MS;
use crate::acks::Ack;
use crate::kinds::Fault;
use crate::monitor::Who;
use crate::places::Places;
use crate::plan::Wire;
use crate::purge::Purged;
use crate::rules::Rules;
use crate::trace::Trace;
use crate::wire::{self, Wires};
use base::{Clock, Rng, Stamp};
use maps::OsdMap;
use messages::RawMessage;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use types::{EVersion, EntityAddrVec, EntityKind, Epoch, SpgId};

/// A process by its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proc {
    Mon,
    Osd(i32),
    Client(u32),
    /// Clients of one session each, which is a life: those that want harm, and readers at one member.
    Guest(u32),
}

/// A process and which of its lives; numbers of lives are never given twice.
pub type Life = (Proc, u32);

/// Which of a server's ports a link came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    Mon,
    Mgr,
    Public,
    Cluster,
    HbFront,
    HbBack,
}

pub type LinkId = u64;

/// See the module.
#[derive(Debug, Clone)]
pub struct Link {
    pub dialer: Life,
    pub server: Life,
    pub port: Port,
    /// When the last message of each direction arrives: to the server, to the dialer.
    pub(crate) last_ns: [u64; 2],
}

/// Something that is going to happen.
#[derive(Debug)]
pub enum What {
    /// A dial reaches its server.
    Open {
        life: Life,
        link: LinkId,
    },
    /// The dialer hears that its link is open.
    Opened {
        life: Life,
        link: LinkId,
    },
    Refused {
        life: Life,
        link: LinkId,
    },
    /// A messenger's dial failed for so many times in a row; it goes on by itself.
    DialFailed {
        life: Life,
        link: LinkId,
        is_refused: bool,
        attempts: u32,
    },
    Deliver {
        link: LinkId,
        to: Life,
        msg: RawMessage,
    },
    Closed {
        life: Life,
        link: LinkId,
    },
    /// Something below the processes, where links are real.
    Wire(wire::Event),
    /// Once a second; for an OSD when it wants to hear of the time.
    Tick(Life),
    /// The messenger of an OSD dials again what was refused.
    Redial {
        life: Life,
        link: LinkId,
    },
    /// A core asked for another turn.
    Continue(Life),
    /// An OSD's loop has read what there was.
    TurnEnd(Life),
    /// A disk may have completed something.
    Disk(Life),
    /// A client has time for its next operation.
    Think(Life),
    Fault(Fault),
    /// A process starts again.
    Start(Proc),
    /// A pause is over, unless it was prolonged.
    GoesOn(Proc),
    /// Something that a fence has in store.
    Fence(crate::fence::Step),
    /// An operator says this of an OSD whose device is gone.
    Say(usize, &'static str),
    /// An operator looks whether a lost OSD may have another device.
    Replace(usize),
    /// An OSD is killed whose store is gone, if it is in this life.
    Pulled(usize, u32),
    /// Two OSDs have their own stores again.
    SwapBack,
    /// A client that wants harm may come.
    Intrude,
    /// Members that follow may be looked at.
    Follow,
    /// A client that was shut out goes.
    Bar(Life),
    /// A process that hears of no map is looked at.
    Gap,
    /// Something happens to an OSD that is away.
    Away(usize, crate::away::Step),
}

/// A process that was stopped, and what came for it meanwhile.
#[derive(Debug, Default)]
pub struct Paused {
    pub until_ns: u64,
    pub waiting: Vec<What>,
}

/// A primary tells the members of its interval to trim their logs.
#[derive(Debug, Clone, Copy)]
pub struct Trim {
    pub pgid: SpgId,
    pub since: Epoch,
    pub to: EVersion,
}

/// A message of an OSD, as it was sent.
#[derive(Debug, Clone)]
pub struct Overheard {
    pub from: Proc,
    pub to: Proc,
    pub port: Port,
    pub msg: RawMessage,
}

/// Messages of OSDs that are remembered for those who overhear them.
const OVERHEARD_MAX: usize = 64;

/// What processes act through: time, chance, links, and the queue.
pub struct Net {
    pub now_ns: u64,
    pub rng: Rng,
    pub trace: Trace,
    queue: BTreeMap<(u64, u64), What>,
    seq: u64,
    pub(crate) links: BTreeMap<LinkId, Link>,
    next_link: LinkId,
    /// Who listens where: by the text of an address.
    listeners: BTreeMap<String, (Life, Port)>,
    /// Nothing goes from the first to the second until then.
    partitions: BTreeMap<(Proc, Proc), u64>,
    /// Processes that do nothing for a while.
    pub paused: BTreeMap<Proc, Paused>,
    /// Answers to writes that OSDs have sent, to be looked at.
    pub acks: Vec<Ack>,
    /// How far logs are trimmed by what primaries have sent, to be looked at.
    pub trims: Vec<Trim>,
    /// Snapshots that the monitor says are purged, to be looked at.
    pub(crate) purged: Vec<Purged>,
    pub(crate) places: Places,
    pub(crate) rules: Rules,
    /// The first thing that a checker found wrong at an OSD's event.
    pub wrong: Option<String>,
    /// Each epoch's map, of the first that had it.
    maps: BTreeMap<Epoch, Rc<OsdMap>>,
    delay_ns: (u64, u64),
    pub(crate) wires: Wires,
    /// What OSDs said last, if anybody listens.
    pub(crate) overheard: Option<VecDeque<Overheard>>,
}

impl Net {
    pub fn new(seed: u64, delay_ns: (u64, u64), wire: Wire) -> Self {
        Self {
            now_ns: 1_000 * MS,
            rng: Rng::new(seed),
            trace: Trace::default(),
            queue: BTreeMap::new(),
            seq: 0,
            links: BTreeMap::new(),
            next_link: 1,
            listeners: BTreeMap::new(),
            partitions: BTreeMap::new(),
            paused: BTreeMap::new(),
            acks: Vec::new(),
            trims: Vec::new(),
            purged: Vec::new(),
            places: Places::default(),
            rules: Rules::default(),
            wrong: None,
            maps: BTreeMap::new(),
            delay_ns,
            wires: Wires::new(wire),
            overheard: None,
        }
    }
    pub fn clock(&self) -> Clock {
        Clock { mono: Stamp(self.now_ns), wall_ns: 1_700_000_000_000_000_000 + self.now_ns }
    }
    pub fn at(&mut self, at_ns: u64, what: What) {
        self.seq += 1;
        self.queue.insert((at_ns.max(self.now_ns), self.seq), what);
    }
    pub fn after(&mut self, delay_ns: u64, what: What) {
        self.at(self.now_ns + delay_ns, what);
    }
    /// The next thing that happens; time goes on to it.
    pub fn next(&mut self) -> Option<What> {
        if self.wires.are_real() {
            self.flush_wires();
        }
        let ((at_ns, _), what) = self.queue.pop_first()?;
        self.now_ns = at_ns;
        Some(what)
    }
    /// A process has this map of this epoch.
    ///
    /// # Panics
    /// When another has another one.
    pub fn has_map(&mut self, who: Proc, map: &OsdMap) {
        match self.maps.get(&map.epoch) {
            Some(first) => assert!(**first == *map, "{who:?} has another map of epoch {} than others", map.epoch),
            None => drop(self.maps.insert(map.epoch, Rc::new(map.clone()))),
        }
    }
    /// The map of an epoch that a process has had.
    pub fn map(&self, epoch: Epoch) -> Option<Rc<OsdMap>> {
        self.maps.get(&epoch).cloned()
    }
    /// The first epoch whose map is so.
    pub fn first_map(&self, is_so: impl Fn(&OsdMap) -> bool) -> Option<Epoch> {
        self.maps.iter().find(|(_, map)| is_so(map)).map(|(epoch, _)| *epoch)
    }
    /// The maps from an epoch on that processes have had.
    pub fn maps_from(&self, epoch: Epoch) -> impl Iterator<Item = &Rc<OsdMap>> {
        self.maps.range(epoch..).map(|(_, map)| map)
    }
    pub fn newest_map(&self) -> Option<&Rc<OsdMap>> {
        self.maps.values().next_back()
    }
    pub fn note(&mut self, line: String) {
        self.trace.event(self.now_ns, line);
    }
    pub(crate) fn delay(&mut self) -> u64 {
        let (least, more) = self.delay_ns;
        // Mostly near the least; now and then far beyond it.
        let spread = if self.rng.chance(1, 8) { more } else { more / 16 };
        least + self.rng.below(spread + 1)
    }
    pub(crate) fn held_until(&self, from: Proc, to: Proc) -> u64 {
        self.partitions.get(&(from, to)).copied().unwrap_or(0)
    }

    pub fn listen(&mut self, who: &Who, life: Life, port: Port) {
        if self.wires.are_real() {
            return self.wire_messenger(who, life, port, true);
        }
        self.listeners.insert(who.addrs.front().to_string(), (life, port));
    }
    /// A process that only dials.
    pub fn dials(&mut self, who: &Who, life: Life, port: Port) {
        if self.wires.are_real() {
            self.wire_messenger(who, life, port, false);
        }
    }
    /// A process listens as another than before, and each link to or from that port is over. The links.
    pub fn renew(&mut self, who: &Who, life: Life, port: Port) -> Vec<LinkId> {
        let ends_here = |l: &&Link| l.port == port && (l.dialer == life || l.server == life);
        let gone = match self.wires.are_real() {
            true => self.wires.of(life, port),
            false => self.links.iter().filter(|(_, l)| ends_here(l)).map(|(id, _)| *id).collect(),
        };
        gone.iter().for_each(|link| self.close(life, *link));
        self.listeners.retain(|_, at| *at != (life, port));
        self.listen(who, life, port);
        gone
    }
    pub(crate) fn new_link(&mut self) -> LinkId {
        self.next_link += 1;
        self.next_link - 1
    }
    /// Dials from one of a process's networks; the link's number is known at once, [`What::Opened`] or [`What::Refused`] follows. Where links are real, it may
    /// be the number of a link that there is, and [`What::DialFailed`] may follow.
    pub fn dial(&mut self, dialer: Life, port: Port, kind: EntityKind, addrs: &EntityAddrVec, lossless: bool) -> LinkId {
        if self.wires.are_real() {
            return self.wire_dial(dialer, port, kind, addrs, lossless);
        }
        let link = self.new_link();
        let listener = addrs.msgr2().and_then(|a| self.listeners.get(&a.to_string())).copied();
        let delay = self.delay();
        match listener {
            None => self.after(delay, What::Refused { life: dialer, link }),
            Some((server, port)) => {
                let at_ns = (self.now_ns + delay).max(self.held_until(dialer.0, server.0));
                self.links.insert(link, Link { dialer, server, port, last_ns: [at_ns, at_ns] });
                self.at(at_ns, What::Open { life: server, link });
            }
        }
        link
    }
    pub fn link(&self, link: LinkId) -> Option<&Link> {
        self.links.get(&link)
    }
    /// The process at the other end of a process's link.
    pub fn other_end(&self, link: LinkId, me: Life) -> Option<Proc> {
        self.links.get(&link).map(|l| if l.dialer == me { l.server.0 } else { l.dialer.0 })
    }
    /// The server took the link: its dialer hears of it.
    pub fn accepted(&mut self, link: LinkId) {
        if self.wires.are_real() {
            return;
        }
        let delay = self.delay();
        let Some(l) = self.links.get(&link) else { return };
        let at_ns = (self.now_ns + delay).max(self.held_until(l.server.0, l.dialer.0));
        let dialer = l.dialer;
        self.links.get_mut(&link).expect("it was there").last_ns[1] = at_ns;
        self.at(at_ns, What::Opened { life: dialer, link });
    }
    /// Sends over a link; nothing happens when the link is gone.
    pub fn send(&mut self, from: Life, link: LinkId, msg: RawMessage) {
        self.trace.message(&msg);
        self.overhear(from, link, &msg);
        if self.wires.are_real() {
            return self.wire_send(link, msg);
        }
        let Some(l) = self.links.get(&link) else { return };
        let to_server = l.dialer == from;
        let (a, to) = if to_server { (l.dialer.0, l.server) } else { (l.server.0, l.dialer) };
        let delay = self.delay();
        let held = self.held_until(a, to.0);
        let l = self.links.get_mut(&link).expect("it was there");
        let last = &mut l.last_ns[usize::from(!to_server)];
        *last = (self.now_ns + delay).max(*last).max(held);
        let at_ns = *last;
        // As it comes out of a socket: the data in one piece.
        let data = msg.data_flat();
        let msg = RawMessage { data: if data.is_empty() { Vec::new() } else { vec![data] }, ..msg };
        self.at(at_ns, What::Deliver { link, to, msg });
    }
    fn overhear(&mut self, from: Life, link: LinkId, msg: &RawMessage) {
        let (Some(overheard), Some(l)) = (&mut self.overheard, self.links.get(&link)) else { return };
        let to = if l.dialer == from { l.server.0 } else { l.dialer.0 };
        if matches!((from.0, to), (Proc::Osd(_), Proc::Osd(_) | Proc::Mon)) {
            if overheard.len() == OVERHEARD_MAX {
                overheard.pop_front();
            }
            overheard.push_back(Overheard { from: from.0, to, port: l.port, msg: msg.clone() });
        }
    }
    /// One end closes: the other hears of it.
    pub fn close(&mut self, from: Life, link: LinkId) {
        if self.wires.are_real() {
            return self.wire_close(link);
        }
        let Some(l) = self.links.remove(&link) else { return };
        let other = if l.dialer == from { l.server } else { l.dialer };
        let delay = self.delay();
        self.after(delay, What::Closed { life: other, link });
    }
    /// The socket below a link is cut.
    pub fn cut(&mut self, link: LinkId) {
        if self.wires.are_real() {
            return self.wire_cut(link);
        }
        let Some(l) = self.links.get_mut(&link) else { return };
        if l.port == Port::Cluster {
            let until = self.now_ns + 200 * MS;
            l.last_ns.iter_mut().for_each(|last| *last = (*last).max(until));
            return;
        }
        let l = self.links.remove(&link).expect("it was there");
        for life in [l.dialer, l.server] {
            let delay = self.delay();
            self.after(delay, What::Closed { life, link });
        }
    }
    /// Asks the other end of a link for a sign of life. True if the answer is as good as here: where links are not real it always comes.
    pub fn keepalive(&mut self, link: LinkId, wall_ns: u64) -> bool {
        if self.wires.are_real() {
            self.wire_keepalive(link, wall_ns);
        }
        !self.wires.are_real()
    }
    /// When the keepalive was sent that was answered last, where links are real.
    pub fn keepalive_acked(&self, link: LinkId) -> Option<u64> {
        self.wire_keepalive_acked(link)
    }
    /// Who is at the other end of a real link.
    pub fn who(&self, link: LinkId) -> Option<Who> {
        self.wire_who(link)
    }
    /// Links that are there, by chance one of them.
    pub fn any_link(&mut self) -> Option<LinkId> {
        let n = self.links.len() as u64;
        (n > 0).then(|| *self.links.keys().nth(self.rng.below(n) as usize).expect("below their number"))
    }
    /// The links between two processes.
    pub fn links_between(&self, one: Proc, other: Proc) -> Vec<LinkId> {
        let is_between = |l: &Link| [(one, other), (other, one)].contains(&(l.dialer.0, l.server.0));
        self.links.iter().filter(|(_, l)| is_between(l)).map(|(id, _)| *id).collect()
    }
    /// Nothing goes from `from` to `to` until then.
    pub fn partition(&mut self, from: Proc, to: Proc, until_ns: u64) {
        let slot = self.partitions.entry((from, to)).or_default();
        *slot = until_ns.max(*slot);
        if self.wires.are_real() {
            return self.hold_sockets(from, to, until_ns);
        }
        for l in self.links.values_mut() {
            if (l.dialer.0, l.server.0) == (from, to) {
                l.last_ns[0] = l.last_ns[0].max(until_ns);
            } else if (l.server.0, l.dialer.0) == (from, to) {
                l.last_ns[1] = l.last_ns[1].max(until_ns);
            }
        }
    }
    /// A process is gone: its addresses refuse, its links are over, and their other ends hear of it.
    pub fn died(&mut self, life: Life) {
        if self.wires.are_real() {
            return self.wire_died(life);
        }
        self.listeners.retain(|_, (l, _)| *l != life);
        let gone: Vec<LinkId> = self.links.iter().filter(|(_, l)| l.dialer == life || l.server == life).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|link| self.close(life, link));
    }
}
