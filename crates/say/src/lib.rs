//! What a process says on standard output and standard error: `print!`, `println!` and `eprintln!` that never end the process.
//!
//! The standard library's macros of these names panic when the text can't be written. A daemon whose log goes into a pipe would end with the
//! program that reads it, and a load whose output goes into `head` would leave its objects behind. Here the text is lost and the work goes on.
//! What standard output could not take is remembered, for programs whose result is what they print: see [`heard`]. A pipe or a terminal that
//! takes nothing for a while must not hold a daemon up either: see [`in_background`].
//!
//! Holds no log, no levels and no file.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // for shells: it has a thread

mod background;

pub use background::{flush, in_background};
use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::OnceLock;

/// The first failure of standard output.
static FAILED: OnceLock<(io::ErrorKind, Option<i32>)> = OnceLock::new();

fn note(failure: &io::Error) {
    FAILED.get_or_init(|| (failure.kind(), failure.raw_os_error()));
}

/// Writes to standard output. For the macros.
pub fn out(text: Arguments) {
    if let Err(e) = io::stdout().write_fmt(text) {
        note(&e);
    }
}

/// Writes bytes to standard output, whatever they are.
pub fn bytes(bytes: &[u8]) {
    if let Err(e) = io::stdout().write_all(bytes) {
        note(&e);
    }
}

/// Writes a line to standard error, or leaves that to the thread of [`in_background`]. For the macro.
pub fn err(text: Arguments) {
    background::line(format!("{text}\n"));
}

/// Whether standard output took all that was printed. A reader that has seen enough, as `head` has, is no failure.
///
/// # Errors
/// The first failure, such as a full disk.
pub fn heard() -> io::Result<()> {
    if let Err(e) = io::stdout().flush() {
        note(&e);
    }
    match FAILED.get() {
        None | Some((io::ErrorKind::BrokenPipe, _)) => Ok(()),
        Some((_, Some(errno))) => Err(io::Error::from_raw_os_error(*errno)),
        Some((kind, None)) => Err((*kind).into()),
    }
}

/// Text to standard output.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::out(::std::format_args!($($arg)*)) };
}

/// A line to standard output.
#[macro_export]
macro_rules! println {
    () => { $crate::out(::std::format_args!("\n")) };
    ($($arg:tt)*) => { $crate::out(::std::format_args!("{}\n", ::std::format_args!($($arg)*))) };
}

/// A line to standard error.
#[macro_export]
macro_rules! eprintln {
    ($($arg:tt)*) => { $crate::err(::std::format_args!($($arg)*)) };
}
