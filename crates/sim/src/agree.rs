//! At rest, have the members of each group the same? Objects byte for byte (data, attributes, omap), logs behind the longest trim, nothing missing.
//!
//! Each object is also what its own record says ([`crate::itself`]). Reads each member's store as a tool would after its OSD was stopped: what lies on the disk counts, not what the core believes. Shares no code with
//! the cores. Statistics are compared with a count of the objects.

use crate::itself;
use denc::{Decoder, Denc};
use std::collections::BTreeMap;
use store::{ObjectStore, OmapQuery, StoreError, StoreResult};
use types::object_info::{OI_ATTR, SS_ATTR};
use types::object_stat::ObjectStatSum;
use types::{Bytes, CollId, EVersion, GHObject, HObject, ObjectInfo, PgLogEntry, SnapId, SnapSet, SpgId};

/// Turns that a store may take to fetch what it was asked for.
const TURNS: u32 = 100_000;

/// One object as a member has it.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    size: u64,
    data: Vec<u8>,
    attrs: BTreeMap<Vec<u8>, Vec<u8>>,
    header: Vec<u8>,
    omap: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// One group as a member has it.
struct Member {
    osd: usize,
    head: EVersion,
    tail: EVersion,
    objects: BTreeMap<GHObject, Found>,
    log: Vec<PgLogEntry>,
    missing: usize,
    counted: ObjectStatSum,
    is_counted: bool,
}

/// Asks until the store need not fetch any more.
fn ask<T>(store: &mut dyn ObjectStore, f: impl Fn(&dyn ObjectStore) -> StoreResult<T>) -> Result<T, String> {
    for _ in 0..TURNS {
        match f(store) {
            Err(StoreError::Wait(_)) => {
                store.turn_end();
                store.take_ready(&mut Vec::new());
            }
            done => return done.map_err(|e| e.to_string()),
        }
    }
    Err("the store never fetches what it was asked for".into())
}

fn object(store: &mut dyn ObjectStore, coll: CollId, name: &GHObject) -> Result<Found, String> {
    let size = ask(store, |s| s.stat(coll, name))?.size;
    let data = ask(store, |s| s.read(coll, name, 0, size))?.flat().to_vec();
    let attrs = ask(store, |s| s.attrs(coll, name))?;
    let header = ask(store, |s| s.omap_header(coll, name))?.to_vec();
    let query = OmapQuery { entries_max: u64::MAX, bytes_max: u64::MAX, ..OmapQuery::default() };
    let omap = ask(store, |s| s.omap_list(coll, name, &query))?.entries;
    let flat = |pairs: Vec<(types::ByteStr, bytes::Bytes)>| pairs.into_iter().map(|(k, v)| (k.as_slice().to_vec(), v.to_vec())).collect();
    Ok(Found { size, data, attrs: flat(attrs), header, omap: flat(omap) })
}

fn member(osd: usize, store: &mut dyn ObjectStore, pgid: SpgId) -> Result<Option<Member>, String> {
    let Some(record) = ask(store, |s| s.load_pg(pgid))? else { return Ok(None) };
    let coll = CollId::Pg(pgid);
    let (mut objects, mut from) = (BTreeMap::new(), Some(GHObject::min()));
    while let Some(at) = from {
        let page = ask(store, |s| s.list(coll, &at, &GHObject::max(), 1000))?;
        for name in page.objects {
            let found = object(store, coll, &name)?;
            objects.insert(name, found);
        }
        from = page.next;
    }
    let log = ask(store, |s| s.pg_log(pgid, EVersion::ZERO, usize::MAX))?;
    let info = &record.info;
    let (counted, is_counted) = (info.stats.stats.sum, !info.stats.stats_invalid);
    Ok(Some(Member { osd, head: info.last_update, tail: info.log_tail, objects, log, missing: record.missing.len(), counted, is_counted }))
}

/// What is wrong with a group.
#[derive(Debug)]
pub enum Wrong {
    /// This member's store can't be read, as it says.
    Unreadable(usize, String),
    Differs(String),
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self::Differs(why)
    }
}

/// Compares the members of each group. `acting` names those that must have it; all others must not. `may_keep`: whether
/// an object may have a clone for a snapshot.
///
/// # Errors
/// What differs, and between which members.
pub fn check(
    stores: &mut [Box<dyn ObjectStore>],
    acting: &BTreeMap<SpgId, Vec<usize>>,
    may_keep: &dyn Fn(&HObject, SnapId) -> bool,
) -> Result<(), Wrong> {
    for (pgid, wanted) in acting {
        let mut members = Vec::new();
        for (osd, store) in stores.iter_mut().enumerate() {
            members.extend(member(osd, &mut **store, *pgid).map_err(|e| Wrong::Unreadable(osd, format!("{pgid} on osd.{osd}: {e}")))?);
        }
        let here: Vec<usize> = members.iter().map(|m| m.osd).collect();
        let mut wanted = wanted.clone();
        wanted.sort_unstable();
        if here != wanted {
            return Err(Wrong::Differs(format!("{pgid} lies on {here:?}, and acting are {wanted:?}")));
        }
        let Some((first, others)) = members.split_first() else { continue };
        alone(*pgid, first, may_keep)?;
        for other in others {
            alone(*pgid, other, may_keep)?;
            same(*pgid, first, other)?;
        }
    }
    Ok(())
}

/// What one member must be, whatever the others are.
fn alone(pgid: SpgId, m: &Member, may_keep: &dyn Fn(&HObject, SnapId) -> bool) -> Result<(), String> {
    if m.missing > 0 {
        return Err(format!("{pgid}: osd.{} misses {} objects", m.osd, m.missing));
    }
    // A split leaves the head where it was, and the entry may be the other group's.
    if m.log.last().is_some_and(|e| e.version > m.head) {
        return Err(format!("{pgid}: osd.{}'s log ends at {:?}, its info at {}", m.osd, m.log.last().map(|e| e.version), m.head));
    }
    let there = count(m, may_keep).map_err(|what| format!("{pgid}: osd.{}: {what}", m.osd))?;
    let counts = [
        ("objects", m.counted.num_objects, there.num_objects),
        ("clones", m.counted.num_object_clones, there.num_object_clones),
        ("bytes", m.counted.num_bytes, there.num_bytes),
        ("whiteouts", m.counted.num_whiteouts, there.num_whiteouts),
        ("objects with omap", m.counted.num_objects_omap, there.num_objects_omap),
    ];
    if let Some((what, counted, there)) = counts.into_iter().find(|(_, counted, there)| m.is_counted && counted != there) {
        return Err(format!("{pgid}: osd.{} counts {counted} {what}, and there are {there}", m.osd));
    }
    if let Some(name) = m.objects.keys().find(|name| is_temporary(name)) {
        return Err(format!("{pgid}: osd.{} still has {name}", m.osd));
    }
    Ok(())
}

/// What a member's objects come to; an error if heads and clones don't know of each other, or a clone serves no snapshot.
fn count(m: &Member, may_keep: &dyn Fn(&HObject, SnapId) -> bool) -> Result<ObjectStatSum, String> {
    let mut sum = ObjectStatSum::default();
    for (name, found) in m.objects.iter().filter(|(name, _)| !is_temporary(name)) {
        let attr = |name: &str| found.attrs.get(name.as_bytes()).map(|bytes| Bytes::copy_from_slice(bytes));
        let record = attr(OI_ATTR).ok_or_else(|| format!("{name} has no record"))?;
        let info = ObjectInfo::decode_of(name.hobj.clone(), &mut Decoder::new(record)).map_err(|e| format!("the record of {name}: {e}"))?;
        sum.num_objects += 1;
        sum.num_objects_omap += i64::from(info.is_omap());
        if info.size != found.size {
            return Err(format!("{name} has {} bytes, and its record says {}", found.size, info.size));
        }
        itself::check(&info, &found.data, &found.header, &found.omap).map_err(|what| format!("{name}: {what}"))?;
        if !name.hobj.is_head() {
            sum.num_object_clones += 1;
            let head = m.objects.get(&GHObject::plain(name.hobj.head())).ok_or_else(|| format!("{name} has no head"))?;
            let set = snapset(head, name)?;
            if !set.clones.contains(&name.hobj.snap) {
                return Err(format!("the head of {name} does not know it"));
            }
            continue;
        }
        sum.num_whiteouts += i64::from(info.is_whiteout());
        sum.num_bytes += found.size as i64;
        let set = snapset(found, name)?;
        for clone in &set.clones {
            let there = m
                .objects
                .get(&GHObject::plain(name.hobj.at_snap(*clone)))
                .ok_or_else(|| format!("clone {clone} of {name} is not there"))?;
            let shared = set.clone_overlap.get(clone).map_or(0, |ranges| ranges.iter().map(|(_, len)| len).sum::<u64>());
            if set.clone_size.get(clone) != Some(&there.size) || shared > there.size {
                return Err(format!("clone {clone} of {name} has {} bytes, and its head knows of others", there.size));
            }
            sum.num_bytes += (there.size - shared) as i64;
            // The next newer one, or the head.
            let newer = set
                .clones
                .iter()
                .filter(|other| *other > clone)
                .min()
                .and_then(|snap| m.objects.get(&GHObject::plain(name.hobj.at_snap(*snap))));
            if let Some(ranges) = set.clone_overlap.get(clone) {
                let newer = &newer.unwrap_or(found).data;
                itself::shares(ranges.iter(), &there.data, newer).map_err(|what| format!("clone {clone} of {name}: {what}"))?;
            }
            let serves = set.clone_snaps.get(clone).is_some_and(|snaps| snaps.iter().any(|snap| may_keep(&name.hobj, *snap)));
            if !serves {
                return Err(format!("clone {clone} of {name} is kept for {:?}, which are removed", set.clone_snaps.get(clone)));
            }
        }
    }
    Ok(sum)
}
fn snapset(head: &Found, name: &GHObject) -> Result<SnapSet, String> {
    let Some(bytes) = head.attrs.get(SS_ATTR.as_bytes()) else { return Ok(SnapSet::default()) };
    SnapSet::decode(&mut Decoder::new(Bytes::copy_from_slice(bytes))).map_err(|e| format!("the snapshots of {name}: {e}"))
}

/// Objects under recovery have names in a pool of their own, below -1.
fn is_temporary(name: &GHObject) -> bool {
    name.hobj.pool < -1
}

fn same(pgid: SpgId, a: &Member, b: &Member) -> Result<(), String> {
    let who = format!("{pgid}: osd.{} and osd.{}", a.osd, b.osd);
    if a.head != b.head {
        return Err(format!("{who} are at {} and {}", a.head, b.head));
    }
    let names = |m: &Member| m.objects.keys().cloned().collect::<std::collections::BTreeSet<_>>();
    if let Some(name) = names(a).symmetric_difference(&names(b)).next() {
        return Err(format!("{who}: one of them has {name}, the other hasn't"));
    }
    for (name, x) in &a.objects {
        let y = &b.objects[name];
        let what = match () {
            _ if x.size != y.size || x.data != y.data => "data",
            _ if x.attrs != y.attrs => "attributes",
            _ if x.header != y.header || x.omap != y.omap => "omap",
            _ => continue,
        };
        return Err(format!("{who} differ in the {what} of {name}"));
    }
    let tail = a.tail.max(b.tail);
    let since =
        |m: &Member| m.log.iter().filter(|e| e.version > tail).map(|e| (e.version, e.op, e.soid.clone(), e.reqid)).collect::<Vec<_>>();
    if since(a) != since(b) { Err(format!("{who} differ in their logs behind {tail}")) } else { Ok(()) }
}
