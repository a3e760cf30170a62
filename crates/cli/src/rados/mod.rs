//! `humboldt rados`: objects of a pool, in the words of the program `rados`, as far as there is need for them without a stock client.
//!
//! Source of the facts: what the program of 16.2 prints and ends with.

mod df;
mod export;
mod lock;
mod more;
mod objects;
mod omap;

use crate::connect::{Connect, Words, block_on, errno_texts, exit, value};
use crate::{args, bench, ceph};
use anyhow::{Context, Result, ensure};
use clap::Parser;
use client::ClientError;
use std::process::ExitCode;
use types::errno;

/// The program's own options.
#[derive(Debug, Default)]
struct Options {
    connect: Connect,
    help: bool,
    version: bool,
    pool: Option<String>,
    namespace: String,
    /// The pool's snapshot that is read.
    snap: Option<String>,
    /// All namespaces.
    all: bool,
    format: Option<String>,
    offset: u64,
    block: Option<u64>,
    depth: Option<usize>,
    object_size: Option<u64>,
    keep: bool,
    /// Of the command `purge`: all of it is to go.
    really: bool,
    /// Of the command `cleanup`: the beginning of the names that go.
    prefix: Option<String>,
    lock: lock::How,
    words: Vec<String>,
}

/// What ends a command: a line on standard error, the next step below it, and the code 1.
#[derive(Debug)]
struct Failed(String);

type Done = Result<(), Failed>;

/// The exit code of a program that SIGPIPE has ended, as shells tell it.
const UNHEARD: i32 = 141;

impl Failed {
    /// What reads the output has left: there is nothing to say, and nothing to hear it.
    fn unheard() -> Self {
        Self(String::new())
    }
    fn with_next(self, step: &str) -> Self {
        Self(format!("{}\n  {step}", self.0))
    }
}

/// `error getting p/o: (2) No such file or directory`.
fn failed(what: impl std::fmt::Display, error: &ClientError) -> Failed {
    failure(format_args!("error {what}"), error)
}

/// The same with a beginning of its own.
fn failure(what: impl std::fmt::Display, error: &ClientError) -> Failed {
    let failed = match error.errno() {
        Some(errno) => Failed(format!("{what}: ({errno}) {}", errno_texts(errno).1)),
        None => Failed(format!("{what}: {error}")),
    };
    match next_step(error) {
        Some(step) => failed.with_next(&step),
        None => failed,
    }
}

/// What to do about an error of the cluster.
fn next_step(error: &ClientError) -> Option<String> {
    if let ClientError::Full(how) = error {
        return Some(how.clone());
    }
    Some(match error {
        ClientError::NoPool(name) => {
            format!("`humboldt ceph osd pool create {name} 32` makes it; `humboldt rados lspools` names those that are there")
        }
        other => match other.errno()? {
            errno::ENOENT => "`humboldt rados -p POOL ls` names the objects of a pool; with --all, of all namespaces",
            errno::EEXIST => "it is there already: `put` replaces what is in it, `rm` removes it",
            errno::ENODATA => "`listxattr OBJECT` names the attributes that an object has",
            errno::EPERM | errno::EACCES => {
                "the user's capabilities do not allow it: `humboldt ceph auth get NAME` shows them, `ceph auth caps` changes them"
            }
            errno::ENOSPC => "`humboldt ceph health detail` says what is full, and how to go on",
            errno::EDQUOT => "the pool's quota is reached: `humboldt ceph osd pool set-quota` changes it",
            errno::EOPNOTSUPP => "`humboldt ceph osd pool ls detail` says what kind of pool it is; pools with erasure codes are not served",
            _ => return None,
        }
        .into(),
    })
}

fn usage_of(words: &str) -> Failed {
    Failed(format!("usage: humboldt rados {words}"))
}

impl Options {
    fn parse(words: &[String]) -> Result<Self> {
        let mut o = Self::default();
        let mut words: Words = words.to_vec().into_iter().peekable();
        while let Some(word) = words.next() {
            let key = word.split_once('=').map_or(word.as_str(), |(key, _)| key).to_string();
            let number = |words: &mut Words| -> Result<u64> {
                let text = value(&word, words)?;
                args::parse_size(&text).map_err(|why| anyhow::anyhow!("{key}: {why}"))
            };
            match key.as_str() {
                "-h" | "--help" => o.help = true,
                "-v" | "--version" => o.version = true,
                "--yes-i-really-really-mean-it" => o.really = true,
                "-p" | "--pool" => o.pool = Some(value(&word, &mut words)?),
                "-N" | "--namespace" => o.namespace = value(&word, &mut words)?,
                "-s" | "--snap" => o.snap = Some(value(&word, &mut words)?),
                "--all" => o.all = true,
                "-f" | "--format" => o.format = Some(value(&word, &mut words)?),
                "--offset" => o.offset = number(&mut words)?,
                "-b" | "--block-size" => o.block = Some(number(&mut words)?),
                "-t" | "--concurrent-ios" => o.depth = Some(number(&mut words)? as usize),
                "-O" | "--object-size" => o.object_size = Some(number(&mut words)?),
                "--no-cleanup" => o.keep = true,
                "--prefix" => o.prefix = Some(value(&word, &mut words)?),
                "--lock-tag" | "--lock-cookie" | "--lock-description" | "--lock-duration" | "--lock-type" => {
                    let text = value(&word, &mut words)?;
                    o.lock.take(key.trim_start_matches('-'), text)?;
                }
                "--" => o.words.extend(words.by_ref()),
                _ if word.starts_with('-') && word != "-" && o.words.is_empty() => {
                    ensure!(o.connect.take(&word, &mut words)?, "unrecognized option {word}; -h or --help for usage");
                }
                // Behind the command a word may look like anything.
                _ if word.starts_with('-') && word != "-" && o.connect.take(&word, &mut words)? => {}
                _ => o.words.push(word),
            }
        }
        if let Some(format) = &o.format {
            ensure!(matches!(format.as_str(), "plain" | "json" | "json-pretty"), "unrecognized format: {format}");
        }
        Ok(o)
    }
    fn json(&self) -> Option<&str> {
        self.format.as_deref().filter(|f| f.starts_with("json"))
    }
}

/// A value as text, as `-f json` or `-f json-pretty` has it.
pub fn json_text(value: &serde_json::Value, format: &str) -> String {
    if format != "json-pretty" {
        return value.to_string();
    }
    let mut out = Vec::new();
    let mut writer = serde_json::Serializer::with_formatter(&mut out, serde_json::ser::PrettyFormatter::with_indent(b"    "));
    serde::Serialize::serialize(value, &mut writer).expect("a value can be written to memory");
    String::from_utf8_lossy(&out).into_owned() + "\n"
}

/// Runs the program on its words.
pub fn run(words: &[String]) -> ExitCode {
    let options = match Options::parse(words) {
        Ok(options) => options,
        Err(e) => {
            say::eprintln!("humboldt rados: {e:#}");
            return exit(1);
        }
    };
    if options.help {
        print_help();
        return ExitCode::SUCCESS;
    }
    if options.version {
        return ceph::print_version();
    }
    if options.words.is_empty() {
        say::eprintln!("humboldt rados: -h or --help for usage");
        return exit(1);
    }
    if options.words[0] == "bench" {
        return load(&options);
    }
    match block_on(serve(&options)).and_then(|r| r) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(Failed(why))) if why.is_empty() => exit(UNHEARD),
        Ok(Err(Failed(why))) => {
            say::eprintln!("{why}");
            exit(1)
        }
        Err(e) => {
            say::eprintln!("couldn't connect to cluster: {e:#}");
            crate::advice::print(&e);
            exit(1)
        }
    }
}

async fn serve(options: &Options) -> Result<Done> {
    let cluster = options.connect.open().await?;
    let done = objects::run(&cluster, options).await;
    cluster.shutdown();
    Ok(done)
}

const BENCH_USAGE: &str = "humboldt rados -p POOL bench SECONDS write|seq|rand";

/// `bench SECONDS write|seq|rand`: what `humboldt bench` does, with the other program's defaults.
fn load(o: &Options) -> ExitCode {
    let run = || -> Result<()> {
        let (seconds, mode) = (o.words.get(1), o.words.get(2));
        let (Some(seconds), Some(mode)) = (seconds, mode) else { anyhow::bail!("usage: {BENCH_USAGE}") };
        let pool = o.pool.as_ref().context("pool name was not specified: name one with -p")?;
        let block = o.block.unwrap_or(4 << 20);
        let mut line: Vec<String> =
            ["humboldt", "bench", mode, "-s", seconds, "-p", pool, "-n", o.connect.name()].map(String::from).to_vec();
        line.extend(["-b".into(), block.to_string(), "-t".into(), o.depth.unwrap_or(16).to_string()]);
        line.extend(["--object-size".into(), o.object_size.unwrap_or(block).to_string()]);
        if o.keep {
            line.push("--keep".into());
        }
        if let Some(conf) = o.connect.conf_path() {
            line.extend(["-c".into(), conf.display().to_string()]);
        }
        // The words are not the user's own: the error's first line says what is wrong with theirs.
        let parsed = args::Args::try_parse_from(line).map_err(|e| {
            let text = e.to_string();
            anyhow::anyhow!("{}; usage: {BENCH_USAGE}", text.lines().next().unwrap_or_default().trim_start_matches("error: "))
        })?;
        match parsed.command {
            args::Command::Bench(args) => bench::bench(&args),
            _ => unreachable!("the line says bench"),
        }
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say::eprintln!("error during benchmark: {e:#}");
            crate::advice::print(&e);
            exit(1)
        }
    }
}

fn print_help() {
    say::println!(
        "usage: humboldt rados [options] COMMAND...\n\n\
         Objects of a cluster, in the words of the program `rados`.\n\n\
         pools:\n\
         \x20 lspools                             names of all pools\n\
         \x20 df                                  objects, bytes and operations of each pool, and the cluster's\n\n\
         objects of a pool (-p):\n\
         \x20 ls [-]                              names (with --all: of all namespaces)\n\
         \x20 put OBJECT FILE [--offset N]        write a file; - is standard input\n\
         \x20 append OBJECT FILE\n\
         \x20 get OBJECT FILE                     read into a file; - is standard output\n\
         \x20 stat OBJECT                         size and time of the last write\n\
         \x20 create OBJECT                       fails if it is there\n\
         \x20 truncate OBJECT SIZE\n\
         \x20 rm OBJECT...\n\
         \x20 setxattr OBJECT NAME [VALUE]        getxattr OBJECT NAME, rmxattr OBJECT NAME, listxattr OBJECT\n\
         \x20 setomapval OBJECT KEY [VALUE]       getomapval OBJECT KEY, rmomapkey OBJECT KEY, listomapkeys OBJECT, listomapvals OBJECT\n\
         \x20 setomapheader OBJECT [VALUE]        getomapheader OBJECT; clearomap OBJECT removes all keys\n\
         \x20 listwatchers OBJECT                 clients that watch it\n\
         \x20 cp OBJECT OBJECT                    with attributes and omap\n\
         \x20 mksnap SNAPSHOT                     rmsnap SNAPSHOT, lssnap: snapshots of the pool; -s SNAPSHOT reads one\n\
         \x20 rollback OBJECT SNAPSHOT            the object becomes what it was then\n\
         \x20 lock list OBJECT                    lock info|get OBJECT LOCK, lock break OBJECT LOCK CLIENT\n\
         \x20 export [FILE]                       the pool as a stream that the stock program's import reads; - is standard output\n\
         \x20 list-inconsistent-pg POOL           groups in which a scrub found errors\n\
         \x20 bench SECONDS write|seq|rand        -b BYTES, -t OPERATIONS, -O BYTES of an object, --no-cleanup\n\
         \x20 cleanup [--prefix NAME]             removes what a bench left\n\
         \x20 purge POOL --yes-i-really-really-mean-it    removes all objects of a pool\n\n\
         options:\n\
         \x20 -h, --help                 -v, --version\n\
         \x20 -p, --pool NAME            -N, --namespace NAME, -s, --snap NAME\n\
         \x20 -f, --format FORMAT        json or json-pretty, for df and ls\n\
         \x20 -c, --conf FILE            ceph.conf; unless given: CEPH_CONF, /etc/ceph/ceph.conf, ceph.conf, humboldt-data/ceph.conf\n\
         \x20 --lock-cookie TEXT         --lock-tag TEXT, --lock-description TEXT, --lock-duration SECONDS, --lock-type exclusive|shared\n\
         \x20 -n, --name TYPE.ID         --id ID, -k/--keyring FILE, -m/--mon-host ADDRESS, --connect-timeout SECONDS"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_words_are_told_apart() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        let o = Options::parse(&words("-p p put o - --offset 4K -N n")).unwrap();
        assert_eq!((o.pool.as_deref(), o.namespace.as_str(), o.offset), (Some("p"), "n", 4096));
        assert_eq!(o.words, ["put", "o", "-"]);
        assert_eq!(Options::parse(&words("-p p setxattr o a -- -5")).unwrap().words, ["setxattr", "o", "a", "-5"]);
        for (line, say) in [
            ("--nosuch ls", "unrecognized option --nosuch"),
            ("-f csv df", "unrecognized format: csv"),
            ("-b x bench", "-b: give a number of bytes"),
        ] {
            let error = format!("{:#}", Options::parse(&words(line)).unwrap_err());
            assert!(error.contains(say), "{line}: {error}");
        }
    }
}
