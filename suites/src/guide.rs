//! The runnable blocks of the guide and of README: what a page says to type is typed, and what it shows must come.
//!
//! ````text
//! ```console,run
//! $ humboldt up &
//! ready in 0.17 s: monitor at 127.0.0.1:3300, ...
//! ```
//! ````
//! `<!-- run: COMMAND -->` is a command that the page does not show, and `<!-- release: 18.2 -->` names the stock programs that it takes (16.2 unless it
//! does); these see folders of their own as `/etc/ceph` and `/var/lib/ceph`.
//!
//! A page runs from top to bottom in one shell, in an empty folder, with a network and process numbers of its own: whatever it starts ends with it. A line
//! that is `…` stands for any number of lines. Ids, keys, times, sizes and other measured numbers count as equal ([`plain`]). A command that only looks is
//! run again until it shows what the page shows; after one that ends in `&` its output is waited for.

use crate::clients::{Release, daemons, pacific_gateways, rbd_mirror, reef_radosgw};
use crate::cluster::binary;
use crate::pace::as_at_rest;
use crate::run::root;
use anyhow::{Context, Result, ensure};
use regex_lite::Regex;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a command may take, and how long a state may take to come.
const PATIENCE: Duration = Duration::from_secs(90);
const FENCE: &str = "```console,run";
/// What a page stands in place of: the name that the machine has while it runs.
const HOST: &str = "node1";

/// One command of a page, and the lines that it shows, each at its line number.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    line: usize,
    command: String,
    shown: Vec<String>,
}

/// The commands in a page's runnable blocks.
fn steps(page: &str) -> Vec<Step> {
    let (mut steps, mut inside, mut goes_on): (Vec<Step>, bool, bool) = (Vec::new(), false, false);
    for (n, line) in page.lines().enumerate() {
        match (inside, line) {
            (false, FENCE) => inside = true,
            (false, line) if line.starts_with("<!-- run: ") => {
                let command = line.trim_start_matches("<!-- run: ").trim_end_matches("-->").trim();
                steps.push(Step { line: n + 1, command: command.into(), shown: Vec::new() });
            }
            (true, "```") => inside = false,
            (true, line) => {
                let last = steps.last_mut();
                if let (true, Some(step)) = (goes_on, last) {
                    step.command = format!("{}\n{line}", step.command);
                } else if let Some(command) = line.strip_prefix("$ ") {
                    steps.push(Step { line: n + 1, command: command.to_string(), shown: Vec::new() });
                } else if let Some(step) = steps.last_mut() {
                    step.shown.push(line.to_string());
                }
                goes_on = line.ends_with('\\');
            }
            (false, _) => {}
        }
    }
    steps
}

static MEASURED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rules = [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
        (r"AQ[A-Za-z0-9+/]{30,}=*", "<key>"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*", "<time>"),
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ [\d:]+ \d{4}", "<time>"),
        // An OSD that is told to end keeps the map that says so, if that comes in time: two objects more on the page about backups.
        (r"\b(13 objects, 12|15 objects, 14) blocks of 4 KiB", "13 or 15 objects"),
        (r"\b\d+(\.\d+)? (B|KiB|MiB|GiB|TiB)", "<size>"),
        // How a study's figure compares, in brackets behind it.
        (r" \([^()]* x[0-9.e+-]+ \[[^\]]*\][^()]*\)", ""),
        (r"\b\d+(\.\d+)?(e\d+)? (IOPS|bytes written a byte)", "<rate>"),
        (r"\b\d+(\.\d+)? ?(s|sec|ms|us|seconds)\b", "<span>"),
        (r"\b\d+\.\d+(e-?\d+)?", "<n>"),
        (r"\b\d{4,}\b", "<n>"),
        (r"\bepoch \d+", "epoch <n>"),
        (r"\babout \d+ minutes", "about <n> minutes"),
        (r"\be\d+\b", "e<n>"),
        (r"[ \t]+", " "),
        (r"-{4,}", "----"),
    ];
    rules.map(|(rule, by)| (Regex::new(rule).expect("it is one"), by)).to_vec()
});

/// A line without what differs from run to run.
fn plain(line: &str) -> String {
    let plain = MEASURED.iter().fold(line.trim().to_string(), |line, (rule, by)| rule.replace_all(&line, *by).into_owned());
    // A number that is measured is of one digit now and of two then: what stands in columns keeps no width.
    let plain = plain.trim();
    let is_number = |word: &str| word == "<n>" || word.bytes().all(|b| b.is_ascii_digit());
    let mut words = plain.split(' ');
    match words.next() {
        // A row of a table of figures: what was measured behind its number has as many digits as the machine is fast.
        Some(first) if plain.contains("<n>") && is_number(first) && words.clone().all(is_number) => {
            words.fold(first.to_string(), |row, _| row + " <n>")
        }
        _ => plain.to_string(),
    }
}

/// True if what came is what is shown.
fn agree(shown: &[String], came: &[String]) -> bool {
    match shown.split_first() {
        None => came.iter().all(|line| line.trim().is_empty()),
        Some((line, rest)) if line.trim() == "…" => (0..=came.len()).any(|skip| agree(rest, &came[skip..])),
        Some((line, rest)) => came.split_first().is_some_and(|(first, others)| plain(line) == plain(first) && agree(rest, others)),
    }
}

/// True for a command that changes nothing, and shows a state that may still come.
fn only_looks(command: &str) -> bool {
    const LOOKS: [&str; 20] = [
        "humboldt ceph health",
        "ceph -s",
        "ceph status",
        "ceph health",
        "ceph df",
        "ceph osd tree",
        "ceph osd df",
        "ceph osd stat",
        "ceph pg ",
        "ceph mgr stat",
        "ceph mds stat",
        "rados df",
        "rados -p",
        "rbd ls",
        "rbd status",
        "rbd mirror image status",
        "rbd mirror pool status",
        "radosgw-admin sync status",
        "cat ",
        "curl -s",
    ];
    !command.contains('&') && LOOKS.iter().any(|look| command.starts_with(look)) && !command.contains(" put ") && !command.contains(" rm ")
}

/// A shell of a page's own.
struct Shell {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    backgrounds: usize,
    dir: PathBuf,
}

const MARK: &str = "----guide-step-ended";

impl Shell {
    fn start(dir: &Path, release: Release) -> Result<Self> {
        let _ = std::fs::remove_dir_all(dir);
        let bin = dir.join(".bin");
        std::fs::create_dir_all(&bin)?;
        std::os::unix::fs::symlink(binary(), bin.join("humboldt"))?;
        let chroot = release.chroot().map(|root| root.display().to_string());
        if let Some(root) = &chroot {
            stand_ins(&bin, root)?;
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut child = Command::new("unshare")
            .args(["--net", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child=KILL", "bash", "--norc", "-s"])
            .current_dir(dir)
            .env("PATH", path)
            .env("LC_ALL", "C.UTF-8")
            .env("XDG_CACHE_HOME", dir.join(".cache"))
            .env_remove("CEPH_CONF")
            .env_remove("CEPH_ARGS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting a shell by unshare, which needs root")?;
        let (send, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let stdin = child.stdin.take().expect("piped");
        let mut shell = Self { child, stdin, lines, backgrounds: 0, dir: dir.to_path_buf() };
        shell.run(&format!("ip link set lo up; hostname {HOST}"))?;
        let roots = [Some(String::new()), chroot];
        for root in roots.iter().flatten() {
            for folder in ["/etc/ceph", "/var/lib/ceph", "/var/log/ceph", "/run/ceph"] {
                let own = dir.join(format!(".root{folder}"));
                std::fs::create_dir_all(&own)?;
                shell.run(&format!("mkdir -p {root}{folder}; mount --bind {} {root}{folder}", own.display()))?;
            }
        }
        Ok(shell)
    }

    /// What a command prints, errors among it.
    fn run(&mut self, command: &str) -> Result<Vec<String>> {
        writeln!(self.stdin, "{{ {command}\n}} </dev/null 2>&1; printf '\\n%s\\n' {MARK}").context("the shell ended")?;
        let (end, mut came) = (Instant::now() + as_at_rest(PATIENCE), Vec::new());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).with_context(|| format!("`{command}` does not end; so far: {came:?}"))?;
            if line == MARK {
                break;
            }
            came.push(line);
        }
        // The end's own newline, where the command wrote one.
        if came.last().is_some_and(String::is_empty) {
            came.pop();
        }
        Ok(came)
    }

    /// Starts a command that goes on, and gives what it printed as soon as `good` says so.
    fn start_background(&mut self, command: &str, good: impl Fn(&[String]) -> bool) -> Result<Vec<String>> {
        self.backgrounds += 1;
        let log = self.dir.join(format!(".background{}", self.backgrounds));
        writeln!(self.stdin, "{command} >{} 2>&1 </dev/null &", log.display()).context("the shell ended")?;
        let end = Instant::now() + as_at_rest(PATIENCE);
        if good(&[]) {
            return Ok(Vec::new());
        }
        loop {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let came: Vec<String> = text.lines().map(String::from).collect();
            if (text.ends_with('\n') && good(&came)) || Instant::now() > end {
                return Ok(came);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What a step prints: what the page shows, if that comes in time.
    fn step(&mut self, step: &Step, update: bool) -> Result<Vec<String>> {
        if let Some(command) = step.command.strip_suffix('&') {
            return self.start_background(command.trim(), |came| {
                if update { step.shown.is_empty() || !came.is_empty() } else { agree(&step.shown, came) }
            });
        }
        let end = Instant::now() + as_at_rest(PATIENCE);
        loop {
            let came = self.run(&step.command)?;
            if agree(&step.shown, &came) || !only_looks(&step.command) || Instant::now() > end {
                return Ok(came);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Scripts in `bin` that run stock programs of a chroot as if they were here.
fn stand_ins(bin: &Path, root: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let programs = [
        "ceph",
        "rados",
        "rbd",
        "ceph-mon",
        "ceph-mgr",
        "ceph-osd",
        "ceph-authtool",
        "monmaptool",
        "crushtool",
        "rbd-mirror",
        "radosgw",
        "radosgw-admin",
    ];
    for program in programs {
        let path = bin.join(program);
        // By its whole path: this folder is seen in the chroot, too.
        let script = format!("#!/bin/sh\nexec chroot {root} /bin/sh -c 'cd \"$0\" && exec \"$@\"' \"$PWD\" /usr/bin/{program} \"$@\"\n");
        std::fs::write(&path, script)?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
    }
    Ok(())
}

/// What README says to type, in its order.
pub fn commands_of_readme() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root().join("README.md"))?;
    Ok(steps(&text).into_iter().map(|step| step.command).collect())
}

/// The guide's pages, in the order of their names.
pub fn pages() -> Result<Vec<PathBuf>> {
    let mut pages: Vec<PathBuf> = std::fs::read_dir(root().join("docs/src"))?
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
        .collect();
    pages.sort();
    Ok(pages)
}

/// Runs README and every page of those that has something to run, below `shared`; those that wait for stock daemons beside the others. With `update` the pages
/// get what came, in place of what they show, where that differs.
pub fn run(shared: &Path, is_wanted: impl Fn(&str) -> bool, update: bool) -> Result<usize> {
    let mut lanes: [Vec<Page>; 2] = Default::default();
    for path in pages()?.into_iter().chain([root().join("README.md")]) {
        let page = Page::read(path)?;
        if !page.steps.is_empty() && is_wanted(&page.name) {
            lanes[usize::from(page.release != Release::Pacific)].push(page);
        }
    }
    if lanes[0].iter().any(|page| page.text.contains("radosgw ")) {
        pacific_gateways()?;
    }
    if !lanes[1].is_empty() {
        lanes[1].iter().try_for_each(|page| daemons(page.release))?;
        let names = |program: &str| lanes[1].iter().any(|page| page.text.contains(program));
        if names("radosgw ") {
            reef_radosgw()?;
        }
        if names("rbd-mirror ") {
            rbd_mirror(Release::Reef)?;
        }
    }
    let lane = |pages: &[Page]| pages.iter().map(|page| page.run(shared, update)).sum::<Result<usize>>();
    let [here, stock] = &lanes;
    let count = std::thread::scope(|scope| {
        let stock = scope.spawn(|| lane(stock));
        let here = lane(here);
        Ok::<_, anyhow::Error>(here? + stock.join().expect("a lane does not panic")?)
    })?;
    ensure!(count > 0, "no page of the guide has anything to run");
    Ok(count)
}

/// A page of the guide, as it is run.
struct Page {
    path: PathBuf,
    name: String,
    text: String,
    release: Release,
    steps: Vec<Step>,
}

impl Page {
    fn read(path: PathBuf) -> Result<Self> {
        let text = std::fs::read_to_string(&path)?;
        let name = path.file_stem().and_then(|n| n.to_str()).context("a page's name")?.to_string();
        let release = Release::ALL.into_iter().find(|r| text.contains(&format!("<!-- release: {} -->", r.version())));
        Ok(Self { path, name, release: release.unwrap_or(Release::Pacific), steps: steps(&text), text })
    }

    /// Types all of it, and gives how many commands that were.
    fn run(&self, shared: &Path, update: bool) -> Result<usize> {
        let started = Instant::now();
        let mut shell = Shell::start(&shared.join(format!("guide-{}", self.name)), self.release)?;
        let mut lines: Vec<String> = self.text.lines().map(String::from).collect();
        // From the end on, so that lines in front keep their numbers.
        let mut new: Vec<(std::ops::Range<usize>, Vec<String>)> = Vec::new();
        for step in &self.steps {
            let came = shell.step(step, update)?;
            if agree(&step.shown, &came) {
                continue;
            }
            ensure!(
                update,
                "{}.md, line {}: `{}` shows\n{}\nbut the page says\n{}\n(`cargo xtask docs --update` puts what comes into the page)",
                self.name,
                step.line,
                step.command,
                came.join("\n"),
                step.shown.join("\n")
            );
            let first = step.line - 1 + step.command.lines().count();
            new.push((first..first + step.shown.len(), came));
        }
        for (range, came) in new.iter().rev() {
            lines.splice(range.clone(), came.iter().map(|l| l.trim_end().to_string()));
        }
        if !new.is_empty() {
            std::fs::write(&self.path, lines.join("\n") + "\n")?;
        }
        println!("guide: {}, {} commands, {} s", self.name, self.steps.len(), started.elapsed().as_secs());
        Ok(self.steps.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks that are shown and not run: the page, their first command, and why.
    const NOT_RUN: &[(&str, &str, &str)] = &[
        (
            "README",
            "cargo install --locked --path crates/cli",
            "it builds the program anew; what `cargo run` builds is the program under test",
        ),
        ("block-devices", "qemu-system-x86_64 -drive", "a virtual machine: the case `qemu_boots_from_an_image`"),
        ("block-devices", "rbd map disk1", "a kernel with rbd: the case `linux_kernel_client`"),
        ("devices", "humboldt up --data /dev/nvme0n1", "a disk that may be written over: cases do it on loop devices"),
        ("devices", "udevadm info", "rules of the machine's own udev and systemd"),
        ("devices", "humboldt up --data /dev/sdb", "three disks that may be written over"),
        ("install", "sudo apt install", "a service of the machine's own systemd: the case of the package installs it elsewhere"),
        ("install", "podman load", "images of a release: the case `images_under_podman` makes and runs them"),
        ("install", "git clone", "a clone and a build, from a place that each reader names"),
        ("measuring", "humboldt lab setup releases", "packages and chroots of three releases of stock Ceph"),
        ("measuring", "humboldt lab run depths --quick", "minutes of measuring; the block above it runs a study"),
        (
            "objects-and-files",
            "humboldt up --s3 --bucket photos --fs",
            "gateways that the rest of the page starts by hand: the case `s3_and_files_by_one_word`",
        ),
    ];

    /// The first command of each block that a page shows and that is not run.
    fn not_run(page: &str) -> Vec<&str> {
        let lines: Vec<&str> = page.lines().collect();
        let is_shown = |n: &usize| lines[*n] == "```console";
        (0..lines.len()).filter(is_shown).filter_map(|n| lines.get(n + 1)?.trim_start_matches(['$', '#']).trim().into()).collect()
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(String::from).collect()
    }

    #[test]
    fn each_block_is_run_or_has_its_reason() {
        let mut seen = Vec::new();
        for path in pages().expect("pages").into_iter().chain([root().join("README.md")]) {
            let page = Page::read(path).expect("a page");
            for command in not_run(&page.text) {
                let row = NOT_RUN.iter().position(|(of, first, _)| *of == page.name && command.starts_with(first));
                seen.push(row.unwrap_or_else(|| panic!("{}.md: `{command}` is not run: make it `console,run`, or say why not", page.name)));
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..NOT_RUN.len()).collect::<Vec<_>>(), "each row is of one block that is there");
    }

    #[test]
    fn cases_that_a_reason_names_are_there() {
        let all: Vec<&str> = crate::cases::cases().iter().map(|case| case.name).collect();
        for (page, command, why) in NOT_RUN {
            for name in why.split('`').skip(1).step_by(2).filter(|name| name.contains('_')) {
                assert!(all.contains(&name), "{page}.md: `{command}` is left to `{name}`, and no case is called so");
            }
        }
    }

    #[test]
    fn blocks_are_commands_with_what_they_show() {
        let page = "text\n```console,run\n$ a \\\n  b\none\ntwo\n$ c &\n```\n```console\n$ not run\n```\n";
        let step = |line, command: &str, shown: &str| Step { line, command: command.into(), shown: lines(shown) };
        assert_eq!(steps(page), [step(3, "a \\\n  b", "one\ntwo"), step(7, "c &", "")]);
    }

    #[test]
    fn what_is_measured_is_equal_and_nothing_else() {
        let good = [("ready in 0.17 s", "ready in 12.9 s"), ("osd.0 up (since 2s)", "osd.0 up (since 11s)"), ("a\n…\nz", "a\nb\nc\nz")];
        let fsck = [("13 objects, 12 blocks of 4 KiB, 0 shared", "15 objects, 14 blocks of 4 KiB, 0 shared")];
        let rows = [("    1   28771    117.85    555.9", "    1     982      4.02  16191.9")];
        let study = [(
            "humboldt  415 IOPS, mean 150 us, 1.20 bytes written a byte",
            "humboldt  9.7 IOPS (can't tell x7.14 [7.1-124]: 1 round, fewer than 3), mean 130000 us, 12 bytes written a byte",
        )];
        assert!(good.iter().chain(&fsck).chain(&rows).chain(&study).all(|(a, b)| agree(&lines(a), &lines(b))));
        let bad = [
            ("1 up", "2 up"),
            ("HEALTH_OK", "HEALTH_WARN"),
            ("a\n…\nz", "a\nb"),
            ("a", "a\nb"),
            ("", "an error"),
            ("1 982 4.02", "2 982 4.02"),
            ("12 objects, 11 blocks of 4 KiB, 0 shared", "13 objects, 12 blocks of 4 KiB, 0 shared"),
            ("0 blocks leaked", "1 blocks leaked"),
            ("415 IOPS, 12.1 us CPU/op", "415 IOPS"),
        ];
        assert!(bad.iter().all(|(a, b)| !agree(&lines(a), &lines(b))));
    }
}
