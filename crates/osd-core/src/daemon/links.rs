//! Connections that the daemon dialled: their numbers, and what each is for.

use super::event::{Effect, Network};
use crate::event::ConnId;
use std::collections::BTreeMap;
use types::{EntityAddr, EntityAddrVec, EntityKind, EntityName, OsdId};

/// What a dial is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Monitor,
    Manager,
    /// Another OSD; on the clients' network as a client of it. Its number must be the one that was dialled.
    Osd(Network),
}

#[derive(Debug)]
pub(super) struct Link {
    pub role: Role,
    pub addrs: EntityAddrVec,
}

/// All dials that were not given up.
#[derive(Debug, Default)]
pub(super) struct Links {
    last: u64,
    links: BTreeMap<ConnId, Link>,
    osds: BTreeMap<(Network, EntityAddr), ConnId>,
}

fn address(addrs: &EntityAddrVec) -> EntityAddr {
    addrs.msgr2().unwrap_or_else(|| addrs.front())
}

impl Links {
    /// A new number and its dial.
    pub fn dial(&mut self, role: Role, addrs: EntityAddrVec, out: &mut Vec<Effect>) -> ConnId {
        self.dial_to(role, -1, addrs, out)
    }
    fn dial_to(&mut self, role: Role, num: i64, addrs: EntityAddrVec, out: &mut Vec<Effect>) -> ConnId {
        self.last += 1;
        let conn = ConnId::dialled(self.last);
        let (network, kind, lossless) = match role {
            Role::Monitor => (Network::Public, EntityKind::MON, false),
            Role::Manager => (Network::Public, EntityKind::MGR, false),
            Role::Osd(network) => (network, EntityKind::OSD, network == Network::Cluster),
        };
        if let Role::Osd(network) = role {
            self.osds.insert((network, address(&addrs)), conn);
        }
        out.push(Effect::Dial { conn, network, name: EntityName { kind, num }, addrs: addrs.clone(), lossless });
        self.links.insert(conn, Link { role, addrs });
        conn
    }
    /// The connection to an OSD's address: the one that there is, or a new dial.
    pub fn osd(&mut self, network: Network, osd: OsdId, addrs: EntityAddrVec, out: &mut Vec<Effect>) -> ConnId {
        match self.osds.get(&(network, address(&addrs))) {
            Some(conn) => *conn,
            None => self.dial_to(Role::Osd(network), osd.into(), addrs, out),
        }
    }
    /// Dials to other OSDs.
    pub fn osds(&self) -> impl Iterator<Item = (Network, ConnId, &EntityAddrVec)> {
        self.osds.iter().map(|((network, _), conn)| (*network, *conn, &self.links[conn].addrs))
    }
    /// What a connection is for; `None` if it is no dial of ours. Costs nothing for one that was accepted.
    #[inline]
    pub fn role(&self, conn: ConnId) -> Option<Role> {
        if conn.is_dialled() { self.links.get(&conn).map(|link| link.role) } else { None }
    }
    pub fn get(&self, conn: ConnId) -> Option<&Link> {
        self.links.get(&conn)
    }
    /// All dials to other OSDs on a network: what is sent from now on dials anew.
    pub fn forget_network(&mut self, network: Network) {
        self.osds.retain(|(of, _), conn| {
            if *of == network {
                self.links.remove(conn);
            }
            *of != network
        });
    }
    /// The number means nothing from now on.
    pub fn remove(&mut self, conn: ConnId) -> Option<Link> {
        let link = self.links.remove(&conn)?;
        if let Role::Osd(network) = link.role {
            self.osds.remove(&(network, address(&link.addrs)));
        }
        Some(link)
    }
}
