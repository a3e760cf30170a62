//! `object_info_t`: what an object knows of itself, its attribute `_`. Stored and compared between replicas byte for byte.
//!
//! Source of the facts: Ceph 18.2 `src/osd/osd_types.cc` (`object_info_t::encode`, v17).

use crate::manifest::ObjectManifest;
use crate::{EVersion, EntityAddr, EntityName, HObject, ObjectLocator, ReqId, SnapId, UTime};
use denc::{Decoder, Denc, DencError, Encoder, Row};
use std::collections::BTreeMap;

/// The name of the attribute that holds an [`ObjectInfo`].
pub const OI_ATTR: &str = "_";
/// The name of the attribute that holds a [`crate::SnapSet`].
pub const SS_ATTR: &str = "snapset";

/// Bits of [`ObjectInfo::flags`].
pub mod oi_flag {
    pub const LOST: u32 = 1 << 0;
    pub const WHITEOUT: u32 = 1 << 1;
    pub const DIRTY: u32 = 1 << 2;
    pub const OMAP: u32 = 1 << 3;
    pub const DATA_DIGEST: u32 = 1 << 4;
    pub const OMAP_DIGEST: u32 = 1 << 5;
    pub const CACHE_PIN: u32 = 1 << 6;
    pub const MANIFEST: u32 = 1 << 7;
    pub const USES_TMAP: u32 = 1 << 8;
    pub const REDIRECT_HAS_REFERENCE: u32 = 1 << 9;
}

/// `watch_info_t`: a watch as the object remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchInfo {
    pub cookie: u64,
    /// Seconds.
    pub timeout_s: u32,
    pub addr: EntityAddr,
}

impl Denc for WatchInfo {
    fn encode(&self, e: &mut Encoder) {
        e.frame(4, 3, |e| {
            e.u64(self.cookie);
            e.u32(self.timeout_s);
            self.addr.encode(e);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("watch_info_t", 4, |d, v| {
            Ok(Self { cookie: d.u64()?, timeout_s: d.u32()?, addr: if v >= 4 { d.get()? } else { EntityAddr::default() } })
        })
    }
}

/// `object_info_t`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    pub soid: HObject,
    pub version: EVersion,
    pub prior_version: EVersion,
    pub user_version: u64,
    pub last_reqid: ReqId,
    /// Bytes.
    pub size: u64,
    /// What the client says.
    pub mtime: UTime,
    /// What the primary's clock said.
    pub local_mtime: UTime,
    /// [`oi_flag`]s.
    pub flags: u32,
    pub truncate_seq: u64,
    pub truncate_size: u64,
    /// By cookie and watcher.
    pub watchers: BTreeMap<(u64, EntityName), WatchInfo>,
    /// crc32c of the whole data, seed `u32::MAX`; only with [`oi_flag::DATA_DIGEST`].
    pub data_digest: u32,
    /// crc32c of the omap; only with [`oi_flag::OMAP_DIGEST`].
    pub omap_digest: u32,
    pub expected_object_size: u64,
    pub expected_write_size: u64,
    pub alloc_hint_flags: u32,
    /// Only with [`oi_flag::MANIFEST`].
    pub manifest: ObjectManifest,
}

impl Default for ObjectInfo {
    fn default() -> Self {
        Self::new(HObject::default())
    }
}

impl ObjectInfo {
    /// An object that was just created, empty.
    pub fn new(soid: HObject) -> Self {
        Self {
            soid,
            version: EVersion::ZERO,
            prior_version: EVersion::ZERO,
            user_version: 0,
            last_reqid: ReqId::default(),
            size: 0,
            mtime: UTime::ZERO,
            local_mtime: UTime::ZERO,
            flags: 0,
            truncate_seq: 0,
            truncate_size: 0,
            watchers: BTreeMap::new(),
            data_digest: u32::MAX,
            omap_digest: u32::MAX,
            expected_object_size: 0,
            expected_write_size: 0,
            alloc_hint_flags: 0,
            manifest: ObjectManifest::None,
        }
    }
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }
    pub fn set(&mut self, flags: u32) {
        self.flags |= flags;
    }
    pub fn unset(&mut self, flags: u32) {
        self.flags &= !flags;
    }
    pub fn is_whiteout(&self) -> bool {
        self.has(oi_flag::WHITEOUT)
    }
    pub fn is_omap(&self) -> bool {
        self.has(oi_flag::OMAP)
    }
    pub fn set_data_digest(&mut self, digest: u32) {
        self.data_digest = digest;
        self.set(oi_flag::DATA_DIGEST);
    }
    pub fn clear_data_digest(&mut self) {
        self.data_digest = u32::MAX;
        self.unset(oi_flag::DATA_DIGEST);
    }
    pub fn set_omap_digest(&mut self, digest: u32) {
        self.omap_digest = digest;
        self.set(oi_flag::OMAP_DIGEST);
    }
    pub fn clear_omap_digest(&mut self) {
        self.omap_digest = u32::MAX;
        self.unset(oi_flag::OMAP_DIGEST);
    }
}

impl Denc for ObjectInfo {
    fn encode(&self, e: &mut Encoder) {
        e.frame(17, 8, |e| {
            self.soid.encode(e);
            // The locator that goes with the name.
            let locator = ObjectLocator { pool: self.soid.pool, key: self.soid.key.clone(), nspace: self.soid.nspace.clone(), hash: -1 };
            locator.encode(e);
            e.u32(0); // category, of old
            self.version.encode(e);
            self.prior_version.encode(e);
            self.last_reqid.encode(e);
            e.u64(self.size);
            self.mtime.encode(e);
            if self.soid.is_head() {
                ReqId::default().encode(e); // wrlock_by, of old
            } else {
                e.u32(0); // the clone's snapshots, of old
            }
            let lost = self.has(oi_flag::LOST).into();
            Row::<17>::new().put_u64(self.truncate_seq).put_u64(self.truncate_size).put_u8(lost).encode(e);
            self.encode_old_watchers(e);
            EVersion::new(0, self.user_version).encode(e);
            e.bool(self.has(oi_flag::USES_TMAP));
            self.watchers.encode(e);
            let tail = Row::<40>::new().put_u32(self.flags).put_u32(self.local_mtime.sec).put_u32(self.local_mtime.nsec);
            let tail = tail.put_u32(self.data_digest).put_u32(self.omap_digest).put_u64(self.expected_object_size);
            tail.put_u64(self.expected_write_size).put_u32(self.alloc_hint_flags).encode(e);
            if self.has(oi_flag::MANIFEST) {
                self.manifest.encode(e);
            }
        });
    }

    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Self::decode_with(d, |d| d.get())
    }
}

impl ObjectInfo {
    /// Decodes what was stored under this name, which is not looked for in the bytes.
    pub fn decode_of(soid: HObject, d: &mut Decoder) -> Result<Self, DencError> {
        Self::decode_with(d, |d| d.skip_frame().map(|()| soid))
    }

    #[inline]
    fn decode_with(d: &mut Decoder, soid: impl FnOnce(&mut Decoder) -> Result<HObject, DencError>) -> Result<Self, DencError> {
        d.frame("object_info_t", 17, |d, v| {
            if v < 11 {
                return Err(DencError::TooOld { what: "object_info_t", version: v, oldest: 11 });
            }
            let mut oi = Self::new(soid(d)?);
            d.skip_frame()?; // the locator that goes with the name
            d.skip_blob()?; // category, of old
            (oi.version, oi.prior_version, oi.last_reqid) = (d.get()?, d.get()?, d.get()?);
            (oi.size, oi.mtime) = (d.u64()?, d.get()?);
            if oi.soid.is_head() {
                d.ignore::<ReqId>()?;
            } else {
                d.ignore::<Vec<SnapId>>()?;
            }
            let mut row = d.row::<17>()?;
            (oi.truncate_seq, oi.truncate_size, oi.flags) = (row.u64(), row.u64(), row.u8().into());
            d.ignore::<BTreeMap<EntityName, WatchInfo>>()?;
            oi.user_version = d.get::<EVersion>()?.version;
            if d.bool()? {
                oi.set(oi_flag::USES_TMAP);
            }
            oi.watchers = d.get()?;
            if v >= 16 {
                let mut row = d.row::<40>()?;
                oi.flags = row.u32();
                oi.local_mtime = UTime { sec: row.u32(), nsec: row.u32() };
                (oi.data_digest, oi.omap_digest) = (row.u32(), row.u32());
                (oi.expected_object_size, oi.expected_write_size, oi.alloc_hint_flags) = (row.u64(), row.u64(), row.u32());
                if v >= 17 && oi.has(oi_flag::MANIFEST) {
                    oi.manifest = d.get()?;
                }
                return Ok(oi);
            }
            if v >= 13 {
                oi.flags = d.u32()?;
            }
            if v >= 14 {
                oi.local_mtime = d.get()?;
            }
            if v >= 15 {
                (oi.data_digest, oi.omap_digest) = (d.u32()?, d.u32()?);
            } else {
                oi.unset(oi_flag::DATA_DIGEST | oi_flag::OMAP_DIGEST);
            }
            Ok(oi)
        })
    }

    /// Watchers as releases before 0.80 knew them: one a client, by the client's name.
    fn encode_old_watchers(&self, e: &mut Encoder) {
        if self.watchers.is_empty() {
            return e.u32(0);
        }
        let mut old = BTreeMap::new();
        for ((_, name), watch) in &self.watchers {
            old.entry(*name).or_insert(watch); // of several, the lowest cookie's stays
        }
        e.count(old.len());
        for (name, watch) in old {
            name.encode(e);
            watch.encode(e);
        }
    }
}

/// Names of [`oi_flag`]s, in the order in which stock shows them.
const FLAG_NAMES: [(u32, &str); 10] = [
    (oi_flag::LOST, "lost"),
    (oi_flag::WHITEOUT, "whiteout"),
    (oi_flag::DIRTY, "dirty"),
    (oi_flag::USES_TMAP, "uses_tmap"),
    (oi_flag::OMAP, "omap"),
    (oi_flag::DATA_DIGEST, "data_digest"),
    (oi_flag::OMAP_DIGEST, "omap_digest"),
    (oi_flag::CACHE_PIN, "cache_pin"),
    (oi_flag::MANIFEST, "manifest"),
    (oi_flag::REDIRECT_HAS_REFERENCE, "redirect_has_reference"),
];

/// As lines of the cluster log show it.
impl std::fmt::Display for ObjectInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let flags: Vec<&str> = FLAG_NAMES.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name).collect();
        write!(f, "{}({} {} {} s {} uv {}", self.soid, self.version, self.last_reqid, flags.join("|"), self.size, self.user_version)?;
        if self.has(oi_flag::DATA_DIGEST) {
            write!(f, " dd {:x}", self.data_digest)?;
        }
        if self.has(oi_flag::OMAP_DIGEST) {
            write!(f, " od {:x}", self.omap_digest)?;
        }
        write!(f, " alloc_hint [{} {} {}])", self.expected_object_size, self.expected_write_size, self.alloc_hint_flags)
    }
}
