//! What is said to the monitor itself rather than to the cluster (`ceph tell mon.a ...`, `ceph daemon mon.a ...`): its own settings, help.
//!
//! Settings made here hold for this process; what `ceph config set` says is in `config`.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd_flags, flag};
use options::{find, normalise};
use serde_json::{Map, Value, json};
use types::errno;

/// A row of this table.
const fn tell(sig: &'static str, help: &'static str, run: super::Handler) -> Command {
    cmd_flags(sig, help, "mon", "rw", flag::TELL | flag::TELL_ONLY, run)
}

pub const COMMANDS: &[Command] = &[
    tell("help", "list available commands", help),
    tell("config show", "dump current config settings", show),
    tell("config get name=var,type=CephString", "config get <field>: get the config value", get),
    tell(
        "config set name=var,type=CephString name=val,type=CephString,n=N",
        "config set <field> <val> [<val> ...]: set a config variable",
        set,
    ),
    tell("config unset name=var,type=CephString", "config unset <field>: unset a config variable", unset),
    tell("config help name=var,type=CephString,req=false", "get config setting schema and descriptions", config_help),
    tell("config diff", "dump diff of current config and default config", |ctx| {
        let json = diff(ctx, None);
        ctx.answer_json(json)
    }),
    tell(
        "config diff get name=var,type=CephString",
        "dump diff get <field>: dump diff of current and default config setting <field>",
        |ctx| {
            let name = normalise(&ctx.args.need("var")?);
            let json = diff(ctx, Some(&name));
            ctx.answer_json(json)
        },
    ),
    tell("injectargs name=injected_args,type=CephString,n=N", "inject configuration arguments into running daemon", |ctx| {
        let text = ctx.args.list("injected_args").join(" ");
        let settings = options::inject(&text).map_err(|why| CmdError::new(errno::EINVAL, why))?;
        let said: Vec<String> = settings.iter().map(|(name, value)| format!("{name} = '{value}' ")).collect();
        ctx.mon.config.overrides.extend(settings);
        Ok(Reply::status(said.concat()))
    }),
    tell("version", "the monitor's version", |ctx| {
        let json = json!({"version": crate::CEPH_VERSION_SHORT, "release": crate::CEPH_RELEASE, "release_type": "stable"});
        ctx.answer_json(json)
    }),
    // The database is compacted by itself whenever it is worth it.
    tell("compact", "cause compaction of monitor's storage", |_| Ok(Reply::data("compacted in 0 seconds"))),
    // Nothing is kept of commands: each ends before the next begins.
    tell("ops", "show the ops currently in flight", |ctx| ctx.answer_json(json!({"ops": [], "num_ops": 0}))),
    tell("dump_ops_in_flight", "show the ops currently in flight", |ctx| ctx.answer_json(json!({"ops": [], "num_ops": 0}))),
    tell("dump_historic_ops", "show recent ops", |ctx| ctx.answer_json(json!({"size": 0, "duration": 0, "ops": []}))),
    tell("dump_historic_ops_by_duration", "show recent ops, sorted by duration", |ctx| {
        ctx.answer_json(json!({"size": 0, "duration": 0, "ops": []}))
    }),
    tell("dump_historic_slow_ops", "show recent slow ops", |ctx| {
        ctx.answer_json(json!({"num to keep": 0, "threshold to keep": 0, "Ops": []}))
    }),
    tell("connection scores dump", "show the scores used in connectivity-based elections", |ctx| {
        ctx.answer_json(json!({"rank": 0, "epoch": 0, "version": 0, "half_life": 43200, "persist_interval": 10, "reports": []}))
    }),
    tell("connection scores reset", "reset the scores used in connectivity-based elections", |_| Ok(Reply::default())),
    tell("smart name=devid,type=CephString,req=false", "Query health metrics for underlying device", |_| {
        err(errno::ENOENT, "could not determine device name: the monitor's database is a file")
    }),
    tell("quorum exit", "force monitor out of the quorum", |_| {
        err(errno::EOPNOTSUPP, "this monitor works alone: without it there is no quorum")
    }),
    tell("quorum enter", "force monitor back into quorum", |_| {
        // The only monitor is its quorum, and can't have left it.
        Ok(Reply::status("started responding to quorum, initiated new election"))
    }),
    tell(
        "sync_force name=validate,type=CephChoices,strings=--yes-i-really-mean-it,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        "force sync of and clear monitor store",
        |_| Err(CmdError::new(errno::EOPNOTSUPP, "there is no other monitor to get the store from")),
    ),
    tell("sessions", "list existing sessions", sessions),
    tell(
        "heap name=heapcmd,type=CephChoices,strings=dump|start_profiler|stop_profiler|release|get_release_rate|set_release_rate|stats \
         name=value,type=CephString,req=false",
        "show heap usage info (available only if compiled with tcmalloc)",
        |_| Err(CmdError::new(errno::EINVAL, "tcmalloc not enabled, can't use heap profiler commands")),
    ),
];

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}

fn help(ctx: &mut Ctx<'_>) -> CmdResult {
    let endpoint = ctx.mon.sessions.get(&ctx.conn).map_or(crate::Endpoint::Mon, |s| s.endpoint);
    let all = ctx.mon.registry.help(endpoint == crate::Endpoint::Mgr);
    ctx.answer_json(json!(all))
}

/// A name that there is.
fn known(ctx: &Ctx<'_>, what: &str) -> Result<String, CmdError> {
    let given = ctx.args.need("var")?;
    let name = normalise(&given);
    if find(&name).is_some() { Ok(name) } else { err(errno::ENOENT, format!("error {what} '{given}': (2) No such file or directory")) }
}

fn show(ctx: &mut Ctx<'_>) -> CmdResult {
    let all: Map<String, Value> = options::names().iter().map(|n| (n.to_string(), json!(ctx.mon.config.mon_value(n)))).collect();
    ctx.answer_json(Value::Object(all))
}
fn get(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = known(ctx, "getting")?;
    let value = ctx.mon.config.mon_value(&name);
    ctx.answer_json(json!({name: value}))
}
fn set(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = known(ctx, "setting")?;
    let value = ctx.args.list("val").join(" ");
    let info = find(&name).expect("it is known");
    let Ok(value) = info.check(&value) else {
        return err(errno::EINVAL, format!("error setting '{name}' to '{value}': (22) Invalid argument"));
    };
    ctx.mon.config.overrides.insert(name.clone(), value.clone());
    ctx.answer_json(json!({"success": format!("{name} = '{value}' ")}))
}
fn unset(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = known(ctx, "unsetting")?;
    ctx.mon.config.overrides.remove(&name);
    ctx.answer_json(json!({"success": format!("{name} = '' ")}))
}
fn config_help(ctx: &mut Ctx<'_>) -> CmdResult {
    let about = |name: &str| {
        let o = find(name).expect("a name out of the table");
        json!({"name": name, "type": o.kind, "level": o.level, "default": o.default, "can_update_at_runtime": o.runtime})
    };
    let json = match ctx.args.text("var") {
        None => options::names().iter().map(|n| about(n)).collect(),
        Some(_) => about(&known(ctx, "getting")?),
    };
    ctx.answer_json(json)
}

/// What isn't at its default, or one option if it isn't.
fn diff(ctx: &Ctx<'_>, only: Option<&str>) -> Value {
    let config = &ctx.mon.config;
    let entity = types::EntityText::new(types::EntityKind::MON, crate::monmap::NAME);
    let kept = config.resolve(&entity, "", "");
    let mut out = Map::new();
    for name in options::names().iter().filter(|n| only.is_none_or(|o| o == **n)) {
        let mut one = Map::new();
        if let Some((_, value)) = kept.get(name) {
            one.insert("mon".into(), json!(value));
        }
        if let Some(value) = config.overrides.get(*name) {
            one.insert("override".into(), json!(value));
        }
        if !one.is_empty() {
            one.insert("default".into(), json!(find(name).map_or("", |o| o.default)));
            one.insert("final".into(), json!(config.mon_value(name)));
            out.insert(name.to_string(), Value::Object(one));
        }
    }
    json!({"diff": out})
}

fn sessions(ctx: &mut Ctx<'_>) -> CmdResult {
    let rows = ctx.mon.sessions.iter().filter(|(conn, s)| **conn != crate::LOCAL && s.endpoint == crate::Endpoint::Mon).map(|(_, s)| {
        json!({
            "name": s.name.to_string(),
            "entity_name": s.peer.entity.to_string(),
            "addrs": super::mon_map::addrs_json(&s.peer.addrs),
            "con_features": s.peer.features,
            "con_features_hex": format!("{:x}", s.peer.features),
            "open": true,
            "caps": {"allow_all": s.caps.is_allow_all(&s.peer.from)},
            "subs": s.subs.keys().collect::<Vec<_>>(),
            "global_id": s.peer.global_id,
        })
    });
    let json = rows.collect();
    ctx.answer_json(json)
}
