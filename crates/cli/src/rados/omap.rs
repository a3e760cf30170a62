//! Commands on an object's omap: one value, all values, its header.

use super::objects::{out, value_or_stdin};
use super::{Done, Failed, failed, usage_of};
use client::{ClientError, Ops, Pool};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Pairs of one answer.
const PAIRS: u64 = 512;

pub const COMMANDS: [&str; 5] = ["listomapvals", "getomapval", "getomapheader", "setomapheader", "clearomap"];

/// One of [`COMMANDS`], on an object of the pool of that name.
pub async fn run(pool: &Pool, name: &str, words: &[&str]) -> Done {
    match *words {
        ["listomapvals", object] => {
            values(pool, object).await.map_err(|e| failed(format_args!("getting omap keys {name}/{object}"), &e)).and_then(|t| out(&t))
        }
        ["getomapval", object, key] => {
            let keys: BTreeSet<_> = [key.into()].into();
            let told = |e: &ClientError| failed(format_args!("getting omap value {name}/{object}/{key}"), e);
            let reply = pool.operate(object, Ops::new().omap_get_by_keys(&keys)).await.map_err(|e| told(&e))?;
            let pairs = client::ops::pairs_of(&reply.ops.first().cloned().unwrap_or_default()).map_err(|e| told(&e.into()))?;
            match pairs.values().next() {
                Some(value) => out(format!("value ({} bytes) :\n{}\n", value.len(), dump(value)).as_bytes()),
                None => Err(Failed(format!("No such key: {name}/{object}/{key}"))),
            }
        }
        ["getomapheader", object] => {
            let told = |e: &ClientError| failed(format_args!("getting omap header {name}/{object}"), e);
            let reply = pool.operate(object, Ops::new().omap_get_header()).await.map_err(|e| told(&e))?;
            let header = reply.ops.first().map(|op| op.outdata.clone()).unwrap_or_default();
            out(format!("header ({} bytes) :\n{}\n", header.len(), dump(&header)).as_bytes())
        }
        ["setomapheader", object, ref value @ ..] => {
            let header = value_or_stdin(value)?;
            let done = pool.operate(object, Ops::new().omap_set_header(header)).await;
            done.map(drop).map_err(|e| failed(format_args!("setting omap value {name}/{object}"), &e))
        }
        ["clearomap", object] => {
            let done = pool.operate(object, Ops::new().omap_clear()).await;
            done.map(drop).map_err(|e| failed(format_args!("clearing omap keys {name}/{object}"), &e))
        }
        _ => Err(usage_of(&format!("-p POOL {} ...; --help says what it takes", words[0]))),
    }
}

/// Every key with its value as a dump.
async fn values(pool: &Pool, object: &str) -> Result<Vec<u8>, ClientError> {
    let (mut text, mut after) = (Vec::new(), String::new());
    loop {
        let (pairs, more) = pool.omap_get(object, &after, PAIRS).await?;
        for (key, value) in &pairs {
            text.extend(format!("{}\nvalue ({} bytes) :\n{}\n", key.to_lossy(), value.len(), dump(value)).bytes());
            after = key.to_lossy().into_owned();
        }
        if !more || pairs.is_empty() {
            return Ok(text);
        }
    }
}

/// Sixteen bytes a row: where, in hexadecimal, as text. Rows that repeat the one before are a star.
fn dump(bytes: &[u8]) -> String {
    const ROW: usize = 16;
    let (mut text, mut last, mut starred) = (String::new(), None, false);
    for (n, row) in bytes.chunks(ROW).enumerate() {
        if last == Some(row) && row.len() == ROW {
            if !std::mem::replace(&mut starred, true) {
                text += "*\n";
            }
            continue;
        }
        (last, starred) = (Some(row), false);
        let mut hex = String::new();
        for at in 0..ROW {
            let gap = if at == ROW / 2 { " " } else { "" };
            let byte = row.get(at).map_or("  ".into(), |b| format!("{b:02x}"));
            let _ = write!(hex, "{gap}{byte} ");
        }
        let shown: String = row.iter().map(|b| if (32..127).contains(b) { *b as char } else { '.' }).collect();
        let _ = writeln!(text, "{:08x}  {hex} |{shown}|", n * ROW);
    }
    let _ = writeln!(text, "{:08x}", bytes.len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_as_the_program_rados_has_it() {
        assert_eq!(dump(b"hello"), "00000000  68 65 6c 6c 6f                                    |hello|\n00000005\n");
        let rows = dump(&[0; 40]);
        assert_eq!(
            rows.lines().collect::<Vec<_>>()[1..],
            ["*", "00000020  00 00 00 00 00 00 00 00                           |........|", "00000028"]
        );
    }
}
