//! An object in memory behind the view that methods get: by the errnos that an OSD's operations have.

use bytes::Bytes;
use classes::{BUILTIN, ClsError, ClsReply, ClsResult, Kept, KeyPage, ObjectView, ValPage, Watcher};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use types::errno::{EEXIST, EFBIG, ENODATA, ENOENT};
use types::{ByteStr, EntityAddr, EntityInst, EntityName, UTime};

/// Larger objects are refused, as an OSD does.
const SIZE_MAX: u64 = 8 << 20;
/// Entries of one omap page.
const PAGE_MAX: u64 = 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub data: Vec<u8>,
    pub attrs: BTreeMap<ByteStr, Bytes>,
    pub omap: BTreeMap<ByteStr, Bytes>,
    pub header: Bytes,
}

#[derive(Debug, Clone, Default)]
pub struct Object {
    pub state: Option<State>,
    pub now: UTime,
    pub writes: u32,
    pub random: u64,
    /// A client that is called as [`ObjectView::origin`] watches the object.
    pub watched: bool,
    pub slow: Option<Slow>,
    /// During a call: what was there before it. Attributes and omap are read there.
    pub before: Option<Option<State>>,
}

/// An OSD that has others' requests to answer, too; and its store.
#[derive(Debug, Clone, Default)]
pub struct Slow {
    /// It fetches each page, and soon forgets it.
    fetches: bool,
    /// What was read last, by where it begins.
    at_hand: VecDeque<Vec<u8>>,
    kept: Rc<RefCell<Option<Kept>>>,
    /// How often the call let others have their turn.
    pub turns: u32,
}

impl Slow {
    pub fn new(fetches: bool) -> Self {
        Self { fetches, ..Self::default() }
    }
}

/// Pages that such a store remembers.
const AT_HAND: usize = 6;
/// A call that takes more plans than this begins anew for ever.
const PLANS_MAX: u32 = 10_000;

impl Object {
    /// Waits for what is not at hand.
    fn fetch(&mut self, what: &[u8]) -> ClsResult<()> {
        let Some(slow) = &mut self.slow else { return Ok(()) };
        if !slow.fetches || slow.at_hand.iter().any(|had| had == what) {
            return Ok(());
        }
        slow.at_hand.push_back(what.to_vec());
        if slow.at_hand.len() > AT_HAND {
            slow.at_hand.pop_front();
        }
        Err(ClsError::Wait)
    }
    /// Calls a method; what it wrote stays only if it succeeds.
    pub fn call(&mut self, class: &str, method: &str, input: impl Into<Bytes>) -> Result<ClsReply, i32> {
        let found = BUILTIN.method(class.as_bytes(), method.as_bytes()).unwrap_or_else(|| panic!("{class}.{method}"));
        let (before, input) = (self.state.clone(), input.into());
        self.before = Some(before.clone());
        let mut result = (found.call)(self, input.clone());
        let mut plans = 1;
        while self.slow.is_some() && matches!(result, Err(ClsError::Wait)) {
            assert!(plans < PLANS_MAX, "{class}.{method} does not end");
            self.state = before.clone();
            result = (found.call)(self, input.clone());
            plans += 1;
        }
        self.slow.iter_mut().for_each(|slow| drop(slow.kept.take()));
        self.before = None;
        match result {
            Ok(reply) if reply.code >= 0 => Ok(reply),
            Ok(reply) => {
                self.state = before;
                Err(-reply.code)
            }
            Err(ClsError::Errno(errno)) => {
                self.state = before;
                Err(errno)
            }
            Err(ClsError::Wait) => panic!("nothing to wait for"),
        }
    }
    fn there(&self) -> ClsResult<&State> {
        self.state.as_ref().ok_or(ClsError::Errno(ENOENT))
    }
    /// As reads of attributes and omap see it.
    fn seen(&self) -> Option<&State> {
        self.before.as_ref().map_or(self.state.as_ref(), |before| before.as_ref())
    }
    fn made(&mut self) -> &mut State {
        self.writes += 1;
        self.state.get_or_insert_default()
    }
}

fn within(offset: u64, length: u64) -> ClsResult<usize> {
    match offset.checked_add(length) {
        Some(end) if end <= SIZE_MAX => Ok(end as usize),
        _ => Err(ClsError::Errno(EFBIG)),
    }
}

impl ObjectView for Object {
    fn stat(&mut self) -> ClsResult<(u64, UTime)> {
        Ok((self.there()?.data.len() as u64, self.now))
    }
    fn read(&mut self, offset: u64, length: u64) -> ClsResult<Bytes> {
        let data = &self.there()?.data;
        let start = offset.min(data.len() as u64) as usize;
        let length = if length == 0 { u64::MAX } else { length };
        let end = start + length.min((data.len() - start) as u64) as usize;
        Ok(Bytes::copy_from_slice(&data[start..end]))
    }
    fn create(&mut self, exclusive: bool) -> ClsResult<()> {
        if exclusive && self.state.is_some() {
            return Err(ClsError::Errno(EEXIST));
        }
        self.made();
        Ok(())
    }
    fn remove(&mut self) -> ClsResult<()> {
        self.there()?;
        self.writes += 1;
        self.state = None;
        Ok(())
    }
    fn write(&mut self, offset: u64, data: Bytes) -> ClsResult<()> {
        let end = within(offset, data.len() as u64)?;
        let all = &mut self.made().data;
        all.resize(all.len().max(end), 0);
        all[end - data.len()..end].copy_from_slice(&data);
        Ok(())
    }
    fn write_full(&mut self, data: Bytes) -> ClsResult<()> {
        within(0, data.len() as u64)?;
        self.made().data = data.to_vec();
        Ok(())
    }
    fn truncate(&mut self, size: u64) -> ClsResult<()> {
        let size = within(size, 0)?;
        self.made().data.resize(size, 0);
        Ok(())
    }
    fn zero(&mut self, offset: u64, length: u64) -> ClsResult<()> {
        let end = within(offset, length)?;
        let data = &mut self.made().data;
        let end = end.min(data.len());
        data[(offset as usize).min(end)..end].fill(0);
        Ok(())
    }
    fn snap_revert(&mut self, _: u64) -> ClsResult<()> {
        Err(ClsError::Errno(ENOENT))
    }
    fn getxattr(&mut self, name: &[u8]) -> ClsResult<Bytes> {
        self.seen().ok_or(ClsError::Errno(ENOENT))?.attrs.get(name).cloned().ok_or(ClsError::Errno(ENODATA))
    }
    fn getxattrs(&mut self) -> ClsResult<Vec<(ByteStr, Bytes)>> {
        Ok(self.seen().ok_or(ClsError::Errno(ENOENT))?.attrs.clone().into_iter().collect())
    }
    fn setxattr(&mut self, name: &[u8], value: Bytes) -> ClsResult<()> {
        self.made().attrs.insert(name.into(), value);
        Ok(())
    }
    fn rmxattr(&mut self, name: &[u8]) -> ClsResult<()> {
        self.there()?;
        self.made().attrs.remove(name).map(drop).ok_or(ClsError::Errno(ENODATA))
    }
    fn omap_header(&mut self) -> ClsResult<Bytes> {
        Ok(self.seen().map(|s| s.header.clone()).unwrap_or_default())
    }
    fn omap_keys(&mut self, after: &[u8], max: u64) -> ClsResult<KeyPage> {
        self.fetch(after)?;
        let (page, more) = self.omap_vals(after, b"", max)?;
        Ok((page.into_iter().map(|(key, _)| key).collect(), more))
    }
    fn omap_vals(&mut self, after: &[u8], prefix: &[u8], max: u64) -> ClsResult<ValPage> {
        self.fetch(after)?;
        let Some(state) = self.seen() else { return Ok((Vec::new(), false)) };
        let fits = |(key, _): &(&ByteStr, &Bytes)| key.as_slice() > after && key.as_slice().starts_with(prefix);
        let mut found = state.omap.iter().filter(fits).map(|(key, value)| (key.clone(), value.clone()));
        let page = found.by_ref().take(max.min(PAGE_MAX) as usize).collect();
        Ok((page, found.next().is_some()))
    }
    fn omap_val(&mut self, key: &[u8]) -> ClsResult<Bytes> {
        self.fetch(key)?;
        self.seen().and_then(|s| s.omap.get(key).cloned()).ok_or(ClsError::Errno(ENOENT))
    }
    fn omap_vals_by_keys(&mut self, keys: &[ByteStr]) -> ClsResult<Vec<(ByteStr, Bytes)>> {
        let Some(state) = self.seen() else { return Ok(Vec::new()) };
        Ok(state.omap.iter().filter(|(key, _)| keys.contains(key)).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
    fn omap_set(&mut self, vals: Vec<(ByteStr, Bytes)>) -> ClsResult<()> {
        self.made().omap.extend(vals);
        Ok(())
    }
    fn omap_set_header(&mut self, header: Bytes) -> ClsResult<()> {
        self.made().header = header;
        Ok(())
    }
    fn omap_remove(&mut self, keys: Vec<ByteStr>) -> ClsResult<()> {
        self.there()?;
        let omap = &mut self.made().omap;
        keys.iter().for_each(|key| drop(omap.remove(key)));
        Ok(())
    }
    fn omap_remove_range(&mut self, first: &[u8], end: &[u8]) -> ClsResult<()> {
        self.there()?;
        self.made().omap.retain(|key, _| key.as_slice() < first || key.as_slice() >= end);
        Ok(())
    }
    fn omap_clear(&mut self) -> ClsResult<()> {
        self.there()?;
        let state = self.made();
        state.omap.clear();
        state.header = Bytes::new();
        Ok(())
    }
    fn origin(&self) -> EntityInst {
        EntityInst { name: EntityName::client(4), addr: EntityAddr::default() }
    }
    fn version(&self) -> u64 {
        7
    }
    fn subop(&self) -> u32 {
        self.writes
    }
    fn now(&self) -> UTime {
        self.now
    }
    fn snapset_seq(&self) -> ClsResult<u64> {
        self.there().map(|_| 0)
    }
    /// There is no other object here.
    fn gather(&mut self, _: &str, objects: &[ByteStr], _: &[u8], _: &[u8], _: Bytes) -> ClsResult<BTreeMap<ByteStr, Bytes>> {
        if objects.is_empty() { Ok(BTreeMap::new()) } else { Err(ClsError::Errno(ENOENT)) }
    }
    fn watchers(&mut self) -> ClsResult<Vec<Watcher>> {
        let EntityInst { name, addr } = self.origin();
        Ok(self.watched.then_some(Watcher { name, cookie: 1, timeout_s: 30, addr }).into_iter().collect())
    }
    fn kept(&mut self) -> Option<Kept> {
        self.slow.as_ref().and_then(|slow| slow.kept.take())
    }
    fn keep(&mut self, kept: Kept) {
        if let Some(slow) = &self.slow {
            slow.kept.replace(Some(kept));
        }
    }
    fn pause(&mut self) -> Option<ClsError> {
        let slow = self.slow.as_mut()?;
        slow.turns += 1;
        Some(ClsError::Wait)
    }
    fn client_features(&self) -> u64 {
        u64::MAX
    }
    fn min_compat_client(&self) -> u8 {
        15
    }
    fn required_osd_release(&self) -> u8 {
        18
    }
    fn random(&mut self, out: &mut [u8]) {
        for b in out {
            self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *b = (self.random >> 56) as u8;
        }
    }
}
