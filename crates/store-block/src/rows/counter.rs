//! A counter of the steps that a structure takes, for tests that hold its order of growth. Elsewhere it is nothing.

#[cfg(test)]
use std::cell::Cell;

#[derive(Debug, Clone, Default)]
pub struct Steps(#[cfg(test)] Cell<u64>);

impl Steps {
    /// So many more.
    #[cfg(test)]
    pub fn add(&self, n: usize) {
        self.0.set(self.0.get() + n as u64);
    }
    #[cfg(not(test))]
    pub fn add(&self, _: usize) {}
    /// Those of another one.
    #[cfg(test)]
    pub fn add_all(&self, other: &Self) {
        self.add(other.0.get() as usize);
    }
    #[cfg(not(test))]
    pub fn add_all(&self, _: &Self) {}
    /// Those since it was asked last.
    #[cfg(test)]
    pub fn take(&self) -> u64 {
        self.0.take()
    }
}
