//! The switch of planted bugs: a crate names the promises that tests break on purpose, one at a time, to see that a test or a checker notices.
//!
//! Holds the switch, no bug. A switch is its crate's own and of one thread, so tests that run side by side know nothing of each other's.

/// Makes the switch for the enum `$bug` in the module that calls it. `$when` is the `cfg` under which bugs can be planted: `test` for a crate's own tests,
/// `any(test, debug_assertions)` where the simulator plants them, too. In every other build none is ever broken: `planted` is a constant, and the
/// branches behind it are gone.
///
/// `planted(bug)` is true while that promise is broken. It is asked last of all conditions, so that a call is a situation in which the promise matters, and
/// `reached()` counts those. `plant` breaks one until the next call; `with` does so for one function, and `is_noticed` tells whether it fails then.
#[macro_export]
macro_rules! planted_bugs {
    ($bug:ident, $($when:tt)+) => {
        #[cfg($($when)+)]
        thread_local! {
            static BROKEN: std::cell::Cell<Option<$bug>> = const { std::cell::Cell::new(None) };
            static REACHED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
        }

        /// True in tests that break this promise.
        #[cfg($($when)+)]
        pub(crate) fn planted(bug: $bug) -> bool {
            let is_broken = BROKEN.get() == Some(bug);
            REACHED.set(REACHED.get() + u64::from(is_broken));
            is_broken
        }
        #[cfg(not($($when)+))]
        #[inline(always)]
        pub(crate) const fn planted(_: $bug) -> bool {
            false
        }

        /// Breaks this promise on this thread from now on; `None`: none any more.
        #[cfg($($when)+)]
        #[allow(dead_code)] // not every crate's tests use all of the switch
        pub fn plant(bug: Option<$bug>) {
            BROKEN.set(bug);
            REACHED.set(0);
        }
        /// How often the promise that is broken on this thread could have been kept.
        #[cfg($($when)+)]
        #[allow(dead_code)]
        pub fn reached() -> u64 {
            REACHED.get()
        }
        /// True while any promise is broken.
        #[cfg(test)]
        #[allow(dead_code)]
        pub(crate) fn is_any_planted() -> bool {
            BROKEN.get().is_some()
        }
        /// Runs `f` with a promise broken, on this thread.
        #[cfg(test)]
        #[allow(dead_code)]
        pub(crate) fn with<T>(bug: $bug, f: impl FnOnce() -> T) -> T {
            plant(Some(bug));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
            plant(None);
            result.unwrap_or_else(|e| std::panic::resume_unwind(e))
        }
        /// True if `f` fails with a promise broken, on this thread.
        #[cfg(test)]
        #[allow(dead_code)]
        pub(crate) fn is_noticed(bug: $bug, f: impl FnOnce()) -> bool {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| with(bug, f))).is_err()
        }
    };
}
