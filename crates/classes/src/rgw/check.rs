//! An index as a whole: it is made, its sums are set, counted anew, and compared.

use super::header::{Header, Stats};
use super::raw::sum_of_entries;
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, errno, reply};
use denc::{Bytes, denc_struct};
use types::errno::EINVAL;

pub const METHODS: &[Method] = &[
    Method::writes("bucket_init_index", init),
    // Named anew by 20.2: its gateways take it as a promise that changes are noted while the index moves.
    Method::writes("bucket_init_index2", init),
    Method::writes("bucket_set_tag_timeout", set_tag_timeout),
    Method::reads("bucket_check_index", check),
    Method::writes("bucket_rebuild_index", rebuild),
    Method::writes("bucket_update_stats", update_stats),
];

/// `rgw_cls_tag_timeout_op`.
pub struct TagTimeoutOp {
    tag_timeout_s: u64,
}
denc_struct!(TagTimeoutOp, v 1, compat 1, { tag_timeout_s });

/// `rgw_cls_check_index_ret`.
pub struct CheckReply {
    stored: Header,
    counted: Header,
}
denc_struct!(CheckReply, v 1, compat 1, { stored, counted });

/// `rgw_cls_bucket_update_stats_op`.
pub struct UpdateStatsOp {
    absolute: bool,
    stats: Stats,
}
denc_struct!(UpdateStatsOp, v 1, compat 1, { absolute, stats });

/// EINVAL if there is one.
fn init(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    if !obj.omap_header()?.is_empty() {
        return errno(EINVAL);
    }
    Header::default().store(obj)?;
    done()
}

fn set_tag_timeout(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: TagTimeoutOp = decode(&input)?;
    let mut header = Header::load(obj)?;
    header.tag_timeout_s = op.tag_timeout_s;
    header.store(obj)?;
    done()
}

fn update_stats(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: UpdateStatsOp = decode(&input)?;
    let mut header = Header::load(obj)?;
    for (category, sums) in op.stats {
        if op.absolute {
            *header.sums(category) = sums;
        } else {
            header.sums(category).add(&sums);
        }
    }
    header.store(obj)?;
    done()
}

/// The header as it is, and as it would be by what is in the index.
fn count(obj: &mut dyn ObjectView) -> ClsResult<CheckReply> {
    let stored = Header::load(obj)?;
    let Header { tag_timeout_s, ver, sync_stopped, .. } = stored;
    let sums: Header = sum_of_entries(obj, |sums: &mut Header, is_version, entry| {
        // Where objects have versions, what is listed is counted by its other entry.
        if entry.exists && (is_version || entry.flags == 0) {
            sums.count(&entry.meta);
        }
    })?;
    let counted = Header { tag_timeout_s, ver, sync_stopped, ..sums };
    Ok(CheckReply { stored, counted })
}

fn check(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    reply(&count(obj)?)
}

fn rebuild(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    Header::load_to_write(obj)?;
    count(obj)?.counted.store(obj)?;
    done()
}
