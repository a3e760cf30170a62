//! The cases: stock clients and daemons against the program under test. Each is a name, the releases that it needs, and a function.
//!
//! Absent: which of them a run has, and their time (`xtask`); the workspace's own test programs.

mod basics;
mod caps;
mod cephfs;
mod commands;
mod copies;
mod daemons;
mod devices;
mod failing_disk;
mod failures;
mod figures_gateways;
mod fills;
mod guide;
mod hostile;
mod images;
mod kernel_client;
mod kernel_guest;
mod kill9;
mod lab;
mod manager;
mod maps;
mod memory;
pub mod mixed;
mod moved_data;
mod notify;
pub mod order;
mod own_programs;
mod package;
mod python;
mod qemu;
mod rados;
mod radosgw;
mod rbd;
mod rbd_more;
mod rot;
mod scrub;
mod security;
mod services;
mod stale_read;
mod stock;
mod stock_damage;
mod stock_duties;
pub mod stock_faults;
mod stock_large;
mod stock_logs;
mod stock_moved;
mod stock_rogue;
mod stock_shapes;
mod stock_tentacle;
mod thrash;
mod turns;
mod under_way;
mod vectors;
mod web;
mod wire;

pub use caps::record as record_caps;
pub use copies::kill_copies;
pub use failures::image_check;
pub use figures_gateways::figures_gateways;
pub use kill9::kill_loop;
pub use memory::memory;
pub use package::installs as package_installs;
pub(crate) use radosgw::{ACCESS, SECRET};
pub use rot::rot_matrix;
pub use thrash::verb as thrash;
pub use turns::kill_in_turns;

use crate::clients::Release;
use crate::{applications, conformance, share};
use anyhow::Result;

/// One test with real programs. `needs` are the releases whose clients it runs.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub needs: &'static [Release],
    pub run: fn() -> Result<()>,
}

/// Upstream's own test programs, those that are quick; `cargo xtask conformance` runs all.
const CONFORMANCE: &[Case] = &[
    Case { name: "upstreams_test_programs", needs: &[Release::Reef], run: conformance::fast },
    Case {
        name: "stock_daemons_and_upstreams_test_programs",
        needs: &[Release::Reef, Release::Pacific],
        run: conformance::fast_among_stock,
    },
];

/// Mirroring, two zones and gateways of other protocols, one in each run; `cargo xtask conformance` runs all, whole.
const GATEWAYS: &[Case] =
    &[Case { name: "a_gateway_by_turns", needs: &[Release::Pacific, Release::Reef], run: || conformance::by_turns(share::turn()) }];

/// Applications under faults, one in each run; `cargo xtask applications` runs all.
const APPLICATIONS: &[Case] =
    &[Case { name: "an_application_by_turns", needs: &[Release::Pacific, Release::Reef], run: applications::by_turns }];

/// All of them, by subject.
pub fn cases() -> Vec<Case> {
    [
        basics::CASES,
        rados::CASES,
        notify::CASES,
        rbd::CASES,
        rbd_more::CASES,
        python::CASES,
        qemu::CASES,
        radosgw::CASES,
        cephfs::CASES,
        turns::CASES,
        kernel_client::CASES,
        security::CASES,
        services::CASES,
        images::CASES,
        caps::CASES,
        commands::CASES,
        own_programs::CASES,
        web::CASES,
        daemons::CASES,
        devices::CASES,
        maps::CASES,
        hostile::CASES,
        memory::CASES,
        under_way::CASES,
        vectors::CASES,
        stock::CASES,
        stock_damage::CASES,
        stock_large::CASES,
        stock_moved::CASES,
        stock_shapes::CASES,
        stock_duties::CASES,
        stock_faults::CASES,
        stock_rogue::CASES,
        stock_tentacle::CASES,
        manager::CASES,
        kill9::CASES,
        copies::CASES,
        thrash::CASES,
        stale_read::CASES,
        mixed::CASES,
        scrub::CASES,
        failures::CASES,
        failing_disk::CASES,
        fills::CASES,
        lab::CASES,
        guide::CASES,
        CONFORMANCE,
        GATEWAYS,
        APPLICATIONS,
    ]
    .into_iter()
    .flatten()
    .copied()
    .collect()
}
