//! Methods of classes called on an object in memory: what each class promises, and that no input harms it.

mod corpus;
mod first_keys;
#[path = "../../../base/tests/fuzzing/mod.rs"]
mod fuzzing;
mod hostile;
mod methods;
mod object;
mod queues;
mod rbd;
mod records;
mod rgw;
mod rgw_resharding;
mod rgw_rest;
mod rgw_versions;
mod slow;
mod stock;

use bytes::Bytes;
use denc::{Decoder, Encoder};

/// Input of values one behind the other.
fn bare(body: impl FnOnce(&mut Encoder)) -> Bytes {
    let mut e = Encoder::new(0);
    body(&mut e);
    e.finish()
}

/// Input in a frame of that version.
fn framed(version: u8, body: impl FnOnce(&mut Encoder)) -> Bytes {
    bare(|e| e.frame(version, 1, body))
}

/// Reads an answer that stands in a frame.
fn answer<T>(data: &Bytes, body: impl FnOnce(&mut Decoder) -> Result<T, denc::DencError>) -> T {
    Decoder::new(data.clone()).frame("an answer", 255, |d, _| body(d)).unwrap()
}
