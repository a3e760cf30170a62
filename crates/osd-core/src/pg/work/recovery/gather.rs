//! An object that we lack, on its way here: which members send it, and what of the part under way they have sent.
//!
//! ```text
//!            pulls to each source                       the last source's answer
//!   asked ─────────────────────────▶ some have answered ─────────────────────────▶ a part to apply ── more ──▶ asked
//! ```
//!
//! How many sources an object has, and how their answers make a part of it, is the back end's ([`Layout::sources`], [`Layout::join`]). Holds no store.

use crate::pg::backend::layout::Layout;
use messages::{ObjectRecoveryInfo, ObjectRecoveryProgress, PullOp, PushOp};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use types::{HObject, PgShard};

/// See the module.
#[derive(Debug)]
pub(super) struct Gathering {
    sources: BTreeSet<PgShard>,
    pub info: ObjectRecoveryInfo,
    /// How far the object is here.
    pub progress: ObjectRecoveryProgress,
    /// Answers that are here, while others are not; of several sources only.
    answers: BTreeMap<PgShard, PushOp>,
}

impl Gathering {
    pub fn new(sources: BTreeSet<PgShard>, info: ObjectRecoveryInfo, progress: ObjectRecoveryProgress) -> Self {
        Self { sources, info, progress, answers: BTreeMap::new() }
    }
    pub fn sources(&self) -> impl Iterator<Item = PgShard> {
        self.sources.iter().copied()
    }
    /// The next question to each source.
    pub fn pull(&self, obj: &HObject) -> PullOp {
        PullOp { soid: obj.clone(), recovery_info: self.info.clone(), recovery_progress: self.progress.clone() }
    }
    /// A source answers. A part of the object once all of them have, nothing before; until [`Gathering::applied`] the same answer may come again.
    ///
    /// # Errors
    /// The source does not have the object, or the sources' answers make no part of it.
    pub fn answered<'a>(&mut self, from: PgShard, push: &'a PushOp, layout: Layout) -> Result<Option<Cow<'a, PushOp>>, String> {
        if !self.sources.contains(&from) {
            return Ok(None);
        }
        let other = push.version != self.info.version;
        // An object without an omap is told so: ours is to go.
        let mut before = push.before_progress.clone();
        before.omap_complete |= self.progress.first && self.progress.omap_complete;
        if other || before != self.progress {
            return Err("it does not have it".into());
        }
        if self.sources.len() == 1 {
            return Ok(Some(Cow::Borrowed(push)));
        }
        self.answers.insert(from, push.clone());
        if self.answers.len() < self.sources.len() {
            return Ok(None);
        }
        layout.join(&self.answers).map(|part| Some(Cow::Owned(part)))
    }
    /// The part is here; the next one begins behind it.
    pub fn applied(&mut self, info: ObjectRecoveryInfo, progress: ObjectRecoveryProgress) {
        (self.info, self.progress) = (info, progress);
        self.answers.clear();
    }
}
