//! Objects of a store whose OSD is stopped: found, shown, and changed behind the OSD's back.

use super::Offline;
use super::args::Action;
use anyhow::{Context, Result};
use bytes::Bytes;
use denc::Denc;
use store::{ObjectStore, OmapQuery};
use types::object_info::OI_ATTR;
use types::{ByteStr, CollId, GHObject, ObjectInfo, Transaction};

/// Objects of a listing at once.
const PAGE: usize = 1000;

/// Shows all objects, by collection.
pub fn each(offline: &mut Offline, visit: &mut dyn FnMut(&mut Offline, CollId, &GHObject) -> Result<bool>) -> Result<()> {
    for coll in offline.ask(|s| s.collections())? {
        let mut from = GHObject::min();
        loop {
            let page = offline.ask(|s| s.list(coll, &from, &GHObject::max(), PAGE))?;
            for object in &page.objects {
                if !visit(offline, coll, object)? {
                    return Ok(());
                }
            }
            match page.next {
                Some(next) => from = next,
                None => break,
            }
        }
    }
    Ok(())
}

/// The object that is shown as `wanted`, or is a head with that name.
pub fn find(offline: &mut Offline, wanted: &str) -> Result<(CollId, GHObject)> {
    let mut found = None;
    each(offline, &mut |_, coll, object| {
        let head = object.hobj.snap == types::CEPH_NOSNAP && object.hobj.oid.as_slice() == wanted.as_bytes();
        if head || object.to_string() == wanted {
            found = Some((coll, object.clone()));
        }
        Ok(found.is_none())
    })?;
    found.with_context(|| format!("no object {wanted}: `humboldt store list` shows what there is"))
}

pub fn list(offline: &mut Offline) -> Result<()> {
    each(offline, &mut |offline, coll, object| {
        let size = offline.ask(|s| s.stat(coll, object))?.size;
        say::println!("{coll}\t{size}\t{object}");
        Ok(true)
    })
}

pub fn dump(offline: &mut Offline, object: &str) -> Result<()> {
    let (coll, name) = find(offline, object)?;
    let stat = offline.ask(|s| s.stat(coll, &name))?;
    say::println!("collection {coll}\nobject {name}\nsize {}", stat.size);
    say::println!("extents {}", offline.ask(|s| s.extents(coll, &name, 0, u64::MAX))?);
    for (attr, value) in offline.ask(|s| s.attrs(coll, &name))? {
        say::println!("attribute {attr} ({} bytes): {}", value.len(), hex(&value));
    }
    let header = offline.ask(|s| s.omap_header(coll, &name))?;
    say::println!("omap header ({} bytes): {}", header.len(), hex(&header));
    let mut after = ByteStr::new();
    loop {
        let query = OmapQuery { start_after: after.as_slice(), entries_max: PAGE as u64, ..OmapQuery::default() };
        let page = offline.ask(|s| s.omap_list(coll, &name, &query))?;
        for (key, value) in &page.entries {
            say::println!("omap {key} ({} bytes): {}", value.len(), hex(value));
        }
        match page.entries.last().filter(|_| page.more) {
            Some((key, _)) => after = key.clone(),
            None => return Ok(()),
        }
    }
}

/// The first bytes of a value.
fn hex(bytes: &[u8]) -> String {
    let some: String = bytes.iter().take(64).map(|b| format!("{b:02x}")).collect();
    if bytes.len() > 64 { some + "…" } else { some }
}

/// The bytes that pairs of digits stand for.
fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pair = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
    (digits.len() % 2 == 0).then(|| digits.as_bytes().chunks(2).map(pair).collect()).flatten()
}

pub fn damage(offline: &mut Offline, coll: CollId, name: &GHObject, action: &Action) -> Result<()> {
    let mut txn = Transaction::new(coll);
    match action {
        Action::Bytes { offset, text } => txn.write(name, *offset, Bytes::copy_from_slice(text.as_bytes()), 0),
        Action::Size { bytes } => txn.truncate(name, *bytes),
        Action::Attr { name: attr, value: Some(value) } => txn.set_attr(name, attr.as_str(), Bytes::copy_from_slice(value.as_bytes())),
        Action::Attr { name: attr, value: None } => txn.rm_attr(name, attr.as_str()),
        Action::Omap { key, value: Some(value) } => {
            txn.omap_set_keys(name, vec![(key.as_str().into(), Bytes::copy_from_slice(value.as_bytes()))]);
        }
        Action::Omap { key, value: None } => txn.omap_rm_keys(name, vec![key.as_str().into()]),
        Action::RawAttr { name: attr, hex } => txn.set_attr(name, attr.as_str(), unhex(hex).context("no hexadecimal digits")?.into()),
        Action::Remove => txn.remove(name),
        Action::ExtraClone { snap } => {
            let clone = GHObject::plain(name.hobj.at_snap(*snap));
            let record = offline.ask(|s| s.attr(coll, name, OI_ATTR.as_bytes()))?.context("the object has no record")?;
            let mut info = ObjectInfo::from_bytes(&record).context("the object's record")?;
            info.soid = clone.hobj.clone();
            txn.clone_object(name, &clone);
            txn.set_attr(&clone, OI_ATTR, info.to_bytes(types::features::SUPPORTED));
        }
    }
    offline.commit(txn, None)
}
