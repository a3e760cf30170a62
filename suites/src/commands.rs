//! The `ceph` commands that people and scripts use, run in one order on any cluster: once on a stock one, to record what it says, and
//! in the tests on ours, to hold it against the record.
//!
//! Compared are keys and types of the JSON, and those values that follow from the state that the script itself made. Not compared:
//! identities, times, sizes and counters.

/// What a step's output is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Want {
    /// JSON with the recorded keys and types.
    Json,
    /// JSON equal to the record, value by value.
    JsonEqual,
    /// Text equal to the record.
    Text,
    /// Only the exit code.
    Code,
}

/// One command line.
pub struct Step {
    pub args: &'static str,
    pub want: Want,
    /// Dotted paths (`*` for each element or key) which, or below which keys, depend on the machine or the build.
    pub loose: &'static [&'static str],
}

const fn json(args: &'static str) -> Step {
    Step { args, want: Want::Json, loose: &[] }
}
const fn json_loose(args: &'static str, loose: &'static [&'static str]) -> Step {
    Step { args, want: Want::Json, loose }
}
const fn equal(args: &'static str) -> Step {
    Step { args, want: Want::JsonEqual, loose: &[] }
}
const fn text(args: &'static str) -> Step {
    Step { args, want: Want::Text, loose: &[] }
}
const fn code(args: &'static str) -> Step {
    Step { args, want: Want::Code, loose: &[] }
}

/// Health checks differ in which are raised; pools' options are whatever was set.
const STATUS: &[&str] = &["health.checks", "health.mutes", "progress_events", "servicemap.services", "pgmap", "fsmap"];

/// The script. Each line sees what those before it made. The cluster: one monitor, one manager, one OSD, and nothing else made before.
pub const SCRIPT: &[Step] = &[
    json("fsid"),
    json_loose("-s", STATUS),
    json_loose("status", STATUS),
    json_loose("health", &["checks", "mutes"]),
    json_loose("health detail", &["checks", "mutes"]),
    json_loose("versions", &["*"]),
    json("features"),
    json("mon dump"),
    json("mon stat"),
    json_loose("quorum_status", &["features", "monmap"]),
    json_loose("mgr dump", &["available_modules", "modules", "services", "always_on_modules", "active_clients"]),
    json("mgr stat"),
    equal("osd ls"),
    json("osd stat"),
    json("osd tree"),
    json("osd df"),
    json("osd df tree"),
    json("osd dump"),
    // Daemons name their container if they run in one.
    json_loose("osd find 0", &["crush_location", "container_name"]),
    json_loose("osd metadata 0", &[""]),
    json_loose("osd metadata", &["*"]),
    code("osd metadata 77"),
    json("osd perf"),
    json("osd utilization"),
    json("osd getmaxosd"),
    equal("osd get-require-min-compat-client"),
    // The class of a device follows from its store: memory does not rotate here, and does in stock's.
    json_loose("df", &["stats_by_class.*"]),
    json_loose("df detail", &["stats_by_class.*"]),
    // Pools.
    text("osd pool create t1 8"),
    text("osd pool create t1 8"),
    code("osd pool create t2 8 8 replicated replicated_rule"),
    text("osd pool application enable t1 rados"),
    text("osd pool application set t1 rados k v"),
    equal("osd pool application get t1"),
    equal("osd pool application get"),
    text("osd pool application rm t1 rados k"),
    code("osd pool application enable nosuch rados"),
    equal("osd pool ls"),
    json_loose("osd pool ls detail", &["*.options"]),
    equal("osd lspools"),
    equal("osd pool get t1 size"),
    equal("osd pool get t1 min_size"),
    equal("osd pool get t1 pg_num"),
    equal("osd pool get t1 pgp_num"),
    equal("osd pool get t1 crush_rule"),
    json("osd pool get t1 all"),
    code("osd pool get t1 nosuch"),
    code("osd pool get nosuch size"),
    text("osd pool set t1 nodelete true"),
    equal("osd pool get t1 nodelete"),
    code("osd pool rm t1 t1 --yes-i-really-really-mean-it"),
    text("osd pool set t1 nodelete false"),
    text("osd pool set-quota t1 max_objects 1000"),
    json("osd pool get-quota t1"),
    text("osd pool set-quota t1 max_objects 0"),
    text("osd pool rename t2 t3"),
    code("osd pool rename t2 t4"),
    equal("osd pool ls"),
    json("osd pool stats"),
    json("osd pool stats t1"),
    code("osd pool rm t3"),
    code("osd pool rm t3 t3"),
    text("osd pool rm t3 t3 --yes-i-really-really-mean-it"),
    code("osd pool rm t3 t3 --yes-i-really-really-mean-it"),
    json("osd map t1 foo"),
    // CRUSH.
    equal("osd crush rule ls"),
    equal("osd crush rule dump"),
    code("osd crush rule create-replicated r2 default osd"),
    equal("osd crush rule dump r2"),
    equal("osd crush rule ls"),
    text("osd pool set t1 crush_rule r2"),
    code("osd crush rule rm r2"),
    text("osd pool set t1 crush_rule replicated_rule"),
    code("osd crush rule rm r2"),
    json("osd crush tree"),
    json_loose("osd crush dump", &["choose_args"]),
    json("osd crush class ls"),
    equal("osd crush show-tunables"),
    // Flags.
    text("osd set noout"),
    json_loose("osd dump", &["pools.*.options"]),
    json_loose("health", &["checks", "mutes"]),
    text("osd unset noout"),
    text("osd set noup"),
    text("osd unset noup"),
    code("osd set nosuch"),
    text("osd set pause"),
    text("osd unset pause"),
    // Blocklist.
    code("osd blocklist add 192.168.7.7:0/77 600"),
    json("osd blocklist ls"),
    code("osd blocklist rm 192.168.7.7:0/77"),
    equal("osd blocklist ls"),
    code("osd blocklist rm 192.168.7.7:0/77"),
    code("osd blocklist range add 192.168.8.0/24"),
    json("osd blocklist ls"),
    code("osd blocklist clear"),
    // Placement groups.
    json("pg stat"),
    json("pg dump"),
    json("pg dump pgs_brief"),
    json("pg dump sum"),
    json("pg dump pools"),
    json("pg dump osds"),
    json("pg ls"),
    json("pg ls-by-pool t1"),
    json("pg ls-by-osd 0"),
    code("pg ls nosuch"),
    // Authentication.
    json("auth get-or-create client.t2 mon 'allow r' osd 'allow rw pool=t1'"),
    json("auth get-or-create client.t2"),
    code("auth get-or-create client.t2 mon 'allow *'"),
    json("auth get client.t2"),
    json("auth get-key client.t2"),
    json("auth print-key client.t2"),
    text("auth caps client.t2 mon 'allow r' osd 'allow r'"),
    json("auth get client.t2"),
    code("auth caps client.t2 osd 'allow nonsense'"),
    text("auth add client.t4 mon 'allow r'"),
    json("auth ls"),
    json("auth export client.t2"),
    code("auth get client.nosuch"),
    text("auth rm client.t2"),
    code("auth rm client.nosuch"),
    text("auth rm client.t4"),
    // Configuration.
    // Our answer says, besides, that nothing heeds it.
    code("config set osd debug_osd 3/3"),
    equal("config get osd.0 debug_osd"),
    json("config dump"),
    text("config rm osd debug_osd"),
    // What a cluster of one machine needs stands in the database here and in the recorded cluster's ceph.conf.
    json("config dump"),
    code("config set osd no_such_option_at_all 1"),
    code("config get osd.0 no_such_option_at_all"),
    json("config ls"),
    json("config log"),
    text("config-key set t/a 1"),
    text("config-key get t/a"),
    code("config-key exists t/a"),
    json("config-key ls"),
    json("config-key dump t/"),
    code("config-key rm t/a"),
    code("config-key get t/a"),
    code("config-key exists t/a"),
    // Daemons.
    json_loose("tell osd.0 version", &[""]),
    equal("tell osd.0 config get osd_max_backfills"),
    json("tell osd.0 config set osd_max_backfills 2"),
    equal("tell osd.0 config get osd_max_backfills"),
    json_loose("tell osd.0 perf dump", &[""]),
    json("tell osd.0 status"),
    json("tell osd.0 bench 1048576 65536"),
    json("tell osd.0 dump_ops_in_flight"),
    json("tell mon.a version"),
    code("tell osd.0 nosuchcommand"),
    code("tell osd.9 version"),
    json("log last 5"),
    text("log hello from a test"),
    code("nosuchcommand"),
    code("osd nosuchcommand"),
    json("osd erasure-code-profile ls"),
    json("fs ls"),
    json("fs dump"),
    json("mds stat"),
    json("time-sync-status"),
    json("osd blocked-by"),
    json("osd numa-status"),
    json("service dump"),
    json("node ls"),
    json("mgr module ls"),
    json("mgr services"),
    // What there is to tell depends on the machine.
    json_loose("mgr metadata", &["0"]),
    json_loose("mon metadata", &["0"]),
    json("device ls"),
    json("osd info"),
    json("osd info 0"),
    text("osd out 0"),
    json("osd tree"),
    text("osd in 0"),
    text("osd reweight 0 0.5"),
    json("osd tree"),
    text("osd reweight 0 1"),
    code("osd ok-to-stop 0"),
    code("osd safe-to-destroy 0"),
    text("osd pool rm t1 t1 --yes-i-really-really-mean-it"),
    equal("osd pool ls"),
];
