//! The options that `ceph config set` knows: name, type, level and default of each option of 18.2.
//!
//! Holds data, a check of values, what `injectargs` takes, and by what each option is heeded. Absent: reading them.

#![forbid(unsafe_code)]

mod heeded;
mod inject;
pub mod size;

pub use heeded::{HEEDED, Heeded, heeded, is_idle, who_heeds};
pub use inject::inject;

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The release whose options these are, and that our daemons present themselves as: clients decide by it what they may ask.
pub const RELEASE: &str = "reef";
pub const VERSION: &str = "18.2.7";
/// What `ceph versions` counts.
pub const VERSION_LONG: &str = concat!("ceph version 18.2.7 (humboldt ", env!("CARGO_PKG_VERSION"), ") reef (stable)");

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionInfo {
    pub name: &'static str,
    /// `int`, `uint`, `float`, `bool`, `str`, `size`, `secs`, `millisecs`, `addr`, `addrvec`, `uuid`.
    pub kind: &'static str,
    /// `basic`, `advanced`, `dev`.
    pub level: &'static str,
    /// A running daemon takes a change.
    pub runtime: bool,
    pub default: &'static str,
}

/// Parts of the daemons that have a `debug_…` option.
const SUBSYSTEMS: &str = "none lockdep context crush mds mds_balancer mds_locker mds_log mds_log_expire mds_migrator buffer timer filer striper \
    objecter rados rbd rbd_mirror rbd_replay rbd_pwl journaler objectcacher immutable_obj_cache client osd optracker objclass filestore \
    journal ms mon monc paxos tp auth crypto finisher reserver heartbeatmap perfcounter rgw rgw_sync rgw_datacache rgw_access \
    rgw_dbstore rgw_flight javaclient asok throttle refs compressor bluestore bluefs bdev kstore rocksdb leveldb fuse mgr mgrc dpdk \
    eventtrace prioritycache test cephfs_mirror cephsqlite seastore alienstore mclock";

static TABLE: LazyLock<BTreeMap<&'static str, OptionInfo>> = LazyLock::new(|| {
    let rows = include_str!("options.txt").lines().filter(|l| !l.starts_with('#'));
    rows.map(|line| {
        let mut f = line.splitn(5, '|');
        let mut next = || f.next().expect("a row of options.txt has five fields");
        let info = OptionInfo { name: next(), kind: next(), level: next(), runtime: next() == "1", default: next() };
        (info.name, info)
    })
    .collect()
});

static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut names: Vec<_> = TABLE.keys().copied().collect();
    names.sort_unstable();
    names
});

/// The option of that name, if 18.2 has it. Blanks and dashes in names count as underscores.
pub fn find(name: &str) -> Option<OptionInfo> {
    if let Some(info) = TABLE.get(name) {
        return Some(*info);
    }
    let subsystem = name.strip_prefix("debug_")?;
    let name = SUBSYSTEMS.split_whitespace().find(|s| *s == subsystem)?;
    Some(OptionInfo { name, kind: "str", level: "advanced", runtime: true, default: "0/0" })
}

/// All names, sorted.
pub fn names() -> &'static [&'static str] {
    &NAMES
}

/// The canonical spelling of a name.
pub fn normalise(name: &str) -> String {
    name.trim().replace([' ', '-'], "_")
}

impl OptionInfo {
    /// The value as it is kept, or what is wrong with it. Sizes take `K`, `M`, `G`, `T`; spans of time take a unit.
    pub fn check(&self, value: &str) -> Result<String, String> {
        let v = value.trim();
        match self.kind {
            "bool" => match v.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Ok("true".into()),
                "false" | "no" | "off" | "0" => Ok("false".into()),
                _ => Err("Expected option value to be a boolean (true/false)".into()),
            },
            "int" | "uint" | "size" => parse_size(v, self.kind == "size").map(|n| n.to_string()).and_then(|s| {
                if self.kind != "int" && s.starts_with('-') { Err("Expected option value to be not negative".into()) } else { Ok(s) }
            }),
            "float" => v.parse::<f64>().map(|f| format!("{f:.6}")).map_err(|_| "Expected option value to be a number".into()),
            "secs" | "millisecs" if v.parse::<f64>().is_ok() => Ok(v.into()),
            "secs" | "millisecs" if v.ends_with(|c: char| c.is_ascii_alphabetic()) && v.starts_with(|c: char| c.is_ascii_digit()) => {
                Ok(v.into())
            }
            "secs" | "millisecs" => Err("Expected option value to be a span of time".into()),
            _ => Ok(value.into()),
        }
    }
}

/// An integer with an optional suffix: binary multiples for sizes, also `Ki` and `KiB`; decimal ones for other numbers.
fn parse_size(v: &str, binary: bool) -> Result<i64, String> {
    let wrong = || format!("The option value '{v}' is invalid");
    if let Some(hex) = v.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).map_err(|_| wrong());
    }
    let (digits, power, is_binary) = size::split(v).ok_or_else(wrong)?;
    let number: i64 = digits.parse().map_err(|_| wrong())?;
    let base: i64 = if binary || is_binary { 1024 } else { 1000 };
    base.checked_pow(power).and_then(|unit| number.checked_mul(unit)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_by_type() {
        assert!(VERSION_LONG.contains(VERSION) && VERSION_LONG.contains(RELEASE));
        assert_eq!(find("rbd_cache").unwrap().check("NO"), Ok("false".into()));
        assert_eq!(find("osd_pool_default_size").unwrap().check("3"), Ok("3".into()));
        assert!(find("osd_pool_default_size").unwrap().check("three").is_err());
        assert_eq!(find("osd_memory_target").unwrap().check("4G"), Ok((4i64 << 30).to_string()));
        assert!(find("debug_osd").is_some() && find("debug_nothing").is_none() && find("no_such").is_none());
    }
}
