//! Keeps a process below its limit: looks at its memory, and moves what OSDs may take of it.
//!
//! Caches give way first, then requests that are under way. When there is room again, requests get theirs back first. Each look takes a part of the
//! distance only, since memory that was let go comes back to the system a moment later.

use super::purge::give_back;
use crate::allocator;
use osd::Spare;
use std::time::{Duration, Instant};
use tokio::sync::watch;

const MIB: u64 = 1 << 20;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// The part of a limit that is kept free: what a look can't see yet, and what comes until the next.
const FREE_OF: u64 = 8;
/// Below the goal by this part of the limit, shares grow again.
const CALM_OF: u64 = 16;
/// A process that stays above its limit is told of, once in so long.
const TOLD: Duration = Duration::from_secs(600);
/// Looks above the limit before that: two seconds.
const ABOVE_MAX: u32 = 20;

/// The rule, as a value.
#[derive(Debug)]
pub struct Governor {
    limit: u64,
    osds: u64,
    most: Spare,
    least: Spare,
    now: Spare,
}

impl Governor {
    /// Shares of each OSD between `least` and `most`; the most at first.
    pub fn new(limit: u64, osds: u64, most: Spare, least: Spare) -> Self {
        let most = Spare { caches: most.caches.max(least.caches), requests: most.requests.max(least.requests) };
        Self { limit, osds: osds.max(1), most, least, now: most }
    }
    /// Memory above this is given up.
    pub fn goal(&self) -> u64 {
        self.limit - self.limit / FREE_OF
    }
    /// The process has so much: each OSD's share from now on.
    pub fn look(&mut self, used: u64) -> Spare {
        let goal = self.goal();
        if used > self.limit {
            // Whatever it costs: readers wait for a device, and do not lose their server.
            self.now.caches = self.least.caches;
            self.now.requests = (self.now.requests / 2).max(self.least.requests);
        } else if used > goal {
            let step = ((used - goal) / self.osds / 2).max(MIB);
            let from_caches = step.min(self.now.caches - self.least.caches);
            self.now.caches -= from_caches;
            self.now.requests = self.now.requests.saturating_sub(step - from_caches).max(self.least.requests);
        } else if used + self.limit / CALM_OF < goal {
            let step = ((goal - used) / self.osds / 16).max(64 << 10);
            let to_requests = step.min(self.most.requests - self.now.requests);
            self.now.requests += to_requests;
            self.now.caches = (self.now.caches + step - to_requests).min(self.most.caches);
        }
        self.now
    }
    fn is_at_least(&self) -> bool {
        self.now == self.least
    }
}

/// Resident memory of this process, bytes: in a unit that does not depend on the machine's page, which is 64 KiB on some.
fn resident() -> Option<u64> {
    resident_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}
fn resident_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Watches this process until its end.
pub fn start(governor: Governor) -> watch::Receiver<Spare> {
    let (sender, receiver) = watch::channel(governor.now);
    // Without this thread the limit is not held, and everything else is.
    let started = std::thread::Builder::new().name("memory".into()).spawn(move || run(governor, &sender));
    if let Err(e) = started {
        say::eprintln!("humboldt: --memory-limit is not held: {e}");
    }
    receiver
}

fn run(mut governor: Governor, sender: &watch::Sender<Spare>) {
    let (mut above, mut told, mut is_tight) = (0, None::<Instant>, false);
    loop {
        std::thread::sleep(LOOK);
        let Some(used) = resident() else { return };
        let spare = governor.look(used);
        sender.send_if_modified(|now| std::mem::replace(now, spare) != spare);
        let was_tight = std::mem::replace(&mut is_tight, used > governor.goal());
        match is_tight {
            true => give_back(),
            false if was_tight => allocator::tune(),
            false => {}
        }
        above = if used > governor.limit && governor.is_at_least() { above + 1 } else { 0 };
        if above > ABOVE_MAX && told.is_none_or(|at| at.elapsed() > TOLD) {
            told = Some(Instant::now());
            say::eprintln!(
                "humboldt: {} MiB of memory are in use, more than --memory-limit {} MiB, with caches and requests at their least: logs of groups, \
                 maps and connections need more. Give a higher limit, or fewer groups (`ceph osd pool set POOL pg_num`)",
                used / MIB,
                governor.limit / MIB
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that has something besides, caches as large as they may be, and requests of half their share.
    fn settle(governor: &mut Governor, besides: u64, looks: u32) -> u64 {
        let mut used = 0;
        for _ in 0..looks {
            used = besides + governor.osds * (governor.now.caches + governor.now.requests / 2);
            governor.look(used);
        }
        used
    }

    #[test]
    fn what_is_resident_is_read_in_the_kernels_words() {
        let status = "Name:\thumboldt\nVmHWM:\t   90000 kB\nVmRSS:\t   65536 kB\nRssAnon:\t   40000 kB\n";
        assert_eq!(resident_of(status), Some(64 * MIB));
        assert_eq!(resident_of("Name:\thumboldt\n"), None);
        assert!(resident().is_some_and(|bytes| bytes > 256 << 10));
    }
    #[test]
    fn caches_give_way_to_all_else_and_come_back() {
        let least = Spare { caches: 16 * MIB, requests: 4 * MIB };
        for osds in [1, 3] {
            let most = Spare { caches: 300 * MIB / osds, requests: 48 * MIB / osds };
            let mut g = Governor::new(512 * MIB, osds, most, least);
            assert!(settle(&mut g, 50 * MIB, 100) <= g.goal());
            assert_eq!(g.now, most, "there is room for all");
            assert!(settle(&mut g, 250 * MIB, 200) <= g.goal() + MIB);
            assert!(g.now.caches < most.caches && g.now.caches > least.caches && g.now.requests == most.requests, "{g:?}");
            // More than the limit, whatever is given up: all of it is.
            settle(&mut g, 600 * MIB, 2000);
            assert_eq!(g.now, least);
            assert!(g.is_at_least());
            settle(&mut g, 50 * MIB, 2000);
            assert_eq!(g.now, most, "requests and caches are there again");
        }
    }

    #[test]
    fn shares_stand_still_between_the_goal_and_calm() {
        let mut g =
            Governor::new(512 * MIB, 1, Spare { caches: 300 * MIB, requests: 48 * MIB }, Spare { caches: 16 * MIB, requests: 4 * MIB });
        g.look(500 * MIB);
        let now = g.now;
        assert!(now.caches < 300 * MIB);
        g.look(g.goal() - 10 * MIB);
        assert_eq!(g.now, now);
        g.look(g.goal() - 40 * MIB);
        assert!(g.now.caches > now.caches);
    }
}
