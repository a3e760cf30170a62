//! What is asked of watches and notifies.
//!
//! | | |
//! |---|---|
//! | heard | a notify ends with the answer of each watch that held all the while, or names it as one that gave none; what answered had heard |
//! | again | a watch hears a number a second time only after it was registered again, and not once its answer was taken |
//! | in time | a notify waits for its whole timeout; a watch that its client renews in time is not lost; one that was renewed has been told |
//! | end | each notify ends |
//! | at rest | an object lists the watches that hold, and no other one; one whose client is gone goes when its timeout is over |

use super::{Heard, Notify, Watch, name};
use crate::client::{ClientProcess, POOL};
use crate::cluster::Cluster;
use crate::{MS, SEC};
use bytes::Bytes;
use denc::{Decoder, Denc, DencError};
use objecter::ops::Ops;
use std::collections::{BTreeMap, BTreeSet};
use types::errno::ETIMEDOUT;
use types::{EntityName, Epoch, PgId};

/// Beyond a watch's timeout its end may take so long: it is looked for once a second, and some seconds later when it had to wait.
const LATE_NS: u64 = 12 * SEC;
/// How often it is waited for, at most, when maps come meanwhile.
const AGAIN_MAX: u32 = 5;
/// How long what clients asked may take in a healed cluster.
const REST_NS: u64 = 120 * SEC;

/// A watch's client and its cookie.
pub(super) type Name = (u64, u64);

/// Those that answered a notify, with what they said, and those that did not.
struct Answers {
    replies: Vec<(u64, u64, Bytes)>,
    missed: Vec<Name>,
}

impl Answers {
    fn decode(answers: Bytes) -> Result<Self, DencError> {
        let mut d = Decoder::new(answers);
        if d.is_empty() {
            return Ok(Self { replies: Vec::new(), missed: Vec::new() });
        }
        let count = d.count(20)?;
        let replies = (0..count).map(|_| Ok((d.u64()?, d.u64()?, d.blob()?))).collect::<Result<_, DencError>>()?;
        Ok(Self { replies, missed: Denc::decode(&mut d)? })
    }
}

impl Watch {
    fn name(&self) -> Name {
        (ClientProcess::who(super::number(self.life) as u32, self.life.1).global_id, self.cookie)
    }
    /// True if its client may take it to hold, now and since then.
    pub(super) fn holds_since(&self, since_ns: u64, now_ns: u64) -> bool {
        let has_lapsed = now_ns - self.valid_ns >= self.timeout_ns || self.lapsed_ns.is_some_and(|at| at >= since_ns);
        !self.is_over && !has_lapsed && self.registered_ns.is_some_and(|at| at < since_ns || since_ns == now_ns)
    }
}

/// A watch hears of a notify.
pub(super) fn hears(cluster: &mut Cluster, at: usize, id: u64, payload: Bytes) -> Result<(), String> {
    cluster.watching.heard += 1;
    let watch = &mut cluster.watching.watches[at];
    let what = format!("the watch {} of {:?} on w{} hears {id:#x}, {payload:?},", watch.cookie, watch.life.0, watch.object);
    let (generation, is_registered) = (watch.generation, watch.registered_ns.is_some());
    match watch.heard.get_mut(&id) {
        None => drop(watch.heard.insert(id, Heard { payload, generation, ack: None, is_acked: false })),
        Some(heard) if heard.is_acked => return Err(format!("{what} again, which it had answered")),
        Some(heard) if heard.generation == generation && is_registered => {
            return Err(format!("{what} a second time, and was not registered again"));
        }
        Some(heard) if heard.payload != payload => return Err(format!("{what} and heard {:?} before", heard.payload)),
        Some(heard) => heard.generation = generation,
    }
    cluster.net.note(what);
    Ok(())
}
/// A notify has ended.
pub(super) fn notify_ends(cluster: &mut Cluster, notify: &Notify, result: i32, answers: Bytes) -> Result<(), String> {
    let now_ns = cluster.net.now_ns;
    let what = format!("{:?} on w{} ends with {result}", notify.payload, notify.object);
    let answers = Answers::decode(answers).map_err(|why| format!("{what}: {why}"))?;
    cluster.watching.ended += 1;
    cluster.watching.timed_out += u64::from(result != 0);
    match result {
        0 if answers.missed.is_empty() => {}
        result if result == -ETIMEDOUT && !answers.missed.is_empty() => {}
        _ => return Err(format!("{what}, and names {:?} as late", answers.missed)),
    }
    if result != 0 && now_ns - notify.called_ns < notify.timeout_ns {
        return Err(format!("{what} after {} ms of {} s", (now_ns - notify.called_ns) / MS, notify.timeout_ns / SEC));
    }
    let by_name = |name: Name| cluster.watching.watches.iter().find(|watch| watch.name() == name);
    for (client, cookie, said) in &answers.replies {
        // It may have heard it under other numbers before, and not answered those.
        let gave = |heard: &Heard| heard.payload == notify.payload && heard.ack.is_some();
        let has_answered = by_name((*client, *cookie)).is_some_and(|watch| watch.heard.values().any(gave));
        let is_answer = said.starts_with(&notify.payload) && said.ends_with(format!(" by {cookie}").as_bytes());
        if !is_answer || !has_answered {
            return Err(format!("{what}: {client}'s watch {cookie} is said to answer {said:?}"));
        }
    }
    let replied = answers.replies.iter().map(|(client, cookie, _)| (*client, *cookie));
    let named: BTreeSet<Name> = replied.chain(answers.missed.iter().copied()).collect();
    for watch in cluster.watching.watches.iter().filter(|watch| watch.object == notify.object) {
        if watch.holds_since(notify.called_ns, now_ns) && !named.contains(&watch.name()) {
            return Err(format!("{what}: the watch {} of {:?} holds, and is not named", watch.cookie, watch.life.0));
        }
    }
    let missed = answers.missed.iter().filter_map(|name| by_name(*name)).filter(|watch| !watch.is_over);
    missed.map(|watch| look_at_missed(cluster, notify, watch)).collect::<Result<(), String>>().map_err(|why| format!("{what}: {why}"))
}
/// A watch that was renewed since the notify had its number, both in one interval, was told of it before it was answered.
fn look_at_missed(cluster: &Cluster, notify: &Notify, watch: &Watch) -> Result<(), String> {
    let Some((id, known_ns, epoch)) = notify.id else { return Ok(()) };
    let was_told = watch.heard.contains_key(&id);
    match !was_told && watch.valid_ns > known_ns && is_one_interval(cluster, notify.object, epoch) {
        true => Err(format!("the watch {} of {:?} was renewed since, and has heard nothing", watch.cookie, watch.life.0)),
        false => Ok(()),
    }
}
/// True if nothing changed of an object's group since then.
pub(super) fn is_one_interval(cluster: &Cluster, object: u64, since: Epoch) -> bool {
    let mut placement = maps::Placement::default();
    let mut places = cluster.net.maps_from(since.saturating_sub(1)).map(|map| {
        let id = map.pool_by_name(POOL)?;
        let pool = map.pools.get(&id)?;
        let pgid = PgId::new(id, pool.fold(pool.hash_key(name(object).as_bytes(), &[])));
        let at = map.pg_to_up_acting(pgid, &mut placement);
        let addrs = map.client_addrs.get(at.acting_primary as usize).cloned();
        Some((pool.pg_num, pool.size, pool.min_size, at.up, at.acting, at.acting_primary, addrs))
    });
    let first = places.next().flatten();
    first.is_some() && places.all(|place| place == first)
}

/// At rest: notifies have ended, objects list the watches that hold, and those of a client that goes are gone in time.
pub(crate) fn watches_at_rest(cluster: &mut Cluster) -> Result<(), String> {
    if cluster.plan.watchers == 0 {
        return Ok(());
    }
    let first = super::first(&cluster.plan);
    let is_over = |c: &Cluster| {
        let is_registered = |watch: &Watch| watch.is_over || watch.registered_ns.is_some();
        let watching = &c.watching;
        watching.notifies.is_empty()
            && watching.watches.iter().all(is_registered)
            && !c.clients.iter().flatten().any(ClientProcess::has_asides)
    };
    cluster.until(REST_NS, "with all that watch", move |c| c.clients[first..].iter().all(Option::is_some))?;
    cluster.until(REST_NS, "rid of notifies", is_over)?;
    cluster.stays_at_rest()?;
    let holds = |n: &usize| cluster.watching.watches.iter().any(|watch| !watch.is_over && super::number(watch.life) == *n);
    if let Some(n) = (first..cluster.clients.len()).find(holds) {
        cluster.net.note(format!("client {n} goes, and its watches are to go"));
        super::watcher_goes(cluster, n);
    }
    let longest = super::WATCH_S.iter().max().map_or(0, |s| u64::from(*s)) * SEC;
    let epoch = |c: &Cluster| c.monitor.as_ref().map_or(0, |monitor| monitor.core().osd.epoch());
    for _ in 0..AGAIN_MAX {
        // To list them loads the records: from then on watches whose clients are gone have their timeouts, unless another interval begins.
        listed(cluster)?;
        let (before, then) = (epoch(cluster), cluster.net.now_ns + longest + LATE_NS);
        cluster.until(2 * (longest + LATE_NS), "quiet", move |c| c.net.now_ns >= then)?;
        if epoch(cluster) == before {
            break;
        }
    }
    look_at_lists(cluster)?;
    for at in 0..cluster.watching.watches.len() {
        if !cluster.watching.watches[at].is_over {
            super::end_watch(cluster, at);
        }
    }
    cluster.until(REST_NS, "rid of watches", is_over)?;
    cluster.stays_at_rest()?;
    look_at_lists(cluster)?;
    (first..cluster.clients.len()).for_each(|n| super::watcher_goes(cluster, n));
    cluster.until(cluster.plan.rest_ns, "at rest", Cluster::is_settled)
}
/// Each object lists those that hold.
fn look_at_lists(cluster: &mut Cluster) -> Result<(), String> {
    let listed = listed(cluster)?;
    let all = cluster.watching.watches.iter().filter(|watch| !watch.is_over);
    let holds: BTreeSet<(u64, Name)> = all.map(|watch| (watch.object, watch.name())).collect();
    if listed == holds {
        return Ok(());
    }
    let (gone, there): (Vec<_>, Vec<_>) = (listed.difference(&holds).collect(), holds.difference(&listed).collect());
    Err(cluster.tell(&format!("watch: at rest {gone:?} are listed and hold no more, {there:?} hold and are not listed"), &["watch".into()]))
}
/// The watches that the objects list, by object, client and cookie.
fn listed(cluster: &mut Cluster) -> Result<BTreeSet<(u64, Name)>, String> {
    let n = cluster.clients.iter().position(Option::is_some).expect("clients live at rest");
    let mut asked = BTreeMap::new();
    for object in cluster.watching.made.clone() {
        let client = cluster.clients[n].as_mut().expect("it lives");
        let tid = client.aside(&name(object), Ops::new().list_watchers(), &mut cluster.history, &mut cluster.net);
        asked.extend(tid.map(|tid| (tid, object)));
    }
    let is_done = move |c: &Cluster| c.clients[n].as_ref().is_some_and(|client| !client.has_asides());
    cluster.until(REST_NS, "telling of watches", is_done)?;
    let replies = std::mem::take(&mut cluster.clients[n].as_mut().expect("it was there").done_aside);
    let mut listed = BTreeSet::new();
    for (object, reply) in replies.into_iter().filter_map(|(tid, reply)| Some((asked.remove(&tid)?, reply))) {
        let data = reply.ops.first().map(|op| op.outdata.clone()).filter(|_| reply.result == 0);
        let data = data.ok_or_else(|| format!("watch: w{object} does not list its watches: {}", reply.result))?;
        listed.extend(watchers(data).map_err(|why| format!("watch: w{object}'s list: {why}"))?.into_iter().map(|name| (object, name)));
    }
    assert!(asked.is_empty(), "each is answered");
    Ok(listed)
}

/// What LIST_WATCHERS answers (`obj_list_watch_response_t`).
fn watchers(data: Bytes) -> Result<Vec<Name>, DencError> {
    let mut d = Decoder::new(data);
    d.frame("watchers", 1, |d, _| {
        let count = d.count(20)?;
        let one = |d: &mut Decoder| {
            d.frame("watcher", 2, |d, _| {
                let name: EntityName = d.get()?;
                Ok((name.num as u64, d.u64()?))
            })
        };
        (0..count).map(|_| one(d)).collect()
    })
}
