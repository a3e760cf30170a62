//! Which of all commands the words mean; and if none, what comes closest.

use super::{Description, Misfit, Why, flag};
use serde_json::{Map, Value};

/// How many near misses are shown.
const SHOWN_MAX: usize = 10;

/// No command; the text says so to a person, as `ceph` does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unmatched(pub String);

/// The command that `words` are, with the request that they mean.
pub fn choose<'a>(all: &'a [Description], words: &[String]) -> Result<(&'a Description, Map<String, Value>), Unmatched> {
    let mut misfits: Vec<(&Description, Misfit)> = Vec::new();
    let mut fits: Vec<(&Description, Map<String, Value>)> = Vec::new();
    for command in all.iter().filter(|c| !c.has(flag::OBSOLETE)) {
        match command.fit(words) {
            Ok(request) => fits.push((command, request)),
            Err(misfit) => misfits.push((command, misfit)),
        }
    }
    // Of several that fit, the one with most literal words; then the one that needs least.
    let literal = |c: &Description| c.prefix().split(' ').count();
    fits.sort_by_key(|(c, _)| (std::cmp::Reverse(literal(c)), c.required()));
    if let Some(found) = fits.into_iter().next() {
        return Ok(found);
    }
    Err(Unmatched(nearest(misfits)))
}

fn nearest(misfits: Vec<(&Description, Misfit)>) -> String {
    let best = misfits.iter().map(|(_, m)| m.matched).max().unwrap_or(0);
    let mut near: Vec<(&Description, Misfit)> = misfits.into_iter().filter(|(_, m)| m.matched == best).collect();
    near.sort_by_key(|(c, _)| c.required());
    let alone = near.len() == 1;
    let meant = near.iter().find_map(|(command, misfit)| match &misfit.why {
        Why::Wrong(why) => Some((command, why)),
        Why::Missing(why) if alone => Some((command, why)),
        _ => None,
    });
    if let Some((command, why)) = meant.filter(|_| best > 0) {
        return format!("Invalid command: {why}\n{} :  {}", command.usage(), command.help);
    }
    let shown: Vec<String> =
        near.iter().filter(|(c, _)| !c.has(flag::DEPRECATED | flag::HIDDEN)).take(SHOWN_MAX).map(|(c, _)| c.usage()).collect();
    let mut out = format!("no valid command found; {} closest matches:", shown.len());
    shown.iter().for_each(|line| out += &format!("\n{line}"));
    out
}
