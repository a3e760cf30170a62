//! The files of a cluster: a file system on one of its images, or CephFS.

use super::Place;
use super::cephfs::CephFs;
use super::volume::Volume;
use crate::plan::Setup;
use anyhow::Result;
use std::path::Path;

pub enum Files {
    Image(Volume),
    Ceph(CephFs),
}

impl Files {
    /// As the setup's `fs` says; none if it wants no files. `servers` is where stock's server programs are.
    pub fn start(setup: &Setup, clients: &Place, servers: &Place, dir: &Path) -> Result<Option<Self>> {
        Ok(match setup.fs.as_deref() {
            None => None,
            Some("cephfs") => Some(Self::Ceph(CephFs::start(clients, servers, &setup.auth, setup.replicas, dir)?)),
            Some(fs) => Some(Self::Image(Volume::start(clients, fs, dir)?)),
        })
    }
    pub fn dir(&self) -> &Path {
        match self {
            Self::Image(volume) => volume.dir(),
            Self::Ceph(fs) => fs.dir(),
        }
    }
    pub fn servers(&self) -> Option<u32> {
        match self {
            Self::Image(_) => None,
            Self::Ceph(fs) => Some(fs.server()),
        }
    }
    /// What works for the client outside of its processes.
    pub fn client(&self) -> u32 {
        match self {
            Self::Image(volume) => volume.pid(),
            Self::Ceph(fs) => fs.client(),
        }
    }
    pub fn alive(&mut self) -> bool {
        match self {
            Self::Image(volume) => volume.alive(),
            Self::Ceph(fs) => fs.alive(),
        }
    }
}
