//! The options that `ceph config set` knows: name, type, level and default of each option of 18.2, and of those that 20.2 adds.
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

/// Which connections are encrypted: a list of `crc`, `secure` or both each.
pub const MODE_OPTIONS: [&str; 6] =
    ["ms_cluster_mode", "ms_service_mode", "ms_client_mode", "ms_mon_cluster_mode", "ms_mon_service_mode", "ms_mon_client_mode"];

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

type Table = BTreeMap<&'static str, OptionInfo>;

static TABLE: LazyLock<Table> = LazyLock::new(|| table(include_str!("options.txt")));

/// Those of 20.2 alone: its gateways, servers and clients hear of them, and nothing of ours has any.
static NEWER: LazyLock<Table> = LazyLock::new(|| table(include_str!("newer.txt")));

fn table(text: &'static str) -> Table {
    let rows = text.lines().filter(|l| !l.starts_with('#'));
    rows.map(|line| {
        let mut f = line.splitn(5, '|');
        let mut next = || f.next().expect("a row of options has five fields");
        let info = OptionInfo { name: next(), kind: next(), level: next(), runtime: next() == "1", default: next() };
        (info.name, info)
    })
    .collect()
}

/// What a value may be where not everything of its type is: at least, at most, one of these.
struct Bounds {
    least: Option<f64>,
    most: Option<f64>,
    words: Option<Vec<&'static str>>,
}

static BOUNDS: LazyLock<BTreeMap<&'static str, Bounds>> = LazyLock::new(|| {
    let rows = include_str!("bounds.txt").lines().filter(|l| !l.starts_with('#'));
    rows.map(|line| {
        let mut f = line.splitn(4, '|');
        let mut next = || f.next().expect("a row of bounds.txt has four fields");
        let name = next();
        let (least, most) = (next().parse().ok(), next().parse().ok());
        let words = Some(next()).filter(|words| !words.is_empty()).map(|words| words.split(' ').collect());
        (name, Bounds { least, most, words })
    })
    .collect()
});

static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut names: Vec<_> = TABLE.keys().copied().collect();
    names.sort_unstable();
    names
});

/// The option of that name, if 18.2 or 20.2 has it. Blanks and dashes in names count as underscores.
pub fn find(name: &str) -> Option<OptionInfo> {
    if let Some(info) = TABLE.get(name).or_else(|| NEWER.get(name)) {
        return Some(*info);
    }
    let subsystem = name.strip_prefix("debug_")?;
    let name = SUBSYSTEMS.split_whitespace().find(|s| *s == subsystem)?;
    Some(OptionInfo { name, kind: "str", level: "advanced", runtime: true, default: "0/0" })
}

/// The names of 18.2's options, sorted: those of our daemons are among them.
pub fn names() -> &'static [&'static str] {
    &NAMES
}

/// All names that are found, sorted.
pub fn all_names() -> Vec<&'static str> {
    let mut names = [names(), &NEWER.keys().copied().collect::<Vec<_>>()].concat();
    names.sort_unstable();
    names
}

/// The canonical spelling of a name.
pub fn normalise(name: &str) -> String {
    name.trim().replace([' ', '-'], "_")
}

impl OptionInfo {
    /// The value as it is kept, or what is wrong with it. Sizes take `K`, `M`, `G`, `T`; spans of time take a unit.
    pub fn check(&self, value: &str) -> Result<String, String> {
        let kept = self.of_type(value)?;
        let Some(bounds) = BOUNDS.get(self.name) else { return Ok(kept) };
        if let Ok(n) = kept.parse::<f64>() {
            if let Some(least) = bounds.least.filter(|least| n < *least) {
                return Err(format!("Value '{value}' is below the least, {least}"));
            }
            if let Some(most) = bounds.most.filter(|most| n > *most) {
                return Err(format!("Value '{value}' is above the most, {most}"));
            }
        }
        match &bounds.words {
            Some(words) if !words.contains(&kept.as_str()) => {
                Err(format!("Value '{value}' is none of {}", words.join(", ").trim_start_matches(", ")))
            }
            _ => Ok(kept),
        }
    }
    fn of_type(&self, value: &str) -> Result<String, String> {
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
            "float" => match v.parse::<f64>() {
                Ok(f) if f.is_finite() => Ok(format!("{f:.6}")),
                _ => Err("Expected option value to be a number".into()),
            },
            "secs" | "millisecs" if number(v).is_some() => Ok(v.into()),
            "secs" | "millisecs" => Err("Expected option value to be a span of time".into()),
            _ if MODE_OPTIONS.contains(&self.name) => {
                let mut words = v.split([' ', ',', ';', '\t']).filter(|word| !word.is_empty()).peekable();
                // A word that is none would be left out elsewhere, and what it demanded with it.
                let is_list = words.peek().is_some() && words.all(|word| word == "crc" || word == "secure");
                if is_list { Ok(v.into()) } else { Err(format!("'{value}': crc, secure or both are wanted, the better one first")) }
            }
            _ => Ok(value.into()),
        }
    }
}

/// The number that a value is, always finite; of a span of time with a unit (`10m`, `5_min`), its seconds.
pub fn number(value: &str) -> Option<f64> {
    let value = value.trim();
    if let Ok(n) = value.parse::<f64>() {
        return Some(n).filter(|n| n.is_finite());
    }
    let at = value.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let unit_s = match value[at..].trim_matches(['_', ' ']) {
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "wk" | "week" | "weeks" => 604_800.0,
        "mo" | "month" | "months" => 2_629_746.0,
        "y" | "yr" | "year" | "years" => 31_556_952.0,
        _ => return None,
    };
    value[..at].parse::<f64>().ok().map(|n| n * unit_s).filter(|n| n.is_finite())
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
        for (name, bad, good) in [
            ("osd_pool_default_size", "11", "10"),
            ("osd_heartbeat_interval", "61", "60"),
            ("bluestore_compression_mode", "sometimes", "passive"),
            ("osd_heartbeat_grace", "nan", "20"),
            ("mon_osd_report_timeout", "inf", "900"),
            ("ms_mon_service_mode", "sekure", "secure"),
            ("ms_cluster_mode", " ", "secure, crc"),
        ] {
            let info = find(name).unwrap();
            assert!(info.check(bad).is_err() && info.check(good).is_ok(), "{name}");
        }
        assert_eq!([number("900"), number("15m"), number("5_min"), number("1.5 h")], [900.0, 900.0, 300.0, 5400.0].map(Some));
        assert_eq!([number("inf"), number("5x"), number(""), number("m")], [None; 4]);
        assert!(BOUNDS.keys().all(|name| find(name).is_some()));
        // A gateway of 20.2 is configured here, and what it takes is looked at.
        let newer = find("mds_scrub_stats_review_period").unwrap();
        assert!(newer.check("61").is_err() && newer.check("60").is_ok() && find("rgw_restore_max_objs").is_some());
        assert!(all_names().len() == names().len() + NEWER.len() && NEWER.keys().all(|name| !TABLE.contains_key(name)));
        // Those of clients and gateways, which hear of them.
        for name in ["rgw_thread_pool_size", "rgw_zone", "rbd_mirror_concurrent_image_syncs", "client_cache_size", "mds_cache_memory_limit"]
        {
            assert!(find(name).is_some(), "{name}");
        }
        assert!(find("debug_osd").is_some() && find("debug_nothing").is_none() && find("no_such").is_none());
    }
}
