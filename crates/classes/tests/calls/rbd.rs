//! Class `rbd`: headers of the old format, groups, images that move, mirroring.

use crate::object::Object;
use crate::{answer, bare};
use bytes::Bytes;
use denc::{ByteStr, Decoder};
use types::errno::*;

fn text(value: &str) -> Bytes {
    bare(|e| e.blob(value.as_bytes()))
}
fn texts(values: &[&str]) -> Bytes {
    bare(|e| values.iter().for_each(|value| e.blob(value.as_bytes())))
}

const OLD: &[u8] = b"<<< Rados Block Device Image >>>\n\0";
const MOVING: &[u8] = b"<<< Migrating RBD Image      >>>\n\0";

/// A header as librbd makes it, without snapshots: 112 bytes.
fn old_header(size: u64) -> Bytes {
    let mut header = vec![0; 112];
    header[..OLD.len()].copy_from_slice(OLD);
    header[80..88].copy_from_slice(&size.to_le_bytes());
    header.into()
}

fn old_image() -> Object {
    let mut o = Object::default();
    o.call("hello", "record_hello", Bytes::new()).unwrap();
    o.state.as_mut().unwrap().data = old_header(4096).to_vec().into();
    o
}

fn snaps(o: &mut Object) -> (u64, Vec<(u64, u64, String)>) {
    let mut d = Decoder::new(o.call("rbd", "snap_list", Bytes::new()).unwrap().data);
    let (seq, count) = (d.u64().unwrap(), d.u32().unwrap());
    (seq, (0..count).map(|_| (d.u64().unwrap(), d.u64().unwrap(), d.string().unwrap())).collect())
}

#[test]
fn snapshots_of_an_old_header() {
    let mut o = old_image();
    let add = |name: &str, id: u64| bare(|e| (e.blob(name.as_bytes()), e.u64(id)).1);
    o.call("rbd", "snap_add", add("one", 5)).unwrap();
    assert_eq!(o.call("rbd", "snap_add", add("one", 6)), Err(EEXIST));
    assert_eq!(o.call("rbd", "snap_add", add("two", 4)), Err(ESTALE));
    assert_eq!(o.call("rbd", "snap_add", add("a\0b", 6)), Err(EINVAL));
    o.call("rbd", "snap_add", add("two", 6)).unwrap();
    assert_eq!(snaps(&mut o), (6, vec![(6, 4096, "two".into()), (5, 4096, "one".into())]));
    let rename = |id: u64, name: &str| bare(|e| (e.u64(id), e.blob(name.as_bytes())).1);
    assert_eq!(o.call("rbd", "snap_rename", rename(5, "two")), Err(EEXIST));
    assert_eq!(o.call("rbd", "snap_rename", rename(7, "three")), Err(ENOENT));
    o.call("rbd", "snap_rename", rename(5, "three")).unwrap();
    assert_eq!(o.call("rbd", "snapshot_set_limit", bare(|e| e.u64(1))), Err(ERANGE));
    o.call("rbd", "snapshot_set_limit", bare(|e| e.u64(2))).unwrap();
    assert_eq!(o.call("rbd", "snap_add", add("four", 8)), Err(EDQUOT));
    o.call("rbd", "snap_remove", text("two")).unwrap();
    assert_eq!(o.call("rbd", "snap_remove", text("two")), Err(ENOENT));
    assert_eq!(snaps(&mut o), (6, vec![(5, 4096, "three".into())]));
    // A count that the header has no room for.
    let mut data = o.state.as_ref().unwrap().data.to_vec();
    data[96..100].copy_from_slice(&u32::MAX.to_le_bytes());
    o.state.as_mut().unwrap().data = data.into();
    assert_eq!(o.call("rbd", "snap_list", Bytes::new()), Err(EIO));
}

/// A spec as librbd 18.2 sends it: the image's end of the move, nothing else of note.
fn spec(header_type: u8) -> Bytes {
    bare(|e| {
        e.frame(3, 1, |e| {
            e.u8(header_type);
            e.i64(2);
            ["", "image", "id"].iter().for_each(|s| e.blob(s.as_bytes()));
            e.count(0);
            e.u64(0);
            e.raw(&[0, 0, 1]);
            e.blob(b"");
            e.u8(0);
            e.blob(b"");
        });
    })
}

#[test]
fn an_old_image_moves_away_and_stays() {
    let mut o = old_image();
    assert_eq!(o.call("rbd", "migration_get", Bytes::new()), Err(EINVAL));
    assert_eq!(o.call("rbd", "migration_set", spec(2)), Err(EINVAL), "only as the source");
    o.call("rbd", "migration_set", spec(1)).unwrap();
    assert_eq!(o.call("rbd", "migration_set", spec(1)), Err(EEXIST));
    assert!(o.state.as_ref().unwrap().data.starts_with(MOVING));
    assert_eq!(o.call("rbd", "migration_get", Bytes::new()).unwrap().data, spec(1));
    o.call("rbd", "migration_remove", Bytes::new()).unwrap();
    assert_eq!(o.state.as_ref().unwrap().data, old_header(4096));
}

#[test]
fn an_image_is_in_one_group() {
    let mut o = Object::default();
    let create = bare(|e| {
        e.u64(1 << 22);
        e.u8(22);
        e.u64(1);
        e.blob(b"rbd_data.1");
    });
    o.call("rbd", "create", create).unwrap();
    let group = |id: &str| bare(|e| e.frame(1, 1, |e| (e.i64(3), e.blob(id.as_bytes())).1));
    o.call("rbd", "image_group_add", group("g")).unwrap();
    o.call("rbd", "image_group_add", group("g")).unwrap();
    assert_eq!(o.call("rbd", "image_group_add", group("h")), Err(EEXIST));
    assert_eq!(o.call("rbd", "image_group_get", Bytes::new()).unwrap().data, group("g"));
    let features = |o: &mut Object| o.call("rbd", "op_features_get", Bytes::new()).unwrap().data;
    assert_eq!(features(&mut o)[..], 4_u64.to_le_bytes());
    assert_eq!(o.call("rbd", "image_group_remove", group("h")), Err(EBADF));
    o.call("rbd", "image_group_remove", group("g")).unwrap();
    assert_eq!(features(&mut o)[..], 0_u64.to_le_bytes());
}

fn group_snap(id: &str, name: &str, state: u8) -> Bytes {
    bare(|e| {
        e.frame(1, 1, |e| {
            e.blob(id.as_bytes());
            e.blob(name.as_bytes());
            e.u8(state);
            e.count(0);
        });
    })
}

#[test]
fn snapshots_of_a_group() {
    let mut o = Object::default();
    o.call("hello", "record_hello", Bytes::new()).unwrap();
    assert_eq!(o.call("rbd", "group_snap_set", group_snap("", "n", 0)), Err(EINVAL));
    o.call("rbd", "group_snap_set", group_snap("a", "n", 0)).unwrap();
    assert_eq!(o.call("rbd", "group_snap_set", group_snap("a", "n", 0)), Err(EEXIST), "somebody makes it already");
    assert_eq!(o.call("rbd", "group_snap_set", group_snap("b", "n", 0)), Err(EEXIST), "the name is taken");
    o.call("rbd", "group_snap_set", group_snap("a", "m", 1)).unwrap();
    assert_eq!(o.call("rbd", "group_snap_get_by_id", text("a")).unwrap().data, group_snap("a", "m", 1));
    o.call("rbd", "group_snap_remove", text("a")).unwrap();
    assert_eq!(o.call("rbd", "group_snap_get_by_id", text("a")), Err(ENOENT));
}

#[test]
fn mirroring_is_switched_on_and_off() {
    let mut o = Object::default();
    let mode = |mode: u32| bare(|e| e.u32(mode));
    o.call("hello", "record_hello", Bytes::new()).unwrap();
    assert_eq!(o.call("rbd", "mirror_mode_set", mode(1)), Err(EINVAL), "without an id");
    o.call("rbd", "mirror_uuid_set", text("here")).unwrap();
    o.call("rbd", "mirror_mode_set", mode(1)).unwrap();
    assert_eq!(o.call("rbd", "mirror_uuid_set", text("there")), Err(EINVAL));
    assert_eq!(o.call("rbd", "mirror_mode_set", mode(3)), Err(EINVAL));
    let ping = |site: &str, uuid: &str| Bytes::from([texts(&[site, uuid]), bare(|e| e.u8(1))].concat());
    o.call("rbd", "mirror_peer_ping", ping("site", "uuid")).unwrap();
    o.call("rbd", "mirror_peer_ping", ping("renamed", "uuid")).unwrap();
    let peers = o.call("rbd", "mirror_peer_list", Bytes::new()).unwrap().data;
    let mut d = Decoder::new(peers);
    assert_eq!(d.u32().unwrap(), 1);
    let (uuid, site) = d.frame("peer", 2, |d, _| Ok((d.get::<ByteStr>()?, d.string()?))).unwrap();
    assert_eq!(site, "renamed");
    assert_eq!(o.call("rbd", "mirror_mode_set", mode(0)), Err(EBUSY));
    o.call("rbd", "mirror_peer_remove", bare(|e| e.put(&uuid))).unwrap();
    o.call("rbd", "mirror_mode_set", mode(0)).unwrap();
    assert_eq!(o.call("rbd", "mirror_mode_get", Bytes::new()), Err(ENOENT));
}

#[test]
fn a_mirrored_image_says_how_it_is() {
    let mut o = Object::default();
    let image = |state: u8| Bytes::from([text("id"), bare(|e| e.frame(2, 1, |e| (e.blob(b"global"), e.raw(&[state, 1])).1))].concat());
    assert_eq!(o.call("rbd", "mirror_image_set", image(0)), Err(ENOENT), "it is over already");
    o.call("rbd", "mirror_image_set", image(1)).unwrap();
    assert_eq!(o.call("rbd", "mirror_image_status_get", text("global")), Err(ENOENT));
    let status = bare(|e| {
        e.blob(b"global");
        e.frame(1, 1, |e| {
            e.u8(4);
            e.blob(b"fine");
            e.raw(&[0; 9]);
        });
    });
    o.call("rbd", "mirror_image_status_set", status).unwrap();
    let told = o.call("rbd", "mirror_image_status_get", text("global")).unwrap().data;
    let (state, description) = answer(&told, |d| Ok((d.u8()?, d.string()?)));
    assert_eq!((state, description.as_str()), (4, "fine"));
    // Nobody watches: the daemon is gone, and the pool's state is unknown.
    let summary = o.call("rbd", "mirror_image_status_get_summary", Bytes::new()).unwrap().data;
    assert_eq!(summary[..], [1, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(o.call("rbd", "mirror_image_instance_get", text("global")), Err(ESTALE));
    o.call("rbd", "mirror_image_status_remove_down", Bytes::new()).unwrap();
    assert_eq!(o.call("rbd", "mirror_image_status_get", text("global")), Err(ENOENT));
    assert_eq!(o.call("rbd", "mirror_image_remove", text("id")), Err(EBUSY));
    o.call("rbd", "mirror_image_set", image(0)).unwrap();
    o.call("rbd", "mirror_image_remove", text("id")).unwrap();
    assert_eq!(o.call("rbd", "mirror_image_get", text("id")), Err(ENOENT));
}
