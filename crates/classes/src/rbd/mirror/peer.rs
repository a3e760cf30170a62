//! Peers of a mirrored pool: keys `mirror_peer_UUID`.

use super::super::{answer, each, load, reads, save, writes};
use super::{enabled, uuid};
use crate::registry::Method;
use crate::rest::{Rest, keeps};
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::{ByteStr, Decoder, Denc, DencError, Encoder};
use types::errno::{EEXIST, EINVAL, EIO, ENOENT, ESTALE};
use types::{UTime, Uuid};

pub const METHODS: &[Method] = &[
    writes("mirror_peer_ping", ping),
    reads("mirror_peer_list", |obj, _| answer!(all(obj)?)),
    writes("mirror_peer_add", add),
    writes("mirror_peer_remove", remove),
    writes("mirror_peer_set_client", |obj, input| change(obj, input, |peer, input| Ok(peer.client_name = input.get()?))),
    writes("mirror_peer_set_cluster", set_cluster),
    writes("mirror_peer_set_direction", |obj, input| change(obj, input, |peer, input| Ok(peer.direction = input.get()?))),
];

const PEERS: &[u8] = b"mirror_peer_";

/// Which way images go: to here, from here, both.
pub const RX: u8 = 0;
pub const TX: u8 = 1;
pub const RX_TX: u8 = 2;

/// `cls::rbd::MirrorPeer`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MirrorPeer {
    uuid: ByteStr,
    site_name: ByteStr,
    client_name: ByteStr,
    pub direction: u8,
    pub mirror_uuid: ByteStr,
    last_seen: UTime,
    pub rest: Rest,
}

/// Where a pool's id stood in old releases stays -1.
impl Denc for MirrorPeer {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 2, 1, |e| {
            self.uuid.encode(e);
            self.site_name.encode(e);
            self.client_name.encode(e);
            e.i64(-1);
            e.u8(self.direction);
            self.mirror_uuid.encode(e);
            self.last_seen.encode(e);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "cls::rbd::MirrorPeer", 2, |d, v| {
            let (uuid, site_name, client_name) = (d.get()?, d.get()?, d.get()?);
            d.skip(8)?;
            let mut peer = Self {
                uuid,
                site_name,
                client_name,
                direction: RX_TX,
                mirror_uuid: ByteStr::default(),
                last_seen: UTime::ZERO,
                rest: Rest::default(),
            };
            if v >= 2 {
                (peer.direction, peer.mirror_uuid, peer.last_seen) = (d.u8()?, d.get()?, d.get()?);
            }
            Ok(peer)
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(MirrorPeer, MirrorPeer::default());

impl MirrorPeer {
    /// A peer that fetches images needs a user to log in as.
    fn is_valid(&self) -> bool {
        let can_fetch = match self.direction {
            TX => true,
            RX | RX_TX => !self.client_name.is_empty(),
            _ => false,
        };
        can_fetch && !self.uuid.is_empty() && !self.site_name.is_empty()
    }
    fn put(&self, obj: &mut dyn ObjectView) -> ClsResult<ClsReply> {
        save(obj, &key(&self.uuid), self)?;
        Ok(().into())
    }
}

fn key(uuid: &ByteStr) -> Vec<u8> {
    [PEERS, uuid.as_slice()].concat()
}

/// Every peer; none without an object.
pub fn all(obj: &mut dyn ObjectView) -> ClsResult<Vec<MirrorPeer>> {
    let mut peers = Vec::new();
    let read = each(obj, PEERS, b"", |_, peer| {
        peers.push(MirrorPeer::from_bytes(&peer).map_err(|_| ClsError::Errno(EIO))?);
        Ok(true)
    });
    match read {
        Err(e) if e.is(ENOENT) => Ok(Vec::new()),
        other => other.map(|()| peers),
    }
}

/// A peer's daemon says that it is there. A site that is not known yet becomes a peer that fetches from here.
fn ping(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (site_name, mirror_uuid, direction): (ByteStr, ByteStr, u8) = (input.get()?, input.get()?, input.get()?);
    if direction != TX || !enabled(obj)? || site_name.is_empty() || mirror_uuid.is_empty() {
        return errno(EINVAL);
    }
    let peers = all(obj)?;
    let by_site = peers.iter().find(|peer| peer.site_name == site_name);
    let by_uuid = match by_site {
        Some(peer) if peer.mirror_uuid.is_empty() || peer.mirror_uuid == mirror_uuid => None,
        _ => peers.iter().find(|peer| peer.mirror_uuid == mirror_uuid),
    };
    let mut peer = match (by_site, by_uuid) {
        // Two peers: the name belongs to the other.
        (Some(_), Some(peer)) => peer.clone(),
        (None, Some(peer)) => MirrorPeer { site_name, ..peer.clone() },
        (Some(peer), None) => MirrorPeer { mirror_uuid, ..peer.clone() },
        (None, None) => {
            let mut random = [0; 16];
            obj.random(&mut random);
            let uuid = ByteStr::from(Uuid::from_random(random).to_string().as_bytes());
            MirrorPeer {
                uuid,
                site_name,
                client_name: ByteStr::default(),
                direction: TX,
                mirror_uuid,
                last_seen: UTime::ZERO,
                rest: Rest::default(),
            }
        }
    };
    if peer.direction == RX {
        peer.direction = RX_TX;
    }
    peer.last_seen = obj.now();
    if !peer.is_valid() {
        return errno(EINVAL);
    }
    peer.put(obj)
}

fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let peer: MirrorPeer = Input::new(&input).get()?;
    if !enabled(obj)? || !peer.is_valid() || peer.uuid == uuid(obj)? || peer.direction == TX {
        return errno(EINVAL);
    }
    for other in all(obj)? {
        if other.uuid == peer.uuid {
            return errno(ESTALE);
        }
        if other.site_name == peer.site_name || (!peer.mirror_uuid.is_empty() && other.mirror_uuid == peer.mirror_uuid) {
            return errno(EEXIST);
        }
    }
    peer.put(obj)
}

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    super::forget(obj, &key(&Input::new(&input).get()?))?;
    Ok(().into())
}

/// Changes the peer that the input starts with.
fn change(
    obj: &mut dyn ObjectView,
    input: Bytes,
    change: impl FnOnce(&mut MirrorPeer, &mut Input) -> ClsResult<()>,
) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let uuid: ByteStr = input.get()?;
    let mut peer: MirrorPeer = load(obj, &key(&uuid))?;
    change(&mut peer, &mut input)?;
    peer.put(obj)
}

fn set_cluster(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (uuid, site_name): (ByteStr, ByteStr) = (input.get()?, input.get()?);
    let (mine, others): (Vec<_>, Vec<_>) = all(obj)?.into_iter().partition(|peer| peer.uuid == uuid);
    if others.iter().any(|peer| peer.site_name == site_name) {
        return errno(EEXIST);
    }
    match mine.into_iter().next() {
        Some(peer) => MirrorPeer { site_name, ..peer }.put(obj),
        None => errno(ENOENT),
    }
}
