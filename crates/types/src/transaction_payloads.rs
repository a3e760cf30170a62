//! Where the ops of an encoded transaction find what they carry: one buffer, or two in which whole pages of writes lie apart from all else.
//!
//! Two buffers are the form of 20.2, by which a page of a write can lie on a page of memory where it arrives: they are a message's data,
//! and the transaction itself is its middle segment. It says by a word of features whether writes are cut at pages; if they are not, as in
//! replicated pools, they lie in the one buffer as before, each behind its length.
//! Source of the facts: Ceph 20.2 `src/os/Transaction.h` (v10), and what stock 20.2.4 sent.

use denc::{Bytes, Decoder, DencError, features};

/// Pages of an object, at which writes are cut.
const PAGE: u64 = 4096;

/// Payloads, read from front to back, op by op.
pub(crate) struct Payloads {
    /// All that ops carry; without the whole pages of writes if those lie apart.
    pub rest: Decoder,
    pages: Option<Decoder>,
}

impl Payloads {
    /// The form up to 19.2.
    pub fn in_one(all: Bytes) -> Self {
        Self { rest: Decoder::new(all), pages: None }
    }
    /// The form of 20.2: how much there is stands behind the fields of a transaction, and `all` is what there is.
    pub fn apart(d: &mut Decoder, all: Bytes) -> Result<Self, DencError> {
        let is_cut = features::has(d.u64()?, features::SERVER_TENTACLE);
        let (pages_len, rest_len) = (d.u32()? as usize, d.u32()? as usize);
        let mut all = Decoder::new(all);
        let (pages, rest) = (Decoder::new(all.raw(pages_len)?), Decoder::new(all.raw(rest_len)?));
        if !all.is_empty() || !is_cut && !pages.is_empty() {
            return Err(d.invalid("a transaction says how long its payloads are, and which of them are pages"));
        }
        Ok(Self { rest, pages: is_cut.then_some(pages) })
    }

    /// The bytes of a write of `len` bytes at `offset` of its object.
    pub fn write(&mut self, offset: u64, len: u64) -> Result<Bytes, DencError> {
        let Some(pages) = &mut self.pages else {
            let bytes = self.rest.blob()?;
            return if bytes.len() as u64 == len { Ok(bytes) } else { Err(self.rest.invalid("a write carries as many bytes as it says")) };
        };
        let before = offset.wrapping_neg() % PAGE;
        if len < PAGE + before {
            return self.rest.raw(len as usize);
        }
        let whole = (len - before) / PAGE * PAGE;
        let first = self.rest.raw(before as usize)?;
        let middle = pages.raw(whole as usize)?;
        let last = self.rest.raw((len - before - whole) as usize)?;
        Ok(if first.is_empty() && last.is_empty() { middle } else { [first, middle, last].concat().into() })
    }
}

#[cfg(test)]
mod tests {
    use crate::transaction::{Transaction, TxKind};
    use crate::{CollId, GHObject, HObject, PgId, SpgId};
    use denc::{Bytes, Decoder, Denc, Encoder, features};

    /// A transaction with these writes, a setting of an attribute between them.
    fn sample(writes: &[(u64, usize)]) -> Transaction {
        let object = GHObject::plain(HObject { oid: "a".into(), pool: 3, hash: 7, snap: crate::CEPH_NOSNAP, ..HObject::min() });
        let mut t = Transaction::default();
        for (n, (offset, len)) in writes.iter().enumerate() {
            t.write(&object, *offset, (0..*len).map(|i| (i / 7 + n) as u8).collect::<Vec<_>>().into(), 0x20);
            t.set_attrs(&object, vec![("x".into(), Bytes::from(vec![n as u8; 3]))]);
        }
        t.set_home(CollId::Pg(SpgId::whole(PgId::new(3, 0x1f))));
        t
    }

    /// The same transaction in the form of 20.2, and its payloads.
    fn of_tentacle(t: &Transaction, said: u64) -> (Bytes, Bytes) {
        let old = t.to_bytes(features::SUPPORTED);
        let mut d = Decoder::new(old.slice(6..));
        let carried = d.blob().unwrap();
        let head = d.rest();
        let (mut pages, mut rest) = (Vec::new(), Vec::new());
        if !features::has(said, features::SERVER_TENTACLE) {
            rest.extend_from_slice(&carried);
        } else {
            let mut d = Decoder::new(carried);
            for op in t.ops() {
                let TxKind::Write { offset, data } = &op.kind else {
                    let mut start = d.clone();
                    d.get::<Vec<(denc::ByteStr, Bytes)>>().unwrap();
                    rest.extend_from_slice(&start.raw(d.position() - start.position()).unwrap());
                    continue;
                };
                d.blob().unwrap();
                // Each byte by where it lies in its object: in a page that the write has as a whole, or not.
                let end = offset + data.len() as u64;
                for (at, byte) in (*offset..).zip(data.iter()) {
                    let page = at / 4096 * 4096;
                    if page >= *offset && page + 4096 <= end { pages.push(*byte) } else { rest.push(*byte) }
                }
            }
        }
        let mut e = Encoder::new(features::SUPPORTED);
        e.frame(10, 10, |e| {
            e.raw(&head);
            e.u64(said);
            e.count(pages.len());
            e.count(rest.len());
        });
        (e.finish(), [pages, rest].concat().into())
    }

    #[test]
    fn writes_cut_at_pages_come_together_again() {
        let all: [&[(u64, usize)]; 7] = [
            &[],
            &[(0, 4096)],
            &[(0, 4095), (4096, 8192)],
            &[(100, 4096), (5, 4091), (5, 4092), (5, 8187), (5, 8188)],
            &[(4095, 1), (4095, 2), (4095, 4097), (4095, 4098)],
            &[(12288, 65536), (1, 65536)],
            &[(7, 0)],
        ];
        for writes in all {
            let t = sample(writes);
            for said in [features::SERVER_TENTACLE, 0] {
                let (head, payloads) = of_tentacle(&t, said);
                let back = Transaction::from_halves(&head, payloads.clone()).unwrap();
                assert_eq!((back.ops(), back.fadvise_flags), (t.ops(), t.fadvise_flags), "{writes:?}, {said:#x}");
                for end in (1..head.len()).step_by(97) {
                    assert!(Transaction::from_halves(&head.slice(..end), payloads.clone()).is_err());
                }
                for end in (0..payloads.len()).step_by(997) {
                    assert!(Transaction::from_halves(&head, payloads.slice(..end)).is_err());
                }
                assert!(Transaction::from_halves(&head, [&payloads[..], b"more"].concat().into()).is_err());
                // Without a half in front it is the form up to 19.2.
                assert_eq!(Transaction::from_halves(&Bytes::new(), t.to_bytes(features::SUPPORTED)).unwrap().ops(), t.ops());
            }
        }
    }

    #[test]
    fn a_write_of_more_than_came_is_an_error() {
        let (head, payloads) = of_tentacle(&sample(&[(0, 8192)]), features::SERVER_TENTACLE);
        // The length of the first op, behind the frame's head, the count of ops' bytes, and three numbers and an offset of the op.
        for (at, value) in [(6 + 4 + 20, u64::MAX), (6 + 4 + 20, 8193), (6 + 4 + 12, u64::MAX)] {
            let mut bad = head.to_vec();
            bad[at..at + 8].copy_from_slice(&value.to_le_bytes());
            assert!(Transaction::from_halves(&bad.into(), payloads.clone()).is_err(), "{value:#x} at {at}");
        }
    }
}
