//! The guide's runnable blocks as a case: each page as an operator would type it.

use super::Case;
use crate::clients::{Release, SHARED};
use crate::guide;
use anyhow::Result;
use std::path::Path;

pub const CASES: &[Case] = &[Case { name: "guide_says_what_happens", needs: &[Release::Pacific, Release::Reef], run: says_what_happens }];

fn says_what_happens() -> Result<()> {
    guide::run(Path::new(SHARED), None, false).map(drop)
}
