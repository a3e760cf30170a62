//! Memory of a process that runs OSDs: what its options ask for, and how a limit of the whole process is divided.
//!
//! ```text
//!   limit = the program, the monitor, the allocator's slack
//!         + each OSD:  maps, logs of groups, connections  (not bounded here: caches give way to them)
//!                    + requests, their answers, requests set aside   2 × `requests`
//!                    + caches of a store on disk, or objects of a store in memory
//! ```
//! [`governor`] watches the process and moves the shares. Absent: keeping to a share, which is the store's, and [`base::Budget`]'s.

mod governor;

use crate::folder::half_of_memory;
use anyhow::{Result, ensure};
use osd::Spare;
use osd::store::CACHE_DEFAULT;
use tokio::sync::watch;

const MIB: u64 = 1 << 20;
/// The program, the monitor and the allocator's slack, bytes.
const PROCESS: u64 = 32 * MIB;
/// One OSD's maps, logs of groups and connections, bytes: those of a small cluster. A larger cluster's come from the caches.
const OSD: u64 = 24 * MIB;
/// Caches of a store on disk, at the least.
const CACHES_MIN: u64 = 16 * MIB;
/// Requests under way, at the least. As many bytes again may be answers, or wait aside: half of it each.
const REQUESTS_MIN: u64 = 4 * MIB;
/// Requests under way, at the most: more of them than the option allows is of no use.
const REQUESTS_MAX: u64 = 64 * MIB;
/// Kept free for each OSD, half of its memory at the most: logs of 300,000 entries, and as many objects that a member lacks. They come within
/// a moment, when a cluster peers, and caches need longer to give way.
const BURST: u64 = 256 * MIB;
/// Objects of a store in memory, at the least: below that there is no room for maps and logs.
const OBJECTS_MIN: u64 = 16 * MIB;

/// The options that ask for memory.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// `--memory-limit`.
    pub limit: Option<u64>,
    /// `--memory`.
    pub memory: Option<u64>,
    pub osds: u32,
    /// Objects are kept in memory.
    pub in_memory: bool,
    /// Each OSD is a process of its own.
    pub processes: bool,
}

/// Memory of each OSD of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Of the whole process, if it is bounded.
    limit: Option<u64>,
    osds: u64,
    /// Caches of a store on disk, bytes.
    pub caches: u64,
    /// Objects of a store in memory, bytes.
    pub objects: u64,
    /// Requests under way, bytes; counts where there is a limit.
    requests: u64,
}

impl Memory {
    /// Divides the memory. An error says by how much a limit is too small.
    pub fn of(asked: Asked) -> Result<Self> {
        let Asked { limit, memory, osds, in_memory, processes } = asked;
        let osds = u64::from(osds.max(1));
        let each = memory.map(|all| all / osds);
        let Some(limit) = limit else {
            let objects = each.unwrap_or_else(|| half_of_memory() / osds);
            ensure!(!in_memory || objects >= OBJECTS_MIN, "--memory is too little: give {} MiB or more for each OSD", OBJECTS_MIN / MIB);
            return Ok(Self { limit: None, osds, caches: each.unwrap_or(CACHE_DEFAULT), objects, requests: 0 });
        };
        let wanted = match (in_memory, each) {
            (true, each) => each.unwrap_or(OBJECTS_MIN).max(OBJECTS_MIN),
            (false, _) => CACHES_MIN,
        };
        let of_osd = OSD + if processes { PROCESS } else { 0 };
        let least = PROCESS + osds * (of_osd + 2 * REQUESTS_MIN + wanted);
        let what = if in_memory { "objects in memory" } else { "caches" };
        ensure!(
            limit >= least,
            "--memory-limit is too little for {osds} OSD{s} with {wanted} MiB of {what} each: give {least}M or more{fewer}",
            s = if osds == 1 { "" } else { "s" },
            wanted = wanted / MIB,
            least = least.div_ceil(MIB),
            fewer = if osds == 1 && !in_memory { "" } else { ", or ask for less" },
        );
        let room = (limit - PROCESS) / osds - of_osd;
        let requests = (room / 8).clamp(REQUESTS_MIN, REQUESTS_MAX);
        let rest = room - 2 * requests;
        // A sixteenth is left to slack that grows with the rest.
        let rest = (rest - rest / 16).max(wanted);
        ensure!(
            each.is_none_or(|each| each <= rest),
            "--memory is more than --memory-limit leaves: give --memory {}M or less, or a higher limit",
            rest * osds / MIB
        );
        let share = each.unwrap_or(rest - BURST.min(rest / 2)).max(wanted);
        Ok(Self { limit: Some(limit), osds, caches: share, objects: share, requests })
    }

    /// For each OSD of `up --processes`: its process's limit. The monitor's process keeps its part.
    pub fn limit_of_osd(&self) -> Option<u64> {
        self.limit.map(|limit| (limit - PROCESS) / self.osds)
    }

    /// Watches this process from now on, if it has a limit: what OSDs keep to.
    pub fn govern(&self) -> Option<watch::Receiver<Spare>> {
        let limit = self.limit?;
        Some(governor::start(governor::Governor::new(limit, self.osds, self.most(), Self::least())))
    }
    fn most(&self) -> Spare {
        Spare { caches: self.caches, requests: self.requests }
    }
    fn least() -> Spare {
        Spare { caches: CACHES_MIN, requests: REQUESTS_MIN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked = Asked { limit: None, memory: None, osds: 1, in_memory: false, processes: false };

    fn error(asked: Asked) -> String {
        Memory::of(asked).expect_err("it is refused").to_string()
    }

    #[test]
    fn without_a_limit_only_memory_counts() {
        let default = Memory::of(ASKED).unwrap();
        assert_eq!((default.caches, default.limit_of_osd()), (CACHE_DEFAULT, None));
        let two = Memory::of(Asked { memory: Some(64 * MIB), osds: 2, ..ASKED }).unwrap();
        assert_eq!((two.caches, two.objects), (32 * MIB, 32 * MIB));
        assert!(error(Asked { memory: Some(MIB), in_memory: true, ..ASKED }).contains("16 MiB or more"));
    }

    #[test]
    fn a_limit_is_divided_and_never_exceeded() {
        for (limit_mib, osds) in [(80, 1), (128, 1), (512, 1), (512, 3), (4096, 1), (65_536, 64)] {
            for in_memory in [false, true] {
                let asked = Asked { limit: Some(limit_mib * MIB), osds, in_memory, ..ASKED };
                let m = Memory::of(asked).unwrap();
                let share = if in_memory { m.objects } else { m.caches };
                let all = PROCESS + u64::from(osds) * (OSD + 2 * m.requests + share);
                assert!(all <= limit_mib * MIB, "{asked:?}: {m:?} makes {} MiB", all / MIB);
                assert!(share >= CACHES_MIN && m.requests >= REQUESTS_MIN && m.requests <= REQUESTS_MAX, "{m:?}");
            }
        }
        let small = error(Asked { limit: Some(100 * MIB), osds: 3, ..ASKED });
        assert!(small.contains("3 OSDs with 16 MiB of caches each: give 176M or more"), "{small}");
        assert_eq!(Memory::of(Asked { limit: Some(176 * MIB), osds: 3, ..ASKED }).unwrap().caches, CACHES_MIN);
        let both = error(Asked { limit: Some(512 * MIB), memory: Some(500 * MIB), ..ASKED });
        assert!(both.contains("a higher limit"), "{both}");
        // The limit that `up --processes` gives each process is enough for it.
        let asked = Asked { limit: Some(272 * MIB), osds: 3, processes: true, ..ASKED };
        let (up, small) = (Memory::of(asked).unwrap(), Asked { limit: Some(271 * MIB), ..asked });
        let one = Memory::of(Asked { limit: up.limit_of_osd(), memory: Some(up.caches), ..ASKED }).unwrap();
        assert_eq!((one.caches, one.requests), (up.caches, up.requests));
        assert!(error(small).contains("give 272M"), "{}", error(small));
        let objects = error(Asked { limit: Some(512 * MIB), memory: Some(500 * MIB), in_memory: true, ..ASKED });
        assert!(objects.contains("give 564M or more, or ask for less"), "{objects}");
    }
}
