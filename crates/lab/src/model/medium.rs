//! The medium of a modelled device: where its heads are, and how long a way and a transfer take.
//!
//! ```text
//!   byte ──▶ track: the arm goes there (seek_min_us … seek_us is the mean of all ways)
//!        └─▶ angle on it: the platter turns (rpm) ──▶ bytes pass at mib_s
//! ```
//! A disk whose `seek_min_us` and `rpm` are not told takes `seek_us` for any jump; an SSD takes nothing. The time of a way grows with
//! the square root of its length, as an arm that speeds up and brakes needs. A track has the bytes that pass in a turn, on all of the
//! disk. Absent: zones of outer and inner tracks, and a queue of the disk's own.

use crate::study::file::Model;

/// The mean of the square root of the distance of two places at random is 8/15 of that of the whole way.
const WHOLE_OF_MEAN: f64 = 15.0 / 8.0;

#[derive(Debug, Clone, Copy)]
struct Arm {
    /// To a track beside.
    least_ns: f64,
    /// The way over all tracks takes so much more.
    whole_ns: f64,
    /// Bytes of the disk.
    size: f64,
    /// 0: where the platter stands does not count.
    turn_ns: f64,
}

#[derive(Debug, Clone)]
pub struct Medium {
    jump_ns: u64,
    byte_ns: f64,
    arm: Option<Arm>,
    /// The byte behind the last one that passed.
    head: u64,
    /// When it has done all that was asked, ns.
    pub free_at: u64,
}

impl Medium {
    /// Of a device of `size` bytes; `byte_ns` is the time of a byte.
    pub fn new(model: &Model, size: u64, byte_ns: f64) -> Self {
        let ns = |us: Option<i64>| us.unwrap_or(0).max(0) as f64 * 1e3;
        let turn_ns = model.rpm.filter(|rpm| *rpm > 0).map_or(0.0, |rpm| 60e9 / rpm as f64);
        let arm = (model.seek_min_us.is_some() || turn_ns > 0.0).then(|| {
            let least_ns = model.seek_min_us.map_or(ns(model.seek_us), |us| ns(Some(us)));
            Arm { least_ns, whole_ns: (ns(model.seek_us) - least_ns).max(0.0) * WHOLE_OF_MEAN, size: size.max(1) as f64, turn_ns }
        });
        Self { jump_ns: ns(model.seek_us) as u64, byte_ns, arm, head: 0, free_at: 0 }
    }
    /// True if a place matters, and not just that it is another.
    pub fn has_places(&self) -> bool {
        self.arm.is_some()
    }
    /// The byte that costs least.
    pub fn head(&self) -> u64 {
        self.head
    }
    /// When `len` bytes from `at` on have passed, if that is asked at `now`.
    pub fn pass(&mut self, now: u64, at: u64, len: u64) -> u64 {
        let start = now.max(self.free_at);
        let way = match (at == self.head, self.arm) {
            (true, _) => 0,
            (false, None) => self.jump_ns,
            (false, Some(arm)) => self.way(arm, start, at),
        };
        self.free_at = start + way + (len as f64 * self.byte_ns) as u64;
        self.head = at.saturating_add(len);
        self.free_at
    }
    /// The arm's way to the byte's track, and the platter's to its angle.
    fn way(&self, arm: Arm, start: u64, at: u64) -> u64 {
        let track = if self.byte_ns > 0.0 { arm.turn_ns / self.byte_ns } else { 0.0 };
        let distance = at.abs_diff(self.head) as f64;
        let is_same = at > self.head && distance < track;
        let seek = if is_same { 0.0 } else { arm.least_ns + arm.whole_ns * (distance / arm.size).min(1.0).sqrt() };
        if arm.turn_ns == 0.0 {
            return seek as u64;
        }
        let (there, angle) = ((start as f64 + seek) % arm.turn_ns, at as f64 * self.byte_ns % arm.turn_ns);
        (seek + (angle - there).rem_euclid(arm.turn_ns)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 40;

    fn disk() -> Medium {
        let model = Model { seek_us: Some(8000), seek_min_us: Some(500), rpm: Some(7200), ..Model::default() };
        Medium::new(&model, SIZE, 1e9 / (100.0 * (1u64 << 20) as f64))
    }

    /// The mean time of 4 KiB at these places, one behind the other, us.
    fn mean_us(disk: &mut Medium, places: impl Iterator<Item = u64>) -> f64 {
        let (mut now, mut count) = (0, 0);
        for at in places {
            now = disk.pass(now, at, 4096);
            count += 1;
        }
        now as f64 / 1e3 / f64::from(count)
    }

    #[test]
    fn a_place_at_random_takes_the_mean_way_and_half_a_turn() {
        let mut seed = 7u64;
        let places = std::iter::repeat_with(move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 24) % (SIZE >> 12) << 12
        });
        let us = mean_us(&mut disk(), places.take(4000));
        // 8 ms, 4.17 ms, and 39 us for the bytes.
        assert!((11_900.0..12_500.0).contains(&us), "{us}");
    }

    #[test]
    fn neighbours_cost_less_and_what_follows_costs_no_way() {
        let followed = mean_us(&mut disk(), (0..1000).map(|n| n * 4096));
        assert!((38.0..40.0).contains(&followed), "{followed}");
        // Every fourth block of a track: the platter brings them, the arm rests.
        let fourth = mean_us(&mut disk(), (0..1000).map(|n| n * 4 * 4096));
        assert!((150.0..160.0).contains(&fourth), "{fourth}");
        // 64 MiB apart in order: short ways, and about half a turn.
        let sorted = mean_us(&mut disk(), (0..1000).map(|n| n * ((64 << 20) + 12_288)));
        assert!((1000.0..9500.0).contains(&sorted), "{sorted}");
        // The block before the last one has just gone by.
        let mut disk = disk();
        disk.pass(0, 1 << 20, 4096);
        let from = disk.free_at;
        let back = (disk.pass(from, 1 << 20, 4096) - from) / 1000;
        assert!((8_300..=8_380).contains(&back), "{back}");
    }

    #[test]
    fn without_arm_and_turns_each_jump_costs_the_same() {
        let mut flat = Medium::new(&Model { seek_us: Some(8000), ..Model::default() }, SIZE, 0.0);
        assert_eq!((flat.pass(0, 4096, 1), flat.pass(9_000_000, 1 << 39, 1), flat.has_places()), (8_000_000, 17_000_000, false));
        let mut turns = Medium::new(&Model { rpm: Some(6000), mib_s: Some(100), ..Model::default() }, SIZE, 10.0);
        // No arm: half a turn away by the angle alone, a turn being 10 ms.
        assert_eq!(turns.pass(0, 500_000, 0), 5_000_000);
    }
}
