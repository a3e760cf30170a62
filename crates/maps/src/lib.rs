//! The cluster's maps: what monitors publish and all others follow.
//!
//! Holds [`OsdMap`] with its [`Incremental`] and pools, where a placement group lies ([`OsdMap::pg_to_up_acting`]), [`MonMap`], [`MgrMap`],
//! [`FsMap`] with its file systems' [`MdsMap`]s and [`ServiceMap`], each with the encodings of every release that we speak with. Decoding and
//! encoding again gives the same bytes, crc included. Holds no JSON (`mon-core`), no rules of who may change what, no history of epochs.

#![forbid(unsafe_code)]

mod apply;
mod codec;
pub mod flags;
pub mod fs_map;
mod fs_roles;
pub mod incremental;
pub mod mds_map;
pub mod mgr_map;
pub mod mon_map;
mod osd_info;
pub mod osd_map;
pub mod placement;
pub mod pool;
pub mod pool_opts;
pub mod release;
pub mod service_map;

pub use apply::{ApplyError, MAX_OSD_LIMIT};
pub use crush::{CrushMap, device};
pub use flags::{map_flags, osd_state};
pub use fs_map::{Filesystem, FsMap, FsMapUser};
pub use incremental::Incremental;
pub use mds_map::{FsId, MdsGid, MdsInfo, MdsMap, MdsRank, MdsState};
pub use mgr_map::MgrMap;
pub use mon_map::{MonInfo, MonMap};
pub use osd_info::{OsdInfo, OsdXInfo};
pub use osd_map::OsdMap;
pub use placement::{Placement, UpActing};
pub use pool::{PgPool, PoolSnap, pool_flags};
pub use pool_opts::{OptKey, OptValue, PoolOpts};
pub use release::Release;
pub use service_map::ServiceMap;
pub use types::interval_set::IntervalSet;
