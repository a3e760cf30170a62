//! What one request may cost: bytes read, bytes made, bytes answered, steps of looking things up; of a listing, rows that it looks at.
//!
//! Counts what all operations of a request take together, those that class methods ask for too. It doesn't know what an operation is: each
//! asks before it takes. A request that asks for more is answered EMSGSIZE as a whole, changes nothing and runs no further.

use super::exec::{Step, Stop};
use super::plan::{Limits, PlanStop};
use std::cell::Cell;
use types::errno::EMSGSIZE;

/// The least that a request may read, bytes, however small objects may be by configuration: older ones are larger.
const READ_MIN_BYTES: u64 = 256 << 20;
/// An answer may have this much beside an object's data, bytes.
const ANSWER_ROOM_BYTES: u64 = 32 << 20;
/// The largest object that the default configuration allows, bytes: it can be read in one piece whatever the limit is now.
const OBJECT_BYTES: u64 = 128 << 20;
// An object that is read whole, and its answer, fit into what one request may cost.
const _: () = assert!(OBJECT_BYTES + ANSWER_ROOM_BYTES <= READ_MIN_BYTES);
/// Changes or keys looked at: some tenths of a second.
const STEPS_MAX: u64 = 1 << 24;
/// A change that a class method makes costs as much as so many written bytes, beside those that it writes.
pub const CHANGE_BYTES: u64 = 512;

/// What is left of each.
#[derive(Debug)]
pub struct Costs {
    read: Cell<u64>,
    made: Cell<u64>,
    answered: Cell<u64>,
    steps: Cell<u64>,
}

/// Bytes that one answer may hold.
pub fn answer_max(limits: &Limits) -> u64 {
    limits.object_size_max.max(OBJECT_BYTES).saturating_add(ANSWER_ROOM_BYTES)
}

fn spend(left: &Cell<u64>, amount: u64) -> Step<()> {
    match left.get().checked_sub(amount) {
        Some(rest) => {
            left.set(rest);
            Ok(())
        }
        None => Err(Stop::Plan(PlanStop::Reply(EMSGSIZE))),
    }
}

/// What the listings of one request may look at together. One of them takes up to `osd_max_pgls` rows, and stock's clients send one: a few of that size fit,
/// or some hundred small ones. A page that is cut short by it says where to go on, as every page does.
#[derive(Debug)]
pub struct ListCosts {
    rows: Cell<u64>,
    /// What a page costs beside its rows: the store looks for its beginning.
    page: u64,
}

/// Full pages of a listing that one request may look at. Source: ours; stock has no bound.
const LISTED_PAGES: u64 = 4;
/// A page costs this part of a full one beside its rows.
const PAGE_PART: u64 = 32;

impl ListCosts {
    pub fn new(limits: &Limits) -> Self {
        let full = limits.list_max.max(1);
        let page = full.div_ceil(PAGE_PART);
        Self { rows: Cell::new(LISTED_PAGES.saturating_mul(full.saturating_add(page))), page }
    }
    /// A page of up to `wanted` rows is to be looked at: how many it may have. None if nothing is left.
    pub fn page(&self, wanted: usize) -> Option<usize> {
        let left = self.rows.get().checked_sub(self.page).filter(|left| *left > 0)?;
        self.rows.set(left);
        Some(wanted.min(usize::try_from(left).unwrap_or(usize::MAX)))
    }
    /// So many rows were looked at, or looked up once more.
    pub fn looked_at(&self, rows: usize) {
        self.rows.set(self.rows.get().saturating_sub(rows as u64));
    }
}

impl Costs {
    pub fn new(limits: &Limits) -> Self {
        Self {
            read: Cell::new(limits.object_size_max.saturating_mul(2).max(READ_MIN_BYTES)),
            made: Cell::new(limits.object_size_max.max(limits.write_size_max)),
            answered: Cell::new(answer_max(limits)),
            steps: Cell::new(STEPS_MAX),
        }
    }
    /// Bytes are read from the object, for an answer or for something else.
    pub fn read(&self, bytes: u64) -> Step<()> {
        spend(&self.read, bytes)
    }
    /// Bytes are written that the message did not bring as they are: repeated, or made by a class method.
    pub fn make(&self, bytes: u64) -> Step<()> {
        spend(&self.made, bytes)
    }
    pub fn answer(&self, bytes: u64) -> Step<()> {
        spend(&self.answered, bytes)
    }
    pub fn steps(&self, count: u64) -> Step<()> {
        spend(&self.steps, count)
    }
    /// An answer of so many bytes is going to be made.
    pub fn will_answer(&self, bytes: u64) -> Step<()> {
        if bytes > self.answered.get() { Err(Stop::Plan(PlanStop::Reply(EMSGSIZE))) } else { Ok(()) }
    }
    /// So many bytes are going to be counted as read.
    pub fn will_read(&self, bytes: u64) -> Step<()> {
        if bytes > self.read.get() { Err(Stop::Plan(PlanStop::Reply(EMSGSIZE))) } else { Ok(()) }
    }
    /// Bytes that an operation may still read, or answer: whichever is less.
    pub fn page_left(&self) -> u64 {
        self.read.get().min(self.answered.get())
    }
}
