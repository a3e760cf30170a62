//! `humboldt up`: monitor, manager endpoint and OSDs, each on a thread of its own, talking to each other as they would over a network.

use crate::again::Again;
use crate::args::Up;
use crate::daemons::{Monitor, UP_TIMEOUT, monitor_at, osd_config, start_mon, web_line};
use crate::folder::Folder;
use crate::{processes, regroup, signals, stores};
use anyhow::{Context, Result, anyhow};
use osd::{Admin, OsdConfig, OsdHandle};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use types::{EntityKind, EntityText};

pub fn up(args: &Up) -> Result<()> {
    let started = Instant::now();
    let folder = Folder::hold(&args.dir)?;
    if args.processes {
        return processes::up(args, &folder, started);
    }
    let listen = SocketAddr::new(args.listen, args.port);
    let osd_count = stores::osd_count(args, &folder.dir);
    let Monitor { handle: mon, keyring, is_new, fsid } =
        start_mon(&folder.dir, listen, args.auth.mode(), args.key_type, osd_count, &args.web)?;
    let stores = stores::find_or_make(args, osd_count, &folder.dir, fsid)?;
    let mut osds: Vec<Kept> = Vec::new();
    let kept = stores.iter().all(|s| s.config.is_durable());
    for (id, store) in (0..osd_count as i32).zip(stores) {
        let mut config = osd_config(id, monitor_at(mon.mon_addr), args.listen, store.config, &folder.dir);
        if let Some(made) = store.made {
            config.deployment.osd_fsid = Some(made.osd_fsid);
            config.deployment.cluster_fsid = Some(made.cluster_fsid);
            config.data_dir = made.path.display().to_string();
            config.ports_file = Some(made.path.join("ports"));
        }
        config.store_is_new = store.is_new;
        // An OSD that ends because it was marked down again and again would take the monitor with it.
        config.options.push(("osd_max_markdown_count".into(), "1000".into()));
        config.spin_us = args.spin_us;
        config.null = args.null;
        let admin = EntityText::new(EntityKind::CLIENT, "admin");
        config.admin = Some(Admin { name: admin.clone(), key: None });
        if args.auth.mode() == mon::AuthMode::Cephx {
            let name = EntityText::new(EntityKind::OSD, id.to_string());
            let key = |name: &EntityText| keyring.get(name).with_context(|| format!("the monitor's store has no key of {name}"));
            // An OSD that came later than the cluster has no key yet: it brings one when it registers.
            config.key = Some(keyring.get(&name).map_or_else(|| fresh_key(args.key_type.key_type()), |auth| auth.key.clone()));
            config.admin = Some(Admin::of(admin.clone(), key(&admin)?));
        }
        osds.push(Kept { handle: Some(osd::start(config.clone())?), config, again: Again::started(started.elapsed()) });
    }
    for osd in osds.iter_mut().filter_map(|kept| kept.handle.as_mut()) {
        if let Err(e) = osd.wait_up(UP_TIMEOUT, || mon.is_finished()) {
            // What ended the monitor says more.
            return Err(if mon.is_finished() { mon.stop().err().unwrap_or(e) } else { e });
        }
    }
    if !is_new && !kept {
        regroup::start_empty(&folder.dir.join("ceph.conf"))?;
    }
    announce(started.elapsed(), &folder.dir, mon.mon_addr, args, osd_count, kept);
    if let Some(addr) = mon.http_addr {
        say::println!("{}", web_line(addr, &args.web));
    }

    // Where others serve on, one that ends is started again. Objects in memory ended with it: copies on others fill it anew, and groups
    // without one wait, as `ceph -s` shows.
    let goes_on = osd_count > 1;
    let mut failed = None;
    let asked = signals::wait(|| {
        for osd in &mut osds {
            if osd.is_finished() && !goes_on {
                failed = Some(osd.config.id);
            } else if let Err(e) = osd.keep(started.elapsed()) {
                say::eprintln!("osd.{} can't be started: {e:#}", osd.config.id);
            }
        }
        failed.is_some() || mon.is_finished()
    })?;
    // All at once: each waits for the monitor's word that it is down.
    let mut handles: Vec<OsdHandle> = osds.into_iter().filter_map(|osd| osd.handle).collect();
    handles.iter_mut().for_each(OsdHandle::begin_stop);
    let mut result = Ok(());
    for osd in handles {
        let id = osd.id;
        result = result.and(osd.stop().with_context(|| format!("osd.{id}")));
    }
    result = result.and(mon.stop());
    match (asked, failed) {
        (false, Some(id)) => result.and(Err(anyhow!("osd.{id} ended; everything else was stopped"))),
        (false, None) => result.and(Err(anyhow!("the monitor ended; everything else was stopped"))),
        _ => result,
    }
}

/// An OSD that is started again when it ends.
struct Kept {
    config: OsdConfig,
    /// `None` while it is not started.
    handle: Option<OsdHandle>,
    again: Again,
}

impl Kept {
    fn is_finished(&self) -> bool {
        self.handle.as_ref().is_some_and(OsdHandle::is_finished)
    }
    /// Says when it has ended, and starts it when its pause is over.
    fn keep(&mut self, now: Duration) -> Result<()> {
        if let Some(handle) = self.handle.take_if(|handle| handle.is_finished()) {
            let why = handle.stop().err().map_or_else(|| "without a word".into(), |e| format!("{e:#}"));
            say::eprintln!("osd.{} ended: {why}; it is started again in {} s", self.config.id, self.again.ended(now).as_secs());
        } else if self.handle.is_none() && self.again.is_due(now) {
            match osd::start(self.config.clone()) {
                Ok(handle) => self.handle = Some(handle),
                Err(e) => {
                    self.again.ended(now);
                    return Err(e);
                }
            }
        }
        Ok(())
    }
}

fn fresh_key(kind: cephx::KeyType) -> cephx::CryptoKey {
    let mut entropy = net::auth_cephx::entropy();
    cephx::CryptoKey::generate_of(kind, net::auth_cephx::now(), &mut entropy)
}

/// The one line that says that it serves, and how to use it.
pub fn announce(took: Duration, dir: &Path, mon: SocketAddr, args: &Up, osd_count: u32, kept: bool) {
    // Below this folder by its name in it; a service starts in `/`, where its reader is not.
    let here = std::env::current_dir().ok().filter(|cwd| cwd.parent().is_some());
    let shown = here.and_then(|cwd| dir.strip_prefix(cwd).ok().map(Path::to_path_buf)).unwrap_or_else(|| dir.to_path_buf());
    say::println!(
        "ready in {:.2} s: monitor at {mon}, {} OSD{} {}, auth {}; try: ceph -c {}/ceph.conf -s",
        took.as_secs_f64(),
        osd_count,
        if osd_count == 1 { "" } else { "s" },
        if kept { "on disk" } else { "in memory" },
        args.auth.mode().name(),
        shown.display()
    );
}
