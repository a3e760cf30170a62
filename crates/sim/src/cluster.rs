//! The cluster: one queue of events, each handed to its process. What faults do is in [`crate::faults`], what is asked of it in [`crate::judge`].

use crate::away;
use crate::barred::{self, Bars};
use crate::chains::Chains;
use crate::client::{ClientProcess, POOL};
use crate::crowd::Crowd;
use crate::devices::Devices;
use crate::drive::Drive;
use crate::exchange::{self, Exchanges};
use crate::fence::Fences;
use crate::followers::{self, Followers};
use crate::gaps::{self, Gaps};
use crate::harm::Harm;
use crate::history::History;
use crate::hostile::Hostile;
use crate::monitor::{MonDisk, Monitor, Who};
use crate::net::{Life, LinkId, Net, Port, Proc, What};
use crate::osd::{OsdProcess, osd_uuid};
use crate::plan::{MAPS_KEPT, Plan};
use crate::planted::{Broken, Planted, acknowledged, as_another_request};
use crate::rest::{Rest, restless};
use crate::seen::Seen;
use crate::serving::Serving;
use crate::vanish::Vanish;
use crate::watching::{self, Watching};
use crate::{MS, SEC};
use messages::{MOSDOp, MOSDOpReply, MOSDPGBackfill, MOSDPGPush, MOSDRepOp, Message, RawMessage};
use std::collections::BTreeMap;
use types::{EVersion, Epoch, SpgId};

/// Events between two steps of time; more of them are a core that hangs.
const EVENTS_AT_ONCE: u32 = 50_000;
/// Events of one run.
const EVENTS_MAX: u64 = 20_000_000;
/// How often it is looked at whether the cluster is where it shall be.
const LOOK_NS: u64 = 20 * MS;
/// Longer than an OSD keeps a request that was sent by a map which there is not.
const NO_MAP_NS: u64 = 60 * SEC;
/// Longer than anything is on its way in a healed cluster, but for what a partition holds.
const QUIET_NS: u64 = 5 * SEC;

/// What a run was.
#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    /// Hash of everything that happened.
    pub trace: u64,
    pub events: u64,
    pub calls: usize,
    pub answered: usize,
    pub virtual_s: f64,
    pub faults: u32,
    /// Messages of clients that want harm.
    pub forged: u64,
    /// Reads that members answered which were asked straight.
    pub served: u64,
    /// Objects whose histories had too many explanations to follow.
    pub wild: u32,
    /// How often an OSD came up with another device, and how many OSDs were added.
    pub replaced: u32,
    pub added: u32,
    /// How many stores vanished, and how many times two were swapped.
    pub vanished: u32,
    pub swaps: u32,
    /// Objects that were taken over from clients that were shut out, and answers that told these.
    pub barred: [u64; 2],
    /// How often a client, and an OSD, lacked maps that were trimmed.
    pub gaps: [u32; 2],
    /// How often all members of a group that was exchanged died, by an old one's acknowledgement and by a new one's.
    pub exchanged: [u32; 2],
    /// Notifies that ended, those of them that timed out, and how often a watch heard of one.
    pub notifies: [u64; 3],
    /// How often an OSD that had been in the map started with an older one than the monitor still had.
    pub behind: u32,
    /// How many maps the monitor has trimmed.
    pub trimmed: u32,
    /// How often an OSD came to where its planted bug matters.
    pub reached: u64,
    /// How the healed cluster came to rest, if it did.
    pub rest: Option<Rest>,
    /// What of the cores the run reached.
    pub seen: Seen,
    /// What is wrong, by which checker, and the last events of the object or group that it concerns.
    pub failure: Option<String>,
}

/// Runs one plan to its end.
pub fn run(plan: &Plan, planted: Option<Planted>, loud: bool) -> Report {
    let broken = Broken::of(planted);
    let mut cluster = Cluster::new(plan.clone(), planted);
    cluster.net.trace.loud = loud;
    let failure = cluster.live().err();
    Report { reached: broken.reached(), ..cluster.report(failure) }
}
/// Runs one plan with every byte of every message and every effect in [`Report::trace`].
pub fn run_deep(plan: &Plan) -> Report {
    let mut cluster = Cluster::new(plan.clone(), None);
    cluster.net.trace.deep = true;
    let failure = cluster.live().err();
    cluster.report(failure)
}

/// See the module.
pub struct Cluster {
    pub(crate) plan: Plan,
    pub(crate) planted: Option<Planted>,
    pub net: Net,
    lives: u32,
    pub(crate) mon_disk: MonDisk,
    pub(crate) monitor: Option<Monitor>,
    pub(crate) drives: Vec<Drive>,
    pub(crate) osds: Vec<Option<OsdProcess>>,
    pub(crate) clients: Vec<Option<ClientProcess>>,
    pub history: History,
    /// Faults still come.
    pub(crate) troubled: bool,
    pub(crate) faults: u32,
    pub(crate) wild: u32,
    behind: u32,
    /// The newest map that an OSD had when it ended, on the device that it still has.
    pub(crate) known: BTreeMap<usize, Epoch>,
    rest: Option<Rest>,
    /// What an OSD's disk was at its last start, for a planted bug.
    pub(crate) old: Vec<Option<disk::MemDisks>>,
    pub(crate) broken: Option<String>,
    pub(crate) seen: Seen,
    pub(crate) harm: Harm,
    pub(crate) devices: Devices,
    pub(crate) vanish: Vanish,
    pub(crate) crowd: Crowd,
    /// OSDs that don't start before then.
    pub(crate) away: BTreeMap<usize, u64>,
    pub(crate) fences: Fences,
    pub(crate) hostile: Hostile,
    pub(crate) followers: Followers,
    pub(crate) bars: Bars,
    pub(crate) gaps: Gaps,
    pub(crate) exchanges: Exchanges,
    pub(crate) watching: Watching,
    pub(crate) chains: Chains,
    pub(crate) serving: Serving,
    /// When faults were over.
    pub(crate) healed_ns: u64,
    /// Clients that work by chance begin nothing before then.
    pub(crate) silent_ns: u64,
    /// Messages that were delivered, and other events of daemons.
    pub(crate) messages: u64,
    pub(crate) events: u64,
    /// Of each group, since when its interval is, and up to where its primary had its log trimmed in it.
    pub(crate) tails: BTreeMap<SpgId, (Epoch, EVersion)>,
}

impl Cluster {
    pub fn new(plan: Plan, planted: Option<Planted>) -> Self {
        let mut net = Net::new(plan.seed, plan.delay_ns, plan.wire);
        let wall_ns = net.clock().wall_ns;
        net.rules.out_after_ns = if plan.maps_kept < MAPS_KEPT { 10 * SEC } else { 600 * SEC };
        let mon_disk = MonDisk::new(if plan.per_device > 0 { "device" } else { "osd" }, plan.maps_kept, wall_ns, &mut net.rng);
        let drives = (0..plan.osds).map(|id| Drive::first(&plan, id as usize)).collect();
        Self {
            planted,
            net,
            lives: 0,
            mon_disk,
            monitor: None,
            drives,
            osds: (0..plan.osds).map(|_| None).collect(),
            clients: (0..watching::first(&plan) as u32 + plan.watchers).map(|_| None).collect(),
            history: History::new(plan.rot_beyond, plan.small_bytes > 0),
            troubled: false,
            faults: 0,
            wild: 0,
            behind: 0,
            known: BTreeMap::new(),
            rest: None,
            old: (0..plan.osds).map(|_| None).collect(),
            broken: None,
            seen: Seen::default(),
            harm: Harm::default(),
            devices: Devices::default(),
            vanish: Vanish::default(),
            crowd: Crowd::default(),
            away: BTreeMap::new(),
            fences: Fences::default(),
            hostile: Hostile::new(plan.seed),
            followers: Followers::new(plan.seed),
            bars: Bars::new(plan.seed),
            gaps: Gaps::new(plan.seed),
            exchanges: Exchanges::new(plan.seed),
            watching: Watching::new(plan.seed),
            chains: Chains::default(),
            serving: Serving::default(),
            healed_ns: 0,
            silent_ns: 0,
            messages: 0,
            events: 0,
            tails: BTreeMap::new(),
            plan,
        }
    }
    fn report(self, failure: Option<String>) -> Report {
        Report {
            seed: self.plan.seed,
            trace: self.net.trace.hash(),
            events: self.net.trace.events(),
            calls: self.history.calls.len(),
            answered: self.history.answered(),
            virtual_s: self.net.now_ns as f64 / 1e9,
            faults: self.faults,
            forged: self.hostile.forged,
            served: self.followers.served,
            wild: self.wild,
            replaced: self.devices.count_replaced(),
            added: self.osds.len() as u32 - self.plan.osds,
            vanished: self.vanish.vanished,
            swaps: self.vanish.swaps,
            barred: [self.bars.taken, self.bars.told],
            gaps: [self.gaps.clients, self.gaps.osds],
            exchanged: self.exchanges.done,
            notifies: [self.watching.ended, self.watching.timed_out, self.watching.heard],
            behind: self.behind,
            trimmed: self.monitor.as_ref().map_or(0, |m| m.core().osd.first_epoch().saturating_sub(1)),
            reached: 0,
            rest: self.rest,
            seen: self.seen.with_wire(self.net.wires.seen),
            failure,
        }
    }

    /// A number that no process has had.
    pub(crate) fn next_life(&mut self) -> u32 {
        self.lives += 1;
        self.lives
    }
    fn start(&mut self, proc: Proc) {
        if let Proc::Osd(id) = proc
            && (self.osds[id as usize].is_some() || !self.may_start(id as usize))
        {
            return;
        }
        let life = self.next_life();
        self.net.note(format!("{proc:?} starts its life {life}"));
        match proc {
            Proc::Mon if self.monitor.is_none() => {
                let monitor = Monitor::start(life, &mut self.mon_disk, &mut self.net);
                self.net.after(SEC, What::Tick(monitor.life));
                self.monitor = Some(monitor);
            }
            Proc::Osd(id) if self.osds[id as usize].is_none() => {
                if self.planted == Some(Planted::OldDisk)
                    && let Drive::Block(disks, _) = &self.drives[id as usize]
                {
                    self.old[id as usize] = Some(disks.copy());
                }
                self.drives[id as usize].ledger().lag(self.plan.commits_lag);
                let spoils = self.harm.stopped.remove(&(id as usize));
                let uuid = osd_uuid(id, self.devices.generation(id as usize));
                match OsdProcess::start(id, life, uuid, &self.plan, &mut self.drives[id as usize], spoils, &mut self.net) {
                    Ok(osd) => {
                        self.osds[id as usize] = Some(osd);
                        self.comes_back(id as usize);
                        self.look_at_end(id as usize);
                    }
                    Err(why) if self.harm.explains_end(id as usize, self.plan.rot_wide, &why) => {
                        self.net.note(format!("osd.{id} stays away: {why}"))
                    }
                    Err(why) => self.broken = Some(format!("process: osd.{id} does not start: {why}")),
                }
            }
            Proc::Client(n) if self.clients[n as usize].is_none() => {
                self.clients[n as usize] = Some(ClientProcess::start(n, life, &mut self.net));
            }
            _ => {}
        }
    }
    /// An OSD has started: is its newest map one that the monitor has trimmed?
    fn comes_back(&mut self, id: usize) {
        let Some(epoch) = self.known.remove(&id).filter(|epoch| *epoch > 0) else { return };
        let oldest = self.monitor.as_ref().map_or(0, |monitor| monitor.core().osd.first_epoch());
        if epoch < oldest {
            self.behind += 1;
            self.net.note(format!("osd.{id} has the map of epoch {epoch}, the monitor those from {oldest} on"));
        }
    }
    fn who(&self, life: Life, port: Port) -> Who {
        match life.0 {
            Proc::Osd(id) => {
                let osd = self.osds[id as usize].as_ref();
                osd.filter(|osd| osd.life == life).map_or_else(|| OsdProcess::who(id, life.1, port), |osd| osd.who_at(port))
            }
            Proc::Client(n) => ClientProcess::who(n, life.1),
            Proc::Guest(_) => self.hostile.who(life).unwrap_or_else(|| followers::who(life.1)),
            Proc::Mon => Who {
                entity: types::EntityText::new(types::EntityKind::MON, "a"),
                global_id: 0,
                addrs: types::EntityAddrVec::one(crate::monitor::mon_addr()),
            },
        }
    }

    /// The whole life: a cluster is made, meets its faults, heals, and is judged.
    fn live(&mut self) -> Result<(), String> {
        self.start(Proc::Mon);
        self.start(Proc::Client(0));
        for id in 0..self.plan.osds {
            let uuid = osd_uuid(id as i32, 0);
            self.command(format!(r#"{{"prefix":"osd new","uuid":"{uuid}","id":"{id}"}}"#))?;
            self.start(Proc::Osd(id as i32));
        }
        self.until(self.plan.rest_ns, "its OSDs up", |c| restless(c.monitor.as_ref(), &c.osds, &[]).is_none())?;
        let pg_num = self.plan.pg_num;
        let mut rule = "";
        if self.planted == Some(Planted::ChoosesOsds) {
            self.command(r#"{"prefix":"osd crush rule create-replicated","name":"by-osd","root":"default","type":"osd"}"#.into())?;
            rule = r#","pool_type":"replicated","rule":"by-osd""#;
        }
        self.command(format!(r#"{{"prefix":"osd pool create","pool":"{POOL}","pg_num":{pg_num},"pgp_num":{pg_num}{rule}}}"#))?;
        // The monitor's default is one copy.
        let copies = [("size", self.plan.size), ("min_size", self.plan.min_size)];
        for (name, value) in copies.into_iter().filter(|_| copies[0].1 > 1) {
            self.command(format!(r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"{name}","val":"{value}"}}"#))?;
        }
        self.until(self.plan.rest_ns, "its pool clean", |c| {
            c.clients[0].as_ref().is_some_and(ClientProcess::has_pool) && restless(c.monitor.as_ref(), &c.osds, &[]).is_none()
        })?;
        for n in 1..self.clients.len() as u32 {
            self.start(Proc::Client(n));
        }
        self.set_ratios();
        self.trouble();
        let ops = self.plan.ops as usize;
        let began_ns = self.net.now_ns;
        self.until(self.plan.faults_ns, "", move |c| {
            let others = c.fences.are_over(&c.plan) && c.bars.are_over(&c.plan) && c.gaps.are_over(&c.plan);
            c.calls_by_chance() >= ops && others && c.watching.is_over(&c.plan, began_ns, c.net.now_ns)
        })?;
        self.heal();
        self.make_room()?;
        let mut rest = self.comes_to_rest()?;
        if rest == Rest::Whole {
            watching::watches_at_rest(self)?;
            self.read_all()?;
            self.repair_all()?;
            self.scrub_all()?;
            self.change_one_copy()?;
            self.stays_at_rest()?;
            if self.is_one_gone() {
                rest = self.comes_to_rest()?;
            }
        }
        self.rest = Some(rest);
        if rest != Rest::Whole {
            return self.judge_histories();
        }
        self.until(NO_MAP_NS, "rid of requests by maps that there are not", |c| !c.hostile.waits_ahead() || c.is_nothing_aside())?;
        self.quiet_minute()?;
        self.look_at_map()?;
        self.look_at_budgets()?;
        self.net.look_at_wires().map_err(|why| self.tell(&why, &[]))?;
        self.look_at_rest()?;
        self.judge()
    }
    /// Lets things happen until `done`, which is looked at now and then; an error when that takes longer than `limit_ns` and it must come (`what` is not empty).
    pub(crate) fn until(&mut self, limit_ns: u64, what: &str, done: impl Fn(&Self) -> bool) -> Result<(), String> {
        let end = self.net.now_ns + limit_ns;
        let mut look_at = 0;
        loop {
            if self.net.now_ns >= look_at {
                self.look_at_all().map_err(|why| self.tell(&why, &[]))?;
                self.look_at_stores().map_err(|why| self.tell(&why, &[]))?;
                if done(self) {
                    break;
                }
                look_at = self.net.now_ns + LOOK_NS;
            }
            if self.net.now_ns > end {
                if what.is_empty() {
                    return Ok(());
                }
                let why = restless(self.monitor.as_ref(), &self.osds, &self.clients).unwrap_or_default();
                return Err(self.tell(&format!("rest: the cluster is not {what} after {} virtual seconds: {why}", limit_ns / SEC), &[]));
            }
            self.step()?;
        }
        Ok(())
    }
    /// Waits until nothing has happened to a cluster at rest for a while: what members say to each other at the very end is on its way, and so may be a
    /// command that was given before.
    pub(crate) fn stays_at_rest(&mut self) -> Result<(), String> {
        let epoch = |c: &Self| c.monitor.as_ref().map(|monitor| monitor.core().osd.epoch());
        let (first, end) = (epoch(self), self.net.now_ns + self.plan.rest_ns);
        loop {
            self.until(self.plan.rest_ns, "at rest", Self::is_settled)?;
            let (before, then) = (epoch(self), self.net.now_ns + QUIET_NS);
            self.until(2 * QUIET_NS, "quiet", |c| c.net.now_ns >= then)?;
            if self.is_settled() && epoch(self) == before {
                return Ok(());
            }
            if self.net.now_ns > end {
                let for_s = self.plan.rest_ns / SEC;
                let why =
                    format!("rest: the cluster is at rest for {for_s} virtual seconds, and goes from epoch {first:?} to {:?}", epoch(self));
                return Err(self.tell(&why, &[]));
            }
        }
    }
    pub(crate) fn tell(&self, what: &str, words: &[String]) -> String {
        let lines = self.net.trace.last(words, 60);
        format!("seed {:#x}: {what}\n  {}", self.plan.seed, lines.join("\n  "))
    }
    /// A command of the first client, which must succeed.
    fn command(&mut self, json: String) -> Result<(), String> {
        let client = self.clients[0].as_mut().expect("the first client lives while the cluster is made");
        let tid = client.command(json.clone(), &mut self.history, &mut self.net);
        self.until(300 * SEC, "answering commands", |c| c.clients[0].as_ref().is_some_and(|c| c.answers.contains_key(&tid)))?;
        let (result, status) = self.clients[0].as_mut().and_then(|c| c.answers.remove(&tid)).expect("it is there");
        if result == 0 { Ok(()) } else { Err(format!("seed {:#x}: {json}: {status} ({result})", self.plan.seed)) }
    }

    fn step(&mut self) -> Result<(), String> {
        let before = self.net.now_ns;
        let mut at_once = 0;
        loop {
            let Some(what) = self.net.next() else { return Err(self.tell("hang: nothing happens any more", &[])) };
            self.happens(what);
            if let Some(why) = self.broken.take() {
                return Err(self.tell(&why, &[]));
            }
            at_once += 1;
            if self.net.now_ns > before {
                break;
            }
            if at_once > EVENTS_AT_ONCE {
                return Err(self.tell("hang: time stands still", &[]));
            }
        }
        if self.net.trace.events() > EVENTS_MAX { Err(self.tell("hang: too many events", &[])) } else { Ok(()) }
    }
    /// True if this life is the one that runs.
    fn lives(&self, life: Life) -> bool {
        match life.0 {
            Proc::Mon => self.monitor.as_ref().is_some_and(|m| m.life == life),
            Proc::Osd(id) => self.osds[id as usize].as_ref().is_some_and(|o| o.life == life),
            Proc::Client(n) => self.clients[n as usize].as_ref().is_some_and(|c| c.life == life),
            Proc::Guest(_) => self.hostile.lives(life) || self.followers.lives(life),
        }
    }
    /// The process that something is for, if it is for one.
    fn target(&self, what: &What) -> Option<Life> {
        match what {
            What::Open { life, link } | What::Opened { life, link } | What::Deliver { link, to: life, .. } => {
                self.net.link(*link).map(|_| *life)
            }
            What::Refused { life, .. } | What::Closed { life, .. } | What::Redial { life, .. } | What::DialFailed { life, .. } => {
                Some(*life)
            }
            What::Wire(event) => self.net.wire_target(event),
            What::Tick(life) | What::Continue(life) | What::TurnEnd(life) | What::Disk(life) | What::Think(life) => Some(*life),
            What::Fault(_)
            | What::Start(_)
            | What::GoesOn(_)
            | What::Fence(_)
            | What::Say(..)
            | What::Replace(_)
            | What::Pulled(..)
            | What::SwapBack
            | What::Intrude
            | What::Follow
            | What::Bar(_)
            | What::Gap
            | What::Away(..) => None,
        }
    }
    fn happens(&mut self, what: What) {
        match what {
            What::Fault(fault) => return self.fault(fault),
            What::Start(proc) => return self.start(proc),
            What::GoesOn(proc) => return self.goes_on(proc),
            What::Fence(step) => return self.fence_step(step),
            What::Say(id, words) => return self.say_of_gone(id, words),
            What::Replace(id) => return self.may_replace(id),
            What::Pulled(id, life) => return self.pulled(id, life),
            What::SwapBack => return self.swap_back(),
            What::Intrude => return self.intrude(),
            What::Follow => return self.follow(),
            What::Bar(barred) => return barred::end(self, barred),
            What::Gap => return gaps::look(self),
            What::Away(id, step) => return away::step(self, id, step),
            _ => {}
        }
        let Some(life) = self.target(&what) else {
            if let What::Wire(event) = what {
                self.net.wire_nowhere(event);
            }
            return;
        };
        if !self.lives(life) {
            return;
        }
        if let Some(paused) = self.net.paused.get_mut(&life.0) {
            return paused.waiting.push(what);
        }
        if let What::Wire(event) = what {
            self.net.wire_happens(event);
            if let Some(why) = self.net.wrong.take() {
                self.broken.get_or_insert(why);
            }
            return;
        }
        self.events += u64::from(matches!(life.0, Proc::Mon | Proc::Osd(_)) && !matches!(what, What::Deliver { .. }));
        match life.0 {
            Proc::Mon => self.to_monitor(what),
            Proc::Osd(id) => self.to_osd(id as usize, what),
            Proc::Client(n) => self.to_client(n as usize, what),
            Proc::Guest(_) if self.hostile.lives(life) => self.to_rogue(life, what),
            Proc::Guest(_) => self.to_reader(life, what),
        }
    }
    /// A pause may be over: what came meanwhile happens now, in its order.
    fn goes_on(&mut self, proc: Proc) {
        if self.net.paused.get(&proc).is_some_and(|p| p.until_ns <= self.net.now_ns) {
            let paused = self.net.paused.remove(&proc).expect("looked at above");
            paused.waiting.into_iter().for_each(|what| self.happens(what));
        }
    }
    fn note_message(&mut self, link: LinkId, to: Life, kind: u16, len: usize) {
        self.messages += 1;
        if let Some(l) = self.net.link(link) {
            if !matches!(l.dialer.0, Proc::Guest(_)) {
                self.seen.message(kind);
            }
            let (a, b) = if l.server == to { (l.dialer.0, l.server.0) } else { (l.server.0, l.dialer.0) };
            let line = format!("{a:?} -> {b:?} message {kind} of {len} bytes");
            self.net.note(line);
        }
    }
    fn to_monitor(&mut self, what: What) {
        let monitor = self.monitor.as_mut().expect("it lives");
        let (disk, net) = (&mut self.mon_disk, &mut self.net);
        match what {
            What::Open { link, .. } => {
                let (dialer, port) = net.link(link).map(|l| (l.dialer, l.port)).expect("it is there");
                net.accepted(link);
                let who = self.net.who(link).unwrap_or_else(|| self.who(dialer, Port::Public));
                let monitor = self.monitor.as_mut().expect("it lives");
                let caps = match self.hostile.guise(dialer) {
                    Some(_) if port == Port::Mgr => "allow rw",
                    Some(_) => "allow r",
                    None => "allow *",
                };
                monitor.accept(link, port, &who, caps, &mut self.mon_disk, &mut self.net);
            }
            What::Deliver { link, to, msg } => {
                self.note_message(link, to, msg.kind, msg.len());
                let monitor = self.monitor.as_mut().expect("it lives");
                monitor.message(link, msg, &mut self.mon_disk, &mut self.net);
            }
            What::Closed { link, .. } => monitor.closed(link, disk, net),
            What::Tick(life) => {
                monitor.tick(disk, net);
                net.after(SEC, What::Tick(life));
            }
            _ => {}
        }
        self.check_purged();
        if let Some(why) = self.net.wrong.take() {
            self.broken.get_or_insert(why);
        }
        if self.monitor.as_ref().is_some_and(|m| m.dead) {
            self.kill_monitor();
        }
    }
    /// What an event of an OSD has left for checkers.
    fn look_at_event(&mut self, asked: Option<(Life, RawMessage, u64)>) {
        if let Some((from, msg, held)) = asked {
            self.look_at_held(from, &msg, held);
        }
        self.check_acks();
        self.check_trims();
        if let Some(why) = self.net.wrong.take() {
            self.broken.get_or_insert(why);
        }
    }
    /// A request of a client that may want harm, and how many requests its OSD holds before it.
    fn asked_by_guest(&self, id: usize, link: LinkId, msg: &RawMessage) -> Option<(Life, RawMessage, u64)> {
        let from = self.net.link(link).map(|l| l.dialer).filter(|from| matches!(from.0, Proc::Guest(_)))?;
        (msg.kind == MOSDOp::KIND).then(|| (from, msg.clone(), self.osds[id].as_ref().map_or(0, OsdProcess::held)))
    }
    fn to_osd(&mut self, id: usize, what: What) {
        let (mut accepted, mut opened, mut asked) = (None, None, None);
        match &what {
            What::Open { link, .. } => {
                let l = self.net.link(*link).expect("it is there").clone();
                let who = self.net.who(*link).unwrap_or_else(|| self.who(l.dialer, l.port));
                accepted = Some((l.port, who, self.hostile.cap(l.dialer)));
                self.net.accepted(*link);
            }
            What::Opened { link, .. } => {
                let l = self.net.link(*link).expect("it is there").clone();
                opened = Some((l.port, self.net.who(*link).unwrap_or_else(|| self.who(l.server, l.port))));
            }
            What::Deliver { link, to, msg } => {
                self.note_message(*link, *to, msg.kind, msg.len());
                asked = self.asked_by_guest(id, *link, msg);
                barred::look_at_write(self, msg);
            }
            _ => {}
        }
        let twice = self.planted == Some(Planted::TwiceAsTwo) && self.net.rng.chance(1, 40);
        if self.planted == Some(Planted::AcknowledgesUnkept)
            && let What::Deliver { link, msg, .. } = &what
            && let Some(answer) = acknowledged(msg, id as i32)
            && self.net.rng.chance(1, 40)
        {
            let life = self.osds[id].as_ref().expect("it lives").life;
            return self.net.send(life, *link, answer);
        }
        let is_push = matches!(&what, What::Deliver { msg, .. } if msg.kind == MOSDPGPush::KIND);
        let pushed_before = if is_push { self.before_push(id) } else { None };
        let osd = self.osds[id].as_mut().expect("it lives");
        let (drive, net) = (&mut self.drives[id], &mut self.net);
        let (mut wrote_for, mut filled) = (None, None);
        match what {
            What::Open { link, .. } => {
                let (port, who, cap) = accepted.expect("set above");
                osd.accept(link, port, &who, cap, drive, net);
            }
            What::Opened { link, .. } => {
                let (port, who) = opened.expect("set above");
                osd.opened(link, port, &who, drive, net);
            }
            What::Refused { link, .. } => osd.refused(link, drive, net),
            What::DialFailed { link, is_refused, attempts, .. } => osd.dial_failed(link, is_refused, attempts, drive, net),
            What::Redial { link, .. } => osd.redial(link, net),
            What::Closed { link, .. } => osd.closed(link, drive, net),
            What::Deliver { link, msg, .. } => {
                let port = net.link(link).map_or(Port::Public, |l| l.port);
                if twice && let Some(other) = as_another_request(&msg) {
                    osd.message(link, port, other, drive, net);
                }
                if msg.kind == MOSDRepOp::KIND {
                    wrote_for = net.other_end(link, osd.life);
                }
                if msg.kind == MOSDPGBackfill::KIND {
                    filled = MOSDPGBackfill::decode(&msg).ok().map(|m| m.pgid);
                }
                osd.message(link, port, msg, drive, net);
                if asked.is_some() {
                    osd.turn_end(drive, net);
                }
            }
            What::Tick(_) => osd.tick(drive, net),
            What::Continue(_) => osd.continued(drive, net),
            What::TurnEnd(_) => osd.turn_end(drive, net),
            What::Disk(_) => osd.disk(drive, net),
            _ => {}
        }
        self.look_at_event(asked);
        self.look_at_group(id);
        pushed_before.into_iter().for_each(|before| self.after_push(id, before));
        if let Some(pgid) = filled {
            self.look_at_filled(pgid);
        }
        if let Some(Proc::Osd(primary)) = wrote_for {
            self.replica_wrote(id as i32, primary);
        }
        self.look_at_end(id);
    }
    /// An OSD that has ended by itself had a reason to, and is as dead as one that was killed.
    fn look_at_end(&mut self, id: usize) {
        if let Some(why) = self.drives[id].ledger().refused() {
            self.broken.get_or_insert(why);
        }
        let ended = self.osds[id].as_ref().and_then(|o| Some((o.ended.clone()?, o.core().store())));
        if let Some((why, store)) = ended {
            self.net.note(format!("osd.{id} ends: {why:?}"));
            if let Some(why) = why
                && !why.contains("markdown")
                && !why.contains("marked down")
                && !self.drives[id].was_struck()
                && !self.vanish.explains(id, &why)
                && !self.harm.explains(id, store, self.plan.rot_wide, &why)
                && !self.harm.explains_loss(id, self.plan.rot_wide, &why)
            {
                self.broken = Some(format!("process: osd.{id} ends by itself: {why}"));
            }
            // What a flush that failed should have covered may be lost for good.
            let loses = self.drives[id].was_struck() && self.net.rng.chance(1, 2);
            self.kill_osd(id, loses);
        }
    }
    fn to_client(&mut self, n: usize, what: What) {
        let mut heard = None;
        if let What::Deliver { link, to, msg } = &what {
            if self.is_lost(n, *link, msg) {
                return;
            }
            if self.plan.exchange > 0
                && let Some(Proc::Osd(osd)) = self.net.other_end(*link, *to)
            {
                heard = Some((osd, msg.clone()));
            }
        }
        let calls = self.history.calls.len();
        client_event(self, n, what);
        if let Some((osd, msg)) = heard {
            exchange::heard_of(self, osd, &msg);
        }
        if self.plan.bar > 0 {
            barred::look_at_calls(self, n, calls);
            barred::look(self);
        }
        if n >= watching::first(&self.plan) {
            watching::look(self, n);
        }
    }

    /// True if an answer to a client's write goes lost.
    fn is_lost(&mut self, n: usize, link: LinkId, msg: &RawMessage) -> bool {
        let client = (Proc::Client(n as u32), self.clients[n].as_ref().map_or(0, |client| client.life.1));
        let Some(Proc::Osd(osd)) = self.net.other_end(link, client) else { return false };
        let is_write = msg.kind == MOSDOpReply::KIND && MOSDOpReply::decode(msg).is_ok_and(|m| m.replay_version != EVersion::ZERO);
        is_write && self.answer_is_lost(client.0, osd, link)
    }
}

/// Something happens to a client.
fn client_event(cluster: &mut Cluster, n: usize, what: What) {
    let client = cluster.clients[n].as_mut().expect("it lives");
    let (history, net) = (&mut cluster.history, &mut cluster.net);
    match what {
        What::Opened { link, .. } => client.opened(link, history, net),
        What::Refused { link, .. } => client.refused(link, history, net),
        What::DialFailed { link, .. } => client.dial_failed(link, history, net),
        What::Closed { link, .. } => client.lost(link, history, net),
        What::Deliver { link, msg, .. } => {
            client.message(link, &msg, history, net);
            let acked_by = client.acked_by.take();
            let made = std::mem::take(&mut client.made);
            cluster.snaps_made(made);
            cluster.acknowledged_by(acked_by);
        }
        What::Tick(_) => client.tick(history, net),
        What::Think(life) if n >= watching::first(&cluster.plan) => watching::client_has_time(cluster, n, life),
        What::Think(life) if n >= cluster.plan.clients as usize => cluster.fence_client(n, life),
        What::Think(life) => {
            let wanted = cluster.troubled && history.calls.len() - cluster.fences.calls < cluster.plan.ops as usize;
            if wanted && net.now_ns >= cluster.silent_ns && client.in_flight() < cluster.plan.depth as usize && client.has_pool() {
                client.work(&cluster.plan, history, net);
            }
            let pause = net.rng.below(cluster.plan.think_ms * MS) + MS;
            net.after(pause, What::Think(life));
        }
        _ => {}
    }
}
