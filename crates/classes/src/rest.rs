//! The end of a stored record that a newer release wrote.
//!
//! Holds what stands in a versioned frame behind the fields that are known here ([`Rest`]), and the macro by which a record keeps it ([`kept`]).
//! Requests need none of it: they are read once. Records come back: clusters upgrade OSDs before clients and gateways, and what a newer one
//! noted must still be there after a method of ours has changed the record.

use denc::{Bytes, Decoder, DencError, Encoder};
use std::cmp::Ordering;

/// The unread end of a frame. Nothing for frames of our own version, which are all but those of newer writers.
///
/// All are equal: records are compared by the fields that have a meaning here.
#[derive(Debug, Clone, Default)]
pub struct Rest(Option<Box<Unread>>);

#[derive(Debug, Clone)]
struct Unread {
    version: u8,
    compat: u8,
    bytes: Bytes,
}

impl PartialEq for Rest {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Rest {}
impl Ord for Rest {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}
impl PartialOrd for Rest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Rest {
    /// The version of the frame that it was in; 0 if there is none.
    pub fn version(&self) -> u8 {
        self.0.as_ref().map_or(0, |unread| unread.version)
    }
    /// Reads a frame as [`Decoder::frame`] does, and gives what `body` left of it beside the value.
    pub fn read<T>(
        d: &mut Decoder,
        what: &'static str,
        known: u8,
        body: impl FnOnce(&mut Decoder, u8) -> Result<T, DencError>,
    ) -> Result<(T, Self), DencError> {
        let (version, compat) = (d.u8()?, d.u8()?);
        if compat > known {
            return Err(DencError::Incompatible { what, compat, known });
        }
        d.sized(|d| Ok((body(d, version)?, Self::of(d, version, compat, known))))
    }
    /// What is left in the frame that `d` stands in.
    pub fn of(d: &mut Decoder, version: u8, compat: u8, known: u8) -> Self {
        let is_ours = d.is_empty() && version <= known;
        Self((!is_ours).then(|| Box::new(Unread { version, compat, bytes: d.rest() })))
    }
    /// Writes a frame of our version, or of the newer one that the rest is of, with the rest behind what `body` writes.
    pub fn frame(&self, e: &mut Encoder, version: u8, compat: u8, body: impl FnOnce(&mut Encoder)) {
        match &self.0 {
            None => e.frame(version, compat, body),
            Some(unread) => e.frame(version.max(unread.version), compat.max(unread.compat), |e| {
                body(e);
                e.raw(&unread.bytes);
            }),
        }
    }
}

/// A test, named as the record is, that what it does not know comes back. Every record that has a [`Rest`] says so.
macro_rules! keeps {
    ($name:ident, $sample:expr) => {
        #[cfg(test)]
        #[test]
        #[allow(non_snake_case)]
        fn $name() {
            $crate::rest::tests::keeps::<$name>(&$sample);
        }
    };
}
pub(crate) use keeps;

/// Implements `Denc` as [`denc::denc_struct`] does for a record that is stored: its field `rest` keeps what is not known here. With `oldest`,
/// frames of before that version are refused: their fields stand otherwise, or they have no length.
macro_rules! kept {
    ($name:ident, v $v:literal, compat $c:literal, $(oldest $o:literal,)? { $($fields:tt)* }) => {
        $crate::rest::kept!($name, v $v, compat $c, $(oldest $o,)? { $($fields)* }, sample $name::default());
    };
    ($name:ident, v $v:literal, compat $c:literal, $(oldest $o:literal,)? { $($([since $since:literal])? $field:ident),* $(,)? }, sample $sample:expr) => {
        $crate::rest::keeps!($name, $sample);
        impl denc::Denc for $name {
            fn encode(&self, e: &mut denc::Encoder) {
                self.rest.frame(e, $v, $c, |e| { $( denc::Denc::encode(&self.$field, e); )* });
            }
            fn decode(d: &mut denc::Decoder) -> Result<Self, denc::DencError> {
                $crate::rest::Rest::read(d, stringify!($name), $v, |d, v| {
                    $( if v < $o {
                        return Err(denc::DencError::TooOld { what: stringify!($name), version: v, oldest: $o });
                    } )?
                    let _ = v;
                    Ok(Self { $( $field: denc::denc_struct!(@field d v $($since)?), )* rest: $crate::rest::Rest::default() })
                })
                .map(|(record, rest)| Self { rest, ..record })
            }
        }
    };
}
pub(crate) use kept;

#[cfg(test)]
pub mod tests {
    use crate::wire::encode;
    use denc::{Bytes, Denc, Encoder};

    /// Where a frame's body begins.
    const BODY: usize = 6;

    /// The frame at the start of `bytes` as a writer that is `newer` versions ahead leaves it, with ten bytes that are not known here.
    fn newer(bytes: &[u8], newer: u8) -> Bytes {
        let len = u32::from_le_bytes(bytes[2..BODY].try_into().unwrap()) as usize;
        let (body, behind) = bytes[BODY..].split_at(len);
        let mut e = Encoder::new(0);
        e.frame(bytes[0] + newer, bytes[1], |e| {
            e.raw(body);
            e.raw(b"0123456789");
        });
        e.raw(behind);
        e.finish()
    }

    pub fn keeps<T: Denc>(sample: &T) {
        let plain = encode(sample);
        assert_eq!(encode(&T::from_bytes(&plain).unwrap()), plain);
        for ahead in [0, 1, 100] {
            let bytes = newer(&plain, ahead);
            assert_eq!(encode(&T::from_bytes(&bytes).unwrap()), bytes, "{ahead} versions ahead");
            // A version of which nothing more is written says something, too.
            let bare = [&[plain[0] + ahead], &plain[1..]].concat();
            assert_eq!(encode(&T::from_bytes(&bare.clone().into()).unwrap()), bare, "{ahead} versions ahead");
        }
    }

    /// A record with a rest of which no test says that it is kept.
    #[test]
    fn every_record_is_tried() {
        fn sources(folder: &std::path::Path, of: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    sources(&path, of);
                } else if !path.ends_with("rest.rs") {
                    of.push(std::fs::read_to_string(&path).unwrap());
                }
            }
        }
        let mut of = Vec::new();
        sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut of);
        let count = |what: &str| of.iter().map(|text| text.matches(what).count()).sum::<usize>();
        // An object map's rest is its header's.
        assert_eq!(count(" rest: Rest,\n") - 1, count("\nkept!(") + count("\nkeeps!("));
    }
}
