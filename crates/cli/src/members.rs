//! The monitor's side of the OSDs that `up` keeps: what its map knows of them, and what it is told when one ends or can't start.
//!
//! All of it goes over the network as `client.admin`, as an operator's commands do. Why an OSD is down is kept as the config-key `osd-down/N`, behind
//! the epoch in which that OSD came up last: health shows it for as long as that is so.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use client::{ClientError, Cluster, setup};
use maps::device;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use types::{OsdId, Uuid, errno};

/// How long the monitor of this machine may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long where nothing asks again: a machine that is busy starts a cluster slowly.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// What the map knows of an OSD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub uuid: Uuid,
    pub is_destroyed: bool,
    /// `ceph osd stop` ended it, and it has not come up since.
    pub is_stopped: bool,
    pub is_up: bool,
    /// The epoch in which it came up last.
    pub up_from: u32,
    /// The `device` bucket that it stands below.
    pub device: Option<String>,
}

/// Every OSD that exists in the map.
pub type Members = BTreeMap<OsdId, Known>;

/// What the monitor is told of an OSD.
#[derive(Debug, Clone)]
pub struct News {
    pub osd: OsdId,
    /// For people: the cause and the next step.
    pub why: String,
    /// Its process or thread is over, so that nothing serves its data any more: peers need not wait for leases that it held.
    pub is_over: bool,
}

/// A connection to the monitor as the administrator of `conf`.
pub async fn connect(conf: &Path, patience: Duration) -> Result<Cluster> {
    Ok(Cluster::connect(setup::load(Some(conf), "client.admin")?, patience).await?)
}

/// A command that must succeed; its output.
pub async fn command(cluster: &Cluster, words: serde_json::Value, input: Bytes) -> Result<Bytes> {
    let name = words["prefix"].as_str().unwrap_or_default().to_string();
    let answer = cluster.mon_command(&words.to_string(), input).await.with_context(|| name.clone())?;
    if answer.result < 0 {
        bail!("{name}: {} (errno {})", answer.status, -answer.result);
    }
    Ok(answer.output)
}

/// The map's OSDs.
pub fn of(map: &maps::OsdMap) -> Members {
    let known = |osd: OsdId| Known {
        uuid: map.osd_uuid[osd as usize],
        is_destroyed: map.is_destroyed(osd),
        is_stopped: map.is_down(osd) && map.state(osd) & maps::osd_state::STOP != 0,
        is_up: map.is_up(osd),
        up_from: map.osd_info[osd as usize].up_from,
        device: device::above(&map.crush, osd).and_then(|device| map.crush.item_name(device)).map(str::to_owned),
    };
    map.osds().map(|osd| (osd, known(osd))).collect()
}

/// Runs `work` with a connection, on a thread of its own: the caller's may be inside a runtime.
pub fn ask<T: Send + 'static>(conf: &Path, work: impl AsyncFnOnce(&Cluster) -> Result<T> + Send + 'static) -> Result<T> {
    ask_within(PATIENCE, conf, work)
}

/// The same of what is asked once and ends the caller if it fails.
pub fn ask_once<T: Send + 'static>(conf: &Path, work: impl AsyncFnOnce(&Cluster) -> Result<T> + Send + 'static) -> Result<T> {
    ask_within(LONG_PATIENCE, conf, work)
}

fn ask_within<T: Send + 'static>(
    patience: Duration,
    conf: &Path,
    work: impl AsyncFnOnce(&Cluster) -> Result<T> + Send + 'static,
) -> Result<T> {
    let conf = conf.to_path_buf();
    let asked = std::thread::Builder::new().name("members".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let cluster = connect(&conf, patience).await?;
            let done = tokio::time::timeout(patience, work(&cluster)).await;
            cluster.shutdown();
            done.context("the monitor does not answer")?
        })
    })?;
    asked.join().map_err(|_| anyhow::anyhow!("the thread that asks the monitor panicked"))?
}

/// Writes a client's or daemon's key to a file that no other user reads; the key is made if there is none.
pub fn write_keyring(conf: &Path, entity: &str, caps: &[&str], path: &Path) -> Result<()> {
    let words = json!({ "prefix": "auth get-or-create", "entity": entity, "caps": caps });
    let keyring = ask_once(conf, async |cluster| command(cluster, words, Bytes::new()).await)?;
    disk::update_file(path, &keyring, 0o600).with_context(|| path.display().to_string())
}

/// A CRUSH map's words about devices that OSDs share.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByDevice {
    /// It has the bucket type.
    pub has_buckets: bool,
    /// Copies of some pool are chosen among OSDs, whatever these share.
    pub chooses_osds: bool,
}

/// The map's knowledge when `up` starts.
pub fn look_at_start(conf: &Path) -> Result<(Members, ByDevice)> {
    ask(conf, async |cluster| {
        cluster.wait_for_newest_map().await?;
        let map = cluster.map();
        let by_osd = device::rules_by_osd(&map.crush);
        let chooses_osds = map.pools.values().any(|pool| pool.size > 1 && by_osd.contains(&u32::from(pool.crush_rule)));
        Ok((of(&map), ByDevice { has_buckets: device::kind(&map.crush).is_some(), chooses_osds }))
    })
}

/// What the map knows now.
pub fn look(conf: &Path) -> Result<Members> {
    ask(conf, async |cluster| {
        cluster.wait_for_newest_map().await?;
        Ok(of(&cluster.map()))
    })
}

/// Marks an OSD down that the map may still show up, and keeps why. What the map knows of it is told back, as of before.
pub fn tell(conf: &Path, news: News) -> Result<Members> {
    ask(conf, async move |cluster| {
        cluster.wait_for_newest_map().await?;
        let members = of(&cluster.map());
        let Some(known) = members.get(&news.osd) else { return Ok(members) };
        let mut down = json!({ "prefix": "osd down", "ids": [news.osd.to_string()] });
        if news.is_over {
            down["definitely_dead"] = true.into();
        }
        if known.is_up {
            command(cluster, down, Bytes::new()).await?;
        }
        let note = format!("{} {}", known.up_from, news.why);
        command(cluster, json!({ "prefix": "config-key set", "key": format!("osd-down/{}", news.osd), "val": note }), Bytes::new()).await?;
        Ok(members)
    })
}

/// True for an answer that will be the same again.
pub fn is_refusal(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ClientError>().is_some_and(|e| match e {
        ClientError::NoKey { .. } => true,
        e => matches!(e.errno(), Some(errno::EACCES | errno::EPERM)),
    })
}
