//! A cluster in memory that starts again: its maps are there, its objects are not. Placement groups whose only copies are gone would wait
//! for them for ever; the operator's command makes them anew, empty, and says so.

use anyhow::{Context, Result, bail};
use client::{Cluster, setup};
use std::path::Path;
use std::time::Duration;
use types::PgId;

/// Makes every group of every pool anew, and says how many there were.
pub fn start_empty(conf: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let conf = setup::load(Some(conf), "client.admin")?;
        let cluster = Cluster::connect(conf, Duration::from_secs(30)).await?;
        let groups: Vec<PgId> =
            cluster.map().pools.iter().flat_map(|(id, pool)| (0..pool.pg_num).map(move |seed| PgId::new(*id, seed))).collect();
        for pgid in &groups {
            let command = serde_json::json!({ "prefix": "osd force-create-pg", "pgid": pgid.to_string(), "yes_i_really_mean_it": true });
            let answer = cluster.mon_command(&command.to_string(), Default::default()).await.context("osd force-create-pg")?;
            if answer.result < 0 {
                bail!("osd force-create-pg {pgid}: {}", answer.status);
            }
        }
        cluster.shutdown();
        if !groups.is_empty() {
            say::eprintln!("humboldt: the last run's objects were in memory and are gone: {} placement groups start empty", groups.len());
        }
        Ok(())
    })
}
