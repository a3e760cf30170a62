//! From the first login to the boot, and what is owed after it: the version to present, the OSD's class and place in the CRUSH map, and
//! groups that went with a store in memory.
//!
//! ```text
//!   Login ── session, map of monitors, secrets ──> Placing ── each command answered, or too late ──> Booting
//!                                                                                                       │ up for the first time
//!   Done <── each command answered ── Emptying <── STRAYS ── Strays <── a store is lost, --start-empty ─┤
//!    ^──────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

use super::Daemon;
use super::event::Effect;
use super::presented::{self, Presented};
use crate::event::{BootInfo, Event as OsdEvent, Level};
use base::{Clock, Stamp};
use bytes::Bytes;
use objecter::monc::Request;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use types::errno::{EBUSY, EOPNOTSUPP};
use types::{UTime, Uuid, features};

/// How long the monitor may take for a command of ours: an election may be under way.
const COMMAND: Duration = Duration::from_secs(60);
/// How long others may take to say that they have groups of ours.
const STRAYS: Duration = Duration::from_secs(3);
/// How long logins are tried again that a monitor refuses: our key may be on its way to it.
const REFUSALS: Duration = Duration::from_secs(10);

/// What an OSD starts with, beside its store and its name.
#[derive(Debug, Clone, Default)]
pub struct StartSetup {
    /// Where it listens, and what the monitor is told of it.
    pub boot: BootInfo,
    /// The cluster that the store belongs to: the monitor of another one is refused. `None`: it belongs to none yet.
    pub cluster_fsid: Option<Uuid>,
    /// The device class to set; `None`: as it is.
    pub device_class: Option<String>,
    /// The place in the CRUSH map to take; `None`: as it is.
    pub location: Option<Location>,
    /// Groups of which this OSD had the only copy, in a store that is gone, are made anew and empty.
    pub start_empty: bool,
}

/// A place in the CRUSH map.
#[derive(Debug, Clone, Default)]
pub struct Location {
    /// In TiB, as CRUSH weights are.
    pub weight: f64,
    /// `host=a`, `root=default`.
    pub args: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Login,
    Placing,
    Booting,
    Strays { until: Stamp },
    Emptying { made: u32 },
    Done,
}

/// A command that has no answer yet.
#[derive(Debug)]
struct Asked {
    tid: u64,
    prefix: String,
    since: Stamp,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Start {
    pub setup: StartSetup,
    stage: Stage,
    since: Stamp,
    /// There was a session with a monitor.
    pub logged_in: bool,
    /// Commands to send, one after the other.
    commands: VecDeque<Value>,
    asked: Option<Asked>,
    /// The version that a monitor said last.
    presented: Option<Presented>,
    /// A boot waits until the version is known: then the monitors' range of maps is asked again.
    boot_waits: bool,
}

impl Start {
    pub fn new(setup: StartSetup) -> Self {
        Self {
            setup,
            stage: Stage::Login,
            since: Stamp(0),
            logged_in: false,
            commands: VecDeque::new(),
            asked: None,
            presented: None,
            boot_waits: false,
        }
    }
    /// True while a monitor's version is on its way. A question without its answer is asked again in a new session.
    fn asks_version(&self) -> bool {
        let queued = self.commands.iter().any(|cmd| cmd["prefix"] == presented::COMMAND);
        queued || self.asked.as_ref().is_some_and(|asked| asked.prefix == presented::COMMAND)
    }
    pub fn begin(&mut self, now: Stamp) {
        self.since = now;
    }
    /// When there is something to do without an event.
    pub fn wake_at(&self) -> Option<Stamp> {
        match self.stage {
            Stage::Strays { until } => Some(until),
            _ => self.asked.as_ref().map(|asked| asked.since + COMMAND),
        }
    }
}

impl Daemon {
    /// Goes as far as it can be gone now.
    pub(super) fn go_on_starting(&mut self, now: Clock, out: &mut Vec<Effect>) {
        match self.start.stage {
            Stage::Login => self.log_in(now, out),
            Stage::Strays { until } if until <= now.mono => self.begin_empty(now, out),
            Stage::Placing | Stage::Emptying { .. } | Stage::Strays { .. } | Stage::Booting | Stage::Done => self.next_command(now, out),
        }
    }

    /// A session with a monitor is open, perhaps with another one or one that was upgraded.
    pub(super) fn ask_version(&mut self, now: Clock, out: &mut Vec<Effect>) {
        // The login asks by itself.
        if self.start.stage != Stage::Login && self.knows_squid() && !self.start.asks_version() {
            self.start.commands.push_front(json!({ "prefix": presented::COMMAND }));
            self.next_command(now, out);
        }
    }
    /// A monitor of 18.2 is not asked for its version.
    fn knows_squid(&self) -> bool {
        features::has(self.monitor.supported, features::SERVER_SQUID)
    }
    /// Whether the monitors' range of maps, on which an OSD boots, comes before the version that it boots with. Then it is asked again.
    pub(super) fn boot_waits_for_version(&mut self) -> bool {
        let waits = self.start.asks_version() && !self.osd.is_active();
        self.start.boot_waits |= waits;
        waits
    }

    fn log_in(&mut self, now: Clock, out: &mut Vec<Effect>) {
        let secrets = self.monitor.client.has_rotating(UTime::from_wall_ns(now.wall_ns));
        let theirs = self.monitor.client.fsid().filter(|fsid| !fsid.is_zero());
        let Some(theirs) = theirs.filter(|_| self.start.logged_in && secrets) else {
            let (errno, waited) = (self.monitor.denied, now.mono.since(self.start.since));
            if errno != 0 && waited > REFUSALS {
                let hint = if errno == EOPNOTSUPP { ": the monitor may demand `secure`, see ms_mon_cluster_mode" } else { "" };
                self.stop(Some(format!("the monitor refuses its login (errno {errno}){hint}")), out);
            }
            return;
        };
        if let Some(ours) = self.start.setup.cluster_fsid.filter(|ours| *ours != theirs) {
            return self.stop(Some(format!("its folder belongs to cluster {ours}, the monitor is of {theirs}")), out);
        }
        let id = self.osd.whoami();
        if self.knows_squid() {
            self.start.commands.push_back(json!({ "prefix": presented::COMMAND }));
        }
        if let Some(class) = &self.start.setup.device_class {
            let cmd = json!({ "prefix": "osd crush set-device-class", "class": class, "ids": [id.to_string()] });
            self.start.commands.push_back(cmd);
        }
        if let Some(Location { weight, args }) = &self.start.setup.location {
            self.start.commands.push_back(json!({ "prefix": "osd crush create-or-move", "id": id, "weight": weight, "args": args }));
        }
        self.start.stage = Stage::Placing;
        self.next_command(now, out);
    }

    /// Sends the next command if none is without its answer; after the last one, what they were for follows.
    fn next_command(&mut self, now: Clock, out: &mut Vec<Effect>) {
        if self.start.asked.is_some() {
            return;
        }
        if !self.start.asks_version() && std::mem::take(&mut self.start.boot_waits) {
            self.ask_map_versions(now, out);
        }
        let Some(cmd) = self.start.commands.pop_front() else {
            match self.start.stage {
                Stage::Placing => {
                    self.start.stage = Stage::Booting;
                    self.later.push_back(OsdEvent::Boot(Box::new(self.start.setup.boot.clone())));
                }
                Stage::Emptying { made } => {
                    self.start.stage = Stage::Done;
                    let text = format!("the last run's objects were in memory and are gone: {made} placement groups start empty");
                    self.cluster_log(Level::Warn, text, now, out);
                }
                _ => {}
            }
            return;
        };
        let prefix = cmd["prefix"].as_str().unwrap_or_default().to_string();
        let tid = self.ask_monitor(Request::Command { cmd: vec![cmd.to_string()], input: Bytes::new() }, now, out);
        self.start.asked = Some(Asked { tid, prefix, since: now.mono });
    }
    pub(super) fn command_answered(&mut self, tid: u64, result: i32, status: &str, output: &[u8], now: Clock, out: &mut Vec<Effect>) {
        let Some(asked) = self.start.asked.take_if(|asked| asked.tid == tid) else { return };
        // A device class that was set already stays: EBUSY.
        if result < 0 && result != -EBUSY {
            out.push(Effect::Log { level: Level::Warn, text: format!("{}: {status} ({result})", asked.prefix) });
        } else if asked.prefix == presented::COMMAND {
            self.present(output, out);
        } else if let Stage::Emptying { made } = &mut self.start.stage {
            *made += 1;
        }
        self.next_command(now, out);
    }
    /// The OSD boots as one of its cluster's version, the next time if it is up.
    fn present(&mut self, answer: &[u8], out: &mut Vec<Effect>) {
        let Some(version) = Presented::parse(answer) else {
            let theirs = String::from_utf8_lossy(answer);
            let text = format!("the monitor's version is not one that this OSD can present: {:?}", theirs.trim());
            out.push(Effect::Log { level: Level::Warn, text });
            return;
        };
        version.put(&mut self.start.setup.boot.metadata);
        let before = self.start.presented.replace(version.clone());
        if self.start.stage == Stage::Placing || before.as_ref() == Some(&version) {
            return;
        }
        self.later.push_back(OsdEvent::Boot(Box::new(self.start.setup.boot.clone())));
        let before = before.unwrap_or_else(Presented::unasked);
        if let Some(text) = before.rises_to(&version, self.osd.whoami()).filter(|_| self.osd.is_active()) {
            out.push(Effect::Log { level: Level::Info, text });
        }
    }
    /// Time passes: an answer may be too late.
    pub(super) fn start_tick(&mut self, now: Clock, out: &mut Vec<Effect>) {
        if let Some(asked) = self.start.asked.take_if(|asked| now.mono.since(asked.since) >= COMMAND) {
            self.monitor.client.cancel(asked.tid);
            out.push(Effect::Log { level: Level::Warn, text: "the monitor doesn't answer commands".into() });
        }
        self.go_on_starting(now, out);
    }

    /// The monitor has us up.
    pub(super) fn booted(&mut self, now: Clock, out: &mut Vec<Effect>) {
        if self.start.stage != Stage::Booting {
            return;
        }
        self.start.stage = Stage::Done;
        if !self.osd.lost_its_store() {
            return;
        }
        if self.start.setup.start_empty {
            // A peer that has some of a group says so when the map shows us up: such a group is not lost.
            self.start.stage = Stage::Strays { until: now.mono + STRAYS };
        } else {
            let text = "the last run's objects were in memory and are gone; `ceph osd force-create-pg` makes groups anew, --start-empty all of them";
            out.push(Effect::Log { level: Level::Warn, text: text.into() });
        }
    }
    /// Makes groups anew of which we had the only copy, and had it in a store that is gone.
    fn begin_empty(&mut self, now: Clock, out: &mut Vec<Effect>) {
        let lost = self.osd.lost_groups();
        self.start.stage = if lost.is_empty() { Stage::Done } else { Stage::Emptying { made: 0 } };
        let make = |pgid: &types::PgId| json!({ "prefix": "osd force-create-pg", "pgid": pgid.to_string(), "yes_i_really_mean_it": true });
        self.start.commands.extend(lost.iter().map(make));
        self.next_command(now, out);
    }
}
