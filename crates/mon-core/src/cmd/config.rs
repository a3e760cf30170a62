//! `config`: settings that the cluster keeps for its daemons and clients.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use crate::config::Section;
use options::{find, is_idle, normalise, who_heeds};
use serde_json::{Map, Value, json};
use types::{EntityKind, EntityText, UTime, errno};

pub const COMMANDS: &[Command] = &[
    cmd(
        "config set name=who,type=CephString name=name,type=CephString name=value,type=CephString name=force,type=CephBool,req=false",
        "sets an option for a daemon, a kind of daemon, or all",
        "config",
        "rw",
        set,
    ),
    cmd("config rm name=who,type=CephString name=name,type=CephString", "takes a setting back", "config", "rw", rm),
    cmd(
        "config get name=who,type=CephString name=key,type=CephString,req=false",
        "the options that apply to a daemon or client",
        "config",
        "r",
        get,
    ),
    cmd("config dump", "all settings", "mon", "r", dump),
    cmd("config help name=key,type=CephString", "what an option is", "config", "r", help),
    cmd("config ls", "names of all options", "config", "r", ls),
    cmd("config log name=num,type=CephInt,req=false", "recent changes", "config", "r", log),
    cmd(
        "config reset name=num,type=CephInt,range=0",
        "takes back what was changed since a version that `config log` shows",
        "config",
        "rw",
        reset,
    ),
    cmd("config assimilate-conf", "takes over settings of a ceph.conf given with -i", "config", "rw", assimilate),
    cmd("config generate-minimal-conf", "a ceph.conf that is just enough for a client", "config", "r", minimal_conf),
];

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}
fn section(text: &str) -> Result<Section, CmdError> {
    Section::parse(text).ok_or_else(|| CmdError::new(errno::EINVAL, format!("unrecognized config target '{text}'")))
}
fn now(ctx: &Ctx<'_>) -> UTime {
    UTime::from_wall_ns(ctx.clock.wall_ns)
}

/// What an option is: one of 18.2's, or of a module of the active manager.
struct About {
    kind: &'static str,
    level: &'static str,
    runtime: bool,
    default: String,
    desc: String,
}

fn about(ctx: &Ctx<'_>, name: &str) -> Option<About> {
    if let Some(info) = find(name) {
        return Some(About {
            kind: info.kind,
            level: info.level,
            runtime: info.runtime,
            default: info.default.into(),
            desc: who_heeds(name),
        });
    }
    let option = ctx.mon.mgrmap.module_option(name)?;
    let (kind, level) = super::mgr_status::option_kind(option);
    // `Option::FLAG_RUNTIME`.
    let runtime = option.flags & 1 != 0;
    Some(About { kind, level, runtime, default: option.default_value.clone(), desc: option.desc.clone() })
}

fn set(ctx: &mut Ctx<'_>) -> CmdResult {
    let (who, name, value) = (section(&ctx.args.need("who")?)?, normalise(&ctx.args.need("name")?), ctx.args.need("value")?);
    let force = ctx.args.flag("force");
    let value = match find(&name) {
        Some(info) => info.check(&value).map_err(|why| CmdError::new(errno::EINVAL, format!("error parsing value: {why}")))?,
        // Options of a manager's modules are not in the table.
        None if force || name.starts_with("mgr/") => value,
        None => return err(errno::EINVAL, format!("unrecognized config option '{name}'")),
    };
    if !can_be_met(ctx, &name, &value) {
        return err(errno::EINVAL, format!("{name}: this cluster has no keys to encrypt with (auth none); `crc` is all that it takes"));
    }
    let now = now(ctx);
    let mon = &mut *ctx.mon;
    mon.config.change(who, &name, Some(value), now, &mut mon.batch);
    // Scripts set what they always set: that succeeds, and the operator hears of it.
    match find(&name) {
        Some(_) if is_idle(&name) => Ok(Reply::status(format!("{name}: {}", who_heeds(&name)))),
        _ => Ok(Reply::default()),
    }
}

/// False for a demand of encryption in a cluster without keys.
fn can_be_met(ctx: &Ctx<'_>, name: &str, value: &str) -> bool {
    ctx.mon.options.cephx || !options::MODE_OPTIONS.contains(&name) || value.contains("crc")
}

fn rm(ctx: &mut Ctx<'_>) -> CmdResult {
    let (who, name) = (section(&ctx.args.need("who")?)?, normalise(&ctx.args.need("name")?));
    let now = now(ctx);
    let mon = &mut *ctx.mon;
    mon.config.change(who, &name, None, now, &mut mon.batch);
    Ok(Reply::default())
}

/// An entity, or a kind of daemon as one without a name.
fn entity(text: &str) -> Result<EntityText, CmdError> {
    let parsed = EntityText::parse(text).or_else(|| EntityKind::parse(text).map(|kind| EntityText::new(kind, "")));
    match parsed {
        Some(entity) => Ok(entity),
        None if text == "global" => Ok(EntityText::default()),
        None => err(errno::EINVAL, format!("unrecognized entity '{text}'")),
    }
}

/// One setting as JSON, with what its option is.
fn setting(ctx: &Ctx<'_>, section: &Section, name: &str, value: &str) -> Value {
    let info = about(ctx, name);
    let mut v = json!({"section": section.who, "name": name, "value": value});
    v["level"] = json!(info.as_ref().map_or("unknown", |i| i.level));
    v["can_update_at_runtime"] = json!(info.is_some_and(|i| i.runtime));
    v["mask"] = json!(section.mask);
    let (kind, place) = section.mask.split_once(':').unwrap_or_default();
    if !kind.is_empty() {
        let (key, value) = if kind == "class" { ("device_class", "") } else { ("location_type", "location_value") };
        v[key] = json!(if value.is_empty() { place } else { kind });
        if !value.is_empty() {
            v[value] = json!(place);
        }
    }
    v
}

fn get(ctx: &mut Ctx<'_>) -> CmdResult {
    let who = entity(&ctx.args.need("who")?)?;
    let (host, class) = location_of(ctx, &who);
    let resolved = ctx.mon.config.resolve(&who, &host, &class);
    if let Some(key) = ctx.args.text("key").map(|k| normalise(&k)) {
        if key == "fsid" {
            return Ok(Reply::data(format!("{}\n", ctx.mon.options.fsid)));
        }
        let value = match resolved.get(key.as_str()) {
            Some((_, value)) => (*value).to_string(),
            None => match about(ctx, &key) {
                Some(info) => info.default,
                None => return err(errno::ENOENT, format!("unrecognized key '{key}'")),
            },
        };
        return ctx.answer(json!(value), || format!("{value}\n"));
    }
    let mut all = Map::new();
    for (name, (section, value)) in &resolved {
        let mut v = setting(ctx, section, name, value);
        v.as_object_mut().expect("it is an object").remove("name");
        all.insert((*name).to_string(), v);
    }
    let rows: Vec<_> = resolved.iter().map(|(n, (s, v))| (*s, *n, *v)).collect();
    ctx.answer(Value::Object(all), || table(ctx, &rows))
}

/// Host and class of an OSD, by which masks choose.
fn location_of(ctx: &Ctx<'_>, who: &EntityText) -> (String, String) {
    let Ok(osd) = who.id.parse::<i32>() else { return Default::default() };
    if who.kind != EntityKind::OSD {
        return Default::default();
    }
    let crush = &ctx.mon.osd.map.crush;
    let host = crush.full_location(osd).into_iter().find(|(kind, _)| kind == "host").map(|(_, name)| name);
    (host.unwrap_or_default(), crush.item_class(osd).unwrap_or_default().to_string())
}

fn dump(ctx: &mut Ctx<'_>) -> CmdResult {
    let mut entries: Vec<_> = ctx.mon.config.entries.iter().collect();
    entries.sort_by_key(|((section, _), _)| rank(&section.who));
    let json: Vec<Value> = entries.iter().map(|((s, n), v)| setting(ctx, s, n, v)).collect();
    ctx.answer(json!(json), || table(ctx, &entries.iter().map(|((s, n), v)| (s, n.as_str(), v.as_str())).collect::<Vec<_>>()))
}

/// Where a section stands in a dump: `rbd config global` takes what comes later for what is closer. `global` is first, then each type with
/// its names behind it.
fn rank(who: &str) -> (usize, bool) {
    let (kind, named) = who.split_once('.').map_or((who, false), |(kind, _)| (kind, true));
    let kinds = ["global", "mon", "mgr", "osd", "mds", "client"];
    (kinds.iter().position(|k| *k == kind).unwrap_or(kinds.len()), named)
}

fn table(ctx: &Ctx<'_>, rows: &[(&Section, &str, &str)]) -> String {
    let mut t = super::table::Table::new(&["<WHO", "<MASK", "<LEVEL", "<OPTION", "<VALUE", "<RO"]);
    for (section, name, value) in rows {
        let info = about(ctx, name);
        let level = info.as_ref().map_or("unknown", |i| i.level);
        let ro = if info.is_some_and(|i| !i.runtime) { "*" } else { "" };
        t.row([&section.who, &section.mask, level, *name, *value, ro].map(String::from).to_vec());
    }
    t.text()
}

fn help(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = normalise(&ctx.args.need("key")?);
    let Some(info) = about(ctx, &key) else { return err(errno::ENOENT, format!("configuration option '{key}' not recognized")) };
    let json = json!({
        "name": key,
        "type": info.kind,
        "level": info.level,
        "desc": info.desc,
        "long_desc": "",
        "default": info.default,
        "daemon_default": "",
        "tags": [],
        "services": [],
        "see_also": [],
        "enum_values": [],
        "min": "",
        "max": "",
        "can_update_at_runtime": info.runtime,
        "flags": [],
    });
    ctx.answer(json, || {
        let About { kind, level, default, runtime, desc } = &info;
        format!("{key} - {desc}\n  ({kind}, {level})\n  Default: {default}\n  Can update at runtime: {runtime}\n")
    })
}
fn ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let names = options::all_names();
    ctx.answer(json!(names), || names.iter().map(|n| format!("{n}\n")).collect())
}

fn log(ctx: &mut Ctx<'_>) -> CmdResult {
    let num = ctx.args.int("num")?.unwrap_or(10).max(0) as usize;
    let changes: Vec<_> = ctx.mon.config.history.iter().rev().take(num).collect();
    let json: Vec<Value> = changes
        .iter()
        .map(|c| {
            let diff: Vec<Value> = c
                .diff
                .iter()
                .map(|(key, old, new)| {
                    let mut v = json!({"name": key});
                    if let Some(old) = old {
                        v["previous_value"] = json!(old);
                    }
                    if let Some(new) = new {
                        v["new_value"] = json!(new);
                    }
                    v
                })
                .collect();
            json!({"version": c.version, "timestamp": c.stamp.to_string(), "name": c.name, "changes": diff})
        })
        .collect();
    let text = || {
        let mut out = String::new();
        for c in &changes {
            out += &format!("--- {} --- {} ---\n", c.version, c.stamp);
            for (key, old, new) in &c.diff {
                if let Some(old) = old {
                    out += &format!("- {key} = {old}\n");
                }
                if let Some(new) = new {
                    out += &format!("+ {key} = {new}\n");
                }
            }
        }
        out
    };
    ctx.answer(json!(json), text)
}

/// Section and option of a change: either may have slashes in it.
fn key_parts(key: &str) -> Option<(Section, &str)> {
    let splits = || key.match_indices('/').map(|(at, _)| (&key[..at], &key[at + 1..]));
    let known = splits().find(|(_, name)| find(name).is_some()).or_else(|| splits().find(|(_, name)| name.starts_with("mgr/")));
    let (section, name) = known.or_else(|| key.rsplit_once('/'))?;
    Some((Section::parse(section)?, name))
}

fn reset(ctx: &mut Ctx<'_>) -> CmdResult {
    let (to, now) = (ctx.args.need_int("num")?, now(ctx));
    let mon = &mut *ctx.mon;
    let oldest = mon.config.history.first().map_or(mon.config.version, |change| change.version - 1);
    let Some(to) = u64::try_from(to).ok().filter(|to| (oldest..=mon.config.version).contains(to)) else {
        return err(
            errno::EINVAL,
            "must specify a valid historical version to revert to; see 'ceph config log' for a list of available configuration historical versions",
        );
    };
    let undone: Vec<(String, Option<String>)> = (mon.config.history.iter().rev().take_while(|change| change.version > to))
        .flat_map(|change| change.diff.iter().map(|(key, old, _)| (key.clone(), old.clone())))
        .collect();
    for (key, old) in undone {
        if let Some((section, name)) = key_parts(&key) {
            mon.config.change(section, name, old, now, &mut mon.batch);
        }
    }
    Ok(Reply::default())
}

/// Options that must stay in a file, since they are needed before a monitor can be asked.
const STAYS: &[&str] = &["fsid", "mon_host", "keyring", "mon_initial_members", "mon_host_override", "public_addr", "log_file"];

/// Takes over what the table knows; answers with what is left.
fn assimilate(ctx: &mut Ctx<'_>) -> CmdResult {
    let text = String::from_utf8_lossy(&ctx.input).into_owned();
    let (mut left, mut who) = (String::new(), String::new());
    let now = now(ctx);
    for line in text.lines() {
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            who = name.trim().to_string();
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        let (name, value) = (normalise(name), value.trim());
        let known = find(&name).and_then(|info| info.check(value).ok()).filter(|value| can_be_met(ctx, &name, value));
        match (known, Section::parse(&who)) {
            (Some(value), Some(section)) if !STAYS.contains(&name.as_str()) => {
                let mon = &mut *ctx.mon;
                mon.config.change(section, &name, Some(value), now, &mut mon.batch);
            }
            _ => {
                let heading = format!("[{who}]\n");
                if !left.contains(&heading) {
                    left += &heading;
                }
                left += &format!("\t{name} = {value}\n");
            }
        }
    }
    Ok(Reply::data(left))
}

fn minimal_conf(ctx: &mut Ctx<'_>) -> CmdResult {
    let fsid = ctx.mon.options.fsid;
    Ok(Reply::data(format!(
        "# minimal ceph.conf for {fsid}\n[global]\n\tfsid = {fsid}\n\tmon_host = {}\n",
        bracketed(&ctx.mon.options.mon_addrs)
    )))
}
fn bracketed(addrs: &types::EntityAddrVec) -> String {
    let text = addrs.to_string();
    if text.starts_with('[') { text } else { format!("[{text}]") }
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn closer_sections_stand_later() {
        let mut sections = ["client.123", "osd", "client", "global", "osd.0", "mon", "client.a.b"];
        sections.sort_by_key(|who| rank(who));
        assert_eq!(sections, ["global", "mon", "osd", "osd.0", "client", "client.123", "client.a.b"]);
    }
}
