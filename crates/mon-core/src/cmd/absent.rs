//! Commands that Ceph has and this cluster does not: each names itself, and the way to what is wanted.
//!
//! Holds their first words, which stand for all that begins so. The `ceph` command line sends only what it finds described, so each has a
//! row; programs that send a whole prefix of stock's are told apart by [`reason`]. Commands of single modules with a form of their own are in `fs_volume`.

use super::{CmdError, CmdResult, Command, Ctx, mgr_cmd};
use types::errno;

/// First words, the stock manager's module that has such commands, and what to do here instead.
struct Absent {
    words: &'static str,
    module: &'static str,
    way: &'static str,
}

/// A row of the table, and its command.
macro_rules! absent {
    ($($words:literal, $module:literal, $way:literal;)*) => {
        const ABSENT: &[Absent] = &[$(Absent { words: $words, module: $module, way: $way }),*];
        pub const COMMANDS: &[Command] =
            &[$(mgr_cmd(concat!($words, " name=args,type=CephString,n=N,req=false"), concat!("of the module ", $module), "mgr", "rw", refuse)),*];
    };
}

absent! {
    "balancer", "balancer", "see `ceph osd df` for the spread; `ceph osd reweight-by-utilization` and `ceph osd pg-upmap-items` change it";
    "osd pool autoscale-status", "pg_autoscaler", "`ceph osd pool set POOL pg_num N` sets a number of groups";
    "osd pool get noautoscale", "pg_autoscaler", "no number of groups is changed but by `ceph osd pool set POOL pg_num N`";
    "osd pool set noautoscale", "pg_autoscaler", "no number of groups is changed but by `ceph osd pool set POOL pg_num N`";
    "osd pool unset noautoscale", "pg_autoscaler", "no number of groups is changed but by `ceph osd pool set POOL pg_num N`";
    "osd pool get threshold", "pg_autoscaler", "no number of groups is changed but by `ceph osd pool set POOL pg_num N`";
    "osd pool set threshold", "pg_autoscaler", "no number of groups is changed but by `ceph osd pool set POOL pg_num N`";
    "progress", "progress", "what moves shows in `ceph -s`";
    "crash", "crash", "what ended a daemon is in its log and in the journal";
    "telemetry", "telemetry", "nothing is sent to anybody";
    "orch", "orchestrator", "daemons are units of systemd, or run below `humboldt up`";
    "cephadm", "cephadm", "daemons are units of systemd, or run below `humboldt up`";
    "rbd task", "rbd_support", "`rbd rm`, `rbd flatten` and `rbd migration execute` do it at once";
    "rbd mirror snapshot schedule", "rbd_support", "`rbd mirror image snapshot` from a timer makes one";
    "rbd trash purge schedule", "rbd_support", "`rbd trash purge` from a timer empties it";
    "rbd perf image", "rbd_support", "`humboldt top` and the page show who does what";
    "nfs", "nfs", "NFS-Ganesha runs with a configuration of its own";
    "nvme-gw", "nvmeof", "no gateway of NVMe over fabrics is served";
    "smb", "smb", "Samba runs with a configuration of its own";
    "dashboard", "dashboard", "the page of the monitor shows the cluster";
    "prometheus", "prometheus", "`/metrics` of the monitor's page is what to scrape";
    "iostat", "iostat", "`ceph -s` and `ceph osd pool stats` show what is done";
    "insights", "insights", "`ceph health detail` and `ceph report` say what is known";
    "influx", "influx", "`/metrics` of the monitor's page is what to scrape";
    "zabbix", "zabbix", "`/metrics` of the monitor's page is what to scrape";
    "restful", "restful", "commands go to the monitor, with `ceph` or librados";
    "alerts", "alerts", "`ceph health` says what is wrong";
    "healthcheck history", "prometheus", "`ceph log last` has what was wrong";
    "telegraf", "telegraf", "`/metrics` of the monitor's page is what to scrape";
    "device get-health-metrics", "devicehealth", "`ceph tell osd.N smart` asks a device for its health";
    "device scrape-health-metrics", "devicehealth", "`ceph tell osd.N smart` asks a device for its health";
    "device scrape-daemon-health-metrics", "devicehealth", "`ceph tell osd.N smart` asks a device for its health";
    "device query-daemon-health-metrics", "devicehealth", "`ceph tell osd.N smart` asks a device for its health";
    "device predict-life-expectancy", "devicehealth", "`ceph tell osd.N smart` asks a device for its health";
    "device light", "orchestrator", "a tool of the enclosure lights a device's lamp";
    "device ls-lights", "orchestrator", "a tool of the enclosure knows its lamps";
    "device monitoring", "devicehealth", "`ceph tell osd.N smart` asks a device for its health";
    "device check-health", "devicehealth", "`ceph tell osd.N smart` asks a device for its health";
    "osd perf query", "osd_perf_query", "`humboldt top` and the page show who does what";
    "osd perf counters", "osd_perf_query", "`humboldt top` and the page show who does what";
    "test_orchestrator", "test_orchestrator", "daemons are units of systemd, or run below `humboldt up`";
    "mgr self-test", "selftest", "`ceph health detail` says what is wrong";
    "fs volume rename", "volumes", "`ceph fs rename` renames a file system";
    "fs subvolumegroup", "volumes", "directories and `setfattr -n ceph.quota.max_bytes` do the same";
    "fs subvolume", "volumes", "directories and `setfattr -n ceph.quota.max_bytes` do the same";
    "fs clone", "volumes", "a snapshot is copied out of `.snap`";
    "fs quiesce", "volumes", "a snapshot is `mkdir .snap/NAME`";
    "fs snapshot mirror", "mirroring", "a snapshot is copied out of `.snap`";
    "fs snap-schedule", "snap_schedule", "`mkdir .snap/NAME` from a timer makes one";
    "fs perf stats", "stats", "`ceph fs status` and `ceph tell mds.NAME session ls` show clients";
}

/// What is said to a prefix that nothing here answers, if it is one that Ceph has. The longest words that begin it count.
pub fn reason(prefix: &str) -> Option<CmdError> {
    let begins = |words: &str| prefix.strip_prefix(words).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let row = ABSENT.iter().filter(|row| begins(row.words)).max_by_key(|row| row.words.len())?;
    let text = format!(
        "'{}' is a command of the stock manager's module {}: this endpoint has no modules, and a stock ceph-mgr beside it serves them. Here: {}",
        row.words, row.module, row.way
    );
    Some(CmdError::new(errno::EOPNOTSUPP, text))
}

fn refuse(ctx: &mut Ctx<'_>) -> CmdResult {
    Err(reason(ctx.args.prefix()).expect("a row's own words"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_words_name_it() {
        let said = |prefix: &str| reason(prefix).map(|e| e.text);
        assert!(said("balancer status").unwrap().contains("module balancer"));
        assert!(said("rbd task add flatten").unwrap().starts_with("'rbd task'"));
        assert!(said("fs snapshot mirror enable").unwrap().contains("module mirroring"));
        assert!(said("fs subvolumegroup ls").unwrap().starts_with("'fs subvolumegroup'"));
        assert!(said("balancers").is_none() && said("rbd").is_none() && said("").is_none());
    }
}
