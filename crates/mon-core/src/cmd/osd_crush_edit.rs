//! The CRUSH map, changed: rules, buckets, weights, classes, tunables, and the map as a whole.

use super::osd_crush::{location, refused};
use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag};
use crush::CrushMap;
use denc::Denc;
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd(
        "osd crush rule create-replicated name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=root,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=type,type=CephString,goodchars=[A-Za-z0-9-_.] name=class,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        "makes a rule for replicated pools",
        "osd",
        "rw",
        |ctx| {
            let class = ctx.args.text("class").unwrap_or_default();
            create_rule(ctx, &class, false)
        },
    ),
    cmd(
        "osd crush rule create-simple name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=root,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=type,type=CephString,goodchars=[A-Za-z0-9-_.] name=mode,type=CephChoices,strings=firstn|indep,req=false",
        "makes a rule",
        "osd",
        "rw",
        |ctx| {
            let indep = ctx.args.text("mode").is_some_and(|m| m == "indep");
            create_rule(ctx, "", indep)
        },
    ),
    cmd("osd crush rule rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.]", "removes a rule", "osd", "rw", rm_rule),
    cmd(
        "osd crush rule rename name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "renames a rule",
        "osd",
        "rw",
        rename_rule,
    ),
    cmd(
        "osd crush add-bucket name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=type,type=CephString \
         name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=],req=false",
        "makes a bucket",
        "osd",
        "rw",
        add_bucket,
    ),
    cmd(
        "osd crush rename-bucket name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "renames a bucket",
        "osd",
        "rw",
        rename_bucket,
    ),
    cmd(
        "osd crush add name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "puts an OSD at a place with a weight",
        "osd",
        "rw",
        |ctx| place(ctx, "add"),
    ),
    cmd(
        "osd crush set name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "puts an OSD at a place with a weight, moving it if it is elsewhere",
        "osd",
        "rw",
        |ctx| place(ctx, "set"),
    ),
    cmd("osd crush set name=prior_version,type=CephInt,req=false", "sets the CRUSH map from the input", "osd", "rw", setcrushmap),
    cmd("osd setcrushmap name=prior_version,type=CephInt,req=false", "sets the CRUSH map from the input", "osd", "rw", setcrushmap),
    cmd(
        "osd crush move name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "moves an item to a place",
        "osd",
        "rw",
        |ctx| relocate(ctx, false),
    ),
    cmd(
        "osd crush link name=name,type=CephString name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "puts a bucket at a further place",
        "osd",
        "rw",
        |ctx| relocate(ctx, true),
    ),
    cmd(
        "osd crush rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]",
        "removes an item from the map",
        "osd",
        "rw",
        |ctx| remove(ctx, false),
    ),
    cmd_flags(
        "osd crush remove name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]",
        "removes an item from the map",
        "osd",
        "rw",
        flag::DEPRECATED,
        |ctx| remove(ctx, false),
    ),
    cmd(
        "osd crush unlink name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]",
        "takes an item out of the tree and keeps it",
        "osd",
        "rw",
        |ctx| remove(ctx, true),
    ),
    cmd("osd crush reweight-all", "makes weights of buckets the sums of what is in them", "osd", "rw", |ctx| {
        ctx.mon.osd.edit_crush::<CmdError>(|crush| {
            crush.reweight_all();
            Ok(true)
        })?;
        Ok(Reply::status("reweighted crush hierarchy"))
    }),
    cmd(
        "osd crush reweight name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=weight,type=CephFloat,range=0.0",
        "changes an OSD's weight in the CRUSH map",
        "osd",
        "rw",
        |ctx| reweight(ctx, false),
    ),
    cmd(
        "osd crush reweight-subtree name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=weight,type=CephFloat,range=0.0",
        "changes the weight of all below a bucket",
        "osd",
        "rw",
        |ctx| reweight(ctx, true),
    ),
    cmd(
        "osd crush tunables name=profile,type=CephChoices,strings=legacy|argonaut|bobtail|firefly|hammer|jewel|optimal|default",
        "sets tunables to a named set",
        "osd",
        "rw",
        tunables,
    ),
    cmd(
        "osd crush set-tunable name=tunable,type=CephChoices,strings=straw_calc_version name=value,type=CephInt",
        "sets one tunable",
        "osd",
        "rw",
        set_tunable,
    ),
    cmd("osd crush class create name=class,type=CephString,goodchars=[A-Za-z0-9-_]", "makes a class of devices", "osd", "rw", class_create),
    cmd(
        "osd crush class rm name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        "removes a device class without OSDs",
        "osd",
        "rw",
        class_rm,
    ),
];

fn no_item(name: &str) -> CmdError {
    CmdError::new(errno::ENOENT, format!("item {name} does not exist"))
}

fn create_rule(ctx: &mut Ctx<'_>, class: &str, indep: bool) -> CmdResult {
    const REPLICATED: u8 = 1;
    const ERASURE: u8 = 3;
    let (name, root, domain) = (ctx.args.need("name")?, ctx.args.need("root")?, ctx.args.need("type")?);
    let crush = &ctx.mon.osd.map.crush;
    if crush.rule_id(&name).is_some() {
        return Ok(Reply::status(format!("rule {name} already exists")));
    }
    if crush.item_id(&root).is_none() {
        return Err(CmdError::new(errno::ENOENT, format!("root item {root} does not exist")));
    }
    if !domain.is_empty() && crush.type_id(&domain).is_none() {
        return Err(CmdError::new(errno::EINVAL, format!("unknown type {domain}")));
    }
    if !class.is_empty() && crush.class_id(class).is_none() {
        return Err(CmdError::new(errno::EINVAL, format!("device class {class} does not exist")));
    }
    let kind = if indep { ERASURE } else { REPLICATED };
    ctx.mon.osd.edit_crush(|crush| crush.create_rule(&name, &root, &domain, class, indep, kind).map(|_| true)).map_err(refused)?;
    Ok(Reply::default())
}

fn rm_rule(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("name")?;
    let map = &ctx.mon.osd.map;
    let Some(id) = map.crush.rule_id(&name) else { return Ok(Reply::status(format!("rule {name} does not exist"))) };
    if map.pools.values().any(|p| u32::from(p.crush_rule) == id) {
        return Err(CmdError::new(errno::EBUSY, format!("crush rule {name} ({id}) is in use")));
    }
    ctx.mon.osd.edit_crush(|crush| crush.remove_rule(&name).map(|()| true)).map_err(refused)?;
    Ok(Reply::default())
}

fn rename_rule(ctx: &mut Ctx<'_>) -> CmdResult {
    let (from, to) = (ctx.args.need("srcname")?, ctx.args.need("dstname")?);
    let crush = &ctx.mon.osd.map.crush;
    match (crush.rule_id(&from).is_some(), crush.rule_id(&to).is_some()) {
        (false, true) => return Ok(Reply::status(format!("already renamed to '{to}'"))),
        (false, false) => return Err(CmdError::new(errno::ENOENT, format!("rule '{from}' does not exist"))),
        (true, true) => return Err(CmdError::new(errno::EEXIST, format!("rule '{to}' already exists"))),
        (true, false) => {}
    }
    ctx.mon.osd.edit_crush(|crush| crush.rename_rule(&from, &to).map(|()| true)).map_err(refused)?;
    Ok(Reply::default())
}

fn add_bucket(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, kind, loc) = (ctx.args.need("name")?, ctx.args.need("type")?, location(&ctx.args)?);
    let crush = &ctx.mon.osd.map.crush;
    if crush.item_id(&name).is_some() {
        return Ok(Reply::status(format!("bucket '{name}' already exists")));
    }
    if crush.type_id(&kind).is_none_or(|t| t == 0) {
        return Err(CmdError::new(errno::EINVAL, format!("type '{kind}' does not exist or is the type of devices")));
    }
    ctx.mon
        .osd
        .edit_crush(|crush| {
            crush.add_bucket(&name, &kind)?;
            if !loc.is_empty() {
                crush.move_item(&name, &loc)?;
            }
            Ok(true)
        })
        .map_err(refused)?;
    Ok(Reply::status(format!("added bucket {name} type {kind} to crush map")))
}

fn rename_bucket(ctx: &mut Ctx<'_>) -> CmdResult {
    let (from, to) = (ctx.args.need("srcname")?, ctx.args.need("dstname")?);
    let crush = &ctx.mon.osd.map.crush;
    if crush.item_id(&from).is_none() {
        let done = crush.item_id(&to).is_some();
        return if done { Ok(Reply::status(format!("already renamed to '{to}'"))) } else { Err(no_item(&from)) };
    }
    if crush.item_id(&to).is_some() {
        return Err(CmdError::new(errno::EEXIST, format!("dstname '{to}' already exists")));
    }
    ctx.mon.osd.edit_crush(|crush| crush.rename_item(&from, &to).map(|()| true)).map_err(refused)?;
    Ok(Reply::status(format!("renamed bucket {from} into {to}")))
}

/// `osd crush add` and `osd crush set`.
fn place(ctx: &mut Ctx<'_>, verb: &str) -> CmdResult {
    let (id, loc) = (ctx.args.need_osd("id")?, location(&ctx.args)?);
    let weight = ctx.args.float("weight")?.unwrap_or(0.0);
    if !ctx.mon.osd.map.exists(id) {
        return Err(CmdError::new(errno::ENOENT, format!("osd.{id} does not exist. Create it before updating the crush map")));
    }
    let (name, fixed) = (format!("osd.{id}"), crush::weight_from_f64(weight));
    let add = verb == "add";
    if !add && !ctx.mon.osd.map.crush.item_exists(id) {
        return Err(CmdError::new(errno::ENOENT, format!("unable to set item id {id} name '{name}' weight {weight}: does not exist")));
    }
    let edit = |crush: &mut CrushMap| match add && !crush.is_at(id, &loc) {
        true => crush.insert_item(id, fixed, &name, &loc).map(|()| true),
        false => crush.update_item(id, fixed, &name, &loc),
    };
    ctx.mon.osd.edit_crush(edit).map_err(refused)?;
    let at: Vec<String> = loc.iter().map(|(k, v)| format!("{k}={v}")).collect();
    Ok(Reply::status(format!("{verb} item id {id} name '{name}' weight {weight} at location {{{}}} to crush map", at.join(","))))
}

fn relocate(ctx: &mut Ctx<'_>, link: bool) -> CmdResult {
    let (name, loc) = (ctx.args.need("name")?, location(&ctx.args)?);
    let Some(id) = ctx.mon.osd.map.crush.item_id(&name) else { return Err(no_item(&name)) };
    let at: Vec<String> = loc.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let at = format!("location {{{}}}", at.join(","));
    if ctx.mon.osd.map.crush.is_at(id, &loc) {
        return Ok(Reply::status(format!("no need to move item id {id} name '{name}' to {at} in crush map")));
    }
    let edit = |crush: &mut CrushMap| if link { crush.link_bucket(&name, &loc) } else { crush.move_item(&name, &loc) };
    ctx.mon.osd.edit_crush(edit).map_err(refused)?;
    Ok(Reply::status(format!("{} item id {id} name '{name}' to {at} in crush map", if link { "linked" } else { "moved" })))
}

fn remove(ctx: &mut Ctx<'_>, unlink: bool) -> CmdResult {
    let name = ctx.args.need("name")?;
    let crush = &ctx.mon.osd.map.crush;
    let Some(id) = crush.item_id(&name) else {
        return Ok(Reply::status(format!("device '{name}' does not appear in the crush map")));
    };
    if id < 0 && !unlink && crush.bucket(id).is_some_and(|b| !b.is_empty()) {
        return Err(CmdError::new(errno::ENOTEMPTY, format!("bucket '{name}' is not empty")));
    }
    if id < 0 && !unlink && crush.takes().contains(&id) {
        return Err(CmdError::new(errno::EBUSY, format!("bucket '{name}' is in use by a rule")));
    }
    ctx.mon.osd.edit_crush(|crush| crush.remove_item(id, unlink).map(|()| true)).map_err(refused)?;
    if ctx.mon.osd.map.crush_node_flags.contains_key(&id) {
        // Whoever gets the number next has no flags.
        ctx.mon.osd.pending().new_crush_node_flags.insert(id, 0);
    }
    Ok(Reply::status(format!("removed item id {id} name '{name}' from crush map")))
}

fn reweight(ctx: &mut Ctx<'_>, subtree: bool) -> CmdResult {
    let (name, weight) = (ctx.args.need("name")?, ctx.args.float("weight")?.unwrap_or(0.0));
    let Some(id) = ctx.mon.osd.map.crush.item_id(&name) else {
        return Err(CmdError::new(errno::ENOENT, format!("device '{name}' does not appear in the crush map")));
    };
    if (id < 0) != subtree {
        let text =
            if subtree { format!("device '{name}' is not a subtree") } else { format!("device '{name}' is not a leaf in the crush map") };
        return Err(CmdError::new(errno::EINVAL, text));
    }
    let fixed = crush::weight_from_f64(weight);
    let edit =
        |crush: &mut CrushMap| if subtree { crush.reweight_subtree(id, fixed) } else { crush.reweight_item(id, fixed) }.map(|()| true);
    ctx.mon.osd.edit_crush(edit).map_err(refused)?;
    let what = if subtree { "subtree id" } else { "item id" };
    Ok(Reply::status(format!("reweighted {what} {id} name '{name}' to {weight} in crush map")))
}

fn tunables(ctx: &mut Ctx<'_>) -> CmdResult {
    let profile = ctx.args.need("profile")?;
    let values = match profile.as_str() {
        "legacy" | "argonaut" => [2, 5, 19, 0, 0, 0],
        "bobtail" => [0, 0, 50, 1, 0, 0],
        "firefly" | "hammer" => [0, 0, 50, 1, 1, 0],
        _ => [0, 0, 50, 1, 1, 1],
    };
    ctx.mon.osd.edit_crush::<CmdError>(|crush| {
        let t = &mut crush.tunables;
        let before = t.clone();
        (t.choose_local_tries, t.choose_local_fallback_tries, t.choose_total_tries) = (values[0], values[1], values[2]);
        t.chooseleaf_descend_once = values[3];
        (t.chooseleaf_vary_r, t.chooseleaf_stable) = (values[4] as u8, values[5] as u8);
        // How straws are computed and which kinds of bucket may be made.
        (t.straw_calc_version, t.allowed_bucket_algs) = match profile.as_str() {
            "legacy" | "argonaut" | "bobtail" | "firefly" => (0, 22),
            _ => (1, 54),
        };
        Ok(*t != before)
    })?;
    Ok(Reply::status(format!("adjusted tunables profile to {profile}")))
}

fn set_tunable(ctx: &mut Ctx<'_>) -> CmdResult {
    let value = match ctx.args.need_int("value")? {
        n @ 0..=1 => n as u8,
        other => return Err(CmdError::new(errno::EINVAL, format!("value must be 0 or 1; got {other}"))),
    };
    ctx.mon.osd.edit_crush::<CmdError>(|crush| {
        let changed = crush.tunables.straw_calc_version != value;
        crush.tunables.straw_calc_version = value;
        Ok(changed)
    })?;
    Ok(Reply::status(format!("adjusted tunable straw_calc_version to {value}")))
}

fn class_create(ctx: &mut Ctx<'_>) -> CmdResult {
    let class = ctx.args.need("class")?;
    let crush = &ctx.mon.osd.map.crush;
    if crush.class_id(&class).is_some() {
        return Ok(Reply::status(format!("class '{class}' already exists")));
    }
    let id = crush.class_names.keys().max().map_or(Some(0), |id| id.checked_add(1));
    let id = id.ok_or_else(|| CmdError::new(errno::ENOSPC, "no number for a further class is left"))?;
    ctx.mon.osd.edit_crush::<CmdError>(|crush| {
        crush.class_names.insert(id, class.clone());
        Ok(true)
    })?;
    Ok(Reply::status(format!("created class {class} with id {id} to crush map")))
}

fn class_rm(ctx: &mut Ctx<'_>) -> CmdResult {
    let class = ctx.args.need("class")?;
    let crush = &ctx.mon.osd.map.crush;
    let Some(id) = crush.class_id(&class) else { return Ok(Reply::status(format!("class '{class}' does not exist"))) };
    if !crush.devices_of_class(&class).is_empty() {
        return Err(CmdError::new(errno::EBUSY, format!("class '{class}' still has osds")));
    }
    let used = crush.takes().iter().any(|take| crush.class_bucket.values().any(|of| of.get(&id) == Some(take)));
    if used {
        return Err(CmdError::new(errno::EBUSY, format!("class '{class}' still referenced by a crush_rule")));
    }
    ctx.mon.osd.edit_crush::<CmdError>(|crush| {
        crush.class_names.remove(&id);
        crush.rebuild_shadows();
        Ok(true)
    })?;
    Ok(Reply::status(format!("removed class {class} with id {id} from crush map")))
}

/// Buckets, shadows among them, of a map that comes from outside: several times those of ten thousand OSDs on as many hosts.
const BUCKETS_MAX: usize = 1 << 16;

fn setcrushmap(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    if let Some(prior) = ctx.args.int("prior_version")?
        && prior != i64::from(map.crush_version)
    {
        if prior == i64::from(map.crush_version) - 1 && map.crush.to_bytes(map.canonical_features()) == ctx.input {
            return Ok(Reply::status(map.crush_version.to_string()));
        }
        return Err(CmdError::new(errno::EPERM, format!("prior_version {prior} != crush version {}", map.crush_version)));
    }
    // Copied: the map outlives the request.
    let input = bytes::Bytes::copy_from_slice(&ctx.input);
    let new = CrushMap::from_bytes(&input).map_err(|e| CmdError::new(errno::EINVAL, format!("Failed to parse crushmap: {e}")))?;
    // Not by its own word, and not number by number: a map that is made to harm names whatever fits.
    let devices = new.iter_buckets().flat_map(|b| b.items.iter().copied()).chain(new.names.keys().copied());
    let known = map.max_osd.max(map.crush.max_devices);
    if devices.into_iter().any(|id| id >= known) {
        return Err(CmdError::new(errno::ERANGE, format!("the map has devices beyond max_osd {}", map.max_osd)));
    }
    let most = map.crush.buckets.len().max(BUCKETS_MAX);
    if new.buckets.len() > most {
        return Err(CmdError::new(
            errno::EINVAL,
            format!("the map has room for {} buckets, of which {most} are allowed", new.buckets.len()),
        ));
    }
    for (id, pool) in &map.pools {
        if !new.rule_exists(pool.crush_rule.into()) {
            let name = map.pool_name(*id).unwrap_or_default();
            return Err(CmdError::new(errno::EINVAL, format!("pool '{name}' uses rule {}, which the map lacks", pool.crush_rule)));
        }
    }
    let next = map.crush_version + 1;
    ctx.mon.osd.edit_crush::<CmdError>(|crush| {
        *crush = new;
        Ok(true)
    })?;
    Ok(Reply::status(next.to_string()))
}
