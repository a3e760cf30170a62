//! What can be wrong with bytes. The connection or disk that gave them is at fault, never this process.

use thiserror::Error;

/// Why bytes are not the value they should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DencError {
    /// The buffer or the enclosing frame ended first.
    #[error("at byte {at}: {want} bytes wanted, {left} left")]
    Short { at: usize, want: usize, left: usize },
    /// A count of elements that the bytes left can't hold.
    #[error("at byte {at}: a count of {count} elements, with {left} bytes left")]
    Count { at: usize, count: u64, left: usize },
    /// A frame that only a newer release can read.
    #[error("{what}: encoded with compat {compat}, this release reads up to {known}")]
    Incompatible { what: &'static str, compat: u8, known: u8 },
    /// A frame older than the oldest release that we speak with.
    #[error("{what}: version {version} is older than {oldest}, the oldest that this release reads")]
    TooOld { what: &'static str, version: u8, oldest: u8 },
    /// A field with a value that its type forbids.
    #[error("at byte {at}: {what}")]
    Invalid { at: usize, what: &'static str },
}
