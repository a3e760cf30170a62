//! Shrinking pools: when both groups of a merge are quiet the monitor hears of it, and takes the source out of the map.

use crate::event::Effect;
use crate::osd::Osd;
use crate::pg::peering::{MergeRole, parent_seed};
use crate::shared::EventCx;
use crate::work::{For, Status, Work};
use maps::Placement;
use messages::{MOSDPGReadyToMerge, Message, Paxos};
use std::collections::BTreeMap;
use types::{EVersion, Epoch, PgId, SpgId, features};

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
}

impl Osd {
    /// Tells of merges that can go on, or can't.
    pub(crate) fn tell_ready_to_merge(&mut self, cx: &mut EventCx<'_>) {
        let map = self.sh.map.clone();
        let pending = |pg: &PgId| map.pool(pg.pool).is_some_and(|p| (p.pg_num_pending..p.pg_num).contains(&pg.seed));
        self.merging.told.retain(|pg, _| pending(pg));
        let mut told = Vec::new();
        for source in self.pgs().filter(|pg| pg.peering.pending_merge() == Some(MergeRole::Source) && pg.peering.is_primary()) {
            let pgid = source.pgid.pgid;
            if !source.peering.is_premerge() {
                continue;
            }
            let target_id = SpgId { pgid: PgId::new(pgid.pool, parent_seed(pgid.seed)), shard: source.pgid.shard };
            let target = self.index.get(&target_id).and_then(|slot| self.pgs[*slot as usize].as_deref());
            // Groups that lie on other OSDs than each other since they were made quiet serve again first, and so do those that lack copies.
            let is_apart = map.pg_to_up_acting(target_id.pgid, &mut Placement::default()).acting != source.peering.mapping.acting;
            let target = target.filter(|t| t.peering.is_premerge());
            if target.is_none() && !is_apart && source.peering.is_clean() {
                continue;
            }
            let ready = !is_apart && source.peering.is_clean() && target.is_some_and(|t| t.peering.is_clean());
            let quiet_since = source.pool.last_force_op_resend_prenautilus;
            if self.merging.told.get(&pgid) == Some(&(ready, quiet_since)) {
                continue;
            }
            let target = target.unwrap_or(source);
            let history = target.info.history;
            let msg = MOSDPGReadyToMerge {
                paxos: Paxos::at(map.epoch.into()),
                pgid,
                source_version: if ready { source.info.last_update } else { EVersion::ZERO },
                target_version: if ready { target.info.last_update } else { EVersion::ZERO },
                last_epoch_started: if ready { history.last_epoch_started } else { 0 },
                last_epoch_clean: if ready { history.last_epoch_clean } else { 0 },
                ready,
            };
            cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
            told.push((pgid, (ready, quiet_since)));
        }
        self.merging.told.extend(told);
    }
}
