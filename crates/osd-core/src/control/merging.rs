//! Shrinking pools: when both groups of a merge are quiet the monitor hears of it, and takes the source out of the map.

use crate::event::Effect;
use crate::figures::Merge;
use crate::shared::EventCx;
use crate::work::{For, Status, Work};
use maps::OsdMap;
use messages::{MOSDPGReadyToMerge, Message, Paxos};
use std::collections::BTreeMap;
use types::{Epoch, PgId, SpgId, features};

/// Sources of which the monitor was told and that the map still has.
#[derive(Debug, Default)]
pub struct Merging {
    /// With what it was told: that both groups are ready, or that they are not; and the map in which they were made quiet.
    told: BTreeMap<PgId, (bool, Epoch)>,
}

impl Merging {
    /// A new session with a monitor: it may not have heard.
    pub fn forget(&mut self) {
        self.told.clear();
    }
    pub(crate) fn status(&self) -> impl Iterator<Item = Status> {
        self.told.keys().map(|pgid| Status {
            what: "merge",
            pgid: Some(SpgId::whole(*pgid)),
            work: Work::Waiting(For::Peer),
            progress: "the monitor was told whether the group is ready to be merged".into(),
        })
    }
    /// Tells of merges that can go on, or can't.
    pub fn tell(&mut self, merges: Vec<Merge>, map: &OsdMap, cx: &mut EventCx<'_>) {
        let pending = |pg: &PgId| map.pool(pg.pool).is_some_and(|p| (p.pg_num_pending..p.pg_num).contains(&pg.seed));
        self.told.retain(|pg, _| pending(pg));
        for Merge { source: pgid, quiet_since, ready } in merges {
            let now = (ready.is_some(), quiet_since);
            if self.told.insert(pgid, now) == Some(now) {
                continue;
            }
            let quiet = ready.unwrap_or_default();
            let msg = MOSDPGReadyToMerge {
                paxos: Paxos::at(map.epoch.into()),
                pgid,
                source_version: quiet.source_version,
                target_version: quiet.target_version,
                last_epoch_started: quiet.last_epoch_started,
                last_epoch_clean: quiet.last_epoch_clean,
                ready: now.0,
            };
            cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
        }
    }
}
