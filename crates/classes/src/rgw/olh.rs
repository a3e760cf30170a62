//! An object's head among its versions ("object logical head"): which version is the current one, and the log of what is still to be done about
//! that to the object itself. radosgw reads the log, does it, and trims it.

use super::change::read;
use super::entry::{Entry, VERSIONED};
use super::header::Header;
use super::keys::ObjKey;
use super::resharding::{put, remove};
use crate::registry::Method;
use crate::rest::{Rest, kept};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, errno, reply};
use denc::{ByteStr, Bytes, denc_struct};
use std::collections::BTreeMap;
use types::errno::{ECANCELED, EINVAL};

pub const METHODS: &[Method] = &[
    Method::reads("bucket_read_olh_log", read_log),
    Method::writes("bucket_trim_olh_log", trim_log),
    Method::writes("bucket_clear_olh", clear),
];

/// Epochs in one answer.
const EPOCHS_MAX: usize = 1000;
/// The first change of an object's versions: 1 is a plain entry that was converted.
const FIRST_EPOCH: u64 = 2;

/// `OLHLogOp`.
pub mod todo {
    /// The object shows that version.
    pub const LINK: u8 = 1;
    /// The object shows none.
    pub const UNLINK: u8 = 2;
    /// The version's data goes.
    pub const REMOVE_INSTANCE: u8 = 3;
}

/// `rgw_bucket_olh_log_entry`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Todo {
    pub epoch: u64,
    pub op: u8,
    pub op_tag: ByteStr,
    pub key: ObjKey,
    pub delete_marker: bool,
    pub rest: Rest,
}
kept!(Todo, v 1, compat 1, { epoch, op, op_tag, key, delete_marker });

type Log = BTreeMap<u64, Vec<Todo>>;

/// `rgw_bucket_olh_entry`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Olh {
    /// The current version.
    pub key: ObjKey,
    pub delete_marker: bool,
    pub epoch: u64,
    pub log: Log,
    /// Which life of the object this is.
    pub tag: ByteStr,
    pub exists: bool,
    pub pending_removal: bool,
    pub rest: Rest,
}
kept!(Olh, v 1, compat 1, { key, delete_marker, epoch, log, tag, exists, pending_removal });

impl Olh {
    pub fn load(obj: &mut dyn ObjectView, key: &ObjKey) -> ClsResult<Option<Self>> {
        read(obj, &key.olh_key())
    }
    pub fn store(&self, obj: &mut dyn ObjectView, header: &mut Header, key: &ObjKey) -> ClsResult<()> {
        put(obj, header, key.olh_key(), self)
    }
    /// A change begins, in the epoch that the caller asks for (0 for the next); false if that is over.
    pub fn advance(&mut self, asked: u64) -> bool {
        match asked {
            0 if self.epoch == 0 => self.epoch = FIRST_EPOCH,
            0 => self.epoch = self.epoch.wrapping_add(1),
            old if old < self.epoch => return false,
            new => self.epoch = new,
        }
        true
    }
    /// Notes something to do, in the present epoch.
    pub fn note(&mut self, op: u8, op_tag: &ByteStr, key: &ObjKey, delete_marker: bool) {
        self.note_of(self.epoch, op, op_tag, key, delete_marker);
    }
    /// Notes something to do that belongs to another epoch.
    pub fn note_of(&mut self, epoch: u64, op: u8, op_tag: &ByteStr, key: &ObjKey, delete_marker: bool) {
        let todo = Todo { epoch, op, op_tag: op_tag.clone(), key: key.clone(), delete_marker, rest: Rest::default() };
        self.log.entry(self.epoch).or_default().push(todo);
    }
    pub fn points_at(&mut self, key: ObjKey, delete_marker: bool) {
        (self.key, self.delete_marker) = (key, delete_marker);
    }
}

/// `rgw_cls_read_olh_log_op` and `rgw_cls_trim_olh_log_op`.
pub struct LogOp {
    olh: ObjKey,
    /// Up to and with this; a reader wants what follows.
    epoch: u64,
    tag: ByteStr,
}
denc_struct!(LogOp, v 1, compat 1, { olh, epoch, tag });

/// `rgw_cls_read_olh_log_ret`.
pub struct LogReply {
    log: Log,
    truncated: bool,
}
denc_struct!(LogReply, v 1, compat 1, { log, truncated });

/// `rgw_cls_bucket_clear_olh_op`.
pub struct ClearOp {
    key: ObjKey,
    tag: ByteStr,
}
denc_struct!(ClearOp, v 1, compat 1, { key, tag });

/// The head of an object; ECANCELED if it has another tag: it is another life of the object. Without a head it has the empty tag.
fn tagged(obj: &mut dyn ObjectView, key: &ObjKey, tag: &ByteStr) -> ClsResult<Olh> {
    if !key.instance.is_empty() {
        return errno(EINVAL);
    }
    let olh = Olh::load(obj, key)?.unwrap_or_default();
    if olh.tag == *tag { Ok(olh) } else { errno(ECANCELED) }
}

fn read_log(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: LogOp = decode(&input)?;
    let mut log = tagged(obj, &op.olh, &op.tag)?.log;
    log.retain(|epoch, _| *epoch > op.epoch);
    let end = log.keys().nth(EPOCHS_MAX).copied();
    if let Some(end) = end {
        drop(log.split_off(&end));
    }
    reply(&LogReply { log, truncated: end.is_some() })
}

fn trim_log(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: LogOp = decode(&input)?;
    let mut olh = tagged(obj, &op.olh, &op.tag)?;
    olh.log.retain(|epoch, _| *epoch > op.epoch);
    let mut header = Header::load_to_write(obj)?;
    olh.store(obj, &mut header, &op.olh)?;
    done()
}

/// The object has no versions any more.
fn clear(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ClearOp = decode(&input)?;
    let olh = tagged(obj, &op.key, &op.tag)?;
    let mut header = Header::load_to_write(obj)?;
    remove(obj, &mut header, op.key.olh_key(), &olh.key)?;
    let sign: Option<Entry> = read(obj, &op.key.name)?;
    if let Some(sign) = sign.filter(|entry| entry.has(VERSIONED)) {
        remove(obj, &mut header, op.key.name, &sign.key)?;
    }
    done()
}
