//! Strings of Ceph: counted bytes that are mostly, but not always, UTF-8 (object names, attribute names, omap keys).

use bytes::Bytes;
use std::borrow::Borrow;
use std::fmt;

/// A byte string that compares and sorts by its bytes and shares its storage when cloned.
///
/// Decoding one shares the frame that it came in: what keeps it longer than the message calls [`ByteStr::detach`].
#[derive(Clone, Default, Eq, PartialOrd, Ord)]
pub struct ByteStr(
    /// `None` for the empty string, which most strings of an object's name are: to clone and drop it counts nothing.
    Option<Bytes>,
);

static EMPTY: Bytes = Bytes::new();

/// Clones share their bytes, and names are mostly compared with clones of themselves: then nothing is read.
impl PartialEq for ByteStr {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => a.len() == b.len() && (a.as_ptr() == b.as_ptr() || a == b),
            _ => false,
        }
    }
}
impl std::hash::Hash for ByteStr {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl ByteStr {
    /// The empty string.
    pub const fn new() -> Self {
        Self(None)
    }
    /// Wraps a literal without a copy.
    pub const fn from_static(s: &'static str) -> Self {
        if s.is_empty() { Self(None) } else { Self(Some(Bytes::from_static(s.as_bytes()))) }
    }
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            None => &[],
            Some(bytes) => bytes,
        }
    }
    pub fn as_bytes(&self) -> &Bytes {
        self.0.as_ref().unwrap_or(&EMPTY)
    }
    pub fn into_bytes(self) -> Bytes {
        self.0.unwrap_or_default()
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
    /// The text, if it is UTF-8.
    pub fn to_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_slice()).ok()
    }
    /// The text with what is no UTF-8 replaced: for people, not for comparing.
    pub fn to_lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.as_slice())
    }
    /// A copy in storage of its own, so that the frame it was cut from can be freed.
    pub fn detach(&self) -> Self {
        Self(self.0.as_ref().map(|bytes| Bytes::copy_from_slice(bytes)))
    }
}

impl From<Bytes> for ByteStr {
    fn from(b: Bytes) -> Self {
        Self((!b.is_empty()).then_some(b))
    }
}
impl From<Vec<u8>> for ByteStr {
    fn from(b: Vec<u8>) -> Self {
        Bytes::from(b).into()
    }
}
impl From<String> for ByteStr {
    fn from(s: String) -> Self {
        s.into_bytes().into()
    }
}
impl From<&str> for ByteStr {
    fn from(s: &str) -> Self {
        s.as_bytes().into()
    }
}
impl From<&[u8]> for ByteStr {
    fn from(s: &[u8]) -> Self {
        Bytes::copy_from_slice(s).into()
    }
}
impl PartialEq<str> for ByteStr {
    fn eq(&self, other: &str) -> bool {
        self.as_slice() == other.as_bytes()
    }
}
impl PartialEq<&str> for ByteStr {
    fn eq(&self, other: &&str) -> bool {
        self.as_slice() == other.as_bytes()
    }
}
impl Borrow<[u8]> for ByteStr {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}
impl AsRef<[u8]> for ByteStr {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}
impl fmt::Display for ByteStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_lossy())
    }
}
impl fmt::Debug for ByteStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_slice().escape_ascii())
    }
}
