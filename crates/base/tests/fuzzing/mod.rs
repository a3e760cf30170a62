//! What the decoders' fuzz tests share: a budget, ways to damage a sample, and a meter of the memory that a decoder took.
//!
//! No test of its own: other crates' tests include this file. By default a run is the same few thousand inputs each time; with
//! `HUMBOLDT_FUZZ_SECONDS` it goes on for that long with a new seed, and says which. `HUMBOLDT_FUZZ_SEED` repeats an input.

#![allow(dead_code)]

use base::Rng;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting what this thread holds.
struct Meter;

fn count(bytes: isize) {
    // A thread that is going away has no counters any more.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static METER: Meter = Meter;

/// Bytes that this thread holds.
pub fn live() -> isize {
    LIVE.get()
}

/// The most bytes that `f` held at a time beyond what was held before, and what it returns.
pub fn peak_of<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = LIVE.get();
    PEAK.set(before);
    let value = f();
    ((PEAK.get() - before).max(0) as usize, value)
}

/// How often `f` asked for memory, and what it returns.
pub fn allocations_of<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATIONS.get();
    let value = f();
    (ALLOCATIONS.get() - before, value)
}

/// Runs `f`, which decodes `len` bytes of input, and holds it to `factor` bytes of memory for each of them, and 256 KiB: lists reserve
/// some room before they have seen their elements.
pub fn bounded<T>(what: &str, len: usize, factor: usize, f: impl FnOnce() -> T) -> T {
    let (peak, value) = peak_of(f);
    assert!(peak <= factor * len + (256 << 10), "{what}: {len} bytes of input took {peak} bytes of memory");
    value
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")))
}

/// Says which input it was if the test fails in it.
struct Input<'a>(&'a str, u64);
impl Drop for Input<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: HUMBOLDT_FUZZ_SEED={} repeats this input as the first", self.0, self.1);
        }
    }
}

/// Calls `f` for each input of the budget, `inputs` of them unless the environment says how long, each with a generator of its own.
pub fn run(name: &str, inputs: u64, mut f: impl FnMut(&mut Rng)) {
    let seconds = number("HUMBOLDT_FUZZ_SECONDS").map(Duration::from_secs);
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let seed = number("HUMBOLDT_FUZZ_SEED").unwrap_or_else(|| if seconds.is_some() { fresh() } else { 1 });
    let start = Instant::now();
    let mut done = 0;
    while seconds.map_or(done < inputs, |limit| start.elapsed() < limit) {
        let input = Input(name, seed.wrapping_add(done));
        f(&mut Rng::new(input.1));
        done += 1;
    }
    println!("{name}: {done} inputs from seed {seed} in {:.1} s", start.elapsed().as_secs_f64());
}

/// Numbers that counts and lengths are wrong with.
const NUMBERS: [u64; 10] = [0, 1, 0x7f, 0xff, 0x100, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x1_0000_0000, u64::MAX];

/// A copy of `sample` with one to four things wrong. `other` is what it is spliced with.
pub fn damaged(rng: &mut Rng, sample: &[u8], other: &[u8]) -> Vec<u8> {
    let mut out = sample.to_vec();
    for _ in 0..1 + rng.below(4) {
        let n = out.len() as u64;
        if n == 0 {
            out.extend_from_slice(other);
            continue;
        }
        let at = rng.below(n) as usize;
        match rng.below(12) {
            0..=3 => out[at] ^= 1 << rng.below(8),
            4 => out[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5) as usize],
            5..=7 => {
                let mut value = NUMBERS[rng.below(NUMBERS.len() as u64) as usize];
                if rng.chance(1, 3) {
                    value = [n, n - at as u64, n * 2][rng.below(3) as usize];
                }
                let width = [2, 4, 4, 8][rng.below(4) as usize].min(out.len() - at);
                out[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            }
            8 => out.truncate(at),
            9 => {
                let end = at + rng.below(n - at as u64).min(64) as usize;
                out.drain(at..end);
            }
            10 => {
                let end = at + rng.below(n - at as u64).min(256) as usize;
                let piece = out[at..end].to_vec();
                let to = rng.below(n) as usize;
                out.splice(to..to, piece);
            }
            _ if !other.is_empty() => {
                let from = rng.below(other.len() as u64) as usize;
                out.truncate(at);
                out.extend_from_slice(&other[from..]);
            }
            _ => {}
        }
    }
    out
}

/// One of `all`.
pub fn pick<'a, T>(rng: &mut Rng, all: &'a [T]) -> &'a T {
    &all[rng.below(all.len() as u64) as usize]
}
