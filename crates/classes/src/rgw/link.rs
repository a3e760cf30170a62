//! A version becomes the one that an object shows, or a delete marker takes its place.

use super::change::Null;
use super::entry::{COMPLETE, EntryVer, Meta, op};
use super::header::Header;
use super::keys::ObjKey;
use super::log::{self, Logged, OF_VERSIONS};
use super::olh::{Olh, todo};
use super::resharding::remove;
use super::version::{CONVERTED_EPOCH, Version, convert};
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, errno};
use denc::{ByteStr, Bytes};
use types::UTime;
use types::errno::{ECANCELED, ENOENT};

pub const METHODS: &[Method] = &[Method::writes("bucket_link_olh", link)];

/// `rgw_cls_link_olh_op`.
pub struct LinkOp {
    key: ObjKey,
    olh_tag: ByteStr,
    delete_marker: bool,
    op_tag: ByteStr,
    meta: Meta,
    /// In which epoch it is to be; 0 for the next.
    olh_epoch: u64,
    log_op: bool,
    log_flags: u16,
    /// The seconds of `unmodified_since`, which versions before 3 have alone.
    since_s: u64,
    /// Nothing happens if the version is as new as that; zero for always.
    unmodified_since: UTime,
    high_precision: bool,
    zones: Vec<ByteStr>,
}
denc::denc_struct!(LinkOp, v 5, compat 1, {
    key, olh_tag, delete_marker, op_tag, meta, olh_epoch, log_op, log_flags, [since 2] since_s, [since 3] unmodified_since, [since 4] high_precision,
    [since 5] zones,
});

impl LinkOp {
    fn came_too_late(&self, mtime: UTime) -> bool {
        let exact = |t: UTime| if self.high_precision { t } else { UTime { nsec: 0, ..t } };
        let seconds = UTime { sec: u32::try_from(self.since_s).unwrap_or(u32::MAX), nsec: 0 };
        let since = if self.unmodified_since.is_zero() { seconds } else { self.unmodified_since };
        !since.is_zero() && exact(mtime) >= exact(since)
    }
    /// What the log says about it.
    fn logged(&self, version: &Version, epoch: u64) -> Logged {
        let meta = &version.entry.meta;
        let (op, owner, owner_display_name) = if self.delete_marker {
            (op::LINK_OLH_MARKER, meta.owner.clone(), meta.owner_display_name.clone())
        } else {
            (op::LINK_OLH, ByteStr::new(), ByteStr::new())
        };
        Logged {
            object: self.key.name.clone(),
            instance: self.key.instance.clone(),
            at: meta.mtime,
            ver: EntryVer { epoch, ..EntryVer::default() },
            op,
            state: COMPLETE,
            tag: self.op_tag.clone(),
            flags: self.log_flags | OF_VERSIONS,
            owner,
            owner_display_name,
            zones: self.zones.clone(),
            ..Logged::default()
        }
    }
}

/// The null version and its delete marker exclude each other: what is there of the other kind is not listed any more, and what is replaced goes.
/// True if the null version's data is to be removed.
fn replace_null(obj: &mut dyn ObjectView, header: &mut Header, op: &LinkOp) -> ClsResult<bool> {
    let null = if op.delete_marker { Null::Version } else { Null::MarkerFirst };
    let (at, other) = Version::look_for(obj, &op.key, null)?;
    if let Some(other) = other.as_ref().filter(|other| other.is_marker() != op.delete_marker) {
        other.unlist(obj, header)?;
    }
    let removing = op.delete_marker && other.is_some_and(|other| !other.is_marker());
    if !removing {
        remove(obj, header, at, &op.key)?;
    }
    Ok(removing)
}

/// Puts the version in front of the one that the object shows; ECANCELED if the object is in another life.
fn overtake(obj: &mut dyn ObjectView, header: &mut Header, op: &LinkOp, olh: &mut Olh, promote: bool) -> ClsResult<()> {
    if olh.tag != op.olh_tag {
        if !olh.pending_removal {
            return errno(ECANCELED);
        }
        olh.tag = op.olh_tag.clone();
    }
    if promote && olh.exists && olh.key != op.key {
        Version::load(obj, &olh.key)?.demote(obj, header)?;
    }
    olh.pending_removal = false;
    Ok(())
}

fn link(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: LinkOp = decode(&input)?;
    let mut header = Header::load_to_write(obj)?;
    let null = if op.delete_marker { Null::MarkerFirst } else { Null::Version };
    let (at, found) = Version::look_for(obj, &op.key, null)?;
    // A marker may come on top of another, as in 20.2; 18.2 answers ENOENT then.
    if found.is_none() && !op.delete_marker {
        return errno(ENOENT);
    }
    if found.as_ref().is_some_and(|version| op.came_too_late(version.entry.meta.mtime)) {
        return done();
    }
    let removing = if op.key.instance.is_empty() {
        replace_null(obj, &mut header, &op)?
    } else {
        op.delete_marker && found.as_ref().is_some_and(|version| !version.is_marker())
    };
    let mut version = match found {
        Some(version) if !op.delete_marker => version,
        before => Version::marker(&op.key, at, before, op.meta.clone()),
    };
    let stands = Olh::load(obj, &op.key)?;
    let is_new = stands.is_none();
    let mut olh = stands.unwrap_or_default();
    let epoch_before = olh.epoch;
    if !olh.advance(op.olh_epoch) {
        version.list_at(obj, &mut header, op.olh_epoch, false)?;
        header.store_if_noted(obj)?;
        return done();
    }
    // In the same epoch, the version whose name sorts first wins, in each zone.
    let promote = olh.epoch > epoch_before || olh.key.instance >= op.key.instance;
    if is_new {
        convert(obj, &mut header, &op.key, promote, op.key.instance.is_empty() && op.delete_marker)?;
        olh.tag = op.olh_tag.clone();
        if op.key.instance.is_empty() {
            version.entry.versioned_epoch = CONVERTED_EPOCH;
        }
    } else {
        overtake(obj, &mut header, &op, &mut olh, promote)?;
    }
    olh.note(todo::LINK, &op.op_tag, &op.key, op.delete_marker);
    if removing {
        olh.note(todo::REMOVE_INSTANCE, &op.op_tag, &op.key, false);
    }
    if promote {
        olh.points_at(op.key.clone(), op.delete_marker);
    }
    olh.exists = true;
    olh.store(obj, &mut header, &op.key)?;
    version.list_at(obj, &mut header, olh.epoch, promote)?;
    // Where an epoch is asked for, it is the head's now.
    log_change(obj, &mut header, op.log_op.then(|| op.logged(&version, olh.epoch)))?;
    done()
}

/// The end of a change: it is added to the log, unless that is stopped or the caller wants no entry; the header is stored if it is another now.
pub fn log_change(obj: &mut dyn ObjectView, header: &mut Header, entry: Option<Logged>) -> ClsResult<()> {
    let Some(entry) = entry.filter(|_| !header.sync_stopped) else { return header.store_if_noted(obj) };
    log::append(obj, header, entry)?;
    header.store(obj)
}
