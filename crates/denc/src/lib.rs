//! Ceph's encoding rules: little-endian integers, counted containers and versioned frames.
//!
//! Holds the one bounded reader ([`Decoder`]) and writer ([`Encoder`]) through which every byte of the wire and of the
//! persisted Ceph types passes, and [`Denc`], which types implement. The feature bits that encodings depend
//! on stand here too. It knows no Ceph type by name.
//!
//! Source of the facts: Ceph 18.2 `src/include/encoding.h` (`ENCODE_START`: struct_v u8, struct_compat u8, struct_len u32).

#![forbid(unsafe_code)]

mod bytestr;
mod decoder;
mod encoder;
mod error;
pub mod features;
mod impls;
mod row;

pub use bytes::{Bytes, BytesMut};
pub use bytestr::ByteStr;
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use error::DencError;
pub use row::Row;

/// A value with one encoding. What an encoding depends on besides the value is the peer's features, which the encoder carries.
pub trait Denc: Sized {
    /// Appends the encoding to `e`, in the form that `e.features()` asks for.
    fn encode(&self, e: &mut Encoder);
    /// Reads one value; on an error the decoder's position is unspecified and the input is to be thrown away.
    fn decode(d: &mut Decoder) -> Result<Self, DencError>;

    /// The encoding as a buffer of its own, for a peer with `features`.
    fn to_bytes(&self, features: u64) -> Bytes {
        // Room for most values: a buffer that grows from nothing is moved five times on its way there.
        let mut e = Encoder::with_capacity(features, 128);
        self.encode(&mut e);
        e.finish()
    }

    /// Decodes a buffer that holds this value; bytes behind it are ignored, as Ceph does.
    fn from_bytes(bytes: &Bytes) -> Result<Self, DencError> {
        Self::decode(&mut Decoder::new(bytes.clone()))
    }
}

/// Every feature bit set: what a value that is kept by ourselves is encoded with.
pub const ALL_FEATURES: u64 = u64::MAX;

/// Implements [`Denc`] for a struct whose encoding is a versioned frame with its fields in order.
///
/// `denc_struct!(PgHistory, v 9, compat 4, { epoch_created, last_epoch_started })`. A field of a later version is written
/// `[since 5] name` and takes its `Default` when an older frame lacks it. With `bare` instead of the versions there is no frame.
#[macro_export]
macro_rules! denc_struct {
    ($name:ident, bare, { $($field:ident),* $(,)? }) => {
        impl $crate::Denc for $name {
            fn encode(&self, e: &mut $crate::Encoder) { $( $crate::Denc::encode(&self.$field, e); )* }
            fn decode(d: &mut $crate::Decoder) -> Result<Self, $crate::DencError> {
                Ok(Self { $( $field: $crate::Denc::decode(d)? ),* })
            }
        }
    };
    ($name:ident, v $v:literal, compat $c:literal, { $($([since $since:literal])? $field:ident),* $(,)? }) => {
        impl $crate::Denc for $name {
            fn encode(&self, e: &mut $crate::Encoder) {
                e.frame($v, $c, |e| { $( $crate::Denc::encode(&self.$field, e); )* let _ = e; });
            }
            fn decode(d: &mut $crate::Decoder) -> Result<Self, $crate::DencError> {
                d.frame(stringify!($name), $v, |d, v| {
                    let _ = (&d, v);
                    Ok(Self { $( $field: $crate::denc_struct!(@field d v $($since)?) ),* })
                })
            }
        }
    };
    (@field $d:ident $v:ident) => { $crate::Denc::decode($d)? };
    (@field $d:ident $v:ident $since:literal) => { if $v >= $since { $crate::Denc::decode($d)? } else { Default::default() } };
}

#[cfg(test)]
mod tests;
