//! The logs of daemons that stand beside each other, read whole: each line of level warning or above must have its reason in a list. So
//! no daemon complains of another without being noticed, in whatever words.
//!
//! Of a stock daemon that is a line of level -1, and one that goes to the cluster log as a warning or an error. Ours print what matters
//! and no level: each of their lines needs a reason.

use crate::stock::Daemons;
use anyhow::{Context, Result, ensure};

/// Lines that stock daemons may write, by words of each, and why.
const STOCK: &[(&str, &str)] = &[
    ("cannot load compressor", "Debian's packages lack a library"),
    ("load failed dlopen()", "the same"),
    ("mgr[py]", "the manager's modules are packages of their own, and say how they are loaded"),
    ("handle_report got status from non-daemon", "a monitor reports before the manager knows of it"),
    ("create_initial mon_debug_no_require", "the first map"),
    ("definitely_dead", "the case ends OSDs"),
    ("ignal: Terminated", "the same"),
    ("Got signal Terminated", "the same"),
    ("Immediate shutdown", "the same"),
    ("Fail to open '/proc/", "the same: the one that sent the signal has ended, too"),
    ("(OSD_DOWN)", "the same"),
    ("(OSD_HOST_DOWN)", "the same"),
    ("(PG_DEGRADED)", "the same"),
    ("(PG_AVAILABILITY)", "the same"),
    ("(OSD_UPGRADE_FINISHED)", "the case requires the release a moment later"),
    ("set_numa_affinity", "loopback belongs to no node"),
    ("waiting for initial osdmap", "an OSD's start"),
    ("log_to_monitors", "the same"),
    ("_read_fsid unparsable", "the same, of a new store"),
    ("_read_bdev_label failed to open", "the same"),
    ("(MDS_ALL_DOWN)", "a file system is made before its server"),
    ("(MDS_UP_LESS_THAN_MAX)", "the same"),
    ("New Clone-Objects were added to Snap", "stock trims beside writes that make clones; among stock OSDs alone, too"),
    (
        "(SLOW_OPS)",
        "many groups recover one after the other beside clients and other cases, on two cores; `xtask shared-stall` judges pauses",
    ),
    ("currently mapped to them", "the case asks whether an OSD is still needed"),
    ("calc_pg_upmaps abort", "the balancer finds no OSD with weight between two steps"),
    ("(POOL_APP_NOT_ENABLED)", "the case names a pool's application after it has made the pool"),
    ("(TOO_FEW_OSDS)", "the case's OSDs come one after the other"),
    ("(MGR_MODULE_DEPENDENCY)", "Debian's packages lack Python modules of the manager's"),
    ("Failed to load ceph-mgr modules", "the same"),
    ("open stat got: (1)", "the block device is a file"),
    ("mon_cmd_maybe_osd_create fail", "the case gave the OSD a device class of its own"),
    ("OSD bench result of", "files in memory are faster than a disk"),
    ("has erasure codes, which this OSD does not serve", "ours says so once a pool, with the next step"),
];

/// The same of ours.
const OURS: &[(&str, &str)] =
    &[(" runs at ", "its start"), ("has erasure codes, which this OSD does not serve", "once a pool, with the next step")];

/// True for a line of a stock daemon's log that warns of something: date, thread, level, text.
fn warns(line: &str) -> bool {
    let level = line.split_whitespace().nth(2);
    level == Some("-1") || ["[WRN]", "[ERR]", "[SEC]"].iter().any(|mark| line.contains(mark))
}

fn unexplained<'a>(lines: impl Iterator<Item = &'a str>, reasons: &[(&str, &str)]) -> Vec<&'a str> {
    lines.filter(|line| !line.trim().is_empty() && !reasons.iter().any(|(words, _)| line.contains(words))).collect()
}

/// Reads the logs of all daemons of the cluster, and of the cluster itself.
pub fn no_complaint(d: &Daemons) -> Result<()> {
    let mut wrong = Vec::new();
    let mut read = 0;
    for entry in std::fs::read_dir(d.dir.join("log"))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a log's name")?.to_string();
        // Names of objects may be any bytes.
        let text = String::from_utf8_lossy(&std::fs::read(&path).with_context(|| name.clone())?).into_owned();
        let found = match name.rsplit_once('.') {
            // Clients of the cases have logs, too.
            Some((daemon, "log")) if !daemon.starts_with("client") => unexplained(text.lines().filter(|line| warns(line)), STOCK),
            Some((daemon, "out")) if !d.dir.join(format!("log/{daemon}.log")).exists() => unexplained(text.lines(), OURS),
            _ => continue,
        };
        read += 1;
        wrong.extend(found.iter().map(|line| format!("{name}: {line}")));
    }
    ensure!(read > 3, "only {read} logs were found");
    ensure!(wrong.is_empty(), "{} lines have no reason:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_warns_by_its_level_or_by_what_it_tells_the_cluster() {
        let time = "2026-11-30T21:00:00.000+0000 7f1234567890";
        for (line, is) in [
            (format!("{time} -1 osd.2 12 heartbeat_check: no reply"), true),
            (format!("{time}  0 log_channel(cluster) log [WRN] : slow"), true),
            (format!("{time}  0 log_channel(cluster) log [DBG] : 1.0 scrub starts"), false),
            (format!("{time}  1 osd.2 pg_epoch: 12 -1 of them"), false),
            (String::new(), false),
        ] {
            assert_eq!(warns(&line), is, "{line}");
        }
        let lines = ["a known line", "", "another"];
        assert_eq!(unexplained(lines.into_iter(), &[("known", "for a test")]), ["another"]);
    }
}
