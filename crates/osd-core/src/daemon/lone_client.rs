//! Whether an OSD has just one client that asks for one thing at a time: then no other client loses by a thread that waits for the device itself.
//!
//! Such a request costs two sleeps and little else; one that is ended by the device directly is cheaper than one by way of epoll, where it
//! wakes a task that finds out what for. While the thread waits so, no other client is heard. So it begins only when it was seen for a while
//! that there is no other, watches again from time to time, and gives up for long when the device was slower than the limit.
//!
//! ```text
//!             WATCH clean requests                  WAITS requests
//!   Watching ─────────────────────> Waiting ───────────────────────> Watching
//!      ^                               │
//!      ├── a request that is not clean ┤   clean: from the client of the one before, which has its answer
//!      └── (REST requests later) ──────┘   the device took longer than the limit
//! ```

use crate::event::ConnId;

/// Clean requests in a row before the thread waits by itself, and again between times.
const WATCH: u32 = 16;
/// Requests for which it waits then.
const WAITS: u32 = 240;
/// Requests that pass before a slow device is tried again.
const REST: u32 = 4096;
const _: () = assert!(WATCH < WAITS && WAITS < REST);

/// What was seen of the requests of late.
#[derive(Debug, Default)]
pub struct LoneClient {
    /// The client that has no answer yet.
    asking: Option<ConnId>,
    last: Option<ConnId>,
    /// Clean requests in a row.
    clean: u32,
    /// Requests until it is worth another try.
    rest: u32,
}

impl LoneClient {
    /// A request has come.
    pub fn came(&mut self, from: ConnId) {
        self.rest = self.rest.saturating_sub(1);
        let is_clean = self.asking.is_none() && self.last == Some(from);
        self.clean = if is_clean && self.rest == 0 { (self.clean + 1) % (WATCH + WAITS) } else { 0 };
        (self.asking, self.last) = (Some(from), Some(from));
    }
    /// Something was sent to a client.
    pub fn answered(&mut self, to: ConnId) {
        if self.asking == Some(to) {
            self.asking = None;
        }
    }
    /// True if there is one request without an answer, and waiting for it keeps no other client waiting, as far as can be seen.
    pub fn may_wait(&self) -> bool {
        self.asking.is_some() && self.clean >= WATCH
    }
    /// The device took too long.
    pub fn was_slow(&mut self) {
        (self.clean, self.rest) = (0, REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n` requests of one client, each answered before the next.
    fn one_by_one(lone_client: &mut LoneClient, n: u32) -> u32 {
        let mut waits = 0;
        for _ in 0..n {
            lone_client.came(ConnId(1));
            waits += u32::from(lone_client.may_wait());
            lone_client.answered(ConnId(1));
            assert!(!lone_client.may_wait(), "there is nothing to wait for");
        }
        waits
    }

    #[test]
    fn one_client_at_depth_1_is_waited_for_with_checks_between() {
        let mut lone_client = LoneClient::default();
        assert_eq!(one_by_one(&mut lone_client, WATCH), 0);
        // The first had no client before it.
        assert_eq!(one_by_one(&mut lone_client, WAITS), WAITS);
        assert_eq!(one_by_one(&mut lone_client, WATCH), 0);
        assert_eq!(one_by_one(&mut lone_client, 1), 1);
    }
    #[test]
    fn no_thread_waits_where_two_clients_are() {
        let mut lone_client = LoneClient::default();
        for i in 0..1000 {
            lone_client.came(ConnId(i % 2));
            assert!(!lone_client.may_wait());
            lone_client.answered(ConnId(i % 2));
        }
        // One client with two requests under way: the answer to one is the next one's call.
        let mut lone_client = LoneClient::default();
        lone_client.came(ConnId(1));
        for _ in 0..1000 {
            lone_client.came(ConnId(1));
            assert!(!lone_client.may_wait());
            lone_client.answered(ConnId(1));
            lone_client.came(ConnId(1));
            assert!(!lone_client.may_wait());
        }
    }
    #[test]
    fn another_client_ends_the_waiting() {
        let mut lone_client = LoneClient::default();
        assert!(one_by_one(&mut lone_client, WATCH + 10) > 0);
        lone_client.came(ConnId(2));
        assert!(!lone_client.may_wait());
        lone_client.answered(ConnId(2));
        assert_eq!(one_by_one(&mut lone_client, WATCH), 0);
    }
    #[test]
    fn slow_devices_are_left_alone() {
        let mut lone_client = LoneClient::default();
        assert!(one_by_one(&mut lone_client, WATCH + 1) > 0);
        lone_client.was_slow();
        assert_eq!(one_by_one(&mut lone_client, REST + WATCH - 2), 0);
        assert!(one_by_one(&mut lone_client, 2) > 0);
    }
}
