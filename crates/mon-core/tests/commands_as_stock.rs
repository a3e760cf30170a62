//! Every step of the script of `ceph` commands (`suites/src/commands.rs`) through the command framework, held against what a stock 18.2
//! cluster answered (`fixtures/commands/reef.json`), by the rules of `suites/src/compare.rs`.
//!
//! Words become requests the way the `ceph` command line makes them: by the descriptions that the monitor itself gives out. An OSD is
//! played: it boots, and reports its groups as active and clean after every step. Steps that ask an OSD (`tell osd.N`) are left out.

#[path = "../../../suites/src/commands.rs"]
#[allow(dead_code)]
mod script;

use base::{Clock, Rng, Stamp};
use bytes::Bytes;
use cephx::AuthCapsInfo;
use messages::{MCommand, MCommandReply, MMonCommand, MMonCommandAck, MOSDBoot, MPGStats, Message, RawMessage};
use mon_core::{ConnId, Effect, Endpoint, Event, Mon, MonOptions, NewCluster, PeerInfo, Snapshot, mkfs};
use script::{SCRIPT, Step, Want};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::osd_stat::{OsdStat, StoreStatfs};
use types::pg_stat::{PgStat, pg_state};
use types::{AddrType, EntityAddr, EntityAddrVec, EntityText, PgId, UTime, Uuid, features};

const CLIENT: ConnId = ConnId(1);
const CLIENT_AT_MGR: ConnId = ConnId(2);
const OSD: ConnId = ConnId(3);
const OSD_AT_MGR: ConnId = ConnId(4);

struct Cluster {
    mon: Mon,
    seconds: u64,
    reports: u64,
    descriptions: Vec<Vec<Value>>,
    at_mgr: Vec<Vec<Value>>,
}

struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
}

fn addrs(port: u16) -> EntityAddrVec {
    let addr = |kind: &str, port| EntityAddr::parse(&format!("{kind}:127.0.0.1:{port}/7"), AddrType::MSGR2).unwrap();
    EntityAddrVec(vec![addr("v2", port), addr("v1", port + 1)])
}

impl Cluster {
    fn new() -> Self {
        let fsid = Uuid::parse("de3b0f1e-ade7-4dcd-9ad6-e7b816f50df5").unwrap();
        let mut rng = Rng::new(5);
        let new = NewCluster {
            fsid,
            mon_addrs: addrs(3300),
            failure_domain: "osd".into(),
            osds: 1,
            key_type: cephx::KeyType::AES,
            config: [("osd_pool_default_size", "1"), ("mon_allow_pool_delete", "true"), ("mon_allow_pool_size_one", "true")]
                .iter()
                .map(|(k, v)| ("global".to_string(), k.to_string(), v.to_string()))
                .collect(),
        };
        let (batch, _) = mkfs(&new, UTime { sec: 1_795_256_842, nsec: 0 }, &mut rng);
        let mut snapshot = Snapshot::default();
        snapshot.apply(&batch);
        let metadata: BTreeMap<String, String> =
            [("hostname", "vm"), ("ceph_version_short", "18.2.7")].map(|(k, v)| (k.to_string(), v.to_string())).into();
        let options = MonOptions { fsid, mon_addrs: addrs(3300), mgr_addrs: addrs(6800), cephx: true, metadata };
        let mon = Mon::load(&snapshot, options, Box::new(rng), clock(0)).unwrap();
        let mut cluster = Self { mon, seconds: 0, reports: 0, descriptions: Vec::new(), at_mgr: Vec::new() };
        for (conn, endpoint, name) in [
            (CLIENT, Endpoint::Mon, "client.admin"),
            (CLIENT_AT_MGR, Endpoint::Mgr, "client.admin"),
            (OSD, Endpoint::Mon, "osd.0"),
            (OSD_AT_MGR, Endpoint::Mgr, "osd.0"),
        ] {
            let peer = PeerInfo {
                entity: EntityText::parse(name).unwrap(),
                global_id: conn.0,
                caps: AuthCapsInfo::all(),
                addrs: addrs(6810),
                from: addrs(6810).front(),
                features: features::SUPPORTED,
                handshake: Default::default(),
            };
            cluster.event(Event::Open { conn, endpoint, peer: Box::new(peer) });
        }
        for (endpoint, conn) in [("mon", CLIENT), ("mgr", CLIENT_AT_MGR)] {
            let (_, _, data) = cluster.send(conn, false, &json!({"prefix": "get_command_descriptions"}));
            let all: Map<String, Value> = serde_json::from_slice(&data).unwrap();
            // As the monitor's are fetched, those of the manager are known to belong there by their flag.
            let sigs = all.values().filter(|c| endpoint == "mgr" || c["flags"].as_u64().unwrap() & 8 == 0);
            let sigs = sigs.map(|c| c["sig"].as_array().unwrap().clone()).collect();
            *(if endpoint == "mon" { &mut cluster.descriptions } else { &mut cluster.at_mgr }) = sigs;
        }
        cluster.boot(fsid);
        // The recorded cluster had made and removed two pools before.
        for pool in ["a", "b"] {
            cluster.ceph(&format!("osd pool create {pool} 8"), false);
            cluster.report();
            cluster.ceph(&format!("osd pool rm {pool} {pool} --yes-i-really-really-mean-it"), false);
        }
        cluster.report();
        cluster
    }

    fn boot(&mut self, cluster_fsid: Uuid) {
        let uuid = "4775bd1f-ccea-4530-8bd0-5a34810f7bd8";
        for request in [
            json!({"prefix": "osd new", "uuid": uuid, "id": 0}),
            json!({"prefix": "osd crush create-or-move", "id": 0, "weight": 0.0078, "args": ["host=vm", "root=default"]}),
            json!({"prefix": "osd crush set-device-class", "class": "hdd", "ids": ["0"]}),
        ] {
            let (code, status, _) = self.send(CLIENT, false, &request);
            assert_eq!(code, 0, "{request}: {status}");
        }
        let metadata = [("hostname", "vm"), ("container_name", "c"), ("ceph_version", mon_core::CEPH_VERSION)];
        let mut boot =
            MOSDBoot { cluster_addrs: addrs(6812), hb_back_addrs: addrs(6814), hb_front_addrs: addrs(6816), ..MOSDBoot::default() };
        boot.osd_features = features::SUPPORTED;
        boot.metadata = metadata.map(|(k, v)| (k.to_string(), v.to_string())).into();
        boot.superblock.cluster_fsid = cluster_fsid;
        boot.superblock.osd_fsid = Uuid::parse(uuid).unwrap();
        boot.superblock.whoami = 0;
        self.event(Event::Message { conn: OSD, message: boot.encode(features::SUPPORTED) });
        assert!(self.mon.osd.map.is_up(0), "the OSD that is played is up");
        self.report();
    }

    fn event(&mut self, event: Event) -> Vec<(ConnId, RawMessage)> {
        let mut effects = Vec::new();
        self.mon.handle(event, clock(self.seconds), &mut effects);
        let sent = effects.into_iter().filter_map(|e| match e {
            Effect::Send { conn, message } => Some((conn, message)),
            _ => None,
        });
        sent.collect()
    }

    /// Time goes on, and the OSD says that all its groups are well.
    fn report(&mut self) {
        self.seconds += 1;
        self.reports += 1;
        let map = &self.mon.osd.map;
        let mut stats = MPGStats { fsid: map.fsid, epoch: map.epoch, ..MPGStats::default() };
        for (pool, p) in &map.pools {
            for seed in 0..p.pg_num {
                let stat = PgStat {
                    state: pg_state::ACTIVE | pg_state::CLEAN,
                    reported_seq: self.reports,
                    reported_epoch: map.epoch,
                    up: vec![0],
                    acting: vec![0],
                    up_primary: 0,
                    acting_primary: 0,
                    ..PgStat::default()
                };
                stats.pg_stat.insert(PgId::new(*pool, seed), stat);
            }
        }
        let statfs = StoreStatfs { total: 8 << 30, available: (8 << 30) - 25_695, ..StoreStatfs::default() };
        let num_pgs = stats.pg_stat.len() as u32;
        stats.osd_stat = OsdStat { statfs, num_pgs, seq: self.reports, num_osds: 1, ..OsdStat::default() };
        self.event(Event::Message { conn: OSD_AT_MGR, message: stats.encode(features::SUPPORTED) });
        self.event(Event::Tick);
    }

    /// To the cluster, or to the daemon itself.
    fn send(&mut self, conn: ConnId, told: bool, request: &Value) -> (i32, String, Bytes) {
        let cmd = vec![request.to_string()];
        let fsid = self.mon.options.fsid;
        if conn == CLIENT && !told {
            let m = MMonCommand { tid: 9, data: Bytes::new(), paxos: Default::default(), fsid, cmd };
            let sent = self.event(Event::Message { conn, message: m.encode(features::SUPPORTED) });
            let (_, ack) = sent.iter().find(|(c, m)| *c == conn && m.kind == MMonCommandAck::KIND).expect("an answer");
            let ack = MMonCommandAck::decode(ack).unwrap();
            return (ack.result, ack.status, ack.data);
        }
        let m = MCommand { tid: 9, data: Bytes::new(), fsid, cmd };
        let sent = self.event(Event::Message { conn, message: m.encode(features::SUPPORTED) });
        let (_, reply) = sent.iter().find(|(c, m)| *c == conn && m.kind == MCommandReply::KIND).expect("an answer");
        let reply = MCommandReply::decode(reply).unwrap();
        (reply.result, reply.status, reply.data)
    }

    /// What the `ceph` command line does with some words.
    fn ceph(&mut self, line: &str, as_json: bool) -> Answer {
        let mut words = words(line);
        if words == ["-s"] {
            words = vec!["status".into()];
        }
        let told = words.starts_with(&["tell".into(), "mon.a".into()]);
        if told {
            words.drain(..2);
        }
        let by_length = |sigs: &[Vec<Value>]| {
            let mut found: Vec<(usize, Map<String, Value>)> = sigs.iter().filter_map(|sig| request(sig, &words)).collect();
            found.sort_by_key(|(literal, _)| *literal);
            found.pop()
        };
        let (conn, request) = match (by_length(&self.at_mgr), by_length(&self.descriptions)) {
            (Some((a, request)), Some((b, _))) if a > b => (CLIENT_AT_MGR, request),
            (Some((_, request)), None) => (CLIENT_AT_MGR, request),
            (_, Some((_, request))) => (CLIENT, request),
            (None, None) => return Answer { code: 22, stdout: String::new(), stderr: "no valid command found".into() },
        };
        let mut request = request;
        if as_json {
            request.insert("format".into(), json!("json"));
        }
        let (result, status, data) = self.send(conn, told, &Value::Object(request));
        let stderr = match -result {
            0 => status,
            n => format!(
                "Error {}: {status}",
                [(1, "EPERM"), (2, "ENOENT"), (13, "EACCES"), (16, "EBUSY"), (22, "EINVAL")]
                    .iter()
                    .find(|(e, _)| *e == n)
                    .map_or("E?", |(_, s)| s)
            ),
        };
        Answer { code: -result, stdout: String::from_utf8_lossy(&data).into_owned(), stderr }
    }
}

fn clock(seconds: u64) -> Clock {
    let ns = (100 + seconds) * 1_000_000_000;
    Clock { mono: Stamp(ns), wall_ns: 1_795_256_842_000_000_000 + ns }
}

fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(i, part)| if i % 2 == 1 { vec![part.to_string()] } else { part.split_whitespace().map(String::from).collect() })
        .collect()
}

/// Words as a request of one signature, with how many of them were its literals; none if they don't fit.
fn request(sig: &[Value], words: &[String]) -> Option<(usize, Map<String, Value>)> {
    let literals: Vec<&str> = sig.iter().filter_map(Value::as_str).collect();
    if words.len() < literals.len() || literals.iter().zip(words).any(|(l, w)| l != w) {
        return None;
    }
    let mut out = Map::new();
    out.insert("prefix".into(), json!(literals.join(" ")));
    let (flags, rest): (Vec<String>, Vec<String>) = words[literals.len()..].iter().cloned().partition(|w| w.starts_with("--"));
    let mut rest = rest.into_iter().peekable();
    for param in sig.iter().filter(|p| p.is_object()) {
        let name = param["name"].as_str()?;
        if param["type"] == "CephBool" {
            if flags.iter().any(|f| f[2..].replace('-', "_") == name) {
                out.insert(name.into(), json!(true));
            }
            continue;
        }
        let required = param["req"] != json!(false);
        if param["n"] == "N" {
            let mut all = Vec::new();
            while rest.peek().is_some_and(|w| fits(param, w)) {
                all.extend(rest.next());
            }
            if all.is_empty() && required {
                return None;
            }
            if !all.is_empty() {
                out.insert(name.into(), json!(all));
            }
            continue;
        }
        match rest.peek() {
            Some(word) if fits(param, word) => {
                let word = rest.next()?;
                let value = if param["type"] == "CephInt" { json!(word.parse::<i64>().ok()?) } else { json!(word) };
                out.insert(name.into(), value);
            }
            _ if required => return None,
            _ => {}
        }
    }
    if rest.next().is_some() { None } else { Some((literals.len(), out)) }
}

fn fits(param: &Value, word: &str) -> bool {
    let good = |class: &str| {
        let class: Vec<char> = class.trim_matches(['[', ']']).chars().collect();
        word.chars().all(|c| {
            let mut i = 0;
            while i < class.len() {
                if i + 2 < class.len() && class[i + 1] == '-' && class[i].is_alphanumeric() && class[i + 2].is_alphanumeric() {
                    if (class[i]..=class[i + 2]).contains(&c) {
                        return true;
                    }
                    i += 3;
                } else {
                    if class[i] == c {
                        return true;
                    }
                    i += 1;
                }
            }
            false
        })
    };
    match param["type"].as_str().unwrap_or_default() {
        "CephInt" => word.parse::<i64>().is_ok(),
        "CephFloat" => word.parse::<f64>().is_ok(),
        "CephChoices" => param["strings"].as_str().unwrap_or_default().split('|').any(|s| s == word),
        "CephOsdName" => word.strip_prefix("osd.").unwrap_or(word).parse::<u32>().is_ok(),
        _ => param["goodchars"].as_str().is_none_or(good),
    }
}

/// The rules of `suites/src/compare.rs`.
fn differences(step: &Step, recorded: &Value, ours: &Answer) -> Vec<String> {
    let mut wrong = Vec::new();
    let code = recorded["code"].as_i64().unwrap_or(0) as i32;
    if ours.code != code {
        return vec![format!("exit code {} where stock has {code}: {}", ours.code, ours.stderr.trim())];
    }
    let mine: Option<Value> = serde_json::from_str(ours.stdout.trim()).ok();
    match step.want {
        Want::Code => {}
        Want::Text => {
            for (what, mine) in [("text", ours.stdout.trim()), ("stderr", ours.stderr.trim())] {
                if recorded[what].as_str().unwrap_or_default() != mine {
                    wrong.push(format!("{what} {mine:?} where stock has {}", recorded[what]));
                }
            }
        }
        Want::Json | Want::JsonEqual => match (&recorded["json"], mine) {
            (Value::Null, _) => {}
            (_, None) => wrong.push(format!("no JSON: {:?}", ours.stdout)),
            (theirs, Some(mine)) if step.want == Want::JsonEqual => {
                if *theirs != mine {
                    wrong.push(format!("{mine} where stock has {theirs}"));
                }
            }
            (theirs, Some(mine)) => same_shape("", theirs, &mine, step.loose, &mut wrong),
        },
    }
    wrong
}

fn kind(v: &Value) -> u8 {
    match v {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

fn same_shape(path: &str, theirs: &Value, mine: &Value, loose: &[&str], wrong: &mut Vec<String>) {
    if kind(theirs) != kind(mine) {
        wrong.push(format!("{path}: {mine} where stock has {theirs}"));
        return;
    }
    let is_loose = |path: &str| {
        loose.iter().any(|l| {
            let (l, path): (Vec<&str>, Vec<&str>) = (l.split('.').collect(), path.split('.').collect());
            l.len() == path.len() && l.iter().zip(&path).all(|(l, p)| *l == "*" || l == p)
        })
    };
    if is_loose(path) {
        return;
    }
    let child = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    match (theirs, mine) {
        (Value::Object(t), Value::Object(m)) => {
            for (key, value) in t {
                match m.get(key) {
                    Some(ours) => same_shape(&child(key), value, ours, loose, wrong),
                    None if is_loose(&child(key)) => {}
                    None => wrong.push(format!("{} is missing", child(key))),
                }
            }
            for key in m.keys().filter(|k| !t.contains_key(*k) && !is_loose(&child(k))) {
                wrong.push(format!("{} is not in stock's answer", child(key)));
            }
        }
        (Value::Array(t), Value::Array(m)) => {
            if let (Some(t), Some(m)) = (t.first(), m.first()) {
                same_shape(&child("0"), t, m, loose, wrong);
            }
        }
        _ => {}
    }
}

#[test]
fn the_script_is_answered_as_stock_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/commands/reef.json");
    let record: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut cluster = Cluster::new();
    let mut wrong = Vec::new();
    for (step, recorded) in SCRIPT.iter().zip(record["steps"].as_array().unwrap()) {
        assert_eq!(Some(step.args), recorded["args"].as_str());
        if step.args.starts_with("tell osd.") {
            continue;
        }
        let ours = cluster.ceph(step.args, matches!(step.want, Want::Json | Want::JsonEqual));
        wrong.extend(differences(step, recorded, &ours).into_iter().map(|d| format!("ceph {}: {d}", step.args)));
        cluster.report();
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

/// Plain text is asked for by people: every step of the script has some, and none of it is JSON in disguise for a table.
#[test]
fn plain_answers_come_too() {
    let mut cluster = Cluster::new();
    for step in SCRIPT.iter().filter(|s| !s.args.starts_with("tell osd.")) {
        let plain = cluster.ceph(step.args, false);
        if std::env::var_os("SHOW").is_some() {
            println!("### ceph {}\n{}{}", step.args, plain.stdout, plain.stderr);
        }
        cluster.report();
    }
    for (line, expected) in [
        ("osd stat", "1 osds: 1 up (since"),
        ("osd tree", "ID  CLASS  WEIGHT   TYPE NAME      STATUS  REWEIGHT  PRI-AFF\n-1         0.00780  root default"),
        ("pg stat", "0 pgs: ; 0 B data, 25 KiB used, 8.0 GiB / 8 GiB avail"),
        ("status", "    osd: 1 osds: 1 up (since"),
    ] {
        let plain = cluster.ceph(line, false).stdout;
        assert!(plain.contains(expected), "ceph {line}:\n{plain}");
    }
}
