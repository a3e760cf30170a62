//! What the operations of a request changed so far, for the operations behind them: the store knows nothing of it yet.
//!
//! Holds the list of changes of data and attributes. Of the omap there are none: what reads it sees the object before the request. A request of
//! one plain operation keeps none at all.

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
}

#[derive(Debug, Default)]
pub(super) struct Mods {
    wanted: bool,
    list: Vec<Mod>,
    data: bool,
}

/// Where what was not changed is to be read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Base {
    /// The object itself.
    Object,
    Clone(GHObject),
    Nothing,
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
            Mod::Write(..) | Mod::Zero(..) | Mod::Truncate(_) | Mod::Remove | Mod::CloneOf(_) => self.data = true,
            Mod::SetAttr(..) | Mod::RmAttr(_) => {}
        }
        self.list.push(change);
    }
    pub fn changed_data(&self) -> bool {
        self.data
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
    fn what_was_removed_is_not_below_later_changes() {
        let mut mods = Mods::new(true);
        assert_eq!((mods.since_base().0, mods.changed_data()), (Base::Object, false));
        mods.note(|| Mod::SetAttr("_a".into(), Bytes::new()));
        assert!(!mods.changed_data());
        mods.note(|| Mod::Remove);
        mods.note(|| Mod::RmAttr("_a".into()));
        let (base, changes) = mods.since_base();
        assert_eq!((base, changes.len(), mods.changed_data()), (Base::Nothing, 1, true));
    }
}
