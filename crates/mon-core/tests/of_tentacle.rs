//! Commands that 20.2 added: each is served, or refused by its name.

mod common;
#[path = "common/world.rs"]
mod world;

use messages::MPGStats;
use mon_core::{ConnId, Endpoint};
use serde_json::{Value, json};
use types::{PgId, features};
use world::World;

const ENOENT: i32 = -2;
const EAGAIN: i32 = -11;
const EBUSY: i32 = -16;
const EINVAL: i32 = -22;
const EOPNOTSUPP: i32 = -95;

fn admin(w: &mut World) -> ConnId {
    w.open("client.admin", "allow *")
}

/// Words that the `ceph` command line takes itself: it speaks to the daemon then.
const OF_THE_COMMAND_LINE: &[&str] = &["tell"];

/// The names of all commands that a stock monitor and manager of 20.2 describe. Some find nothing to do without arguments; none is unknown.
#[test]
fn each_command_of_stock_is_known() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/commands/tentacle.txt");
    let names = std::fs::read_to_string(path).unwrap();
    let mut w = World::new();
    w.osd(0);
    let unknown: Vec<&str> = names
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !OF_THE_COMMAND_LINE.contains(line))
        .filter(|name| {
            let request = json!({"prefix": name}).to_string();
            // A command may end sessions: each gets its own.
            let (mon, mgr) = (admin(&mut w), w.open_at(Endpoint::Mgr, "client.admin", cephx::AuthCapsInfo::all(), features::SUPPORTED));
            let answers = [w.command(mon, &request), w.tell(mon, &request), w.at_manager(mgr, false, &request)];
            answers.iter().all(|(_, status, _)| status == "command not known")
        })
        .collect();
    assert!(names.lines().count() > 350, "{} names", names.lines().count());
    assert!(unknown.is_empty(), "{} are unknown: {unknown:?}", unknown.len());
}

#[test]
fn osds_show_how_full_they_are_and_what_they_do() {
    let mut w = World::new();
    w.osd(0);
    w.osd(1);
    let admin = admin(&mut w);
    let said: Value = serde_json::from_str(&w.ok(admin, r#"{"prefix":"osd status","format":"json"}"#)).unwrap();
    let due = json!({
        "id": 0, "host name": "", "kb used": 0, "kb available": 0, "write ops rate": 0.0, "write byte rate": 0.0, "read ops rate": 0.0,
        "read byte rate": 0.0, "state": ["exists", "up"],
    });
    assert_eq!((&said["OSDs"][0], said["OSDs"].as_array().unwrap().len()), (&due, 2));
    assert!(w.ok(admin, r#"{"prefix":"osd status","bucket":"h"}"#).starts_with("ID  HOST"));
    assert_eq!(w.command(admin, r#"{"prefix":"osd status","bucket":"none"}"#).0, ENOENT);
}

/// Three OSDs on one host, and a pool of three copies of which nothing is reported yet.
fn with_three_copies() -> (World, ConnId) {
    let mut w = World::new();
    for id in 0..3 {
        w.osd(id);
    }
    let admin = admin(&mut w);
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":4,"size":3}"#);
    (w, admin)
}

/// Groups on all three OSDs, active and clean.
fn report(w: &mut World) {
    let conn = w.open_at(Endpoint::Mgr, "osd.0", cephx::AuthCapsInfo::all(), features::SUPPORTED);
    let (fsid, epoch) = (w.mon.options.fsid, w.mon.osd.epoch());
    let pool = w.mon.osd.map.pool_by_name("p").unwrap();
    let mut stats = MPGStats { fsid, epoch, ..MPGStats::default() };
    for seed in 0..4 {
        let mut stat = w.stat(&[]);
        (stat.acting, stat.up, stat.acting_primary, stat.up_primary) = (vec![0, 1, 2], vec![0, 1, 2], 0, 0);
        stats.pg_stat.insert(PgId::new(pool, seed), stat);
    }
    w.send(conn, &stats);
}

fn ok_to_upgrade(w: &mut World, admin: ConnId, bucket: &str, version: &str, max: i64) -> (i32, String, Value) {
    let request = json!({"prefix": "osd ok-to-upgrade", "crush_bucket": bucket, "ceph_version": version, "max": max, "format": "json"});
    let (result, status, data) = w.command(admin, &request.to_string());
    (result, status, serde_json::from_str(&data).unwrap_or(Value::Null))
}

/// All OSDs say that version.
fn all_are_of(w: &mut World, version: &str) {
    w.mon.osd.metadata.values_mut().for_each(|about| drop(about.insert("ceph_version_short".into(), version.into())));
}

#[test]
fn osds_that_can_be_updated_together_are_named() {
    let (mut w, admin) = with_three_copies();
    let ask = ok_to_upgrade;
    for (bucket, version, max, errno, words) in [
        ("none", "20.2.4", 0, ENOENT, "does not exist"),
        ("default", "20.2.4", 0, EINVAL, "valid types are: 'rack', 'chassis', 'host' and 'osd'"),
        ("h", "garbage", 0, EINVAL, "Invalid Ceph version (short) format"),
        ("h", "20.2.4", -3, EINVAL, "'max' must be non-negative"),
    ] {
        let (result, status, _) = ask(&mut w, admin, bucket, version, max);
        assert!(result == errno && status.contains(words), "{bucket} {version} {max}: {result} {status}");
    }
    w.ok(admin, r#"{"prefix":"osd crush add-bucket","name":"empty","type":"rack"}"#);
    let (result, status, _) = ask(&mut w, admin, "empty", "20.2.4", 0);
    assert!(result == ENOENT && status.contains("has no children"), "{status}");

    // An OSD that never said its version is looked at first.
    report(&mut w);
    let (result, _, said) = ask(&mut w, admin, "h", "20.2.4", 0);
    assert_eq!((result, &said["bad_no_version"], &said["ok_to_upgrade"]), (EINVAL, &json!([0, 1, 2]), &json!(false)));
    all_are_of(&mut w, "18.2.7");
    // min_size of three copies is 2: one may go, and the bucket of one OSD is that OSD.
    let (result, status, said) = ask(&mut w, admin, "h", "20.2.4", 0);
    assert_eq!(result, 0, "{status}");
    assert_eq!(
        said,
        json!({"ok_to_upgrade": true, "all_osds_upgraded": false, "osds_in_crush_bucket": [0, 1, 2], "osds_ok_to_upgrade": [0],
               "osds_upgraded": [], "bad_no_version": []})
    );
    assert_eq!(ask(&mut w, admin, "osd.1", "20.2.4", 0).2["osds_ok_to_upgrade"], json!([1]));
    w.ok(admin, r#"{"prefix":"osd pool set","pool":"p","var":"min_size","val":"1"}"#);
    report(&mut w);
    assert_eq!(ask(&mut w, admin, "h", "20.2.4", 0).2["osds_ok_to_upgrade"], json!([0, 1]));
    assert_eq!(ask(&mut w, admin, "h", "20.2.4", 1).2["osds_ok_to_upgrade"], json!([0]));
    w.ok(admin, r#"{"prefix":"osd pool set","pool":"p","var":"min_size","val":"3"}"#);
    report(&mut w);
    let (result, status, said) = ask(&mut w, admin, "h", "20.2.4", 0);
    assert!(result == EBUSY && status.contains("at least 4 PG(s)"), "{result} {status}");
    assert_eq!((&said["ok_to_upgrade"], &said["osds_ok_to_upgrade"]), (&json!(false), &json!([])));
    // Those that are of the version already are not named, and all of them is no error.
    let (result, _, said) = ask(&mut w, admin, "h", "18.2.7", 0);
    assert_eq!((result, &said["all_osds_upgraded"], &said["osds_upgraded"]), (0, &json!(true), &json!([0, 1, 2])));
}

#[test]
fn groups_of_which_nothing_is_known_let_no_osd_go() {
    let (mut w, admin) = with_three_copies();
    all_are_of(&mut w, "18.2.7");
    let (result, status, _) = ok_to_upgrade(&mut w, admin, "h", "20.2.4", 0);
    assert!(result == EAGAIN && status.contains("unknown"), "{result} {status}");
}

#[test]
fn new_keys_are_of_the_type_that_is_preferred() {
    let mut w = World::new();
    let admin = admin(&mut w);
    let set =
        |w: &mut World, name: &str, value: &str| w.command(admin, &json!({"prefix": "mon set", "name": name, "value": value}).to_string());
    let kind = |w: &mut World, name: &str| {
        w.ok(admin, &json!({"prefix": "auth get-or-create", "entity": name}).to_string());
        let name = types::EntityText::parse(name).unwrap();
        w.mon.auth.entities[&name].key.kind
    };
    assert_eq!(kind(&mut w, "client.before"), cephx::KeyType::AES);
    assert_eq!(set(&mut w, "auth_preferred_cipher", "aes256k").0, 0);
    assert_eq!(kind(&mut w, "client.after"), cephx::KeyType::AES256K);
    w.restart();
    let admin = self::admin(&mut w);
    w.ok(admin, r#"{"prefix":"auth get-or-create","entity":"client.later"}"#);
    assert_eq!(w.mon.auth.entities[&types::EntityText::parse("client.later").unwrap()].key.kind, cephx::KeyType::AES256K);
    for (name, value, want) in [
        ("auth_preferred_cipher", "rot13", EINVAL),
        ("auth_preferred_cipher", "aes,aes256k", EINVAL),
        ("auth_allowed_ciphers", "aes, aes256k", 0),
        ("auth_allowed_ciphers", "aes256k", EOPNOTSUPP),
        ("auth_service_cipher", "aes", 0),
        ("auth_service_cipher", "aes256k", EOPNOTSUPP),
        ("auth_nothing", "aes", EINVAL),
    ] {
        let (result, status, _) = w.command(admin, &json!({"prefix": "mon set", "name": name, "value": value}).to_string());
        assert_eq!(result, want, "{name} {value}: {status}");
    }
}

/// Types and times of all keys, and no secret.
#[test]
fn keys_are_shown_with_their_types_and_no_secret() {
    let mut w = World::new();
    let admin = admin(&mut w);
    w.ok(admin, r#"{"prefix":"auth get-or-create","entity":"client.k","caps":["mon","allow r"],"key_type":"aes256k"}"#);
    let text = w.ok(admin, r#"{"prefix":"auth dump-keys","format":"json"}"#);
    let data = serde_json::from_str::<Value>(&text).unwrap()["data"].take();
    let fields: Vec<&str> = data.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["version", "rotating_version", "secrets", "rotating_secrets"]);
    let holder = data["secrets"].as_array().unwrap().iter().find(|one| one["entity"]["id"] == "k").unwrap();
    let created = holder["auth"]["key"]["created"].clone();
    assert!(created.as_str().unwrap().starts_with("2023-11-14T"), "{created}");
    let due = json!({
        "entity": {"type": 8, "type_str": "client", "id": "k"},
        "auth": {
            "key": {"type": 2, "type_str": "aes256k", "created": created},
            "pending_key": {"type": 0, "type_str": "none", "created": "0.000000"},
            "caps": [{"service_name": "mon", "access_spec": "allow r"}],
        },
    });
    assert_eq!(*holder, due);
    assert!(data["secrets"].as_array().unwrap().iter().all(|one| one["entity"]["type_str"] != "mon"), "{data}");
    let kinds: Vec<&Value> = data["rotating_secrets"].as_array().unwrap().iter().map(|one| &one["entity"]["type_str"]).collect();
    assert_eq!(kinds, ["mon", "mds", "osd", "mgr", "auth"]);
    let of_osds = &data["rotating_secrets"][2]["secrets"];
    assert_eq!((&of_osds["max_ver"], of_osds["keys"].as_array().unwrap().len()), (&json!(3), 3));
    assert!(of_osds["keys"][0]["expiring_key"]["expiration"].is_string(), "{of_osds}");
    for key in w.mon.auth.entities.values().map(|e| e.key.to_base64()) {
        assert!(!text.contains(&key), "a secret is shown");
    }
    // It shows who there is: as with stock, not for everybody that may read.
    let reader = w.open("client.r", "allow r");
    assert_eq!(w.command(reader, r#"{"prefix":"auth dump-keys"}"#).0, -13);
}
