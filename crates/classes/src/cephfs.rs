//! Class `cephfs`: what cephfs-data-scan gathers on a file's first object while it goes over all of them, and its filter of listings.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/cephfs/*`.

use crate::registry::{Class, Method};
use crate::rest::{Rest, kept};
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode};
use denc::{ByteStr, Bytes, Decoder, Denc, denc_struct};

pub static CLASS: Class = Class { name: "cephfs", families: &[&[Method::writes("accumulate_inode_metadata", accumulate_inode_metadata)]] };

/// `AccumulateArgs`.
pub struct Args {
    /// Where the last object's number and size are kept; its modification time; the largest object's size.
    ceiling_attr: ByteStr,
    mtime_attr: ByteStr,
    size_attr: ByteStr,
    index: u64,
    size: u64,
    mtime: i64,
}
denc_struct!(Args, v 1, compat 1, { ceiling_attr, mtime_attr, size_attr, index, size, mtime });

/// `ObjCeiling`: an object's number and size. The number alone says which is the last.
#[derive(Default)]
pub struct Ceiling {
    index: u64,
    size: u64,
    pub rest: Rest,
}
kept!(Ceiling, v 1, compat 1, { index, size });

/// Sets the attribute unless what it has is as great. What can't be read is overwritten.
fn raise<T: Denc, K: Ord>(obj: &mut dyn ObjectView, attr: &ByteStr, value: &T, rank: fn(&T) -> K) -> ClsResult<()> {
    let present = match obj.getxattr(attr.as_slice()) {
        Err(ClsError::Wait) => return Err(ClsError::Wait),
        other => other.unwrap_or_default(),
    };
    let mut d = Decoder::new(present);
    let before = T::decode(&mut d).ok().filter(|_| d.is_empty());
    if before.is_some_and(|before| rank(&before) >= rank(value)) {
        return Ok(());
    }
    obj.setxattr(attr.as_slice(), encode(value))
}

fn accumulate_inode_metadata(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let args: Args = decode(&input)?;
    raise(obj, &args.ceiling_attr, &Ceiling { index: args.index, size: args.size, rest: Rest::default() }, |ceiling| ceiling.index)?;
    raise(obj, &args.mtime_attr, &args.mtime, |mtime| *mtime)?;
    raise(obj, &args.size_attr, &args.size, |size| *size)?;
    done()
}

/// The filter of listings `cephfs.inode_tag`: first objects of files, but for those that a scrub has tagged so.
pub struct InodeTag {
    /// Empty for none.
    tag: ByteStr,
}
denc_struct!(InodeTag, v 1, compat 1, { tag });

impl InodeTag {
    pub const NAME: &[u8] = b"cephfs.inode_tag";
    /// Where a scrub's tag is, as the store has it.
    pub const ATTRIBUTE: &[u8] = b"_scrub_tag";

    /// Whether it shows the object of that name, by what it has there.
    pub fn shows(&self, name: &[u8], tagged: Option<&Bytes>) -> bool {
        let same = || tagged.is_some_and(|bytes| ByteStr::from_bytes(bytes).is_ok_and(|tag| tag == self.tag));
        name.ends_with(b".00000000") && (self.tag.is_empty() || !same())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_shows_first_objects_that_have_another_tag() {
        let filter = |tag: &str| InodeTag { tag: tag.into() };
        let tagged = |tag: &str| encode(&ByteStr::from(tag));
        assert!(filter("").shows(b"10.00000000", None));
        assert!(!filter("").shows(b"10.00000001", None));
        assert!(!filter("").shows(b"00000000", None));
        assert!(filter("t").shows(b"10.00000000", None));
        assert!(filter("t").shows(b"10.00000000", Some(&tagged("u"))));
        assert!(filter("t").shows(b"10.00000000", Some(&Bytes::from_static(b"garbage"))));
        assert!(!filter("t").shows(b"10.00000000", Some(&tagged("t"))));
        assert!(filter("").shows(b"10.00000000", Some(&tagged(""))));
    }
}
