//! Finds commands by what a request says, and describes them to the `ceph` command line.

use super::{Args, Command, FAMILIES, Signature, flag, sig};
use crate::planted::{Bug, planted};
use messages::MonCommand;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// All commands, by prefix. Several may share one (`osd crush set` with and without an id).
pub struct Registry {
    commands: Vec<(&'static Command, Signature)>,
    by_prefix: BTreeMap<String, Vec<usize>>,
}

impl Default for Registry {
    fn default() -> Self {
        let commands: Vec<_> = FAMILIES.iter().flat_map(|f| f.iter()).map(|c| (c, Signature::parse(c.sig))).collect();
        let mut by_prefix: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, (_, sig)) in commands.iter().enumerate() {
            by_prefix.entry(sig.prefix.clone()).or_default().push(i);
        }
        Self { commands, by_prefix }
    }
}

impl Registry {
    /// The command that a request means: of several with its prefix, the first whose signature it fits. With `tell` for who speaks to the
    /// daemon: what is meant for that comes first, and what only is for that is for no other. The manager's endpoint (`for_mgr`) knows its own
    /// commands and what is said to a daemon, since what its sessions may do was said of those alone.
    pub fn find(&self, args: &Args, for_mgr: bool, tell: bool) -> Option<(&'static Command, &Signature)> {
        let all = self.by_prefix.get(args.prefix())?;
        let known = |c: &Command| {
            let is_told = tell && c.flags & flag::TELL != 0;
            if for_mgr && c.flags & flag::MGR == 0 && !is_told && !planted(Bug::ManagerRunsAll) {
                return false;
            }
            tell || c.flags & flag::TELL_ONLY == 0
        };
        let mut candidates: Vec<&(&'static Command, Signature)> =
            all.iter().map(|i| &self.commands[*i]).filter(|(c, _)| known(c)).collect();
        candidates.sort_by_key(|(c, _)| c.flags & flag::TELL_ONLY == 0);
        let fits = candidates.iter().find(|(_, sig)| args.check(sig).is_ok()).or(candidates.first())?;
        Some((fits.0, &fits.1))
    }
    /// All rows with their signatures.
    pub fn rows(&self) -> impl Iterator<Item = (&'static Command, &Signature)> {
        self.commands.iter().map(|(command, sig)| (*command, sig))
    }

    /// Commands to a daemon, with what each does.
    pub fn help(&self, for_mgr: bool) -> BTreeMap<String, &'static str> {
        let shown = self.commands.iter().filter(|(c, _)| c.flags & flag::TELL != 0 || (for_mgr && c.flags & flag::MGR != 0));
        shown.map(|(c, sig)| (sig.prefix.clone(), c.help)).collect()
    }

    /// The answer to `get_command_descriptions`, for the monitor's clients or (`for_mgr`) the manager's; with `tell` for who speaks to
    /// the daemon rather than the cluster. `features` are the asker's. A stock manager's commands, if it is there, stand in place of those
    /// that ours would serve.
    pub fn describe(&self, for_mgr: bool, tell: bool, stock: &[MonCommand], features: u64) -> Value {
        let mut out = Map::new();
        let theirs: BTreeSet<String> = stock.iter().map(|c| sig::prefix_of(&c.signature)).collect();
        for (command, sig) in &self.commands {
            let of_mgr = command.flags & flag::MGR != 0;
            let of_daemon = command.flags & flag::TELL != 0;
            let only_daemon = command.flags & flag::TELL_ONLY != 0;
            if !tell && !stock.is_empty() && (of_mgr || theirs.contains(&sig.prefix)) {
                continue;
            }
            let shown = (tell && of_daemon) || if for_mgr { of_mgr } else { !tell && !only_daemon };
            if !shown {
                continue;
            }
            let flags = if for_mgr || tell { 0 } else { command.flags & !(flag::TELL | flag::TELL_ONLY) };
            out.insert(
                format!("cmd{:03}", out.len()),
                json!({
                    "sig": sig.to_json(features),
                    "help": command.help,
                    "module": command.module,
                    "perm": command.perm,
                    "flags": flags,
                }),
            );
        }
        for command in stock.iter().filter(|_| !tell) {
            out.insert(
                format!("cmd{:03}", out.len()),
                json!({
                    "sig": sig::line_to_json(&command.signature, features),
                    "help": command.help,
                    "module": command.module,
                    "perm": command.perms,
                    "flags": command.flags | flag::MGR,
                }),
            );
        }
        Value::Object(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_well_formed() {
        let registry = Registry::default();
        for (command, sig) in &registry.commands {
            assert!(command.perm.chars().all(|c| "rwx".contains(c)) && !command.perm.is_empty(), "{}", sig.prefix);
            assert!(!command.help.is_empty() && !command.module.is_empty(), "{}", sig.prefix);
        }
        assert!(
            registry.describe(false, false, &[], 0).as_object().unwrap().len()
                >= registry.describe(true, false, &[], 0).as_object().unwrap().len()
        );
    }
}
