//! Commands that only clusters of several monitors need, or few use: each has an answer. Weight-sets, primaries by hand, bounds of pools, XML.

mod common;
#[path = "common/world.rs"]
mod world;

use denc::Denc;
use maps::Placement;
use messages::{MOSDPGCreated, MPoolOp, MPoolOpReply, pool_op};
use serde_json::Value;
use types::PgId;
use world::World;

const ENOENT: i32 = -2;
const EBUSY: i32 = -16;
const EINVAL: i32 = -22;
const EPERM: i32 = -1;
const EOPNOTSUPP: i32 = -95;

fn cluster(osds: i32) -> (World, mon_core::ConnId) {
    let mut w = World::new();
    for id in 0..osds {
        w.osd(id);
    }
    let admin = w.open("client.admin", "allow *");
    (w, admin)
}

fn code(w: &mut World, conn: mon_core::ConnId, json: &str) -> i32 {
    w.command(conn, json).0
}

#[test]
fn weight_sets_move_groups_and_go_again() {
    let (mut w, admin) = cluster(3);
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":32,"size":1,"yes_i_really_mean_it":true}"#);
    let pool = w.mon.osd.map.pool_by_name("p").unwrap();
    let on_osd_0 = |w: &World| {
        let map = &w.mon.osd.map;
        let at = |seed| map.pg_to_up_acting(PgId::new(pool, seed), &mut Placement::default()).up_primary;
        (0..32).filter(|seed| at(*seed) == 0).count()
    };
    let before = on_osd_0(&w);
    assert!(before > 0);
    assert_eq!(code(&mut w, admin, r#"{"prefix":"osd crush weight-set reweight-compat","item":"osd.0","weight":[0.0]}"#), ENOENT);
    w.ok(admin, r#"{"prefix":"osd crush weight-set create-compat"}"#);
    assert_eq!(w.ok(admin, r#"{"prefix":"osd crush weight-set ls"}"#), "(compat)\n");
    assert_eq!(on_osd_0(&w), before);
    w.ok(admin, r#"{"prefix":"osd crush weight-set reweight-compat","item":"osd.0","weight":[0.0]}"#);
    assert_eq!(on_osd_0(&w), 0);
    // A pool's own counts before that of all.
    w.ok(admin, r#"{"prefix":"osd crush weight-set create","pool":"p","mode":"flat"}"#);
    assert_eq!(on_osd_0(&w), before);
    assert_eq!(code(&mut w, admin, r#"{"prefix":"osd crush weight-set reweight","pool":"p","item":"osd.0","weight":[1.0,1.0]}"#), EINVAL);
    assert_eq!(code(&mut w, admin, r#"{"prefix":"osd crush weight-set reweight","pool":"p","item":"osd.9","weight":[1.0]}"#), ENOENT);
    let dump: Value = serde_json::from_str(&w.ok(admin, r#"{"prefix":"osd crush weight-set dump","format":"json"}"#)).unwrap();
    let sets = |name: &str| dump[name].as_array().map_or(0, Vec::len);
    assert!(sets("-1") > 0 && sets(&pool.to_string()) == sets("-1"), "{dump}");
    assert!(dump["-1"].as_array().unwrap().iter().all(|one| one["bucket_id"].as_i64() < Some(0)), "{dump}");
    w.ok(admin, r#"{"prefix":"osd crush weight-set rm","pool":"p"}"#);
    assert_eq!(on_osd_0(&w), 0);
    w.ok(admin, r#"{"prefix":"osd crush weight-set rm-compat"}"#);
    assert_eq!((on_osd_0(&w), w.ok(admin, r#"{"prefix":"osd crush weight-set ls"}"#)), (before, String::new()));
}

#[test]
fn a_primary_is_named_by_hand() {
    let (mut w, admin) = cluster(3);
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":1,"size":2}"#);
    let pg = PgId::new(w.mon.osd.map.pool_by_name("p").unwrap(), 0);
    let at = |w: &World| w.mon.osd.map.pg_to_up_acting(pg, &mut Placement::default());
    let before = at(&w);
    let (second, other) = (before.up[1], (0..3).find(|osd| !before.up.contains(osd)).unwrap());
    let set = |osd: i32| format!(r#"{{"prefix":"osd pg-upmap-primary","pgid":"{pg}","id":{osd}}}"#);
    assert_eq!(code(&mut w, admin, &set(second)), EPERM);
    w.ok(admin, r#"{"prefix":"osd set-require-min-compat-client","version":"reef","yes_i_really_mean_it":true}"#);
    assert_eq!(code(&mut w, admin, &set(before.up_primary)), EINVAL);
    assert_eq!(code(&mut w, admin, &set(other)), EINVAL);
    w.ok(admin, &set(second));
    assert_eq!((at(&w).up_primary, at(&w).up.len()), (second, 2));
    w.ok(admin, &format!(r#"{{"prefix":"osd rm-pg-upmap-primary","pgid":"{pg}"}}"#));
    assert_eq!(at(&w).up_primary, before.up_primary);
    w.ok(admin, &set(second));
    w.ok(admin, r#"{"prefix":"osd rm-pg-upmap-primary-all"}"#);
    assert_eq!(at(&w).up_primary, before.up_primary);
}

#[test]
fn a_pool_stays_within_its_bounds() {
    let mut w = World::new();
    let osd = w.osd(0);
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let id = w.mon.osd.map.pool_by_name("p").unwrap();
    for seed in 0..8 {
        w.send(osd, &MOSDPGCreated { pgid: PgId::new(id, seed), ..MOSDPGCreated::default() });
    }
    w.ok(admin, r#"{"prefix":"osd pool set","pool":"p","var":"pg_num_min","val":"4"}"#);
    w.ok(admin, r#"{"prefix":"osd pool set","pool":"p","var":"pg_num_max","val":"16"}"#);
    for n in [2, 32] {
        let set = format!(r#"{{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"{n}"}}"#);
        assert_eq!(code(&mut w, admin, &set), EINVAL, "{n}");
    }
    w.ok(admin, r#"{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"16"}"#);
}

#[test]
fn snapshots_that_were_never_made_are_not_removed() {
    let (mut w, admin) = cluster(1);
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":1}"#);
    let (id, fsid) = (w.mon.osd.map.pool_by_name("p").unwrap(), w.mon.options.fsid);
    let mut result = |op, snapid| {
        w.send(admin, &MPoolOp { fsid, pool: id as u32, op, snapid, ..MPoolOp::default() });
        let reply = w.take::<MPoolOpReply>(admin).pop().unwrap();
        (reply.result, reply.response.map_or(0, |snap| u64::from_bytes(&snap).unwrap_or(0)))
    };
    assert_eq!(result(pool_op::DELETE_UNMANAGED_SNAP, 1).0, EOPNOTSUPP);
    let (_, snap) = result(pool_op::CREATE_UNMANAGED_SNAP, 0);
    assert_eq!(result(pool_op::DELETE_UNMANAGED_SNAP, snap + 7).0, ENOENT);
    assert_eq!(result(pool_op::DELETE_UNMANAGED_SNAP, snap).0, 0);
}

#[test]
fn one_monitor_answers_what_is_asked_of_several() {
    let (mut w, admin) = cluster(1);
    for (json, want) in [
        (r#"{"prefix":"mon ok-to-stop","ids":["a"]}"#, EBUSY),
        (r#"{"prefix":"mon ok-to-stop","ids":["b"]}"#, 0),
        (r#"{"prefix":"mon ok-to-rm","id":"a"}"#, EBUSY),
        (r#"{"prefix":"mon ok-to-add-offline"}"#, EBUSY),
        (r#"{"prefix":"mon scrub"}"#, 0),
        (r#"{"prefix":"mon enable-msgr2"}"#, 0),
        (r#"{"prefix":"mon set election_strategy","strategy":"classic"}"#, 0),
        (r#"{"prefix":"mon set election_strategy","strategy":"connectivity"}"#, EOPNOTSUPP),
        (r#"{"prefix":"mon set-rank","name":"a","rank":0}"#, 0),
        (r#"{"prefix":"mon set-weight","name":"z","weight":1}"#, ENOENT),
        (r#"{"prefix":"mon feature set","feature_name":"reef"}"#, EPERM),
        (r#"{"prefix":"mon set_new_tiebreaker","name":"a"}"#, EINVAL),
        (r#"{"prefix":"osd force_healthy_stretch_mode"}"#, EOPNOTSUPP),
        (r#"{"prefix":"mon disable_stretch_mode"}"#, EINVAL),
        (r#"{"prefix":"osd pool stretch show","pool":"p"}"#, EOPNOTSUPP),
        (r#"{"prefix":"osd pool stretch unset","pool":"p","crush_rule":"replicated_rule","size":1,"min_size":1}"#, EOPNOTSUPP),
        (r#"{"prefix":"osd pool availability-status"}"#, EOPNOTSUPP),
        (r#"{"prefix":"osd set-allow-crimson","yes_i_really_mean_it":true}"#, EOPNOTSUPP),
    ] {
        assert_eq!(code(&mut w, admin, json), want, "{json}");
    }
    let stretch = r#"{"prefix":"mon enable_stretch_mode","tiebreaker_mon":"a","new_crush_rule":"r","dividing_bucket":"host"}"#;
    let (result, status, _) = w.command(admin, stretch);
    assert!(result == EOPNOTSUPP && status.contains("stretch mode"), "{status}");
    for prefix in ["compact", "ops", "dump_historic_ops", "dump_historic_slow_ops", "connection scores dump", "connection scores reset"] {
        assert_eq!(w.tell(admin, &format!(r#"{{"prefix":"{prefix}"}}"#)).0, 0, "{prefix}");
    }
    assert_eq!(w.tell(admin, r#"{"prefix":"quorum exit"}"#).0, EOPNOTSUPP);
}

#[test]
fn settings_go_back_to_a_version() {
    let (mut w, admin) = cluster(1);
    let set = |w: &mut World, who: &str, value: &str| {
        w.ok(admin, &format!(r#"{{"prefix":"config set","who":"{who}","name":"osd_max_backfills","value":"{value}"}}"#));
    };
    let dump = |w: &mut World| w.ok(admin, r#"{"prefix":"config dump","format":"json"}"#);
    set(&mut w, "osd", "2");
    let (before, version) = (dump(&mut w), w.mon.config.version);
    set(&mut w, "osd", "3");
    set(&mut w, "osd/class:ssd", "4");
    w.ok(admin, r#"{"prefix":"config rm","who":"osd","name":"osd_max_backfills"}"#);
    let reset = |to: u64| format!(r#"{{"prefix":"config reset","num":{to}}}"#);
    assert_eq!(code(&mut w, admin, &reset(version + 9)), EINVAL);
    w.ok(admin, &reset(version));
    assert_eq!(dump(&mut w), before);
    w.restart();
    let admin = w.open("client.admin", "allow *");
    assert_eq!(w.ok(admin, r#"{"prefix":"config dump","format":"json"}"#), before);
}

#[test]
fn answers_have_the_form_that_is_asked_for() {
    let (mut w, admin) = cluster(1);
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":1}"#);
    let mut ask = |prefix: &str, format: &str| w.ok(admin, &format!(r#"{{"prefix":"{prefix}","format":"{format}"}}"#));
    assert_eq!(ask("osd pool ls", "xml"), "<pools><pool_name>p</pool_name></pools>");
    assert_eq!(ask("osd pool ls", "json"), r#"["p"]"#);
    assert_eq!(ask("osd pool ls", "xml-pretty"), "<pools>\n <pool_name>p</pool_name>\n</pools>\n\n");
    // Upstream's script of migrations looks for pools/pool/pool_id.
    let mut detail = |format: &str| w.ok(admin, &format!(r#"{{"prefix":"osd pool ls","detail":"detail","format":"{format}"}}"#));
    assert!(detail("xml").starts_with("<pools><pool><pool_id>1</pool_id><pool_name>p</pool_name>"), "{}", detail("xml"));
    assert!(detail("xml-pretty").starts_with("<pools>\n <pool>\n  <pool_id>1</pool_id>"), "{}", detail("xml-pretty"));
    let mut ask = |prefix: &str, format: &str| w.ok(admin, &format!(r#"{{"prefix":"{prefix}","format":"{format}"}}"#));
    assert!(ask("pg dump", "xml").contains("<pg_map>"));
    assert!(ask("osd dump", "xml").starts_with("<osdmap><epoch>") && ask("osd dump", "json").ends_with("}\n"));
    let version: Value = serde_json::from_str(&ask("version", "json")).unwrap();
    assert!(version.as_object().unwrap().len() == 1 && version["version"].as_str().unwrap().starts_with("ceph version"), "{version}");
    let told: Value = serde_json::from_str(&w.tell(admin, r#"{"prefix":"version","format":"json"}"#).2).unwrap();
    assert_eq!(told["release_type"], "stable");
}

/// Commands that answer in a form of their own, whatever is asked for.
const ONE_FORM: &[&str] = &["get_command_descriptions", "config generate-minimal-conf"];

/// Each command that reads and answers JSON, asked for XML: upstream's scripts read that.
#[test]
fn whatever_answers_json_answers_xml() {
    let (mut w, admin) = cluster(1);
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":1}"#);
    let mgr = w.open_at(mon_core::Endpoint::Mgr, "client.admin", cephx::AuthCapsInfo::all(), types::features::SUPPORTED);
    let table: Value = serde_json::from_str(&w.ok(admin, r#"{"prefix":"get_command_descriptions"}"#)).unwrap();
    let (mut tried, mut lacking) = (0, Vec::new());
    for row in table.as_object().unwrap().values().filter(|row| row["perm"] == "r") {
        let sig = row["sig"].as_array().unwrap();
        let prefix = sig.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        let mut request = serde_json::Map::from_iter([("prefix".to_string(), Value::from(prefix.clone()))]);
        for param in sig.iter().filter(|param| param.is_object() && param["req"] != false) {
            let value: Value = match (param["name"].as_str().unwrap(), param["type"].as_str().unwrap_or_default()) {
                (_, "CephChoices") => param["strings"].as_str().unwrap().split('|').next().into(),
                (_, "CephPoolname") => "p".into(),
                (_, "CephOsdName") => "osd.0".into(),
                (_, "CephPgid") => "1.0".into(),
                (_, "CephInt" | "CephFloat") => 0.into(),
                ("who" | "entity", _) => "client.admin".into(),
                (name, _) => name.into(),
            };
            request.insert(param["name"].as_str().unwrap().into(), if param["n"] == "N" { vec![value].into() } else { value });
        }
        let mut ask = |form: &str| {
            request.insert("format".into(), form.into());
            let text = Value::Object(request.clone()).to_string();
            let answers = [w.command(admin, &text), w.at_manager(mgr, false, &text), w.tell(admin, &text)];
            answers.into_iter().find(|(result, _, _)| *result == 0).map(|(_, _, data)| data)
        };
        let (Some(json), Some(xml)) = (ask("json"), ask("xml")) else { continue };
        let has_fields = serde_json::from_str::<Value>(&json).is_ok_and(|json| json.is_object() || json.is_array());
        if has_fields && !ONE_FORM.contains(&prefix.as_str()) {
            tried += 1;
            if !xml.starts_with('<') {
                lacking.push(prefix);
            }
        }
    }
    assert!(lacking.is_empty(), "{lacking:?}");
    assert!(tried >= 75, "{tried}");
}

/// Tools set and read them, so they are kept; an operator must not take the answer for an effect.
#[test]
fn a_setting_of_a_pool_that_has_no_effect_says_so() {
    let (mut w, admin) = cluster(1);
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":1}"#);
    for (var, val, is_heard) in [
        ("compression_mode", "aggressive", false),
        ("compression_algorithm", "zstd", false),
        ("csum_type", "xxhash64", false),
        ("dedup_chunk_algorithm", "fastcdc", false),
        ("noscrub", "true", true),
        ("scrub_min_interval", "600", true),
    ] {
        let (result, told, _) = w.command(admin, &format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{val}"}}"#));
        assert!(result == 0 && told.contains(&format!("{var} to {val}")), "{result}: {told}");
        assert_eq!(told.contains("has no effect"), !is_heard, "{told}");
    }
    let kept = w.ok(admin, r#"{"prefix":"osd pool get","pool":"p","var":"compression_mode","format":"json"}"#);
    assert!(kept.contains("aggressive"), "{kept}");
}
