//! Members of groups die and return at any moment: at rest their logs are one, nothing that a client was answered is missing from it, and no
//! member lacks an object.

mod cluster;
mod world;

use base::Rng;
use bytes::Bytes;
use cluster::{Cluster, POOL};
use messages::{InOp, MOSDOp};
use std::collections::BTreeSet;
use types::osd_op::OpCode;
use types::{EntityName, OsdOp, PgId, SpgId};

fn append(data: &[u8]) -> InOp {
    InOp::new(OsdOp::range(OpCode::APPEND, 0, data.len() as u64), Bytes::copy_from_slice(data))
}
/// Everything that this pool's groups remember is in agreement.
fn assert_logs_agree(c: &Cluster, what: &str) {
    for seed in 0..c.map.pools[&POOL].pg_num {
        let pgid = SpgId::whole(PgId::new(POOL, seed));
        let record = |osd: i32| c.nodes[osd as usize].as_ref().unwrap().osd.store().load_pg(pgid).unwrap().unwrap();
        let primary = c.primary(pgid.pgid);
        let pg = c.nodes[primary as usize].as_ref().unwrap().osd.pgs().find(|pg| pg.pgid == pgid).unwrap();
        let ours = record(primary);
        assert!(pg.peering.is_active(), "{what}: {pgid}: {:?} {:?}", c.states(), c.errors);
        assert!(pg.peering.is_recovered(), "{what}: {pgid}: {:?}", c.states());
        for member in pg.peering.members().iter().filter(|member| member.osd != primary) {
            let theirs = record(member.osd);
            assert_eq!(theirs.info.last_update, ours.info.last_update, "{what}: {pgid}: osd.{member}");
            let tail = theirs.info.log_tail.max(ours.info.log_tail);
            let later = |r: &store::PgRecord| r.log.iter().filter(|e| e.version > tail).cloned().collect::<Vec<_>>();
            assert_eq!(later(&theirs), later(&ours), "{what}: {pgid}: osd.{member}");
            assert!(theirs.missing.is_empty() && ours.missing.is_empty(), "{what}: {pgid}: osd.{member} lacks {:?}", theirs.missing);
        }
    }
}

#[test]
fn logs_are_one_after_any_deaths_and_returns() {
    for seed in 0..40 {
        let size = 2 + (seed % 2) as u8;
        let mut c = Cluster::new(seed, 3, size, 1, 2);
        let mut rng = Rng::new(seed + 500);
        let mut sent: Vec<MOSDOp> = Vec::new();
        for step in 0..150_u32 {
            let m = c.request(&format!("o{}", rng.below(7)), vec![append(&[b'a' + (step % 26) as u8])]);
            c.give(&m);
            sent.push(m);
            for _ in 0..rng.below(25) {
                c.step();
            }
            let id = rng.below(3) as usize;
            match rng.below(24) {
                0 if c.nodes.iter().flatten().count() > 1 && c.nodes[id].is_some() => {
                    c.kill(id);
                    c.mark_down(id);
                }
                1..4 if c.nodes[id].is_none() => c.start(id),
                4 => c.tick(),
                _ => {}
            }
            if let Some(node) = &c.nodes[id] {
                node.store.borrow_mut().holds_commits = rng.chance(1, 2);
            }
        }
        for id in 0..3 {
            if c.nodes[id].is_none() {
                c.start(id);
            }
            c.nodes[id].as_ref().unwrap().store.borrow_mut().holds_commits = false;
            c.feed(id, osd_core::Event::TurnEnd);
        }
        c.settle();
        assert_eq!(c.errors, [""; 0], "seed {seed}");
        assert_logs_agree(&c, &format!("seed {seed}"));
        let answered: BTreeSet<u64> = c.replies.iter().filter(|r| r.result >= 0).map(|r| r.tid).collect();
        for m in sent.iter().filter(|m| answered.contains(&m.tid)) {
            let primary = c.nodes[c.primary(m.pgid.pgid) as usize].as_ref().unwrap();
            let pg = primary.osd.pgs().find(|pg| pg.pgid == m.pgid).unwrap();
            assert!(pg.log.find(&m.reqid_from(EntityName::client(4001))).is_some(), "seed {seed}: request {} was answered", m.tid);
        }
    }
}
