//! Files by ceph-mds: pools, a file system, the server's key and its process.
//!
//! Absent: the protocol, which is ceph-mds', and file systems beside the first, which are `ceph fs new`'s.

use super::{Service, programs, server_command};
use crate::members;
use crate::up::shown;
use anyhow::{Context, Result};
use bytes::Bytes;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The server's name, `mds.` in front.
const SERVER: &str = "humboldt";
/// A file system's name, and its pools' as `ceph fs volume create` names them.
const NAME: &str = "cephfs";
/// Groups of its pools: names are few, data is not.
const POOLS: [(&str, u32); 2] = [("cephfs.cephfs.meta", 16), ("cephfs.cephfs.data", 32)];
/// Between two questions whether it serves.
const LOOK: Duration = Duration::from_millis(500);

/// A checked request for files.
#[derive(Debug)]
pub struct Plan {
    mds: PathBuf,
}

impl Plan {
    pub fn check() -> Result<Self> {
        Ok(Self { mds: programs::find("ceph-mds", "ceph-mds", "ceph-mds")? })
    }
    pub fn service(self, dir: &Path) -> Files {
        let keyring = dir.join(format!("ceph.mds.{SERVER}.keyring"));
        Files { mds: self.mds, conf: dir.join("ceph.conf"), keyring, log: dir.join("ceph-mds.log") }
    }
}

/// A file system and its server.
pub struct Files {
    mds: PathBuf,
    conf: PathBuf,
    keyring: PathBuf,
    log: PathBuf,
}

/// File systems, as `fs dump` tells them.
async fn dump(cluster: &client::Cluster) -> Result<Value> {
    let text = members::command(cluster, json!({ "prefix": "fs dump", "format": "json" }), Bytes::new()).await?;
    serde_json::from_slice(&text).context("fs dump")
}

/// The name of the file system that this server serves.
fn served(dump: &Value) -> Option<&str> {
    let serves = |map: &&Value| {
        let infos = map["mdsmap"]["info"].as_object();
        infos.is_some_and(|infos| infos.values().any(|info| info["name"] == SERVER && info["state"] == "up:active"))
    };
    dump["filesystems"].as_array()?.iter().find(serves)?["mdsmap"]["fs_name"].as_str()
}

impl Service for Files {
    fn name(&self) -> &'static str {
        "ceph-mds"
    }
    fn log(&self) -> &Path {
        &self.log
    }

    fn prepare(&self) -> Result<()> {
        members::ask_once(&self.conf, async |cluster| {
            if dump(cluster).await?["filesystems"].as_array().is_some_and(|all| !all.is_empty()) {
                return Ok(());
            }
            for (pool, pg_num) in POOLS {
                members::command(cluster, json!({ "prefix": "osd pool create", "pool": pool, "pg_num": pg_num }), Bytes::new()).await?;
            }
            let [(meta, _), (data, _)] = POOLS;
            members::command(cluster, json!({ "prefix": "fs new", "fs_name": NAME, "metadata": meta, "data": data }), Bytes::new()).await?;
            Ok(())
        })?;
        let caps = ["mon", "profile mds", "mgr", "profile mds", "mds", "allow *", "osd", "allow *"];
        members::write_keyring(&self.conf, &format!("mds.{SERVER}"), &caps, &self.keyring)
    }

    fn command(&self) -> Result<Command> {
        server_command(&self.mds, &format!("mds.{SERVER}"), &self.conf, &self.keyring, &self.log)
    }

    fn furnish(&self, over: &AtomicBool) -> Result<Option<String>> {
        while !over.load(Ordering::Relaxed) {
            // A monitor that does not answer is asked again: the server waits for it as well.
            let told = members::ask(&self.conf, async |cluster| dump(cluster).await).unwrap_or_default();
            if let Some(name) = served(&told) {
                return Ok(Some(format!("files: {name}; try: ceph-fuse -c {} MOUNT-POINT", shown(&self.conf).display())));
            }
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_serves_once_a_map_shows_it_active() {
        let map = |name: &str, state: &str| {
            json!({ "filesystems": [{ "mdsmap": { "fs_name": "other", "info": {} } },
                { "mdsmap": { "fs_name": "mine", "info": { "gid_4": { "name": name, "state": state } } } }] })
        };
        assert_eq!(served(&map(SERVER, "up:active")), Some("mine"));
        assert_eq!(served(&map(SERVER, "up:replay")), None);
        assert_eq!(served(&map("a", "up:active")), None);
        assert_eq!(served(&Value::Null), None);
    }
}
