//! Binds the calling thread, and the workers that the kernel starts for it, to some CPUs.

/// `list`: numbers and ranges, as `0-3,8`.
#[allow(unsafe_code)]
pub fn pin(list: &str) -> std::io::Result<()> {
    // SAFETY: an all-zero set is a value of this plain structure.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for word in list.split(',') {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| std::io::Error::other(format!("{list} is no list of CPUs")));
        for cpu in number(first)?..=number(last)?.min(libc::CPU_SETSIZE as usize - 1) {
            // SAFETY: the number is within the set.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
    }
    // SAFETY: reads the set, which outlives the call; 0 is this thread.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_it_is_bound_to() {
        let allowed =
            |text: &str| text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_string());
        let bound = std::thread::spawn(move || {
            let first = allowed(&std::fs::read_to_string("/proc/thread-self/status").unwrap()).unwrap();
            let first = first.split([',', '-']).next().unwrap().to_string();
            pin(&first).unwrap();
            (allowed(&std::fs::read_to_string("/proc/thread-self/status").unwrap()).unwrap(), first)
        });
        let (now, wanted) = bound.join().unwrap();
        assert_eq!(now, wanted);
        assert!(pin("one").is_err() && pin("99999-100000").is_err());
    }
}
