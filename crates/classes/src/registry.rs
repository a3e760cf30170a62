//! The table of classes and their methods.

use crate::view::ClsResult;
use crate::{ClsReply, ObjectView};
use bytes::Bytes;

/// The method reads the object (`CLS_METHOD_RD`).
pub const METHOD_RD: u8 = 1;
/// The method writes the object (`CLS_METHOD_WR`).
pub const METHOD_WR: u8 = 2;
/// The object must be here, not only in a base tier (`CLS_METHOD_PROMOTE`).
pub const METHOD_PROMOTE: u8 = 8;

/// A method: the object, and the bytes that the caller sent.
pub type MethodFn = fn(&mut dyn ObjectView, Bytes) -> ClsResult<ClsReply>;

/// One method of a class.
pub struct Method {
    pub name: &'static str,
    /// `METHOD_*`.
    pub flags: u8,
    pub call: MethodFn,
}

impl Method {
    /// One that only reads.
    pub(crate) const fn reads(name: &'static str, call: MethodFn) -> Self {
        Self { name, flags: METHOD_RD, call }
    }
    /// One that reads and writes.
    pub(crate) const fn writes(name: &'static str, call: MethodFn) -> Self {
        Self { name, flags: METHOD_RD | METHOD_WR, call }
    }
}

/// A class by name.
pub struct Class {
    pub name: &'static str,
    /// Its methods, in the lists that its files have.
    pub families: &'static [&'static [Method]],
}

/// What an OSD can be asked to execute.
#[derive(Clone, Copy)]
pub struct Registry {
    classes: &'static [&'static Class],
}

/// Filters of listings that classes bring, as `CLASS.FILTER`. Each of them takes the name of an attribute and a value, and shows the objects
/// that have that value there.
pub const ATTRIBUTE_FILTERS: &[&[u8]] = &[b"hello.hello"];

/// Every class of this program.
pub static BUILTIN: Registry = Registry::new(&[
    &crate::two_phase_queue::CLASS,
    &crate::cas::CLASS,
    &crate::cephfs::CLASS,
    &crate::cmpomap::CLASS,
    &crate::fifo::CLASS,
    &crate::hello::CLASS,
    &crate::journal::CLASS,
    &crate::lock::CLASS,
    &crate::log::CLASS,
    &crate::numops::CLASS,
    &crate::otp::CLASS,
    &crate::queue::CLASS,
    &crate::rbd::CLASS,
    &crate::refcount::CLASS,
    &crate::remote_reads::CLASS,
    &crate::rgw::CLASS,
    &crate::rgw::GARBAGE_QUEUE,
    &crate::sdk::CLASS,
    &crate::sem_set::CLASS,
    &crate::timeindex::CLASS,
    &crate::user::CLASS,
    &crate::version::CLASS,
]);

impl Registry {
    pub const fn new(classes: &'static [&'static Class]) -> Self {
        Self { classes }
    }
    /// The class of that name.
    pub fn class(&self, name: &[u8]) -> Option<&'static Class> {
        self.classes.iter().copied().find(|c| c.name.as_bytes() == name)
    }
    /// The method of that class and name.
    pub fn method(&self, class: &[u8], method: &[u8]) -> Option<&'static Method> {
        self.class(class)?.families.iter().copied().flatten().find(|m| m.name.as_bytes() == method)
    }
    pub fn classes(&self) -> &'static [&'static Class] {
        self.classes
    }
}
