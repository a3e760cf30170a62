//! Objects that a placement group knows something of: their contexts at hand, and the order of their requests.
//!
//! A context is at hand after it was loaded to be kept, or written. An order is here while it is not free; its object's context need not be at
//! hand: a read that few come after brings its own. Holds no rule of the order ([`super::order`]) and loads nothing.

use super::order::{Access, Entry, Hold, ObjectOrder, Ordered, Turn};
use crate::op::ObjectContext;
use crate::request::ClientOp;
use base::fixed::HashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::hash_map::Entry as MapEntry;
use std::hash::{BuildHasherDefault, Hasher};
use types::osd_op::osd_flag;
use types::{CEPH_NOSNAP, EntityKind, HObject, ReqId};

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

/// The head of an object, which most names are.
pub fn head_name(obj: &HObject) -> Cow<'_, HObject> {
    if obj.snap == CEPH_NOSNAP { Cow::Borrowed(obj) } else { Cow::Owned(obj.head()) }
}

impl Ordered for Box<ClientOp> {
    fn access(&self) -> Access {
        // A request that has asked for other objects takes its turn, whatever it came with.
        if self.msg.flags & osd_flag::SKIPRWLOCKS != 0 && self.fetches.is_none() {
            Access::Unordered
        } else if self.may_mutate() {
            Access::Write
        } else if self.reqid.name.kind == EntityKind::OSD {
            Access::CopyRead
        } else {
            Access::Read
        }
    }
}

/// What is known of an object.
#[derive(Debug)]
enum Known {
    Context(Box<ObjectContext>),
    /// Its head's name.
    Name(HObject),
}

#[derive(Debug)]
struct Object {
    known: Known,
    order: ObjectOrder<Box<ClientOp>>,
    used: u64,
}

impl Object {
    fn head(&self) -> &HObject {
        match &self.known {
            Known::Context(ctx) => ctx.hobj(),
            Known::Name(name) => name,
        }
    }
    fn has_context(&self) -> bool {
        matches!(self.known, Known::Context(_))
    }
}

/// Names that [`Recent`] remembers.
const RECENT: usize = 64;

/// A small direct-mapped filter of names that were asked for lately.
#[derive(Debug)]
struct Recent([u32; RECENT]);

impl Recent {
    /// True if this name was asked for not long before.
    fn again(&mut self, hash: u32) -> bool {
        let at = hash.wrapping_mul(0x9e37_79b9) as usize >> 16;
        std::mem::replace(&mut self.0[at % RECENT], hash) == hash
    }
}

/// Heads by name. When more contexts are at hand than the bound, the older half of those whose order is free is forgotten; orders are bounded by
/// the requests under way.
#[derive(Debug)]
pub struct Objects {
    /// By the hash of their names; of one hash there is seldom more than one.
    map: ByHash<SmallVec<[Object; 1]>>,
    contexts: usize,
    clock: u64,
    contexts_max: usize,
    recent: Recent,
}

impl Objects {
    pub fn new(contexts_max: usize) -> Self {
        Self { map: HashMap::default(), contexts: 0, clock: 0, contexts_max, recent: Recent([0; RECENT]) }
    }
    fn find(&self, head: &HObject) -> Option<&Object> {
        self.map.get(&head.hash)?.iter().find(|object| object.head() == head)
    }
    #[inline]
    fn find_mut(&mut self, head: &HObject) -> Option<&mut Object> {
        self.map.get_mut(&head.hash)?.iter_mut().find(|object| object.head() == head)
    }
    /// The order of an object that may not be here yet.
    fn order(&mut self, head: &HObject) -> &mut ObjectOrder<Box<ClientOp>> {
        let objects = self.map.entry(head.hash).or_default();
        let at = objects.iter().position(|object| object.head() == head).unwrap_or_else(|| {
            objects.push(Object { known: Known::Name(head.clone()), order: ObjectOrder::default(), used: 0 });
            objects.len() - 1
        });
        &mut objects[at].order
    }
    /// The order of an object with something under way.
    fn busy(&mut self, head: &HObject) -> &mut ObjectOrder<Box<ClientOp>> {
        &mut self.find_mut(head).expect("an order that is not free stays").order
    }
    /// Objects of a hash whose orders are free and whose contexts are not at hand are not kept.
    fn forget_free(&mut self, hash: u32) {
        let Some(objects) = self.map.get_mut(&hash) else { return };
        objects.retain(|object| object.has_context() || !object.order.is_free());
        if objects.is_empty() {
            self.map.remove(&hash);
        }
    }

    // Contexts.

    /// A context at hand.
    pub fn context(&self, head: &HObject) -> Option<&ObjectContext> {
        match &self.find(head)?.known {
            Known::Context(ctx) => Some(ctx),
            Known::Name(_) => None,
        }
    }
    /// True if an object was asked for not long before. Of many objects that are read at random hardly one is: their contexts are not worth keeping.
    pub fn asked_again(&mut self, head: &HObject) -> bool {
        self.recent.again(head.hash)
    }
    /// Keeps a head's context, whose name is in storage of its own.
    pub fn put(&mut self, ctx: Box<ObjectContext>) {
        self.put_object(ctx);
    }
    /// True if a head's context is at hand. It has been used now.
    pub fn is_at_hand(&mut self, head: &HObject) -> bool {
        let used = self.clock + 1;
        let Some(object) = self.find_mut(head).filter(|object| object.has_context()) else { return false };
        object.used = used;
        self.clock = used;
        true
    }
    /// All contexts go. For a member that follows: its requests have no orders.
    pub fn forget_contexts(&mut self) {
        debug_assert!(self.map.values().flatten().all(|object| object.order.is_free()), "no request of a follower's has an order");
        self.contexts = 0;
        self.map.clear();
    }
    /// What is known of a head is not to be relied on any more: it is loaded anew.
    pub fn forget(&mut self, head: &HObject) {
        if let Some(object) = self.find_mut(head).filter(|object| object.has_context()) {
            object.known = Known::Name(head.detach());
            self.contexts -= 1;
            self.forget_free(head.hash);
        }
    }
    fn put_object(&mut self, ctx: Box<ObjectContext>) -> &mut Object {
        self.clock += 1;
        let used = self.clock;
        if self.contexts >= self.contexts_max && self.context(ctx.hobj()).is_none() {
            self.evict();
        }
        let objects = self.map.entry(ctx.hobj().hash).or_default();
        let at = objects.iter().position(|object| object.head() == ctx.hobj()).unwrap_or(objects.len());
        match objects.get_mut(at) {
            Some(object) => {
                self.contexts += usize::from(!object.has_context());
                (object.known, object.used) = (Known::Context(ctx), used);
            }
            None => {
                self.contexts += 1;
                objects.push(Object { known: Known::Context(ctx), order: ObjectOrder::default(), used });
            }
        }
        &mut objects[at]
    }
    /// Forgets the older half of those contexts whose orders are free.
    fn evict(&mut self) {
        let cut = self.clock.saturating_sub(self.contexts_max as u64 / 2);
        let contexts = &mut self.contexts;
        self.map.retain(|_, objects| {
            objects.retain(|object| {
                let keeps = !object.order.is_free() || object.used > cut;
                // What is free has a context.
                *contexts -= usize::from(!keeps);
                keeps
            });
            !objects.is_empty()
        });
    }

    // Orders; see `ObjectOrder` for each.

    /// A request comes in to its object; with it, whether the context is at hand.
    #[inline]
    pub fn enter(&mut self, op: Box<ClientOp>) -> (Entry<Box<ClientOp>>, bool) {
        let used = self.clock + 1;
        let object = self.find_mut(&head_name(&op.msg.hobj));
        let Some(object) = object else { return (ObjectOrder::default().enter(op), false) };
        object.used = used;
        let (entry, is_at_hand) = (object.order.enter(op), object.has_context());
        self.clock = used;
        (entry, is_at_hand)
    }
    /// The next request of an object's queue that may go on.
    pub fn next(&mut self, head: &HObject) -> Option<(Box<ClientOp>, Turn)> {
        let object = self.find_mut(head)?;
        let next = object.order.next();
        if next.is_none() && !object.has_context() {
            self.forget_free(head.hash);
        }
        next
    }
    /// A request that goes on in order holds its object.
    #[must_use]
    pub fn hold(&mut self, head: &HObject, hold: Hold, op: Box<ClientOp>) -> bool {
        self.order(head).hold(hold, op)
    }
    pub fn store_ready(&mut self, head: &HObject) {
        self.busy(head).store_ready();
    }
    /// True if nothing is under way to an object, nor waits.
    pub fn is_free(&self, head: &HObject) -> bool {
        self.find(head).is_none_or(|object| object.order.is_free())
    }
    /// True if this request holds the object until others are read.
    pub fn is_fetching(&self, head: &HObject, reqid: ReqId) -> bool {
        self.find(head).and_then(|object| object.order.fetching()).is_some_and(|op| op.reqid == reqid)
    }
    pub fn fetched(&mut self, head: &HObject) -> Option<&mut Box<ClientOp>> {
        self.busy(head).fetched()
    }
    pub fn fetch_failed(&mut self, head: &HObject) -> Option<Box<ClientOp>> {
        self.busy(head).fetch_failed()
    }
    pub fn read_waits(&mut self, op: &ClientOp) {
        self.order(&head_name(&op.msg.hobj)).read_waits();
    }
    /// The store has what a read waits for: the read, unless it must wait again, and its head, if requests stand in the queue.
    pub fn read_left(&mut self, op: Box<ClientOp>) -> (Option<Box<ClientOp>>, Option<HObject>) {
        let MapEntry::Occupied(mut objects) = self.map.entry(op.msg.hobj.hash) else { panic!("an order that is not free stays") };
        let head = head_name(&op.msg.hobj);
        let at = objects.get().iter().position(|object| *object.head() == *head);
        drop(head);
        let at = at.expect("an order that is not free stays");
        let object = &mut objects.get_mut()[at];
        let op = object.order.read_left(op);
        let waiting = object.order.has_waiters().then(|| object.head().clone());
        if !object.has_context() && object.order.is_free() {
            objects.get_mut().swap_remove(at);
            if objects.get().is_empty() {
                objects.remove();
            }
        }
        (op, waiting)
    }
    /// A write of this head is submitted: its context is what readers see once it is durable.
    pub fn submitted(&mut self, ctx: Box<ObjectContext>) {
        self.put_object(ctx).order.submitted();
    }
    /// One is durable. True if requests wait.
    pub fn committed(&mut self, head: &HObject) -> bool {
        let order = self.busy(head);
        order.committed();
        order.has_waiters()
    }

    /// Requests that wait in a queue.
    pub fn waiting(&self) -> impl Iterator<Item = &ClientOp> {
        self.map.values().flatten().flat_map(|object| object.order.waiters()).map(|op| &**op)
    }
    /// Forgets everything; what waited is returned, in the order of each object.
    pub fn end_interval(&mut self) -> Vec<Box<ClientOp>> {
        self.contexts = 0;
        self.map.drain().flat_map(|(_, objects)| objects).flat_map(|object| object.order.into_waiters()).collect()
    }
}
