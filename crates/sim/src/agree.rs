//! At rest, have the members of each group the same? Objects byte for byte (data, attributes, omap), logs behind the longest trim, nothing missing.
//!
//! Reads each member's store as a tool would after its OSD was stopped: what lies on the disk counts, not what the core believes. Shares no code with
//! the cores. Statistics are compared with a count of the objects.

use std::collections::BTreeMap;
use store::{ObjectStore, OmapQuery, StoreError, StoreResult};
use types::{CollId, EVersion, GHObject, PgLogEntry, SpgId};

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
    counted: i64,
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
    let counted = info.stats.stats.sum.num_objects;
    Ok(Some(Member { osd, head: info.last_update, tail: info.log_tail, objects, log, missing: record.missing.len(), counted }))
}

/// Compares the members of each group. `acting` names those that must have it; all others must not.
///
/// # Errors
/// What differs, and between which members.
pub fn check(stores: &mut [Box<dyn ObjectStore>], acting: &BTreeMap<SpgId, Vec<usize>>) -> Result<(), String> {
    for (pgid, wanted) in acting {
        let mut members = Vec::new();
        for (osd, store) in stores.iter_mut().enumerate() {
            members.extend(member(osd, &mut **store, *pgid).map_err(|e| format!("{pgid} on osd.{osd}: {e}"))?);
        }
        let here: Vec<usize> = members.iter().map(|m| m.osd).collect();
        let mut wanted = wanted.clone();
        wanted.sort_unstable();
        if here != wanted {
            return Err(format!("{pgid} lies on {here:?}, and acting are {wanted:?}"));
        }
        let Some((first, others)) = members.split_first() else { continue };
        alone(*pgid, first)?;
        for other in others {
            alone(*pgid, other)?;
            same(*pgid, first, other)?;
        }
    }
    Ok(())
}

/// What one member must be, whatever the others are.
fn alone(pgid: SpgId, m: &Member) -> Result<(), String> {
    if m.missing > 0 {
        return Err(format!("{pgid}: osd.{} misses {} objects", m.osd, m.missing));
    }
    // A split leaves the head where it was, and the entry may be the other group's.
    if m.log.last().is_some_and(|e| e.version > m.head) {
        return Err(format!("{pgid}: osd.{}'s log ends at {:?}, its info at {}", m.osd, m.log.last().map(|e| e.version), m.head));
    }
    let objects = m.objects.keys().filter(|name| !is_temporary(name)).count() as i64;
    if m.counted != objects {
        return Err(format!("{pgid}: osd.{} counts {} objects, and there are {objects}", m.osd, m.counted));
    }
    if let Some(name) = m.objects.keys().find(|name| is_temporary(name)) {
        return Err(format!("{pgid}: osd.{} still has {name}", m.osd));
    }
    Ok(())
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
