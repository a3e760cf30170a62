//! Commands on snapshots of a pool, on its inconsistent groups, on all of its objects; copies, watchers, and the end of what a bench left.

use super::objects::out;
use super::{Done, Failed, Options, export, failed, lock, usage_of};
use client::{ClientError, Cluster, Ops, Pool};
use serde_json::{Value, json};
use std::fmt::Write;

/// Bytes that are copied at once, and pairs of one answer.
const PIECE: u64 = 4 << 20;
const PAIRS: u64 = 512;

pub const COMMANDS: [&str; 11] =
    ["cp", "mksnap", "rmsnap", "lssnap", "rollback", "list-inconsistent-pg", "listwatchers", "lock", "cleanup", "purge", "export"];

/// One of [`COMMANDS`], in the pool of that name.
pub async fn run(cluster: &Cluster, pool: &Pool, name: &str, o: &Options, words: &[&str]) -> Done {
    match *words {
        ["cp", from, to] => copy(pool, from, to).await.map_err(|e| failed(format_args!("copying {name}/{from} => {name}/{to}"), &e)),
        ["mksnap", snap] if find_snap(cluster, pool, snap).is_some() => {
            Err(Failed(format!("error creating pool {name} snapshot {snap}: (17) File exists")))
        }
        ["mksnap", snap] => {
            change(cluster, "mksnap", name, snap).await?;
            out(format!("created pool {name} snap {snap}\n").as_bytes())
        }
        // The monitor takes it for removed.
        ["rmsnap", snap] if find_snap(cluster, pool, snap).is_none() => {
            Err(Failed(format!("error removing pool {name} snapshot {snap}: (2) No such file or directory"))
                .with_next("`humboldt rados -p POOL lssnap` names those that are there"))
        }
        ["rmsnap", snap] => {
            change(cluster, "rmsnap", name, snap).await?;
            out(format!("removed pool {name} snap {snap}\n").as_bytes())
        }
        ["rollback", object, snap] => {
            let told = |e: &ClientError| failed(format_args!("rolling back pool {name} to snapshot {snap}"), e);
            let Some(id) = find_snap(cluster, pool, snap) else {
                return Err(Failed(format!("error rolling back pool {name} to snapshot {snap}(2) No such file or directory")));
            };
            pool.operate(object, Ops::new().rollback(id)).await.map_err(|e| told(&e))?;
            out(format!("rolled back pool {name} to snapshot {snap}\n").as_bytes())
        }
        ["lssnap"] => out(snaps(cluster, pool).as_bytes()),
        ["lock", ref words @ ..] => lock::run(pool, o, words).await,
        ["cleanup"] => clean(cluster, pool, name, o).await,
        ["export"] => export::run(pool, name, "-").await,
        ["export", file] => export::run(pool, name, file).await,
        ["listwatchers", object] => {
            watchers(pool, object).await.map_err(|e| failed(format_args!("listing watchers {name}/{object}"), &e)).and_then(|t| out(t.as_bytes()))
        }
        ["purge", _] if o.really => {
            let count = remove(pool, |_| true).await.map_err(|e| failed(format_args!("purging pool {name}"), &e))?;
            out(format!("Removed {count} objects\nsuccessfully purged pool {name}\n").as_bytes())
        }
        ["purge", _] => Err(Failed(
            "WARNING:\n  This will PERMANENTLY DESTROY all objects from a pool with no way back.\n  To confirm, follow pool with --yes-i-really-really-mean-it".into(),
        )),
        ["list-inconsistent-pg", ..] => inconsistent(cluster, pool).await,
        _ => Err(usage_of(&format!("-p POOL {} ...; --help says what it takes", words[0]))),
    }
}

/// How the objects of all benches are called.
const BENCH_PREFIX: &str = "benchmark_data";

/// Where the stock program keeps of its last bench: bytes of an object, count of operations, number of its process, bytes of an operation.
const LAST_BENCH: &str = "benchmark_last_metadata";

/// Removes what the last bench left, ours and the stock program's; or all objects whose names begin with a prefix.
async fn clean(cluster: &Cluster, pool: &Pool, name: &str, o: &Options) -> Done {
    let told = |e: &ClientError| failed("during cleanup", e);
    let mut count = 0;
    match &o.prefix {
        Some(prefix) if !prefix.starts_with(BENCH_PREFIX) => {
            let said = format!("Specified --prefix invalid, it must begin with \"{BENCH_PREFIX}\"");
            return Err(Failed(format!("{said}\nerror during cleanup: (22) Invalid argument\nerror 22: (22) Invalid argument")));
        }
        Some(prefix) => count += remove(pool, |oid| oid.starts_with(prefix.as_bytes())).await.map_err(|e| told(&e))?,
        None => {
            count += client::bench::cleanup(cluster, name).await.map_err(|e| told(&e))?;
            if let Some(process) = last_process(pool).await {
                // The name of the machine that it ran on stands between the two.
                let its = format!("_{process}_object").into_bytes();
                let is_its = |oid: &[u8]| oid.starts_with(BENCH_PREFIX.as_bytes()) && oid.windows(its.len()).any(|w| w == its);
                count += remove(pool, is_its).await.map_err(|e| told(&e))?;
                pool.remove(LAST_BENCH).await.map_err(|e| told(&e))?;
            }
        }
    }
    out(format!("Removed {count} objects\n").as_bytes())
}

/// The number of the process that left the last bench of the stock program.
async fn last_process(pool: &Pool) -> Option<u32> {
    let kept = pool.read(LAST_BENCH, 0, 24).await.ok()?;
    Some(u32::from_le_bytes(kept.get(12..16)?.try_into().ok()?))
}

async fn remove(pool: &Pool, goes: impl Fn(&[u8]) -> bool) -> Result<u64, ClientError> {
    let mut count = 0;
    for listed in pool.list_named().await? {
        if goes(listed.oid.as_slice()) {
            pool.remove(listed.oid).await?;
            count += 1;
        }
    }
    Ok(count)
}

/// A command of the monitor that makes or removes a snapshot of a pool.
async fn change(cluster: &Cluster, what: &str, pool: &str, snap: &str) -> Done {
    let words = json!({ "prefix": format!("osd pool {what}"), "pool": pool, "snap": snap });
    let told = |e: &ClientError| failed(format_args!("{what} of pool {pool}"), e);
    let answer = cluster.mon_command(&words.to_string(), bytes::Bytes::new()).await.map_err(|e| told(&e))?;
    match answer.result {
        0.. => Ok(()),
        errno => Err(Failed(format!("error {what} of pool {pool}, snapshot {snap}: ({}) {}", -errno, answer.status))),
    }
}

/// The number of a pool's snapshot.
pub fn find_snap(cluster: &Cluster, pool: &Pool, name: &str) -> Option<u64> {
    Some(cluster.map().pool(pool.id())?.snaps.values().find(|snap| snap.name == name)?.snapid)
}

fn snaps(cluster: &Cluster, pool: &Pool) -> String {
    let map = cluster.map();
    let all = map.pool(pool.id()).map(|pool| pool.snaps.clone()).unwrap_or_default();
    let mut text = String::new();
    for (id, snap) in &all {
        // To the second, and as that program writes it.
        let stamp: String = snap.stamp.to_string().chars().take(19).collect();
        let _ = writeln!(text, "{id}\t{}\t{}", snap.name, stamp.replace('-', ".").replace('T', " "));
    }
    text + &format!("{} snaps\n", all.len())
}

async fn inconsistent(cluster: &Cluster, pool: &Pool) -> Done {
    let words = json!({ "prefix": "pg ls", "pool": pool.id(), "states": ["inconsistent"], "format": "json" });
    let answer = cluster.mon_command(&words.to_string(), bytes::Bytes::new()).await.map_err(|e| failed("asking for groups", &e))?;
    let json: Value = serde_json::from_slice(&answer.output).unwrap_or_default();
    let ids: Vec<&Value> = json["pg_stats"].as_array().into_iter().flatten().map(|pg| &pg["pgid"]).collect();
    out(format!("{}\n", json!(ids)).as_bytes())
}

/// A line for each client that watches an object.
async fn watchers(pool: &Pool, object: &str) -> Result<String, ClientError> {
    let reply = pool.operate(object, Ops::new().list_watchers()).await?;
    let watchers = client::ops::watchers_of(&reply.ops.first().cloned().unwrap_or_default())?;
    Ok(watchers.iter().map(|w| format!("watcher={} client.{} cookie={}\n", w.addr.host_port_nonce(), w.name.num, w.cookie)).collect())
}

/// Data, attributes and omap; what was there is replaced.
async fn copy(pool: &Pool, from: &str, to: &str) -> Result<(), ClientError> {
    let attrs = pool.xattrs(from).await?;
    let mut offset = 0;
    loop {
        let data = pool.read(from, offset, PIECE).await?;
        let len = data.len() as u64;
        match offset {
            0 => {
                // An object of before keeps nothing.
                match pool.remove(to).await {
                    Err(e) if e.errno() != Some(types::errno::ENOENT) => return Err(e),
                    _ => {}
                }
                pool.write_full(to, data).await?;
            }
            _ if len > 0 => pool.write(to, offset, data).await?,
            _ => {}
        }
        offset += len;
        if len < PIECE {
            break;
        }
    }
    for (name, value) in &attrs {
        pool.operate(to, Ops::new().set_xattr(&name.to_lossy(), value)).await?;
    }
    let mut after = String::new();
    loop {
        let (pairs, more) = pool.omap_get(from, &after, PAIRS).await?;
        let Some(last) = pairs.keys().next_back() else { return Ok(()) };
        after = last.to_lossy().into_owned();
        pool.omap_set(to, &pairs).await?;
        if !more {
            return Ok(());
        }
    }
}
