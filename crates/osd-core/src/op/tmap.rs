//! Trivial maps: a header and keys with values as an object's data, which clients of old-format images still keep their directory in.
//!
//! ```text
//! the object:  blob header │ u32 n │ n x (blob key, blob value), ascending
//! an update:   ('h' blob header | 's' key value | 'c' key value | 'r' key | 'R' key) ...
//! ```
//! Source: Ceph 18.2 `src/include/rados.h` (`CEPH_OSD_TMAP_*`) and the operations' behaviour.

use super::exec::{Answer, Exec, Step, done, fail};
use denc::{Decoder, Denc, DencError, denc_struct};
use std::collections::BTreeMap;
use types::errno::{EEXIST, EINVAL, ENODATA, ENOENT};
use types::osd_op::{Extent, TMAP2OMAP_NULLOK};
use types::{ByteStr, Bytes};

#[derive(Default)]
struct TrivialMap {
    header: Bytes,
    entries: BTreeMap<ByteStr, Bytes>,
}
denc_struct!(TrivialMap, bare, { header, entries });

/// What an update does with a key.
enum Change {
    Header(Bytes),
    Set(ByteStr, Bytes),
    /// `Set` of a key that must not be there.
    Create(ByteStr, Bytes),
    /// The key must be there.
    Remove(ByteStr),
    /// The key may be there.
    Forget(ByteStr),
}

impl Denc for Change {
    fn encode(&self, e: &mut denc::Encoder) {
        let (code, first, second) = match self {
            Self::Header(header) => (b'h', &header[..], None),
            Self::Set(key, value) => (b's', key.as_slice(), Some(value)),
            Self::Create(key, value) => (b'c', key.as_slice(), Some(value)),
            Self::Remove(key) => (b'r', key.as_slice(), None),
            Self::Forget(key) => (b'R', key.as_slice(), None),
        };
        e.u8(code);
        e.blob(first);
        if let Some(value) = second {
            e.blob(value);
        }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Ok(match d.u8()? {
            b'h' => Self::Header(d.get()?),
            b's' => Self::Set(d.get()?, d.get()?),
            b'c' => Self::Create(d.get()?, d.get()?),
            b'r' => Self::Remove(d.get()?),
            b'R' => Self::Forget(d.get()?),
            _ => return Err(d.invalid("a trivial map's update has h, s, c, r, R")),
        })
    }
}

impl TrivialMap {
    /// EINVAL if the bytes are none.
    fn parse(bytes: &Bytes) -> Step<Self> {
        if bytes.is_empty() { Ok(Self::default()) } else { Self::from_bytes(bytes).or_else(|_| fail(EINVAL)) }
    }
    fn apply(&mut self, change: Change) -> Step<()> {
        match change {
            Change::Header(header) => self.header = header,
            Change::Create(key, _) if self.entries.contains_key(&key) => return fail(EEXIST),
            Change::Set(key, value) | Change::Create(key, value) => _ = self.entries.insert(key, value),
            Change::Remove(key) if !self.entries.contains_key(&key) => return fail(ENOENT),
            Change::Remove(key) | Change::Forget(key) => _ = self.entries.remove(&key),
        }
        Ok(())
    }
}

impl Exec<'_> {
    fn whole(&mut self) -> Step<Bytes> {
        if !self.visible() {
            return Ok(Bytes::new());
        }
        Ok(self.read(Extent::default())?.flat())
    }

    pub fn op_tmap_get(&mut self) -> Step<Answer> {
        Ok((0, self.read(Extent::default())?))
    }

    /// The keys may come in any order.
    pub fn op_tmap_put(&mut self, indata: &Bytes) -> Step<Answer> {
        let map = TrivialMap::parse(indata)?;
        self.write_full(map.to_bytes(0), 0)
    }

    /// All of the update or nothing; an empty one changes nothing.
    pub fn op_tmap_up(&mut self, indata: &Bytes) -> Step<Answer> {
        if indata.is_empty() {
            return done();
        }
        let stored = self.whole()?;
        let mut map = TrivialMap::parse(&stored)?;
        let mut d = Decoder::new(indata.clone());
        while !d.is_empty() {
            let Ok(change) = d.get::<Change>() else { return fail(EINVAL) };
            map.apply(change)?;
        }
        self.write_full(map.to_bytes(0), 0)
    }

    /// The map moves from the data to the omap.
    pub fn op_tmap_to_omap(&mut self, flags: u8) -> Step<Answer> {
        let stored = self.whole()?;
        let map = match TrivialMap::parse(&stored) {
            Ok(map) if !stored.is_empty() => map,
            _ if flags & TMAP2OMAP_NULLOK != 0 => return done(),
            _ => return fail(ENODATA),
        };
        self.truncate(Extent::default())?;
        self.omap_set_header(map.header)?;
        self.omap_set(map.entries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> TrivialMap {
        let entries = entries.iter().map(|(k, v)| (ByteStr::from(k.as_bytes()), Bytes::copy_from_slice(v.as_bytes()))).collect();
        TrivialMap { header: Bytes::from_static(b"h"), entries }
    }

    #[test]
    fn updates_are_applied_in_order() {
        let mut m = map(&[("a", "1"), ("b", "2")]);
        let (a, c) = (ByteStr::from_static("a"), ByteStr::from_static("c"));
        assert!(m.apply(Change::Create(a.clone(), Bytes::new())).is_err());
        assert!(m.apply(Change::Remove(c.clone())).is_err());
        for change in [
            Change::Forget(c.clone()),
            Change::Create(c.clone(), Bytes::from_static(b"3")),
            Change::Remove(a.clone()),
            Change::Set(ByteStr::from_static("b"), Bytes::from_static(b"4")),
            Change::Header(Bytes::from_static(b"H")),
        ] {
            let again = Change::from_bytes(&change.to_bytes(0)).expect("own bytes");
            assert!(m.apply(again).is_ok());
        }
        // Two entries of known bytes, as clients read them.
        let bytes = m.to_bytes(0);
        assert_eq!(bytes[..], *b"\x01\0\0\0H\x02\0\0\0\x01\0\0\0b\x01\0\0\x004\x01\0\0\0c\x01\0\0\x003");
        assert!(TrivialMap::parse(&bytes).is_ok_and(|again| again.entries == m.entries));
        assert!(TrivialMap::parse(&bytes.slice(..9)).is_err());
        assert!(Change::from_bytes(&Bytes::from_static(b"x\0\0\0\0")).is_err());
    }
}
