//! Clients that want harm: what they send is malformed or forged. They are a fault like any other, in a share of the seeds.
//!
//! | guise | what it is | what it may do |
//! |---|---|---|
//! | reader | a client | read the clients' pool |
//! | owner | a client | read, write and call classes on objects whose names begin with [`OWN`] |
//! | powerless | a client without a capability | nothing |
//! | numbered | a client that has an OSD's number and claims its address, on the OSDs' network | read |
//! | stranger | an OSD at an address that the map does not have for it | say nothing that OSDs say |
//! | outside | an OSD, on the clients' network | the same |
//! | at the monitor, at the manager | a client | read, and there the manager's own commands |
//!
//! Sessions open without tickets here, so that a session has the capability which its guise's ticket would have. Each is a process of its own, which dials
//! one daemon, sends a few messages ([`forge`]) and goes, by chance in the middle of something. They make up what they send, and send again what they
//! overheard of others. Answers are [`judge`]'s; that nothing ends and that nobody else's data change is looked at by all other checkers.

mod forge;
mod judge;

use crate::MS;
use crate::client::POOL;
use crate::cluster::Cluster;
use crate::monitor::{Who, mgr_addr, mon_addr};
use crate::net::{Life, LinkId, Overheard, Port, Proc, What};
use base::Rng;
use cephx::caps::OsdCap;
use judge::Asked;
use maps::OsdMap;
use std::collections::BTreeMap;
use std::rc::Rc;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText, HObject, OsdId, ReqId};

/// How the names of objects begin that an owner may write.
pub(crate) const OWN: &str = "x";
/// Sessions at a time.
const SESSIONS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guise {
    Reader,
    Owner,
    Powerless,
    Numbered,
    Stranger,
    Outside,
    AtMonitor,
    AtManager,
}

impl Guise {
    /// By chance one of those that send requests, or of all.
    fn any(only_requests: bool, rng: &mut Rng) -> Self {
        use Guise::{AtManager, AtMonitor, Numbered, Outside, Owner, Powerless, Reader, Stranger};
        let all = [Reader, Reader, Owner, Owner, Powerless, AtMonitor, AtManager, Numbered, Stranger, Outside];
        all[rng.below(if only_requests { 7 } else { 10 }) as usize]
    }
    fn speaks_as_osd(self) -> bool {
        matches!(self, Self::Numbered | Self::Stranger | Self::Outside)
    }
    /// The capability for OSDs.
    fn cap(self) -> Option<OsdCap> {
        let parsed = |text: String| Some(OsdCap::parse(&text).expect("a capability"));
        match self {
            Self::Owner => parsed(format!("allow rwx pool={POOL} object_prefix {OWN}")),
            Self::Powerless | Self::AtMonitor | Self::AtManager => Some(OsdCap::default()),
            Self::Reader | Self::Numbered => parsed(format!("allow r pool={POOL}")),
            Self::Stranger | Self::Outside => None,
        }
    }
}

/// A session with one daemon.
#[derive(Debug)]
pub(crate) struct Session {
    life: Life,
    guise: Guise,
    who: Who,
    link: LinkId,
    to: Proc,
    /// The OSD that it claims to be.
    claims: OsdId,
    is_open: bool,
    /// Times that it will send something.
    left: u64,
    tid: u64,
    /// Where its listing has come to.
    cursor: Option<HObject>,
    asked: BTreeMap<u64, Asked>,
    /// It has asked by a map that there is not.
    is_ahead: bool,
}

/// What a message is made with.
struct World {
    map: Rc<OsdMap>,
    objects: u64,
    pg_num_stays: bool,
    /// What clients are going to ask next, as they would name it.
    next: Vec<ReqId>,
    overheard: Vec<Overheard>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Hostile {
    rng: Rng,
    sessions: Vec<Session>,
    /// Messages that were sent.
    pub forged: u64,
}

impl Hostile {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed ^ 0x0bad_c11e), sessions: Vec::new(), forged: 0 }
    }
    fn of(&self, life: Life) -> Option<&Session> {
        self.sessions.iter().find(|session| session.life == life)
    }
    pub fn lives(&self, life: Life) -> bool {
        self.of(life).is_some()
    }
    pub fn who(&self, life: Life) -> Option<Who> {
        self.of(life).map(|session| session.who.clone())
    }
    pub fn guise(&self, life: Life) -> Option<Guise> {
        self.of(life).map(|session| session.guise)
    }
    /// The capability of the ticket that a process has; `None`: everything.
    pub fn cap(&self, life: Life) -> Option<OsdCap> {
        self.of(life).and_then(|session| session.guise.cap())
    }
    /// True while a session is open in which something was asked by a map that there is not.
    pub fn waits_ahead(&self) -> bool {
        self.sessions.iter().any(|session| session.is_ahead)
    }
}

fn own_addr(life: u32, port: u16) -> EntityAddr {
    EntityAddr::parse(&format!("v2:10.0.3.1:{port}/{life}"), AddrType::MSGR2).expect("an address")
}

impl Cluster {
    /// Another session begins by chance, and then the next one.
    pub(crate) fn intrude(&mut self) {
        if !self.troubled {
            return;
        }
        let pause = self.hostile.rng.below(2 * self.plan.hostile * MS) + 1;
        self.net.after(pause, What::Intrude);
        if self.hostile.sessions.len() < SESSIONS {
            self.begin_session();
        }
    }
    fn begin_session(&mut self) {
        let Some(map) = self.newest_map() else { return };
        let rng = &mut self.hostile.rng;
        // A real messenger finds its peers by their addresses, and which of them may claim one is decided by tickets, which are absent here.
        let guise = Guise::any(self.net.wires.are_real(), rng);
        let told: Vec<&Overheard> = self.net.overheard.iter().flatten().filter(|told| told.port == Port::Cluster).collect();
        let (claims, to) = match guise {
            _ if guise.speaks_as_osd() => {
                if told.is_empty() {
                    return;
                }
                let told = told[rng.below(told.len() as u64) as usize];
                let Proc::Osd(claims) = told.from else { return };
                (claims, told.to)
            }
            Guise::AtMonitor | Guise::AtManager => (-1, Proc::Mon),
            _ => (-1, Proc::Osd(rng.below(self.osds.len() as u64) as i32)),
        };
        let at = |all: &[EntityAddrVec], osd: OsdId| all.get(osd as usize).filter(|_| map.is_up(osd)).cloned();
        let target = match to {
            Proc::Osd(osd) if guise == Guise::Numbered || guise == Guise::Stranger => at(&map.cluster_addrs, osd),
            Proc::Osd(osd) => at(&map.client_addrs, osd),
            _ if guise == Guise::AtManager => self.monitor.as_ref().map(|monitor| EntityAddrVec::one(mgr_addr(monitor.life.1))),
            _ => Some(EntityAddrVec::one(mon_addr())),
        };
        let number = self.next_life();
        let claimed = at(&map.cluster_addrs, claims);
        let addrs = match guise {
            Guise::Numbered | Guise::Outside => claimed,
            Guise::Stranger => Some(EntityAddrVec::one(own_addr(number, 6801))),
            _ => Some(EntityAddrVec::one(own_addr(number, 0))),
        };
        let (Some(target), Some(addrs)) = (target, addrs) else { return };
        let is_osd = guise == Guise::Stranger || guise == Guise::Outside;
        let entity =
            if is_osd { EntityText::new(EntityKind::OSD, claims.to_string()) } else { EntityText::new(EntityKind::CLIENT, "rogue") };
        let global_id = if guise == Guise::Numbered { claims as u64 } else { 9_000_000 + u64::from(number) };
        let (life, who) = ((Proc::Guest(0), number), Who { entity, global_id, addrs });
        self.net.note(format!("a {guise:?} dials {to:?} as {} at {}", who.entity, who.addrs.front()));
        self.net.dials(&who, life, Port::Public);
        let kind = if to == Proc::Mon { EntityKind::MON } else { EntityKind::OSD };
        let kind = if guise == Guise::AtManager { EntityKind::MGR } else { kind };
        let link = self.net.dial(life, Port::Public, kind, &target, false);
        let left = 1 + self.hostile.rng.below(12);
        let (asked, cursor, tid, is_open, is_ahead) = (BTreeMap::new(), None, 0, false, false);
        self.hostile.sessions.push(Session { life, guise, who, link, to, claims, is_open, left, tid, cursor, asked, is_ahead });
        if self.hostile.rng.chance(1, 6) {
            // It may be gone before it is there.
            let soon = self.hostile.rng.below(20 * MS);
            self.net.after(soon, What::Continue(life));
        }
    }
    pub(crate) fn newest_map(&self) -> Option<Rc<OsdMap>> {
        self.net.map(self.monitor.as_ref()?.newest_epoch)
    }
    fn world(&self) -> Option<World> {
        let next = self.clients.iter().flatten().map(crate::client::ClientProcess::next_request).collect();
        Some(World {
            map: self.newest_map()?,
            objects: self.plan.objects.into(),
            pg_num_stays: self.plan.pg_num_changes + self.plan.fence == 0,
            next,
            overheard: self.net.overheard.iter().flatten().cloned().collect(),
        })
    }
    /// Something happens to a session.
    pub(crate) fn to_rogue(&mut self, life: Life, what: What) {
        match what {
            What::Opened { .. } | What::Think(_) => self.rogue_acts(life),
            What::Deliver { msg, .. } => self.rogue_hears(life, &msg),
            What::Continue(_) | What::Closed { .. } | What::Refused { .. } | What::DialFailed { .. } => self.end_session(life),
            _ => {}
        }
    }
    fn end_session(&mut self, life: Life) {
        self.hostile.sessions.retain(|session| session.life != life);
        self.net.died(life);
    }
    /// Sends some messages, and goes when it has said all.
    fn rogue_acts(&mut self, life: Life) {
        let Some(world) = self.world() else { return self.end_session(life) };
        let Hostile { rng, sessions, forged } = &mut self.hostile;
        let session = sessions.iter_mut().find(|session| session.life == life).expect("it lives");
        session.is_open = true;
        if session.left == 0 {
            // By a map that there is not it waits to the end, if it may.
            if !session.is_ahead || rng.chance(1, 2) {
                self.end_session(life);
            }
            return;
        }
        session.left -= 1;
        let mut all = Vec::new();
        for _ in 0..1 + rng.below(3) {
            all.extend(forge::messages(session, &world, rng));
        }
        *forged += all.len() as u64;
        let (link, pause) = (session.link, rng.below(400 * MS) + MS);
        all.into_iter().for_each(|msg| self.net.send(life, link, msg));
        match self.hostile.rng.chance(1, 12) {
            true => self.end_session(life),
            false => self.net.after(pause, What::Think(life)),
        }
    }
    /// There are no more faults, and no such clients.
    pub(crate) fn rogues_go(&mut self) {
        let gone: Vec<Life> = self.hostile.sessions.iter().filter(|session| !session.is_ahead).map(|session| session.life).collect();
        gone.into_iter().for_each(|life| self.end_session(life));
    }
}
