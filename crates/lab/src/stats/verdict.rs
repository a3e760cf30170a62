//! From a ratio to a word, never a bolder one than margin, control and number of rounds allow.
//!
//! ```text
//!      1 - band         1         1 + band
//!  ──────┤══════════════╪══════════════├──────
//!  slower│             same            │faster      the whole interval lies there
//!        ╰──── else: can't tell ───────╯
//! ```
//! The band is the larger of the margin and the control's spread: how far the same thing under two names differed. An interval that is
//! within the margin is "same" only if the control's is, too. With fewer than five rounds only large differences are called, with fewer than three none.

use super::Ratio;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Rounds from which on small differences can be called.
pub const ROUNDS_MIN: usize = 5;
/// Rounds below which nothing can be called: their interval is as narrow as chance made it.
pub const ROUNDS_LEAST: usize = 3;
/// The band where there are fewer than [`ROUNDS_MIN`].
pub const BIG: f64 = 0.25;

/// Which way of a number is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    More,
    Less,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    Faster,
    Slower,
    Same,
    #[serde(rename = "can't tell")]
    CantTell,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::CantTell => "can't tell",
        })
    }
}

impl Word {
    /// True for a word that says that two things differ.
    pub fn differs(self) -> bool {
        matches!(self, Self::Faster | Self::Slower)
    }
}

/// A ratio with its word and what the word was weighed with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub word: Word,
    pub ratio: Ratio,
    /// Differences within this share of 1 are not called.
    pub band: f64,
    /// How far the control's interval reached from 1; none without a control.
    pub control: Option<f64>,
}

impl Verdict {
    pub fn of(ratio: Ratio, better: Better, margin: f64, control: Option<Ratio>) -> Self {
        let few = ratio.rounds < ROUNDS_MIN || control.is_some_and(|c| c.rounds < ROUNDS_MIN);
        let control = control.map(|c| c.spread());
        let band = margin.max(control.unwrap_or(0.0)).max(if few { BIG } else { 0.0 });
        // In quotients, so that a ratio and its inverse get the same word.
        let (above, below) = (ratio.low > 1.0 + band, ratio.high < 1.0 / (1.0 + band));
        let narrow = ratio.spread() <= margin && control.is_none_or(|c| c <= margin);
        let word = match (above, below, better) {
            _ if ratio.rounds < ROUNDS_LEAST => Word::CantTell,
            (true, _, Better::More) | (_, true, Better::Less) => Word::Faster,
            (true, _, Better::Less) | (_, true, Better::More) => Word::Slower,
            _ if narrow && !few => Word::Same,
            _ => Word::CantTell,
        };
        Self { word, ratio, band, control }
    }
    /// Why nothing is called however far apart the two are, if that is so.
    pub fn too_few(&self) -> Option<String> {
        let rounds = self.ratio.rounds;
        (rounds < ROUNDS_LEAST).then(|| format!("{rounds} round{}, fewer than {ROUNDS_LEAST}", if rounds == 1 { "" } else { "s" }))
    }
    /// Of the control itself: it is one thing under two names, so its word is never a difference.
    pub fn of_control(ratio: Ratio, better: Better, margin: f64) -> Self {
        let verdict = Self::of(ratio, better, margin, None);
        Self { word: if verdict.word.differs() { Word::CantTell } else { verdict.word }, ..verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, median: f64, high: f64, rounds: usize) -> Ratio {
        Ratio { median, low, high, rounds }
    }
    fn word(r: Ratio, control: Option<Ratio>) -> Word {
        Verdict::of(r, Better::More, 0.03, control).word
    }

    #[test]
    fn a_word_is_never_bolder_than_the_control() {
        let ten = ratio(1.08, 1.1, 1.12, 5);
        assert_eq!(word(ten, None), Word::Faster);
        assert_eq!(word(ten, Some(ratio(0.98, 1.0, 1.02, 5))), Word::Faster);
        assert_eq!(word(ten, Some(ratio(0.90, 1.0, 1.02, 5))), Word::CantTell);
        assert_eq!(word(ten.inverse(), None), Word::Slower);
        assert_eq!(Verdict::of(ten, Better::Less, 0.03, None).word, Word::Slower);
    }

    #[test]
    fn same_needs_a_narrow_interval_and_a_narrow_control() {
        let same = ratio(0.99, 1.0, 1.01, 5);
        assert_eq!(word(same, None), Word::Same);
        assert_eq!(word(same, Some(ratio(0.9, 1.0, 1.1, 5))), Word::CantTell);
        assert_eq!(word(ratio(0.9, 1.0, 1.1, 5), None), Word::CantTell);
        assert_eq!(word(ratio(1.0, 1.04, 1.08, 5), None), Word::CantTell);
    }

    #[test]
    fn few_rounds_call_only_what_is_big() {
        assert_eq!(word(ratio(1.1, 1.15, 1.2, 3), None), Word::CantTell);
        assert_eq!(word(ratio(1.9, 2.0, 2.1, 3), None), Word::Faster);
        assert_eq!(word(ratio(0.99, 1.0, 1.01, 3), None), Word::CantTell);
        assert_eq!(word(ratio(6.3, 6.3, 6.3, 1), None), Word::CantTell);
        // However large it is, and then the report says that it is for the rounds' sake.
        let huge = |rounds| Verdict::of(ratio(170.0, 178.0, 187.0, rounds), Better::More, 0.03, None);
        assert_eq!((huge(2).word, huge(2).too_few().as_deref()), (Word::CantTell, Some("2 rounds, fewer than 3")));
        assert_eq!((huge(3).word, huge(3).too_few()), (Word::Faster, None));
        assert_eq!(Verdict::of_control(ratio(1.9, 2.0, 2.1, 5), Better::More, 0.03).word, Word::CantTell);
        // A control of few rounds says little about its spread.
        assert_eq!(word(ratio(1.1, 1.15, 1.2, 5), Some(ratio(1.0, 1.0, 1.0, 3))), Word::CantTell);
    }
}
