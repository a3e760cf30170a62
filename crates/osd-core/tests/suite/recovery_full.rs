//! Recovery and members whose stores are full: it doesn't begin, and doesn't go on, and what makes room does all the same.

use crate::cluster::{Cluster, POOL};
#[cfg(debug_assertions)]
use crate::world::is_noticed;
use crate::world::write_full;
use bytes::Bytes;
use maps::{map_flags, osd_state};
use messages::InOp;
#[cfg(debug_assertions)]
use osd_core::planted::Bug;
use types::osd_op::OpCode;
use types::{OsdOp, PgId, SpgId, pg_state};

const GROUP: SpgId = SpgId::whole(PgId::new(POOL, 0));
/// Objects of which one member has an older version, and those that it has and are deleted.
const CHANGED: usize = 30;
const DELETED: usize = 10;

fn delete() -> Vec<InOp> {
    vec![InOp::new(OsdOp::new(OpCode::DELETE), Bytes::new())]
}
fn bits(c: &Cluster) -> u64 {
    let primary = c.nodes[c.primary(GROUP.pgid) as usize].as_ref().expect("a primary runs");
    primary.osd.pgs().find(|pg| pg.pgid == GROUP).expect("it has the group").state_bits()
}
/// What a member lacks: objects, and deletions.
fn lacks(c: &Cluster, osd: usize) -> (usize, usize) {
    let record = c.nodes[osd].as_ref().expect("it runs").osd.store().load_pg(GROUP).unwrap().expect("it is a member");
    let deletions = record.missing.values().filter(|item| item.delete).count();
    (record.missing.len() - deletions, deletions)
}
/// A member that was away while objects were changed and deleted, and is back. Nothing is recovered yet.
fn behind(config: &[(&'static str, &str)]) -> (Cluster, usize) {
    let mut c = Cluster::new(11, 3, 3, 2, 1);
    let away = (0..3).rfind(|osd| *osd != c.primary(GROUP.pgid) as usize).expect("there are three");
    c.config.extend(config.iter().map(|(name, value)| (*name, (*value).to_string())));
    (0..3).for_each(|osd| {
        c.kill(osd);
        c.mark_down(osd);
        c.start(osd);
        c.settle();
    });
    // The log reaches back to when it went.
    let names = |what: &str, count: usize| (0..count).map(|n| format!("{what}{n}")).collect::<Vec<_>>();
    let all = [names("changed", CHANGED), names("deleted", DELETED)].concat();
    all.iter().for_each(|name| assert_eq!(c.one(name, vec![write_full(b"before")]).unwrap().result, 0));
    c.kill(away);
    c.mark_down(away);
    c.settle();
    names("changed", CHANGED).iter().for_each(|name| assert_eq!(c.one(name, vec![write_full(b"after")]).unwrap().result, 0));
    names("deleted", DELETED).iter().for_each(|name| assert_eq!(c.one(name, delete()).unwrap().result, 0));
    c.publish(|m| m.flags |= map_flags::NORECOVER);
    c.start(away);
    c.settle();
    assert_eq!(lacks(&c, away), (CHANGED, DELETED));
    (c, away)
}
fn full(c: &mut Cluster, osd: usize, is_full: bool) {
    c.publish(|m| if is_full { m.osd_state[osd] |= osd_state::FULL } else { m.osd_state[osd] &= !osd_state::FULL });
}
fn comes_to_an_end(c: &mut Cluster, osd: usize) {
    full(c, osd, false);
    (0..10).for_each(|_| c.settle());
    assert_eq!(lacks(c, osd), (0, 0));
    assert_eq!(bits(c) & (pg_state::RECOVERY_TOOFULL | pg_state::DEGRADED), 0);
    c.assert_clean();
    c.assert_copies_equal();
    assert_eq!(c.errors, [""; 0]);
}

#[test]
fn it_does_not_begin_where_a_member_is_full_and_deletions_are_done() {
    let (mut c, away) = behind(&[]);
    full(&mut c, away, true);
    c.publish(|m| m.flags &= !map_flags::NORECOVER);
    c.settle();
    assert!(bits(&c) & pg_state::RECOVERY_TOOFULL != 0, "{}", pg_state::to_text(bits(&c)));
    assert_eq!(lacks(&c, away), (CHANGED, 0), "what is deleted takes no room");
    // Clients make room: objects that the member lacks go, and others.
    for name in ["changed1", "changed7"] {
        assert_eq!(c.one(name, delete()).map(|r| r.result), Some(0), "{name} can be deleted");
    }
    assert_eq!(lacks(&c, away), (CHANGED - 2, 0));
    assert!(bits(&c) & pg_state::RECOVERY_TOOFULL != 0);
    comes_to_an_end(&mut c, away);
}

fn it_stops_where_a_member_gets_full() {
    let (mut c, away) = behind(&[("osd_recovery_max_active", "1"), ("osd_recovery_sleep", "0.3")]);
    c.publish(|m| m.flags &= !map_flags::NORECOVER);
    while lacks(&c, away).0 > CHANGED - 5 {
        if !c.step() {
            c.tick();
        }
    }
    assert_eq!(lacks(&c, away).1, 0, "deletions come first");
    full(&mut c, away, true);
    c.settle();
    let (left, _) = lacks(&c, away);
    assert!(bits(&c) & pg_state::RECOVERY_TOOFULL != 0, "{}", pg_state::to_text(bits(&c)));
    (0..5).for_each(|_| c.settle());
    assert_eq!(lacks(&c, away).0, left, "nothing more comes");
    assert!(left > 0);
    assert_eq!(c.one("changed29", delete()).map(|r| r.result), Some(0));
    comes_to_an_end(&mut c, away);
}

#[test]
fn it_does_not_go_on_where_a_member_gets_full() {
    it_stops_where_a_member_gets_full();
    #[cfg(debug_assertions)]
    assert!(is_noticed(Bug::RecoverIntoFull, it_stops_where_a_member_gets_full));
}

/// The store itself is at the ratio, and no map says so yet.
#[test]
fn a_store_that_gets_full_takes_back_the_place_that_it_gave() {
    let (mut c, away) = behind(&[("osd_recovery_max_active", "1"), ("osd_recovery_sleep", "0.3")]);
    c.publish(|m| m.flags &= !map_flags::NORECOVER);
    while lacks(&c, away).0 > CHANGED - 5 {
        if !c.step() {
            c.tick();
        }
    }
    let total = c.nodes[away].as_ref().expect("it runs").osd.store().statfs().total;
    c.nodes[away].as_ref().expect("it runs").store.borrow_mut().taken = total / 100 * 96;
    c.settle();
    let (left, _) = lacks(&c, away);
    (0..5).for_each(|_| c.settle());
    assert!(left > 0 && lacks(&c, away).0 == left, "nothing more comes");
    assert!(bits(&c) & (pg_state::RECOVERY_WAIT | pg_state::RECOVERY_TOOFULL) != 0, "{}", pg_state::to_text(bits(&c)));
    c.nodes[away].as_ref().expect("it runs").store.borrow_mut().taken = 0;
    assert!(c.errors.iter().all(|line| line.contains("the store is full")), "{:?}", c.errors);
    c.errors.clear();
    comes_to_an_end(&mut c, away);
}
