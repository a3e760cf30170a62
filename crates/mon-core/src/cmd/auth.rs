//! `auth`: entities, their keys and capabilities.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag};
use cephx::{CryptoKey, EntityAuth, KeyType, Keyring, caps};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{EntityText, UTime, errno};

pub const COMMANDS: &[Command] = &[
    cmd("auth ls", "all entities, keys and capabilities", "auth", "rx", ls),
    cmd_flags("auth list", "the former name of auth ls", "auth", "rx", flag::DEPRECATED, ls),
    cmd("auth get name=entity,type=CephString", "an entity as a keyring", "auth", "rx", get),
    cmd("auth get-key name=entity,type=CephString", "an entity's key", "auth", "rx", get_key),
    cmd("auth print-key name=entity,type=CephString", "an entity's key", "auth", "rx", get_key),
    cmd("auth print_key name=entity,type=CephString", "an entity's key", "auth", "rx", get_key),
    cmd("auth export name=entity,type=CephString,req=false", "a keyring of an entity, or of all", "auth", "rx", export),
    cmd("auth import", "entities of a keyring given with -i", "auth", "rwx", import),
    cmd(
        "auth add name=entity,type=CephString name=caps,type=CephString,n=N,req=false -- name=key_type,type=CephString,req=false",
        "adds an entity, with the key given with -i or a new one",
        "auth",
        "rwx",
        add,
    ),
    cmd(
        "auth get-or-create name=entity,type=CephString name=caps,type=CephString,n=N,req=false -- name=key_type,type=CephString,req=false",
        "an entity as a keyring, made if there is none",
        "auth",
        "rwx",
        get_or_create,
    ),
    cmd(
        "auth get-or-create-key name=entity,type=CephString name=caps,type=CephString,n=N,req=false -- name=key_type,type=CephString,req=false",
        "an entity's key, made if there is none",
        "auth",
        "rwx",
        get_or_create_key,
    ),
    cmd(
        "auth rotate name=entity,type=CephString -- name=key_type,type=CephString,req=false",
        "gives an entity a new key",
        "auth",
        "rwx",
        rotate,
    ),
    cmd("auth wipe-rotating-service-keys", "makes all services' secrets anew: every ticket is void", "auth", "rwx", wipe_rotating),
    cmd("auth get-or-create-pending name=entity,type=CephString", "an entity's next key, made if there is none", "auth", "rwx", pending),
    cmd("auth clear-pending name=entity,type=CephString", "forgets an entity's next key", "auth", "rwx", clear_pending),
    cmd("auth commit-pending name=entity,type=CephString", "makes an entity's next key its key", "auth", "rwx", commit_pending),
    cmd("auth caps name=entity,type=CephString name=caps,type=CephString,n=N", "changes an entity's capabilities", "auth", "rwx", set_caps),
    cmd("auth rm name=entity,type=CephString", "removes an entity", "auth", "rwx", rm),
    cmd_flags("auth del name=entity,type=CephString", "the former name of auth rm", "auth", "rwx", flag::DEPRECATED, rm),
];

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}

fn entity(ctx: &Ctx<'_>) -> Result<EntityText, CmdError> {
    let text = ctx.args.need("entity")?;
    EntityText::parse(&text).ok_or_else(|| CmdError::new(errno::EINVAL, format!("invalid entity_auth {text}")))
}
fn known(ctx: &Ctx<'_>) -> Result<(EntityText, EntityAuth), CmdError> {
    let name = entity(ctx)?;
    match ctx.mon.auth.entities.get(&name) {
        Some(found) => Ok((name, found.clone())),
        None => err(errno::ENOENT, format!("failed to find {name} in keyring")),
    }
}

/// Capabilities given as pairs: `mon 'allow r' osd 'allow rw'`.
fn caps_of(ctx: &Ctx<'_>) -> Result<BTreeMap<String, String>, CmdError> {
    let words = ctx.args.list("caps");
    if !words.len().is_multiple_of(2) {
        return err(errno::EINVAL, "bad capabilities request; odd number of arguments");
    }
    let mut out = BTreeMap::new();
    for pair in words.chunks(2) {
        caps::check(&pair[0], &pair[1]).map_err(|e| CmdError::new(errno::EINVAL, e.to_string()))?;
        // The last of several for one service counts, as where the asker's own capability is asked.
        if pair[1].is_empty() {
            out.remove(&pair[0]);
        } else {
            out.insert(pair[0].clone(), pair[1].clone());
        }
    }
    Ok(out)
}

/// An entity's capabilities and key as JSON.
fn entity_json(name: &EntityText, e: &EntityAuth) -> Value {
    let mut v = json!({"entity": name.to_string(), "key": e.key.to_base64()});
    if !e.pending_key.is_empty() {
        v["pending_key"] = json!(e.pending_key.to_base64());
    }
    let caps: Map<String, Value> = e.caps.iter().map(|(k, t)| (k.clone(), json!(t))).collect();
    v["caps"] = Value::Object(caps);
    v
}
fn as_keyring(ctx: &Ctx<'_>, name: &EntityText, e: &EntityAuth) -> CmdResult {
    let text = || Keyring { entities: [(name.clone(), e.clone())].into() }.to_string();
    ctx.answer(json!([entity_json(name, e)]), text)
}

fn ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let mon = &*ctx.mon;
    let shown: Vec<_> = mon.auth.entities.iter().filter(|(n, _)| n.to_string() != "mon.").collect();
    let json = json!({"auth_dump": shown.iter().map(|(n, e)| entity_json(n, e)).collect::<Vec<_>>()});
    ctx.answer(json, || {
        let mut out = String::new();
        for (name, e) in &shown {
            out += &format!("{name}\n\tkey: {}\n", e.key.to_base64());
            for (service, text) in &e.caps {
                out += &format!("\tcaps: [{service}] {text}\n");
            }
        }
        out
    })
}

fn get(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, e) = known(ctx)?;
    as_keyring(ctx, &name, &e)
}
fn get_key(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = entity(ctx)?;
    let Some(e) = ctx.mon.auth.entities.get(&name) else { return err(errno::ENOENT, format!("don't have {name}")) };
    let key = e.key.to_base64();
    ctx.answer(json!({"key": key}), || key.clone())
}
fn export(ctx: &mut Ctx<'_>) -> CmdResult {
    if ctx.args.has("entity") {
        let (name, e) = known(ctx)?;
        let reply = as_keyring(ctx, &name, &e)?;
        return Ok(reply.with_status(format!("export auth(key={})", e.key.to_base64())));
    }
    let ring = ctx.mon.auth.keyring(None);
    let all: Vec<Value> = ring.entities.iter().map(|(n, e)| entity_json(n, e)).collect();
    ctx.answer(json!(all), || ring.to_string())
}

/// The keyring that came with the command.
fn input(ctx: &Ctx<'_>) -> Result<Keyring, CmdError> {
    let text = std::str::from_utf8(&ctx.input).map_err(|_| CmdError::new(errno::EINVAL, "the keyring is no text"))?;
    let ring = Keyring::parse(text).map_err(|e| CmdError::new(errno::EINVAL, format!("error decoding keyring: {e}")))?;
    for e in ring.entities.values() {
        // An empty one grants nothing, and can't be wrong.
        for (service, text) in e.caps.iter().filter(|(_, text)| !text.is_empty()) {
            caps::check(service, text).map_err(|e| CmdError::new(errno::EINVAL, e.to_string()))?;
        }
    }
    Ok(ring)
}
fn import(ctx: &mut Ctx<'_>) -> CmdResult {
    if ctx.input.is_empty() {
        return err(errno::EINVAL, "auth import: no data supplied");
    }
    for (name, e) in input(ctx)?.entities {
        let mon = &mut *ctx.mon;
        mon.auth.put(name, e, &mut mon.batch);
    }
    Ok(Reply::status("imported keyring"))
}

fn put(ctx: &mut Ctx<'_>, name: EntityText, e: EntityAuth) {
    let mon = &mut *ctx.mon;
    mon.auth.put(name, e, &mut mon.batch);
}
/// A key of the type that the command asks for, or of the cluster's.
fn new_key(ctx: &mut Ctx<'_>) -> Result<CryptoKey, CmdError> {
    let kind = match ctx.args.text("key_type").filter(|name| !name.is_empty()) {
        Some(name) => KeyType::parse(&name).ok_or_else(|| CmdError::new(errno::EINVAL, format!("invalid key type: {name}")))?,
        None => ctx.mon.auth.preferred,
    };
    Ok(CryptoKey::generate_of(kind, UTime::from_wall_ns(ctx.clock.wall_ns), ctx.mon.entropy.as_mut()))
}

fn add(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, mut caps) = (entity(ctx)?, caps_of(ctx)?);
    let given = if ctx.input.is_empty() { None } else { input(ctx)?.get(&name).cloned() };
    if !ctx.input.is_empty() && given.is_none() {
        return err(errno::EINVAL, format!("invalid keyring: it has no {name}"));
    }
    if let Some(given) = &given {
        if !caps.is_empty() && !given.caps.is_empty() {
            return err(errno::EINVAL, "caps cannot be specified both in keyring and in command");
        }
        if caps.is_empty() {
            caps = given.caps.clone();
        }
    }
    if let Some(known) = ctx.mon.auth.entities.get(&name) {
        if given.as_ref().is_some_and(|g| g.key != known.key) {
            return err(errno::EINVAL, format!("entity {name} exists but key does not match"));
        }
        if known.caps != caps {
            return err(errno::EINVAL, format!("entity {name} exists but caps do not match"));
        }
        return Ok(Reply::default());
    }
    let key = match given {
        Some(given) if !given.key.is_empty() => given.key,
        _ => new_key(ctx)?,
    };
    put(ctx, name.clone(), EntityAuth { key, caps, pending_key: CryptoKey::default() });
    Ok(Reply::status(format!("added key for {name}")))
}

/// The entity as it is, or made.
fn or_create(ctx: &mut Ctx<'_>) -> Result<(EntityText, EntityAuth), CmdError> {
    let (name, caps) = (entity(ctx)?, caps_of(ctx)?);
    if let Some(known) = ctx.mon.auth.entities.get(&name) {
        if ctx.args.has("caps") && !ctx.args.list("caps").is_empty() && known.caps != caps {
            return err(errno::EINVAL, format!("key for {name} exists but cap {} does not match", first_difference(&caps, &known.caps)));
        }
        return Ok((name, known.clone()));
    }
    let e = EntityAuth { key: new_key(ctx)?, caps, pending_key: CryptoKey::default() };
    put(ctx, name.clone(), e.clone());
    Ok((name, e))
}
fn first_difference(wanted: &BTreeMap<String, String>, known: &BTreeMap<String, String>) -> String {
    let differs = wanted.iter().find(|(k, v)| known.get(*k) != Some(v)).map(|(k, _)| k.clone());
    differs.or_else(|| known.keys().find(|k| !wanted.contains_key(*k)).cloned()).unwrap_or_default()
}
fn get_or_create(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, e) = or_create(ctx)?;
    // Capabilities are left out here: this is what a keyring file of the new entity holds.
    let short = EntityAuth { caps: BTreeMap::new(), ..e.clone() };
    let text = || Keyring { entities: [(name.clone(), short.clone())].into() }.to_string();
    ctx.answer(json!([entity_json(&name, &e)]), text)
}
fn get_or_create_key(ctx: &mut Ctx<'_>) -> CmdResult {
    let (_, e) = or_create(ctx)?;
    let key = e.key.to_base64();
    ctx.answer(json!({"key": key}), || key.clone())
}

fn rotate(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, mut e) = known(ctx)?;
    e.key = new_key(ctx)?;
    e.pending_key = CryptoKey::default();
    put(ctx, name.clone(), e.clone());
    as_keyring(ctx, &name, &e)
}
fn wipe_rotating(ctx: &mut Ctx<'_>) -> CmdResult {
    let mon = &mut *ctx.mon;
    mon.auth.wipe_rotating(UTime::from_wall_ns(ctx.clock.wall_ns), mon.entropy.as_mut(), &mut mon.batch);
    Ok(Reply::status("wiped rotating service keys!"))
}
fn pending(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, mut e) = known(ctx)?;
    if e.pending_key.is_empty() {
        e.pending_key = new_key(ctx)?;
        put(ctx, name.clone(), e.clone());
    }
    as_keyring(ctx, &name, &e)
}
fn clear_pending(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, mut e) = known(ctx)?;
    if !e.pending_key.is_empty() {
        e.pending_key = CryptoKey::default();
        put(ctx, name, e);
    }
    Ok(Reply::default())
}
fn commit_pending(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, mut e) = known(ctx)?;
    if !e.pending_key.is_empty() {
        e.key = std::mem::take(&mut e.pending_key);
        put(ctx, name, e);
    }
    Ok(Reply::default())
}

fn set_caps(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, caps) = (entity(ctx)?, caps_of(ctx)?);
    let Some(mut e) = ctx.mon.auth.entities.get(&name).cloned() else {
        return err(errno::ENOENT, format!("couldn't find entry {name}"));
    };
    e.caps = caps;
    put(ctx, name.clone(), e);
    refresh_sessions(ctx, &name);
    Ok(Reply::status(format!("updated caps for {name}")))
}
/// Open sessions with the monitor follow a change of their entity's capabilities at once.
fn refresh_sessions(ctx: &mut Ctx<'_>, name: &EntityText) {
    let text = ctx.mon.auth.entities.get(name).and_then(|e| e.caps.get("mon")).cloned();
    let info = text.map(|t| cephx::AuthCapsInfo::from_text(&t)).unwrap_or_default();
    for session in ctx.mon.sessions.values_mut() {
        if session.endpoint == crate::Endpoint::Mon && session.peer.entity == *name && !session.peer.caps.allow_all {
            session.caps = crate::caps::Caps::new(crate::Endpoint::Mon, &info);
        }
    }
}

fn rm(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = entity(ctx)?;
    let mon = &mut *ctx.mon;
    if !mon.auth.remove(&name, &mut mon.batch) {
        return Ok(Reply::status(format!("entity {name} does not exist")));
    }
    refresh_sessions(ctx, &name);
    Ok(Reply::default())
}
