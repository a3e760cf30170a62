//! What may be done to OSDs without losing anything: `osd ok-to-stop`, `osd safe-to-destroy`.

use super::{CmdError, CmdResult, Command, Ctx, Reply, dump, mgr_cmd, parse_osd};
use crate::Mon;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use types::pg_stat::pg_state;
use types::{OsdId, PgId, errno};

pub const COMMANDS: &[Command] = &[
    mgr_cmd(
        "osd ok-to-stop name=ids,type=CephString,n=N name=max,type=CephInt,req=false",
        "whether OSDs can stop without a placement group becoming inactive",
        "osd",
        "r",
        ok_to_stop,
    ),
    mgr_cmd(
        "osd safe-to-destroy name=ids,type=CephString,n=N",
        "whether what OSDs hold is held elsewhere too",
        "osd",
        "r",
        safe_to_destroy,
    ),
];

/// OSDs as a request lists them: numbers, names, or all.
fn ids(ctx: &Ctx<'_>) -> Result<BTreeSet<OsdId>, CmdError> {
    let mut out = BTreeSet::new();
    for word in ctx.args.list("ids") {
        if matches!(word.as_str(), "all" | "any" | "*") {
            out.extend(ctx.mon.osd.map.osds());
        } else {
            out.insert(parse_osd(&word)?);
        }
    }
    if out.is_empty() { Err(CmdError::new(errno::EINVAL, "must specify one or more OSDs")) } else { Ok(out) }
}

/// What becomes of placement groups when some OSDs stop.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    osds: BTreeSet<OsdId>,
    ok: u32,
    bad: BTreeSet<PgId>,
    unknown: Vec<PgId>,
    already_inactive: Vec<PgId>,
    become_inactive: Vec<PgId>,
    become_degraded: Vec<PgId>,
    become_more_degraded: Vec<PgId>,
}

impl Outlook {
    pub(super) fn of(mon: &Mon, osds: BTreeSet<OsdId>) -> Self {
        let mut out = Self { osds, ..Self::default() };
        for (pg, s) in &mon.manager.pgs.pgs {
            if s.state == 0 {
                out.unknown.push(*pg);
                continue;
            }
            let left = s.acting.iter().filter(|o| **o != crush::ITEM_NONE && !out.osds.contains(o)).count();
            if left == s.acting.len() {
                continue;
            }
            let Some(pool) = mon.osd.map.pool(pg.pool) else { continue };
            let mut bad = false;
            if s.state & pg_state::ACTIVE == 0 {
                out.already_inactive.push(*pg);
                bad = true;
            }
            if left < usize::from(pool.min_size) {
                out.become_inactive.push(*pg);
                bad = true;
            }
            if bad {
                out.bad.insert(*pg);
                continue;
            }
            out.ok += 1;
            if s.state & pg_state::DEGRADED != 0 {
                out.become_more_degraded.push(*pg);
            } else {
                out.become_degraded.push(*pg);
            }
        }
        out
    }
    pub(super) fn is_ok(&self) -> bool {
        self.bad.is_empty() && self.unknown.is_empty()
    }
    pub(super) fn bad_count(&self) -> usize {
        self.bad.len()
    }
    pub(super) fn unknown_count(&self) -> usize {
        self.unknown.len()
    }
    fn json(&self) -> Value {
        let mut v = Map::new();
        v.insert("ok_to_stop".into(), json!(self.is_ok()));
        v.insert("osds".into(), json!(self.osds));
        v.insert("num_ok_pgs".into(), json!(self.ok));
        v.insert("num_not_ok_pgs".into(), json!(self.bad.len()));
        for (name, pgs) in [
            ("unknown_pgs", &self.unknown),
            ("bad_already_inactive", &self.already_inactive),
            ("bad_become_inactive", &self.become_inactive),
            ("ok_become_degraded", &self.become_degraded),
            ("ok_become_more_degraded", &self.become_more_degraded),
        ] {
            if !pgs.is_empty() {
                v.insert(name.into(), pgs.iter().map(|pg| json!(pg.to_string())).collect());
            }
        }
        Value::Object(v)
    }
}

fn ok_to_stop(ctx: &mut Ctx<'_>) -> CmdResult {
    let asked = ids(ctx)?;
    let max = ctx.args.int("max")?.unwrap_or(1).max(asked.len() as i64) as usize;
    let mon = &*ctx.mon;
    let mut best = Outlook::of(mon, asked);
    // Others may stop along with these, as long as nothing suffers.
    if best.is_ok() {
        for osd in mon.osd.map.osds() {
            if best.osds.len() >= max {
                break;
            }
            let more = Outlook::of(mon, best.osds.iter().copied().chain([osd]).collect());
            if more.is_ok() {
                best = more;
            }
        }
    }
    let json = best.json();
    let reply = ctx.answer(json.clone(), || dump(&json))?;
    Ok(if !best.unknown.is_empty() {
        reply.failed(errno::EAGAIN, format!("{} pgs have unknown state; cannot draw any conclusions", best.unknown.len()))
    } else if !best.is_ok() {
        let text = format!("unsafe to stop osd(s) at this time ({} PGs are or would become offline)", best.bad.len());
        reply.failed(errno::EBUSY, text)
    } else {
        reply
    })
}

fn list(osds: &BTreeSet<OsdId>) -> String {
    osds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn safe_to_destroy(ctx: &mut Ctx<'_>) -> CmdResult {
    let asked = ids(ctx)?;
    let (map, pgs) = (&ctx.mon.osd.map, &ctx.mon.manager.pgs);
    let unknown = pgs.count_state(0);
    if unknown > 0 {
        return Err(CmdError::new(errno::EAGAIN, format!("{unknown} pgs have unknown state; cannot draw any conclusions")));
    }
    const GOOD: u64 = pg_state::ACTIVE | pg_state::CLEAN;
    let all_clean = pgs.pgs.values().all(|s| s.state & GOOD == GOOD);
    let (mut safe, mut active, mut missing, mut stored) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut affected = 0;
    for osd in &asked {
        let mapped = pgs.pgs.values().filter(|s| s.acting.contains(osd) || s.up.contains(osd)).count();
        let set = if !map.exists(*osd) {
            &mut safe
        } else if mapped > 0 {
            affected += mapped;
            &mut active
        } else if all_clean {
            &mut safe
        } else {
            match pgs.osds.get(osd).filter(|_| map.is_up(*osd)) {
                None => &mut missing,
                Some(o) if o.num_pgs > 0 => &mut stored,
                Some(_) => &mut safe,
            }
        };
        set.insert(*osd);
    }
    if ctx.args.asks_for_fields() {
        return ctx.answer_json(json!({"safe_to_destroy": safe, "active": active, "missing_stats": missing, "stored_pgs": stored}));
    }
    let mut text = String::new();
    let bad = !active.is_empty() || !missing.is_empty() || !stored.is_empty();
    if !bad {
        return Ok(Reply::status(format!("OSD(s) {} are safe to destroy without reducing data durability.", list(&asked))));
    }
    if !safe.is_empty() {
        text += &format!("OSD(s) {} are safe to destroy without reducing data durability. ", list(&safe));
    }
    if !active.is_empty() {
        text += &format!("OSD(s) {} have {affected} pgs currently mapped to them. ", list(&active));
    }
    if !missing.is_empty() {
        text += &format!(
            "OSD(s) {} have no reported stats, and not all PGs are active+clean; we cannot draw any conclusions. ",
            list(&missing)
        );
    }
    if !stored.is_empty() {
        text += &format!(
            "OSD(s) {} last reported they still store some PG data, and not all PGs are active+clean; we cannot be sure they aren't still needed.",
            list(&stored)
        );
    }
    Err(CmdError::new(if active.is_empty() && stored.is_empty() { errno::EAGAIN } else { errno::EBUSY }, text))
}
