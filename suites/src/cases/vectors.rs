//! Random vectors of operations to a stock OSD and to ours by one client: `cargo xtask vectors` in short. The clusters are new, the seeds are not.

use super::Case;
use crate::clients::{Release, Release::Pacific, Release::Reef, Release::Tentacle, tentacle_osd};
use crate::cluster::Cluster;
use crate::stock::{Plane, stock_control_plane, stock_osd_of};
use crate::vectors::vectors;
use anyhow::Result;

pub const CASES: &[Case] = &[
    Case { name: "vectors_as_stock_18.2", needs: &[Pacific, Reef], run: || as_stock(Reef, 1) },
    Case { name: "vectors_as_stock_20.2", needs: &[Pacific, Reef, Tentacle], run: || as_stock(Tentacle, 1_000_001) },
];

/// What one run sends.
const COUNT: u64 = 2000;
/// Clients that send them.
const SENDERS: usize = 4;

/// The monitor is of 18.2 for both: vectors don't meet it, and it takes a newer OSD.
fn as_stock(release: Release, seed: u64) -> Result<()> {
    if release == Tentacle {
        tentacle_osd()?;
    }
    let name = format!("vectors-{}", release.version());
    let mut d = stock_control_plane(&format!("{name}-stock"), &Plane { monitors: 1, secure: false, ..Plane::default() })?;
    stock_osd_of(release, &mut d, 0, "memstore")?;
    d.wait_up(1)?;
    let ours = Cluster::start(&name, &[])?;
    vectors(Some(&ours.conf), &d.conf, COUNT, seed, SENDERS)?;
    ours.stop()
}
