//! `object_manifest_t`: an object whose data is elsewhere (redirect, chunks). Decoded and kept, not acted on.

use crate::HObject;
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::BTreeMap;

/// `chunk_info_t`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChunkInfo {
    pub offset: u32,
    pub length: u32,
    pub oid: HObject,
    pub flags: u32,
}
denc_struct!(ChunkInfo, v 1, compat 1, { offset, length, oid, flags });

/// Where the data is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ObjectManifest {
    #[default]
    None,
    Redirect(HObject),
    Chunked(BTreeMap<u64, ChunkInfo>),
}

impl Denc for ObjectManifest {
    fn encode(&self, e: &mut Encoder) {
        e.frame(1, 1, |e| match self {
            Self::None => e.u8(0),
            Self::Redirect(target) => {
                e.u8(1);
                target.encode(e);
            }
            Self::Chunked(chunks) => {
                e.u8(2);
                chunks.encode(e);
            }
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("object_manifest_t", 1, |d, _| match d.u8()? {
            0 => Ok(Self::None),
            1 => Ok(Self::Redirect(d.get()?)),
            2 => Ok(Self::Chunked(d.get()?)),
            _ => Err(d.invalid("a manifest's type is 0, 1 or 2")),
        })
    }
}
