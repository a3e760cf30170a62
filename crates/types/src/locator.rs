//! `object_locator_t`: pool, namespace and locator key, by which a client places an object.

use crate::PoolId;
use denc::{ByteStr, Decoder, Denc, DencError, Encoder};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectLocator {
    pub pool: PoolId,
    /// Hashed instead of the object's name unless empty.
    pub key: ByteStr,
    pub nspace: ByteStr,
    /// A hash given outright (-1: none): how listing names a placement group's objects.
    pub hash: i64,
}

impl ObjectLocator {
    pub fn pool(pool: PoolId) -> Self {
        Self { pool, ..Self::default() }
    }
}
impl Default for ObjectLocator {
    fn default() -> Self {
        Self { pool: -1, key: ByteStr::new(), nspace: ByteStr::new(), hash: -1 }
    }
}

impl Denc for ObjectLocator {
    fn encode(&self, e: &mut Encoder) {
        // A given hash must not be overlooked by a reader that does not know the field.
        e.frame(6, if self.hash == -1 { 3 } else { 6 }, |e| {
            e.i64(self.pool);
            e.i32(-1);
            self.key.encode(e);
            self.nspace.encode(e);
            e.i64(self.hash);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("object_locator_t", 6, |d, v| {
            if v < 3 {
                return Err(DencError::TooOld { what: "object_locator_t", version: v, oldest: 3 });
            }
            let pool = d.i64()?;
            d.skip(4)?;
            let key = d.bytestr()?;
            let nspace = if v >= 5 { d.bytestr()? } else { ByteStr::new() };
            let hash = if v >= 6 { d.i64()? } else { -1 };
            Ok(Self { pool, key, nspace, hash })
        })
    }
}
