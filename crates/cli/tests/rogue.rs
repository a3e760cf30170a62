//! A rogue: each kind of peer with each kind of key, at each daemon, in both modes of the wire, sends what it has no right to send.
//!
//! The tables here are written from the rights of the keys, not from the code. Whatever a peer says: no daemon ends, the good client beside it gets its
//! answers, the cluster's map stays, and objects that the key may not write stay as they were.
//! `HUMBOLDT_ROGUE=N` is the whole matrix, with N samples by chance of each operation by each key: `cargo xtask rogue`. Without it each key speaks in one
//! mode, and each form of an operation comes from one key in two. With `HUMBOLDT_ROGUE_CONF` it is the OSD of another cluster that is spoken to
//! (`hostile_peer/given.rs`), one test at a time.
//!
//! Absent: bytes that are no frames, and peers of method `none` (`hostile.rs`).

mod hostile_peer;
#[path = "rogue/ops.rs"]
mod ops;
#[path = "rogue/said.rs"]
mod said;

use base::Rng;
use cephx::CryptoKey;
use hostile_peer::{Cluster, Evil, Recorder, none};
use messages::*;
use mon::AuthMode;
use msgr::AuthClients;
use ops::Form;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use types::osd_op::osd_flag;
use types::{EntityKind, EntityText, HObject, OpCode, PgId, SpgId};

const FEATURES: u64 = types::features::SUPPORTED;
const KINDS: [EntityKind; 5] = [EntityKind::CLIENT, EntityKind::OSD, EntityKind::MDS, EntityKind::MGR, EntityKind::MON];

/// A key of few rights: its entity, its capabilities, and the pools that it may read and write.
struct Weak {
    name: &'static str,
    caps: &'static [(&'static str, &'static str)],
    reads: &'static [&'static str],
    writes: &'static [&'static str],
}

/// `mine` is a pool that some may use, `others` one that only readers of everything may read.
const KEYS: [Weak; 7] = [
    Weak { name: "client.nothing", caps: &[], reads: &[], writes: &[] },
    Weak {
        name: "client.reader",
        caps: &[("mon", "allow r"), ("mgr", "allow r"), ("osd", "allow r")],
        reads: &["mine", "others"],
        writes: &[],
    },
    Weak { name: "client.onepool", caps: &[("mon", "allow r"), ("osd", "allow rw pool=mine")], reads: &["mine"], writes: &["mine"] },
    Weak { name: "client.disk", caps: &[("mon", "profile rbd"), ("osd", "profile rbd pool=mine")], reads: &["mine"], writes: &["mine"] },
    Weak { name: "client.bootstrap-osd", caps: &[("mon", "allow profile bootstrap-osd")], reads: &[], writes: &[] },
    Weak {
        name: "osd.7",
        caps: &[("mon", "allow profile osd"), ("osd", "allow *")],
        reads: &["mine", "others"],
        writes: &["mine", "others"],
    },
    Weak { name: "mds.a", caps: &[("mon", "allow profile mds"), ("osd", "allow rw tag cephfs *=*")], reads: &[], writes: &[] },
];

fn kind_of(name: &str) -> EntityKind {
    EntityText::parse(name).unwrap().kind
}

/// A number that fits the key's own name, or a foreign one.
const OWN: i64 = 7;

/// Whether a peer that calls itself `kind` and `number` may have a session with a key, as the rights say: `None` if either will do.
fn may_enter(key: &Weak, kind: EntityKind, number: i64, at: EntityKind) -> Option<bool> {
    let own = kind_of(key.name);
    match kind {
        // Modules of stock managers are clients of any name. A service may refuse a key that has no right there.
        EntityKind::CLIENT => (at == EntityKind::MON && !key.caps.is_empty()).then_some(true),
        kind if kind != own => Some(false),
        EntityKind::OSD if number != OWN => Some(false),
        _ => None,
    }
}

/// How many samples by chance the whole matrix has; `None` for a share of it.
fn whole() -> Option<usize> {
    std::env::var("HUMBOLDT_ROGUE").ok().and_then(|n| n.parse().ok())
}
/// The modes of the wire, secure or not, that the key with number `n` speaks in.
fn modes(n: usize) -> Vec<bool> {
    if whole().is_some() { vec![false, true] } else { vec![n % 2 == 1] }
}

struct Rogue {
    cluster: Cluster,
    keys: BTreeMap<&'static str, CryptoKey>,
    guards: Vec<(&'static str, String)>,
}

impl Rogue {
    fn start() -> Self {
        let cluster = Cluster::given().unwrap_or_else(|| Cluster::start(AuthMode::Cephx));
        for pool in ["mine", "others"] {
            cluster.command(&format!(r#"{{"prefix": "osd pool create", "pool": "{pool}", "pg_num": 4, "pgp_num": 4}}"#));
        }
        cluster.newest_map();
        let keys = KEYS.iter().map(|k| (k.name, cluster.entity(k.name, k.caps))).collect();
        let mut rogue = Self { cluster, keys, guards: Vec::new() };
        rogue.guard();
        rogue
    }
    /// Makes the objects anew by which [`Rogue::check`] sees changes.
    fn guard(&mut self) {
        self.guards.clear();
        for pool in ["mine", "others"] {
            self.cluster.remove(pool, "guard");
            self.cluster.put(pool, "guard", b"what a key may not change stays as it is");
            self.guards.push((pool, self.cluster.seen(pool, "guard")));
        }
    }
    fn peer(&self, key: &Weak, secure: bool) -> Rc<dyn AuthClients> {
        let recorder = Recorder::in_mode(EntityText::parse(key.name).unwrap(), self.keys[key.name].clone(), secure);
        let live = recorder.live();
        // The login brings tickets for the services; the same identity dials them.
        let _ = Evil::dial(&self.cluster, EntityKind::MON, live.clone());
        live
    }
    /// Nothing ended, nothing was lost. `changed`: pools that the key may write.
    fn check(&self, changed: &[&str], after: &str) {
        self.cluster.check(after);
        for (pool, was) in &self.guards {
            if !changed.contains(pool) {
                assert_eq!(&self.cluster.seen(pool, "guard"), was, "{pool}/guard after {after}");
            }
        }
    }
    fn pool(&self, name: &str) -> i64 {
        self.cluster.map().pool_by_name(name).unwrap()
    }
    fn request(&self, tid: u64, pool: &str, needed: u32, form: &Form) -> RawMessage {
        let hash = types::hash::rjenkins(b"guard");
        let seed = if form.foreign { (hash & 3) ^ 1 } else { hash & 3 };
        let pool = self.pool(pool);
        let request = MOSDOp {
            tid,
            pgid: SpgId::whole(PgId::new(pool, seed)),
            hobj: HObject { oid: "guard".into(), hash, pool, ..HObject::min() }.head(),
            map_epoch: self.cluster.epoch(),
            flags: needed | form.flags,
            ops: [form.op.clone()].into_iter().collect(),
            features: FEATURES,
            ..MOSDOp::default()
        };
        let mut message = request.encode(FEATURES);
        if let Some(length) = form.length {
            let op = form.op.op;
            let bytes = [&op.code.0.to_le_bytes()[..], &op.flags.to_le_bytes(), &op.args].concat();
            let mut front = message.front.to_vec();
            let at = front.windows(bytes.len()).position(|w| w == bytes).expect("a request has its operation") + bytes.len();
            front[at..at + 4].copy_from_slice(&length.to_le_bytes());
            message.front = front.into();
        }
        message
    }
    fn stop(self) {
        self.cluster.stop();
    }
}

/// A peer is let in as the kind that its key is of, as a client, or not at all; and whatever it says then leaves the cluster as it was.
#[test]
fn peers_are_believed_what_their_keys_say() {
    let rogue = Rogue::start();
    let said = said::messages(&rogue.cluster);
    for at in rogue.cluster.daemons() {
        for kind in KINDS {
            assert!(Evil::dial_as(&rogue.cluster, *at, kind, OWN, none("client.evil")).is_none(), "{kind:?} without a key at {at:?}");
        }
    }
    for (n, key) in KEYS.iter().enumerate() {
        for secure in modes(n) {
            let peer = rogue.peer(key, secure);
            for at in rogue.cluster.daemons() {
                for (kind, number) in KINDS.iter().flat_map(|kind| [(*kind, OWN), (*kind, 0)]) {
                    says_everything(&rogue, key, &peer, *at, (kind, number), &said);
                }
            }
        }
        let status = rogue.cluster.osd_command(r#"{"prefix": "status"}"#);
        let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
        let newest = rogue.cluster.newest_map().epoch;
        assert!(status["newest_map"].as_u64().unwrap() <= u64::from(newest), "osd.0 has maps of the future after {}: {status}", key.name);
    }
    rogue.stop();
}

/// Dials as `kind` and `number`; if it is let in, says each of these.
fn says_everything(
    rogue: &Rogue,
    key: &Weak,
    peer: &Rc<dyn AuthClients>,
    at: EntityKind,
    (kind, number): (EntityKind, i64),
    said: &[RawMessage],
) {
    let as_whom = format!("{} as {kind:?} {number} at {at:?}", key.name);
    let evil = Evil::dial_as(&rogue.cluster, at, kind, number, peer.clone());
    if let Some(expected) = may_enter(key, kind, number, at) {
        assert_eq!(evil.is_some(), expected, "{as_whom}");
    }
    let Some(mut evil) = evil else { return };
    let before = rogue.cluster.newest_map().epoch;
    for message in said {
        if evil.try_poke(&rogue.cluster, message.clone()).is_err() {
            break;
        }
    }
    rogue.check(&[], &as_whom);
    let now = rogue.cluster.newest_map();
    assert!(now.is_up(0), "osd.0 is down after {as_whom}");
    // Snapshots of a pool's writers are theirs to make, and they are in the map.
    let may_change = kind_of(key.name) != EntityKind::CLIENT || !key.writes.is_empty();
    assert!(may_change || now.epoch == before, "the map went on after {as_whom}");
}

/// Each operation in its forms, by each key: it does what the key may, or nothing.
#[test]
fn operations_do_what_a_key_may() {
    let mut rogue = Rogue::start();
    let mut rng = Rng::new(43);
    let mut tid = 10;
    let mut done = BTreeSet::new();
    for (n, key) in KEYS.iter().enumerate() {
        // Daemons' keys speak as daemons, too.
        let own = kind_of(key.name);
        let as_daemon = (own != EntityKind::CLIENT).then_some((own, OWN));
        for secure in modes(n + 1) {
            let peer = rogue.peer(key, secure);
            for (kind, number) in [(EntityKind::CLIENT, 666)].into_iter().chain(as_daemon) {
                let Some(mut evil) = Evil::dial_as(&rogue.cluster, EntityKind::OSD, kind, number, peer.clone()) else { continue };
                for (c, code) in OpCode::ALL.iter().enumerate() {
                    for pool in ["mine", "others"] {
                        let forms = ops::forms(*code, whole().unwrap_or(2), &mut rng);
                        let has_right = key.reads.contains(&pool);
                        for (f, form) in forms.into_iter().enumerate() {
                            // Whoever has no right hears so before the form matters: a few do.
                            if f < 3 || whole().is_some() || (f + n) % if has_right { 2 } else { 16 } == 0 {
                                tid += 1;
                                if operates(&rogue, key, &mut evil, tid, pool, *code, &form) {
                                    done.insert(code.0);
                                }
                            }
                        }
                    }
                    if c % 16 == 15 {
                        rogue.check(key.writes, &format!("{} by {}", code.name(), key.name));
                    }
                }
                // Numbers that no operation has.
                let step = if whole().is_some() { 1 } else { 101 };
                for number in (0..=u16::MAX).step_by(step).filter(|number| OpCode::ALL.iter().all(|code| code.0 != *number)) {
                    tid += 1;
                    let form = Form::of(InOp::new(types::OsdOp::new(OpCode(number)), bytes::Bytes::new()));
                    let result = answer(&rogue, &mut evil, rogue.request(tid, "mine", osd_flag::READ | osd_flag::WRITE, &form), tid);
                    assert!(result.is_none_or(|r| r < 0), "operation {number:#x} by {}: {result:?}", key.name);
                }
                rogue.check(key.writes, &format!("all operations by {} as {kind:?}", key.name));
                rogue.guard();
            }
        }
    }
    // Refusals alone would prove little.
    assert!(done.len() > 60, "{} of {} operations went through for whoever may", done.len(), OpCode::ALL.len());
    rogue.stop();
}

/// The result that comes to a request, if one does.
fn answer(rogue: &Rogue, evil: &mut Evil, message: RawMessage, tid: u64) -> Option<i32> {
    let answers = evil.poke(&rogue.cluster, message).unwrap_or_default();
    let reply = answers.iter().find(|m| m.kind == MOSDOpReply::KIND && m.tid == tid);
    reply.map(|m| MOSDOpReply::decode(m).unwrap().result)
}

/// Sends one form of an operation, and looks at what comes of it. True if it went through.
fn operates(rogue: &Rogue, key: &Weak, evil: &mut Evil, tid: u64, pool: &str, code: OpCode, form: &Form) -> bool {
    let needed = if code.is_write() { osd_flag::WRITE | osd_flag::ONDISK } else { osd_flag::READ };
    let result = answer(rogue, evil, rogue.request(tid, pool, needed, form), tid);
    let allowed = if code.is_write() { key.writes.contains(&pool) } else { key.reads.contains(&pool) };
    let told = format!("{} on {pool} by {}: {result:?}", code.name(), key.name);
    assert!(allowed || result.is_none_or(|r| r < 0), "{told}");
    assert!(!form.foreign || code.is_pg() || result.is_none_or(|r| r < 0), "of another group: {told}");
    result.is_some_and(|r| r >= 0)
}

/// Commands that no key of these may give, at every daemon that takes commands.
#[test]
fn commands_of_others_are_refused_everywhere() {
    let rogue = Rogue::start();
    rogue.cluster.command(r#"{"prefix": "config-key set", "key": "secret", "val": "hidden"}"#);
    let read_secret = [
        r#"{"prefix": "config-key get", "key": "secret"}"#,
        r#"{"prefix": "config-key dump"}"#,
        r#"{"prefix": "auth get", "entity": "client.admin"}"#,
        r#"{"prefix": "auth get-key", "entity": "client.admin"}"#,
        r#"{"prefix": "auth ls"}"#,
        r#"{"prefix": "auth get-or-create", "entity": "client.admin"}"#,
        r#"{"prefix": "auth get-or-create", "entity": "client.new", "caps": ["mon", "allow *"]}"#,
        r#"{"prefix": "auth get-or-create", "entity": "client.new", "caps": ["mon", "allow *"], "caps_mon": "allow r"}"#,
        r#"{"prefix": "auth get-or-create", "entity": "client.admin", "caps_mon": "allow profile osd", "caps_osd": "allow *"}"#,
    ];
    let change = [
        r#"{"prefix": "config set", "who": "global", "name": "mon_allow_pool_delete", "value": "true"}"#,
        r#"{"prefix": "osd pool rm", "pool": "others", "pool2": "others", "yes_i_really_really_mean_it": true}"#,
        r#"{"prefix": "osd down", "ids": ["0"]}"#,
        r#"{"prefix": "osd blocklist", "range": "range", "blocklistop": "add", "addr": "0.0.0.0/0"}"#,
        r#"{"prefix": "osd new", "uuid": "3d0b9dd0-43ee-4a7a-9d1b-3b9d6d3bd1a1", "id": 2147483647}"#,
        r#"{"prefix": "osd new", "uuid": "3d0b9dd0-43ee-4a7a-9d1b-3b9d6d3bd1a1", "id": 1048575}"#,
        r#"{"prefix": "osd set", "key": "noout"}"#,
        r#"{"prefix": "config-key set", "key": "secret", "val": "gone"}"#,
        r#"{"prefix": "injectargs", "injected_args": ["--debug_osd=1"]}"#,
        r#"{"prefix": "config set", "key": "debug_osd", "value": ["1"]}"#,
    ];
    for (n, key) in KEYS.iter().enumerate() {
        let peer = rogue.peer(key, modes(n)[0]);
        // `profile osd` has the `osd` commands, and `osd 'allow *'` an OSD's own; `profile mds` fences clients: as on stock.
        let is_osd = key.name == "osd.7";
        let may_fence = key.name == "mds.a";
        for at in rogue.cluster.daemons().iter().copied() {
            let Some(mut evil) = Evil::dial(&rogue.cluster, at, peer.clone()) else { continue };
            for json in read_secret.iter().chain(change.iter().filter(|_| !is_osd)).filter(|json| !may_fence || !json.contains("blocklist"))
            {
                let (fsid, cmd) = (rogue.cluster.fsid(), vec![json.to_string()]);
                let message = match at {
                    EntityKind::MON => MMonCommand { fsid, cmd, ..MMonCommand::default() }.encode(FEATURES),
                    _ => MCommand { fsid, cmd, ..MCommand::default() }.encode(FEATURES),
                };
                let answers = evil.poke(&rogue.cluster, message).unwrap_or_default();
                let result = answers.iter().find_map(|m| match m.kind {
                    MMonCommandAck::KIND => Some(MMonCommandAck::decode(m).unwrap().result),
                    MCommandReply::KIND => Some(MCommandReply::decode(m).unwrap().result),
                    _ => None,
                });
                assert!(result.is_none_or(|r| r < 0), "{json} by {} at {at:?}: {result:?}", key.name);
            }
            rogue.check(&[], &format!("commands by {} at {at:?}", key.name));
        }
    }
    let secret = rogue.cluster.output(r#"{"prefix": "config-key get", "key": "secret"}"#);
    assert_eq!(secret, b"hidden");
    rogue.stop();
}
