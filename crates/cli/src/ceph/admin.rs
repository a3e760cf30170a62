//! Commands by a daemon's admin socket: `daemon NAME ...` and `--admin-daemon PATH ...`. No cluster is needed.

use super::options::Options;
use super::show;
use anyhow::{Context, Result, bail, ensure};
use client::CommandOutput;
use client::describe;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use types::errno::EINVAL;

/// Bytes of an answer that are believed.
const ANSWER_MAX: u32 = 1 << 30;

/// The socket that is meant, with the command's words, if any is.
pub fn wanted(options: &Options) -> Result<Option<(PathBuf, Vec<String>)>> {
    if let Some(path) = &options.admin_socket {
        return Ok(Some((path.into(), options.words.clone())));
    }
    if options.words.first().is_none_or(|w| w != "daemon") || options.help {
        return Ok(None);
    }
    ensure!(options.words.len() > 2, "daemon requires at least 3 arguments: daemon osd.0 COMMAND; `help` is a command");
    let name = &options.words[1];
    let path = if name.contains('/') {
        name.into()
    } else {
        let conf = options.connect.conf(name).with_context(|| format!("Can't get admin socket path of {name}"))?;
        conf.get_or("admin_socket", "/var/run/ceph/$cluster-$name.asok").into()
    };
    Ok(Some((path, options.words[2..].to_vec())))
}

/// One request and its answer.
fn ask(socket: &Path, request: &Value) -> Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket).with_context(|| socket.display().to_string())?;
    stream.write_all(format!("{request}\0").as_bytes())?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).context("no answer")?;
    let length = u32::from_be_bytes(length);
    ensure!(length <= ANSWER_MAX, "an answer of {length} bytes");
    let mut answer = Vec::new();
    stream.take(length.into()).read_to_end(&mut answer)?;
    if answer.len() != length as usize {
        bail!("the answer ends early");
    }
    Ok(answer)
}

pub fn run(socket: &Path, words: &[String], options: &Options) -> Result<i32> {
    let asked = ask(socket, &json!({"prefix": "get_command_descriptions"})).and_then(|all| Ok(describe::parse(&all)?));
    let all = match asked {
        Ok(all) => all,
        Err(e) => {
            say::eprintln!("admin_socket: exception getting command descriptions: {e:#}");
            say::eprintln!("  the daemon must run on this machine; give its socket's path in place of its name if ceph.conf names another");
            return Ok(EINVAL);
        }
    };
    let (_, mut request) = match describe::choose(&all, words) {
        Ok(found) => found,
        Err(why) => {
            say::eprintln!("{why}\nadmin_socket: invalid command");
            return Ok(EINVAL);
        }
    };
    request.insert("format".into(), json!(options.format.as_deref().unwrap_or("json-pretty")));
    let output = ask(socket, &Value::Object(request))?;
    show(
        &CommandOutput { result: 0, status: String::new(), output: output.into() },
        "",
        &Options { output: options.output.clone(), ..Options::default() },
    )
}
