//! Commands to this OSD (`ceph tell osd.N ...`): their table, and the answers as stock 18.2 gives them.

use crate::config::{Config, Source};
use crate::event::{ConnId, DeviceQuestion, Effect};
use crate::osd::Osd;
use crate::perf::{C, Perf};
use base::Clock;
use bytes::Bytes;
use messages::{MCommand, MCommandReply, Message, RawMessage};
use serde_json::{Map, Value, json};
use types::errno::{EINVAL, ENOENT};
use types::{UTime, features};

/// What clients are told that we present ourselves as.
pub const RELEASE: &str = "reef";
pub const VERSION: &str = "18.2.7";

/// Words, arguments and help of each command.
const COMMANDS: &[(&str, &str)] = &[
    (
        "bench name=count,type=CephInt,req=false name=size,type=CephInt,req=false name=object_size,type=CephInt,req=false \
         name=object_num,type=CephInt,req=false",
        "OSD benchmark: write <count> <size>-byte objects(with <obj_size> <obj_num>), (default count=1G default size=4MB). Results in log.",
    ),
    ("config diff", "dump diff of current config and default config"),
    ("config diff get name=var,type=CephString", "dump diff get <field>: dump diff of current and default config setting <field>"),
    ("config get name=var,type=CephString", "config get <field>: get the config value"),
    ("config set name=var,type=CephString name=val,type=CephString,n=N", "config set <field> <val> [<val> ...]: set a config variable"),
    ("config show", "dump current config settings"),
    ("config unset name=var,type=CephString", "config unset <field>: unset a config variable"),
    ("dump_background_work", "show what the OSD does by itself, and what that waits for"),
    ("dump_blocked_ops name=filterstr,type=CephString,n=N,req=false", "show the blocked ops currently in flight"),
    ("dump_blocklist", "dump blocklisted clients and times"),
    ("dump_historic_ops name=filterstr,type=CephString,n=N,req=false", "show recent ops"),
    ("dump_mempools", "what memory is used for, by pool"),
    ("dump_pg_recovery_stats", "dump pg recovery statistics"),
    ("dump_ops_in_flight name=filterstr,type=CephString,n=N,req=false", "show the ops currently in flight"),
    ("compact", "Commpact object store's omap. WARNING: Compaction probably slows your requests"),
    ("flush_pg_stats", "flush pg stats"),
    ("get_command_descriptions", "list available commands"),
    (
        "heap name=heapcmd,type=CephChoices,strings=dump|start_profiler|stop_profiler|release|get_release_rate|set_release_rate|stats \
         name=value,type=CephString,req=false",
        "show heap usage info (available only if compiled with tcmalloc)",
    ),
    ("help", "list available commands"),
    ("injectargs name=injected_args,type=CephString,n=N", "inject configuration arguments into running daemon"),
    ("injectfull name=type,type=CephString,req=false name=count,type=CephInt,req=false", "Inject a full disk (optional count times)"),
    ("list_devices", "list OSD devices."),
    ("list_unfound name=pgid,type=CephPgid name=offset,type=CephString,req=false", "list objects of a pg that no OSD has"),
    (
        "mark_unfound_lost name=pgid,type=CephPgid name=mulcmd,type=CephChoices,strings=revert|delete",
        "give up all objects of a pg that no OSD has: go back to the version before, or delete them",
    ),
    ("ops name=filterstr,type=CephString,n=N,req=false", "show the ops currently in flight"),
    (
        "perf dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "dump non-labeled counters and their values",
    ),
    ("perf reset name=var,type=CephString", "perf reset <name>: perf reset all or one perfcounter name"),
    ("perf schema", "dump non-labeled counters schemas"),
    ("pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=query", ""),
    ("pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=list_unfound name=offset,type=CephString,req=false", ""),
    (
        "pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=mark_unfound_lost \
         name=mulcmd,type=CephChoices,strings=revert|delete",
        "",
    ),
    ("query", "show details of a specific pg"),
    ("smart name=devid,type=CephString,req=false", "probe OSD devices for SMART data."),
    ("status", "high-level status of OSD"),
    ("version", "get ceph version"),
];

/// Pretty as stock prints: four spaces, a newline at the end.
fn pretty(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut ser = serde_json::Serializer::with_formatter(&mut out, formatter);
    serde::Serialize::serialize(value, &mut ser).expect("a value can be written to memory");
    out.push(b'\n');
    out
}

fn describe() -> Value {
    let mut all = Map::new();
    for (i, (sig, help)) in COMMANDS.iter().enumerate() {
        let words = sig.split_whitespace().map(|word| {
            if !word.contains('=') {
                return json!(word);
            }
            let mut arg = Map::new();
            for (k, v) in word.split(',').filter_map(|pair| pair.split_once('=')) {
                arg.insert(k.into(), if k == "req" { json!(v != "false") } else { json!(v) });
            }
            Value::Object(arg)
        });
        all.insert(format!("cmd{i:03}"), json!({ "sig": words.collect::<Vec<_>>(), "help": help }));
    }
    Value::Object(all)
}

/// The answer to a command: a positive errno or 0, a line, and output.
pub(crate) type Answer = (i32, String, Vec<u8>);

pub(crate) fn ok(value: Value) -> Answer {
    (0, String::new(), pretty(&value))
}

/// The answer to a command that the shell found.
pub fn command_output(tid: u64, told: &Value) -> RawMessage {
    MCommandReply { tid, result: 0, status: String::new(), data: Bytes::from(pretty(told)) }.encode(features::SUPPORTED)
}

impl Osd {
    /// Executes a command and answers it; `conn` is `None` when it came on a connection that the shell keeps (monitor, manager).
    pub(crate) fn command(&mut self, conn: Option<ConnId>, m: &MCommand, clock: Clock, out: &mut Vec<Effect>) {
        let Some(conn) = conn else { return };
        let allowed = self.sh.sessions.get(&conn).is_some_and(|s| s.peer.cap.is_none());
        let tid = m.tid;
        let (errno, status, data) = if !allowed {
            (types::errno::EACCES, "access denied".into(), Vec::new())
        } else {
            match serde_json::from_str::<Value>(&m.cmd.concat()) {
                Ok(Value::Object(cmd)) => {
                    let prefix = cmd.get("prefix").and_then(Value::as_str);
                    if let Some(question) = prefix.and_then(|prefix| self.device_question(prefix, &cmd)) {
                        return out.push(Effect::AskDevices { conn, tid, question });
                    }
                    if prefix == Some("bench") {
                        // Answered when it is done.
                        if let Err((errno, status)) = self.start_bench(&cmd, conn, tid) {
                            (errno, status, Vec::new())
                        } else {
                            return self.want_turn(out);
                        }
                    } else {
                        self.answer(&cmd, clock, out)
                    }
                }
                _ => (EINVAL, "invalid json".into(), Vec::new()),
            }
        };
        let reply = MCommandReply { tid, result: -errno, status, data: Bytes::from(data) };
        out.push(Effect::Send { conn, msg: reply.encode(features::SUPPORTED) });
    }

    /// Memory by use. Where stock counts items, we count only some.
    fn memory(&self) -> Value {
        let mut pools: Vec<(&str, usize, usize)> = self.sh.store.memory().into_iter().map(|(name, bytes)| (name, 0, bytes)).collect();
        let (items, bytes) =
            self.pgs().fold((0, 0), |(items, bytes), pg| (items + pg.log.len() + pg.log.dups_len(), bytes + pg.log.memory()));
        pools.push(("osd_pglog", items, bytes));
        let total = pools.iter().fold((0, 0), |(items, bytes), pool| (items + pool.1, bytes + pool.2));
        let shown = |items: usize, bytes: usize| json!({ "items": items, "bytes": bytes });
        let by_pool: Map<String, Value> = pools.iter().map(|(name, items, bytes)| (name.to_string(), shown(*items, *bytes))).collect();
        json!({ "mempool": { "by_pool": by_pool, "total": shown(total.0, total.1) } })
    }

    fn device_question(&self, prefix: &str, cmd: &Map<String, Value>) -> Option<DeviceQuestion> {
        let only = cmd.get("devid").and_then(Value::as_str).unwrap_or_default().to_string();
        match prefix {
            "list_devices" => Some(DeviceQuestion::List),
            "smart" => Some(DeviceQuestion::Smart { only, timeout_s: self.sh.config.int("osd_smart_report_timeout") }),
            _ => None,
        }
    }

    fn answer(&mut self, cmd: &Map<String, Value>, clock: Clock, out: &mut Vec<Effect>) -> Answer {
        let text = |name: &str| cmd.get(name).and_then(Value::as_str);
        let Some(prefix) = text("prefix") else { return (EINVAL, "no command given".into(), Vec::new()) };
        match prefix {
            "version" => ok(json!({ "version": VERSION, "release": RELEASE, "release_type": "stable" })),
            "get_command_descriptions" => ok(describe()),
            "help" => ok(Value::Object(COMMANDS.iter().map(|(sig, help)| (words(sig), json!(help))).collect())),
            "status" => ok(json!({
                "cluster_fsid": self.cluster_fsid.to_string(),
                "osd_fsid": self.superblock.osd_fsid.to_string(),
                "whoami": self.sh.whoami,
                "state": self.boot.name(),
                "oldest_map": self.maps.first,
                "cluster_osdmap_trim_lower_bound": self.maps.first,
                "newest_map": self.sh.map.epoch,
                "num_pgs": self.sh.num_pgs,
            })),
            "config show" => ok(self.sh.config.show()),
            "config diff" => ok(self.sh.config.diff()),
            "config diff get" => {
                let name = text("var").unwrap_or_default();
                let one = self.sh.config.diff()["diff"].get(name).cloned();
                ok(json!({ "diff": one.map_or(json!({}), |v| json!({ name: v })) }))
            }
            "config get" => {
                let name = text("var").unwrap_or_default();
                match self.sh.config.get(name) {
                    Some(value) => ok(json!({ name: value })),
                    None => (ENOENT, format!("error getting '{name}': (2) No such file or directory"), Vec::new()),
                }
            }
            "config set" => self.config_set(text("var").unwrap_or_default(), &joined(cmd.get("val"))),
            "config unset" => {
                let name = text("var").unwrap_or_default();
                if !Config::knows(name) {
                    return (ENOENT, format!("error unsetting '{name}': (2) No such file or directory"), Vec::new());
                }
                self.sh.config.unset(name, Source::Override);
                self.sh.reload_config();
                ok(json!({}))
            }
            "injectargs" => match options::inject(&joined(cmd.get("injected_args"))) {
                Ok(settings) => {
                    let mut said = String::new();
                    for (name, value) in settings {
                        self.sh.config.set(&name, &value, Source::Override);
                        said += &format!("{name} = '{value}' ");
                    }
                    self.sh.reload_config();
                    (0, said, pretty(&json!({})))
                }
                Err(why) => (EINVAL, why, Vec::new()),
            },
            "injectfull" => self.inject_full(text("type").unwrap_or("full"), cmd.get("count").and_then(Value::as_i64), out),
            "compact" => {
                self.sh.store.compact();
                ok(json!({ "elapsed_time": 0.0 }))
            }
            "heap" => (EINVAL, "tcmalloc not enabled, can't use heap profiler commands".into(), Vec::new()),
            "dump_background_work" => ok(self.background_work()),
            "dump_pg_recovery_stats" => ok(self.peering_times()),
            "dump_mempools" => ok(self.memory()),
            "perf dump" => {
                self.refresh_gauges();
                let mut dump = self.sh.perf.dump();
                for (name, throttle) in crate::perf::throttles(self.sh.budget.stats()) {
                    dump[name] = throttle;
                }
                if let Some(logger) = text("logger").filter(|l| !l.is_empty()) {
                    let Some(of) = dump.get(&*logger).cloned() else { return ok(json!({})) };
                    dump = json!({ &*logger: of });
                    if let Some(counter) = text("counter").filter(|c| !c.is_empty()) {
                        let one = dump[&*logger].get(counter).cloned();
                        dump = json!({ &*logger: one.map_or(json!({}), |v| json!({ counter: v })) });
                    }
                }
                ok(dump)
            }
            "perf schema" => ok(Perf::schema()),
            "perf reset" => {
                self.sh.perf = Perf::default();
                ok(json!({ "success": "perf reset all" }))
            }
            "flush_pg_stats" => {
                let seq = self.stats_now(clock, out);
                (0, String::new(), seq.to_string().into_bytes())
            }
            "dump_ops_in_flight" | "ops" => ok(self.dump_ops(clock, 0.0)),
            "dump_blocked_ops" => {
                let late = self.sh.config.num("osd_op_complaint_time");
                let mut dump = self.dump_ops(clock, late);
                dump["complaint_time"] = json!(late);
                dump["num_blocked_ops"] = dump["num_ops"].take();
                dump.as_object_mut().expect("an object").remove("num_ops");
                ok(dump)
            }
            "dump_historic_ops" => {
                let (size, duration) = (self.sh.config.int("osd_op_history_size"), self.sh.config.int("osd_op_history_duration"));
                ok(json!({ "size": size, "duration": duration, "ops": self.dump_history(clock) }))
            }
            "dump_blocklist" => {
                let dump = |list: &std::collections::BTreeMap<types::EntityAddr, UTime>| -> Value {
                    list.iter().map(|(a, t)| json!({ "entity_addr_t": a.to_string(), "expire_time": t.to_string() })).collect()
                };
                let mut text = pretty(&dump(&self.sh.map.blocklist));
                text.extend(pretty(&dump(&self.sh.map.range_blocklist)));
                (0, String::new(), text)
            }
            "pg" => self.pg_command(text("cmd").unwrap_or("query"), cmd, clock, out),
            "query" | "list_unfound" | "mark_unfound_lost" => self.pg_command(prefix, cmd, clock, out),
            // What we lack is refused by name.
            other => (EINVAL, format!("unknown command prefix {other}"), Vec::new()),
        }
    }

    fn config_set(&mut self, name: &str, value: &str) -> Answer {
        if !Config::knows(name) {
            return (ENOENT, format!("error setting '{name}' to '{value}': (2) No such file or directory"), Vec::new());
        }
        if !self.sh.config.set(name, value, Source::Override) {
            return (EINVAL, format!("error setting '{name}' to '{value}': (22) Invalid argument"), Vec::new());
        }
        self.sh.reload_config();
        ok(json!({ "success": format!("{name} = '{}' ", self.sh.config.get(name).unwrap_or_default()) }))
    }

    /// Time spent in each state of peering, as far back as groups remember.
    fn peering_times(&self) -> Value {
        use crate::pg::peering::State;
        let path = |state: State| match state {
            State::Reset => "Reset",
            State::GetInfo => "Started/Primary/Peering/GetInfo",
            State::GetLog => "Started/Primary/Peering/GetLog",
            State::GetMissing => "Started/Primary/Peering/GetMissing",
            State::WaitUpThru => "Started/Primary/Peering/WaitUpThru",
            State::Down => "Started/Primary/Peering/Down",
            State::Activating => "Started/Primary/Active/Activating",
            State::Active => "Started/Primary/Active",
            State::Peered => "Started/Primary/Active/Peered",
            State::Incomplete => "Started/Primary/Peering/Incomplete",
            State::Stray => "Started/Stray",
            State::ReplicaActive => "Started/ReplicaActive",
        };
        let mut by_state: std::collections::BTreeMap<&str, (u64, Vec<f64>)> = Default::default();
        for pg in self.pgs() {
            let history = &pg.peering.history;
            for (i, (state, at)) in history.iter().enumerate() {
                let entry = by_state.entry(path(*state)).or_default();
                entry.0 += 1;
                entry.1.extend(history.get(i + 1).map(|(_, next)| next.since(*at).as_secs_f64()));
            }
        }
        let rows: Vec<Value> = by_state
            .into_iter()
            .map(|(state, (entered, times))| {
                let stats = json!({
                    "entered": entered,
                    "exited": times.len(),
                    "total_time": times.iter().sum::<f64>(),
                    "min_time": times.iter().copied().reduce(f64::min).unwrap_or(0.0),
                    "max_time": times.iter().copied().reduce(f64::max).unwrap_or(0.0),
                });
                json!({ "recovery_state": state, "stats": stats })
            })
            .collect();
        json!({ "pg_recovery_stats": rows })
    }

    fn dump_ops(&self, clock: Clock, older_s: f64) -> Value {
        let mut ops = Vec::new();
        for pg in self.pgs() {
            for (reqid, obj, received, waits_for) in pg.unanswered() {
                let age = clock.mono.since(received).as_secs_f64();
                if age < older_s {
                    continue;
                }
                let at = UTime::from_wall_ns(clock.wall_ns.saturating_sub((age * 1e9) as u64)).to_string();
                ops.push(json!({
                    "description": format!("osd_op({reqid} {} {obj} e{})", pg.pgid, self.sh.map.epoch),
                    "initiated_at": at,
                    "age": age,
                    "duration": age,
                    "type_data": { "flag_point": if waits_for.is_empty() { "started" } else { waits_for } },
                }));
            }
        }
        json!({ "ops": ops, "num_ops": ops.len() })
    }

    fn dump_history(&mut self, clock: Clock) -> Vec<Value> {
        self.sh.history.expire(clock.mono);
        let done = self.sh.history.dump().into_iter();
        done.map(|d| {
            let age = clock.mono.since(d.received);
            let at = UTime::from_wall_ns(clock.wall_ns.saturating_sub(age.as_nanos() as u64)).to_string();
            let flags = if d.writes { "ondisk+write" } else { "ondisk+read" };
            json!({
                "description": format!("osd_op({} {} {} {flags})", d.reqid, d.pgid, d.obj),
                "initiated_at": at,
                "age": age.as_secs_f64(),
                "duration": d.took.as_secs_f64(),
                "type_data": { "flag_point": if d.writes { "commit sent; apply or cleanup" } else { "started" }, "events": [] },
            })
        })
        .collect()
    }

    /// Counts of operations so far: reads and writes.
    pub fn op_counts(&self) -> (u64, u64) {
        (self.sh.perf.get(C::op_r), self.sh.perf.get(C::op_w) + self.sh.perf.get(C::op_rw))
    }
}

/// A command's words without its arguments.
fn words(sig: &str) -> String {
    sig.split_whitespace().filter(|w| !w.contains('=')).collect::<Vec<_>>().join(" ")
}

/// An argument that may be several.
fn joined(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(one)) => one.clone(),
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}
