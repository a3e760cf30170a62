//! `queue`, `2pc_queue` and `fifo`: what goes in comes out in order, and what does not fit is refused.

use crate::object::Object;
use crate::{answer, bare, framed};
use bytes::Bytes;
use denc::ByteStr;
use types::UTime;
use types::errno::{ECANCELED, EEXIST, EINVAL, ENOENT, ENOSPC, ERANGE};

fn queue(class: &str, size: u64) -> Object {
    let mut object = Object::default();
    let method = if class == "queue" { "queue_init" } else { "2pc_queue_init" };
    let init = framed(1, |e| {
        e.u64(size);
        e.u64(0);
        e.blob(b"");
    });
    object.call(class, method, init.clone()).unwrap();
    assert_eq!(object.call(class, method, init), Err(EEXIST));
    object
}

fn enqueue(object: &mut Object, entries: &[&[u8]]) -> Result<(), i32> {
    let entries: Vec<Bytes> = entries.iter().map(|e| Bytes::copy_from_slice(e)).collect();
    object.call("queue", "queue_enqueue", framed(1, |e| e.put(&entries))).map(drop)
}

/// Truncated or not, the next marker, and the entries with their markers.
fn list(object: &mut Object, max: u64, start: &str, end: &str) -> (bool, String, Vec<(Bytes, String)>) {
    let op = framed(2, |e| {
        e.u64(max);
        e.blob(start.as_bytes());
        e.blob(end.as_bytes());
    });
    let reply = object.call("queue", "queue_list_entries", op).unwrap();
    answer(&reply.data, |d| {
        let (truncated, next, count) = (d.bool()?, d.string()?, d.u32()?);
        let entries = (0..count).map(|_| d.frame("an entry", 1, |d, _| Ok((d.blob()?, d.string()?)))).collect::<Result<_, _>>()?;
        Ok((truncated, next, entries))
    })
}

fn remove(object: &mut Object, end: &str) -> Result<(), i32> {
    object.call("queue", "queue_remove_entries", framed(1, |e| e.blob(end.as_bytes()))).map(drop)
}

/// Entries of many sizes go round a small queue many times, in every split that the end makes.
#[test]
fn a_queue_goes_round() {
    let mut object = queue("queue", 100);
    let (mut expected, mut next) = (std::collections::VecDeque::new(), 0_u8);
    let mut full = 0;
    for round in 0..300_usize {
        let entry = vec![next; round * 7 % 23];
        match enqueue(&mut object, &[&entry]) {
            Ok(()) => {
                expected.push_back(entry);
                next = next.wrapping_add(1);
            }
            Err(errno) => {
                assert_eq!(errno, ENOSPC);
                full += 1;
                let (_, marker, first) = list(&mut object, 1 + round as u64 % 2, "", "");
                first.iter().for_each(|(data, _)| assert_eq!(*data, expected.pop_front().unwrap()));
                remove(&mut object, &marker).unwrap();
            }
        }
        let (truncated, _, all) = list(&mut object, 100, "", "");
        assert!(!truncated);
        assert_eq!(all.iter().map(|(data, _)| data.to_vec()).collect::<Vec<_>>(), Vec::from(expected.clone()));
        // One by one, by the markers that the pages end with.
        let (mut marker, mut seen) = (String::new(), Vec::new());
        loop {
            let (more, next, page) = list(&mut object, 1, &marker, "");
            seen.extend(page);
            marker = next;
            if !more {
                break;
            }
        }
        assert_eq!(seen, all);
    }
    assert!(full > 50);
}

#[test]
fn markers_that_are_not_in_the_queue_change_nothing() {
    let mut object = queue("queue", 1000);
    enqueue(&mut object, &[b"one", b"two", b"three"]).unwrap();
    let (_, end, all) = list(&mut object, 9, "", "");
    let before = object.state.clone();
    for marker in ["", "0", "x/y", "0/0", "0/1", "1/1024", "0/99999", "18446744073709551615/18446744073709551615"] {
        assert_eq!(remove(&mut object, marker), Err(EINVAL), "{marker}");
        assert_eq!(object.state, before);
    }
    assert_eq!(list(&mut object, 9, "", &all[1].1).2, all[..1]);
    assert_eq!(list(&mut object, 9, "0/99999", "").2, []);
    remove(&mut object, &all[2].1).unwrap();
    assert_eq!(list(&mut object, 9, "", "").2, all[2..]);
    remove(&mut object, &end).unwrap();
    assert_eq!(list(&mut object, 9, "", "").2, []);
}

fn reserve(object: &mut Object, size: u64, entries: u32) -> Result<u32, i32> {
    let op = framed(1, |e| {
        e.u64(size);
        e.u32(entries);
    });
    object.call("2pc_queue", "2pc_queue_reserve", op).map(|reply| answer(&reply.data, |d| d.u32()))
}

fn commit(object: &mut Object, id: u32, entry: &[u8]) -> Result<(), i32> {
    let op = framed(1, |e| {
        e.u32(id);
        e.put(&vec![Bytes::copy_from_slice(entry)]);
    });
    object.call("2pc_queue", "2pc_queue_commit", op).map(drop)
}

fn reservations(object: &mut Object) -> usize {
    let reply = object.call("2pc_queue", "2pc_queue_list_reservations", Bytes::new()).unwrap();
    answer(&reply.data, |d| d.u32()) as usize
}

/// Bytes and entries.
fn stats(object: &mut Object) -> (u64, u32) {
    let reply = object.call("2pc_queue", "2pc_queue_get_topic_stats", Bytes::new()).unwrap();
    answer(&reply.data, |d| Ok((d.u64()?, d.u32()?)))
}

#[test]
fn reserved_room_is_kept_and_given_back() {
    let mut object = queue("2pc_queue", 300);
    let first = reserve(&mut object, 100, 1).unwrap();
    let second = reserve(&mut object, 100, 1).unwrap();
    // 300 - 2 * 110 is left.
    assert_eq!(reserve(&mut object, 71, 1), Err(ENOSPC));
    assert_eq!((reserve(&mut object, 0, 1), reserve(&mut object, 1, 0)), (Err(EINVAL), Err(EINVAL)));
    assert_eq!(commit(&mut object, first, &[1; 101]), Err(EINVAL));
    commit(&mut object, first, &[1; 90]).unwrap();
    assert_eq!(commit(&mut object, first, b""), Err(ENOENT));
    assert_eq!((reservations(&mut object), stats(&mut object)), (1, (100, 1)));
    for _ in 0..2 {
        object.call("2pc_queue", "2pc_queue_abort", framed(1, |e| e.u32(second))).unwrap();
    }
    let all = reserve(&mut object, 190, 1).unwrap();
    commit(&mut object, all, &[2; 190]).unwrap();
    assert_eq!((stats(&mut object), reserve(&mut object, 1, 1)), ((300, 2), Err(ENOSPC)));
    let (_, end, entries) = list(&mut object, 9, "", "");
    assert_eq!(entries.iter().map(|(data, _)| data.len()).collect::<Vec<_>>(), [90, 190]);
    let op = framed(2, |e| {
        e.blob(end.as_bytes());
        e.u32(2);
    });
    object.call("2pc_queue", "2pc_queue_remove_entries", op).unwrap();
    assert_eq!(stats(&mut object), (0, 0));
}

#[test]
fn reservations_that_the_head_has_no_room_for_count_too() {
    let mut object = queue("2pc_queue", 1 << 20);
    let ids: Vec<u32> = (0..2000).map(|_| reserve(&mut object, 10, 1).unwrap()).collect();
    assert!(!object.state.as_ref().unwrap().attrs.is_empty(), "some stand in the attribute");
    assert_eq!(reservations(&mut object), ids.len());
    commit(&mut object, ids[1999], b"x").unwrap();
    object.call("2pc_queue", "2pc_queue_abort", framed(1, |e| e.u32(ids[1998]))).unwrap();
    assert_eq!(reservations(&mut object), ids.len() - 2);
    let expire = |sec| framed(1, |e| e.put(&UTime { sec, nsec: 0 }));
    object.call("2pc_queue", "2pc_queue_expire_reservations", expire(0)).unwrap();
    assert_eq!(reservations(&mut object), ids.len() - 2);
    object.call("2pc_queue", "2pc_queue_expire_reservations", expire(1)).unwrap();
    assert_eq!(reservations(&mut object), 0);
    assert_eq!(reserve(&mut object, (1 << 20) - 11 - 10, 1), Ok(2001));
}

fn create_fifo(id: &str, exclusive: bool) -> Bytes {
    framed(1, |e| {
        e.blob(id.as_bytes());
        e.put(&None::<u64>);
        e.blob(b"");
        e.blob(b"");
        e.put(&Some(ByteStr::from("prefix")));
        e.u64(1000);
        e.u64(100);
        e.bool(exclusive);
    })
}

/// Instance and number.
type Version = (ByteStr, u64);

fn meta(object: &mut Object) -> (Version, [i64; 4], u32) {
    let reply = object.call("fifo", "get_meta", framed(1, |e| e.put(&None::<u64>))).unwrap();
    answer(&reply.data, |d| {
        d.frame("info", 1, |d, _| {
            d.blob()?;
            let version = d.frame("objv", 1, |d, _| Ok((d.bytestr()?, d.u64()?)))?;
            d.blob()?;
            d.frame("params", 1, |_, _| Ok(()))?;
            let parts = [d.i64()?, d.i64()?, d.i64()?, d.i64()?];
            d.u32()?;
            d.blob()?;
            Ok((version, parts, d.u32()?))
        })
    })
}

#[test]
fn a_fifos_head_changes_by_its_version() {
    let mut head = Object::default();
    head.call("fifo", "create_meta", create_fifo("id", true)).unwrap();
    assert_eq!(head.call("fifo", "create_meta", create_fifo("id", true)), Err(EEXIST));
    assert_eq!(head.call("fifo", "create_meta", create_fifo("other", false)), Err(EEXIST));
    head.call("fifo", "create_meta", create_fifo("id", false)).unwrap();
    let (version, parts, steps) = meta(&mut head);
    assert_eq!((version.1, parts, steps), (1, [0, -1, 0, -1], 0));
    let update = |version: &Version, step: i32| {
        framed(1, |e| {
            e.frame(1, 1, |e| {
                e.put(&version.0);
                e.u64(version.1);
            });
            e.put(&None::<i64>);
            e.put(&Some(3_i64));
            e.put(&None::<i64>);
            e.put(&None::<i64>);
            e.count(1);
            e.frame(1, 1, |e| {
                e.i32(step);
                e.i64(3);
                e.blob(b"");
            });
            e.count(0);
        })
    };
    assert_eq!(head.call("fifo", "update_meta", update(&version, 9)), Err(EINVAL));
    head.call("fifo", "update_meta", update(&version, 1)).unwrap();
    let (after, parts, steps) = meta(&mut head);
    assert_eq!((after.1, parts, steps), (2, [0, 3, 0, -1], 1));
    assert_eq!(head.call("fifo", "update_meta", update(&version, 2)), Err(ECANCELED));
    head.call("fifo", "update_meta", update(&after, 1)).unwrap();
    assert_eq!(meta(&mut head).0, after, "nothing changed");
}

/// Offsets and data behind an offset, and whether more follow.
fn part_list(part: &mut Object, offset: u64, max: i32) -> (Vec<(u64, Bytes)>, bool) {
    let op = framed(1, |e| {
        e.put(&None::<u64>);
        e.u64(offset);
        e.i32(max);
    });
    let reply = part.call("fifo", "part_list", op).unwrap();
    answer(&reply.data, |d| {
        d.blob()?;
        let count = d.u32()?;
        let entry = |d: &mut denc::Decoder| d.frame("an entry", 1, |d, _| Ok((d.blob()?, d.u64()?)));
        let entries = (0..count).map(|_| entry(d).map(|(data, offset)| (offset, data))).collect::<Result<_, _>>()?;
        Ok((entries, d.bool()?))
    })
}

#[test]
fn a_part_fills_and_is_trimmed() {
    let mut part = Object::default();
    let params = |full: u64| {
        framed(1, |e| {
            e.blob(b"");
            e.frame(1, 1, |e| [2000, 100, full].into_iter().for_each(|v: u64| e.u64(v)));
        })
    };
    part.call("fifo", "init_part", params(1000)).unwrap();
    part.call("fifo", "init_part", params(1000)).unwrap();
    assert_eq!(part.call("fifo", "init_part", params(1001)), Err(EEXIST));
    let push = |entries: &[&'static [u8]]| {
        framed(1, |e| {
            e.blob(b"");
            e.put(&entries.iter().map(|e| Bytes::from_static(e)).collect::<Vec<_>>());
            e.u64(entries.iter().map(|e| e.len() as u64).sum());
        })
    };
    assert_eq!(part.call("fifo", "push_part", push(&[b"one", b"two"])).unwrap().code, 2);
    // 512 + 2 * 61; each further one takes 158: three fit before the part ends behind 1000.
    assert_eq!(part.call("fifo", "push_part", push(&[&[3; 100][..]; 5])).unwrap().code, 3);
    assert_eq!(part.call("fifo", "push_part", push(&[b"more"])), Err(ERANGE));
    let (all, more) = part_list(&mut part, 0, 100);
    assert!(!more && all.len() == 5 && all[0] == (512, Bytes::from_static(b"one")) && all[1].0 == 573);
    assert_eq!(part_list(&mut part, all[1].0, 1), (vec![all[2].clone()], true));
    let trim = |offset: u64, exclusive: bool| {
        framed(1, |e| {
            e.put(&None::<u64>);
            e.u64(offset);
            e.bool(exclusive);
        })
    };
    part.call("fifo", "trim_part", trim(all[1].0, true)).unwrap();
    assert_eq!(part_list(&mut part, 0, 100).0, all[1..]);
    part.call("fifo", "trim_part", trim(all[1].0, false)).unwrap();
    assert_eq!(part_list(&mut part, 0, 100).0, all[2..]);
    assert_eq!(part.call("fifo", "trim_part", trim(all[2].0 + 1, false)), Err(ERANGE), "no entry starts there");
    part.call("fifo", "trim_part", trim(1 << 40, false)).unwrap();
    assert!(part.state.is_none(), "a full part goes");
    assert_eq!(part.call("fifo", "part_list", bare(|e| e.u8(0))), Err(EINVAL));
}
