//! `rgw`: changes of an index that moves are noted, and entries come to their new place with their sums.

use crate::object::Object;
use crate::rgw::{ADD, BUSY, DEL, add, call, complete_op, index, prepare_op, sums};
use crate::{answer, bare, framed};
use bytes::Bytes;
use denc::Encoder;
use types::errno::{E2BIG, EINVAL, ENODATA};

const IN_PROGRESS: u8 = 1;
const DONE: u8 = 2;
const IN_LOGRECORD: u8 = 3;
const PLAIN: u8 = 1;
const DELETED: u8 = 4;

fn status(index: &mut Object, status: u8) {
    let input = framed(1, |e| {
        e.frame(3, 1, |e| {
            e.u8(status);
            e.blob(b"");
            e.i32(-1);
        });
    });
    call(index, "set_bucket_resharding", input).unwrap();
}

/// Kind, key and value of entries as they stand, or of notes.
fn raw(index: &mut Object, notes: bool, marker: &str, max: u32) -> (Vec<(u8, Vec<u8>, Bytes)>, bool) {
    let input = framed(2, |e| {
        e.u32(max);
        e.blob(b"");
        e.blob(marker.as_bytes());
        e.bool(notes);
    });
    answer(&call(index, "bi_list", input).unwrap(), |d| {
        let count = d.u32()?;
        let entries =
            (0..count).map(|_| d.frame("an entry", 1, |d, _| Ok((d.u8()?, d.blob()?.to_vec(), d.blob()?)))).collect::<Result<_, _>>()?;
        Ok((entries, d.bool()?))
    })
}

fn noted(index: &mut Object) -> Vec<(u8, String)> {
    raw(index, true, "", 1000).0.into_iter().map(|(kind, key, _)| (kind, String::from_utf8(key).unwrap())).collect()
}

fn put_entries(entries: &[(u8, Vec<u8>, Bytes)], discount: bool) -> Bytes {
    let entry = |e: &mut Encoder, (kind, key, value): &(u8, Vec<u8>, Bytes)| {
        e.frame(1, 1, |e| {
            e.u8(*kind);
            e.blob(key);
            e.blob(value);
        });
    };
    framed(1, |e| {
        e.count(entries.len());
        entries.iter().for_each(|one| entry(e, one));
        e.bool(discount);
    })
}

#[test]
fn changes_are_noted_while_an_index_moves() {
    let mut index = index();
    add(&mut index, b"before", 1, 10);
    assert_eq!(noted(&mut index), []);
    assert_eq!(call(&mut index, "reshard_log_trim", Bytes::new()), Err(ENODATA));
    status(&mut index, IN_LOGRECORD);
    add(&mut index, b"new", 2, 20);
    call(&mut index, "bucket_prepare_op", prepare_op(DEL, "u", b"before")).unwrap();
    call(&mut index, "bucket_complete_op", complete_op(DEL, "u", b"before", 3, 0, &[], true)).unwrap();
    assert_eq!(noted(&mut index), [(DELETED, "before".into()), (PLAIN, "new".into())]);
    let (page, more) = raw(&mut index, true, "", 1);
    assert!(more && page.len() == 1);
    assert_eq!(raw(&mut index, true, "before", 1).0[0].1, b"new");
    // Of a note the value is the entry itself; and notes are no entries.
    let (entries, _) = raw(&mut index, false, "", 1000);
    assert_eq!(entries.len(), 1);
    assert_eq!(raw(&mut index, true, "before", 1).0, entries);
    call(&mut index, "reshard_log_trim", Bytes::new()).unwrap();
    assert_eq!(noted(&mut index), []);
    assert_eq!(call(&mut index, "reshard_log_trim", Bytes::new()), Err(ENODATA));
    assert_eq!(raw(&mut index, false, "", 1000).0, entries);
}

#[test]
fn writers_stop_at_the_end_of_a_move_and_where_too_much_is_noted() {
    let mut index = index();
    let prepare = |index: &mut Object| call(index, "bucket_prepare_op", prepare_op(ADD, "t", b"o")).map(drop);
    for (state, answer) in [(IN_PROGRESS, Err(BUSY)), (DONE, Ok(())), (IN_LOGRECORD, Ok(()))] {
        status(&mut index, state);
        assert_eq!(prepare(&mut index), answer, "{state}");
        let guarded = call(&mut index, "guard_bucket_resharding", framed(1, |e| e.i32(-77))).map(drop);
        assert_eq!(guarded, if answer.is_ok() { Ok(()) } else { Err(77) });
    }
    // The number of notes stands at the header's end, once there is one.
    add(&mut index, b"o", 1, 1);
    let header = &mut index.state.as_mut().unwrap().header;
    let before = header.split_to(header.len() - 4);
    *header = bare(|e| {
        e.raw(&before);
        e.u32(30_000);
    });
    assert_eq!(prepare(&mut index), Err(BUSY));
    call(&mut index, "reshard_log_trim", Bytes::new()).unwrap();
    assert_eq!(prepare(&mut index), Ok(()));
}

#[test]
fn entries_come_to_their_new_place_with_their_sums() {
    let mut from = index();
    add(&mut from, b"a", 1, 10);
    add(&mut from, b"b", 2, 20);
    let (entries, _) = raw(&mut from, false, "", 1000);
    let mut to = index();
    call(&mut to, "bi_put_entries", put_entries(&entries, false)).unwrap();
    assert_eq!(sums(&mut to), (2, 30));
    assert_eq!(raw(&mut to, false, "", 1000).0, entries);
    // Once more, and only what is new counts; what was removed goes, too.
    add(&mut from, b"b", 3, 200);
    let (mut again, _) = raw(&mut from, false, "", 1000);
    again[0] = (DELETED, b"a".to_vec(), bare(|e| e.frame(1, 1, |e| crate::rgw::put_key(e, b"a", ""))));
    call(&mut to, "bi_put_entries", put_entries(&again, true)).unwrap();
    assert_eq!(sums(&mut to), (1, 200));
    let garbage = (PLAIN, b"g".to_vec(), Bytes::from_static(b"g"));
    assert_eq!(call(&mut to, "bi_put_entries", put_entries(&[garbage], false)), Err(EINVAL));
    status(&mut to, IN_PROGRESS);
    assert_eq!(call(&mut to, "bi_put_entries", put_entries(&again, true)), Err(BUSY));
    let gone = vec![(DELETED, Vec::new(), Bytes::new()); 131_073];
    assert_eq!(call(&mut to, "bi_put_entries", put_entries(&gone, false)), Err(E2BIG));
}
