//! How the code reads: functions are short, files of the OSD's core don't go round in circles, no type is a hub, and a path stands where it is imported. What
//! is longer is a list, and stands here with what it lists; what is larger stands here with its bound, which may only fall.

mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tree::{root, sources};

/// Lines of a function that is no list.
const LINES_MAX: usize = 80;
/// Files of one import circle: a type, and its methods in the files of their subjects.
const CIRCLE_MAX: usize = 5;
/// The same where a path that is written in place counts as well as one that is imported. May only fall.
const CIRCLE_IN_PLACE_MAX: usize = 8;

/// Methods of a type, all files together.
const METHODS_MAX: usize = 80;
/// Types with more, by crate, and a hub of before: their bounds may only fall.
const HUBS: &[(&str, &str, usize)] = &[
    ("crush", "CrushMap", 81),
    ("mon-core", "Mon", 152),
    ("osd-core", "Control", 102),
    ("osd-core", "Exec", 120),
    ("osd-core", "Pg", 60),
    ("osd-core", "Shard", 117),
    ("sim", "Cluster", 131),
    ("store-block", "Core", 202),
];

/// Paths from the crate's root or from above that are written in place, in a crate that is not named below.
const IN_PLACE_MAX: usize = 20;
/// Crates with more: their bounds may only fall.
const IN_PLACE: &[(&str, usize)] = &[("classes", 40), ("lab", 40), ("mon-core", 80), ("osd-core", 27), ("store", 75), ("store-block", 40)];

/// Types in an `Rc` of the OSD's core, how often each is named at most, and the way out with a second thread of an OSD.
/// Counts may only fall, and no type is new: threads share an `Arc`, or a message.
const RCS: &[(&str, usize, &str)] = &[
    ("Budget", 3, "Arc: Control and the shell have it, permits are a request's"),
    ("Config", 7, "Arc: Control tells shards"),
    ("NotifyBudget", 4, "Arc: a bound of the OSD"),
    ("OsdMap", 16, "Arc: Control shows it to shards"),
    ("PgPool", 3, "a shard's own, once maps are an Arc"),
    ("RefCell<MapCache>", 3, "a lock, or a copy for each shard: Control writes it, shards read"),
    ("ScrubSlots", 2, "Arc: a bound of the OSD"),
    ("Self", 2, "of NotifyBudget and ScrubSlots"),
    ("Slots", 4, "Arc: a bound of the OSD"),
    ("str", 3, "a pool's name, a shard's own, once maps are an Arc"),
];

/// Functions that are lists: one entry after the other, each read by itself.
const LISTS: &[(&str, &str, &str)] = &[
    ("cephx/src/caps/mon.rs", "profile", "the monitor's profiles"),
    ("maps/src/pool.rs", "decode", "a pool's fields, by version"),
    ("maps/src/pool.rs", "encode", "a pool's fields, by version"),
    ("messages/src/kind.rs", "kind_name", "kinds of messages"),
    ("messages/tests/recorded.rs", "understand", "kinds of messages"),
    ("mon-core/src/cmd/fs_set.rs", "change_of", "settings of a file system"),
    ("mon-core/src/cmd/osd_pool_set.rs", "set", "settings of a pool"),
    ("mon-core/src/cmd/pool_json.rs", "pool", "a pool's fields"),
    ("mon-core/tests/as_stock_told_a_manager.rs", "a_stock_manager_is_told_what_a_stock_monitor_tells_it", "steps of a recorded session"),
    ("mon-core/tests/managers.rs", "a_stock_manager_takes_over_and_gives_back", "steps of a manager's life"),
    ("mon-core/tests/managers.rs", "commands_of_the_manager_are_handed_on_to_it", "commands and their answers"),
    ("osd-core/src/pg/reconcile/tests/rules.rs", "divergent_objects_become_what_the_rules_say", "rules"),
    ("osd-core/src/shard/peers.rs", "take_peer_message", "kinds of messages"),
    ("osd-core/tests/bounds.rs", "numbers_beyond_their_bounds", "operations with numbers that are too large"),
    ("sim/src/faults.rs", "fault", "kinds of faults"),
    ("store-block/src/data/apply.rs", "apply", "kinds of changes"),
    ("store-block/src/tests/crash/setting.rs", "of", "kinds of lives"),
    ("store-block/src/data/ops.rs", "encode", "kinds of changes"),
    ("store-block/src/data/queue/make.rs", "make_one", "operations of a transaction"),
    ("types/src/transaction_wire.rs", "put_op", "operations of a transaction"),
    ("types/tests/recorded.rs", "fuzz_recorded_and_blank_values", "types with an encoding"),
];

/// Functions and their lines, as rustfmt indents them: from `fn` to the brace that stands below it.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let modifiers = ["pub", "pub(crate)", "pub(super)", "pub(in", "const", "async", "unsafe", "default"];
        // `pub(in crate::pg)` is two words.
        let mut words = code.split(' ').skip_while(|word| modifiers.contains(word) || word.starts_with("crate::") && word.ends_with(')'));
        if words.next() != Some("fn") {
            continue;
        }
        let name: String = words.next().unwrap_or_default().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let indent = &line[..line.len() - code.len()];
        let is_over = |l: &str| l == format!("{indent}}}");
        let is_declared = |l: &str| l.starts_with(indent) && l.ends_with(';') && l[indent.len()..].starts_with([')', 'f', 'p']);
        let whole = code.ends_with('}') || code.ends_with(';');
        let len = if whole { 1 } else { lines[n..].iter().position(|l| is_over(l) || is_declared(l)).map_or(1, |end| end + 1) };
        found.push((name, len));
    }
    found
}

#[test]
fn functions_are_short_unless_they_are_lists() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    sources(&root().join("xtask"), &mut files);
    sources(&root().join("suites"), &mut files);
    let (mut long, mut seen, mut lists) = (Vec::new(), 0, BTreeSet::new());
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        for (name, lines) in functions(&text) {
            seen += 1;
            if lines <= LINES_MAX {
                continue;
            }
            match LISTS.iter().position(|(of, list, _)| file.ends_with(of) && *list == name) {
                Some(n) => drop(lists.insert(n)),
                None => long.push(format!("{}: {name} has {lines} lines", file.display())),
            }
        }
    }
    assert!(seen > 5000, "{seen} functions in {} files", files.len());
    assert!(long.is_empty(), "cut these, or say what they list:\n{}", long.join("\n"));
    let short: Vec<_> =
        LISTS.iter().enumerate().filter(|(n, _)| !lists.contains(n)).map(|(_, (file, name, _))| format!("{file}: {name}")).collect();
    assert!(short.is_empty(), "no longer long, or gone: {short:?}");
}

/// The modules of a crate by path, without tests.
fn modules(src: &Path) -> BTreeMap<String, String> {
    let mut files = Vec::new();
    sources(src, &mut files);
    let name = |file: &Path| {
        let path = file.strip_prefix(src).unwrap().with_extension("");
        let parts: Vec<String> = path.iter().map(|p| p.to_string_lossy().to_string()).filter(|p| p != "mod" && p != "lib").collect();
        parts.join("::")
    };
    let all = files.iter().map(|file| (name(file), fs::read_to_string(file).unwrap()));
    let all = all.filter(|(name, _)| !name.split("::").any(|part| part == "tests"));
    all.map(|(name, text)| (name, text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_string())).collect()
}

/// A text without comments, its `use` lines apart from the rest.
fn parts(text: &str) -> (Vec<String>, String) {
    let code: String = text.lines().map(|l| l.split("//").next().unwrap()).collect::<Vec<_>>().join(" ");
    let (mut uses, mut rest, mut from) = (Vec::new(), String::new(), 0);
    for (at, _) in code.match_indices("use ").filter(|(at, _)| *at == 0 || code[..*at].ends_with([' ', ';', '}', '{'])) {
        let Some(end) = code[at..].find(';').filter(|_| at >= from) else { continue };
        uses.push(code[at + 4..at + end].split_whitespace().collect::<Vec<_>>().join(" "));
        rest += &code[from..at];
        from = at + end;
    }
    rest += &code[from..];
    (uses, rest)
}

/// The paths that a text's `use` lines name, one each, without what they rename to.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    parts(text).0.iter().for_each(|path| expand(path, &mut found));
    found
}

/// The paths that a text names elsewhere.
fn in_place(text: &str) -> Vec<String> {
    let (_, rest) = parts(text);
    // How far something is seen names no neighbour.
    let rest = rest.replace("pub(in crate::", "pub(");
    let words = rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    words.map(|word| word.trim_matches(':')).filter(|word| word.contains("::")).map(str::to_string).collect()
}

fn expand(path: &str, out: &mut Vec<String>) {
    let Some((front, rest)) = path.split_once('{') else {
        return out.push(path.split(" as ").next().unwrap().trim().to_string());
    };
    let body = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut from) = (0, 0);
    for (n, c) in body.char_indices().chain([(body.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = body[from..n].trim();
                if !part.is_empty() {
                    expand(&format!("{front}{part}"), out);
                }
                from = n + 1;
            }
            _ => {}
        }
    }
}

/// The module that a path named in `of` lies in; `None` if it is of another crate, or of the crate's root.
fn target(path: &str, of: &str, all: &BTreeMap<String, String>) -> Option<String> {
    let mut parts: Vec<&str> = path.split("::").map(str::trim).collect();
    let mut base: Vec<&str> = of.split("::").filter(|p| !p.is_empty()).collect();
    match parts[0] {
        "crate" => {
            base.clear();
            parts.remove(0);
        }
        "super" | "self" => {
            while ["super", "self"].contains(parts.first()?) {
                if parts.remove(0) == "super" {
                    base.pop();
                }
            }
        }
        child => drop(all.get(&[&base[..], &[child]].concat().join("::"))?),
    }
    base.extend(parts);
    while !base.is_empty() {
        let name = base.join("::");
        if all.contains_key(&name) {
            return Some(name);
        }
        base.pop();
    }
    None
}

/// All that can be reached from a module.
fn reached(from: &str, uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let (mut seen, mut to_go) = (BTreeSet::new(), vec![from]);
    while let Some(module) = to_go.pop() {
        for next in uses.get(module).into_iter().flatten() {
            if seen.insert(next.clone()) {
                to_go.push(next);
            }
        }
    }
    seen
}

/// The files of the largest circle in which the modules of a crate go round, by the paths that `named` finds in each.
fn largest_circle(all: &BTreeMap<String, String>, named: impl Fn(&str) -> Vec<String>) -> BTreeSet<String> {
    let uses: BTreeMap<String, BTreeSet<String>> = all
        .iter()
        .map(|(name, text)| {
            let used = named(text).iter().filter_map(|path| target(path, name, all)).filter(|used| used != name).collect();
            (name.clone(), used)
        })
        .collect();
    assert!(uses["osd"].contains("control") && uses["pg::work::trim"].contains("pg::group"), "imports are read");
    let reached: BTreeMap<&String, BTreeSet<String>> = uses.keys().map(|name| (name, reached(name, &uses))).collect();
    let circle = |name| reached[name].iter().filter(|other| reached[*other].contains(name)).cloned().collect::<BTreeSet<String>>();
    uses.keys().map(circle).max_by_key(BTreeSet::len).unwrap_or_default()
}

#[test]
fn files_of_the_osds_core_import_each_other_in_small_circles_only() {
    let all = modules(&root().join("crates/osd-core/src"));
    assert!(all.len() > 100, "{} files", all.len());
    let both = |text: &str| [imports(text), in_place(text)].concat();
    for (largest, max) in [(largest_circle(&all, imports), CIRCLE_MAX), (largest_circle(&all, both), CIRCLE_IN_PLACE_MAX)] {
        println!("the largest circle: {largest:?}");
        assert!(largest.len() > 1, "a type and its methods in several files are a small one");
        assert!(largest.len() <= max, "{} files go round in a circle, {max} may: {largest:?}", largest.len());
    }
}

/// The methods of each type that a text defines outside of traits, as rustfmt indents them.
fn methods(text: &str, count: &mut BTreeMap<String, usize>) {
    let mut of = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("impl") {
            // Behind the parameters, which may have some of their own.
            let mut depth = 0;
            let head = rest.trim_start_matches(|c: char| {
                depth += i32::from(c == '<') - i32::from(c == '>');
                depth > 0 || c == '>'
            });
            let name = head.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next().unwrap_or_default();
            of = (!line.contains(" for ")).then(|| name.rsplit("::").next().unwrap_or_default().to_string());
        } else if line == "}" {
            of = None;
        } else if let Some(name) = &of
            && line.strip_prefix("    ").is_some_and(|l| !l.starts_with(' ') && functions(l).len() == 1)
        {
            *count.entry(name.clone()).or_default() += 1;
        }
    }
}

#[test]
fn no_type_becomes_a_hub() {
    let mut count = BTreeMap::new();
    let text = "impl<T: Into<u8>> A<T> {\n    pub(super) fn a(&self) {}\n    fn b() {\n        fn no() {}\n    }\n}\nimpl B for A {\n    fn no() {}\n}\n";
    methods(text, &mut count);
    assert_eq!(count, [("A".to_string(), 2)].into());
    let (mut seen, mut found) = (0, Vec::new());
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let (dir, mut count) = (entry.unwrap().path(), BTreeMap::new());
        modules(&dir.join("src")).values().for_each(|text| methods(text, &mut count));
        for (name, methods) in count {
            seen += methods;
            let bound = HUBS.iter().find(|(of, hub, _)| dir.ends_with(of) && *hub == name).map_or(METHODS_MAX, |(.., max)| *max);
            if methods > bound {
                found.push(format!("{}: {name} has {methods} methods, {bound} are its bound", dir.display()));
            }
        }
    }
    assert!(seen > 5000, "{seen} methods");
    assert!(found.is_empty(), "a part of these is an owner of its own:\n{}", found.join("\n"));
}

#[test]
fn paths_are_imported() {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let dir = entry.unwrap().path();
        let is_from_above = |path: &String| path.starts_with("crate::") || path.starts_with("super::");
        let count: usize =
            modules(&dir.join("src")).values().map(|text| in_place(text).iter().filter(|path| is_from_above(path)).count()).sum();
        let bound = IN_PLACE.iter().find(|(of, _)| dir.ends_with(of)).map_or(IN_PLACE_MAX, |(_, max)| *max);
        if count > bound {
            found.push(format!("{}: {count} paths are written in place, {bound} are its bound", dir.display()));
        }
    }
    assert!(found.is_empty(), "`use` shows on top what a file knows:\n{}", found.join("\n"));
}

/// Types that a text has in an `Rc`.
fn shared_in_a_thread(text: &str) -> Vec<String> {
    let (_, rest) = parts(text);
    let inner = |(at, found): (usize, &str)| {
        let (mut depth, from) = (1, at + found.len());
        let end = rest[from..].find(|c: char| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        });
        end.map(|end| rest[from..from + end].to_string())
    };
    let is_whole = |at: &(usize, &str)| !rest[..at.0].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    rest.match_indices("Rc<").filter(is_whole).filter_map(inner).collect()
}

#[test]
fn nothing_new_of_the_osds_core_is_bound_to_one_thread() {
    assert_eq!(shared_in_a_thread("use a::Rc; fn f(a: Rc<B<C>>, d: Arc<E>) -> Rc<str> {}"), ["B<C>", "str"]);
    let mut count = BTreeMap::new();
    for text in modules(&root().join("crates/osd-core/src")).values() {
        shared_in_a_thread(text).into_iter().for_each(|what| *count.entry(what).or_default() += 1);
    }
    let bound = |what: &str| RCS.iter().find(|(listed, ..)| *listed == what).map_or(0, |(_, max, _)| *max);
    let found: Vec<_> = count.iter().filter(|(what, n)| **n > bound(what)).map(|(what, n)| format!("Rc<{what}>: {n}")).collect();
    assert!(found.is_empty(), "threads share an Arc or a message:\n{}", found.join("\n"));
    let gone: Vec<_> = RCS.iter().filter(|(what, max, _)| count.get(*what).is_none_or(|n: &usize| n < max)).collect();
    assert!(gone.is_empty(), "fewer now, so lower the bound: {gone:?}");
}

/// Crates with clocks, threads, sockets or files; `cargo xtask lint` has the same list.
const SHELLS: &[&str] = &["say", "disk", "net", "osd", "mon", "client", "lab", "cli"];

/// True if `word` stands in `code` by itself.
fn stands(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part))
}

/// Files of a crate that its library has: none of those that only tests or a feature bring.
fn library(src: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    sources(src, &mut files);
    let mut gated = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in
            lines.windows(2).filter(|pair| pair[0].starts_with("#[cfg(") && (pair[0].contains("test") || pair[0].contains("feature")))
        {
            let name = pair[1].trim_start_matches("pub ").trim_start_matches("pub(crate) ").strip_prefix("mod ");
            let Some(name) = name.and_then(|rest| rest.strip_suffix(';')) else { continue };
            let own = file.file_name().is_some_and(|name| name == "mod.rs" || name == "lib.rs" || name == "main.rs");
            let folder = if own { file.parent().unwrap().to_path_buf() } else { file.with_extension("") };
            gated.extend([folder.join(format!("{name}.rs")), folder.join(name)]);
        }
    }
    files.retain(|file| !gated.iter().any(|gate| file.starts_with(gate)));
    files
}

/// What clippy.toml bans and this code names: by its path, by a name that it imports, or by the path's last two words.
fn banned<'a>(code: &str, bans: &'a [String]) -> Vec<&'a str> {
    let imported = imports(code);
    let named = |path: &&String| {
        let module = path.rmatch_indices("::").nth(1).map_or(path.as_str(), |(at, _)| &path[at + 2..]);
        stands(code, path) || imported.contains(*path) || stands(code, module)
    };
    bans.iter().filter(named).map(String::as_str).collect()
}

/// Clippy sees through other names, and artefacts of its own are built for it: `cargo xtask test --all` runs it. This looks in each run.
#[test]
fn cores_name_nothing_that_clippy_bans() {
    let text = fs::read_to_string(root().join("clippy.toml")).unwrap();
    let bans: Vec<String> =
        text.lines().filter_map(|l| l.trim().strip_prefix("{ path = \"")).map(|l| l.split('"').next().unwrap().to_string()).collect();
    assert!(bans.len() > 20, "bans are not found any more");
    assert_eq!(banned("use std::collections::{BTreeMap, HashMap};", &bans), ["std::collections::HashMap"]);
    assert_eq!(banned("let t = std::time::Instant::now();", &bans), ["std::time::Instant"]);
    assert_eq!(banned("use std::thread;\nthread::spawn(f);", &bans), ["std::thread::spawn"]);
    assert!(banned("use base::fixed::HashMap;\nsome_thread::spawn_all();", &bans).is_empty());
    let (mut seen, mut found) = (0, Vec::new());
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let dir = entry.unwrap().path();
        if SHELLS.iter().any(|shell| dir.ends_with(shell)) {
            continue;
        }
        for file in library(&dir.join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            // Where a core may, it says so; clippy looks at those.
            if text.contains("allow(clippy::disallowed") {
                continue;
            }
            seen += 1;
            let tests = |start: &str| text.find(&format!("#[cfg(test)]\n{start}mod tests {{"));
            let code = &text[..tests("").or_else(|| tests("pub ")).unwrap_or(text.len())];
            let code: String = code.lines().map(|l| l.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
            found.extend(banned(&code, &bans).iter().map(|ban| format!("{}: {ban}", file.display())));
        }
    }
    assert!(seen > 300, "{seen} files of cores");
    assert!(found.is_empty(), "clippy.toml says what to use instead:\n{}", found.join("\n"));
}
