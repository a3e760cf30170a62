//! Copies compared: which of them is the one that the others are held against, and what is wrong with each.
//!
//! The authoritative copy is one whose record, snapset and size hold together, of the newest version, whose digests are those of its record and whose
//! snapset names the clones that are there, with the most digests: what object_info says counts more than how many copies agree. Where that leaves a choice, the copy with the most like it counts,
//! and then our own: stock takes its own at once, and repairs two good omaps from a bad one. Values in, values out: no store and no message.
//! Heads and their clones among each other are [`crate::pg::work::scrub::snapsets`]'.
//!
//! Source of the facts (rules, counts and lines of the cluster log): Ceph 18.2 `src/osd/scrubber/scrub_backend.cc`.

use crate::event::Level;
use crate::pg::work::scrub::found::{Bad, Comparing, Found, NewDigests};
use crate::planted::{Bug, planted};
use denc::Denc;
use std::collections::{BTreeMap, BTreeSet};
use types::object_info::{OI_ATTR, SS_ATTR};
use types::scrub_results::{FoundShard, InconsistentObj, object_error, shard_error};
use types::{Bytes, EVersion, HObject, ObjectInfo, PgShard, ScrubMap, ScrubObject, SnapSet, oi_flag};

/// One copy, judged by itself.
struct Judged {
    info: Option<ObjectInfo>,
    digest: Option<u32>,
    /// Why it can't be the authoritative one; empty if it can.
    why_not: Vec<String>,
}

/// Compares all copies of a range; the objects as the authoritative copies have them are returned, too.
pub fn compare(cx: &Comparing, maps: &BTreeMap<PgShard, ScrubMap>, found: &mut Found) -> BTreeMap<HObject, ScrubObject> {
    let names: BTreeSet<&HObject> = maps.values().flat_map(|map| map.objects.keys()).collect();
    let mut whole = BTreeMap::new();
    for name in names {
        omap_sums(cx, name, maps, found);
        let auth = compare_object(cx, name, maps, found)
            .or_else(|| maps.get(&cx.whoami).filter(|map| map.objects.contains_key(name)).map(|_| cx.whoami));
        let auth = auth.or_else(|| maps.iter().find(|(_, map)| map.objects.contains_key(name)).map(|(shard, _)| *shard));
        let object = auth.and_then(|shard| maps[&shard].objects.get(name)).expect("some member has it");
        if let Some(own) = own_set(name, maps.get(&cx.whoami), object) {
            found.own_sets.insert(name.clone(), own.clone());
        }
        whole.insert(name.clone(), object.clone());
        found.count += 1;
    }
    whole
}

/// The leader's copy of a head, if it has other snapshots than `whole` and could be the authoritative one by its record.
fn own_set<'a>(name: &HObject, ours: Option<&'a ScrubMap>, whole: &ScrubObject) -> Option<&'a ScrubObject> {
    let own = ours?.objects.get(name).filter(|own| name.is_head() && !same_attr(own, whole, SS_ATTR))?;
    let sound = |object| Some(judge(name, object, &mut FoundShard::default())).filter(|judged| judged.why_not.is_empty())?.info;
    (sound(own)?.version >= sound(whole)?.version).then_some(own)
}

fn omap_sums(cx: &Comparing, name: &HObject, maps: &BTreeMap<PgShard, ScrubMap>, found: &mut Found) {
    let Some(ours) = maps.get(&cx.whoami).and_then(|map| map.objects.get(name)) else { return };
    found.sum.num_omap_bytes += ours.object_omap_bytes as i64;
    found.sum.num_omap_keys += ours.object_omap_keys as i64;
    if ours.large_omap_object_found {
        found.sum.num_large_omap_objects += 1;
        let (keys, bytes) = (ours.large_omap_object_key_count, ours.large_omap_object_value_size);
        let raw = types::PgId::new(name.pool, name.hash);
        let text = format!("Large omap object found. Object: {name} PG: {raw} ({}) Key count: {keys} Size (bytes): {bytes}", cx.pgid.pgid);
        found.lines.push((Level::Warn, text));
    }
}

/// Judges one copy by itself.
fn judge(name: &HObject, object: &ScrubObject, shard: &mut FoundShard) -> Judged {
    let mut why_not: Vec<String> = Vec::new();
    let mut say = |shard: &mut FoundShard, error: u64, what: &str| {
        shard.errors |= error;
        why_not.push(format!("candidate had a {what}"));
    };
    if object.read_error {
        say(shard, shard_error::READ, "read error");
    }
    if object.stat_error {
        say(shard, shard_error::STAT, "stat error");
        return Judged { info: None, digest: None, why_not };
    }
    if name.is_head() {
        match object.attrs.get(SS_ATTR.as_bytes()).map(SnapSet::from_bytes) {
            None => say(shard, shard_error::SNAPSET_MISSING, "missing snapset key"),
            Some(Err(_)) => say(shard, shard_error::SNAPSET_CORRUPTED, "corrupt snapset"),
            Some(Ok(_)) => {}
        }
    }
    let info = match object.attrs.get(OI_ATTR.as_bytes()).map(ObjectInfo::from_bytes) {
        None => {
            say(shard, shard_error::INFO_MISSING, "missing info key");
            return Judged { info: None, digest: None, why_not };
        }
        // A record of another object is none of this one.
        Some(Ok(info)) if info.soid == *name => info,
        Some(_) => {
            say(shard, shard_error::INFO_CORRUPTED, "corrupt info");
            return Judged { info: None, digest: None, why_not };
        }
    };
    if object.size != info.size {
        shard.errors |= shard_error::OBJ_SIZE_INFO;
        why_not.push(format!("candidate size {} info size {} mismatch", object.size, info.size));
    }
    Judged { info: Some(info), digest: object.digest, why_not }
}

/// The copy that counts.
struct Auth<'a> {
    shard: PgShard,
    info: ObjectInfo,
    object: &'a ScrubObject,
    /// No copy's data has another digest.
    digests_match: bool,
}

/// What speaks for a copy, the strongest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Merit {
    version: EVersion,
    /// Its bytes and keys are not other ones than its record says.
    holds_together: bool,
    /// Its set of snapshots names the clones that its member has.
    names_its_clones: bool,
    digests: u32,
    /// Copies like it.
    alike: usize,
}

/// True where the copies' sets are alike, too: then there is nothing to choose by.
fn names_its_clones(member: PgShard, object: &ScrubObject, name: &HObject, maps: &BTreeMap<PgShard, ScrubMap>) -> bool {
    let mut copies = maps.values().filter_map(|map| map.objects.get(name));
    if !name.is_head() || copies.all(|copy| same_attr(copy, object, SS_ATTR)) {
        return true;
    }
    let clones = maps[&member].objects.range(name.at_snap(0)..name.clone()).map(|(clone, _)| clone.snap);
    object.attrs.get(SS_ATTR.as_bytes()).and_then(|bytes| SnapSet::from_bytes(bytes).ok()).is_some_and(|set| clones.eq(set.clones))
}

fn merit(member: PgShard, info: &ObjectInfo, object: &ScrubObject, name: &HObject, maps: &BTreeMap<PgShard, ScrubMap>) -> Merit {
    let agrees = |flag: u32, recorded: u32, is: Option<u32>| !info.has(flag) || is.is_none_or(|is| is == recorded);
    let is_alike = |other: &&ScrubObject| {
        other.digest == object.digest && other.omap_digest == object.omap_digest && other.size == object.size && other.attrs == object.attrs
    };
    Merit {
        version: info.version,
        holds_together: agrees(oi_flag::DATA_DIGEST, info.data_digest, object.digest)
            && agrees(oi_flag::OMAP_DIGEST, info.omap_digest, object.omap_digest),
        names_its_clones: names_its_clones(member, object, name, maps),
        digests: u32::from(info.has(oi_flag::DATA_DIGEST)) + u32::from(info.has(oi_flag::OMAP_DIGEST)),
        alike: maps.values().filter_map(|map| map.objects.get(name)).filter(is_alike).count(),
    }
}

/// Chooses it among the members' copies.
fn choose<'a>(
    cx: &Comparing,
    name: &HObject,
    maps: &'a BTreeMap<PgShard, ScrubMap>,
    shards: &mut BTreeMap<PgShard, FoundShard>,
    lines: &mut Vec<String>,
) -> Option<Auth<'a>> {
    let ours_first = std::iter::once(cx.whoami).chain(maps.keys().copied().filter(|shard| *shard != cx.whoami));
    let mut best: Option<Auth<'a>> = None;
    for member in ours_first {
        let Some(object) = maps.get(&member).and_then(|map| map.objects.get(name)) else { continue };
        let shard = shards.entry(member).or_default();
        shard.primary = member == cx.whoami;
        let judged = judge(name, object, shard);
        if let (Some(best), Some(digest)) = (&mut best, judged.digest)
            && best.object.digest.is_some_and(|other| other != digest)
        {
            best.digests_match = false;
        }
        if !judged.why_not.is_empty() {
            lines.push(format!("{} shard {member} soid {name} : {}", cx.pgid.pgid, judged.why_not.join(", ")));
            continue;
        }
        let info = judged.info.expect("a copy without a record is not to be relied on");
        let merit_of = |best: &Auth<'_>| merit(best.shard, &best.info, best.object, name, maps);
        let is_better = best.as_ref().is_none_or(|best| merit(member, &info, object, name, maps) > merit_of(best));
        if is_better {
            let digests_match = best.as_ref().is_none_or(|best| best.digests_match);
            best = Some(Auth { shard: member, info, object, digests_match });
        }
    }
    if planted(Bug::TrustMajority) && maps.len() > 2 {
        return by_majority(name, maps, best);
    }
    best
}

/// The bug: the data that most copies have counts, whatever object_info says.
fn by_majority<'a>(name: &HObject, maps: &'a BTreeMap<PgShard, ScrubMap>, best: Option<Auth<'a>>) -> Option<Auth<'a>> {
    let mut auth = best?;
    let objects: Vec<(PgShard, &ScrubObject)> = maps.iter().filter_map(|(shard, map)| Some((*shard, map.objects.get(name)?))).collect();
    let same = |digest: Option<u32>| objects.iter().filter(|(_, object)| object.digest == digest).count();
    let (shard, object) = *objects.iter().max_by_key(|(_, object)| same(object.digest))?;
    (auth.shard, auth.object) = (shard, object);
    auth.info.clear_data_digest();
    Some(auth)
}

fn count_shard(shard: &FoundShard, found: &mut Found) {
    if shard.errors & shard_error::DEEP != 0 {
        found.deep += 1;
    } else if shard.errors & shard_error::SHALLOW != 0 {
        found.shallow += 1;
    }
}
fn count_object(object: &InconsistentObj, found: &mut Found) {
    if object.errors & object_error::DEEP != 0 {
        found.deep += 1;
    } else if object.errors & object_error::SHALLOW != 0 {
        found.shallow += 1;
    }
}

/// Compares the copies of one object; the member whose copy counts is returned, if there is one.
fn compare_object(cx: &Comparing, name: &HObject, maps: &BTreeMap<PgShard, ScrubMap>, found: &mut Found) -> Option<PgShard> {
    let mut shards: BTreeMap<PgShard, FoundShard> = BTreeMap::new();
    let mut lines = Vec::new();
    let auth = choose(cx, name, maps, &mut shards, &mut lines);
    lines.into_iter().for_each(|line| found.error(line));
    let mut result = InconsistentObj { object: name.into(), ..InconsistentObj::default() };
    let Some(auth) = auth else {
        none_counts(cx, name, maps, shards, result, found);
        return None;
    };
    result.version = auth.info.user_version;
    let (mut bad, mut good, mut differ) = (Bad { version: auth.info.version, ..Bad::default() }, Vec::new(), BTreeSet::new());
    let mut fixes_digest = false;
    for (member, map) in maps {
        let shard = shards.entry(*member).or_default();
        shard.selected_oi = *member == auth.shard;
        let Some(object) = map.objects.get(name) else {
            bad.missing.insert(*member);
            (shard.errors, shard.primary) = (shard.errors | shard_error::MISSING, *member == cx.whoami);
            found.shallow += 1;
            found.error(format!("{} shard {member} {name} : missing", cx.pgid));
            result.shards.insert(*member, shard.clone());
            continue;
        };
        fill(shard, object);
        let differences = differences(cx, &auth, object, shard, &mut result);
        let only_digest = shard.errors == shard_error::DATA_DIGEST_INFO;
        if cx.repair && *member == auth.shard && maps.len() > 1 && auth.digests_match && only_digest && object.digest.is_some() {
            // All copies have these bytes: the record is wrong.
            fixes_digest = true;
            shard.errors = 0;
            found.error(format!("{} soid {name} : repairing object info data_digest", cx.pgid));
        }
        if shard.errors != 0 {
            bad.inconsistent.insert(*member);
            if shard.errors & shard_error::DEEP != 0 {
                found.deep += 1;
            } else {
                found.shallow += 1;
            }
            if !differences.is_empty() {
                found.error(format!("{} shard {member} soid {name} : {}", cx.pgid, differences.join(", ")));
            }
        } else if !differences.is_empty() {
            differ.insert(*member);
            found.error(format!("{} soid {name} : {}", cx.pgid, differences.join(", ")));
        } else {
            good.push(*member);
        }
        result.shards.insert(*member, shard.clone());
    }
    result.union_errors = result.shards.values().fold(0, |all, shard| all | shard.errors);
    if good.is_empty() {
        // Without one that is right in every respect, one that differs may do.
        let one = if differ.contains(&auth.shard) { Some(auth.shard) } else { differ.first().copied() };
        match one {
            Some(one) => {
                differ.remove(&one);
                good.push(one);
            }
            None => {
                found.error(format!("{} soid {name} : failed to pick suitable auth object", cx.pgid));
                found.error(format!("{} soid {name} : empty auth list", cx.pgid));
            }
        }
    }
    bad.inconsistent.extend(differ);
    if good.is_empty() {
        found.hopeless.insert(name.clone());
    } else if bad.shards().next().is_some() {
        found.bad.insert(name.clone(), bad);
    } else {
        digests(cx, name, &auth, fixes_digest, found);
    }
    count_object(&result, found);
    if result.errors != 0 || result.union_errors != 0 {
        found.objects.push(result);
    }
    Some(*good.last().unwrap_or(&auth.shard))
}

/// No copy is to be relied on.
fn none_counts(
    cx: &Comparing,
    name: &HObject,
    maps: &BTreeMap<PgShard, ScrubMap>,
    mut shards: BTreeMap<PgShard, FoundShard>,
    mut result: InconsistentObj,
    found: &mut Found,
) {
    for (member, map) in maps {
        let shard = shards.entry(*member).or_default();
        shard.primary = *member == cx.whoami;
        match map.objects.get(name) {
            Some(object) => fill(shard, object),
            None => shard.errors |= shard_error::MISSING,
        }
        count_shard(shard, found);
        result.union_errors |= shard.errors;
        result.shards.insert(*member, shard.clone());
    }
    found.error(format!("{} soid {name} : failed to pick suitable object info", cx.pgid.pgid));
    found.hopeless.insert(name.clone());
    found.objects.push(result);
}

fn fill(shard: &mut FoundShard, object: &ScrubObject) {
    shard.attrs.clone_from(&object.attrs);
    (shard.size, shard.data_digest, shard.omap_digest) = (object.size, object.digest, object.omap_digest);
}

/// How a copy differs from the one that counts, in words; what is wrong with it goes into `shard`, what differs into `result`.
fn differences(cx: &Comparing, auth: &Auth<'_>, object: &ScrubObject, shard: &mut FoundShard, result: &mut InconsistentObj) -> Vec<String> {
    let mut said = digest_differences(auth, object, shard, result);
    if object.stat_error {
        return said;
    }
    if shard.errors & (shard_error::INFO_MISSING | shard_error::INFO_CORRUPTED) == 0 && !same_attr(auth.object, object, OI_ATTR) {
        said.push("object info inconsistent ".into());
        result.errors |= object_error::INFO;
    }
    let snapset_is_bad = shard.errors & (shard_error::SNAPSET_MISSING | shard_error::SNAPSET_CORRUPTED) != 0;
    if auth.info.soid.is_head() && !snapset_is_bad && !same_attr(auth.object, object, SS_ATTR) {
        said.push("snapset inconsistent ".into());
        result.errors |= object_error::SNAPSET;
    }
    if auth.info.size != object.size {
        said.push(format!("size {} != size {} from auth oi {}", object.size, auth.info.size, auth.info));
        shard.errors |= shard_error::SIZE_INFO;
    }
    if auth.object.size != object.size {
        said.push(format!("size {} != size {} from shard {}", object.size, auth.object.size, auth.shard));
        result.errors |= object_error::SIZE;
    }
    if object.size > cx.size_max && result.errors & object_error::SIZE_TOO_LARGE == 0 {
        said.push(format!("size {} > {} is too large", object.size, cx.size_max));
        result.errors |= object_error::SIZE_TOO_LARGE;
    }
    attr_differences(auth.object, object, result, &mut said);
    said
}

fn digest_differences(auth: &Auth<'_>, object: &ScrubObject, shard: &mut FoundShard, result: &mut InconsistentObj) -> Vec<String> {
    let (mut said, info) = (Vec::new(), &auth.info);
    if let (Some(theirs), Some(ours)) = (auth.object.digest, object.digest)
        && theirs != ours
    {
        said.push(format!("data_digest {ours:#x} != data_digest {theirs:#x} from shard {}", auth.shard));
        result.errors |= object_error::DATA_DIGEST;
    }
    let compares_omap = !planted(Bug::ScrubSkipsOmap);
    if let (Some(theirs), Some(ours), true) = (auth.object.omap_digest, object.omap_digest, compares_omap)
        && theirs != ours
    {
        said.push(format!("omap_digest {ours:#x} != omap_digest {theirs:#x} from shard {}", auth.shard));
        result.errors |= object_error::OMAP_DIGEST;
    }
    if let Some(ours) = object.digest.filter(|ours| info.has(oi_flag::DATA_DIGEST) && *ours != info.data_digest) {
        said.push(format!("data_digest {ours:#x} != data_digest {:#x} from auth oi {info}", info.data_digest));
        shard.errors |= shard_error::DATA_DIGEST_INFO;
    }
    if let Some(ours) = object.omap_digest.filter(|ours| compares_omap && info.has(oi_flag::OMAP_DIGEST) && *ours != info.omap_digest) {
        said.push(format!("omap_digest {ours:#x} != omap_digest {:#x} from auth oi {info}", info.omap_digest));
        shard.errors |= shard_error::OMAP_DIGEST_INFO;
    }
    said
}

fn same_attr(a: &ScrubObject, b: &ScrubObject, name: &str) -> bool {
    a.attrs.get(name.as_bytes()) == b.attrs.get(name.as_bytes())
}

/// Attributes of clients: the object's own are compared by themselves.
fn attr_differences(auth: &ScrubObject, object: &ScrubObject, result: &mut InconsistentObj, said: &mut Vec<String>) {
    fn of_client<'a>((name, _): &(&'a types::ByteStr, &'a Bytes)) -> bool {
        name.as_slice().first() == Some(&b'_') && name.as_slice() != OI_ATTR.as_bytes()
    }
    if planted(Bug::ScrubSkipsAttrs) {
        return;
    }
    for (name, value) in auth.attrs.iter().filter(of_client) {
        match object.attrs.get(name) {
            None => {
                said.push(format!("attr name mismatch '{name}'"));
                result.errors |= object_error::ATTR_NAME;
            }
            Some(other) if other != value => {
                said.push(format!("attr value mismatch '{name}'"));
                result.errors |= object_error::ATTR_VALUE;
            }
            Some(_) => {}
        }
    }
    for (name, _) in object.attrs.iter().filter(of_client).filter(|(name, _)| !auth.attrs.contains_key(*name)) {
        said.push(format!("attr name mismatch '{name}'"));
        result.errors |= object_error::ATTR_NAME;
    }
}

/// Digests of the record that are to be written: those that it has wrong while every copy agrees, in a repair.
fn digests(cx: &Comparing, name: &HObject, auth: &Auth<'_>, fixes_data: bool, found: &mut Found) {
    let (info, object) = (&auth.info, auth.object);
    let wrong = |flag: u32, recorded: u32, is: Option<u32>| info.has(flag).then_some(is).flatten().filter(|is| *is != recorded);
    let mut is_wrong = fixes_data;
    for (what, recorded, is) in [
        ("data", info.data_digest, wrong(oi_flag::DATA_DIGEST, info.data_digest, object.digest)),
        ("omap", info.omap_digest, wrong(oi_flag::OMAP_DIGEST, info.omap_digest, object.omap_digest)),
    ] {
        if let Some(is) = is.filter(|_| !fixes_data) {
            found.error(format!("{} recorded {what} digest {recorded:#x} != on disk {is:#x} on {name}", cx.pgid));
            is_wrong |= cx.repair;
        }
    }
    if is_wrong {
        found.digests.push(NewDigests { obj: name.clone(), data: object.digest, omap: object.omap_digest });
    }
}
