//! Where entries stand in an index's omap, and how the name of an object is told from a key.
//!
//! ```text
//!   NAME                                       an object (or the sign that it has versions)
//!   NAME \0v ORDER \0i INSTANCE                a version as it is listed: the newest first
//!   0x80 0_ ID                                 the log
//!   0x80 1000_ NAME \0i INSTANCE [\0d]         a version by its name; with the ending, the null version's delete marker
//!   0x80 1001_ NAME                            which version is the current one, and what is to be done about it
//!   0x80 2001_ KEY                             a change of what stands at that key, noted while the index moves
//! ```
//!
//! No character of UTF-8 begins with 0x80: so names are before or behind the special keys, never among them.

use crate::rest::{Rest, kept};
use denc::ByteStr;

/// The first byte of keys that are no object's.
pub const SPECIAL: u8 = 0x80;
pub const LOG: &[u8] = b"\x800_";
pub const INSTANCES: &[u8] = b"\x801000_";
pub const OLHS: &[u8] = b"\x801001_";
pub const NOTES: &[u8] = b"\x802001_";
/// Behind every note.
pub const NOTES_END: &[u8] = b"\x809999_";
/// Behind every special key of ours, and of stock's (which end before `9999_`).
pub const SPECIAL_END: &[u8] = b"\x80\xff";

/// `cls_rgw_obj_key`: the name of an object and of one of its versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjKey {
    pub name: ByteStr,
    /// Empty for an object without versions, and for the null version.
    pub instance: ByteStr,
    pub rest: Rest,
}
kept!(ObjKey, v 1, compat 1, { name, instance });

impl ObjKey {
    /// The object, no version of it.
    pub fn plain(&self) -> Self {
        Self { name: self.name.clone(), ..Self::default() }
    }
    /// The key of a version by its name; with `marker` that of the null version's delete marker.
    pub fn instance_key(&self, marker: bool) -> ByteStr {
        let ending: &[u8] = if marker { b"\0d" } else { b"" };
        [INSTANCES, self.name.as_slice(), b"\0i", self.instance.as_slice(), ending].concat().into()
    }
    /// The key of its own entry: by name, or by version if it has one.
    pub fn index_key(&self) -> ByteStr {
        if self.instance.is_empty() { self.name.clone() } else { self.instance_key(false) }
    }
    pub fn olh_key(&self) -> ByteStr {
        [OLHS, self.name.as_slice()].concat().into()
    }
    /// The key under which the version is listed that was made in that epoch.
    pub fn list_key(&self, epoch: u64) -> ByteStr {
        [self.name.as_slice(), b"\0v", falling(epoch).as_bytes(), b"\0i", self.instance.as_slice()].concat().into()
    }
}

/// Text that sorts the lower the higher the number is, and is short for low numbers.
fn falling(number: u64) -> String {
    match number {
        ..0x10 => format!("9{:02}", 0xf - number),
        ..0x100 => format!("8{:03}", 0xff - number),
        ..0x1000 => format!("7{:04}", 0xfff - number),
        ..0x1_0000 => format!("6{:05}", 0xffff - number),
        ..0x1_0000_0000 => format!("5{:010}", 0xffff_ffff - number),
        _ => format!("4{:020}", number.wrapping_neg().cast_signed()),
    }
}

/// True for keys that are no object's.
pub fn is_special(key: &[u8]) -> bool {
    key.first() == Some(&SPECIAL)
}

/// The object that a key of the listing is of.
pub fn listed_name(key: &ByteStr) -> &[u8] {
    key.as_slice().split(|&b| b == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers beside each border, by their texts on stock.
    #[test]
    fn newer_versions_sort_first() {
        let texts = [
            (0, "915"),
            (1, "914"),
            (15, "900"),
            (16, "8239"),
            (255, "8000"),
            (256, "73839"),
            (4095, "70000"),
            (4096, "661439"),
            (65535, "600000"),
            (65536, "54294901759"),
            (0xffff_ffff, "50000000000"),
        ];
        for (number, text) in texts {
            assert_eq!(falling(number), text);
        }
        assert!(texts.windows(2).all(|pair| falling(pair[0].0) > falling(pair[1].0)));
    }

    #[test]
    fn keys_are_told_apart() {
        let key = ObjKey { name: "foo".into(), instance: "bar".into(), ..ObjKey::default() };
        assert_eq!(key.instance_key(false).as_slice(), b"\x801000_foo\0ibar");
        assert_eq!(key.plain().instance_key(true).as_slice(), b"\x801000_foo\0i\0d");
        assert_eq!(key.plain().index_key().as_slice(), b"foo");
        assert_eq!(key.olh_key().as_slice(), b"\x801001_foo");
        assert_eq!(key.list_key(3).as_slice(), b"foo\0v912\0ibar");
        for key in [key.list_key(3), key.plain().list_key(1 << 40), key.name.clone()] {
            assert_eq!(listed_name(&key), b"foo");
            assert!(!is_special(key.as_slice()));
        }
        for special in [key.instance_key(false), key.olh_key(), LOG.into()] {
            assert!(is_special(special.as_slice()) && special.as_slice() < SPECIAL_END);
        }
    }
}
