//! Commands on objects and their pools.

use super::{Done, Failed, Options, df, failed, failure, json_text, more, next_step, omap, usage_of};
use bytes::{Bytes, BytesMut};
use client::{ClientError, Cluster, Ops, Pool};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use types::errno;

/// Bytes that are read or written at once.
const PIECE: u64 = 4 << 20;
/// Keys of one answer.
const KEYS: u64 = 1024;

pub async fn run(cluster: &Cluster, o: &Options) -> Done {
    let words: Vec<&str> = o.words.iter().map(String::as_str).collect();
    match words[..] {
        ["lspools", ..] => {
            cluster.map().pools.keys().for_each(|id| say::println!("{}", cluster.map().pool_name(*id).unwrap_or_default()));
            return Ok(());
        }
        ["df", ..] => return df::run(cluster, o).await,
        _ => {}
    }
    const KNOWN: [&str; 17] = [
        "ls",
        "put",
        "append",
        "get",
        "stat",
        "stat2",
        "create",
        "touch",
        "truncate",
        "rm",
        "setxattr",
        "getxattr",
        "rmxattr",
        "listxattr",
        "setomapval",
        "rmomapkey",
        "listomapkeys",
    ];
    let (is_more, is_omap) = (more::COMMANDS.contains(&words[0]), omap::COMMANDS.contains(&words[0]));
    if !KNOWN.contains(&words[0]) && !is_more && !is_omap {
        return Err(Failed(format!("unrecognized command {}; -h or --help for usage\nerror 22: (22) Invalid argument", words[0])));
    }
    let named = match words[..] {
        ["list-inconsistent-pg" | "purge", pool] => Some(pool),
        _ => o.pool.as_deref(),
    };
    let Some(name) = named else {
        return Err(match words[0] {
            "ls" => Failed("either pool name or pg id needs to be specified".into()),
            _ => Failed("pool name was not specified".into()),
        }
        .with_next("name a pool with -p; `humboldt rados lspools` names them all"));
    };
    let pool = cluster.pool(name).map_err(|e| match words[0] {
        "list-inconsistent-pg" => Failed(format!("pool \"{name}\" not found\nerror 2: (2) No such file or directory"))
            .with_next(&next_step(&e).unwrap_or_default()),
        _ => failed(format_args!("opening pool {name}"), &e),
    })?;
    let mut pool = pool.with_namespace(&o.namespace);
    if let Some(snap) = &o.snap {
        pool.read_snap = more::find_snap(cluster, &pool, snap)
            .ok_or_else(|| Failed(format!("error looking up snap '{snap}': (2) No such file or directory")))?;
        out(format!("selected snap {} '{snap}'\n", pool.read_snap).as_bytes())?;
    }
    if words[0] == "ls" {
        return list(&pool, o).await;
    }
    if is_omap {
        return omap::run(&pool, name, &words).await;
    }
    if is_more {
        return more::run(cluster, &pool, name, o, &words).await;
    }
    one(&pool, name, o, &words).await
}

/// A command on one object, or on a few.
async fn one(pool: &Pool, name: &str, o: &Options, words: &[&str]) -> Done {
    let at = |object: &str| format!("{name}/{object}");
    match *words {
        ["put", object, file] => put(pool, object, file, o.offset).await.map_err(|e| e.told("putting", &at(object))),
        ["append", object, file] => append(pool, object, file).await.map_err(|e| e.told("appending", &at(object))),
        ["get", object, file] => get(pool, object, file, o.offset).await.map_err(|e| e.told("getting", &at(object))),
        ["stat" | "stat2", object] => {
            let stat = pool.stat(object).await.map_err(|e| failure(format_args!(" error stat-ing {}", at(object)), &e))?;
            let mut mtime = stat.mtime;
            if words[0] == "stat" {
                mtime.nsec = 0;
            }
            say::println!("{} mtime {mtime}, size {}", at(object), stat.size);
            Ok(())
        }
        ["create", object] => {
            change(pool, object, Ops::new().create(true)).await.map_err(|e| failed(format_args!("creating {}", at(object)), &e))
        }
        ["touch", object] => {
            change(pool, object, Ops::new().create(false)).await.map_err(|e| failure(format_args!(" error touch-ing {}", at(object)), &e))
        }
        ["truncate", object, size] => {
            let size: u64 = size.parse().map_err(|_| Failed(format!("Invalid value for size: '{size}'")))?;
            change(pool, object, Ops::new().truncate(size)).await.map_err(|e| failed(format_args!("truncating oid {object} to {size}"), &e))
        }
        ["rm", object, ref more @ ..] => {
            for object in std::iter::once(&object).chain(more) {
                pool.remove(*object).await.map_err(|e| failed(format_args!("removing {name}>{object}"), &e))?;
            }
            Ok(())
        }
        ["setxattr", object, attr, ref value @ ..] => {
            let value = value_or_stdin(value)?;
            pool.set_xattr(object, attr, &value).await.map_err(|e| failed(format_args!("setting xattr {}/{attr}", at(object)), &e))
        }
        ["getxattr", object, attr] => {
            let value = pool.get_xattr(object, attr).await.map_err(|e| failed(format_args!("getting xattr {}/{attr}", at(object)), &e))?;
            out(&value)
        }
        ["rmxattr", object, attr] => change(pool, object, Ops::new().rm_xattr(attr))
            .await
            .map_err(|e| failed(format_args!("removing xattr {}/{attr}", at(object)), &e)),
        ["listxattr", object] => {
            let all = pool.xattrs(object).await.map_err(|e| failed(format_args!("getting xattr set {}", at(object)), &e))?;
            all.keys().try_for_each(|key| out(format!("{}\n", key.to_lossy()).as_bytes()))
        }
        ["setomapval", object, key, ref value @ ..] => {
            let pairs: BTreeMap<_, _> = [(key.into(), value_or_stdin(value)?)].into();
            pool.omap_set(object, &pairs).await.map_err(|e| failed(format_args!("setting omap value {}/{key}", at(object)), &e))
        }
        ["rmomapkey", object, key] => {
            let keys: BTreeSet<_> = [key.into()].into();
            pool.omap_remove(object, &keys).await.map_err(|e| failed(format_args!("removing omap key {}/{key}", at(object)), &e))
        }
        ["listomapkeys", object] => keys(pool, object).await.map_err(|e| failed(format_args!("getting omap key set {}", at(object)), &e)),
        _ => Err(usage_of(&format!("-p POOL {} ...; --help says what it takes", words[0]))),
    }
}

async fn change(pool: &Pool, object: &str, ops: Ops) -> Result<(), ClientError> {
    pool.operate(object, ops).await.map(drop)
}

/// What went wrong between a file and an object.
enum Trouble {
    Cluster(ClientError),
    File(String, std::io::Error),
}

impl From<ClientError> for Trouble {
    fn from(e: ClientError) -> Self {
        Self::Cluster(e)
    }
}

impl Trouble {
    fn told(self, what: &str, object: &str) -> Failed {
        match self {
            Self::Cluster(e) => failed(format_args!("{what} {object}"), &e),
            Self::File(file, e) => {
                let code = e.raw_os_error().unwrap_or(errno::EIO);
                let text = crate::connect::errno_texts(code).1;
                let verb = if what == "getting" { "writing to" } else { "reading input" };
                Failed(format!("error {verb} file {file}: ({code}) {text}"))
            }
        }
    }
}

fn open(file: &str) -> Result<Box<dyn Read>, Trouble> {
    match file {
        "-" => Ok(Box::new(std::io::stdin())),
        _ => File::open(file).map(|f| Box::new(f) as Box<dyn Read>).map_err(|e| Trouble::File(file.into(), e)),
    }
}

/// The next piece of a file; shorter at its end.
fn piece(from: &mut dyn Read, file: &str) -> Result<Bytes, Trouble> {
    let mut buffer = Vec::new();
    from.take(PIECE).read_to_end(&mut buffer).map_err(|e| Trouble::File(file.into(), e))?;
    Ok(buffer.into())
}

async fn put(pool: &Pool, object: &str, file: &str, mut offset: u64) -> Result<(), Trouble> {
    let mut from = open(file)?;
    let mut first = true;
    loop {
        let data = piece(&mut *from, file)?;
        let length = data.len() as u64;
        match (first, offset) {
            // What was there is replaced, by nothing too.
            (true, 0) => pool.write_full(object, data).await?,
            _ if length > 0 => pool.write(object, offset, data).await?,
            _ => {}
        }
        (first, offset) = (false, offset + length);
        if length < PIECE {
            return Ok(());
        }
    }
}

async fn append(pool: &Pool, object: &str, file: &str) -> Result<(), Trouble> {
    let mut from = open(file)?;
    loop {
        let data = piece(&mut *from, file)?;
        let length = data.len() as u64;
        pool.append(object, data).await?;
        if length < PIECE {
            return Ok(());
        }
    }
}

async fn get(pool: &Pool, object: &str, file: &str, mut offset: u64) -> Result<(), Trouble> {
    let mut data = pool.read(object, offset, PIECE).await?;
    // Opened once there is something: an object that is not there leaves no empty file.
    let mut to: Box<dyn Write> = match file {
        "-" => Box::new(std::io::stdout()),
        _ => Box::new(File::create(file).map_err(|e| Trouble::File(file.into(), e))?),
    };
    loop {
        to.write_all(&data).map_err(|e| Trouble::File(file.into(), e))?;
        if (data.len() as u64) < PIECE {
            return to.flush().map_err(|e| Trouble::File(file.into(), e));
        }
        offset += data.len() as u64;
        data = pool.read(object, offset, PIECE).await?;
    }
}

pub fn value_or_stdin(value: &[&str]) -> Result<Bytes, Failed> {
    match value {
        [value] => Ok(Bytes::copy_from_slice(value.as_bytes())),
        [] => {
            let mut all = Vec::new();
            std::io::stdin().read_to_end(&mut all).map_err(|e| Failed(format!("standard input: {e}")))?;
            Ok(BytesMut::from(&all[..]).freeze())
        }
        _ => Err(usage_of("-p POOL setxattr|setomapval OBJECT NAME [VALUE]")),
    }
}

async fn keys(pool: &Pool, object: &str) -> Result<(), ClientError> {
    let mut after = String::new();
    loop {
        let reply = pool.operate(object, Ops::new().omap_get_keys(&after, KEYS)).await?;
        let (keys, more) = client::ops::keys_of(&reply.ops.first().cloned().unwrap_or_default())?;
        for key in &keys {
            after = key.to_lossy().into_owned();
            if out(format!("{after}\n").as_bytes()).is_err() {
                return Ok(());
            }
        }
        if !more || keys.is_empty() {
            return Ok(());
        }
    }
}

async fn list(pool: &Pool, o: &Options) -> Done {
    let all = if o.all { pool.list_all().await } else { pool.list_named().await };
    let all = all.map_err(|e| failed("listing objects", &e))?;
    if let Some(format) = o.json() {
        let rows: Vec<_> = all.iter().map(|e| json!({"namespace": e.nspace.to_lossy(), "name": e.oid.to_lossy()})).collect();
        return out(json_text(&json!(rows), format).as_bytes());
    }
    for entry in all {
        let mut line =
            if o.all { format!("{}\t{}", entry.nspace.to_lossy(), entry.oid.to_lossy()) } else { entry.oid.to_lossy().into_owned() };
        if !entry.key.is_empty() {
            line += &format!("\t{}", entry.key.to_lossy());
        }
        out((line + "\n").as_bytes())?;
    }
    Ok(())
}

/// Writes to standard output; a reader that has left ends the command.
pub fn out(bytes: &[u8]) -> Done {
    let mut stdout = std::io::stdout();
    stdout.write_all(&say::shown(bytes)).and_then(|()| stdout.flush()).map_err(|e| match e.kind() {
        std::io::ErrorKind::BrokenPipe => Failed::unheard(),
        _ => Failed(format!("standard output: {e}")),
    })
}
