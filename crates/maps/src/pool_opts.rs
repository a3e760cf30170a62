//! `pool_opts_t`: options of a pool that few pools set.
//!
//! Source of the facts: Ceph 18.2 `src/osd/osd_types.{h,cc}`; keys 24 and up by what stock monitors of later releases write.

use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::BTreeMap;
use types::features;

/// The value of an option.
#[derive(Debug, Clone, PartialEq)]
pub enum OptValue {
    Str(String),
    Int(i64),
    Double(f64),
}

/// What type an option's value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptKind {
    Str,
    Int,
    Double,
}

/// An option's number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OptKey(pub i32);

macro_rules! options {
    ($($name:ident = $n:literal, $text:literal, $kind:ident;)*) => {
        impl OptKey {
            $( #[doc = concat!("`", $text, "`")] pub const $name: Self = Self($n); )*
            /// Every option by number: key, name, type of value.
            pub const TABLE: &[(OptKey, &str, OptKind)] = &[$((Self($n), $text, OptKind::$kind)),*];
        }
    };
}
options! {
    SCRUB_MIN_INTERVAL = 0, "scrub_min_interval", Double;
    SCRUB_MAX_INTERVAL = 1, "scrub_max_interval", Double;
    DEEP_SCRUB_INTERVAL = 2, "deep_scrub_interval", Double;
    RECOVERY_PRIORITY = 3, "recovery_priority", Int;
    RECOVERY_OP_PRIORITY = 4, "recovery_op_priority", Int;
    SCRUB_PRIORITY = 5, "scrub_priority", Int;
    COMPRESSION_MODE = 6, "compression_mode", Str;
    COMPRESSION_ALGORITHM = 7, "compression_algorithm", Str;
    COMPRESSION_REQUIRED_RATIO = 8, "compression_required_ratio", Double;
    COMPRESSION_MAX_BLOB_SIZE = 9, "compression_max_blob_size", Int;
    COMPRESSION_MIN_BLOB_SIZE = 10, "compression_min_blob_size", Int;
    CSUM_TYPE = 11, "csum_type", Int;
    CSUM_MAX_BLOCK = 12, "csum_max_block", Int;
    CSUM_MIN_BLOCK = 13, "csum_min_block", Int;
    FINGERPRINT_ALGORITHM = 14, "fingerprint_algorithm", Str;
    PG_NUM_MIN = 15, "pg_num_min", Int;
    TARGET_SIZE_BYTES = 16, "target_size_bytes", Int;
    TARGET_SIZE_RATIO = 17, "target_size_ratio", Double;
    PG_AUTOSCALE_BIAS = 18, "pg_autoscale_bias", Double;
    READ_LEASE_INTERVAL = 19, "read_lease_interval", Double;
    DEDUP_TIER = 20, "dedup_tier", Int;
    DEDUP_CHUNK_ALGORITHM = 21, "dedup_chunk_algorithm", Str;
    DEDUP_CDC_CHUNK_SIZE = 22, "dedup_cdc_chunk_size", Int;
    PG_NUM_MAX = 23, "pg_num_max", Int;
}

impl OptKey {
    pub fn by_name(name: &str) -> Option<(Self, OptKind)> {
        Self::TABLE.iter().find(|(_, n, _)| *n == name).map(|(key, _, kind)| (*key, *kind))
    }
    pub fn name(self) -> Option<&'static str> {
        Self::TABLE.iter().find(|(key, _, _)| *key == self).map(|(_, name, _)| *name)
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct PoolOpts(pub BTreeMap<OptKey, OptValue>);

impl PoolOpts {
    pub fn get(&self, key: OptKey) -> Option<&OptValue> {
        self.0.get(&key)
    }
    pub fn set(&mut self, key: OptKey, value: OptValue) {
        self.0.insert(key, value);
    }
    pub fn unset(&mut self, key: OptKey) {
        self.0.remove(&key);
    }
    pub fn int(&self, key: OptKey) -> Option<i64> {
        match self.0.get(&key) {
            Some(OptValue::Int(v)) => Some(*v),
            _ => None,
        }
    }
    pub fn double(&self, key: OptKey) -> Option<f64> {
        match self.0.get(&key) {
            Some(OptValue::Double(v)) => Some(*v),
            _ => None,
        }
    }
}

impl Denc for PoolOpts {
    fn encode(&self, e: &mut Encoder) {
        let nautilus = e.has(features::SERVER_NAUTILUS);
        e.frame(if nautilus { 2 } else { 1 }, 1, |e| {
            e.count(self.0.len());
            for (key, value) in &self.0 {
                e.i32(key.0);
                match value {
                    OptValue::Str(v) => {
                        e.i32(0);
                        e.put(v);
                    }
                    OptValue::Int(v) => {
                        e.i32(1);
                        if nautilus { e.i64(*v) } else { e.i32(*v as i32) }
                    }
                    OptValue::Double(v) => {
                        e.i32(2);
                        e.f64(*v);
                    }
                }
            }
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("pool_opts_t", 2, |d, v| {
            let n = d.count(12)?;
            let mut opts = BTreeMap::new();
            for _ in 0..n {
                let key = OptKey(d.i32()?);
                let value = match d.i32()? {
                    0 => OptValue::Str(d.string()?),
                    1 => OptValue::Int(if v >= 2 { d.i64()? } else { d.i32()?.into() }),
                    2 => OptValue::Double(d.f64()?),
                    _ => return Err(d.invalid("a pool option is a text, a number or a fraction")),
                };
                opts.insert(key, value);
            }
            Ok(Self(opts))
        })
    }
}
