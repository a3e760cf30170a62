//! What a life is like: how large the devices are, what the transactions are, which device lags behind. A store names its own settings, by seed
//! ([`super::Subject::setting`]): those that reach the corners it has.

use super::Kind;
use crate::conformance::Shape;
use disk::{MemDisks, Order, Slow};

/// One kind of life. `O` is what it fixes of the store's own configuration.
#[derive(Debug, Clone)]
pub struct Setting<O> {
    /// Of each device, in bytes.
    pub devices: Vec<u64>,
    pub kind: Kind,
    pub shape: Shape,
    /// What completes last: one time in so many.
    pub slow: Option<(Slow, u64)>,
    pub order: Order,
    /// A checkpoint is asked for after one in so many transactions.
    pub checkpoint_every: u64,
    /// Everything becomes durable after one in so many transactions.
    pub settle_every: u64,
    /// A turn ends after one in so many transactions.
    pub turn_every: u64,
    /// The store goes on from one in so many crash states, with at most so many transactions.
    pub go_on_every: u64,
    pub go_on_max: u64,
    /// Operations that may complete between two transactions.
    pub completions: u64,
    pub opening: O,
}

impl<O> Setting<O> {
    pub fn disks(&self) -> MemDisks {
        MemDisks::new(&self.devices)
    }
}
