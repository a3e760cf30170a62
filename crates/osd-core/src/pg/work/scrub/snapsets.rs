//! Heads and their clones among each other: each clone that a head names is there, as long as the head says, and no other.
//!
//! Looks at the objects as their authoritative copies have them; which these are is [`crate::pg::backend`]'s to say. Counts what the
//! group's statistics should be. Where the leader's own copy of a head has another set, the findings are those of that set: it is what
//! clients are served by until a repair, and stock says the same. What is removed follows the authoritative copies alone.
//!
//! Source of the facts: Ceph 18.2 `src/osd/scrubber/scrub_backend.cc` (`scrub_snapshot_metadata`).

use super::found::{Comparing, Found};
use crate::event::Level;
use crate::planted::{Bug, planted};
use denc::{Denc, DencError};
use std::collections::BTreeMap;
use types::object_info::{OI_ATTR, SS_ATTR};
use types::scrub_results::{InconsistentSnapset, snapset_error as error};
use types::{EVersion, HObject, ObjectInfo, ObjectStatSum, ScrubObject, SnapId, SnapSet, oi_flag};

/// The head whose clones come next.
struct Head {
    name: HObject,
    snapset: Option<SnapSet>,
    /// Clones that it names and that have not come, ascending.
    expected: Vec<SnapId>,
    result: InconsistentSnapset,
    missing: usize,
    /// Some of its clones have findings of their own.
    has_bad_clones: bool,
}

/// Looks at all names of a chunk: whole ones, each head with its clones.
pub fn check(cx: &Comparing, whole: &BTreeMap<HObject, ScrubObject>, found: &mut Found) {
    check_each(cx, whole, found);
    for (head, own) in std::mem::take(&mut found.own_sets) {
        let mut as_ours: BTreeMap<_, _> =
            whole.range(head.at_snap(0)..=head.clone()).map(|(name, object)| (name.clone(), object.clone())).collect();
        as_ours.insert(head.clone(), own);
        let mut said = Found::default();
        check_each(cx, &as_ours, &mut said);
        found.snapsets.retain(|one| one.object != (&head.at_snap(one.object.snap)).into());
        found.snapsets.extend(said.snapsets);
        found.shallow += said.shallow;
        found.lines.extend(said.lines);
    }
}

/// A head comes behind its clones, so the last comes first.
fn check_each(cx: &Comparing, whole: &BTreeMap<HObject, ScrubObject>, found: &mut Found) {
    let mut head: Option<Head> = None;
    for (name, object) in whole.iter().rev() {
        let mut result = InconsistentSnapset { object: name.into(), ..InconsistentSnapset::default() };
        let info = info_of(cx, name, object, &mut result, found);
        if name.is_head() {
            if let Some(before) = head.take() {
                close(cx, before, found);
            }
            head = Some(open(cx, name, object, result, found));
            found.sum += &stat_of(name, info.as_ref());
            continue;
        }
        let of_this = head.as_mut().filter(|head| head.name.head() == name.head());
        let expected = of_this.and_then(|head| {
            expect(cx, head, Some(name.snap), found);
            (head.expected.last() == Some(&name.snap)).then_some(head)
        });
        let Some(head) = expected else {
            unexpected(cx, name, info.as_ref(), head.as_mut(), result, found);
            continue;
        };
        head.expected.pop();
        let mut sum = stat_of(name, info.as_ref());
        sum.num_bytes += check_clone(cx, name, info.as_ref(), head, &mut result, found);
        found.sum += &sum;
        if result.errors != 0 {
            head.has_bad_clones = true;
            found.snapsets.push(result);
        }
    }
    if let Some(last) = head {
        close(cx, last, found);
    }
}

fn say(cx: &Comparing, name: &HObject, found: &mut Found, what: String) {
    found.shallow += 1;
    found.error(format!("{} {} {name} : {what}", cx.mode, cx.pgid));
}

fn decoding(error: &DencError) -> String {
    error.to_string()
}

fn info_of(
    cx: &Comparing,
    name: &HObject,
    object: &ScrubObject,
    result: &mut InconsistentSnapset,
    found: &mut Found,
) -> Option<ObjectInfo> {
    let info = match object.attrs.get(OI_ATTR.as_bytes()).map(ObjectInfo::from_bytes) {
        None => {
            say(cx, name, found, format!("no '{OI_ATTR}' attr"));
            result.errors |= error::INFO_MISSING;
            return None;
        }
        Some(Err(why)) => {
            say(cx, name, found, format!("can't decode '{OI_ATTR}' attr {}", decoding(&why)));
            result.errors |= error::INFO_CORRUPTED | error::INFO_MISSING;
            return None;
        }
        Some(Ok(info)) => info,
    };
    if info.size != object.size {
        let (is, said) = (object.size, info.size);
        let text = format!("on disk size ({is}) does not match object info size ({said}) adjusted for ondisk to ({said})");
        say(cx, name, found, text);
        result.errors |= error::SIZE;
    }
    Some(info)
}

/// What the object adds to the group's statistics; a clone's bytes are for its head to say.
fn stat_of(name: &HObject, info: Option<&ObjectInfo>) -> ObjectStatSum {
    let mut sum = ObjectStatSum { num_objects: 1, num_object_clones: i64::from(!name.is_head()), ..ObjectStatSum::default() };
    if let Some(info) = info {
        sum.num_bytes = if name.is_head() { info.size as i64 } else { 0 };
        sum.num_objects_dirty = i64::from(info.has(oi_flag::DIRTY));
        sum.num_whiteouts = i64::from(info.is_whiteout());
        sum.num_objects_omap = i64::from(info.is_omap());
        sum.num_objects_pinned = i64::from(info.has(oi_flag::CACHE_PIN));
        sum.num_objects_manifest = i64::from(info.has(oi_flag::MANIFEST));
    }
    sum
}

fn open(cx: &Comparing, name: &HObject, object: &ScrubObject, mut result: InconsistentSnapset, found: &mut Found) -> Head {
    let snapset = match object.attrs.get(SS_ATTR.as_bytes()) {
        None => {
            say(cx, name, found, format!("no '{SS_ATTR}' attr"));
            result.errors |= error::SNAPSET_MISSING;
            None
        }
        Some(bytes) => match SnapSet::from_bytes(bytes) {
            Err(why) => {
                say(cx, name, found, format!("can't decode '{SS_ATTR}' attr {}", decoding(&why)));
                result.errors |= error::SNAPSET_CORRUPTED;
                None
            }
            Ok(snapset) => {
                result.snapset = bytes.clone();
                Some(snapset)
            }
        },
    };
    if snapset.as_ref().is_some_and(|set| !set.clones.is_empty() && set.seq == 0) {
        say(cx, name, found, "snaps.seq not set".into());
        result.errors |= error::SNAP_ERROR;
    }
    let expected = snapset.as_ref().map(|set| set.clones.clone()).unwrap_or_default();
    Head { name: name.clone(), snapset, expected, result, missing: 0, has_bad_clones: false }
}

/// Clones above `to` that the head names and that did not come are missing; all of them without it.
fn expect(cx: &Comparing, head: &mut Head, to: Option<SnapId>, found: &mut Found) {
    while let Some(snap) = head.expected.pop_if(|snap| to.is_none_or(|to| *snap > to)) {
        head.missing += 1;
        let text = format!("expected clone {} {} missing", head.name.at_snap(snap), found.missing_objects());
        say(cx, &head.name, found, text);
        head.result.errors |= error::CLONE_MISSING;
        head.result.missing.push(snap);
    }
}

fn close(cx: &Comparing, mut head: Head, found: &mut Found) {
    expect(cx, &mut head, None, found);
    if head.missing > 0 {
        found.lines.push((Level::Info, format!("{} {} {} : {} missing clone(s)", cx.mode, cx.pgid, head.name, head.missing)));
    }
    if head.result.errors != 0 || head.has_bad_clones {
        found.snapsets.push(head.result);
    }
}

/// A clone that no head names.
fn unexpected(
    cx: &Comparing,
    name: &HObject,
    info: Option<&ObjectInfo>,
    head: Option<&mut Head>,
    mut result: InconsistentSnapset,
    found: &mut Found,
) {
    if planted(Bug::IgnoreExtra) {
        return;
    }
    let head = head.filter(|head| head.name.head() == name.head());
    let knows_better = head.as_ref().is_none_or(|head| head.snapset.is_some());
    let what = if knows_better { "is an unexpected clone" } else { "clone ignored due to missing snapset" };
    say(cx, name, found, what.into());
    result.errors |= error::HEADLESS;
    found.snapsets.push(result);
    if let Some(head) = head {
        head.has_bad_clones = true;
        head.result.errors |= error::EXTRA_CLONES;
        head.result.clones.push(name.snap);
        if head.snapset.is_some() {
            found.extra.insert(name.clone(), info.map_or(EVersion::ZERO, |info| info.version));
        }
    }
}

/// A clone that its head names; the bytes that it has for itself are returned.
fn check_clone(
    cx: &Comparing,
    name: &HObject,
    info: Option<&ObjectInfo>,
    head: &Head,
    result: &mut InconsistentSnapset,
    found: &mut Found,
) -> i64 {
    let set = head.snapset.as_ref().expect("it names the clone");
    let Some(size) = set.clone_size.get(&name.snap).copied() else {
        say(cx, name, found, "is missing in clone_size".into());
        result.errors |= error::SIZE;
        return 0;
    };
    if let Some(info) = info.filter(|info| info.size != size) {
        say(cx, name, found, format!("size {} != clone_size {size}", info.size));
        result.errors |= error::SIZE;
    }
    let Some(overlap) = set.clone_overlap.get(&name.snap) else {
        say(cx, name, found, "is missing in clone_overlap".into());
        result.errors |= error::SIZE;
        return 0;
    };
    if overlap.size() > size {
        say(cx, name, found, "bad interval_set in clone_overlap".into());
        result.errors |= error::SIZE;
        return 0;
    }
    set.clone_bytes(name.snap) as i64
}
