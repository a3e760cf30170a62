//! The requests that took longest of late: what `dump_historic_ops` shows.

use base::Stamp;
use std::time::Duration;
use types::{HObject, ReqId, SpgId};

/// An answered request.
#[derive(Debug, Clone)]
pub struct Done {
    pub reqid: ReqId,
    pub pgid: SpgId,
    pub obj: HObject,
    pub received: Stamp,
    pub took: Duration,
    pub writes: bool,
}

/// The slowest `size` of those that came in the last `age`.
#[derive(Debug)]
pub struct History {
    done: Vec<Done>,
    size: usize,
    age: Duration,
    /// Nothing faster than this gets in; nanoseconds.
    floor_ns: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { done: Vec::new(), size: 20, age: Duration::from_secs(600), floor_ns: 0 }
    }
}

impl History {
    /// Follows the options `osd_op_history_size` and `osd_op_history_duration`.
    pub fn configure(&mut self, size: usize, age: Duration) {
        (self.size, self.age) = (size.min(10_000), age);
        self.shrink();
    }
    /// True if a request that took so long is worth to be remembered.
    #[inline]
    pub fn wants(&self, took_ns: u64) -> bool {
        took_ns > self.floor_ns
    }
    pub fn put(&mut self, done: Done) {
        self.done.push(done);
        self.shrink();
    }
    /// Forgets what is too old.
    pub fn expire(&mut self, now: Stamp) {
        let age = self.age;
        self.done.retain(|d| now.since(d.received) <= age);
        self.shrink();
    }
    fn shrink(&mut self) {
        while self.done.len() > self.size {
            let fastest = (0..self.done.len()).min_by_key(|i| self.done[*i].took).expect("there are some");
            self.done.swap_remove(fastest);
        }
        let fastest = self.done.iter().map(|d| d.took.as_nanos() as u64).min().unwrap_or(0);
        self.floor_ns = if self.size == 0 {
            u64::MAX
        } else if self.done.len() < self.size {
            0
        } else {
            fastest
        };
    }
    /// In the order in which they came.
    pub fn dump(&self) -> Vec<&Done> {
        let mut done: Vec<&Done> = self.done.iter().collect();
        done.sort_by_key(|d| d.received);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_stay() {
        let mut history = History::default();
        for i in 0..1000_u64 {
            let took = i * 37 % 1000;
            if history.wants(took) {
                let (reqid, pgid, obj) = Default::default();
                history.put(Done { reqid, pgid, obj, received: Stamp(i * 1_000_000_000), took: Duration::from_nanos(took), writes: true });
            }
        }
        assert!(history.dump().len() == 20 && history.dump().iter().all(|d| d.took.as_nanos() >= 980));
        history.expire(Stamp(1000 * 1_000_000_000));
        assert!(history.dump().len() < 20 && history.dump().iter().all(|d| d.received >= Stamp(400 * 1_000_000_000)));
        history.configure(0, Duration::from_secs(1));
        assert!(!history.wants(u64::MAX - 1) && history.dump().is_empty());
    }
}
