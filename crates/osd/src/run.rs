//! The OSD's thread: listens, logs in, registers, boots, and serves until it is told to end.

use crate::shell::{Shell, Status};
use crate::{Me, OsdConfig, bootstrap, metadata};
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use cephx::{ClientAuth, Entropy, Identity, RotatingSecrets, mode};
use msgr::{ConMode, Local, Policy};
use net::auth_cephx::{Dialer, ServiceDoor, entropy};
use net::mon_session::{MonSession, clock};
use net::{Config, Messenger};
use objecter::MonClient;
use objecter::monc::{Request, TICKETS};
use osd_core::{BootInfo, Event, Level, Osd, OsdSetup};
use serde_json::json;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store_mem::MemStore;
use tokio::sync::oneshot;
use types::{EntityAddrVec, EntityKind, EntityText, Epoch, UTime, Uuid};

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
    /// Waits until the map shows the OSD up; the map's epoch.
    pub fn wait_up(&mut self, timeout: Duration) -> Result<Epoch> {
        match self.up.recv_timeout(timeout) {
            Ok(epoch) => Ok(epoch),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(anyhow!("osd.{} is not up after {} s", self.id, timeout.as_secs())),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(self.join().err().unwrap_or_else(|| anyhow!("osd.{} ended before it was up", self.id)))
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

/// A messenger of ours that others can dial.
fn messenger(config: &OsdConfig, dialer: &Dialer, secrets: &Rc<RefCell<RotatingSecrets>>, accept: fn(EntityKind) -> Policy) -> Messenger {
    let method = if config.key.is_some() { mode::METHOD_CEPHX } else { mode::METHOD_NONE };
    let door = ServiceDoor {
        kind: EntityKind::OSD,
        cluster_methods: vec![method],
        client_methods: vec![method],
        modes: vec![ConMode::CRC, ConMode::SECURE],
        secrets: secrets.clone(),
    };
    let (clients, seed) = (Rc::new(dialer.clone()), entropy().u64());
    let mut local = Local::new(EntityKind::OSD, config.id.into(), EntityAddrVec::default(), clients, seed);
    local.auth_server = Some(Rc::new(door));
    local.accept_policy = accept;
    Messenger::new(Rc::new(local), Config { spin_us: config.spin_us, ..Config::default() })
}

async fn serve(config: OsdConfig, up: mpsc::Sender<Epoch>, mut stop: oneshot::Receiver<()>) -> Result<()> {
    let mut fresh = [0; 16];
    entropy().fill(&mut fresh);
    let me = Me { osd: config.id, osd_fsid: Uuid::from_random(fresh) };
    if let Some(admin) = &config.admin {
        let lost = bootstrap::osd_new(me, config.key.as_ref(), admin, &config.monitors, clock)
            .await
            .with_context(|| format!("registering osd.{}", me.osd))?;
        if lost && !config.quiet {
            eprintln!("osd.{}: the store of its last run was in memory and is gone; starting as a new, empty OSD {}", me.osd, me.osd_fsid);
        }
    }

    let name = EntityText::new(EntityKind::OSD, config.id.to_string());
    let identity = match &config.key {
        Some(key) => Identity::Cephx(ClientAuth::new(name, key.clone(), &TICKETS)),
        None => Identity::none(name),
    };
    let identity = Rc::new(RefCell::new(identity));
    let dialer = Dialer::new(identity.clone());
    let secrets = Rc::new(RefCell::new(RotatingSecrets::default()));
    let lossy = |_| Policy::stateless_server();
    let peers = |kind| if kind == EntityKind::OSD { Policy::lossless_peer() } else { Policy::stateless_server() };
    let sides = [
        messenger(&config, &dialer, &secrets, lossy),
        messenger(&config, &dialer, &secrets, peers),
        messenger(&config, &dialer, &secrets, lossy),
    ];
    let mut bound = Vec::new();
    for side in &sides {
        let nonce = entropy().u64() as u32;
        let addr =
            side.bind_as(SocketAddr::new(config.listen, 0), nonce).await.with_context(|| format!("listening on {}", config.listen))?;
        bound.push(EntityAddrVec::one(addr));
    }

    let mut core = MonClient::new(identity, config.monitors.clone(), metadata::hostname(), entropy().u64());
    core.keep_rotating(secrets);
    let mon = MonSession::new(sides[0].clone(), core, &dialer);
    let setup = OsdSetup {
        whoami: config.id,
        cluster_fsid: Uuid::default(),
        osd_fsid: me.osd_fsid,
        seed: entropy().u64(),
        classes: &classes::BUILTIN,
        config: config.options.clone(),
    };
    let osd = Osd::new(setup, Box::new(MemStore::new(config.capacity)));
    let shell = Shell::new(osd, sides.clone(), mon, config.quiet, config.null);
    let ticking = tokio::task::spawn_local(tick(shell.clone()));
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
    sides.iter().for_each(Messenger::shutdown);
    result
}

async fn tick(shell: Rc<Shell>) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        shell.tick();
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
    place_in_crush(shell, config).await;
    let info = BootInfo {
        public: bound[0].clone(),
        cluster: bound[1].clone(),
        hb_front: bound[2].clone(),
        hb_back: bound[2].clone(),
        metadata: metadata::collect(&config.data_dir),
    };
    shell.event(Event::Boot(Box::new(info)));
    let mut told = false;
    loop {
        match &*shell.status.borrow() {
            Status::Up(epoch) if !told => {
                told = true;
                let _ = up.send(*epoch);
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
    let id = config.id;
    let weight = (config.capacity as f64 / (1_u64 << 40) as f64).max(0.00001);
    let weight = (weight * 1e5).round() / 1e5;
    let args: Vec<String> = config.location.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
    let commands = [
        json!({ "prefix": "osd crush set-device-class", "class": "ssd", "ids": [id.to_string()] }),
        json!({ "prefix": "osd crush create-or-move", "id": id, "weight": weight, "args": args }),
    ];
    for cmd in commands {
        let request = Request::Command { cmd: vec![cmd.to_string()], input: Bytes::new() };
        let (tid, effects) = shell.mon.with(|core, out| core.request(request, out));
        shell.mon_effects(effects);
        let answered = async {
            loop {
                let at = shell.answers.borrow().iter().position(|a| a.0 == tid);
                if let Some(at) = at {
                    return shell.answers.borrow_mut().remove(at);
                }
                shell.changed.notified().await;
            }
        };
        match tokio::time::timeout(Duration::from_secs(30), answered).await {
            Ok((_, result, status)) if result < 0 => {
                shell.say(Level::Warn, &format!("{}: {status} ({result})", cmd["prefix"].as_str().unwrap_or_default()))
            }
            Ok(_) => {}
            Err(_) => shell.say(Level::Warn, "the monitor doesn't answer commands"),
        }
    }
}
