//! What an OSD is told when it is made.

use classes::Registry;
use types::{OsdId, Uuid};

/// What an OSD is told when it is made.
pub struct OsdSetup {
    pub whoami: OsdId,
    pub cluster_fsid: Uuid,
    pub osd_fsid: Uuid,
    /// Seed of everything random that is no secret.
    pub seed: u64,
    pub classes: &'static Registry,
    /// Options from a file, by name.
    pub config: Vec<(String, String)>,
}
