//! The requests that took longest of late, and the last ones that were slow: the answers to `dump_historic_ops`,
//! `dump_historic_ops_by_duration` and `dump_historic_slow_ops`.
//!
//! Source of the answers' fields: Ceph 18.2 `src/common/TrackedOp.cc`, `src/osd/OpRequest.cc`.

use crate::config::Config;
use base::{Clock, Stamp};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use types::{EntityAddr, HObject, ReqId, SpgId, UTime};

/// An answered request.
#[derive(Debug, Clone)]
pub struct Done {
    pub reqid: ReqId,
    pub pgid: SpgId,
    pub obj: HObject,
    /// Where the client was, if its session still stands.
    pub client: Option<EntityAddr>,
    pub received: Stamp,
    pub took: Duration,
    pub writes: bool,
}

impl Done {
    fn json(&self, clock: Clock) -> Value {
        let age = clock.mono.since(self.received);
        let began_ns = clock.wall_ns.saturating_sub(age.as_nanos() as u64);
        let at = |after: Duration| UTime::from_wall_ns(began_ns + after.as_nanos() as u64).to_string();
        let flags = if self.writes { "ondisk+write" } else { "ondisk+read" };
        let flag_point = if self.writes { "commit sent; apply or cleanup" } else { "started" };
        let event = |name: &str, after: Duration| json!({ "event": name, "time": at(after), "duration": after.as_secs_f64() });
        json!({
            "description": format!("osd_op({} {} {} {flags})", self.reqid, self.pgid, self.obj),
            "initiated_at": at(Duration::ZERO),
            "age": age.as_secs_f64(),
            "duration": self.took.as_secs_f64(),
            // 20.2 says of operations that go on by design that their age is no fault: no request is one.
            "continuous": false,
            "type_data": {
                "flag_point": flag_point,
                "client_info": {
                    "client": self.reqid.name.to_string(),
                    "client_addr": self.client.as_ref().map_or(String::new(), ToString::to_string),
                    "tid": self.reqid.tid,
                },
                "events": [event("initiated", Duration::ZERO), event("done", self.took)],
            },
        })
    }
}

/// Requests that any of the lists holds at most.
const SIZE_MAX: u64 = 10_000;

/// The slowest `size` of those that came in the last `age`, and the last `slow_size` that took at least `slow_ns`, whenever they came.
#[derive(Debug)]
pub struct History {
    done: Vec<Done>,
    size: usize,
    age: Duration,
    /// In the order of their ends.
    slow: VecDeque<Done>,
    slow_size: usize,
    slow_s: f64,
    slow_ns: u64,
    /// Nothing faster than this gets into either list; nanoseconds.
    floor_ns: u64,
}

impl Default for History {
    fn default() -> Self {
        let (slow_size, slow_s, slow_ns) = (20, 10.0, 10_000_000_000);
        Self { done: Vec::new(), size: 20, age: Duration::from_secs(600), slow: VecDeque::new(), slow_size, slow_s, slow_ns, floor_ns: 0 }
    }
}

impl History {
    /// Follows the options.
    pub fn configure(&mut self, config: &Config) {
        let size = |name: &str| config.int(name).min(SIZE_MAX) as usize;
        self.size = size("osd_op_history_size");
        self.age = Duration::from_secs(config.int("osd_op_history_duration"));
        self.slow_size = size("osd_op_history_slow_op_size");
        self.slow_s = config.num("osd_op_history_slow_op_threshold").max(0.0);
        self.slow_ns = (self.slow_s * 1e9) as u64;
        self.shrink();
    }
    /// True if a request that took so long is worth to be remembered.
    #[inline]
    pub fn wants(&self, took_ns: u64) -> bool {
        took_ns > self.floor_ns
    }
    pub fn put(&mut self, done: Done) {
        if done.took.as_nanos() as u64 >= self.slow_ns {
            self.slow.push_back(done.clone());
        }
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
        self.slow.drain(..self.slow.len().saturating_sub(self.slow_size));
        let fastest = self.done.iter().map(|d| d.took.as_nanos() as u64).min().unwrap_or(0);
        let floor_ns = match self.size {
            0 => u64::MAX,
            size if self.done.len() < size => 0,
            _ => fastest,
        };
        let below_slow_ns = if self.slow_size == 0 { u64::MAX } else { self.slow_ns.saturating_sub(1) };
        self.floor_ns = floor_ns.min(below_slow_ns);
    }
    /// `dump_historic_ops`: in the order in which they came.
    pub fn dump(&self, clock: Clock) -> Value {
        let mut done: Vec<&Done> = self.done.iter().collect();
        done.sort_by_key(|d| d.received);
        self.shown(&done, clock)
    }
    /// `dump_historic_ops_by_duration`: the slowest first.
    pub fn dump_by_duration(&self, clock: Clock) -> Value {
        let mut done: Vec<&Done> = self.done.iter().collect();
        done.sort_by_key(|d| std::cmp::Reverse(d.took));
        self.shown(&done, clock)
    }
    fn shown(&self, done: &[&Done], clock: Clock) -> Value {
        let ops: Vec<Value> = done.iter().map(|d| d.json(clock)).collect();
        json!({ "size": self.size, "duration": self.age.as_secs(), "ops": ops })
    }
    /// `dump_historic_slow_ops`: in the order in which they came.
    pub fn dump_slow(&self, clock: Clock) -> Value {
        let mut slow: Vec<&Done> = self.slow.iter().collect();
        slow.sort_by_key(|d| d.received);
        let ops: Vec<Value> = slow.iter().map(|d| d.json(clock)).collect();
        json!({ "num to keep": self.slow_size, "threshold to keep": self.slow_s, "Ops": ops })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

    const SECOND_NS: u64 = 1_000_000_000;

    fn done(at_s: u64, took: Duration) -> Done {
        let (reqid, pgid, obj) = Default::default();
        Done { reqid, pgid, obj, client: None, received: Stamp(at_s * SECOND_NS), took, writes: true }
    }
    fn configured(options: &[(&str, &str)]) -> History {
        let mut config = Config::default();
        for (name, value) in options {
            assert!(config.set(name, value, Source::Override), "{name}");
        }
        let mut history = History::default();
        history.configure(&config);
        history
    }
    /// When each of a list came, in seconds.
    fn came(list: &Value) -> Vec<u64> {
        let at = |op: &Value| 2000 - op["age"].as_f64().unwrap() as u64;
        list.as_array().unwrap().iter().map(at).collect()
    }
    fn clock() -> Clock {
        Clock { mono: Stamp(2000 * SECOND_NS), wall_ns: 5000 * SECOND_NS }
    }

    #[test]
    fn the_slowest_stay() {
        let mut history = History::default();
        for i in 0..1000_u64 {
            let took = i * 37 % 1000;
            if history.wants(took) {
                history.put(done(i, Duration::from_nanos(took)));
            }
        }
        assert!(history.done.len() == 20 && history.done.iter().all(|d| d.took.as_nanos() >= 980));
        history.expire(Stamp(1000 * SECOND_NS));
        assert!(history.done.len() < 20 && history.done.iter().all(|d| d.received >= Stamp(400 * SECOND_NS)));
        let history = configured(&[("osd_op_history_size", "0"), ("osd_op_history_slow_op_size", "0")]);
        assert!(!history.wants(u64::MAX - 1));
    }

    #[test]
    fn slow_ones_are_kept_for_themselves_and_do_not_age() {
        let mut history =
            configured(&[("osd_op_history_size", "2"), ("osd_op_history_slow_op_size", "3"), ("osd_op_history_slow_op_threshold", "2.5")]);
        for (at_s, took_s) in [(10, 3), (20, 9), (30, 1), (40, 8), (50, 3), (60, 2)] {
            let took = Duration::from_secs(took_s);
            if history.wants(took.as_nanos() as u64) {
                history.put(done(at_s, took));
            }
        }
        let by_time = history.dump(clock());
        assert_eq!((came(&by_time["ops"]), &by_time["size"]), (vec![20, 40], &json!(2)));
        assert_eq!(came(&history.dump_by_duration(clock())["ops"]), [20, 40]);
        history.expire(clock().mono);
        assert_eq!(history.dump(clock())["ops"], json!([]));
        let slow = history.dump_slow(clock());
        assert_eq!(came(&slow["Ops"]), [20, 40, 50], "the newest three");
        assert_eq!((&slow["num to keep"], &slow["threshold to keep"]), (&json!(3), &json!(2.5)));
    }

    #[test]
    fn an_operation_is_shown_with_its_client_and_when_it_began_and_ended() {
        let shown = done(1990, Duration::from_millis(1500)).json(clock());
        let [began, ended] = [0, 1].map(|n| shown["type_data"]["events"][n].clone());
        assert_eq!((&began["event"], &ended["event"], &ended["duration"]), (&json!("initiated"), &json!("done"), &json!(1.5)));
        assert_eq!(shown["initiated_at"], began["time"]);
        assert!(ended["time"].as_str() > began["time"].as_str());
        assert!(shown["type_data"]["client_info"]["tid"].is_u64() && shown["age"] == 10.0);
    }
}
