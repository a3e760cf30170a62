//! Commands to this OSD (`ceph tell osd.N ...`): their table, and the answers as stock 18.2 gives them.
//!
//! Control answers a command at once, or asks a shard for its part ([`crate::inquiry`]), of which `finish_command` makes the answer.

use crate::answer::{Answer, ok, pretty};
use crate::control::boot::version_of;
use crate::event::{ConnId, DeviceQuestion, Effect};
use crate::history::History;
use crate::inquiry::{Asked, Inquiry, Part, Said, Wanted};
use crate::joint::ToShard;
use crate::osd::Osd;
use crate::perf::{self, Perf};
use crate::shared::EventCx;
use crate::work::Status;
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
type Run = fn(&mut Osd, Asked, &mut EventCx<'_>) -> Option<Answer>;

fn now(answer: Answer) -> Option<Answer> {
    Some(answer)
}

const fn row(sig: &'static str, help: &'static str, run: Run) -> Command {
    Command { sig, help, run }
}

/// A group is asked.
fn tell_pg(osd: &mut Osd, asked: Asked, cx: &mut EventCx<'_>) -> Option<Answer> {
    let prefix = asked.text("prefix");
    let verb = if prefix == "pg" { asked.given("cmd").unwrap_or("query") } else { prefix }.to_string();
    osd.inquire(asked, Wanted::Pg { verb }, cx)
}
/// Whatever command it is.
fn counters(osd: &mut Osd, asked: Asked, cx: &mut EventCx<'_>) -> Option<Answer> {
    let pinged = osd.control.pinged();
    osd.inquire(asked, Wanted::Counters { pinged }, cx)
}
fn ops(osd: &mut Osd, asked: Asked, cx: &mut EventCx<'_>) -> Option<Answer> {
    osd.inquire(asked, Wanted::Ops, cx)
}

/// All commands, by name.
const COMMANDS: &[Command] = &[
    row(
        "bench name=count,type=CephInt,req=false name=size,type=CephInt,req=false name=object_size,type=CephInt,req=false \
         name=object_num,type=CephInt,req=false",
        "OSD benchmark: write <count> <size>-byte objects(with <obj_size> <obj_num>), (default count=1G default size=4MB). Results in log.",
        |osd, asked, cx| osd.inquire(asked, Wanted::Bench, cx),
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
    row("counter dump", "dump all labeled and non-labeled counters and their values", counters),
    row("counter schema", "dump all labeled and non-labeled counters schemas", |osd, _, _| {
        let mut schema = Perf::schema();
        perf::throttles(osd.control.budget().stats()).into_iter().for_each(|(name, _)| schema[name] = perf::throttle_schema());
        now(ok(perf::labeled(schema)))
    }),
    row("dump_background_work", "show what the OSD does by itself, and what that waits for", |osd, asked, cx| {
        osd.inquire(asked, Wanted::Work, cx)
    }),
    row("dump_blocked_ops name=filterstr,type=CephString,n=N,req=false", "show the blocked ops currently in flight", Osd::tell_blocked_ops),
    row("dump_blocklist", "dump blocklisted clients and times", Osd::tell_blocklist),
    row("dump_historic_ops name=filterstr,type=CephString,n=N,req=false", "show recent ops", |osd, asked, cx| {
        osd.inquire(asked, Wanted::History(History::dump), cx)
    }),
    row(
        "dump_historic_ops_by_duration name=filterstr,type=CephString,n=N,req=false",
        "show slowest recent ops, sorted by duration",
        |osd, asked, cx| osd.inquire(asked, Wanted::History(History::dump_by_duration), cx),
    ),
    row("dump_historic_slow_ops name=filterstr,type=CephString,n=N,req=false", "show slowest recent ops", |osd, asked, cx| {
        osd.inquire(asked, Wanted::History(History::dump_slow), cx)
    }),
    row("dump_mempools", "what memory is used for, by pool", |osd, asked, cx| osd.inquire(asked, Wanted::Memory, cx)),
    row("dump_pg_recovery_stats", "dump pg recovery statistics", |osd, asked, cx| osd.inquire(asked, Wanted::PeeringTimes, cx)),
    row("dump_recovery_reservations", "show recovery reservations", |osd, asked, cx| osd.inquire(asked, Wanted::Places, cx)),
    row("dump_scrubs", "print scheduled scrubs", |osd, asked, cx| osd.inquire(asked, Wanted::Scrubs, cx)),
    row("dump_ops_in_flight name=filterstr,type=CephString,n=N,req=false", "show the ops currently in flight", ops),
    row("compact", "Commpact object store's omap. WARNING: Compaction probably slows your requests", Osd::tell_compact),
    row("flush_pg_stats", "flush pg stats", |osd, asked, cx| osd.inquire(asked, Wanted::Stats, cx)),
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
    row("list_devices", "list OSD devices.", |_, asked, cx| ask_devices(&asked, DeviceQuestion::List, cx)),
    row("list_unfound name=pgid,type=CephPgid name=offset,type=CephString,req=false", "list objects of a pg that no OSD has", tell_pg),
    row(
        "mark_unfound_lost name=pgid,type=CephPgid name=mulcmd,type=CephChoices,strings=revert|delete",
        "give up all objects of a pg that no OSD has: go back to the version before, or delete them",
        tell_pg,
    ),
    row("ops name=filterstr,type=CephString,n=N,req=false", "show the ops currently in flight", ops),
    row(
        "perf dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "dump non-labeled counters and their values",
        counters,
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
    row("status", "high-level status of OSD", |osd, asked, cx| osd.inquire(asked, Wanted::NumPgs, cx)),
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

/// The shell must find it out.
fn ask_devices(asked: &Asked, question: DeviceQuestion, cx: &mut EventCx<'_>) -> Option<Answer> {
    cx.out.push(Effect::AskDevices { conn: asked.conn, tid: asked.tid, question });
    None
}

/// The answer to a command that the shell found.
pub fn command_output(tid: u64, told: &Value) -> RawMessage {
    MCommandReply { tid, result: 0, status: String::new(), data: Bytes::from(pretty(told)) }.encode(features::SUPPORTED)
}

impl Osd {
    /// Executes a command and answers it; `conn` is `None` when it came on a connection that the shell keeps (monitor, manager).
    pub(crate) fn command(&mut self, conn: Option<ConnId>, m: &MCommand, cx: &mut EventCx<'_>) {
        let Some(conn) = conn else { return };
        let allowed = self.connections.get(conn).is_some_and(|one| one.may_all);
        let answer = if !allowed {
            now((types::errno::EACCES, "access denied".into(), Vec::new()))
        } else {
            match serde_json::from_str::<Value>(&m.cmd.concat()) {
                Ok(Value::Object(cmd)) => self.run(Asked { conn, tid: m.tid, cmd }, cx),
                _ => now((EINVAL, "invalid json".into(), Vec::new())),
            }
        };
        if let Some(answer) = answer {
            reply(conn, m.tid, answer, cx);
        }
    }

    fn run(&mut self, asked: Asked, cx: &mut EventCx<'_>) -> Option<Answer> {
        let Some(prefix) = asked.given("prefix") else { return now((EINVAL, "no command given".into(), Vec::new())) };
        match COMMANDS.iter().find(|row| words(row.sig) == prefix) {
            Some(row) => (row.run)(self, asked, cx),
            // What we lack is refused by name.
            None => now((EINVAL, format!("unknown command prefix {prefix}"), Vec::new())),
        }
    }
    /// The shard has a part in it, and what it says to that comes as a message.
    fn inquire(&mut self, asked: Asked, wanted: Wanted, cx: &mut EventCx<'_>) -> Option<Answer> {
        self.tell_shard(ToShard::Inquire(Box::new(Inquiry { asked, wanted })), cx);
        None
    }
    /// The shard has said its part of a command.
    pub(crate) fn finish_command(&mut self, said: Said, cx: &mut EventCx<'_>) {
        let Said { asked, part } = said;
        let answer = match part {
            Part::Later => return,
            Part::Answer(answer) => answer,
            Part::Shown(shown) => ok(shown),
            Part::Stats(stats) => {
                let seq = self.control.send_stats(*stats, cx);
                (0, String::new(), seq.to_string().into_bytes())
            }
            Part::Counters(perf) if asked.text("prefix") == "counter dump" => ok(perf::labeled(self.all_counters(&perf))),
            Part::Counters(perf) => ok(picked(self.all_counters(&perf), &asked)),
            Part::NumPgs(num_pgs) => ok(self.control.status(num_pgs)),
            Part::Work(of_shard) => ok(self.background_work(of_shard)),
        };
        reply(asked.conn, asked.tid, answer, cx);
    }

    fn tell_smart(&mut self, asked: Asked, cx: &mut EventCx<'_>) -> Option<Answer> {
        let timeout_s = self.control.config().int("osd_smart_report_timeout");
        ask_devices(&asked, DeviceQuestion::Smart { only: asked.text("devid").into(), timeout_s }, cx)
    }
    /// Answered when it is done.
    fn tell_compact(&mut self, asked: Asked, cx: &mut EventCx<'_>) -> Option<Answer> {
        self.tell_shard(ToShard::Compact { asked: Some((asked.conn, asked.tid)) }, cx);
        None
    }
    /// Work beside requests, in the shard and here.
    fn background_work(&self, of_shard: Vec<Status>) -> Value {
        let failed = self.loading.iter().filter_map(|loading| loading.status());
        let all = failed.chain(of_shard).chain(self.control.merging().status());
        json!({ "work": all.map(Status::json).collect::<Vec<_>>() })
    }
    /// A shard's counters, and what the budget counts.
    fn all_counters(&self, perf: &Perf) -> Value {
        let mut dump = perf.dump();
        for (name, throttle) in perf::throttles(self.control.budget().stats()) {
            dump[name] = throttle;
        }
        dump
    }
    /// Source of the answers: Ceph 18.2 `src/common/ceph_context.cc`. What the throttles count is the budget's and stays.
    fn tell_perf_reset(&mut self, asked: Asked, cx: &mut EventCx<'_>) -> Option<Answer> {
        let name = asked.text("var");
        if !matches!(name, "all" | "osd") {
            return now(ok(json!({ "error": format!("Not find: {name}") })));
        }
        self.inquire(asked, Wanted::ResetPerf, cx)
    }
    fn tell_blocked_ops(&mut self, asked: Asked, cx: &mut EventCx<'_>) -> Option<Answer> {
        let late_s = self.control.config().num("osd_op_complaint_time");
        self.inquire(asked, Wanted::BlockedOps { late_s }, cx)
    }
    fn tell_blocklist(&mut self, _: Asked, _: &mut EventCx<'_>) -> Option<Answer> {
        let dump = |list: &std::collections::BTreeMap<types::EntityAddr, UTime>| -> Value {
            list.iter().map(|(a, t)| json!({ "entity_addr_t": a.to_string(), "expire_time": t.to_string() })).collect()
        };
        let mut text = pretty(&dump(&self.control.map().blocklist));
        text.extend(pretty(&dump(&self.control.map().range_blocklist)));
        now((0, String::new(), text))
    }
}

fn reply(conn: ConnId, tid: u64, answer: Answer, cx: &mut EventCx<'_>) {
    let (errno, status, data) = answer;
    let reply = MCommandReply { tid, result: -errno, status, data: Bytes::from(data) };
    cx.out.push(Effect::Send { conn, msg: reply.encode(features::SUPPORTED) });
}

/// Of all counters those that `perf dump` was asked for.
fn picked(dump: Value, asked: &Asked) -> Value {
    let Some(logger) = asked.given("logger").filter(|l| !l.is_empty()) else { return dump };
    let Some(of) = dump.get(logger) else { return json!({}) };
    let Some(counter) = asked.given("counter").filter(|c| !c.is_empty()) else { return json!({ logger: of }) };
    json!({ logger: of.get(counter).map_or(json!({}), |v| json!({ counter: v })) })
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
