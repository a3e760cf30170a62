//! Settings of the whole OSDMap: which clients may connect, how full is full, profiles of erasure coding.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use maps::Release;
use serde_json::json;
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd("osd get-require-min-compat-client", "the oldest release that clients may be of", "osd", "r", |ctx| {
        let name = ctx.mon.osd.map.require_min_compat_client.name();
        Ok(Reply::data(format!("{name}\n")))
    }),
    cmd(
        "osd set-require-min-compat-client name=version,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "sets the oldest release that clients may be of",
        "osd",
        "rw",
        set_compat,
    ),
    cmd("osd set-full-ratio name=ratio,type=CephFloat,range=0.0|1.0", "the share from which an OSD is full", "osd", "rw", |ctx| ratio(ctx, "full")),
    cmd("osd set-backfillfull-ratio name=ratio,type=CephFloat,range=0.0|1.0", "the share from which an OSD takes no backfill", "osd", "rw", |ctx| {
        ratio(ctx, "backfillfull")
    }),
    cmd("osd set-nearfull-ratio name=ratio,type=CephFloat,range=0.0|1.0", "the share from which an OSD is nearly full", "osd", "rw", |ctx| {
        ratio(ctx, "nearfull")
    }),
    cmd("osd erasure-code-profile ls", "names of profiles of erasure coding", "osd", "r", profile_ls),
    cmd(
        "osd erasure-code-profile get name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "a profile of erasure coding",
        "osd",
        "r",
        profile_get,
    ),
    cmd(
        "osd erasure-code-profile rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "removes a profile of erasure coding",
        "osd",
        "rw",
        profile_rm,
    ),
];

fn set_compat(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("version")?;
    let Some(release) = Release::parse(&name) else {
        return Err(CmdError::new(errno::EINVAL, format!("version {name} is not recognized")));
    };
    if release > Release::REEF {
        return Err(CmdError::new(errno::EPERM, format!("{name} is newer than this cluster, which is of {}", Release::REEF)));
    }
    let needs = super::osd_map::min_compat_client(&ctx.mon.osd.map);
    if release < needs {
        return Err(CmdError::new(errno::EPERM, format!("osdmap current utilizes features that require {needs}; cannot set require_min_compat_client below that to {name}")));
    }
    ctx.mon.osd.pending().new_require_min_compat_client = release;
    Ok(Reply::status(format!("set require_min_compat_client to {name}")))
}

fn ratio(ctx: &mut Ctx<'_>, which: &str) -> CmdResult {
    let value = ctx.args.float("ratio")?.ok_or_else(|| CmdError::new(errno::EINVAL, "missing required parameter ratio"))?;
    if !(0.0..=1.0).contains(&value) {
        return Err(CmdError::new(errno::EINVAL, format!("ratio {value} is not in [0.0..1.0]")));
    }
    let inc = ctx.mon.osd.pending();
    *match which {
        "full" => &mut inc.new_full_ratio,
        "backfillfull" => &mut inc.new_backfillfull_ratio,
        _ => &mut inc.new_nearfull_ratio,
    } = value as f32;
    Ok(Reply::status(format!("osd set-{which}-ratio {value}")))
}

fn profile_ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let names: Vec<String> = ctx.mon.osd.map.erasure_code_profiles.keys().cloned().collect();
    ctx.answer(json!(names), || names.iter().map(|n| format!("{n}\n")).collect())
}

fn profile_get(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("name")?;
    match ctx.mon.osd.map.erasure_code_profiles.get(&name) {
        Some(profile) => ctx.answer(json!(profile), || profile.iter().map(|(k, v)| format!("{k}={v}\n")).collect()),
        None => Err(CmdError::new(errno::ENOENT, format!("unknown erasure code profile '{name}'"))),
    }
}

fn profile_rm(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("name")?;
    let map = &ctx.mon.osd.map;
    if let Some((id, _)) = map.pools.iter().find(|(_, p)| p.is_erasure() && p.erasure_code_profile == name) {
        let pool = map.pool_name(*id).unwrap_or_default();
        return Err(CmdError::new(errno::EBUSY, format!("{pool} pool(s) are using the erasure code profile '{name}'")));
    }
    if !map.erasure_code_profiles.contains_key(&name) {
        return Ok(Reply::status(format!("erasure-code-profile {name} does not exist")));
    }
    ctx.mon.osd.pending().old_erasure_code_profiles.push(name);
    Ok(Reply::default())
}
