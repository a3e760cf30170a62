//! Objects of a range with their versions, as one member has them.

use crate::pg::backend::name::name;
use denc::Decoder;
use std::collections::BTreeMap;
use store::{ObjectStore, StoreError};
use types::object_info::OI_ATTR;
use types::{CollId, EVersion, GHObject, HObject, ObjectInfo};

/// All objects before `end` that were not looked at yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    objects: BTreeMap<HObject, EVersion>,
    end: HObject,
}

impl Interval {
    /// Nothing is known of what is there from this name on.
    pub fn at(begin: HObject) -> Self {
        Self { objects: BTreeMap::new(), end: begin }
    }
    pub fn new(objects: BTreeMap<HObject, EVersion>, end: HObject) -> Self {
        Self { objects, end }
    }
    /// Its objects and its end.
    pub fn into_parts(self) -> (BTreeMap<HObject, EVersion>, HObject) {
        (self.objects, self.end)
    }
    /// The first object, or where what is known ends.
    pub fn begin(&self) -> &HObject {
        self.objects.keys().next().unwrap_or(&self.end)
    }
    pub fn end(&self) -> &HObject {
        &self.end
    }
    pub fn first(&self) -> Option<(&HObject, EVersion)> {
        self.objects.first_key_value().map(|(obj, version)| (obj, *version))
    }
    pub fn pop(&mut self) -> Option<(HObject, EVersion)> {
        self.objects.pop_first()
    }
    /// All that is known was looked at, and there is more.
    pub fn wants_more(&self) -> bool {
        self.objects.is_empty() && !self.end.max
    }
    /// There is nothing more.
    pub fn is_over(&self) -> bool {
        self.objects.is_empty() && self.end.max
    }
    /// What is up to this name was dealt with.
    pub fn trim_to(&mut self, done: &HObject) {
        while self.objects.first_key_value().is_some_and(|(obj, _)| obj <= done) {
            self.objects.pop_first();
        }
    }
    /// The object is at another version, or gone, if it belongs here.
    pub fn changed(&mut self, obj: &HObject, version: Option<EVersion>) {
        match version {
            Some(version) if *obj < self.end => drop(self.objects.insert(obj.detach(), version)),
            _ => drop(self.objects.remove(obj)),
        }
    }
}

/// At most `max` objects of a group from `begin` on, and where the next one begins. What the store must fetch for it is asked for before the first
/// wait is told.
///
/// # Errors
/// The store fetches, or an object has no record that can be read.
pub fn scan(store: &dyn ObjectStore, coll: CollId, begin: &HObject, max: usize) -> Result<Interval, StoreError> {
    let CollId::Pg(pgid) = coll else { panic!("{coll:?} is no group's collection") };
    // What is being built of parts stands before everything else.
    let begin = begin.max(&HObject::pgmeta(pgid.pgid)).clone();
    let page = store.list(coll, &name(coll, begin), &GHObject::max(), max.max(1))?;
    let (mut objects, mut wait) = (BTreeMap::new(), None);
    for name in page.objects.iter().filter(|name| name.hobj.pool == pgid.pgid.pool) {
        match store.attr(coll, name, OI_ATTR.as_bytes()) {
            Ok(record) => {
                let record = record.map(|bytes| ObjectInfo::decode_of(name.hobj.clone(), &mut Decoder::new(bytes)));
                // An object without a record is at no version: it is sent, or replaced.
                let version = record.and_then(Result::ok).map_or(EVersion::ZERO, |record| record.version);
                objects.insert(name.hobj.detach(), version);
            }
            Err(StoreError::Wait(ticket)) => wait = Some(ticket),
            Err(other) => return Err(other),
        }
    }
    match wait {
        Some(ticket) => Err(StoreError::Wait(ticket)),
        None => Ok(Interval::new(objects, page.next.map_or(HObject::max(), |next| next.hobj.detach()))),
    }
}
