//! What head and parts of a fifo hold.

use crate::rest::{Rest, keeps, kept};
use denc::{ByteStr, Bytes, Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::{BTreeMap, BTreeSet};
use types::UTime;

/// Bytes kept for a part's header: its entries start here.
pub const PART_HEADER_SIZE: u64 = 512;
/// An entry's first bytes: magic, their length, the header's, the data's, the index (64 bits each), 32 reserved bits.
pub const ENTRY_PREFIX: u64 = 5 * 8 + 4;
/// What an entry takes besides its data: the first bytes, and a frame with a time.
pub const ENTRY_OVERHEAD: u64 = ENTRY_PREFIX + 6 + 8;

/// `objv`: by which writers of the head see that no other came between.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version {
    pub instance: ByteStr,
    pub number: u64,
    pub rest: Rest,
}
kept!(Version, v 1, compat 1, { instance, number });

/// `data_params`: sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params {
    pub part_size_max: u64,
    pub entry_size_max: u64,
    /// A part that ends behind this takes no more.
    pub full_size: u64,
    pub rest: Rest,
}
kept!(Params, v 1, compat 1, { part_size_max, entry_size_max, full_size });

/// `journal_entry`: something that a client is about to do with a part: 1 create it, 2 make it the head, 3 remove it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Step {
    pub what: i32,
    pub part: i64,
    pub rest: Rest,
}

impl Step {
    pub fn is_valid(&self) -> bool {
        (1..=3).contains(&self.what) && self.part >= 0
    }
}

impl Denc for Step {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 1, 1, |e| {
            e.i32(self.what);
            e.i64(self.part);
            // A tag stood here once.
            e.blob(b"");
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "fifo::journal_entry", 1, |d, _| {
            let step = Self { what: d.i32()?, part: d.i64()?, rest: Rest::default() };
            d.blob()?;
            Ok(step)
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Step, Step { what: 1, ..Step::default() });

/// `info`: what the head object holds.
#[derive(Debug, Clone, Default)]
pub struct Info {
    pub id: ByteStr,
    pub version: Version,
    pub oid_prefix: ByteStr,
    pub params: Params,
    pub tail_part: i64,
    pub head_part: i64,
    pub push_part_min: i64,
    pub push_part_max: i64,
    pub journal: BTreeSet<Step>,
    pub rest: Rest,
}

impl Denc for Info {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 1, 1, |e| {
            e.put(&self.id);
            e.put(&self.version);
            e.put(&self.oid_prefix);
            e.put(&self.params);
            for number in [self.tail_part, self.head_part, self.push_part_min, self.push_part_max] {
                e.i64(number);
            }
            // Parts' tags and the head's, which stood here once.
            e.count(0);
            e.blob(b"");
            e.count(self.journal.len());
            for step in &self.journal {
                e.i64(step.part);
                e.put(step);
            }
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "fifo::info", 1, |d, _| {
            let mut info = Self {
                id: d.get()?,
                version: d.get()?,
                oid_prefix: d.get()?,
                params: d.get()?,
                tail_part: d.i64()?,
                head_part: d.i64()?,
                push_part_min: d.i64()?,
                push_part_max: d.i64()?,
                journal: BTreeSet::new(),
                rest: Rest::default(),
            };
            d.ignore::<BTreeMap<i64, ByteStr>>()?;
            d.blob()?;
            for _ in 0..d.count(8)? {
                d.i64()?;
                let step: Step = d.get()?;
                if !step.is_valid() {
                    return Err(d.invalid("a step of a fifo's journal"));
                }
                info.journal.insert(step);
            }
            Ok(info)
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Info, Info::default());

/// `part_header`: what stands at a part's start.
#[derive(Debug, Clone, Default)]
pub struct PartHeader {
    /// Not used any more.
    pub tag: ByteStr,
    pub params: Params,
    /// Random: each entry of the part starts with it.
    pub magic: u64,
    /// The first entry that was not trimmed.
    pub first: u64,
    pub last: u64,
    /// Where the next entry goes.
    pub next: u64,
    pub index_first: u64,
    pub index_next: u64,
    pub time_max: UTime,
    pub rest: Rest,
}
kept!(PartHeader, v 1, compat 1, { tag, params, magic, first, last, next, index_first, index_next, time_max });

impl PartHeader {
    pub fn is_full(&self) -> bool {
        self.next > self.params.full_size
    }
}

/// `entry_header`.
pub struct EntryHeader {
    pub time: UTime,
}
denc_struct!(EntryHeader, v 1, compat 1, { time });

/// `part_list_entry`.
pub struct Listed {
    pub data: Bytes,
    pub offset: u64,
    pub time: UTime,
}
denc_struct!(Listed, v 1, compat 1, { data, offset, time });
