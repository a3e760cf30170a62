//! Class `cmpomap`: compares values of an omap with the caller's, and changes those that compare.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/cmpomap/*`; the numbers of modes and operators are those of CMPXATTR.

use crate::registry::{Class, Method};
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, errno};
use denc::{ByteStr, Bytes, Denc, denc_struct};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use types::errno::{ECANCELED, EINVAL, EIO};

pub static CLASS: Class = Class {
    name: "cmpomap",
    families: &[&[
        Method::reads("cmp_vals", cmp_vals),
        Method::writes("cmp_set_vals", cmp_set_vals),
        Method::writes("cmp_rm_keys", cmp_rm_keys),
    ]],
};

const MODE_STRING: u8 = 1;
const MODE_U64: u8 = 2;

/// What to compare: the caller's value stands left of the operator.
struct Comparison {
    mode: u8,
    operator: u8,
    values: BTreeMap<ByteStr, Bytes>,
}

struct CmpOp {
    comparison: Comparison,
    /// What a key that is not there compares as; None for "not at all".
    default: Option<Bytes>,
}
denc_struct!(Comparison, bare, { mode, operator, values });
denc_struct!(CmpOp, v 1, compat 1, { comparison, default });

struct CmpRmOp {
    comparison: Comparison,
}
denc_struct!(CmpRmOp, v 1, compat 1, { comparison });

impl Comparison {
    /// EINVAL for a mode, operator or value of the caller's that means nothing; EIO for such a stored value.
    fn holds(&self, theirs: &Bytes, stored: &Bytes) -> ClsResult<bool> {
        let order = match self.mode {
            MODE_STRING => theirs.cmp(stored),
            MODE_U64 => {
                let theirs = u64::from_bytes(theirs).map_err(|_| ClsError::Errno(EINVAL))?;
                // Nothing counts as zero.
                let stored = if stored.is_empty() { 0 } else { u64::from_bytes(stored).map_err(|_| ClsError::Errno(EIO))? };
                theirs.cmp(&stored)
            }
            _ => return errno(EINVAL),
        };
        Ok(match self.operator {
            1 => order == Ordering::Equal,
            2 => order != Ordering::Equal,
            3 => order == Ordering::Greater,
            4 => order != Ordering::Less,
            5 => order == Ordering::Less,
            6 => order != Ordering::Greater,
            _ => return errno(EINVAL),
        })
    }
    /// The same for changes: a stored value that means nothing does not compare.
    fn allows(&self, theirs: &Bytes, stored: &Bytes) -> ClsResult<bool> {
        match self.holds(theirs, stored) {
            Err(e) if e.is(EIO) => Ok(false),
            other => other,
        }
    }
    /// Those of the keys that the object has.
    fn load(&self, obj: &mut dyn ObjectView) -> ClsResult<BTreeMap<ByteStr, Bytes>> {
        let keys: Vec<ByteStr> = self.values.keys().cloned().collect();
        Ok(obj.omap_vals_by_keys(&keys)?.into_iter().collect())
    }
}

fn cmp_vals(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CmpOp = decode(&input)?;
    let stored = op.comparison.load(obj)?;
    for (key, theirs) in &op.comparison.values {
        match stored.get(key).or(op.default.as_ref()) {
            Some(value) if op.comparison.holds(theirs, value)? => {}
            _ => return errno(ECANCELED),
        }
    }
    done()
}

fn cmp_set_vals(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CmpOp = decode(&input)?;
    let stored = op.comparison.load(obj)?;
    let mut changes = Vec::new();
    for (key, theirs) in &op.comparison.values {
        if let Some(value) = stored.get(key).or(op.default.as_ref())
            && op.comparison.allows(theirs, value)?
        {
            changes.push((key.clone(), theirs.clone()));
        }
    }
    if !changes.is_empty() {
        obj.omap_set(changes)?;
    }
    done()
}

fn cmp_rm_keys(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CmpRmOp = decode(&input)?;
    let stored = op.comparison.load(obj)?;
    let mut gone = Vec::new();
    for (key, theirs) in &op.comparison.values {
        if let Some(value) = stored.get(key)
            && op.comparison.allows(theirs, value)?
        {
            gone.push(key.clone());
        }
    }
    if !gone.is_empty() {
        obj.omap_remove(gone)?;
    }
    done()
}
