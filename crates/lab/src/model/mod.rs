//! Modelled devices: when a disk, or an SSD with or without power-loss protection, would have answered, as a function of what it is asked.
//!
//! ```text
//!   write ──▶ cache (cache_mib_s) ── drains ──▶ medium (seek_us, mib_s)
//!               │ full: writes wait for the medium      ▲
//!   flush ──────┴── everything, and flush_us ───────────┘        read ──▶ medium
//! ```
//! `discard_us` is how long a device answers nothing else while it discards, as cheap SSDs do; without it, a discard takes no time.
//! A device without `flush_us` takes flushes for nothing: it has power-loss protection, or ignores them. One request is served at a time.
//! A cache is drained in order without seeks; that of a disk whose arm or turns are told by [`places`], with the ways between them.
//! Several devices in a row are an [`Array`]. `fuse` is the file that behaves so, below a loop device.
//!
//! Absent: parallel channels of an SSD, wear, a queue of a disk's own, and everything that a data sheet does not say.

pub mod fuse;
mod medium;
mod places;

use crate::study::file::Model;
use medium::Medium;
use places::Places;
use std::path::PathBuf;

/// The words of our own command line that lead to [`fuse::serve`].
pub const COMMAND: &[&str] = &["lab", "model"];
const MIB: f64 = (1u64 << 20) as f64;
/// What Linux's `md` takes unless told.
const STRIPE_KIB: u64 = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Read { at: u64, len: u64 },
    Write { at: u64, len: u64 },
    Flush,
    Discard { at: u64, len: u64 },
}

/// A device, as far as its time goes. All times are ns on one clock.
#[derive(Debug, Clone)]
pub struct Device {
    medium: Medium,
    medium_ns: f64,
    flush_ns: u64,
    discard_ns: u64,
    cache: f64,
    cache_ns: f64,
    /// The cache's way in.
    entry_at: u64,
    /// Bytes in the cache that the medium lacks, and when that was so.
    dirty: f64,
    dirty_at: u64,
    /// The same of a disk with heads, and since when there is any.
    places: Places,
    placed_at: u64,
}

impl Device {
    /// Of `size` bytes.
    pub fn new(model: &Model, size: u64) -> Self {
        let us = |us: Option<i64>| us.unwrap_or(0).max(0) as u64 * 1000;
        // ns of a byte; a device without a rate takes no time over them.
        let rate = |mib_s: Option<i64>| mib_s.filter(|m| *m > 0).map_or(0.0, |m| 1e9 / (m as f64 * MIB));
        Self {
            medium: Medium::new(model, size, rate(model.mib_s)),
            medium_ns: rate(model.mib_s),
            flush_ns: us(model.flush_us),
            discard_ns: us(model.discard_us),
            cache: model.cache_mib.unwrap_or(0).max(0) as f64 * MIB,
            cache_ns: rate(model.cache_mib_s),
            entry_at: 0,
            dirty: 0.0,
            dirty_at: 0,
            places: Places::default(),
            placed_at: 0,
        }
    }
    /// When it answers what it is asked `now`. Questions come in the order of their times.
    pub fn answers(&mut self, now: u64, ask: Ask) -> u64 {
        self.drain(now);
        match ask {
            Ask::Read { at, len } => self.medium.pass(now, at, len),
            Ask::Write { at, len } if self.cache > 0.0 && self.medium.has_places() => self.place(now, at, len),
            Ask::Write { len, .. } if self.cache > 0.0 => self.gather(now, len),
            Ask::Write { at, len } => self.medium.pass(now, at, len),
            Ask::Discard { .. } if self.discard_ns == 0 => now,
            Ask::Discard { .. } => {
                // It does nothing else meanwhile, and its cache takes nothing in.
                self.medium.free_at = now.max(self.medium.free_at).max(self.entry_at) + self.discard_ns;
                self.entry_at = self.medium.free_at;
                self.medium.free_at
            }
            Ask::Flush if self.flush_ns == 0 => now,
            Ask::Flush => {
                while self.sink() {}
                let start = now.max(self.medium.free_at).max(self.entry_at);
                self.medium.free_at = start + (self.dirty * self.medium_ns) as u64 + self.flush_ns;
                (self.dirty, self.dirty_at) = (0.0, self.medium.free_at);
                self.medium.free_at
            }
        }
    }
    /// What the medium took out of the cache since it was looked at last.
    fn drain(&mut self, now: u64) {
        while self.medium.free_at.max(self.placed_at) < now && self.sink() {}
        if self.medium_ns > 0.0 && now > self.dirty_at {
            self.dirty = (self.dirty - (now - self.dirty_at) as f64 / self.medium_ns).max(0.0);
        }
        self.dirty_at = self.dirty_at.max(now);
    }
    /// The medium takes the next piece that the cache has for it; false if there is none.
    fn sink(&mut self) -> bool {
        let Some((at, len)) = self.places.take(self.medium.head()) else { return false };
        self.medium.pass(self.placed_at, at, len);
        true
    }
    /// A write into a cache that knows places: it waits until there is room.
    fn place(&mut self, now: u64, at: u64, len: u64) -> u64 {
        let mut start = now.max(self.entry_at);
        while self.places.bytes() as f64 + len as f64 > self.cache && self.sink() {
            start = start.max(self.medium.free_at);
        }
        if self.places.is_empty() {
            self.placed_at = start;
        }
        self.places.put(at, len);
        self.entry_at = start + (len as f64 * self.cache_ns) as u64;
        self.entry_at
    }
    fn gather(&mut self, now: u64, len: u64) -> u64 {
        let over = (self.dirty + len as f64 - self.cache).max(0.0);
        let start = now.max(self.entry_at) + (over * self.medium_ns) as u64;
        self.dirty = self.dirty - over + len as f64;
        self.dirty_at = self.dirty_at.max(start);
        self.entry_at = start + (len as f64 * self.cache_ns) as u64;
        self.entry_at
    }
}

/// Devices of one kind in a row (RAID 0): stripes go round them, and what is asked is done when its last part is.
#[derive(Debug, Clone)]
pub struct Array {
    disks: Vec<Device>,
    /// Bytes that lie on one device before the next has its turn.
    stripe: u64,
}

impl Array {
    /// Of `size` bytes in all.
    pub fn new(model: &Model, size: u64) -> Self {
        let number = |n: Option<i64>, unless: u64| n.filter(|n| *n > 0).map_or(unless, |n| n as u64);
        let disks = number(model.disks, 1);
        let disks = vec![Device::new(model, size / disks); disks as usize];
        Self { disks, stripe: number(model.stripe_kib, STRIPE_KIB) << 10 }
    }
    /// When it answers what it is asked `now`. Questions come in the order of their times.
    pub fn answers(&mut self, now: u64, ask: Ask) -> u64 {
        let (at, len) = match ask {
            Ask::Read { at, len } | Ask::Write { at, len } if self.disks.len() > 1 && len > 0 => (at, len),
            all => return self.disks.iter_mut().map(|d| d.answers(now, all)).max().unwrap_or(now),
        };
        let (number, end) = (self.disks.len() as u64, at.saturating_add(len));
        let (mut from, mut done) = (at, now);
        while from < end {
            let (stripe, within) = (from / self.stripe, from % self.stripe);
            let len = (self.stripe - within).min(end - from);
            let at = stripe / number * self.stripe + within;
            let part = if matches!(ask, Ask::Read { .. }) { Ask::Read { at, len } } else { Ask::Write { at, len } };
            done = done.max(self.disks[(stripe % number) as usize].answers(now, part));
            from += len;
        }
        done
    }
}

/// What a model's process is started with; the rest of its command line.
pub struct Served {
    /// The mount point: the device is the file `disk` in it.
    pub dir: PathBuf,
    /// Where the bytes are.
    pub file: PathBuf,
    pub model: Model,
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    fn device(model: Model) -> Device {
        Device::new(&model, 1 << 40)
    }

    #[test]
    fn a_disk_seeks_and_then_streams() {
        let mut disk = device(Model { seek_us: Some(8000), mib_s: Some(100), ..Model::default() });
        let mib = 1 << 20;
        // 10 ms for 1 MiB, and a seek in front of the first that does not follow.
        assert_eq!(disk.answers(0, Ask::Read { at: 0, len: mib }), 10_000 * US);
        assert_eq!(disk.answers(10_000 * US, Ask::Write { at: mib, len: mib }), 20_000 * US);
        assert_eq!(disk.answers(20_000 * US, Ask::Write { at: 0, len: mib }), 38_000 * US);
        // One at a time: what comes meanwhile waits.
        assert_eq!(disk.answers(20_000 * US, Ask::Read { at: mib, len: mib }), 48_000 * US);
    }

    #[test]
    fn a_flush_costs_those_without_protection_and_empties_their_cache() {
        let mib = 1 << 20;
        let model = Model { mib_s: Some(100), flush_us: Some(3000), cache_mib: Some(4), cache_mib_s: Some(1000), ..Model::default() };
        let mut ssd = device(model.clone());
        let written = ssd.answers(0, Ask::Write { at: 0, len: mib });
        assert_eq!(written, 1000 * US);
        let flushed = ssd.answers(written, Ask::Flush);
        // Most of the 10 ms that the medium takes, and the flush's own.
        assert!((12_000 * US..=13_000 * US).contains(&(flushed - written + 1000 * US)), "{flushed}");
        let mut protected = device(Model { flush_us: None, ..model });
        assert_eq!(protected.answers(5, Ask::Flush), 5);
    }

    #[test]
    fn a_discard_stalls_what_comes_behind_it() {
        let kib = 1u64 << 10;
        let model = Model { mib_s: Some(400), cache_mib: Some(4), cache_mib_s: Some(400), discard_us: Some(20_000), ..Model::default() };
        let mut ssd = device(model.clone());
        assert_eq!(ssd.answers(0, Ask::Discard { at: 0, len: 1 << 24 }), 20_000 * US);
        let write = ssd.answers(5_000 * US, Ask::Write { at: 0, len: 4 * kib });
        assert!((20_000 * US..20_010 * US).contains(&write), "{write}");
        assert!(ssd.answers(5_000 * US, Ask::Read { at: 0, len: 4 * kib }) >= 20_000 * US);
        assert_eq!(device(Model { discard_us: None, ..model }).answers(7, Ask::Discard { at: 0, len: 1 << 24 }), 7);
    }

    #[test]
    fn disks_in_a_row_share_a_large_request_and_each_flushes() {
        let (kib, model) = (1u64 << 10, Model { mib_s: Some(100), flush_us: Some(3000), ..Model::default() });
        let mut row = Array::new(&Model { disks: Some(3), stripe_kib: Some(512), ..model.clone() }, 1 << 40);
        // 1.5 MiB are 512 KiB on each, which take 5 ms; alone it would be 15.
        assert_eq!(row.answers(0, Ask::Write { at: 0, len: 1536 * kib }), 5_000 * US);
        assert_eq!(Array::new(&model, 1 << 40).answers(0, Ask::Write { at: 0, len: 1536 * kib }), 15_000 * US);
        // Across a border: 256 KiB on the third, 256 on the first.
        assert_eq!(row.answers(5_000 * US, Ask::Read { at: 1280 * kib, len: 512 * kib }), 7_500 * US);
        // The second disk is free all the time; the third was just used, and is flushed as they all are.
        assert_eq!(row.answers(7_500 * US, Ask::Read { at: 512 * kib, len: 512 * kib }), 12_500 * US);
        assert_eq!(row.answers(12_500 * US, Ask::Flush), 15_500 * US);
    }

    #[test]
    fn a_full_cache_makes_writes_as_slow_as_the_medium() {
        let mib = 1u64 << 20;
        let mut ssd = device(Model { mib_s: Some(10), cache_mib: Some(4), cache_mib_s: Some(1000), ..Model::default() });
        let mut now = 0;
        let mut times = Vec::new();
        for n in 0..12 {
            let done = ssd.answers(now, Ask::Write { at: n * mib, len: mib });
            times.push((done - now) / US);
            now = done;
        }
        assert!(times[..4].iter().all(|us| *us < 2000), "{times:?}");
        // 100 ms for each MiB on the medium; a little of it was drained meanwhile.
        assert!(times[6..].iter().all(|us| (90_000..=101_000).contains(us)), "{times:?}");
    }

    /// Writes of 4 KiB at random into that disk for ten seconds, one at a time: how many, and the slowest, us.
    fn scattered(model: Model) -> (u32, u64) {
        let (mut disk, mut seed, mut now, mut count, mut slowest) = (device(model), 7u64, 0, 0, 0);
        while now < 10_000_000 * US {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let done = disk.answers(now, Ask::Write { at: (seed >> 24) % (1 << 28) << 12, len: 4096 });
            slowest = slowest.max((done - now) / US);
            (now, count) = (done, count + 1);
        }
        (count, slowest)
    }

    #[test]
    fn a_disks_cache_sorts_and_is_no_faster_than_its_arm_in_the_end() {
        let bare = Model { seek_us: Some(8000), seek_min_us: Some(500), rpm: Some(7200), mib_s: Some(100), ..Model::default() };
        let (slow, _) = scattered(bare.clone());
        assert!((780..850).contains(&slow), "{slow}");
        let (sorted, slowest) = scattered(Model { cache_mib: Some(1), cache_mib_s: Some(200), ..bare.clone() });
        // The first 256 lie in the cache; after that, short ways and half a turn each.
        assert!((1500..2600).contains(&sorted) && slowest > 5000, "{sorted}, {slowest}");
        let model = Model { cache_mib: Some(64), cache_mib_s: Some(200), flush_us: Some(1), ..bare };
        let mut disk = device(model);
        for n in 0..100 {
            disk.answers(0, Ask::Write { at: n * 7919 % 100 << 30, len: 4096 });
        }
        let flushed = disk.answers(US, Ask::Flush) / US / 100;
        assert!((1000..8000).contains(&flushed), "{flushed} us for each of what is sorted");
    }
}
