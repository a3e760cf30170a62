//! `object_stat_sum_t` and `object_stat_collection_t`: counts over the objects of a placement group or pool.

use denc::{Decoder, Denc, DencError, Encoder};
use std::ops::{AddAssign, SubAssign};

macro_rules! stat_sum {
    ($($(#[$doc:meta])* $field:ident: $t:ty),* $(,)?) => {
        /// `object_stat_sum_t`: in the order of its encoding (v20).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct ObjectStatSum {
            $( $(#[$doc])* pub $field: $t, )*
        }
        impl ObjectStatSum {
            /// Each count with the name that Ceph prints it under, in the order of the encoding.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, i64)> {
                [ $( (stringify!($field), i64::from(self.$field)) ),* ].into_iter()
            }
            /// No count below `floor`.
            pub fn floor(&mut self, floor: i32) {
                $( self.$field = self.$field.max(<$t>::from(floor)); )*
            }
        }
        impl AddAssign<&ObjectStatSum> for ObjectStatSum {
            fn add_assign(&mut self, other: &ObjectStatSum) {
                $( self.$field = self.$field.wrapping_add(other.$field); )*
            }
        }
        impl SubAssign<&ObjectStatSum> for ObjectStatSum {
            fn sub_assign(&mut self, other: &ObjectStatSum) {
                $( self.$field = self.$field.wrapping_sub(other.$field); )*
            }
        }
        impl Denc for ObjectStatSum {
            fn encode(&self, e: &mut Encoder) {
                e.frame(20, 14, |e| { $( self.$field.encode(e); )* });
            }
            /// Older frames (v14 and up) end earlier: what they lack is 0.
            fn decode(d: &mut Decoder) -> Result<Self, DencError> {
                d.frame("object_stat_sum_t", 20, |d, v| {
                    if v < 14 {
                        return Err(DencError::TooOld { what: "object_stat_sum_t", version: v, oldest: 14 });
                    }
                    let mut sum = Self::default();
                    $( if !d.is_empty() { sum.$field = d.get()?; } )*
                    Ok(sum)
                })
            }
        }
    };
}

stat_sum! {
    num_bytes: i64,
    num_objects: i64,
    num_object_clones: i64,
    /// Objects times replicas.
    num_object_copies: i64,
    num_objects_missing_on_primary: i64,
    num_objects_degraded: i64,
    num_objects_unfound: i64,
    num_rd: i64,
    num_rd_kb: i64,
    num_wr: i64,
    num_wr_kb: i64,
    num_scrub_errors: i64,
    num_objects_recovered: i64,
    num_bytes_recovered: i64,
    num_keys_recovered: i64,
    num_shallow_scrub_errors: i64,
    num_deep_scrub_errors: i64,
    num_objects_dirty: i64,
    num_whiteouts: i64,
    num_objects_omap: i64,
    num_objects_hit_set_archive: i64,
    num_objects_misplaced: i64,
    num_bytes_hit_set_archive: i64,
    num_flush: i64,
    num_flush_kb: i64,
    num_evict: i64,
    num_evict_kb: i64,
    num_promote: i64,
    num_flush_mode_high: i32,
    num_flush_mode_low: i32,
    num_evict_mode_some: i32,
    num_evict_mode_full: i32,
    num_objects_pinned: i64,
    num_objects_missing: i64,
    num_legacy_snapsets: i64,
    num_large_omap_objects: i64,
    num_objects_manifest: i64,
    num_omap_bytes: i64,
    num_omap_keys: i64,
    num_objects_repaired: i64,
}

/// `object_stat_collection_t`: the sum, and categories that are no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectStatCollection {
    pub sum: ObjectStatSum,
}

impl Denc for ObjectStatCollection {
    fn encode(&self, e: &mut Encoder) {
        e.frame(2, 2, |e| {
            self.sum.encode(e);
            e.u32(0);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("object_stat_collection_t", 2, |d, _| Ok(Self { sum: d.get()? }))
    }
}
