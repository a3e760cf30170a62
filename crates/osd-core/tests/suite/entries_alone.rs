//! A stock primary recovers a member beside its writes: of a write to an object that the member lacks it sends the log's entries alone. The member
//! lacks what they say from then on, also after a restart.

use crate::cluster::{Cluster, POOL};
use crate::world::{received, write_full};
use denc::{ByteStr, Denc};
use messages::{MOSDRepOp, Message};
use osd_core::Event;
use store::PgRecord;
use types::{CollId, EVersion, LogOp, PgId, PgLogEntry, PgShard, SpgId, Transaction, features};

const GROUP: SpgId = SpgId::whole(PgId::new(POOL, 0));

fn record(c: &Cluster, osd: usize) -> Option<PgRecord> {
    c.nodes[osd].as_ref().unwrap().osd.store().load_pg(GROUP).unwrap()
}

#[test]
fn what_comes_as_entries_alone_is_lacked() {
    let mut seen = 0;
    for seed in 0..40 {
        let mut c = Cluster::new(seed, 2, 2, 1, 1);
        c.settle();
        let primary = c.primary(GROUP.pgid) as usize;
        let member = 1 - primary;
        let both = ["changed", "removed"];
        both.iter().for_each(|name| assert_eq!(c.one(name, vec![write_full(b"before")]).unwrap().result, 0));
        c.kill(member);
        c.mark_down(member);
        c.settle();
        both.iter().for_each(|name| assert_eq!(c.one(name, vec![write_full(b"after")]).unwrap().result, 0));
        c.start(member);
        let began = |c: &Cluster| record(c, member).is_some_and(|r| r.info.history.last_epoch_started >= c.map.epoch);
        while !began(&c) && c.step() {}
        let Some(before) = record(&c, member).filter(|r| r.missing.len() == 2) else { continue };
        seen += 1;
        let (mut last, epoch) = (before.info.last_update, before.info.history.last_epoch_started);
        for (soid, item) in &before.missing {
            last = EVersion::new(epoch, last.version + 1);
            let is_removed = soid.oid == ByteStr::from("removed");
            let op = if is_removed { LogOp::DELETE } else { LogOp::MODIFY };
            let entry = PgLogEntry { op, soid: soid.clone(), version: last, prior_version: item.need, ..PgLogEntry::default() };
            let m = MOSDRepOp {
                tid: 1_000_000 + last.version,
                map_epoch: epoch,
                min_epoch: epoch,
                pgid: GROUP,
                poid: soid.clone(),
                version: last,
                log: vec![entry].to_bytes(features::SUPPORTED),
                pg_stats: before.info.stats.clone(),
                from: PgShard::whole(primary as i32),
                transaction: vec![Transaction::new(CollId::Pg(GROUP)).to_bytes(features::SUPPORTED)],
                ..MOSDRepOp::default()
            };
            c.feed(member, Event::Osd { osd: primary as i32, msg: received(&m.encode(features::SUPPORTED)) });
            let lacked = &record(&c, member).unwrap().missing[soid];
            assert_eq!((lacked.need, lacked.have, lacked.delete), (last, item.have, is_removed), "seed {seed}: {:?}", c.errors);
        }
        let after = record(&c, member).unwrap();
        assert_eq!((after.info.last_update, after.info.last_complete), (last, before.info.last_update), "seed {seed}");
        c.kill(member);
        c.start(member);
        assert_eq!(record(&c, member).unwrap().missing, after.missing, "seed {seed}");
        assert_eq!(c.errors, [""; 0], "seed {seed}");
    }
    assert!(seen > 5, "{seen} cases");
}
