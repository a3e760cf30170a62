//! The OSD as a shard's store remembers it, without its groups: told after a start, as [`crate::joint::ToControl::Loaded`].

use crate::way_back::WayBack;
use types::{Bytes, Epoch, OsdSuperblock};

/// See the module. Empty for a store that was empty.
#[derive(Default)]
pub(crate) struct Found {
    /// `None`: there is none that can be read.
    pub superblock: Option<OsdSuperblock>,
    /// How far a monitor had confirmed the maps, if the store says so.
    pub confirmed: Option<Epoch>,
    /// Maps by epoch, whole ones and changes.
    pub maps: Vec<(Epoch, bool, Bytes)>,
    /// The last run said that this one goes back.
    pub back: Option<WayBack>,
    /// The oldest map that a group's record names.
    pub oldest: Option<Epoch>,
    /// Damage, for the cluster log.
    pub damaged: Vec<String>,
    /// Then the newest map is the newest one that was read.
    pub has_lost_maps: bool,
}
