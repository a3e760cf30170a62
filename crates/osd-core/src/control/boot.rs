//! How an OSD gets into the map and out of it: versions asked, MOSDBoot, up, down again, beacons.
//!
//! ```text
//!  waiting ── the shell listens ──▶ preboot ── its maps are the newest ──▶ booting ── a map shows it up ──▶ active
//!                                      ▲                                                                      │ a map shows it down
//!                                      └── a third of its peers answer its pings ── waiting for healthy ◀─────┤ too often: it ends
//!                                                                                     ended ◀── stopping ◀────┘ it was told to end
//! ```

use crate::control::Control;
use crate::event::{BootInfo, Effect, Level};
use crate::figures::Primaries;
use crate::joint::ToShard;
use crate::persist;
use crate::planted::{Bug, planted};
use crate::shared::EventCx;
use base::Stamp;
use messages::{MMonGetPurgedSnaps, MMonGetPurgedSnapsReply, MOSDBeacon, MOSDBoot, MOSDMarkMeDown, Message, Paxos};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{Epoch, OsdSuperblock, features};

/// The newest release whose clusters we serve.
const NEWEST: maps::Release = maps::Release::TENTACLE;
/// How far the newest map may be ahead when we boot (`osd_map_message_max`).
const LAG_MAX: Epoch = 40;
/// A boot that the map doesn't show after this is sent again.
const BOOT_AGAIN: Duration = Duration::from_secs(10);
/// Answers in a row, a second apart, by which the monitors' maps are older than ours: one of several may be behind for a moment.
const OLDER_MAX: u32 = 5;
/// Added to a nonce when the life that it stands for is over; much, as lives of one process after the other may be counted.
const NEXT_NONCE: u32 = 1 << 16;
/// Times remembered at which it was marked down; no option asks for more.
const MARKDOWNS_MAX: usize = 1000;
// What lacks then comes in one message.
const _: () = assert!(LAG_MAX <= crate::map_cache::MESSAGE_MAX);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// The shell doesn't listen yet.
    #[default]
    Waiting,
    /// Asked which maps there are.
    Preboot,
    Booting,
    Active,
    /// Marked down although it lives: perhaps no other OSD hears us.
    Unhealthy,
    Stopping,
}

/// The picture's arrows. A boot that is not heard is asked for again; an OSD that the map must not have ends before it boots.
const EDGES: [(Stage, Stage); 9] = [
    (Stage::Waiting, Stage::Preboot),
    (Stage::Preboot, Stage::Preboot),
    (Stage::Preboot, Stage::Booting),
    (Stage::Preboot, Stage::Stopping),
    (Stage::Booting, Stage::Preboot),
    (Stage::Booting, Stage::Active),
    (Stage::Active, Stage::Unhealthy),
    (Stage::Active, Stage::Stopping),
    (Stage::Unhealthy, Stage::Preboot),
];

/// Where the OSD stands.
#[derive(Debug, Default)]
pub struct BootState {
    stage: Stage,
    pub info: BootInfo,
    /// The metadata of the next boot, if they are others: monitors take them from a boot alone.
    next_metadata: Option<Vec<(String, String)>>,
    /// First epoch that showed this daemon up.
    boot_epoch: Epoch,
    pub up_from: Epoch,
    sent: Stamp,
    last_beacon: Option<Stamp>,
    /// When it was marked down while it lived, the newest last.
    markdowns: VecDeque<Stamp>,
    /// Times in a row that the monitors' newest map was older than ours.
    older: u32,
    /// Why the monitor won't take us, as it was said last.
    complaint: Option<String>,
}

impl BootState {
    pub fn is_active(&self) -> bool {
        matches!(self.stage, Stage::Active | Stage::Stopping)
    }
    /// True if it asks other OSDs whether they live.
    pub fn pings(&self) -> bool {
        matches!(self.stage, Stage::Active | Stage::Unhealthy)
    }
    pub fn is_unhealthy(&self) -> bool {
        self.stage == Stage::Unhealthy
    }
    pub fn name(&self) -> &'static str {
        match self.stage {
            Stage::Waiting => "initializing",
            Stage::Preboot => "preboot",
            Stage::Booting => "booting",
            Stage::Active => "active",
            Stage::Unhealthy => "waiting_for_healthy",
            Stage::Stopping => "stopping",
        }
    }
}

/// The features to boot with where the cluster requires that release: monitors let no OSD in that is more than two releases ahead of it.
///
/// Source: 18.2 `src/mon/OSDMonitor.cc` (`preprocess_boot`), of Reef and Pacific; later monitors ask the same of their releases.
fn features_in(required: maps::Release) -> u64 {
    let later = [(maps::Release::QUINCY, features::SERVER_SQUID | features::CRUSH_MSR), (maps::Release::REEF, features::SERVER_TENTACLE)];
    later.iter().filter(|(since, _)| required >= *since).fold(features::SUPPORTED, |all, (_, feature)| all | feature)
}

/// The version that this OSD presents, as `version` answers it.
pub(crate) fn version_of(control: &Control) -> serde_json::Value {
    let told = |name: &str, default: &'static str| {
        let found = control.boot.info.metadata.iter().find(|(field, _)| field == name);
        found.map_or(default.to_string(), |(_, value)| value.clone())
    };
    let (version, release) = (told("ceph_version_short", options::VERSION), told("ceph_release", options::RELEASE));
    serde_json::json!({ "version": version, "release": release, "release_type": "stable" })
}

impl Control {
    /// The only writer of the stage: shards hear whether they serve.
    fn enter(&mut self, stage: Stage) {
        let from = self.boot.stage;
        assert!(EDGES.contains(&(from, stage)), "from {from:?} to {stage:?}");
        let before = self.boot.is_active();
        self.boot.stage = stage;
        if self.boot.is_active() != before {
            self.to_shard.push(ToShard::Serves(!before));
        }
    }

    /// Boots with this. An OSD that boots or runs keeps its addresses, and its metadata until its next boot.
    pub(crate) fn start_boot(&mut self, info: BootInfo, cx: &mut EventCx<'_>) {
        if self.boot.stage != Stage::Waiting {
            self.boot.next_metadata = Some(info.metadata);
            return;
        }
        self.boot.info = info;
        self.started = cx.clock.mono;
        self.preboot(cx);
    }

    fn preboot(&mut self, cx: &mut EventCx<'_>) {
        self.enter(Stage::Preboot);
        self.boot.sent = cx.clock.mono;
        cx.out.push(Effect::AskMapVersions);
    }

    /// The monitor's range of maps: if ours is among the newest we boot, otherwise we get those that lack first.
    pub(crate) fn map_versions(&mut self, oldest: Epoch, newest: Epoch, cx: &mut EventCx<'_>) {
        self.to_shard.push(ToShard::NewestMap(newest));
        if self.boot.stage != Stage::Preboot {
            return;
        }
        self.confirm(newest);
        let (epoch, me) = (self.map.epoch, self.whoami);
        self.boot.older = if newest < epoch { self.boot.older + 1 } else { 0 };
        if self.boot.older >= OLDER_MAX {
            self.enter(Stage::Stopping);
            if self.confirmed <= newest && newest > 0 && !planted(Bug::StayAhead) {
                self.to_shard.push(ToShard::Keep(persist::go_back_to(newest)));
                let why = format!(
                    "its maps go up to epoch {epoch} by the word of other OSDs, the monitor's to {newest}, and it never named a newer one: started \
                     again, this OSD goes back to epoch {newest}"
                );
                cx.out.push(Effect::Stop { why: Some(why) });
                return;
            }
            let why = format!(
                "its maps go up to epoch {epoch}, the monitor's to {newest}: the monitor's store is older than this OSD's, and going on would give \
                 epochs a second meaning. Put the newer monitor's store back (an OSD alone goes on only with a monitor of its time)"
            );
            cx.out.push(Effect::Stop { why: Some(why) });
            return;
        }
        let map = self.map.clone();
        let other_uuid =
            map.osd_uuid.get(me as usize).filter(|known| map.exists(me) && !known.is_zero() && **known != self.superblock.osd_fsid);
        let cannot = match other_uuid {
            Some(known) => Some(format!("the map has osd.{me} with uuid {known}, this is OSD {}", self.superblock.osd_fsid)),
            None if epoch > 0 && !map.exists(me) => Some(format!("the map has no osd.{me}: `ceph osd new` makes it known")),
            None if map.is_destroyed(me) => {
                Some("the map says that it is destroyed: `ceph osd new` with its uuid and number makes it anew".into())
            }
            None if map.require_osd_release > NEWEST => {
                let number = map.require_osd_release.0;
                Some(format!("the cluster requires OSDs of release {number}, and this one serves up to {NEWEST} ({}): update it", NEWEST.0))
            }
            None => None,
        };
        let is_refused = cannot.is_some();
        // A map of before may know another OSD of this number, or none.
        if epoch >= newest {
            if let Some(why) = &cannot
                && self.boot.complaint.as_ref() != Some(why)
            {
                cx.out.push(Effect::Log { level: Level::Warn, text: format!("can't boot: {why}") });
            }
            self.boot.complaint = cannot;
        }
        let refused = match () {
            _ if is_refused => Some("as said"),
            _ if epoch == 0 => Some("waiting for the first map"),
            _ if newest < epoch => Some("the monitor's maps are older than ours"),
            _ if self.map.state(me) & maps::osd_state::NOUP != 0 || self.map.has_flag(maps::map_flags::NOUP) => Some("noup is set"),
            _ if self.superblock.purged_snaps_last < epoch => {
                self.ask_purged_snaps(cx);
                Some("asking for purged snapshots")
            }
            _ => None,
        };
        if let Some(why) = refused {
            cx.out.push(Effect::Log { level: Level::Debug, text: format!("not booting: {why}") });
        } else if epoch + 1 >= oldest && epoch + LAG_MAX > newest {
            return self.send_boot(cx);
        }
        // From nothing, the newest map as a whole will do. Where the monitors forgot the next one they give their oldest as a whole, if asked for
        // one before it.
        let from = if epoch == 0 { 0 } else { (epoch + 1).max(oldest.saturating_sub(1)) };
        cx.out.push(Effect::SubscribeMaps { from });
    }

    fn ask_purged_snaps(&self, cx: &mut EventCx<'_>) {
        let start = self.superblock.purged_snaps_last + 1;
        let msg = MMonGetPurgedSnaps { paxos: Paxos::default(), start, last: self.map.epoch + 1 };
        cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
    }
    /// Snapshots that everybody was rid of while we were away: a group that still has clones of them rids itself of them when it is active.
    pub(crate) fn purged_snaps(&mut self, m: &MMonGetPurgedSnapsReply, cx: &mut EventCx<'_>) {
        if self.boot.stage != Stage::Preboot || m.last <= self.superblock.purged_snaps_last {
            return;
        }
        for (pool, snaps) in m.purged.values().flatten() {
            self.to_shard.push(ToShard::Purged { pool: *pool, snaps: snaps.clone() });
        }
        self.superblock.purged_snaps_last = m.last;
        // The rest, or the boot.
        if m.last < self.map.epoch { self.ask_purged_snaps(cx) } else { cx.out.push(Effect::AskMapVersions) }
    }

    fn send_boot(&mut self, cx: &mut EventCx<'_>) {
        self.enter(Stage::Booting);
        if let Some(metadata) = self.boot.next_metadata.take() {
            self.boot.info.metadata = metadata;
        }
        let info = &self.boot.info;
        let mut metadata: BTreeMap<String, String> = info.metadata.iter().cloned().collect();
        for (name, value) in [
            ("front_addr", info.public.to_string()),
            ("back_addr", info.cluster.to_string()),
            ("hb_front_addr", info.hb_front.to_string()),
            ("hb_back_addr", info.hb_back.to_string()),
            ("osd_objectstore", self.store_kind.clone()),
            ("rotational", "0".into()),
            ("journal_rotational", "0".into()),
            ("default_device_class", "ssd".into()),
        ] {
            metadata.entry(name.into()).or_insert(value);
        }
        let superblock = OsdSuperblock {
            current_epoch: self.map.epoch,
            oldest_map: self.maps.borrow().oldest(),
            newest_map: self.map.epoch,
            ..self.superblock.clone()
        };
        let boot = MOSDBoot {
            paxos: Paxos::at(self.map.epoch.into()),
            superblock,
            hb_back_addrs: info.hb_back.clone(),
            cluster_addrs: info.cluster.clone(),
            boot_epoch: self.boot.boot_epoch,
            hb_front_addrs: info.hb_front.clone(),
            metadata,
            osd_features: features_in(self.map.require_osd_release),
        };
        cx.out.push(Effect::SendMon(boot.encode(features::SUPPORTED)));
    }

    /// Looks whether a new map has us up, or no longer. True if others are to be pinged at once: it has us down, and perhaps no other OSD hears us.
    #[must_use]
    pub(crate) fn check_ourselves(&mut self, cx: &mut EventCx<'_>) -> bool {
        let (map, me) = (self.map.clone(), self.whoami);
        let ours = map.is_up(me) && map.client_addrs[me as usize] == self.boot.info.public;
        match self.boot.stage {
            Stage::Preboot => {
                self.boot.sent = cx.clock.mono;
                cx.out.push(Effect::AskMapVersions);
            }
            Stage::Booting if ours => {
                self.enter(Stage::Active);
                self.boot.up_from = map.osd_info[me as usize].up_from;
                if self.boot.boot_epoch == 0 {
                    self.boot.boot_epoch = map.epoch;
                }
                self.superblock.mounted = map.epoch;
                cx.out.push(Effect::SubscribeCreates { from: 0 });
                cx.out.push(Effect::Booted { epoch: map.epoch });
            }
            Stage::Active if map.is_down(me) && map.state(me) & maps::osd_state::STOP != 0 => {
                let text = format!("map e{} has me stopped by `ceph osd stop`: ending", map.epoch);
                cx.out.push(Effect::Log { level: Level::Info, text });
                cx.out.push(Effect::Stop { why: None });
            }
            Stage::Active if !ours => {
                let text = format!("map e{} wrongly marked me down at e{}", map.epoch, map.epoch);
                cx.out.push(Effect::ClusterLog { level: Level::Error, text });
                return self.wrongly_down(cx);
            }
            Stage::Stopping if !ours => cx.out.push(Effect::Stop { why: None }),
            _ => {}
        }
        false
    }

    /// Other OSDs did not hear us. We come back when we hear others, so that a cut between OSDs is not one change of the map after the other; and not
    /// for ever.
    fn wrongly_down(&mut self, cx: &mut EventCx<'_>) -> bool {
        let times = &mut self.boot.markdowns;
        times.push_back(cx.clock.mono);
        let period = Duration::from_secs(self.config.int("osd_max_markdown_period"));
        times.retain(|at| cx.clock.mono.since(*at) <= period);
        if times.len() > MARKDOWNS_MAX {
            times.pop_front();
        }
        if times.len() as u64 > self.config.int("osd_max_markdown_count") {
            let text = format!("marked down {} times within {} s (osd_max_markdown_count): ending", times.len(), period.as_secs());
            cx.out.push(Effect::Log { level: Level::Error, text });
            cx.out.push(Effect::Stop { why: None });
            return false;
        }
        self.enter(Stage::Unhealthy);
        self.forget_pings();
        self.renew_cluster(cx);
        true
    }
    /// Others close what they have with the life that ended, each when it has that map; a session of the next life must not be among it, or what it
    /// brings is lost. By its nonce it is another one.
    fn renew_cluster(&mut self, cx: &mut EventCx<'_>) {
        let addrs = &mut self.boot.info.cluster;
        addrs.0.iter_mut().for_each(|addr| addr.nonce = addr.nonce.wrapping_add(NEXT_NONCE));
        cx.out.push(Effect::RenewCluster { addrs: addrs.clone() });
    }
    /// Whether enough of the others answered since we wait for that, or nothing was heard of being down for long.
    pub(crate) fn boot_if_healthy(&mut self, cx: &mut EventCx<'_>) {
        if self.boot.stage != Stage::Unhealthy {
            return;
        }
        let period = Duration::from_secs(self.config.int("osd_max_markdown_period"));
        let long_ago = self.boot.markdowns.back().is_none_or(|at| cx.clock.mono.since(*at) > period);
        let (heard, of) = self.heard_since(self.boot.markdowns.back().copied().unwrap_or_default());
        if long_ago || heard as f64 >= of as f64 * self.config.num("osd_heartbeat_min_healthy_ratio") {
            self.preboot(cx);
        }
    }

    /// What a monitor that went away may not have heard is said again. True if that goes for groups, too.
    #[must_use]
    pub(crate) fn mon_connected(&mut self, cx: &mut EventCx<'_>) -> bool {
        match self.boot.stage {
            Stage::Preboot | Stage::Booting => self.preboot(cx),
            Stage::Active => {
                self.boot.last_beacon = None;
                self.merging.forget();
                return true;
            }
            Stage::Stopping => self.send_mark_down(cx),
            Stage::Waiting | Stage::Unhealthy => {}
        }
        false
    }

    /// True if the monitor is to have a beacon.
    #[must_use]
    pub(crate) fn boot_tick(&mut self, cx: &mut EventCx<'_>) -> bool {
        let waited = cx.clock.mono.since(self.boot.sent);
        match self.boot.stage {
            Stage::Preboot if self.boot.older > 0 => self.preboot(cx),
            Stage::Preboot | Stage::Booting if waited > BOOT_AGAIN => self.preboot(cx),
            Stage::Unhealthy => self.boot_if_healthy(cx),
            Stage::Active => {
                return self.boot.last_beacon.is_none_or(|at| cx.clock.mono.since(at) >= self.beacon_period());
            }
            _ => {}
        }
        false
    }
    fn beacon_period(&self) -> Duration {
        Duration::from_secs(self.config.int("osd_beacon_report_interval").max(1))
    }
    /// Tells the monitor that we live, and which groups have us as their primary.
    pub(crate) fn send_beacon(&mut self, of: Primaries, cx: &mut EventCx<'_>) {
        self.boot.last_beacon = Some(cx.clock.mono);
        let beacon = MOSDBeacon {
            paxos: Paxos::at(self.map.epoch.into()),
            pgs: of.pgs,
            min_last_epoch_clean: of.min_last_epoch_clean.unwrap_or(self.map.epoch),
            last_purged_snaps_scrub: self.superblock.last_purged_snaps_scrub,
            report_interval_s: self.beacon_period().as_secs() as i32,
        };
        cx.out.push(Effect::SendMon(beacon.encode(features::SUPPORTED)));
    }

    pub(crate) fn shutdown(&mut self, cx: &mut EventCx<'_>) {
        if self.boot.stage != Stage::Active {
            cx.out.push(Effect::Stop { why: None });
            return;
        }
        self.enter(Stage::Stopping);
        self.send_mark_down(cx);
    }
    fn send_mark_down(&self, cx: &mut EventCx<'_>) {
        let msg = MOSDMarkMeDown {
            paxos: Paxos::at(self.map.epoch.into()),
            fsid: self.cluster_fsid,
            target_osd: self.whoami,
            target_addrs: self.boot.info.public.clone(),
            epoch: self.map.epoch,
            request_ack: true,
            // From here on clients get no answer of ours, so the next primary need not wait for our leases to end.
            down_and_dead: true,
        };
        cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
    }
    /// True once the monitor was told that we are dead.
    pub(crate) fn is_stopping(&self) -> bool {
        self.boot.stage == Stage::Stopping
    }
    /// The monitor's word that we are down.
    pub(crate) fn marked_down(&mut self, cx: &mut EventCx<'_>) {
        if self.boot.stage == Stage::Stopping {
            cx.out.push(Effect::Stop { why: None });
        }
    }
}
