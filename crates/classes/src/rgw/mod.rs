//! Class `rgw`: what radosgw keeps in omaps: bucket indexes with their sums, versions and log; usage; garbage; lifecycle; parts of uploads;
//! buckets to be resharded. And class `rgw_gc`, which keeps garbage in a queue.
//!
//! The index of a bucket (of one of its shards) is an object with an omap: [`header`] has the sums, [`entry`] the entries, [`keys`] where each
//! stands. [`change`] writes entries in two steps, [`list`] and [`raw`] read them, [`check`] counts them anew, [`suggest`] mends what a listing found
//! wrong; [`version`], [`link`], [`unlink`] and [`olh`] are for buckets with versions; [`log`] is what other zones replay; [`reshard`] says
//! that an index moves, [`resharding`] notes what is changed meanwhile. The rest stands on objects of its own: [`usage`], [`garbage`] and [`garbage_queue`], [`lifecycle`], [`upload`]; [`object`]
//! works on the objects that hold data.
//!
//! Source of the encodings, keys, errnos and rules: Ceph 18.2 and 20.2 `src/cls/rgw/*`, `src/cls/rgw_gc/*`. What is stored is bit for bit stock's, so an index
//! may move between a stock OSD and ours.

mod change;
mod check;
mod entry;
mod garbage;
mod garbage_queue;
mod header;
mod keys;
mod lifecycle;
mod link;
mod list;
mod log;
mod object;
mod olh;
mod raw;
mod reshard;
mod resharding;
mod samples;
mod suggest;
mod unlink;
mod upload;
mod usage;
mod version;

use crate::registry::Class;
pub use garbage_queue::CLASS as GARBAGE_QUEUE;
pub use samples::encoded_again;

pub static CLASS: Class = Class {
    name: "rgw",
    families: &[
        change::METHODS,
        check::METHODS,
        list::METHODS,
        raw::METHODS,
        suggest::METHODS,
        link::METHODS,
        unlink::METHODS,
        olh::METHODS,
        log::METHODS,
        object::METHODS,
        usage::METHODS,
        garbage::METHODS,
        lifecycle::METHODS,
        upload::METHODS,
        reshard::METHODS,
        resharding::METHODS,
    ],
};

/// Entries that one call reads or removes at a time.
const PAGE_MAX: u64 = 1000;

/// Implements `Denc` as [`denc::denc_struct`] does, and refuses frames of before a version: their fields stand otherwise, or they have no length.
macro_rules! record {
    ($name:ident, v $v:literal, compat $c:literal, oldest $o:literal, { $($([since $since:literal])? $field:ident),* $(,)? }) => {
        impl denc::Denc for $name {
            fn encode(&self, e: &mut denc::Encoder) {
                e.frame($v, $c, |e| { $( denc::Denc::encode(&self.$field, e); )* });
            }
            fn decode(d: &mut denc::Decoder) -> Result<Self, denc::DencError> {
                d.frame(stringify!($name), $v, |d, v| {
                    if v < $o {
                        return Err(denc::DencError::TooOld { what: stringify!($name), version: v, oldest: $o });
                    }
                    Ok(Self { $( $field: denc::denc_struct!(@field d v $($since)?) ),* })
                })
            }
        }
    };
}
use record;
