//! The OSD's thread: listens, logs in, registers, boots, and serves until it is told to end.

use crate::devices::Machine;
use crate::rooms::DeviceMemory;
use crate::shell::{Shell, Status};
use crate::store::OpenStore;
use crate::wake::StoreWake;
use crate::watchdog::Watchdog;
use crate::{Me, OsdConfig, bootstrap, metadata, ports};
use anyhow::{Context, Result, anyhow};
use base::breadcrumb::Breadcrumb;
use bytes::Bytes;
use cephx::{ClientAuth, Entropy, Identity, RotatingSecrets, mode};
use msgr::{Local, Policy, Rooms};
use net::auth_cephx::{Dialer, ServiceDoor, entropy};
use net::mon_session::{MonSession, clock};
use net::{Config, Messenger};
use objecter::MonClient;
use objecter::monc::{Request, TICKETS};
use osd_core::{BootInfo, Event, Level, Osd, OsdSetup};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use types::{EntityAddr, EntityAddrVec, EntityKind, EntityText, Epoch, UTime, Uuid};

/// How long the monitor may take for a command of ours: an election may be under way.
const COMMAND: Duration = Duration::from_secs(60);
/// How long others may take to say that they have groups of ours.
const STRAYS: Duration = Duration::from_secs(3);
/// How long the monitor may take to confirm that we are down before we end without its word.
const GOODBYE: Duration = Duration::from_secs(3);

/// A running OSD.
pub struct OsdHandle {
    pub id: i32,
    up: mpsc::Receiver<Epoch>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
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
                    return Err(anyhow!("osd.{} is not up, and there is nobody any more who could say that it is", self.id));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < end => {}
                Err(mpsc::RecvTimeoutError::Timeout) => return Err(anyhow!("osd.{} is not up after {} s", self.id, timeout.as_secs())),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(self.join().err().unwrap_or_else(|| anyhow!("osd.{} ended before it was up", self.id)));
                }
            }
        }
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
    let thread = std::thread::Builder::new().name(format!("osd.{id}")).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, serve(config, up_tx, stop_rx))
    })?;
    Ok(OsdHandle { id, up, stop: Some(stop), thread: Some(thread) })
}

/// The secrets that our doors read tickets with, and whether one was missing.
type Secrets = (Rc<RefCell<RotatingSecrets>>, Rc<Cell<bool>>);

/// A messenger of ours that others can dial.
fn messenger(
    config: &OsdConfig,
    dialer: &Dialer,
    secrets: &Secrets,
    rooms: Option<Rc<dyn Rooms>>,
    accept: fn(EntityKind) -> Policy,
) -> Messenger {
    let method = if config.key.is_some() { mode::METHOD_CEPHX } else { mode::METHOD_NONE };
    let how = &config.deployment;
    let door = ServiceDoor {
        kind: EntityKind::OSD,
        cluster_methods: vec![method],
        client_methods: vec![if how.open_to_clients { mode::METHOD_NONE } else { method }],
        cluster_modes: how.cluster_modes.clone(),
        client_modes: how.service_modes.clone(),
        secrets: secrets.0.clone(),
        missing: secrets.1.clone(),
    };
    let (clients, seed) = (Rc::new(dialer.clone()), entropy().u64());
    let mut local = Local::new(EntityKind::OSD, config.id.into(), EntityAddrVec::default(), clients, seed);
    local.auth_server = Some(Rc::new(door));
    local.accept_policy = accept;
    local.rooms = rooms;
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

async fn serve(config: OsdConfig, up: mpsc::Sender<Epoch>, mut stop: oneshot::Receiver<()>) -> Result<()> {
    // First of all: an OSD whose store can't be opened has nothing to say to anybody.
    let OpenStore { store, fd: store_fd, memory } = config.store.open()?;
    let rooms = memory.map(|memory| Rc::new(DeviceMemory(memory)) as Rc<dyn Rooms>);
    let mut fresh = [0; 16];
    entropy().fill(&mut fresh);
    let me = Me { osd: config.id, osd_fsid: config.deployment.osd_fsid.unwrap_or_else(|| Uuid::from_random(fresh)) };
    if let Some(admin) = &config.admin {
        let lost = bootstrap::osd_new(me, config.key.as_ref(), admin, &config.monitors, config.store_is_new, clock)
            .await
            .with_context(|| format!("registering osd.{}", me.osd))?;
        if lost && !config.quiet {
            eprintln!("osd.{}: the store of its last run is gone; starting as a new, empty OSD {}", me.osd, me.osd_fsid);
        }
    }

    let name = EntityText::new(EntityKind::OSD, config.id.to_string());
    let identity = match &config.key {
        Some(key) => Identity::Cephx(ClientAuth::new(name, key.clone(), &TICKETS)),
        None => Identity::none(name),
    };
    let identity = Rc::new(RefCell::new(identity));
    let how = &config.deployment;
    let dialer = Dialer { mon_modes: how.mon_modes.clone(), modes: how.cluster_modes.clone(), ..Dialer::new(identity.clone()) };
    let secrets = Secrets::default();
    let lossy = |_| Policy::stateless_server();
    let peers = |kind| if kind == EntityKind::OSD { Policy::lossless_peer() } else { Policy::stateless_server() };
    let sides = [
        messenger(&config, &dialer, &secrets, rooms, lossy),
        messenger(&config, &dialer, &secrets, None, peers),
        messenger(&config, &dialer, &secrets, None, lossy),
        messenger(&config, &dialer, &secrets, None, lossy),
    ];
    let back = how.cluster_listen.unwrap_or(config.listen);
    let mut bound = Vec::new();
    let before = config.ports_file.as_deref().map(ports::load).unwrap_or_default();
    for ((side, ip), before) in sides.iter().zip([config.listen, back, config.listen, back]).zip(before) {
        bound.push(bind(side, ip, how.ports, before).await?);
    }
    if let Some(path) = &config.ports_file {
        let port = |n: usize| bound[n].msgr2().and_then(|a: EntityAddr| a.socket()).map_or(0, |s| s.port());
        if let Err(e) = ports::store(path, std::array::from_fn(port)) {
            eprintln!("osd.{}: the next start will take other ports: {e:#}", config.id);
        }
    }

    let mut core = MonClient::new(identity, config.monitors.clone(), metadata::hostname(), entropy().u64());
    core.keep_rotating(secrets.0, secrets.1);
    let mon = MonSession::new(sides[0].clone(), core, &dialer);
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
    let _watchdog = Watchdog::start(config.id, &crumb).context("starting the watchdog")?;
    let shell = Shell::new(osd, sides.clone(), mon, config.quiet, config.null);
    shell.devices.replace(Machine::this().below(crate::store::devices(Path::new(&config.data_dir)).iter().map(PathBuf::as_path)));
    if let Some(path) = &config.admin_socket
        && let Err(e) = shell.listen_admin(path)
    {
        eprintln!("osd.{}: no admin socket at {}: {e}", config.id, path.display());
    }
    let ticking = tokio::task::spawn_local(tick(shell.clone(), crumb));
    let listening = store_fd.map(|fd| tokio::task::spawn_local(listen_to_store(shell.clone(), fd)));
    shell.mon_effects(shell.mon.start());
    shell.monc(|core, out| core.subscribe_to("mgrmap", 0, 0, out));

    let result = tokio::select! {
        result = live(&shell, &config, &bound, up) => result,
        _ = &mut stop => {
            shell.event(Event::Shutdown);
            let _ = tokio::time::timeout(GOODBYE, ended(&shell)).await;
            // What was sent last leaves with the next turns of the loop.
            tokio::task::yield_now().await;
            Ok(())
        }
    };
    ticking.abort();
    shell.close_admin();
    listening.inspect(tokio::task::JoinHandle::abort);
    sides.iter().for_each(Messenger::shutdown);
    result
}

async fn tick(shell: Rc<Shell>, crumb: Arc<Breadcrumb>) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        crumb.turn();
        shell.tick();
    }
}

/// Gives the OSD a turn whenever the store has something to say.
async fn listen_to_store(shell: Rc<Shell>, fd: RawFd) {
    let listen = async {
        let wake = StoreWake::register(fd)?;
        loop {
            wake.wait().await?;
            shell.turn_end();
        }
    };
    let ended: std::io::Result<()> = listen.await;
    if let Err(error) = ended {
        shell.set_status(Status::Ended(Some(format!("listening to the store: {error}"))));
    }
}

async fn ended(shell: &Shell) -> Option<String> {
    loop {
        if let Status::Ended(why) = &*shell.status.borrow() {
            return why.clone();
        }
        shell.changed.notified().await;
    }
}

/// From the first login to the end.
async fn live(shell: &Rc<Shell>, config: &OsdConfig, bound: &[EntityAddrVec], up: mpsc::Sender<Epoch>) -> Result<()> {
    let started = Instant::now();
    loop {
        let ready = shell.logged_in.get() && shell.fsid().is_some();
        let (rotating, _) = shell.mon.with(|core, _| core.has_rotating(UTime::from_wall_ns(clock().wall_ns)));
        if ready && rotating {
            break;
        }
        if started.elapsed() > Duration::from_secs(10) && shell.mon.refused() != 0 {
            return Err(anyhow!("the monitor refuses osd.{} (errno {})", config.id, shell.mon.refused()));
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), shell.changed.notified()).await;
    }
    if let (Some(ours), Some(theirs)) = (config.deployment.cluster_fsid, shell.fsid())
        && ours != theirs
    {
        return Err(anyhow!("osd.{}'s folder belongs to cluster {ours}, the monitor is of {theirs}", config.id));
    }
    place_in_crush(shell, config).await;
    let info = BootInfo {
        public: bound[0].clone(),
        cluster: bound[1].clone(),
        hb_front: bound[2].clone(),
        hb_back: bound[3].clone(),
        metadata: metadata::collect(&config.data_dir).into_iter().chain(shell.device_metadata()).collect(),
    };
    shell.event(Event::Boot(Box::new(info)));
    let mut told = false;
    loop {
        match &*shell.status.borrow() {
            Status::Up(epoch) if !told => {
                told = true;
                let _ = up.send(*epoch);
                if shell.osd.borrow().lost_its_store() {
                    if config.deployment.start_empty {
                        tokio::task::spawn_local(start_empty(shell.clone()));
                    } else {
                        let text = "the last run's objects were in memory and are gone; `ceph osd force-create-pg` makes groups anew, --start-empty all of them";
                        shell.say(Level::Warn, text);
                    }
                }
            }
            Status::Ended(None) => return Ok(()),
            Status::Ended(Some(why)) => return Err(anyhow!("osd.{}: {why}", config.id)),
            _ => {}
        }
        shell.changed.notified().await;
    }
}

/// Class and place of this OSD in the CRUSH map, as stock OSDs set them at each start.
async fn place_in_crush(shell: &Rc<Shell>, config: &OsdConfig) {
    let (id, how) = (config.id, &config.deployment);
    // TiB with four places, as stock OSDs of the same size have it.
    let size_tib = || ((config.store.size() as f64 / (1_u64 << 40) as f64 * 1e4).round() / 1e4).max(0.0001);
    let weight = how.initial_weight.unwrap_or_else(size_tib);
    let args: Vec<String> = config.location.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
    if how.update_class && !how.device_class.is_empty() {
        let cmd = json!({ "prefix": "osd crush set-device-class", "class": how.device_class, "ids": [id.to_string()] });
        command(shell, &cmd).await;
    }
    if how.update_location {
        command(shell, &json!({ "prefix": "osd crush create-or-move", "id": id, "weight": weight, "args": args })).await;
    }
}

/// A command in our own name; what goes wrong is said. A device class that somebody has set already is no error: EBUSY.
async fn command(shell: &Rc<Shell>, cmd: &serde_json::Value) -> bool {
    let request = Request::Command { cmd: vec![cmd.to_string()], input: Bytes::new() };
    let (tid, effects) = shell.mon.with(|core, out| core.request(request, out));
    let (tell, answer) = oneshot::channel();
    shell.asked.borrow_mut().insert(tid, tell);
    shell.mon_effects(effects);
    match tokio::time::timeout(COMMAND, answer).await {
        Ok(Ok((result, status))) if result < 0 && result != -types::errno::EBUSY => {
            shell.say(Level::Warn, &format!("{}: {status} ({result})", cmd["prefix"].as_str().unwrap_or_default()));
            false
        }
        Ok(Ok(_)) => true,
        _ => {
            shell.asked.borrow_mut().remove(&tid);
            shell.mon.with(|core, _| core.cancel(tid));
            shell.say(Level::Warn, "the monitor doesn't answer commands");
            false
        }
    }
}

/// Makes groups anew of which we had the only copy, and had it in a store that is gone.
async fn start_empty(shell: Rc<Shell>) {
    // Whoever has some of a group says so when the map shows us up; such a group isn't lost.
    tokio::time::sleep(STRAYS).await;
    let lost = shell.osd.borrow_mut().lost_groups();
    let mut made = 0;
    for pgid in &lost {
        let cmd = json!({ "prefix": "osd force-create-pg", "pgid": pgid.to_string(), "yes_i_really_mean_it": true });
        made += u32::from(command(&shell, &cmd).await);
    }
    if !lost.is_empty() {
        shell.cluster_log(Level::Warn, format!("the last run's objects were in memory and are gone: {made} placement groups start empty"));
    }
}
