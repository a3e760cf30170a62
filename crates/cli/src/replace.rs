//! `humboldt osd replace`: a broken disk's OSD gets a new, empty store, under the same number, while `humboldt up` serves.
//!
//! ```text
//!   the file osd.N.hold ──▶ `up` ends the OSD, if it runs ──▶ osd destroy ──▶ the old folder goes aside
//!      ──▶ mkfs ──▶ osd new, with the new store's uuid ──▶ the file goes, and `up` starts it ──▶ the map shows it up
//! ```
//! Until `osd destroy` nothing is changed; from then on each step can be made again by the same command. Nothing is removed: what lay in the OSD's
//! folder is beside it afterwards. Absent: starting the OSD, which is `up`'s.

use crate::args::Replace;
use crate::daemons::{UP_TIMEOUT, key_of};
use crate::keeper::{held_file, hold_file};
use crate::members::{self, Members, command};
use crate::spread::folder_on;
use crate::stores::{fresh_uuid, new_store};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use client::Cluster;
use osd::NewStore;
use osd::data_dir::{Found, look};
use osd::store::Share;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use types::{EntityKind, EntityText, OsdId, Uuid};

/// How long the monitor may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at the map.
const LOOK: Duration = Duration::from_millis(200);

pub fn replace(args: &Replace) -> Result<()> {
    let conf = args.dir.join("ceph.conf");
    let dir = args.dir.canonicalize().with_context(|| format!("{}: give the cluster's folder with --dir", args.dir.display()))?;
    for (n, id) in args.ids.iter().enumerate() {
        ensure!(
            *id >= 0 && !args.ids[..n].contains(id),
            "osd.{id} is no OSD, or named twice: give numbers that `humboldt ceph osd tree` shows"
        );
    }
    ensure!(is_served(&dir)?, "no `humboldt up` serves {}: start it first; it serves without the disk", dir.display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let cluster = members::connect(&conf, PATIENCE).await?;
        let mut done = Ok(());
        for (index, id) in args.ids.iter().enumerate() {
            if done.is_ok() {
                let share = Share { index: index as u64, of: args.ids.len() as u64 };
                done = Work { id: *id, share, dir: dir.clone(), cluster: &cluster, args }.run().await;
            }
        }
        cluster.shutdown();
        done
    })
}

/// True if a process holds the cluster's folder.
fn is_served(dir: &Path) -> Result<bool> {
    let path = dir.join("lock");
    let lock = match std::fs::File::open(&path) {
        Ok(lock) => lock,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e).with_context(|| path.display().to_string()),
    };
    Ok(matches!(lock.try_lock(), Err(std::fs::TryLockError::WouldBlock)))
}

/// Keeps `up` from starting the OSD until it is dropped: the file that says so, and the one that answers.
struct Hold([PathBuf; 2]);

impl Hold {
    fn take(dir: &Path, id: OsdId) -> Result<Self> {
        let (path, answer) = (hold_file(dir, id), held_file(dir, id));
        let _ = std::fs::remove_file(&answer);
        disk::update_file(&path, format!("{}\n", std::process::id()).as_bytes(), 0o600).with_context(|| path.display().to_string())?;
        Ok(Self([path, answer]))
    }
    /// Waits until `up` has seen it: one that waits to start the OSD again, for its disk fails, would not hear of the new one.
    async fn seen(&self) {
        let end = Instant::now() + UP_TIMEOUT;
        while !self.0[1].exists() && Instant::now() < end {
            tokio::time::sleep(LOOK).await;
        }
    }
}
impl Drop for Hold {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

struct Work<'a> {
    id: OsdId,
    /// Its part of the new device.
    share: Share,
    dir: PathBuf,
    cluster: &'a Cluster,
    args: &'a Replace,
}

impl Work<'_> {
    async fn run(&self) -> Result<()> {
        let (id, folder) = (self.id, self.dir.join(format!("osd.{}", self.id)));
        let members = self.members().await?;
        let known = members.get(&id).with_context(|| {
            format!("the cluster has no osd.{id}: `humboldt ceph osd tree` lists those that it has; `humboldt up --osds N` makes more")
        })?;
        if !self.args.yes_i_really_mean_it && !known.is_destroyed {
            self.refuse_loss(known.is_up).await?;
        }
        let hold = Hold::take(&self.dir, id)?;
        hold.seen().await;
        self.wait_for("down", |members| members.get(&id).is_none_or(|known| !known.is_up)).await.with_context(|| {
            format!("osd.{id} does not end: if it hangs on its disk, stop `humboldt up` and start it again, then run this once more")
        })?;
        let destroy = json!({ "prefix": "osd destroy-actual", "id": id, "yes_i_really_mean_it": true });
        command(self.cluster, destroy, Bytes::new()).await?;
        if let Some(aside) = set_aside(&folder)? {
            say::println!("the folder of the old disk is {} now: remove it when nothing of it is wanted any more", aside.display());
        }
        let cluster_fsid = self.cluster.fsid().context("the monitor does not say which cluster it is of")?;
        let osd_fsid = fresh_uuid();
        disk::create_dirs(&folder).with_context(|| format!("making {}", folder.display()))?;
        let new = self.new_store(&folder, members.len() as u32)?;
        let made = osd::store::mkfs(&folder, id, osd_fsid, cluster_fsid, &new, "").context("making a store")?;
        self.register(made.osd_fsid).await?;
        drop(hold);
        self.wait_for("up", |members| members.get(&id).is_some_and(|known| known.is_up && known.uuid == osd_fsid))
            .await
            .with_context(|| format!("osd.{id} has its new store, and does not come up: see what `humboldt up` says of it"))?;
        say::println!("osd.{id} is up on a new store, {osd_fsid}; `humboldt ceph -s` shows how it is filled");
        Ok(())
    }

    /// A store in its folder or on the device that is named; if that is a folder, or several OSDs share it, with all that belongs to it.
    fn new_store(&self, folder: &Path, osds: u32) -> Result<NewStore> {
        let mut new = new_store(&self.args.devices, folder, osds)?;
        let Some(data) = new.data.clone().filter(|data| self.share.of > 1 || data.is_dir()) else { return Ok(new) };
        if data.is_dir() {
            let at = folder_on(&data.canonicalize()?, self.id);
            disk::create_dirs(&at).with_context(|| format!("making {}", at.display()))?;
            new.data = Some(at);
        }
        new.together = Some(self.share);
        new.share = (new.wal.is_some() || new.meta.is_some()).then_some(self.share);
        Ok(new)
    }

    async fn members(&self) -> Result<Members> {
        self.cluster.wait_for_newest_map().await?;
        Ok(members::of(&self.cluster.map()))
    }
    async fn wait_for(&self, what: &str, good: impl Fn(&Members) -> bool) -> Result<()> {
        let end = Instant::now() + UP_TIMEOUT;
        while !good(&self.members().await?) {
            ensure!(Instant::now() < end, "osd.{} is not {what} after {} s", self.id, UP_TIMEOUT.as_secs());
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Refuses if the disk may have the only copy of anything: one that is up could go on, one that is down may come back.
    async fn refuse_loss(&self, is_up: bool) -> Result<()> {
        let id = self.id;
        let export = format!("humboldt store --dir {}/osd.{id} export FILE --skip-damaged", self.dir.display());
        let next = format!("save what can be read (`{export}`, while the OSD is down), or give --yes-i-really-mean-it");
        // Groups that are just being served again report a moment later.
        let end = Instant::now() + PATIENCE;
        let (groups, states) = loop {
            let (groups, states) = self.groups().await?;
            if states == 0 || Instant::now() >= end {
                break (groups, states);
            }
            tokio::time::sleep(LOOK).await;
        };
        if is_up {
            let alone = groups.iter().filter(|group| group.only_on(id)).count();
            ensure!(alone == 0, "osd.{id} has the only copy of {alone} placement groups: give their pools a second copy first; or {next}");
        }
        ensure!(
            states == 0,
            "{states} placement groups lack a whole copy (`humboldt ceph pg dump_stuck stale` and `humboldt ceph health detail` name them), and osd.{id} may have it: {next}"
        );
        Ok(())
    }
    /// The groups, and how many of them have no copy that serves.
    async fn groups(&self) -> Result<(Vec<Group>, usize)> {
        let brief = json!({ "prefix": "pg dump", "dumpcontents": ["pgs_brief"], "format": "json" });
        let text = command(self.cluster, brief, Bytes::new()).await?;
        let json: Value = serde_json::from_slice(&text).context("the answer to pg dump")?;
        let rows = json["pg_stats"].as_array().or(json.as_array()).cloned().unwrap_or_default();
        let groups: Vec<Group> = rows.iter().map(Group::of).collect();
        let lost = groups.iter().filter(|group| group.lacks_a_copy()).count();
        Ok((groups, lost))
    }

    /// Says the new store's uuid and key to the monitor. `up` gives the OSD the key of the keyring file, if there is one.
    async fn register(&self, osd_fsid: Uuid) -> Result<()> {
        let name = EntityText::new(EntityKind::OSD, self.id.to_string());
        let path = self.dir.join(format!("{name}.keyring"));
        let key = key_of(&name, std::slice::from_ref(&path))?.map(|auth| auth.key.to_base64());
        let secrets = key.map_or(Bytes::new(), |key| json!({ "cephx_secret": key }).to_string().into());
        let new = json!({ "prefix": "osd new", "uuid": osd_fsid.to_string(), "id": self.id.to_string() });
        command(self.cluster, new, secrets).await.map(drop)
    }
}

/// A placement group as `pg dump` has it.
struct Group {
    state: String,
    acting: Vec<i64>,
}

impl Group {
    fn of(row: &Value) -> Self {
        // A place without an OSD has the largest number.
        let acting =
            row["acting"].as_array().into_iter().flatten().filter_map(Value::as_i64).filter(|osd| *osd < i64::from(i32::MAX)).collect();
        Self { state: row["state"].as_str().unwrap_or_default().into(), acting }
    }
    fn only_on(&self, id: OsdId) -> bool {
        self.acting.iter().all(|osd| *osd == i64::from(id))
    }
    fn lacks_a_copy(&self) -> bool {
        const LOST: [&str; 5] = ["stale", "unknown", "incomplete", "down", "recovery_unfound"];
        self.acting.is_empty() || self.state.split('+').any(|word| LOST.contains(&word))
    }
}

/// Moves a folder that has anything in it aside, so that it is no OSD's any more; where it is now.
fn set_aside(folder: &Path) -> Result<Option<PathBuf>> {
    if matches!(look(folder), Found::Missing | Found::Empty) {
        return Ok(None);
    }
    let name = |n: u32| folder.with_file_name(format!("{}.old-{n}", folder.file_name().unwrap_or_default().to_string_lossy()));
    let aside = (1..).map(name).find(|path| !path.exists()).context("a free name")?;
    std::fs::rename(folder, &aside).with_context(|| {
        format!("moving {} aside (if a disk is mounted there: unmount it, or empty it if nothing of it is wanted)", folder.display())
    })?;
    forget(&aside);
    Ok(Some(aside))
}

/// Its devices are free for another store. A file system that does not let go of the file serves no store, either. One that hangs does not even let a
/// process end that has asked it: so another one asks, and is left behind.
fn forget(aside: &Path) {
    const PATIENCE: Duration = Duration::from_secs(2);
    let mut rm = std::process::Command::new("rm");
    let rm = rm.arg("-f").arg("--").arg(aside.join("ready"));
    let Ok(mut asked) = rm.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() else { return };
    let end = Instant::now() + PATIENCE;
    while matches!(asked.try_wait(), Ok(None)) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_may_have_its_last_copy_here_is_seen() {
        let of = |state: &str, acting: &[i64]| Group::of(&json!({ "pgid": "1.0", "state": state, "acting": acting }));
        assert!(of("active+clean", &[2]).only_on(2) && !of("active+clean", &[2, 0]).only_on(2));
        let lost = ["stale+active+clean", "down", "incomplete", "unknown", "active+recovery_unfound+degraded"];
        assert!(lost.iter().all(|state| of(state, &[0]).lacks_a_copy()));
        assert!(["active+undersized+degraded", "undersized+degraded+peered", "active+clean"].iter().all(|s| !of(s, &[0]).lacks_a_copy()));
        assert!(of("active+clean", &[]).lacks_a_copy() && of("active+clean", &[i64::from(i32::MAX)]).lacks_a_copy());
    }
}
