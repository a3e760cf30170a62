//! The list of a group's jobs: when each may go on, its turn, and its row among the work that is shown.
//!
//! | job | goes on | is |
//! |---|---|---|
//! | recovery, and backfill behind it | always | [`super::recovery`], [`super::backfill`] |
//! | the map of a chunk that our primary asked for | always | [`super::scrub`] |
//! | a scrub; the inspection of a name | while the group serves and no member lacks an object; an inspection also then | [`super::scrub`] |
//! | trimming of snapshots | while the group serves and no member lacks an object | [`super::trim`] |
//!
//! Another job is a variant, and an arm wherever the compiler asks for one. Removal of a whole group is its shard's: the group is gone by
//! then.

use super::Jobs;
use crate::pg::group::Group;
use crate::pg::requests::Requests;
use crate::shared::Cx;
use crate::work::{Status, Work};

/// A group's jobs, in the order of a turn.
#[derive(Debug, Clone, Copy)]
enum Job {
    Recovery,
    Asked,
    Scrub,
    Trim,
}

const ALL: [Job; 4] = [Job::Recovery, Job::Asked, Job::Scrub, Job::Trim];

impl Jobs {
    /// A job's own state, whether or not it may go on.
    fn state(&self, job: Job) -> Work {
        match job {
            Job::Recovery => self.kept.work(),
            Job::Asked => self.scrubs.asked_work(),
            Job::Scrub => self.scrubs.work(),
            Job::Trim => self.trim.work(),
        }
    }
    fn state_mut(&mut self, job: Job) -> Option<&mut Work> {
        match job {
            Job::Recovery => Some(self.kept.work_mut()),
            Job::Asked => self.scrubs.asked_work_mut(),
            Job::Scrub => self.scrubs.work_mut(),
            Job::Trim => Some(self.trim.work_mut()),
        }
    }
    /// Scrub and trimming look at objects that every member has.
    fn may_go_on(&self, job: Job, group: &Group) -> bool {
        let peering = &group.members.peering;
        match job {
            Job::Recovery | Job::Asked => true,
            Job::Scrub => peering.is_active() && (self.scrubs.is_inspecting() || !peering.is_lacking(&group.record)),
            Job::Trim => peering.is_active() && !peering.is_lacking(&group.record),
        }
    }
    fn is_busy(&self, job: Job, group: &Group) -> bool {
        self.state(job).is_busy() && self.may_go_on(job, group)
    }
    fn job_turn(&mut self, job: Job, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        match job {
            Job::Recovery => self.recover(requests, group, cx, |recovery, host| recovery.turn(host)),
            Job::Asked => self.scrubbing(requests, group, cx).make_map(),
            Job::Scrub => self.scrubbing(requests, group, cx).turn(),
            Job::Trim => self.trim_turn(requests, group, cx),
        }
    }
    fn status(&self, job: Job, group: &Group) -> Option<Status> {
        match job {
            Job::Recovery => self.kept.status(group.pgid),
            Job::Asked => None,
            Job::Scrub => self.scrubs.status(group.pgid),
            Job::Trim if group.members.peering.is_active() => self.trim.status(group.pgid, group.record.info().stats.objects_trimmed),
            Job::Trim => None,
        }
    }

    /// All jobs together: busy if one of them is, else the first that is not idle.
    pub fn work(&self, requests: &Requests, group: &Group) -> Work {
        if requests.want_turn() || ALL.into_iter().any(|job| self.is_busy(job, group)) {
            return Work::Busy;
        }
        let rest = ALL.into_iter().map(|job| self.state(job)).filter(|work| !work.is_busy());
        rest.into_iter().find(|work| *work != Work::Idle).unwrap_or(Work::Idle)
    }
    pub(crate) fn work_status(&self, group: &Group) -> impl Iterator<Item = Status> {
        ALL.into_iter().filter_map(|job| self.status(job, group))
    }
    /// Parts of it that wait may go on.
    pub fn wake_work(&mut self, wake: impl Fn(&mut Work), requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        ALL.into_iter().for_each(|job| self.state_mut(job).into_iter().for_each(&wake));
        cx.sh.turns.want(self.work(requests, group));
    }
    /// A turn for what the group does by itself, and for requests that take more than one.
    pub fn turn(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        requests.requests_turn(self, group, cx);
        for job in ALL {
            if self.is_busy(job, group) {
                self.job_turn(job, requests, group, cx);
            }
        }
    }
}
