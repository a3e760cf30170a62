//! `-w`: the state of the cluster, then the cluster log as it grows.

use super::options::Options;
use super::show;
use anyhow::Result;
use bytes::Bytes;
use client::Cluster;
use messages::mon_client::log_level;
use serde_json::json;
use std::io::Write;

/// Runs until Ctrl-C, or until nothing reads us any more.
pub async fn run(cluster: &Cluster, level: &str, options: &Options) -> Result<i32> {
    let status = cluster.mon_command(&json!({"prefix": "status"}).to_string(), Bytes::new()).await?;
    if status.result < 0 {
        return show(&status, "", options);
    }
    let mut out = std::io::stdout();
    out.write_all(&say::shown(&status.output))?;
    out.write_all(b"\n")?;
    out.flush()?;
    let mut log = cluster.watch_log(level);
    loop {
        let entry = tokio::select! {
            entry = log.recv() => entry,
            _ = tokio::signal::ctrl_c() => return Ok(0),
        };
        let Some(entry) = entry else { return Ok(1) };
        if options.channel != "*" && entry.channel != options.channel {
            continue;
        }
        let line = format!("{} {} {} {}\n", entry.stamp, entry.name, log_level::tag(entry.level), entry.text.to_lossy());
        if out.write_all(&say::shown(line.as_bytes())).and_then(|()| out.flush()).is_err() {
            return Ok(0);
        }
    }
}
