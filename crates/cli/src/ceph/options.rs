//! The program's own options; what is left are the words of a command.

use crate::connect::{Connect, Words, value};
use anyhow::{Context, Result, bail, ensure};

/// Formats of answers. A cluster that has not all of them answers in another, or says so.
const FORMATS: [&str; 6] = ["json", "json-pretty", "xml", "xml-pretty", "plain", "yaml"];

#[derive(Debug, Default)]
pub struct Options {
    pub connect: Connect,
    pub help: bool,
    pub version: bool,
    pub status: bool,
    /// The level of what is watched.
    pub watch: Option<String>,
    /// The channel that is watched; `*` for all.
    pub channel: String,
    pub format: Option<String>,
    pub input: Option<String>,
    pub output: Option<String>,
    /// Seconds between two of a command that is sent again and again.
    pub period_s: f64,
    pub admin_socket: Option<String>,
    pub words: Vec<String>,
}

impl Options {
    pub fn parse(words: &[String]) -> Result<Self> {
        let mut all = words.to_vec();
        let more = std::env::var("CEPH_ARGS").unwrap_or_default();
        // What is injected is for a daemon.
        let injected = all.iter().position(|w| w == "injectargs").map(|at| all.split_off(at)).unwrap_or_default();
        all.extend(split(&more).into_iter().filter(|w| !w.contains("--admin-socket")));
        let mut options = Self { channel: "cluster".into(), period_s: 1.0, ..Self::default() };
        let mut words: Words = all.into_iter().peekable();
        while let Some(word) = words.next() {
            if word == "--" {
                options.words.extend(words.by_ref());
            } else if !word.starts_with('-') || word == "-" || !options.take(&word, &mut words)? {
                options.words.push(word);
            }
        }
        options.words.extend(injected.into_iter().filter(|w| w != "--"));
        Ok(options)
    }

    /// Takes an option of ours; false if it is none.
    fn take(&mut self, word: &str, words: &mut Words) -> Result<bool> {
        let key = word.split_once('=').map_or(word, |(key, _)| key);
        match key {
            "-h" | "--help" => self.help = true,
            "-v" | "--version" => self.version = true,
            "-s" | "--status" => self.status = true,
            "-w" | "--watch" => self.watch = Some("info".into()),
            "--watch-debug" | "--watch-info" | "--watch-sec" | "--watch-warn" | "--watch-error" => {
                self.watch = key.strip_prefix("--watch-").map(String::from)
            }
            "-W" | "--watch-channel" => {
                self.channel = value(word, words)?;
                self.watch.get_or_insert_with(|| "info".into());
            }
            "-f" | "--format" => {
                let format = value(word, words)?;
                ensure!(
                    FORMATS.contains(&format.as_str()),
                    "argument -f/--format: invalid choice: '{format}' (choose from {})",
                    FORMATS.join(", ")
                );
                self.format = Some(format);
            }
            "-i" | "--in-file" => self.input = Some(value(word, words)?),
            "-o" | "--out-file" => self.output = Some(value(word, words)?),
            "-p" | "--period" => {
                let text = value(word, words)?;
                self.period_s = text.parse().with_context(|| format!("{text}: no number of seconds"))?;
            }
            "--admin-daemon" => self.admin_socket = Some(value(word, words)?),
            "--verbose" | "--concise" => {}
            "--block" | "--setuser" | "--setgroup" | "--completion" => bail!("{key} is not supported"),
            _ => return self.connect.take(word, words),
        }
        Ok(true)
    }
}

/// Words of a line, with quotes as a shell has them.
pub fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut open) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '"' | '\'') => (quote, open) = (Some(c), true),
            (None, c) if c.is_whitespace() => {
                if open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                open = false;
            }
            _ => word.push(c),
        }
    }
    if open || !word.is_empty() {
        words.push(word);
    }
    words
}

/// What does not depend on a cluster.
pub fn print_help() {
    say::println!(
        "\n General usage:\n ==============\nusage: humboldt ceph [options] COMMAND...\n\n\
         Administers a cluster, in the words of the program `ceph`; the cluster says which commands there are.\n\n\
         options:\n\
         \x20 -h, --help                 this help, and the cluster's commands (those that begin with COMMAND)\n\
         \x20 -c, --conf FILE            ceph.conf; unless given: CEPH_CONF, /etc/ceph/ceph.conf, ceph.conf, humboldt-data/ceph.conf\n\
         \x20 -n, --name TYPE.ID         the user (client.admin unless given); --id ID is client.ID\n\
         \x20 -k, --keyring FILE         the keyring with the user's key\n\
         \x20 -m, --mon-host ADDRESS     a monitor\n\
         \x20 --connect-timeout SECONDS  how long the cluster may take to answer\n\
         \x20 -f, --format FORMAT        json, json-pretty, plain, or what else the command has\n\
         \x20 -i, --in-file FILE         input of the command; - is standard input\n\
         \x20 -o, --out-file FILE        where to write the output\n\
         \x20 -s, --status               the state of the cluster\n\
         \x20 -w, --watch                the state of the cluster, then its log as it grows\n\
         \x20 --watch-debug, -info, -sec, -warn, -error  the same from this level on\n\
         \x20 -W, --watch-channel NAME   the same of another channel (audit; * for all)\n\
         \x20 -p, --period SECONDS       pause of commands that repeat themselves\n\
         \x20 --admin-daemon SOCKET      a command to the daemon of that socket, without the cluster\n\
         \x20 -v, --version\n\n \
         Local commands:\n ===============\n\
         ping <mon.id>                the state of a monitor; mon.* for all\n\
         daemon <type.id|path> <cmd>  a command to a daemon of this machine, by its admin socket\n\
         tell <type.id|pgid> <cmd>    a command to one daemon; TYPE.* for all of a type; `help` lists what it understands"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Options {
        Options::parse(&split(line)).unwrap()
    }

    #[test]
    fn options_may_stand_anywhere_and_the_rest_is_the_command() {
        let o = parse("-c a.conf osd pool set p size 2 -f json --id x -o out");
        assert_eq!(o.words.join(" "), "osd pool set p size 2");
        assert_eq!((o.format.as_deref(), o.output.as_deref(), o.connect.name()), (Some("json"), Some("out"), "client.x"));
        let o = parse("osd pool rm p p --yes-i-really-really-mean-it --format=json-pretty");
        assert_eq!(o.words.join(" "), "osd pool rm p p --yes-i-really-really-mean-it");
        assert_eq!(o.format.as_deref(), Some("json-pretty"));
        let o = parse("tell osd.0 injectargs -- --debug-osd 5");
        assert_eq!(o.words.join(" "), "tell osd.0 injectargs --debug-osd 5");
        let o = parse("config set global x -- -5");
        assert_eq!(o.words.join(" "), "config set global x -5");
        assert_eq!(parse("-w").watch.as_deref(), Some("info"));
        let o = parse("--watch-warn -W audit");
        assert_eq!((o.watch.as_deref(), o.channel.as_str()), (Some("warn"), "audit"));
        assert_eq!(split("auth caps x mon 'allow r' \"\""), ["auth", "caps", "x", "mon", "allow r", ""]);
    }

    #[test]
    fn wrong_options_are_told() {
        for (line, say) in [("-f csv status", "invalid choice: 'csv'"), ("status -c", "-c needs a value"), ("-p soon x", "soon: no number")]
        {
            let error = format!("{:#}", Options::parse(&split(line)).unwrap_err());
            assert!(error.contains(say), "{line}: {error}");
        }
    }
}
