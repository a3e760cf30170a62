//! [`message!`]: a struct whose fields are the front segment in order, which is what most messages are.

use crate::RawMessage;
use bytes::Bytes;
use denc::{Decoder, DencError, Encoder};

/// Declares messages: `Name = kind, v version, compat compat { field: Type, [since 2] later: Type }`. A field that an older version
/// lacks takes its `Default`. Before the brace may stand `tid` (the struct has a public `tid` that is the header's) and `data` (it has
/// a public `data` that is the data segment).
macro_rules! message {
    ($(
        $(#[$doc:meta])*
        $name:ident = $kind:expr, v $v:literal, compat $c:literal $(, $extra:ident)* {
            $( $(#[$fdoc:meta])* $([since $since:literal])? $field:ident: $t:ty ),* $(,)?
        }
    )*) => { $(
        message!(@struct [$($extra)*] $(#[$doc])* $name { $( $(#[$fdoc])* pub $field: $t, )* });
        impl $crate::Message for $name {
            const KIND: u16 = $kind;
            fn encode(&self, features: u64) -> $crate::RawMessage {
                #[allow(unused_mut)]
                let mut raw = $crate::macros::front(Self::KIND, $v, $c, features, |e| {
                    $( denc::Denc::encode(&self.$field, e); )*
                    let _ = e;
                });
                $( message!(@put $extra self raw); )*
                raw
            }
            fn decode(raw: &$crate::RawMessage) -> Result<Self, denc::DencError> {
                let mut decoder = $crate::macros::open(raw, stringify!($name), $v)?;
                let (d, v) = (&mut decoder, raw.version);
                let _ = (&d, v);
                message!(@new [$($extra)*] raw d v { $( $([since $since])? $field ),* })
            }
        }
    )* };
    (@struct [] $(#[$doc:meta])* $name:ident { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name { $($fields)* }
    };
    (@struct [tid] $(#[$doc:meta])* $name:ident { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            /// The request's number, from the header.
            pub tid: u64,
            $($fields)*
        }
    };
    (@struct [data] $(#[$doc:meta])* $name:ident { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            /// The data segment.
            pub data: bytes::Bytes,
            $($fields)*
        }
    };
    (@struct [tid data] $(#[$doc:meta])* $name:ident { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            /// The request's number, from the header.
            pub tid: u64,
            /// The data segment.
            pub data: bytes::Bytes,
            $($fields)*
        }
    };
    (@put tid $self:ident $raw:ident) => { $raw.tid = $self.tid; };
    (@put data $self:ident $raw:ident) => { $raw.data = $crate::macros::one_piece(&$self.data); };
    (@new [$($extra:ident)*] $raw:ident $d:ident $v:ident { $( $([since $since:literal])? $field:ident ),* }) => {
        Ok(Self {
            $( $extra: message!(@take $extra $raw), )*
            $( $field: message!(@field $d $v $($since)?), )*
        })
    };
    (@take tid $raw:ident) => { $raw.tid };
    (@take data $raw:ident) => { $raw.data_flat() };
    (@field $d:ident $v:ident) => { denc::Denc::decode($d)? };
    (@field $d:ident $v:ident $since:literal) => { if $v >= $since { denc::Denc::decode($d)? } else { Default::default() } };
}

/// A message whose front is what `body` writes, with the default priority.
pub(crate) fn front(kind: u16, version: u16, compat: u16, features: u64, body: impl FnOnce(&mut Encoder)) -> RawMessage {
    let mut e = Encoder::with_capacity(features, 128);
    body(&mut e);
    RawMessage { kind, version, compat, priority: crate::raw::priority::DEFAULT, front: e.finish(), ..RawMessage::default() }
}

/// A reader of the front, unless only a newer release can understand the message.
pub(crate) fn open(raw: &RawMessage, what: &'static str, known: u16) -> Result<Decoder, DencError> {
    if raw.compat > known {
        let byte = |v: u16| u8::try_from(v).unwrap_or(u8::MAX);
        return Err(DencError::Incompatible { what, compat: byte(raw.compat), known: byte(known) });
    }
    Ok(Decoder::new(raw.front.clone()))
}

/// `TooOld` for a message.
pub(crate) fn too_old(what: &'static str, version: u16, oldest: u8) -> DencError {
    DencError::TooOld { what, version: u8::try_from(version).unwrap_or(u8::MAX), oldest }
}

/// A data segment of one piece, or of none if that is empty.
pub(crate) fn one_piece(data: &Bytes) -> Vec<Bytes> {
    if data.is_empty() { Vec::new() } else { vec![data.clone()] }
}
