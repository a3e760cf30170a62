//! The guide's runnable blocks as a case: each page as an operator would type it.

use super::Case;
use crate::clients::{Release, SHARED};
use crate::{guide, share};
use anyhow::Result;
use std::path::Path;

pub const CASES: &[Case] = &[Case { name: "guide_says_what_happens", needs: &[Release::Pacific, Release::Reef], run: says_what_happens }];

/// Pages with two clusters and what waits for the other one: a minute each, so a run has one of them.
const BY_TURNS: [&str; 2] = ["mirroring", "multisite"];

fn says_what_happens() -> Result<()> {
    let turn = BY_TURNS[usize::try_from(share::turn() % 2)?];
    guide::run(Path::new(SHARED), &|page| page == turn || !BY_TURNS.contains(&page), false).map(drop)
}
