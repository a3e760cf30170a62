//! What a daemon goes by: `config show`, as the daemon itself reports it, and the same with all defaults.

use super::table::Table;
use super::{CmdError, CmdResult, Command, Ctx, Reply, mgr_cmd};
use bytes::Bytes;
use denc::{Decoder, DencError};
use options::{find, normalise};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{EntityKind, EntityText, errno};

pub const COMMANDS: &[Command] = &[
    mgr_cmd(
        "config show name=who,type=CephString name=key,type=CephString,req=false",
        "what a daemon goes by, and where it has that from",
        "mgr",
        "r",
        |ctx| show(ctx, false),
    ),
    mgr_cmd("config show-with-defaults name=who,type=CephString", "the same with all defaults", "mgr", "r", |ctx| show(ctx, true)),
];

/// Where a value is from, by the number that daemons report: the last of several counts. Source of the facts: 18.2 `src/common/config.h`.
const SOURCES: [&str; 7] = ["default", "mon", "file", "env", "cmdline", "override", "final"];
const MON: usize = 1;
const OVERRIDE: usize = 5;

/// The values of an option by their source.
type Values = BTreeMap<usize, String>;

/// A daemon's configuration out of its report, and the options for which it ignores what the monitor says.
fn reported(config: &Bytes) -> Result<(BTreeMap<String, Values>, Vec<String>), DencError> {
    let mut d = Decoder::new(config.clone());
    let mut out = BTreeMap::new();
    for _ in 0..d.count(8)? {
        let name: String = d.get()?;
        let mut values = Values::new();
        for _ in 0..d.count(8)? {
            let source = d.i32()?;
            let value: String = d.get()?;
            values.insert(usize::try_from(source).unwrap_or(0).min(SOURCES.len() - 1), value);
        }
        out.insert(name, values);
    }
    let mut ignored = Vec::new();
    if !d.is_empty() {
        for _ in 0..d.count(8)? {
            ignored.push(d.get()?);
            let _: String = d.get()?;
        }
    }
    Ok((out, ignored))
}

/// What is known of a daemon: by its report, or of the monitor by itself.
fn known(ctx: &Ctx<'_>, who: &EntityText) -> Result<(BTreeMap<String, Values>, Vec<String>), CmdError> {
    let config = &ctx.mon.config;
    if *who == EntityText::new(EntityKind::MON, crate::monmap::NAME) {
        let mut out: BTreeMap<String, Values> = BTreeMap::new();
        for (name, (_, value)) in config.resolve(who, "", "") {
            out.entry(name.into()).or_default().insert(MON, value.into());
        }
        for (name, value) in &config.overrides {
            out.entry(name.clone()).or_default().insert(OVERRIDE, value.clone());
        }
        return Ok((out, Vec::new()));
    }
    let daemon = ctx.mon.manager.daemons.get(&who.to_string()).filter(|daemon| !daemon.config.is_empty());
    let Some(daemon) = daemon else { return Err(CmdError::new(errno::ENOENT, format!("no config state for daemon {who}"))) };
    let unread = |e| CmdError::new(errno::EIO, format!("what {who} reports of its configuration can't be read: {e}"));
    reported(&daemon.config).map_err(unread)
}

fn show(ctx: &mut Ctx<'_>, with_defaults: bool) -> CmdResult {
    let who = ctx.args.need("who")?;
    let invalid = || CmdError::new(errno::EINVAL, "invalid daemon name: use <type>.<id>");
    let who = EntityText::parse(&who).ok_or_else(invalid)?;
    let (known, ignored) = known(ctx, &who)?;
    if let Some(key) = ctx.args.text("key").map(|key| normalise(&key)) {
        let value = match known.get(&key).and_then(|values| values.last_key_value()) {
            _ if key == "fsid" => ctx.mon.options.fsid.to_string(),
            Some((_, value)) => value.clone(),
            None => find(&key).ok_or_else(|| CmdError::new(errno::ENOENT, format!("there is no option '{key}'")))?.default.into(),
        };
        return Ok(Reply::data(value + "\n"));
    }
    let mut shown = known;
    if with_defaults {
        for name in options::names() {
            let default = find(name).map_or("", |info| info.default);
            shown.entry((*name).into()).or_default().entry(0).or_insert_with(|| default.into());
        }
    }
    let rows: Vec<_> = shown.iter().filter_map(|(name, values)| Some((name, values, values.last_key_value()?))).collect();
    // With defaults a value that is set overrides one: that is no news.
    let beaten = |values: &Values, last: usize| -> Vec<(usize, String)> {
        values.iter().filter(|(source, _)| **source != last && (!with_defaults || **source != 0)).map(|(s, v)| (*s, v.clone())).collect()
    };
    let json: Vec<Value> = rows
        .iter()
        .map(|(name, values, (source, value))| {
            let mut row = json!({"name": name, "value": value, "source": SOURCES[**source]});
            let others = beaten(values, **source);
            if !others.is_empty() {
                row["overrides"] = others.iter().map(|(source, value)| json!({"source": SOURCES[*source], "value": value})).collect();
            }
            if ignored.contains(name) {
                row["ignores"] = json!("mon");
            }
            row
        })
        .collect();
    ctx.answer(Value::Array(json), || {
        let mut t = Table::new(&["<NAME", "<VALUE", "<SOURCE", "<OVERRIDES", "<IGNORES"]);
        for (name, values, (source, value)) in &rows {
            let others: Vec<String> = beaten(values, **source)
                .iter()
                .map(|(other, text)| {
                    let one = format!("{}[{text}]", SOURCES[*other]);
                    if text == *value { format!("({one})") } else { one }
                })
                .collect();
            let ignores = if ignored.contains(name) { "mon" } else { "" };
            t.row(vec![name.to_string(), value.to_string(), SOURCES[**source].into(), others.join(","), ignores.into()]);
        }
        t.text()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use denc::{Denc, Encoder};

    #[test]
    fn a_report_is_read() {
        let mut e = Encoder::new(0);
        e.count(1);
        "debug_ms".to_string().encode(&mut e);
        e.count(2);
        for (source, value) in [(1, "1/5"), (5, "0/0")] {
            e.i32(source);
            value.to_string().encode(&mut e);
        }
        e.count(1);
        "debug_ms".to_string().encode(&mut e);
        "x".to_string().encode(&mut e);
        let (known, ignored) = reported(&e.finish()).unwrap();
        assert_eq!(known["debug_ms"], [(1, "1/5".to_string()), (5, "0/0".to_string())].into());
        assert_eq!(ignored, ["debug_ms"]);
        assert!(reported(&Bytes::from_static(b"\xff\xff\xff\xff")).is_err());
    }
}
