//! Frames that are wrong in one way each, and messages of each recorded kind with damaged contents.

use crate::hostile_peer::frames::{ByHand, Forged};
use crate::hostile_peer::{Cluster, recorded};
use crate::{DAEMONS, DISK, FEATURES, NOTHING, ONE_POOL, READER, cluster, fuzzing, logged_in, seed, times};
use base::Rng;
use denc::Denc;
use messages::*;
use msgr::Tag;
use std::collections::BTreeMap;
use types::EntityKind;

/// Forged frames at a daemon, by a key in a mode of the wire, in the tests' share.
const FRAMES: u64 = 40;
/// After so many inputs the good client is asked.
const BATCH: u64 = 100;

/// Up to three messages of each kind that stock daemons and clients send, about this cluster instead of theirs.
fn of_each_kind(cluster: &Cluster) -> Vec<RawMessage> {
    let (ours, records) = (cluster.fsid().to_bytes(FEATURES), recorded("reef"));
    let theirs = records.iter().find(|m| m.kind == MOSDMap::KIND).map(|m| m.front.slice(..16)).expect("a map was recorded");
    let mut kinds: BTreeMap<u16, Vec<RawMessage>> = BTreeMap::new();
    for record in records {
        let kind = kinds.entry(record.kind).or_default();
        if kind.len() < 3 {
            let mut front = record.front.to_vec();
            for at in 0..front.len().saturating_sub(15) {
                if front[at..at + 16] == theirs[..] {
                    front[at..at + 16].copy_from_slice(&ours);
                }
            }
            kind.push(RawMessage { front: front.into(), ..record });
        }
    }
    kinds.into_values().flatten().collect()
}

/// The message with wrong contents, or a wrong version, in an honest frame.
fn damaged(rng: &mut Rng, good: &RawMessage, other: &RawMessage) -> RawMessage {
    let mut bad = good.clone();
    match rng.below(8) {
        0 => bad.version = *fuzzing::pick(rng, &[0, 1, good.version + 1, u16::MAX]),
        1 => bad.compat = rng.u64() as u16,
        2 => bad.kind = other.kind,
        3 => bad.middle = fuzzing::damaged(rng, &good.middle, &other.front).into(),
        4 => bad.data = vec![fuzzing::damaged(rng, good.data.first().map_or(&[], |d| d), &other.front).into()],
        _ => bad.front = fuzzing::damaged(rng, &good.front, &other.front).into(),
    }
    bad.tid = rng.u64();
    bad
}

/// A number that lengths are wrong with.
fn wrong(rng: &mut Rng, right: u32) -> u32 {
    let bits = rng.below(32);
    *fuzzing::pick(
        rng,
        &[0, 1, right.wrapping_add(1), right.wrapping_sub(1), right.wrapping_add(16), 180 << 20, u32::MAX >> bits, u32::MAX],
    )
}

/// A frame that is wrong in one way; what makes it so.
fn forged(rng: &mut Rng, peer: &mut ByHand, good: &RawMessage) -> (Forged, &'static str) {
    let header = peer.header(good);
    let mut frame = Forged::message(&header, good);
    let what = match rng.below(9) {
        0 => {
            let at = rng.below(4) as usize;
            let said = wrong(rng, frame.segments.get(at).map_or(0, |s| s.len() as u32));
            frame.say(|p| p[2 + 6 * at..6 + 6 * at].copy_from_slice(&said.to_le_bytes()));
            "a length"
        }
        1 => {
            let count = *fuzzing::pick(rng, &[0, 1, 2, 3, 4, 5, 255]);
            frame.say(|p| p[1] = count);
            "the number of segments"
        }
        2 => {
            let any = rng.u64() as u8;
            let tag = *fuzzing::pick(rng, &[0, 23, 255, any]);
            frame.say(|p| p[0] = tag);
            "the tag"
        }
        3 => {
            frame.say(|p| p[26] = 1 + rng.below(255) as u8);
            "flags"
        }
        4 => {
            frame.preamble[rng.below(32) as usize] ^= 1 << rng.below(8);
            "a bit of the preamble"
        }
        5 => {
            frame.status = *fuzzing::pick(rng, &[0, 1, 2, 0x0f, 255]);
            "the status"
        }
        6 => {
            frame.wrong_crc = Some(rng.below(4) as usize);
            let len = rng.below(90) as usize;
            frame.segments[0].resize(len, 7);
            frame.say(|p| p[2..6].copy_from_slice(&(len as u32).to_le_bytes()));
            "the header's length"
        }
        7 => {
            let header = msgr::Header { seq: *fuzzing::pick(rng, &[0, u64::MAX]), ..header };
            frame = Forged::message(&header, good);
            "the number of the message"
        }
        _ => {
            let tag = *fuzzing::pick(rng, Tag::ALL);
            let payload = fuzzing::damaged(rng, &good.front[..good.front.len().min(300)], &[0xff; 40]);
            frame = Forged::new(tag, vec![payload]);
            "a frame of the handshake, or its contents"
        }
    };
    (frame, what)
}

/// A question that any session may ask, and whether something is its answer.
fn question(cluster: &Cluster, at: EntityKind) -> (RawMessage, impl Fn(&RawMessage) -> bool) {
    const MARK: u64 = 0x00fe_ce00_0000_0002;
    let message = match at {
        EntityKind::MON => MMonGetVersion { handle: MARK, what: "osdmap".into() }.encode(u64::MAX),
        _ => {
            let cmd = vec![r#"{"prefix": "no such command"}"#.to_string()];
            MCommand { fsid: cluster.fsid(), cmd, ..MCommand::default() }.encode(u64::MAX)
        }
    };
    let is_answer = |m: &RawMessage| {
        m.tid == MARK || m.kind == MMonGetVersionReply::KIND && MMonGetVersionReply::decode(m).is_ok_and(|m| m.handle == MARK)
    };
    (RawMessage { tid: MARK, ..message }, is_answer)
}

/// One daemon, one key, one mode.
struct Place<'a> {
    cluster: &'a Cluster,
    at: EntityKind,
    name: &'a str,
    auth: std::rc::Rc<dyn msgr::AuthClients>,
    rng: Rng,
    sent: u64,
}

impl Place<'_> {
    fn open(&mut self) -> Option<ByHand> {
        ByHand::open(self.cluster, self.at, self.auth.clone(), &mut self.rng)
    }
    fn count(&mut self) {
        self.sent += 1;
        if self.sent.is_multiple_of(BATCH) {
            self.cluster.check(&format!("{} inputs by {} at {:?}", self.sent, self.name, self.at));
        }
    }
    /// Damaged messages in honest frames: each ends its connection or is passed over, and a question behind it is answered if it did not.
    fn messages(&mut self, kinds: &[RawMessage]) -> Option<()> {
        let mut peer = self.open()?;
        for good in kinds {
            let other = fuzzing::pick(&mut self.rng, kinds);
            let bad = damaged(&mut self.rng, good, other);
            let header = peer.header(&bad);
            let bytes = peer.bytes(&Forged::message(&header, &bad));
            peer.send(&bytes);
            let (asked, is_answer) = question(self.cluster, self.at);
            if !peer.is_answered(asked, is_answer) {
                peer = self.open().expect("a key that was let in may come again");
            }
            self.count();
        }
        peer.end();
        Some(())
    }
    /// Frames that are wrong, whole or cut: whatever the other side makes of one, it closes when nothing more comes.
    fn frames(&mut self, kinds: &[RawMessage]) -> Option<()> {
        for _ in 0..FRAMES * times() {
            let mut peer = self.open()?;
            let (asked, is_answer) = question(self.cluster, self.at);
            let good = fuzzing::pick(&mut self.rng, kinds).clone();
            if self.rng.chance(1, 4) {
                assert!(peer.is_answered(asked, is_answer), "a good question by {} at {:?} first", self.name, self.at);
            }
            let (frame, _what) = forged(&mut self.rng, &mut peer, &good);
            let mut bytes = peer.bytes(&frame);
            if self.rng.chance(1, 3) {
                let len = self.rng.below(bytes.len() as u64) as usize;
                bytes.truncate(len);
            }
            peer.send(&bytes);
            peer.end();
            self.count();
        }
        Some(())
    }
}

#[test]
fn frames_and_messages_by_weak_keys() {
    let cluster = cluster();
    let kinds = of_each_kind(&cluster);
    assert!(kinds.len() > 60, "{} messages", kinds.len());
    let mut rng = Rng::new(seed("frames"));
    let mut inputs: BTreeMap<(&str, EntityKind), u64> = BTreeMap::new();
    for weak in [NOTHING, READER, ONE_POOL, DISK] {
        for secure in [false, true] {
            let auth = logged_in(&cluster, weak, secure);
            for at in DAEMONS {
                let rng = Rng::new(rng.u64());
                let mut place = Place { cluster: &cluster, at, name: weak.0, auth: auth.clone(), rng, sent: 0 };
                let Some(peer) = place.open() else { continue };
                assert_eq!(peer.is_secure(), secure, "{} at {at:?}", weak.0);
                peer.end();
                for _ in 0..times() {
                    place.messages(&kinds).expect("it was let in before");
                }
                place.frames(&kinds).expect("it was let in before");
                *inputs.entry((weak.0, at)).or_default() += place.sent;
                cluster.check(&format!("frames of {} at {at:?}, secure: {secure}", weak.0));
            }
        }
    }
    for (name, at) in [READER, ONE_POOL, DISK].iter().flat_map(|weak| [(weak.0, EntityKind::MON), (weak.0, EntityKind::OSD)]) {
        assert!(inputs.contains_key(&(name, at)), "{name} was let in at {at:?}: {inputs:?}");
    }
    println!("{} inputs: {inputs:?}", inputs.values().sum::<u64>());
    cluster.check_nothing_held("all frames");
    assert!(cluster.newest_map().is_up(0));
    cluster.stop();
}
