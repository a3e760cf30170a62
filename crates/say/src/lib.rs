//! What a process says on standard output and standard error: `print!`, `println!` and `eprintln!` that never end the process.
//!
//! The standard library's macros of these names panic when the text can't be written. A daemon whose log goes into a pipe would end with the
//! program that reads it, and a load whose output goes into `head` would leave its objects behind. Here the text is lost and the work goes on.
//! What standard output could not take is remembered, for programs whose result is what they print: see [`heard`]. A pipe or a terminal that
//! takes nothing for a while must not hold a daemon up either: see [`in_background`].
//!
//! Names of objects, pools and hosts come from whoever may give them. A terminal obeys control characters, so it is shown none: see [`plain`].
//!
//! Holds no log, no levels and no file.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // for shells: it has a thread

mod background;

pub use background::{flush, in_background};
use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

/// The first failure of standard output.
static FAILED: OnceLock<(io::ErrorKind, Option<i32>)> = OnceLock::new();

fn note(failure: &io::Error) {
    FAILED.get_or_init(|| (failure.kind(), failure.raw_os_error()));
}

/// A text in which what would steer a terminal is shown as people write it (`\u{1b}`). Ends of lines and tabs stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if steers(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// What standard output is to get of these bytes: all of them as they are, unless it is a terminal.
pub fn shown(bytes: &[u8]) -> Cow<'_, [u8]> {
    static TERMINAL: OnceLock<bool> = OnceLock::new();
    if *TERMINAL.get_or_init(|| io::stdout().is_terminal()) { for_terminal(bytes) } else { Cow::Borrowed(bytes) }
}
fn for_terminal(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(bytes).map(plain) {
        Ok(Cow::Borrowed(_)) => Cow::Borrowed(bytes),
        Ok(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
        Err(_) => Cow::Owned(plain(&String::from_utf8_lossy(bytes)).into_owned().into_bytes()),
    }
}

/// Writes to standard output as it is: screens are drawn by it. For the macro.
pub fn out(text: Arguments) {
    if let Err(e) = io::stdout().write_fmt(text) {
        note(&e);
    }
}

/// Writes a line to standard output, for the macro.
pub fn line(text: Arguments) {
    bytes(format!("{text}\n").as_bytes());
}

/// Writes bytes to standard output, whatever they are: see [`shown`].
pub fn bytes(bytes: &[u8]) {
    if let Err(e) = io::stdout().write_all(&shown(bytes)) {
        note(&e);
    }
}

/// Writes a line to standard error, or leaves that to the thread of [`in_background`]. For the macro.
pub fn err(text: Arguments) {
    background::line(format!("{}\n", plain(&text.to_string())));
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
    () => { $crate::line(::std::format_args!("")) };
    ($($arg:tt)*) => { $crate::line(::std::format_args!($($arg)*)) };
}

/// A line to standard error.
#[macro_export]
macro_rules! eprintln {
    ($($arg:tt)*) => { $crate::err(::std::format_args!($($arg)*)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_shown_nothing_that_steers_it() {
        let name = "pool\u{1b}[2J\u{9b}31m\r\u{7}\u{7f} é\tb\n";
        assert_eq!(plain(name), "pool\\u{1b}[2J\\u{9b}31m\\r\\u{7}\\u{7f} é\tb\n");
        assert_eq!(for_terminal(name.as_bytes()), plain(name).as_bytes());
        assert_eq!(for_terminal(b"\xff\x1bc"), "\u{fffd}\\u{1b}c".as_bytes());
        // What steers nothing is not copied; what programs read is as it is (a test's output is no terminal).
        assert!(matches!(plain("a b\tc\n"), Cow::Borrowed(_)) && matches!(for_terminal("ü".as_bytes()), Cow::Borrowed(_)));
    }
}
