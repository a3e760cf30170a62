//! Rows of a group's log, its dups and its missing objects, as they are stored and as a delta in the log carries them.
//!
//! What nearly all entries have is written down short, since each goes to the log and later into a leaf:
//!
//! ```text
//! entry | 0 u8 | flags u8 | op zigzag | pool zigzag, hash u32, name | key, namespace, snap, if their flags are set |
//!       | epoch, version | epoch, version before | reqid: kind u8, number zigzag, tid, incarnation zigzag | seconds u32, ns u32 |
//!       | user version, return code zigzag, if their flags are set | n clean ranges: distance from the last one's end, length |
//! dup   | 0 u8 | flags u8 | epoch, version | reqid | user version, return code zigzag, if their flags are set |
//! ```
//! Numbers without a size are of variable length; a range that goes to the end of all offsets has length 0. What has more than these fields is stored
//! as Ceph encodes it, which begins with a version above 0; in version 1 of the layout everything was.

use crate::rows::codec::{Corrupt, Get, Put};
use crate::rows::key;
use bytes::{Bytes, BytesMut};
use denc::{ALL_FEATURES, Decoder, Denc, Encoder};
use types::{CEPH_NOSNAP, EVersion, EntityKind, EntityName, HObject, LogOp, ModDesc, ObjectCleanRegions, PgLogDup, PgLogEntry};
use types::{IntervalSet, PgMissingItem, ReqId, UTime};

/// In front of what is short.
const SHORT: u8 = 0;

mod flag {
    pub const KEY: u8 = 1;
    pub const NSPACE: u8 = 2;
    pub const SNAP: u8 = 4;
    /// The user's version is not the entry's.
    pub const USER: u8 = 8;
    pub const CODE: u8 = 16;
    /// It can be rolled back.
    pub const ROLLBACK: u8 = 32;
    pub const NEW_OBJECT: u8 = 64;
    pub const OMAP_DIRTY: u8 = 128;
}

const BAD: Corrupt = Corrupt("a row of a group's log is malformed");

/// What a group has a row for.
#[derive(Debug, PartialEq, Eq)]
pub enum PgRow {
    Log(PgLogEntry),
    Dup(PgLogDup),
    Missing(HObject, PgMissingItem),
}

impl PgRow {
    /// A row of one of [`crate::rows::pg::PG_KINDS`].
    pub fn decode(kind: u8, row: &[u8]) -> Result<Self, Corrupt> {
        // In memory of its own: what is decoded from it shares it and lives long.
        let row = Bytes::copy_from_slice(row);
        let is_short = row.first() == Some(&SHORT);
        Ok(match kind {
            key::LOG if is_short => Self::Log(get_entry(Get::new(row))?),
            key::LOG => Self::Log(decoded(row)?),
            key::DUP if is_short => Self::Dup(get_dup(Get::new(row))?),
            key::DUP => Self::Dup(decoded(row)?),
            _ => {
                let mut get = Get::new(row);
                let object = decoded(get.blob()?)?;
                Self::Missing(object, decoded(get.raw(get.remaining())?)?)
            }
        })
    }
}

fn decoded<T: Denc>(bytes: Bytes) -> Result<T, Corrupt> {
    T::decode(&mut Decoder::new(bytes)).map_err(|_| Corrupt("a row is not of its type"))
}

/// Encodes into a buffer that is used again and again.
pub fn encode_into<'a>(buf: &'a mut BytesMut, value: &impl Denc) -> &'a [u8] {
    buf.clear();
    let mut encoder = Encoder::append_to(std::mem::take(buf), ALL_FEATURES);
    value.encode(&mut encoder);
    *buf = encoder.into_buf();
    buf
}

pub fn put_version(out: &mut Vec<u8>, v: EVersion) {
    out.put_var(u64::from(v.epoch));
    out.put_var(v.version);
}
pub fn get_version(get: &mut Get) -> Result<EVersion, Corrupt> {
    let epoch = u32::try_from(get.var()?).map_err(|_| Corrupt("an epoch is too large"))?;
    Ok(EVersion { epoch, version: get.var()? })
}
fn put_reqid(out: &mut Vec<u8>, id: &ReqId) {
    out.put_u8(id.name.kind.0);
    out.put_zigzag(id.name.num);
    out.put_var(id.tid);
    out.put_zigzag(id.inc.into());
}
fn get_reqid(get: &mut Get) -> Result<ReqId, Corrupt> {
    let name = EntityName { kind: EntityKind(get.u8()?), num: get.zigzag()? };
    Ok(ReqId { name, tid: get.var()?, inc: get_i32(get)? })
}
fn get_i32(get: &mut Get) -> Result<i32, Corrupt> {
    i32::try_from(get.zigzag()?).map_err(|_| BAD)
}
fn bit(is: bool, flag: u8) -> u8 {
    if is { flag } else { 0 }
}

/// Puts what `put` appends behind its length, as a counted string.
fn put_counted(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    // Enough for nearly all of them.
    out.put_u8(0);
    put(out);
    let len = out.len() - at - 1;
    if len < 0x80 {
        out[at] = len as u8;
        return;
    }
    let end = out.len();
    out.put_var(len as u64);
    let n = out.len() - end;
    // The length goes in front, and its last byte where the room was left.
    out[at..].rotate_right(n);
    let zero = out.remove(at + n);
    debug_assert_eq!(zero, 0);
}

/// An entry's row, as a counted string.
pub fn put_entry(entry: &PgLogEntry, out: &mut Vec<u8>, buf: &mut BytesMut) {
    let mod_desc = ModDesc { can_local_rollback: entry.mod_desc.can_local_rollback, ..ModDesc::default() };
    let is_short = entry.reverting_to == EVersion::ZERO
        && entry.op != LogOp::LOST_REVERT
        && entry.snaps.is_empty()
        && entry.extra_reqids.is_empty()
        && entry.extra_reqid_return_codes.is_empty()
        && entry.op_returns.is_empty()
        && entry.mod_desc == mod_desc
        && !entry.soid.max;
    if is_short { put_counted(out, |out| put_short_entry(entry, out)) } else { out.put_blob(encode_into(buf, entry)) }
}
fn put_short_entry(entry: &PgLogEntry, out: &mut Vec<u8>) {
    let (object, clean) = (&entry.soid, &entry.clean_regions);
    let flags = bit(!object.key.is_empty(), flag::KEY)
        | bit(!object.nspace.is_empty(), flag::NSPACE)
        | bit(object.snap != CEPH_NOSNAP, flag::SNAP)
        | bit(entry.user_version != entry.version.version, flag::USER)
        | bit(entry.return_code != 0, flag::CODE)
        | bit(entry.mod_desc.can_local_rollback, flag::ROLLBACK)
        | bit(clean.new_object, flag::NEW_OBJECT)
        | bit(!clean.clean_omap, flag::OMAP_DIRTY);
    out.put_u8(SHORT);
    out.put_u8(flags);
    out.put_zigzag(entry.op.0.into());
    out.put_zigzag(object.pool);
    out.put_u32(object.hash);
    out.put_blob(object.oid.as_slice());
    for (flag, text) in [(flag::KEY, &object.key), (flag::NSPACE, &object.nspace)] {
        if flags & flag != 0 {
            out.put_blob(text.as_slice());
        }
    }
    if flags & flag::SNAP != 0 {
        out.put_var(object.snap);
    }
    put_version(out, entry.version);
    put_version(out, entry.prior_version);
    put_reqid(out, &entry.reqid);
    out.put_u32(entry.mtime.sec);
    out.put_u32(entry.mtime.nsec);
    put_outcome(out, flags, entry.user_version, entry.return_code);
    let mut end = 0;
    out.put_var(clean.clean_offsets.num_intervals() as u64);
    for (start, len) in clean.clean_offsets.iter() {
        out.put_var(start - end);
        end = start + len;
        out.put_var(if end == u64::MAX { 0 } else { len });
    }
}
fn put_outcome(out: &mut Vec<u8>, flags: u8, user_version: u64, code: i32) {
    if flags & flag::USER != 0 {
        out.put_var(user_version);
    }
    if flags & flag::CODE != 0 {
        out.put_zigzag(code.into());
    }
}
fn get_outcome(get: &mut Get, flags: u8, version: EVersion) -> Result<(u64, i32), Corrupt> {
    let user_version = if flags & flag::USER != 0 { get.var()? } else { version.version };
    Ok((user_version, if flags & flag::CODE != 0 { get_i32(get)? } else { 0 }))
}
fn get_entry(mut get: Get) -> Result<PgLogEntry, Corrupt> {
    get.u8()?;
    let flags = get.u8()?;
    let op = LogOp(get_i32(&mut get)?);
    let mut soid = HObject { pool: get.zigzag()?, hash: get.u32()?, oid: get.blob()?.into(), snap: CEPH_NOSNAP, ..HObject::default() };
    if flags & flag::KEY != 0 {
        soid.key = get.blob()?.into();
    }
    if flags & flag::NSPACE != 0 {
        soid.nspace = get.blob()?.into();
    }
    if flags & flag::SNAP != 0 {
        soid.snap = get.var()?;
    }
    let (version, prior_version) = (get_version(&mut get)?, get_version(&mut get)?);
    let reqid = get_reqid(&mut get)?;
    let mtime = UTime { sec: get.u32()?, nsec: get.u32()? };
    let (user_version, return_code) = get_outcome(&mut get, flags, version)?;
    let mut clean_offsets = IntervalSet::new();
    let mut end = 0_u64;
    for _ in 0..get.count(2)? {
        let start = end.checked_add(get.var()?).ok_or(BAD)?;
        let len = match get.var()? {
            0 => u64::MAX - start,
            len => len,
        };
        end = start.checked_add(len).filter(|end| *end > start).ok_or(BAD)?;
        clean_offsets.insert(start, len);
    }
    if !get.is_empty() {
        return Err(BAD);
    }
    Ok(PgLogEntry {
        op,
        soid,
        version,
        prior_version,
        reqid,
        mtime,
        user_version,
        mod_desc: ModDesc { can_local_rollback: flags & flag::ROLLBACK != 0, ..ModDesc::default() },
        clean_regions: ObjectCleanRegions {
            clean_offsets,
            clean_omap: flags & flag::OMAP_DIRTY == 0,
            new_object: flags & flag::NEW_OBJECT != 0,
        },
        return_code,
        ..PgLogEntry::default()
    })
}

/// A dup's row, as a counted string.
pub fn put_dup(dup: &PgLogDup, out: &mut Vec<u8>, buf: &mut BytesMut) {
    if !dup.op_returns.is_empty() {
        return out.put_blob(encode_into(buf, dup));
    }
    put_counted(out, |out| {
        let flags = bit(dup.user_version != dup.version.version, flag::USER) | bit(dup.return_code != 0, flag::CODE);
        out.put_u8(SHORT);
        out.put_u8(flags);
        put_version(out, dup.version);
        put_reqid(out, &dup.reqid);
        put_outcome(out, flags, dup.user_version, dup.return_code);
    });
}
fn get_dup(mut get: Get) -> Result<PgLogDup, Corrupt> {
    get.u8()?;
    let flags = get.u8()?;
    let version = get_version(&mut get)?;
    let reqid = get_reqid(&mut get)?;
    let (user_version, return_code) = get_outcome(&mut get, flags, version)?;
    if !get.is_empty() {
        return Err(BAD);
    }
    Ok(PgLogDup { reqid, version, user_version, return_code, op_returns: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use types::OpReturn;

    fn number(rng: &mut Rng) -> u64 {
        rng.u64() >> rng.below(64)
    }
    fn version(rng: &mut Rng) -> EVersion {
        EVersion::new(number(rng) as u32, number(rng))
    }
    fn text(rng: &mut Rng) -> Vec<u8> {
        let mut out = vec![0; if rng.chance(1, 2) { 0 } else { rng.below(200) as usize }];
        rng.fill(&mut out);
        out
    }
    fn regions(rng: &mut Rng) -> ObjectCleanRegions {
        let mut clean = ObjectCleanRegions::default();
        for _ in 0..rng.below(4) {
            clean.mark_data_dirty(number(rng) >> 1, 1 + number(rng) / 4);
        }
        (clean.clean_omap, clean.new_object) = (rng.chance(1, 2), rng.chance(1, 2));
        if rng.chance(1, 8) { ObjectCleanRegions::fully_dirty() } else { clean }
    }
    fn reqid(rng: &mut Rng) -> ReqId {
        let name = EntityName { kind: EntityKind(rng.below(256) as u8), num: rng.u64() as i64 >> rng.below(64) };
        ReqId { name, tid: number(rng), inc: rng.u64() as i32 }
    }
    /// Nearly every field that can be left out, is there now and then.
    fn entry(rng: &mut Rng) -> PgLogEntry {
        let snap = if rng.chance(1, 2) { CEPH_NOSNAP } else { number(rng) };
        let soid = HObject {
            oid: text(rng).into(),
            key: text(rng).into(),
            snap,
            hash: rng.u64() as u32,
            nspace: text(rng).into(),
            pool: number(rng) as i64,
            max: false,
        };
        let mut e = PgLogEntry {
            op: LogOp(rng.below(11) as i32),
            soid,
            version: version(rng),
            prior_version: version(rng),
            reqid: reqid(rng),
            mtime: UTime { sec: rng.u64() as u32, nsec: rng.u64() as u32 },
            clean_regions: regions(rng),
            mod_desc: if rng.chance(1, 2) { ModDesc::default() } else { ModDesc::unrollbackable() },
            return_code: if rng.chance(1, 2) { 0 } else { rng.u64() as i32 },
            ..PgLogEntry::default()
        };
        e.user_version = if rng.chance(1, 2) { e.version.version } else { number(rng) };
        match rng.below(20) {
            0 => e.op_returns = vec![OpReturn { rval: -2, bl: text(rng).into() }],
            1 => e.extra_reqids = vec![(reqid(rng), number(rng))],
            2 => e.snaps = Bytes::from_static(b"snaps"),
            3 => e.mod_desc.required_version = 2,
            4 => e.mod_desc.rollback_info_completed = true,
            5 => e.mod_desc.bl = Bytes::from_static(b"how"),
            6 => (e.op, e.reverting_to) = (LogOp::LOST_REVERT, version(rng)),
            7 => e.soid = HObject::max(),
            _ => {}
        }
        e
    }
    fn row(put: impl FnOnce(&mut Vec<u8>, &mut BytesMut)) -> Bytes {
        let mut out = b"before".to_vec();
        put(&mut out, &mut BytesMut::new());
        let mut get = Get::new(Bytes::from(out).slice(6..));
        let row = get.blob().expect("a counted string");
        assert!(get.is_empty());
        row
    }

    #[test]
    fn rows_come_back_as_they_went_short_or_as_ceph_has_them() {
        let (mut rng, mut short, mut long) = (Rng::new(5), 0, 0);
        for _ in 0..20_000 {
            let e = entry(&mut rng);
            let bytes = row(|out, buf| put_entry(&e, out, buf));
            *if bytes[0] == SHORT { &mut short } else { &mut long } += 1;
            assert_eq!(PgRow::decode(key::LOG, &bytes), Ok(PgRow::Log(e.clone())));
            // As version 1 of the layout has it.
            assert_eq!(PgRow::decode(key::LOG, &e.to_bytes(ALL_FEATURES)), Ok(PgRow::Log(e.clone())));
            let dup = PgLogDup { op_returns: e.op_returns.clone(), ..e.to_dup() };
            let bytes = row(|out, buf| put_dup(&dup, out, buf));
            assert_eq!(bytes[0] == SHORT, dup.op_returns.is_empty());
            assert_eq!(PgRow::decode(key::DUP, &bytes), Ok(PgRow::Dup(dup.clone())));
            assert_eq!(PgRow::decode(key::DUP, &dup.to_bytes(ALL_FEATURES)), Ok(PgRow::Dup(dup)));
        }
        assert!(short > 10_000 && long > 4_000, "{short} short, {long} long");
    }
    #[test]
    fn what_is_cut_off_or_changed_is_an_error_or_another_row() {
        let mut rng = Rng::new(6);
        for _ in 0..300 {
            let e = entry(&mut rng);
            for (kind, bytes) in
                [(key::LOG, row(|out, buf| put_entry(&e, out, buf))), (key::DUP, row(|out, buf| put_dup(&e.to_dup(), out, buf)))]
            {
                for end in 0..bytes.len() {
                    assert!(PgRow::decode(kind, &bytes[..end]).is_err());
                    let mut other = bytes.to_vec();
                    other[end] ^= 1 << rng.below(8);
                    let _ = PgRow::decode(kind, &other);
                }
                assert!(bytes[0] != SHORT || PgRow::decode(kind, &[&bytes[..], &[0]].concat()).is_err());
            }
        }
    }
    /// What a write of an image costs the log, and later a leaf.
    #[test]
    fn an_ordinary_entry_is_short() {
        let soid = HObject { oid: "rbd_data.10d5c3f5a2b1.00000000000001f3".into(), hash: 0xdead_beef, pool: 2, ..HObject::default() };
        let mut e = PgLogEntry {
            op: LogOp::MODIFY,
            soid: HObject { snap: CEPH_NOSNAP, ..soid },
            version: EVersion::new(20, 10_000),
            prior_version: EVersion::new(20, 9_000),
            reqid: ReqId { name: EntityName::client(4200), tid: 100_000, inc: 0 },
            mtime: UTime { sec: 1_800_000_000, nsec: 999_999_999 },
            user_version: 10_000,
            mod_desc: ModDesc::unrollbackable(),
            ..PgLogEntry::default()
        };
        e.clean_regions.mark_data_dirty(3 << 20, 4096);
        assert!(row(|out, buf| put_entry(&e, out, buf)).len() < 90 && e.to_bytes(ALL_FEATURES).len() > 220);
        assert!(row(|out, buf| put_dup(&e.to_dup(), out, buf)).len() < 20);
    }
}
