//! Methods that walk keys, with the shortest that are legal: nothing that sorts first is overlooked.

use crate::object::Object;
use crate::{answer, bare, framed};
use bytes::Bytes;
use denc::{ByteStr, Encoder};
use types::UTime;
use types::errno::{E2BIG, ENOENT};

/// The image itself is the client with the empty id.
const IMAGE: &str = "";

fn journal() -> Object {
    let mut o = Object::default();
    let create = bare(|e| {
        e.u8(24);
        e.u8(4);
        e.i64(-1);
    });
    o.call("journal", "create", create).unwrap();
    o
}

fn register(o: &mut Object, id: &str) {
    let input = bare(|e| {
        e.blob(id.as_bytes());
        e.blob(b"data");
    });
    o.call("journal", "client_register", input).unwrap();
}

fn put_position(e: &mut Encoder, tag: u64) {
    e.frame(1, 1, |e| {
        e.count(1);
        e.frame(1, 1, |e| [0, tag, 7].into_iter().for_each(|n| e.u64(n)));
    });
}

fn commit(o: &mut Object, id: &str, tag: u64) {
    let input = bare(|e| {
        e.blob(id.as_bytes());
        put_position(e, tag);
    });
    o.call("journal", "client_commit", input).unwrap();
}

fn make_tag(o: &mut Object, tid: u64) {
    let input = bare(|e| {
        e.u64(tid);
        e.u64(if tid == 0 { u64::MAX } else { 0 });
        e.blob(b"");
    });
    o.call("journal", "tag_create", input).unwrap();
}

fn tags(o: &Object) -> Vec<String> {
    let keys = o.state.as_ref().unwrap().omap.keys().map(ByteStr::to_string);
    keys.filter_map(|key| key.strip_prefix("tag_").map(|tid| tid.trim_start_matches('0').into())).collect()
}

/// As a dozen openings of an image leave it.
#[test]
fn tags_expire_behind_the_image_itself() {
    let mut o = journal();
    register(&mut o, IMAGE);
    for tid in 0..12 {
        make_tag(&mut o, tid);
        commit(&mut o, IMAGE, tid);
    }
    assert_eq!(tags(&o), ["a", "b"]);
    // A client that joins begins where the image is, not at the start.
    register(&mut o, "mirror");
    let input = bare(|e| e.blob(b"mirror"));
    let at = bare(|e| put_position(e, 11));
    let client = o.call("journal", "get_client", input).unwrap().data;
    assert!(client.windows(at.len()).any(|part| part == &at[..]), "{client:02x?}");
    let all = bare(|e| {
        e.blob(b"");
        e.u64(9);
    });
    let listed = o.call("journal", "client_list", all).unwrap().data;
    assert_eq!(listed[..4], [2, 0, 0, 0]);
}

/// The one that leaves can still be read in the call that removes it.
#[test]
fn tags_expire_when_the_client_behind_leaves() {
    let mut o = journal();
    register(&mut o, IMAGE);
    register(&mut o, "mirror");
    make_tag(&mut o, 0);
    commit(&mut o, "mirror", 0);
    for tid in 1..5 {
        make_tag(&mut o, tid);
        commit(&mut o, IMAGE, tid);
    }
    assert_eq!(tags(&o), ["", "1", "2", "3", "4"]);
    o.call("journal", "client_unregister", bare(|e| e.blob(b"mirror"))).unwrap();
    assert_eq!(tags(&o), ["4"]);
}

/// Keys of one byte behind the prefix, and the first keys of lists without one.
#[test]
fn names_of_one_byte_are_listed() {
    let text = |name: &str| bare(|e| e.blob(name.as_bytes()));
    let page = bare(|e| {
        e.blob(b"");
        e.u64(9);
    });
    let mut o = Object::default();
    let metadata = bare(|e| {
        e.count(1);
        e.blob(b"\x01");
        e.blob(b"v");
    });
    o.call("rbd", "metadata_set", metadata).unwrap();
    assert_eq!(o.call("rbd", "metadata_list", page.clone()).unwrap().data[..9], [1, 0, 0, 0, 1, 0, 0, 0, 1]);
    o.call("rbd", "namespace_add", text("\x01")).unwrap();
    assert_eq!(o.call("rbd", "namespace_list", page).unwrap().data[..9], [1, 0, 0, 0, 1, 0, 0, 0, 1]);
    o.call("rbd", "mirror_instances_add", text("\x01")).unwrap();
    assert_eq!(o.call("rbd", "mirror_instances_list", Bytes::new()).unwrap().data[..9], [1, 0, 0, 0, 1, 0, 0, 0, 1]);
    // A bucket of one byte in the list of those that have rules.
    let bucket = framed(2, |e| {
        e.frame(1, 1, |e| {
            e.blob(b"\x01");
            e.u64(0);
            e.u32(0);
        });
    });
    let mut o = Object::default();
    o.call("rgw", "lc_set_entry", bucket).unwrap();
    let all = framed(3, |e| {
        e.blob(b"");
        e.u32(9);
    });
    let listed = o.call("rgw", "lc_list_entries", all).unwrap();
    assert_eq!(answer(&listed.data, |d| d.u32()), 1);
}

fn named(names: &[&str]) -> Bytes {
    framed(1, |e| e.put(&names.iter().map(|name| ByteStr::from(*name)).collect::<Vec<_>>()))
}

fn decrement(names: &[&str], grace_s: i32) -> Bytes {
    framed(1, |e| {
        e.put(&names.iter().map(|name| ByteStr::from(*name)).collect::<Vec<_>>());
        e.i32(grace_s);
        e.i32(0);
    })
}

fn semaphores(o: &mut Object, max: u64, cursor: &str) -> (Vec<(String, u64)>, String) {
    let input = framed(1, |e| {
        e.u64(max);
        e.blob(cursor.as_bytes());
    });
    let reply = o.call("sem_set", "list", input).unwrap();
    answer(&reply.data, |d| Ok((d.get()?, d.string()?)))
}

#[test]
fn semaphores_count_up_and_down() {
    let mut o = Object { now: UTime { sec: 100, nsec: 0 }, ..Object::default() };
    o.call("sem_set", "increment", named(&["a", "b"])).unwrap();
    o.call("sem_set", "increment", named(&["b"])).unwrap();
    let of = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, count)| (name.to_string(), *count)).collect::<Vec<_>>();
    assert_eq!(semaphores(&mut o, 9, ""), (of(&[("a", 1), ("b", 2)]), String::new()));
    assert_eq!(semaphores(&mut o, 1, ""), (of(&[("a", 1)]), "a".into()));
    assert_eq!(semaphores(&mut o, 1, "a"), (of(&[("b", 2)]), String::new()));
    assert_eq!(semaphores(&mut o, 0, "a"), (Vec::new(), "a".into()));
    // One that is not there stops them all.
    assert_eq!(o.call("sem_set", "decrement", decrement(&["a", "c"], 0)), Err(ENOENT));
    o.call("sem_set", "decrement", decrement(&["a", "b"], 0)).unwrap();
    assert_eq!(semaphores(&mut o, 9, "").0, of(&[("b", 1)]));
    // Within the grace nothing happens.
    o.now.sec = 105;
    o.call("sem_set", "decrement", decrement(&["b"], 10)).unwrap();
    assert_eq!(semaphores(&mut o, 9, "").0, of(&[("b", 1)]));
    o.now.sec = 110;
    o.call("sem_set", "decrement", decrement(&["b"], 10)).unwrap();
    assert_eq!(semaphores(&mut o, 9, "").0, of(&[]));
    let reset = framed(1, |e| {
        e.count(1);
        e.blob(b"a");
        e.u64(7);
    });
    o.call("sem_set", "reset", reset).unwrap();
    assert_eq!(semaphores(&mut o, 9, "").0, of(&[("a", 7)]));
    let many: Vec<String> = (0..1001).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(o.call("sem_set", "increment", named(&many)), Err(E2BIG));
}
