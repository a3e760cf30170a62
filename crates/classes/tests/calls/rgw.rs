//! `rgw`, a bucket's index: changes in two steps, sums, listings, what a listing mends, the log, entries as they stand.

use crate::object::Object;
use crate::{answer, bare, framed};
use bytes::Bytes;
use denc::{ByteStr, Decoder, DencError, Encoder};
use std::collections::BTreeMap;
use types::UTime;
use types::errno::{EFBIG, EINVAL, EIO, ENODATA, ENOENT};

pub const ADD: u8 = 0;
pub const DEL: u8 = 1;
pub const CANCEL: u8 = 2;
/// The index moves.
pub const BUSY: i32 = 2300;
const NO_ZONES: &[ByteStr] = &[];

pub fn call(index: &mut Object, method: &str, input: Bytes) -> Result<Bytes, i32> {
    index.call("rgw", method, input).map(|reply| reply.data)
}

pub fn index() -> Object {
    let mut index = Object::default();
    call(&mut index, "bucket_init_index", Bytes::new()).unwrap();
    index
}

pub fn put_key(e: &mut Encoder, name: &[u8], instance: &str) {
    e.frame(1, 1, |e| {
        e.blob(name);
        e.blob(instance.as_bytes());
    });
}

pub fn put_meta(e: &mut Encoder, category: u8, size: u64, mtime_s: u32) {
    e.frame(7, 3, |e| {
        e.u8(category);
        e.u64(size);
        e.put(&UTime { sec: mtime_s, nsec: 0 });
        ["etag", "owner", "Owner", "text/plain"].iter().for_each(|text| e.blob(text.as_bytes()));
        e.u64(size);
        e.blob(b"");
        e.blob(b"");
        e.bool(false);
    });
}

fn put_ver(e: &mut Encoder, epoch: u8) {
    e.frame(1, 1, |e| {
        e.u8(7);
        e.u8(epoch);
    });
}

pub fn prepare_op(op: u8, tag: &str, name: &[u8]) -> Bytes {
    bare(|e| {
        e.frame(7, 5, |e| {
            e.u8(op);
            e.blob(tag.as_bytes());
            e.blob(b"");
            e.bool(true);
            put_key(e, name, "");
            e.u16(0);
            e.put(&NO_ZONES.to_vec());
        });
    })
}

pub fn complete_op(op: u8, tag: &str, name: &[u8], epoch: u8, size: u64, also: &[&str], logs: bool) -> Bytes {
    bare(|e| {
        e.frame(9, 7, |e| {
            e.u8(op);
            e.u64(epoch.into());
            put_meta(e, 1, size, 100);
            e.blob(tag.as_bytes());
            e.blob(b"");
            e.count(also.len());
            also.iter().for_each(|name| put_key(e, name.as_bytes(), ""));
            put_ver(e, epoch);
            e.bool(logs);
            put_key(e, name, "");
            e.u16(0);
            e.put(&NO_ZONES.to_vec());
        });
    })
}

/// An object of that size, written in two steps.
pub fn add(index: &mut Object, name: &[u8], epoch: u8, size: u64) {
    call(index, "bucket_prepare_op", prepare_op(ADD, "t", name)).unwrap();
    call(index, "bucket_complete_op", complete_op(ADD, "t", name, epoch, size, &[], true)).unwrap();
}

/// What the tests look at of a header: entries and bytes of the category 1, the version, whether the log is stopped.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    pub entries: u64,
    pub bytes: u64,
    pub rounded: u64,
    pub ver: u64,
    pub stopped: bool,
}

fn head(d: &mut Decoder) -> Result<Head, DencError> {
    d.frame("a header", 8, |d, _| {
        let mut head = Head { entries: 0, bytes: 0, rounded: 0, ver: 0, stopped: false };
        for _ in 0..d.u32()? {
            let category = d.u8()?;
            d.frame("sums", 3, |d, _| {
                if category == 1 {
                    (head.bytes, head.rounded, head.entries) = (d.u64()?, d.u64()?, d.u64()?);
                }
                Ok(())
            })?;
        }
        d.u64()?;
        head.ver = d.u64()?;
        d.u64()?;
        d.skip_blob()?;
        d.skip_frame()?;
        head.stopped = d.bool()?;
        Ok(head)
    })
}

/// What the tests look at of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    pub exists: bool,
    pub pending: u32,
    pub instance: String,
    pub flags: u16,
    pub epoch: u64,
}

fn entry(d: &mut Decoder) -> Result<Entry, DencError> {
    d.frame("an entry", 8, |d, _| {
        let name = d.blob()?.to_vec();
        d.u64()?;
        let exists = d.bool()?;
        d.skip_frame()?;
        let pending = d.u32()?;
        for _ in 0..pending {
            d.skip_blob()?;
            d.skip_frame()?;
        }
        d.skip_blob()?;
        d.skip_frame()?;
        let long = match d.u8()? {
            0x81 => 1,
            0x82 => 2,
            0x84 => 4,
            0x88 => 8,
            _ => 0,
        };
        d.skip(long)?;
        d.skip_blob()?;
        Ok(Entry { name, exists, pending, instance: d.string()?, flags: d.u16()?, epoch: d.u64()? })
    })
}

pub struct Listing {
    pub head: Head,
    /// By their keys.
    pub entries: BTreeMap<Vec<u8>, Entry>,
    pub truncated: bool,
    /// Name and instance.
    pub marker: (Vec<u8>, String),
}

pub fn listing(data: &Bytes) -> Listing {
    answer(data, |d| {
        let (head, entries) = d.frame("a folder", 2, |d, _| {
            let (head, count) = (head(d)?, d.u32()?);
            let entries = (0..count).map(|_| Ok((d.blob()?.to_vec(), entry(d)?))).collect::<Result<_, DencError>>()?;
            Ok((head, entries))
        })?;
        let truncated = d.bool()?;
        let marker = d.frame("a key", 1, |d, _| Ok((d.blob()?.to_vec(), d.string()?)))?;
        Ok(Listing { head, entries, truncated, marker })
    })
}

/// How a listing begins and what it shows.
#[derive(Clone, Copy)]
pub struct Wish<'a> {
    pub start: (&'a [u8], &'a str),
    pub prefix: &'a str,
    pub delimiter: &'a str,
    pub max: u32,
    pub versions: bool,
}

pub const ALL: Wish<'static> = Wish { start: (b"", ""), prefix: "", delimiter: "", max: 1000, versions: false };

pub fn list_op(wish: Wish) -> Bytes {
    bare(|e| {
        e.frame(6, 4, |e| {
            e.u32(wish.max);
            e.blob(wish.prefix.as_bytes());
            put_key(e, wish.start.0, wish.start.1);
            e.bool(wish.versions);
            e.blob(wish.delimiter.as_bytes());
        });
    })
}

pub fn list(index: &mut Object, wish: Wish) -> Listing {
    listing(&call(index, "bucket_list", list_op(wish)).unwrap())
}

pub fn sums(index: &mut Object) -> (u64, u64) {
    let head = list(index, Wish { max: 0, ..ALL }).head;
    (head.entries, head.bytes)
}

fn names(listing: &Listing) -> Vec<String> {
    listing.entries.keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
}

#[test]
fn sums_follow_what_is_completed() {
    let mut index = index();
    assert_eq!(call(&mut index, "bucket_init_index", Bytes::new()), Err(EINVAL));
    call(&mut index, "bucket_prepare_op", prepare_op(ADD, "one", b"a")).unwrap();
    assert_eq!(sums(&mut index), (0, 0));
    let pending = list(&mut index, ALL).entries[&b"a"[..]].clone();
    assert!(!pending.exists && pending.pending == 1);
    call(&mut index, "bucket_complete_op", complete_op(ADD, "one", b"a", 5, 5000, &[], false)).unwrap();
    let head = list(&mut index, ALL).head;
    assert_eq!((head.entries, head.bytes, head.rounded), (1, 5000, 8192));
    // Overwritten; then a change from before, which is too late; one that is taken back; one that was not announced.
    add(&mut index, b"a", 6, 100);
    add(&mut index, b"a", 3, 9);
    assert_eq!(sums(&mut index), (1, 100));
    call(&mut index, "bucket_prepare_op", prepare_op(ADD, "two", b"b")).unwrap();
    call(&mut index, "bucket_complete_op", complete_op(CANCEL, "two", b"b", 0, 9, &[], false)).unwrap();
    assert!(!list(&mut index, ALL).entries.contains_key(&b"b"[..]));
    assert_eq!(call(&mut index, "bucket_complete_op", complete_op(ADD, "two", b"b", 9, 9, &[], false)), Err(EINVAL));
    assert_eq!(call(&mut index, "bucket_prepare_op", prepare_op(ADD, "", b"b")), Err(EINVAL));
    // Removed while another change is announced: the entry waits for that.
    call(&mut index, "bucket_prepare_op", prepare_op(DEL, "del", b"a")).unwrap();
    call(&mut index, "bucket_prepare_op", prepare_op(ADD, "add", b"a")).unwrap();
    call(&mut index, "bucket_complete_op", complete_op(DEL, "del", b"a", 9, 0, &[], false)).unwrap();
    assert_eq!(sums(&mut index), (0, 0));
    call(&mut index, "bucket_complete_op", complete_op(CANCEL, "add", b"a", 0, 0, &[], false)).unwrap();
    assert_eq!(list(&mut index, ALL).entries.len(), 0);
    // An upload's parts go with its completion, those that are not there too.
    add(&mut index, b"part", 1, 10);
    call(&mut index, "bucket_prepare_op", prepare_op(ADD, "all", b"whole")).unwrap();
    call(&mut index, "bucket_complete_op", complete_op(ADD, "all", b"whole", 1, 70, &["part", "gone"], false)).unwrap();
    assert_eq!((sums(&mut index), names(&list(&mut index, ALL))), ((1, 70), vec!["whole".to_string()]));
}

#[test]
fn a_listing_folds_what_is_behind_a_delimiter_and_jumps_over_special_keys() {
    let mut index = index();
    for name in ["a", "b/1", "b/2", "c", "\u{454}"] {
        add(&mut index, name.as_bytes(), 1, 1);
    }
    let omap = &mut index.state.as_mut().unwrap().omap;
    for i in 0..2000 {
        omap.insert([b"\x801000_", format!("{i:04}").as_bytes()].concat().into(), Bytes::new());
    }
    assert_eq!(names(&list(&mut index, ALL)), ["a", "b/1", "b/2", "c", "\u{454}"]);
    let folded = list(&mut index, Wish { delimiter: "/", ..ALL });
    assert_eq!(names(&folded), ["a", "b/", "c", "\u{454}"]);
    assert_eq!(folded.entries[&b"b/"[..]].flags, 0x8000);
    assert!(!folded.truncated);
    let inside = Wish { prefix: "b/", delimiter: "/", ..ALL };
    assert_eq!(names(&list(&mut index, inside)), ["b/1", "b/2"]);
    assert_eq!(names(&list(&mut index, Wish { start: (b"b/", ""), delimiter: "/", ..ALL })), ["c", "\u{454}"]);
    assert_eq!(names(&list(&mut index, Wish { start: (b"zzz", ""), ..ALL })), ["\u{454}"]);
    assert_eq!(list(&mut index, Wish { start: (b"\xff", ""), ..ALL }).entries.len(), 0);
    // Page by page, by the markers: each once.
    for (max, delimiter) in [(1, ""), (1, "/"), (2, ""), (2, "/")] {
        let (mut start, mut seen) = ((Vec::new(), String::new()), Vec::new());
        loop {
            let page = list(&mut index, Wish { start: (&start.0, &start.1), delimiter, max, ..ALL });
            assert!(page.entries.len() <= max as usize);
            seen.extend(names(&page));
            start = page.marker;
            if !page.truncated {
                break;
            }
        }
        let whole = names(&list(&mut index, Wish { delimiter, ..ALL }));
        assert_eq!(seen, whole);
    }
}

/// Where nothing that was looked at shows, the caller gets a marker and goes on: a call looks at a bounded number of entries.
#[test]
fn a_listing_of_what_does_not_show_ends_with_a_marker() {
    let mut index = index();
    add(&mut index, b"a", 1, 1);
    let state = index.state.as_mut().unwrap();
    let hidden = state.omap[&b"a"[..]].clone();
    // Its flags stand before the last eight bytes: a version marker.
    let mut hidden = hidden.to_vec();
    let at = hidden.len() - 10;
    hidden[at] = 8;
    for i in 0..100 {
        state.omap.insert(format!("h{i:03}").into(), hidden.clone().into());
    }
    state.omap.remove(&b"a"[..]);
    let reply = (classes::BUILTIN.method(b"rgw", b"bucket_list").unwrap().call)(&mut index, list_op(Wish { max: 2, ..ALL })).unwrap();
    assert_eq!(reply.code, -EFBIG);
    let page = listing(&reply.data);
    assert!(page.truncated && page.entries.is_empty());
    // The name in all these entries is the first one's.
    assert_eq!(page.marker.0, b"a");
    assert!(!list(&mut index, ALL).truncated);
}

fn suggestion(what: u8, listed: &Bytes) -> Bytes {
    bare(|e| {
        e.u8(what);
        e.raw(listed);
    })
}

#[test]
fn a_suggestion_waits_for_what_is_announced() {
    let mut index = index();
    index.now = UTime { sec: 1000, nsec: 0 };
    add(&mut index, b"a", 1, 50);
    call(&mut index, "bucket_prepare_op", prepare_op(DEL, "lost", b"a")).unwrap();
    let stored = |index: &Object| index.state.as_ref().unwrap().omap.get(&b"a"[..]).cloned();
    let seen = stored(&index).unwrap();
    index.now.sec = 1120;
    call(&mut index, "dir_suggest_changes", suggestion(b'r', &seen)).unwrap();
    assert_eq!((sums(&mut index), stored(&index)), ((1, 50), Some(seen.clone())));
    index.now.sec = 1121;
    call(&mut index, "dir_suggest_changes", suggestion(b'u', &seen)).unwrap();
    assert_eq!(sums(&mut index), (1, 50));
    let seen_again = stored(&index).unwrap();
    call(&mut index, "dir_suggest_changes", suggestion(b'r' | 0x80, &seen_again)).unwrap();
    assert_eq!((sums(&mut index), stored(&index)), ((0, 0), None));
    // What was completed since is left alone, and so is what is not there.
    add(&mut index, b"a", 9, 70);
    call(&mut index, "dir_suggest_changes", suggestion(b'r', &seen)).unwrap();
    assert_eq!(sums(&mut index), (1, 70));
    // The header may have a time of its own.
    call(&mut index, "bucket_set_tag_timeout", framed(1, |e| e.u64(1))).unwrap();
    call(&mut index, "bucket_prepare_op", prepare_op(DEL, "lost", b"a")).unwrap();
    index.now.sec += 2;
    let seen_again = stored(&index).unwrap();
    call(&mut index, "dir_suggest_changes", suggestion(b'r', &seen_again)).unwrap();
    assert_eq!(sums(&mut index), (0, 0));
}

#[test]
fn sums_are_set_and_counted_anew() {
    let mut index = index();
    add(&mut index, b"a", 1, 10);
    add(&mut index, "\u{454}".as_bytes(), 1, 20);
    let stats = |absolute, entries: u64| {
        framed(1, |e| {
            e.bool(absolute);
            e.u32(1);
            e.u8(1);
            e.frame(3, 2, |e| [7, 4096, entries, 7].into_iter().for_each(|v| e.u64(v)));
        })
    };
    call(&mut index, "bucket_update_stats", stats(false, 3)).unwrap();
    assert_eq!(sums(&mut index), (5, 37));
    call(&mut index, "bucket_update_stats", stats(true, 3)).unwrap();
    assert_eq!(sums(&mut index), (3, 7));
    let both = call(&mut index, "bucket_check_index", Bytes::new()).unwrap();
    let (stored, counted) = answer(&both, |d| Ok((head(d)?, head(d)?)));
    assert_eq!((stored.entries, stored.bytes, counted.entries, counted.bytes), (3, 7, 2, 30));
    call(&mut index, "bucket_rebuild_index", Bytes::new()).unwrap();
    assert_eq!(sums(&mut index), (2, 30));
}

pub fn log_ids(index: &mut Object, after: &str, max: u32) -> (Vec<String>, bool) {
    let op = framed(1, |e| {
        e.blob(after.as_bytes());
        e.u32(max);
    });
    answer(&call(index, "bi_log_list", op).unwrap(), |d| {
        let count = d.u32()?;
        let ids = (0..count).map(|_| d.frame("a log entry", 4, |d, _| d.string())).collect::<Result<_, _>>()?;
        Ok((ids, d.bool()?))
    })
}

fn trim(index: &mut Object, after: &str, to: &str) -> Result<Bytes, i32> {
    let op = framed(1, |e| {
        e.blob(after.as_bytes());
        e.blob(to.as_bytes());
    });
    call(index, "bi_log_trim", op)
}

#[test]
fn the_log_is_read_trimmed_and_stopped() {
    let mut index = index();
    for i in 0..5 {
        add(&mut index, format!("o{i}").as_bytes(), 1, 1);
    }
    let (ids, more) = log_ids(&mut index, "", 9);
    assert!(ids.len() == 5 && !more && ids.is_sorted());
    assert_eq!(log_ids(&mut index, &ids[1], 2), (ids[2..4].to_vec(), true));
    assert_eq!(log_ids(&mut index, "99999999999", 9), (Vec::new(), false));
    trim(&mut index, "", &ids[1]).unwrap();
    assert_eq!(trim(&mut index, "", &ids[1]), Err(ENODATA));
    assert_eq!(log_ids(&mut index, "", 9).0, ids[2..]);
    trim(&mut index, &ids[2], "").unwrap();
    assert_eq!(log_ids(&mut index, "", 9).0, ids[2..3]);
    call(&mut index, "bi_log_stop", Bytes::new()).unwrap();
    assert!(list(&mut index, ALL).head.stopped);
    add(&mut index, b"quiet", 1, 1);
    assert_eq!(log_ids(&mut index, "", 9).0.len(), 2);
    call(&mut index, "bi_log_resync", Bytes::new()).unwrap();
    add(&mut index, b"loud", 1, 1);
    assert_eq!(log_ids(&mut index, "", 9).0.len(), 4);
    // Objects are none of the log's.
    assert_eq!(list(&mut index, ALL).entries.len(), 7);
}

pub fn raw_list_op(name: &str, marker: &[u8], max: u32) -> Bytes {
    framed(1, |e| {
        e.u32(max);
        e.blob(name.as_bytes());
        e.blob(marker);
    })
}

/// Kinds and keys.
pub fn raw_list(index: &mut Object, name: &str, marker: &[u8], max: u32) -> (Vec<(u8, Vec<u8>)>, bool) {
    let data = call(index, "bi_list", raw_list_op(name, marker, max)).unwrap();
    answer(&data, |d| {
        let count = d.u32()?;
        let one = |d: &mut Decoder| d.frame("an entry", 1, |d, _| Ok((d.u8()?, d.blob()?.to_vec())));
        Ok(((0..count).map(|_| one(d)).collect::<Result<_, _>>()?, d.bool()?))
    })
}

#[test]
fn entries_are_moved_as_they_stand() {
    let mut index = index();
    for name in ["a", "ab", "b", "\u{454}"] {
        add(&mut index, name.as_bytes(), 1, 1);
    }
    let (all, more) = raw_list(&mut index, "", b"", 1000);
    assert_eq!((all.len(), more), (4, false));
    let (mut marker, mut seen) = (Vec::new(), Vec::new());
    loop {
        let (page, more) = raw_list(&mut index, "", &marker, 1);
        seen.extend(page);
        marker = seen.last().unwrap().1.clone();
        if !more {
            break;
        }
    }
    assert_eq!(seen, all);
    assert_eq!(raw_list(&mut index, "a", b"", 9), (vec![(1, b"a".to_vec())], false));
    assert_eq!(raw_list(&mut index, "", "\u{454}".as_bytes(), 9), (Vec::new(), false));
    let get = |name: &[u8], kind| {
        framed(1, |e| {
            put_key(e, name, "");
            e.u8(kind);
        })
    };
    let moved = call(&mut index, "bi_get", get(b"a", 1)).unwrap();
    let mut other = self::index();
    call(&mut other, "bi_put", moved).unwrap();
    assert_eq!(list(&mut other, ALL).entries, BTreeMap::from([(b"a".to_vec(), list(&mut index, ALL).entries[&b"a"[..]].clone())]));
    assert_eq!(call(&mut index, "bi_get", get(b"none", 1)), Err(ENOENT));
    assert_eq!(call(&mut index, "bi_get", get(b"a", 3)), Err(ENOENT));
    assert_eq!(call(&mut index, "bi_get", get(b"a", 9)), Err(EINVAL));
}

/// A header or an entry that is garbage is said to be so, and nothing is written.
#[test]
fn garbage_in_an_index_is_an_error() {
    let mut whole = index();
    add(&mut whole, b"a", 1, 1);
    let mut no_header = whole.clone();
    no_header.state.as_mut().unwrap().header = Bytes::from_static(b"\x07\x02 garbage");
    let mut newer = whole.clone();
    newer.state.as_mut().unwrap().header = Bytes::from_static(b"\x63\x63\0\0\0\0");
    for bad in [&mut no_header, &mut newer] {
        let before = bad.state.clone();
        assert_eq!(call(bad, "bucket_list", list_op(ALL)), Err(EIO));
        assert_eq!(call(bad, "bucket_check_index", Bytes::new()), Err(EIO));
        assert_eq!(call(bad, "dir_suggest_changes", Bytes::new()), Err(EIO));
        assert_eq!(call(bad, "bi_log_stop", Bytes::new()), Err(EIO));
        assert_eq!(call(bad, "bucket_complete_op", complete_op(ADD, "", b"a", 9, 1, &[], true)), Err(EINVAL));
        assert_eq!(bad.state, before);
    }
    let mut entry = whole;
    entry.state.as_mut().unwrap().omap.insert("a".into(), Bytes::from_static(b"\x08\x03\xff\xff\xff\xff"));
    assert_eq!(call(&mut entry, "bucket_list", list_op(ALL)).map(drop), Err(EINVAL));
    assert_eq!(call(&mut entry, "bucket_prepare_op", prepare_op(ADD, "t", b"a")), Err(EIO));
    assert_eq!(call(&mut entry, "bi_list", raw_list_op("", b"", 9)), Err(EIO));
    assert_eq!(call(&mut entry, "bucket_check_index", Bytes::new()), Err(EIO));
}
