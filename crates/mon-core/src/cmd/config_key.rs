//! The store of keys and values for tools: `config-key get|set|rm|exists|ls|dump`.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag};
use serde_json::{Map, Value, json};
use types::errno;

/// The largest value that is taken (`mon_config_key_max_entry_size`).
const MAX_VALUE: usize = 64 * 1024;

pub const COMMANDS: &[Command] = &[
    cmd("config-key get name=key,type=CephString", "the value of a key", "config-key", "r", get),
    cmd("config-key set name=key,type=CephString name=val,type=CephString,req=false", "sets a key to a value", "config-key", "rw", set),
    cmd_flags(
        "config-key put name=key,type=CephString name=val,type=CephString,req=false",
        "sets a key to a value",
        "config-key",
        "rw",
        flag::DEPRECATED,
        set,
    ),
    cmd_flags("config-key del name=key,type=CephString", "removes a key", "config-key", "rw", flag::DEPRECATED, remove),
    cmd("config-key rm name=key,type=CephString", "removes a key", "config-key", "rw", remove),
    cmd("config-key exists name=key,type=CephString", "whether there is such a key", "config-key", "r", exists),
    cmd_flags("config-key list", "all keys", "config-key", "r", flag::DEPRECATED, list),
    cmd("config-key ls", "all keys", "config-key", "r", list),
    cmd(
        "config-key dump name=key,type=CephString,req=false",
        "keys with their values, all or those that begin so",
        "config-key",
        "r",
        dump,
    ),
];

fn get(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.args.need("key")?;
    match ctx.mon.keys.entries.get(&key) {
        Some(value) => Ok(Reply::data(value.clone())),
        None => Err(CmdError::new(errno::ENOENT, "")),
    }
}

fn set(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.args.need("key")?;
    let value = match ctx.args.text("val") {
        Some(val) => bytes::Bytes::from(val),
        // `-i FILE`. Copied: the request's frame need not live as long as the key.
        None => bytes::Bytes::copy_from_slice(&ctx.input),
    };
    if value.len() > MAX_VALUE {
        return Err(CmdError::new(
            errno::EFBIG,
            format!("error: entry size limited to {MAX_VALUE} bytes. Use 'mon config key max entry size' to manually adjust"),
        ));
    }
    let mon = &mut *ctx.mon;
    mon.keys.set(&key, Some(value), &mut mon.batch);
    Ok(Reply::status(format!("set {key}")))
}

fn remove(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.args.need("key")?;
    let mon = &mut *ctx.mon;
    mon.keys.set(&key, None, &mut mon.batch);
    // A key that isn't there is as good as removed.
    Ok(Reply::status("key deleted"))
}

fn exists(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.args.need("key")?;
    if ctx.mon.keys.entries.contains_key(&key) {
        return Ok(Reply::status(format!("key '{key}' exists")));
    }
    Err(CmdError::new(errno::ENOENT, format!("key '{key}' doesn't exist")))
}

fn list(ctx: &mut Ctx<'_>) -> CmdResult {
    let keys: Vec<&String> = ctx.mon.keys.entries.keys().collect();
    ctx.answer_json(json!(keys))
}

fn dump(ctx: &mut Ctx<'_>) -> CmdResult {
    let prefix = ctx.args.text("key").unwrap_or_default();
    let all: Map<String, Value> = ctx
        .mon
        .keys
        .below(&prefix)
        .map(|(key, value)| {
            let text = std::str::from_utf8(value).ok().filter(|t| t.chars().all(|c| !c.is_control() || c.is_whitespace()));
            let shown = text.map_or_else(|| format!("<<< binary blob of length {} >>>", value.len()), str::to_string);
            (key.clone(), json!(shown))
        })
        .collect();
    ctx.answer_json(Value::Object(all))
}
