//! Objects that a placement group has at hand: what each is like now, which of its writes are not yet durable, who waits for them.
//!
//! A read waits for the uncommitted writes of its own object, so nobody is shown what could still be rolled back; other objects don't wait.
//! Reads don't wait for each other, however many of them wait for the store; a write that came after them does, so that they see what was before it.
//! Writes don't wait for each other: their answers go out in the order of the log, and a failed or repeated one is an entry of it too.

use crate::op::ObjectContext;
use crate::request::ClientOp;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use types::HObject;

/// Mixes what names are told apart by before their strings are looked at: the hash of the name is a field of it.
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
type ByHash<T> = HashMap<u32, T, BuildHasherDefault<ObjectHasher>>;

/// One object at hand.
#[derive(Debug)]
pub struct Slot {
    pub ctx: Box<ObjectContext>,
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
    /// Something waits for it, or it is known of it what the store doesn't have for sure.
    fn is_busy(&self) -> bool {
        self.inflight > 0 || self.reading > 0 || !self.waiters.is_empty()
    }
    /// What must be over before the first of the waiters goes on is. `passing`: see [`Objects::is_passing`].
    pub fn is_over_for(&self, writes: bool, passing: bool) -> bool {
        if writes { self.reading == 0 && !passing } else { self.inflight == 0 }
    }
}

/// Names whose last sight is remembered.
const SIGHTS: usize = 64;

/// Heads at hand, and requests that wait until the store has fetched their object's record; those that nothing waits for are forgotten, the longest unused first, when there are more than the bound.
#[derive(Debug)]
pub struct Objects {
    /// By the hash of their names; of one hash there is seldom more than one.
    map: ByHash<SmallVec<[Slot; 1]>>,
    len: usize,
    /// By the head's name; requests in order.
    loading: HashMap<HObject, VecDeque<Box<ClientOp>>, BuildHasherDefault<ObjectHasher>>,
    /// Reads that wait for the store with their object's record, which is not at hand: how many, by the hash of the object's name. Few are asked for
    /// again, and one that is waits for its namesakes at worst.
    passing: ByHash<u32>,
    clock: u64,
    max: usize,
    /// Hashes of names, the last that had each place: who comes again soon is worth keeping.
    sights: [u32; SIGHTS],
}

impl Objects {
    pub fn new(max: usize) -> Self {
        Self {
            map: HashMap::default(),
            len: 0,
            loading: HashMap::default(),
            passing: HashMap::default(),
            clock: 0,
            max,
            sights: [0; SIGHTS],
        }
    }
    #[inline]
    pub fn get(&mut self, head: &HObject) -> Option<&mut Slot> {
        let slot = self.map.get_mut(&head.hash)?.iter_mut().find(|slot| slot.ctx.hobj() == head)?;
        self.clock += 1;
        slot.used = self.clock;
        Some(slot)
    }
    pub fn peek(&self, head: &HObject) -> Option<&Slot> {
        self.map.get(&head.hash)?.iter().find(|slot| slot.ctx.hobj() == head)
    }
    /// True if an object was asked for not long before. Of many objects that are read at random hardly one is; their records are not worth keeping.
    pub fn comes_again(&mut self, head: &HObject) -> bool {
        let place = head.hash.wrapping_mul(0x9e37_79b9) as usize >> 16;
        std::mem::replace(&mut self.sights[place % SIGHTS], head.hash) == head.hash
    }
    /// Takes in what was loaded or changed: a head, whose name is in storage of its own.
    pub fn put(&mut self, ctx: Box<ObjectContext>) -> &mut Slot {
        self.clock += 1;
        let used = self.clock;
        let hash = ctx.hobj().hash;
        if self.len >= self.max && self.peek(ctx.hobj()).is_none() {
            self.evict();
        }
        let slots = self.map.entry(hash).or_default();
        let place = slots.iter().position(|slot| slot.ctx.hobj() == ctx.hobj()).unwrap_or(slots.len());
        match slots.get_mut(place) {
            Some(slot) => (slot.ctx, slot.used) = (ctx, used),
            None => {
                slots.push(Slot { ctx, inflight: 0, reading: 0, waiters: VecDeque::new(), stalled: false, used });
                self.len += 1;
            }
        }
        &mut slots[place]
    }
    /// Forgets the older half of what nothing waits for.
    fn evict(&mut self) {
        let cut = self.clock.saturating_sub(self.max as u64 / 2);
        self.retain(|slot| slot.is_busy() || slot.used > cut);
    }
    fn retain(&mut self, keep: impl Fn(&Slot) -> bool) {
        let mut gone = 0;
        self.map.retain(|_, slots| {
            let before = slots.len();
            slots.retain(|slot| keep(slot));
            gone += before - slots.len();
            !slots.is_empty()
        });
        self.len -= gone;
    }
    /// A read waits with a record of its own.
    pub fn pass(&mut self, head: &HObject) {
        *self.passing.entry(head.hash).or_default() += 1;
    }
    /// It waits no longer.
    pub fn passed(&mut self, head: &HObject) {
        let std::collections::hash_map::Entry::Occupied(mut reads) = self.passing.entry(head.hash) else {
            panic!("a read that waits is counted")
        };
        *reads.get_mut() -= 1;
        if *reads.get() == 0 {
            reads.remove();
        }
    }
    /// True if such reads wait that may be this object's: writes wait for them.
    #[inline]
    pub fn is_passing(&self, head: &HObject) -> bool {
        !self.passing.is_empty() && self.passing.contains_key(&head.hash)
    }
    /// Objects at hand whose requests may have waited for such reads.
    pub fn namesakes(&self, head: &HObject) -> SmallVec<[HObject; 1]> {
        let waits = |slot: &&Slot| !slot.waiters.is_empty();
        self.map.get(&head.hash).into_iter().flatten().filter(waits).map(|slot| slot.ctx.hobj().clone()).collect()
    }
    /// Forgets everything; what waited is returned in the order of each object.
    pub fn clear(&mut self) -> Vec<Box<ClientOp>> {
        let loading = std::mem::take(&mut self.loading);
        self.passing.clear();
        self.len = 0;
        self.map.drain().flat_map(|(_, slots)| slots).flat_map(|slot| slot.waiters).chain(loading.into_values().flatten()).collect()
    }
    pub fn waiting(&self) -> impl Iterator<Item = &ClientOp> {
        let all = self.map.values().flatten().map(|slot| &slot.waiters).chain(self.loading.values());
        all.flat_map(|waiters| waiters.iter().map(|op| &**op))
    }

    /// True if requests wait for this object's record.
    #[inline]
    pub fn is_loading(&self, head: &HObject) -> bool {
        !self.loading.is_empty() && self.loading.contains_key(head)
    }
    /// A request waits, behind others, until the store has fetched its object's record.
    pub fn wait_loading(&mut self, head: HObject, op: Box<ClientOp>) {
        self.loading.entry(head).or_default().push_back(op);
    }
    /// The store fetches bytes for a request on an object that is at hand; it goes in front of all others.
    pub fn stall(&mut self, head: &HObject, op: Box<ClientOp>) {
        let slot = self.get(head).expect("what is executed is at hand");
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
        if let Some(slot) = self.get(head) {
            slot.stalled = false;
        }
    }
}
