//! Bits of the map and of an OSD's state, with the names that `ceph` prints.
//!
//! Source of the facts: Ceph 18.2 `src/include/rados.h` (`CEPH_OSDMAP_*`, `CEPH_OSD_*`), `OSDMap::get_flag_string`, `ceph_osd_state_name`.

macro_rules! bits {
    ($(#[$doc:meta])* $module:ident: $t:ty { $($name:ident = $bit:literal, $text:literal;)* }) => {
        $(#[$doc])*
        pub mod $module {
            $( #[doc = concat!("`", $text, "`")] pub const $name: $t = 1 << $bit; )*
            /// Bits and names, ascending.
            pub const NAMES: &[($t, &str)] = &[$(($name, $text)),*];
            pub fn parse(name: &str) -> Option<$t> {
                NAMES.iter().find(|(_, n)| *n == name).map(|(bit, _)| *bit)
            }
            /// Names of the bits that are set, joined by commas.
            pub fn text(bits: $t) -> String {
                let names: Vec<&str> = NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
                names.join(",")
            }
        }
    };
}
pub(crate) use bits;

bits! {
    /// Flags of the whole map (`ceph osd set`).
    map_flags: u32 {
        NEARFULL = 0, "nearfull";
        FULL = 1, "full";
        PAUSERD = 2, "pauserd";
        PAUSEWR = 3, "pausewr";
        PAUSEREC = 4, "pauserec";
        NOUP = 5, "noup";
        NODOWN = 6, "nodown";
        NOOUT = 7, "noout";
        NOIN = 8, "noin";
        NOBACKFILL = 9, "nobackfill";
        NORECOVER = 10, "norecover";
        NOSCRUB = 11, "noscrub";
        NODEEP_SCRUB = 12, "nodeep-scrub";
        NOTIERAGENT = 13, "notieragent";
        NOREBALANCE = 14, "norebalance";
        SORTBITWISE = 15, "sortbitwise";
        REQUIRE_JEWEL = 16, "require_jewel_osds";
        REQUIRE_KRAKEN = 17, "require_kraken_osds";
        REQUIRE_LUMINOUS = 18, "require_luminous_osds";
        RECOVERY_DELETES = 19, "recovery_deletes";
        PURGED_SNAPDIRS = 20, "purged_snapdirs";
        NOSNAPTRIM = 21, "nosnaptrim";
        PGLOG_HARDLIMIT = 22, "pglog_hardlimit";
        NOAUTOSCALE = 23, "noautoscale";
    }
}

/// Flags by which releases before Luminous said what they require.
pub const LEGACY_REQUIRE: u32 = map_flags::REQUIRE_JEWEL | map_flags::REQUIRE_KRAKEN | map_flags::REQUIRE_LUMINOUS;
/// Flags that `ceph` doesn't print in its summary.
pub const SEMIHIDDEN: u32 =
    LEGACY_REQUIRE | map_flags::RECOVERY_DELETES | map_flags::SORTBITWISE | map_flags::PURGED_SNAPDIRS | map_flags::PGLOG_HARDLIMIT;

bits! {
    /// Bits of `OsdMap::osd_state`, and of node and class flags.
    osd_state: u32 {
        EXISTS = 0, "exists";
        UP = 1, "up";
        AUTOOUT = 2, "autoout";
        NEW = 3, "new";
        FULL = 4, "full";
        NEARFULL = 5, "nearfull";
        BACKFILLFULL = 6, "backfillfull";
        DESTROYED = 7, "destroyed";
        NOUP = 8, "noup";
        NODOWN = 9, "nodown";
        NOIN = 10, "noin";
        NOOUT = 11, "noout";
        STOP = 12, "stop";
    }
}
