//! Why a cell can't run: what this version lacks, and what this machine does.

use super::Setup;
use crate::load::{Tool, Work};
use crate::study::file::Device;
use crate::target::{Kind, device};

/// What no machine lets this version do.
pub(super) fn unsupported(setup: &Setup, work: &Work) -> Option<String> {
    let ours = matches!(setup.kind, Kind::Humboldt);
    match () {
        () if ours && setup.store == "file" => Some("needs the file store".into()),
        () if (ours || setup.kind == Kind::Ceph) && setup.replicas > setup.osds => {
            Some(format!("{} copies need as many OSDs: osds = {} or more", setup.replicas, setup.replicas))
        }
        () if setup.kind == Kind::Glusterfs => Some("needs GlusterFS targets".into()),
        () if setup.kind == Kind::Existing => Some("needs targets that exist already".into()),
        () if setup.fs.is_some() => Some("needs file systems on devices".into()),
        () if setup.kind == Kind::Ceph
            && setup.osds > 1
            && setup.data.as_ref().or(setup.wal.as_ref()).or(setup.meta.as_ref()).is_some() =>
        {
            Some("stock OSDs don't share a device: leave data, wal and meta out where osds is more than 1".into())
        }
        () if ours && !setup.conf.is_empty() => Some("needs ceph.conf lines for humboldt up".into()),
        () if work.under.as_deref() == Some("base") => Some("needs base load".into()),
        () if work.under.is_some() => Some("needs drills".into()),
        () if work.cache && work.tool != Tool::FioRbd => Some("librbd's cache is fio rbd's alone".into()),
        () if work.cache => Some("needs librbd's cache switched on".into()),
        () => work.tool.lacks(work),
    }
}

/// Why this machine can't run a cell, if it can't.
pub fn lacks_here(setup: &Setup, work: &Work, devices: &[Device]) -> Option<String> {
    let in_path =
        |program: &str| std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).exists()));
    if let Some((package, program)) = work.tool.needs()
        && !in_path(program)
    {
        return Some(format!("needs package {package} (lab setup)"));
    }
    if matches!(work.tool, Tool::FioRbd | Tool::RadosBench) && !in_path("rbd") {
        return Some("needs package ceph-common (lab setup)".into());
    }
    if setup.kind == Kind::Ceph
        && let Some(reason) = crate::target::ceph::lacks(setup)
    {
        return Some(reason);
    }
    let named = [&setup.data, &setup.wal, &setup.meta];
    let mut named = named.into_iter().flatten().filter_map(|name| devices.iter().find(|d| d.name == *name));
    named.find_map(device::lacks)
}
