//! Commands about one placement group: what it knows, which of its objects no OSD has, and giving those up.

use super::Shard;
use crate::answer::{Answer, ok};
use crate::pg::Pg;
use crate::pg::work::unfound::GiveUp;
use crate::shared::EventCx;
use base::Clock;
use serde_json::{Map, Value, json};
use types::errno::{EINVAL, ENOENT};
use types::{Epoch, HObject, PgId, SpgId, pg_state};

impl Shard {
    /// `cmd`: the command's arguments, of which `pgid` names the group.
    pub(crate) fn pg_command(&mut self, name: &str, cmd: &Map<String, Value>, cx: &mut EventCx<'_>) -> Answer {
        let text = |name: &str| cmd.get(name).and_then(Value::as_str);
        let refused = |why: String| (EINVAL, why, Vec::new());
        let Some(pgid) = text("pgid").and_then(PgId::parse) else { return refused("no pgid specified".into()) };
        let Some(slot) = self.index.get(&SpgId::whole(pgid)).copied() else {
            return (ENOENT, format!("i don't have pgid {pgid}"), Vec::new());
        };
        let pg = self.pgs[slot as usize].as_mut().expect("the index names groups that are here");
        match name {
            "query" => query_pg(pg, self.sh.map.epoch, cx.clock),
            _ if !pg.peering().is_primary() => refused("not primary".into()),
            "list_unfound" => {
                let after = match text("offset").filter(|offset| !offset.is_empty()).map(after) {
                    Some(None) => return refused("offset is not an object as list_unfound shows it".into()),
                    after => after.flatten(),
                };
                let max = usize::try_from(self.sh.config.int("osd_command_max_records")).unwrap_or(1).max(1);
                ok(pg.list_unfound(after.as_ref(), max, &self.sh.map))
            }
            "mark_unfound_lost" => {
                let how = match text("mulcmd") {
                    Some("revert") => GiveUp::Revert,
                    Some("delete") => GiveUp::Delete,
                    _ => return refused("mode must be 'revert' or 'delete'".into()),
                };
                match pg.give_up_unfound(how, &mut cx.with(&mut self.sh)) {
                    Ok(0) => (0, "pg has no unfound objects".into(), Vec::new()),
                    Ok(n) => (0, format!("pg has {n} objects unfound and apparently lost marking"), Vec::new()),
                    Err(why) => refused(why),
                }
            }
            other => refused(format!("unknown command of a group: {other}")),
        }
    }
}

/// An object as `list_unfound` shows it.
fn after(offset: &str) -> Option<HObject> {
    let shown: Value = serde_json::from_str(offset).ok()?;
    let name = |field: &str| Some(shown.get(field)?.as_str()?.as_bytes().to_vec().into());
    Some(HObject {
        oid: name("oid")?,
        key: name("key")?,
        snap: shown.get("snapid")?.as_i64()? as u64,
        hash: u32::try_from(shown.get("hash")?.as_u64()?).ok()?,
        nspace: name("namespace")?,
        pool: shown.get("pool")?.as_i64()?,
        max: false,
    })
}

/// What a group knows; `epoch`: of the newest map.
fn query_pg(pg: &Pg, epoch: Epoch, clock: Clock) -> Answer {
    let (i, h, m) = (pg.record().info(), &pg.record().info().history, &pg.peering().mapping);
    let trimq = pg.trims().queue();
    let states = pg.peering().history.iter().rev().map(|(s, at)| json!({ "name": format!("{s:?}"), "entered_ns": at.0 }));
    ok(json!({
        "snap_trimq": format!("[{}]", trimq.iter().map(|(start, len)| format!("{start:x}~{len:x}")).collect::<Vec<_>>().join(",")),
        "snap_trimq_len": trimq.size(),
        "state": pg_state::to_text(pg.state_bits()),
        "epoch": epoch,
        "up": m.up,
        "acting": m.acting,
        "acting_recovery_backfill": pg.peering().members().iter().map(|o| o.to_string()).collect::<Vec<_>>(),
        "readable_until_ns": pg.lease().readable_until().0,
        "info": {
            "pgid": pg.pgid.to_string(),
            "last_update": i.last_update.to_string(),
            "last_complete": i.last_complete.to_string(),
            "log_tail": i.log_tail.to_string(),
            "last_user_version": i.last_user_version,
            "last_backfill": i.last_backfill.to_string(),
            "last_epoch_started": i.last_epoch_started,
            "last_interval_started": i.last_interval_started,
            "empty": i.last_update.version == 0,
            "dne": i.dne(),
            "incomplete": !i.last_backfill.max,
            "purged_snaps": i.purged_snaps.iter().map(|(s, l)| json!({ "start": s, "length": l })).collect::<Vec<_>>(),
            "history": {
                "epoch_created": h.epoch_created,
                "epoch_pool_created": h.epoch_pool_created,
                "last_epoch_started": h.last_epoch_started,
                "last_interval_started": h.last_interval_started,
                "last_epoch_clean": h.last_epoch_clean,
                "last_interval_clean": h.last_interval_clean,
                "last_epoch_split": h.last_epoch_split,
                "last_epoch_marked_full": h.last_epoch_marked_full,
                "same_up_since": h.same_up_since,
                "same_interval_since": h.same_interval_since,
                "same_primary_since": h.same_primary_since,
                "last_scrub": h.last_scrub.to_string(),
                "last_scrub_stamp": h.last_scrub_stamp.to_string(),
                "last_deep_scrub": h.last_deep_scrub.to_string(),
                "last_deep_scrub_stamp": h.last_deep_scrub_stamp.to_string(),
                "last_clean_scrub_stamp": h.last_clean_scrub_stamp.to_string(),
                "prior_readable_until_ub": std::time::Duration::from_nanos(pg.lease().remaining_ns(clock.mono)).as_secs_f64(),
            },
        },
        "peer_info": [],
        "recovery_state": states.collect::<Vec<_>>(),
        "agent_state": {},
    }))
}
