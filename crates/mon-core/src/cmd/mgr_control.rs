//! The manager, changed: `mgr fail|set`, `mgr module enable|disable`.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd(
        "mgr set name=var,type=CephChoices,strings=down name=val,type=CephString",
        "keeps managers from being active, or lets them",
        "mgr",
        "rw",
        set,
    ),
    cmd("mgr fail name=who,type=CephString,req=false", "treats a manager as failed", "mgr", "rw", fail),
    cmd(
        "mgr module enable name=module,type=CephString name=force,type=CephBool,req=false",
        "lets a module of the manager run",
        "mgr",
        "rw",
        enable,
    ),
    cmd("mgr module disable name=module,type=CephString", "keeps a module of the manager from running", "mgr", "rw", disable),
    cmd(
        "mgr module force disable name=module,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "keeps a module from running that managers always run",
        "mgr",
        "rw",
        |ctx| {
            let name = ctx.args.need("module")?;
            let text = format!("module '{name}' is always on where a stock manager has it: `ceph mgr module disable` is for the others");
            Err(CmdError::new(errno::EOPNOTSUPP, text))
        },
    ),
];

fn set(ctx: &mut Ctx<'_>) -> CmdResult {
    let (var, val) = (ctx.args.need("var")?, ctx.args.need("val")?);
    if var != "down" {
        return Err(CmdError::new(errno::EINVAL, format!("unknown variable '{var}'")));
    }
    let down = match val.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => true,
        "false" | "no" | "0" => false,
        _ => return Err(CmdError::new(errno::EINVAL, format!("unrecognized value '{val}': neither true nor false"))),
    };
    ctx.mon.hold_managers_down(down, ctx.clock);
    Ok(Reply::default())
}

fn fail(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.mgrmap.map;
    let who = match ctx.args.text("who") {
        Some(who) => who,
        None if map.active_gid == 0 => return Ok(Reply::status("Currently no active mgr")),
        None => map.active_name.clone(),
    };
    if ctx.mon.fail_manager(&who, ctx.clock) {
        return Ok(Reply::default());
    }
    Ok(Reply::status(format!("Daemon not found '{who}', already failed?")))
}

fn enable(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, force) = (ctx.args.need("module")?, ctx.args.flag("force"));
    let mon = &mut *ctx.mon;
    if mon.mgrmap.always_on().contains(&name) {
        return Ok(Reply::status(format!("module '{name}' is already enabled (always-on)")));
    }
    // What modules of the same name do is served without any.
    let served = match name.as_str() {
        "prometheus" => "the monitor's page serves this module's metrics at /metrics: there is nothing to enable",
        "dashboard" => "the monitor's page shows the cluster: there is nothing to enable",
        _ => "",
    };
    if mon.mgrmap.is_endpoint() && !served.is_empty() {
        return Ok(Reply::status(served));
    }
    let (standbys, active) = mon.mgrmap.module(&name);
    let refused = |text: String| Err(CmdError::new(errno::ENOENT, text));
    if !force {
        match active {
            Some(_) if standbys < mon.mgrmap.map.standbys.len() => {
                return refused(format!("all mgr daemons do not support module '{name}', pass --force to force enablement"));
            }
            None => return refused(format!("all mgr daemons do not support module '{name}', pass --force to force enablement")),
            Some(info) if !info.can_run => {
                return refused(format!(
                    "module '{name}' reports that it cannot run on the active manager daemon: {} (pass --force to force enablement)",
                    info.error_string
                ));
            }
            Some(_) => {}
        }
    }
    if !mon.mgrmap.map.modules.insert(name.clone()) {
        return Ok(Reply::status(format!("module '{name}' is already enabled")));
    }
    mon.mgrmap.changed(&mut mon.batch);
    Ok(Reply::default())
}

fn disable(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("module")?;
    let mon = &mut *ctx.mon;
    if mon.mgrmap.always_on().contains(&name) {
        return Err(CmdError::new(errno::EINVAL, format!("module '{name}' cannot be disabled (always-on)")));
    }
    if !mon.mgrmap.map.modules.remove(&name) {
        return Ok(Reply::status(format!("module '{name}' is already disabled")));
    }
    mon.mgrmap.changed(&mut mon.batch);
    Ok(Reply::default())
}
