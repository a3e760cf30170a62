//! The OSD's options: names, defaults of 18.2, and where a value came from. Sizes in bytes, times in seconds unless the name says otherwise.

use crate::op::{CLASSES_BY_DEFAULT, ClassList, Limits};
use denc::Encoder;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Where a value came from; later ones win. The numbers are Ceph's (`CONF_*` of `src/common/config.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Default = 0,
    Mon = 1,
    File = 2,
    Override = 5,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Mon => "mon",
            Self::Override => "override",
        }
    }
}

/// Name and default of what this OSD has otherwise than the table of all options, or has besides.
const OWN: &[(&str, &str)] = &[
    ("auto_repair", "false"),
    ("cluster", "ceph"),
    ("cluster_addr", "-"),
    ("debug_filestore", "1/3"),
    ("debug_mon", "1/5"),
    ("debug_monc", "0/10"),
    ("debug_objecter", "0/1"),
    ("debug_osd", "1/5"),
    ("mon_osd_full_ratio", "0.950000"),
    ("osd_class_default_list", CLASSES_BY_DEFAULT),
    // All that this program has: unlike stock's, none of them is a library that was put into a folder.
    ("osd_class_load_list", "*"),
    // Stock's default is 500 MiB. An OSD here is promised to be served with 256 MiB in all, of which the store's caches are half.
    ("osd_client_message_size_cap", "67108864"),
    ("osd_data", ""),
    ("osd_deep_scrub_interval", "604800.000000"),
    ("osd_mgr_stats_period", "5"),
    ("osd_objectstore", "memstore"),
    ("osd_op_complaint_time", "30.000000"),
    ("osd_op_history_slow_op_threshold", "10.000000"),
    ("osd_pg_object_context_cache_count", "256"),
    ("osd_recovery_sleep", "0.000000"),
    ("osd_scrub_max_interval", "604800.000000"),
    ("osd_scrub_min_interval", "86400.000000"),
    ("osd_snap_trim_sleep", "0.000000"),
    ("osd_uuid", "00000000-0000-0000-0000-000000000000"),
    ("public_addr", "-"),
];
/// Options of the table whose defaults a manager is told, beside [`OWN`]: what this OSD goes by or shows.
const TOLD: &[&str] = &[
    "auth_client_required",
    "auth_cluster_required",
    "auth_service_required",
    "bluestore_cache_size",
    "cluster_network",
    "debug_ms",
    "fsid",
    "host",
    "keyring",
    "log_file",
    "log_to_stderr",
    "mon_host",
    "ms_bind_port_max",
    "ms_bind_port_min",
    "ms_crc_data",
    "ms_crc_header",
    "osd_beacon_report_interval",
    "osd_bench_duration",
    "osd_bench_large_size_max_throughput",
    "osd_bench_max_block_size",
    "osd_bench_small_size_max_iops",
    "osd_client_message_cap",
    "osd_client_op_priority",
    "osd_client_watch_timeout",
    "osd_crush_chooseleaf_type",
    "osd_crush_update_on_start",
    "osd_default_notify_timeout",
    "osd_heartbeat_grace",
    "osd_heartbeat_interval",
    "osd_heartbeat_min_peers",
    "osd_heartbeat_min_size",
    "osd_max_attr_name_len",
    "osd_max_attr_size",
    "osd_max_backfills",
    "osd_max_object_name_len",
    "osd_max_object_namespace_len",
    "osd_max_object_size",
    "osd_max_omap_bytes_per_request",
    "osd_max_omap_entries_per_request",
    "osd_max_pg_log_entries",
    "osd_max_pgls",
    "osd_max_scrubs",
    "osd_max_write_op_reply_len",
    "osd_max_write_size",
    "osd_memory_target",
    "osd_min_pg_log_entries",
    "osd_op_history_duration",
    "osd_op_history_size",
    "osd_op_history_slow_op_size",
    "osd_op_num_shards",
    "osd_op_num_threads_per_shard",
    "osd_op_queue",
    "osd_pg_log_dups_tracked",
    "osd_pg_log_trim_max",
    "osd_pg_log_trim_min",
    "osd_pg_stat_report_interval_max",
    "osd_pool_default_size",
    "osd_recovery_max_active",
    "osd_recovery_op_priority",
    "osd_scrub_auto_repair",
    "osd_scrub_begin_hour",
    "osd_scrub_end_hour",
    "osd_target_pg_log_entries_per_osd",
    "public_network",
];

/// All options with their values.
#[derive(Debug, Clone, Default)]
pub struct Config {
    values: BTreeMap<String, BTreeMap<u8, String>>,
}

/// Defaults that are numbers. They are asked for at each tick of each group, and parsing one takes longer than finding it.
static NUMBERS: LazyLock<BTreeMap<&'static str, f64>> = LazyLock::new(|| {
    let table = options::names().iter().filter_map(|name| Some((*name, options::size::number(options::find(name)?.default)?)));
    let mut all: BTreeMap<_, _> = table.collect();
    for (name, value) in OWN {
        match options::size::number(value) {
            Some(number) => all.insert(name, number),
            None => all.remove(name),
        };
    }
    all
});

fn default_of(name: &str) -> Option<&'static str> {
    let own = OWN.binary_search_by(|(n, _)| (*n).cmp(name)).ok().map(|i| OWN[i].1);
    own.or_else(|| options::find(name).map(|o| o.default))
}

impl Config {
    /// False if there is no such option.
    pub fn knows(name: &str) -> bool {
        default_of(name).is_some()
    }
    /// A value as text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.set_value(name).or_else(|| default_of(name))
    }
    /// What was set, from the source that wins.
    fn set_value(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.values().next_back().map(String::as_str)
    }
    /// A number; the default where the text is none.
    pub fn num(&self, name: &str) -> f64 {
        self.set_value(name).and_then(options::size::number).or_else(|| NUMBERS.get(name).copied()).unwrap_or(0.0)
    }
    pub fn int(&self, name: &str) -> u64 {
        self.num(name) as u64
    }
    /// Sets a value; false if there is no such option or this is no value for it. What the monitors and files have for options that the table
    /// lacks is kept to be shown.
    pub fn set(&mut self, name: &str, value: &str, source: Source) -> bool {
        let checked = match (options::find(name), default_of(name)) {
            (Some(info), _) => info.check(value).ok(),
            (None, Some(default)) => {
                (options::size::number(default).is_none() || options::size::number(value).is_some()).then(|| value.to_string())
            }
            (None, None) => (source != Source::Override).then(|| value.to_string()),
        };
        let Some(value) = checked else { return false };
        self.values.entry(name.into()).or_default().insert(source as u8, value);
        true
    }
    pub fn unset(&mut self, name: &str, source: Source) {
        if let Some(by) = self.values.get_mut(name) {
            by.remove(&(source as u8));
            if by.is_empty() {
                self.values.remove(name);
            }
        }
    }
    /// What the monitor set, to be replaced by what it sends now.
    pub fn clear(&mut self, source: Source) {
        let names: Vec<String> = self.values.keys().cloned().collect();
        names.iter().for_each(|n| self.unset(n, source));
    }
    /// Each option that isn't at its default, with its value.
    pub fn changed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().filter_map(|(n, by)| by.values().next_back().map(|v| (n.as_str(), v.as_str())))
    }
    /// What a manager is told: values that were set, each with its sources, and those of the monitor that another source beats.
    pub fn encode_changed(&self, e: &mut Encoder) {
        let named = || self.values.iter().filter(|(name, _)| !matches!(name.as_str(), "fsid" | "host"));
        e.u32(named().count() as u32);
        for (name, by) in named() {
            e.put(name);
            e.u32(by.len() as u32);
            for (source, value) in by {
                e.u32((*source).into());
                e.put(value);
            }
        }
        let mon = Source::Mon as u8;
        let beaten = || named().filter_map(|(name, by)| Some((name, by.get(&mon)?)).filter(|_| by.keys().any(|s| *s > mon)));
        e.u32(beaten().count() as u32);
        for (name, value) in beaten() {
            e.put(name);
            e.put(value);
        }
    }
    /// What a manager is told: every option's default.
    pub fn encode_defaults(e: &mut Encoder) {
        let names: BTreeSet<&str> = OWN.iter().map(|(name, _)| *name).chain(TOLD.iter().copied()).collect();
        e.u32(names.len() as u32);
        for name in names {
            e.put(&name.to_string());
            e.put(&default_of(name).unwrap_or_default().to_string());
        }
    }
    /// `config show`: each option with its value.
    pub fn show(&self) -> Value {
        let names: BTreeSet<&str> = OWN.iter().map(|(name, _)| *name).chain(options::names().iter().copied()).collect();
        let all = names.into_iter().map(|name| (name.to_string(), json!(self.get(name).unwrap_or_default())));
        Value::Object(all.collect::<Map<_, _>>())
    }
    /// `config diff`: those that aren't at their default, with every source's value.
    pub fn diff(&self) -> Value {
        let mut diff = Map::new();
        for (name, by) in &self.values {
            let mut one = Map::new();
            one.insert("default".into(), typed(default_of(name).unwrap_or_default()));
            for source in [Source::Mon, Source::File, Source::Override] {
                if let Some(v) = by.get(&(source as u8)) {
                    one.insert(source.name().into(), typed(v));
                }
            }
            one.insert("final".into(), typed(self.get(name).unwrap_or_default()));
            diff.insert(name.clone(), Value::Object(one));
        }
        json!({ "diff": diff })
    }

    /// Limits of operations.
    pub fn limits(&self) -> Limits {
        Limits {
            object_size_max: self.int("osd_max_object_size"),
            write_size_max: self.int("osd_max_write_size") << 20,
            object_name_max: self.int("osd_max_object_name_len") as usize,
            namespace_max: self.int("osd_max_object_namespace_len") as usize,
            attr_size_max: self.int("osd_max_attr_size"),
            attr_name_max: self.int("osd_max_attr_name_len") as usize,
            omap_entries_max: self.int("osd_max_omap_entries_per_request"),
            omap_bytes_max: self.int("osd_max_omap_bytes_per_request") as usize,
            write_reply_max: self.int("osd_max_write_op_reply_len") as usize,
            list_max: self.int("osd_max_pgls"),
            watch_timeout_s: self.int("osd_client_watch_timeout") as u32,
            notify_timeout_s: self.int("osd_default_notify_timeout") as u32,
            classes_loaded: ClassList::parse(&self.get("osd_class_load_list").unwrap_or_default()),
            classes_by_default: ClassList::parse(&self.get("osd_class_default_list").unwrap_or_default()),
        }
    }
}

/// As stock writes values: switches are booleans, all else is text.
fn typed(text: &str) -> Value {
    match text {
        "true" => json!(true),
        "false" => json!(false),
        _ => json!(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_stands_once() {
        let table = |name: &str| options::find(name).map(|o| o.default);
        for (name, value) in OWN {
            assert!(table(name) != Some(value) && !TOLD.contains(name), "{name}: the table has it");
        }
        for name in TOLD {
            assert!(table(name).is_some(), "{name} is not in the table");
        }
    }
    #[test]
    fn later_sources_win_and_nonsense_is_refused() {
        assert!(OWN.is_sorted_by_key(|o| o.0));
        let mut c = Config::default();
        assert_eq!(c.limits(), Limits::default());
        assert!(c.set("osd_max_object_size", "1M", Source::Override) && c.set("osd_max_object_size", "2M", Source::Mon));
        let mut e = Encoder::new(u64::MAX);
        c.encode_changed(&mut e);
        let text = "\x13\0\0\0osd_max_object_size";
        let told =
            format!("\x01\0\0\0{text}\x02\0\0\0\x01\0\0\0\x07\0\0\02097152\x05\0\0\0\x07\0\0\01048576\x01\0\0\0{text}\x07\0\0\02097152");
        assert_eq!(e.finish(), told.as_bytes());
        assert_eq!(c.int("osd_max_object_size"), 1 << 20);
        assert!(!c.set("osd_max_object_size", "many", Source::Override) && !c.set("no_such", "1", Source::Override));
        assert_eq!(c.diff()["diff"]["osd_max_object_size"]["mon"], "2097152");
        assert!(c.set("filestore_merge_threshold", "-1", Source::Override) && !c.set("osd_bench_duration", "-1", Source::Override));
        c.unset("osd_max_object_size", Source::Override);
        assert_eq!(c.int("osd_max_object_size"), 2 << 20);
    }
}
