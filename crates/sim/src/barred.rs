//! A client that shuts out another one, whose writes are under way: what takes an image or a file system over from a client that is taken for dead.
//!
//! ```text
//!   barred ──────▶ primaries of its objects, by chance with nothing going through for a while
//!   fencer ──────▶ monitor: `osd blocklist add`, answered ─ waits for a map with the entry ─▶ reads those objects, each at its primary
//! ```
//! From the answer to such a read on no write of the barred client takes effect on that object any more, and none that it calls later succeeds; one that was
//! under way has taken effect before, or never does. In the end the barred client goes, and comes back under another address, which is shut out from nothing.
//! By chance OSDs hear late of the map, and by chance what the client asked waits at its primary meanwhile, for an object that a member
//! lacks. No OSD begins a write of a client by a map that shuts it out, whatever the write waited for. That an entry is not gone before its
//! time is [`crate::rules`]' to say.

use crate::SEC;
use crate::client::ClientProcess;
use crate::cluster::Cluster;
use crate::model::Op;
use crate::net::{Life, Proc, What};
use crate::plan::Plan;
use base::Rng;
use messages::{MOSDRepOp, Message, RawMessage};
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityKind, Epoch};

/// Bars of a run.
const BARS: u32 = 3;
/// Longer than any run.
const EXPIRE_S: u64 = 7200;
/// Objects that the fencer takes over at a time.
const OBJECTS: usize = 4;
/// How long the fencer tries, and how long the barred client goes on after that.
const TRIES_NS: u64 = 60 * SEC;
const AFTER_NS: u64 = 15 * SEC;
/// How long nothing of what the barred client sends goes through, at most.
const HELD_NS: u64 = 20 * SEC;
/// How long OSDs hear of no map, at most: less than the time after which a silent one counts as failed.
const LATE_NS: u64 = 10 * SEC;
/// How long nothing is recovered, at most.
const UNRECOVERED_NS: u64 = 40 * SEC;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The monitor has not answered this command.
    Asked(u64),
    /// No map of the fencer has the entry, which this epoch made.
    Waits(Epoch),
    /// Its reads are under way.
    Reads,
}

#[derive(Debug)]
struct Bar {
    barred: Life,
    fencer: Life,
    step: Step,
    /// The fencer's reads, and the objects that are taken over.
    reads: BTreeMap<usize, u32>,
    taken: BTreeSet<u32>,
    /// Calls of the barred client that have been looked at.
    seen: BTreeSet<usize>,
    /// All reads are answered.
    is_through: bool,
    until_ns: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Bars {
    rng: Rng,
    bar: Option<Bar>,
    begun: u32,
    /// Nothing is recovered before then, so that members go on lacking what they lack.
    unrecovered_ns: u64,
    /// Clients that are shut out, by their numbers, and from which map on.
    since: BTreeMap<i64, Epoch>,
    /// Objects that were taken over, and answers that told a client that it is shut out.
    pub taken: u64,
    pub told: u64,
}

impl Bars {
    pub fn new(seed: u64) -> Self {
        let (rng, since) = (Rng::new(seed ^ 0x0ba4_4ed0), BTreeMap::new());
        Self { rng, bar: None, begun: 0, unrecovered_ns: 0, since, taken: 0, told: 0 }
    }
    /// True if all that the plan has are over.
    pub fn are_over(&self, plan: &Plan) -> bool {
        plan.bar == 0 || self.begun == BARS && self.bar.is_none()
    }
}

/// See the module.
pub(crate) fn begin(cluster: &mut Cluster) {
    let mut all: Vec<usize> = (0..cluster.plan.clients as usize).filter(|n| cluster.clients[*n].is_some()).collect();
    if cluster.bars.bar.is_some() || cluster.bars.begun == BARS || all.len() < 2 {
        return;
    }
    let Ok(lacking) = is_prepared(cluster) else { return };
    let rng = &mut cluster.bars.rng;
    let barred = all.swap_remove(rng.below(all.len() as u64) as usize);
    let fencer = all[rng.below(all.len() as u64) as usize];
    let life = |n: usize| cluster.clients[n].as_ref().expect("it lives").life;
    let (barred, fencer) = (life(barred), life(fencer));
    client_in(cluster, barred).expect("it lives").may_be_barred = true;
    // Writes that wait at their primary are to get there first.
    if lacking.is_empty() {
        hold_writes(cluster, barred);
    }
    for n in 0..2 {
        let by_chance = cluster.bars.rng.below(cluster.plan.objects.into()) as u32;
        overwrite_as(cluster, barred, lacking.get(n).copied().unwrap_or(by_chance));
    }
    cluster.net.note(format!("{:?} is to be shut out by {:?}", barred.0, fencer.0));
    let (host, nonce) = (number(barred), barred.1);
    let json = format!(r#"{{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.2.{host}:0/{nonce}","expire":{EXPIRE_S}.0}}"#);
    let client = cluster.clients[number(fencer)].as_mut().expect("it lives");
    let tid = client.command(json, &mut cluster.history, &mut cluster.net);
    cluster.bars.begun += 1;
    let until_ns = cluster.net.now_ns + TRIES_NS;
    let (reads, taken, seen) = Default::default();
    cluster.bars.bar = Some(Bar { barred, fencer, step: Step::Asked(tid), reads, taken, seen, is_through: false, until_ns });
    cluster.net.at(until_ns, What::Bar(barred));
}
/// Another time is better.
struct Later;

/// By chance, before a client is shut out, a member is away for a moment, and nothing is recovered when it is back. The objects that it
/// lacks then, if so.
fn is_prepared(cluster: &mut Cluster) -> Result<Vec<u32>, Later> {
    let now_ns = cluster.net.now_ns;
    if cluster.bars.unrecovered_ns == 0 {
        let may_be = cluster.plan.size > 1 && cluster.plan.follow == 0 && cluster.bars.rng.chance(1, 2);
        let Some((_, members)) = may_be.then(|| cluster.fence_target()).flatten() else { return Ok(Vec::new()) };
        cluster.bars.unrecovered_ns = now_ns + UNRECOVERED_NS;
        let osd = members[1];
        cluster.net.note(format!("osd.{osd} is away, and nothing is recovered"));
        cluster.say(r#"{"prefix":"osd set","key":"norecover"}"#.into());
        cluster.say(format!(r#"{{"prefix":"osd down","ids":["{osd}"]}}"#));
        cluster.kill_osd(osd as usize, false);
        return Err(Later);
    }
    match cluster.lacking() {
        Some((_, objects)) => Ok(objects),
        None if now_ns < cluster.bars.unrecovered_ns => Err(Later),
        None => {
            let_recover(cluster);
            Ok(Vec::new())
        }
    }
}
fn let_recover(cluster: &mut Cluster) {
    if std::mem::take(&mut cluster.bars.unrecovered_ns) > 0 {
        cluster.say(r#"{"prefix":"osd unset","key":"norecover"}"#.into());
    }
}
/// What the client sends arrives late at some OSDs, so that it may do so when it is shut out.
fn hold_writes(cluster: &mut Cluster, barred: Life) {
    let rng = &mut cluster.bars.rng;
    for osd in 0..cluster.osds.len() as i32 {
        if rng.chance(1, 2) {
            cluster.net.partition(barred.0, Proc::Osd(osd), cluster.net.now_ns + rng.below(HELD_NS));
        }
    }
    if rng.chance(1, 2) {
        // Nor does it hear of the map.
        cluster.net.partition(Proc::Mon, barred.0, cluster.net.now_ns + rng.below(2 * HELD_NS));
    }
    if rng.chance(1, 2) {
        let late: Vec<i32> = (0..cluster.osds.len() as i32).filter(|_| rng.chance(1, 2)).collect();
        let until = cluster.net.now_ns + rng.below(LATE_NS);
        cluster.net.note(format!("{late:?} hear of no map for a while"));
        for osd in late {
            // The others would lead it on.
            let others = (0..cluster.osds.len() as i32).filter(|other| *other != osd).map(Proc::Osd).chain([Proc::Mon]);
            others.for_each(|other| cluster.net.partition(other, Proc::Osd(osd), until));
        }
    }
}
/// The client writes all of an object anew: the call.
fn overwrite_as(cluster: &mut Cluster, life: Life, object: u32) -> Option<usize> {
    let client = cluster.clients[number(life)].as_mut().filter(|client| client.life == life)?;
    let op = client.overwrite(&mut cluster.bars.rng);
    call_as(cluster, life, object, op)
}
fn client_in(cluster: &mut Cluster, life: Life) -> Option<&mut ClientProcess> {
    cluster.clients[number(life)].as_mut().filter(|client| client.life == life)
}
/// The call of a client, which goes to the primary.
fn call_as(cluster: &mut Cluster, life: Life, object: u32, op: Op) -> Option<usize> {
    let before = cluster.history.calls.len();
    let client = cluster.clients[number(life)].as_mut().filter(|client| client.life == life && client.has_pool())?;
    client.submit_to_primary(object, op, &mut cluster.history, &mut cluster.net);
    cluster.fences.calls += 1;
    Some(before)
}
/// Something has happened to a client.
pub(crate) fn look(cluster: &mut Cluster) {
    let Some(mut bar) = cluster.bars.bar.take() else { return };
    if bar_goes_on(cluster, &mut bar) {
        cluster.bars.bar = Some(bar);
    }
}
/// False if it is over.
fn bar_goes_on(cluster: &mut Cluster, bar: &mut Bar) -> bool {
    if client_in(cluster, bar.barred).is_none() {
        let_recover(cluster);
        return false;
    }
    look_at_barred(cluster, bar);
    match bar.step {
        Step::Asked(tid) => {
            let Some((result, status)) = client_in(cluster, bar.fencer).and_then(|client| client.answers.remove(&tid)) else { return true };
            let addr = ClientProcess::who(number(bar.barred) as u32, bar.barred.1).addrs.front();
            match cluster.net.first_map(|map| map.is_blocklisted(&addr)) {
                Some(epoch) if result == 0 => {
                    let id = ClientProcess::who(number(bar.barred) as u32, bar.barred.1).global_id as i64;
                    cluster.bars.since.insert(id, epoch);
                    bar.step = Step::Waits(epoch);
                }
                _ => {
                    let why = format!("barred: {:?} is told {status} ({result}), and no map shuts {:?} out", bar.fencer.0, bar.barred.0);
                    cluster.broken.get_or_insert(why);
                }
            }
        }
        Step::Waits(epoch) if client_in(cluster, bar.fencer).is_some_and(|client| client.epoch() >= epoch) => take_over(cluster, bar),
        Step::Waits(_) => {}
        Step::Reads => {
            let open: BTreeSet<usize> = client_in(cluster, bar.fencer).into_iter().flat_map(|client| client.unanswered()).collect();
            for (call, object) in std::mem::take(&mut bar.reads) {
                if open.contains(&call) {
                    bar.reads.insert(call, object);
                } else if cluster.history.calls[call].outcome.is_some() {
                    cluster.net.note(format!("o{object} is taken over from {:?}", bar.barred.0));
                    cluster.bars.taken += 1;
                    bar.taken.insert(object);
                    // It goes on as if nothing were.
                    if let Some(call) = overwrite_as(cluster, bar.barred, object) {
                        bar.seen.insert(call);
                        cluster.history.bars(call);
                    }
                }
            }
            look_at_barred(cluster, bar);
            if bar.reads.is_empty() && !bar.is_through {
                bar.is_through = true;
                let_recover(cluster);
                // The barred client goes some time after the fencer is through, and tries meanwhile.
                let after = cluster.bars.rng.below(AFTER_NS);
                cluster.net.after(after, What::Bar(bar.barred));
            }
        }
    }
    true
}
/// The fencer has a map with the entry: it reads what the barred client writes.
fn take_over(cluster: &mut Cluster, bar: &mut Bar) {
    bar.step = Step::Reads;
    let mut objects: Vec<u32> = Vec::new();
    let open: Vec<usize> = client_in(cluster, bar.barred).map(|client| client.unanswered().collect()).unwrap_or_default();
    for call in open {
        let call = &cluster.history.calls[call];
        if !call.op.is_read() && !objects.contains(&call.object) {
            objects.push(call.object);
        }
    }
    objects.truncate(OBJECTS - 1);
    objects.push(cluster.bars.rng.below(cluster.plan.objects.into()) as u32);
    for object in objects {
        let call = call_as(cluster, bar.fencer, object, Op::Read);
        bar.reads.extend(call.map(|call| (call, object)));
        if cluster.bars.rng.chance(1, 2) {
            overwrite_as(cluster, bar.barred, object);
        }
    }
}
/// A write reaches a member: its primary did not begin it by a map that shuts its client out.
pub(crate) fn look_at_write(cluster: &mut Cluster, msg: &RawMessage) {
    if cluster.bars.since.is_empty() || msg.kind != MOSDRepOp::KIND {
        return;
    }
    let Some(write) = MOSDRepOp::decode(msg).ok().filter(|write| write.reqid.name.kind == EntityKind::CLIENT) else { return };
    let Some(since) = cluster.bars.since.get(&write.reqid.name.num).filter(|since| write.map_epoch >= **since) else { return };
    let why = format!(
        "barred: {} begins {:?} of {} by the map of epoch {}, and the client is shut out since {since}",
        write.from, write.reqid, write.poid, write.map_epoch
    );
    cluster.broken.get_or_insert(why);
}
/// Calls of the barred client on objects that were taken over: those that were under way have taken effect or never do, later ones never do.
fn look_at_barred(cluster: &mut Cluster, bar: &mut Bar) {
    let Some(client) = client_in(cluster, bar.barred) else { return };
    let open: Vec<usize> = client.unanswered().collect();
    for call in open {
        let of = &cluster.history.calls[call];
        if of.op.is_read() || bar.seen.contains(&call) {
            continue;
        }
        // Another object may be taken over later: then it was under way.
        if bar.taken.contains(&of.object) {
            bar.seen.insert(call);
            cluster.history.expires(call);
        }
    }
}
/// Calls that a barred client has just made, of objects that were taken over before.
pub(crate) fn look_at_calls(cluster: &mut Cluster, n: usize, from: usize) {
    let Some(bar) = cluster.bars.bar.as_mut().filter(|bar| number(bar.barred) == n) else { return };
    for call in from..cluster.history.calls.len() {
        let of = &cluster.history.calls[call];
        if of.client as usize == n && !of.op.is_read() && bar.taken.contains(&of.object) {
            bar.seen.insert(call);
            cluster.history.bars(call);
        }
    }
}
/// The barred client goes, and comes back as another; or the fencer has not got through.
pub(crate) fn end(cluster: &mut Cluster, barred: Life) {
    let Some(bar) = cluster.bars.bar.as_ref().filter(|bar| bar.barred == barred) else { return };
    if bar.is_through || bar.until_ns <= cluster.net.now_ns {
        cluster.bars.bar = None;
        let_recover(cluster);
        let Some(client) = client_in(cluster, barred) else { return };
        let told = client.barred;
        cluster.bars.told += u64::from(told);
        cluster.net.note(format!("{:?} goes, {told} times told", barred.0));
        cluster.clients[number(barred)] = None;
        cluster.net.died(barred);
        cluster.net.after(SEC / 5, What::Start(barred.0));
    }
}

/// A client's number.
fn number(life: Life) -> usize {
    let Proc::Client(n) = life.0 else { unreachable!("only clients are shut out, and by clients") };
    n as usize
}
