//! What kind of life a seed's is: how large the devices are, what the transactions are like, which device lags behind.
//!
//! | setting | what it is for |
//! |---|---|
//! | plain | a bit of everything |
//! | hot | the same few blocks again and again, in place, while the log lags behind: images that newer ones replace |
//! | cramped | a data device that is nearly full: freed space is given again at once, requests are refused |
//! | full log | checkpoints that lag behind: the log goes round, and stands still until it is trimmed |
//! | large | writes over several chunks, long runs beside the record |
//! | spills | transactions whose changes lie beside their records |
//! | steady, churn, copies | transactions of one kind: see [`super::work`] |

use super::work::{CHURN_OBJECTS, Kind};
use crate::Config;
use crate::layout::{DATA, META, WAL};
use base::Rng;
use disk::{Dev, MemDisks, Order, Slow};
use store::conformance::Shape;

#[derive(Debug, Clone, Copy)]
pub struct Setting {
    data_bytes: u64,
    wal_bytes: u64,
    meta_bytes: u64,
    pub kind: Kind,
    pub shape: Shape,
    /// What completes last: one time in so many.
    pub slow: Option<(Slow, u64)>,
    pub order: Order,
    /// A checkpoint is asked for after one in so many transactions.
    pub checkpoint_every: u64,
    /// Everything becomes durable after one in so many transactions.
    pub settle_every: u64,
    /// That of the store while it lives; `None`: any.
    memory: Option<usize>,
    /// Bytes of a transaction's changes that a record may have; `None`: more than any has.
    spill_bytes: Option<usize>,
    /// Records that may be under way together; `None`: any.
    pipeline: Option<usize>,
    /// A turn ends after one in so many transactions.
    pub turn_every: u64,
    /// The store goes on from one in so many crash states, with at most so many transactions.
    pub go_on_every: u64,
    pub go_on_max: u64,
    /// Operations that may complete between two transactions.
    pub completions: u64,
}

/// Seeds go round these, in which transactions are by chance.
pub const SETTINGS: u64 = 8;
/// But of so many seeds, the last ones are of one kind each.
pub const ROUND: u64 = 32;
pub const SPILLS: u64 = 28;
pub const STEADY: u64 = 29;
pub const CHURN: u64 = 30;
pub const COPIES: u64 = 31;
const META_BYTES: u64 = 1 << 20;
/// A meta device that is full at once: the data device lends.
const META_LITTLE: u64 = 8 * 4096;

fn device(dev: Dev) -> Option<(Slow, u64)> {
    Some((Slow::Device(dev), 20))
}

impl Setting {
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5e77);
        let plain = Self {
            data_bytes: 4 << 20,
            wal_bytes: 1 << 20,
            kind: Kind::Chance,
            shape: Shape { names: 8, offset_max: 100_000, changes_max: 3 },
            slow: [None, device(DATA), device(WAL), device(META)][rng.below(4) as usize],
            order: [Order::AtOnce, Order::Shuffled, Order::Held][rng.below(3) as usize],
            checkpoint_every: 3 + rng.below(7),
            completions: 2 + rng.below(6),
            settle_every: 60,
            memory: None,
            spill_bytes: None,
            pipeline: None,
            turn_every: 2,
            go_on_every: 256,
            go_on_max: 12,
            meta_bytes: [META_BYTES, META_LITTLE][rng.below(2) as usize],
        };
        let hot = Shape { names: 4, offset_max: 20_000, changes_max: 3 };
        match seed % ROUND {
            STEADY => {
                return Self {
                    kind: Kind::Steady,
                    slow: None,
                    order: Order::Held,
                    pipeline: Some(4),
                    turn_every: 1,
                    go_on_every: 16,
                    go_on_max: 3,
                    completions: 3,
                    checkpoint_every: 20,
                    ..plain
                };
            }
            CHURN => {
                return Self {
                    kind: Kind::Churn,
                    // The label's, the objects', and a few.
                    data_bytes: (1 + CHURN_OBJECTS + 4) * 65_536 + (5 << 16),
                    slow: Some((Slow::Volatile, 12)),
                    order: Order::Held,
                    memory: Some(256 << 10),
                    completions: 8,
                    meta_bytes: META_BYTES,
                    ..plain
                };
            }
            SPILLS => {
                let shape = Shape { names: 6, offset_max: 60_000, changes_max: 16 };
                let spill_bytes = Some([200, 800, 3000][rng.below(3) as usize]);
                return Self { shape, spill_bytes, data_bytes: 10 << 20, meta_bytes: META_BYTES, ..plain };
            }
            COPIES => return Self { kind: Kind::Copies, slow: None, order: Order::Held, completions: 4, ..plain },
            _ => {}
        }
        match seed % SETTINGS {
            0..3 => plain,
            3 => Self { shape: hot, slow: device(WAL), order: Order::Held, checkpoint_every: 4, completions: 4, ..plain },
            4 => Self { shape: hot, slow: device(DATA), order: Order::Held, data_bytes: 1 << 20, meta_bytes: META_BYTES, ..plain },
            5 => Self {
                shape: Shape { names: 6, offset_max: 90_000, changes_max: 3 },
                data_bytes: (1 << 20) + rng.below(6) * 65_536,
                slow: (seed / SETTINGS).is_multiple_of(2).then_some((Slow::Volatile, 12)),
                order: Order::Held,
                completions: 8,
                meta_bytes: META_BYTES,
                ..plain
            },
            6 => Self {
                // Overwrites more than new data: those are what fills the log.
                shape: Shape { names: 6, offset_max: 20_000, changes_max: 4 },
                slow: Some((Slow::Device(META), 300)),
                order: Order::Held,
                checkpoint_every: 20,
                settle_every: 1000,
                memory: Some(4 << 20),
                ..plain
            },
            _ => Self { shape: Shape { names: 6, offset_max: 300_000, changes_max: 4 }, data_bytes: 8 << 20, wal_bytes: 3 << 20, ..plain },
        }
    }
    /// How the store is opened that lives.
    pub fn config(&self, rng: &mut Rng) -> Config {
        let any = config(rng);
        Config {
            memory: self.memory.unwrap_or(any.memory),
            pipeline: self.pipeline.unwrap_or(any.pipeline),
            spill_bytes: self.spill_bytes.unwrap_or(any.spill_bytes),
            // Where something lags behind, the log shall fill: with images.
            data_has_holes: any.data_has_holes || self.slow.is_some(),
            ..any
        }
    }
    pub fn disks(&self) -> MemDisks {
        MemDisks::new(&[self.data_bytes, self.wal_bytes, self.meta_bytes])
    }
}

/// How a store is opened, in life and after it. With little memory, images go to their places and objects leave memory early.
pub fn config(rng: &mut Rng) -> Config {
    let memory = [64 << 10, 256 << 10, 4 << 20, 4 << 20][rng.below(4) as usize];
    let (pipeline, in_place) = (1 + rng.below(4) as usize, 1 + rng.below(16) as usize);
    // Not often: zeros cover what former ends of the log left behind, and that is to be seen, too.
    Config {
        memory,
        pipeline,
        in_place,
        zero_ahead: in_place.is_multiple_of(4),
        data_has_holes: pipeline.is_multiple_of(2),
        ..Config::default()
    }
}
