//! Members of groups die and return at any moment: at rest their logs are one, nothing that a client was answered is missing from it, and no
//! member lacks an object.

use crate::cluster::{Cluster, POOL};
use base::Rng;
use bytes::Bytes;
use maps::Placement;
use messages::{InOp, MOSDOp, MOSDPGLog, Message};
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
        assert!(pg.peering().is_active(), "{what}: {pgid}: {:?} {:?}", c.states(), c.errors);
        assert!(pg.peering().is_recovered(), "{what}: {pgid}: {:?}", c.states());
        for member in pg.peering().members().iter().filter(|member| member.osd != primary) {
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
            assert!(
                pg.record().log().find(&m.reqid_from(EntityName::client(4001))).is_some(),
                "seed {seed}: request {} was answered",
                m.tid
            );
        }
    }
}

/// A member whose record is damaged may be the only one that has what was acknowledged last: it says nothing rather than that it has nothing, and ends,
/// so that members with whole copies go on as far as they may without it.
#[test]
fn a_damaged_group_is_not_an_empty_one() {
    let pgid = SpgId::whole(PgId::new(POOL, 0));
    let mut c = Cluster::new(7, 2, 2, 1, 1);
    assert_eq!(c.one("o", vec![append(b"1")]).unwrap().result, 0);
    c.kill(1);
    c.mark_down(1);
    c.settle();
    assert_eq!(c.one("o", vec![append(b"2")]).unwrap().result, 0);
    c.kill(0);
    c.mark_down(0);
    c.settle();
    (c.damaged, c.ended) = ([(0, pgid)].into(), Some(Vec::new()));
    (0..2).for_each(|osd| c.start(osd));
    c.settle();
    let ended = c.ended.take().unwrap();
    assert!(ended.len() == 1 && ended[0].starts_with("osd.0: group 1.0 ") && ended[0].contains("humboldt store"), "{ended:?}");
    let m = c.request("o", vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())]);
    c.give(&m);
    c.settle();
    assert!(c.replies.is_empty(), "what osd.1 has is older: {:?}", c.replies);
    // It comes back whole.
    c.damaged.clear();
    c.start(0);
    c.settle();
    assert_eq!(c.read("o").unwrap(), b"12");
    assert_logs_agree(&c, "repaired");
}

/// One group with an object on two of three OSDs: its primary, its other member, and the OSD that has none of it.
fn two_of_three() -> (Cluster, PgId, [usize; 3]) {
    let pgid = PgId::new(POOL, 0);
    let mut c = Cluster::new(7, 3, 2, 1, 1);
    assert_eq!(c.one("o", vec![append(b"1")]).unwrap().result, 0);
    let first = c.primary(pgid) as usize;
    let members = c.map.pg_to_up_acting(pgid, &mut Placement::default()).acting;
    let second = members.iter().map(|osd| *osd as usize).find(|osd| *osd != first).unwrap();
    let new = (0..3).find(|osd| ![first, second].contains(osd)).unwrap();
    (c, pgid, [first, second, new])
}

/// A group may wait long for a former member before it becomes active. A new member, which has none of it, follows however many maps have come since
/// the interval began: it keeps the newest ones only, and need know no more than that the interval of the message is still the present one.
#[test]
fn a_new_member_follows_in_an_interval_that_began_many_maps_ago() {
    let (mut c, pgid, [first, second, new]) = two_of_three();
    // The second was alone for a while: what it has is not known until it is back.
    c.kill(first);
    c.mark_down(first);
    c.settle();
    c.kill(second);
    c.mark_down(second);
    c.publish(|m| m.osd_weight[second] = 0);
    c.start(first);
    c.settle();
    assert!(!c.is_active(pgid), "{:?}", c.states());
    for _ in 0..60 {
        c.publish(|m| m.flags ^= maps::map_flags::NOSCRUB);
        c.settle();
    }
    c.start(second);
    c.settle();
    assert!(c.is_active(pgid), "{:?}", c.states());
    let now = c.map.pg_to_up_acting(pgid, &mut Placement::default()).acting;
    assert!(now.len() == 2 && now.contains(&(new as i32)), "{now:?} has a new member");
    assert_eq!(c.read("o").unwrap(), b"1");
    assert_logs_agree(&c, "at rest");
}

/// A group's primary has just sent its log to a new member, and waits for it: the group, the primary and the member.
fn on_its_way_to_a_new_member() -> (Cluster, PgId, [usize; 2]) {
    let (mut c, pgid, [first, second, new]) = two_of_three();
    c.kill(second);
    c.mark_down(second);
    c.publish(|m| m.osd_weight[second] = 0);
    let activates = |c: &Cluster| c.states().contains(&format!("{first}:{} Activating", SpgId::whole(pgid)));
    while !(activates(&c) && c.map.pg_to_up_acting(pgid, &mut Placement::default()).acting.contains(&(new as i32))) {
        assert!(c.step(), "{:?}", c.states());
    }
    (c, pgid, [first, new])
}

/// A primary's log is long on its way to a new member, or the primary's maps are. By then the member keeps no map as old as that of the
/// log, and can't know that the interval is still the present one: the primary must say it again by the map that it has got since.
fn a_log_that_came_too_late() -> (Cluster, PgId, usize) {
    let (mut c, pgid, [first, new]) = on_its_way_to_a_new_member();
    let activates = |c: &Cluster| c.states().contains(&format!("{first}:{} Activating", SpgId::whole(pgid)));
    c.cut.insert((first as i32, new as i32));
    c.lagging.insert(first);
    for _ in 0..60 {
        c.publish(|m| m.flags ^= maps::map_flags::NOSCRUB);
        c.settle();
    }
    c.cut.clear();
    c.settle();
    assert!(activates(&c), "the log came too late: {:?}", c.states());
    (c, pgid, first)
}
#[test]
fn a_log_by_a_map_that_a_new_member_no_longer_keeps_is_sent_again() {
    let (mut c, pgid, _) = a_log_that_came_too_late();
    c.lagging.clear();
    c.settle();
    assert!(c.is_active(pgid), "{:?}", c.states());
    assert_eq!(c.read("o").unwrap(), b"1");
    assert_logs_agree(&c, "at rest");
}
/// A stock member that has started and gets the log again cuts its own back to it: it lacks the writes since, and ends at the next one.
#[test]
fn a_log_is_sent_once_while_its_member_can_place_it() {
    let (mut c, _, [first, new]) = on_its_way_to_a_new_member();
    c.cut.insert((first as i32, new as i32));
    let mut sent = Vec::new();
    for _ in 0..60 {
        c.publish(|m| m.flags ^= maps::map_flags::NOSCRUB);
        c.settle();
        sent.push(c.on_their_way(first, new, MOSDPGLog::KIND));
    }
    assert_eq!((sent[0], sent[40], sent[59]), (1, 1, 2), "once more when it is too old: {sent:?}");
}
/// Then its own log can't be read, and a group that is activating for ever serves nobody.
#[test]
fn a_log_that_can_not_be_sent_again_ends_the_primary() {
    let (mut c, pgid, first) = a_log_that_came_too_late();
    c.nodes[first].as_ref().expect("it runs").store.borrow_mut().damaged_group = Some(SpgId::whole(pgid));
    c.ended = Some(Vec::new());
    c.lagging.clear();
    c.settle();
    let ended = c.ended.take().expect("set above");
    let why = format!("osd.{first}: {}: its log: ", SpgId::whole(pgid));
    assert!(ended.iter().any(|line| line.starts_with(&why)), "{ended:?}");
}

/// A group's only copy comes back after a request for it, and no map comes any more: the request was at the group's new primary before the group was.
#[test]
fn a_request_that_waits_for_its_group_is_answered_when_the_group_is_made() {
    let pgid = PgId::new(POOL, 0);
    for seed in 0..20 {
        let mut c = Cluster::new(seed, 2, 1, 1, 1);
        assert_eq!(c.one("o", vec![append(b"1")]).unwrap().result, 0);
        let first = c.primary(pgid) as usize;
        c.kill(first);
        c.mark_down(first);
        // Its next primary has taken part in this epoch already, in other groups.
        c.publish(|m| {
            m.osd_weight[first] = 0;
            m.osd_info[1 - first].up_thru = m.epoch + 20;
        });
        c.settle();
        assert_eq!(c.primary(pgid) as usize, 1 - first);
        let m = c.request("o", vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())]);
        c.give(&m);
        c.settle();
        assert!(c.replies.is_empty() && c.nodes[1 - first].as_ref().unwrap().osd.pgs().count() == 0);
        c.start(first);
        c.settle();
        assert_eq!(c.replies.iter().map(|r| (r.tid, r.result)).collect::<Vec<_>>(), [(m.tid, 0)], "seed {seed}: {:?}", c.states());
    }
}

/// Placement finds too few members, and the others stand in: as many have everything as the pool wants.
#[test]
fn a_group_whose_members_stand_in_is_clean_and_remapped() {
    let mut c = Cluster::new(31, 3, 3, 2, 1);
    let pg = PgId::new(POOL, 0);
    assert_eq!(c.one("a", vec![append(b"1")]).map(|r| r.result), Some(0));
    let primary = c.primary(pg) as usize;
    let out = (primary + 1) % 3;
    let state = |c: &Cluster| {
        let node = c.nodes[c.primary(pg) as usize].as_ref().expect("a primary runs");
        types::pg_state::to_text(node.osd.pgs().next().expect("it has the group").state_bits())
    };
    assert_eq!(state(&c), "active+clean");
    c.publish(|m| m.osd_weight[out] = 0);
    (0..3).for_each(|_| c.settle());
    assert_eq!(c.map.pg_temp.get(&pg).map(Vec::len), Some(3), "the monitor has an exception for it");
    assert_eq!(state(&c), "active+clean+remapped");
    // With a member less it is neither.
    c.kill(out);
    c.mark_down(out);
    (0..3).for_each(|_| c.settle());
    assert!(!state(&c).contains("clean"), "{}", state(&c));
    c.start(out);
    c.publish(|m| m.osd_weight[out] = 0x10000);
    (0..3).for_each(|_| c.settle());
    assert_eq!(state(&c), "active+clean");
    assert_eq!(c.errors, [""; 0]);
}
