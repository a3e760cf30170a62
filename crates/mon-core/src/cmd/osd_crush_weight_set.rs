//! Weight-sets: weights that CRUSH draws by instead of the buckets' own, for a pool, or for all that have none of their own (`(compat)`, which clients of
//! before Luminous follow, too).

use super::osd_pool::pool_id;
use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use crush::{Alg, CrushMap, DEFAULT_CHOOSE_ARGS};
use maps::Release;
use serde_json::json;
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd("osd crush weight-set ls", "lists weight-sets", "osd", "r", list),
    cmd("osd crush weight-set dump", "weight-sets, with all weights", "osd", "r", |ctx| {
        let json = super::osd_crush_dump::choose_args_json(&ctx.mon.osd.map.crush);
        ctx.answer_json(json)
    }),
    cmd("osd crush weight-set create-compat", "makes the weight-set of pools that have none", "osd", "rw", |ctx| {
        create(ctx, DEFAULT_CHOOSE_ARGS, 1, "compat weight-set already created")
    }),
    cmd(
        "osd crush weight-set create name=pool,type=CephPoolname name=mode,type=CephChoices,strings=flat|positional",
        "makes a weight-set of a pool: one weight for an item, or one for each place of a group's set",
        "osd",
        "rw",
        create_for_pool,
    ),
    cmd("osd crush weight-set rm name=pool,type=CephPoolname", "removes a pool's weight-set", "osd", "rw", |ctx| {
        let pool = pool_id(ctx, "pool")?;
        remove(ctx, pool)
    }),
    cmd("osd crush weight-set rm-compat", "removes the weight-set of pools that have none", "osd", "rw", |ctx| {
        remove(ctx, DEFAULT_CHOOSE_ARGS)
    }),
    cmd(
        "osd crush weight-set reweight name=pool,type=CephPoolname name=item,type=CephString name=weight,type=CephFloat,range=0.0,n=N",
        "sets an item's weights in a pool's weight-set",
        "osd",
        "rw",
        |ctx| {
            let pool = pool_id(ctx, "pool")?;
            let name = ctx.args.need("pool")?;
            reweight(ctx, pool, &format!("no weight-set for pool '{name}'"))
        },
    ),
    cmd(
        "osd crush weight-set reweight-compat name=item,type=CephString name=weight,type=CephFloat,range=0.0,n=N",
        "sets an item's weight in the weight-set of pools that have none",
        "osd",
        "rw",
        |ctx| reweight(ctx, DEFAULT_CHOOSE_ARGS, "no backward-compatible weight-set"),
    ),
];

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}

fn list(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    let name =
        |id: &i64| if *id == DEFAULT_CHOOSE_ARGS { "(compat)".to_string() } else { map.pool_names.get(id).cloned().unwrap_or_default() };
    let names: Vec<String> = map.crush.choose_args.keys().map(name).collect();
    ctx.answer(json!(names), || names.iter().map(|name| format!("{name}\n")).collect())
}

fn create(ctx: &mut Ctx<'_>, id: i64, positions: usize, already: &str) -> CmdResult {
    let crush = &ctx.mon.osd.map.crush;
    if crush.iter_buckets().any(|bucket| bucket.alg() != Alg::Straw2) {
        return err(errno::EPERM, "crush map contains one or more bucket(s) that are not straw2");
    }
    let made = ctx.mon.osd.edit_crush(|crush| Ok::<_, CmdError>(crush.create_weight_sets(id, positions)))?;
    Ok(if made { Reply::default() } else { Reply::status(already) })
}

fn create_for_pool(ctx: &mut Ctx<'_>) -> CmdResult {
    let (id, name, mode) = (pool_id(ctx, "pool")?, ctx.args.need("pool")?, ctx.args.need("mode")?);
    let map = &ctx.mon.osd.map;
    let least = map.require_min_compat_client;
    if least != Release::UNKNOWN && least < Release::LUMINOUS {
        return err(
            errno::EPERM,
            format!(
                "require_min_compat_client {least} < luminous, which is required for per-pool weight-sets. Try 'ceph osd \
                 set-require-min-compat-client luminous' before using the new interface"
            ),
        );
    }
    let size = map.pools.get(&id).map_or(1, |pool| usize::from(pool.size));
    let positions = if mode == "flat" { 1 } else { size };
    create(ctx, id, positions, &format!("weight-set for pool '{name}' already created"))
}

fn remove(ctx: &mut Ctx<'_>, id: i64) -> CmdResult {
    ctx.mon.osd.edit_crush(|crush| Ok::<_, CmdError>(crush.choose_args.remove(&id).is_some()))?;
    Ok(Reply::default())
}

/// How many weights an item has in a weight-set.
fn positions(crush: &CrushMap, id: i64) -> Option<usize> {
    Some(crush.choose_args.get(&id)?.values().map(|arg| arg.weight_set.len()).find(|n| *n > 0).unwrap_or(1))
}

fn reweight(ctx: &mut Ctx<'_>, id: i64, none: &str) -> CmdResult {
    let item = ctx.args.need("item")?;
    let mut weights = Vec::new();
    for word in ctx.args.list("weight") {
        match word.parse::<f64>() {
            Ok(weight) if weight >= 0.0 && weight.is_finite() => weights.push(crush::weight_from_f64(weight)),
            _ => return err(errno::EINVAL, format!("'{word}' is no weight: a number from 0.0 is meant")),
        }
    }
    let crush = &ctx.mon.osd.map.crush;
    let Some(positions) = positions(crush, id) else { return err(errno::ENOENT, none) };
    if weights.len() != positions {
        return err(errno::EINVAL, format!("must specify exact {positions} weight values"));
    }
    let Some(item) = crush.item_id(&item) else { return err(errno::ENOENT, format!("item '{item}' does not exist")) };
    let set = |crush: &mut CrushMap| crush.set_choose_weight(id, item, &weights).map(|()| true);
    ctx.mon.osd.edit_crush(set).map_err(|e| CmdError::new(errno::ENOENT, e.to_string()))?;
    Ok(Reply::default())
}
