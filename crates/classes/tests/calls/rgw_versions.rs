//! `rgw`, buckets with versions: which version an object shows, what is listed, and what is still to be done to the object itself.

use crate::object::Object;
use crate::rgw::{ADD, ALL, Entry, Wish, add, call, complete_op, index, list, prepare_op, put_key, put_meta, raw_list, sums};
use crate::{answer, framed};
use bytes::Bytes;
use denc::{ByteStr, Decoder, DencError};
use types::UTime;
use types::errno::{ECANCELED, EINVAL, ENOENT};

const VERSION: u16 = 1;
const CURRENT: u16 = 2;
const MARKER: u16 = 4;

/// A request to link; the rest of it is the same everywhere.
pub struct Link<'a> {
    pub instance: &'a str,
    pub marker: bool,
    pub epoch: u64,
    pub since_s: u32,
    pub tag: &'a str,
}

pub const LINK: Link<'static> = Link { instance: "", marker: false, epoch: 0, since_s: 0, tag: "life" };

pub fn link_op(link: Link) -> Bytes {
    framed(5, |e| {
        put_key(e, b"obj", link.instance);
        e.blob(link.tag.as_bytes());
        e.bool(link.marker);
        e.blob(b"op");
        put_meta(e, 0, 0, 200);
        e.u64(link.epoch);
        e.bool(true);
        e.u16(0);
        e.u64(link.since_s.into());
        e.put(&UTime { sec: link.since_s, nsec: 0 });
        e.bool(false);
        e.put(&Vec::<ByteStr>::new());
    })
}

pub fn unlink_op(instance: &str, epoch: u64) -> Bytes {
    framed(3, |e| {
        put_key(e, b"obj", instance);
        e.blob(b"op");
        e.u64(epoch);
        e.bool(true);
        e.u16(0);
        e.blob(b"life");
        e.put(&Vec::<ByteStr>::new());
    })
}

fn link(index: &mut Object, link: Link) -> Result<(), i32> {
    call(index, "bucket_link_olh", link_op(link)).map(drop)
}

fn unlink(index: &mut Object, instance: &str) {
    call(index, "bucket_unlink_instance", unlink_op(instance, 0)).unwrap();
}

/// Writes a version's entry as radosgw does before it links it.
fn write(index: &mut Object, instance: &str) {
    let with = |e: &mut denc::Encoder, op: u8| {
        e.u8(op);
        e.blob(b"t");
        e.blob(b"");
        e.bool(false);
        put_key(e, b"obj", instance);
        e.u16(1);
        e.put(&Vec::<ByteStr>::new());
    };
    let prepare = crate::bare(|e| e.frame(7, 5, |e| with(e, ADD)));
    call(index, "bucket_prepare_op", prepare).unwrap();
    let complete = crate::bare(|e| {
        e.frame(9, 7, |e| {
            e.u8(ADD);
            e.u64(1);
            put_meta(e, 1, 10, 100);
            e.blob(b"t");
            e.blob(b"");
            e.u32(0);
            e.frame(1, 1, |e| [7, 1].into_iter().for_each(|v| e.u8(v)));
            e.bool(false);
            put_key(e, b"obj", instance);
            e.u16(1);
            e.put(&Vec::<ByteStr>::new());
        });
    });
    call(index, "bucket_complete_op", complete).unwrap();
}

/// Instances and flags, the newest first.
fn versions(index: &mut Object) -> Vec<(String, u16)> {
    let all = list(index, Wish { versions: true, ..ALL });
    all.entries.into_values().map(|Entry { instance, flags, .. }| (instance, flags)).collect()
}

fn shown(index: &mut Object) -> Vec<String> {
    list(index, ALL).entries.into_values().map(|entry| entry.instance).collect()
}

pub fn log_op(epoch: u64, tag: &str) -> Bytes {
    framed(1, |e| {
        put_key(e, b"obj", "");
        e.u64(epoch);
        e.blob(tag.as_bytes());
    })
}

/// What is to be done: epoch, what, instance.
fn todo(index: &mut Object, after: u64) -> Vec<(u64, u8, String)> {
    let data = call(index, "bucket_read_olh_log", log_op(after, "life")).unwrap();
    let one = |d: &mut Decoder| {
        d.frame("a todo", 1, |d, _| {
            let (epoch, op) = (d.u64()?, d.u8()?);
            d.skip_blob()?;
            let instance = d.frame("a key", 1, |d, _| {
                d.skip_blob()?;
                d.string()
            })?;
            Ok((epoch, op, instance))
        })
    };
    answer(&data, |d| {
        let mut all = Vec::new();
        for _ in 0..d.u32()? {
            d.u64()?;
            let count = d.u32()?;
            all.extend((0..count).map(|_| one(d)).collect::<Result<Vec<_>, DencError>>()?);
        }
        assert!(!d.bool()?);
        Ok(all)
    })
}

const LINKED: u8 = 1;
const UNLINKED: u8 = 2;
const REMOVED: u8 = 3;

#[test]
fn versions_come_and_go() {
    let mut index = index();
    for instance in ["v1", "v2", "v3"] {
        write(&mut index, instance);
        link(&mut index, Link { instance, ..LINK }).unwrap();
    }
    let current = VERSION | CURRENT;
    let of = |list: &[(&str, u16)]| list.iter().map(|(instance, flags)| (instance.to_string(), *flags)).collect::<Vec<_>>();
    assert_eq!(versions(&mut index), of(&[("v3", current), ("v2", VERSION), ("v1", VERSION)]));
    assert_eq!((shown(&mut index), sums(&mut index)), (vec!["v3".into()], (3, 30)));
    assert_eq!(todo(&mut index, 0), [(2, LINKED, "v1".into()), (3, LINKED, "v2".into()), (4, LINKED, "v3".into())]);
    // The one that shows goes, the one before shows; one in the middle goes; the last goes.
    unlink(&mut index, "v3");
    assert_eq!(versions(&mut index), of(&[("v2", current), ("v1", VERSION)]));
    assert_eq!(todo(&mut index, 4), [(5, LINKED, "v2".into()), (5, REMOVED, "v3".into())]);
    unlink(&mut index, "v1");
    assert_eq!(versions(&mut index), of(&[("v2", current)]));
    unlink(&mut index, "v2");
    unlink(&mut index, "never");
    assert_eq!(versions(&mut index), []);
    assert_eq!(todo(&mut index, 6), [(7, UNLINKED, String::new()), (7, REMOVED, "v2".into())]);
    // The log goes, then the head, and with it the sign that the object has versions.
    call(&mut index, "bucket_trim_olh_log", log_op(6, "life")).unwrap();
    assert_eq!(todo(&mut index, 0).len(), 2);
    assert_eq!(call(&mut index, "bucket_read_olh_log", log_op(0, "other")), Err(ECANCELED));
    let clear = |tag: &str, instance: &str| {
        framed(1, |e| {
            put_key(e, b"obj", instance);
            e.blob(tag.as_bytes());
        })
    };
    assert_eq!(call(&mut index, "bucket_clear_olh", clear("other", "")), Err(ECANCELED));
    assert_eq!(call(&mut index, "bucket_clear_olh", clear("life", "v2")), Err(EINVAL));
    call(&mut index, "bucket_clear_olh", clear("life", "")).unwrap();
    let kinds: Vec<u8> = raw_list(&mut index, "", b"", 100).0.into_iter().map(|(kind, _)| kind).collect();
    // radosgw removes the instances' entries with their data.
    assert_eq!(kinds, [2, 2, 2]);
}

#[test]
fn a_delete_marker_hides_an_object() {
    let mut index = index();
    write(&mut index, "v1");
    link(&mut index, Link { instance: "v1", ..LINK }).unwrap();
    link(&mut index, Link { instance: "m1", marker: true, ..LINK }).unwrap();
    assert_eq!(shown(&mut index), Vec::<String>::new());
    assert_eq!(versions(&mut index), [("m1".into(), VERSION | CURRENT | MARKER), ("v1".into(), VERSION)]);
    // A second one lies on top of it.
    link(&mut index, Link { instance: "m2", marker: true, ..LINK }).unwrap();
    let stacked = [("m2".into(), VERSION | CURRENT | MARKER), ("m1".into(), VERSION | MARKER), ("v1".into(), VERSION)];
    assert_eq!(versions(&mut index), stacked);
    unlink(&mut index, "m2");
    assert_eq!(versions(&mut index), [("m1".into(), VERSION | CURRENT | MARKER), ("v1".into(), VERSION)]);
    unlink(&mut index, "m1");
    assert_eq!(shown(&mut index), ["v1"]);
    // A marker in the place of a version that is there: its data goes.
    link(&mut index, Link { instance: "v1", marker: true, ..LINK }).unwrap();
    assert_eq!(todo(&mut index, 6).last(), Some(&(7, REMOVED, "v1".into())));
    assert_eq!(versions(&mut index), [("v1".into(), VERSION | CURRENT | MARKER)]);
}

#[test]
fn an_object_from_before_versions_becomes_the_null_version() {
    let mut index = index();
    add(&mut index, b"obj", 1, 10);
    add(&mut index, b"object", 1, 5);
    write(&mut index, "v1");
    link(&mut index, Link { instance: "v1", ..LINK }).unwrap();
    let all = list(&mut index, Wish { versions: true, ..ALL }).entries;
    let seen: Vec<_> = all.values().map(|e| (e.instance.as_str(), e.flags, e.epoch)).collect();
    assert_eq!(seen, [("v1", VERSION | CURRENT, 2), ("", VERSION, 1), ("", 0, 0)]);
    // The null version is written again, deleted, and its marker removed.
    call(&mut index, "bucket_prepare_op", prepare_op(ADD, "t", b"obj")).unwrap();
    call(&mut index, "bucket_complete_op", complete_op(ADD, "t", b"obj", 9, 11, &[], false)).unwrap();
    link(&mut index, LINK).unwrap();
    assert_eq!(versions(&mut index)[..2], [("".into(), VERSION | CURRENT), ("v1".into(), VERSION)]);
    link(&mut index, Link { marker: true, ..LINK }).unwrap();
    assert_eq!(versions(&mut index)[..2], [("".into(), VERSION | CURRENT | MARKER), ("v1".into(), VERSION)]);
    assert_eq!(todo(&mut index, 3), [(4, LINKED, String::new()), (4, REMOVED, String::new())]);
    unlink(&mut index, "null");
    assert_eq!(versions(&mut index)[..1], [("v1".into(), VERSION | CURRENT)]);
    assert_eq!(shown(&mut index), ["v1", ""]);
    // Of one object's entries only, the name that goes on is another.
    assert!(raw_list(&mut index, "obj", b"", 100).0.iter().all(|(_, key)| !key.ends_with(b"object")));
    let pages: Vec<_> = (1..4).map(|max| raw_list(&mut index, "obj", b"", max).0.len()).collect();
    assert_eq!(pages, [1, 2, 3]);
}

#[test]
fn an_epoch_that_is_over_changes_nothing_that_shows() {
    let mut index = index();
    for (instance, epoch) in [("v1", 10), ("v0", 5), ("v2", 10), ("v11", 10)] {
        write(&mut index, instance);
        link(&mut index, Link { instance, epoch, ..LINK }).unwrap();
        let expected = ["v1", "v1", "v1", "v1"];
        assert!(expected.contains(&shown(&mut index)[0].as_str()), "{instance}");
    }
    // In the same epoch, the lower name.
    write(&mut index, "v09");
    link(&mut index, Link { instance: "v09", epoch: 10, ..LINK }).unwrap();
    assert_eq!(shown(&mut index), ["v09"]);
    call(&mut index, "bucket_unlink_instance", unlink_op("v0", 3)).unwrap();
    assert_eq!((shown(&mut index), versions(&mut index).len()), (vec!["v09".into()], 4));
    // Another life of the object, and one that is as new as what is asked for.
    write(&mut index, "v5");
    assert_eq!(link(&mut index, Link { instance: "v5", tag: "other", ..LINK }), Err(ECANCELED));
    let before = index.state.clone();
    link(&mut index, Link { instance: "v5", since_s: 100, ..LINK }).unwrap();
    assert_eq!(index.state, before);
    assert_eq!(link(&mut index, Link { instance: "none", ..LINK }), Err(ENOENT));
    // A listing goes on behind a version, and behind one that is gone.
    let after = |instance| Wish { start: (b"obj", instance), versions: true, ..ALL };
    assert_eq!(list(&mut index, after("gone")).entries.len(), 0);
    let all = versions(&mut index);
    let behind: Vec<_> = list(&mut index, after(&all[1].0)).entries.into_values().map(|e| e.instance).collect();
    assert_eq!(behind, all[2..].iter().map(|(instance, _)| instance.clone()).collect::<Vec<_>>());
}
