//! Numbers at their ends, in every command: the monitor answers, goes on, and starts from what it kept.

mod common;
#[path = "common/world.rs"]
mod world;

use bytes::Bytes;
use cephx::AuthCapsInfo;
use denc::Denc;
use maps::CrushMap;
use messages::*;
use mon_core::{ConnId, Endpoint, Event};
use serde_json::{Map, Value, json};
use types::features;
use world::World;

const NUMBERS: [&str; 20] = [
    "0",
    "1",
    "-1",
    "7",
    "127",
    "256",
    "65536",
    "65537",
    "1048576",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "-2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e308",
    "-1e308",
    "nan",
];

/// A world in which most commands have something to do.
struct Asked {
    w: World,
    mon: ConnId,
    mgr: ConnId,
}

impl Asked {
    fn new() -> Self {
        let mut w = World::new();
        w.osd(0);
        let mon = w.open("client.admin", "allow *");
        let mgr = w.open_at(Endpoint::Mgr, "client.admin", AuthCapsInfo::all(), features::SUPPORTED);
        for pool in ["p", "meta", "data"] {
            w.ok(mon, &format!(r#"{{"prefix":"osd pool create","pool":"{pool}","pg_num":2}}"#));
        }
        w.ok(mon, r#"{"prefix":"fs new","fs_name":"f","metadata":"meta","data":"data","force":true}"#);
        Self { w, mon, mgr }
    }
    /// Asks, and sees that there is an answer.
    fn ask(&mut self, at_manager: bool, request: &Value, input: &Bytes) -> i32 {
        let (fsid, cmd, data) = (self.w.mon.options.fsid, vec![request.to_string()], input.clone());
        if at_manager {
            self.w.send(self.mgr, &MMgrCommand { fsid, cmd, data, ..MMgrCommand::default() });
            return self.w.take::<MMgrCommandReply>(self.mgr).pop().unwrap_or_else(|| panic!("{request} is answered")).result;
        }
        self.w.send(self.mon, &MMonCommand { fsid, cmd, data, ..MMonCommand::default() });
        self.w.take::<MMonCommandAck>(self.mon).pop().unwrap_or_else(|| panic!("{request} is answered")).result
    }
    /// Time passes, and the monitor is what its store says.
    fn goes_on(&mut self, why: &str) {
        for _ in 0..3 {
            self.w.now_ms += 2000;
            self.w.event(Event::Tick);
        }
        assert_eq!(self.w.command(self.mon, r#"{"prefix":"status"}"#).0, 0, "after {why}");
        let map = self.w.mon.osd.map.clone();
        assert!(map.max_osd <= 10_000, "after {why}: room for {} OSDs", map.max_osd);
        self.w.restart();
        assert_eq!(self.w.mon.osd.map, map, "after {why}");
    }
}

/// What a parameter is given while another one has the number.
fn plausible(param: &Value) -> Value {
    let name = param["name"].as_str().unwrap();
    let text = match (name, param["type"].as_str().unwrap()) {
        (_, "CephBool") => return json!(true),
        (_, "CephChoices") => param["strings"].as_str().unwrap().split('|').next().unwrap(),
        (_, "CephUUID") => "00000000-0000-4000-8000-000000000007",
        (_, "CephPgid") => "1.0",
        (_, "CephEntityAddr" | "CephIPAddr") => "1.2.3.4:0/7",
        (_, "CephOsdName") | ("ids" | "id", _) => "0",
        ("fs_name" | "fs", _) => "f",
        ("entity", _) => "client.a",
        ("who", _) => "global",
        ("args", _) => "root=default",
        ("class", _) => "ssd",
        ("root" | "ancestor", _) => "default",
        ("type", _) => "host",
        (_, "CephPoolname") | ("pool" | "poolname" | "pool2" | "poolstr", _) => "p",
        (_, "CephInt" | "CephFloat") => "1",
        _ => "x",
    };
    if param["n"] == "N" { json!([text]) } else { json!(text) }
}

#[test]
fn numbers_at_their_ends_end_no_monitor() {
    let registry = Asked::new().w.mon.registry.clone();
    let mut asked = 0;
    for (command, sig) in registry.rows() {
        let sig_json = sig.to_json(features::SUPPORTED);
        let params: Vec<&Value> = sig_json.as_array().unwrap().iter().filter(|p| p.is_object()).collect();
        if params.is_empty() {
            continue;
        }
        let at_manager = command.flags & mon_core::cmd::flag::MGR != 0;
        let mut world = Asked::new();
        let base: Map<String, Value> = params.iter().map(|p| (p["name"].as_str().unwrap().to_string(), plausible(p))).collect();
        // A choice decides what the other values mean: each is asked.
        let choice = params.iter().find(|p| p["type"] == "CephChoices" && p["strings"].as_str().unwrap().contains('|'));
        let choices: Vec<&str> = choice.map_or(vec![""], |p| p["strings"].as_str().unwrap().split('|').collect());
        for chosen in choices {
            for param in params.iter().filter(|p| !matches!(p["type"].as_str().unwrap(), "CephBool" | "CephChoices" | "CephUUID")) {
                let name = param["name"].as_str().unwrap();
                // A text may be a number, too, and seldom is.
                let is_text = param["type"] == "CephString" && !matches!(name, "val" | "value" | "ids" | "weights");
                for number in NUMBERS.iter().step_by(if is_text { 3 } else { 1 }) {
                    let mut request = base.clone();
                    request.insert("prefix".into(), sig.prefix.clone().into());
                    if let Some(choice) = choice {
                        request.insert(choice["name"].as_str().unwrap().into(), chosen.into());
                    }
                    request.insert(name.into(), if param["n"] == "N" { json!([number]) } else { json!(number) });
                    world.ask(at_manager, &Value::Object(request), &Bytes::new());
                    asked += 1;
                }
                // The same where its form has a number inside.
                for text in [
                    "1.ffffffff",
                    "9223372036854775807.ffffffff",
                    "1.2.3.4:65536/4294967296",
                    "255.255.255.255/33",
                    "::/129",
                    "osd.4294967296",
                ] {
                    let mut request = base.clone();
                    request.insert("prefix".into(), sig.prefix.clone().into());
                    request.insert(name.into(), if param["n"] == "N" { json!([text]) } else { json!(text) });
                    world.ask(at_manager, &Value::Object(request), &Bytes::new());
                }
            }
        }
        world.goes_on(&sig.prefix);
    }
    assert!(asked > 5000, "{asked} were asked");
}

/// Every option of the monitor's and the manager's, at the ends of what is taken for it.
#[test]
fn options_at_their_ends_end_no_monitor() {
    let mut world = Asked::new();
    let mut taken = 0;
    for row in options::HEEDED.iter().filter(|row| row.by.split(',').any(|by| by == "mon" || by == "mgr")) {
        for number in NUMBERS.iter().chain(&["inf", "-inf", "1e9s", "99999999999w"]) {
            let set = json!({"prefix": "config set", "who": "global", "name": row.name, "value": number});
            if world.ask(false, &set, &Bytes::new()) != 0 {
                continue;
            }
            taken += 1;
            world.ask(false, &json!({"prefix": "osd pool create", "pool": format!("q{taken}")}), &Bytes::new());
            world.ask(false, &json!({"prefix": "osd down", "ids": ["0"]}), &Bytes::new());
            world.ask(true, &json!({"prefix": "osd test-reweight-by-utilization"}), &Bytes::new());
            world.ask(true, &json!({"prefix": "pg dump_stuck"}), &Bytes::new());
            world.w.event(Event::Tick);
            world.w.now_ms += 2000;
            world.w.event(Event::Tick);
        }
        world.ask(false, &json!({"prefix": "config rm", "who": "global", "name": row.name}), &Bytes::new());
        world.mon = world.w.open("client.admin", "allow *");
    }
    assert!(taken > 100, "{taken} were taken");
    world.w.restart();
}

#[test]
fn a_number_beyond_the_maps_room_is_refused() {
    let mut w = World::new();
    let bootstrap = w.open("client.bootstrap-osd", "allow profile bootstrap-osd");
    let admin = w.open("client.admin", "allow *");
    let uuid = "00000000-0000-4000-8000-00000000000a";
    for id in ["10000", "1048575", "1048576", "2147483646", "2147483647"] {
        let (result, status, _) = w.command(bootstrap, &format!(r#"{{"prefix":"osd new","uuid":"{uuid}","id":"{id}"}}"#));
        assert_eq!((result, status.contains("mon_max_osd")), (-22, true), "{status}");
        assert_eq!(w.command(admin, &format!(r#"{{"prefix":"osd create","uuid":"{uuid}","id":"{id}"}}"#)).0, -22);
        assert!(!w.mon.auth.entities.contains_key(&types::EntityText::parse(&format!("osd.{id}")).unwrap()));
    }
    assert_eq!(w.command(admin, r#"{"prefix":"osd setmaxosd","newmax":10001}"#).0, -34);
    w.ok(admin, r#"{"prefix":"config set","who":"mon","name":"mon_max_osd","value":"20"}"#);
    assert_eq!(w.command(admin, r#"{"prefix":"osd setmaxosd","newmax":21}"#).0, -34);
    w.ok(bootstrap, &format!(r#"{{"prefix":"osd new","uuid":"{uuid}","id":"19"}}"#));
    assert_eq!(w.mon.osd.map.max_osd, 20);
    w.restart();
}

/// A map that is whole as a file and would not be as a cluster's.
#[test]
fn a_crush_map_that_can_not_be_kept_is_refused() {
    let mut w = World::new();
    w.osd(0);
    w.osd(1);
    let admin = w.open("client.admin", "allow *");
    let fsid = w.mon.options.fsid;
    let set = |w: &mut World, map: &CrushMap| {
        let cmd = vec![r#"{"prefix":"osd setcrushmap"}"#.to_string()];
        w.send(admin, &MMonCommand { fsid, cmd, data: map.to_bytes(features::SUPPORTED), ..MMonCommand::default() });
        let ack = w.take::<MMonCommandAck>(admin).pop().expect("a command is answered");
        (ack.result, ack.status)
    };
    let before = (*w.mon.osd.map.crush).clone();
    let change = |edit: &dyn Fn(&mut CrushMap)| {
        let mut map = before.clone();
        edit(&mut map);
        map
    };
    let tree = |items: usize| {
        change(&|map: &mut CrushMap| {
            let root = map.buckets[0].as_mut().unwrap();
            root.weights = crush::Weights::Tree { node_weights: Vec::new() };
            root.set_content(&vec![(-2, 0x10000); items]);
        })
    };
    assert_eq!(set(&mut w, &tree(64)).0, 0);
    // What is in the map already grows past its room.
    let grow = r#"{"prefix":"osd crush add-bucket","name":"h65","type":"host","args":["root=default"]}"#;
    let (result, status, _) = w.command(admin, grow);
    assert_eq!(result, -22, "{status}");
    assert!(status.contains("64"), "{status}");
    for (what, map) in [
        ("a tree of 65", tree(65)),
        ("a tree of 130", tree(130)),
        ("a device with the last number", change(&|m| drop(m.names.insert(0x7fff_fff0, "osd.far".into())))),
        ("a type with a number that no bucket can have", change(&|m| m.buckets[0].as_mut().unwrap().kind = 0)),
    ] {
        let (result, status) = set(&mut w, &map);
        assert!(result < 0, "{what}: {result} {status}");
    }
    assert_eq!(set(&mut w, &before).0, 0);
    let last = change(&|m| drop(m.class_names.insert(i32::MAX, "last".into())));
    assert_eq!(set(&mut w, &last).0, 0);
    assert_eq!(w.command(admin, r#"{"prefix":"osd crush class create","class":"more"}"#).0, -28);
    assert_eq!(w.command(admin, r#"{"prefix":"fsid"}"#).0, 0);
    w.restart();
}
