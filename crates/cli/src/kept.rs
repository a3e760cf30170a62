//! A daemon that `humboldt up --processes` keeps ends with it, however that ends: alone it would hold its store, and a next `up` could not start.
//!
//! The keeper names itself in the environment; the kernel then kills the daemon when the keeper is gone. What was acknowledged is on disk, as after
//! any kill -9.

use std::os::unix::process::CommandExt;
use std::process::Command;

const KEEPER: &str = "HUMBOLDT_KEEPER";

/// A daemon's memory has keys and clients' data: no other process of its user may look into it, and no core is written. HUMBOLDT_DUMPABLE=1 leaves it
/// open to debuggers and profilers; root may look in any case.
#[allow(unsafe_code)]
pub fn close_memory() {
    if std::env::var_os("HUMBOLDT_DUMPABLE").is_none_or(|value| value != "1") {
        // SAFETY: sets a flag of this process, and touches no memory.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    }
}

/// The daemon of this command is to end with this process.
pub fn keep(cmd: &mut Command) {
    cmd.env(KEEPER, std::process::id().to_string());
}

/// The program of this command, which knows nothing of us, is killed when the thread that starts it ends.
#[allow(unsafe_code)]
pub fn end_with_us(cmd: &mut Command) -> &mut Command {
    let end = || {
        // SAFETY: sets a number of the new process, and touches no memory.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: what runs between fork and exec is one system call.
    unsafe { cmd.pre_exec(end) }
}

/// Asks a child, not yet waited for, to end in order.
#[allow(unsafe_code)]
pub fn terminate(pid: u32) {
    // SAFETY: sends a signal, and touches no memory.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGTERM) };
}

/// The process that keeps this one, if one does.
pub fn keeper() -> Option<u32> {
    std::env::var(KEEPER).ok()?.parse().ok()
}

/// Asks the kernel to end this process with its keeper, if it has one.
#[allow(unsafe_code)]
pub fn end_with_keeper() {
    let Some(keeper) = keeper() else { return };
    // SAFETY: sets a number of this process, and touches no memory.
    let refused = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0;
    if refused {
        say::eprintln!("humboldt: the kernel does not end this daemon with process {keeper}: end it by hand if that one is gone");
    }
    // The keeper may have ended before the kernel was asked.
    if std::os::unix::process::parent_id() != keeper {
        say::eprintln!("humboldt: process {keeper}, which kept this daemon, is gone");
        std::process::exit(1);
    }
}
