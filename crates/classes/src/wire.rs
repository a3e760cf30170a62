//! What every class needs to take its input apart and to say no.

use crate::view::{ClsError, ClsResult};
use bytes::Bytes;
use denc::{Decoder, Denc};
use types::errno::EINVAL;

/// The input as a `T`; EINVAL if it is not one.
pub fn decode<T: Denc>(input: &Bytes) -> ClsResult<T> {
    T::from_bytes(input).map_err(|_| ClsError::Errno(EINVAL))
}

/// A reader of input that has no struct of its own: values one behind the other.
pub struct Input(Decoder);

impl Input {
    pub fn new(input: &Bytes) -> Self {
        Self(Decoder::new(input.clone()))
    }
    /// The next value; EINVAL if there is none.
    pub fn get<T: Denc>(&mut self) -> ClsResult<T> {
        T::decode(&mut self.0).map_err(|_| ClsError::Errno(EINVAL))
    }
    /// True if all is read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The method ends with that (positive) errno.
pub fn errno<T>(code: i32) -> ClsResult<T> {
    Err(ClsError::Errno(code))
}
