//! The allocator of this program, and how it is set.
//!
//! Found by perf under `rados bench` of 16.2, 4 KiB writes at depth 256: glibc's allocator took 30 % of the server's CPU, growing its heap
//! most of all. mimalloc as it comes spent 65 % clearing huge pages that it had just given back; without huge pages, and with memory
//! given back later than after 10 ms, allocation vanishes from the profile and a write costs 11 us instead of 19. Not at once, because a virtual
//! machine that got a page back pays for it again at its host: the first touch of such pages doubled the cost of a write. But within seconds: a third of
//! the program's memory was of loads that were over (299 MiB, 203 of them in use).

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`: milliseconds until free memory goes back to the system. mimalloc 3 waits as long for pages of its arenas
/// (`mi_option_arena_purge_mult` is 1; in version 2 it is 10). The number is the option's place in mimalloc's list.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
const PURGE_DELAY_MS: i64 = 3_000;

/// The same where a process is close to its limit.
const PURGE_DELAY_CLOSE_MS: i64 = 50;

/// Gives free memory back now, and soon from now on.
#[allow(unsafe_code)]
pub fn give_back() {
    // SAFETY: sets a number in the allocator's own table, and gives back what is free; any thread may do so at any time.
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY, PURGE_DELAY_CLOSE_MS);
        libmimalloc_sys::mi_collect(true);
    }
}

/// To be called first in `main`. Huge pages are off by a feature of the crate.
#[allow(unsafe_code)]
pub fn tune() {
    // SAFETY: sets a number in the allocator's own table; any thread may do so at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) }
}
