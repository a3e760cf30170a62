//! What the operations of a request changed so far, for the operations behind them: the store knows nothing of it yet.
//!
//! Holds the list of changes and the view of the omap through it. A request of one plain operation keeps none.

use std::collections::BTreeMap;
use types::{ByteStr, Bytes, GHObject};

/// One change, as it was put into the transaction.
#[derive(Debug, Clone)]
pub(super) enum Mod {
    Write(u64, Bytes),
    Zero(u64, u64),
    Truncate(u64),
    /// All of the object is gone, attributes and omap too.
    Remove,
    /// All of the object is now what this clone is.
    CloneOf(GHObject),
    SetAttr(ByteStr, Bytes),
    RmAttr(ByteStr),
    OmapSet(Vec<(ByteStr, Bytes)>),
    OmapHeader(Bytes),
    OmapRemove(Vec<ByteStr>),
    OmapRemoveRange(ByteStr, ByteStr),
    OmapClear,
}

#[derive(Debug, Default)]
pub(super) struct Mods {
    wanted: bool,
    list: Vec<Mod>,
    data: bool,
    attrs: bool,
    omap: bool,
    overlay: OmapOverlay,
    /// How much of the list the overlay has.
    overlaid: usize,
}

/// Where what was not changed is to be read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Base {
    /// The object itself.
    Object,
    Clone(GHObject),
    Nothing,
}

/// The omap's changes.
#[derive(Debug)]
pub(super) struct OmapOverlay {
    pub base: Base,
    /// Keys with their new values, or None for removed ones.
    pub keys: BTreeMap<ByteStr, Option<Bytes>>,
    /// Ranges in which nothing of the base is left.
    pub removed: Vec<(ByteStr, ByteStr)>,
    pub header: Option<Bytes>,
}

impl Default for OmapOverlay {
    fn default() -> Self {
        Self { base: Base::Object, keys: BTreeMap::new(), removed: Vec::new(), header: None }
    }
}

impl OmapOverlay {
    fn reset(&mut self, base: Base) {
        *self = Self { base, ..Self::default() };
    }
    /// True if the base's key can no longer be seen.
    pub fn hides(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key) || self.removed.iter().any(|(first, end)| first.as_slice() <= key && key < end.as_slice())
    }
    fn apply(&mut self, change: &Mod) {
        match change {
            Mod::Remove => self.reset(Base::Nothing),
            Mod::CloneOf(clone) => self.reset(Base::Clone(clone.clone())),
            Mod::OmapClear => {
                self.reset(Base::Nothing);
                self.header = Some(Bytes::new());
            }
            Mod::OmapSet(vals) => self.keys.extend(vals.iter().map(|(key, val)| (key.clone(), Some(val.clone())))),
            Mod::OmapHeader(header) => self.header = Some(header.clone()),
            Mod::OmapRemove(keys) => self.keys.extend(keys.iter().map(|key| (key.clone(), None))),
            Mod::OmapRemoveRange(first, end) => {
                self.keys.retain(|key, _| !(first <= key && key < end));
                self.removed.push((first.clone(), end.clone()));
            }
            Mod::Write(..) | Mod::Zero(..) | Mod::Truncate(_) | Mod::SetAttr(..) | Mod::RmAttr(_) => {}
        }
    }
}

impl Mods {
    pub fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }
    pub fn note(&mut self, change: impl FnOnce() -> Mod) {
        if !self.wanted {
            return;
        }
        let change = change();
        match &change {
            Mod::Write(..) | Mod::Zero(..) | Mod::Truncate(_) => self.data = true,
            Mod::SetAttr(..) | Mod::RmAttr(_) => self.attrs = true,
            Mod::Remove | Mod::CloneOf(_) => (self.data, self.attrs, self.omap) = (true, true, true),
            _ => self.omap = true,
        }
        self.list.push(change);
    }
    pub fn changed_data(&self) -> bool {
        self.data
    }
    pub fn changed_attrs(&self) -> bool {
        self.attrs
    }
    /// Brings the overlay up to date; false if the omap was not changed.
    pub fn sync_omap(&mut self) -> bool {
        if self.omap {
            for change in &self.list[self.overlaid..] {
                self.overlay.apply(change);
            }
            self.overlaid = self.list.len();
        }
        self.omap
    }
    /// The omap's changes, as of the last [`Mods::sync_omap`].
    pub fn overlay(&self) -> &OmapOverlay {
        &self.overlay
    }
    /// What is left of the object below the changes that count, and these.
    pub fn since_base(&self) -> (Base, &[Mod]) {
        for (index, change) in self.list.iter().enumerate().rev() {
            match change {
                Mod::Remove => return (Base::Nothing, &self.list[index + 1..]),
                Mod::CloneOf(clone) => return (Base::Clone(clone.clone()), &self.list[index + 1..]),
                _ => {}
            }
        }
        (Base::Object, &self.list)
    }
}

/// Applies the changes of data to `buf`, which holds the bytes from `offset` on as they were (zeros where there were none).
pub(super) fn overlay_data(buf: &mut [u8], offset: u64, changes: &[Mod]) {
    let end = offset + buf.len() as u64;
    let part = |at: u64, len: u64| {
        let (from, to) = (at.max(offset), at.saturating_add(len).min(end));
        (from < to).then(|| (from - offset) as usize..(to - offset) as usize)
    };
    for change in changes {
        match change {
            Mod::Write(at, data) => {
                if let Some(range) = part(*at, data.len() as u64) {
                    let from = (offset + range.start as u64 - at) as usize;
                    buf[range.clone()].copy_from_slice(&data[from..from + range.len()]);
                }
            }
            Mod::Zero(at, len) => {
                if let Some(range) = part(*at, *len) {
                    buf[range].fill(0);
                }
            }
            Mod::Truncate(size) => {
                if let Some(range) = part(*size, u64::MAX) {
                    buf[range].fill(0);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_changes_apply_in_order_within_the_window() {
        let mut buf = *b"abcdefgh";
        overlay_data(
            &mut buf,
            100,
            &[
                Mod::Write(98, Bytes::from_static(b"1234")),
                Mod::Zero(104, 2),
                Mod::Write(107, Bytes::from_static(b"xyz")),
                Mod::Write(300, Bytes::from_static(b"far")),
            ],
        );
        assert_eq!(&buf, b"34cd\0\0gx");
        overlay_data(&mut buf, 100, &[Mod::Truncate(102), Mod::Write(103, Bytes::from_static(b"!"))]);
        assert_eq!(&buf, b"34\0!\0\0\0\0");
    }

    #[test]
    fn removed_keys_and_ranges_hide_the_base() {
        let mut mods = Mods::new(true);
        assert!(!mods.sync_omap());
        let key = |s: &str| ByteStr::from(s);
        mods.note(|| Mod::OmapSet(vec![(key("b"), Bytes::from_static(b"1")), (key("x"), Bytes::new())]));
        mods.note(|| Mod::OmapRemoveRange(key("a"), key("c")));
        mods.note(|| Mod::OmapRemove(vec![key("m")]));
        assert!(mods.sync_omap());
        let overlay = mods.overlay();
        assert!(overlay.hides(b"b") && overlay.hides(b"a") && !overlay.hides(b"c") && overlay.hides(b"m"));
        assert_eq!(overlay.keys.get(&key("b")), None);
        mods.note(|| Mod::Remove);
        mods.sync_omap();
        assert_eq!(mods.overlay().base, Base::Nothing);
        assert_eq!(mods.since_base().0, Base::Nothing);
    }
}
