//! `humboldt up`: monitor, manager endpoint and OSDs, each on a thread of its own, talking to each other as they would over a network.

use crate::again::Cause;
use crate::args::Up;
use crate::daemons::{MonStart, Monitor, UP_TIMEOUT, monitor_at, osd_config, start_mon, web_line};
use crate::folder::Folder;
use crate::keeper::{Daemon, Ended, Form, Keeper};
use crate::members::{ByDevice, Members};
use crate::ready::Health;
use crate::spread::Spread;
use crate::stores::{OsdStore, Stores};
use crate::{buckets, members, osd_daemon, pinned, processes, regroup, services, signals, stores};
use anyhow::{Context, Result, anyhow};
use cephx::Keyring;
use net::modes::NAMES;
use objecter::conf::Conf;
use osd::{Admin, OsdHandle, Stands};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use types::{EntityKind, EntityText, OsdId, Uuid};

pub fn up(args: &Up) -> Result<()> {
    let started = Instant::now();
    let asked = services::Asked::check(args)?;
    let spread = Spread::of(args, &stores::osd_folders(&args.dir))?;
    let osds = stores::osd_count(args, &args.dir, spread.as_ref());
    stores::memory(args, osds)?;
    // Nothing is made before all is right; a folder that is held says so first.
    let ports = || asked.check_ports().and_then(|()| Health::listen(args.health));
    let early = if args.dir.exists() { None } else { Some(ports()?) };
    let folder = Folder::hold(&args.dir)?;
    let health = match early {
        Some(health) => health,
        None => ports()?,
    };
    if args.processes {
        return processes::up(args, &folder, spread, asked, &health, started);
    }
    let with = MonStart {
        listen: SocketAddr::new(args.listen, args.port),
        auth: args.auth.mode(),
        allow_insecure_network: args.allow_insecure_network,
        secure: args.secure,
        key_type: args.key_type,
        osds,
        devices: spread.as_ref().and_then(Spread::shared),
        web: &args.web,
        dev: args.dev,
    };
    let Monitor { handle: mon, keyring, is_new, fsid } = start_mon(&folder.dir, &with)?;
    let form = Threads { args, dir: &folder.dir, mon: mon.mon_addr, keyring };
    let begin = Begin { args, dir: &folder.dir, cluster_fsid: fsid, is_new, spread, started };
    let begun = start_osds(begin, form, || mon.is_finished());
    let (mut osds, kept) = match begun {
        Ok(begun) => begun,
        Err(e) => {
            // The monitor's own error says more. It makes no file any more when the folder goes.
            let (was_over, stopped) = (mon.is_finished(), mon.stop());
            return Err(stopped.err().filter(|_| was_over).unwrap_or(e));
        }
    };
    folder.keep();
    announce(started.elapsed(), &folder.dir, mon.mon_addr, args, (osds.running(), osds.count()), kept);
    if let Some(addr) = mon.http_addr {
        say::println!("{}", web_line(addr, &args.web));
    }
    health.announce();
    let mut services = asked.start(&folder.dir, is_new, started.elapsed())?;
    let is_asked = signals::wait(|| {
        osds.keep(started.elapsed());
        let is_over = services.keep(started.elapsed()) || mon.is_finished();
        health.tell(osds.running(), services.missing());
        is_over
    })?;
    let is_mon_over = mon.is_finished();
    let served = services.end();
    let errors = osds.end();
    let mut result = served.and_then(|()| if errors.is_empty() { Ok(()) } else { Err(anyhow!(errors.join("; "))) });
    result = result.and(mon.stop());
    if is_asked || !is_mon_over { result } else { result.and(Err(anyhow!("the monitor ended; everything else was stopped"))) }
}
/// The conditions that the OSDs of a cluster are started under.
pub struct Begin<'a> {
    pub args: &'a Up,
    pub dir: &'a Path,
    pub cluster_fsid: Uuid,
    pub is_new: bool,
    pub spread: Option<Spread>,
    pub started: Instant,
}

/// Starts the cluster's OSDs, and waits until they serve. Those that can't keep no other from serving, unless the cluster never had one, or there is
/// none that can and no disk that lacks. And whether all are on disk.
pub fn start_osds<'a, F: Form>(begin: Begin<'a>, form: F, is_hopeless: impl Fn() -> bool) -> Result<(Keeper<'a, F>, bool)> {
    let Begin { args, dir, cluster_fsid, is_new, spread, started } = begin;
    let conf = dir.join("ceph.conf");
    let (known, mut by_device) = match is_new {
        true => (Members::new(), ByDevice::default()),
        false => members::look_at_start(&conf).context("asking the monitor for its map")?,
    };
    by_device.has_buckets |= is_new && spread.as_ref().and_then(Spread::shared).is_some();
    let taken = stores::osd_folders(dir).into_iter().map(|(id, _)| id).chain(known.keys().copied()).collect();
    let places = spread.as_ref().map(|spread| spread.fresh(&taken)).unwrap_or_default();
    let (ids, is_fresh) = (stores::members(args, dir, &known, &places), known.is_empty());
    let memory = stores::memory(args, ids.len() as u32)?;
    let spare = if args.processes { None } else { memory.govern() };
    let beneath = stores::beneath(args, dir, &ids, &places);
    let buckets = match by_device.has_buckets {
        true => buckets::names(&client::setup::hostname(), &beneath, &known),
        false => BTreeMap::new(),
    };
    if by_device.chooses_osds {
        buckets::warn(&beneath, &conf);
    }
    let cpus = args.pin.map_or_else(BTreeMap::new, |pin| pinned::cpus(pin, &beneath));
    let makes: Vec<PathBuf> = places.iter().map(|(id, place)| place.makes(*id)).filter(|path| !path.exists()).collect();
    let stores = Stores { args, dir, cluster_fsid, osds: ids.len() as u32, memory, spare, places, buckets, cpus };
    stores.refuse_wrong_ways(&ids, spread.is_some())?;
    let kept = !stores.in_memory();
    let mut osds = Keeper::start(form, stores, conf.clone(), &ids, known, started.elapsed());
    if let Some(error) = osds.wait_up(UP_TIMEOUT, || started.elapsed(), &is_hopeless)
        && (is_fresh || is_hopeless() || (osds.running() == 0 && !osds.lacks_a_disk()))
    {
        osds.end();
        if is_fresh {
            // As if it had not been tried; the error that ended it counts.
            makes.iter().for_each(|path| drop(std::fs::remove_dir_all(path).or_else(|_| std::fs::remove_file(path))));
        }
        return Err(error);
    }
    if !is_new && !kept {
        regroup::start_empty(&conf)?;
    }
    osds.go_on();
    Ok((osds, kept))
}

/// OSDs as threads of this process.
struct Threads<'a> {
    args: &'a Up,
    dir: &'a Path,
    mon: SocketAddr,
    keyring: Keyring,
}

impl Form for Threads<'_> {
    type Daemon = Thread;

    fn start(&self, id: OsdId, store: OsdStore) -> Result<Thread> {
        let args = self.args;
        let mut config = osd_config(id, monitor_at(self.mon), args.listen, store.config, self.dir);
        if let Some(made) = store.made {
            config.deployment.osd_fsid = Some(made.osd_fsid);
            config.deployment.cluster_fsid = Some(made.cluster_fsid);
            config.data_dir = made.path.display().to_string();
            config.ports_file = Some(made.path.join("ports"));
        }
        if let Some(device) = store.device {
            config.location.insert(0, ("device".into(), device));
        }
        config.cpus = store.cpus;
        config.store_is_new = store.is_new;
        config.spare = store.spare;
        // A thread can't be ended from outside, and the monitor's process is not its own to end.
        config.is_alone = false;
        // An OSD that was marked down again and again would end, and be started again: it may as well go on.
        config.options.push(("osd_max_markdown_count".into(), "1000".into()));
        let conf = own_conf(self.dir, id)?;
        config.deployment.modes = osd_daemon::modes(&conf)?;
        config.options.extend(NAMES.into_iter().filter_map(|name| Some((name.to_string(), conf.get(name)?))));
        config.spin_us = args.spin_us;
        config.null = args.null;
        let admin = EntityText::new(EntityKind::CLIENT, "admin");
        config.admin = Some(Admin { name: admin.clone(), key: None });
        if args.auth.mode() == mon::AuthMode::Cephx {
            let name = EntityText::new(EntityKind::OSD, id.to_string());
            let key = |name: &EntityText| self.keyring.get(name).with_context(|| format!("the monitor's store has no key of {name}"));
            // An OSD that came later than the cluster has no key yet: it brings one when it registers.
            config.key = Some(self.keyring.get(&name).map_or_else(|| fresh_key(args.key_type.key_type()), |auth| auth.key.clone()));
            config.admin = Some(Admin::of(admin.clone(), key(&admin)?));
        }
        Ok(Thread { handle: osd::start(config)?, is_up: false })
    }
}

/// The ceph.conf that the monitor has written, as this OSD reads it: it says which connections are encrypted before the monitor is asked.
fn own_conf(dir: &Path, id: OsdId) -> Result<Conf> {
    let path = dir.join("ceph.conf");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Conf::parse(&text, EntityText::new(EntityKind::OSD, id.to_string())).with_context(|| path.display().to_string())
}

/// An OSD on a thread.
struct Thread {
    handle: OsdHandle,
    is_up: bool,
}

impl Daemon for Thread {
    fn is_up(&mut self) -> bool {
        self.is_up = self.is_up || self.handle.came_up();
        self.is_up
    }
    fn ended(&mut self) -> Option<Ended> {
        if !self.handle.is_finished() {
            return None;
        }
        let error = self.handle.join().err();
        let cause = match &error {
            Some(e) if osd::is_of_disk(e) => Cause::Disk,
            Some(e) if osd::is_of_damage(e) => Cause::Damage,
            _ => Cause::Itself,
        };
        let is_failure = error.is_some();
        Some(Ended { why: error.unwrap_or_else(|| anyhow!("without a word")), cause, is_failure })
    }
    fn stands(&mut self) -> Option<Stands> {
        self.handle.stands()
    }
    fn ask_to_end(&mut self) {
        self.handle.begin_stop();
    }
}

fn fresh_key(kind: cephx::KeyType) -> cephx::CryptoKey {
    let mut entropy = net::auth_cephx::entropy();
    cephx::CryptoKey::generate_of(kind, net::auth_cephx::now(), &mut entropy)
}

/// The one line that says that it serves, and how to use it.
pub fn announce(took: Duration, dir: &Path, mon: SocketAddr, args: &Up, (running, count): (usize, usize), kept: bool) {
    let osds = if running == count { count.to_string() } else { format!("{running} of {count}") };
    say::println!(
        "ready in {:.2} s: monitor at {mon}, {osds} OSD{} {}, auth {}; try: ceph -c {}/ceph.conf -s",
        took.as_secs_f64(),
        if count == 1 { "" } else { "s" },
        if kept { "on disk" } else { "in memory" },
        args.auth.mode().name(),
        shown(dir).display()
    );
}

/// A path as its reader may type it: below the working folder by its name there. A service starts in `/`, where its reader is not.
pub fn shown(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok().filter(|cwd| cwd.parent().is_some());
    here.and_then(|cwd| path.strip_prefix(cwd).ok().map(Path::to_path_buf)).unwrap_or_else(|| path.to_path_buf())
}
