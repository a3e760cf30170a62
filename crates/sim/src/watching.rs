//! Clients that watch objects and notify each other, while their links are cut and held, they die, and OSDs die.
//!
//! ```text
//!   watcher ──────▶ primary of the object ◀────── notifier      each client is both, on a few objects of their own
//!     by chance cut, held, killed, or it does not answer
//! ```
//! The model is what `librados` says of a watch: it holds from its registration until its client is told that it is lost, gives it up, or has had no answer of
//! the OSD for the watch's timeout ([`objecter::objecter::WatchState`]). What is asked of watches and notifies stands in [`told`].

mod told;

pub(crate) use told::watches_at_rest;

use crate::client::ClientProcess;
use crate::cluster::Cluster;
use crate::fence::Fences;
use crate::net::{Life, Proc, What};
use crate::plan::Plan;
use crate::{MS, SEC};
use base::Rng;
use objecter::objecter::LingerEvent;
use objecter::ops::Ops;
use std::collections::{BTreeMap, BTreeSet};
use types::{Bytes, Epoch};

/// Objects that are watched.
const OBJECTS: u64 = 3;
/// How long watches outlive their clients, seconds; and how long notifies wait.
const WATCH_S: [u32; 2] = [10, 30];
const NOTIFY_S: [u32; 3] = [3, 8, 15];
/// Watches and notifies of one client at a time.
const WATCHES: usize = 2;
const NOTIFIES: usize = 2;
/// Pause of a client between two things that it does, at most.
const PAUSE_NS: u64 = 1500 * MS;
/// Faults go on at least as long.
const LASTS_NS: u64 = 120 * SEC;
/// How long a client that died stays away, at most.
const AWAY_NS: u64 = 20 * SEC;
/// How long a link is held, at most: mostly for less than a notify waits, so that its watch is back and renewed before the notify ends.
const HELD_S: [u64; 4] = [3, 3, 10, 40];

/// A notify that a watch heard.
#[derive(Debug)]
struct Heard {
    payload: Bytes,
    /// How often the watch had been registered again by then.
    generation: u32,
    /// The number of the answer to it, until that has come; and whether it has.
    ack: Option<u64>,
    is_acked: bool,
}

/// One watch of one client's life.
#[derive(Debug)]
struct Watch {
    life: Life,
    object: u64,
    cookie: u64,
    timeout_ns: u64,
    registered_ns: Option<u64>,
    /// Given up, lost, or its client died.
    is_over: bool,
    /// When it was asked what was last answered that it holds, an epoch of before that, and the one when it was answered.
    valid_ns: u64,
    valid_epoch: Epoch,
    answered_epoch: Epoch,
    /// When it last was without an answer for its timeout.
    lapsed_ns: Option<u64>,
    generation: u32,
    heard: BTreeMap<u64, Heard>,
}

/// A notify that has not ended.
#[derive(Debug)]
struct Notify {
    object: u64,
    called_ns: u64,
    timeout_ns: u64,
    payload: Bytes,
    /// Its number, as soon as its client knows it, and since when.
    id: Option<(u64, u64, Epoch)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Watching {
    rng: Rng,
    watches: Vec<Watch>,
    notifies: BTreeMap<(Life, u64), Notify>,
    /// Objects that are there, and answers that say so.
    made: BTreeSet<u64>,
    making: BTreeMap<(Life, u64), u64>,
    counter: u64,
    /// Notifies that ended, how many of them timed out, and times that a watch heard of one.
    pub ended: u64,
    pub timed_out: u64,
    pub heard: u64,
}

impl Watching {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed ^ 0x0a7c_4e12),
            watches: Vec::new(),
            notifies: BTreeMap::new(),
            made: BTreeSet::new(),
            making: BTreeMap::new(),
            counter: 0,
            ended: 0,
            timed_out: 0,
            heard: 0,
        }
    }
    /// True if its faults have gone on for long enough.
    pub fn is_over(&self, plan: &Plan, began_ns: u64, now_ns: u64) -> bool {
        plan.watchers == 0 || now_ns > began_ns + LASTS_NS
    }
}

/// The first client that watches: those behind it do, too.
pub(crate) fn first(plan: &Plan) -> usize {
    (plan.clients + Fences::clients(plan)) as usize
}
fn name(object: u64) -> String {
    format!("w{object}")
}
/// A client's number.
fn number(life: Life) -> usize {
    let Proc::Client(n) = life.0 else { unreachable!("clients watch") };
    n as usize
}

/// A client that watches has time.
pub(crate) fn client_has_time(cluster: &mut Cluster, n: usize, life: Life) {
    let pause = cluster.watching.rng.below(PAUSE_NS) + MS;
    cluster.net.after(pause, What::Think(life));
    let has_pool = cluster.clients[n].as_ref().is_some_and(ClientProcess::has_pool);
    if !cluster.troubled || !has_pool {
        return;
    }
    let object = cluster.watching.rng.below(OBJECTS);
    if !cluster.watching.made.contains(&object) {
        let client = cluster.clients[n].as_mut().expect("it lives");
        if !cluster.watching.making.iter().any(|((maker, _), made)| (*maker, *made) == (life, object)) {
            let tid = client.aside(&name(object), Ops::new().create(false), &mut cluster.history, &mut cluster.net);
            cluster.watching.making.extend(tid.map(|tid| ((life, tid), object)));
        }
        return;
    }
    let own: Vec<usize> = (0..cluster.watching.watches.len())
        .filter(|at| cluster.watching.watches[*at].life == life && !cluster.watching.watches[*at].is_over)
        .collect();
    if own.len() < WATCHES && cluster.watching.rng.chance(1, 2) {
        return begin_watch(cluster, n, life, object);
    }
    match cluster.watching.rng.below(60) {
        0..42 => begin_notify(cluster, n, life, object),
        42..46 => {
            if let Some(at) = own.first() {
                end_watch(cluster, *at);
            }
        }
        46..50 => cut_watcher(cluster, n, life, object),
        50..54 => hold_watcher(cluster, n, life, object),
        54 => {
            cluster.net.note(format!("{:?} dies, which watches", life.0));
            watcher_goes(cluster, n);
            let away = cluster.watching.rng.below(AWAY_NS) + MS;
            cluster.net.after(away, What::Start(life.0));
        }
        55 if cluster.plan.kill_osd > 0 => {
            if let Some(osd) = leads(cluster, n, object) {
                cluster.kill_osd(osd as usize, false);
            }
        }
        _ => {}
    }
}
fn begin_watch(cluster: &mut Cluster, n: usize, life: Life, object: u64) {
    let timeout_s = WATCH_S[cluster.watching.rng.below(2) as usize];
    let client = cluster.clients[n].as_mut().expect("it lives");
    let Some(cookie) = client.watch(&name(object), timeout_s, &mut cluster.history, &mut cluster.net) else { return };
    cluster.net.note(format!("{:?} watches w{object} for {timeout_s} s, as {cookie}", life.0));
    let (timeout_ns, now_ns) = (u64::from(timeout_s) * SEC, cluster.net.now_ns);
    cluster.watching.watches.push(Watch {
        life,
        object,
        cookie,
        timeout_ns,
        registered_ns: None,
        is_over: false,
        valid_ns: now_ns,
        valid_epoch: 0,
        answered_epoch: 0,
        lapsed_ns: None,
        generation: 0,
        heard: BTreeMap::new(),
    });
}
fn begin_notify(cluster: &mut Cluster, n: usize, life: Life, object: u64) {
    if cluster.watching.notifies.keys().filter(|(notifier, _)| *notifier == life).count() >= NOTIFIES {
        return;
    }
    let timeout_s = NOTIFY_S[cluster.watching.rng.below(3) as usize];
    cluster.watching.counter += 1;
    let payload = Bytes::from(format!("n{}", cluster.watching.counter));
    let client = cluster.clients[n].as_mut().expect("it lives");
    let Some(cookie) = client.notify(&name(object), timeout_s, payload.clone(), &mut cluster.history, &mut cluster.net) else { return };
    cluster.net.note(format!("{:?} notifies w{object} of n{} within {timeout_s} s", life.0, cluster.watching.counter));
    let (called_ns, timeout_ns) = (cluster.net.now_ns, u64::from(timeout_s) * SEC);
    cluster.watching.notifies.insert((life, cookie), Notify { object, called_ns, timeout_ns, payload, id: None });
}
fn end_watch(cluster: &mut Cluster, at: usize) {
    let watch = &mut cluster.watching.watches[at];
    watch.is_over = true;
    let (n, cookie) = (number(watch.life), watch.cookie);
    if let Some(client) = cluster.clients[n].as_mut().filter(|client| client.life == watch.life) {
        cluster.net.note(format!("{:?} unwatches w{}, as {cookie}", watch.life.0, watch.object));
        client.unwatch(cookie, &mut cluster.history, &mut cluster.net);
    }
}
/// The OSD that leads an object's group, by a client's map.
fn leads(cluster: &Cluster, n: usize, object: u64) -> Option<i32> {
    let pgid = cluster.clients[n].as_ref()?.group_of(&name(object))?;
    let map = &cluster.monitor.as_ref()?.core().osd.map;
    Some(map.pg_to_up_acting(pgid, &mut maps::Placement::default()).acting_primary).filter(|osd| *osd >= 0)
}
fn cut_watcher(cluster: &mut Cluster, n: usize, life: Life, object: u64) {
    let Some(osd) = leads(cluster, n, object) else { return };
    if let Some(link) = cluster.clients[n].as_ref().and_then(|client| client.link_to(osd)) {
        cluster.net.note(format!("the link of {:?} to osd.{osd} is cut", life.0));
        cluster.net.cut(link);
    }
}
fn hold_watcher(cluster: &mut Cluster, n: usize, life: Life, object: u64) {
    let Some(osd) = leads(cluster, n, object) else { return };
    let rng = &mut cluster.watching.rng;
    let longest = HELD_S[rng.below(4) as usize] * SEC;
    let (until, ways) = (cluster.net.now_ns + rng.below(longest), 1 + rng.below(3));
    cluster.net.note(format!("between {:?} and osd.{osd} nothing goes, ways {ways}", life.0));
    if ways & 1 != 0 {
        cluster.net.partition(life.0, Proc::Osd(osd), until);
    }
    if ways & 2 != 0 {
        cluster.net.partition(Proc::Osd(osd), life.0, until);
    }
    // As a socket that is given up, and made again when something goes through.
    if rng.chance(1, 2)
        && let Some(link) = cluster.clients[n].as_ref().and_then(|client| client.link_to(osd))
    {
        cluster.net.cut(link);
    }
}
/// A client that watches is gone.
fn watcher_goes(cluster: &mut Cluster, n: usize) {
    let Some(client) = cluster.clients[n].take() else { return };
    let life = client.life;
    cluster.net.died(life);
    cluster.watching.watches.iter_mut().filter(|watch| watch.life == life).for_each(|watch| watch.is_over = true);
    cluster.watching.notifies.retain(|(notifier, _), _| *notifier != life);
    cluster.watching.making.retain(|(maker, _), _| *maker != life);
}

/// Something has happened to a client that watches.
pub(crate) fn look(cluster: &mut Cluster, n: usize) {
    let Some(client) = cluster.clients[n].as_mut() else { return };
    let (life, lingered, done) = (client.life, std::mem::take(&mut client.lingered), std::mem::take(&mut client.done_aside));
    refresh_watches(cluster, n, life);
    for (tid, reply) in done {
        if let Some(object) = cluster.watching.making.remove(&(life, tid)) {
            if reply.result == 0 {
                cluster.watching.made.insert(object);
            }
            continue;
        }
        let all = cluster.watching.watches.iter_mut().filter(|watch| watch.life == life).flat_map(|watch| watch.heard.values_mut());
        if let Some(heard) = all.into_iter().find(|heard| heard.ack == Some(tid)) {
            heard.is_acked = reply.result == 0;
        }
    }
    for (cookie, event) in lingered {
        if let Err(why) = lingers(cluster, n, life, cookie, event) {
            cluster.broken.get_or_insert(format!("watch: {why}"));
        }
    }
}
/// How far the watches of a client are known to hold, and what numbers its notifies have.
fn refresh_watches(cluster: &mut Cluster, n: usize, life: Life) {
    let (Some(client), now_ns) = (&cluster.clients[n], cluster.net.now_ns) else { return };
    let epoch = cluster.net.newest_map().map_or(0, |map| map.epoch);
    for watch in cluster.watching.watches.iter_mut().filter(|watch| watch.life == life && !watch.is_over) {
        let Some(state) = client.watch_state(watch.cookie) else { continue };
        watch.generation = state.generation;
        let valid_ns = state.valid_since.map_or(0, |at| at.0);
        if valid_ns > watch.valid_ns {
            if now_ns - watch.valid_ns >= watch.timeout_ns {
                watch.lapsed_ns = Some(now_ns);
            }
            (watch.valid_ns, watch.valid_epoch, watch.answered_epoch) = (valid_ns, watch.answered_epoch, epoch);
        }
    }
    for ((_, cookie), notify) in cluster.watching.notifies.iter_mut().filter(|((notifier, _), _)| *notifier == life) {
        match (client.notify_id(*cookie), notify.id) {
            (Some(id), Some((known, ..))) if id == known => {}
            (Some(id), _) => notify.id = Some((id, now_ns, epoch)),
            (None, _) => notify.id = None,
        }
    }
}
/// An event of a watch or a notify.
fn lingers(cluster: &mut Cluster, n: usize, life: Life, cookie: u64, event: LingerEvent) -> Result<(), String> {
    let at = cluster.watching.watches.iter().position(|watch| (watch.life, watch.cookie) == (life, cookie) && !watch.is_over);
    match event {
        LingerEvent::Registered(0) => {
            if let Some(at) = at {
                let watch = &mut cluster.watching.watches[at];
                watch.registered_ns = Some(cluster.net.now_ns);
            }
        }
        LingerEvent::Registered(errno) => return Err(format!("{:?} can't watch: {errno}", life.0)),
        LingerEvent::Notify { notify_id, payload, .. } => {
            let Some(at) = at else { return Ok(()) };
            told::hears(cluster, at, notify_id, payload)?;
            answer_by_chance(cluster, n, at, notify_id);
        }
        LingerEvent::Error(errno) => {
            let Some(at) = at else { return Ok(()) };
            // A primary of another interval knows no connections: a ping that comes before its registration ends the watch, as with stock.
            let (held, now_ns) = (&cluster.watching.watches[at], cluster.net.now_ns);
            let is_early = held.holds_since(now_ns, now_ns) && told::is_one_interval(cluster, held.object, held.valid_epoch);
            let watch = &cluster.watching.watches[at];
            let text = format!("the watch {cookie} of {:?} on w{} is lost ({errno})", life.0, watch.object);
            if is_early {
                let age_ms = (cluster.net.now_ns - watch.valid_ns) / MS;
                return Err(format!("{text}: {age_ms} ms after it was asked whether it holds, of {} s", watch.timeout_ns / SEC));
            }
            cluster.net.note(text);
            end_watch(cluster, at);
        }
        LingerEvent::NotifyDone { result, answers } => {
            if let Some(notify) = cluster.watching.notifies.remove(&(life, cookie)) {
                cluster.net.note(format!("{:?} has the end of {:?}: {result}", life.0, notify.payload));
                told::notify_ends(cluster, &notify, result, answers)?;
            }
        }
    }
    Ok(())
}
/// A watch answers what it heard; by chance it does not.
fn answer_by_chance(cluster: &mut Cluster, n: usize, at: usize, id: u64) {
    let watch = &mut cluster.watching.watches[at];
    let is_silent = cluster.watching.rng.chance(1, 8);
    let Some(heard) = watch.heard.get_mut(&id).filter(|heard| !is_silent && heard.ack.is_none()) else { return };
    let answer = [heard.payload.as_ref(), format!(" by {}", watch.cookie).as_bytes()].concat();
    let client = cluster.clients[n].as_mut().expect("it lives");
    let ops = Ops::new().notify_ack(id, watch.cookie, &answer);
    heard.ack = client.aside(&name(watch.object), ops, &mut cluster.history, &mut cluster.net);
}
