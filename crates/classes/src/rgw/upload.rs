//! Parts of an upload: each has a record in the upload's omap. A part that is sent again remembers where its earlier data lies, so that it can be
//! removed.

use super::change::{read, write};
use crate::registry::Method;
use crate::rest::{Rest, kept};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, errno};
use denc::{ByteStr, Bytes, Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::BTreeSet;
use types::UTime;
use types::errno::EEXIST;

pub const METHODS: &[Method] = &[Method::writes("mp_upload_part_info_update", update)];

/// `RGWObjManifest`: where a part's data lies. Kept as it came; two things of it are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// As encoded, with its frame.
    bytes: Bytes,
    /// What the names of its objects begin with.
    prefix: ByteStr,
    is_empty: bool,
}

impl Denc for Manifest {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.bytes);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let (mut whole, start) = (d.clone(), d.position());
        let (prefix, is_empty) = d.frame("Manifest", 8, |d, v| {
            if v < 3 {
                return Err(DencError::TooOld { what: "Manifest", version: v, oldest: 3 });
            }
            d.u64()?;
            let objects = d.count(8 + 6)?;
            for _ in 0..objects {
                d.u64()?;
                d.skip_frame()?;
            }
            let by_objects = d.bool()?;
            d.skip_frame()?;
            d.skip(8 + 8)?;
            let prefix = d.get()?;
            let rules = d.u32()?;
            Ok((prefix, if by_objects { objects == 0 } else { rules == 0 }))
        })?;
        Ok(Self { bytes: whole.raw(d.position() - start)?, prefix, is_empty })
    }
}

/// A frame that is kept as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame(Bytes);

impl Denc for Frame {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.0);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let (mut whole, start) = (d.clone(), d.position());
        d.skip_frame()?;
        Ok(Self(whole.raw(d.position() - start)?))
    }
}

/// `RGWUploadPartInfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    number: u32,
    size: u64,
    etag: ByteStr,
    modified: UTime,
    manifest: Manifest,
    /// `RGWCompressionInfo`.
    compression: Frame,
    accounted_size: u64,
    /// Where earlier data of the part lies.
    past_prefixes: BTreeSet<ByteStr>,
    pub rest: Rest,
}
kept!(Part, v 5, compat 2, oldest 4, {
    number, size, etag, modified, manifest, compression, accounted_size, [since 5] past_prefixes,
}, sample sample());

#[cfg(test)]
fn sample() -> Part {
    let framed = |version, body: &[u8]| {
        let mut e = Encoder::new(0);
        e.frame(version, 1, |e| e.raw(body));
        e.finish()
    };
    let compression = framed(2, b"");
    let manifest = framed(8, &[&[0; 8 + 4 + 1][..], &compression, &[0; 8 + 8 + 4 + 4]].concat());
    Part {
        number: 1,
        size: 2,
        etag: ByteStr::new(),
        modified: UTime::ZERO,
        manifest: Manifest::from_bytes(&manifest).unwrap(),
        compression: Frame(compression),
        accounted_size: 3,
        past_prefixes: BTreeSet::new(),
        rest: Rest::default(),
    }
}

/// `cls_rgw_mp_upload_part_info_update_op`.
pub struct UpdateOp {
    key: ByteStr,
    part: Part,
}
denc_struct!(UpdateOp, v 1, compat 1, { key, part });

/// EEXIST if the data lies where earlier data of the part does: the caller takes another place.
fn update(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut op: UpdateOp = decode(&input)?;
    if let Some(before) = read::<Part>(obj, &op.key)? {
        op.part.past_prefixes.extend(before.past_prefixes);
        if !before.manifest.is_empty {
            op.part.past_prefixes.insert(before.manifest.prefix);
        }
    }
    if op.part.past_prefixes.contains(&op.part.manifest.prefix) {
        return errno(EEXIST);
    }
    write(obj, op.key, &op.part)?;
    done()
}
