//! A store's life on recording disks, and what it has after each transaction.

use super::check::{Wrong, find, open, open_as, same};
use super::groups::Groups;
use super::seen::Seen;
use super::work::Work;
use super::{Setting, Subject};
use crate::conformance::{self, Model};
use crate::{ObjectStore, StoreError};
use base::Rng;
use disk::{Disks, Fault, Image, MemDisks, Order, Recording};
use std::cell::Cell;
use std::sync::Arc;
use types::Transaction;

/// Transactions of one life.
const STEPS: usize = 120;

/// What the store has after so many transactions.
#[derive(Debug, Clone)]
pub struct Step {
    pub model: Model,
    pub groups: Groups,
}

/// A life that is over: what was recorded, and what each state is to be held against.
pub struct History {
    pub recording: Recording,
    /// By number of transactions.
    pub steps: Vec<Step>,
    /// Operations of the disks, faults that struck, and what was on the disks at the end.
    pub operations: u64,
    pub faults_fired: u64,
    pub last: Arc<Image>,
    /// What was found equal.
    pub seen: Seen,
    /// How far promises reach at the moment: acknowledged, submitted.
    acked: Cell<usize>,
    submitted: Cell<usize>,
}

const ACKED: u64 = 1 << 32;

impl History {
    pub fn note(&self, mark: u64) {
        if mark >= ACKED { self.acked.set((mark - ACKED) as usize) } else { self.submitted.set(mark as usize) }
    }
    /// So many of the newest transactions need not be there, though they were acknowledged.
    pub fn forgive(&self, n: usize) {
        let all = self.steps.len() - 1;
        self.acked.set(self.acked.get().min(all - n));
    }
    /// Transactions that must be there, and those that may.
    pub fn allowed(&self) -> std::ops::RangeInclusive<usize> {
        self.acked.get()..=self.submitted.get()
    }
}

/// A store that lives.
pub struct Life<S: Subject> {
    setting: Setting<S::Opening>,
    disks: MemDisks,
    store: S::Store,
    work: Work,
    steps: Vec<Step>,
    groups: Groups,
    /// At the end, some transactions, each durable before the next: only the very last record has none behind it that vouches for it.
    pub calm_end: bool,
    /// Submitted, acknowledged.
    submitted: usize,
    acked: usize,
}

impl<S: Subject> Life<S> {
    /// A new store. Its first transaction is not recorded: a store that was never finished holds no promise.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let setting = S::setting(seed);
        let disks = setting.disks();
        S::make(Box::new(disks.clone()), seed);
        let store = open_as::<S>(&disks, &mut rng, Some(&setting)).expect("a store that was just made");
        let (work, first) = Work::new(seed, setting.kind, setting.shape);
        let steps = vec![Step { model: Model::default(), groups: Groups::default() }];
        let mut life = Self { setting, disks, store, work, steps, groups: Groups::default(), calm_end: false, submitted: 0, acked: 0 };
        life.submit(&mut rng, first).expect("the first transaction");
        life.settle().expect("a healthy disk");
        life
    }
    /// Goes on with what came up from a crash of another life.
    pub fn from_crash(seed: u64, generation: u64, disks: &MemDisks, history: &History) -> Result<Self, Wrong> {
        let mut rng = Rng::new(seed ^ generation << 32 ^ 0xabcd);
        let setting = S::setting(seed);
        let mut store = open_as::<S>(disks, &mut rng, Some(&setting))?;
        let n = find(&mut store, &history.steps, &mut S::poll)?;
        let step = history.steps[n].clone();
        let work = Work::resume(seed ^ generation << 40 ^ 1, setting.kind, setting.shape, step.model);
        // Numbers go on from there; what came before is not asked for any more.
        let steps = history.steps[..=n].to_vec();
        Ok(Self { setting, disks: disks.clone(), store, work, steps, groups: step.groups, calm_end: false, submitted: n, acked: n })
    }

    fn submit(&mut self, rng: &mut Rng, txn: Transaction) -> Result<(), StoreError> {
        let n = self.submitted + 1;
        let object = txn.objects().next().map_or_else(|| conformance::object_name(0).hobj, |o| o.hobj.clone());
        let delta = self.groups.change(rng, n, object);
        self.groups.apply(delta.clone());
        // The mark first: what is submitted may be on the disks from then on.
        self.disks.note(n as u64);
        self.store.submit(txn, Some(delta), n as u64)?;
        self.submitted = n;
        self.steps.push(Step { model: self.work.model().clone(), groups: self.groups.clone() });
        Ok(())
    }
    fn take_commits(&mut self) -> Result<(), Wrong> {
        let mut tokens = Vec::new();
        self.store.take_commits(&mut tokens);
        for token in tokens {
            if token != self.acked as u64 + 1 {
                return Err(Wrong::Different(format!("{token} is acknowledged after {}", self.acked)));
            }
            self.acked += 1;
            self.disks.note(ACKED + token);
        }
        Ok(())
    }
    /// Waits until everything is durable.
    fn settle(&mut self) -> Result<(), Wrong> {
        for _ in 0..100_000 {
            self.store.turn_end();
            S::poll(&mut self.store);
            self.take_commits()?;
            if self.acked == self.submitted {
                return Ok(());
            }
            self.disks.complete(1);
        }
        let (acked, submitted, stand) = (self.acked, self.submitted, S::stand(&self.store));
        Err(Wrong::Refused(format!("only {acked} of {submitted} transactions ever become durable: {stand}")))
    }

    /// Lives: transactions by chance, in turns of some, while operations complete by chance. With faults to come, the life may end early.
    pub fn run(mut self, rng: &mut Rng, faults: &[Fault]) -> (History, Result<(), Wrong>) {
        let started = self.start_recording(rng, faults);
        let end = self.live(rng);
        (self.over(started), end)
    }
    /// Lives, and its process is killed; another one opens the store on the same devices, of which only a power cut takes what is in their caches.
    /// What it shows then is promised: the history's last mark says so.
    pub fn run_killed(mut self, rng: &mut Rng) -> Result<History, Wrong> {
        let started = self.start_recording(rng, &[]);
        self.live(rng)?;
        self.disks.restart();
        self.disks.set_order(Order::AtOnce, 0);
        self.store = open::<S>(&self.disks, rng)?;
        let n = find(&mut self.store, &self.steps, &mut S::poll)?;
        self.disks.note(ACKED + n as u64);
        S::poll(&mut self.store);
        Ok(self.over(started))
    }
    fn start_recording(&mut self, rng: &mut Rng, faults: &[Fault]) -> u64 {
        while self.disks.in_flight() > 0 {
            S::poll(&mut self.store);
        }
        self.disks.record();
        self.disks.note(self.submitted as u64);
        self.disks.note(ACKED + self.acked as u64);
        self.disks.set_order(self.setting.order, rng.u64());
        let started = self.disks.started();
        faults.iter().for_each(|f| self.disks.add_fault(Fault { nth: started + f.nth, ..*f }));
        started
    }
    fn over(self, started: u64) -> History {
        let operations = self.disks.started() - started;
        self.disks.clear_faults();
        let (recording, damaged) = (self.disks.take_recording(), self.disks.image());
        History {
            seen: Seen::new(&recording),
            recording,
            steps: self.steps,
            operations,
            faults_fired: self.disks.faults_fired(),
            last: damaged,
            acked: Cell::new(0),
            submitted: Cell::new(0),
        }
    }
    fn live(&mut self, rng: &mut Rng) -> Result<(), Wrong> {
        let last = self.submitted + STEPS;
        let mut refused = 0;
        while self.submitted < last && refused < 60 {
            let saved = (self.work.clone(), self.groups.clone());
            let txn = self.work.next_txn();
            match self.submit(rng, txn) {
                Ok(()) => {}
                Err(StoreError::Full) => {
                    // It has not happened.
                    (self.work, self.groups) = saved;
                    self.work.rng().u64();
                    refused += 1;
                    self.settle()?;
                    continue;
                }
                Err(e) => return Err(Wrong::Refused(format!("transaction {}: {e}", self.submitted + 1))),
            }
            if rng.chance(1, self.setting.turn_every) {
                self.store.turn_end();
            }
            for _ in 0..rng.below(self.setting.completions) {
                match self.setting.slow {
                    Some((slow, late)) => self.disks.complete_any_but(slow, late, rng),
                    None => self.disks.complete_any(rng),
                };
                S::poll(&mut self.store);
                self.take_commits()?;
            }
            if rng.chance(1, self.setting.checkpoint_every) {
                S::checkpoint(&mut self.store);
            }
            if rng.chance(1, self.setting.settle_every) {
                self.settle()?;
            }
            if rng.chance(1, 60) {
                self.read_something(rng)?;
            }
        }
        if self.calm_end || rng.chance(1, 2) {
            self.settle()?;
        }
        for _ in 0..if self.calm_end { 4 } else { 0 } {
            let mut txn = Transaction::new(conformance::object_coll(0));
            txn.nop();
            self.submit(rng, txn).map_err(|e| Wrong::Refused(e.to_string()))?;
            self.settle()?;
        }
        Ok(())
    }
    /// A live store has what the model has, too.
    fn read_something(&mut self, rng: &mut Rng) -> Result<(), Wrong> {
        let disks = self.disks.clone();
        let step = self.steps.last().expect("there is a first");
        same::<S>(&mut self.store, step, rng, false, &mut |store| {
            disks.complete(1);
            S::poll(store);
        })
    }
}

/// From a state that came up: more transactions, an orderly restart, a crash while it comes up; checked after each.
pub fn go_on<S: Subject>(disks: &MemDisks, setting: &Setting<S::Opening>, step: &Step, rng: &mut Rng) -> Result<(), Wrong> {
    disks.record();
    let mut store = open::<S>(disks, rng)?;
    S::poll(&mut store);
    // Half way through coming up, again. Nothing was promised since, so the same must be there.
    drop(store);
    let recording = disks.take_recording();
    let mut states = disk::CrashStates::new(&recording);
    while states.step().is_some() {
        if rng.chance(1, 3) {
            let again = states.state(rng, disk::Tear::Sectors);
            let mut store = open::<S>(&again, rng).map_err(|e| e.at("after a second crash"))?;
            same::<S>(&mut store, step, rng, false, &mut S::poll).map_err(|e| e.at("after a second crash"))?;
        }
    }
    let mut store = open::<S>(disks, rng)?;
    let mut work = Work::resume(rng.u64(), setting.kind, setting.shape, step.model.clone());
    let mut groups = step.groups.clone();
    // One had a group forgotten, perhaps, and left no number.
    let mut n = groups.newest() + 1;
    for _ in 0..1 + rng.below(setting.go_on_max) {
        let saved = (work.clone(), groups.clone());
        let txn = work.next_txn();
        let delta = groups.change(rng, n + 1, conformance::object_name(0).hobj);
        groups.apply(delta.clone());
        match store.submit(txn, Some(delta), n as u64 + 1) {
            Ok(()) => n += 1,
            Err(StoreError::Full) => {
                (work, groups) = saved;
                break;
            }
            Err(e) => return Err(Wrong::Refused(e.to_string())),
        }
        if rng.chance(1, setting.turn_every.min(2) * 2 - 1) {
            store.turn_end();
            S::poll(&mut store);
        }
        if rng.chance(1, 10) {
            S::checkpoint(&mut store);
        }
    }
    let step = Step { model: work.model().clone(), groups };
    let mut tokens = Vec::new();
    for _ in 0..1000 {
        store.turn_end();
        S::poll(&mut store);
        store.take_commits(&mut tokens);
        if S::is_idle(&store) {
            break;
        }
    }
    same::<S>(&mut store, &step, rng, false, &mut S::poll)?;
    drop(store);
    let mut store = open::<S>(disks, rng).map_err(|e| e.at("at the next start"))?;
    same::<S>(&mut store, &step, rng, true, &mut S::poll).map_err(|e| e.at("at the next start"))
}
