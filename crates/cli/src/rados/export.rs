//! `export [FILE]`: the objects of a pool as one stream, which `rados import` of stock clients reads.
//!
//! A stream is a fixed head, then sections: a head of type and length, a body, and a footer where there is a body. An object is a section that opens it,
//! its data by pieces, attributes, the omap's head and its pairs by pieces, and a section that ends it.
//!
//! Source of the form: what `rados export` of 16.2 wrote, and the constants of Ceph 18.2 `src/tools/RadosDump.h`. Absent: snapshots, which that program leaves
//! out as well, and reading a stream.

use super::{Done, Failed, failed};
use client::{ClientError, Listed, Ops, Pool};
use denc::{ByteStr, Bytes, Encoder};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use types::features::SUPPORTED;
use types::{HObject, ObjectInfo};

/// Bytes of one section of data, and pairs of one of an omap.
const PIECE: u64 = 4 << 20;
const PAIRS: u64 = 512;

const MAGIC: u32 = 0xffce;
const VERSION: u32 = 2;
const FOOTER: u32 = 0xecff << 16 | MAGIC;

/// Types of sections.
const OBJECT_BEGIN: u32 = 3;
const OBJECT_END: u32 = 4;
const DATA: u32 = 5;
const ATTRS: u32 = 6;
const OMAP_HEAD: u32 = 7;
const OMAP: u32 = 8;
const POOL_BEGIN: u32 = 10;
const POOL_END: u32 = 11;

fn section_head(kind: u32, body_len: u64) -> Bytes {
    let mut e = Encoder::new(SUPPORTED);
    e.frame(1, 1, |e| {
        e.u32(kind << 24 | kind << 16 | MAGIC);
        e.u64(body_len);
    });
    e.finish()
}

fn footer() -> Bytes {
    let mut e = Encoder::new(SUPPORTED);
    e.frame(1, 1, |e| e.u32(FOOTER));
    e.finish()
}

/// A section with nothing in it.
fn mark(to: &mut dyn Write, kind: u32) -> std::io::Result<()> {
    to.write_all(&section_head(kind, 0))
}

fn section(to: &mut dyn Write, kind: u32, body: impl FnOnce(&mut Encoder)) -> std::io::Result<()> {
    let mut e = Encoder::new(SUPPORTED);
    body(&mut e);
    let body = e.finish();
    to.write_all(&section_head(kind, body.len() as u64))?;
    to.write_all(&body)?;
    to.write_all(&footer())
}

enum Trouble {
    Cluster(ClientError),
    File(std::io::Error),
}

impl From<ClientError> for Trouble {
    fn from(e: ClientError) -> Self {
        Self::Cluster(e)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(e: std::io::Error) -> Self {
        Self::File(e)
    }
}

/// Writes the pool to `file`, or to standard output if that is `-`.
pub async fn run(pool: &Pool, name: &str, file: &str) -> Done {
    let to: Box<dyn Write> = match file {
        "-" => Box::new(std::io::stdout()),
        _ => Box::new(File::create(file).map_err(|e| Failed(format!("error writing to file {file}: {e}")))?),
    };
    let mut to = BufWriter::new(to);
    match write(pool, &mut to).await {
        Ok(()) => Ok(()),
        Err(Trouble::Cluster(e)) => Err(failed(format_args!("exporting pool {name}"), &e)),
        Err(Trouble::File(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => Err(Failed::unheard()),
        Err(Trouble::File(e)) => Err(Failed(format!("error writing to file {file}: {e}"))),
    }
}

async fn write(pool: &Pool, to: &mut impl Write) -> Result<(), Trouble> {
    let head = [MAGIC << 16 | MAGIC, VERSION, section_head(0, 0).len() as u32, footer().len() as u32];
    to.write_all(&head.map(u32::to_le_bytes).concat())?;
    mark(to, POOL_BEGIN)?;
    for listed in pool.list_all().await? {
        let its = pool.clone().with_namespace(&listed.nspace.to_lossy()).with_key(&listed.key.to_lossy());
        match object(&its, &listed, to).await {
            // Removed since it was listed.
            Err(Trouble::Cluster(e)) if e.errno() == Some(types::errno::ENOENT) => {}
            done => done?,
        }
    }
    mark(to, POOL_END)?;
    Ok(to.flush()?)
}

async fn object(pool: &Pool, listed: &Listed, to: &mut impl Write) -> Result<(), Trouble> {
    let oid = &listed.oid;
    // Nothing of an object that is gone is written.
    let mut data = pool.read(oid.clone(), 0, PIECE).await?;
    let attrs = pool.xattrs(oid.clone()).await?;
    let hobject = HObject {
        oid: oid.clone(),
        key: listed.key.clone(),
        snap: types::CEPH_NOSNAP,
        hash: 0,
        nspace: listed.nspace.clone(),
        pool: i64::MIN,
        max: false,
    };
    section(to, OBJECT_BEGIN, |e| {
        e.frame(3, 1, |e| {
            e.put(&hobject);
            e.u64(u64::MAX);
            e.u8(u8::MAX);
            e.put(&ObjectInfo::default());
        });
    })?;
    let mut offset = 0;
    while !data.is_empty() {
        let len = data.len() as u64;
        section(to, DATA, |e| {
            e.frame(1, 1, |e| {
                e.u64(offset);
                e.u64(len);
                e.blob(&data);
            });
        })?;
        if len < PIECE {
            break;
        }
        offset += len;
        data = pool.read(oid.clone(), offset, PIECE).await?;
    }
    // By the names that they have in an OSD's store.
    let attrs: BTreeMap<ByteStr, Bytes> = attrs.into_iter().map(|(name, v)| ([b"_", name.as_slice()].concat().into(), v)).collect();
    section(to, ATTRS, |e| e.frame(1, 1, |e| e.put(&attrs)))?;
    let reply = pool.operate(oid.clone(), Ops::new().omap_get_header()).await?;
    let head = reply.ops.first().map(|op| op.outdata.clone()).unwrap_or_default();
    section(to, OMAP_HEAD, |e| e.frame(1, 1, |e| e.blob(&head)))?;
    let mut after = String::new();
    loop {
        let (pairs, more) = pool.omap_get(oid.clone(), &after, PAIRS).await?;
        let Some(last) = pairs.keys().next_back() else { break };
        after = last.to_lossy().into_owned();
        section(to, OMAP, |e| e.frame(1, 1, |e| e.put(&pairs)))?;
        if !more {
            break;
        }
    }
    Ok(mark(to, OBJECT_END)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `rados export` of 16.2 wrote them: an object's end, and a section of data with `hi` and a line feed.
    #[test]
    fn sections_are_as_the_program_rados_writes_them() {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let mut out = Vec::new();
        mark(&mut out, OBJECT_END).unwrap();
        assert_eq!(hex(&out), "01010c000000ceff04040000000000000000");
        out.clear();
        section(&mut out, DATA, |e| {
            e.frame(1, 1, |e| {
                e.u64(0);
                e.u64(3);
                e.blob(b"hi\n");
            });
        })
        .unwrap();
        let said = "01010c000000ceff05051d0000000000000001011700000000000000000000000300000000000000030000006869\
                    0a010104000000ceffffec";
        assert_eq!(hex(&out), said);
    }
}
