//! The CRUSH map: a weighted tree of buckets, rules over it, and the pseudo-random mapping of a placement seed to devices.
//!
//! Holds the map with its encoding ([`CrushMap`]), the mapping ([`CrushMap::do_rule`]), look-ups and walks of the tree, and editing
//! (items, weights, device classes with their shadow trees, simple rules). Knows nothing of pools, OSD states or epochs.
//!
//! Source of the facts: Ceph 18.2 `src/crush/{crush.h,mapper.c,hash.c,builder.c,CrushWrapper.cc}`; CRUSH itself is described in Weil et al.,
//! "CRUSH: Controlled, Scalable, Decentralized Placement of Replicated Data", 2006.

#![forbid(unsafe_code)]

mod bucket;
mod classes;
mod codec;
mod convert;
pub mod device;
mod edit;
mod hash;
mod ln;
mod ln_table;
mod map;
mod mapper;
mod rule;
mod tree;

pub use bucket::{Alg, Bucket, Weights};
pub use edit::{CrushError, Location, is_valid_name, weight_from_f64};
pub use hash::{hash32, hash32_2, hash32_3, hash32_4};
pub use map::{ChooseArg, ChooseArgMap, CrushMap, DEFAULT_CHOOSE_ARGS, DEFAULT_TYPES, Tunables};
pub use mapper::{Scratch, is_out};
pub use rule::{Rule, RuleStep, op};
pub use tree::TreeNode;

/// An entry of a mapping that stays empty (`indep` rules keep positions).
pub const ITEM_NONE: i32 = 0x7fff_ffff;
/// Not decided yet; never in a result.
pub(crate) const ITEM_UNDEF: i32 = 0x7fff_fffe;
/// A weight of one: weights are 16.16 fixed point.
pub const WEIGHT_ONE: u32 = 0x1_0000;
