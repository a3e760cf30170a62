//! Where clients' large data arrive: memory from which the store's devices write, or in which a store in memory keeps them, so that they are not
//! copied on the way.
//!
//! Holds no bound. Of the devices' memory `disk` says how much may be lent, and when that is out, messages come as all others do. Other memory goes to
//! what arrives, of which clients have a budget, and to what the store holds, which has its capacity.

use bytes::Bytes;
use disk::{AlignedBuf, KnownMemory, LargeBuf, LargeMemory};
use msgr::direct::{DIRECT_MAX, DIRECT_MIN};
use msgr::{ReceiveBuffer, ReceiveBuffers};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// The memory of a store's devices.
pub struct DeviceMemory(pub KnownMemory);

/// Memory of its own for each piece of data.
pub struct StoreMemory(pub Arc<LargeMemory>);

/// What is smaller than this is copied: a mapping for each would cost more.
const MAPPED_MIN: usize = 512 << 10;

struct Lent(AlignedBuf);
struct Mapped(LargeBuf);

impl ReceiveBuffers for DeviceMemory {
    fn sizes(&self) -> RangeInclusive<usize> {
        DIRECT_MIN..=KnownMemory::LEN_MAX
    }
    fn take(&self, len: usize) -> Option<Box<dyn ReceiveBuffer>> {
        self.0.take(len).map(|buf| Box::new(Lent(buf)) as Box<dyn ReceiveBuffer>)
    }
}

impl ReceiveBuffers for StoreMemory {
    fn sizes(&self) -> RangeInclusive<usize> {
        MAPPED_MIN..=DIRECT_MAX
    }
    fn take(&self, len: usize) -> Option<Box<dyn ReceiveBuffer>> {
        self.0.take(len).map(|buf| Box::new(Mapped(buf)) as Box<dyn ReceiveBuffer>)
    }
}

/// How long memory is kept that is free: a minute has objects that go and others that come in their place.
const FREE_FOR: Duration = Duration::from_secs(60);
/// What goes back in one turn: 8 MiB take a millisecond, in which no request is served.
const TURN_BYTES: usize = 8 << 20;
/// How often is looked, and until when after a turn.
const LOOK: Duration = Duration::from_secs(1);
const NEXT_TURN: Duration = Duration::from_millis(20);

/// Gives memory back when its time has come, for as long as the OSD runs.
pub async fn give_back(memory: Arc<LargeMemory>) {
    let mut pause = LOOK;
    loop {
        tokio::time::sleep(pause).await;
        pause = if memory.give_back(FREE_FOR, TURN_BYTES) > 0 { NEXT_TURN } else { LOOK };
    }
}

impl ReceiveBuffer for Lent {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn freeze(self: Box<Self>) -> Bytes {
        self.0.freeze()
    }
}

impl ReceiveBuffer for Mapped {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn freeze(self: Box<Self>) -> Bytes {
        self.0.freeze()
    }
}
