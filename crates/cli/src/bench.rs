//! `humboldt bench`: our own client and load generator, for machines without any other.

use crate::args::{Bench, StoreKind};
use crate::connect::connect;
use anyhow::{Context, Result, bail};
use client::bench::{Mark, Mode, Options};
use client::{ClientError, Cluster, setup};
use serde_json::json;
use std::io::{BufRead, Write, stderr, stdin, stdout};
use std::time::Duration;

/// Runs the load; with --json what it ends with is one line, an error too.
pub fn bench(args: &Bench) -> Result<()> {
    match run(args) {
        Err(error) if args.json => {
            say::println!("{}", error_json(args, &error));
            Err(error)
        }
        other => other,
    }
}

/// What was asked for, as members of a JSON object.
pub fn settings(args: &Bench) -> String {
    let target = match args.store {
        Some(StoreKind::Mem) => json!({ "store": "mem" }),
        Some(StoreKind::Block) => json!({ "store": "block" }),
        None => json!({ "pool": args.pool }),
    };
    let mut all = json!({ "mode": args.mode, "block": args.block, "depth": args.depth, "seconds_wanted": args.seconds });
    all.as_object_mut().expect("it is one").extend(target.as_object().expect("it is one").clone());
    let text = all.to_string();
    text[1..text.len() - 1].into()
}

/// An error as `--json` has it: what it is, and its errno if the cluster gave one.
pub fn error_json(args: &Bench, error: &anyhow::Error) -> String {
    let errno = error.downcast_ref::<ClientError>().and_then(ClientError::errno);
    format!("{{{},\"error\":{},\"errno\":{}}}", settings(args), json!(format!("{error:#}")), json!(errno))
}

/// Tells the reader of our output; what clears up afterwards waits until that is heard.
fn mark(mark: Mark) {
    let name = if mark == Mark::Start { "start" } else { "end" };
    say::println!("{{\"mark\":\"{name}\"}}");
    if mark == Mark::End {
        // Its end is an answer, too.
        let _ = stdin().lock().read_line(&mut String::new());
    }
}

fn run(args: &Bench) -> Result<()> {
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
        objects: args.objects,
        keep: args.keep,
        warm_s: args.warm,
        on_mark: args.marks.then_some(mark as fn(Mark)),
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let conf = setup::load(options.conf.as_deref(), &options.name)?;
        let cluster = connect(conf, options.connect_timeout).await?;
        make_pool(&cluster, &args.pool, args.replicas).await?;
        let mut clients = vec![cluster];
        for _ in 1..args.clients {
            let conf = setup::load(options.conf.as_deref(), &options.name)?;
            clients.push(connect(conf, options.connect_timeout).await?);
        }
        let mut out: Box<dyn Write> = if args.json { Box::new(stderr()) } else { Box::new(stdout()) };
        let report = client::bench::run_as(&clients, &options, &mut out).await;
        clients.iter().for_each(Cluster::shutdown);
        let report = report?;
        if args.json {
            say::println!("{}", report.json(&settings(args)));
        } else {
            say::print!("{report}");
        }
        Ok(())
    })
}

/// The pool `bench` is ours to make; another's absence is for its owner to see.
async fn make_pool(cluster: &Cluster, pool: &str, replicas: Option<u32>) -> Result<()> {
    if pool != "bench" || cluster.pool(pool).is_ok() {
        return Ok(());
    }
    let mut command = serde_json::json!({ "prefix": "osd pool create", "pool": pool, "pg_num": 32 });
    if let Some(replicas) = replicas {
        command["size"] = replicas.into();
    }
    let answer = cluster.mon_command(&command.to_string(), Default::default()).await?;
    if answer.result < 0 {
        bail!("making the pool {pool}: {}", answer.status);
    }
    let application = serde_json::json!({ "prefix": "osd pool application enable", "pool": pool, "app": "bench" });
    // Without one the cluster warns; older monitors may refuse, and the load goes on.
    let _ = cluster.mon_command(&application.to_string(), Default::default()).await?;
    // The map with the pool comes by itself.
    for _ in 0..200 {
        if cluster.pool(pool).is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("the pool {pool} was made but does not come into the map")
}
