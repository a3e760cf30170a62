//! Registering an OSD: what is asked of the monitor with a key that may, before the OSD itself logs in.
//!
//! A store in memory is gone with its process, so an OSD with a new store that the map knows by another uuid has lost its data: it is destroyed in
//! the map, and comes back as a new OSD with the same number, never as the old one. With a store that was there before, it is a mistake.
//!
//! ```text
//!   osd new ── done ──────────────────────────────────────────────> known
//!      │ EEXIST, the store is new
//!   osd down ──> osd destroy-actual ── done ──> osd new ── done ──> known, and what was there is lost
//!                  ^ EBUSY, 30 times │
//!                  └─────────────────┘ half a second
//! ```

use bytes::Bytes;
use serde_json::json;
use std::time::Duration;
use types::errno::{EBUSY, EEXIST};
use types::{OsdId, Uuid};

/// An OSD that seemed to be up may be destroyed when the map has it down.
const PAUSE: Duration = Duration::from_millis(500);
const TRIES: u32 = 30;

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A command, as JSON, with its input; its answer goes to [`Registration::answered`].
    Ask { cmd: String, input: Bytes },
    /// The same, after a pause.
    AskAfter { pause: Duration, cmd: String },
    /// The map knows the OSD. `lost`: it knew another uuid, whose data are gone.
    Known { lost: bool },
    /// It can't be registered.
    Failed { why: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Down,
    Destroy { tries: u32 },
    NewAgain,
}

/// See the module.
#[derive(Debug)]
pub struct Registration {
    osd: OsdId,
    osd_fsid: Uuid,
    /// Input of `osd new`: the key that the monitor shall know. Destroying an OSD takes its key away.
    secrets: Bytes,
    store_is_new: bool,
    stage: Stage,
}

impl Registration {
    /// `key`: the OSD's, in base64; `None` without authentication. And the first step.
    pub fn begin(osd: OsdId, osd_fsid: Uuid, key: Option<String>, store_is_new: bool) -> (Self, Step) {
        let secrets = key.map_or(Bytes::new(), |key| json!({ "cephx_secret": key }).to_string().into());
        let it = Self { osd, osd_fsid, secrets, store_is_new, stage: Stage::New };
        let step = it.ask_new();
        (it, step)
    }
    fn ask_new(&self) -> Step {
        let cmd = json!({ "prefix": "osd new", "uuid": self.osd_fsid.to_string(), "id": self.osd.to_string() });
        Step::Ask { cmd: cmd.to_string(), input: self.secrets.clone() }
    }
    fn destroy(&self) -> String {
        json!({ "prefix": "osd destroy-actual", "id": self.osd, "yes_i_really_mean_it": true }).to_string()
    }
    /// Takes the answer to the last command: a positive or no result, or a negative errno, and its line.
    pub fn answered(&mut self, result: i32, status: &str) -> Step {
        let failed = |what: &str| Step::Failed { why: format!("{what}: {status} ({result})") };
        match self.stage {
            Stage::New | Stage::NewAgain if result >= 0 => Step::Known { lost: self.stage == Stage::NewAgain },
            Stage::New if result == -EEXIST && self.store_is_new => {
                self.stage = Stage::Down;
                // If that OSD still seems to be up, its socket is gone and it soon won't.
                let cmd = json!({ "prefix": "osd down", "ids": [self.osd.to_string()] }).to_string();
                Step::Ask { cmd, input: Bytes::new() }
            }
            Stage::New if result == -EEXIST => {
                let (osd, fsid) = (self.osd, self.osd_fsid);
                Step::Failed { why: format!("the cluster knows osd.{osd} by another uuid than that of its folder, {fsid}: {status}") }
            }
            Stage::New | Stage::NewAgain => failed("osd new"),
            Stage::Down => {
                self.stage = Stage::Destroy { tries: 1 };
                Step::Ask { cmd: self.destroy(), input: Bytes::new() }
            }
            Stage::Destroy { tries } if result == -EBUSY && tries < TRIES => {
                self.stage = Stage::Destroy { tries: tries + 1 };
                Step::AskAfter { pause: PAUSE, cmd: self.destroy() }
            }
            Stage::Destroy { .. } if result >= 0 => {
                self.stage = Stage::NewAgain;
                self.ask_new()
            }
            Stage::Destroy { .. } => failed("osd destroy"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(store_is_new: bool) -> (Registration, Step) {
        Registration::begin(4, Uuid([3; 16]), Some("AQ==".into()), store_is_new)
    }
    fn asks(step: &Step, word: &str) -> bool {
        matches!(step, Step::Ask { cmd, .. } | Step::AskAfter { cmd, .. } if cmd.contains(word))
    }

    #[test]
    fn a_new_number_or_one_that_is_ours_is_known_at_once() {
        let (mut it, step) = begin(false);
        assert!(asks(&step, "osd new") && matches!(&step, Step::Ask { input, .. } if input == r#"{"cephx_secret":"AQ=="}"#));
        assert_eq!(it.answered(4, ""), Step::Known { lost: false });
    }
    #[test]
    fn one_whose_data_are_gone_is_destroyed_and_comes_back_with_its_key() {
        let (mut it, first) = begin(true);
        let down = it.answered(-EEXIST, "");
        assert!(asks(&down, "osd down"));
        assert!(asks(&it.answered(-1, "it is down already"), "destroy"));
        for _ in 0..3 {
            assert!(matches!(it.answered(-EBUSY, "still up"), Step::AskAfter { .. }));
        }
        assert_eq!(it.answered(0, ""), first);
        assert_eq!(it.answered(0, ""), Step::Known { lost: true });
    }
    #[test]
    fn what_is_somebody_elses_stays() {
        let (mut it, _) = begin(false);
        assert!(matches!(it.answered(-EEXIST, "no"), Step::Failed { why } if why.contains("another uuid")));
        let (mut it, _) = begin(true);
        assert_eq!(it.answered(-13, "denied"), Step::Failed { why: "osd new: denied (-13)".into() });
        let (mut it, _) = begin(true);
        it.answered(-EEXIST, "");
        it.answered(0, "");
        let mut asked = 1;
        while let Step::AskAfter { .. } = it.answered(-EBUSY, "up") {
            asked += 1;
        }
        assert_eq!(asked, TRIES);
    }
}
