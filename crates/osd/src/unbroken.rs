//! What is to be done when a panic passes. An executor of tasks catches a task's panic and goes on with the others: what the panic left half changed
//! would serve further. Absent: the end of the OSD, which is its shell's.

/// Calls its function if a panic takes this value with it.
pub struct Unbroken<F: Fn()>(pub F);

impl<F: Fn()> Drop for Unbroken<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// In a task, whose executor lives on.
    #[test]
    fn a_panic_in_a_task_is_told_and_a_good_end_is_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let told = Rc::new(Cell::new(0));
        let task = |panics: bool| {
            let told = told.clone();
            async move {
                let _unbroken = Unbroken(|| told.set(told.get() + 1));
                assert!(!panics, "on purpose, in a test of what a panic leaves");
            }
        };
        tokio::task::LocalSet::new().block_on(&runtime, async {
            assert!(tokio::task::spawn_local(task(false)).await.is_ok());
            assert_eq!(told.get(), 0);
            assert!(tokio::task::spawn_local(task(true)).await.is_err(), "the executor has caught it");
            assert_eq!(told.get(), 1);
        });
    }
}
