//! What an OSD has once, however many threads serve its groups: boot, maps, heartbeats, the manager, options, how full it is.
//!
//! Control holds no group, no request and no store. What it wants of a shard it says as [`ToShard`], and what a shard wants of it comes as
//! [`ToControl`]; figures about groups are values, see [`crate::figures`]. [`crate::Osd`] has both and carries these from one to the other.

pub(crate) mod blackhole;
pub(crate) mod boot;
mod cut;
pub(crate) mod fullness;
pub(crate) mod heartbeat;
mod loaded;
pub(crate) mod maps;
pub(crate) mod merging;
pub(crate) mod mgr;
pub(crate) mod options;
mod sharing;

use crate::clocks::Clocks;
use crate::config::Config;
use crate::figures::Figures;
use crate::joint::{ToControl, ToShard};
use crate::map_cache::{MapCache, Maps};
use crate::setup::OsdSetup;
use crate::shared::EventCx;
use ::maps::OsdMap;
use base::breadcrumb::Breadcrumb;
use base::{Budget, Stamp};
use blackhole::Swallowed;
use boot::BootState;
use fullness::Fullness;
use heartbeat::Heartbeats;
use merging::Merging;
use messages::MOSDMap;
use mgr::MgrSession;
use sharing::SharedMaps;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use types::{Epoch, OsdId, OsdSuperblock, Uuid};

/// See the module.
pub(crate) struct Control {
    whoami: OsdId,
    /// What kind of store the OSD has, as its options name it.
    store_kind: String,
    cluster_fsid: Uuid,
    superblock: OsdSuperblock,
    /// The newest map that was taken in; epoch 0 before the first.
    map: Rc<OsdMap>,
    maps: Rc<RefCell<MapCache>>,
    /// Messages of maps that are not taken in yet.
    pending_maps: VecDeque<(MOSDMap, maps::Source)>,
    /// The newest map that a monitor has named.
    confirmed: Epoch,
    asked_maps_from: Epoch,
    /// Shards have this one too.
    config: Rc<Config>,
    /// What clients have under way.
    budget: Rc<Budget>,
    /// Where the loop stands, for another thread.
    crumb: Arc<Breadcrumb>,
    /// Peers whose messages vanish.
    swallowed: Swallowed,
    boot: BootState,
    mgr: MgrSession,
    merging: Merging,
    heartbeats: Heartbeats,
    shared_maps: SharedMaps,
    /// How clocks of other OSDs differ from ours.
    clocks: Clocks,
    fullness: Fullness,
    started: Stamp,
    /// The first map knew us by this uuid.
    was_up_before: bool,
    /// The same, and the store knew of no group.
    store_was_lost: bool,
    /// The manager hears of groups before its period is over.
    report_soon: bool,
    /// A merge may go on, or not.
    merge_soon: bool,
    /// What is to be said, in order.
    to_shard: Vec<ToShard>,
}

impl Control {
    pub fn new(setup: &OsdSetup, config: Rc<Config>, store_kind: &str, crumb: Arc<Breadcrumb>) -> Self {
        let superblock = OsdSuperblock {
            cluster_fsid: setup.cluster_fsid,
            osd_fsid: setup.osd_fsid,
            whoami: setup.whoami,
            compat_features: types::CompatSet::osd_initial(),
            ..OsdSuperblock::default()
        };
        Self {
            whoami: setup.whoami,
            store_kind: store_kind.into(),
            cluster_fsid: setup.cluster_fsid,
            superblock,
            map: Rc::default(),
            maps: Rc::default(),
            pending_maps: VecDeque::new(),
            confirmed: 0,
            asked_maps_from: 0,
            config,
            budget: Rc::default(),
            crumb,
            swallowed: Swallowed::default(),
            boot: BootState::default(),
            mgr: MgrSession::default(),
            merging: Merging::default(),
            heartbeats: Heartbeats::default(),
            shared_maps: SharedMaps::default(),
            clocks: Clocks::default(),
            fullness: Fullness::default(),
            started: Stamp(0),
            was_up_before: false,
            store_was_lost: false,
            report_soon: false,
            merge_soon: false,
            to_shard: Vec::new(),
        }
    }

    /// What a shard says.
    pub fn take(&mut self, msg: ToControl, cx: &mut EventCx<'_>) {
        match msg {
            ToControl::WantMaps => self.want_maps(cx),
            ToControl::ReportSoon => self.report_soon = true,
            ToControl::MergeSoon => self.merge_soon = true,
            ToControl::StoreRefused => self.fullness.refused(),
            // A store in memory, that is: another one has lost nothing when it has no group.
            ToControl::FoundNoGroup => self.store_was_lost = self.was_up_before && self.store_kind == "memstore",
            ToControl::Told(figures) => self.told(*figures, cx),
            ToControl::Said(_) | ToControl::Loaded(_) | ToControl::Unusable => {
                unreachable!("taken by the OSD, which has what they are about")
            }
        }
    }
    /// A shard answers, and the answer may no longer be wanted by then.
    fn told(&mut self, figures: Figures, cx: &mut EventCx<'_>) {
        match figures {
            Figures::Members(members) if self.boot.pings() => self.send_pings(members, cx),
            Figures::Primaries(of) if self.is_active() => self.send_beacon(of, cx),
            Figures::Fullness(fs) if self.is_active() => self.tell_fullness(&fs, cx),
            Figures::Members(_) | Figures::Primaries(_) | Figures::Fullness(_) => {}
            Figures::Merges(merges) => self.merging.tell(merges, &self.map, cx),
            Figures::OldestRecord(epoch) => self.need_maps_from(epoch),
            Figures::Report(counters, stats) => {
                self.send_counters(counters, cx);
                self.send_stats(stats, cx);
            }
        }
    }
    /// What shards are to be told since the last time, in order.
    #[inline]
    pub fn next_for_shards(&mut self) -> Option<Vec<ToShard>> {
        if self.to_shard.is_empty() { None } else { Some(std::mem::take(&mut self.to_shard)) }
    }
    pub fn take_merge_soon(&mut self) -> bool {
        std::mem::take(&mut self.merge_soon)
    }
    /// True if the store refused a change since it was last asked how full it is.
    pub fn was_refused(&self) -> bool {
        self.fullness.was_refused()
    }

    /// Once a second, first.
    pub fn tick(&mut self, now: Stamp) {
        if self.started == Stamp(0) {
            self.started = now;
        }
    }

    /// What shards read of maps.
    pub fn maps_to_read(&self) -> Maps {
        Maps::of(&self.maps)
    }
    pub fn map(&self) -> &Rc<OsdMap> {
        &self.map
    }
    pub fn config(&self) -> &Config {
        &self.config
    }
    pub fn superblock(&self) -> &OsdSuperblock {
        &self.superblock
    }
    pub fn whoami(&self) -> OsdId {
        self.whoami
    }
    pub fn cluster_fsid(&self) -> Uuid {
        self.cluster_fsid
    }
    pub fn is_active(&self) -> bool {
        self.boot.is_active()
    }
    pub fn swallowed(&self) -> Swallowed {
        self.swallowed
    }
    pub fn crumb(&self) -> &Arc<Breadcrumb> {
        &self.crumb
    }
    pub fn budget(&self) -> &Budget {
        &self.budget
    }
    pub fn lost_its_store(&self) -> bool {
        self.store_was_lost
    }
    /// How many other OSDs it pings.
    pub fn pinged(&self) -> usize {
        self.heartbeats.peers().len()
    }
    pub fn merging(&self) -> &Merging {
        &self.merging
    }
    /// What `status` shows.
    pub fn status(&self, num_pgs: usize) -> serde_json::Value {
        serde_json::json!({
            "cluster_fsid": self.cluster_fsid.to_string(),
            "osd_fsid": self.superblock.osd_fsid.to_string(),
            "whoami": self.whoami,
            "state": self.boot.name(),
            "oldest_map": self.maps.borrow().first,
            "cluster_osdmap_trim_lower_bound": self.maps.borrow().first,
            "newest_map": self.map.epoch,
            "num_pgs": num_pgs,
        })
    }
}
