//! Dials to other OSDs: which are given up when.
//!
//! A ping is worth nothing later, so a heartbeat's dial is given up at once, and another ping dials. What OSDs tell each other is kept by the
//! messenger until the peer is there, or until none can be there any more.

use super::Daemon;
use super::event::{DialFailure, Effect, Network};
use super::links::Role;
use crate::event::{ConnId, Event as OsdEvent, HbNet, Level};
use base::Clock;
use types::EntityAddrVec;

/// Dials of a lossless connection that fail in a row before it is given up: a quarter of an hour.
const ATTEMPTS_MAX: u32 = 60;

pub(super) fn network(net: HbNet) -> Network {
    match net {
        HbNet::Front => Network::HbFront,
        HbNet::Back => Network::HbBack,
    }
}

impl Daemon {
    pub(super) fn osd_dial_failed(&mut self, conn: ConnId, why: DialFailure, attempts: u32, now: Clock, out: &mut Vec<Effect>) {
        let link = self.links.get(conn).map(|link| (link.role, link.addrs.clone()));
        if let Some((Role::Osd(network), addrs)) = &link {
            let heartbeats = network.heartbeats();
            if heartbeats.is_some() {
                self.close_link(conn, out);
            }
            match (why, heartbeats) {
                (DialFailure::Refused, _) => self.osd_event_alone(OsdEvent::PeerRefused { addrs: addrs.clone() }, now, out),
                (DialFailure::Other, Some(net)) => self.osd_event_alone(OsdEvent::HeartbeatCut { net, addrs: addrs.clone() }, now, out),
                (DialFailure::Denied(_), _) | (DialFailure::Other, None) => {}
            }
            if heartbeats.is_some() {
                return;
            }
        }
        let gone = match &link {
            Some((Role::Osd(network), addrs)) => !self.is_up_at(*network, addrs),
            Some((_, addrs)) => !self.is_up_at(Network::Cluster, addrs),
            None => false,
        };
        if gone || attempts > ATTEMPTS_MAX {
            let at = link.map(|(_, addrs)| addrs.to_string()).unwrap_or_else(|| "a peer".into());
            out.push(Effect::Log { level: Level::Info, text: format!("{at} doesn't answer and is given up") });
            self.close_link(conn, out);
            self.osd_event_alone(OsdEvent::Reset { conn }, now, out);
        }
    }
    /// Links to addresses where the map has no OSD up any more are closed: what they hold is for a life that is over.
    pub(super) fn close_links_of_the_dead(&mut self, out: &mut Vec<Effect>) {
        self.seen_epoch = self.osd.map().epoch;
        let gone: Vec<ConnId> =
            self.links.osds().filter(|(network, _, addrs)| !self.is_up_at(*network, addrs)).map(|(_, conn, _)| conn).collect();
        for conn in gone {
            self.close_link(conn, out);
            self.later.push_back(OsdEvent::Reset { conn });
        }
    }
    /// True if the map has an OSD up at this address of that network.
    fn is_up_at(&self, network: Network, addrs: &EntityAddrVec) -> bool {
        let map = self.osd.map();
        let at = match network {
            Network::Public => &map.client_addrs,
            Network::Cluster => &map.cluster_addrs,
            Network::HbFront => &map.hb_front_addrs,
            Network::HbBack => &map.hb_back_addrs,
        };
        map.osds().any(|osd| map.is_up(osd) && at[osd as usize] == *addrs)
    }
}
