//! The classes that keep records: what they write is there, in their order, under their conditions.

use crate::object::{Object, State};
use crate::{answer, bare, framed};
use bytes::Bytes;
use denc::ByteStr;
use types::errno::*;
use types::{HObject, UTime};

fn text(value: &str) -> Bytes {
    bare(|e| e.blob(value.as_bytes()))
}

fn tag(value: &str, implicit: bool) -> Bytes {
    framed(1, |e| {
        e.blob(value.as_bytes());
        e.bool(implicit);
    })
}

#[test]
fn the_last_reference_takes_the_object_along() {
    let mut o = Object::default();
    assert_eq!(o.call("refcount", "put", tag("a", true)), Err(ENOENT));
    o.call("hello", "record_hello", Bytes::new()).unwrap();
    assert_eq!(o.call("refcount", "put", tag("a", false)), Err(EINVAL));
    o.call("refcount", "get", tag("a", true)).unwrap();
    let tags = |o: &mut Object| {
        let reply = o.call("refcount", "read", framed(1, |e| e.bool(true))).unwrap();
        answer(&reply.data, |d| d.get::<Vec<String>>())
    };
    assert_eq!(tags(&mut o), ["", "a"], "whoever wrote it holds it too");
    o.call("refcount", "put", tag("b", true)).unwrap();
    o.call("refcount", "put", tag("b", true)).unwrap();
    assert_eq!(tags(&mut o), ["a"]);
    o.call("refcount", "put", tag("a", true)).unwrap();
    assert!(o.state.is_none());
}

#[test]
fn content_is_shared_by_reference() {
    let mut o = Object::default();
    let source = |name: &str| HObject { oid: name.into(), pool: 1, ..HObject::min() };
    let create = |name: &str, flags: u64, data: &'static [u8]| {
        framed(1, |e| {
            e.put(&source(name));
            e.u64(flags);
            e.blob(data);
        })
    };
    let reference = |name: &str| framed(1, |e| e.put(&source(name)));
    assert_eq!(o.call("cas", "chunk_get_ref", reference("a")), Err(ENOENT));
    o.call("cas", "chunk_create_or_get_ref", create("a", 0, b"data")).unwrap();
    assert_eq!(o.call("cas", "chunk_create_or_get_ref", create("b", 1, b"other")), Err(ENOMSG));
    o.call("cas", "chunk_create_or_get_ref", create("b", 1, b"data")).unwrap();
    assert_eq!(o.call("cas", "chunk_put_ref", reference("c")), Err(ENOLINK));
    o.call("cas", "chunk_put_ref", reference("a")).unwrap();
    o.call("cas", "chunk_put_ref", reference("b")).unwrap();
    assert!(o.state.is_none());
}

#[test]
fn numbers_add_up() {
    let mut o = Object::default();
    let op = |number: &str| [text("key"), text(number)].concat();
    o.call("numops", "add", op("3")).unwrap();
    o.call("numops", "mul", op("-0.5")).unwrap();
    assert_eq!(o.state.as_ref().unwrap().omap[&b"key"[..]], "-1.5");
    assert_eq!(o.call("numops", "add", op("three")), Err(EINVAL));
    o.state.as_mut().unwrap().omap.insert("key".into(), Bytes::from_static(b"much"));
    assert_eq!(o.call("numops", "add", op("1")), Err(EBADMSG));
}

#[test]
fn values_change_if_they_compare() {
    let mut o = Object::default();
    let op = |mode: u8, operator: u8, value: Bytes, default: Option<Option<Bytes>>| {
        framed(1, |e| {
            e.u8(mode);
            e.u8(operator);
            e.count(1);
            e.blob(b"key");
            e.blob(&value);
            if let Some(default) = default {
                e.put(&default);
            }
        })
    };
    let number = |n: u64| Bytes::copy_from_slice(&n.to_le_bytes());
    let (greater, equal) = (3, 1);
    assert_eq!(o.call("cmpomap", "cmp_vals", op(2, greater, number(1), Some(None))), Err(ECANCELED));
    o.call("cmpomap", "cmp_vals", op(2, greater, number(1), Some(Some(Bytes::new())))).unwrap();
    o.call("cmpomap", "cmp_set_vals", op(2, greater, number(5), Some(None))).unwrap();
    assert!(o.state.is_none(), "a key without a default is passed over");
    o.call("cmpomap", "cmp_set_vals", op(2, greater, number(5), Some(Some(Bytes::new())))).unwrap();
    o.call("cmpomap", "cmp_set_vals", op(2, greater, number(4), Some(None))).unwrap();
    o.call("cmpomap", "cmp_vals", op(1, equal, number(5), Some(None))).unwrap();
    assert_eq!(o.call("cmpomap", "cmp_vals", op(2, 9, number(5), Some(None))), Err(EINVAL));
    assert_eq!(o.call("cmpomap", "cmp_vals", op(2, equal, Bytes::new(), Some(None))), Err(EINVAL));
    o.state.as_mut().unwrap().omap.insert("key".into(), Bytes::from_static(b"?"));
    assert_eq!(o.call("cmpomap", "cmp_vals", op(2, equal, number(5), Some(None))), Err(EIO));
    o.call("cmpomap", "cmp_rm_keys", op(2, equal, number(5), None)).unwrap();
    o.call("cmpomap", "cmp_rm_keys", op(1, equal, Bytes::from_static(b"?"), None)).unwrap();
    assert!(o.state.unwrap().omap.is_empty());
}

#[test]
fn a_version_goes_up_under_conditions() {
    let mut o = Object::default();
    let read = |o: &mut Object| {
        let reply = o.call("version", "read", Bytes::new()).unwrap();
        answer(&reply.data, |d| d.frame("obj_version", 1, |d, _| Ok((d.u64()?, d.string()?))))
    };
    let op = |conditions: &[(u64, u32)]| {
        framed(1, |e| {
            let version = |e: &mut denc::Encoder, n: u64| {
                e.frame(1, 1, |e| {
                    e.u64(n);
                    e.blob(b"");
                });
            };
            version(e, 0);
            e.count(conditions.len());
            for (n, kind) in conditions {
                e.frame(1, 1, |e| {
                    version(e, *n);
                    e.u32(*kind);
                });
            }
        })
    };
    assert_eq!(read(&mut o), (0, String::new()));
    o.call("version", "inc", op(&[])).unwrap();
    let (number, tag) = read(&mut o);
    assert_eq!((number, tag.len()), (2, 24));
    o.call("version", "inc_conds", op(&[(2, 3), (3, 4), (0, 7)])).unwrap();
    assert_eq!(read(&mut o), (3, tag));
    for refused in [(3, 1), (3, 2), (4, 3), (3, 4), (2, 5), (3, 6)] {
        assert_eq!(o.call("version", "check_conds", op(&[refused])), Err(ECANCELED), "{refused:?}");
    }
}

const fn at(sec: u32) -> UTime {
    UTime { sec, nsec: 500_000 }
}

#[test]
fn a_log_is_in_the_order_of_time() {
    let mut o = Object::default();
    let add = |secs: &[u32]| {
        framed(2, |e| {
            e.count(secs.len());
            for sec in secs {
                e.frame(2, 1, |e| {
                    e.blob(b"section");
                    e.blob(sec.to_string().as_bytes());
                    e.put(&at(*sec));
                    e.blob(b"data");
                    e.blob(b"");
                });
            }
            e.bool(false);
        })
    };
    // Entries of one time and one call are two entries.
    o.call("log", "add", add(&[20, 10, 30, 30])).unwrap();
    let list = |o: &mut Object, from: UTime, to: UTime, marker: &str, max: i32| {
        let op = framed(1, |e| {
            e.put(&from);
            e.blob(marker.as_bytes());
            e.put(&to);
            e.i32(max);
        });
        let reply = o.call("log", "list", op).unwrap();
        answer(&reply.data, |d| {
            let count = d.u32()?;
            let name = |d: &mut denc::Decoder| d.frame("an entry", 2, |d, _| d.blob().and_then(|_| d.string()));
            let names = (0..count).map(|_| name(d)).collect::<Result<Vec<_>, _>>()?;
            Ok((names, d.string()?, d.bool()?))
        })
    };
    let (all, _, more) = list(&mut o, UTime::ZERO, UTime::ZERO, "", 0);
    assert_eq!((all, more), (["10", "20", "30", "30"].map(String::from).to_vec(), false));
    assert_eq!(list(&mut o, at(10), at(20), "", 0).0, ["10"]);
    let (first, marker, more) = list(&mut o, UTime::ZERO, UTime::ZERO, "", 2);
    assert!(first.len() == 2 && more && marker.starts_with("1_0000000020.000500_"));
    assert_eq!(list(&mut o, UTime::ZERO, UTime::ZERO, &marker, 2).0, ["30", "30"]);
    let trim = |to: UTime| {
        framed(2, |e| {
            e.put(&UTime::ZERO);
            e.put(&to);
            e.blob(b"");
            e.blob(b"");
        })
    };
    o.call("log", "trim", trim(at(20))).unwrap();
    assert_eq!(o.call("log", "trim", trim(at(20))), Err(ENODATA));
    assert_eq!(list(&mut o, UTime::ZERO, UTime::ZERO, "", 0).0, ["30", "30"]);
    let info = o.call("log", "info", framed(1, |_| ())).unwrap();
    let newest = answer(&info.data, |d| d.frame("header", 1, |d, _| d.blob().and_then(|_| d.get::<UTime>())));
    assert_eq!(newest, at(30));
    // A header that is no log's is none, as on stock.
    let mut other = Object::default();
    other.state.get_or_insert_default().header = Bytes::from_static(b"2");
    let empty = o_info(&mut Object { state: Some(State::default()), ..Object::default() });
    assert_eq!(o_info(&mut other), empty);
    other.call("log", "add", add(&[20])).unwrap();
    assert_ne!(o_info(&mut other), empty);
}

fn o_info(o: &mut Object) -> Bytes {
    o.call("log", "info", framed(1, |_| ())).unwrap().data
}

#[test]
fn an_index_by_time_lists_and_trims() {
    let mut o = Object::default();
    let add = framed(1, |e| {
        e.count(3);
        for (sec, text) in [(5, "a"), (5, "b"), (6, "")] {
            e.frame(1, 1, |e| {
                e.put(&at(sec));
                e.blob(text.as_bytes());
                e.blob(b"value");
            });
        }
    });
    o.call("timeindex", "add", add).unwrap();
    let list = |o: &mut Object, from: u32, to: u32, max: i32| {
        let op = framed(1, |e| {
            e.put(&UTime { sec: from, nsec: 0 });
            e.blob(b"");
            e.put(&UTime { sec: to, nsec: 0 });
            e.i32(max);
        });
        let reply = o.call("timeindex", "list", op).unwrap();
        answer(&reply.data, |d| {
            let count = d.u32()?;
            let entry = |d: &mut denc::Decoder| d.frame("an entry", 1, |d, _| Ok((d.u32()?, d.u32()?, d.string()?)));
            let found = (0..count).map(|_| entry(d)).collect::<Result<Vec<_>, _>>()?;
            d.blob()?;
            Ok((found, d.bool()?))
        })
    };
    assert_eq!(list(&mut o, 0, 6, 10), (vec![(5, 500, "a".into()), (5, 500, "b".into())], false));
    assert_eq!(list(&mut o, 0, 9, 1), (vec![(5, 500, "a".into())], true));
    assert_eq!(list(&mut o, 6, 9, -1), (vec![(6, 500, String::new())], false));
    let trim = framed(1, |e| {
        e.put(&UTime::ZERO);
        e.put(&at(5));
        e.blob(b"");
        e.blob(b"");
    });
    o.call("timeindex", "trim", trim.clone()).unwrap();
    assert_eq!(o.call("timeindex", "trim", trim), Err(ENODATA));
    assert_eq!(list(&mut o, 0, 9, 10).0.len(), 1);
}

/// One bucket's entry.
pub fn bucket(e: &mut denc::Encoder, name: &str, size: u64) {
    e.frame(9, 5, |e| {
        e.blob(b"");
        e.u64(size);
        e.u32(0);
        e.u64(1);
        e.frame(9, 8, |e| [name, "marker", "id", "placement"].iter().for_each(|t| e.blob(t.as_bytes())));
        e.u64(4096);
        e.bool(false);
        e.put(&UTime::ZERO);
    });
}

#[test]
fn a_users_sums_follow_his_buckets() {
    let mut o = Object::default();
    let set = |name: &str, size: u64, add: bool| {
        framed(1, |e| {
            e.count(1);
            bucket(e, name, size);
            e.bool(add);
            e.put(&at(9));
        })
    };
    let sums = |o: &mut Object| {
        let reply = o.call("user", "get_header", framed(1, |_| ())).unwrap();
        answer(&reply.data, |d| d.frame("header", 1, |d, _| d.frame("stats", 1, |d, _| Ok([d.u64()?, d.u64()?, d.u64()?]))))
    };
    o.call("user", "set_buckets_info", set("a", 10, false)).unwrap();
    assert_eq!(sums(&mut o), [0, 0, 0], "a bucket that is not there is not added unasked");
    o.call("user", "set_buckets_info", set("a", 10, true)).unwrap();
    o.call("user", "set_buckets_info", set("b", 5, true)).unwrap();
    o.call("user", "set_buckets_info", set("a", 30, false)).unwrap();
    assert_eq!(sums(&mut o), [2, 35, 8192]);
    assert_eq!(o.call("user", "set_buckets_info", set("", 30, false)), Err(EINVAL));
    let remove = framed(1, |e| e.frame(9, 8, |e| ["b", "", "", "p"].iter().for_each(|t| e.blob(t.as_bytes()))));
    o.call("user", "remove_bucket", remove.clone()).unwrap();
    o.call("user", "remove_bucket", remove).unwrap();
    assert_eq!(sums(&mut o), [1, 30, 4096]);
    o.state.as_mut().unwrap().header = Bytes::new();
    o.call("user", "reset_user_stats", framed(1, |e| e.put(&at(10)))).unwrap();
    assert_eq!(sums(&mut o), [1, 30, 4096]);
}

#[test]
fn an_accounts_resources_are_counted() {
    let mut o = Object::default();
    let add = |name: &str, exclusive: bool, limit: u32| {
        framed(1, |e| {
            e.frame(1, 1, |e| {
                e.blob(name.as_bytes());
                e.blob(b"/path");
                e.blob(b"");
            });
            e.bool(exclusive);
            e.u32(limit);
        })
    };
    let name = |name: &str| framed(1, |e| e.blob(name.as_bytes()));
    assert_eq!(o.call("user", "account_resource_add", add("One", true, 0)), Err(EUSERS));
    o.call("user", "account_resource_add", add("One", true, 1)).unwrap();
    assert_eq!(o.call("user", "account_resource_add", add("two", true, 1)), Err(EUSERS));
    assert_eq!(o.call("user", "account_resource_add", add("ONE", true, 1)), Err(EEXIST));
    o.call("user", "account_resource_add", add("ONE", false, 1)).unwrap();
    o.call("user", "account_resource_get", name("one")).unwrap();
    o.call("user", "account_resource_rm", name("oNe")).unwrap();
    assert_eq!(o.call("user", "account_resource_rm", name("one")), Err(ENOENT));
    o.call("user", "account_resource_add", add("two", true, 1)).unwrap();
}

fn position(e: &mut denc::Encoder, tag: u64) {
    e.frame(1, 1, |e| {
        e.count(1);
        e.frame(1, 1, |e| [0, tag, 0].into_iter().for_each(|n: u64| e.u64(n)));
    });
}

#[test]
fn a_journals_tags_go_when_no_client_needs_them() {
    let mut o = Object::default();
    let create = bare(|e| {
        e.u8(24);
        e.u8(4);
        e.i64(-1);
    });
    let register = |id: &str| [text(id), text("")].concat();
    let tag = |tid: u64, class: u64| {
        bare(|e| {
            e.u64(tid);
            e.u64(class);
            e.blob(b"");
        })
    };
    assert_eq!(o.call("journal", "client_register", register("a")), Err(ENOENT));
    o.call("journal", "create", create.clone()).unwrap();
    assert_eq!(o.call("journal", "create", create), Err(EEXIST));
    o.call("journal", "client_register", register("a")).unwrap();
    assert_eq!(o.call("journal", "client_register", register("a")), Err(EEXIST));
    assert_eq!(o.call("journal", "tag_create", tag(1, u64::MAX)), Err(ESTALE));
    o.call("journal", "tag_create", tag(0, u64::MAX)).unwrap();
    assert_eq!(o.call("journal", "tag_create", tag(1, 1)), Err(EINVAL));
    for tid in 1..4 {
        o.call("journal", "tag_create", tag(tid, 0)).unwrap();
    }
    let tags = |o: &mut Object| {
        let op = bare(|e| {
            e.u64(0);
            e.u64(100);
            e.blob(b"a");
            e.put(&None::<u64>);
        });
        let data = o.call("journal", "tag_list", op).unwrap().data;
        let mut d = denc::Decoder::new(data);
        let count = d.u32().unwrap();
        (0..count).map(|_| d.frame("a tag", 1, |d, _| d.u64()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(tags(&mut o), [0, 1, 2, 3]);
    let commit = bare(|e| {
        e.blob(b"a");
        position(e, 2);
    });
    o.call("journal", "client_commit", commit).unwrap();
    assert_eq!(tags(&mut o), [2, 3], "those behind the client are not shown");
    o.call("journal", "tag_create", tag(4, 0)).unwrap();
    assert_eq!(o.state.as_ref().unwrap().omap.keys().filter(|k| k.as_slice().starts_with(b"tag_")).count(), 3);
    o.call("journal", "client_register", register("b")).unwrap();
    let client = o.call("journal", "get_client", text("b")).unwrap().data;
    let starts = answer(&client, |d| {
        d.blob()?;
        d.blob()?;
        d.frame("positions", 1, |d, _| d.u32())
    });
    assert_eq!(starts, 1, "a new client starts where the last one is");
}

#[test]
fn a_journals_sets_only_go_up() {
    let mut o = Object::default();
    o.call("journal", "create", Bytes::from_static(&[24, 4, 0, 0, 0, 0, 0, 0, 0, 0])).unwrap();
    let set = |n: u64| Bytes::copy_from_slice(&n.to_le_bytes());
    assert_eq!(o.call("journal", "set_minimum_set", set(1)), Err(EINVAL));
    o.call("journal", "set_active_set", set(5)).unwrap();
    o.call("journal", "set_minimum_set", set(3)).unwrap();
    assert_eq!(o.call("journal", "set_minimum_set", set(2)), Err(ESTALE));
    assert_eq!((o.call("journal", "set_active_set", set(2)), o.call("journal", "set_active_set", set(4))), (Err(EINVAL), Err(ESTALE)));
    let mut data = Object::default();
    let append = |max: u64| {
        bare(|e| {
            e.u64(max);
            e.blob(b"entry");
        })
    };
    data.call("journal", "guard_append", set(8)).unwrap();
    data.call("journal", "append", append(8)).unwrap();
    assert_eq!(data.state.as_ref().unwrap().data, b"entry\0\0\0", "padded");
    assert_eq!((data.call("journal", "append", append(8)), data.call("journal", "guard_append", set(8))), (Err(EOVERFLOW), Err(EOVERFLOW)));
}

#[test]
fn one_time_passwords_are_checked_in_two_calls() {
    let mut o = Object { now: UTime { sec: 59, nsec: 0 }, ..Object::default() };
    let set = |step: u32| {
        framed(1, |e| {
            e.count(1);
            e.frame(1, 1, |e| {
                e.u8(2);
                e.blob(b"id");
                e.blob(b"3132333435363738393031323334353637383930");
                e.u8(1);
                e.blob(b"");
                e.i32(0);
                e.u32(step);
                e.u32(1);
            });
        })
    };
    assert_eq!(o.call("otp", "otp_set", set(0)), Err(EINVAL));
    o.call("otp", "otp_set", set(30)).unwrap();
    let check = |password: &str, token: &str| framed(1, |e| ["id", password, token].iter().for_each(|t| e.blob(t.as_bytes())));
    o.call("otp", "otp_check", check("94287082", "first")).unwrap();
    let outcome = |o: &mut Object, token: &str| {
        let reply = o.call("otp", "otp_get_result", check("", token)).unwrap();
        answer(&reply.data, |d| d.frame("attempt", 1, |d, _| d.blob().and_then(|_| d.get::<UTime>()).and_then(|_| d.u8())))
    };
    assert_eq!((outcome(&mut o, "first"), outcome(&mut o, "second")), (1, 0));
    let ids = framed(1, |e| e.put(&vec![ByteStr::from("id"), ByteStr::from("none")]));
    o.call("otp", "otp_remove", ids).unwrap();
    assert_eq!(o.call("otp", "otp_check", check("94287082", "x")), Err(ENOENT));
}

#[test]
fn the_sdks_object_is_written_and_read_back() {
    let mut o = Object::default();
    o.call("sdk", "test_coverage_write", Bytes::new()).unwrap();
    o.call("sdk", "test_coverage_replay", Bytes::new()).unwrap();
    assert!(o.state.is_none());
    o.call("sdk", "test_coverage_write", Bytes::new()).unwrap();
    o.state.as_mut().unwrap().data.push(0);
    assert_eq!(o.call("sdk", "test_coverage_replay", Bytes::new()), Err(EIO));
}
