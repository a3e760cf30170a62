//! What a manager tells OSDs to do with their groups: scrub, repair, recover first (`pg scrub`, `osd scrub`, `osd pool scrub`, `pg
//! force-recovery` and their kin).

use super::{CmdError, CmdResult, Command, Ctx, Reply, mgr_cmd, parse_osd};
use crate::auth::Endpoint;
use messages::force_recovery::{BACKFILL, CANCEL, RECOVERY};
use messages::{MOSDForceRecovery, MOSDScrub2};
use std::collections::BTreeMap;
use types::pg_stat::pg_state;
use types::{OsdId, PgId, SpgId, errno};

/// The three rows of one thing that can be scrubbed.
macro_rules! scrubs {
    ($words:literal, $module:literal, $params:literal, $what:literal, $run:ident) => {
        [
            mgr_cmd(concat!($words, " scrub ", $params), concat!("compares the copies of ", $what), $module, "rw", |ctx| {
                $run(ctx, Kind::Scrub)
            }),
            mgr_cmd(
                concat!($words, " deep-scrub ", $params),
                concat!("compares the copies of ", $what, ", data and all"),
                $module,
                "rw",
                |ctx| $run(ctx, Kind::Deep),
            ),
            mgr_cmd(concat!($words, " repair ", $params), concat!("repairs what scrubs find in ", $what), $module, "rw", |ctx| {
                $run(ctx, Kind::Repair)
            }),
        ]
    };
}
/// A row that gives groups, or a pool's, their turn in recovery or takes it back.
macro_rules! force {
    ($words:literal, $verb:literal, $params:literal, $module:literal, $bits:expr) => {
        mgr_cmd(concat!($words, " ", $verb, " ", $params), concat!($verb, ": which groups recover first"), $module, "rw", |ctx| {
            force(ctx, $bits)
        })
    };
}

const PG: [Command; 3] = scrubs!("pg", "pg", "name=pgid,type=CephPgid", "a placement group", pg_scrub);
const OSD: [Command; 3] = scrubs!("osd", "osd", "name=who,type=CephString", "an OSD's groups (any, all or *: of each)", osd_scrub);
const POOL: [Command; 3] = scrubs!("osd pool", "osd", "name=who,type=CephPoolname,n=N", "a pool's groups", pool_scrub);
const FORCE: [Command; 8] = [
    force!("pg", "force-recovery", "name=pgid,type=CephPgid,n=N", "pg", RECOVERY),
    force!("pg", "force-backfill", "name=pgid,type=CephPgid,n=N", "pg", BACKFILL),
    force!("pg", "cancel-force-recovery", "name=pgid,type=CephPgid,n=N", "pg", RECOVERY | CANCEL),
    force!("pg", "cancel-force-backfill", "name=pgid,type=CephPgid,n=N", "pg", BACKFILL | CANCEL),
    force!("osd pool", "force-recovery", "name=who,type=CephPoolname,n=N", "osd", RECOVERY),
    force!("osd pool", "force-backfill", "name=who,type=CephPoolname,n=N", "osd", BACKFILL),
    force!("osd pool", "cancel-force-recovery", "name=who,type=CephPoolname,n=N", "osd", RECOVERY | CANCEL),
    force!("osd pool", "cancel-force-backfill", "name=who,type=CephPoolname,n=N", "osd", BACKFILL | CANCEL),
];
pub const FAMILIES: [&[Command]; 4] = [&PG, &OSD, &POOL, &FORCE];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scrub,
    Deep,
    Repair,
}
impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Scrub => "scrub",
            Self::Deep => "deep-scrub",
            Self::Repair => "repair",
        }
    }
}

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}

/// Sessions of an OSD with the manager.
fn sessions_of(ctx: &Ctx<'_>, osd: OsdId) -> Vec<crate::ConnId> {
    let of_osd = ctx.mon.sessions.iter().filter(|(_, s)| s.endpoint == Endpoint::Mgr && s.osd() == Some(osd));
    of_osd.map(|(conn, _)| *conn).collect()
}

/// The primary of a group, if it has one.
fn primary(ctx: &Ctx<'_>, pg: PgId) -> Option<OsdId> {
    let primary = ctx.mon.osd.map.pg_primary(pg, &mut maps::Placement::default());
    (primary >= 0).then_some(primary)
}

/// Groups of a pool by their primary; those without one are left out.
fn by_primary(ctx: &Ctx<'_>, pool: i64) -> BTreeMap<OsdId, Vec<PgId>> {
    let mut out: BTreeMap<OsdId, Vec<PgId>> = BTreeMap::new();
    let pg_num = ctx.mon.osd.map.pools.get(&pool).map_or(0, |p| p.pg_num);
    for pg in (0..pg_num).map(|seed| PgId::new(pool, seed)) {
        if let Some(osd) = primary(ctx, pg) {
            out.entry(osd).or_default().push(pg);
        }
    }
    out
}

/// False if the OSD is not connected.
fn instruct(ctx: &mut Ctx<'_>, osd: OsdId, pgs: &[PgId], kind: Kind) -> bool {
    let (fsid, epoch) = (ctx.mon.options.fsid, ctx.mon.osd.map.epoch);
    let pgs = pgs.iter().map(|pg| SpgId::whole(*pg)).collect();
    let msg = MOSDScrub2 { fsid, epoch, pgs, repair: kind == Kind::Repair, deep: kind == Kind::Deep };
    let conns = sessions_of(ctx, osd);
    conns.iter().for_each(|conn| ctx.mon.send(*conn, 0, &msg));
    !conns.is_empty()
}

fn pg_scrub(ctx: &mut Ctx<'_>, kind: Kind) -> CmdResult {
    let pg = ctx.args.pgid("pgid")?;
    if ctx.mon.osd.map.pools.get(&pg.pool).is_none_or(|p| pg.seed >= p.pg_num) {
        return err(errno::ENOENT, format!("pg {pg} does not exist"));
    }
    let Some(osd) = primary(ctx, pg) else { return err(errno::EAGAIN, format!("pg {pg} has no primary osd")) };
    if !instruct(ctx, osd, &[pg], kind) {
        return err(errno::EAGAIN, format!("pg {pg} primary osd.{osd} is not currently connected"));
    }
    Ok(Reply::status(format!("instructing pg {pg} on osd.{osd} to {}", kind.name())))
}

fn osd_scrub(ctx: &mut Ctx<'_>, kind: Kind) -> CmdResult {
    let who = ctx.args.need("who")?;
    let map = &ctx.mon.osd.map;
    let osds: Vec<OsdId> = match who.as_str() {
        "*" | "all" | "any" => map.osds().filter(|o| map.is_up(*o)).collect(),
        one => vec![parse_osd(one)?],
    };
    if let Some(osd) = osds.iter().find(|o| !map.is_up(**o)) {
        return err(errno::EAGAIN, format!("osd.{osd} is not up"));
    }
    let pools: Vec<i64> = map.pools.keys().copied().collect();
    let mut pgs: BTreeMap<OsdId, Vec<PgId>> = BTreeMap::new();
    for pool in pools {
        for (osd, more) in by_primary(ctx, pool) {
            pgs.entry(osd).or_default().extend(more);
        }
    }
    let (mut sent, mut failed) = (Vec::new(), Vec::new());
    for osd in osds {
        let done = instruct(ctx, osd, pgs.get(&osd).map_or(&[][..], |p| p), kind);
        if done { sent.push(osd.to_string()) } else { failed.push(osd.to_string()) }
    }
    if sent.is_empty() {
        return err(errno::EAGAIN, format!("failed to instruct osd(s) {} to {} (not connected)", failed.join(","), kind.name()));
    }
    let mut said = format!("instructed osd(s) {} to {}", sent.join(","), kind.name());
    if !failed.is_empty() {
        said += &format!("; osd(s) {} were not connected", failed.join(","));
    }
    Ok(Reply::status(said))
}

/// The pools that `who` names.
fn pools(ctx: &Ctx<'_>) -> Result<Vec<i64>, CmdError> {
    let known = |name: &String| {
        let pool = ctx.mon.osd.map.pool_by_name(name);
        pool.ok_or_else(|| CmdError::new(errno::ENOENT, format!("unrecognized pool '{name}'")))
    };
    ctx.args.list("who").iter().map(known).collect()
}

fn pool_scrub(ctx: &mut Ctx<'_>, kind: Kind) -> CmdResult {
    for pool in pools(ctx)? {
        for (osd, pgs) in by_primary(ctx, pool) {
            if !instruct(ctx, osd, &pgs, kind) {
                return err(errno::EAGAIN, format!("osd.{osd} is not currently connected"));
            }
        }
    }
    Ok(Reply::default())
}

/// Whether the option has anything to do with a group in this state; if not, what is to be said.
fn concerns(state: u64, options: u8) -> Result<(), &'static str> {
    let cancel = options & CANCEL != 0;
    let (forced, needs, what) = if options & RECOVERY != 0 {
        (pg_state::FORCED_RECOVERY, pg_state::DEGRADED | pg_state::RECOVERY_WAIT | pg_state::RECOVERING, "recovery")
    } else {
        (pg_state::FORCED_BACKFILL, pg_state::DEGRADED | pg_state::BACKFILL_WAIT | pg_state::BACKFILLING, "backfill")
    };
    match (cancel, state & forced != 0) {
        (true, false) if what == "recovery" => Err("recovery not forced"),
        (true, false) => Err("backfill not forced"),
        (false, true) => Err("already forced"),
        (false, false) if state & needs == 0 && what == "recovery" => Err("doesn't require recovery"),
        (false, false) if state & needs == 0 => Err("doesn't require backfilling"),
        _ => Ok(()),
    }
}

fn force(ctx: &mut Ctx<'_>, options: u8) -> CmdResult {
    let mut wanted = Vec::new();
    let by_pool = ctx.args.has("who");
    if by_pool {
        for pool in pools(ctx)? {
            wanted.extend(by_primary(ctx, pool).into_values().flatten());
        }
    } else {
        for word in ctx.args.list("pgid") {
            let Some(pg) = PgId::parse(&word) else { return err(errno::EINVAL, format!("invalid pgid '{word}'")) };
            if ctx.mon.osd.map.pools.get(&pg.pool).is_none_or(|p| pg.seed >= p.pg_num) {
                return err(errno::EINVAL, format!("pg {pg} does not exist"));
            }
            wanted.push(pg);
        }
    }
    let mut said = Vec::new();
    let mut by_osd: BTreeMap<OsdId, Vec<SpgId>> = BTreeMap::new();
    for pg in wanted {
        let state = ctx.mon.manager.pgs.pgs.get(&pg).map_or(0, |s| s.state);
        match (concerns(state, options), primary(ctx, pg)) {
            (Ok(()), Some(osd)) => by_osd.entry(osd).or_default().push(SpgId::whole(pg)),
            (Err(why), _) if !by_pool => said.push(format!("pg {pg} {why}")),
            _ => {}
        }
    }
    for (osd, pgs) in by_osd {
        let msg = MOSDForceRecovery { fsid: ctx.mon.options.fsid, pgs, options };
        let conns = sessions_of(ctx, osd);
        conns.iter().for_each(|conn| ctx.mon.send(*conn, 0, &msg));
    }
    Ok(Reply::status(said.join("; ")))
}
