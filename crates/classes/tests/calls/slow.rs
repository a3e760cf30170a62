//! Calls over more than the store's caches hold: they end, with the answer that they have where all is at hand, and give others their turn.

use crate::object::{Object, Slow};
use crate::records::bucket;
use crate::rgw_rest::{usage_add_op, usage_trim_op};
use crate::{bare, framed};
use bytes::Bytes;
use types::UTime;
use types::errno::ENODATA;

const ROWS: usize = 20_000;
const IMAGES: usize = 700;

/// Calls the method on the object as it is, in a store that forgets, and where others wait for their turn: the same answer and the same object.
fn in_turns(o: &mut Object, class: &str, method: &str, input: Bytes) -> Result<Bytes, i32> {
    let before = o.clone();
    let told = o.call(class, method, input.clone()).map(|reply| reply.data);
    for fetches in [true, false] {
        let mut slow = Object { slow: Some(Slow::new(fetches)), ..before.clone() };
        assert_eq!(slow.call(class, method, input.clone()).map(|reply| reply.data), told, "{class}.{method}");
        assert!(slow.state == o.state, "{class}.{method} left another object");
        assert!(fetches || slow.slow.unwrap().turns > 0, "{class}.{method} kept others waiting");
    }
    told
}

/// Puts the value of the one key that begins with `start` under many more keys.
fn multiply(o: &mut Object, start: &str, name: impl Fn(usize) -> String) {
    let omap = &mut o.state.as_mut().unwrap().omap;
    let value = omap.iter().find(|(key, _)| key.as_slice().starts_with(start.as_bytes())).unwrap().1.clone();
    omap.extend((0..ROWS).map(|i| (name(i).into_bytes().into(), value.clone())));
}

#[test]
fn a_users_sums_over_many_buckets() {
    let mut o = Object::default();
    let add = framed(1, |e| {
        e.count(1);
        bucket(e, "b", 10);
        e.bool(true);
        e.put(&UTime::ZERO);
    });
    o.call("user", "set_buckets_info", add).unwrap();
    multiply(&mut o, "b", |i| format!("b{i:05}"));
    in_turns(&mut o, "user", "reset_user_stats", framed(1, |e| e.put(&UTime::ZERO))).unwrap();
    let header = &o.state.unwrap().header;
    assert!(header.windows(8).any(|at| at == (ROWS as u64 + 1).to_le_bytes()), "{header:?}");
}

#[test]
fn usage_of_one_bucket_behind_that_of_many() {
    let mut o = Object::default();
    for (name, hour) in [("b", 3600), ("wanted", 7200)] {
        o.call("rgw", "user_usage_log_add", usage_add_op("u", "", name, hour, 1)).unwrap();
    }
    multiply(&mut o, "00000003600_", |i| format!("00000003600_u_b{i:05}"));
    let rows = o.state.as_ref().unwrap().omap.len();
    in_turns(&mut o, "rgw", "user_usage_log_trim", usage_trim_op(0, 9999, "", "wanted")).unwrap();
    assert_eq!(rows - o.state.as_ref().unwrap().omap.len(), 2);
    assert_eq!(in_turns(&mut o, "rgw", "user_usage_log_trim", usage_trim_op(0, 9999, "", "wanted")), Err(ENODATA));
}

#[test]
fn mirrored_images_of_a_pool() {
    let mut o = Object::default();
    for i in 0..IMAGES {
        let (id, global) = (format!("id{i:04}"), format!("global{i:04}"));
        let image = bare(|e| {
            e.blob(id.as_bytes());
            e.frame(2, 1, |e| (e.blob(global.as_bytes()), e.raw(&[1, 1])).1);
        });
        o.call("rbd", "mirror_image_set", image).unwrap();
        let status = bare(|e| {
            e.blob(global.as_bytes());
            e.frame(1, 1, |e| (e.u8(4), e.blob(b"fine"), e.raw(&[0; 9])).2);
        });
        o.call("rbd", "mirror_image_status_set", status).unwrap();
    }
    // Nobody watches: the daemon that spoke of them is gone.
    let all = bare(|e| (e.blob(b""), e.u64(u64::MAX)).1);
    assert_eq!(in_turns(&mut o, "rbd", "mirror_image_instance_list", all.clone()).unwrap()[..], [0; 4]);
    o.watched = true;
    let summary = in_turns(&mut o, "rbd", "mirror_image_status_get_summary", Bytes::new()).unwrap();
    assert_eq!(summary[..5], [1, 0, 0, 0, 4]);
    assert_eq!(summary[5..], (IMAGES as u32).to_le_bytes());
    assert_eq!(in_turns(&mut o, "rbd", "mirror_image_instance_list", all).unwrap()[..4], (IMAGES as u32).to_le_bytes());
    let rows = o.state.as_ref().unwrap().omap.len();
    in_turns(&mut o, "rbd", "mirror_image_status_remove_down", Bytes::new()).unwrap();
    assert_eq!(o.state.as_ref().unwrap().omap.len(), rows);
    o.watched = false;
    in_turns(&mut o, "rbd", "mirror_image_status_remove_down", Bytes::new()).unwrap();
    assert_eq!(rows - o.state.as_ref().unwrap().omap.len(), IMAGES);
}
