//! What clients, operators and the OSD want of a group: each goes to the owner that does it.

use super::Pg;
use super::members::peering::Mapping;
use super::record::Record;
use super::work::unfound::GiveUp;
use crate::op::fetch::{Got, Wanted};
use crate::request::ClientOp;
use crate::reserver::News;
use crate::shared::{Cx, Shared};
use maps::OsdMap;
use types::{Epoch, HObject, IntervalSet, ReqId};

impl Pg {
    /// Takes one request as far as it goes now: answered, submitted, waiting, or dropped.
    pub fn client_op(&mut self, op: Box<ClientOp>, cx: &mut Cx<'_>) {
        self.requests.client_op(op, &mut self.work, &mut self.group, cx);
    }
    /// Whether that request still waits for other objects.
    pub(crate) fn wants_fetched(&self, obj: &HObject, reqid: ReqId) -> bool {
        self.requests.wants_fetched(obj, reqid)
    }
    /// What was wanted of other objects has come, or can't be had.
    pub(crate) fn fetched(&mut self, obj: &HObject, reqid: ReqId, result: Result<(Wanted, Got), i32>, cx: &mut Cx<'_>) {
        self.requests.fetched(obj, reqid, result, &mut self.work, &mut self.group, cx);
    }
    /// A map bars addresses: watches of theirs end.
    pub fn end_blocklisted_watches(&mut self, cx: &mut Cx<'_>) {
        self.requests.end_blocklisted_watches(&mut self.work, &mut self.group, cx);
    }

    /// A turn for what the group does by itself, and for requests that take more than one.
    pub fn turn(&mut self, cx: &mut Cx<'_>) {
        self.work.turn(&mut self.requests, &mut self.group, cx);
    }
    /// Time passes for recovery that sleeps.
    pub(crate) fn wake_recovery(&mut self, cx: &mut Cx<'_>) {
        self.work.wake_recovery(&mut self.requests, &mut self.group, cx);
    }
    /// Our OSD has a place for the group, of which we are the primary (`is_local`) or another OSD is; or it takes it back.
    pub(crate) fn place_news(&mut self, is_local: bool, news: News, cx: &mut Cx<'_>) {
        self.work.place_news(is_local, news, &mut self.requests, &mut self.group, cx);
    }
    /// The group is over.
    pub(crate) fn end_places(&mut self, sh: &mut Shared) {
        self.work.end_places(&self.group, sh);
    }
    /// An operator wants the group recovered or filled before others, or no longer.
    pub(crate) fn force(&mut self, options: u8, cx: &mut Cx<'_>) {
        self.work.force(options, &self.group, cx);
    }
    /// A scrub is asked for: begun by the next tick.
    pub(crate) fn want_scrub(&mut self, deep: bool, repair: bool) {
        self.work.scrubs_mut().want(deep, repair);
    }
    /// Gives up every object that is not found. How many, or why that can't be done now.
    pub(crate) fn give_up_unfound(&mut self, how: GiveUp, cx: &mut Cx<'_>) -> Result<usize, String> {
        self.work.give_up_unfound(how, &mut self.requests, &mut self.group, cx)
    }
    /// Snapshots were purged everywhere while this OSD was away: they are looked for here.
    pub(crate) fn purged(&mut self, snaps: &IntervalSet) {
        self.work.purged(snaps);
    }

    /// The OSD starts with this group. Another member may serve still, by what an earlier life of ours granted or acknowledged.
    pub(crate) fn resume_lease(&mut self, cx: &Cx<'_>) {
        self.group.members.resume_lease(&self.group.pool, cx);
    }
    /// What happened in maps that no OSD has any more can't be known: another interval begins with the one of this map.
    pub(crate) fn start_after_gap(&mut self, mapping: Mapping, map: &OsdMap, cx: &Cx<'_>) {
        self.group.members.peering.start_interval(&mut self.group.record, mapping, map, cx.clock.mono);
    }
    /// The group was made in the midst of an interval that began with this map: messages of all of it count.
    pub(crate) fn follow_since(&mut self, since: Epoch) {
        self.group.members.peering.follow_since(since);
    }
    /// The record is written anew if it names a map more than `lag` epochs old.
    pub(crate) fn refresh_record(&mut self, lag: Epoch, cx: &mut Cx<'_>) {
        self.group.refresh_record(lag, cx);
    }
    /// For its shard, which splits and merges groups: the record is told what can't be had any more.
    pub(crate) fn record_mut(&mut self) -> &mut Record {
        &mut self.group.record
    }
}
