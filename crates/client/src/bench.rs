//! The load generator behind `humboldt bench`: keeps a number of requests under way and measures how long each takes.
//!
//! `write` writes one object after the other (each `block` bytes long, as `rados bench` does it, or larger ones piecewise); `seq` and `rand`
//! read what an earlier `write --keep` left, or write it first. Requests are sent from the replies' callbacks: no task and no timer an
//! operation.

use crate::cluster::Sink;
use crate::{ClientError, Cluster, Ops, Pool, setup};
use base::Rng;
use bytes::Bytes;
use hdrhistogram::Histogram;
use maps::{map_flags, pool_flags};
use objecter::objecter::Reply;
use std::cell::RefCell;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use types::errno;
use types::osd_op::osd_flag;

/// How long nothing may be answered before a load looks whether the pool is full.
const STILL: Duration = Duration::from_secs(1);

/// The object that says what a run left behind.
const META: &str = "humboldt_bench_meta";
/// The longest latency that the histogram holds.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
/// What to do where there is no room.
const HINT: &str = "see `ceph health detail` and `ceph df`; remove objects, raise the quota, or give the cluster a larger store";
/// What `seq` and `rand` write first if there is nothing to read.
const PREFILL_OBJECTS: u64 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Write,
    Seq,
    Rand,
}

impl Mode {
    pub fn parse(s: &str) -> Option<Self> {
        match s {
            "write" => Some(Self::Write),
            "seq" => Some(Self::Seq),
            "rand" => Some(Self::Rand),
            _ => None,
        }
    }
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// None: what `CEPH_CONF` names, or the usual place.
    pub conf: Option<PathBuf>,
    /// Our name: `client.admin`.
    pub name: String,
    pub pool: String,
    pub mode: Mode,
    pub seconds: f64,
    /// Bytes of one operation.
    pub block: u64,
    /// Operations under way at the same time.
    pub depth: usize,
    /// Bytes of one object: a multiple of `block`.
    pub object_size: u64,
    /// How many objects are used before the first is written again; 0: as many as there is time for.
    pub objects: u64,
    /// Leaves the objects there.
    pub keep: bool,
    /// How long to wait for the cluster.
    pub connect_timeout: Duration,
    /// Seconds of load before what is measured.
    pub warm_s: f64,
    /// Told when the measured part begins, and when it is over: what it does then delays what follows, the end of the load not.
    pub on_mark: Option<fn(Mark)>,
}

/// A moment of a load that others may want to know: see [`Options::on_mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Start,
    End,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            conf: None,
            name: "client.admin".into(),
            pool: String::new(),
            mode: Mode::Write,
            seconds: 10.0,
            block: 4 << 20,
            depth: 16,
            object_size: 0,
            objects: 0,
            keep: false,
            connect_timeout: Duration::from_secs(30),
            warm_s: 0.0,
            on_mark: None,
        }
    }
}

/// What was measured. Latencies in microseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub ops: u64,
    pub errors: u64,
    pub seconds: f64,
    pub iops: f64,
    pub mb_per_s: f64,
    pub avg_us: f64,
    pub min_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub p9999_us: f64,
    pub max_us: f64,
    /// All latencies: the highest of each bucket in nanoseconds, and how many.
    pub bins: Vec<(u64, u64)>,
    /// Operations in each [`SLOT`] of time.
    pub slots: Vec<u64>,
    /// The longest time without an answer.
    pub gap_us: f64,
}

/// A point of [`Report::slots`].
pub const SLOT: Duration = Duration::from_millis(100);

impl Report {
    /// Of latencies in nanoseconds of operations of `block` bytes.
    pub fn new(h: &Histogram<u64>, errors: u64, block: u64, took: Duration) -> Self {
        let us = |ns: u64| ns as f64 / 1000.0;
        let at = |q| us(h.value_at_quantile(q));
        let (ops, seconds) = (h.len(), took.as_secs_f64());
        let iops = if seconds > 0.0 { ops as f64 / seconds } else { 0.0 };
        Self {
            ops,
            errors,
            seconds,
            iops,
            mb_per_s: iops * block as f64 / 1e6,
            avg_us: h.mean() / 1000.0,
            min_us: if ops == 0 { 0.0 } else { us(h.min()) },
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: us(h.max()),
            bins: h.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect(),
            slots: Vec::new(),
            gap_us: 0.0,
        }
    }
}

impl Report {
    /// One JSON object on one line: for programs. The load's own settings stand in front, as `settings` has them (JSON members).
    pub fn json(&self, settings: &str) -> String {
        let Self { ops, errors, seconds, iops, mb_per_s, .. } = self;
        let latencies = [
            ("avg", self.avg_us),
            ("min", self.min_us),
            ("p50", self.p50_us),
            ("p90", self.p90_us),
            ("p95", self.p95_us),
            ("p99", self.p99_us),
            ("p99.9", self.p999_us),
            ("p99.99", self.p9999_us),
            ("max", self.max_us),
        ];
        let latencies: Vec<String> = latencies.iter().map(|(name, us)| format!("\"{name}\":{us:.3}")).collect();
        let bins: Vec<String> = self.bins.iter().map(|(ns, n)| format!("[{ns},{n}]")).collect();
        let curve = format!("\"slot_ms\":{},\"slots\":{:?},\"gap_us\":{:.3}", SLOT.as_millis(), self.slots, self.gap_us);
        format!(
            "{{{settings},\"ops\":{ops},\"errors\":{errors},\"seconds\":{seconds:.6},\"iops\":{iops:.3},\"mb_per_s\":{mb_per_s:.6},\"latency_us\":{{{}}},{curve},\"histogram_ns\":[{}]}}",
            latencies.join(","),
            bins.join(",")
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "operations   {} in {:.3} s, {} errors", self.ops, self.seconds, self.errors)?;
        writeln!(f, "IOPS         {:.0}", self.iops)?;
        writeln!(f, "MB/s         {:.2}", self.mb_per_s)?;
        writeln!(f, "latency us   avg {:.1}  min {:.1}  max {:.1}", self.avg_us, self.min_us, self.max_us)?;
        writeln!(f, "             p50 {:.1}  p99 {:.1}  p99.9 {:.1}  p99.99 {:.1}", self.p50_us, self.p99_us, self.p999_us, self.p9999_us)
    }
}

/// Runs a load on a thread of its own runtime; progress goes to `out` each second. Blocks until it is over.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<Report, ClientError> {
    let config = |e: std::io::Error| ClientError::Config(e.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(config)?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let conf = setup::load(options.conf.as_deref(), &options.name)?;
        let cluster = Cluster::connect(conf, options.connect_timeout).await?;
        let result = run_on(&cluster, options, out).await;
        cluster.shutdown();
        result
    })
}

/// Runs a load over a connection that there is.
pub async fn run_on(cluster: &Cluster, options: &Options, out: &mut dyn Write) -> Result<Report, ClientError> {
    run_as(std::slice::from_ref(cluster), options, out).await
}

/// Runs a load as so many clients, each with connections of its own: they take operations in turn. The first one clears up.
pub async fn run_as(clients: &[Cluster], options: &Options, out: &mut dyn Write) -> Result<Report, ClientError> {
    let cluster = clients.first().expect("one client at the least");
    let bad = |what: &str| ClientError::Config(what.into());
    if options.block == 0 || options.depth == 0 {
        return Err(bad("give --block and --depth above 0"));
    }
    let mut o = options.clone();
    if o.object_size == 0 {
        o.object_size = o.block;
    }
    if !o.object_size.is_multiple_of(o.block) {
        return Err(bad("the object size is a multiple of the block size"));
    }
    let pool = cluster.pool(&o.pool)?;
    let prefix = format!("humboldt_bench_{}_{}", setup::hostname(), std::process::id());
    let mut written = None;
    let report = match o.mode {
        Mode::Write => {
            let run = Run::new(clients, &o, prefix.clone(), Plan::Write { objects: o.objects })?;
            let result = run.go(Some(o.seconds), out).await;
            let meta = Meta { prefix, objects: run.objects_written(), object_size: o.object_size };
            if let Err(error @ ClientError::Full(_)) = result {
                // What was written is of no use any more: it goes, whatever `keep` says, so that the pool is as it was.
                remove(cluster, &pool, &o, meta).await?;
                return Err(error);
            }
            written = Some(meta);
            result?
        }
        Mode::Seq | Mode::Rand => {
            let meta = match Meta::load(&pool).await {
                Some(meta) if meta.object_size >= o.block => meta,
                _ => {
                    let objects = if o.objects > 0 { o.objects } else { PREFILL_OBJECTS };
                    let _ = writeln!(out, "nothing to read: writing {objects} objects of {} bytes", o.object_size);
                    let fill = Options { block: o.object_size, ..o.clone() };
                    let run = Run::new(clients, &fill, prefix.clone(), Plan::Fill { objects })?;
                    let result = run.go(None, &mut std::io::sink()).await;
                    let meta = Meta { prefix, objects, object_size: o.object_size };
                    if let Err(error @ ClientError::Full(_)) = result {
                        remove(cluster, &pool, &o, meta).await?;
                        return Err(error);
                    }
                    result?;
                    written = Some(meta.clone());
                    meta
                }
            };
            o.object_size = meta.object_size;
            let plan = Plan::Read { objects: meta.objects.max(1), random: o.mode == Mode::Rand };
            Run::new(clients, &o, meta.prefix, plan)?.go(Some(o.seconds), out).await?
        }
    };
    match (written, o.keep) {
        (Some(meta), true) => meta.store(&pool).await?,
        (Some(meta), false) => remove(cluster, &pool, &o, meta).await?,
        (None, _) => {}
    }
    Ok(report)
}

/// Removes what a load wrote, also from a full pool.
async fn remove(cluster: &Cluster, pool: &Pool, o: &Options, meta: Meta) -> Result<(), ClientError> {
    let (mut pool, fill) = (pool.clone(), Options { block: meta.object_size, ..o.clone() });
    pool.flags |= osd_flag::FULL_TRY;
    Run::of(vec![(cluster.clone(), pool)], &fill, meta.prefix, Plan::Remove { objects: meta.objects })
        .go(None, &mut std::io::sink())
        .await?;
    Ok(())
}

/// Removes what runs with `keep` have left in a pool; says how many objects.
pub async fn cleanup(cluster: &Cluster, pool: &str) -> Result<u64, ClientError> {
    let pool = cluster.pool(pool)?;
    let Some(meta) = Meta::load(&pool).await else { return Ok(0) };
    let options = Options { block: meta.object_size, object_size: meta.object_size, ..Options::default() };
    let objects = meta.objects;
    Run::of(vec![(cluster.clone(), pool.clone())], &options, meta.prefix, Plan::Remove { objects }).go(None, &mut std::io::sink()).await?;
    pool.remove(META).await?;
    Ok(objects)
}

/// What a run left, as [`META`] keeps it: three lines.
#[derive(Debug, Clone)]
struct Meta {
    prefix: String,
    objects: u64,
    object_size: u64,
}

impl Meta {
    async fn load(pool: &Pool) -> Option<Self> {
        let text = pool.read(META, 0, 4096).await.ok()?;
        let text = String::from_utf8(text.to_vec()).ok()?;
        let mut lines = text.lines();
        let prefix = lines.next()?.to_string();
        Some(Self { prefix, objects: lines.next()?.parse().ok()?, object_size: lines.next()?.parse().ok()? })
    }
    async fn store(&self, pool: &Pool) -> Result<(), ClientError> {
        let text = format!("{}\n{}\n{}\n", self.prefix, self.objects, self.object_size);
        pool.write_full(META, text.into()).await
    }
}

#[derive(Debug, Clone, Copy)]
enum Plan {
    /// Block after block; behind `objects` objects (if not 0) from the start again.
    Write {
        objects: u64,
    },
    /// Each object once.
    Fill {
        objects: u64,
    },
    Read {
        objects: u64,
        random: bool,
    },
    Remove {
        objects: u64,
    },
}

/// One load from start to end. Operations are numbered; what is under way has a slot with its start.
struct Run {
    /// Each with its pool; operations are theirs in turn.
    clients: Vec<(Cluster, Pool)>,
    block: u64,
    per_object: u64,
    depth: usize,
    prefix: String,
    plan: Plan,
    payload: Bytes,
    warm: Duration,
    on_mark: Option<fn(Mark)>,
    state: Rc<RefCell<State>>,
    done: Rc<Notify>,
}

struct State {
    next: u64,
    in_flight: usize,
    /// When the operation in each slot was sent.
    sent: Vec<Instant>,
    stop: bool,
    errors: u64,
    /// The first error, for a caller that asks why.
    error: i32,
    /// When something was answered last.
    heard: Instant,
    /// The clients whose requests are under way, and the numbers by which these can be cancelled.
    tids: Vec<Option<(usize, u64)>>,
    total: Histogram<u64>,
    /// Of the present second.
    second: Histogram<u64>,
    /// When the measured part began.
    began: Instant,
    slots: Vec<u64>,
    /// The longest time between two answers.
    gap: Duration,
    rng: Rng,
}

impl State {
    /// What came until now was to warm up.
    fn begin(&mut self, now: Instant) {
        self.total.reset();
        self.slots.clear();
        (self.began, self.heard, self.gap) = (now, now, Duration::ZERO);
    }
    fn count(&mut self, ns: u64, now: Instant) {
        self.total.saturating_record(ns);
        self.second.saturating_record(ns);
        let slot = (now.saturating_duration_since(self.began).as_millis() / SLOT.as_millis()) as usize;
        self.slots.resize(self.slots.len().max(slot + 1), 0);
        self.slots[slot] += 1;
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("the bounds are constants that fit")
}

impl Run {
    fn new(clients: &[Cluster], o: &Options, prefix: String, plan: Plan) -> Result<Rc<Self>, ClientError> {
        let with_pool = |cluster: &Cluster| Ok((cluster.clone(), cluster.pool(&o.pool)?));
        Ok(Self::of(clients.iter().map(with_pool).collect::<Result<_, ClientError>>()?, o, prefix, plan))
    }
    fn of(clients: Vec<(Cluster, Pool)>, o: &Options, prefix: String, plan: Plan) -> Rc<Self> {
        let mut payload = vec![0; if matches!(plan, Plan::Write { .. } | Plan::Fill { .. }) { o.block as usize } else { 0 }];
        Rng::new(1).fill(&mut payload);
        let state = State {
            next: 0,
            in_flight: 0,
            sent: vec![Instant::now(); o.depth],
            stop: false,
            errors: 0,
            error: 0,
            heard: Instant::now(),
            tids: vec![None; o.depth],
            total: histogram(),
            second: histogram(),
            began: Instant::now(),
            slots: Vec::new(),
            gap: Duration::ZERO,
            rng: Rng::new(2),
        };
        Rc::new(Self {
            clients,
            block: o.block,
            per_object: (o.object_size / o.block).max(1),
            depth: o.depth,
            prefix,
            plan,
            payload: payload.into(),
            warm: Duration::from_secs_f64(o.warm_s.max(0.0)),
            on_mark: o.on_mark,
            state: Rc::new(RefCell::new(state)),
            done: Rc::new(Notify::new()),
        })
    }
    /// How many objects the operations so far have touched.
    fn objects_written(&self) -> u64 {
        let objects = self.state.borrow().next.div_ceil(self.per_object);
        match self.plan {
            Plan::Write { objects: limit } if limit > 0 => objects.min(limit),
            _ => objects,
        }
    }
    /// Runs for this long, or until the plan is done.
    async fn go(self: &Rc<Self>, seconds: Option<f64>, out: &mut dyn Write) -> Result<Report, ClientError> {
        let run = self.clone();
        let sink: Sink = Rc::new(move |user, reply| run.on_reply(user, &reply));
        self.set_sink(Some(&sink));
        let sent = Instant::now();
        // Only what has a length is measured.
        let mark = |mark| self.on_mark.filter(|_| seconds.is_some()).into_iter().for_each(|f| f(mark));
        let mut start = sent + if seconds.is_some() { self.warm } else { Duration::ZERO };
        let mut warm = start > sent;
        if !warm {
            mark(Mark::Start);
            start = Instant::now();
        }
        self.state.borrow_mut().begin(start);
        for slot in 0..self.depth {
            self.send(slot);
        }
        let deadline = seconds.map(|s| start + Duration::from_secs_f64(s));
        let mut next_line = start + Duration::from_secs(1);
        if deadline.is_some() {
            let _ = writeln!(out, "  sec    IOPS      MB/s   avg us    p99 us");
        }
        loop {
            if warm && Instant::now() >= start {
                (warm, start) = (false, Instant::now());
                mark(Mark::Start);
                self.state.borrow_mut().begin(start);
            }
            {
                let mut state = self.state.borrow_mut();
                state.stop |= deadline.is_some_and(|d| Instant::now() >= d);
                if state.in_flight == 0 {
                    break;
                }
            }
            if let Some(why) = self.full() {
                self.give_up();
                return Err(ClientError::Full(why));
            }
            let next = if warm { next_line.min(start) } else { next_line };
            let wake = deadline.map_or(next, |d| if Instant::now() < d { d.min(next) } else { next });
            tokio::select! {
                _ = self.done.notified() => {}
                _ = tokio::time::sleep_until(wake.into()) => {}
            }
            if Instant::now() >= next_line {
                if deadline.is_some() {
                    self.progress(next_line - start, out);
                }
                next_line += Duration::from_secs(1);
            }
        }
        let took = start.elapsed();
        self.set_sink(None);
        mark(Mark::End);
        let state = self.state.borrow();
        if matches!(state.error, errno::ENOSPC | errno::EDQUOT) {
            return Err(ClientError::Full(format!(
                "after {} operations the OSD had no room (errno {}); {HINT}",
                state.total.len(),
                state.error
            )));
        }
        if state.total.is_empty() && state.errors > 0 {
            return Err(ClientError::Errno(state.error));
        }
        let report = Report::new(&state.total, state.errors, self.block, took);
        Ok(Report { slots: state.slots.clone(), gap_us: state.gap.as_secs_f64() * 1e6, ..report })
    }
    /// Why nothing is answered, if that is because the map says that writes have to wait for room.
    fn full(&self) -> Option<String> {
        let writes = matches!(self.plan, Plan::Write { .. } | Plan::Fill { .. });
        let state = self.state.borrow();
        if !writes || state.heard.elapsed() < STILL {
            return None;
        }
        let (cluster, pool) = &self.clients[0];
        let map = cluster.map();
        let pool = map.pool(pool.id());
        let has = |flag| pool.is_some_and(|p| p.has(flag));
        let what = match () {
            () if has(pool_flags::FULL_QUOTA) => "the pool's quota is used up",
            () if has(pool_flags::FULL) || map.has_flag(map_flags::FULL) => "an OSD of the pool is full",
            () => return None,
        };
        Some(format!("{what}, and writes wait until there is room ({} operations were done before); {HINT}", state.total.len()))
    }
    fn set_sink(&self, sink: Option<&Sink>) {
        self.clients.iter().for_each(|(cluster, _)| cluster.set_sink(sink.cloned()));
    }
    /// Forgets what is under way.
    fn give_up(&self) {
        self.set_sink(None);
        let mut state = self.state.borrow_mut();
        state.stop = true;
        state.in_flight = 0;
        for (client, tid) in state.tids.iter_mut().filter_map(Option::take) {
            self.clients[client].0.cancel(tid);
        }
    }
    fn progress(&self, at: Duration, out: &mut dyn Write) {
        let mut state = self.state.borrow_mut();
        let h = &state.second;
        let (iops, avg, p99) = (h.len(), h.mean() / 1000.0, h.value_at_quantile(0.99) as f64 / 1000.0);
        let mb = iops as f64 * self.block as f64 / 1e6;
        let _ = writeln!(out, "{:>5} {iops:>7} {mb:>9.2} {avg:>8.1} {p99:>9.1}", at.as_secs());
        state.second.reset();
    }

    /// Sends the next operation, if there is one.
    fn send(&self, slot: usize) {
        let mut state = self.state.borrow_mut();
        let limit = match self.plan {
            Plan::Fill { objects } | Plan::Remove { objects } => objects,
            _ => u64::MAX,
        };
        if state.stop || state.next >= limit {
            return;
        }
        let n = state.next;
        state.next += 1;
        state.in_flight += 1;
        let (object, ops) = match self.plan {
            Plan::Write { objects } => {
                let object = n / self.per_object;
                let offset = n % self.per_object * self.block;
                (if objects > 0 { object % objects } else { object }, Ops::new().write(offset, self.payload.clone()))
            }
            Plan::Fill { .. } => (n, Ops::new().write(0, self.payload.clone())),
            Plan::Read { objects, random } => {
                let blocks = objects * self.per_object;
                let at = if random { state.rng.below(blocks) } else { n % blocks };
                let offset = at % self.per_object * self.block;
                (at / self.per_object, Ops::new().read(offset, self.block))
            }
            Plan::Remove { .. } => (n, Ops::new().remove()),
        };
        state.sent[slot] = Instant::now();
        drop(state);
        let client = (n % self.clients.len() as u64) as usize;
        let (cluster, pool) = &self.clients[client];
        let mut submit = pool.request(format!("{}_{object}", self.prefix), ops);
        submit.user = slot as u64 + 1;
        let tid = cluster.submit(submit);
        // The answer may be here already.
        let mut state = self.state.borrow_mut();
        if state.in_flight > 0 {
            state.tids[slot] = Some((client, tid));
        }
    }
    fn on_reply(&self, user: u64, reply: &Reply) {
        let slot = user as usize - 1;
        let mut state = self.state.borrow_mut();
        state.in_flight -= 1;
        state.tids[slot] = None;
        let now = Instant::now();
        state.gap = state.gap.max(now.saturating_duration_since(state.heard));
        state.heard = now;
        let short = matches!(self.plan, Plan::Read { .. }) && reply.ops.first().is_none_or(|op| op.outdata.len() as u64 != self.block);
        let gone = matches!(self.plan, Plan::Remove { .. }) && reply.result == -errno::ENOENT;
        if reply.result < 0 && !gone || short && reply.result >= 0 {
            state.errors += 1;
            state.error = if reply.result < 0 { -reply.result } else { errno::EIO };
            // A load that only fails ends at once instead of failing as fast as it can.
            state.stop |= state.errors >= 100 && state.total.is_empty() || matches!(state.error, errno::ENOSPC | errno::EDQUOT);
        } else {
            let ns = ((now - state.sent[slot]).as_nanos() as u64).clamp(1, LATENCY_MAX_NS);
            state.count(ns, now);
        }
        let idle = state.in_flight == 0;
        drop(state);
        self.send(slot);
        if idle && self.state.borrow().in_flight == 0 {
            self.done.notify_one();
        }
    }
}
