//! How an OSD was deployed: what ceph.conf and its data folder say of networks, authentication and its place.

use net::modes::Modes;
use std::net::IpAddr;
use types::Uuid;

/// See the module. The default is what `humboldt up` wants: one network, free ports, Ceph's default modes.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// Address on the network of OSDs (`cluster addr`, `cluster network`); `None`: that of clients.
    pub cluster_listen: Option<IpAddr>,
    /// Ports to take one of, both inclusive (`ms bind port min`, `ms bind port max`); `None`: any free one.
    pub ports: Option<(u16, u16)>,
    /// Which connections are encrypted, until the monitor's options are known.
    pub modes: Modes,
    /// Clients need no key even if daemons do (`auth service required = none`), and the other way round.
    pub open_to_clients: bool,
    /// Our identity on our store, as `--mkfs` wrote it; `None`: the store is made anew with each start, and so is this.
    pub osd_fsid: Option<Uuid>,
    /// The cluster that the folder belongs to; any other is refused.
    pub cluster_fsid: Option<Uuid>,
    /// Of the CRUSH map, at the first start (`crush_device_class` of the data folder).
    pub device_class: String,
    /// In TiB instead of the store's size (`osd crush initial weight`).
    pub initial_weight: Option<f64>,
    /// `osd class update on start`, `osd crush update on start`.
    pub update_class: bool,
    pub update_location: bool,
    /// Groups of which this OSD had the only copy, in a store that is gone, are made anew and empty.
    pub start_empty: bool,
}

impl Default for Deployment {
    fn default() -> Self {
        Self {
            cluster_listen: None,
            ports: None,
            modes: Modes::default(),
            open_to_clients: false,
            osd_fsid: None,
            cluster_fsid: None,
            device_class: "ssd".into(),
            initial_weight: None,
            update_class: true,
            update_location: true,
            start_empty: false,
        }
    }
}
