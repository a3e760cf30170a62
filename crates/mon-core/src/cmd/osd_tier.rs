//! Pools as cache tiers of others, as far as the map goes: `osd tier add|remove|cache-mode|rm-overlay`.
//!
//! No OSD of ours promotes or flushes. So a tier can be declared and shown, with the modes in which nothing depends on it; those that would
//! send clients to it are refused.

use super::osd_pool::pool_id;
use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag};
use types::{PoolId, errno};

pub const COMMANDS: &[Command] = &[
    cmd(
        "osd tier add name=pool,type=CephPoolname name=tierpool,type=CephPoolname \
         name=force_nonempty,type=CephChoices,strings=--force-nonempty,req=false",
        "makes a pool a tier of another",
        "osd",
        "rw",
        add,
    ),
    cmd("osd tier rm name=pool,type=CephPoolname name=tierpool,type=CephPoolname", "takes a tier back", "osd", "rw", remove),
    cmd("osd tier remove name=pool,type=CephPoolname name=tierpool,type=CephPoolname", "takes a tier back", "osd", "rw", remove),
    cmd(
        "osd tier cache-mode name=pool,type=CephPoolname \
         name=mode,type=CephChoices,strings=writeback|proxy|readproxy|readonly|none name=yes_i_really_mean_it,type=CephBool,req=false",
        "sets how a tier caches",
        "osd",
        "rw",
        cache_mode,
    ),
    cmd(
        "osd tier set-overlay name=pool,type=CephPoolname name=overlaypool,type=CephPoolname",
        "sends a pool's clients to its tier",
        "osd",
        "rw",
        |_| unserved("an overlay"),
    ),
    // There is none to take back.
    cmd("osd tier rm-overlay name=pool,type=CephPoolname", "sends a pool's clients to itself again", "osd", "rw", rm_overlay),
    cmd_flags(
        "osd tier remove-overlay name=pool,type=CephPoolname",
        "sends a pool's clients to itself again",
        "osd",
        "rw",
        flag::DEPRECATED,
        rm_overlay,
    ),
    cmd(
        "osd tier add-cache name=pool,type=CephPoolname name=tierpool,type=CephPoolname name=size,type=CephInt,range=0",
        "makes a pool the cache of another",
        "osd",
        "rw",
        |_| unserved("a cache"),
    ),
];

/// `cache_mode_t`.
const NONE: u8 = 0;
const READONLY: u8 = 3;

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}
fn unserved(what: &str) -> CmdResult {
    err(errno::EOPNOTSUPP, format!("{what} is not supported: the OSDs of this cluster do not serve cache tiers"))
}

/// Both pools of a command.
fn pair(ctx: &Ctx<'_>) -> Result<(PoolId, PoolId), CmdError> {
    Ok((pool_id(ctx, "pool")?, pool_id(ctx, "tierpool")?))
}

fn add(ctx: &mut Ctx<'_>) -> CmdResult {
    let (base, tier) = pair(ctx)?;
    let (name, tier_name) = (ctx.args.need("pool")?, ctx.args.need("tierpool")?);
    let map = &ctx.mon.osd.map;
    let (b, t) = (map.pools.get(&base), map.pools.get(&tier));
    let (Some(b), Some(t)) = (b, t) else { return err(errno::EAGAIN, "one of the pools is not there yet") };
    if base == tier || b.is_tier() {
        return err(errno::EINVAL, format!("tier pool '{name}' can't have a tier"));
    }
    if t.tier_of == base {
        return Ok(Reply::status(format!("pool '{tier_name}' is now (or already was) a tier of '{name}'")));
    }
    if t.is_tier() || !t.tiers.is_empty() {
        return err(errno::EINVAL, format!("tier pool '{tier_name}' is a tier, or has one, already"));
    }
    if t.is_erasure() {
        return err(errno::EOPNOTSUPP, format!("tier pool '{tier_name}' is an ec pool, which cannot be a tier"));
    }
    ctx.mon.check_pool_is_free(tier)?;
    let objects = ctx.mon.manager.pgs.pool_sum(tier).num_objects;
    if objects != 0 && !ctx.args.has("force_nonempty") {
        return err(errno::ENOTEMPTY, format!("tier pool '{tier_name}' is not empty; --force-nonempty to force"));
    }
    if (!t.snaps.is_empty() || t.is_unmanaged_snaps_mode()) && !ctx.args.has("force_nonempty") {
        return err(
            errno::ENOTEMPTY,
            format!("tier pool '{tier_name}' has snapshot state; it cannot be added as a tier without breaking the pool"),
        );
    }
    let epoch = ctx.mon.osd.map.epoch + 1;
    let base_pool = ctx.mon.osd.pool_mut(base).expect("we looked");
    base_pool.tiers.insert(tier as u64);
    base_pool.snap_epoch = epoch;
    ctx.mon.osd.pool_mut(tier).expect("we looked").tier_of = base;
    Ok(Reply::status(format!("pool '{tier_name}' is now (or already was) a tier of '{name}'")))
}

fn remove(ctx: &mut Ctx<'_>) -> CmdResult {
    let (base, tier) = pair(ctx)?;
    let (name, tier_name) = (ctx.args.need("pool")?, ctx.args.need("tierpool")?);
    if ctx.mon.osd.map.pools.get(&tier).is_none_or(|t| t.tier_of != base) {
        return Ok(Reply::status(format!("pool '{tier_name}' is now (or already was) not a tier of '{name}'")));
    }
    ctx.mon.osd.pool_mut(base).expect("it is there").tiers.remove(&(tier as u64));
    let t = ctx.mon.osd.pool_mut(tier).expect("we looked");
    (t.tier_of, t.read_tier, t.write_tier, t.cache_mode) = (-1, -1, -1, NONE);
    t.application_metadata.clear();
    Ok(Reply::status(format!("pool '{tier_name}' is now (or already was) not a tier of '{name}'")))
}

fn rm_overlay(ctx: &mut Ctx<'_>) -> CmdResult {
    pool_id(ctx, "pool")?;
    Ok(Reply::status(format!("there is now (or already was) no overlay for '{}'", ctx.args.need("pool")?)))
}

fn cache_mode(ctx: &mut Ctx<'_>) -> CmdResult {
    let (id, name, mode) = (pool_id(ctx, "pool")?, ctx.args.need("pool")?, ctx.args.need("mode")?);
    if ctx.mon.osd.map.pools.get(&id).is_none_or(|p| !p.is_tier()) {
        return err(errno::EINVAL, format!("pool '{name}' is not a tier"));
    }
    let value = match mode.as_str() {
        "none" => NONE,
        "readonly" if !ctx.args.flag("yes_i_really_mean_it") => {
            return err(
                errno::EPERM,
                "'readonly' is not a well-supported cache mode and may corrupt your data. pass --yes-i-really-mean-it to force.",
            );
        }
        "readonly" => READONLY,
        other => return unserved(&format!("cache mode {other}")),
    };
    ctx.mon.osd.pool_mut(id).expect("we looked").cache_mode = value;
    Ok(Reply::status(format!("set cache-mode for pool '{name}' to {mode}")))
}
