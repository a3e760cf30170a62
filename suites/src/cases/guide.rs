//! The guide's runnable blocks as cases: each page as an operator would type it. A page that needs more than clients is a case of its own; all others, and
//! README, are one.

use super::Case;
use crate::clients::{Release, SHARED};
use crate::guide;
use anyhow::Result;
use std::path::Path;

/// Pages with cases of their own.
const GATEWAYS: &str = "objects-and-files";
const DISKS: &str = "replacing-a-disk";
const MACHINES: &str = "several-machines";
const MOVING: &str = "moving-a-cluster";
const MEASURING: &str = "measuring";
const MIRRORING: &str = "mirroring";
const ZONES: &str = "multisite";

pub const CASES: &[Case] = &[
    Case { name: "guide_says_what_happens", needs: &[Release::Pacific], run: the_others },
    Case { name: "guide_with_gateways", needs: &[Release::Pacific], run: || page(GATEWAYS) },
    Case { name: "guide_with_a_dead_disk", needs: &[Release::Pacific], run: || page(DISKS) },
    Case { name: "guide_with_several_machines", needs: &[Release::Pacific, Release::Reef], run: || page(MACHINES) },
    Case { name: "guide_with_a_cluster_that_moves", needs: &[Release::Pacific, Release::Tentacle], run: || page(MOVING) },
    Case { name: "guide_with_mirrored_images", needs: &[Release::Pacific, Release::Reef], run: || page(MIRRORING) },
    Case { name: "guide_with_two_zones", needs: &[Release::Pacific, Release::Reef], run: || page(ZONES) },
    Case { name: "guide_with_a_study", needs: &[Release::Pacific], run: || page(MEASURING) },
];

fn page(name: &str) -> Result<()> {
    guide::run(Path::new(SHARED), |page| page == name, false).map(drop)
}
fn the_others() -> Result<()> {
    guide::run(Path::new(SHARED), |page| ![GATEWAYS, DISKS, MACHINES, MOVING, MEASURING, MIRRORING, ZONES].contains(&page), false).map(drop)
}
