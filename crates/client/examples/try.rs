//! A first look at a cluster: logs in, writes and reads an object, watches and notifies, runs a short load.
//! `cargo run -p client --example try -- CONF POOL`
use client::{ClientError, Cluster, WatchEvent, bench, setup};
use std::collections::BTreeMap;
use std::time::Duration;

fn main() -> Result<(), ClientError> {
    let args: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let conf = setup::load(Some(args[1].as_ref()), args.get(3).map_or("client.admin", |s| s))?;
        let cluster = Cluster::connect(conf, Duration::from_secs(10)).await?;
        println!("fsid {:?} global_id {} epoch {}", cluster.fsid(), cluster.global_id(), cluster.map().epoch);
        let out = cluster.mon_command("{\"prefix\": \"osd pool ls\", \"format\": \"json\"}", Default::default()).await?;
        println!("{} {} {:?}", out.result, out.status, out.output);
        let pool = cluster.pool(&args[2])?;
        pool.write_full("greeting", "hello".into()).await?;
        println!("{:?} {:?}", pool.read("greeting", 0, 100).await?, pool.stat("greeting").await?);
        pool.set_xattr("greeting", "a", b"b").await?;
        println!("{:?}", pool.xattrs("greeting").await?);
        pool.omap_set("greeting", &BTreeMap::from([("k".into(), "v".into())])).await?;
        println!("{:?}", pool.omap_get("greeting", "", 10).await?);
        println!("{:?}", pool.read("nothing", 0, 1).await);
        println!("{:?}", pool.list().await?);
        let mut watch = pool.watch("greeting").await?;
        let acks = async {
            if let Some(WatchEvent::Notify { notify_id, payload, .. }) = watch.next().await {
                println!("notified: {payload:?}");
                let _ = watch.ack(notify_id, b"got it").await;
            }
        };
        let (answers, ()) = tokio::join!(pool.notify("greeting", "news".into(), 5), acks);
        println!("answers {:?}", answers?);
        watch.close().await?;
        pool.remove("greeting").await?;
        for mode in [bench::Mode::Write, bench::Mode::Rand] {
            let options =
                bench::Options { pool: args[2].clone(), mode, seconds: 2.0, block: 4096, depth: 64, objects: 1000, ..Default::default() };
            print!("{}", bench::run_on(&cluster, &options, &mut std::io::stdout()).await?);
        }
        println!("{} left", pool.list().await?.len());
        cluster.shutdown();
        Ok(())
    })
}
