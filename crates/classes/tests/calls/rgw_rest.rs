//! `rgw` beside indexes: usage, garbage (`rgw_gc` too), lifecycle, uploads, resharding, objects; and `cephfs`.

use crate::object::Object;
use crate::rgw::{call, index};
use crate::{answer, bare, framed};
use bytes::Bytes;
use denc::{ByteStr, Decoder, DencError, Encoder};
use types::UTime;
use types::errno::{ECANCELED, EEXIST, EINVAL, EIO, ENODATA, ENOENT, ENOSPC};

fn put_texts(e: &mut Encoder, texts: &[&str]) {
    texts.iter().for_each(|text| e.blob(text.as_bytes()));
}

fn put_usage(e: &mut Encoder, user: &str, payer: &str, bucket: &str, epoch: u64, sent: u64) {
    e.frame(4, 1, |e| {
        put_texts(e, &[user, bucket]);
        [epoch, sent, 0, 1, 1].into_iter().for_each(|v| e.u64(v));
        e.u32(1);
        e.blob(b"get_obj");
        e.frame(1, 1, |e| [sent, 0, 1, 1].into_iter().for_each(|v| e.u64(v)));
        e.blob(payer.as_bytes());
        e.frame(1, 1, |e| [0, 0].into_iter().for_each(|v| e.u64(v)));
    });
}

pub fn usage_add_op(user: &str, payer: &str, bucket: &str, epoch: u64, sent: u64) -> Bytes {
    framed(2, |e| {
        e.frame(1, 1, |e| {
            e.u32(1);
            put_usage(e, user, payer, bucket, epoch, sent);
        });
        e.blob(user.as_bytes());
    })
}

pub fn usage_read_op(from: u64, to: u64, user: &str, marker: &str, max: u32) -> Bytes {
    framed(2, |e| {
        e.u64(from);
        e.u64(to);
        put_texts(e, &[user, marker]);
        e.u32(max);
        e.blob(b"");
    })
}

type Read = (Vec<(String, String, u64)>, bool, String);

/// User, bucket and bytes sent of each; whether more follow, and from where.
fn usage_read(log: &mut Object, from: u64, to: u64, user: &str, marker: &str, max: u32) -> Read {
    let data = call(log, "user_usage_log_read", usage_read_op(from, to, user, marker, max)).unwrap();
    answer(&data, |d| {
        let count = d.u32()?;
        let one = |d: &mut Decoder| -> Result<_, DencError> {
            let (user, bucket) = d.frame("whose", 1, |d, _| Ok((d.string()?, d.string()?)))?;
            let sent = d.frame("usage", 4, |d, _| {
                d.skip_blob()?;
                d.skip_blob()?;
                d.u64()?;
                d.u64()
            })?;
            Ok((user, bucket, sent))
        };
        Ok(((0..count).map(|_| one(d)).collect::<Result<_, _>>()?, d.bool()?, d.string()?))
    })
}

pub fn usage_trim_op(from: u64, to: u64, user: &str, bucket: &str) -> Bytes {
    framed(3, |e| {
        e.u64(from);
        e.u64(to);
        put_texts(e, &[user, bucket]);
    })
}

#[test]
fn usage_adds_up_by_user_and_hour() {
    let mut log = Object::default();
    assert_eq!(call(&mut log, "user_usage_log_trim", usage_trim_op(0, 9, "", "")), Err(ENOENT));
    call(&mut log, "usage_log_clear", Bytes::new()).unwrap();
    for (user, bucket, epoch, sent) in [("u", "a", 3600, 1), ("u", "a", 3600, 2), ("u", "b", 7200, 4), ("u_x", "a", 3600, 8)] {
        call(&mut log, "user_usage_log_add", usage_add_op(user, "", bucket, epoch, sent)).unwrap();
    }
    let text = |list: &[(&str, &str, u64)]| list.iter().map(|(u, b, n)| (u.to_string(), b.to_string(), *n)).collect::<Vec<_>>();
    let (all, more, _) = usage_read(&mut log, 0, 9999, "", "", 0);
    assert_eq!((all, more), (text(&[("u", "a", 3), ("u", "b", 4), ("u_x", "a", 8)]), false));
    assert_eq!(usage_read(&mut log, 0, 9999, "u", "", 0).0, text(&[("u", "a", 3), ("u", "b", 4)]));
    assert_eq!(usage_read(&mut log, 3601, 9999, "u", "", 0).0, text(&[("u", "b", 4)]));
    assert_eq!(usage_read(&mut log, 0, 7200, "u", "", 0).0, text(&[("u", "a", 3)]));
    let (page, more, marker) = usage_read(&mut log, 0, 9999, "u", "", 1);
    assert!(more && page.len() == 1);
    assert_eq!(usage_read(&mut log, 0, 9999, "u", &marker, 9).0, text(&[("u", "b", 4)]));
    assert_eq!(usage_read(&mut log, 0, 9999, "u", "zzz", 9).0, []);
    // Usage is counted for the user that pays.
    call(&mut log, "user_usage_log_add", usage_add_op("u", "p", "c", 3600, 16)).unwrap();
    assert_eq!(usage_read(&mut log, 0, 9999, "p", "", 0).0, text(&[("p", "c", 16)]));
    for user in ["p", "u"] {
        call(&mut log, "user_usage_log_trim", usage_trim_op(0, 9999, user, "")).unwrap();
        assert_eq!(call(&mut log, "user_usage_log_trim", usage_trim_op(0, 9999, user, "")), Err(ENODATA));
    }
    assert_eq!(usage_read(&mut log, 0, 9999, "", "", 0).0, text(&[("u_x", "a", 8)]));
    log.state.as_mut().unwrap().omap.values_mut().for_each(|value| *value = Bytes::from_static(b"garbage"));
    assert_eq!(call(&mut log, "user_usage_log_read", usage_read_op(0, 9999, "", "", 0)), Err(EINVAL));
    assert_eq!(call(&mut log, "user_usage_log_add", usage_add_op("u_x", "", "a", 3600, 1)), Err(EINVAL));
}

fn put_garbage(e: &mut Encoder, tag: &str) {
    e.frame(1, 1, |e| {
        e.blob(tag.as_bytes());
        e.frame(1, 1, |e| {
            e.u32(1);
            e.frame(2, 1, |e| {
                put_texts(e, &["pool", "oid", ""]);
                e.frame(1, 1, |e| put_texts(e, &["oid", ""]));
            });
        });
        e.put(&UTime::ZERO);
    });
}

pub fn gc_set_op(tag: &str, delay_s: u32) -> Bytes {
    framed(1, |e| {
        e.u32(delay_s);
        put_garbage(e, tag);
    })
}

pub fn gc_list_op(marker: &str, max: u32, due_only: bool) -> Bytes {
    framed(2, |e| {
        e.blob(marker.as_bytes());
        e.u32(max);
        e.bool(due_only);
    })
}

/// Tags, where to go on, and whether more follow.
fn tags(data: &Bytes) -> (Vec<String>, String, bool) {
    answer(data, |d| {
        let count = d.u32()?;
        let tags = (0..count).map(|_| d.frame("garbage", 1, |d, _| d.string())).collect::<Result<_, _>>()?;
        Ok((tags, d.string()?, d.bool()?))
    })
}

fn gc_list(object: &mut Object, marker: &str, max: u32, due_only: bool) -> (Vec<String>, String, bool) {
    tags(&call(object, "gc_list", gc_list_op(marker, max, due_only)).unwrap())
}

#[test]
fn garbage_waits_for_its_time() {
    let mut object = Object { now: UTime { sec: 1000, nsec: 5 }, ..Object::default() };
    for (tag, delay_s) in [("c", 30), ("a", 10), ("b", 20)] {
        call(&mut object, "gc_set_entry", gc_set_op(tag, delay_s)).unwrap();
    }
    assert_eq!(gc_list(&mut object, "", 0, false).0, ["a", "b", "c"]);
    assert_eq!(gc_list(&mut object, "", 0, true), (Vec::new(), String::new(), false));
    object.now.sec = 1025;
    assert_eq!(gc_list(&mut object, "", 0, true).0, ["a", "b"]);
    let (page, marker, more) = gc_list(&mut object, "", 1, true);
    assert_eq!((page, more), (vec!["a".into()], true));
    assert_eq!(gc_list(&mut object, &marker, 1, false).0, ["b"]);
    assert_eq!(gc_list(&mut object, "2_", 9, false).0, Vec::<String>::new());
    let defer = |tag: &str| {
        framed(1, |e| {
            e.u32(100);
            e.blob(tag.as_bytes());
        })
    };
    call(&mut object, "gc_defer_entry", defer("a")).unwrap();
    assert_eq!(call(&mut object, "gc_defer_entry", defer("none")), Err(ENOENT));
    assert_eq!(gc_list(&mut object, "", 0, false).0, ["b", "c", "a"]);
    call(&mut object, "gc_remove", framed(1, |e| e.put(&vec![ByteStr::from("b"), "none".into(), "a".into()]))).unwrap();
    assert_eq!(gc_list(&mut object, "", 0, false).0, ["c"]);
    let omap = &mut object.state.as_mut().unwrap().omap;
    assert_eq!(omap.len(), 2);
    omap.values_mut().for_each(|value| *value = Bytes::from_static(b"\x01"));
    assert_eq!(call(&mut object, "gc_list", gc_list_op("", 0, false)), Err(EIO));
}

fn gc(object: &mut Object, method: &str, input: Bytes) -> Result<Bytes, i32> {
    object.call("rgw_gc", method, input).map(|reply| reply.data)
}

pub fn two(a: u64, b: u64) -> Bytes {
    framed(1, |e| {
        e.u64(a);
        e.u64(b);
    })
}

#[test]
fn a_queue_of_garbage_passes_over_what_was_deferred() {
    let mut object = Object { now: UTime { sec: 1000, nsec: 0 }, ..Object::default() };
    assert_eq!(gc(&mut object, "rgw_gc_queue_enqueue", gc_set_op("x", 1)), Err(ENOENT));
    gc(&mut object, "rgw_gc_queue_init", two(4000, 60)).unwrap();
    assert_eq!(gc(&mut object, "rgw_gc_queue_init", two(4000, 60)), Err(EEXIST));
    for i in 0..6 {
        gc(&mut object, "rgw_gc_queue_enqueue", gc_set_op(&format!("t{i}"), i * 10)).unwrap();
    }
    let mut list =
        |marker: &str, max, due_only| tags(&gc(&mut object, "rgw_gc_queue_list_entries", gc_list_op(marker, max, due_only)).unwrap());
    assert_eq!(list("", 0, true).0, ["t0"]);
    assert_eq!(list("", 0, false).0.len(), 6);
    let (page, marker, more) = list("", 4, false);
    assert!(page.len() == 4 && more);
    assert_eq!(list(&marker, 4, false).0, ["t4", "t5"]);
    assert_eq!(list("0/999999", 4, false).0, Vec::<String>::new());
    // As many more as the head has no room for: they go into an attribute.
    for i in 0..60 {
        let tag = if i == 59 { "t1".into() } else { format!("a tag of another time, which is long {i:030}") };
        gc(&mut object, "rgw_gc_queue_update_entry", gc_set_op(&tag, 500)).unwrap();
    }
    assert!(object.state.as_ref().unwrap().attrs.contains_key(&b"cls_queue_urgent_data"[..]));
    assert_eq!(gc(&mut object, "rgw_gc_queue_update_entry", gc_set_op("one more", 500)), Err(ENOSPC));
    gc(&mut object, "rgw_gc_queue_update_entry", gc_set_op("t1", 600)).unwrap();
    let list = |object: &mut Object| tags(&gc(object, "rgw_gc_queue_list_entries", gc_list_op("", 3, false)).unwrap());
    assert_eq!(list(&mut object).0, ["t0", "t2", "t3"]);
    // Two entries go, and the one between them.
    gc(&mut object, "rgw_gc_queue_remove_entries", framed(1, |e| e.u64(2))).unwrap();
    assert_eq!(list(&mut object).0, ["t3", "t4", "t5"]);
    gc(&mut object, "rgw_gc_queue_remove_entries", framed(1, |e| e.u64(0))).unwrap();
    assert_eq!(list(&mut object), (Vec::new(), String::new(), false));
    gc(&mut object, "rgw_gc_queue_remove_entries", framed(1, |e| e.u64(u64::MAX))).unwrap();
    while gc(&mut object, "rgw_gc_queue_enqueue", gc_set_op("t", 1)) != Err(ENOSPC) {}
    assert_eq!(list(&mut object).0.len(), 3);
}

fn put_bucket(e: &mut Encoder, name: &str, status: u32) {
    e.frame(1, 1, |e| {
        e.blob(name.as_bytes());
        e.u64(5);
        e.u32(status);
    });
}

pub fn lc_entry_op(name: &str, status: u32) -> Bytes {
    bare(|e| e.frame(2, 2, |e| put_bucket(e, name, status)))
}

pub fn text_op(text: &str) -> Bytes {
    framed(1, |e| e.blob(text.as_bytes()))
}

pub fn lc_list_op(version: u8, marker: &str, max: u32) -> Bytes {
    framed(version, |e| {
        e.blob(marker.as_bytes());
        e.u32(max);
    })
}

fn bucket(d: &mut Decoder) -> Result<(String, u32), DencError> {
    d.frame("a bucket", 1, |d, _| {
        let name = d.string()?;
        d.u64()?;
        Ok((name, d.u32()?))
    })
}

#[test]
fn buckets_with_rules_are_kept_by_name() {
    let mut object = Object::default();
    for (name, status) in [("b", 1), ("a", 0), ("c", 2)] {
        call(&mut object, "lc_set_entry", lc_entry_op(name, status)).unwrap();
    }
    let one = |object: &mut Object, method: &str, name: &str| call(object, method, text_op(name)).map(|data| answer(&data, bucket));
    assert_eq!(one(&mut object, "lc_get_entry", "b"), Ok(("b".into(), 1)));
    assert_eq!(one(&mut object, "lc_get_entry", "none"), Err(ENOENT));
    assert_eq!(one(&mut object, "lc_get_next_entry", "b"), Ok(("c".into(), 2)));
    assert_eq!(one(&mut object, "lc_get_next_entry", "c"), Ok((String::new(), 0)));
    call(&mut object, "lc_rm_entry", lc_entry_op("b", 0)).unwrap();
    // An entry of an old release has no frame.
    object.state.as_mut().unwrap().omap.insert(
        "old".into(),
        bare(|e| {
            e.blob(b"old");
            e.u32(3);
        }),
    );
    let list = |object: &mut Object, version, marker: &str, max| {
        let data = call(object, "lc_list_entries", lc_list_op(version, marker, max)).unwrap();
        assert_eq!(data[0], version.min(3));
        answer(&data, |d| {
            let count = d.u32()?;
            let old = |d: &mut Decoder| Ok((d.string()?, d.u32()?));
            let names = (0..count).map(|_| if version < 3 { old(d) } else { bucket(d) }).collect::<Result<Vec<_>, _>>()?;
            Ok((names, d.bool()?))
        })
    };
    let all = vec![("a".to_string(), 0), ("c".into(), 2), ("old".into(), 3)];
    for version in [2, 3, 9] {
        assert_eq!(list(&mut object, version, "", 9), (all.clone(), false));
    }
    assert_eq!(list(&mut object, 3, "a", 1), (all[1..2].to_vec(), true));
    assert_eq!(list(&mut object, 3, "zzz", 9), (Vec::new(), false));
    let empty = call(&mut object, "lc_get_head", Bytes::new()).unwrap();
    let head = bare(|e| {
        e.frame(1, 1, |e| {
            e.frame(2, 2, |e| {
                e.u64(7);
                e.blob(b"here");
                e.u64(9);
            });
        });
    });
    call(&mut object, "lc_put_head", head.clone()).unwrap();
    assert_eq!(call(&mut object, "lc_get_head", Bytes::new()), Ok(head.clone()));
    assert!(empty.len() < head.len());
    object.state.as_mut().unwrap().header = Bytes::from_static(b"garbage");
    assert_eq!(call(&mut object, "lc_get_head", Bytes::new()), Err(EINVAL));
    object.state.as_mut().unwrap().omap.insert("old".into(), Bytes::from_static(b"?"));
    assert_eq!(call(&mut object, "lc_list_entries", lc_list_op(3, "", 9)), Err(EIO));
}

/// A part whose data's names begin so.
pub fn part_op(key: &str, prefix: &str) -> Bytes {
    framed(1, |e| {
        e.blob(key.as_bytes());
        e.frame(5, 2, |e| {
            e.u32(1);
            e.u64(100);
            e.blob(b"etag");
            e.put(&UTime::ZERO);
            e.frame(8, 6, |e| {
                e.u64(100);
                e.u32(0);
                e.bool(false);
                e.frame(6, 6, |_| {});
                e.u64(0);
                e.u64(0);
                e.blob(prefix.as_bytes());
                e.u32(1);
                e.raw(b"the rest");
            });
            e.frame(2, 1, |_| {});
            e.u64(100);
            e.u32(0);
        });
    })
}

#[test]
fn a_part_that_is_sent_again_remembers_where_it_lay() {
    let mut object = Object::default();
    for prefix in ["one", "two", "three"] {
        call(&mut object, "mp_upload_part_info_update", part_op("part.1", prefix)).unwrap();
    }
    let stored = object.state.as_ref().unwrap().omap[&b"part.1"[..]].clone();
    let past = [b"\x02\0\0\0".as_slice(), b"\x03\0\0\0one", b"\x03\0\0\0two"].concat();
    assert!(stored.ends_with(&past), "{stored:?}");
    assert!(stored.windows(8).any(|w| w == b"the rest"));
    for prefix in ["one", "three"] {
        assert_eq!(call(&mut object, "mp_upload_part_info_update", part_op("part.1", prefix)), Err(EEXIST));
    }
    call(&mut object, "mp_upload_part_info_update", part_op("part.2", "one")).unwrap();
}

fn put_job(e: &mut Encoder, bucket: &str, id: &str) {
    e.frame(2, 1, |e| {
        e.put(&UTime::ZERO);
        put_texts(e, &["tenant", bucket, id]);
        e.u32(1);
        e.u32(2);
    });
}

pub fn job_op(bucket: &str, id: &str) -> Bytes {
    framed(1, |e| put_job(e, bucket, id))
}

pub fn status_op(status: u8) -> Bytes {
    framed(1, |e| {
        e.frame(3, 1, |e| {
            e.u8(status);
            e.blob(b"");
            e.i32(-1);
        });
    })
}

#[test]
fn indexes_that_move_stop_their_writers() {
    let mut queue = Object::default();
    for bucket in ["a", "b"] {
        call(&mut queue, "reshard_add", job_op(bucket, "id")).unwrap();
    }
    assert_eq!(call(&mut queue, "reshard_get", job_op("a", "")), Ok(job_op("a", "id")));
    assert_eq!(call(&mut queue, "reshard_get", job_op("none", "")), Err(ENOENT));
    let list = |queue: &mut Object, marker: &str, max: u32| {
        let op = framed(1, |e| {
            e.u32(max);
            e.blob(marker.as_bytes());
        });
        answer(&call(queue, "reshard_list", op).unwrap(), |d| {
            let count = d.u32()?;
            (0..count).try_for_each(|_| d.skip_frame())?;
            Ok((count, d.bool()?))
        })
    };
    assert_eq!((list(&mut queue, "", 9), list(&mut queue, "", 1), list(&mut queue, "tenant:b", 9)), ((2, false), (1, true), (0, false)));
    let remove = |queue: &mut Object, bucket: &str, id: &str| {
        let op = framed(1, |e| put_texts(e, &["tenant", bucket, id]));
        call(queue, "reshard_remove", op).map(drop)
    };
    remove(&mut queue, "a", "other").unwrap();
    remove(&mut queue, "b", "").unwrap();
    assert_eq!((remove(&mut queue, "b", ""), list(&mut queue, "", 9).0), (Err(ENOENT), 1));

    let mut index = index();
    let guard = |index: &mut Object, code: i32| call(index, "guard_bucket_resharding", framed(1, |e| e.i32(code))).map(drop);
    guard(&mut index, -2300).unwrap();
    call(&mut index, "set_bucket_resharding", status_op(1)).unwrap();
    assert_eq!((guard(&mut index, -2300), guard(&mut index, i32::MIN)), (Err(2300), Err(i32::MAX)));
    assert_eq!(call(&mut index, "get_bucket_resharding", framed(1, |_| {})), Ok(status_op(1)));
    call(&mut index, "clear_bucket_resharding", framed(1, |_| {})).unwrap();
    guard(&mut index, -2300).unwrap();
    assert_eq!(call(&mut index, "clear_bucket_resharding", Bytes::new()), Err(EINVAL));
}

pub fn mtime_op(sec: u32, nsec: u32, relation: u8, high: bool) -> Bytes {
    framed(2, |e| {
        e.put(&UTime { sec, nsec });
        e.u8(relation);
        e.bool(high);
    })
}

#[test]
fn objects_are_looked_at_before_they_change() {
    let mut object = Object { now: UTime { sec: 100, nsec: 7 }, ..Object::default() };
    assert_eq!(call(&mut object, "obj_check_mtime", mtime_op(0, 0, 0, true)), Ok(Bytes::new()));
    assert_eq!(call(&mut object, "obj_remove", framed(1, |e| e.u32(0))), Err(ENOENT));
    call(&mut object, "obj_store_pg_ver", text_op("user.rgw.pg_ver")).unwrap();
    let state = object.state.as_mut().unwrap();
    assert_eq!(state.attrs[&b"user.rgw.pg_ver"[..]][..], 7_u64.to_le_bytes());
    state.attrs.insert("user.rgw.acl".into(), Bytes::new());
    state.attrs.insert("other".into(), Bytes::new());
    // Relations of 100 s to 99, 100 and 101.
    for (relation, holds) in
        [[false, true, false], [false, false, true], [false, true, true], [true, false, false], [true, true, false]].iter().enumerate()
    {
        for (sec, holds) in (99..102).zip(holds) {
            let expected = if *holds { Ok(Bytes::new()) } else { Err(ECANCELED) };
            assert_eq!(call(&mut object, "obj_check_mtime", mtime_op(sec, 500, relation as u8, false)), expected, "{relation} {sec}");
        }
    }
    assert_eq!(call(&mut object, "obj_check_mtime", mtime_op(100, 500, 0, true)), Err(ECANCELED));
    assert_eq!(call(&mut object, "obj_check_mtime", mtime_op(100, 500, 5, false)), Err(EINVAL));
    let check = |object: &mut Object, prefix: &str, fail: bool| {
        let op = framed(1, |e| {
            e.blob(prefix.as_bytes());
            e.bool(fail);
        });
        call(object, "obj_check_attrs_prefix", op).map(drop)
    };
    assert_eq!((check(&mut object, "user.rgw.", true), check(&mut object, "user.rgw.", false)), (Err(ECANCELED), Ok(())));
    assert_eq!((check(&mut object, "user.x", true), check(&mut object, "user.x", false)), (Ok(()), Err(ECANCELED)));
    assert_eq!(check(&mut object, "", true), Err(EINVAL));
    call(&mut object, "obj_remove", framed(1, |e| e.put(&vec![ByteStr::from("user.rgw.a"), "user.rgw.p".into()]))).unwrap();
    let names: Vec<_> = object.state.as_ref().unwrap().attrs.keys().cloned().collect();
    assert_eq!(names, ["user.rgw.acl", "user.rgw.pg_ver"]);
    call(&mut object, "obj_remove", framed(1, |e| e.u32(0))).unwrap();
    assert_eq!(object.state, None);
}

pub fn accumulate_op(index: u64, size: u64, mtime: i64) -> Bytes {
    framed(1, |e| {
        put_texts(e, &["ceiling", "mtime", "size"]);
        e.u64(index);
        e.u64(size);
        e.i64(mtime);
    })
}

#[test]
fn a_files_first_object_gathers_the_greatest() {
    let mut object = Object::default();
    object.call("cephfs", "accumulate_inode_metadata", accumulate_op(3, 50, -1)).unwrap();
    object.call("cephfs", "accumulate_inode_metadata", accumulate_op(3, 60, -7)).unwrap();
    let attrs = |object: &Object| object.state.as_ref().unwrap().attrs.clone();
    let mtime = |object: &Object| attrs(object)[&b"mtime"[..]].clone();
    let ceiling = |index: u64, size: u64| two(index, size);
    assert_eq!(attrs(&object)[&b"ceiling"[..]], ceiling(3, 50));
    assert_eq!(
        (mtime(&object)[..].to_vec(), attrs(&object)[&b"size"[..]][..].to_vec()),
        ((-1_i64).to_le_bytes().to_vec(), 60_u64.to_le_bytes().to_vec())
    );
    object.call("cephfs", "accumulate_inode_metadata", accumulate_op(4, 1, 8)).unwrap();
    assert_eq!(attrs(&object)[&b"ceiling"[..]], ceiling(4, 1));
    // What can't be read, or has something behind it, is overwritten.
    object.state.as_mut().unwrap().attrs.insert("mtime".into(), Bytes::from_static(&[0xff; 9]));
    object.call("cephfs", "accumulate_inode_metadata", accumulate_op(0, 0, 2)).unwrap();
    assert_eq!(mtime(&object)[..], 2_i64.to_le_bytes());
    assert_eq!(object.call("cephfs", "accumulate_inode_metadata", Bytes::from_static(b"?")), Err(EINVAL));
}

/// Calls that no stock OSD was asked for in the records: their answers have times in them.
pub fn samples() -> Vec<(&'static str, &'static str, Bytes)> {
    vec![
        ("rgw", "gc_set_entry", gc_set_op("tag", 10)),
        ("rgw", "gc_list", gc_list_op("", 10, false)),
        ("rgw", "gc_remove", framed(1, |e| e.put(&vec![ByteStr::from("tag")]))),
        ("rgw", "mp_upload_part_info_update", part_op("part.1", "one")),
        ("rgw", "mp_upload_part_info_update", part_op("part.1", "two")),
        ("rgw", "obj_remove", framed(1, |e| e.put(&vec![ByteStr::from("user.")]))),
        ("rgw", "obj_store_pg_ver", text_op("user.rgw.pg_ver")),
        ("rgw", "obj_check_mtime", mtime_op(1, 2, 3, true)),
        ("rgw", "bi_log_list", framed(1, |e| e.u64(5 << 32))),
        ("rgw", "bi_log_trim", framed(1, |e| e.u64(0))),
        ("rgw", "bi_log_stop", Bytes::new()),
        ("rgw", "bi_log_resync", Bytes::new()),
        ("rgw_gc", "rgw_gc_queue_init", two(4000, 10)),
        ("rgw_gc", "rgw_gc_queue_enqueue", gc_set_op("tag", 0)),
        ("rgw_gc", "rgw_gc_queue_update_entry", gc_set_op("tag", 10)),
        ("rgw_gc", "rgw_gc_queue_list_entries", gc_list_op("", 10, true)),
        ("rgw_gc", "rgw_gc_queue_remove_entries", framed(1, |e| e.u64(1))),
        ("cephfs", "accumulate_inode_metadata", accumulate_op(1, 2, 3)),
    ]
}
