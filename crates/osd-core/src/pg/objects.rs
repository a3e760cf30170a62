//! Objects that a placement group has at hand: what each is like now, which of its writes are not yet durable, who waits for them.
//!
//! A read waits for the uncommitted writes of its own object, so nobody is shown what could still be rolled back; other objects don't wait.
//! Reads don't wait for each other, however many of them wait for the store; a write that came after them does, so that they see what was before it.
//! Writes don't wait for each other: their answers go out in the order of the log, and a failed or repeated one is an entry of it too.

use crate::op::ObjectContext;
use crate::request::ClientOp;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use types::HObject;

/// Leaves the strings of an object's name out: the hash of the name is a field of it.
#[derive(Default)]
pub struct ObjectHasher(u64);
impl Hasher for ObjectHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u8(&mut self, _: u8) {}
    fn write_usize(&mut self, _: usize) {}
    fn write_u32(&mut self, v: u32) {
        self.write_u64(v.into());
    }
    fn write_i64(&mut self, _: i64) {}
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(32) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }
}

/// One object at hand.
#[derive(Debug)]
pub struct Slot {
    pub ctx: ObjectContext,
    /// Writes submitted and not durable.
    pub inflight: u32,
    /// Reads that came before all waiters, and wait for bytes that the store fetches.
    pub reading: u32,
    /// Behind those writes and reads, in order.
    pub waiters: VecDeque<Box<ClientOp>>,
    /// The first of the waiters waits for bytes that the store fetches; the group knows by which ticket.
    pub stalled: bool,
    used: u64,
}

impl Slot {
    /// The first of the waiters waits for something from elsewhere, and all others behind it.
    pub fn is_held(&self) -> bool {
        self.stalled || self.is_fetching()
    }
    /// The first of the waiters waits for another object.
    pub fn is_fetching(&self) -> bool {
        self.waiters.front().is_some_and(|op| op.is_fetching())
    }
    /// Nothing forbids to execute `op` now.
    pub fn is_free_for(&self, writes: bool) -> bool {
        self.waiters.is_empty() && self.is_over_for(writes)
    }
    /// What must be over before the first of the waiters goes on is.
    pub fn is_over_for(&self, writes: bool) -> bool {
        if writes { self.reading == 0 } else { self.inflight == 0 }
    }
}

/// Objects at hand, and requests that wait until the store has fetched their object's record; those that nothing waits for are forgotten, the longest unused first, when there are more than the bound.
#[derive(Debug)]
pub struct Objects {
    map: HashMap<HObject, Slot, BuildHasherDefault<ObjectHasher>>,
    /// By the head's name; requests in order.
    loading: HashMap<HObject, VecDeque<Box<ClientOp>>, BuildHasherDefault<ObjectHasher>>,
    clock: u64,
    max: usize,
}

impl Objects {
    pub fn new(max: usize) -> Self {
        Self { map: HashMap::default(), loading: HashMap::default(), clock: 0, max }
    }
    #[inline]
    pub fn get(&mut self, obj: &HObject) -> Option<&mut Slot> {
        let slot = self.map.get_mut(obj)?;
        self.clock += 1;
        slot.used = self.clock;
        Some(slot)
    }
    pub fn peek(&self, obj: &HObject) -> Option<&Slot> {
        self.map.get(obj)
    }
    /// Takes in what was loaded or changed.
    pub fn put(&mut self, ctx: ObjectContext) -> &mut Slot {
        if self.map.len() >= self.max && !self.map.contains_key(&ctx.hobj) {
            self.evict();
        }
        self.clock += 1;
        let used = self.clock;
        use std::collections::hash_map::Entry;
        match self.map.entry(ctx.hobj.clone()) {
            Entry::Occupied(slot) => {
                let slot = slot.into_mut();
                (slot.ctx, slot.used) = (ctx, used);
                slot
            }
            Entry::Vacant(place) => place.insert(Slot { ctx, inflight: 0, reading: 0, waiters: VecDeque::new(), stalled: false, used }),
        }
    }
    /// Forgets the older half of what nothing waits for.
    fn evict(&mut self) {
        let cut = self.clock.saturating_sub(self.max as u64 / 2);
        self.map.retain(|_, s| s.inflight > 0 || s.reading > 0 || !s.waiters.is_empty() || s.used > cut);
    }
    /// Forgets everything; what waited is returned in the order of each object.
    pub fn clear(&mut self) -> Vec<Box<ClientOp>> {
        let loading = std::mem::take(&mut self.loading);
        self.map.drain().flat_map(|(_, s)| s.waiters).chain(loading.into_values().flatten()).collect()
    }
    pub fn waiting(&self) -> impl Iterator<Item = &ClientOp> {
        let all = self.map.values().map(|s| &s.waiters).chain(self.loading.values());
        all.flat_map(|waiters| waiters.iter().map(|op| &**op))
    }

    /// Puts a request behind those that wait for their object's record; gives it back if none does.
    #[inline]
    pub fn behind_loading(&mut self, head: &HObject, op: Box<ClientOp>) -> Option<Box<ClientOp>> {
        if self.loading.is_empty() {
            return Some(op);
        }
        match self.loading.get_mut(head) {
            Some(waiters) => {
                waiters.push_back(op);
                None
            }
            None => Some(op),
        }
    }
    /// The store fetches an object's record for this request.
    pub fn wait_loading(&mut self, head: HObject, op: Box<ClientOp>) {
        self.loading.entry(head).or_default().push_back(op);
    }
    /// The store fetches bytes for a request on an object that is at hand; it goes in front of all others.
    pub fn stall(&mut self, head: &HObject, op: Box<ClientOp>) {
        let slot = self.map.get_mut(head).expect("what is executed is at hand");
        assert!(!slot.stalled, "of an object's requests only the first is executed");
        slot.stalled = true;
        slot.waiters.push_front(op);
    }
    /// The store has fetched an object's record: the requests that wait for it.
    pub fn take_loading(&mut self, head: &HObject) -> Option<VecDeque<Box<ClientOp>>> {
        self.loading.remove(head)
    }
    /// The store has fetched what the first waiter of an object at hand waits for.
    pub fn unstall(&mut self, head: &HObject) {
        if let Some(slot) = self.map.get_mut(head) {
            slot.stalled = false;
        }
    }
}
