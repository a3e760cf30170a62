//! Suites that are no list of programs of a package: each is a function, the releases that it runs with, and the sources that it needs.

use super::{Manner, Run, go_ceph, mirror, multisite, posix, python, s3, shares, workunits, workunits_rbd};
use crate::clients::Release::{self, Pacific, Reef, Tentacle};
use anyhow::Result;
use std::path::Path;

/// Upstream's sources that a suite runs and that no package has: checkouts, named when it runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sources<'a> {
    pub s3_tests: Option<&'a Path>,
    /// All of them, not what upstream's own runs select.
    pub s3_whole: bool,
    pub pjdfstest: Option<&'a Path>,
    pub xfstests: Option<&'a Path>,
    pub ceph: Option<&'a Path>,
    pub go_ceph: Option<&'a Path>,
    /// No source: how often mirrored images are taken by force.
    pub failovers: u32,
}

/// A run, or the lack of a source.
type Ran = Result<Result<Run, &'static str>>;

/// One such suite.
pub struct Given {
    pub name: &'static str,
    /// Those of its clients and gateways; the first is meant unless one is named.
    releases: &'static [Release],
    pub run: fn(Release, Manner, Sources) -> Ran,
}

pub const GIVEN: &[Given] = &[
    Given { name: s3::NAME, releases: &[Reef, Tentacle], run: run_s3 },
    Given { name: posix::NAME, releases: &[Reef], run: run_posix },
    Given { name: workunits::NAME, releases: &[Reef], run: run_workunits },
    Given { name: python::NAME, releases: &[Reef, Tentacle], run: run_python },
    Given { name: go_ceph::NAME, releases: &[Tentacle, Reef], run: run_go_ceph },
    Given { name: workunits_rbd::NAME, releases: &[Reef, Tentacle], run: run_workunits_rbd },
    Given {
        name: mirror::NAME,
        releases: &[Reef, Tentacle],
        run: |release, manner, from| Ok(Ok(mirror::mirror(release, manner, from.failovers)?)),
    },
    Given { name: multisite::NAME, releases: &[Reef, Tentacle], run: |release, manner, _| Ok(Ok(multisite::multisite(release, manner)?)) },
    Given { name: shares::NFS, releases: &[Pacific], run: |_, manner, _| Ok(Ok(shares::nfs(manner, true)?)) },
    Given { name: shares::SMB, releases: &[Pacific], run: |_, manner, _| Ok(Ok(shares::smb(manner, true)?)) },
];

impl Given {
    /// Those of its releases that are asked for.
    pub fn releases(&self, named: Option<&str>) -> Vec<Release> {
        match named {
            None => self.releases[..1].to_vec(),
            Some(name) => self.releases.iter().copied().filter(|release| release.is_called(name)).collect(),
        }
    }
}

/// The suites that a word means: `rgw` and `cephfs` bring those on the same daemons.
pub fn means(word: Option<&str>, suite: &str) -> bool {
    match word {
        None => true,
        Some("rgw") => [s3::NAME, "rgw"].contains(&suite),
        Some("cephfs") => [posix::NAME, workunits::NAME, "cephfs"].contains(&suite),
        Some(name) => name == suite,
    }
}

fn run_s3(release: Release, manner: Manner, sources: Sources) -> Ran {
    Ok(match sources.s3_tests {
        Some(dir) => Ok(s3::s3(release, manner, dir, sources.s3_whole)?),
        None => Err("--s3-tests DIR: a checkout of ceph/s3-tests, branch ceph-reef, or ceph-tentacle for 20.2"),
    })
}

fn run_posix(_: Release, manner: Manner, sources: Sources) -> Ran {
    Ok(match (sources.pjdfstest, sources.xfstests) {
        (None, None) => Err("--pjdfstest DIR and --xfstests DIR: checkouts of pjd/pjdfstest and kdave/xfstests"),
        (pjdfstest, xfstests) => Ok(posix::posix(manner, pjdfstest, xfstests)?),
    })
}

fn run_workunits(_: Release, manner: Manner, sources: Sources) -> Ran {
    Ok(match sources.ceph {
        Some(dir) => Ok(workunits::workunits(manner, dir)?),
        None => Err("--ceph-source DIR: the source of Ceph 18.2, unpacked"),
    })
}

fn run_python(release: Release, manner: Manner, sources: Sources) -> Ran {
    Ok(match sources.ceph {
        Some(dir) => Ok(python::python(release, manner, dir)?),
        None => Err("--ceph-source DIR: the source of Ceph, of the release, unpacked"),
    })
}

fn run_go_ceph(release: Release, manner: Manner, sources: Sources) -> Ran {
    Ok(match sources.go_ceph {
        Some(dir) => Ok(go_ceph::go_ceph(release, manner, dir)?),
        None => Err("--go-ceph DIR: a checkout of ceph/go-ceph, with `go mod vendor`"),
    })
}

fn run_workunits_rbd(release: Release, manner: Manner, sources: Sources) -> Ran {
    Ok(match sources.ceph {
        Some(dir) => Ok(workunits_rbd::workunits_rbd(release, manner, dir)?),
        None => Err("--ceph-source DIR: the source of Ceph, of the release, unpacked"),
    })
}
