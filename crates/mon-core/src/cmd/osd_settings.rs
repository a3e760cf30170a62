//! Settings of the whole OSDMap: which clients and OSDs may connect, how full is full.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use maps::Release;
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
    cmd("osd set-allow-crimson name=yes_i_really_mean_it,type=CephBool,req=false", "lets OSDs of crimson in", "osd", "rw", |_| {
        Err(CmdError::new(errno::EOPNOTSUPP, "OSDs of crimson are not let in: no release of it was tried here"))
    }),
    cmd("osd set-full-ratio name=ratio,type=CephFloat,range=0.0|1.0", "the share from which an OSD is full", "osd", "rw", |ctx| {
        ratio(ctx, "full")
    }),
    cmd(
        "osd set-backfillfull-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        "the share from which an OSD takes no backfill",
        "osd",
        "rw",
        |ctx| ratio(ctx, "backfillfull"),
    ),
    cmd(
        "osd set-nearfull-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        "the share from which an OSD is nearly full",
        "osd",
        "rw",
        |ctx| ratio(ctx, "nearfull"),
    ),
    cmd(
        "osd require-osd-release name=release,type=CephChoices,strings=octopus|pacific|quincy|reef name=yes_i_really_mean_it,type=CephBool,req=false",
        "sets the oldest release that OSDs may be of",
        "osd",
        "rw",
        require_release,
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
        return Err(CmdError::new(
            errno::EPERM,
            format!("osdmap current utilizes features that require {needs}; cannot set require_min_compat_client below that to {name}"),
        ));
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

fn require_release(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("release")?;
    let Some(release) = Release::parse(&name) else {
        return Err(CmdError::new(errno::EINVAL, format!("unrecognized release {name}")));
    };
    let now = ctx.mon.osd.map.require_osd_release;
    if release < now {
        return Err(CmdError::new(errno::EPERM, "require_osd_release cannot be lowered once it has been set"));
    }
    if release > Release::REEF {
        return Err(CmdError::new(errno::EPERM, "not supported for this release"));
    }
    if release != now {
        ctx.mon.osd.pending().new_require_osd_release = release;
    }
    Ok(Reply::default())
}
