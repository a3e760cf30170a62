//! Profiles of erasure coding and their rules. Pools by them are refused: no OSD of ours codes.

use super::osd_crush::refused;
use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use crush::Rule;
use maps::osd_map::Profile;
use serde_json::json;
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd("osd erasure-code-profile ls", "names of profiles of erasure coding", "osd", "r", ls),
    cmd("osd erasure-code-profile get name=name,type=CephString,goodchars=[A-Za-z0-9-_.]", "a profile of erasure coding", "osd", "r", get),
    cmd(
        "osd erasure-code-profile set name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=profile,type=CephString,n=N,req=false \
         name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        "makes a profile of erasure coding of key=value pairs",
        "osd",
        "rw",
        set,
    ),
    cmd(
        "osd erasure-code-profile rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "removes a profile of erasure coding",
        "osd",
        "rw",
        rm,
    ),
    cmd(
        "osd crush rule create-erasure name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=profile,type=CephString,goodchars=[A-Za-z0-9-_.=],req=false",
        "makes a rule for pools of a profile of erasure coding",
        "osd",
        "rw",
        create_rule,
    ),
];

/// Plug-ins of the field.
const PLUGINS: [&str; 5] = ["jerasure", "isa", "lrc", "shec", "clay"];

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}

/// Refuses a number of a profile that is below `min`, or none.
fn check_number(profile: &Profile, key: &str, min: u8) -> Result<(), CmdError> {
    match profile.get(key).map(|text| text.parse::<u8>()) {
        None => Ok(()),
        Some(Ok(n)) if n >= min => Ok(()),
        Some(_) => err(errno::EINVAL, format!("{key}={} must be a number >= {min}", profile[key])),
    }
}

/// A profile as the change being made leaves it.
pub fn profile(ctx: &Ctx<'_>, name: &str) -> Option<Profile> {
    let pending = ctx.mon.osd.peek_pending().and_then(|inc| inc.new_erasure_code_profiles.get(name));
    pending.or_else(|| ctx.mon.osd.map.erasure_code_profiles.get(name)).cloned()
}

fn ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let names: Vec<String> = ctx.mon.osd.map.erasure_code_profiles.keys().cloned().collect();
    ctx.answer(json!(names), || names.iter().map(|n| format!("{n}\n")).collect())
}

fn get(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("name")?;
    match ctx.mon.osd.map.erasure_code_profiles.get(&name) {
        Some(profile) => ctx.answer(json!(profile), || profile.iter().map(|(k, v)| format!("{k}={v}\n")).collect()),
        None => err(errno::ENOENT, format!("unknown erasure code profile '{name}'")),
    }
}

fn set(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("name")?;
    let mut made = Profile::new();
    for word in ctx.args.list("profile") {
        let (key, value) = word.split_once('=').unwrap_or((&word, ""));
        made.insert(key.trim().into(), value.trim().into());
    }
    let default = ctx.mon.config.mon_value("osd_pool_default_erasure_code_profile");
    let same_plugin = made.get("plugin").is_none_or(|p| default.contains(&format!("plugin={p}")));
    for (key, value) in default.split_whitespace().filter_map(|pair| pair.split_once('=')) {
        // Another plug-in has other parameters.
        if same_plugin || key == "plugin" {
            made.entry(key.into()).or_insert_with(|| value.into());
        }
    }
    for (key, value) in [("crush-device-class", ""), ("crush-failure-domain", "host"), ("crush-root", "default")] {
        made.entry(key.into()).or_insert_with(|| value.into());
    }
    let plugin = made.get("plugin").cloned().unwrap_or_default();
    if !PLUGINS.contains(&plugin.as_str()) {
        return err(errno::ENOENT, format!("there is no erasure code plugin '{plugin}'"));
    }
    check_number(&made, "k", 2)?;
    check_number(&made, "m", 1)?;
    let (force, sure) = (ctx.args.flag("force"), ctx.args.flag("yes_i_really_mean_it"));
    match profile(ctx, &name) {
        Some(old) if old == made => return Ok(Reply::default()),
        Some(_) if !force => {
            return err(errno::EPERM, format!("will not override erasure code profile {name} because the existing profile is different"));
        }
        Some(_) if !sure => {
            return err(errno::EPERM, "overriding erasure code profile can be DANGEROUS; add --yes-i-really-mean-it to do it anyway");
        }
        _ => {}
    }
    let text = format!(
        "profile {name} is kept, for `ceph osd crush rule create-erasure` and for maps of stock clusters: pools of erasure codes can't be made here"
    );
    ctx.mon.osd.pending().new_erasure_code_profiles.insert(name, made);
    Ok(Reply::status(text))
}

fn rm(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("name")?;
    let map = &ctx.mon.osd.map;
    if let Some((id, _)) = map.pools.iter().find(|(_, p)| p.is_erasure() && p.erasure_code_profile == name) {
        let pool = map.pool_name(*id).unwrap_or_default();
        return err(errno::EBUSY, format!("{pool} pool(s) are using the erasure code profile '{name}'"));
    }
    if !map.erasure_code_profiles.contains_key(&name) {
        return Ok(Reply::status(format!("erasure-code-profile {name} does not exist")));
    }
    ctx.mon.osd.pending().old_erasure_code_profiles.push(name);
    Ok(Reply::default())
}

/// Makes a rule by what a profile says of places, unless there is one of that name; its number.
fn rule_by(ctx: &mut Ctx<'_>, name: &str, profile: &Profile) -> Result<u32, CmdError> {
    if let Some(id) = ctx.mon.osd.map.crush.rule_id(name) {
        return Ok(id);
    }
    let text = |key: &str, default: &str| profile.get(key).cloned().unwrap_or_else(|| default.into());
    let (root, domain, class) = (text("crush-root", "default"), text("crush-failure-domain", "host"), text("crush-device-class", ""));
    let mut id = 0;
    let edit = |crush: &mut maps::CrushMap| {
        id = crush.create_rule(name, &root, &domain, &class, true, Rule::ERASURE)?;
        Ok(true)
    };
    ctx.mon.osd.edit_crush(edit).map_err(refused)?;
    Ok(id)
}

fn create_rule(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("name")?;
    if ctx.mon.osd.map.crush.rule_id(&name).is_some() {
        return Ok(Reply::status(format!("rule {name} already exists")));
    }
    let wanted = ctx.args.text("profile").filter(|p| !p.is_empty()).unwrap_or_else(|| "default".into());
    let Some(profile) = profile(ctx, &wanted) else { return err(errno::ENOENT, format!("unknown erasure code profile '{wanted}'")) };
    let id = rule_by(ctx, &name, &profile)?;
    Ok(Reply::status(format!("created rule {name} at {id}")))
}
