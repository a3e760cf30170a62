//! Feature bits: what one side of a connection may expect the other to understand.
//!
//! Holds each bit that an 18.2 cluster advertises, and those that 19.2 and 20.2 added for OSDs, with what it obliges us to. A bit that was
//! given out again since belongs to an incarnation, which a marker bit tells: a peer has the feature only if it has the bit **and** the
//! marker.
//!
//! Source of the facts: Ceph 18.2 `src/include/ceph_features.h`; 20.2's file of that name for [`LATER`]. `crates/types/ENCODINGS.md` has
//! each encoding that differs between 18.2 and 20.2, with its source.

/// Marks bits of the second incarnation.
const INCARNATION_2: u64 = 1 << 57;
/// Marks bits of the third.
const INCARNATION_3: u64 = 1 << 57 | 1 << 28;

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Feature {
    pub name: &'static str,
    /// The bit together with its incarnation's markers.
    pub mask: u64,
    /// What a peer that advertises it must understand and may be sent.
    pub obliges: &'static str,
}

macro_rules! features {
    ($($name:ident = $bit:literal, $inc:expr, $obliges:literal;)*) => {
        $( #[doc = $obliges] pub const $name: u64 = 1 << $bit | $inc; )*
        /// Every feature that we know, by bit.
        pub const TABLE: &[Feature] = &[ $( Feature { name: stringify!($name), mask: $name, obliges: $obliges }, )* ];
        /// What a Reef daemon advertises, and so do our monitor, manager endpoint and client. Messages are encoded for it: later releases
        /// read that.
        pub const SUPPORTED: u64 = $( $name )|*;
    };
}

features! {
    UID = 0, 0, "nothing since Jewel; clients look for it";
    NOSRCADDR = 1, 0, "the peer's address is learnt from the handshake";
    SERVER_NAUTILUS = 2, INCARNATION_3, "encodings of Nautilus: MOSDBoot, OSDMap's client part v9 and up";
    FLOCK = 3, 0, "CephFS only";
    SUBSCRIBE2 = 4, 0, "MMonSubscribe v2: a map of what is wanted";
    MONNAMES = 5, 0, "monitors have names in MonMap";
    RECONNECT_SEQ = 6, 0, "msgr1 only";
    DIRLAYOUTHASH = 7, 0, "CephFS only";
    OBJECTLOCATOR = 8, 0, "object_locator_t in MOSDOp";
    PGID64 = 9, 0, "pg_t with a 64-bit pool";
    INCSUBOSDMAP = 10, 0, "osdmap subscriptions from an epoch on";
    PGPOOL3 = 11, 0, "pg_pool_t v3 and up";
    OSDREPLYMUX = 12, 0, "replies carry each op's outdata";
    OSDENC = 13, 0, "versioned frames in OSD types";
    SERVER_KRAKEN = 14, INCARNATION_2, "encodings of Kraken";
    MONENC = 15, 0, "versioned frames in monitor types";
    SERVER_OCTOPUS = 16, INCARNATION_3, "encodings of Octopus";
    OSD_REPOP_MLCOD = 16, INCARNATION_3, "min_last_complete_ondisk in MOSDRepOp";
    CRUSH_TUNABLES = 18, 0, "CRUSH tunables, first set";
    OSD_PGLOG_HARDLIMIT = 19, INCARNATION_2, "logs are trimmed whatever recovery needs";
    SERVER_PACIFIC = 20, INCARNATION_3, "encodings of Pacific";
    SERVER_LUMINOUS = 21, INCARNATION_2, "encodings of Luminous: MOSDOp v8 and up by spg_t";
    RESEND_ON_SPLIT = 21, INCARNATION_2, "clients resend ops when a pool's pg_num changes";
    RADOS_BACKOFF = 21, INCARNATION_2, "MOSDBackoff is understood";
    OSDMAP_PG_UPMAP = 21, INCARNATION_2, "pg_upmap in OSDMap";
    CRUSH_CHOOSE_ARGS = 21, INCARNATION_2, "choose_args in the CRUSH map";
    OSD_FIXED_COLLECTION_LIST = 22, INCARNATION_2, "listing order of collections as in hobject_t";
    MSG_AUTH = 23, 0, "msgr1 signatures; always set";
    RECOVERY_RESERVATION_2 = 24, INCARNATION_2, "reservations with release and preemption";
    CRUSH_TUNABLES2 = 25, 0, "CRUSH tunables, second set";
    CREATEPOOLID = 26, 0, "MPoolOpReply names the epoch";
    REPLY_CREATE_INODE = 27, 0, "CephFS only";
    SERVER_MIMIC = 28, INCARNATION_2, "encodings of Mimic: pg_pool_t v27, MOSDPGCreate2";
    MDSENC = 29, 0, "CephFS only";
    OSDHASHPSPOOL = 30, 0, "the pool is hashed into the placement seed";
    SERVER_REEF = 31, INCARNATION_3, "encodings of Reef: pg_stat_t v28 and up, OSDMap's client part v10 with pg_upmap_primary";
    STRETCH_MODE = 32, INCARNATION_3, "MonMap v8 and pg_pool_t v30 with stretch fields";
    SERVER_QUINCY = 33, INCARNATION_3, "encodings of Quincy";
    RANGE_BLOCKLIST = 34, INCARNATION_3, "range_blocklist in OSDMap";
    OSD_CACHEPOOL = 35, 0, "tier fields in pg_pool_t, redirects in MOSDOpReply";
    CRUSH_V2 = 36, 0, "indep rules, tries per step";
    EXPORT_PEER = 37, 0, "CephFS only";
    OSDMAP_ENC = 39, 0, "OSDMap in one frame with a crc";
    MDS_INLINE_DATA = 40, 0, "CephFS only";
    CRUSH_TUNABLES3 = 41, 0, "chooseleaf_vary_r";
    OSD_PRIMARY_AFFINITY = 41, 0, "primary affinity in OSDMap";
    MSGR_KEEPALIVE2 = 42, 0, "keepalives with a time stamp";
    OSD_POOLRESEND = 43, 0, "last_force_op_resend in pg_pool_t";
    OSD_FADVISE_FLAGS = 46, 0, "fadvise flags in ops";
    MDS_QUOTA = 47, 0, "CephFS only";
    CRUSH_V4 = 48, 0, "straw2 buckets";
    NEW_OSDOP_ENCODING = 56, 0, "MOSDOp v7 and up: what must be known early stands first";
    MON_STATEFUL_SUB = 57, 0, "a subscription lasts as long as its session, without renewals";
    SERVER_JEWEL = 57, 0, "encodings of Jewel";
    CRUSH_TUNABLES5 = 58, 0, "chooseleaf_stable";
    NEW_OSDOPREPLY_ENCODING = 58, 0, "MOSDOpReply v7 and up";
    FS_FILE_LAYOUT_V2 = 58, 0, "CephFS only";
    FS_BTIME = 59, 0, "CephFS only";
    FS_CHANGE_ATTR = 59, 0, "CephFS only";
    MSG_ADDR2 = 59, 0, "entity_addr_t with a type, entity_addrvec_t";
    OSD_RECOVERY_DELETES = 60, 0, "deletes are recovered, not replayed while peering";
    CEPHX_V2 = 61, 0, "authorizers with a server challenge";
}

/// Nanoseconds in objectstore_perf_stat_t: no 18.2 daemon advertises it, but peers of other builds may.
pub const OS_PERF_STAT_NS: u64 = 1 << 17 | INCARNATION_3;

/// Encodings of Squid: no 18.2 daemon advertises it.
pub const SERVER_SQUID: u64 = 1 << 49 | INCARNATION_2;
/// Encodings of Tentacle: no 18.2 daemon advertises it, but clients of that release do.
pub const SERVER_TENTACLE: u64 = 1 << 50 | INCARNATION_2;

/// CRUSH rules that retry over several steps: no 18.2 daemon advertises it.
pub const CRUSH_MSR: u64 = 1 << 38 | INCARNATION_2;

/// Features of releases after 18.2 that our OSDs advertise.
pub const LATER: &[Feature] = &[
    Feature { name: "SERVER_SQUID", mask: SERVER_SQUID, obliges: "nothing on the wire: a cluster that requires OSDs of Squid asks for it" },
    Feature {
        name: "CRUSH_MSR",
        mask: CRUSH_MSR,
        obliges: "to keep and pass on maps with rules of kinds 4 and 5; once a pool has one, a cluster opens no session with an OSD that lacks it",
    },
    Feature {
        name: "SERVER_TENTACLE",
        mask: SERVER_TENTACLE,
        obliges: "Transaction v10 from OSDs, pg_pool_t v32 in maps; a cluster that requires OSDs of Tentacle asks for it",
    },
];
/// Advertised by our OSDs in every session, as by stock OSDs of 20.2. A monitor raises the release that it requires once all OSDs have
/// booted with its feature.
pub const OSD_SUPPORTED: u64 = SUPPORTED | CRUSH_MSR | SERVER_SQUID | SERVER_TENTACLE;

/// True if `features` holds every bit of `mask`.
pub const fn has(features: u64, mask: u64) -> bool {
    features & mask == mask
}

/// The bits by which the encoding of maps differs between peers (`SIGNIFICANT_FEATURES` of Ceph's OSDMap): peers that agree on them
/// can share one encoded map.
pub const MAP_ENCODING: u64 = PGID64
    | PGPOOL3
    | OSDENC
    | OSDMAP_ENC
    | OSD_POOLRESEND
    | NEW_OSDOP_ENCODING
    | MSG_ADDR2
    | CRUSH_TUNABLES5
    | CRUSH_CHOOSE_ARGS
    | SERVER_LUMINOUS
    | SERVER_MIMIC
    | SERVER_NAUTILUS
    | SERVER_OCTOPUS
    | SERVER_REEF;

#[cfg(test)]
mod tests {
    use super::*;

    /// What stock 18.2.7 says in `ceph features`.
    #[test]
    fn equals_what_reef_advertises() {
        assert_eq!(SUPPORTED, 0x3f01_cfbf_fffd_ffff);
    }

    #[test]
    fn an_osd_has_what_reef_has_and_the_later_ones() {
        assert_eq!(OSD_SUPPORTED, LATER.iter().fold(SUPPORTED, |all, later| all | later.mask));
        assert_eq!(OSD_SUPPORTED & !SUPPORTED, 3 << 49 | 1 << 38);
    }
}
