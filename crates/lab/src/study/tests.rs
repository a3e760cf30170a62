use super::axes::points;
use super::{Study, StudyError};
use crate::value::show;

const GOOD: &str = r#"lab = 1
name = "t"
[axes]
depth = [1, 16]
block = ["4 KiB", "64 KiB"]
op = ["write", "read"]
pairs = [["depth", "block"]]
exclude = [{ op = "read", depth = 16 }]
[[target]]
name = "a"
kind = "humboldt"
store = "mem"
[[load]]
tool = "humboldt bench"
[[claim]]
text = "deep is faster"
ratio = "depth=16 / depth=1"
at_least = 1.5
"#;

fn fails(text: &str) -> StudyError {
    Study::parse("f.toml", text).expect_err("it is no study")
}

#[test]
fn the_product_pairs_and_excludes() {
    let study = Study::parse("f.toml", GOOD).unwrap();
    let points: Vec<String> = points(&study).iter().map(show).collect();
    assert_eq!(points, ["block=4 KiB, depth=1, op=write", "block=4 KiB, depth=1, op=read", "block=64 KiB, depth=16, op=write"]);
    assert_eq!(study.rules(true).rounds, 3);
}

#[test]
fn an_unknown_key_has_a_line_and_a_column() {
    let e = fails(&GOOD.replace("store = \"mem\"", "stoer = \"mem\""));
    assert_eq!((e.line, e.column), (12, 1), "{e}");
    assert!(e.message.contains("stoer"), "{e}");
    let e = fails(&GOOD.replace("depth = [1, 16]", "detph = [1, 16]"));
    assert_eq!((e.line, e.column), (4, 1), "{e}");
    assert!(e.to_string().starts_with("f.toml:4:1: unknown axis `detph`"), "{e}");
    let e = fails("lab = 1\nname = \"t\"\n  bogus = 3\n");
    assert_eq!((e.line, e.column), (3, 3), "{e}");
}

#[test]
fn what_means_nothing_is_refused_where_it_stands() {
    for (from, to, line, word) in [
        ("lab = 1", "lab = 2", 1, "another version"),
        ("ratio = \"depth=16 / depth=1\"", "ratio = \"depth=16 / depth=1\"\nmetric = \"trace_reads\"", 15, "no ratio can be had"),
        ("ratio = \"depth=16 / depth=1\"", "metric = \"trace_reads\"\ndevice = \"lgo\"", 15, "one of data, log, metadata, brick is wanted"),
        ("ratio = \"depth=16 / depth=1\"", "metric = \"iops\"\ndevice = \"log\"", 15, "what traces say"),
        ("ratio = \"depth=16 / depth=1\"", "metric = \"speed\"", 15, "unknown metric `speed`"),
        ("\"humboldt\"", "\"humbolt\"", 9, "unknown kind"),
        ("\"humboldt bench\"", "\"fio rdb\"", 13, "unknown tool"),
        ("\"write\", \"read\"", "\"write\", \"write\"", 6, "twice"),
        ("[1, 16]", "[1, 0]", 4, "1 to 4096"),
        ("\"64 KiB\"]", "\"64 kB\"]", 5, "no unit"),
        ("\"write\", \"read\"", "\"write\", \"raed\"", 6, "raed"),
        ("op = \"read\", depth = 16 }", "op = \"raed\", depth = 16 }", 8, "axis op has no value raed"),
        ("op = \"read\", depth = 16 }", "jobs = 3 }", 8, "jobs is no axis"),
        (
            "[[claim]]",
            "[rules]\nquick = { rounds = 3, seconds = 1.0, exclude = [{ depth = 17 }] }\n[[claim]]",
            2,
            "axis depth has no value 17",
        ),
        ("[[\"depth\", \"block\"]]", "[[\"depth\", \"jobs\"]]", 7, "as many values"),
        ("depth=16 / depth=1", "depth=16", 15, "two sides"),
        ("at_least = 1.5", "", 15, "at_least"),
        ("store = \"mem\"", "data = \"ssd\"", 9, "no [[device]]"),
        ("store = \"mem\"", "release = \"18.2\"", 9, "ceph target's"),
        ("[[claim]]", "[[drill]]\nat_s = 1.0\ndo = \"explode\"\nwhat = \"osd.0\"\n[[claim]]", 15, "explode"),
        ("[[claim]]", "[[drill]]\nat_s = 1.0\ndo = \"hang\"\nwhat = \"mon.a\"\n[[claim]]", 15, "osd.N is wanted"),
        ("[[claim]]", "[[drill]]\nat_s = -9.0\ndo = \"hang\"\nwhat = \"osd.0\"\n[[claim]]", 15, "0 to 3600 seconds"),
        ("[[claim]]", "[base]\ntool = \"dbench\"\nshare = [0.5]\n[[claim]]", 15, "fio rbd is wanted"),
        ("[[claim]]", "[base]\ntool = \"fio rbd\"\nshare = [5.0]\n[[claim]]", 15, "share of the capacity"),
        (
            "[[claim]]",
            "[[device]]\nname = \"d\"\nkind = \"loop\"\nsize = \"1G\"\nthrottle = { read_iops = 0 }\n[[claim]]",
            15,
            "rates 1 or more",
        ),
        (
            "[[claim]]",
            "[[device]]\nname = \"d\"\nkind = \"file\"\nsize = \"1G\"\nthrottle = { read_iops = 9 }\n[[claim]]",
            15,
            "throttles block devices",
        ),
        (
            "[[claim]]",
            "[[device]]\nname = \"d\"\nkind = \"path\"\npath = \"/x\"\nmodel = { seek_us = 9 }\n[[claim]]",
            15,
            "modelled device is",
        ),
    ] {
        let e = fails(&GOOD.replace(from, to));
        assert!(e.message.contains(word) && e.line == line, "{from} -> {to}: {e}");
    }
    // What goes side by side may have a value again, but not all of them together.
    let again = GOOD.replace("[1, 16]", "[16, 16]");
    assert!(Study::parse("f.toml", &again).is_ok());
    assert!(fails(&again.replace("\"64 KiB\"]", "\"4 KiB\"]")).message.contains("the same values at two places"));
    let twice = GOOD.replace("[[load]]", "[[target]]\nname = \"a\"\nkind = \"null\"\n[[load]]");
    assert!(fails(&twice).message.contains("two targets"));
    let percentiles = GOOD.replace("humboldt bench", "rados bench") + "[rules]\npercentiles = [99.0]\n";
    assert!(fails(&percentiles).message.contains("no latency histogram"));
}

#[test]
fn shipped_studies_are_studies() {
    for (name, text) in super::shipped::ALL {
        let study = Study::parse(name, text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(study.name(), *name);
    }
}
