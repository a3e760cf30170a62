//! Calls of class methods, drawn with inputs that mostly mean something: `lock`, `version`, `refcount`, `log`, `timeindex`, `rgw`, `rbd`.

use super::draw::{Draw, Op, call, framed, text};

fn u32s(of: u32) -> [u8; 4] {
    of.to_le_bytes()
}
fn time(sec: u64) -> Vec<u8> {
    [u32s(sec as u32), [0; 4]].concat()
}

fn obj_version(number: u64) -> Vec<u8> {
    framed(1, &[&number.to_le_bytes()[..], &text("tag")].concat())
}

/// Conditions of class `version`: the version is, or is more than, that number.
fn conditions(draw: &mut Draw) -> Vec<u8> {
    let (version, kind) = (obj_version(draw.below(3)), 1 + draw.below(7) as u32);
    let condition = framed(1, &[&version[..], &kind.to_le_bytes()].concat());
    framed(1, &[&version[..], &u32s(1), &condition].concat())
}

fn refcount_tag(draw: &mut Draw) -> Vec<u8> {
    framed(1, &[text(draw.one(&["x", "y"])), vec![draw.flag()]].concat())
}

fn cookie(draw: &mut Draw) -> Vec<u8> {
    text(draw.one(&["c", "d"]))
}

fn lock(draw: &mut Draw) -> Op {
    let (name, tag, none) = (text("l"), text(draw.one(&["", "", "t"])), text(""));
    let kind = [1 + draw.below(3) as u8];
    let cookie = cookie(draw);
    match draw.below(6) {
        // Name, type, cookie, tag, description, duration, flags.
        0..=2 => call("lock", "lock", &framed(1, &[&name[..], &kind, &cookie, &tag, &none, &[0; 8], &[draw.below(4) as u8]].concat())),
        3 => call("lock", "unlock", &framed(1, &[name, cookie].concat())),
        4 => call("lock", "assert_locked", &framed(1, &[&name[..], &kind, &cookie, &tag].concat())),
        _ => call("lock", "set_cookie", &framed(1, &[&name[..], &kind, &cookie, &tag, &text("e")].concat())),
    }
}

/// An entry of class `log`: section, name, time, data, id. With an id it stands where the id says.
fn log_entry(draw: &mut Draw) -> Vec<u8> {
    let id = draw.one(&["", "1_k", "1_l"]);
    framed(2, &[&text("s")[..], &text(draw.one(&["n", "m"])), &time(draw.below(4)), &text("d"), &text(id)].concat())
}

fn log(draw: &mut Draw) -> Op {
    if draw.below(3) > 0 {
        let entries = [log_entry(draw), log_entry(draw)];
        return call("log", "add", &framed(2, &[&u32s(2)[..], &entries.concat(), &[draw.flag()]].concat()));
    }
    let (from, to) = (time(0), time(draw.below(5)));
    call("log", "trim", &framed(2, &[&from[..], &to, &text(""), &text(draw.one(&["", "1_l"]))].concat()))
}

fn timeindex(draw: &mut Draw) -> Op {
    if draw.below(3) > 0 {
        let entry = framed(1, &[&time(draw.below(4))[..], &text(draw.one(&["k", "l"])), &text("v")].concat());
        return call("timeindex", "add", &framed(1, &[&u32s(1)[..], &entry].concat()));
    }
    call("timeindex", "trim", &framed(1, &[&time(0)[..], &time(draw.below(5)), &text(""), &text("")].concat()))
}

/// The key of an object in an index: name and instance. Entries have times of the OSD's own clock, and are masked by this name.
fn index_key(draw: &mut Draw) -> Vec<u8> {
    framed(1, &[text(draw.one(&["R1", "R2"])), text("")].concat())
}

fn rgw(draw: &mut Draw) -> Op {
    match draw.below(7) {
        0 => call("rgw", "obj_remove", &framed(1, &[&u32s(1)[..], &text(draw.one(&["a", "user"]))].concat())),
        1 => call("rgw", "bucket_init_index", &[]),
        2 | 3 => {
            // Operation, tag, locator, whether it is logged, key, flags, zones.
            let body =
                [&[draw.below(2) as u8][..], &text(draw.one(&["t", "u"])), &text(""), &[0], &index_key(draw), &[0; 2], &u32s(0)].concat();
            call("rgw", "bucket_prepare_op", &[&[7, 5][..], &u32s(body.len() as u32), &body].concat())
        }
        4 | 5 => {
            let meta = [&[1][..], &draw.below(5000).to_le_bytes(), &time(9), &text("e"), &text("o"), &text(""), &text("")].concat();
            let meta = [&meta[..], &[0; 8], &text(""), &text(""), &[0]].concat();
            let meta = [&[7, 3][..], &u32s(meta.len() as u32), &meta].concat();
            let (epoch, version) = (draw.below(4), draw.below(4) as u8);
            let body =
                [&[draw.below(3) as u8][..], &epoch.to_le_bytes(), &meta, &text(draw.one(&["t", "u"])), &text(""), &u32s(0)].concat();
            let body = [&body[..], &framed(1, &[1, version]), &[0], &index_key(draw), &[0; 2], &u32s(0)].concat();
            call("rgw", "bucket_complete_op", &[&[9, 7][..], &u32s(body.len() as u32), &body].concat())
        }
        _ => call("rgw", "guard_bucket_resharding", &framed(1, &(-77_i32).to_le_bytes())),
    }
}

/// An image's header, a folder of images, and what users note.
fn rbd(draw: &mut Draw) -> Op {
    let (name, id) = (text(draw.one(&["i", "j"])), text(draw.one(&["1", "2"])));
    let snap = (1 + draw.below(3)).to_le_bytes();
    match draw.below(14) {
        0 => call("rbd", "metadata_set", &[&u32s(1)[..], &text(draw.one(&["a", "b"])), &text("v")].concat()),
        1 => call("rbd", "metadata_remove", &text(draw.one(&["a", "b"]))),
        2 | 3 => {
            // Size, order, features, prefix, data pool.
            let data_pool = (-1_i64).to_le_bytes();
            call(
                "rbd",
                "create",
                &[&draw.below(1 << 24).to_le_bytes()[..], &[22], &draw.below(64).to_le_bytes(), &text("p"), &data_pool].concat(),
            )
        }
        4 => call("rbd", "set_size", &draw.below(1 << 24).to_le_bytes()),
        5 => call("rbd", "set_features", &[draw.below(64).to_le_bytes(), draw.below(64).to_le_bytes()].concat()),
        // The namespace of users' snapshots is 0, without more.
        6 => call("rbd", "snapshot_add", &[&name[..], &snap, &framed(1, &u32s(0))].concat()),
        7 => call("rbd", "snapshot_remove", &snap),
        8 => call("rbd", "snapshot_rename", &[&snap[..], &name].concat()),
        9 => call("rbd", "set_flags", &[draw.below(4).to_le_bytes(), 3_u64.to_le_bytes()].concat()),
        10 => call("rbd", "dir_add_image", &[name, id].concat()),
        11 => call("rbd", "dir_remove_image", &[name, id].concat()),
        12 => call("rbd", "set_id", &id),
        _ => call("rbd", "set_stripe_unit_count", &[(1_u64 << 20).to_le_bytes(), draw.below(4).to_le_bytes()].concat()),
    }
}

pub fn changing_call(draw: &mut Draw) -> Op {
    match draw.below(12) {
        0 => call("version", "set", &framed(1, &obj_version(draw.below(3)))),
        1 => call("version", "check_conds", &conditions(draw)),
        2 => call("version", draw.one(&["inc", "inc_conds"]), &conditions(draw)),
        3 => call("refcount", "get", &refcount_tag(draw)),
        4 => call("refcount", "put", &refcount_tag(draw)),
        5 => match draw.below(4) {
            0 => call("refcount", "set", &framed(1, &u32s(0))),
            _ => call("refcount", "set", &framed(1, &[&u32s(1)[..], &text("x")].concat())),
        },
        6 => lock(draw),
        7 => log(draw),
        8 => timeindex(draw),
        9 => rgw(draw),
        _ => rbd(draw),
    }
}

pub fn reading_call(draw: &mut Draw) -> Op {
    let none = text("");
    match draw.below(14) {
        0 => call("version", "read", &[]),
        1 => call("version", "check_conds", &conditions(draw)),
        2 => call("refcount", "read", &framed(1, &[draw.flag()])),
        3 => call("rbd", "metadata_list", &[&none[..], &9_u64.to_le_bytes()].concat()),
        4 => call("rbd", "metadata_get", &text(draw.one(&["a", "b"]))),
        5 => call("rbd", draw.one(&["get_size", "get_flags", "snapshot_get"]), &(draw.below(3)).to_le_bytes()),
        6 => call(
            "rbd",
            draw.one(&["get_features", "get_all_features", "get_object_prefix", "get_snapcontext", "get_id", "get_data_pool"]),
            &[],
        ),
        7 => call("rbd", "dir_list", &[&none[..], &u32s(9)].concat()),
        8 => call("rbd", draw.one(&["dir_get_id", "dir_get_name"]), &text(draw.one(&["i", "j", "1"]))),
        9 => call("lock", draw.one(&["get_info", "list_locks"]), &framed(1, &text("l"))),
        10 => call("log", "info", &framed(1, &[])),
        11 => {
            let list = [&time(draw.below(3))[..], &none, &time(4), &u32s(draw.below(4) as u32)].concat();
            call(draw.one(&["log", "timeindex"]), "list", &framed(1, &list))
        }
        12 => {
            // Most, prefix, where it begins, versions, delimiter.
            let body = [&u32s(9)[..], &none, &framed(1, &[none.clone(), none.clone()].concat()), &[0], &none].concat();
            call("rgw", "bucket_list", &[&[6, 4][..], &u32s(body.len() as u32), &body].concat())
        }
        _ => call("rgw", "guard_bucket_resharding", &framed(1, &(-77_i32).to_le_bytes())),
    }
}
