//! A message of each kind that there is, about this cluster: recorded ones that stock daemons sent, ones of ours where none was recorded, and
//! empty ones of kinds that no daemon here reads. Beside them what a forger would say: a map of the far future, and deaths of the living.

use crate::hostile_peer::{Cluster, recorded};
use bytes::Bytes;
use denc::Denc;
use messages::*;
use std::collections::BTreeMap;

const FEATURES: u64 = types::features::SUPPORTED;

/// Blank messages of these types.
macro_rules! blank {
    ($($name:ident),* $(,)?) => { vec![$( $name::default().encode(FEATURES) ),*] };
}

/// One of each kind.
fn of_each_kind(cluster: &Cluster) -> BTreeMap<u16, RawMessage> {
    let (ours, mut all) = (cluster.fsid(), BTreeMap::new());
    let records = recorded("reef");
    let theirs = records.iter().find(|m| m.kind == MOSDMap::KIND).map(|m| m.front.slice(..16)).expect("a map was recorded");
    for record in records {
        let mut front = record.front.to_vec();
        for at in 0..front.len().saturating_sub(15) {
            if front[at..at + 16] == theirs[..] {
                front[at..at + 16].copy_from_slice(&ours.to_bytes(FEATURES));
            }
        }
        all.entry(record.kind).or_insert(RawMessage { front: front.into(), ..record });
    }
    let ours = blank!(
        MPing,
        MMonGetOSDMap,
        MMonSubscribeAck,
        MAuth,
        MAuthReply,
        MMDSMap,
        MOSDBackoff,
        MGetConfig,
        MOSDFull,
        MMonGetPurgedSnaps,
        MMonGetPurgedSnapsReply,
        MRemoveSnaps,
        MOSDPGBackfillRemove,
        MMDSBeacon,
        MFSMapUser,
        MOSDPGPCT,
        MOSDForceRecovery,
        MMDSLoadTargets,
        MMgrOpen,
        MMgrUpdate,
        MMgrClose,
    );
    for message in ours {
        all.entry(message.kind).or_insert(message);
    }
    let model = MPing::default().encode(FEATURES);
    for kind in (0..=u16::MAX).filter(|kind| kind_name(*kind) != "unknown") {
        all.entry(kind).or_insert_with(|| RawMessage { kind, front: Bytes::from_static(&[0; 256]), ..model.clone() });
    }
    all
}

/// Of each kind one, and what a forger would say.
pub fn messages(cluster: &Cluster) -> Vec<RawMessage> {
    let fsid = cluster.fsid();
    let mut all: Vec<RawMessage> = of_each_kind(cluster).into_values().collect();
    let unsaid: Vec<u16> =
        (0..=u16::MAX).filter(|kind| senders(*kind).is_some() && all.iter().all(|message| message.kind != *kind)).collect();
    assert!(unsaid.is_empty() && all.len() > 140, "{} kinds, without {unsaid:?}", all.len());
    let mut future = (*cluster.map()).clone();
    future.epoch += 1000;
    let newest = future.epoch;
    let maps = [(newest, future.encode_canonical().0)].into();
    all.push(MOSDMap { fsid, incrementals: BTreeMap::new(), maps, trim_lower_bound: 1, newest }.encode(FEATURES));
    let (epoch, target_addrs) = (cluster.epoch(), cluster.map().client_addrs[0].clone());
    let mark_down = MOSDMarkMeDown { fsid, epoch, target_addrs: target_addrs.clone(), down_and_dead: true, ..Default::default() };
    all.push(mark_down.encode(FEATURES));
    all.push(MOSDMarkMeDead { fsid, epoch, ..Default::default() }.encode(FEATURES));
    all.push(MOSDFailure { fsid, epoch, target_addrs, flags: 3, failed_for_s: 1000, ..Default::default() }.encode(FEATURES));
    all.push(MOSDFull { map_epoch: epoch, state: u32::MAX, ..Default::default() }.encode(FEATURES));
    all
}
