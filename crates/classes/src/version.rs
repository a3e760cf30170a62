//! Class `version`: a number and a tag in an attribute, by which writers see that no other came between.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/version/*`.

use crate::registry::{Class, Method};
use crate::rest::{Rest, kept};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode, errno, or_none, random_text, reply, stored};
use denc::{ByteStr, Bytes, denc_struct};
use types::errno::ECANCELED;

pub static CLASS: Class = Class {
    name: "version",
    families: &[&[
        Method::writes("set", set),
        Method::writes("inc", inc),
        Method::writes("inc_conds", inc),
        Method::reads("read", read),
        Method::reads("check_conds", check),
    ]],
};

const ATTRIBUTE: &[u8] = b"ceph.objclass.version";
const TAG_LEN: usize = 24;

/// `obj_version`.
#[derive(Default, PartialEq, Eq)]
struct Version {
    number: u64,
    tag: ByteStr,
    pub rest: Rest,
}
kept!(Version, v 1, compat 1, { number, tag });

/// `obj_version_cond`.
struct Condition {
    version: Version,
    kind: u32,
}
denc_struct!(Condition, v 1, compat 1, { version, kind });

/// The input of `set`, and what `read` answers.
struct VersionOp {
    version: Version,
}
denc_struct!(VersionOp, v 1, compat 1, { version });

/// The input of `inc` and `check_conds`; the version is not looked at.
struct CondsOp {
    version: Version,
    conditions: Vec<Condition>,
}
denc_struct!(CondsOp, v 1, compat 1, { version, conditions });

impl Condition {
    /// Unknown kinds ask for nothing.
    fn holds(&self, has: &Version) -> bool {
        let want = &self.version;
        match self.kind {
            1 => has == want,
            2 => has.number > want.number,
            3 => has.number >= want.number,
            4 => has.number < want.number,
            5 => has.number <= want.number,
            6 => has.tag == want.tag,
            7 => has.tag != want.tag,
            _ => true,
        }
    }
}

fn load(obj: &mut dyn ObjectView) -> ClsResult<Option<Version>> {
    or_none(obj.getxattr(ATTRIBUTE))?.map(|bytes| stored(&bytes)).transpose()
}

fn set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: VersionOp = decode(&input)?;
    obj.setxattr(ATTRIBUTE, encode(&op.version))?;
    done()
}

/// An object without a version counts from one, under a new tag.
fn inc(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CondsOp = decode(&input)?;
    let mut version = match load(obj)? {
        Some(version) => version,
        // It has one from then on, also if the call goes no further and may fail.
        None => {
            let first = Version { number: 1, tag: random_text(obj, TAG_LEN), rest: Rest::default() };
            obj.setxattr(ATTRIBUTE, encode(&first))?;
            first
        }
    };
    if !op.conditions.iter().all(|c| c.holds(&version)) {
        return errno(ECANCELED);
    }
    version.number = version.number.wrapping_add(1);
    obj.setxattr(ATTRIBUTE, encode(&version))?;
    done()
}

fn read(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    reply(&VersionOp { version: load(obj)?.unwrap_or_default() })
}

fn check(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CondsOp = decode(&input)?;
    let version = load(obj)?.unwrap_or_default();
    if op.conditions.iter().all(|c| c.holds(&version)) { done() } else { errno(ECANCELED) }
}
