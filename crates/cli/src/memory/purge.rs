//! Gives free memory back to the system where a process is close to its limit. Absent: when that is, see [`super::governor`].

use crate::allocator::PURGE_DELAY;

/// Milliseconds until free memory goes back to the system by itself, while a process is close to its limit.
const PURGE_DELAY_CLOSE_MS: i64 = 50;

/// Gives free memory back now, and soon from now on, until [`crate::allocator::tune`] is called.
#[allow(unsafe_code)]
pub fn give_back() {
    // SAFETY: sets a number in the allocator's own table, and gives back what is free; any thread may do so at any time.
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY, PURGE_DELAY_CLOSE_MS);
        libmimalloc_sys::mi_collect(true);
    }
}
