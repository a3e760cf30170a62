//! The command framework: what a command is, how a request finds it, which capability it needs, and what comes back.
//!
//! Each family of commands is a file with a table `COMMANDS`; [`FAMILIES`] lists the tables. The same table answers
//! `get_command_descriptions`, so a command that can't be run is never announced.

mod args;
mod out;
mod registry;
mod sig;

pub use args::{Args, parse_osd};
pub use out::{Reply, dump, pretty};
pub use registry::Registry;
pub use sig::{Param, Signature, params_of, prefix_of};

pub use absent::reason as reason_of_absence;

use crate::{ConnId, Mon};
use base::Clock;
use bytes::Bytes;

mod absent;
mod auth;
mod auth_ciphers;
mod basic;
pub use basic::mon_status;
mod config;
mod config_key;
mod config_show;
mod daemons;
mod fs;
mod fs_authorize;
mod fs_mirror;
mod fs_set;
mod fs_show;
mod fs_volume;
mod log;
mod mds;
mod mds_seen;
mod mgr_control;
mod mgr_status;
mod mon_alone;
mod mon_map;
mod osd_blocklist;
mod osd_crush;
mod osd_crush_convert;
mod osd_crush_dump;
mod osd_crush_edit;
mod osd_crush_weight_set;
mod osd_daemon;
mod osd_erasure;
pub(crate) use status::pool_df;
mod osd_flags;
mod osd_group_flags;
mod osd_map;
mod osd_placement;
mod osd_pool;
mod osd_pool_info;
mod osd_pool_set;
mod osd_reweight;
mod osd_safety;
mod osd_settings;
mod osd_status;
mod osd_tier;
mod osd_tree;
mod osd_upgrade;
mod osd_usage;
mod pg;
mod pool_json;
mod report;
mod scrub;
mod stat_json;
mod status;
pub mod table;
mod tell;
mod xml;

/// The tables of all families.
pub const FAMILIES: &[&[Command]] = &[
    absent::COMMANDS,
    auth::COMMANDS,
    auth_ciphers::COMMANDS,
    basic::COMMANDS,
    config::COMMANDS,
    config_key::COMMANDS,
    config_show::COMMANDS,
    daemons::COMMANDS,
    fs::COMMANDS,
    fs_authorize::COMMANDS,
    fs_mirror::COMMANDS,
    fs_set::COMMANDS,
    fs_volume::COMMANDS,
    log::COMMANDS,
    mds::COMMANDS,
    mds_seen::COMMANDS,
    mgr_control::COMMANDS,
    mgr_status::COMMANDS,
    mon_alone::COMMANDS,
    mon_map::COMMANDS,
    osd_blocklist::COMMANDS,
    osd_crush::COMMANDS,
    osd_crush_convert::COMMANDS,
    osd_crush_dump::COMMANDS,
    osd_crush_edit::COMMANDS,
    osd_crush_weight_set::COMMANDS,
    osd_daemon::COMMANDS,
    osd_erasure::COMMANDS,
    osd_flags::COMMANDS,
    osd_group_flags::COMMANDS,
    osd_map::COMMANDS,
    osd_placement::COMMANDS,
    osd_pool::COMMANDS,
    osd_pool_info::COMMANDS,
    osd_pool_set::COMMANDS,
    osd_reweight::COMMANDS,
    osd_safety::COMMANDS,
    osd_settings::COMMANDS,
    osd_status::COMMANDS,
    osd_tier::COMMANDS,
    osd_tree::COMMANDS,
    osd_upgrade::COMMANDS,
    osd_usage::COMMANDS,
    pg::COMMANDS,
    report::COMMANDS,
    scrub::FAMILIES[0],
    scrub::FAMILIES[1],
    scrub::FAMILIES[2],
    scrub::FAMILIES[3],
    status::COMMANDS,
    tell::COMMANDS,
];

/// Bits of [`Command::flags`], as the `ceph` command line knows them (18.2 `src/mon/MonCommand.h`).
pub mod flag {
    pub const NONE: u64 = 0;
    pub const NOFORWARD: u64 = 1;
    pub const OBSOLETE: u64 = 2;
    pub const DEPRECATED: u64 = 4;
    /// Belongs to the manager: clients send it there.
    pub const MGR: u64 = 8;
    pub const POLL: u64 = 16;
    pub const HIDDEN: u64 = 32;
    /// Also answered to `ceph tell mon.X`, without the checks of a cluster command.
    pub const TELL: u64 = 64;
    /// Answered to that alone (our own bit: it is not shown).
    pub const TELL_ONLY: u64 = 1 << 32;
}

/// What runs a command.
pub type Handler = fn(&mut Ctx<'_>) -> CmdResult;
/// What a command gives back.
pub type CmdResult = Result<Reply, CmdError>;

/// A row of a family's table.
pub struct Command {
    /// Literal words and parameters: see [`Signature::parse`].
    pub sig: &'static str,
    pub help: &'static str,
    /// The service whose capability is needed: `mon`, `osd`, `pg`, `auth`, `config`, `config-key`, `mgr`, `fs`, `mds`, `log`.
    pub module: &'static str,
    /// Of `r`, `w`, `x`.
    pub perm: &'static str,
    /// Bits of [`flag`].
    pub flags: u64,
    pub run: Handler,
}

/// A short way to write a row of a table without flags.
pub const fn cmd(sig: &'static str, help: &'static str, module: &'static str, perm: &'static str, run: Handler) -> Command {
    Command { sig, help, module, perm, flags: flag::NONE, run }
}
/// A row for a command of the manager.
pub const fn mgr_cmd(sig: &'static str, help: &'static str, module: &'static str, perm: &'static str, run: Handler) -> Command {
    Command { sig, help, module, perm, flags: flag::MGR, run }
}
/// A row with flags.
pub const fn cmd_flags(
    sig: &'static str,
    help: &'static str,
    module: &'static str,
    perm: &'static str,
    flags: u64,
    run: Handler,
) -> Command {
    Command { sig, help, module, perm, flags, run }
}

/// Why a command failed: what the answer's return code and status text say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text} (errno {errno})")]
pub struct CmdError {
    /// Positive.
    pub errno: i32,
    pub text: String,
}

impl CmdError {
    pub fn new(errno: i32, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }
}

/// What the tree refuses, as an answer.
impl From<crush::CrushError> for CmdError {
    fn from(e: crush::CrushError) -> Self {
        Self::new(types::errno::EINVAL, e.to_string())
    }
}

/// A text for a terminal: names come from whoever may give them, and what would steer the terminal is shown as people write it (`\u{1b}`).
pub fn shown(text: String) -> String {
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_odd) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_odd(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Everything that a command may look at and change.
///
/// Changes to the OSDMap go to `ctx.mon.osd.pending()`; they become an epoch when the command has returned, and the answer goes out
/// behind it. Everything else is changed at once and persisted through `ctx.mon.batch`.
pub struct Ctx<'a> {
    pub mon: &'a mut Mon,
    pub clock: Clock,
    /// The session that asks.
    pub conn: ConnId,
    pub args: Args,
    /// What came in the request's data segment (`-i FILE`).
    pub input: Bytes,
}

impl Ctx<'_> {
    /// JSON or XML if the client asked for a form of it, else the text.
    pub fn answer(&self, json: serde_json::Value, plain: impl FnOnce() -> String) -> CmdResult {
        let formatted = out::formatted(self.args.format(), self.args.prefix(), &json);
        Ok(Reply::data(formatted.unwrap_or_else(|| shown(plain()))))
    }
    /// For commands that answer JSON to who asks for no form: pretty, for people.
    pub fn answer_json(&self, json: serde_json::Value) -> CmdResult {
        let formatted = out::formatted(self.args.format(), self.args.prefix(), &json);
        Ok(Reply::data(formatted.unwrap_or_else(|| pretty(&json))))
    }
}
