//! What sites say of a mirrored image: `status_global_ID` for this site, `remote_status_global_ID_SITE` for the others. A site is up while
//! its daemon watches the object.

use super::super::{RECORD_FEATURES, answer, each, each_of_page, each_with, find, reads, writes};
use super::image::MirrorImage;
use super::peer::MirrorPeer;
use super::{forget, image, peer};
use crate::pass::in_turns;
use crate::registry::{METHOD_PROMOTE, METHOD_RD, METHOD_WR, Method};
use crate::rest::{Rest, keeps};
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::{ByteStr, Decoder, Denc, DencError, Encoder};
use std::collections::{BTreeMap, BTreeSet};
use types::errno::{EIO, ENOENT, ESTALE};
use types::{AddrType, EntityInst, UTime};

pub const METHODS: &[Method] = &[
    Method { name: "mirror_image_status_set", flags: METHOD_RD | METHOD_WR | METHOD_PROMOTE, call: set },
    writes("mirror_image_status_remove", |obj, input| {
        remove(obj, &Input::new(&input).get()?)?;
        Ok(().into())
    }),
    reads("mirror_image_status_get", |obj, input| {
        let up = watchers(obj)?;
        answer!(get(obj, &Input::new(&input).get()?, &up)?)
    }),
    reads("mirror_image_status_list", list),
    reads("mirror_image_status_get_summary", summary),
    writes("mirror_image_status_remove_down", remove_down),
    reads("mirror_image_instance_get", instance_get),
    reads("mirror_image_instance_list", instance_list),
];

const LOCAL: &[u8] = b"status_global_";
const REMOTE: &[u8] = b"remote_status_global_";

/// `cls::rbd::MirrorImageStatusState` as far as the class tells them apart; lower is worse.
const UNKNOWN: u8 = 0;
const ERROR: u8 = 1;

/// `cls::rbd::MirrorImageSiteStatus`.
#[derive(Debug, Clone, PartialEq)]
struct SiteStatus {
    /// Empty for this site.
    mirror_uuid: ByteStr,
    state: u8,
    description: ByteStr,
    last_update: UTime,
    up: bool,
    pub rest: Rest,
}

impl Default for SiteStatus {
    fn default() -> Self {
        Self {
            mirror_uuid: ByteStr::default(),
            state: UNKNOWN,
            description: ByteStr::default(),
            last_update: UTime::ZERO,
            up: false,
            rest: Rest::default(),
        }
    }
}

impl SiteStatus {
    fn encode_fields(&self, version: u8, e: &mut Encoder) {
        if version >= 2 {
            self.mirror_uuid.encode(e);
        }
        e.u8(self.state);
        self.description.encode(e);
        self.last_update.encode(e);
        e.bool(self.up);
    }
}

/// Version 2 has the site's id, and only another site's status is of it.
impl Denc for SiteStatus {
    fn encode(&self, e: &mut Encoder) {
        let version = if self.mirror_uuid.is_empty() && self.rest.version() < 2 { 1 } else { 2 };
        self.rest.frame(e, version, version, |e| self.encode_fields(version, e));
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "cls::rbd::MirrorImageSiteStatus", 2, |d, v| {
            Ok(Self {
                mirror_uuid: if v >= 2 { d.get()? } else { ByteStr::default() },
                state: d.u8()?,
                description: d.get()?,
                last_update: d.get()?,
                up: d.bool()?,
                rest: Rest::default(),
            })
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(SiteStatus, SiteStatus { mirror_uuid: "u".into(), ..SiteStatus::default() });

/// `cls::rbd::MirrorImageSiteStatusOnDisk`: with the daemon that sent it.
#[derive(Default)]
struct StoredStatus {
    origin: EntityInst,
    status: SiteStatus,
    pub rest: Rest,
}

impl Denc for StoredStatus {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 1, 1, |e| self.origin.encode(e));
        self.status.encode(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let (origin, rest) = Rest::read(d, "cls::rbd::MirrorImageSiteStatusOnDisk", 1, |d, _| Ok(typeless(d.get()?)))?;
        Ok(Self { origin, status: d.get()?, rest })
    }
}
keeps!(StoredStatus, StoredStatus { origin: typeless(EntityInst::default()), ..StoredStatus::default() });

/// `cls::rbd::MirrorImageStatus`: this site's if there is one, and the others'.
struct ImageStatus {
    local: Option<SiteStatus>,
    remote: Vec<SiteStatus>,
}

impl Denc for ImageStatus {
    fn encode(&self, e: &mut Encoder) {
        e.frame(2, 1, |e| {
            self.local.clone().unwrap_or_default().encode_fields(1, e);
            e.bool(self.local.is_some());
            e.count(self.remote.len());
            self.remote.iter().for_each(|status| status.encode_fields(2, e));
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Err(d.invalid("an image's status is only ever answered"))
    }
}

/// Daemons that watch the object.
type Up = BTreeSet<EntityInst>;

/// The same daemon, whichever protocol its address was noted with.
fn typeless(inst: EntityInst) -> EntityInst {
    EntityInst { addr: inst.addr.with_kind(AddrType::ANY), ..inst }
}

fn watchers(obj: &mut dyn ObjectView) -> ClsResult<Up> {
    Ok(obj.watchers()?.into_iter().map(|w| typeless(EntityInst { name: w.name, addr: w.addr })).collect())
}

fn local_key(global_id: &ByteStr) -> Vec<u8> {
    [LOCAL, global_id.as_slice()].concat()
}
/// Also what all sites' keys of that image start with, for no site.
fn remote_key(global_id: &ByteStr, site: &[u8]) -> Vec<u8> {
    [REMOTE, global_id.as_slice(), b"_", site].concat()
}

fn stored(bytes: &Bytes) -> ClsResult<StoredStatus> {
    StoredStatus::from_bytes(bytes).map_err(|_| ClsError::Errno(EIO))
}

/// Says nothing of an image whose mirroring has ended: the daemon will notice.
fn set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (global_id, status): (ByteStr, SiteStatus) = (input.get()?, input.get()?);
    let image = match image::id_of(obj, &global_id).and_then(|id| image::get(obj, &id)) {
        Ok(image) => image,
        Err(ClsError::Wait) => return Err(ClsError::Wait),
        Err(_) => return Ok(().into()),
    };
    if image.state != image::ENABLED {
        return Ok(().into());
    }
    let key = if status.mirror_uuid.is_empty() { local_key(&global_id) } else { remote_key(&global_id, status.mirror_uuid.as_slice()) };
    // The site's id is in the key.
    let status = SiteStatus { mirror_uuid: ByteStr::default(), up: false, last_update: obj.now(), ..status };
    let record =
        StoredStatus { origin: typeless(obj.origin()), status, rest: Rest::default() }.to_bytes(obj.client_features() | RECORD_FEATURES);
    obj.omap_set(vec![(key.into(), record)])?;
    Ok(().into())
}

/// Forgets what all sites said of an image.
pub fn remove(obj: &mut dyn ObjectView, global_id: &ByteStr) -> ClsResult<()> {
    forget(obj, &local_key(global_id))?;
    let prefix = remote_key(global_id, b"");
    let mut keys: Vec<ByteStr> = Vec::new();
    let read = each(obj, &prefix, b"", |site, _| {
        keys.push([&prefix, site].concat().into());
        Ok(true)
    });
    match read {
        Err(e) if e.is(ENOENT) => return Ok(()),
        other => other?,
    }
    if keys.is_empty() { Ok(()) } else { obj.omap_remove(keys) }
}

/// ENOENT if no site said anything.
fn get(obj: &mut dyn ObjectView, global_id: &ByteStr, up: &Up) -> ClsResult<ImageStatus> {
    let seen = |record: StoredStatus, mirror_uuid| SiteStatus { up: up.contains(&record.origin), mirror_uuid, ..record.status };
    let local = find::<StoredStatus>(obj, &local_key(global_id))?.map(|record| seen(record, ByteStr::default()));
    let mut remote = Vec::new();
    let read = each(obj, &remote_key(global_id, b""), b"", |site, record| {
        remote.push(seen(stored(&record)?, site.into()));
        Ok(true)
    });
    match read {
        Err(e) if e.is(ENOENT) => {}
        other => other?,
    }
    if local.is_none() && remote.is_empty() { errno(ENOENT) } else { Ok(ImageStatus { local, remote }) }
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (ByteStr, u64) = (input.get()?, input.get()?);
    let up = watchers(obj)?;
    let mut images: BTreeMap<ByteStr, MirrorImage> = BTreeMap::new();
    let mut statuses: BTreeMap<ByteStr, ImageStatus> = BTreeMap::new();
    if max > 0 {
        each_with(obj, image::IMAGES, after.as_slice(), |obj, id, record| {
            let image = MirrorImage::stored(&record)?;
            match get(obj, &image.global_image_id, &up) {
                Ok(status) => _ = statuses.insert(id.into(), status),
                Err(ClsError::Wait) => return Err(ClsError::Wait),
                Err(_) => {}
            }
            images.insert(id.into(), image);
            Ok((images.len() as u64) < max)
        })?;
    }
    answer!(images, statuses)
}

/// The state that stands for an image: the worst of those that the pool's direction asks for.
fn summarized(status: &ImageStatus, direction: u8, tx_sites: &BTreeSet<ByteStr>) -> u8 {
    let mut state = match &status.local {
        Some(local) if local.up && direction != peer::TX => Some(local.state),
        _ => None,
    };
    let mut silent = 0;
    if direction != peer::RX {
        silent = tx_sites.len();
        for remote in &status.remote {
            if silent > 0 && tx_sites.contains(&remote.mirror_uuid) {
                silent -= 1;
            }
            let told = if remote.up { remote.state } else { UNKNOWN };
            state = match state {
                _ if remote.state == ERROR => Some(ERROR),
                None => Some(told),
                Some(ERROR) => Some(ERROR),
                Some(state) => Some(state.min(told)),
            };
        }
    }
    if silent > 0 { UNKNOWN } else { state.unwrap_or(UNKNOWN) }
}

fn summary(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let peers: Vec<MirrorPeer> = if input.is_empty() { Vec::new() } else { input.get()? };
    let senders: Vec<&MirrorPeer> = peers.iter().filter(|peer| peer.direction != peer::RX).collect();
    let mut direction = peers.first().map_or(peer::RX, |peer| peer.direction);
    if senders.iter().any(|peer| peer.direction != direction) {
        direction = peer::RX_TX;
    }
    let tx_sites: BTreeSet<ByteStr> = senders.iter().map(|peer| peer.mirror_uuid.clone()).collect();
    let up = watchers(obj)?;
    let (_, states) = in_turns(obj, |obj, (last, states): &mut (ByteStr, BTreeMap<u8, i32>)| {
        each_of_page(obj, image::IMAGES, last, |obj, _, record| {
            let image = MirrorImage::stored(record)?;
            let status = match get(obj, &image.global_image_id, &up) {
                Err(e) if e.is(ENOENT) => ImageStatus { local: None, remote: Vec::new() },
                other => other?,
            };
            *states.entry(summarized(&status, direction, &tx_sites)).or_default() += 1;
            Ok(true)
        })
    })?;
    answer!(states)
}

/// Forgets what daemons said that are gone.
fn remove_down(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    const PREFIXES: [&[u8]; 2] = [LOCAL, REMOTE];
    let up = watchers(obj)?;
    let (.., gone) = in_turns(obj, |obj, (part, last, gone): &mut (usize, ByteStr, Vec<ByteStr>)| {
        let prefix = PREFIXES[*part];
        let more = each_of_page(obj, prefix, last, |_, name, record| {
            if !up.contains(&stored(record)?.origin) {
                gone.push([prefix, name].concat().into());
            }
            Ok(true)
        })?;
        if !more {
            (*part, *last) = (*part + 1, ByteStr::new());
        }
        Ok(*part < PREFIXES.len())
    })?;
    if !gone.is_empty() {
        obj.omap_remove(gone)?;
    }
    Ok(().into())
}

/// The daemon of this site that mirrors the image; ESTALE if it is gone.
fn instance(obj: &mut dyn ObjectView, global_id: &ByteStr, up: &Up) -> ClsResult<EntityInst> {
    let origin = stored(&obj.omap_val(&local_key(global_id))?)?.origin;
    if up.contains(&origin) { Ok(origin) } else { errno(ESTALE) }
}

fn instance_get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let up = watchers(obj)?;
    let origin = instance(obj, &Input::new(&input).get()?, &up)?;
    Ok(origin.to_bytes(obj.client_features()).into())
}

fn instance_list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (ByteStr, u64) = (input.get()?, input.get()?);
    let up = watchers(obj)?;
    let (_, found) = in_turns(obj, |obj, (last, found): &mut (Option<ByteStr>, BTreeMap<ByteStr, EntityInst>)| {
        if max == 0 {
            return Ok(false);
        }
        each_of_page(obj, image::IMAGES, last.get_or_insert_with(|| after.clone()), |obj, id, record| {
            match instance(obj, &MirrorImage::stored(record)?.global_image_id, &up) {
                Ok(origin) => _ = found.insert(id.into(), origin),
                Err(ClsError::Wait) => return Err(ClsError::Wait),
                Err(_) => {}
            }
            Ok((found.len() as u64) < max)
        })
    })?;
    Ok(found.to_bytes(obj.client_features()).into())
}
