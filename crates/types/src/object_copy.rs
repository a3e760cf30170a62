//! `object_copy_data_t`: what COPY_GET answers, part by part, to an OSD that copies an object.

use crate::{ByteStr, Bytes, ReqId, SnapId, UTime};
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::BTreeMap;

/// `object_copy_cursor_t`: how far the copy has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopyCursor {
    pub attr_complete: bool,
    pub data_offset: u64,
    pub data_complete: bool,
    pub omap_offset: ByteStr,
    pub omap_complete: bool,
}
denc_struct!(CopyCursor, v 1, compat 1, { attr_complete, data_offset, data_complete, omap_offset, omap_complete });

impl CopyCursor {
    pub fn is_initial(&self) -> bool {
        !self.attr_complete && self.data_offset == 0 && self.omap_offset.is_empty()
    }
    pub fn is_complete(&self) -> bool {
        self.attr_complete && self.data_complete && self.omap_complete
    }
}

/// Bits of [`CopyData::flags`].
pub mod copy_flag {
    pub const DATA_DIGEST: u32 = 1 << 0;
    pub const OMAP_DIGEST: u32 = 1 << 1;
}

/// `object_copy_data_t`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyData {
    pub cursor: CopyCursor,
    /// Bytes of the whole object.
    pub size: u64,
    pub mtime: UTime,
    pub data_digest: u32,
    pub omap_digest: u32,
    /// [`copy_flag`]s.
    pub flags: u32,
    pub attrs: BTreeMap<ByteStr, Bytes>,
    pub data: Bytes,
    pub omap_header: Bytes,
    /// An encoded map of keys to values, or nothing.
    pub omap_data: Bytes,
    /// Of a clone.
    pub snaps: Vec<SnapId>,
    /// Of a head.
    pub snap_seq: SnapId,
    /// Recent requests on the object, with their user versions.
    pub reqids: Vec<(ReqId, u64)>,
    /// By index into `reqids`.
    pub reqid_return_codes: BTreeMap<u32, i32>,
    pub truncate_seq: u64,
    pub truncate_size: u64,
}

impl Default for CopyData {
    fn default() -> Self {
        Self {
            cursor: CopyCursor::default(),
            size: u64::MAX,
            mtime: UTime::ZERO,
            data_digest: u32::MAX,
            omap_digest: u32::MAX,
            flags: 0,
            attrs: BTreeMap::new(),
            data: Bytes::new(),
            omap_header: Bytes::new(),
            omap_data: Bytes::new(),
            snaps: Vec::new(),
            snap_seq: 0,
            reqids: Vec::new(),
            reqid_return_codes: BTreeMap::new(),
            truncate_seq: 0,
            truncate_size: 0,
        }
    }
}

impl Denc for CopyData {
    fn encode(&self, e: &mut Encoder) {
        e.frame(8, 5, |e| {
            e.u64(self.size);
            self.mtime.encode(e);
            self.attrs.encode(e);
            self.data.encode(e);
            self.omap_data.encode(e);
            self.cursor.encode(e);
            self.omap_header.encode(e);
            self.snaps.encode(e);
            e.u64(self.snap_seq);
            e.u32(self.flags);
            e.u32(self.data_digest);
            e.u32(self.omap_digest);
            self.reqids.encode(e);
            e.u64(self.truncate_seq);
            e.u64(self.truncate_size);
            self.reqid_return_codes.encode(e);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("object_copy_data_t", 8, |d, v| {
            if v < 8 {
                return Err(DencError::TooOld { what: "object_copy_data_t", version: v, oldest: 8 });
            }
            Ok(Self {
                size: d.u64()?,
                mtime: d.get()?,
                attrs: d.get()?,
                data: d.blob()?,
                omap_data: d.blob()?,
                cursor: d.get()?,
                omap_header: d.blob()?,
                snaps: d.get()?,
                snap_seq: d.u64()?,
                flags: d.u32()?,
                data_digest: d.u32()?,
                omap_digest: d.u32()?,
                reqids: d.get()?,
                truncate_seq: d.u64()?,
                truncate_size: d.u64()?,
                reqid_return_codes: d.get()?,
            })
        })
    }
}
