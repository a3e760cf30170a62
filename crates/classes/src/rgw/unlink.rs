//! A version goes. If the object showed it, it shows the one before.

use super::change::Null;
use super::entry::{COMPLETE, EntryVer, op};
use super::header::Header;
use super::keys::ObjKey;
use super::link::log_change;
use super::log::{Logged, OF_VERSIONS};
use super::olh::{Olh, todo};
use super::version::{CONVERTED_EPOCH, NULL, Version, convert};
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done};
use denc::{ByteStr, Bytes};

pub const METHODS: &[Method] = &[Method::writes("bucket_unlink_instance", unlink)];

/// `rgw_cls_unlink_instance_op`.
pub struct UnlinkOp {
    key: ObjKey,
    op_tag: ByteStr,
    /// In which epoch it is to be; 0 for the next.
    olh_epoch: u64,
    log_op: bool,
    log_flags: u16,
    olh_tag: ByteStr,
    zones: Vec<ByteStr>,
}
denc::denc_struct!(UnlinkOp, v 3, compat 1, { key, op_tag, olh_epoch, log_op, log_flags, [since 2] olh_tag, [since 3] zones });

/// The object shows the version before this one, or nothing if this was the last.
fn step_back(
    obj: &mut dyn ObjectView,
    header: &mut Header,
    op: &UnlinkOp,
    version: &Version,
    target: &ObjKey,
    olh: &mut Olh,
) -> ClsResult<()> {
    if let Some(key) = version.next(obj)? {
        let mut next = Version::load(obj, &key)?;
        next.promote(obj, header)?;
        olh.points_at(key.clone(), next.is_marker());
        olh.note(todo::LINK, &op.op_tag, &key, next.is_marker());
    } else {
        // The name stays: a shard is found by it.
        olh.points_at(target.plain(), false);
        olh.note(todo::UNLINK, &op.op_tag, &target.plain(), false);
        (olh.exists, olh.pending_removal) = (false, true);
    }
    Ok(())
}

/// Removing what is not there is no error.
fn unlink(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: UnlinkOp = decode(&input)?;
    let target = if op.key.instance == NULL { op.key.plain() } else { op.key.clone() };
    let mut header = Header::load_to_write(obj)?;
    let (_, Some(mut version)) = Version::look_for(obj, &target, Null::MarkerFirst)? else { return done() };
    let mut olh = match Olh::load(obj, &target)? {
        Some(olh) => olh,
        None => {
            convert(obj, &mut header, &target, true, false)?;
            version.entry.versioned_epoch = CONVERTED_EPOCH;
            Olh { key: target.clone(), tag: op.olh_tag.clone(), ..Olh::default() }
        }
    };
    if !olh.advance(op.olh_epoch) {
        version.unlist(obj, &mut header)?;
        if !version.is_marker() {
            olh.note_of(op.olh_epoch, todo::REMOVE_INSTANCE, &op.op_tag, &op.key, false);
            olh.store(obj, &mut header, &target)?;
        }
        return done();
    }
    if olh.key == target {
        step_back(obj, &mut header, &op, &version, &target, &mut olh)?;
    }
    if version.is_marker() {
        // It has no data, so no other call removes its entry.
        version.remove(obj, &mut header)?;
    } else {
        olh.note(todo::REMOVE_INSTANCE, &op.op_tag, &op.key, false);
    }
    version.unlist(obj, &mut header)?;
    olh.store(obj, &mut header, &target)?;
    let ver = EntryVer { epoch: olh.epoch, ..EntryVer::default() };
    let what = Logged { at: version.entry.meta.mtime, ver, op: op::UNLINK_INSTANCE, state: COMPLETE, ..Logged::default() };
    let flags = op.log_flags | OF_VERSIONS;
    let entry = Logged { object: op.key.name, instance: op.key.instance, tag: op.op_tag, flags, zones: op.zones, ..what };
    log_change(obj, &mut header, op.log_op.then_some(entry))?;
    done()
}
