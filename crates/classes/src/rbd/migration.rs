//! An image that moves to another place: what its header, old format or new, says of the move.
//!
//! ```text
//! migration_set: features get `MIGRATING` (old format: another first line), `migration` the spec ── migration_set_state: spec changes
//!       └── migration_remove: both go again
//! ```

use super::old_header::{MIGRATING_TEXT, TEXT};
use super::{ImageFormat, feature, forget, has_key, image_format, load, reads, save, writes};
use crate::registry::Method;
use crate::rest::{Rest, keeps};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::{ByteStr, Decoder, Denc, DencError, Encoder};
use std::collections::BTreeMap;
use types::errno::{EEXIST, EINVAL};

pub const METHODS: &[Method] = &[
    writes("migration_set", set),
    writes("migration_set_state", set_state),
    reads("migration_get", |obj, _| Ok(get(obj)?.to_bytes(super::RECORD_FEATURES).into())),
    writes("migration_remove", remove),
];

/// Which end of the move the image is.
const HEADER_SOURCE: u8 = 1;
const HEADER_TARGET: u8 = 2;

/// `cls::rbd::MigrationSpec`. Modes and states are numbers of the client's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct MigrationSpec {
    header_type: u8,
    pool_id: i64,
    pool_namespace: ByteStr,
    image_name: ByteStr,
    image_id: ByteStr,
    snap_seqs: BTreeMap<u64, u64>,
    overlap: u64,
    flatten: bool,
    mirroring: bool,
    state: u8,
    state_description: ByteStr,
    mirror_image_mode: u8,
    /// Where the data comes from if not from an image of a cluster.
    source_spec: ByteStr,
    pub rest: Rest,
}

/// Version 2 has the mirror mode, 3 the source; a client that does not know sources must not read a spec that has one.
impl Denc for MigrationSpec {
    fn encode(&self, e: &mut Encoder) {
        let compat = if self.source_spec.is_empty() { 1 } else { 3 };
        self.rest.frame(e, 3, compat, |e| {
            e.u8(self.header_type);
            e.i64(self.pool_id);
            self.pool_namespace.encode(e);
            self.image_name.encode(e);
            self.image_id.encode(e);
            self.snap_seqs.encode(e);
            e.u64(self.overlap);
            e.bool(self.flatten);
            e.bool(self.mirroring);
            e.u8(self.state);
            self.state_description.encode(e);
            e.u8(self.mirror_image_mode);
            self.source_spec.encode(e);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "cls::rbd::MigrationSpec", 3, |d, v| {
            Ok(Self {
                header_type: d.u8()?,
                pool_id: d.i64()?,
                pool_namespace: d.get()?,
                image_name: d.get()?,
                image_id: d.get()?,
                snap_seqs: d.get()?,
                overlap: d.u64()?,
                flatten: d.bool()?,
                mirroring: d.bool()?,
                state: d.u8()?,
                state_description: d.get()?,
                mirror_image_mode: if v >= 2 { d.u8()? } else { 0 },
                source_spec: if v >= 3 { d.get()? } else { ByteStr::default() },
                rest: Rest::default(),
            })
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(MigrationSpec, MigrationSpec::default());

fn set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let spec: MigrationSpec = Input::new(&input).get()?;
    if has_key(obj, b"migration")? {
        return errno(EEXIST);
    }
    match image_format(obj)? {
        ImageFormat::Old { migrating: true } => return errno(EEXIST),
        ImageFormat::Old { migrating: false } if spec.header_type != HEADER_SOURCE => return errno(EINVAL),
        ImageFormat::Old { migrating: false } => obj.write(0, Bytes::from_static(MIGRATING_TEXT))?,
        ImageFormat::New { features } if features & feature::MIGRATING == 0 => save(obj, b"features", &(features | feature::MIGRATING))?,
        ImageFormat::New { .. } if spec.header_type != HEADER_TARGET => return errno(EEXIST),
        // The target was created with the feature.
        ImageFormat::New { .. } => {}
    }
    save(obj, b"migration", &spec)?;
    Ok(().into())
}

/// EINVAL for an image that does not move.
fn get(obj: &mut dyn ObjectView) -> ClsResult<MigrationSpec> {
    match image_format(obj)? {
        ImageFormat::Old { migrating: true } => {}
        ImageFormat::New { features } if features & feature::MIGRATING != 0 => {}
        _ => return errno(EINVAL),
    }
    load(obj, b"migration")
}

fn set_state(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (state, state_description): (u8, ByteStr) = (input.get()?, input.get()?);
    let spec = MigrationSpec { state, state_description, ..get(obj)? };
    save(obj, b"migration", &spec)?;
    Ok(().into())
}

fn remove(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    forget(obj, b"migration")?;
    match image_format(obj)? {
        ImageFormat::Old { migrating: true } => obj.write(0, Bytes::from_static(TEXT))?,
        ImageFormat::Old { migrating: false } => return errno(EINVAL),
        ImageFormat::New { features } if features & feature::MIGRATING != 0 => save(obj, b"features", &(features & !feature::MIGRATING))?,
        ImageFormat::New { .. } => {}
    }
    Ok(().into())
}
