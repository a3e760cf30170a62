//! Who may say what to the monitor and to the manager's endpoint: rights that hold whatever an asker names.

mod common;
#[path = "common/world.rs"]
mod world;

use cephx::AuthCapsInfo;
use messages::*;
use mon_core::{ConnId, Endpoint, Event, cmd::flag};
use std::collections::BTreeMap;
use types::{EntityText, features};
use world::World;

const EACCES: i32 = -13;
const EINVAL: i32 = -22;

fn at_manager(w: &mut World, caps: &str) -> ConnId {
    w.open_at(Endpoint::Mgr, "client.x", AuthCapsInfo::from_text(caps), features::SUPPORTED)
}
/// A prefix of the manager's that isn't served is another answer: it names itself.
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
    // Whoever has no right where it is learns of no command whether there is one.
    for caps in ["", "allow * network 10.0.0.0/8", "profile nosuch"] {
        let conn = at_manager(w, caps);
        for prefix in ["config-key get", "no such command"] {
            assert_eq!(w.at_manager(conn, false, &format!(r#"{{"prefix":"{prefix}"}}"#)).0, EACCES, "{prefix} by mgr '{caps}'");
        }
    }
    // What is said to the daemon is for who may do everything there.
    for (caps, known, unknown) in [("allow rwx", EACCES, EACCES), ("allow *", 0, EINVAL), ("allow * network 127.0.0.0/8", 0, EINVAL)] {
        let conn = at_manager(w, caps);
        assert_eq!(w.at_manager(conn, true, r#"{"prefix":"config show"}"#).0, known, "by mgr '{caps}'");
        assert_eq!(w.at_manager(conn, true, r#"{"prefix":"no such command"}"#).0, unknown, "by mgr '{caps}'");
    }
}

/// What is said to the monitor itself.
#[test]
fn the_monitor_itself_is_told_by_who_may_do_everything_with_it() {
    let mut w = World::new();
    for (caps, show, unknown) in [
        ("allow rw", EACCES, EACCES),
        ("allow r, allow * network 10.0.0.0/8", EACCES, EACCES),
        ("profile mgr", EACCES, EACCES),
        ("allow rwx", 0, EINVAL),
        ("allow service mon rwx", 0, EINVAL),
        ("allow r, allow * network 127.0.0.0/8", 0, EINVAL),
        (r#"allow command "config show""#, 0, EACCES),
        ("allow *", 0, EINVAL),
    ] {
        let conn = w.open("client.x", caps);
        assert_eq!(w.tell(conn, r#"{"prefix":"config show"}"#).0, show, "by mon '{caps}'");
        assert_eq!(w.tell(conn, r#"{"prefix":"no such command"}"#).0, unknown, "by mon '{caps}'");
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
                assert_eq!((result, out.as_str()), (EACCES, ""), "{entity}{more} by '{caps}'");
            }
        }
        // Whoever may make it is told that this is no way to say so.
        assert_eq!(w.command(conn, &create("client.most", &format!(r#","caps_mon":"profile rbd",{images}"#))).0, EINVAL);
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

/// What a client says at the manager's endpoint is its own, bounded, and ends with its session.
#[test]
fn a_client_registers_as_a_service_and_as_no_daemon() {
    let mut w = World::new();
    let osd = w.osd(0);
    let endpoint = |w: &mut World, name: &str| w.open_at(Endpoint::Mgr, name, AuthCapsInfo::default(), features::SUPPORTED);
    let about = |text: &str| Some(([("ceph_version".to_string(), text.to_string())].into(), BTreeMap::new()));
    let open = |service: &str, daemon: &str, text: &str| MMgrOpen {
        service_name: service.into(),
        daemon_name: daemon.into(),
        service: about(text),
        ..MMgrOpen::default()
    };
    let daemon = endpoint(&mut w, "osd.0");
    w.send(daemon, &MMgrOpen { daemon_name: "0".into(), service: about("true"), ..MMgrOpen::default() });
    let is_own = |w: &World| w.mon.manager.daemons["osd.0"].metadata["ceph_version"] == "true";
    assert!(is_own(&w));
    // In an OSD's name, by each message.
    let rogue = endpoint(&mut w, "client.x");
    w.send(rogue, &open("osd", "0", "forged"));
    w.send(rogue, &MMgrUpdate { service_name: "osd".into(), daemon_name: "0".into(), service: about("forged"), ..MMgrUpdate::default() });
    w.send(rogue, &MMgrReport { service_name: "osd".into(), daemon_name: "0".into(), ..MMgrReport::default() });
    w.send(rogue, &MMgrClose { service_name: "osd".into(), daemon_name: "0".into() });
    w.event(Event::Closed { conn: rogue });
    assert!(is_own(&w) && w.mon.manager.daemons.len() == 1);
    // A gateway is a service; another key is not that gateway; its row goes with its session, and the map forgets it when it stays away.
    let gateway = endpoint(&mut w, "client.rgw.a");
    w.send(gateway, &open("rgw", "a", "true"));
    assert!(w.mon.manager.daemons.contains_key("rgw.a") && w.mon.manager.services.map.services["rgw"].daemons.contains_key("a"));
    let rogue = endpoint(&mut w, "client.x");
    w.send(rogue, &open("rgw", "a", "forged"));
    w.send(rogue, &MMgrReport { service_name: "rgw".into(), daemon_name: "a".into(), ..MMgrReport::default() });
    w.send(rogue, &MMgrClose { service_name: "rgw".into(), daemon_name: "a".into() });
    assert_eq!(w.mon.manager.services.map.services["rgw"].daemons["a"].metadata["ceph_version"], "true");
    w.event(Event::Closed { conn: gateway });
    assert!(!w.mon.manager.daemons.contains_key("rgw.a"));
    // As many as one likes, as large as one likes.
    for i in 0..600 {
        w.send(rogue, &open("rgw", &format!("n{i}"), "x"));
    }
    w.send(rogue, &open("rgw", "large", &"x".repeat(100 << 10)));
    assert_eq!(w.mon.manager.daemons.len(), 1, "a session is one daemon at most");
    assert!(w.mon.manager.services.map.services["rgw"].daemons.len() <= 257);
    let epoch = w.mon.manager.services.map.epoch;
    w.event(Event::Tick);
    assert_eq!(w.mon.manager.services.map.epoch, epoch + 1, "all of it is one epoch");
    assert!(w.mon.sessions.contains_key(&osd));
}

/// Snapshots of a client that may write to a pool and no more: a burst is answered at once, a flood waits, and becomes few epochs.
#[test]
fn a_flood_of_snapshots_waits_and_all_are_answered() {
    let mut w = World::new();
    w.osd(0);
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":1}"#);
    w.ok(admin, r#"{"prefix":"auth get-or-create","entity":"client.w","caps":["mon","allow r","osd","allow rw pool=p"]}"#);
    let pool = w.mon.osd.pool_id("p").unwrap();
    let writer = w.open("client.w", "allow r");
    let fsid = w.mon.options.fsid;
    let m = MPoolOp { fsid, pool: pool as u32, op: pool_op::CREATE_UNMANAGED_SNAP, ..MPoolOp::default() };
    let before = w.mon.osd.epoch();
    for _ in 0..1400 {
        w.send(writer, &m);
    }
    let at_once = w.take::<MPoolOpReply>(writer);
    assert!((500..700).contains(&at_once.len()) && at_once.iter().all(|r| r.result == 0), "{}", at_once.len());
    let mut replies = at_once;
    for _ in 0..20 {
        w.now_ms += 1000;
        w.event(Event::Tick);
        replies.extend(w.take::<MPoolOpReply>(writer));
    }
    assert_eq!(replies.len(), 1400);
    let snaps: std::collections::BTreeSet<_> = replies.iter().map(|r| (r.result, r.response.clone().unwrap())).collect();
    assert_eq!(snaps.len(), 1400, "each is another number");
    assert!(w.mon.osd.epoch() - before < 730, "what waited became few epochs");
    // Beyond what may wait: an answer that says to come again.
    for _ in 0..1700 {
        w.send(writer, &m);
    }
    assert!(w.take::<MPoolOpReply>(writer).iter().any(|r| r.result == -11));
    // The administrator has no budget to keep, and nothing is left of a session that ended.
    w.send(admin, &m);
    assert_eq!(w.take::<MPoolOpReply>(admin).pop().unwrap().result, 0);
    w.event(Event::Closed { conn: writer });
    let at_end = w.mon.osd.epoch();
    w.event(Event::Tick);
    assert_eq!(w.mon.osd.epoch(), at_end);
}

/// Lines of the log are their sender's, of one line each, and hold nothing that steers a terminal.
#[test]
fn a_line_of_the_log_is_its_senders() {
    let mut w = World::new();
    let osd = w.osd(0);
    let admin = w.open("client.admin", "allow *");
    let fsid = w.mon.options.fsid;
    let entry = |channel: &str, text: &str| LogEntry {
        name: EntityText::parse("mon.a").unwrap(),
        channel: channel.into(),
        text: text.to_string().into(),
        level: log_level::ERROR,
        ..LogEntry::default()
    };
    let forged = "from='client.1 -' entity='client.admin' cmd=auth rm";
    let entries = vec![entry("audit", forged), entry("cluster", "a\nb\u{1b}[2J"), entry("cluster", &"x".repeat(1 << 20))];
    w.send(osd, &MLog { fsid, entries, ..MLog::default() });
    let shown = w.ok(admin, r#"{"prefix":"log last","num":10,"channel":"*"}"#);
    let line = shown.lines().find(|line| line.contains(forged)).expect("it is there");
    assert!(line.contains("osd.0") && line.contains(": cluster [ERR]") && !line.contains("mon.a"), "{line}");
    assert!(shown.contains(r"a\nb\u{1b}[2J") && !shown.contains('\u{1b}'), "{shown}");
    assert!(shown.len() < 64 << 10);
    // Names, in answers for people.
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p\u001b[2Jq","pg_num":1}"#);
    let listed = w.ok(admin, r#"{"prefix":"osd pool ls"}"#);
    assert!(listed.contains(r"p\u{1b}[2Jq") && !listed.contains('\u{1b}'), "{listed}");
    assert_eq!(w.ok(admin, r#"{"prefix":"osd pool ls","format":"json"}"#).trim(), "[\"p\\u001b[2Jq\"]");
}

#[test]
fn what_a_session_asks_to_hear_is_bounded() {
    let mut w = World::new();
    let reader = w.open("client.r", "allow r");
    for i in 0..2000 {
        w.subscribe(reader, &format!("mdsmap.{i}"), 100, 0);
    }
    w.subscribe(reader, &format!("mdsmap.{}", "x".repeat(1 << 20)), 100, 0);
    let session = &w.mon.sessions[&reader];
    assert!(session.subs.len() <= 256 && session.subs.keys().all(|name| name.len() < 2000));
    w.send(reader, &MMonSubscribe { hostname: "h".repeat(1 << 20), ..MMonSubscribe::default() });
    assert!(w.mon.sessions[&reader].hostname.len() < 256);
}

/// Tests of rights fail when their promise is broken.
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

/// A mode that is none would demand nothing, and one that asks for keys where there are none would let nobody in.
#[test]
fn encryption_is_demanded_in_words_that_can_be_met() {
    let mut w = World::new();
    let admin = w.open("client.admin", "allow *");
    let set = |w: &mut World, value: &str| {
        w.command(admin, &format!(r#"{{"prefix":"config set","who":"global","name":"ms_mon_service_mode","value":"{value}"}}"#))
    };
    for bad in ["sekure", "", "secure,on"] {
        let (result, status, _) = set(&mut w, bad);
        assert!(result == EINVAL && status.contains("crc, secure or both"), "{bad}: {result} {status}");
    }
    assert_eq!(set(&mut w, "secure").0, 0);
    assert_eq!(w.mon.option(Endpoint::Mon, "ms_mon_service_mode"), "secure");
    assert_eq!(w.mon.option(Endpoint::Mgr, "ms_mon_service_mode"), "secure");
    w.mon.options.cephx = false;
    assert_eq!(set(&mut w, "secure crc").0, 0);
    let (result, status, _) = set(&mut w, "secure");
    assert!(result == EINVAL && status.contains("no keys"), "{result} {status}");
}
