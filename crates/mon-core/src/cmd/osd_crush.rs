//! The CRUSH tree: where OSDs stand, their weights and classes.

use super::{Args, CmdError, CmdResult, Command, Ctx, Reply, cmd, parse_osd};
use crush::{CrushError, device};
use std::collections::BTreeMap;
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd(
        "osd crush create-or-move name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 \
         name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "puts an OSD at a place; one that is elsewhere keeps its weight",
        "osd",
        "rw",
        create_or_move,
    ),
    cmd(
        "osd crush set-device-class name=class,type=CephString name=ids,type=CephString,n=N",
        "gives OSDs a class",
        "osd",
        "rw",
        set_device_class,
    ),
    cmd("osd crush rm-device-class name=ids,type=CephString,n=N", "takes the class of OSDs away", "osd", "rw", rm_device_class),
];

/// What the tree refuses, as an answer.
pub fn refused(e: CrushError) -> CmdError {
    CmdError::new(errno::EINVAL, e.to_string())
}

/// A place: `root=default host=a`.
pub fn location(args: &Args) -> Result<BTreeMap<String, String>, CmdError> {
    let mut out = BTreeMap::new();
    for word in args.list("args") {
        match word.split_once('=') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() => drop(out.insert(kind.to_string(), name.to_string())),
            _ => return Err(CmdError::new(errno::EINVAL, format!("invalid argument '{word}': a place is type=name"))),
        }
    }
    Ok(out)
}

fn create_or_move(ctx: &mut Ctx<'_>) -> CmdResult {
    let (id, loc) = (ctx.args.need_osd("id")?, location(&ctx.args)?);
    let weight = ctx.args.float("weight")?.unwrap_or(0.0);
    if !ctx.mon.osd.map.exists(id) {
        return Err(CmdError::new(errno::ENOENT, format!("osd.{id} does not exist.  create it before updating the crush map")));
    }
    let name = format!("osd.{id}");
    let fixed = crush::weight_from_f64(weight);
    ctx.mon
        .osd
        .edit_crush(|crush| {
            let place = device::place(crush, id, &loc);
            crush.create_or_move(id, fixed, &name, &place)
        })
        .map_err(refused)?;
    let shown: Vec<_> = loc.iter().map(|(k, v)| format!("{k}={v}")).collect();
    Ok(Reply::status(format!(
        "create-or-move updating item name '{name}' weight {weight} at location {{{}}} to crush map",
        shown.join(",")
    )))
}

fn class_ids(ctx: &Ctx<'_>) -> Result<Vec<i32>, CmdError> {
    let mut out = Vec::new();
    for word in ctx.args.list("ids") {
        if matches!(word.as_str(), "all" | "any" | "*") {
            return Ok(ctx.mon.osd.map.osds().collect());
        }
        out.push(parse_osd(&word)?);
    }
    for id in &out {
        if !ctx.mon.osd.map.exists(*id) {
            return Err(CmdError::new(errno::ENOENT, format!("osd.{id} does not exist")));
        }
    }
    Ok(out)
}

fn set_device_class(ctx: &mut Ctx<'_>) -> CmdResult {
    let (class, ids) = (ctx.args.need("class")?, class_ids(ctx)?);
    let set = |crush: &mut maps::CrushMap| {
        let mut changed = false;
        for id in &ids {
            match crush.item_class(*id) {
                Some(old) if old == class => {}
                Some(old) => {
                    let text = format!(
                        "osd.{id} has already bound to class '{old}', can not reset class to '{class}'; use 'ceph osd crush rm-device-class <id>' to remove old class first"
                    );
                    return Err(CmdError::new(errno::EBUSY, text));
                }
                None => {
                    // OSDs set their class before they take a place: until then the tree knows their name only.
                    crush.names.entry(*id).or_insert_with(|| format!("osd.{id}"));
                    changed |= crush.set_device_class(*id, &class).map_err(refused)?;
                }
            }
        }
        Ok(changed)
    };
    ctx.mon.osd.edit_crush(set)?;
    let shown: Vec<_> = ids.iter().map(ToString::to_string).collect();
    Ok(Reply::status(format!("set osd(s) {} to class '{class}'", shown.join(","))))
}

fn rm_device_class(ctx: &mut Ctx<'_>) -> CmdResult {
    let ids = class_ids(ctx)?;
    let edit = |crush: &mut maps::CrushMap| {
        let mut changed = false;
        for id in &ids {
            changed |= crush.remove_device_class(*id).map_err(refused)?;
        }
        Ok(changed)
    };
    ctx.mon.osd.edit_crush::<CmdError>(edit)?;
    let shown: Vec<_> = ids.iter().map(ToString::to_string).collect();
    Ok(Reply::status(format!("done removing class of osd(s): {}", shown.join(","))))
}
