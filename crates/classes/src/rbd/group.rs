//! Groups of images: a pool's `rbd_group_directory`, a group's header (its images and its snapshots) and an image's link to its group.

use super::{answer, each, find, has_key, op_feature, reads, set_op_features, writes};
use crate::registry::Method;
use crate::rest::{Rest, kept};
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::{ByteStr, Decoder, Denc, DencError, Encoder, features};
use types::errno::{EBADF, EEXIST, EINVAL, EIO, ENOENT};

pub const METHODS: &[Method] = &[
    reads("group_dir_list", super::directory::list),
    writes("group_dir_add", super::directory::add),
    writes("group_dir_remove", super::directory::remove),
    writes("group_dir_rename", super::directory::rename),
    writes("group_image_set", image_set),
    writes("group_image_remove", image_remove),
    reads("group_image_list", image_list),
    writes("image_group_add", image_group_add),
    writes("image_group_remove", image_group_remove),
    reads("image_group_get", image_group_get),
];

const IMAGES: &[u8] = b"image_";
/// In an image's header: the group that it belongs to.
const GROUP: &[u8] = b"rbd_group_ref";

/// `cls::rbd::GroupImageSpec`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ImageSpec {
    image_id: ByteStr,
    pool_id: i64,
    pub rest: Rest,
}
kept!(ImageSpec, v 1, compat 1, { image_id, pool_id });

impl ImageSpec {
    /// `image_POOL_ID`, POOL as 16 hexadecimal digits; nothing, which sorts before every image, for no pool.
    fn key(&self) -> Vec<u8> {
        if self.pool_id == -1 {
            return Vec::new();
        }
        [format!("image_{:016x}_", self.pool_id).as_bytes(), self.image_id.as_slice()].concat()
    }
    /// EIO if the name behind `image_` is none.
    fn from_name(name: &[u8]) -> ClsResult<Self> {
        let parts = name.iter().position(|byte| *byte == b'_').map(|at| (&name[..at], &name[at + 1..]));
        let (pool, image) = parts.ok_or(ClsError::Errno(EIO))?;
        let pool = std::str::from_utf8(pool).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
        Ok(Self { image_id: image.into(), pool_id: pool.ok_or(ClsError::Errno(EIO))? as i64, rest: Rest::default() })
    }
}

/// `cls::rbd::GroupImageStatus`: 0 attached, 1 incomplete.
#[derive(Default)]
struct ImageStatus {
    spec: ImageSpec,
    state: u8,
    pub rest: Rest,
}
kept!(ImageStatus, v 1, compat 1, { spec, state });

fn image_set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let status: ImageStatus = Input::new(&input).get()?;
    obj.omap_set(vec![(status.spec.key().into(), status.state.to_bytes(0))])?;
    Ok(().into())
}

fn image_remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let spec: ImageSpec = Input::new(&input).get()?;
    obj.omap_remove(vec![spec.key().into()])?;
    Ok(().into())
}

fn image_list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (ImageSpec, u64) = (input.get()?, input.get()?);
    let after = after.key();
    let mut images: Vec<ImageStatus> = Vec::new();
    if max > 0 {
        each(obj, IMAGES, after.strip_prefix(IMAGES).unwrap_or_default(), |name, state| {
            let state = u8::from_bytes(&state).map_err(|_| ClsError::Errno(EIO))?;
            images.push(ImageStatus { spec: ImageSpec::from_name(name)?, state, rest: Rest::default() });
            Ok((images.len() as u64) < max)
        })?;
    }
    answer!(images)
}

/// `cls::rbd::GroupSpec`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupSpec {
    pool_id: i64,
    group_id: ByteStr,
    pub rest: Rest,
}
/// The form of "no group".
impl Default for GroupSpec {
    fn default() -> Self {
        Self { pool_id: -1, group_id: ByteStr::default(), rest: Rest::default() }
    }
}
kept!(GroupSpec, v 1, compat 1, { pool_id, group_id });

fn image_group_add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let group: GroupSpec = Input::new(&input).get()?;
    match find::<GroupSpec>(obj, GROUP)? {
        Some(old) if old == group => return Ok(().into()),
        Some(_) => return errno(EEXIST),
        None => {}
    }
    set_op_features(obj, op_feature::GROUP, op_feature::GROUP)?;
    super::save(obj, GROUP, &group)?;
    Ok(().into())
}

fn image_group_remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let group: GroupSpec = Input::new(&input).get()?;
    match find::<GroupSpec>(obj, GROUP)? {
        None => return errno(ENOENT),
        Some(old) if old != group => return errno(EBADF),
        Some(_) => {}
    }
    obj.omap_remove(vec![GROUP.into()])?;
    set_op_features(obj, 0, op_feature::GROUP)?;
    Ok(().into())
}

fn image_group_get(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    answer!(find::<GroupSpec>(obj, GROUP)?.unwrap_or_default())
}

pub const SNAPSHOT_METHODS: &[Method] = &[
    writes("group_snap_set", snap_set),
    writes("group_snap_remove", snap_remove),
    reads("group_snap_get_by_id", |obj, input| answer!(load_snap(obj, &Input::new(&input).get()?)?)),
    reads("group_snap_list", snap_list),
    reads("group_snap_list_order", snap_list_order),
];

const SNAPS: &[u8] = b"snapshot_";
/// A number for each snapshot, growing in the order in which they were made; the highest so far stands under `snap_max_order`.
const ORDERS: &[u8] = b"snap_order_";
const ORDER_MAX: &[u8] = b"snap_max_order";

/// A snapshot of a group is being made: no other client may make one of that id.
const INCOMPLETE: u8 = 0;

/// `cls::rbd::GroupSnapshot`: the class looks at its start; the whole stays as the client wrote it.
struct GroupSnap {
    id: ByteStr,
    name: ByteStr,
    /// 0 incomplete, 1 complete.
    state: u8,
    encoded: Bytes,
}

impl Denc for GroupSnap {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.encoded);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let (version, compat) = (d.u8()?, d.u8()?);
        if compat > 1 {
            return Err(DencError::Incompatible { what: "cls::rbd::GroupSnapshot", compat, known: 1 });
        }
        let body = d.blob()?;
        let mut e = Encoder::with_capacity(0, body.len() + 6);
        e.frame(version, compat, |e| e.raw(&body));
        let mut d = Decoder::new(body);
        Ok(Self { id: d.get()?, name: d.get()?, state: d.u8()?, encoded: e.finish() })
    }
}

fn snap_key(id: &ByteStr) -> Vec<u8> {
    [SNAPS, id.as_slice()].concat()
}
fn order_key(id: &ByteStr) -> Vec<u8> {
    [ORDERS, id.as_slice()].concat()
}

fn load_snap(obj: &mut dyn ObjectView, id: &ByteStr) -> ClsResult<GroupSnap> {
    super::load(obj, &snap_key(id))
}

fn snap_set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let snap: GroupSnap = Input::new(&input).get()?;
    if snap.name.is_empty() || snap.id.is_empty() {
        return errno(EINVAL);
    }
    let mut name_taken = false;
    each(obj, SNAPS, b"", |_, other| {
        let other = GroupSnap::from_bytes(&other).map_err(|_| ClsError::Errno(EIO))?;
        name_taken = other.name == snap.name && other.id != snap.id;
        Ok(!name_taken)
    })?;
    if name_taken {
        return errno(EEXIST);
    }
    if snap.state == INCOMPLETE && has_key(obj, &snap_key(&snap.id))? {
        return errno(EEXIST);
    }
    // Older clients don't ask for the order, and those of 18.2 wonder about keys that they don't know.
    if snap.state == INCOMPLETE && features::has(obj.client_supported(), features::SERVER_TENTACLE) {
        if has_key(obj, &order_key(&snap.id))? {
            return errno(EEXIST);
        }
        let order = find::<u64>(obj, ORDER_MAX)?.unwrap_or(0).checked_add(1).ok_or(ClsError::Errno(EIO))?;
        obj.omap_set(vec![(order_key(&snap.id).into(), order.to_bytes(0)), (ORDER_MAX.into(), order.to_bytes(0))])?;
    }
    obj.omap_set(vec![(snap_key(&snap.id).into(), snap.encoded)])?;
    Ok(().into())
}

fn snap_remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let id: ByteStr = Input::new(&input).get()?;
    obj.omap_remove(vec![snap_key(&id).into(), order_key(&id).into()])?;
    Ok(().into())
}

fn snap_list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (GroupSnap, u64) = (input.get()?, input.get()?);
    let mut snaps: Vec<GroupSnap> = Vec::new();
    if max > 0 {
        each(obj, SNAPS, after.id.as_slice(), |_, snap| {
            snaps.push(GroupSnap::from_bytes(&snap).map_err(|_| ClsError::Errno(EIO))?);
            Ok((snaps.len() as u64) < max)
        })
        // A group without a header has none, which is no error here.
        .or_else(|e| if e.is(ENOENT) { Ok(()) } else { Err(e) })?;
    }
    answer!(snaps)
}

fn snap_list_order(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (ByteStr, u64) = (input.get()?, input.get()?);
    let mut orders: std::collections::BTreeMap<ByteStr, u64> = std::collections::BTreeMap::new();
    if max > 0 {
        each(obj, ORDERS, after.as_slice(), |id, order| {
            orders.insert(id.into(), u64::from_bytes(&order).map_err(|_| ClsError::Errno(EIO))?);
            Ok((orders.len() as u64) < max)
        })?;
    }
    answer!(orders)
}
