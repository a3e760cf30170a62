//! A study: what is compared, at which points, by which rules, and which claims it answers.
//!
//! Holds the file's format (`file`), its checks (`check`), the product of the axes (`axes`) and the studies that are shipped (`shipped`).
//! Absent: anything of the machine that it will run on.

pub mod axes;
mod check;
pub mod file;
pub mod prices;
pub mod shipped;

pub use file::Study;

use std::ops::Range;
use thiserror::Error;

/// A file that is no study: where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct StudyError {
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub message: String,
}

/// Line and column of a place in `text`.
fn place(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

impl StudyError {
    /// Of a place in the study's text.
    pub fn at(file: &str, text: &str, span: Range<usize>, message: String) -> Self {
        let (line, column) = place(text, span.start);
        Self { file: file.into(), line, column, message }
    }
}

/// What `check` and the parser say a file is wrong with.
struct Wrong {
    span: Range<usize>,
    message: String,
}

impl Study {
    /// Reads and checks; `file` is only for the error.
    pub fn parse(file: &str, text: &str) -> Result<Self, StudyError> {
        let error = |span: Range<usize>, message: String| StudyError::at(file, text, span, message);
        let study: Self = toml::from_str(text).map_err(|e| error(e.span().unwrap_or(0..0), e.message().into()))?;
        check::check(&study).map_err(|wrong| error(wrong.span, wrong.message))?;
        Ok(study)
    }
    pub fn name(&self) -> &str {
        self.name.get_ref()
    }
    /// Its rules, with what it leaves out filled in.
    pub fn rules(&self, quick: bool) -> file::RuleSet {
        let given = if quick { &self.rules.quick } else { &self.rules.full };
        given.clone().unwrap_or(match quick {
            true => file::RuleSet { rounds: 3, seconds: 3.0, warm_s: 1.0, prolong: 0, repeats: 0, exclude: Vec::new() },
            false => file::RuleSet { rounds: 5, seconds: 10.0, warm_s: 3.0, prolong: 2, repeats: 2, exclude: Vec::new() },
        })
    }
    pub fn margin(&self) -> f64 {
        self.rules.margin.unwrap_or(0.03)
    }
    pub fn foreign_max(&self) -> f64 {
        self.rules.foreign_max.unwrap_or(0.1)
    }
    /// A number for the order of the rounds: out of the study's name and seed.
    pub fn seed_number(&self) -> u64 {
        let text = format!("{}/{}", self.name(), self.seed);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
    }
}

#[cfg(test)]
mod tests;
