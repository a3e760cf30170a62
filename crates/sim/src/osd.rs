//! An OSD's process: the shipped [`Daemon`], and what its messengers and its timer do. Decides nothing.
//!
//! As the messenger does: what is sent on a dial before it is open waits for it; a lossless dial that fails is tried again, with pauses, until the
//! daemon gives it up; a lossy one is over.

use crate::acks;
use crate::drive::Drive;
use crate::former;
use crate::monitor::{Who, fsid, mon_addr};
use crate::net::{Life, LinkId, Net, Port, Proc, Trim, What};
use crate::one_version;
use crate::plan::Plan;
use crate::{MS, SEC};
use base::{Account, Budget, Clock, Permit, Rng, Stamp, Turn};
use cephx::Identity;
use cephx::caps::OsdCap;
use maps::OsdMap;
use messages::{MBackfillReserve, MOSDOp, MOSDRepOp, MRecoveryReserve, Message, RawMessage};
use objecter::MonClient;
use osd_core::daemon::{DialFailure, Effect, Event, Location, Network, StartSetup};
use osd_core::{BootInfo, ConnId, Daemon, Osd, OsdSetup, Peer};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityName, EntityText, Epoch, PoolId, Uuid, features};

/// The messenger's pauses between dials of a lossless connection.
const PAUSE_FIRST_NS: u64 = 200 * MS;
const PAUSE_MAX_NS: u64 = 15 * SEC;

/// The name of an OSD's device; it may have had others before.
pub fn osd_uuid(id: i32, generation: u8) -> Uuid {
    let mut bytes = [id as u8 + 100; 16];
    bytes[15] += generation;
    Uuid::from_random(bytes)
}
fn addr(id: i32, port: Port, life: u32) -> EntityAddr {
    let at = match port {
        Port::Cluster => 6801,
        Port::HbFront => 6802,
        Port::HbBack => 6803,
        _ => 6800,
    };
    EntityAddr { nonce: life, ..EntityAddr::parse(&format!("v2:10.0.1.{id}:{at}/0"), AddrType::MSGR2).expect("an address") }
}

/// A connection that the daemon dialled.
struct Dialled {
    link: LinkId,
    addrs: EntityAddrVec,
    lossless: bool,
    is_open: bool,
    /// Dials that failed in a row.
    attempts: u32,
    /// What was sent before it was open.
    waiting: Vec<RawMessage>,
}

/// What an OSD went by before an event.
struct Before {
    map: Rc<OsdMap>,
    /// Its groups, if any of them goes by an older map: one waits with its split or merge for its store.
    groups: acks::Epochs,
}

/// See the module.
pub struct OsdProcess {
    pub life: Life,
    id: i32,
    daemon: Daemon,
    dialled: BTreeMap<ConnId, Dialled>,
    /// Numbers of dials by their links.
    by_link: BTreeMap<LinkId, ConnId>,
    /// The connection on which a sign of life was asked for last, and the answer where it always comes.
    keepalive: Option<LinkId>,
    acked_wall_ns: Option<u64>,
    /// What clients' requests hold, which have all that they want; and each link's account of it.
    budget: Rc<Budget>,
    accounts: BTreeMap<LinkId, Rc<Account>>,
    /// Other numbers of a connection that was closed: the daemon is told after the event.
    others_closed: Vec<ConnId>,
    /// Where members' links come to, with the nonce of now.
    cluster_addrs: EntityAddrVec,
    wake_at: Stamp,
    disk_turn: bool,
    /// How long a turn of the loop reads messages at most, and whether one goes on.
    turn_ns: u64,
    in_turn: bool,
    /// Until when its device is slow, and by how much.
    slow: (u64, u64),
    newest_epoch: Epoch,
    /// Its clocks: the monotonic one counts from its start, the one on the wall is so far ahead.
    born_ns: u64,
    wall_ahead_ns: i64,
    /// Why it ended by itself.
    pub ended: Option<Option<String>>,
}

/// Where an OSD stands in the CRUSH map: on a host of its own, or below the device that it shares.
fn place(id: i32, per_device: u32) -> Vec<String> {
    match per_device as i32 {
        0 => vec![format!("host=host{id}"), "root=default".into()],
        each => vec![format!("device=device{}", id / each), "host=host".into(), "root=default".into()],
    }
}

impl OsdProcess {
    pub fn start(id: i32, number: u32, uuid: Uuid, plan: &Plan, drive: &mut Drive, spoils: bool, net: &mut Net) -> Result<Self, String> {
        let life = (Proc::Osd(id), number);
        let store = drive.open(spoils, plan.memory_bytes, &mut net.rng)?;
        let entries = plan.log_entries.to_string();
        let scan_max = if plan.scan_max > 0 { plan.scan_max.to_string() } else { entries.clone() };
        let profile = if plan.recovery_unpaced { "custom" } else { "balanced" };
        let setup = OsdSetup {
            whoami: id,
            cluster_fsid: fsid(),
            osd_fsid: uuid,
            seed: net.rng.u64(),
            classes: &classes::BUILTIN,
            config: vec![
                ("osd_min_pg_log_entries".into(), entries.clone()),
                ("osd_max_pg_log_entries".into(), entries.clone()),
                // Trimmed as soon as it is longer; what is listed for a backfill, in pages of as many.
                ("osd_pg_log_trim_min".into(), entries.clone()),
                ("osd_backfill_scan_max".into(), scan_max),
                ("osd_recovery_max_active".into(), plan.recovery_active.to_string()),
                ("osd_mclock_profile".into(), profile.into()),
                ("osd_recovery_max_chunk".into(), plan.chunk_bytes.to_string()),
                ("osd_recovery_max_omap_entries_per_chunk".into(), plan.chunk_keys.to_string()),
                ("osd_recovery_sleep".into(), (plan.recovery_sleep_ms as f64 / 1e3).to_string()),
                ("osd_pool_default_read_lease_ratio".into(), (plan.lease_percent as f64 / 1e2).to_string()),
                ("osd_debug_reject_backfill_probability".into(), (plan.refused_places as f64 / 1e2).to_string()),
            ],
        };
        for port in [Port::Public, Port::Cluster, Port::HbFront, Port::HbBack] {
            net.listen(&Self::who(id, number, port), life, port);
        }
        let at = |port| EntityAddrVec::one(addr(id, port, number));
        let start = StartSetup {
            boot: BootInfo {
                public: at(Port::Public),
                cluster: at(Port::Cluster),
                hb_front: at(Port::HbFront),
                hb_back: at(Port::HbBack),
                metadata: vec![("ceph_version".into(), format!("ceph version {} (humboldt sim)", osd_core::VERSION))],
            },
            cluster_fsid: Some(fsid()),
            device_class: None,
            location: Some(Location { weight: 1.0, args: place(id, plan.per_device) }),
            start_empty: false,
        };
        let identity = Rc::new(RefCell::new(Identity::none(EntityText::new(EntityKind::OSD, id.to_string()))));
        let client = MonClient::new(identity, vec![EntityAddrVec::one(mon_addr())], format!("host{id}"), net.rng.u64());
        // Before the daemon has it, and with chance of its own.
        let mut core = Osd::new(setup, store);
        if plan.late_answers {
            core.delay_answers(plan.seed ^ (u64::from(number) << 32) ^ id as u64);
        }
        let mut osd = Self {
            life,
            id,
            daemon: Daemon::new(core, client, start, Box::new(Rng::new(net.rng.u64()))),
            dialled: BTreeMap::new(),
            by_link: BTreeMap::new(),
            keepalive: None,
            acked_wall_ns: None,
            budget: Budget::new(0, 0),
            accounts: BTreeMap::new(),
            others_closed: Vec::new(),
            cluster_addrs: at(Port::Cluster),
            wake_at: Stamp(0),
            disk_turn: false,
            turn_ns: plan.turn_ns,
            in_turn: false,
            slow: (0, 0),
            newest_epoch: 0,
            born_ns: net.now_ns,
            wall_ahead_ns: net.rng.below(4 * SEC) as i64 - 2 * SEC as i64,
            ended: None,
        };
        osd.event(Event::Start, drive, net);
        Ok(osd)
    }
    pub fn core(&self) -> &Osd {
        self.daemon.osd()
    }
    pub fn id(&self) -> i32 {
        self.id
    }
    /// Groups of which it would answer a read at this moment.
    pub fn served(&self, now_ns: u64) -> impl Iterator<Item = &osd_core::pg::Pg> {
        let now = Stamp(now_ns - self.born_ns + SEC);
        self.core().pgs().filter(move |pg| pg.peering().is_primary() && pg.peering().is_active() && pg.lease().may_serve(now))
    }
    /// The OSD that a connection is to.
    fn other_osd(&self, conn: ConnId, net: &Net) -> Option<i32> {
        let dialled = self.dialled.get(&conn);
        match net.other_end(dialled.map_or(conn.0, |dialled| dialled.link), self.life) {
            Some(Proc::Osd(id)) => Some(id),
            Some(_) => None,
            None => dialled?.addrs.front().to_string().split_once("10.0.1.")?.1.split(':').next()?.parse().ok(),
        }
    }
    /// What a message that is sent tells checkers.
    fn look_at_sent(&self, conn: ConnId, msg: &RawMessage, before: &Before, net: &mut Net) {
        // Those who want harm ask for objects of any name.
        if !matches!(net.other_end(conn.0, self.life), Some(Proc::Guest(_))) {
            let ack = acks::told(self.id, msg, &before.map, |pool, hash| self.maps_of(before, pool, hash, net));
            net.acks.extend(ack);
        }
        if matches!(msg.kind, MBackfillReserve::KIND | MRecoveryReserve::KIND)
            && let Some(to) = self.other_osd(conn, net)
            && let Err(why) = net.places.goes(self.life.1, self.daemon.osd(), to, msg)
        {
            net.wrong.get_or_insert(format!("places: {why}"));
        }
        if let Some(m) = (msg.kind == MOSDRepOp::KIND).then(|| MOSDRepOp::decode(msg).ok()).flatten() {
            net.trims.push(Trim { pgid: m.pgid, since: m.min_epoch, to: m.pg_trim_to });
            if let Some(to) = self.other_osd(conn, net)
                && let Err(why) = one_version::check(self.daemon.osd(), to, &m)
            {
                net.wrong.get_or_insert(format!("one version: {why}"));
            }
        }
    }
    /// The process is gone; its store stays.
    pub fn into_core(self) -> Osd {
        self.daemon.into_osd()
    }
    /// How others see it that a link from one of its ports comes to.
    pub fn who_at(&self, port: Port) -> Who {
        let who = Self::who(self.id, self.life.1, port);
        if port == Port::Cluster { Who { addrs: self.cluster_addrs.clone(), ..who } } else { who }
    }
    /// How monitors and other OSDs see one that has just started.
    pub fn who(id: i32, life: u32, port: Port) -> Who {
        let entity = EntityText::new(EntityKind::OSD, id.to_string());
        let port = if port == Port::Mgr || port == Port::Mon { Port::Public } else { port };
        Who { entity, global_id: 1000 + id as u64, addrs: EntityAddrVec::one(addr(id, port, life)) }
    }

    /// The clocks of this process.
    fn clock(&self, net: &Net) -> Clock {
        let wall_ns = net.clock().wall_ns.saturating_add_signed(self.wall_ahead_ns);
        Clock { mono: Stamp(net.now_ns - self.born_ns + SEC), wall_ns }
    }
    /// The clock on the wall jumps by so much.
    pub fn wall_jumps(&mut self, by_ns: i64) {
        self.wall_ahead_ns = (self.wall_ahead_ns + by_ns).clamp(-100 * SEC as i64, 100 * SEC as i64);
    }
    /// Until then its device takes up to so much longer for something.
    pub fn disk_is_slow(&mut self, until_ns: u64, by_ns: u64) {
        self.slow = (until_ns, by_ns);
    }
    /// When it is so late on its monotonic clock.
    fn when(&self, at: Stamp) -> u64 {
        at.0.saturating_add(self.born_ns).saturating_sub(SEC)
    }

    fn event(&mut self, event: Event, drive: &mut Drive, net: &mut Net) {
        let (clock, mut effects) = (self.clock(net), Vec::new());
        let map = self.core().map().clone();
        let before = Before { groups: if self.is_level() { Vec::new() } else { self.epochs() }, map };
        self.daemon.handle(event, clock, &mut effects);
        let epoch = self.core().map().epoch;
        assert!(epoch >= self.newest_epoch, "osd.{}'s map goes back from epoch {} to {epoch}", self.id, self.newest_epoch);
        if epoch > self.newest_epoch {
            net.has_map(self.life.0, self.daemon.osd().map());
        }
        self.newest_epoch = epoch;
        for effect in effects {
            if let Effect::Send { conn, msg } = &effect {
                self.look_at_sent(*conn, msg, &before, net);
            }
            self.carry_out(effect, net);
        }
        while let Some(conn) = self.others_closed.pop() {
            self.event(Event::Reset { conn }, drive, net);
        }
        if !self.disk_turn && drive.is_busy() {
            self.disk_turn = true;
            let mut delay = 20_000 + net.rng.below(if net.rng.clone().chance(1, 50) { 40 * MS } else { MS });
            if self.slow.0 > net.now_ns {
                delay += net.rng.below(self.slow.1);
            }
            net.after(delay, What::Disk(self.life));
        }
    }

    /// True if every group has taken in the OSD's map.
    fn is_level(&self) -> bool {
        let epoch = self.core().map().epoch;
        self.core().pgs().all(|pg| pg.peering().mapping.epoch == epoch)
    }
    fn epochs(&self) -> acks::Epochs {
        self.core().pgs().map(|pg| (pg.pgid, pg.peering().mapping.epoch)).collect()
    }
    /// The maps that an object's group went by before an event and goes by now.
    fn maps_of(&self, before: &Before, pool: PoolId, hash: u32, net: &Net) -> Vec<Rc<OsdMap>> {
        let then = match before.groups.is_empty() {
            true => Some(before.map.clone()),
            false => acks::epoch_of(&before.groups, pool, hash).and_then(|epoch| net.map(epoch)),
        };
        let now = acks::epoch_of(&self.epochs(), pool, hash).and_then(|epoch| net.map(epoch));
        let mut maps: Vec<Rc<OsdMap>> = then.into_iter().chain(now).collect();
        maps.dedup_by_key(|map| map.epoch);
        maps
    }

    fn carry_out(&mut self, effect: Effect, net: &mut Net) {
        if !matches!(effect, Effect::Send { .. }) {
            net.trace.effect(&effect);
        }
        match effect {
            Effect::Send { conn, msg } => match self.dialled.get_mut(&conn) {
                Some(dialled) if !dialled.is_open && !net.wires.are_real() => dialled.waiting.push(msg),
                Some(dialled) => net.send(self.life, dialled.link, msg),
                None => net.send(self.life, conn.0, msg),
            },
            Effect::Dial { conn, network, name, addrs, lossless } => {
                let link = net.dial(self.life, port(network), name.kind, &addrs, lossless);
                // A link that there is keeps the number that it has.
                self.by_link.entry(link).or_insert(conn);
                self.dialled.insert(conn, Dialled { link, addrs, lossless, is_open: false, attempts: 0, waiting: Vec::new() });
            }
            Effect::Close { conn } => {
                let link = self.dialled.get(&conn).map_or(conn.0, |dialled| dialled.link);
                net.close(self.life, link);
                let others = self.forget(link);
                self.others_closed.extend(others.into_iter().filter(|other| *other != conn));
            }
            Effect::RenewCluster { addrs } => self.renew_cluster(addrs, net),
            Effect::Keepalive { conn } => {
                let (link, now_ns) = (self.dialled.get(&conn).map_or(conn.0, |dialled| dialled.link), self.clock(net).wall_ns);
                self.keepalive = Some(link);
                if net.keepalive(link, now_ns) {
                    self.acked_wall_ns = Some(now_ns);
                }
            }
            Effect::WakeAt(at) => {
                self.wake_at = at;
                net.at(self.when(at).max(net.now_ns), What::Tick(self.life));
            }
            Effect::Continue => net.after(1000, What::Continue(self.life)),
            Effect::Booted { epoch } => net.note(format!("osd.{} is up in epoch {epoch}", self.id)),
            Effect::Log { level, text } => {
                if level <= osd_core::Level::Warn {
                    net.note(format!("osd.{} says: {text}", self.id));
                }
            }
            // No device is asked for its health here, and no command comes by an admin socket.
            Effect::AskDevices { .. } | Effect::AnswerAdmin { .. } => {}
            Effect::Stop { why } => self.ended = Some(why),
        }
    }
    /// The messenger's other addresses, as the shell has them: every link of that network is over.
    fn renew_cluster(&mut self, addrs: EntityAddrVec, net: &mut Net) {
        self.cluster_addrs = addrs;
        let dials: Vec<LinkId> = self.dialled.values().filter(|dialled| dialled.lossless).map(|dialled| dialled.link).collect();
        let links: BTreeSet<LinkId> = net.renew(&self.who_at(Port::Cluster), self.life, Port::Cluster).into_iter().chain(dials).collect();
        for link in links {
            let names = self.forget(link);
            self.others_closed.extend(names);
        }
    }
    /// A link is over: all numbers that it had.
    fn forget(&mut self, link: LinkId) -> Vec<ConnId> {
        let mut names = vec![self.number(link)];
        self.by_link.remove(&link);
        self.accounts.remove(&link);
        self.dialled.retain(|conn, dialled| {
            if dialled.link == link && !names.contains(conn) {
                names.push(*conn);
            }
            dialled.link != link
        });
        names
    }
    /// The daemon's number for a link: its own if it dialled first.
    fn number(&self, link: LinkId) -> ConnId {
        self.by_link.get(&link).copied().unwrap_or(ConnId(link))
    }

    /// A time that the daemon named has come; it may have named another one since.
    pub fn tick(&mut self, drive: &mut Drive, net: &mut Net) {
        if net.now_ns < self.when(self.wake_at) {
            return;
        }
        if let Some(sent_wall_ns) = self.keepalive.and_then(|link| net.keepalive_acked(link)).or(self.acked_wall_ns.take()) {
            self.event(Event::KeepaliveAcked { sent_wall_ns }, drive, net);
        }
        self.event(Event::Time, drive, net);
    }
    pub fn continued(&mut self, drive: &mut Drive, net: &mut Net) {
        self.event(Event::Continue, drive, net);
    }
    pub fn disk(&mut self, drive: &mut Drive, net: &mut Net) {
        self.disk_turn = false;
        drive.complete_some(&mut net.rng);
        self.event(Event::TurnEnd, drive, net);
    }

    /// A link of another process to one of our networks.
    pub fn accept(&mut self, link: LinkId, port: Port, who: &Who, cap: Option<OsdCap>, drive: &mut Drive, net: &mut Net) {
        let conn = *self.by_link.entry(link).or_insert(ConnId(link));
        self.event(Event::Accepted { conn, peer: Peer { cap, ..peer(who, network(port)) } }, drive, net);
    }
    /// A link that we dialled is open.
    pub fn opened(&mut self, link: LinkId, port: Port, who: &Who, drive: &mut Drive, net: &mut Net) {
        let conn = self.number(link);
        if let Some(dialled) = self.dialled.get_mut(&conn) {
            (dialled.is_open, dialled.attempts) = (true, 0);
            for msg in std::mem::take(&mut dialled.waiting) {
                net.send(self.life, link, msg);
            }
        }
        self.event(Event::Opened { conn, peer: peer(who, network(port)) }, drive, net);
    }
    /// A link that we dialled is refused.
    pub fn refused(&mut self, link: LinkId, drive: &mut Drive, net: &mut Net) {
        let conn = self.number(link);
        let Some(dialled) = self.dialled.get_mut(&conn) else { return };
        dialled.attempts += 1;
        let attempts = dialled.attempts;
        self.event(Event::DialFailed { conn, why: DialFailure::Refused, attempts }, drive, net);
        // The daemon may have given it up.
        match self.dialled.get(&conn).map(|dialled| dialled.lossless) {
            Some(true) => {
                let pause = (PAUSE_FIRST_NS << (attempts - 1).min(10)).min(PAUSE_MAX_NS);
                net.after(pause, What::Redial { life: self.life, link });
            }
            Some(false) => panic!("osd.{}: a lossy dial that failed is neither given up nor made again", self.id),
            None => {}
        }
    }
    /// A dial of a real link failed.
    pub fn dial_failed(&mut self, link: LinkId, is_refused: bool, attempts: u32, drive: &mut Drive, net: &mut Net) {
        let why = if is_refused { DialFailure::Refused } else { DialFailure::Other };
        self.event(Event::DialFailed { conn: self.number(link), why, attempts }, drive, net);
    }
    /// The messenger dials a lossless connection again.
    pub fn redial(&mut self, link: LinkId, net: &mut Net) {
        let conn = self.number(link);
        if let Some(dialled) = self.dialled.get_mut(&conn) {
            self.by_link.remove(&link);
            dialled.link = net.dial(self.life, Port::Cluster, EntityKind::OSD, &dialled.addrs, true);
            self.by_link.insert(dialled.link, conn);
        }
    }
    pub fn closed(&mut self, link: LinkId, drive: &mut Drive, net: &mut Net) {
        for conn in self.forget(link) {
            self.event(Event::Reset { conn }, drive, net);
        }
    }
    /// What a client's request holds until it is answered.
    fn permit(&mut self, link: LinkId, msg: &RawMessage, net: &Net) -> Option<Permit> {
        if matches!(net.other_end(link, self.life), Some(Proc::Osd(_))) {
            return None;
        }
        let account = self.accounts.entry(link).or_insert_with(|| self.budget.account());
        let (bytes, waker) = ((msg.front.len() + msg.data_len()) as u64, std::task::Waker::noop());
        let mut permit = self.budget.reserve(bytes, account, &mut Turn::default(), waker).expect("there is no bound");
        permit.admit(false, &mut Turn::default(), waker).expect("there is no bound");
        Some(permit)
    }
    /// Requests under way.
    pub fn held(&self) -> u64 {
        self.budget.stats().messages
    }
    pub fn budget(&self) -> &Budget {
        &self.budget
    }
    pub fn message(&mut self, link: LinkId, port: Port, msg: RawMessage, drive: &mut Drive, net: &mut Net) {
        let conn = self.number(link);
        let network = network(port);
        let event = match msg.kind == MOSDOp::KIND {
            true => Event::Request { conn, permit: self.permit(link, &msg, net), msg },
            false => Event::Message { conn, network, msg },
        };
        let kind = match &event {
            Event::Message { msg, .. } => msg.kind,
            _ => MOSDOp::KIND,
        };
        let before = match (&event, net.other_end(link, self.life)) {
            (Event::Message { msg, .. }, Some(Proc::Osd(from))) => {
                net.places.comes(self.life.1, self.daemon.osd(), from, msg);
                // What was gathered in this turn may be done with it.
                former::before(self.core(), msg).filter(|_| !self.in_turn)
            }
            _ => None,
        };
        self.event(event, drive, net);
        if let Some(Err(why)) = before.map(|before| former::after(self.core(), &before, kind)) {
            net.wrong.get_or_insert(format!("former: {why}"));
        }
        match self.turn_ns {
            0 => self.event(Event::TurnEnd, drive, net),
            _ if self.in_turn => {}
            longest => {
                self.in_turn = true;
                let delay = net.rng.below(longest);
                net.after(delay, What::TurnEnd(self.life));
            }
        }
    }
    /// The loop has read what there was.
    pub fn turn_end(&mut self, drive: &mut Drive, net: &mut Net) {
        self.in_turn = false;
        self.event(Event::TurnEnd, drive, net);
    }
}

/// The network of a messenger.
fn network(port: Port) -> Network {
    match port {
        Port::HbFront => Network::HbFront,
        Port::HbBack => Network::HbBack,
        Port::Cluster => Network::Cluster,
        Port::Mon | Port::Mgr | Port::Public => Network::Public,
    }
}
/// The messenger of a network.
fn port(network: Network) -> Port {
    match network {
        Network::Public => Port::Public,
        Network::Cluster => Port::Cluster,
        Network::HbFront => Port::HbFront,
        Network::HbBack => Port::HbBack,
    }
}

fn peer(who: &Who, network: Network) -> Peer {
    let num = match who.entity.kind {
        EntityKind::OSD => who.entity.id.parse().expect("an OSD's name is its number"),
        _ => who.global_id as i64,
    };
    Peer {
        name: EntityName { kind: who.entity.kind, num },
        entity: who.entity.to_string(),
        global_id: who.global_id,
        features: features::SUPPORTED,
        supported: features::SUPPORTED,
        addr: who.addrs.front(),
        from: who.addrs.front(),
        network,
        cap: None,
    }
}
