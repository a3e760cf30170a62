//! The table of classes and their methods.

use crate::{ClsReply, ObjectView};
use crate::view::ClsResult;
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

/// Every class of this program.
pub static BUILTIN: Registry = Registry::new(&[&crate::lock::CLASS, &crate::rbd::CLASS]);

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
