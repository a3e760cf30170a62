//! Where clients' large data arrive: memory from which the store's devices write, so that they are not copied on the way.
//!
//! Holds no bound: `disk` says how much of this memory may be lent, and when that is out, messages come as all others do.

use bytes::Bytes;
use disk::{AlignedBuf, KnownMemory};
use msgr::{ReceiveBuffer, ReceiveBuffers};

/// The memory of a store's devices.
pub struct DeviceMemory(pub KnownMemory);

struct Lent(AlignedBuf);

impl ReceiveBuffers for DeviceMemory {
    fn take(&self, len: usize) -> Option<Box<dyn ReceiveBuffer>> {
        self.0.take(len).map(|buf| Box::new(Lent(buf)) as Box<dyn ReceiveBuffer>)
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
