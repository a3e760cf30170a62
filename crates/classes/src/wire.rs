//! What every class needs to take its input apart, to answer, and to say no.

use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use bytes::Bytes;
use denc::{ALL_FEATURES, ByteStr, Decoder, Denc};
use types::errno::{EINVAL, EIO, ENODATA, ENOENT};

/// The input as a `T`; EINVAL if it is not one.
pub fn decode<T: Denc>(input: &Bytes) -> ClsResult<T> {
    T::from_bytes(input).map_err(|_| ClsError::Errno(EINVAL))
}

/// What the object holds as a `T`; EIO if it is not one.
pub fn stored<T: Denc>(bytes: &Bytes) -> ClsResult<T> {
    T::from_bytes(bytes).map_err(|_| ClsError::Errno(EIO))
}

/// The encoding of a value that does not depend on its reader.
pub fn encode<T: Denc>(value: &T) -> Bytes {
    value.to_bytes(ALL_FEATURES)
}

/// Success, with a value for the caller.
pub fn reply<T: Denc>(value: &T) -> ClsResult<ClsReply> {
    Ok(encode(value).into())
}

/// Success, with nothing to say.
pub fn done() -> ClsResult<ClsReply> {
    Ok(ClsReply::default())
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

/// None instead of the errnos for "there is no object" and "it has no such attribute".
pub fn or_none<T>(result: ClsResult<T>) -> ClsResult<Option<T>> {
    match result {
        Err(e) if e.is(ENOENT) || e.is(ENODATA) => Ok(None),
        other => other.map(Some),
    }
}

/// Random characters of the base64 alphabet, as ids have them.
pub fn random_text(obj: &mut dyn ObjectView, len: usize) -> ByteStr {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = vec![0; len];
    obj.random(&mut bytes);
    bytes.iter().map(|b| ALPHABET[usize::from(b & 63)]).collect::<Vec<u8>>().into()
}

/// A request without fields, in its frame.
pub struct NoArgs {}
denc::denc_struct!(NoArgs, v 1, compat 1, {});
