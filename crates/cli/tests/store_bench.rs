//! `humboldt bench --store`: says what it measured of each store, and leaves nothing behind.

use std::path::PathBuf;
use std::process::{Command, Output};

fn humboldt(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_humboldt")).args(args).output().expect("the program runs")
}

fn ok(args: &[&str]) -> String {
    let out = humboldt(args);
    assert!(out.status.success(), "{args:?}: {}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The number behind a word.
fn number(text: &str, word: &str) -> f64 {
    let rest = text.split_once(word).unwrap_or_else(|| panic!("{word} is not in:\n{text}")).1;
    rest.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no number behind {word} in:\n{text}"))
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("humboldt-store-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        Self(dir)
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_string()
    }
    fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const LOAD: [&str; 10] = ["--seconds", "0.3", "-b", "4096", "-t", "16", "--size", "256M", "--span", "8M"];

fn check(told: &str) {
    let ops = number(told, "operations");
    assert!(ops > 100.0 && number(told, "IOPS") > 100.0 && number(told, "MB/s") > 0.1, "{told}");
    assert!(number(told, "p99.99 ") >= number(told, "p50 ") && number(told, "max ") < 10e6, "{told}");
    assert!(number(told, "CPU us/op") < 10_000.0 && number(told, "RSS MiB") > 1.0, "{told}");
}

#[test]
fn a_store_in_memory_is_measured() {
    for mode in ["write", "overwrite", "rand", "seq"] {
        let told = ok(&[&["bench", mode, "--store", "mem"], &LOAD[..]].concat());
        check(&told);
        assert!(!told.contains("written"), "{told}");
    }
}

#[test]
fn a_store_on_disk_is_measured_and_gone() {
    let folder = Folder::new("disk");
    let dir = folder.path("store");
    for mode in ["write", "overwrite", "rand", "seq"] {
        let told = ok(&[&["bench", mode, "--store", "block", "--dir", &dir], &LOAD[..]].concat());
        check(&told);
        let writes = matches!(mode, "write" | "overwrite");
        assert_eq!(told.contains("written"), writes, "{told}");
        if writes {
            let all = number(&told, "written");
            let parts: f64 = ["log ", "beside the log ", "to their places ", "metadata "].map(|part| number(&told, part)).iter().sum();
            assert!((1.0..50.0).contains(&all) && (parts - all).abs() < 0.01, "{told}");
        }
        assert!(!folder.has("store"), "it is gone");
    }
}

#[test]
fn what_is_given_is_used_and_what_was_there_stays() {
    let folder = Folder::new("given");
    let (dir, wal, meta) = (folder.path("store"), folder.path("wal"), folder.path("meta"));
    std::fs::write(&wal, vec![0; 64 << 20]).expect("a file");
    let args = ["bench", "write", "--store", "block", "--dir", &dir, "--wal", &wal, "--meta", &meta];
    for _ in 0..2 {
        // The second time it is empty again.
        check(&ok(&[&args[..], &LOAD[..]].concat()));
        assert!(!folder.has("store") && !folder.has("meta") && folder.has("wal"));
    }
    // Kept, it is a store like any other; and another is not made over it.
    ok(&[&args[..], &LOAD[..], &["--keep"]].concat());
    let fsck = ok(&["store", "--dir", &dir, "fsck", "--deep"]);
    assert!(fsck.contains("no errors") && fsck.contains("0 blocks leaked, 0 used twice"), "{fsck}");
    let again = humboldt(&[&args[..], &LOAD[..]].concat());
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("is there already"), "{again:?}");
    let none = humboldt(&["bench", "overwrite", "--conf", "/nowhere"]);
    assert!(!none.status.success() && String::from_utf8_lossy(&none.stderr).contains("--store"), "{none:?}");
}
