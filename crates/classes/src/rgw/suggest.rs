//! What a listing found wrong with an index: an announced change never came, and a look at the object showed how it stands.

use super::entry::{COMPLETE, Entry, op};
use super::header::Header;
use super::log::{self, Logged};
use super::resharding::{put, remove};
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, decode, done};
use denc::Bytes;
use types::UTime;
use types::errno::ENOENT;

pub const METHODS: &[Method] = &[Method::writes("dir_suggest_changes", suggest)];

/// How long an announced change is waited for where the header does not say. Source: Ceph 18.2's default of
/// `rgw_pending_bucket_index_op_expiration`.
const TAG_TIMEOUT_S: u64 = 120;

/// In a suggestion's first byte: it is logged.
const LOGGED: u8 = 0x80;
const REMOVE: u8 = b'r';
const UPDATE: u8 = b'u';

fn is_over(since: UTime, timeout_s: u64, now: UTime) -> bool {
    now.wall_ns() > since.wall_ns().saturating_add(timeout_s.saturating_mul(1_000_000_000))
}

/// Suggestions one behind the other, without a frame around them.
fn suggest(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut header = Header::load_to_write(obj)?;
    let timeout_s = if header.tag_timeout_s == 0 { TAG_TIMEOUT_S } else { header.tag_timeout_s };
    let (mut input, mut changed) = (Input::new(&input), false);
    while !input.is_empty() {
        let (what, change): (u8, Entry) = (input.get()?, input.get()?);
        changed |= apply(obj, &mut header, what, change, timeout_s)?;
    }
    if changed {
        header.store(obj)?;
    }
    done()
}

/// One suggestion; true if the header is another now.
///
/// An entry that was completed since the listing, or for which a change is still awaited, stays: the next listing sees what became of it.
fn apply(obj: &mut dyn ObjectView, header: &mut Header, what: u8, mut change: Entry, timeout_s: u64) -> ClsResult<bool> {
    let at = change.key.index_key();
    let bytes = match obj.omap_val(at.as_slice()) {
        Err(e) if e.is(ENOENT) => return Ok(false),
        other => other?,
    };
    let mut entry: Entry = if bytes.is_empty() { Entry::default() } else { decode(&bytes)? };
    let now = obj.now();
    entry.pending.retain(|(_, pending)| !is_over(pending.since, timeout_s, now));
    if change.index_ver < entry.index_ver || !entry.pending.is_empty() {
        return Ok(false);
    }
    let mut changed = entry.exists;
    header.discount(&entry);
    header.sums(change.meta.category);
    let logs = what & LOGGED != 0 && !header.sync_stopped;
    match what & !LOGGED {
        REMOVE => {
            remove(obj, header, at, &change.key)?;
            if logs && entry.exists {
                log_it(obj, header, op::DEL, entry)?;
            }
        }
        UPDATE => {
            header.count(&change.meta);
            changed = true;
            change.index_ver = header.ver;
            put(obj, header, at, &change)?;
            if logs {
                log_it(obj, header, op::ADD, change)?;
            }
        }
        _ => {}
    }
    Ok(changed)
}

fn log_it(obj: &mut dyn ObjectView, header: &mut Header, op: u8, entry: Entry) -> ClsResult<()> {
    let what = Logged { op, state: COMPLETE, tag: entry.tag, at: entry.meta.mtime, ver: entry.ver, ..Logged::default() };
    log::append(obj, header, Logged { object: entry.key.name, instance: entry.key.instance, ..what })
}
