//! The ceph.conf of a stock cluster of the lab's.

use crate::plan::Setup;
use std::path::Path;

/// Everything but where devices are, which is known when they are attached: `devices` are those lines.
pub fn text(setup: &Setup, dir: &Path, fsid: &str, port: u16, devices: &[String]) -> String {
    let d = dir.display().to_string();
    let mut lines = vec![
        format!("[global]\nfsid = {fsid}\nmon host = [v2:127.0.0.1:{port}]\npublic network = 127.0.0.0/8\ncluster network = 127.0.0.0/8"),
        format!("keyring = {d}/keyring\nrun dir = {d}/run\nadmin socket = {d}/run/$name.asok\nlog file = {d}/log/$name.log"),
        format!("mon data = {d}/mon\nosd data = {d}/osd.$id\ncrash dir = {d}\nmon cluster log file = {d}/log/cluster.log"),
        format!("osd pool default size = {}\nosd pool default min size = 1\nosd pool default pg autoscale mode = off", setup.replicas),
        "osd crush chooseleaf type = 0\nmon allow pool size one = true\nmon warn on pool no redundancy = false".into(),
        // All OSDs are on one host: no other host could report one that hangs.
        "mon osd min down reporters = 1\nmon allow pool delete = true\nmon max pg per osd = 1000".into(),
        // Not of the cluster but of the disk that the monitor's small store lies on.
        "mon data avail crit = 1\nmon data avail warn = 2".into(),
        // On both sides: librbd would answer from it.
        "rbd cache = false".into(),
    ];
    lines.extend(["cluster", "service", "client"].map(|s| format!("auth {s} required = {}", setup.auth)));
    lines.extend(
        ["ms", "osd", "mon", "paxos", "auth", "monc", "rocksdb", "bluestore", "bluefs", "bdev"].map(|s| format!("debug {s} = 0/0")),
    );
    match (setup.store.as_str(), setup.memory) {
        ("mem", memory) => lines.push(format!("osd objectstore = memstore\nmemstore device bytes = {}", memory.unwrap_or(4 << 30))),
        ("file", _) => {
            // The usual place of the journal is outside of the folder, and mkfs fails there.
            lines.push("osd objectstore = filestore\nosd journal size = 512".into());
            if setup.wal.is_none() {
                lines.push(format!("osd journal = {d}/osd.$id/journal"));
            }
        }
        (_, memory) => {
            lines.push("osd objectstore = bluestore".into());
            lines.extend(memory.map(|m| format!("osd memory target = {m}")));
            if setup.data.is_none() {
                lines.push("bluestore block size = 17179869184".into());
            }
        }
    }
    lines.extend(devices.iter().cloned());
    lines.extend(setup.conf.iter().map(|(key, value)| format!("{key} = {value}")));
    lines.join("\n") + "\n"
}
