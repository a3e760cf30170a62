//! Members that no log reaches are filled, object by object, while clients write: at rest every copy is the same, whatever ended or came back meanwhile.

use crate::cluster::{Cluster, POOL};
#[cfg(debug_assertions)]
use crate::world::is_noticed;
use crate::world::{received, write_full};
use base::Rng;
use bytes::Bytes;
use maps::{map_flags, osd_state};
use messages::osd_recovery::scan_op;
use messages::{InOp, MOSDOp, MOSDPGScan, Message};
#[cfg(debug_assertions)]
use osd_core::planted::Bug;
use osd_core::{Effect, Event};
use std::collections::{BTreeMap, BTreeSet};
use types::osd_op::OpCode;
use types::{CollId, OsdOp, PgId, PgShard, SnapContext, SpgId, features, pg_state};

fn append(data: &[u8]) -> InOp {
    InOp::new(OsdOp::range(OpCode::APPEND, 0, data.len() as u64), Bytes::copy_from_slice(data))
}
fn delete() -> InOp {
    InOp::new(OsdOp::new(OpCode::DELETE), Bytes::new())
}

/// Clients that write, delete and take snapshots.
struct Load {
    rng: Rng,
    names: u64,
    step: u32,
    snapc: SnapContext,
    /// Bytes appended to each object since it was made, by the request that brought them.
    sent: Vec<(MOSDOp, Option<u8>)>,
}

impl Load {
    fn new(seed: u64, names: u64) -> Self {
        Self { rng: Rng::new(seed), names, step: 0, snapc: SnapContext::default(), sent: Vec::new() }
    }
    fn one(&mut self, c: &mut Cluster) {
        self.step += 1;
        let name = format!("o{}", self.rng.below(self.names));
        let byte = b'a' + (self.step % 26) as u8;
        let (op, is_delete) = match self.rng.below(10) {
            0 => (delete(), true),
            1 => (write_full(&[byte].repeat(5000)), false),
            _ => (append(&[byte]), false),
        };
        if self.rng.chance(1, 20) {
            self.snapc.seq += 1;
            self.snapc.snaps.insert(0, self.snapc.seq);
        }
        let m = MOSDOp { snapc: self.snapc.clone(), ..c.request(&name, vec![op]) };
        c.give(&m);
        self.sent.push((m, (!is_delete).then_some(byte)));
    }
    fn run(&mut self, c: &mut Cluster, ops: u32, steps: u64) {
        for _ in 0..ops {
            self.one(c);
            for _ in 0..self.rng.below(steps) {
                c.step();
            }
        }
    }
    /// Every answered write of an object that nothing deleted or replaced since is there.
    fn check(&self, c: &mut Cluster) {
        let answered: BTreeSet<u64> = c.replies.iter().filter(|r| r.result >= 0).map(|r| r.tid).collect();
        let mut wanted: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (m, byte) in &self.sent {
            let bytes = wanted.entry(m.hobj.oid.to_string()).or_default();
            match byte {
                Some(byte) if m.ops[0].op.code == OpCode::APPEND => bytes.extend(answered.contains(&m.tid).then_some(byte)),
                _ => bytes.clear(),
            }
        }
        for (name, bytes) in wanted {
            let found = c.read(&name).unwrap_or_default();
            let mut at = found.iter();
            assert!(bytes.iter().all(|byte| at.any(|b| b == byte)), "{name}: an answered write is lost");
        }
    }
}

fn bits(c: &Cluster) -> u64 {
    let primaries = (0..c.map.pools[&POOL].pg_num).map(|seed| PgId::new(POOL, seed));
    let of = |pgid| {
        let node = usize::try_from(c.primary(pgid)).ok().and_then(|osd| c.nodes[osd].as_ref());
        node.and_then(|node| node.osd.pgs().find(|pg| pg.pgid.pgid == pgid)).map_or(0, |pg| pg.state_bits())
    };
    primaries.map(of).fold(0, |all, bits| all | bits)
}
fn empty(c: &mut Cluster, id: usize) {
    c.kill(id);
    c.mark_down(id);
    c.empty(id);
}
fn assert_done(c: &mut Cluster, what: &str) {
    for _ in 0..6 {
        c.settle();
    }
    let errors: Vec<&String> = c.errors.iter().filter(|e| !e.contains("its log ends at")).collect();
    assert!(errors.is_empty(), "{what}: {errors:?}");
    c.assert_clean();
    c.assert_filled_equal();
}

#[test]
fn an_empty_osd_is_filled_under_writes_deletes_and_snapshots() {
    for seed in 0..12 {
        let mut c = Cluster::new(seed, 3, 2 + (seed % 2) as u8, 1, 1 + (seed % 3) as u32);
        let mut load = Load::new(seed + 100, 80);
        load.run(&mut c, 500, 20);
        c.settle();
        let id = (seed % 3) as usize;
        empty(&mut c, id);
        c.start(id);
        load.run(&mut c, 300, 30);
        assert_done(&mut c, &format!("seed {seed}"));
        load.check(&mut c);
        let answered: BTreeSet<u64> = c.replies.iter().map(|r| r.tid).collect();
        // What came to a primary that is none any more is not answered: real clients send it again.
        assert!(answered.len() + 20 > load.sent.len(), "seed {seed}: {} of {} are answered", answered.len(), load.sent.len());
    }
}

#[test]
fn a_backfill_goes_on_after_any_deaths_and_returns() {
    for seed in 0..24 {
        let mut c = Cluster::new(seed, 4, 3, 2, 2);
        let mut load = Load::new(seed + 900, 60);
        let mut rng = Rng::new(seed + 5000);
        load.run(&mut c, 450, 20);
        c.settle();
        let id = rng.below(4) as usize;
        empty(&mut c, id);
        c.start(id);
        let mut dead: Option<usize> = None;
        for _ in 0..60 {
            load.run(&mut c, 5, 25);
            match dead {
                None if rng.chance(1, 3) => {
                    let id = rng.below(4) as usize;
                    c.kill(id);
                    c.mark_down(id);
                    dead = Some(id);
                }
                Some(id) if rng.chance(1, 2) => {
                    c.start(id);
                    dead = None;
                }
                _ => c.tick(),
            }
        }
        if let Some(id) = dead {
            c.start(id);
        }
        assert_done(&mut c, &format!("seed {seed}"));
        load.check(&mut c);
    }
}

#[test]
fn a_member_that_was_away_longer_than_the_log_reaches_keeps_what_is_the_same() {
    let mut c = Cluster::new(3, 3, 3, 2, 1);
    for i in 0..60 {
        c.one(&format!("cold{i}"), vec![write_full(&[7; 3000])]);
    }
    c.kill(1);
    c.mark_down(1);
    let mut load = Load::new(4, 5);
    load.run(&mut c, 300, 20);
    c.settle();
    c.start(1);
    assert_done(&mut c, "away");
    let node = c.nodes[c.primary(PgId::new(POOL, 0)) as usize].as_ref().unwrap();
    let sum = &node.osd.pgs().next().unwrap().record().info().stats.stats.sum;
    let (recovered, all) = (sum.num_objects_recovered, sum.num_objects);
    assert!(recovered <= all - 60, "{recovered} of {all} objects were sent, 60 of which had not changed");
}

#[test]
fn groups_move_away_and_come_back() {
    for seed in 0..6 {
        let mut c = Cluster::new(seed, 4, 3, 2, 4);
        let mut load = Load::new(seed, 120);
        load.run(&mut c, 900, 20);
        c.settle();
        let out = (seed % 4) as usize;
        c.publish(|m| m.osd_weight[out] = 0);
        load.run(&mut c, 100, 20);
        assert_done(&mut c, &format!("seed {seed}: out"));
        assert_eq!(c.nodes[out].as_ref().unwrap().osd.pgs().count(), 0, "seed {seed}: its groups are elsewhere");
        c.publish(|m| m.osd_weight[out] = 0x10000);
        load.run(&mut c, 100, 20);
        assert_done(&mut c, &format!("seed {seed}: in"));
        assert!(c.map.pg_temp.is_empty(), "seed {seed}: {:?}", c.map.pg_temp);
        load.check(&mut c);
    }
}

#[test]
fn flags_full_targets_and_refusals_hold_it_back_for_as_long() {
    let mut c = Cluster::new(9, 3, 3, 2, 2);
    Load::new(9, 60).run(&mut c, 450, 20);
    c.settle();
    c.publish(|m| m.flags |= map_flags::NOBACKFILL);
    empty(&mut c, 2);
    c.start(2);
    c.settle();
    let held = |c: &Cluster| c.nodes[2].as_ref().unwrap().osd.pgs().map(|pg| pg.record().info().stats.stats.sum.num_objects).sum::<i64>();
    assert_eq!(held(&c), 0, "nothing moves while the map says so");
    assert!(bits(&c) & (pg_state::BACKFILLING | pg_state::BACKFILL_WAIT) != 0 && bits(&c) & pg_state::DEGRADED != 0);
    c.publish(|m| m.osd_state[2] |= osd_state::BACKFILLFULL);
    c.publish(|m| m.flags &= !map_flags::NOBACKFILL);
    c.settle();
    assert!(bits(&c) & pg_state::BACKFILL_TOOFULL != 0, "{:#x}", bits(&c));
    c.publish(|m| m.osd_state[2] &= !osd_state::BACKFILLFULL);
    assert_done(&mut c, "no longer full");
    // Refusals by chance.
    c.config.push(("osd_debug_reject_backfill_probability", "0.7".into()));
    empty(&mut c, 2);
    c.start(2);
    for _ in 0..10 {
        c.settle();
    }
    assert_done(&mut c, "refusals");
}

/// Copies of objects that were deleted while a target was away, longer ago than logs reach back, go first, and need no place.
fn a_full_target_loses_what_was_deleted() {
    let mut c = Cluster::new(5, 3, 3, 2, 1);
    let group = SpgId::whole(PgId::new(POOL, 0));
    let away = (0..3).rfind(|osd| *osd != c.primary(group.pgid) as usize).unwrap();
    (0..40).for_each(|n| assert_eq!(c.one(&format!("o{n}"), vec![write_full(&[7; 3000])]).unwrap().result, 0));
    c.settle();
    let before = c.objects(away, group);
    c.kill(away);
    c.mark_down(away);
    c.settle();
    (0..30).for_each(|n| assert_eq!(c.one(&format!("o{n}"), vec![delete()]).unwrap().result, 0));
    (0..80).for_each(|_| assert_eq!(c.one("o39", vec![write_full(b"newer")]).unwrap().result, 0));
    c.publish(|m| m.osd_state[away] |= osd_state::BACKFILLFULL);
    c.start(away);
    (0..4).for_each(|_| c.settle());
    assert!(bits(&c) & pg_state::BACKFILL_TOOFULL != 0, "{}", pg_state::to_text(bits(&c)));
    assert_eq!(c.objects(away, group), before - 30, "what was deleted is gone");
    // An object that is deleted while it is refused is gone by the next refusal.
    assert_eq!(c.one("o30", vec![delete()]).unwrap().result, 0);
    (0..4).for_each(|_| c.settle());
    assert!(bits(&c) & pg_state::BACKFILL_TOOFULL != 0);
    assert_eq!(c.objects(away, group), before - 31);
    c.publish(|m| m.osd_state[away] &= !osd_state::BACKFILLFULL);
    assert_done(&mut c, "there is room");
}
#[test]
fn what_was_deleted_goes_from_a_target_that_is_too_full() {
    a_full_target_loses_what_was_deleted();
    #[cfg(debug_assertions)]
    assert!(is_noticed(Bug::KeepTooMany, a_full_target_loses_what_was_deleted));
}

#[test]
fn one_group_at_a_time_is_filled_unless_the_option_says_more() {
    for places in [1, 4] {
        let mut c = Cluster::new(17, 3, 3, 2, 8);
        c.config.push(("osd_max_backfills", places.to_string()));
        for id in 0..3 {
            c.kill(id);
            c.mark_down(id);
            c.start(id);
            c.settle();
        }
        Load::new(9, 300).run(&mut c, 1600, 20);
        c.settle();
        empty(&mut c, 2);
        c.start(2);
        let mut most = 0;
        while c.step() {
            let backfilling = |pg: &&osd_core::pg::Pg| pg.peering().is_primary() && pg.state_bits() & pg_state::BACKFILLING != 0;
            most = most.max(c.nodes.iter().flatten().flat_map(|node| node.osd.pgs()).filter(backfilling).count());
        }
        assert!(most <= places && most > 0, "{most} groups were filled at a time with {places} places");
        assert_done(&mut c, "places");
    }
}

/// A former member that dies while its objects are removed, a page at a time, is no copy when it starts again: as a member it is filled.
#[test]
fn a_removal_that_is_cut_short_leaves_no_copy() {
    const OBJECTS: usize = 700;
    let pg = SpgId::whole(PgId::new(POOL, 0));
    let mut parts = 0;
    for seed in 70..82 {
        let mut c = Cluster::new(seed, 3, 2, 1, 1);
        for n in 0..OBJECTS {
            let m = c.request(&format!("o{n}"), vec![append(b"x")]);
            c.give(&m);
        }
        c.settle();
        let former = (0..3).find(|osd| c.objects(*osd, pg) == OBJECTS && c.primary(pg.pgid) != *osd as i32).expect("a replica has all");
        c.publish(|m| m.osd_weight[former] = 0);
        // Until some are gone, by whatever order of events.
        let goes = |c: &Cluster| (1..OBJECTS).contains(&c.objects(former, pg));
        for _ in 0..100 {
            while !goes(&c) && c.step() {}
            if goes(&c) {
                break;
            }
            c.tick();
        }
        assert!(goes(&c), "seed {seed}: it removes a page a turn");
        c.kill(former);
        c.mark_down(former);
        c.start(former);
        let left = c.objects(former, pg);
        let record = c.nodes[former].as_ref().unwrap().osd.store().load_pg(pg).unwrap();
        let claims = record.as_ref().is_some_and(|record| record.info.last_backfill.max);
        assert!(!claims || left == OBJECTS, "seed {seed}: {left} of {OBJECTS} objects, and the record claims all");
        parts += u32::from((1..OBJECTS).contains(&left));
        c.publish(|m| m.osd_weight[former] = 0x10000);
        c.settle();
        c.assert_filled_equal();
        assert_eq!(c.read("o5"), Ok(b"x".to_vec()));
    }
    assert!(parts > 0, "of some a part is left");
}

/// Two of three members are left, which is enough to serve. One of them was empty, and by the monitor's exception the other served alone, which is not
/// enough: when both have everything the exception ends, though placement finds no third.
#[test]
fn a_group_that_too_few_serve_by_the_monitors_exception_gives_it_back() {
    for seed in 0..8 {
        let mut c = Cluster::new(seed, 3, 3, 2, 1);
        let mut load = Load::new(seed, 20);
        load.run(&mut c, 200, 20);
        c.settle();
        for lost in [1, 2] {
            empty(&mut c, lost);
        }
        c.publish(|m| m.osd_weight[2] = 0);
        c.settle();
        c.start(1);
        for _ in 0..6 {
            c.settle();
        }
        assert!(c.map.pg_temp.is_empty() && c.is_active(PgId::new(POOL, 0)), "seed {seed}: {:?} {:?}", c.map.pg_temp, c.states());
        load.check(&mut c);
    }
}

/// A group takes others in that are on other OSDs: its collection here takes what will be filled in.
#[test]
fn a_merge_with_groups_that_are_elsewhere_makes_room_for_their_objects() {
    for is_told in [false, true] {
        let mut c = Cluster::new(1, 3, 1, 1, 8);
        let target_of = |c: &Cluster, seed: u32| c.primary(PgId::new(POOL, seed)) as usize;
        let apart = |c: &Cluster, seed: u32| (1..4).any(|nth| target_of(c, seed + 2 * nth) != target_of(c, seed));
        assert!((0..2).any(|seed| apart(&c, seed)), "some are elsewhere");
        c.ended = Some(Vec::new());
        c.publish(|m| {
            let pool = m.pools.get_mut(&POOL).unwrap();
            (pool.pg_num, pool.pgp_num, pool.pg_num_pending, pool.last_change) = (2, 2, 2, m.epoch);
            if is_told {
                pool.last_pg_merge_meta.source_pgid = PgId::new(POOL, 7);
            }
        });
        c.settle();
        assert_eq!(c.ended.as_deref(), Some(&[][..]));
        for (pg, node) in c.nodes.iter().flatten().flat_map(|node| node.osd.pgs().map(move |pg| (pg, node))) {
            if pg.pgid.pgid.seed < 2 {
                assert_eq!(node.osd.store().collection_bits(CollId::Pg(pg.pgid)).unwrap(), Some(1), "{is_told} {}", pg.pgid);
            }
        }
    }
}

/// An OSD that was away when two groups were merged lacks the last write of one of them. By versions it has everything: the other group's
/// are higher.
fn an_osd_was_away_when_groups_were_merged() {
    let mut c = Cluster::new(3, 2, 2, 1, 2);
    let names = |c: &mut Cluster, seed: u32| {
        let all = (0..60).map(|n| format!("o{n}"));
        all.filter(|name| c.request(name, Vec::new()).pgid.pgid.seed == seed).take(12).collect::<Vec<_>>()
    };
    let (target, source, epoch) = (names(&mut c, 0), names(&mut c, 1), c.map.epoch);
    target.iter().chain(&source[..2]).for_each(|name| assert_eq!(c.one(name, vec![write_full(b"before")]).unwrap().result, 0));
    c.settle();
    let last = c.primary(PgId::new(POOL, 1)) as usize;
    let away = 1 - last;
    c.kill(away);
    let late = c.request(&source[2], vec![write_full(b"late")]);
    c.give(&late);
    c.settle();
    assert_eq!(c.map.epoch, epoch, "one epoch has all writes");
    c.mark_down(away);
    c.settle();
    let version = |c: &Cluster, seed: u32| {
        let pg = c.nodes[last].as_ref().unwrap().osd.pgs().find(|pg| pg.pgid.pgid.seed == seed);
        pg.expect("it has the group").record().info().last_update
    };
    let (source_version, target_version) = (version(&c, 1), version(&c, 0));
    assert!(source_version < target_version, "{source_version} {target_version}");
    c.publish(|m| {
        let pool = m.pools.get_mut(&POOL).unwrap();
        (pool.pg_num, pool.pgp_num, pool.pg_num_pending, pool.last_change) = (1, 1, 1, m.epoch);
        (pool.pg_num_target, pool.pgp_num_target) = (1, 1);
        let meta = &mut pool.last_pg_merge_meta;
        (meta.source_pgid, meta.source_version, meta.target_version) = (PgId::new(POOL, 1), source_version, target_version);
    });
    c.settle();
    c.start(away);
    assert_done(&mut c, "it is back");
    assert_eq!(c.read(&source[2]).as_deref(), Ok(&b"late"[..]));
}
#[test]
fn an_osd_that_was_away_when_groups_were_merged_is_filled() {
    an_osd_was_away_when_groups_were_merged();
    #[cfg(debug_assertions)]
    assert!(is_noticed(Bug::MergeUnlike, an_osd_was_away_when_groups_were_merged));
}

/// A primary that was made in the midst of an interval takes no answer with an older epoch than that; a target may have been there before it.
#[test]
fn the_answer_of_a_target_names_the_epoch_of_the_question() {
    let mut c = Cluster::new(3, 3, 3, 2, 1);
    c.settle();
    c.publish(|_| {});
    c.settle();
    let pgid = PgId::new(POOL, 0);
    let (primary, epoch) = (c.primary(pgid), c.map.epoch);
    let target = (0..3).find(|osd| *osd != primary as usize).unwrap();
    let from = PgShard::new(primary, -1);
    let scan = MOSDPGScan {
        op: scan_op::GET_DIGEST,
        map_epoch: epoch,
        query_epoch: epoch,
        pgid: SpgId::whole(pgid),
        from,
        ..MOSDPGScan::default()
    };
    let (clock, mut out) = (c.clock(), Vec::new());
    let osd = &mut c.nodes[target].as_mut().unwrap().osd;
    osd.handle(Event::Osd { osd: primary, msg: received(&scan.encode(features::SUPPORTED)) }, clock, &mut out);
    osd.handle(Event::TurnEnd, clock, &mut out);
    let sent = out.iter().filter_map(|effect| match effect {
        Effect::SendOsd { msg, .. } if msg.kind == MOSDPGScan::KIND => Some(MOSDPGScan::decode(&received(msg)).unwrap()),
        _ => None,
    });
    let answers: Vec<_> = sent.map(|m| (m.op, m.query_epoch)).collect();
    assert_eq!(answers, [(scan_op::DIGEST, epoch)]);
}
