//! Whose log goes on, and which members serve by it: what [`crate::pg::reconcile`] makes of the infos, asked for where it takes others to do.

use super::{OsdView, Peer, PeerOut, Peering, State};
use crate::pg::backend::in_flight::Members;
use crate::pg::reconcile::choose::{Infos, Placement, Serving, ask_best_since};
use crate::pg::reconcile::member::{Ask, Bring, Member, ask};
use crate::pg::reconcile::missing::Missing;
use base::Stamp;
use types::{EVersion, HObject, ObjectCleanRegions, PgInfo, PgLogEntry, PgMissingItem, PgShard, PgStat};

/// A first member that lacks more than so many objects does not lead: the default of `osd_force_auth_primary_missing_objects`.
const BEHIND_MAX: u64 = 100;

impl Peering {
    fn infos(&self, ours: &PgInfo, map: &dyn OsdView) -> Infos {
        let others = self.peers.iter().filter(|(member, _)| map.is_up(member.osd));
        others.map(|(member, peer)| (*member, peer.member.info.clone())).chain([(self.whoami, ours.clone())]).collect()
    }

    /// Chooses the members; the monitor is asked if the map has others to serve. A better log than ours is asked for.
    pub(super) fn choose(&mut self, info: &PgInfo, map: &dyn OsdView, now: Stamp, out: &mut Vec<PeerOut>) {
        let infos = self.infos(info, map);
        let Some(best) = self.layout.find_best(&infos, self.whoami, None, false).member else { return self.enter(State::Incomplete, now) };
        let m = &self.mapping;
        let (up, acting, size) = (&m.up[..], &m.acting[..], m.size as usize);
        let place = Placement { up, acting, up_primary: m.up_primary, size, behind_max: BEHIND_MAX, only_placed: false };
        let Serving { acting: wanted, backfill, acting_backfill } = self.layout.choose_acting(&infos, best, &place);
        if !self.layout.is_recoverable(self.layout.members(&wanted)) {
            return self.enter(State::Incomplete, now);
        }
        if wanted != self.mapping.acting {
            let ask = if wanted == self.mapping.up { Vec::new() } else { wanted };
            if self.asked_pg_temp.as_ref() != Some(&ask) {
                self.asked_pg_temp = Some(ask.clone());
                out.push(PeerOut::PgTemp(ask));
            }
            return;
        }
        self.asked_pg_temp = None;
        // Those that serve, in their order, then those that only follow.
        let serve: Members = self.layout.members(&wanted).collect();
        let follow = acting_backfill.into_iter().filter(|member| !serve.contains(member));
        self.members = serve.iter().copied().chain(follow).collect();
        self.targets = backfill;
        // One that was started again since answers nothing that it was asked before: many maps at once show no moment at which it was down.
        let asked = Some((best, map.up_from(best.osd)));
        if best == self.whoami {
            self.best = None;
            self.enter(State::GetMissing, now);
        } else if self.best != asked {
            self.best = asked;
            let since = ask_best_since(&infos, self.whoami, best, &self.members.iter().copied().collect());
            out.push(PeerOut::QueryLog(best, Some(since)));
        }
    }
    /// The member whose log is to be merged into ours, while that is waited for.
    pub fn best(&self) -> Option<PgShard> {
        self.best.filter(|_| self.state == State::GetLog).map(|(member, _)| member)
    }
    /// Its log is merged; with it came what it misses.
    pub fn merged(&mut self, theirs: PgInfo, missing: Missing, now: Stamp) {
        let (from, _) = self.best.take().expect("its log was asked for");
        let mut member = Member::unasked(theirs);
        member.missing = missing;
        self.peers.insert(from, Peer::judged(member));
        self.enter(State::GetMissing, now);
    }

    /// Asks each member for what it misses. True when that is known of all.
    pub(super) fn has_judged_all(&mut self, info: &PgInfo, out: &mut Vec<PeerOut>) -> bool {
        let mut all = true;
        for member in self.others().collect::<Vec<_>>() {
            let peer = self.peers.get_mut(&member).expect("a member is chosen by its info");
            let since = match ask(info, &peer.member.info) {
                _ if peer.is_judged => continue,
                Ask::Nothing => {
                    peer.is_judged = true;
                    continue;
                }
                Ask::Since(since) => Some(since),
                Ask::Whole => None,
            };
            all = false;
            if self.asked_logs.insert(member) {
                out.push(PeerOut::QueryLog(member, since));
            }
        }
        all
    }
    /// True if this member's log was asked for and is not here.
    pub fn is_asked_for_log(&self, from: PgShard) -> bool {
        (self.state == State::GetMissing || self.serves_members()) && self.asked_logs.contains(&from)
    }
    /// What a member misses is known.
    pub fn judged(&mut self, from: PgShard, member: Member) {
        self.asked_logs.remove(&from);
        self.peers.insert(from, Peer::judged(member));
    }

    /// The version above which members need our log: that of the one that is furthest behind.
    pub(super) fn behind(&self, info: &PgInfo) -> Option<EVersion> {
        let of = |member: PgShard| match self.bring(member, info) {
            Bring::Log(since) if since < info.last_update => Some(since),
            // Its log is to be as long as a log is at least.
            Bring::Backfill => Some(EVersion::ZERO),
            _ => None,
        };
        self.others().filter_map(of).min()
    }
    /// How a member comes to the state that the group goes on from.
    pub fn bring(&self, member: PgShard, info: &PgInfo) -> Bring {
        self.peers[&member].member.bring(info, self.targets.contains(&member))
    }
    /// A target has every object, and says so.
    pub fn filled(&mut self, member: PgShard) {
        self.targets.remove(&member);
    }
    /// How far a target is filled, with what it has by then.
    pub fn filled_to(&mut self, member: PgShard, last_backfill: HObject, stats: PgStat) {
        let info = &mut self.peers.get_mut(&member).expect("a target told what it has").member.info;
        (info.last_backfill, info.stats) = (last_backfill, stats);
    }
    /// A target is to be sent this version of an object.
    pub fn member_lacks(&mut self, member: PgShard, obj: &HObject, need: EVersion) {
        let item = PgMissingItem { need, clean_regions: ObjectCleanRegions::fully_dirty(), ..PgMissingItem::default() };
        let peer = self.peers.get_mut(&member).expect("a target told what it has");
        peer.member.missing.insert(obj, &item);
    }
    /// Other members of which it is known what they lack: those that writes go to, and former ones that told. Nothing else says what a member
    /// lacks: recovery notes here what they got.
    pub fn judged_members(&self) -> impl Iterator<Item = (PgShard, &Member)> {
        self.peers.iter().filter(|(_, peer)| peer.is_judged).map(|(member, peer)| (*member, &peer.member))
    }
    /// One of them.
    pub fn judged_member(&self, member: PgShard) -> Option<&Member> {
        self.peers.get(&member).filter(|peer| peer.is_judged).map(|peer| &peer.member)
    }
    /// A member does not lack this object any more.
    pub fn member_got(&mut self, member: PgShard, obj: &HObject, version: EVersion) {
        if let Some(peer) = self.peers.get_mut(&member).filter(|peer| peer.is_judged) {
            peer.member.missing.got(obj, version);
        }
    }
    /// A member's copy of an object is not to be relied on: it lacks it from now on. False if nothing is known of that member.
    pub fn lost_copy(&mut self, member: PgShard, obj: &HObject, item: &PgMissingItem) -> bool {
        let Some(peer) = self.peers.get_mut(&member).filter(|peer| peer.is_judged) else { return false };
        peer.member.missing.insert(obj, item);
        true
    }
    /// Members lack objects that they had.
    pub fn lacks_again(&mut self) {
        self.is_recovered = false;
    }
    /// Members that writes go to were sent the log up to here: what is known of each says so, as it will once it has done what it was sent.
    pub fn sent_to_members(&mut self, last_update: EVersion) {
        let members = &self.members;
        for (_, peer) in self.peers.iter_mut().filter(|(member, peer)| peer.is_judged && members.contains(member)) {
            peer.member.info.last_update = last_update;
        }
    }
    /// The log goes on by these entries, and no member has done what they say.
    pub fn tell_members(&mut self, entries: &[PgLogEntry]) {
        let members = self.members.clone();
        for (_, peer) in self.peers.iter_mut().filter(|(member, peer)| peer.is_judged && members.contains(member)) {
            let known = &mut peer.member;
            for entry in entries.iter().filter(|entry| entry.soid <= known.info.last_backfill) {
                known.missing.next_event(entry);
            }
        }
    }
    /// A member is down in a map of the same interval: what it had can't be had from it, nor when it is back without a word.
    pub fn is_gone(&mut self, member: PgShard) {
        if let Some(peer) = self.peers.get_mut(&member) {
            peer.is_judged = false;
        }
    }
    pub fn peer_mut(&mut self, member: PgShard) -> Option<&mut Peer> {
        self.peers.get_mut(&member)
    }
}
