//! How many files this process may have open. Each client is one, and shells and units often start programs with 1,024: then no client comes in
//! any more, although the machine would allow many more.

/// Takes as many as are allowed. What can't be had is no reason not to start: the messenger waits until a socket closes.
#[allow(unsafe_code)]
pub fn raise() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write only the structure that they are given.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
