//! Which share of what rotates a short run does: each change does another, so that six changes see all cases and all seeds.
//!
//! A third of the cases that not every run has (a sixth of the long ones), and a sixth of the simulator's seeds and planted bugs
//! and of the crash states: tests read it from the environment ([`VARIABLE`]).

use crate::cluster::target;
use crate::run::root;
use std::process::{Command, Stdio};

/// `K/N`, in the environment of test programs: do the K-th of N parts. Without it a test does all.
pub const VARIABLE: &str = "HUMBOLDT_SHARE";

/// Parts that seeds and crash states are cut into: a short run's processor time is mostly theirs.
pub const PARTS: u64 = 6;
/// Parts that the cases are cut into.
pub const CASE_PARTS: u64 = 3;

/// One of them, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(u64);

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{PARTS}", self.0)
    }
}

impl Share {
    /// The part with this number, whatever its size: 7 is 1 again.
    pub fn new(number: u64) -> Option<Self> {
        Some(Self((number.checked_sub(1)?) % PARTS + 1))
    }
    /// True for one in three of the places in the cases' list.
    pub fn has(self, place: usize) -> bool {
        place as u64 % CASE_PARTS == (self.0 - 1) % CASE_PARTS
    }
    /// True for one in six of the places in a list.
    pub fn has_of_all(self, place: usize) -> bool {
        place as u64 % PARTS == self.0 - 1
    }
    pub fn number(self) -> u64 {
        self.0
    }
}

/// This run's share, and where it comes from.
pub fn of_this_run(asked: Option<u64>) -> (Share, String) {
    if let Some(share) = asked.and_then(Share::new) {
        return (share, "asked for".into());
    }
    match of_tree() {
        Some((number, from)) => (Share::new(number % PARTS + 1).expect("from 1 on"), from),
        None => {
            let number = counted();
            (Share::new(number % PARTS + 1).expect("from 1 on"), format!("run {number} without git"))
        }
    }
}

/// A number that is the next one with each change, for what takes turns.
pub fn turn() -> u64 {
    of_tree().map_or_else(counted, |(number, _)| number)
}

/// The change that the tree is, and its hash. Changes are counted where the history is there: hashes alone would often give two in a row the same share.
fn of_tree() -> Option<(u64, String)> {
    let git = |args: &[&str]| {
        let out = Command::new("git").args(args).current_dir(root()).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
    };
    let hash = git(&["rev-parse", "HEAD^{tree}"])?;
    let by_hash = u64::from_str_radix(hash.get(..8)?, 16).ok()?;
    let short = &hash[..8];
    if git(&["rev-parse", "--is-shallow-repository"])? == "true" {
        return Some((by_hash, format!("tree {short}")));
    }
    let changes: u64 = git(&["rev-list", "--count", "--first-parent", "HEAD"])?.parse().ok()?;
    let edited = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    Some((
        changes + u64::from(edited),
        format!("change {}, tree {short}{}", changes, if edited { " and what was edited since" } else { "" }),
    ))
}

/// Counts runs in a file of the target folder.
fn counted() -> u64 {
    let file = target().join("test-share");
    let next = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u64>().ok()).map_or(0, |n| n.wrapping_add(1));
    // A folder that cannot be written gives the same share each time: no reason to test nothing.
    let _ = std::fs::create_dir_all(target()).and_then(|()| std::fs::write(&file, next.to_string()));
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_shares_in_a_row_have_each_place_once() {
        for first in 1..20 {
            for place in 0..20 {
                let having = (first..first + 3).filter(|n| Share::new(*n).expect("from 1 on").has(place)).count();
                assert_eq!(having, 1, "shares from {first}, place {place}");
            }
        }
        assert_eq!(Share::new(0), None);
        assert_eq!(Share::new(5).map(|s| s.to_string()).as_deref(), Some("5/6"));
    }

    #[test]
    fn a_share_that_is_asked_for_is_given() {
        let (share, from) = of_this_run(Some(3));
        assert_eq!((share.number(), from.as_str()), (3, "asked for"));
        assert!((1..=PARTS).contains(&of_this_run(None).0.number()));
    }
}
