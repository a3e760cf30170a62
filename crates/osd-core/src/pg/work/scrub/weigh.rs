//! How much the maps of a chunk would hold, while its end is looked for: a map has all attributes of its objects.
//!
//! Objects are weighed as far as they were looked at: a look that waits for the store goes on from there.

use store::{ObjectStore, StoreError};
use types::{CollId, GHObject, HObject};

/// Bytes of attributes that the maps of a chunk hold at most, unless one name alone has more.
const MAP_ATTR_BYTES: u64 = 16 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Weighed {
    upto: Option<GHObject>,
    /// The name that the last of them has, bytes of its objects, and bytes of the names before it.
    name: Option<HObject>,
    of_name: u64,
    bytes: u64,
}

impl Weighed {
    /// The first name of these whose attributes make a map too large, with those of the names before it.
    pub fn before_large(&mut self, objects: &[GHObject], store: &dyn ObjectStore, coll: CollId) -> Result<Option<HObject>, StoreError> {
        for object in objects {
            if self.upto.as_ref().is_some_and(|upto| object <= upto) {
                continue;
            }
            let here = match store.attrs_bytes(coll, object) {
                Err(error @ StoreError::Wait(_)) => return Err(error),
                // The scan finds why.
                other => other.unwrap_or(0),
            };
            let name = object.hobj.at_snap(0);
            if self.name.as_ref() != Some(&name) {
                (self.bytes, self.of_name, self.name) = (self.bytes + self.of_name, 0, Some(name));
            }
            self.of_name += here;
            self.upto = Some(object.clone());
            if self.bytes > 0 && self.bytes + self.of_name > MAP_ATTR_BYTES {
                return Ok(self.name.clone());
            }
        }
        Ok(None)
    }
}
