//! An object's name in as few bytes as it takes, for what is kept by the hundred thousand: lists of objects that members lack.
//!
//! An [`HObject`] has three strings, each with a place for its frame: 120 bytes beside the text. Here one piece of memory has the three, and
//! clones share it, so that each order of a list costs 8 bytes. Sorts as [`HObject`] does. Absent: everything else about the object.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use types::{ByteStr, HObject, PoolId, SnapId};

/// See the module.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShortName(Arc<Body>);

#[derive(PartialEq, Eq)]
struct Body {
    /// The name space, the locator key, the name.
    text: Box<[u8]>,
    snap: SnapId,
    pool: PoolId,
    hash: u32,
    /// Where these end in the text.
    nspace_end: u32,
    key_end: u32,
    max: bool,
}

const _: () = assert!(size_of::<Body>() <= 48);

impl ShortName {
    pub fn of(obj: &HObject) -> Self {
        let parts = [&obj.nspace, &obj.key, &obj.oid].map(ByteStr::as_slice);
        // A frame is shorter than 4 GiB.
        let nspace_end = parts[0].len() as u32;
        let key_end = nspace_end + parts[1].len() as u32;
        let text = parts.concat().into_boxed_slice();
        Self(Arc::new(Body { text, snap: obj.snap, pool: obj.pool, hash: obj.hash, nspace_end, key_end, max: obj.max }))
    }
    /// The whole name.
    pub fn object(&self) -> HObject {
        let Body { snap, pool, hash, max, .. } = *self.0;
        let [nspace, key, oid] = [self.0.nspace(), self.0.key(), self.0.oid()].map(ByteStr::from);
        HObject { oid, key, snap, hash, nspace, pool, max }
    }
    pub fn hash(&self) -> u32 {
        self.0.hash
    }
}

impl Body {
    fn nspace(&self) -> &[u8] {
        &self.text[..self.nspace_end as usize]
    }
    fn key(&self) -> &[u8] {
        &self.text[self.nspace_end as usize..self.key_end as usize]
    }
    fn oid(&self) -> &[u8] {
        &self.text[self.key_end as usize..]
    }
    fn effective_key(&self) -> &[u8] {
        if self.key().is_empty() { self.oid() } else { self.key() }
    }
}

impl Ord for Body {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |body: &Self| (body.max, body.pool, body.hash.reverse_bits());
        place(self)
            .cmp(&place(other))
            .then_with(|| self.nspace().cmp(other.nspace()))
            .then_with(|| self.effective_key().cmp(other.effective_key()))
            .then_with(|| self.oid().cmp(other.oid()))
            .then_with(|| self.snap.cmp(&other.snap))
    }
}
impl PartialOrd for Body {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl From<&HObject> for ShortName {
    fn from(obj: &HObject) -> Self {
        Self::of(obj)
    }
}
impl fmt::Debug for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::CEPH_NOSNAP;

    #[test]
    fn it_is_the_name_and_sorts_as_it() {
        let mut names = vec![HObject::min(), HObject::max()];
        for (nspace, key) in [("", ""), ("", "a"), ("", "b"), ("n", ""), ("n", "k")] {
            for oid in ["a", "ab", "b"] {
                for (hash, snap) in [(1, CEPH_NOSNAP), (1, 4), (2, 4), (u32::MAX, 5)] {
                    names.push(HObject { oid: oid.into(), key: key.into(), snap, hash, nspace: nspace.into(), pool: 3, max: false });
                }
            }
        }
        for a in &names {
            let short = ShortName::of(a);
            assert_eq!((short.object(), short.hash()), (a.clone(), a.hash));
            for b in &names {
                assert_eq!(short.cmp(&ShortName::of(b)), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }
}
