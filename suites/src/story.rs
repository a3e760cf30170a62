//! The story of a case that failed: what it asked last, what came, the last lines of each daemon, and where everything lies.
//!
//! Each case runs on a thread of its own, so what is noted belongs to the case of the thread that notes it.

use crate::run::Output;
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Commands that are kept.
const ASKED_MAX: usize = 8;
/// Lines of a command's output, and of a daemon's log.
const LINES: usize = 6;
/// Logs that are shown.
const LOGS_MAX: usize = 16;

#[derive(Default)]
struct Notes {
    asked: VecDeque<Asked>,
    daemons: Vec<String>,
}

/// A command, what came the last time, and how often it was asked in a row: what waits for a state asks the same again and again.
struct Asked {
    command: String,
    times: u32,
    came: String,
}

thread_local! {
    static NOTES: RefCell<Notes> = RefCell::default();
}

/// A case begins on this thread.
pub fn begin() {
    NOTES.take();
}

/// The last lines of a text, each indented.
fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..].iter().fold(String::new(), |text, line| {
        let short: String = line.chars().take(300).collect();
        text + "        " + &short + "\n"
    })
}

/// A command ran to its end, or to its limit.
pub fn asked(command: &str, out: &Output, took: Duration) {
    let said = tail(&format!("{}\n{}", out.stdout, out.stderr), LINES);
    let came = format!("      ended with {} after {:.1} s\n{said}", out.code, took.as_secs_f64());
    NOTES.with_borrow_mut(|notes| match notes.asked.back_mut() {
        Some(last) if last.command == command => (last.times, last.came) = (last.times + 1, came),
        _ => {
            if notes.asked.len() == ASKED_MAX {
                notes.asked.pop_front();
            }
            notes.asked.push_back(Asked { command: command.into(), times: 1, came });
        }
    });
}

/// A daemon of this case ends, and this is all that it printed.
pub fn daemon(name: &str, said: &str) {
    NOTES.with_borrow_mut(|notes| notes.daemons.push(format!("    {name}:\n{}", tail(said, LINES))));
}

/// What a panic said.
pub fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "something that is no text".into())
}

/// All of it, for the case that ends on this thread; `folders` are its own.
pub fn told(folders: &[PathBuf]) -> String {
    let notes = NOTES.take();
    let mut text = String::new();
    if !notes.asked.is_empty() {
        let _ = writeln!(text, "  it asked, the last thing last:");
        for Asked { command, times, came } in notes.asked {
            let often = if times > 1 { format!(" ({times} times)") } else { String::new() };
            let _ = write!(text, "    {command}{often}\n{came}");
        }
    }
    let mut logs = Vec::new();
    folders.iter().for_each(|folder| find_logs(folder, 3, &mut logs));
    logs.sort();
    let from_files = logs.iter().take(LOGS_MAX).map(|log| {
        let bytes = std::fs::read(log).unwrap_or_default();
        let end = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(16 << 10)..]).into_owned();
        format!("    {}:\n{}", log.display(), tail(&end, LINES))
    });
    let daemons: String = notes.daemons.into_iter().chain(from_files).collect();
    if !daemons.is_empty() {
        let _ = writeln!(text, "  its daemons said last:\n{}", daemons.trim_end());
    }
    for folder in folders {
        let _ = writeln!(text, "  everything lies in {}", folder.display());
    }
    text
}

/// Logs with something in them.
fn find_logs(folder: &Path, depth: u32, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            find_logs(&path, depth - 1, out);
        } else if kind.is_file()
            && path.extension().is_some_and(|end| end == "out" || end == "log")
            && entry.metadata().is_ok_and(|m| m.len() > 0)
        {
            out.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_has_what_was_asked_what_daemons_said_and_the_place() {
        let folder = std::env::temp_dir().join(format!("humboldt-story-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("log")).unwrap();
        std::fs::write(folder.join("log/osd.1.out"), "first\nlast words\n").unwrap();
        begin();
        for n in 0..20 {
            let out = Output { code: 2, stdout: format!("answer {n}"), stderr: String::new() };
            asked(&format!("ceph number {n}"), &out, Duration::from_millis(1500));
        }
        let out = Output { code: 0, stdout: "still not".into(), stderr: String::new() };
        (0..30).for_each(|_| asked("ceph pg stat", &out, Duration::ZERO));
        daemon("humboldt up", "ready in 3 ms\nit ends\n");
        let text = told(std::slice::from_ref(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        for part in [
            "ceph number 19",
            "ended with 2 after 1.5 s",
            "answer 19",
            "ceph pg stat (30 times)",
            "humboldt up:",
            "it ends",
            "osd.1.out:",
            "last words",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.contains(&folder.display().to_string()) && !text.contains("ceph number 3\n"), "{text}");
        assert_eq!(told(&[]), "", "told once");
    }
}
