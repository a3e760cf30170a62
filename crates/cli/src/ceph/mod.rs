//! `humboldt ceph`: any command of a cluster, its managers and its daemons, in the words of the program `ceph`.
//!
//! Which commands there are the cluster says itself (`client::describe`); here is what the program does with its own options. Works against stock
//! clusters, too. Source of the facts: what the program of 16.2 prints and ends with.

mod admin;
mod options;
mod target;
mod watch;

use crate::connect::{block_on, errno_texts, exit, refused};
use anyhow::{Context, Result};
use bytes::Bytes;
use client::describe::{self, Description, flag};
use client::{Cluster, CommandOutput};
use options::Options;
use serde_json::{Map, Value, json};
use std::io::{BufRead, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::time::Duration;
use target::Target;
use types::errno::{EINVAL, ENOENT};

/// Runs the program on its words.
pub fn run(words: &[String]) -> ExitCode {
    let options = match Options::parse(words) {
        Ok(options) => options,
        Err(e) => {
            say::eprintln!("humboldt ceph: {e:#}");
            crate::advice::print(&e);
            return exit(EINVAL);
        }
    };
    if options.version {
        return print_version();
    }
    match block_on(async { serve(&options).await }).and_then(|r| r) {
        Ok(code) => exit(code),
        Err(e) => {
            say::eprintln!("humboldt ceph: {e:#}");
            crate::advice::print(&e);
            exit(refused(&e).into())
        }
    }
}

/// The release of the words, in the form that tools look for, and ours.
pub fn print_version() -> ExitCode {
    say::println!("{} (humboldt {})", mon::CEPH_VERSION, env!("CARGO_PKG_VERSION"));
    ExitCode::SUCCESS
}

async fn serve(options: &Options) -> Result<i32> {
    if let Some((socket, words)) = admin::wanted(options)? {
        return admin::run(&socket, &words, options);
    }
    if options.help {
        options::print_help();
        if options.words.is_empty() && options.connect.conf(options.connect.name()).is_err() {
            return Ok(0);
        }
    }
    let cluster = options.connect.open().await?;
    let code = on(&cluster, options).await;
    cluster.shutdown();
    code
}

/// With a cluster at hand.
async fn on(cluster: &Cluster, options: &Options) -> Result<i32> {
    if options.help {
        return help(cluster, options).await;
    }
    if let Some(level) = &options.watch {
        return watch::run(cluster, level, options).await;
    }
    let input = match options.input.as_deref() {
        None => Bytes::new(),
        Some(path) => read(path).with_context(|| format!("Can't open input file {path}"))?,
    };
    let mut words = options.words.clone();
    if options.status {
        words.insert(0, "status".into());
    }
    if words.is_empty() {
        return talk(cluster, options).await;
    }
    if words[0] == "ping" {
        return ping(cluster, &words).await;
    }
    command(cluster, words, options, input).await
}

fn read(path: &str) -> std::io::Result<Bytes> {
    if path != "-" {
        return std::fs::read(path).map(Bytes::from);
    }
    let mut all = Vec::new();
    std::io::stdin().read_to_end(&mut all)?;
    Ok(all.into())
}

/// One command line, on each daemon that it is for.
async fn command(cluster: &Cluster, words: Vec<String>, options: &Options, input: Bytes) -> Result<i32> {
    let (targets, words) = match target::of(cluster, words).await {
        Ok(found) => found,
        Err(why) => {
            say::eprintln!("error handling command target: {why}\n  name one as osd.0, osd.*, mon.a, mgr, or a placement group as 2.1f");
            return Ok(1);
        }
    };
    if words.is_empty() {
        say::eprintln!("\"ceph tell\" requires additional arguments. Try \"ceph tell <name> <command> [options...]\" instead.");
        return Ok(EINVAL);
    }
    let mut code = 0;
    for target in &targets {
        let prefix = if targets.len() > 1 { format!("{target}: ") } else { String::new() };
        let answer = if words == ["help"] && target.is_daemon() {
            let all = descriptions(cluster, target).await;
            all.map(|all| CommandOutput { result: 0, status: String::new(), output: describe::table(&all, "", width()).into() })
        } else {
            one(cluster, target, &words, options, &input).await
        };
        match answer {
            Ok(answer) => {
                let ended = show(&answer, &prefix, options)?;
                if let Some(next) = next_step(&words, ended) {
                    say::eprintln!("  {next}");
                }
                code = ended.max(code);
            }
            Err(answer) => {
                show(&answer, &prefix, options)?;
                code = -answer.result;
                if code != EINVAL
                    && let Some(next) = target.advice(cluster)
                {
                    say::eprintln!("  {next}");
                }
            }
        }
    }
    Ok(code)
}

/// Where what the words name can be looked up, if the cluster says that it has no such thing.
fn next_step(words: &[String], errno: i32) -> Option<&'static str> {
    const LISTS: [(&str, i32, &str); 9] = [
        ("osd pool ", ENOENT, "`ceph osd pool ls` names the pools, `ceph osd crush rule ls` the rules"),
        ("osd crush rule ", ENOENT, "`ceph osd crush rule ls` names the rules"),
        ("osd crush ", ENOENT, "`ceph osd tree` shows the OSDs and where they stand"),
        ("osd erasure-code-profile ", ENOENT, "`ceph osd erasure-code-profile ls` names the profiles"),
        ("osd ", ENOENT, "`ceph osd tree` lists the OSDs"),
        ("auth ", ENOENT, "`ceph auth ls` lists the users"),
        ("config-key ", ENOENT, "`ceph config-key ls` lists the keys"),
        ("config ", ENOENT, "`ceph config ls` lists all options"),
        ("config set ", EINVAL, "`ceph config ls` lists all options, `ceph config help OPTION` says what one takes"),
    ];
    let line = words.join(" ");
    LISTS.iter().find(|(start, of, _)| line.starts_with(start) && errno == *of).map(|(_, _, next)| *next)
}

fn failed(errno: i32, status: impl Into<String>) -> CommandOutput {
    CommandOutput { result: -errno, status: status.into(), output: Bytes::new() }
}

/// What a daemon says that it understands.
async fn descriptions(cluster: &Cluster, target: &Target) -> Result<Vec<Description>, CommandOutput> {
    let request = json!({"prefix": "get_command_descriptions"}).to_string();
    let problem = |errno: i32| failed(errno, format!("problem getting command descriptions from {target}"));
    let answer = target.send(cluster, &request, Bytes::new()).await.map_err(|e| problem(e.errno().unwrap_or(errno_lost())))?;
    if answer.result != 0 {
        return Err(problem(-answer.result));
    }
    describe::parse(&answer.output).map_err(|_| problem(EINVAL))
}

fn errno_lost() -> i32 {
    types::errno::ENXIO
}

async fn one(
    cluster: &Cluster,
    target: &Target,
    words: &[String],
    options: &Options,
    input: &Bytes,
) -> Result<CommandOutput, CommandOutput> {
    let all = descriptions(cluster, target).await?;
    let (command, mut request) = describe::choose(&all, words).map_err(|why| {
        say::eprintln!("{why}");
        failed(EINVAL, "invalid command")
    })?;
    if let Some(format) = &options.format {
        request.insert("format".into(), json!(format));
    }
    let target = if command.has(flag::MGR) && !target.is_daemon() { &Target::Manager } else { target };
    let polls = command.has(flag::POLL);
    if polls {
        request.insert("width".into(), json!(width()));
    }
    loop {
        if polls {
            request.insert("print_header".into(), json!(true));
        }
        let answer = send(cluster, target, &request, input).await;
        if !polls || options.period_s <= 0.0 || answer.result != 0 {
            return Ok(answer);
        }
        show(&answer, "", options).map_err(|e| failed(1, e.to_string()))?;
        tokio::time::sleep(Duration::from_secs_f64(options.period_s)).await;
    }
}

async fn send(cluster: &Cluster, target: &Target, request: &Map<String, Value>, input: &Bytes) -> CommandOutput {
    let text = Value::Object(request.clone()).to_string();
    match target.send(cluster, &text, input.clone()).await {
        Ok(answer) => answer,
        Err(e) => failed(e.errno().unwrap_or(errno_lost()), e.to_string()),
    }
}

/// Prints an answer where it belongs; its exit code.
fn show(answer: &CommandOutput, prefix: &str, options: &Options) -> Result<i32> {
    match options.output.as_deref() {
        Some(path) if path != "-" => std::fs::write(path, &answer.output).with_context(|| format!("Can't open output file {path}"))?,
        file => {
            let is_json = options.format.as_deref().is_some_and(|f| f.starts_with("json"));
            // Programs that read `ceph` skip the first line of JSON: it has always been another.
            let blank: &[u8] = if is_json && file.is_none() { b"\n" } else { b"" };
            let (mut text, end): (&[u8], &[u8]) =
                if prefix.is_empty() { (&answer.output, b"") } else { (answer.output.trim_ascii_end(), b"\n") };
            if answer.result < 0 && text.is_empty() {
                text = b"";
            }
            say::bytes(blank);
            if !text.is_empty() {
                [prefix.as_bytes(), text, end].into_iter().for_each(say::bytes);
            }
        }
    }
    if answer.result < 0 {
        let (name, _) = errno_texts(-answer.result);
        say::eprintln!("Error {name}: {}", answer.status);
        return Ok(-answer.result);
    }
    if !answer.status.is_empty() {
        say::eprintln!("{prefix}{}", answer.status);
    }
    Ok(0)
}

/// `ping mon.a`: the state of a monitor.
async fn ping(cluster: &Cluster, words: &[String]) -> Result<i32> {
    let Some(name) = words.get(1).and_then(|w| w.strip_prefix("mon.")) else {
        say::eprintln!("\"ping\" expects a monitor to ping; try \"ping mon.<id>\"");
        return Ok(1);
    };
    let names: Vec<String> = cluster.monitors().into_iter().map(|(n, _)| n).filter(|n| name == "*" || n == name).collect();
    if names.is_empty() {
        say::eprintln!("there is no mon.{name}: `ceph mon dump` lists the monitors");
        return Ok(1);
    }
    for mon in names {
        let answer = cluster.tell_mon(&mon, &json!({"prefix": "mon_status", "format": "json"}).to_string(), Bytes::new()).await;
        if name == "*" {
            say::println!("mon.{mon}");
        }
        match answer {
            Ok(answer) => say::println!("{}", String::from_utf8_lossy(&answer.output)),
            Err(_) => say::println!("Error connecting to monitor."),
        }
    }
    Ok(0)
}

/// Lines of commands from a terminal or a file.
async fn talk(cluster: &Cluster, options: &Options) -> Result<i32> {
    let stdin = std::io::stdin();
    let asks = stdin.is_terminal();
    let mut line = String::new();
    loop {
        if asks {
            say::print!("ceph> ");
            std::io::stdout().flush()?;
        }
        line.clear();
        if stdin.lock().read_line(&mut line)? == 0 {
            return Ok(0);
        }
        let words = options::split(line.trim());
        match words.first().map(String::as_str) {
            None => {}
            Some("q" | "Q" | "quit" | "exit") if words.len() == 1 => return Ok(0),
            Some("tell") => say::eprintln!("Can not use 'tell' in interactive mode."),
            Some(_) => drop(command(cluster, words, options, Bytes::new()).await?),
        }
    }
}

async fn help(cluster: &Cluster, options: &Options) -> Result<i32> {
    let (targets, words) = match target::of(cluster, options.words.clone()).await {
        Ok(found) => found,
        Err(why) => {
            say::eprintln!("{why}; please pass correct target to tell command (e.g., mon.a, osd.1, mgr)");
            return Ok(1);
        }
    };
    let target = targets.first().context("there is no such daemon")?;
    let title = if target.is_daemon() { format!("Tell {target} commands:") } else { "Monitor commands:".into() };
    say::println!("\n {title}\n {}", "=".repeat(title.len()));
    match descriptions(cluster, target).await {
        Ok(all) => {
            say::print!("{}", describe::table(&all, &words.join(" "), width()));
            Ok(0)
        }
        Err(answer) => show(&answer, "", options),
    }
}

/// Columns of the terminal.
pub fn width() -> usize {
    std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).filter(|c| *c > 20).unwrap_or(80)
}
