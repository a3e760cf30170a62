//! `humboldt bench`: our own client and load generator, for machines without any other.

use crate::args::Bench;
use anyhow::{Context, Result, bail};
use client::bench::{Mode, Options};
use client::{Cluster, setup};
use std::io::stdout;
use std::time::Duration;

pub fn bench(args: &Bench) -> Result<()> {
    let options = Options {
        conf: Some(args.conf.clone()),
        name: args.name.clone(),
        pool: args.pool.clone(),
        mode: Mode::parse(&args.mode)
            .with_context(|| format!("a cluster is loaded with write, seq or rand; {} is for --store", args.mode))?,
        seconds: args.seconds,
        block: args.block,
        depth: args.depth,
        object_size: args.object_size,
        keep: args.keep,
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let conf = setup::load(options.conf.as_deref(), &options.name)?;
        let cluster = Cluster::connect(conf, options.connect_timeout).await?;
        make_pool(&cluster, &args.pool).await?;
        let report = client::bench::run_on(&cluster, &options, &mut stdout()).await;
        cluster.shutdown();
        print!("{}", report?);
        Ok(())
    })
}

/// The pool `bench` is ours to make; another's absence is for its owner to see.
async fn make_pool(cluster: &Cluster, pool: &str) -> Result<()> {
    if pool != "bench" || cluster.pool(pool).is_ok() {
        return Ok(());
    }
    let command = serde_json::json!({ "prefix": "osd pool create", "pool": pool, "pg_num": 32 });
    let answer = cluster.mon_command(&command.to_string(), Default::default()).await?;
    if answer.result < 0 {
        bail!("making the pool {pool}: {}", answer.status);
    }
    // The map with the pool comes by itself.
    for _ in 0..200 {
        if cluster.pool(pool).is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("the pool {pool} was made but does not come into the map")
}
