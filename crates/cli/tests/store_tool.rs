//! `humboldt store` on an OSD's folder: looked at, checked, copied, damaged, repaired; and left alone by what only looks.

#[path = "store_tool/folder.rs"]
mod folder;
#[path = "store_tool/rows.rs"]
mod rows;

use folder::{Folder, OBJECTS};
use std::collections::BTreeMap;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_store_is_looked_at_and_left_as_it_was() {
    let a = Folder::filled("look");
    let before = a.files();
    assert!(a.ok(&["fsck"]).contains("0 blocks leaked, 0 used twice\nno errors"));
    let deep = a.ok(&["fsck", "--deep"]);
    assert!(deep.contains(&format!("{OBJECTS} objects")) && deep.contains("no errors"), "{deep}");
    let list = a.ok(&["list"]);
    assert_eq!(list.lines().count(), OBJECTS as usize);
    assert!(list.contains("\t105000\t") && list.contains("object 7"), "{list}");
    let dump = a.ok(&["dump", "object 7"]);
    for part in ["size 105000", "attribute _ (4 bytes): 696e666f", "omap header (0 bytes)", "omap key (5 bytes): 76616c7565"] {
        assert!(dump.contains(part), "{part} is not in:\n{dump}");
    }
    let stat = a.ok(&["stat"]);
    assert!(
        stat.contains("collections 1\n") && stat.contains("total_bytes 20905984\n"),
        "16 MiB of data without the label's chunk, 4 of metadata: {stat}"
    );
    a.ok(&["export", &a.path("copy")]);
    for wrong in [&["dump", "nothing"][..], &["export", &a.path("copy")], &["import", &a.path("nowhere")]] {
        let out = a.tool(wrong);
        assert!(!out.status.success() && !out.stderr.is_empty(), "{wrong:?}: {out:?}");
    }
    let out = Folder::empty("none").remove_store().tool(&["fsck"]);
    assert!(!out.status.success() && text(&out.stderr).contains("is no folder of an OSD"), "{out:?}");
    let now = a.files();
    // Opened for writing, by the import that fails, the store has begun a new epoch; nothing else is different.
    assert!(now[..2] == before[..2] && now[2][2 * 4096..] == before[2][2 * 4096..], "what only looks changes nothing");
}

/// A server that ended holds its files for a moment more: that is waited for, and one that goes on is named.
#[test]
fn a_store_that_is_held_for_a_moment_is_waited_for() {
    let a = Folder::filled("held");
    let hold = || {
        let file = std::fs::File::open(a.path("data")).expect("a file");
        file.try_lock().expect("nothing holds it");
        file
    };
    let held = hold();
    let release = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(700));
        drop(held);
    });
    assert!(a.ok(&["stat"]).contains("collections 1\n"));
    release.join().expect("it ends");
    let held = hold();
    let out = a.tool(&["stat"]);
    assert!(!out.status.success() && text(&out.stderr).contains("used by another process"), "{out:?}");
    drop(held);
    a.ok(&["stat"]);
}

#[test]
fn what_was_exported_comes_back() {
    let a = Folder::filled("export");
    let file = a.path("copy");
    a.ok(&["export", &file]);
    let all = |f: &Folder| f.ok(&["list"]) + &(0..OBJECTS).map(|n| f.dump(n)).collect::<String>();
    let before = all(&a);

    // Into an empty store, and into one that lost and changed something.
    let b = Folder::empty("import");
    b.ok(&["import", &file]);
    assert_eq!(all(&b), before);
    assert!(b.ok(&["fsck", "--deep"]).contains("no errors"));
    for (n, damage) in
        [&["bytes", "5", "wrong"][..], &["size", "9"], &["attr", "_", "other"], &["omap", "key"], &["remove"]].iter().enumerate()
    {
        a.ok(&[&["damage", &format!("object {n}")], *damage].concat());
    }
    assert_ne!(all(&a), before);
    a.ok(&["import", &file]);
    assert_eq!(all(&a), before);
    assert_eq!(a.data(0)[5..10], [1; 5], "bytes are what they were, too");
    assert!(a.ok(&["fsck", "--deep"]).contains("no errors"));

    // A file that is cut off or damaged is no export.
    let whole = std::fs::read(&file).expect("the file");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for (bad, why) in [(&whole[..whole.len() - 3], "cut off"), (&flipped, "checksum"), (b"something else altogether", "no export")] {
        std::fs::write(a.path("bad"), bad).expect("a file");
        let out = Folder::empty("bad").tool(&["import", &a.path("bad")]);
        assert!(!out.status.success() && text(&out.stderr).contains(why), "{why}: {out:?}");
    }
}

#[test]
fn a_copy_is_damaged_as_told_and_nothing_else_is() {
    let a = Folder::filled("damage");
    let dumps = |f: &Folder| (0..OBJECTS).map(|n| f.dump(n)).collect::<Vec<_>>();
    let mut before = dumps(&a);
    let damages: [(&[&str], &str); 7] = [
        (&["size", "9"], "size 9\n"),
        (&["attr", "_", "other"], "attribute _ (5 bytes): 6f74686572"),
        (&["attr", "_"], "size"),
        (&["omap", "key", "else"], "omap key (4 bytes): 656c7365"),
        (&["omap", "key"], "size"),
        (&["bytes", "30000", "wrong"], "size"),
        (&["remove"], ""),
    ];
    for (n, (damage, shows)) in damages.iter().enumerate() {
        a.ok(&[&["damage", &format!("object {n}")], *damage].concat());
        let after = dumps(&a);
        assert!(after[n].contains(shows), "{damage:?}: {}", after[n]);
        // The checksums of bytes that were changed on purpose are right, and a dump shows no data.
        assert_eq!(after[n] == before[n], damage[0] == "bytes", "{damage:?}");
        before[n].clone_from(&after[n]);
        assert_eq!(after, before, "{damage:?} changed another object");
        assert!(a.ok(&["fsck", "--deep"]).contains("no errors"), "it is still a store that agrees with itself");
    }
    assert_eq!(a.data(5)[29_998..30_007], [&[6; 2], &b"wrong"[..], &[6; 2]].concat());
    assert_eq!(a.ok(&["list"]).lines().count(), OBJECTS as usize - 1);
}

/// A bit that flips on the device is found by reading everything, and only then; repair does not make it up.
#[test]
fn a_flipped_bit_is_found() {
    let a = Folder::filled("flip");
    a.change("data", |data| {
        let at = data.windows(4096).position(|w| w.iter().all(|x| *x == 9)).expect("object 8 lies somewhere");
        data[at + 100] ^= 4;
    });
    a.ok(&["fsck"]);
    let out = a.tool(&["fsck", "--deep"]);
    assert!(!out.status.success() && text(&out.stdout).contains("object 8") && text(&out.stderr).contains("1 errors"), "{out:?}");
    a.ok(&["repair"]);
    assert!(!a.tool(&["fsck", "--deep"]).status.success());

    // Of the metadata: whatever it hits, it is told, never guessed at.
    let b = Folder::filled("flip-meta");
    b.change("meta", |meta| rows::leaves(meta).iter().for_each(|at| meta[at + 100] ^= 4));
    for args in [&["fsck"][..], &["fsck", "--deep"], &["list"]] {
        let out = b.tool(args);
        let said = text(&out.stdout) + &text(&out.stderr);
        assert!(!out.status.success() && said.contains("damaged") && said.contains("repair"), "{args:?}: {out:?}");
    }
    // What every leaf held is gone: the repair says so, and leaves a store that agrees with itself.
    let said = b.ok(&["repair"]);
    assert!(said.contains("lost: up to") && said.contains("objects from the first"), "{said}");
    assert!(b.ok(&["fsck", "--deep"]).contains("no errors"));
    assert_eq!(b.ok(&["list"]), "");
}

#[test]
fn space_that_leaked_or_is_used_twice_is_found() {
    // What objects are the witness of is put right.
    for (name, used, told) in
        [("leak", true, "are nobody's and not free"), ("free", false, "are an object's and free to be given to another")]
    {
        let a = Folder::filled(name);
        a.change_rows(|key, value| {
            if key[0] == b'A' {
                // The last chunk is free, the first object's blocks are not.
                let chunk = if used { 255 } else { value.chunks(2).skip(1).position(|c| c != [0, 0]).expect("some are used") + 1 };
                value[chunk * 2..chunk * 2 + 2].fill(if used { 0xff } else { 0 });
            }
        });
        let before = a.files();
        let out = a.tool(&["fsck"]);
        let count = if used { "16 blocks leaked, 0 used twice" } else { "0 blocks leaked, 16 used twice" };
        assert!(!out.status.success() && text(&out.stdout).contains(told) && text(&out.stdout).contains(count), "{out:?}");
        assert!(a.files() == before, "fsck changes nothing");
        let repaired = a.ok(&["repair"]);
        assert!(repaired.contains("repaired: 1 chunks") && repaired.contains("no errors"), "{repaired}");
        assert!(a.ok(&["fsck", "--deep"]).contains("no errors"));
        assert_eq!(a.ok(&["list"]).lines().count(), OBJECTS as usize);
    }
    // Two objects with the same blocks: nothing tells which is right.
    let a = Folder::filled("twice");
    let mut firsts = BTreeMap::new();
    a.change_rows(|key, value| {
        if key[0] == b'O' {
            // Records of one length can be exchanged.
            let first = firsts.entry(value.len()).or_insert_with(|| value.to_vec());
            value.copy_from_slice(first);
        }
    });
    assert!(firsts.len() < OBJECTS as usize, "no two records have the same length");
    let before = a.files();
    let out = a.tool(&["fsck"]);
    assert!(!out.status.success() && text(&out.stdout).contains("has another owner too"), "{out:?}");
    let out = a.tool(&["repair"]);
    assert!(!out.status.success() && text(&out.stdout).contains("nothing was repaired"), "{out:?}");
    // Opened for writing, the store has begun a new epoch; nothing else is different.
    assert!(a.files()[0] == before[0] && !a.tool(&["fsck"]).status.success());
}

/// An export stops where an object can't be read and says how to go round it; the one that does names what it leaves out, ends with status 3, and has
/// all the rest.
#[test]
fn an_export_goes_round_what_is_damaged() {
    let a = Folder::filled("skip");
    let file = a.path("copy");
    let data: Vec<_> = (0..OBJECTS).map(|n| a.data(n)).collect();
    a.change("data", |data| {
        let at = data.windows(4096).position(|w| w.iter().all(|x| *x == 9)).expect("object 8 lies somewhere");
        data[at + 100] ^= 4;
    });
    let out = a.tool(&["export", &file]);
    assert!(out.status.code() == Some(1) && text(&out.stderr).contains("export --skip-damaged FILE"), "{out:?}");
    std::fs::remove_file(&file).expect("what was written until then");
    let damaged = a.files();
    let out = a.tool(&["export", "--skip-damaged", &file]);
    let said = text(&out.stderr);
    assert!(out.status.code() == Some(3) && said.lines().filter(|l| l.starts_with("left out: ")).count() == 1, "{out:?}");
    assert!(said.contains("object 8"), "{said}");
    assert!(a.files()[..2] == damaged[..2], "an export changes nothing");

    let b = Folder::empty("skipped");
    b.ok(&["import", &file]);
    assert!(b.ok(&["fsck", "--deep"]).contains("no errors"));
    assert_eq!(b.ok(&["list"]).lines().count(), OBJECTS as usize - 1);
    (0..OBJECTS).filter(|n| *n != 8).for_each(|n| assert!(b.data(n) == data[n as usize], "object {n}"));
}

/// A store becomes larger, and only larger, and what it had is there.
#[test]
fn a_store_grows() {
    let a = Folder::filled("grow");
    let total = |a: &Folder| -> u64 {
        let stat = a.ok(&["stat"]);
        let line = stat.lines().find(|l| l.starts_with("total_bytes ")).expect("stat says it");
        line["total_bytes ".len()..].parse().expect("a number")
    };
    let (before, dumps) = (total(&a), (0..OBJECTS).map(|n| a.dump(n)).collect::<Vec<_>>());
    let out = a.tool(&["grow", "--size", "8M"]);
    assert!(!out.status.success() && text(&out.stderr).contains("a store becomes larger only"), "{out:?}");
    assert_eq!(total(&a), before);
    assert_eq!(a.ok(&["grow", "--size", "48M"]), format!("{} bytes of data, {} of metadata\n", 48 << 20, 4 << 20));
    assert_eq!(total(&a), before + (32 << 20));
    assert_eq!((0..OBJECTS).map(|n| a.dump(n)).collect::<Vec<_>>(), dumps);
    assert!(a.ok(&["fsck", "--deep"]).contains("no errors"));
}

/// A store that the program before this one made stays as it is until somebody asks, and then both superblocks say so.
#[test]
fn an_older_store_is_finalized_when_it_is_asked_for() {
    let a = Folder::filled("finalize");
    let versions = |a: &Folder| -> Vec<u8> { [0, 1].map(|slot| a.files()[2][slot * 4096 + 16]).to_vec() };
    let (newest, before) = (store_block_version(), store_block_version() - 1);
    a.change("meta", |bytes| (0..2).for_each(|slot| bytes[slot * 4096 + 16] = before));
    let dumps = (0..OBJECTS).map(|n| a.dump(n)).collect::<Vec<_>>();
    assert!(a.ok(&["stat"]).contains("\nfinal false\n") && a.ok(&["fsck", "--deep"]).contains("no errors"));
    assert_eq!(versions(&a), [before; 2], "tools leave it what it is");
    assert!(a.ok(&["finalize"]).contains("can't open it any more"));
    assert_eq!(versions(&a), [newest; 2]);
    assert!(a.ok(&["finalize"]).contains("already") && a.ok(&["stat"]).contains("\nfinal true\n"));
    assert_eq!((0..OBJECTS).map(|n| a.dump(n)).collect::<Vec<_>>(), dumps);
    assert!(a.ok(&["fsck", "--deep"]).contains("no errors"));
}

/// The newest layout, as the guide has it.
fn store_block_version() -> u8 {
    let guide = include_str!("../../../docs/src/upgrades.md");
    let row = guide.lines().find_map(|l| l.strip_prefix("| block store | ")).expect("the guide has a row for the block store");
    row.split(' ').next().and_then(|n| n.parse().ok()).expect("a version")
}

/// An older or newer layout is refused by every command, in words, and not a byte is changed.
#[test]
fn another_version_of_the_layout_is_refused() {
    for version in [0, store_block_version() + 1] {
        let a = Folder::filled("version");
        a.ok(&["export", &a.path("copy")]);
        for (name, slots) in [("data", 1), ("wal", 1), ("meta", 2)] {
            a.change(name, |bytes| (0..slots).for_each(|slot| bytes[slot * 4096 + 16] = version));
        }
        let before = a.files();
        let copy = a.path("copy");
        for args in [
            &["fsck"][..],
            &["repair"],
            &["stat"],
            &["list"],
            &["dump", "object 1"],
            &["export", &a.path("other")],
            &["import", &copy],
            &["damage", "object 1", "remove"],
        ] {
            let out = a.tool(args);
            let said = text(&out.stderr);
            assert!(!out.status.success() && said.contains(&format!("version {version} of the layout")), "{args:?}: {said}");
            assert!(said.contains(&format!("knows versions 1 to {}:", store_block_version())), "{said}");
            assert!(a.files() == before, "{args:?} changed a store that it does not know");
        }
    }
}
