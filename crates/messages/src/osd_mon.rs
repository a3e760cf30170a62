//! What OSDs and monitors tell each other: boot, beacons, failures, placement groups to create, temporary mappings, scrub and recovery
//! orders (which managers send too).
//!
//! Source of the facts: Ceph 18.2 `src/messages/MOSD{Boot,Beacon,Alive,Failure,MarkMeDown,MarkMeDead,Full,PGTemp,PGCreate2,PGCreated,
//! PGReadyToMerge,Scrub2,ForceRecovery}.h`, `src/messages/MRemoveSnaps.h`.

use crate::paxos::Paxos;
use std::collections::BTreeMap;
use types::{EVersion, EntityAddrVec, Epoch, OsdId, OsdSuperblock, PastIntervals, PgHistory, PgId, SnapId, SpgId, UTime, Uuid};

/// Flags of [`MOSDFailure`].
pub mod failure_flag {
    /// Without [`FAILED`]: the OSD is alive after all.
    pub const ALIVE: u8 = 0;
    pub const FAILED: u8 = 1;
    /// Known to be dead (its port refuses), not just silent.
    pub const IMMEDIATE: u8 = 2;
}

/// Options of [`MOSDForceRecovery`], `OFR_*`.
pub mod force_recovery {
    pub const RECOVERY: u8 = 1;
    pub const BACKFILL: u8 = 2;
    /// Takes the force back.
    pub const CANCEL: u8 = 4;
}

message! {
    /// An OSD wants to be up. Its public addresses are those of the session.
    MOSDBoot = 71, v 7, compat 7 {
        paxos: Paxos,
        superblock: OsdSuperblock,
        hb_back_addrs: EntityAddrVec,
        cluster_addrs: EntityAddrVec,
        /// The epoch in which this daemon was last added to the map; 0: not yet.
        boot_epoch: Epoch,
        hb_front_addrs: EntityAddrVec,
        metadata: BTreeMap<String, String>,
        osd_features: u64,
    }

    /// A periodic sign of life, with what keeps the monitors from trimming maps.
    MOSDBeacon = 79, v 3, compat 1 {
        /// At the OSD's map.
        paxos: Paxos,
        pgs: Vec<PgId>,
        min_last_epoch_clean: Epoch,
        [since 2] last_purged_snaps_scrub: UTime,
        [since 3] report_interval_s: i32,
    }

    /// Asks for the up_thru of the sender to be raised.
    MOSDAlive = 73, v 1, compat 1 {
        paxos: Paxos,
        want: Epoch,
    }

    /// Another OSD does not answer, or does again.
    MOSDFailure = 72, v 4, compat 4 {
        paxos: Paxos,
        fsid: Uuid,
        target_osd: OsdId,
        target_addrs: EntityAddrVec,
        epoch: Epoch,
        /// [`failure_flag`]s.
        flags: u8,
        failed_for_s: i32,
    }

    /// An OSD shuts down. The monitors answer with the same message if asked to.
    MOSDMarkMeDown = 74, v 4, compat 3 {
        paxos: Paxos,
        fsid: Uuid,
        target_osd: OsdId,
        target_addrs: EntityAddrVec,
        epoch: Epoch,
        request_ack: bool,
        /// Peers need not ask for its last interval.
        [since 4] down_and_dead: bool,
    }

    /// An OSD has seen that it is down, and says that its last incarnation wrote nothing since.
    MOSDMarkMeDead = 123, v 1, compat 1 {
        paxos: Paxos,
        fsid: Uuid,
        target_osd: OsdId,
        epoch: Epoch,
    }

    /// How full an OSD is.
    MOSDFull = 75, v 1, compat 1 {
        paxos: Paxos,
        map_epoch: Epoch,
        /// CEPH_OSD_FULL, NEARFULL, BACKFILLFULL as in the map's state bits.
        state: u32,
    }

    /// Asks for other acting sets for a while; an empty one takes it back.
    MOSDPGTemp = 78, v 2, compat 1 {
        paxos: Paxos,
        map_epoch: Epoch,
        pg_temp: BTreeMap<PgId, Vec<OsdId>>,
        [since 2] forced: bool,
    }

    /// The group exists on its primary: the monitors need not ask for it again.
    MOSDPGCreated = 116, v 1, compat 1 {
        paxos: Paxos,
        pgid: PgId,
    }

    /// Placement groups that the receiver is to create.
    MOSDPGCreate2 = 120, v 2, compat 1 {
        epoch: Epoch,
        /// When each was created: epoch and time.
        pgs: BTreeMap<SpgId, (Epoch, UTime)>,
        /// What those that were split or merged since bring along.
        [since 2] pg_extra: BTreeMap<SpgId, (PgHistory, PastIntervals)>,
    }

    /// A group that a pool's shrinking merges is quiet.
    MOSDPGReadyToMerge = 122, v 1, compat 1 {
        paxos: Paxos,
        pgid: PgId,
        source_version: EVersion,
        target_version: EVersion,
        last_epoch_started: Epoch,
        last_epoch_clean: Epoch,
        ready: bool,
    }

    /// Clients of old remove snapshots by it.
    MRemoveSnaps = 90, v 1, compat 1 {
        paxos: Paxos,
        /// By pool, 32 bits wide here.
        snaps: BTreeMap<i32, Vec<SnapId>>,
    }

    /// Orders scrubs of groups of which the receiver is primary.
    MOSDScrub2 = 121, v 1, compat 1 {
        fsid: Uuid,
        epoch: Epoch,
        pgs: Vec<SpgId>,
        repair: bool,
        deep: bool,
    }

    /// Orders groups to recover or backfill before others.
    MOSDForceRecovery = 151, v 2, compat 2 {
        fsid: Uuid,
        pgs: Vec<SpgId>,
        /// [`force_recovery`].
        options: u8,
    }
}
