//! What is asked of a cluster that has come to rest: the histories of its objects, and what lies on its disks.

use crate::agree;
use crate::client::POOL;
use crate::cluster::Cluster;
use crate::linear;
use crate::model::Op;
use std::collections::{BTreeMap, BTreeSet};
use types::{HObject, PgId, SpgId};

impl Cluster {
    pub(crate) fn read_all(&mut self) -> Result<(), String> {
        let live = self.history.snaps.now.live.clone();
        for object in 0..self.plan.objects {
            for snap in &live {
                if let Some(client) = self.clients.iter_mut().flatten().next() {
                    client.submit(object, Op::ReadAt(*snap), &mut self.history, &mut self.net);
                }
            }
            if let Some(client) = self.clients.iter_mut().flatten().next() {
                client.submit(object, Op::Read, &mut self.history, &mut self.net);
            }
        }
        self.until(self.plan.rest_ns, "at rest", Self::is_settled)
    }
    pub(crate) fn judge(&mut self) -> Result<(), String> {
        self.judge_histories()?;
        self.members_agree().map_err(|why| {
            let group = why.split_whitespace().next().unwrap_or_default().trim_end_matches(':').to_owned();
            self.tell(&format!("agree: {why}"), &[group])
        })
    }
    pub(crate) fn judge_histories(&mut self) -> Result<(), String> {
        if let Some(why) = &self.history.went_back {
            return Err(self.tell(&format!("versions: {why}"), &[]));
        }
        if let Some(why) = &self.history.got_past {
            return Err(self.tell(&format!("barred: {why}"), &[]));
        }
        match linear::check(&self.history, self.plan.objects) {
            Ok(wild) => self.wild = wild,
            Err(why) => {
                return Err(self.tell(&format!("linear: {}", why.text), &[format!("o{}:", why.object), format!("on o{}", why.object)]));
            }
        }
        Ok(())
    }
    /// Stops every OSD and compares what lies on the disks of each group's members.
    fn members_agree(&mut self) -> Result<(), String> {
        let monitor = self.monitor.as_ref().expect("the cluster is at rest");
        let (map, mut placement) = (&monitor.core().osd.map, maps::Placement::default());
        let mut acting = BTreeMap::new();
        for (id, pool) in &map.pools {
            for seed in 0..pool.pg_num {
                let pgid = PgId::new(*id, seed);
                let at = map.pg_to_up_acting(pgid, &mut placement).acting;
                acting.insert(SpgId::whole(pgid), at.into_iter().map(|osd| osd as usize).collect());
            }
        }
        let clients = map.pool_by_name(POOL);
        let mut stores = Vec::new();
        for (id, osd) in self.osds.iter().enumerate().filter_map(|(id, osd)| Some((id, osd.as_ref()?))) {
            osd.core().pgs().for_each(|pg| pg.assert_whole(osd.core().store(), self.harm.rotten.contains(&id)));
        }
        for (id, (osd, drive)) in self.osds.iter_mut().zip(&mut self.drives).enumerate() {
            let store = osd.take().expect("the cluster is at rest").into_core().into_store();
            drive.killed(store, false, &mut self.net.rng);
            if self.harm.rotten.is_empty() && !self.plan.rot_beyond {
                drive.check(&mut self.net.rng).map_err(|why| format!("osd.{id}'s store: {why}"))?;
            }
            match drive.open_to_read() {
                Ok(store) => stores.push(store),
                // What it would need to start again has rotted while it served: nothing is left to compare its members' copies with.
                Err(why) if self.harm.explains_end(id, self.plan.rot_wide, &why) => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        // A removal may have died with the client that wished it: then the snapshot is there.
        let wished = self.history.snaps.removed.iter().copied();
        let monitor = self.monitor.as_ref().expect("the cluster is at rest").core();
        let lost: BTreeSet<u64> = wished.filter(|snap| clients.is_some_and(|pool| !monitor.osd.is_removed_snap(pool, *snap))).collect();
        let history = &self.history;
        let may_keep = |name: &HObject, snap| {
            if lost.contains(&snap) {
                return true;
            }
            let number = std::str::from_utf8(name.oid.as_slice()).ok().and_then(|oid| oid.strip_prefix('o')?.parse().ok());
            Some(name.pool) != clients || number.is_none_or(|object| history.may_keep(object, snap))
        };
        match agree::check(&mut stores, &acting, &may_keep) {
            Err(agree::Wrong::Unreadable(id, why)) if self.harm.explains_end(id, self.plan.rot_wide, &why) => Ok(()),
            Err(agree::Wrong::Unreadable(_, why) | agree::Wrong::Differs(why)) => Err(why),
            Ok(()) => Ok(()),
        }
    }
}
