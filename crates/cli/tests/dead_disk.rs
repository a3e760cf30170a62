//! A disk that is gone, emptied, swapped, damaged or full under `humboldt up`: its OSD stays down and is named, the others serve, and `humboldt osd
//! replace` gives its number a new store. As threads and as processes.

mod up;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use up::{Errors, How, Up, signal, wait_for};

const FORMS: [&[&str]; 2] = [&[], &["--processes"]];
const HOW: How = How { ready: "ready in", is_read: true, errors: Errors::Kept, by_term: false };

/// A cluster of three OSDs that serves.
fn start(dir: &Path, form: &[&str]) -> Up {
    Up::start(up::up(dir, &[&["--http", "none", "--size", "256M", "--osds", "3"], form].concat()), HOW)
}

fn fresh(name: &str, form: &[&str]) -> PathBuf {
    up::fresh(&format!("dead-disk-{name}{}", form.len()))
}
fn humboldt(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_humboldt")).args(words).env("CEPH_CONF", dir.join("ceph.conf")).output().expect("it runs")
}
fn ceph(dir: &Path, words: &[&str]) -> String {
    let out = humboldt(dir, &[&["ceph"], words].concat());
    assert!(out.status.success(), "{words:?}: {out:?}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}
fn bench(dir: &Path, args: &[&str]) -> serde_json::Value {
    let conf = dir.join("ceph.conf");
    let out = humboldt(dir, &[&["bench", "-c", conf.to_str().unwrap(), "--json"], args].concat());
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{out:?}"))
}
/// Objects for later, and that they are all there.
fn write(dir: &Path) {
    // A slow machine takes longer over the last of them.
    let whole = |seconds: &&str| {
        let json = bench(dir, &["write", "-s", seconds, "-b", "4096", "--objects", "64", "--keep"]);
        assert_eq!(json["errors"], 0, "{json}");
        json["ops"].as_u64().unwrap() >= 64
    };
    assert!(["0.5", "2", "8", "30"].iter().any(whole), "64 objects are not written");
}
fn reads(dir: &Path) {
    let json = bench(dir, &["seq", "-s", "0.5", "-b", "4096", "--objects", "64"]);
    assert!(json["errors"] == 0 && json["ops"].as_u64().unwrap() > 0, "{json}");
}
fn replace(dir: &Path, id: &str) {
    let out = humboldt(dir, &["osd", "replace", id, "--dir", dir.to_str().unwrap(), "--size", "256M"]);
    assert!(out.status.success(), "{out:?}");
}
/// Each group has three copies.
fn clean(dir: &Path) {
    wait_for("three copies of all", || {
        let brief: serde_json::Value = serde_json::from_str(&ceph(dir, &["pg", "dump", "pgs_brief", "-f", "json"])).unwrap();
        let rows = brief["pg_stats"].as_array().or(brief.as_array()).unwrap();
        !rows.is_empty() && rows.iter().all(|pg| pg["state"] == "active+clean" && pg["acting"].as_array().unwrap().len() == 3)
    });
}
/// Health names the OSD, the cause and the next step.
fn is_named(dir: &Path, osd: &str, cause: &str) {
    let seen = || {
        ceph(dir, &["health", "detail"])
            .lines()
            .any(|l| l.contains(&format!("osd.{osd} ")) && l.contains(cause) && l.contains("osd replace"))
    };
    wait_for(&format!("health that names osd.{osd} and {cause:?}: {}", ceph(dir, &["health", "detail"])), seen);
}

#[test]
fn a_disk_that_is_pulled_is_named_and_replaced_while_the_others_serve() {
    for form in FORMS {
        let dir = fresh("pulled", form);
        let up = start(&dir, form);
        write(&dir);
        let is_process = !form.is_empty();
        if is_process {
            // While it runs: what comes back is no empty store with the old number.
            std::fs::remove_dir_all(dir.join("osd.2")).unwrap();
            let pid = up.osd(2).expect("osd.2 runs");
            assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
            up.says("osd.2 does not serve: ");
            is_named(&dir, "2", "osd.2 is gone");
            assert_eq!(up.osd(2), None);
            reads(&dir);
        }
        up.kill();
        let _ = std::fs::remove_dir_all(dir.join("osd.2"));
        // Its mount point, without the disk.
        std::fs::create_dir(dir.join("osd.2")).unwrap();
        let up = start(&dir, form);
        assert!(up.ready.contains("2 of 3 OSDs"), "{}", up.ready);
        up.says("osd.2 does not serve: ");
        up.says("is empty");
        is_named(&dir, "2", "osd.2 is empty");
        assert_eq!(std::fs::read_dir(dir.join("osd.2")).unwrap().count(), 0, "nothing is made there");
        reads(&dir);
        replace(&dir, "2");
        clean(&dir);
        assert!(ceph(&dir, &["osd", "stat"]).contains("3 osds: 3 up"), "{}", up.said());
        reads(&dir);
        assert!(!ceph(&dir, &["health", "detail"]).contains("osd.2"));
        // One that runs, too: a disk that is to fail.
        replace(&dir, "0");
        assert!(dir.join("osd.0.old-1/data").exists(), "what was there is not removed");
        clean(&dir);
        reads(&dir);
        up.kill();
        let up = start(&dir, form);
        assert!(up.ready.contains(" 3 OSDs"), "{}", up.ready);
        reads(&dir);
        up.kill();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn disks_that_are_swapped_or_damaged_are_refused_by_name_and_nothing_else() {
    for form in FORMS {
        let dir = fresh("swapped", form);
        let up = start(&dir, form);
        write(&dir);
        up.kill();
        let (one, two, aside) = (dir.join("osd.1"), dir.join("osd.2"), dir.join("aside"));
        let swap = || {
            std::fs::rename(&one, &aside).unwrap();
            std::fs::rename(&two, &one).unwrap();
            std::fs::rename(&aside, &two).unwrap();
        };
        swap();
        let up = start(&dir, form);
        assert!(up.ready.contains("1 of 3 OSDs"), "{}", up.ready);
        up.says("is that of osd.2, not of osd.1");
        up.says("is that of osd.1, not of osd.2");
        // Put right while it serves.
        swap();
        wait_for("all three", || ceph(&dir, &["osd", "stat"]).contains("3 up"));
        clean(&dir);
        reads(&dir);
        up.kill();
        // Another OSD's identity in the right place: its own number, and a uuid that the map has not.
        let fsid = std::fs::read_to_string(one.join("fsid")).unwrap();
        std::fs::write(one.join("fsid"), "7b27a4ab-6299-4c38-85fd-bc2212d51bd9\n").unwrap();
        // And a third that lost its metadata.
        let file = std::fs::OpenOptions::new().write(true).open(two.join("meta")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![0; 8 << 20], 0).unwrap();
        let up = start(&dir, form);
        assert!(up.ready.contains("1 of 3 OSDs"), "{}", up.ready);
        up.says("holds the disk of OSD 7b27a4ab");
        up.says("osd.2 does not serve: ");
        std::fs::write(one.join("fsid"), fsid).unwrap();
        wait_for("two of them", || ceph(&dir, &["osd", "stat"]).contains("2 up"));
        replace(&dir, "2");
        clean(&dir);
        reads(&dir);
        up.kill();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn a_full_file_system_ends_its_osd_alone_and_room_brings_it_back() {
    for form in FORMS {
        let dir = fresh("full", form);
        std::fs::create_dir_all(dir.join("osd.1")).unwrap();
        // A file system of its own, smaller than what is to be stored on it, in a namespace of this cluster.
        let mut cmd = Command::new("unshare");
        let script = r#"mount -t tmpfs -o size=100M none "$1/osd.1" || exit 7; d=$1; shift; exec "$@""#;
        cmd.args(["--mount", "sh", "-c", script, "sh"]).arg(&dir).arg(env!("CARGO_BIN_EXE_humboldt")).arg("up").arg("--dir").arg(&dir);
        cmd.args(["--port", "0", "--http", "none", "--size", "512M", "--osds", "3"]).args(form);
        let up = Up::start(cmd, HOW);
        let json = bench(&dir, &["write", "-s", "2", "-b", "1048576", "--objects", "150", "--keep"]);
        assert!(json["errors"] == 0, "clients go on: {json}");
        wait_for("the end of osd.1", || {
            let _ = bench(&dir, &["write", "-s", "1", "-b", "1048576", "--objects", "150", "--keep"]);
            up.said().contains("osd.1 ended: ")
        });
        assert!(up.said().contains("no space left"), "{}", up.said());
        wait_for("health that says why", || {
            ceph(&dir, &["health", "detail"]).lines().any(|l| l.contains("osd.1 ") && l.contains("no space left"))
        });
        // More room: its store was closed when it ended, so that it can be opened again in the same process.
        let resize = format!("mount -o remount,size=2G {}/osd.1", dir.display());
        let entered = Command::new("nsenter").args(["-t", &up.child.id().to_string(), "-m", "sh", "-c", &resize]).status().unwrap();
        assert!(entered.success());
        wait_for("osd.1", || ceph(&dir, &["osd", "stat"]).contains("3 up"));
        clean(&dir);
        assert!(!up.said().contains("used by another process"), "{}", up.said());
        up.kill();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn the_end_of_the_only_osd_is_not_the_monitors() {
    let dir = fresh("alone", &[]);
    let up = Up::start(up::up(&dir, &["--http", "none", "--size", "256M", "--processes"]), HOW);
    let before = up.osd(0).expect("it runs");
    assert!(signal(before, "KILL"));
    wait_for("another process", || up.osd(0).is_some_and(|pid| pid != before));
    wait_for("it in the map", || ceph(&dir, &["osd", "stat"]).contains("1 up"));
    write(&dir);
    let out = humboldt(&dir, &["ceph", "osd", "pool", "rm", "bench", "bench", "--yes-i-really-really-mean-it"]);
    assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains("mon_allow_pool_delete"), "as on stock: {out:?}");
    let out = humboldt(&dir, &["osd", "replace", "0", "--dir", dir.to_str().unwrap(), "--size", "256M"]);
    assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains("give their pools a second copy first"), "{out:?}");
    // Its disk is gone: health is not well with all members dead.
    std::fs::remove_dir_all(dir.join("osd.0")).unwrap();
    assert!(signal(up.osd(0).unwrap(), "KILL"));
    is_named(&dir, "0", "is gone");
    let out = humboldt(&dir, &["osd", "replace", "0", "--dir", dir.to_str().unwrap(), "--size", "256M"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && said.contains("--yes-i-really-mean-it"), "its data are lost: {said}");
    up.kill();
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Flips a bit in every leaf of a store's metadata that has objects or groups' logs, as their layout is written down (`store-block`'s `meta::leaf` and
/// `key`): no group's record can be loaded then.
fn damage_logs(meta: &Path) {
    const BLOCK: usize = 4096;
    let mut bytes = std::fs::read(meta).unwrap();
    let u32_at = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let first_key = |bytes: &[u8], leaf: usize| bytes[leaf + u32_at(bytes, leaf + 24) + 8];
    let all = (0..bytes.len()).step_by(BLOCK).filter(|at| bytes[at + 4..at + 8] == *b"HLEF");
    let of_logs: Vec<usize> = all.filter(|at| (b'D'..b'P').contains(&first_key(&bytes, *at))).collect();
    assert!(!of_logs.is_empty(), "what was compacted lies in leaves");
    of_logs.iter().for_each(|at| bytes[at + 100] ^= 4);
    std::fs::write(meta, bytes).unwrap();
}

#[test]
fn an_osd_whose_store_is_damaged_stays_down_until_it_is_repaired() {
    for form in FORMS {
        let dir = fresh("damaged", form);
        let up = start(&dir, form);
        write(&dir);
        ceph(&dir, &["tell", "osd.2", "compact"]);
        up.kill();
        damage_logs(&dir.join("osd.2/meta"));
        let up = start(&dir, form);
        assert!(up.ready.contains("2 of 3 OSDs"), "{}", up.ready);
        let two = dir.join("osd.2");
        up.says(&format!("it stays down until `humboldt store --dir {} repair` has ended", two.canonicalize().unwrap().display()));
        is_named(&dir, "2", "repair` has ended");
        reads(&dir);
        // What is damaged is left out; the others have it.
        let repaired = humboldt(&dir, &["store", "--dir", two.to_str().unwrap(), "repair"]);
        assert!(String::from_utf8_lossy(&repaired.stdout).contains("lost: "), "{repaired:?}");
        clean(&dir);
        reads(&dir);
        assert_eq!(up.said().matches("osd.2 does not serve").count() + up.said().matches("osd.2 ended").count(), 1, "{}", up.said());
        up.kill();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

/// The kernel ends the daemons of a keeper that was killed in its own time, and they hold their folders until then.
#[test]
fn what_a_killed_up_leaves_behind_is_waited_for() {
    let dir = fresh("orphans", &["--processes"]);
    let mut up = start(&dir, &["--processes"]);
    write(&dir);
    for _ in 0..4 {
        up.child.kill().expect("it runs");
        up.child.wait().expect("it ends");
        up = start(&dir, &["--processes"]);
        assert!(up.ready.contains(" 3 OSDs"), "{}: {}", up.ready, up.said());
        assert!(!up.said().contains("is held by"), "{}", up.said());
    }
    reads(&dir);
    up.kill();
    std::fs::remove_dir_all(&dir).unwrap();
}
