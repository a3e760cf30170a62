//! Scrubbing: what the records say of each object is compared with what the store has, and everything is counted anew; a deep one reads every
//! byte.
//!
//! Goes a few objects a turn, in listing order. What changes behind the place that it has come to is added to what it counted, so that the
//! sums agree at the end whatever clients did meanwhile. Comparing with other members is not here yet.

use super::Pg;
use super::stats::contribution;
use crate::event::{Effect, Level};
use crate::op::PlanStop;
use crate::shared::Cx;
use crate::work::{Status, Work};
use store::StoreError;
use types::{GHObject, HObject, ObjectStatSum, pg_state};

/// Objects looked at in one turn, and bytes read in one by a deep scrub.
const PAGE: usize = 128;
const TURN_BYTES: u64 = 8 << 20;

/// A scrub under way.
#[derive(Debug)]
pub struct Scrub {
    deep: bool,
    /// The next object.
    at: GHObject,
    /// How far of it a deep scrub has read.
    offset: u64,
    /// What is read next is to come from the devices, and the store was told so.
    forgotten: bool,
    sum: ObjectStatSum,
    objects: i64,
    errors: i64,
    started_ns: u64,
    /// What was counted may be off.
    disturbed: bool,
    work: Work,
}

/// What stops a scrub at an object.
enum Stop {
    /// The turn is over.
    Turn,
    Store(StoreError),
    Damage(String),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Wait(_) => Self::Store(error),
            other => Self::Damage(format!("can't be read: {other}")),
        }
    }
}

impl Scrub {
    pub fn work(&self) -> Work {
        self.work
    }
    pub fn work_mut(&mut self) -> &mut Work {
        &mut self.work
    }
    /// An object was changed by a request. A head comes behind its clones.
    pub fn changed(&mut self, head: &HObject, by: &ObjectStatSum) {
        if *head < self.at.hobj {
            self.sum += by;
        } else if self.at.hobj.head() == *head {
            // Some of its clones may be counted already.
            self.disturbed = true;
        }
    }
}

impl Pg {
    /// A scrub is asked for: begun by the next tick.
    pub fn want_scrub(&mut self, deep: bool) {
        self.scrub_wanted = Some(self.scrub_wanted.unwrap_or(false) || deep);
    }
    pub(super) fn scrub_bits(&self) -> u64 {
        match &self.scrub {
            Some(scrub) if scrub.deep => pg_state::SCRUBBING | pg_state::DEEP_SCRUB,
            Some(_) => pg_state::SCRUBBING,
            None => 0,
        }
    }

    pub(super) fn scrub_status(&self) -> Option<Status> {
        let scrub = self.scrub.as_ref()?;
        let progress = format!("{} objects looked at, {} errors", scrub.objects, scrub.errors);
        Some(Status { what: if scrub.deep { "deep-scrub" } else { "scrub" }, pgid: Some(self.pgid), work: scrub.work, progress })
    }

    pub(super) fn start_scrub(&mut self, cx: &mut Cx<'_>) {
        if self.scrub.is_none()
            && self.peering.is_active()
            && let Some(deep) = self.scrub_wanted.take()
        {
            self.scrub = Some(Scrub {
                deep,
                at: GHObject::min(),
                offset: 0,
                forgotten: false,
                sum: ObjectStatSum::default(),
                objects: 0,
                errors: 0,
                started_ns: cx.clock.wall_ns,
                disturbed: false,
                work: Work::Busy,
            });
            self.scrub_turn(cx);
        }
    }

    /// One turn of it.
    pub(super) fn scrub_turn(&mut self, cx: &mut Cx<'_>) {
        let Some(mut scrub) = self.scrub.take_if(|scrub| scrub.work.is_busy()) else { return };
        match self.scrub_step(&mut scrub, cx) {
            Ok(Work::Done) => self.scrub_done(scrub, cx),
            Ok(work) => {
                scrub.work = work;
                self.scrub = Some(scrub);
            }
            Err(error @ StoreError::Wait(_)) => {
                scrub.work = Work::stopped(&error);
                self.scrub = Some(scrub);
            }
            Err(error) => {
                let text = format!("{} scrub: {error}", self.pgid);
                cx.out.push(Effect::ClusterLog { level: Level::Error, text });
            }
        }
    }

    /// Done when it is through.
    fn scrub_step(&self, scrub: &mut Scrub, cx: &mut Cx<'_>) -> Result<Work, StoreError> {
        let page = cx.sh.store.list(self.coll, &scrub.at, &GHObject::max(), PAGE)?;
        let mut bytes = 0;
        for (i, obj) in page.objects.iter().enumerate() {
            if scrub.at != *obj {
                (scrub.at, scrub.offset, scrub.forgotten) = (obj.clone(), 0, false);
            }
            let damage = match self.scrub_object(obj, scrub, &mut bytes, cx) {
                Ok(()) => None,
                Err(Stop::Turn) => return Ok(Work::Busy),
                Err(Stop::Damage(text)) => Some(text),
                Err(Stop::Store(error)) => return Err(error),
            };
            if let Some(damage) = damage {
                scrub.errors += 1;
                let kind = if scrub.deep { "deep-scrub" } else { "scrub" };
                let text = format!("{} {kind} : {} {damage}", self.pgid, obj.hobj);
                cx.out.push(Effect::ClusterLog { level: Level::Error, text });
            }
            scrub.objects += 1;
            (scrub.offset, scrub.forgotten) = (0, false);
            if let Some(next) = page.objects.get(i + 1).or(page.next.as_ref()) {
                scrub.at = next.clone();
            } else {
                scrub.at = GHObject::max();
            }
        }
        Ok(if page.next.is_none() { Work::Done } else { Work::Busy })
    }

    /// Looks at one object.
    fn scrub_object(&self, obj: &GHObject, scrub: &mut Scrub, bytes: &mut u64, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let ctx = match crate::op::load_object(&*cx.sh.store, self.coll, &obj.hobj) {
            Ok(ctx) => ctx,
            Err(PlanStop::Wait(ticket)) => return Err(Stop::Store(StoreError::Wait(ticket))),
            Err(other) => return Err(Stop::Damage(format!("has a damaged record: {other:?}"))),
        };
        let size = cx.sh.store.stat(self.coll, obj)?.size;
        while scrub.deep && scrub.offset < size {
            if *bytes >= TURN_BYTES {
                return Err(Stop::Turn);
            }
            let len = (size - scrub.offset).min(1 << 20);
            if !std::mem::replace(&mut scrub.forgotten, true) {
                cx.sh.store.forget(self.coll, obj, scrub.offset, len);
            }
            cx.sh.store.read(self.coll, obj, scrub.offset, len)?;
            (scrub.offset, scrub.forgotten) = (scrub.offset + len, false);
            *bytes += len;
        }
        if ctx.exists {
            contribution(&ctx, &mut scrub.sum);
        }
        match ctx.exists && ctx.info.size == size {
            true => Ok(()),
            false => Err(Stop::Damage(format!("is {size} bytes long, its record says {}", ctx.info.size))),
        }
    }

    fn scrub_done(&mut self, scrub: Scrub, cx: &mut Cx<'_>) {
        let Scrub { deep, errors, objects, sum: counted, started_ns, disturbed, .. } = scrub;
        let name = if deep { "deep-scrub" } else { "scrub" };
        let sum = &mut self.info.stats.stats.sum;
        let agrees = (sum.num_objects, sum.num_bytes) == (counted.num_objects, counted.num_bytes);
        if !agrees && disturbed {
            return self.want_scrub(deep);
        }
        if !agrees {
            let text = format!(
                "{} {name} : stat mismatch, got {}/{} objects, {}/{} bytes.",
                self.pgid, counted.num_objects, sum.num_objects, counted.num_bytes, sum.num_bytes
            );
            cx.out.push(Effect::ClusterLog { level: if self.info.stats.stats_invalid { Level::Info } else { Level::Error }, text });
        }
        sum.num_objects = counted.num_objects;
        sum.num_bytes = counted.num_bytes;
        sum.num_object_clones = counted.num_object_clones;
        sum.num_objects_dirty = counted.num_objects_dirty;
        sum.num_objects_omap = counted.num_objects_omap;
        sum.num_whiteouts = counted.num_whiteouts;
        sum.num_scrub_errors = errors;
        if deep {
            sum.num_deep_scrub_errors = errors;
        } else {
            sum.num_shallow_scrub_errors = errors;
        }
        self.info.stats.stats_invalid = false;
        let (now, h) = (cx.now(), &mut self.info.history);
        (h.last_scrub, h.last_scrub_stamp) = (self.info.last_update, now);
        if deep {
            (h.last_deep_scrub, h.last_deep_scrub_stamp) = (self.info.last_update, now);
        }
        if errors == 0 {
            h.last_clean_scrub_stamp = now;
        }
        self.info.stats.objects_scrubbed = objects;
        let took_s = cx.clock.wall_ns.saturating_sub(started_ns) as f64 * 1e-9;
        self.info.stats.last_scrub_duration_s = took_s.ceil().max(1.0) as _;
        self.info.stats.scrub_duration_s = took_s;
        let text = format!("{} {name} {}", self.pgid, if errors == 0 { "ok".into() } else { format!("{errors} errors") });
        cx.out.push(Effect::ClusterLog { level: if errors == 0 { Level::Debug } else { Level::Error }, text });
        cx.sh.report_soon = true;
        self.save_info(cx);
    }
}
