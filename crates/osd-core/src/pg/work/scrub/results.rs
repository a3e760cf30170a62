//! What the last scrub found, page by page for `rados list-inconsistent-obj` and `list-inconsistent-snapset`.
//!
//! Belongs to the interval in which it was found, as with stock: afterwards there is no answer until the next scrub. Holds encoded records.

use super::found::Found;
use denc::Denc;
use std::collections::BTreeMap;
use std::ops::Bound;
use types::errno::{EAGAIN, EINVAL, ENOENT};
use types::scrub_results::{FoundObject, ScrubLsArg, ScrubLsResult};
use types::{Bytes, Epoch};

/// Bytes that a group's findings may hold. Source: ours. What does not fit is counted, and told by the cluster log, but not listed.
const BYTES_MAX: usize = 4 << 20;
/// Values of one answer. Source: ours; librados asks for as many at most.
const PAGE_MAX: u64 = 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Results {
    objects: BTreeMap<FoundObject, Bytes>,
    snapsets: BTreeMap<FoundObject, Bytes>,
    bytes: usize,
    /// Findings that did not fit.
    pub left_out: u64,
}

impl Results {
    pub fn add(&mut self, found: &Found) {
        for object in &found.objects {
            if let Some(bytes) = self.room_for(object.to_bytes(0)) {
                self.objects.insert(object.object.clone(), bytes);
            }
        }
        for snapset in &found.snapsets {
            if let Some(bytes) = self.room_for(snapset.to_bytes(0)) {
                self.snapsets.insert(snapset.object.clone(), bytes);
            }
        }
    }
    fn room_for(&mut self, bytes: Bytes) -> Option<Bytes> {
        if self.bytes + bytes.len() > BYTES_MAX {
            self.left_out += 1;
            return None;
        }
        self.bytes += bytes.len();
        Some(bytes)
    }

    /// The answer to SCRUBLS, of results that are of this interval; else an errno.
    pub fn page(results: Option<&Self>, arg: &Bytes, interval: Epoch) -> Result<Bytes, i32> {
        let arg = ScrubLsArg::from_bytes(arg).map_err(|_| EINVAL)?;
        if arg.interval != 0 && arg.interval != interval {
            return Err(EAGAIN);
        }
        let results = results.ok_or(ENOENT)?;
        let all = if arg.get_snapsets != 0 { &results.snapsets } else { &results.objects };
        // What a page begins behind is named without its locator.
        let last = FoundObject { nspace: arg.nspace, name: arg.name, snap: arg.snap, locator: Default::default() };
        let from = if last.name.is_empty() { Bound::Unbounded } else { Bound::Included(last.clone()) };
        let is_behind = |object: &FoundObject| (&object.nspace, &object.name, object.snap) != (&last.nspace, &last.name, last.snap);
        let page = all.range((from, Bound::Unbounded)).filter(|(object, _)| is_behind(object)).map(|(_, bytes)| bytes.clone());
        let vals = page.take(arg.max_return.min(PAGE_MAX) as usize).collect();
        Ok(ScrubLsResult { interval, vals }.to_bytes(0))
    }
}
