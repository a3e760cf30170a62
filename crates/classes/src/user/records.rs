//! What a user's omap holds: buckets under their names, sums in the header.

use crate::rest::{Rest, keeps, kept};
use denc::{ByteStr, Decoder, Denc, DencError, Encoder};
use types::UTime;

/// `cls_user_bucket`: two forms, told by whether the bucket's placement has a name or is three pools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bucket {
    pub name: ByteStr,
    pub marker: ByteStr,
    pub id: ByteStr,
    pub placement: ByteStr,
    pub data_pool: ByteStr,
    pub index_pool: ByteStr,
    pub extra_pool: ByteStr,
    pub rest: Rest,
}

impl Denc for Bucket {
    fn encode(&self, e: &mut Encoder) {
        // A newer frame has no pools, whatever its placement is.
        if self.placement.is_empty() && self.rest.version() < 8 {
            self.rest.frame(e, 7, 3, |e| {
                for text in [&self.name, &self.data_pool, &self.marker, &self.id, &self.index_pool, &self.extra_pool] {
                    text.encode(e);
                }
            });
        } else {
            self.rest.frame(e, 9, 8, |e| {
                for text in [&self.name, &self.marker, &self.id, &self.placement] {
                    text.encode(e);
                }
            });
        }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "cls_user_bucket", 9, |d, v| {
            // Frames of before version 3 had no length.
            if v < 3 {
                return Err(DencError::TooOld { what: "cls_user_bucket", version: v, oldest: 3 });
            }
            let mut bucket = Bucket { name: d.get()?, ..Bucket::default() };
            if v < 8 {
                bucket.data_pool = d.get()?;
            }
            bucket.marker = d.get()?;
            bucket.id = if v == 3 { d.u64()?.to_string().into() } else { d.get()? };
            if v >= 8 {
                bucket.placement = d.get()?;
                if v == 8 && bucket.placement.is_empty() {
                    (bucket.data_pool, bucket.index_pool, bucket.extra_pool) = (d.get()?, d.get()?, d.get()?);
                }
            } else {
                bucket.index_pool = if v >= 5 { d.get()? } else { bucket.data_pool.clone() };
                if v >= 7 {
                    bucket.extra_pool = d.get()?;
                }
            }
            Ok(bucket)
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Bucket, Bucket { placement: "p".into(), ..Bucket::default() });

/// `cls_user_bucket_entry`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    pub bucket: Bucket,
    pub size: u64,
    pub size_rounded: u64,
    pub created: UTime,
    pub count: u64,
    /// The header's sums have this bucket in them.
    pub counted: bool,
    pub rest: Rest,
}

impl Denc for Entry {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 9, 5, |e| {
            // The bucket's name stood here once.
            e.blob(b"");
            e.u64(self.size);
            e.u32(self.created.sec);
            e.u64(self.count);
            e.put(&self.bucket);
            e.u64(self.size_rounded);
            e.bool(self.counted);
            e.put(&self.created);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "cls_user_bucket_entry", 9, |d, v| {
            if v < 5 {
                return Err(DencError::TooOld { what: "cls_user_bucket_entry", version: v, oldest: 5 });
            }
            d.blob()?;
            let (size, seconds, count) = (d.u64()?, d.u32()?, d.u64()?);
            Ok(Entry {
                size,
                count,
                bucket: d.get()?,
                size_rounded: d.u64()?,
                counted: v >= 6 && d.bool()?,
                created: if v >= 7 { d.get()? } else { UTime { sec: seconds, nsec: 0 } },
                rest: Rest::default(),
            })
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Entry, Entry::default());

/// `cls_user_stats`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    pub entries: u64,
    pub bytes: u64,
    pub bytes_rounded: u64,
    pub rest: Rest,
}
kept!(Stats, v 1, compat 1, { entries, bytes, bytes_rounded });

impl Stats {
    pub fn add(&mut self, entry: &Entry) {
        self.entries = self.entries.wrapping_add(entry.count);
        self.bytes = self.bytes.wrapping_add(entry.size);
        self.bytes_rounded = self.bytes_rounded.wrapping_add(entry.size_rounded);
    }
    pub fn subtract(&mut self, entry: &Entry) {
        self.entries = self.entries.wrapping_sub(entry.count);
        self.bytes = self.bytes.wrapping_sub(entry.size);
        self.bytes_rounded = self.bytes_rounded.wrapping_sub(entry.size_rounded);
    }
}

/// `cls_user_header`: the omap's header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    pub stats: Stats,
    /// When all sums were last taken anew.
    pub synced: UTime,
    pub updated: UTime,
    pub rest: Rest,
}
kept!(Header, v 1, compat 1, { stats, synced, updated });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::encode;

    #[test]
    fn both_forms_of_a_bucket_come_back() {
        let text = ByteStr::from_static;
        let pools = Bucket {
            name: text("b"),
            marker: text("m"),
            id: text("i"),
            data_pool: text("d"),
            index_pool: text("x"),
            extra_pool: text("e"),
            ..Bucket::default()
        };
        let named = Bucket { name: text("b"), marker: text("m"), id: text("i"), placement: text("p"), ..Bucket::default() };
        for bucket in [pools, named] {
            let entry = Entry {
                bucket,
                size: 1,
                size_rounded: 4096,
                created: UTime { sec: 7, nsec: 8 },
                count: 1,
                counted: true,
                ..Entry::default()
            };
            assert_eq!(Entry::from_bytes(&encode(&entry)).unwrap(), entry);
        }
    }
}
