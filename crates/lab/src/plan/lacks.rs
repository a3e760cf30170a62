//! Why a cell can't run: what this version lacks, and what this machine does.

use super::{Cell, Mode, Plan, Setup};
use crate::load::{Tool, Work};
use crate::study::file::Device;
use crate::target::{Kind, device, gluster, volume};
use std::collections::BTreeSet;

/// What no machine lets this version do.
pub(super) fn unsupported(setup: &Setup, work: &Work) -> Option<String> {
    let ours = matches!(setup.kind, Kind::Humboldt);
    match () {
        () if ours && setup.store == "file" => Some("needs the file store".into()),
        () if (ours || setup.kind == Kind::Ceph) && setup.replicas > setup.osds => {
            Some(format!("{} copies need as many OSDs: osds = {} or more", setup.replicas, setup.replicas))
        }
        () if ours && setup.fs.as_deref() == Some("cephfs") => Some("needs stock's metadata server outside of a chroot".into()),
        () if setup.fs.as_deref() == Some("cephfs") && setup.kind == Kind::Device => Some("CephFS is a cluster's".into()),
        () if setup.kind == Kind::Ceph
            && setup.osds > 1
            && setup.data.as_ref().or(setup.wal.as_ref()).or(setup.meta.as_ref()).is_some() =>
        {
            Some("stock OSDs don't share a device: leave data, wal and meta out where osds is more than 1".into())
        }
        () if work.base.is_some() && (!setup.kind.is_cluster() || setup.kind == Kind::Null) => {
            Some("a base load is fio rbd's: on clusters".into())
        }
        () if work.is_drill() => drills(setup),
        () if work.cache && work.tool != Tool::FioRbd => Some("librbd's cache is fio rbd's alone".into()),
        () => work.tool.lacks(work),
    }
}

fn drills(setup: &Setup) -> Option<String> {
    match setup.kind {
        Kind::Humboldt | Kind::Ceph if setup.store == "mem" => Some("a store in memory does not outlive its OSD".into()),
        Kind::Humboldt | Kind::Ceph if setup.fs.is_some() => Some("drills are on clusters without a file system".into()),
        // Its OSDs get the devices when `up` makes them; a loop device has no user while they change hands.
        Kind::Humboldt if setup.data.is_some() => Some("drills are on stores in their own folders".into()),
        Kind::Humboldt | Kind::Ceph => None,
        _ => Some("drills are for clusters of the lab's own".into()),
    }
}

/// Each package that a plan's cells need, those that can't run here included.
pub fn packages(plan: &Plan) -> BTreeSet<&'static str> {
    let mut all = BTreeSet::new();
    for Cell { setup, work, .. } in &plan.cells {
        all.extend(work.tool.needs().map(|(package, _)| package));
        if setup.kind.is_cluster() && work.tool != Tool::HumboldtBench || setup.kind == Kind::Ceph {
            all.extend(["ceph-common"]);
        }
        match (setup.kind, setup.fs.as_deref()) {
            (Kind::Glusterfs, _) => all.extend(["glusterfs-server", "iproute2", "xfsprogs"]),
            (_, Some("cephfs")) => all.extend(["ceph-mds", "ceph-fuse"]),
            (Kind::Humboldt | Kind::Ceph, Some(_)) => all.extend(["qemu-system-common", "qemu-block-extra", "xfsprogs"]),
            (Kind::Device, Some("xfs")) => all.extend(["xfsprogs"]),
            _ => {}
        }
        if setup.kind == Kind::Ceph && setup.release.as_deref() == Some("16.2") {
            all.extend(["ceph-mon", "ceph-osd", "xfsprogs"]);
        }
    }
    if plan.steps.iter().any(|s| s.mode == Mode::Profile) || plan.wants_profiles {
        all.extend(["linux-perf"]);
    }
    all
}

/// Why this machine can't run a cell, if it can't.
pub fn lacks_here(setup: &Setup, work: &Work, devices: &[Device]) -> Option<String> {
    let in_path =
        |program: &str| std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).exists()));
    if let Some((package, program)) = work.tool.needs()
        && !in_path(program)
    {
        return Some(format!("needs package {package} (humboldt lab setup STUDY)"));
    }
    let wants_ceph = matches!(work.tool, Tool::FioRbd | Tool::RadosBench) || work.base.is_some() || work.is_drill();
    if (wants_ceph || setup.kind == Kind::Existing) && !in_path("rbd") {
        return Some("needs package ceph-common (humboldt lab setup STUDY)".into());
    }
    if setup.kind == Kind::Ceph
        && let Some(reason) = crate::target::ceph::lacks(setup)
    {
        return Some(reason);
    }
    let reason = match setup.kind {
        Kind::Glusterfs => gluster::lacks(),
        Kind::Humboldt if setup.fs.is_some() => volume::lacks(),
        Kind::Device if setup.fs.is_some() && !crate::sys::is_root() => Some("needs root, for mounts".into()),
        _ => None,
    };
    if reason.is_some() {
        return reason;
    }
    let named = [&setup.data, &setup.wal, &setup.meta];
    let mut named = named.into_iter().flatten().filter_map(|name| devices.iter().find(|d| d.name == *name));
    named.find_map(device::lacks)
}
