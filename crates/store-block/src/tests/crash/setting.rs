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
//! | steady, churn, copies | transactions of one kind: see [`store::crash::Kind`] |

use crate::Config;
use crate::open::layout::{DATA, META, WAL};
use base::Rng;
use disk::{Dev, Order, Slow};
use store::conformance::Shape;
use store::crash::{CHURN_OBJECTS, Kind};

pub type Setting = store::crash::Setting<Opening>;

/// What a setting fixes of the configuration of the store that lives.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening {
    /// `None`: any.
    memory: Option<usize>,
    /// Bytes of a transaction's changes that a record may have; `None`: more than any has.
    spill_bytes: Option<usize>,
    /// Records that may be under way together; `None`: any.
    pipeline: Option<usize>,
    /// Milliseconds that a start may take to replay the log; `None`: as the store has it.
    replay_ms: Option<u64>,
    /// Room that is free is discarded.
    pub gives_back: bool,
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

/// The data device's, the log's, the meta device's.
fn devices(data: u64, wal: u64, meta: u64) -> Vec<u64> {
    vec![data, wal, meta]
}

/// Seeds from this one on are those from 0 on in which checkpoints begin for the next start's sake.
pub const PACED: u64 = 1 << 40;

pub fn paced(seed: u64) -> Setting {
    let any = of(seed);
    // Hardly one is asked for.
    Setting { checkpoint_every: 1000, opening: Opening { replay_ms: Some(1), ..any.opening }, ..any }
}

/// Seeds from this one on are those from 0 on whose store gives room back.
pub const DISCARDS: u64 = 1 << 41;

pub fn discarding(seed: u64) -> Setting {
    let any = of(seed);
    Setting { opening: Opening { gives_back: true, ..any.opening }, ..any }
}

pub fn of(seed: u64) -> Setting {
    let mut rng = Rng::new(seed ^ 0x5e77);
    let slow = [None, device(DATA), device(WAL), device(META)][rng.below(4) as usize];
    let order = [Order::AtOnce, Order::Shuffled, Order::Held][rng.below(3) as usize];
    let checkpoint_every = 3 + rng.below(7);
    let completions = 2 + rng.below(6);
    let meta_bytes = [META_BYTES, META_LITTLE][rng.below(2) as usize];
    let plain = Setting {
        devices: devices(4 << 20, 1 << 20, meta_bytes),
        kind: Kind::Chance,
        shape: Shape { names: 8, offset_max: 100_000, changes_max: 3 },
        slow,
        order,
        checkpoint_every,
        settle_every: 60,
        turn_every: 2,
        go_on_every: 256,
        go_on_max: 12,
        completions,
        opening: Opening::default(),
    };
    let hot = Shape { names: 4, offset_max: 20_000, changes_max: 3 };
    match seed % ROUND {
        STEADY => {
            return Setting {
                kind: Kind::Steady,
                slow: None,
                order: Order::Held,
                turn_every: 1,
                go_on_every: 16,
                go_on_max: 3,
                completions: 3,
                checkpoint_every: 20,
                opening: Opening { pipeline: Some(4), ..Opening::default() },
                ..plain
            };
        }
        CHURN => {
            return Setting {
                kind: Kind::Churn,
                // The label's, the objects', and a few.
                devices: devices((1 + CHURN_OBJECTS + 4) * 65_536 + (5 << 16), 1 << 20, META_BYTES),
                slow: Some((Slow::Volatile, 12)),
                order: Order::Held,
                completions: 8,
                opening: Opening { memory: Some(256 << 10), ..Opening::default() },
                ..plain
            };
        }
        SPILLS => {
            let shape = Shape { names: 6, offset_max: 60_000, changes_max: 16 };
            let spill_bytes = Some([200, 800, 3000][rng.below(3) as usize]);
            let opening = Opening { spill_bytes, ..Opening::default() };
            return Setting { shape, opening, devices: devices(10 << 20, 1 << 20, META_BYTES), ..plain };
        }
        COPIES => return Setting { kind: Kind::Copies, slow: None, order: Order::Held, completions: 4, ..plain },
        _ => {}
    }
    match seed % SETTINGS {
        0..3 => plain,
        3 => Setting { shape: hot, slow: device(WAL), order: Order::Held, checkpoint_every: 4, completions: 4, ..plain },
        4 => Setting { shape: hot, slow: device(DATA), order: Order::Held, devices: devices(1 << 20, 1 << 20, META_BYTES), ..plain },
        5 => Setting {
            shape: Shape { names: 6, offset_max: 90_000, changes_max: 3 },
            devices: devices((1 << 20) + rng.below(6) * 65_536, 1 << 20, META_BYTES),
            slow: (seed / SETTINGS).is_multiple_of(2).then_some((Slow::Volatile, 12)),
            order: Order::Held,
            completions: 8,
            ..plain
        },
        6 => Setting {
            // Overwrites more than new data: those are what fills the log.
            shape: Shape { names: 6, offset_max: 20_000, changes_max: 4 },
            slow: Some((Slow::Device(META), 300)),
            order: Order::Held,
            checkpoint_every: 20,
            settle_every: 1000,
            opening: Opening { memory: Some(4 << 20), ..Opening::default() },
            ..plain
        },
        _ => Setting {
            shape: Shape { names: 6, offset_max: 300_000, changes_max: 4 },
            devices: devices(8 << 20, 3 << 20, meta_bytes),
            ..plain
        },
    }
}

/// How the store is opened that lives.
pub fn living(setting: &Setting, rng: &mut Rng) -> Config {
    let (any, fixed) = (config(rng), setting.opening);
    Config {
        memory: fixed.memory.unwrap_or(any.memory),
        pipeline: fixed.pipeline.unwrap_or(any.pipeline),
        spill_bytes: fixed.spill_bytes.unwrap_or(any.spill_bytes),
        replay_ms: fixed.replay_ms.unwrap_or(any.replay_ms),
        // Where something lags behind, the log shall fill: with images.
        data_has_holes: any.data_has_holes || setting.slow.is_some(),
        ..any
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
