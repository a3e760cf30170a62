//! The OSD's thread: listens, logs in, registers, boots, and serves until it is told to end.

use crate::devices::Machine;
use crate::shell::{Shell, Status};
use crate::store::OpenStore;
use crate::wake::StoreWake;
use crate::watchdog::{Standing, Stands, Watchdog};
use crate::{Me, OsdConfig, StoreConfig, bootstrap, hanging, metadata, parts, ports};
use anyhow::{Context, Result, anyhow};
use base::breadcrumb::Breadcrumb;
use cephx::{ClientAuth, Entropy, Identity, RotatingSecrets, mode};
use msgr::{Local, Policy, ReceiveBuffers};
use net::auth_cephx::{Dialer, ServiceAuth, entropy};
use net::modes::SharedModes;
use net::mon_session::clock;
use net::{Config, Messenger};
use objecter::MonClient;
use objecter::monc::TICKETS;
use osd_core::daemon::{Event, Location, StartSetup};
use osd_core::{BootInfo, Daemon, Osd, OsdSetup};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use types::{EntityAddr, EntityAddrVec, EntityKind, EntityText, Epoch, Uuid, features};

/// A running OSD.
pub struct OsdHandle {
    pub id: i32,
    up: mpsc::Receiver<Epoch>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
    standing: Arc<Standing>,
}

/// The OSD ended because its store can't go on: its devices failed, or what lies on them is damaged.
#[derive(Debug)]
pub struct StoreFailed(String);

impl std::fmt::Display for StoreFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for StoreFailed {}

/// The OSD ended because what its store holds can't be used: another start finds the same, until the store is repaired or another takes its place.
#[derive(Debug)]
pub struct StoreDamaged(String);

impl std::fmt::Display for StoreDamaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for StoreDamaged {}

/// True for an end that a disk brought about, while it served or when its devices were opened.
pub fn is_of_disk(error: &anyhow::Error) -> bool {
    let opens = |e: &disk::OpenError| matches!(e, disk::OpenError::Io { .. } | disk::OpenError::Kind(_) | disk::OpenError::Window { .. });
    let reads = |e: &store_block::OpenError| matches!(e, store_block::OpenError::Disk(_));
    error.is::<StoreFailed>()
        || error.chain().any(|cause| cause.downcast_ref().is_some_and(opens) || cause.downcast_ref().is_some_and(reads))
}

/// True for an end that comes again at each start: what is on the devices is damaged, or is not this OSD's store.
pub fn is_of_damage(error: &anyhow::Error) -> bool {
    let opens = |e: &store_block::OpenError| !matches!(e, store_block::OpenError::Disk(_));
    error.is::<StoreDamaged>() || error.chain().any(|cause| cause.downcast_ref().is_some_and(opens))
}

impl OsdHandle {
    /// Waits until the map shows the OSD up; the map's epoch. An error when it takes longer, when the OSD ends, or when it is `hopeless`: the caller
    /// knows who must be there.
    pub fn wait_up(&mut self, timeout: Duration, hopeless: impl Fn() -> bool) -> Result<Epoch> {
        const LOOK: Duration = Duration::from_millis(100);
        let end = Instant::now() + timeout;
        loop {
            match self.up.recv_timeout(LOOK) {
                Ok(epoch) => return Ok(epoch),
                Err(mpsc::RecvTimeoutError::Timeout) if hopeless() => {
                    return Err(anyhow!("osd.{} is not up, and its monitor has ended", self.id));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < end => {}
                Err(mpsc::RecvTimeoutError::Timeout) => return Err(anyhow!("osd.{} is not up after {} s", self.id, timeout.as_secs())),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(self.join().err().unwrap_or_else(|| anyhow!("osd.{} ended before it was up", self.id)));
                }
            }
        }
    }
    /// True once the map has shown it up since its start; asked by one caller.
    pub fn came_up(&mut self) -> bool {
        self.up.try_recv().is_ok()
    }
    /// Why it neither serves nor ends, told once each time. A loop that stands is told of in a process that is not its own alone.
    pub fn stands(&self) -> Option<Stands> {
        self.standing.take()
    }
    /// Tells it to end; doesn't wait.
    pub fn begin_stop(&mut self) {
        drop(self.stop.take());
    }
    /// Ends the OSD and waits until it has.
    pub fn stop(mut self) -> Result<()> {
        self.begin_stop();
        self.join()
    }
    /// True once the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
    /// Waits until the OSD has ended by itself.
    pub fn join(&mut self) -> Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(anyhow!("the thread of osd.{} panicked", self.id)),
            None => Ok(()),
        }
    }
}

/// Starts an OSD on a thread of its own.
pub fn start(config: OsdConfig) -> Result<OsdHandle> {
    let (up_tx, up) = mpsc::channel();
    let (stop, stop_rx) = oneshot::channel();
    let id = config.id;
    let standing = Arc::<Standing>::default();
    let told = standing.clone();
    let thread = std::thread::Builder::new().name(format!("osd.{id}")).spawn(move || {
        // Before there is a ring, whose workers stay where this thread was when it was made.
        if let Some(Err(e)) = config.cpus.as_deref().map(crate::pin::pin) {
            say::eprintln!("osd.{id} runs on any CPU: {e}");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, serve(config, up_tx, stop_rx, told))
    })?;
    Ok(OsdHandle { id, up, stop: Some(stop), thread: Some(thread), standing })
}

/// The secrets that our messengers read tickets with, and whether one was missing.
type Secrets = (Rc<RefCell<RotatingSecrets>>, Rc<Cell<bool>>);

/// A messenger of ours that others can dial.
fn messenger(
    config: &OsdConfig,
    dialer: &Dialer,
    secrets: &Secrets,
    modes: &SharedModes,
    buffers: Option<Rc<dyn ReceiveBuffers>>,
    accept: fn(EntityKind) -> Policy,
) -> Messenger {
    let method = if config.key.is_some() { mode::METHOD_CEPHX } else { mode::METHOD_NONE };
    let how = &config.deployment;
    let auth = ServiceAuth {
        kind: EntityKind::OSD,
        cluster_methods: vec![method],
        client_methods: vec![if how.open_to_clients { mode::METHOD_NONE } else { method }],
        modes: modes.clone(),
        secrets: secrets.0.clone(),
        missing: secrets.1.clone(),
    };
    let (clients, seed) = (Rc::new(dialer.clone()), entropy().u64());
    let mut local = Local::new(EntityKind::OSD, config.id.into(), EntityAddrVec::default(), clients, seed);
    local.supported = features::OSD_SUPPORTED;
    local.auth_server = Some(Rc::new(auth));
    local.accept_policy = accept;
    local.receive_buffers = buffers;
    Messenger::new(Rc::new(local), Config { spin_us: config.spin_us, ..Config::default() })
}

/// Listens on the port of the last run if it is free and may be taken; else on the first that is free, of all or of those that may be taken.
async fn bind(side: &Messenger, ip: IpAddr, ports: Option<(u16, u16)>, before: Option<u16>) -> Result<EntityAddrVec> {
    let nonce = entropy().u64() as u32;
    if let Some(port) = before.filter(|port| ports.is_none_or(|(first, last)| (first..=last).contains(port)))
        && let Ok(addr) = side.bind_as(SocketAddr::new(ip, port), nonce).await
    {
        return Ok(EntityAddrVec::one(addr));
    }
    let (first, last) = ports.unwrap_or((0, 0));
    let mut taken = None;
    for port in first..=last {
        match side.bind_as(SocketAddr::new(ip, port), nonce).await {
            Ok(addr) => return Ok(EntityAddrVec::one(addr)),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => taken = Some(error),
            Err(error) => return Err(error).with_context(|| format!("listening on {ip}")),
        }
    }
    Err(anyhow!("listening on {ip}: every port from {first} to {last} is taken: {taken:?}"))
}

/// Makes the OSD known to the monitors, if it is to do that by itself.
async fn register(config: &OsdConfig, me: Me) -> Result<()> {
    let Some(admin) = &config.admin else { return Ok(()) };
    let lost = bootstrap::osd_new(me, config.key.as_ref(), admin, &config.monitors, config.store_is_new, clock)
        .await
        .with_context(|| format!("registering osd.{}", me.osd))?;
    if lost && !config.quiet {
        say::eprintln!("osd.{}: the store of its last run is gone; starting as a new, empty OSD {}", me.osd, me.osd_fsid);
    }
    Ok(())
}

/// Binds all four messengers: to the ports of the last run, where they are free.
async fn bind_all(config: &OsdConfig, sides: &[Messenger]) -> Result<Vec<EntityAddrVec>> {
    let how = &config.deployment;
    let back = how.cluster_listen.unwrap_or(config.listen);
    let mut bound = Vec::new();
    let before = config.ports_file.as_deref().map(ports::load).unwrap_or_default();
    for ((side, ip), before) in sides.iter().zip([config.listen, back, config.listen, back]).zip(before) {
        bound.push(bind(side, ip, how.ports, before).await?);
    }
    if let Some(path) = &config.ports_file {
        let port = |n: usize| bound[n].msgr2().and_then(|a: EntityAddr| a.socket()).map_or(0, |s| s.port());
        if let Err(e) = ports::store(path, std::array::from_fn(port)) {
            say::eprintln!("osd.{}: the next start will take other ports: {e:#}", config.id);
        }
    }
    Ok(bound)
}

/// This OSD's identity: without a folder another one at each start.
fn me(config: &OsdConfig) -> Me {
    let mut fresh = [0; 16];
    entropy().fill(&mut fresh);
    Me { osd: config.id, osd_fsid: config.deployment.osd_fsid.unwrap_or_else(|| Uuid::from_random(fresh)) }
}

async fn serve(config: OsdConfig, up: mpsc::Sender<Epoch>, mut stop: oneshot::Receiver<()>, standing: Arc<Standing>) -> Result<()> {
    // First of all: an OSD whose store can't be opened has nothing to say to any peer.
    let OpenStore { store, fd: store_fd, buffers, memory } = config.store.open()?;
    if let Some(memory) = memory {
        tokio::task::spawn_local(crate::receive_buffers::give_back(memory));
    }
    let me = me(&config);
    register(&config, me).await?;

    let name = EntityText::new(EntityKind::OSD, config.id.to_string());
    let identity = match &config.key {
        Some(key) => Identity::Cephx(ClientAuth::new(name, key.clone(), &TICKETS)),
        None => Identity::none(name),
    };
    let identity = Rc::new(RefCell::new(identity));
    let how = &config.deployment;
    let modes = how.modes.clone().shared();
    let dialer = Dialer::with(identity.clone(), EntityKind::OSD, modes.clone());
    let secrets = Secrets::default();
    let lossy = |_| Policy::stateless_server();
    let peers = |kind| if kind == EntityKind::OSD { Policy::lossless_peer() } else { Policy::stateless_server() };
    let sides = [
        messenger(&config, &dialer, &secrets, &modes, buffers, lossy),
        messenger(&config, &dialer, &secrets, &modes, None, peers),
        messenger(&config, &dialer, &secrets, &modes, None, lossy),
        messenger(&config, &dialer, &secrets, &modes, None, lossy),
    ];
    let bound = bind_all(&config, &sides).await?;

    let mut client = MonClient::new(identity, config.monitors.clone(), metadata::hostname(), entropy().u64());
    client.keep_rotating(secrets.0, secrets.1);
    let setup = OsdSetup {
        whoami: config.id,
        cluster_fsid: how.cluster_fsid.unwrap_or_default(),
        osd_fsid: me.osd_fsid,
        seed: entropy().u64(),
        classes: &classes::BUILTIN,
        config: config.options.clone(),
    };
    let mut osd = Osd::new(setup, store);
    let budget = Rc::new(base::Budget::default());
    osd.set_budget(budget.clone());
    sides.iter().for_each(|side| side.set_budget(budget.clone()));
    let crumb = osd.breadcrumb();
    let _watchdog = Watchdog::start(config.id, &crumb, (!config.is_alone).then(|| standing.clone())).context("starting the watchdog")?;
    let devices = Machine::this().below(crate::store::devices(Path::new(&config.data_dir)).iter().map(PathBuf::as_path));
    let disk = devices_text(&config.store);
    let daemon = Daemon::new(osd, client, start_setup(&config, &bound, &devices), Box::new(entropy()));
    let shell = Shell::new(daemon, sides.clone(), devices, modes, config.quiet, config.null);
    if let Some(path) = &config.admin_socket
        && let Err(e) = shell.listen_admin(path)
    {
        say::eprintln!("osd.{}: no admin socket at {}: {e}", config.id, path.display());
    }
    shell.event(Event::Start);
    let sparing = config.spare.clone().map(|spare| tokio::task::spawn_local(crate::spare::follow(spare, shell.clone(), budget)));
    let timing = tokio::task::spawn_local(keep_time(shell.clone(), crumb));
    let watching = tokio::task::spawn_local(hanging::watch(shell.clone(), disk.clone()));
    let listening = store_fd.map(|fd| tokio::task::spawn_local(listen_to_store(shell.clone(), fd)));

    let failure = serve_until_its_end(&config, &shell, &up, &mut stop, &disk).await;
    timing.abort();
    watching.abort();
    sparing.inspect(tokio::task::JoinHandle::abort);
    shell.close_admin();
    listening.inspect(tokio::task::JoinHandle::abort);
    sides.iter().for_each(Messenger::shutdown);
    if let Some((_, why)) = failure.as_ref().filter(|_| shell.hangs.get()) {
        tell_that_it_hangs(&config, why, &standing).await;
    }
    failure.map_or(Ok(()), |(error, _)| Err(error))
}

/// Waits until the OSD has ended, or is told to; then until the monitor has heard of it. The error and its cause, if it is a failure.
async fn serve_until_its_end(
    config: &OsdConfig,
    shell: &Rc<Shell>,
    up: &mpsc::Sender<Epoch>,
    stop: &mut oneshot::Receiver<()>,
    disk: &str,
) -> Option<(anyhow::Error, String)> {
    let why = tokio::select! {
        why = ended(shell, up) => why,
        _ = stop => {
            shell.event(Event::Shutdown);
            // We were told to end: how it went is no failure.
            ended(shell, up).await;
            // What was sent last leaves with the next turns of the loop.
            tokio::task::yield_now().await;
            None
        }
    }?;
    let error = failed(config, shell, &why, disk);
    if !shell.is_broken() {
        shell.last_words(last_words(config, &error, &why, disk));
        ended(shell, up).await;
        tokio::task::yield_now().await;
    }
    Some((error, why))
}

/// The OSD has left, and can't end: whoever keeps it hears why.
async fn tell_that_it_hangs(config: &OsdConfig, why: &str, standing: &Standing) {
    // Its connections are closed by their own tasks, and the store waits for the kernel when it is dropped.
    tokio::time::sleep(CLOSING).await;
    match config.is_alone {
        true => say::eprintln!("osd.{}: {why}", config.id),
        false => standing.put(Stands::Disk(why.to_string())),
    }
    say::flush();
}

/// How long the tasks of connections have for their last words, where nothing is waited for.
const CLOSING: Duration = Duration::from_millis(200);

/// What the store's devices lie on, as the end of a line: ` (disk: sda)`. Nothing where the system does not say.
fn devices_text(store: &StoreConfig) -> String {
    let StoreConfig::Block { dir, .. } = store else { return String::new() };
    let names: BTreeSet<String> = crate::store::devices(dir).iter().filter_map(|path| crate::devices::below(path)).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" (disk: {})", names.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// The error that an OSD ends with, and the note for its next process. `disk`: what its store is on.
fn failed(config: &OsdConfig, shell: &Shell, why: &str, disk: &str) -> anyhow::Error {
    if shell.is_broken() {
        return anyhow!("osd.{}: {why}", config.id);
    }
    let daemon = shell.daemon.borrow();
    let store = daemon.osd().store();
    if store.stopped_at_damage() {
        config.store.note_damage(why);
    }
    let why = format!("osd.{}: {why}", config.id);
    match store.collections() {
        _ if shell.hangs.get() => StoreFailed(why).into(),
        Err(store::StoreError::Stopped(_)) => StoreFailed(format!("{why}{disk}")).into(),
        _ if daemon.osd().is_unusable() => StoreDamaged(why).into(),
        _ => anyhow!(why),
    }
}

/// Why it ends and what to do, for the cluster log and for the monitor's health.
fn last_words(config: &OsdConfig, error: &anyhow::Error, why: &str, disk: &str) -> String {
    let id = config.id;
    let without = format!("To go on without it: `ceph osd out {id}`, then replace the disk");
    match error {
        _ if why.ends_with(hanging::HANGS) => format!("{why}. Look at dmesg, and at the disk's cables. {without}"),
        e if is_of_disk(e) => format!("{why}{disk}. {without}"),
        _ => why.to_string(),
    }
}

/// Where the OSD listens, what it is, and the class and place in the CRUSH map that it takes, as stock OSDs do at each start.
fn start_setup(config: &OsdConfig, bound: &[EntityAddrVec], devices: &BTreeSet<String>) -> StartSetup {
    let how = &config.deployment;
    // TiB with four places, as stock OSDs of the same size have it.
    let size_tib = || ((config.store.size() as f64 / (1_u64 << 40) as f64 * 1e4).round() / 1e4).max(0.0001);
    let machine = Machine::this();
    let about_devices = machine.metadata(devices).into_iter().map(|(name, value)| (name.to_string(), value));
    let about_parts = parts::metadata(&config.store, &machine).into_iter().chain(metadata::device(&config.store));
    StartSetup {
        boot: BootInfo {
            public: bound[0].clone(),
            cluster: bound[1].clone(),
            hb_front: bound[2].clone(),
            hb_back: bound[3].clone(),
            metadata: metadata::collect(&config.data_dir).into_iter().chain(about_devices).chain(about_parts).collect(),
        },
        cluster_fsid: how.cluster_fsid,
        device_class: Some(how.device_class.clone()).filter(|class| how.update_class && !class.is_empty()),
        location: how.update_location.then(|| Location {
            weight: how.initial_weight.unwrap_or_else(size_tib),
            args: config.location.iter().map(|(kind, name)| format!("{kind}={name}")).collect(),
        }),
        start_empty: how.start_empty,
    }
}

/// Tells the daemon of the time when it wants to hear of it, and the watchdog that the loop turns.
async fn keep_time(shell: Rc<Shell>, crumb: Arc<Breadcrumb>) {
    loop {
        let pause = shell.wake_at.get().since(clock().mono);
        tokio::select! {
            () = tokio::time::sleep(pause) => {
                crumb.turn();
                shell.time();
            }
            () = shell.rearmed.notified() => {}
        }
    }
}

/// Gives the OSD a turn whenever the store has something to say.
async fn listen_to_store(shell: Rc<Shell>, fd: RawFd) {
    let listen = async {
        let wake = StoreWake::register(fd)?;
        loop {
            wake.wait().await?;
            shell.event(Event::TurnEnd);
        }
    };
    let ended: std::io::Result<()> = listen.await;
    if let Err(error) = ended {
        shell.set_status(Status::Ended(Some(format!("listening to the store: {error}"))));
    }
}

/// Waits for the end; the reason, if it is a failure. Says once when the OSD is up.
async fn ended(shell: &Shell, up: &mpsc::Sender<Epoch>) -> Option<String> {
    let mut told = false;
    loop {
        match &*shell.status.borrow() {
            Status::Up(epoch) if !told => {
                told = true;
                // Its request may be gone by now.
                let _ = up.send(*epoch);
            }
            Status::Ended(why) => return why.clone(),
            _ => {}
        }
        shell.changed.notified().await;
    }
}
