//! The cluster: one queue of events, each handed to its process; faults by chance, then peace, then the checkers.

use crate::agree;
use crate::client::{ClientProcess, POOL};
use crate::drive::Drive;
use crate::history::History;
use crate::linear;
use crate::model::Op;
use crate::monitor::{MonDisk, Monitor, Who};
use crate::net::{Fault, Life, LinkId, Net, Port, Proc, What};
use crate::osd::{OsdProcess, osd_uuid};
use crate::plan::{Plan, StoreKind};
use crate::rest::restless;
use crate::{MS, SEC};
use std::collections::BTreeMap;
use types::{PgId, PgShard, SpgId};

/// Events between two steps of time; more of them are a core that hangs.
const EVENTS_AT_ONCE: u32 = 50_000;
/// Events of one run.
const EVENTS_MAX: u64 = 20_000_000;

/// A promise that is broken on purpose, so that the checkers show that they notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// A killed OSD comes back with what its disk held when it started the time before.
    OldDisk,
    /// Every so many messages of a client to an OSD arrive twice, as two different requests.
    TwiceAsTwo,
    /// A monitor that dies forgets its last batch.
    MonForgets,
    /// Now and then a replica acknowledges a write that it did not keep.
    AcknowledgesUnkept,
}

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
    /// Objects whose histories had too many explanations to follow.
    pub wild: u32,
    /// What is wrong, and the last events of the object or group that it concerns.
    pub failure: Option<String>,
}

/// Runs one plan to its end.
pub fn run(plan: &Plan, planted: Option<Planted>, loud: bool) -> Report {
    let mut cluster = Cluster::new(plan.clone(), planted);
    cluster.net.trace.loud = loud;
    let failure = cluster.live().err();
    cluster.report(failure)
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
    plan: Plan,
    planted: Option<Planted>,
    pub net: Net,
    lives: u32,
    mon_disk: MonDisk,
    monitor: Option<Monitor>,
    drives: Vec<Drive>,
    osds: Vec<Option<OsdProcess>>,
    clients: Vec<Option<ClientProcess>>,
    pub history: History,
    /// Faults still come.
    troubled: bool,
    faults: u32,
    wild: u32,
    /// What an OSD's disk was at its last start, for a planted bug.
    old: Vec<Option<disk::MemDisks>>,
    broken: Option<String>,
}

impl Cluster {
    pub fn new(plan: Plan, planted: Option<Planted>) -> Self {
        let mut net = Net::new(plan.seed, plan.delay_ns);
        let wall_ns = net.clock().wall_ns;
        let mon_disk = MonDisk::new("osd", wall_ns, &mut net.rng);
        let drives = (0..plan.osds).map(|id| Drive::new(plan.store, osd_uuid(id as i32).0)).collect();
        Self {
            planted,
            net,
            lives: 0,
            mon_disk,
            monitor: None,
            drives,
            osds: (0..plan.osds).map(|_| None).collect(),
            clients: (0..plan.clients).map(|_| None).collect(),
            history: History::default(),
            troubled: false,
            faults: 0,
            wild: 0,
            old: (0..plan.osds).map(|_| None).collect(),
            broken: None,
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
            wild: self.wild,
            failure,
        }
    }

    fn start(&mut self, proc: Proc) {
        self.lives += 1;
        let life = self.lives;
        self.net.note(format!("{proc:?} starts its life {life}"));
        match proc {
            Proc::Mon if self.monitor.is_none() => {
                let monitor = Monitor::start(life, &mut self.mon_disk, &mut self.net);
                self.net.after(SEC, What::Tick(monitor.life));
                self.monitor = Some(monitor);
            }
            Proc::Osd(id) if self.osds[id as usize].is_none() => {
                if self.planted == Some(Planted::OldDisk)
                    && let Drive::Block(disks) = &self.drives[id as usize]
                {
                    self.old[id as usize] = Some(disks.copy());
                }
                match OsdProcess::start(id, life, &self.plan, &mut self.drives[id as usize], &mut self.net) {
                    Ok(osd) => self.osds[id as usize] = Some(osd),
                    Err(why) => self.broken = Some(format!("osd.{id} does not start: {why}")),
                }
            }
            Proc::Client(n) if self.clients[n as usize].is_none() => {
                self.clients[n as usize] = Some(ClientProcess::start(n, life, &mut self.net));
            }
            _ => {}
        }
    }
    fn who(&self, life: Life, port: Port) -> Who {
        match life.0 {
            Proc::Osd(id) => OsdProcess::who(id, life.1, port),
            Proc::Client(n) => ClientProcess::who(n, life.1),
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
            let uuid = osd_uuid(id as i32);
            self.command(format!(r#"{{"prefix":"osd new","uuid":"{uuid}","id":"{id}"}}"#))?;
            self.start(Proc::Osd(id as i32));
        }
        self.until(self.plan.rest_ns, "its OSDs up", |c| restless(c.monitor.as_ref(), &c.osds, &[]).is_none())?;
        let pg_num = self.plan.pg_num;
        self.command(format!(r#"{{"prefix":"osd pool create","pool":"{POOL}","pg_num":{pg_num},"pgp_num":{pg_num}}}"#))?;
        // The monitor's default is one copy.
        let copies = [("size", self.plan.size), ("min_size", self.plan.min_size)];
        for (name, value) in copies.into_iter().filter(|_| copies[0].1 > 1) {
            self.command(format!(r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"{name}","val":"{value}"}}"#))?;
        }
        self.until(self.plan.rest_ns, "its pool clean", |c| {
            c.clients[0].as_ref().is_some_and(ClientProcess::has_pool) && restless(c.monitor.as_ref(), &c.osds, &[]).is_none()
        })?;
        for n in 1..self.plan.clients {
            self.start(Proc::Client(n));
        }
        self.trouble();
        let ops = self.plan.ops as usize;
        self.until(self.plan.faults_ns, "", |c| c.history.calls.len() >= ops)?;
        self.heal();
        self.until(self.plan.rest_ns, "at rest", |c| restless(c.monitor.as_ref(), &c.osds, &c.clients).is_none())?;
        self.read_all()?;
        self.judge()
    }
    /// Lets things happen until `done`; an error when that takes longer than `limit_ns` and it must come (`what` is not empty).
    fn until(&mut self, limit_ns: u64, what: &str, done: impl Fn(&Self) -> bool) -> Result<(), String> {
        let end = self.net.now_ns + limit_ns;
        while !done(self) {
            if self.net.now_ns > end {
                if what.is_empty() {
                    return Ok(());
                }
                let why = restless(self.monitor.as_ref(), &self.osds, &self.clients).unwrap_or_default();
                return Err(self.tell(&format!("the cluster is not {what} after {} virtual seconds: {why}", limit_ns / SEC), &[]));
            }
            self.step()?;
        }
        Ok(())
    }
    fn tell(&self, what: &str, words: &[String]) -> String {
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
            let Some(what) = self.net.next() else { return Err(self.tell("nothing happens any more", &[])) };
            self.happens(what);
            if let Some(why) = self.broken.take() {
                return Err(self.tell(&why, &[]));
            }
            at_once += 1;
            if self.net.now_ns > before {
                break;
            }
            if at_once > EVENTS_AT_ONCE {
                return Err(self.tell("time stands still", &[]));
            }
        }
        if self.net.trace.events() > EVENTS_MAX { Err(self.tell("too many events", &[])) } else { Ok(()) }
    }
    /// True if this life is the one that runs.
    fn lives(&self, life: Life) -> bool {
        match life.0 {
            Proc::Mon => self.monitor.as_ref().is_some_and(|m| m.life == life),
            Proc::Osd(id) => self.osds[id as usize].as_ref().is_some_and(|o| o.life == life),
            Proc::Client(n) => self.clients[n as usize].as_ref().is_some_and(|c| c.life == life),
        }
    }
    /// For whom something is, if it is for a process.
    fn target(&self, what: &What) -> Option<Life> {
        match what {
            What::Open(link) => self.net.link(*link).map(|l| l.server),
            What::Opened(link) => self.net.link(*link).map(|l| l.dialer),
            What::Deliver { link, to_server, .. } => self.net.link(*link).map(|l| if *to_server { l.server } else { l.dialer }),
            What::Refused { life, .. } | What::Closed { life, .. } | What::Redial { life, .. } => Some(*life),
            What::Tick(life) | What::Continue(life) | What::Disk(life) | What::Think(life) => Some(*life),
            What::Fault(_) | What::Start(_) | What::GoesOn(_) => None,
        }
    }
    fn happens(&mut self, what: What) {
        match what {
            What::Fault(fault) => return self.fault(fault),
            What::Start(proc) => return self.start(proc),
            What::GoesOn(proc) => return self.goes_on(proc),
            _ => {}
        }
        let Some(life) = self.target(&what) else { return };
        if !self.lives(life) {
            return;
        }
        if let Some(paused) = self.net.paused.get_mut(&life.0) {
            return paused.waiting.push(what);
        }
        match life.0 {
            Proc::Mon => self.to_monitor(what),
            Proc::Osd(id) => self.to_osd(id as usize, what),
            Proc::Client(n) => self.to_client(n as usize, what),
        }
    }
    /// A pause may be over: what came meanwhile happens now, in its order.
    fn goes_on(&mut self, proc: Proc) {
        if self.net.paused.get(&proc).is_some_and(|p| p.until_ns <= self.net.now_ns) {
            let paused = self.net.paused.remove(&proc).expect("looked at above");
            paused.waiting.into_iter().for_each(|what| self.happens(what));
        }
    }
    fn note_message(&mut self, link: LinkId, to_server: bool, kind: u16, len: usize) {
        if let Some(l) = self.net.link(link) {
            let (a, b) = if to_server { (l.dialer.0, l.server.0) } else { (l.server.0, l.dialer.0) };
            let line = format!("{a:?} -> {b:?} message {kind} of {len} bytes");
            self.net.note(line);
        }
    }
    fn to_monitor(&mut self, what: What) {
        let monitor = self.monitor.as_mut().expect("it lives");
        let (disk, net) = (&mut self.mon_disk, &mut self.net);
        match what {
            What::Open(link) => {
                let (dialer, port) = net.link(link).map(|l| (l.dialer, l.port)).expect("it is there");
                net.accepted(link);
                let who = self.who(dialer, Port::Public);
                let monitor = self.monitor.as_mut().expect("it lives");
                monitor.accept(link, port, &who, &mut self.mon_disk, &mut self.net);
            }
            What::Deliver { link, to_server, msg } => {
                self.note_message(link, to_server, msg.kind, msg.len());
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
        if self.monitor.as_ref().is_some_and(|m| m.dead) {
            self.kill_monitor();
        }
    }
    fn to_osd(&mut self, id: usize, what: What) {
        let (mut accepted, mut opened) = (None, None);
        match &what {
            What::Open(link) => {
                let l = self.net.link(*link).expect("it is there").clone();
                accepted = Some(self.who(l.dialer, l.port));
                self.net.accepted(*link);
            }
            What::Opened(link) => {
                let l = self.net.link(*link).expect("it is there").clone();
                opened = Some(self.who(l.server, l.port));
            }
            What::Deliver { link, to_server, msg } => self.note_message(*link, *to_server, msg.kind, msg.len()),
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
        let osd = self.osds[id].as_mut().expect("it lives");
        let (drive, net) = (&mut self.drives[id], &mut self.net);
        match what {
            What::Open(link) => osd.accept(link, &accepted.expect("set above"), drive, net),
            What::Opened(link) => osd.opened(link, &opened.expect("set above"), drive, net),
            What::Refused { link, .. } => osd.refused(link, drive, net),
            What::Redial { link, .. } => osd.redial(link, net),
            What::Closed { link, .. } => osd.closed(link, drive, net),
            What::Deliver { link, msg, .. } => {
                let port = net.link(link).map_or(Port::Public, |l| l.port);
                if twice && let Some(other) = as_another_request(&msg) {
                    osd.message(link, port, other, drive, net);
                }
                osd.message(link, port, msg, drive, net);
            }
            What::Tick(_) => osd.tick(drive, net),
            What::Continue(_) => osd.continued(drive, net),
            What::Disk(_) => osd.disk(drive, net),
            _ => {}
        }
        let ended = self.osds[id].as_ref().and_then(|o| o.ended.clone());
        if let Some(why) = ended {
            self.net.note(format!("osd.{id} ends: {why:?}"));
            if let Some(why) = why
                && !why.contains("markdown")
                && !why.contains("marked down")
            {
                self.broken = Some(format!("osd.{id} ends by itself: {why}"));
            }
            self.kill_osd(id, false);
        }
    }
    fn to_client(&mut self, n: usize, what: What) {
        let client = self.clients[n].as_mut().expect("it lives");
        let (history, net) = (&mut self.history, &mut self.net);
        match what {
            What::Opened(link) => client.opened(link, history, net),
            What::Refused { link, .. } => client.refused(link, history, net),
            What::Closed { link, .. } => client.lost(link, history, net),
            What::Deliver { link, msg, .. } => client.message(link, &msg, history, net),
            What::Tick(_) => client.tick(history, net),
            What::Think(life) => {
                let wanted = self.troubled && history.calls.len() < self.plan.ops as usize;
                if wanted && client.in_flight() < self.plan.depth as usize && client.has_pool() {
                    client.work(&self.plan, history, net);
                }
                let pause = net.rng.below(self.plan.think_ms * MS) + MS;
                net.after(pause, What::Think(life));
            }
            _ => {}
        }
    }

    fn trouble(&mut self) {
        self.troubled = true;
        let p = &self.plan;
        let all = [
            (Fault::KillOsd, p.kill_osd),
            (Fault::KillMon, p.kill_mon),
            (Fault::KillClient, p.kill_client),
            (Fault::Cut, p.cut),
            (Fault::Partition, p.partition),
            (Fault::PauseOsd, p.pause_osd),
            (Fault::OsdDownCommand, p.osd_down_command),
            (Fault::PgNum, p.pg_num_changes),
            (Fault::PauseFlag, p.pause_flag),
            (Fault::OutIn, p.out_in),
            (Fault::Size, p.size_changes),
        ];
        for (fault, every) in all {
            self.next_fault(fault, every);
        }
    }
    fn next_fault(&mut self, fault: Fault, every_ms: u64) {
        if every_ms > 0 {
            let delay = self.net.rng.below(2 * every_ms * MS) + 1;
            self.net.after(delay, What::Fault(fault));
        }
    }
    fn kill_monitor(&mut self) {
        let Some(monitor) = self.monitor.take() else { return };
        if self.planted == Some(Planted::MonForgets) {
            self.mon_disk.forget_last();
        }
        self.net.died(monitor.life);
        let delay = self.net.rng.below(self.plan.down_ms * MS) + MS;
        self.net.after(delay, What::Start(Proc::Mon));
    }
    fn kill_osd(&mut self, id: usize, power_cut: bool) {
        let Some(osd) = self.osds[id].take() else { return };
        self.net.paused.remove(&Proc::Osd(id as i32));
        self.net.died(osd.life);
        let store = osd.into_core().into_store();
        self.drives[id].killed(store, power_cut, &mut self.net.rng);
        if self.planted == Some(Planted::OldDisk)
            && let (Drive::Block(disks), Some(old)) = (&mut self.drives[id], self.old[id].take())
        {
            *disks = old;
        }
        let delay = self.net.rng.below(self.plan.down_ms * MS) + MS;
        self.net.after(delay, What::Start(Proc::Osd(id as i32)));
    }

    fn fault(&mut self, fault: Fault) {
        if !self.troubled && fault != Fault::UnpauseFlag {
            return;
        }
        self.faults += 1;
        self.net.note(format!("fault {fault:?}"));
        let id = self.net.rng.below(self.plan.osds.into()) as usize;
        match fault {
            Fault::KillOsd => {
                let power_cut = self.plan.store == StoreKind::Block && self.net.rng.below(100) < self.plan.power_cuts;
                self.kill_osd(id, power_cut);
                if self.net.rng.below(100) < self.plan.together {
                    for other in 0..self.plan.osds as usize {
                        if self.net.rng.chance(2, 3) {
                            self.kill_osd(other, power_cut);
                        }
                    }
                }
                self.next_fault(fault, self.plan.kill_osd);
            }
            Fault::KillMon => {
                if self.net.rng.chance(1, 2) {
                    self.kill_monitor();
                } else if let Some(monitor) = &mut self.monitor {
                    monitor.dies_at_commit = true;
                }
                self.next_fault(fault, self.plan.kill_mon);
            }
            Fault::KillClient => {
                let n = self.net.rng.below(self.plan.clients.into()) as usize;
                if let Some(client) = self.clients[n].take() {
                    self.net.died(client.life);
                    self.net.after(200 * MS, What::Start(Proc::Client(n as u32)));
                }
                self.next_fault(fault, self.plan.kill_client);
            }
            Fault::Cut => {
                if let Some(link) = self.net.any_link() {
                    self.net.cut(link);
                }
                self.next_fault(fault, self.plan.cut);
            }
            Fault::Partition => {
                self.partition(id);
                self.next_fault(fault, self.plan.partition);
            }
            Fault::PauseOsd => {
                let until = self.net.now_ns + self.net.rng.below(40 * SEC);
                let proc = Proc::Osd(id as i32);
                let paused = self.net.paused.entry(proc).or_default();
                paused.until_ns = until.max(paused.until_ns);
                self.net.at(until, What::GoesOn(proc));
                self.next_fault(fault, self.plan.pause_osd);
            }
            Fault::OsdDownCommand => {
                self.say(format!(r#"{{"prefix":"osd down","ids":["{id}"]}}"#));
                self.next_fault(fault, self.plan.osd_down_command);
            }
            Fault::PgNum => {
                let pg_num = 1 << self.net.rng.below(6);
                self.say(format!(r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"pg_num","val":"{pg_num}"}}"#));
                self.next_fault(fault, self.plan.pg_num_changes);
            }
            Fault::PauseFlag => {
                self.say(r#"{"prefix":"osd set","key":"pause"}"#.into());
                self.net.after(3 * SEC, What::Fault(Fault::UnpauseFlag));
                self.next_fault(fault, self.plan.pause_flag);
            }
            Fault::UnpauseFlag => self.say(r#"{"prefix":"osd unset","key":"pause"}"#.into()),
            Fault::OutIn => {
                let verb = if self.net.rng.chance(1, 2) { "out" } else { "in" };
                self.say(format!(r#"{{"prefix":"osd {verb}","ids":["{id}"]}}"#));
                self.next_fault(fault, self.plan.out_in);
            }
            Fault::Size => {
                let size = 2 + self.net.rng.below(2);
                self.say(format!(r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"size","val":"{size}"}}"#));
                self.next_fault(fault, self.plan.size_changes);
            }
        }
    }
    fn partition(&mut self, id: usize) {
        let one = Proc::Osd(id as i32);
        let other = match self.net.rng.below(3) {
            0 => Proc::Mon,
            1 => Proc::Client(self.net.rng.below(self.plan.clients.into()) as u32),
            _ => Proc::Osd(self.net.rng.below(self.plan.osds.into()) as i32),
        };
        let until = self.net.now_ns + self.net.rng.below(30 * SEC);
        let ways = 1 + self.net.rng.below(3);
        if ways & 1 != 0 {
            self.net.partition(one, other, until);
        }
        if ways & 2 != 0 {
            self.net.partition(other, one, until);
        }
    }
    /// A command by whichever client lives; nobody waits for its answer.
    fn say(&mut self, json: String) {
        if let Some(client) = self.clients.iter_mut().flatten().next() {
            client.command(json, &mut self.history, &mut self.net);
        }
    }
    /// No more faults; what is down comes back, and pauses and partitions end when they would have.
    fn heal(&mut self) {
        self.net.note("the cluster is healed".into());
        self.troubled = false;
        if let Some(monitor) = &mut self.monitor {
            monitor.dies_at_commit = false;
        }
        self.say(r#"{"prefix":"osd unset","key":"pause"}"#.into());
        let all: Vec<String> = (0..self.plan.osds).map(|id| format!("\"{id}\"")).collect();
        self.say(format!(r#"{{"prefix":"osd in","ids":[{}]}}"#, all.join(",")));
    }
    fn read_all(&mut self) -> Result<(), String> {
        for object in 0..self.plan.objects {
            if let Some(client) = self.clients.iter_mut().flatten().next() {
                client.submit(object, Op::Read, &mut self.history, &mut self.net);
            }
        }
        self.until(self.plan.rest_ns, "at rest", |c| restless(c.monitor.as_ref(), &c.osds, &c.clients).is_none())
    }
    fn judge(&mut self) -> Result<(), String> {
        match linear::check(&self.history, self.plan.objects) {
            Ok(wild) => self.wild = wild,
            Err(why) => return Err(self.tell(&why.text, &[format!("o{}:", why.object), format!("on o{}", why.object)])),
        }
        self.members_agree().map_err(|why| {
            let group = why.split_whitespace().next().unwrap_or_default().trim_end_matches(':').to_owned();
            self.tell(&why, &[group])
        })
    }
    /// Stops every OSD and compares what lies on the disks of each group's members.
    fn members_agree(&mut self) -> Result<(), String> {
        let monitor = self.monitor.as_ref().expect("the cluster is at rest");
        let (map, mut placement) = (&monitor.core().osd.map, maps::Placement::default());
        let mut acting = BTreeMap::new();
        for (id, pool) in &map.pools {
            for seed in 0..pool.pg_num {
                let pgid = PgId::new(*id, seed);
                let at = map.pg_to_up_acting(pgid, &mut placement).acting;
                acting.insert(SpgId::whole(pgid), at.into_iter().map(|osd| osd as usize).collect());
            }
        }
        let mut stores = Vec::new();
        for (osd, drive) in self.osds.iter_mut().zip(&mut self.drives) {
            let store = osd.take().expect("the cluster is at rest").into_core().into_store();
            drive.killed(store, false, &mut self.net.rng);
            stores.push(drive.open_to_read()?);
        }
        agree::check(&mut stores, &acting)
    }
}

/// The same operation under another number: what a server that forgets duplicates would do with a resent one.
fn as_another_request(msg: &messages::RawMessage) -> Option<messages::RawMessage> {
    use messages::{MOSDOp, Message};
    let mut op = (msg.kind == MOSDOp::KIND).then(|| MOSDOp::decode(msg).ok())??;
    op.tid += 1 << 40;
    op.reqid = Default::default();
    let raw = op.encode(types::features::SUPPORTED);
    let data = raw.data_flat();
    Some(messages::RawMessage { data: if data.is_empty() { Vec::new() } else { vec![data] }, ..raw })
}

/// The answer to a replica's write, whatever becomes of that.
fn acknowledged(msg: &messages::RawMessage, osd: i32) -> Option<messages::RawMessage> {
    use messages::{MOSDRepOp, MOSDRepOpReply, Message};
    let m = (msg.kind == MOSDRepOp::KIND).then(|| MOSDRepOp::decode(msg).ok())??;
    let answer = MOSDRepOpReply {
        tid: m.tid,
        map_epoch: m.map_epoch,
        min_epoch: m.min_epoch,
        reqid: m.reqid,
        pgid: m.pgid,
        ack_type: types::osd_op::osd_flag::ONDISK as u8,
        from: PgShard::new(osd, m.pgid.shard),
        ..MOSDRepOpReply::default()
    };
    Some(answer.encode(types::features::SUPPORTED))
}
