//! Commands to this OSD (`ceph tell osd.N ...`): their table, and the answers as stock 18.2 gives them.

use crate::answer::{Answer, ok, pretty};
use crate::control::boot::version_of;
use crate::event::{ConnId, DeviceQuestion, Effect};
use crate::joint::ToShard;
use crate::osd::Osd;
use crate::perf::{self, C, Perf};
use crate::shared::EventCx;
use bytes::Bytes;
use messages::{MCommand, MCommandReply, Message, RawMessage};
use serde_json::{Map, Value, json};
use types::errno::EINVAL;
use types::{UTime, features};

pub use options::{RELEASE, VERSION};

/// A command: its words and arguments, its help, and what it does.
struct Command {
    sig: &'static str,
    help: &'static str,
    run: Run,
}

/// The answer, or none yet: it comes when what was asked for is there.
type Run = fn(&mut Osd, &Asked<'_>, &mut EventCx<'_>) -> Option<Answer>;

/// One command that came, and on which connection.
struct Asked<'a> {
    conn: ConnId,
    tid: u64,
    cmd: &'a Map<String, Value>,
}

impl Asked<'_> {
    /// An argument, if it is a text.
    fn given(&self, name: &str) -> Option<&str> {
        self.cmd.get(name).and_then(Value::as_str)
    }
    /// The same, empty if it isn't there.
    fn text(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }
    /// What the shell must find out.
    fn devices(&self, question: DeviceQuestion, cx: &mut EventCx<'_>) -> Option<Answer> {
        cx.out.push(Effect::AskDevices { conn: self.conn, tid: self.tid, question });
        None
    }
}

fn now(answer: Answer) -> Option<Answer> {
    Some(answer)
}

const fn row(sig: &'static str, help: &'static str, run: Run) -> Command {
    Command { sig, help, run }
}

/// What a group is asked.
fn tell_pg(osd: &mut Osd, asked: &Asked<'_>, cx: &mut EventCx<'_>) -> Option<Answer> {
    let prefix = asked.text("prefix");
    let verb = if prefix == "pg" { asked.given("cmd").unwrap_or("query") } else { prefix };
    now(osd.shard.pg_command(verb, asked.cmd, cx))
}

/// All commands, by name.
const COMMANDS: &[Command] = &[
    row(
        "bench name=count,type=CephInt,req=false name=size,type=CephInt,req=false name=object_size,type=CephInt,req=false \
         name=object_num,type=CephInt,req=false",
        "OSD benchmark: write <count> <size>-byte objects(with <obj_size> <obj_num>), (default count=1G default size=4MB). Results in log.",
        Osd::tell_bench,
    ),
    row("config diff", "dump diff of current config and default config", |osd, _, _| now(ok(osd.control.config().diff()))),
    row(
        "config diff get name=var,type=CephString",
        "dump diff get <field>: dump diff of current and default config setting <field>",
        |osd, asked, _| now(osd.control.config_diff_get(asked.text("var"))),
    ),
    row("config get name=var,type=CephString", "config get <field>: get the config value", |osd, asked, _| {
        now(osd.control.config_get(asked.text("var")))
    }),
    row(
        "config set name=var,type=CephString name=val,type=CephString,n=N",
        "config set <field> <val> [<val> ...]: set a config variable",
        |osd, asked, _| now(osd.control.config_set(asked.text("var"), &joined(asked.cmd.get("val")))),
    ),
    row("config show", "dump current config settings", |osd, _, _| now(ok(osd.control.config().show()))),
    row("config unset name=var,type=CephString", "config unset <field>: unset a config variable", |osd, asked, _| {
        now(osd.control.config_unset(asked.text("var")))
    }),
    row("counter dump", "dump all labeled and non-labeled counters and their values", |osd, _, _| now(ok(perf::labeled(osd.counters())))),
    row("counter schema", "dump all labeled and non-labeled counters schemas", |osd, _, _| {
        let mut schema = Perf::schema();
        perf::throttles(osd.control.budget().stats()).into_iter().for_each(|(name, _)| schema[name] = perf::throttle_schema());
        now(ok(perf::labeled(schema)))
    }),
    row("dump_background_work", "show what the OSD does by itself, and what that waits for", |osd, _, _| now(ok(osd.background_work()))),
    row("dump_blocked_ops name=filterstr,type=CephString,n=N,req=false", "show the blocked ops currently in flight", Osd::tell_blocked_ops),
    row("dump_blocklist", "dump blocklisted clients and times", Osd::tell_blocklist),
    row("dump_historic_ops name=filterstr,type=CephString,n=N,req=false", "show recent ops", |osd, _, cx| {
        now(ok(osd.shard.history(cx.clock).dump(cx.clock)))
    }),
    row(
        "dump_historic_ops_by_duration name=filterstr,type=CephString,n=N,req=false",
        "show slowest recent ops, sorted by duration",
        |osd, _, cx| now(ok(osd.shard.history(cx.clock).dump_by_duration(cx.clock))),
    ),
    row("dump_historic_slow_ops name=filterstr,type=CephString,n=N,req=false", "show slowest recent ops", |osd, _, cx| {
        now(ok(osd.shard.history(cx.clock).dump_slow(cx.clock)))
    }),
    row("dump_mempools", "what memory is used for, by pool", |osd, _, _| now(ok(osd.shard.told().memory()))),
    row("dump_pg_recovery_stats", "dump pg recovery statistics", |osd, _, _| now(ok(osd.shard.told().peering_times()))),
    row("dump_recovery_reservations", "show recovery reservations", |osd, _, _| now(ok(osd.shard.told().places()))),
    row("dump_scrubs", "print scheduled scrubs", |osd, _, cx| now(ok(osd.shard.told().scrubs(cx.clock)))),
    row("dump_ops_in_flight name=filterstr,type=CephString,n=N,req=false", "show the ops currently in flight", |osd, _, cx| {
        now(ok(osd.shard.told().dump_ops(cx.clock, 0.0)))
    }),
    row("compact", "Commpact object store's omap. WARNING: Compaction probably slows your requests", Osd::tell_compact),
    row("flush_pg_stats", "flush pg stats", Osd::tell_flush_pg_stats),
    row("get_command_descriptions", "list available commands", |_, _, _| now(ok(describe()))),
    row(
        "heap name=heapcmd,type=CephChoices,strings=dump|start_profiler|stop_profiler|release|get_release_rate|set_release_rate|stats \
         name=value,type=CephString,req=false",
        "show heap usage info (available only if compiled with tcmalloc)",
        |_, _, _| now((EINVAL, "tcmalloc not enabled, can't use heap profiler commands".into(), Vec::new())),
    ),
    row("help", "list available commands", |_, _, _| {
        now(ok(Value::Object(COMMANDS.iter().map(|row| (words(row.sig), json!(row.help))).collect())))
    }),
    row("injectargs name=injected_args,type=CephString,n=N", "inject configuration arguments into running daemon", |osd, asked, _| {
        now(osd.control.inject_options(&joined(asked.cmd.get("injected_args"))))
    }),
    row(
        "injectfull name=type,type=CephString,req=false name=count,type=CephInt,req=false",
        "Inject a full disk (optional count times)",
        |osd, asked, cx| now(osd.inject_full(asked.given("type").unwrap_or("full"), asked.cmd.get("count").and_then(Value::as_i64), cx)),
    ),
    row("list_devices", "list OSD devices.", |_, asked, cx| asked.devices(DeviceQuestion::List, cx)),
    row("list_unfound name=pgid,type=CephPgid name=offset,type=CephString,req=false", "list objects of a pg that no OSD has", tell_pg),
    row(
        "mark_unfound_lost name=pgid,type=CephPgid name=mulcmd,type=CephChoices,strings=revert|delete",
        "give up all objects of a pg that no OSD has: go back to the version before, or delete them",
        tell_pg,
    ),
    row("ops name=filterstr,type=CephString,n=N,req=false", "show the ops currently in flight", |osd, _, cx| {
        now(ok(osd.shard.told().dump_ops(cx.clock, 0.0)))
    }),
    row(
        "perf dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "dump non-labeled counters and their values",
        Osd::tell_perf_dump,
    ),
    row("perf reset name=var,type=CephString", "perf reset <name>: perf reset all or one perfcounter name", Osd::tell_perf_reset),
    row("perf schema", "dump non-labeled counters schemas", |_, _, _| now(ok(Perf::schema()))),
    row("pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=query", "", tell_pg),
    row("pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=list_unfound name=offset,type=CephString,req=false", "", tell_pg),
    row(
        "pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=mark_unfound_lost \
         name=mulcmd,type=CephChoices,strings=revert|delete",
        "",
        tell_pg,
    ),
    row("query", "show details of a specific pg", tell_pg),
    row("smart name=devid,type=CephString,req=false", "probe OSD devices for SMART data.", Osd::tell_smart),
    row("status", "high-level status of OSD", Osd::tell_status),
    row("version", "get ceph version", |osd, _, _| now(ok(version_of(&osd.control)))),
];

fn describe() -> Value {
    let mut all = Map::new();
    for (i, Command { sig, help, .. }) in COMMANDS.iter().enumerate() {
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

/// The answer to a command that the shell found.
pub fn command_output(tid: u64, told: &Value) -> RawMessage {
    MCommandReply { tid, result: 0, status: String::new(), data: Bytes::from(pretty(told)) }.encode(features::SUPPORTED)
}

impl Osd {
    /// Executes a command and answers it; `conn` is `None` when it came on a connection that the shell keeps (monitor, manager).
    pub(crate) fn command(&mut self, conn: Option<ConnId>, m: &MCommand, cx: &mut EventCx<'_>) {
        let Some(conn) = conn else { return };
        let allowed = self.shard.peer(conn).is_some_and(|peer| peer.cap.is_none());
        let answer = if !allowed {
            now((types::errno::EACCES, "access denied".into(), Vec::new()))
        } else {
            match serde_json::from_str::<Value>(&m.cmd.concat()) {
                Ok(Value::Object(cmd)) => self.run(&Asked { conn, tid: m.tid, cmd: &cmd }, cx),
                _ => now((EINVAL, "invalid json".into(), Vec::new())),
            }
        };
        if let Some((errno, status, data)) = answer {
            let reply = MCommandReply { tid: m.tid, result: -errno, status, data: Bytes::from(data) };
            cx.out.push(Effect::Send { conn, msg: reply.encode(features::SUPPORTED) });
        }
    }

    fn run(&mut self, asked: &Asked<'_>, cx: &mut EventCx<'_>) -> Option<Answer> {
        let Some(prefix) = asked.given("prefix") else { return now((EINVAL, "no command given".into(), Vec::new())) };
        match COMMANDS.iter().find(|row| words(row.sig) == prefix) {
            Some(row) => (row.run)(self, asked, cx),
            // What we lack is refused by name.
            None => now((EINVAL, format!("unknown command prefix {prefix}"), Vec::new())),
        }
    }

    /// Answered when it is done.
    fn tell_bench(&mut self, asked: &Asked<'_>, cx: &mut EventCx<'_>) -> Option<Answer> {
        if let Err((errno, status)) = self.shard.start_bench(asked.cmd, asked.conn, asked.tid) {
            return now((errno, status, Vec::new()));
        }
        self.shard.want_turn(cx);
        None
    }
    fn tell_smart(&mut self, asked: &Asked<'_>, cx: &mut EventCx<'_>) -> Option<Answer> {
        let timeout_s = self.control.config().int("osd_smart_report_timeout");
        asked.devices(DeviceQuestion::Smart { only: asked.text("devid").into(), timeout_s }, cx)
    }
    fn tell_status(&mut self, _: &Asked<'_>, _: &mut EventCx<'_>) -> Option<Answer> {
        now(ok(self.control.status(self.shard.told().num_pgs())))
    }
    /// Answered when it is done.
    fn tell_compact(&mut self, asked: &Asked<'_>, cx: &mut EventCx<'_>) -> Option<Answer> {
        self.tell_shard(ToShard::Compact { asked: Some((asked.conn, asked.tid)) }, cx);
        None
    }
    /// All counters as they are now.
    fn counters(&mut self) -> Value {
        self.shard.refresh_gauges(self.control.pinged());
        let mut dump = self.shard.told().perf().dump();
        for (name, throttle) in perf::throttles(self.control.budget().stats()) {
            dump[name] = throttle;
        }
        dump
    }
    fn tell_perf_dump(&mut self, asked: &Asked<'_>, _: &mut EventCx<'_>) -> Option<Answer> {
        let mut dump = self.counters();
        if let Some(logger) = asked.given("logger").filter(|l| !l.is_empty()) {
            let Some(of) = dump.get(logger).cloned() else { return now(ok(json!({}))) };
            dump = json!({ logger: of });
            if let Some(counter) = asked.given("counter").filter(|c| !c.is_empty()) {
                let one = dump[logger].get(counter).cloned();
                dump = json!({ logger: one.map_or(json!({}), |v| json!({ counter: v })) });
            }
        }
        now(ok(dump))
    }
    /// Source of the answers: Ceph 18.2 `src/common/ceph_context.cc`. What the throttles count is the budget's and stays.
    fn tell_perf_reset(&mut self, asked: &Asked<'_>, _: &mut EventCx<'_>) -> Option<Answer> {
        let name = asked.text("var");
        if !matches!(name, "all" | "osd") {
            return now(ok(json!({ "error": format!("Not find: {name}") })));
        }
        self.shard.reset_perf();
        now(ok(json!({ "success": format!("perf reset {name}") })))
    }
    fn tell_flush_pg_stats(&mut self, _: &Asked<'_>, cx: &mut EventCx<'_>) -> Option<Answer> {
        let seq = self.stats_now(cx);
        now((0, String::new(), seq.to_string().into_bytes()))
    }
    fn tell_blocked_ops(&mut self, _: &Asked<'_>, cx: &mut EventCx<'_>) -> Option<Answer> {
        let late = self.control.config().num("osd_op_complaint_time");
        let mut dump = self.shard.told().dump_ops(cx.clock, late);
        dump["complaint_time"] = json!(late);
        dump["num_blocked_ops"] = dump["num_ops"].take();
        dump.as_object_mut().expect("an object").remove("num_ops");
        now(ok(dump))
    }
    fn tell_blocklist(&mut self, _: &Asked<'_>, _: &mut EventCx<'_>) -> Option<Answer> {
        let dump = |list: &std::collections::BTreeMap<types::EntityAddr, UTime>| -> Value {
            list.iter().map(|(a, t)| json!({ "entity_addr_t": a.to_string(), "expire_time": t.to_string() })).collect()
        };
        let mut text = pretty(&dump(&self.control.map().blocklist));
        text.extend(pretty(&dump(&self.control.map().range_blocklist)));
        now((0, String::new(), text))
    }

    /// Counts of operations so far: reads and writes.
    pub fn op_counts(&self) -> (u64, u64) {
        (self.shard.told().perf().get(C::op_r), self.shard.told().perf().get(C::op_w) + self.shard.told().perf().get(C::op_rw))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_words_and_rows_of_the_same_words_do_the_same() {
        for row in COMMANDS {
            assert!(!words(row.sig).is_empty() && (!row.help.is_empty() || words(row.sig) == "pg"), "{}", row.sig);
            let first = COMMANDS.iter().find(|other| words(other.sig) == words(row.sig)).expect("itself at least");
            assert!(std::ptr::fn_addr_eq(first.run, row.run), "{}", row.sig);
        }
        assert_eq!(describe().as_object().map(Map::len), Some(COMMANDS.len()));
    }
}
