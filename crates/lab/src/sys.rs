//! The few questions to the kernel that the standard library lacks: CPU clocks of processes, clocks that tell a jump, and children that end
//! with us.

#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;

fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which is ours.
    let ok = unsafe { libc::clock_gettime(clock, &mut time) } == 0;
    ok.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Runs on through everything but a sleep of the machine; ns.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).expect("every kernel has it")
}

/// The time of day, which can be set; ns since 1970.
pub fn real_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME).expect("every kernel has it")
}

/// CPU that this thread has used, ns.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).expect("every kernel has it")
}

/// CPU that all threads of a process have used, also those that ended; ns. None if there is no such process.
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    // The kernel's number for a process's CPU clock (`clock_getcpuclockid(3)`): the pid's complement, and 2 for the scheduler's clock.
    clock_ns((!(pid as libc::clockid_t) << 3) | 2)
}

/// CPU of children that have been waited for, and of theirs; ns, in steps of a microsecond.
pub fn children_cpu_ns() -> u64 {
    // SAFETY: zeros are a valid rusage, and the kernel writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// The child is killed when the thread that started it ends, however it ends; and has a process group of its own, so that Ctrl-C is ours to
/// pass on.
pub fn ends_with_us(cmd: &mut Command) -> &mut Command {
    cmd.process_group(0);
    // SAFETY: prctl is async-signal-safe and touches nothing of ours.
    unsafe {
        cmd.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    }
}

/// Sends a signal to a process group.
pub fn signal_group(pid: u32, signal: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(-(pid as i32), signal) };
}

/// True if we are root.
pub fn is_root() -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::geteuid() == 0 }
}
