//! `humboldt top`: the state of the cluster in a terminal, drawn anew each second; in a pipe, plain lines.
//!
//! Shows what the page shows, from the same answer of the monitor (`humboldt view`), so it needs Humboldt's monitor. Holds the loop (here) and the drawing
//! (`draw`).

mod draw;

use crate::connect::{Connect, block_on};
use crate::rados::json_text;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use client::Cluster;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::process::Command;
use std::time::Duration;
use types::errno;

/// The command's own options.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// The cluster's ceph.conf. Default: the first that exists of CEPH_CONF, /etc/ceph/ceph.conf, ceph.conf, humboldt-data/ceph.conf.
    #[arg(long, short = 'c')]
    conf: Option<String>,
    /// The name of the user.
    #[arg(long, short = 'n', default_value = "client.admin")]
    name: String,
    /// The user's name without `client.`.
    #[arg(long, visible_alias = "user", conflicts_with = "name")]
    id: Option<String>,
    /// The monitors' addresses. Default: those of ceph.conf.
    #[arg(long, short = 'm', value_name = "ADDRESS")]
    mon_host: Option<String>,
    /// The file with the user's key.
    #[arg(long, short = 'k')]
    keyring: Option<String>,
    /// Seconds between two updates.
    #[arg(long, short = 'd', default_value_t = 1.0)]
    delay: f64,
    /// End after this many updates. `--once` is the same as 1.
    #[arg(long)]
    count: Option<u64>,
    /// End after the first update.
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Print plain lines, as in a pipe.
    #[arg(long, short = 'b', visible_alias = "batch")]
    plain: bool,
    /// `json`: print each update as one line of JSON, the monitor's answer itself.
    #[arg(long, short = 'f', value_parser = ["plain", "json", "json-pretty"])]
    format: Option<String>,
    /// Seconds until the cluster must have answered.
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0)]
    connect_timeout: f64,
}

/// Switches to the terminal's second screen and hides the cursor; takes both back on drop.
struct Screen;
impl Screen {
    fn enter() -> Self {
        say::print!("\x1b[?1049h\x1b[?25l");
        Self
    }
}
impl Drop for Screen {
    fn drop(&mut self) {
        say::print!("\x1b[?25h\x1b[?1049l");
        let _ = std::io::stdout().flush();
    }
}

/// Rows and columns of the terminal.
fn size() -> (usize, usize) {
    let asked = Command::new("stty").arg("size").stdin(std::process::Stdio::inherit()).output();
    let text = asked.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
    let mut words = text.split_whitespace().filter_map(|w| w.parse().ok());
    match (words.next(), words.next()) {
        (Some(rows), Some(columns)) if rows > 4 && columns > 20 => (rows, columns),
        _ => (24, 80),
    }
}

pub fn top(args: &TopArgs) -> Result<()> {
    let mut connect = Connect::default();
    let timeout = Some(args.connect_timeout.to_string());
    let name = Some(args.name.clone());
    let options = [
        ("--conf", &args.conf),
        ("--name", &name),
        ("--id", &args.id),
        ("--mon-host", &args.mon_host),
        ("--keyring", &args.keyring),
        // A screen that stays empty for a minute says nothing: the default is less than other commands'.
        ("--connect-timeout", &timeout),
    ];
    for (option, value) in options {
        if let Some(value) = value {
            connect.take(option, &mut vec![value.clone()].into_iter().peekable())?;
        }
    }
    block_on(async {
        let cluster = connect.open().await?;
        let done = look(&cluster, args).await;
        cluster.shutdown();
        done
    })?
}

/// Without what would steer the terminal: names are drawn as they come.
fn plain(state: Value) -> Value {
    match state {
        Value::String(text) => Value::String(say::plain(&text).into_owned()),
        Value::Array(all) => all.into_iter().map(plain).collect(),
        Value::Object(all) => all.into_iter().map(|(name, value)| (say::plain(&name).into_owned(), plain(value))).collect(),
        other => other,
    }
}

/// The state, as the monitor has it.
async fn view(cluster: &Cluster) -> Result<Value> {
    let answer = cluster.mon_command(&json!({"prefix": "humboldt view", "format": "json"}).to_string(), Bytes::new()).await?;
    match -answer.result {
        0 => Ok(plain(serde_json::from_slice(&answer.output).context("the monitor's answer")?)),
        errno::EINVAL => bail!("this cluster's monitor is not Humboldt's, so it keeps no figures for `top`: use `humboldt ceph -s`"),
        _ => bail!("the monitor: {}", answer.status),
    }
}

async fn look(cluster: &Cluster, args: &TopArgs) -> Result<()> {
    let format = args.format.as_deref().filter(|format| *format != "plain");
    let plain = args.plain || args.format.is_some() || !std::io::stdout().is_terminal();
    let last = if args.once { Some(1) } else { args.count };
    let delay = Duration::from_secs_f64(args.delay.clamp(0.1, 3600.0));
    let first = view(cluster).await?;
    let _screen = (!plain).then(Screen::enter);
    let mut state = first;
    let mut n = 0;
    loop {
        let text = if let Some(format) = format {
            json_text(&state, format).trim_end().to_string() + "\n"
        } else if plain {
            draw::lines(&state, n == 0)
        } else {
            let (rows, columns) = size();
            draw::screen(&state, rows, columns)
        };
        let mut out = std::io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
        drop(out);
        n += 1;
        if last.is_some_and(|last| n >= last) {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
        state = view(cluster).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_steer_no_terminal() {
        let drawn = plain(json!({"pools": [{"name": "p\u{1b}[2J", "n": 1}], "osd.\u{7}": "up"}));
        assert_eq!(drawn, json!({"pools": [{"name": "p\\u{1b}[2J", "n": 1}], "osd.\\u{7}": "up"}));
    }
}
