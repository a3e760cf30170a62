//! `pg_missing_t`: objects that a member of a placement group has in its log but not in its store.

use crate::{EVersion, HObject, ObjectCleanRegions};
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::BTreeMap;

/// `pg_missing_item`: the version that is needed, the one that is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PgMissingItem {
    pub need: EVersion,
    pub have: EVersion,
    /// True if what is missing is the object's removal.
    pub delete: bool,
    pub clean_regions: ObjectCleanRegions,
}

impl Denc for PgMissingItem {
    /// The form since Octopus: told from the earlier ones by a zero version and a maximal one in front.
    fn encode(&self, e: &mut Encoder) {
        EVersion::ZERO.encode(e);
        EVersion::MAX.encode(e);
        self.need.encode(e);
        self.have.encode(e);
        e.bool(self.delete);
        self.clean_regions.encode(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let _zero: EVersion = d.get()?;
        let mark: EVersion = d.get()?;
        if mark == EVersion::MAX {
            return Ok(Self { need: d.get()?, have: d.get()?, delete: d.u8()? & 1 != 0, clean_regions: d.get()? });
        }
        Ok(Self { need: mark, have: d.get()?, delete: d.u8()? & 1 != 0, clean_regions: ObjectCleanRegions::fully_dirty() })
    }
}

/// `pg_missing_t`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PgMissing {
    pub missing: BTreeMap<HObject, PgMissingItem>,
    pub may_include_deletes: bool,
}
denc_struct!(PgMissing, v 5, compat 2, { missing, [since 4] may_include_deletes });
