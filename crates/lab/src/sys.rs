//! The few questions to the kernel that the standard library lacks: CPU clocks of processes, clocks that tell a jump, and children that end
//! with us.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
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

/// Punches a hole into an open file, which keeps its size.
pub fn punch(file: std::os::fd::RawFd, at: u64, len: u64) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a call without memory.
    let code = unsafe { libc::fallocate(file, mode, at as libc::off_t, len as libc::off_t) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets an extended attribute of a file or folder.
pub fn set_xattr(path: &Path, name: &str, value: &str) -> io::Result<()> {
    let (path, name) = (CString::new(path.as_os_str().as_bytes())?, CString::new(name)?);
    // SAFETY: both names end in a zero byte, and the kernel reads `value.len()` bytes of the value.
    let code = unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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

/// Gives this thread, and all that it starts, mounts of its own: no other process sees them, and they are gone with the last process that does.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: the strings are constants, and the kernel keeps none of them.
    let ok = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE, std::ptr::null()) == 0
    };
    if ok { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Mounts a FUSE file system whose requests come over a descriptor of /dev/fuse.
pub fn mount_fuse(fd: i32, dir: &Path) -> io::Result<()> {
    let dir = CString::new(dir.as_os_str().as_bytes())?;
    let options = CString::new(format!("fd={fd},rootmode=40000,user_id=0,group_id=0"))?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    // SAFETY: the strings live through the call, and the kernel keeps none of them.
    let ok = unsafe { libc::mount(c"humboldt-lab".as_ptr(), dir.as_ptr(), c"fuse".as_ptr(), flags, options.as_ptr().cast()) } == 0;
    if ok { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Unmounts at once for all that look, later for processes that still have a file open.
pub fn unmount(dir: &Path) {
    let Ok(dir) = CString::new(dir.as_os_str().as_bytes()) else { return };
    // SAFETY: the string lives through the call.
    unsafe { libc::umount2(dir.as_ptr(), libc::MNT_DETACH) };
}

/// The child joins a control group before it becomes its program; `procs` is the group's file of processes.
pub fn in_group<'a>(cmd: &'a mut Command, procs: &Path) -> io::Result<&'a mut Command> {
    let procs = CString::new(procs.as_os_str().as_bytes())?;
    // SAFETY: open, write and close are async-signal-safe, and the string was made before the fork.
    Ok(unsafe {
        cmd.pre_exec(move || {
            let file = libc::open(procs.as_ptr(), libc::O_WRONLY);
            let joined = file >= 0 && libc::write(file, c"0".as_ptr().cast(), 1) == 1;
            if file >= 0 {
                libc::close(file);
            }
            if joined { Ok(()) } else { Err(io::Error::last_os_error()) }
        })
    })
}

/// Bytes that a file system has left for us.
pub fn room(dir: &Path) -> Option<u64> {
    let dir = CString::new(dir.as_os_str().as_bytes()).ok()?;
    // SAFETY: zeros are a valid statvfs, and the kernel writes one.
    unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(dir.as_ptr(), &mut stat) == 0).then(|| stat.f_bavail as u64 * stat.f_frsize as u64)
    }
}

/// Sends a signal to one process.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(pid as i32, signal) };
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
