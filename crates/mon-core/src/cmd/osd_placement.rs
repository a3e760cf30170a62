//! Where placement groups lie against CRUSH's choice, and groups that are made anew.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, parse_osd};
use maps::Release;
use types::{OsdId, PgId, errno};

pub const COMMANDS: &[Command] = &[
    cmd(
        "osd force-create-pg name=pgid,type=CephPgid name=yes_i_really_mean_it,type=CephBool,req=false",
        "makes a group anew, empty: what it held is given up",
        "osd",
        "rw",
        force_create,
    ),
    cmd(
        "osd pg-temp name=pgid,type=CephPgid name=id,type=CephOsdName,n=N,req=false",
        "sets a group's acting set for a while",
        "osd",
        "rw",
        pg_temp,
    ),
    cmd(
        "osd primary-temp name=pgid,type=CephPgid name=id,type=CephOsdName",
        "sets a group's primary for a while",
        "osd",
        "rw",
        primary_temp,
    ),
    cmd("pg repeer name=pgid,type=CephPgid", "makes a group peer again", "osd", "rw", repeer),
    cmd("osd rm-primary-temp name=pgid,type=CephPgid", "takes a group's temporary primary back", "osd", "rw", rm_primary_temp),
    cmd("osd pg-upmap name=pgid,type=CephPgid name=id,type=CephOsdName,n=N", "sets a group's up set", "osd", "rw", pg_upmap),
    cmd("osd rm-pg-upmap name=pgid,type=CephPgid", "takes a group's up set back", "osd", "rw", rm_pg_upmap),
    cmd(
        "osd pg-upmap-items name=pgid,type=CephPgid name=id,type=CephOsdName,n=N",
        "replaces members of a group's up set: from, to, from, to ...",
        "osd",
        "rw",
        pg_upmap_items,
    ),
    cmd("osd rm-pg-upmap-items name=pgid,type=CephPgid", "takes replacements back", "osd", "rw", rm_pg_upmap_items),
    cmd(
        "osd pg-upmap-primary name=pgid,type=CephPgid name=id,type=CephOsdName",
        "makes a member of a group's set its primary",
        "osd",
        "rw",
        pg_upmap_primary,
    ),
    cmd("osd rm-pg-upmap-primary name=pgid,type=CephPgid", "takes that back", "osd", "rw", rm_pg_upmap_primary),
    cmd("osd rm-pg-upmap-primary-all", "takes all of those back", "osd", "rw", |ctx| {
        may_upmap_primary(ctx)?;
        let all: Vec<PgId> = ctx.mon.osd.map.pg_upmap_primaries.keys().copied().collect();
        ctx.mon.osd.pending().old_pg_upmap_primary.extend(all);
        Ok(Reply::status("cleared all pg_upmap_primary mappings"))
    }),
];

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}

/// The group, if there is one of that name.
fn pgid(ctx: &Ctx<'_>) -> Result<PgId, CmdError> {
    let pg = ctx.args.pgid("pgid")?;
    match ctx.mon.osd.map.pools.get(&pg.pool) {
        Some(pool) if pg.seed < pool.pg_num => Ok(pg),
        _ => err(errno::ENOENT, format!("pgid '{pg}' does not exist")),
    }
}
/// The OSDs that `id` names; they exist.
fn osds(ctx: &Ctx<'_>) -> Result<Vec<OsdId>, CmdError> {
    let mut out = Vec::new();
    for word in ctx.args.list("id") {
        let osd = parse_osd(&word)?;
        if !ctx.mon.osd.map.exists(osd) {
            return err(errno::ENOENT, format!("osd.{osd} does not exist"));
        }
        out.push(osd);
    }
    Ok(out)
}

fn force_create(ctx: &mut Ctx<'_>) -> CmdResult {
    let pg = pgid(ctx)?;
    if !ctx.args.flag("yes_i_really_mean_it") {
        let text = "This command will recreate a lost (as in data lost) PG with data in it, such that the cluster will give up ever trying to \
                    recover the lost data.  Do this only if you are certain that all copies of the PG are in fact lost and you are willing to \
                    accept that the data is permanently destroyed.  Pass --yes-i-really-mean-it to proceed.";
        return err(errno::EPERM, text);
    }
    if ctx.mon.osd.creating.pgs.contains_key(&pg) {
        return Ok(Reply::status(format!("pg {pg} already creating")));
    }
    ctx.mon.osd.force_create(pg);
    Ok(Reply::status(format!("pg {pg} now creating, ok")))
}

/// A temporary mapping to fewer (or other) members, which the group undoes itself, begins another interval.
fn repeer(ctx: &mut Ctx<'_>) -> CmdResult {
    let pg = pgid(ctx)?;
    let map = &ctx.mon.osd.map;
    let at = map.pg_to_up_acting(pg, &mut maps::Placement::default());
    if at.acting_primary < 0 {
        return err(errno::EAGAIN, "pg currently has no primary");
    }
    let members = if at.acting.len() > 1 {
        vec![at.acting_primary]
    } else {
        match map.osds().find(|o| *o != at.acting_primary && map.is_up(*o)) {
            Some(other) => vec![at.acting_primary, other],
            None => return err(errno::EAGAIN, "not enough up OSDs in the cluster to force repeer"),
        }
    };
    ctx.mon.osd.pending().new_pg_temp.insert(pg, members);
    Ok(Reply::default())
}

fn pg_temp(ctx: &mut Ctx<'_>) -> CmdResult {
    let (pg, osds) = (pgid(ctx)?, osds(ctx)?);
    let pool = &ctx.mon.osd.map.pools[&pg.pool];
    // An empty one takes the mapping back.
    if !osds.is_empty() && osds.len() < usize::from(pool.min_size) {
        return err(errno::EINVAL, format!("num of osds ({}) < pool min size ({})", osds.len(), pool.min_size));
    }
    if osds.len() > usize::from(pool.size) {
        return err(errno::EINVAL, format!("num of osds ({}) > pool size ({})", osds.len(), pool.size));
    }
    let shown = format!("{osds:?}");
    ctx.mon.osd.pending().new_pg_temp.insert(pg, osds);
    Ok(Reply::status(format!("set {pg} pg_temp mapping to {shown}")))
}
fn primary_temp(ctx: &mut Ctx<'_>) -> CmdResult {
    let (pg, osd) = (pgid(ctx)?, ctx.args.need_osd("id")?);
    if !ctx.mon.osd.map.exists(osd) {
        return err(errno::ENOENT, format!("osd.{osd} does not exist"));
    }
    ctx.mon.osd.pending().new_primary_temp.insert(pg, osd);
    Ok(Reply::status(format!("set {pg} primary_temp mapping to {osd}")))
}
fn rm_primary_temp(ctx: &mut Ctx<'_>) -> CmdResult {
    let pg = pgid(ctx)?;
    ctx.mon.osd.pending().new_primary_temp.insert(pg, -1);
    Ok(Reply::status(format!("clear {pg} primary_temp mapping")))
}

fn pg_upmap(ctx: &mut Ctx<'_>) -> CmdResult {
    let (pg, osds) = (pgid(ctx)?, osds(ctx)?);
    let size = usize::from(ctx.mon.osd.map.pools[&pg.pool].size);
    if osds.len() > size {
        return err(errno::EINVAL, format!("num of osds ({}) > pool size ({size})", osds.len()));
    }
    let mut seen = osds.clone();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != osds.len() {
        return err(errno::EINVAL, "an osd is named twice");
    }
    let shown = format!("{osds:?}");
    ctx.mon.osd.pending().new_pg_upmap.insert(pg, osds);
    Ok(Reply::status(format!("set {pg} pg_upmap mapping to {shown}")))
}
fn rm_pg_upmap(ctx: &mut Ctx<'_>) -> CmdResult {
    let pg = pgid(ctx)?;
    if ctx.mon.osd.map.pg_upmap.contains_key(&pg) {
        ctx.mon.osd.pending().old_pg_upmap.insert(pg);
    }
    Ok(Reply::status(format!("clear {pg} pg_upmap mapping")))
}
fn pg_upmap_items(ctx: &mut Ctx<'_>) -> CmdResult {
    let (pg, osds) = (pgid(ctx)?, osds(ctx)?);
    if osds.is_empty() || !osds.len().is_multiple_of(2) {
        return err(errno::EINVAL, "you must specify pairs of osds to be remapped");
    }
    let pairs: Vec<(OsdId, OsdId)> = osds.chunks(2).map(|p| (p[0], p[1])).collect();
    if let Some((from, _)) = pairs.iter().find(|(from, to)| from == to) {
        return err(errno::EINVAL, format!("osd.{from} is mapped to itself"));
    }
    let shown: Vec<_> = pairs.iter().map(|(from, to)| format!("{from}->{to}")).collect();
    ctx.mon.osd.pending().new_pg_upmap_items.insert(pg, pairs);
    Ok(Reply::status(format!("set {pg} pg_upmap_items mapping to [{}]", shown.join(","))))
}
fn rm_pg_upmap_items(ctx: &mut Ctx<'_>) -> CmdResult {
    let pg = pgid(ctx)?;
    if ctx.mon.osd.map.pg_upmap_items.contains_key(&pg) {
        ctx.mon.osd.pending().old_pg_upmap_items.insert(pg);
    }
    Ok(Reply::status(format!("clear {pg} pg_upmap_items mapping")))
}

/// Clients that don't know such mappings would send to the wrong OSD.
fn may_upmap_primary(ctx: &Ctx<'_>) -> Result<(), CmdError> {
    let least = ctx.mon.osd.map.require_min_compat_client;
    if least >= Release::REEF {
        return Ok(());
    }
    let text = format!(
        "min_compat_client {least} < reef, which is required for pg-upmap-primary. Try 'ceph osd set-require-min-compat-client reef' before using \
         the new interface"
    );
    err(errno::EPERM, text)
}
/// The group; its pool is replicated.
fn replicated_pgid(ctx: &Ctx<'_>) -> Result<PgId, CmdError> {
    may_upmap_primary(ctx)?;
    let pg = pgid(ctx)?;
    if ctx.mon.osd.map.pools[&pg.pool].is_erasure() {
        return err(errno::EINVAL, "pg-upmap-primary is only supported for replicated pools");
    }
    Ok(pg)
}
fn pg_upmap_primary(ctx: &mut Ctx<'_>) -> CmdResult {
    let (pg, osd) = (replicated_pgid(ctx)?, ctx.args.need_osd("id")?);
    let map = &ctx.mon.osd.map;
    if !map.exists(osd) {
        return err(errno::ENOENT, format!("osd.{osd} does not exist"));
    }
    let at = map.pg_to_up_acting(pg, &mut maps::Placement::default());
    if at.acting_primary == osd {
        return err(errno::EINVAL, format!("osd.{osd} is already primary for pg {pg}"));
    }
    if !at.acting.contains(&osd) {
        return err(errno::EINVAL, format!("osd.{osd} is not in acting set for pg {pg}"));
    }
    ctx.mon.osd.pending().new_pg_upmap_primary.insert(pg, osd);
    Ok(Reply::status(format!("change primary for pg {pg} to osd.{osd}")))
}
fn rm_pg_upmap_primary(ctx: &mut Ctx<'_>) -> CmdResult {
    let pg = replicated_pgid(ctx)?;
    ctx.mon.osd.pending().old_pg_upmap_primary.insert(pg);
    Ok(Reply::status(format!("clear {pg} pg_upmap_primary mapping")))
}
