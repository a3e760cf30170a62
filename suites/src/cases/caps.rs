//! Who may do what: some nine thousand questions that a stock cluster answered, asked of ours. The questions are scripts (`caps.py`, with
//! `caps_ends.py` for the endpoints and `caps_copy.py` for copies); the record is `fixtures/cephx/caps-matrix-reef.txt`.
//!
//! A row in which ours owes another answer than stock gives has ours, and a word that says so. [`OURS`] has those rows, each with its reason.

use super::Case;
use crate::clients::Release::Pacific;
use crate::cluster::Cluster;
use crate::run::root;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "caps_matrix", needs: &[Pacific], run: matrix }];

const RECORD: &str = "fixtures/cephx/caps-matrix-reef.txt";
const HEAD: &str = "\
# Who may do what on a stock 18.2.7 cluster (1 mon, 1 mgr, 1 OSD on memstore, cephx; the client is librados 16.2 in Python), recorded with
# cargo xtask record-caps CEPH_CONF fixtures/cephx/caps-matrix-reef.txt
# The cluster loads all classes (osd_class_load_list = *); what x covers by itself is the default.
# Rows: entity | operation | place | errno. Before an entity's rows: its capabilities.
# Rows that end in a word have the answer of `humboldt up`: stricter than stock's, said at once instead of never, or as what was granted says.
";

/// What ours owes.
enum Owed {
    Errno(&'static str),
    /// What another entity gets for the same.
    As(&'static str),
    /// EPERM, unless the entity may read the source.
    Source,
    /// EINVAL for whoever may make any entity, EACCES for others.
    Named,
    /// The second, where stock says the first.
    Instead(&'static str, &'static str),
}
use Owed::{As, Errno, Instead, Named, Source};

/// Rows in which ours differs: of these entities and places, or of all where none is named.
struct Ours {
    operation: &'static str,
    entities: &'static [&'static str],
    places: &'static [&'static str],
    owed: Owed,
    word: &'static str,
}

const fn ours(
    operation: &'static str,
    entities: &'static [&'static str],
    places: &'static [&'static str],
    owed: Owed,
    word: &'static str,
) -> Ours {
    Ours { operation, entities, places, owed, word }
}

const ALL: &[&str] = &[];
const POWERLESS: &[&str] = &["net-out", "all-net-out", "profile-net-out", "profile-nosuch"];
const FENCERS: &[&str] = &["m-profile-net-in", "m-rbd", "m-rbd-ro", "m-rbd-mirror", "m-rbd-mirror-peer", "m-simple-blocklist"];
const OURS: &[Ours] = &[
    // A copy's source is read by the rights of whoever asks for the copy, and is not even looked for without them.
    ours("copy_from", ALL, ALL, Source, "stricter"),
    // Whoever can do nothing at an OSD from its address hears that at once, whatever class or method it names, and whatever it tells the daemon.
    ours("hello.nosuch", POWERLESS, ALL, Errno("1"), "stricter"),
    ours("nosuch.nosuch", POWERLESS, ALL, Errno("1"), "stricter"),
    ours("tell osd.0 version", ALL, ALL, Instead("110", "13"), "said"),
    // Profiles of clients fence one client: no host, and no network.
    ours("mon", FENCERS, &["osd blocklist add 192.168.9.9:0/0", "osd blocklist range add 192.168.9.0/24"], Errno("13"), "stricter"),
    // A bootstrap profile gives no service but those that it is for.
    ours(
        "mon",
        &["m-bootstrap-mds"],
        &["auth get-or-create mds.wide mon allow profile mds osd allow rwx mds allow mgr allow *"],
        Errno("13"),
        "stricter",
    ),
    ours(
        "mon",
        &["m-bootstrap-rgw"],
        &["auth get-or-create client.rgw.wide mon allow rw osd allow rwx mgr allow *"],
        Errno("13"),
        "stricter",
    ),
    ours(
        "mon",
        &["m-bootstrap-rbd"],
        &["auth get-or-create client.mds mon profile rbd osd profile rbd mds allow *"],
        Errno("13"),
        "stricter",
    ),
    // What the asker may make it may have again, without saying all of it.
    ours("mon", &["m-bootstrap-rbd", "m-command-caps"], &["auth get-or-create client.made"], Errno("0"), "granted"),
    ours("mon", &["m-bootstrap-mds"], &["auth get-or-create mds.made"], Errno("0"), "granted"),
    // Nobody names capabilities but as `caps`.
    ours(
        "mon",
        ALL,
        &[
            "auth get-or-create client.most mon allow * caps_mon=profile rbd caps_osd=profile rbd",
            "auth get-or-create client.admin caps_mon=profile rbd caps_osd=profile rbd",
            "auth get-or-create mds.most caps_mon=allow profile mds caps_osd=allow rwx caps_mds=allow",
            "auth get-or-create client.rgw.most caps_mon=allow rw caps_osd=allow rwx",
        ],
        Named,
        "stricter",
    ),
    // The network of a grant is asked for at every endpoint, for commands to the daemon, too.
    ours("mgr", &["g-net-in", "g-net-both"], ALL, As("g-r"), "granted"),
    ours("tell mgr", &["t-mgr-net-out"], ALL, As("t-mgr-r"), "stricter"),
    ours("tell osd", &["t-osd-net-out"], ALL, As("t-osd-r"), "stricter"),
];

/// A row: entity, operation, place and errno, and the word if it is one of [`OURS`].
type Row = Vec<String>;

fn rows(text: &str) -> Vec<Row> {
    text.lines().filter(|l| !l.starts_with('#')).map(|row| row.split(" | ").map(String::from).collect()).collect()
}

/// What a stock cluster said, with what ours owes where that is another answer.
fn owed(said: &str) -> String {
    let rows = rows(said);
    let known: BTreeMap<[&str; 3], &str> = rows.iter().map(|r| ([&*r[0], &*r[1], &*r[2]], &*r[3])).collect();
    let get = |entity: &str, operation: &str, place: &str| known.get(&[entity, operation, place]).copied();
    let one = |line: &str| {
        let [entity, operation, place, errno] = line.split(" | ").collect::<Vec<_>>()[..] else { return line.to_string() };
        let of = |list: &[&str], it: &str| list.is_empty() || list.contains(&it);
        let Some(row) = OURS.iter().find(|o| o.operation == operation && of(o.entities, entity) && of(o.places, place)) else {
            return line.to_string();
        };
        let due = match row.owed {
            Errno(errno) => errno,
            As(other) => get(other, operation, place).unwrap_or(errno),
            Source => {
                let source = place.split(" > ").next().unwrap_or_default().replace("ok_nosuch", "ok_o");
                if get(entity, "read", &source) == Some("0") { errno } else { "1" }
            }
            Named if get(entity, "mon", "auth rm client.nosuch") == Some("0") => "22",
            Named => "13",
            Instead(stock, ours) if errno == stock => ours,
            Instead(..) => errno,
        };
        if due == errno { line.to_string() } else { format!("{entity} | {operation} | {place} | {due} | {}", row.word) }
    };
    said.lines().map(|line| one(line) + "\n").collect()
}

/// Asks everything, or one part; takes minutes on a stock cluster, whose monitor thinks for a second about each change.
fn ask(conf: &Path, part: Option<&str>, limit: Duration) -> Result<String> {
    let script = root().join("suites/src/cases/caps.py");
    let script = script.to_str().context("the workspace's path is a text")?;
    let mut args = vec![script, conf.to_str().context("the path is a text")?];
    args.extend(part);
    let out = Pacific.run(conf, "/usr/bin/python3", &args, limit)?;
    ensure!(out.ok(), "the script ended with {}:\n{}", out.code, out.stderr);
    Ok(out.stdout)
}

/// Writes the record.
pub fn record(conf: &str, out: &str) -> Result<()> {
    let rows = owed(&ask(Path::new(conf), None, Duration::from_secs(3600))?);
    std::fs::write(out, format!("{HEAD}{rows}")).with_context(|| format!("writing {out}"))
}

fn matrix() -> Result<()> {
    let c = Cluster::start("caps-matrix", &[])?;
    let ask = |part| ask(&c.conf, Some(part), Duration::from_secs(300));
    ask("prepare")?;
    // Much of it is waiting for what is never answered.
    let parts: Vec<Result<String>> = std::thread::scope(|scope| {
        let asked: Vec<_> = ["objects", "monitor", "endpoints"].map(|part| scope.spawn(move || ask(part))).into();
        asked.into_iter().map(|part| part.join().expect("a script does not panic")).collect()
    });
    let ours = rows(&parts.into_iter().collect::<Result<String>>()?);
    let record = rows(&std::fs::read_to_string(root().join(RECORD))?);
    ensure!(record.len() >= 9000 && record.len() == ours.len(), "{} rows were recorded, {} were asked", record.len(), ours.len());
    let wrong: Vec<String> = record
        .iter()
        .zip(&ours)
        .filter(|(record, ours)| record[..4] != ours[..])
        .map(|(record, ours)| format!("record: {}    ours: {}", record.join(" | "), ours.join(" | ")))
        .collect();
    ensure!(wrong.is_empty(), "{} of {} rows differ:\n{}", wrong.len(), record.len(), wrong[..wrong.len().min(40)].join("\n"));
    c.stop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_in_which_ours_is_stricter_says_so() {
        let said = "# a: osd allow w\na | read | t2//ok_o | 1\na | copy_from | t2//ok_o > t1//x | 0\na | copy_from | t2//ok_nosuch > t1//x | 2\n\
                    b | read | t2//ok_o | 0\nb | copy_from | t2//ok_o > t1//x | 0\nb | hello.nosuch | t1//ok_o | 0\n\
                    g-r | mgr | pg stat | 0\ng-net-in | mgr | pg stat | 13\ng-net-out | mgr | pg stat | 13\n";
        let owed = owed(said);
        let changed: Vec<&str> = owed.lines().filter(|line| !said.contains(&format!("{line}\n"))).collect();
        assert_eq!(
            changed,
            [
                "a | copy_from | t2//ok_o > t1//x | 1 | stricter",
                "a | copy_from | t2//ok_nosuch > t1//x | 1 | stricter",
                "g-net-in | mgr | pg stat | 0 | granted",
            ]
        );
    }
    #[test]
    fn each_rule_has_rows_in_the_record() {
        let record = rows(&std::fs::read_to_string(root().join(RECORD)).unwrap());
        for rule in OURS {
            let is_its = |row: &&Row| row[1] == rule.operation && row.get(4).is_some_and(|word| word == rule.word);
            let entities: Vec<&String> = record.iter().filter(is_its).map(|row| &row[0]).collect();
            let named = rule.entities.iter().all(|entity| entities.iter().any(|e| e == entity));
            assert!(named && !entities.is_empty(), "{} of {:?}: no row differs", rule.operation, rule.entities);
        }
    }
}
