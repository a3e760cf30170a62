//! Who may say what to the monitor and to the manager's endpoint: rights that hold whatever an asker names.

mod common;
#[path = "common/world.rs"]
mod world;

use cephx::AuthCapsInfo;
use mon_core::{ConnId, Endpoint, cmd::flag};
use types::features;
use world::World;

const EACCES: i32 = -13;
const EINVAL: i32 = -22;

fn at_manager(w: &mut World, caps: &str) -> ConnId {
    w.open_at(Endpoint::Mgr, "client.x", AuthCapsInfo::from_text(caps), features::SUPPORTED)
}
fn is_unknown(answer: &(i32, String, String)) -> bool {
    answer.0 == EINVAL && answer.1 == "command not known"
}

/// Each row by each way: the manager's endpoint knows the manager's commands and what is said to a daemon, whatever an asker's capability.
fn the_manager_knows_its_own(w: &mut World) {
    let conn = at_manager(w, "allow *");
    let registry = w.mon.registry.clone();
    // What a prefix means may hang on its arguments: a prefix is the manager's if one of its rows is.
    let prefixes: std::collections::BTreeSet<&str> = registry.rows().map(|(_, sig)| sig.prefix.as_str()).collect();
    assert!(prefixes.len() > 250, "all rows are asked");
    let (mut known, mut refused) = (0, 0);
    for prefix in prefixes {
        let any = |bit| registry.rows().any(|(c, sig)| sig.prefix == prefix && c.flags & bit != 0);
        for tell in [false, true] {
            let wanted = any(flag::MGR) || tell && any(flag::TELL);
            let answer = w.at_manager(conn, tell, &format!(r#"{{"prefix":"{prefix}"}}"#));
            assert_eq!(!is_unknown(&answer), wanted, "{prefix}, tell: {tell}: {answer:?}");
            *(if wanted { &mut known } else { &mut refused }) += 1;
        }
    }
    assert!(known > 100 && refused > 300, "{known} known, {refused} refused");
    // By name, whatever flags the rows have.
    for prefix in ["config-key get", "config-key dump", "config set", "auth get", "auth ls", "osd pool rm", "osd blocklist", "fs rm", "log"]
    {
        let request = format!(r#"{{"prefix":"{prefix}","key":"k","entity":"client.admin","who":"global","name":"debug_ms","value":"0"}}"#);
        for caps in ["allow r", "allow rw", "allow *"] {
            let conn = at_manager(w, caps);
            let answer = w.at_manager(conn, false, &request);
            assert!(is_unknown(&answer), "{prefix} by mgr '{caps}': {answer:?}");
        }
    }
    for (caps, prefix, result) in [("allow r", "pg stat", 0), ("profile read-only", "pg dump", 0), ("", "pg stat", EACCES)] {
        let conn = at_manager(w, caps);
        assert_eq!(w.at_manager(conn, false, &format!(r#"{{"prefix":"{prefix}"}}"#)).0, result, "{prefix} by mgr '{caps}'");
    }
    // What is said to the daemon is for who may do everything there.
    for (caps, result) in [("allow rw", EACCES), ("allow *", 0)] {
        let conn = at_manager(w, caps);
        assert_eq!(w.at_manager(conn, true, r#"{"prefix":"config show"}"#).0, result, "by mgr '{caps}'");
    }
}

#[test]
fn the_managers_endpoint_runs_the_managers_commands_alone() {
    the_manager_knows_its_own(&mut World::new());
}

/// A capability that demands capabilities of what its holder makes.
fn what_is_made_has_what_may_be_made(w: &mut World) {
    let admin = w.open("client.admin", "allow *");
    let images = r#""caps":["mon","profile rbd","osd","profile rbd pool=x"]"#;
    let create = |entity: &str, more: &str| format!(r#"{{"prefix":"auth get-or-create","entity":"{entity}"{more}}}"#);
    let before = w.mon.auth.entities.len();
    for caps in ["profile bootstrap-rbd", r#"allow command "auth get-or-create" with entity prefix client. caps_mon="profile rbd""#] {
        let conn = w.open("client.b", caps);
        // The asker names what is demanded, and gives something else, or nothing.
        for more in [
            r#","caps":["mon","allow *"],"caps_mon":"profile rbd","caps_osd":"profile rbd""#,
            r#","caps_mon":"profile rbd","caps_osd":"profile rbd","caps":["mon","allow *"]"#,
            r#","caps_mon":"profile rbd","caps_osd":"profile rbd""#,
        ] {
            for entity in ["client.most", "client.admin"] {
                let (result, _, out) = w.command(conn, &create(entity, more));
                assert_eq!((result, out.as_str()), (EINVAL, ""), "{entity}{more} by '{caps}'");
            }
        }
        // Without capabilities: what is there has too many, and what isn't would have none.
        for entity in ["client.admin", "client.bootstrap-osd", "client.most"] {
            for more in ["", r#","caps":[]"#] {
                let (result, _, out) = w.command(conn, &create(entity, more));
                assert_eq!((result, out.as_str()), (EACCES, ""), "{entity}{more} by '{caps}'");
            }
        }
        assert_eq!(w.command(conn, &create("client.most", r#","caps":["mon","profile rbd","mon","allow *"]"#)).0, EACCES);
        assert_eq!(w.command(conn, &create("client.admin", &format!(",{images}"))).0, EINVAL, "it is there, with others");
        assert_eq!(w.command(conn, &create("osd.0", &format!(",{images}"))).0, EACCES);
        assert_eq!(w.mon.auth.entities.len(), before, "nobody was made");
    }
    let bootstrap = w.open("client.b", "profile bootstrap-rbd");
    let made = w.ok(bootstrap, &create("client.vm", &format!(",{images}")));
    assert!(made.contains("[client.vm]"), "{made}");
    assert_eq!(w.ok(bootstrap, &create("client.vm", &format!(",{images}"))), made);
    assert_eq!(w.ok(bootstrap, &create("client.vm", "")), made, "what the asker may make it may have again");
    // Nobody names a capability so, the administrator included.
    assert_eq!(w.command(admin, &create("client.c", r#","caps_mon":"allow r""#)).0, EINVAL);
    w.ok(admin, &create("client.c", r#","caps":["mon","allow r"]"#));
}

#[test]
fn constraints_of_a_capability_hold_whatever_an_asker_names() {
    what_is_made_has_what_may_be_made(&mut World::new());
}

/// What deployment tools ask with each bootstrap key works, and the same with more doesn't.
#[test]
fn bootstrap_keys_make_what_they_are_for() {
    let mut w = World::new();
    let table: &[(&str, &str, &[&str], &[&str])] = &[
        ("mds", "mds.a", &["osd", "allow rwx", "mds", "allow", "mon", "allow profile mds"], &["mgr", "allow *"]),
        ("mgr", "mgr.a", &["mon", "allow profile mgr", "osd", "allow *", "mds", "allow *"], &["mgr", "allow *"]),
        ("rgw", "client.rgw.a", &["osd", "allow rwx", "mon", "allow rw"], &["mds", "allow *"]),
        ("rbd", "client.img", &["mon", "profile rbd", "osd", "profile rbd pool=a, profile rbd-read-only pool=b"], &["mgr", "allow *"]),
        ("rbd-mirror", "client.rbd-mirror.a", &["mon", "profile rbd-mirror", "osd", "profile rbd"], &["mds", "allow *"]),
    ];
    for (profile, entity, caps, more) in table {
        let conn = w.open(&format!("client.bootstrap-{profile}"), &format!("allow profile bootstrap-{profile}"));
        let ask =
            |entity: &str, caps: &[&str]| serde_json::json!({"prefix": "auth get-or-create", "entity": entity, "caps": caps}).to_string();
        assert_eq!(w.command(conn, &ask(&format!("{entity}2"), &[*caps, *more].concat())).0, EACCES, "{profile}");
        assert_eq!(w.command(conn, &ask("client.admin", &[])).0, EACCES, "{profile}");
        w.ok(conn, &ask(entity, caps));
        w.ok(conn, r#"{"prefix":"mon getmap"}"#);
    }
    let osd = w.open("client.bootstrap-osd", "allow profile bootstrap-osd");
    w.ok(osd, r#"{"prefix":"osd new","uuid":"00000000-0000-4000-8000-000000000001"}"#);
    assert_eq!(w.command(osd, r#"{"prefix":"auth get-or-create","entity":"osd.7"}"#).0, EACCES);
}

/// The two tests above fail when their promise is broken.
#[test]
#[cfg(debug_assertions)]
fn planted_bugs_of_rights_are_noticed() {
    use mon_core::planted::{Bug, plant};
    let cases: [(Bug, fn(&mut World)); 2] =
        [(Bug::ManagerRunsAll, the_manager_knows_its_own), (Bug::TrustNamedCaps, what_is_made_has_what_may_be_made)];
    for (bug, test) in cases {
        let mut w = World::new();
        plant(Some(bug));
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mut w))).is_err();
        plant(None);
        assert!(failed, "{bug:?} is noticed");
    }
}
