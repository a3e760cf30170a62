//! Commands of clusters with several monitors: each has the answer that fits one monitor, which works alone.
//!
//! What asks whether something may be done is answered; what would change the map of monitors in a way that one can't have is refused by its name.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag};
use maps::mon_map::MonFeatures;
use serde_json::{Map, Value, json};
use types::errno;

/// The name of the only monitor.
const NAME: &str = crate::monmap::NAME;

pub const COMMANDS: &[Command] = &[
    cmd(
        "mon add name=name,type=CephString name=addr,type=CephIPAddr \
         name=location,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=],req=false",
        "adds a monitor",
        "mon",
        "rw",
        |_| alone(),
    ),
    cmd("mon rm name=name,type=CephString", "removes a monitor", "mon", "rw", |_| alone()),
    cmd_flags("mon remove name=name,type=CephString", "removes a monitor", "mon", "rw", flag::DEPRECATED, |_| alone()),
    cmd("add_bootstrap_peer_hint name=addr,type=CephIPAddr", "tells a monitor where another is", "mon", "rwx", |_| alone()),
    cmd("add_bootstrap_peer_hintv name=addrv,type=CephString", "tells a monitor where another is", "mon", "rwx", |_| alone()),
    cmd("mon set-rank name=name,type=CephString name=rank,type=CephInt", "sets a monitor's rank", "mon", "rw", set_rank),
    cmd("mon set-addrs name=name,type=CephString name=addrs,type=CephString", "sets a monitor's addresses", "mon", "rw", |_| {
        refuse("the monitor's addresses are those of `humboldt mon --listen` (or `humboldt up`)")
    }),
    cmd("mon set-weight name=name,type=CephString name=weight,type=CephInt,range=0|65535", "sets a monitor's weight", "mon", "rw", |ctx| {
        known(ctx)?;
        refuse("of one monitor no weight is used")
    }),
    cmd("mon enable-msgr2", "lets monitors speak msgr2", "mon", "rw", |_| Ok(Reply::status("all monitors have already enabled msrg2"))),
    cmd("mon set election_strategy name=strategy,type=CephString", "sets how monitors elect", "mon", "rw", election_strategy),
    cmd("mon add disallowed_leader name=name,type=CephString", "keeps a monitor from leading", "mon", "rw", leader),
    cmd("mon rm disallowed_leader name=name,type=CephString", "lets a monitor lead again", "mon", "rw", leader),
    cmd(
        "mon set_location name=name,type=CephString name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "says where a monitor is",
        "mon",
        "rw",
        |ctx| {
            known(ctx)?;
            refuse("places of monitors are for stretch mode, which this cluster does not have")
        },
    ),
    cmd(
        "mon enable_stretch_mode name=tiebreaker_mon,type=CephString name=new_crush_rule,type=CephString name=dividing_bucket,type=CephString",
        "spreads a cluster over two sites",
        "mon",
        "rw",
        |_| refuse("stretch mode is not supported: it needs monitors at three places, and this one works alone"),
    ),
    cmd(
        "mon set_new_tiebreaker name=name,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "names another tiebreaker",
        "mon",
        "rw",
        |_| Err(CmdError::new(errno::EINVAL, "Stretch mode is not enabled, so there is no tiebreaker")),
    ),
    cmd(
        "osd force_healthy_stretch_mode name=yes_i_really_mean_it,type=CephBool,req=false",
        "says that both sites are well again",
        "osd",
        "rw",
        |_| refuse("stretch mode is not supported"),
    ),
    cmd(
        "osd force_recovery_stretch_mode name=yes_i_really_mean_it,type=CephBool,req=false",
        "begins to bring a site back",
        "osd",
        "rw",
        |_| refuse("stretch mode is not supported"),
    ),
    cmd(
        "mon disable_stretch_mode name=crush_rule,type=CephString,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        "brings a cluster of two sites to one",
        "mon",
        "rw",
        |_| Err(CmdError::new(errno::EINVAL, "stretch mode is already disabled")),
    ),
    cmd("osd pool stretch show name=pool,type=CephPoolname", "how a pool lies over sites", "osd", "r", |_| refuse(NO_SITES)),
    cmd(
        "osd pool stretch set name=pool,type=CephPoolname name=peering_crush_bucket_count,type=CephInt,range=0 \
         name=peering_crush_bucket_target,type=CephInt,range=0 name=peering_crush_bucket_barrier,type=CephString \
         name=crush_rule,type=CephString name=size,type=CephInt,range=0 name=min_size,type=CephInt,range=0 \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "spreads a pool over sites",
        "osd",
        "rw",
        |_| refuse(NO_SITES),
    ),
    cmd(
        "osd pool stretch unset name=pool,type=CephPoolname name=crush_rule,type=CephString name=size,type=CephInt,range=0 \
         name=min_size,type=CephInt,range=0",
        "brings a pool to one site",
        "osd",
        "rw",
        |_| refuse(NO_SITES),
    ),
    cmd("osd pool availability-status", "how much of the time pools served", "osd", "r", |_| refuse(NOT_TRACKED)),
    cmd("osd pool clear-availability-status name=pool,type=CephPoolname", "counts a pool's time anew", "osd", "r", |_| refuse(NOT_TRACKED)),
    cmd(
        "mon feature set name=feature_name,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "sets a feature of the map of monitors",
        "mon",
        "rw",
        set_feature,
    ),
    cmd("mon ok-to-stop name=ids,type=CephString,n=N", "whether monitors can be stopped", "mon", "r", ok_to_stop),
    cmd("mon ok-to-add-offline", "whether a monitor can be added that does not run yet", "mon", "r", |_| {
        Err(CmdError::new(errno::EBUSY, "adding a monitor may break quorum (until that monitor starts)"))
    }),
    cmd("mon ok-to-rm name=id,type=CephString", "whether a monitor can be removed", "mon", "r", |ctx| {
        let id = ctx.args.need("id")?;
        if id == NAME {
            return Err(CmdError::new(errno::EBUSY, format!("removing mon.{id} would break quorum")));
        }
        Ok(Reply::status(format!("mon.{id} does not exist")))
    }),
    // Each block of the database has a checksum, which each read compares.
    cmd("mon scrub", "compares the monitors' databases", "mon", "rw", |_| Ok(Reply::default())),
    cmd("mon count-metadata name=property,type=CephString", "monitors by a property of their metadata", "mon", "r", |ctx| {
        let property = ctx.args.need("property")?;
        let value = ctx.mon.options.metadata.get(&property).map_or("unknown", String::as_str).to_string();
        ctx.answer_json(Value::Object(Map::from_iter([(value, json!(1))])))
    }),
];

const NO_SITES: &str = "stretch mode is not supported, and no pool is of several sites";
const NOT_TRACKED: &str = "the time that pools serve is not counted: see `ceph health detail` for what does not serve now";

fn refuse(why: &str) -> CmdResult {
    Err(CmdError::new(errno::EOPNOTSUPP, why))
}

/// The monitor of this process has no others beside it.
fn alone() -> CmdResult {
    refuse("this monitor works alone: clusters of several use stock ceph-mon")
}

/// ENOENT for monitors that there aren't.
fn known(ctx: &Ctx<'_>) -> Result<(), CmdError> {
    let name = ctx.args.need("name")?;
    if name == NAME { Ok(()) } else { Err(CmdError::new(errno::ENOENT, format!("mon.{name} does not exist"))) }
}

/// The only monitor has the only rank.
fn set_rank(ctx: &mut Ctx<'_>) -> CmdResult {
    known(ctx)?;
    if ctx.args.need_int("rank")? == 0 { Ok(Reply::default()) } else { alone() }
}

fn election_strategy(ctx: &mut Ctx<'_>) -> CmdResult {
    match ctx.args.need("strategy")?.as_str() {
        "classic" => Ok(Reply::default()),
        "disallow" | "connectivity" => refuse("one monitor holds no elections: its strategy stays classic"),
        other => Err(CmdError::new(errno::EINVAL, format!("'{other}' is no election strategy: classic, disallow and connectivity are"))),
    }
}

fn leader(_: &mut Ctx<'_>) -> CmdResult {
    Err(CmdError::new(errno::EINVAL, "You cannot disallow monitors in your current election mode"))
}

fn set_feature(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("feature_name")?;
    if !MonFeatures::NAMES.contains(&name.as_str()) {
        return Err(CmdError::new(errno::ENOENT, format!("unknown feature '{name}'")));
    }
    if !ctx.args.flag("yes_i_really_mean_it") {
        let text = format!("please specify '--yes-i-really-mean-it' if you really, **really** want to set feature '{name}' in the monmap.");
        return Err(CmdError::new(errno::EPERM, text));
    }
    Ok(Reply::status(format!("setting feature '{name}' feature '{name}' already set on monmap")))
}

fn ok_to_stop(ctx: &mut Ctx<'_>) -> CmdResult {
    let ids = ctx.args.list("ids");
    let unknown: Vec<&str> = ids.iter().map(String::as_str).filter(|id| *id != NAME).collect();
    if !unknown.is_empty() {
        return Ok(Reply::status(format!("invalid mon(s) specified: [{}]", unknown.join(","))));
    }
    let text = format!("not enough monitors would be available () after stopping mons [{}]", ids.join(","));
    Err(CmdError::new(errno::EBUSY, text))
}
