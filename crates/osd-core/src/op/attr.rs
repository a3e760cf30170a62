//! Operations on attributes. Names go to the store with a `_` in front, which keeps them apart from the object's own.
//!
//! What reads them, class methods too, sees the object as it was before the vector, whatever came earlier in it (18.2, `getattr_maybe_cache`):
//! clients that replace an object under a condition on one of its attributes put the removal first.

use super::exec::{Answer, Exec, Step, answer, done, fail, kb};
use super::mods::{Base, Mod};
use crate::planted::{Bug, planted};
use std::collections::BTreeMap;
use types::errno::{ECANCELED, EFBIG, EINVAL, ENAMETOOLONG, ENODATA, ENOENT};
use types::osd_op::{cmp_mode, cmp_op};
use types::{ByteStr, Bytes, OsdOp};

/// Bytes of a name that every store takes, whatever is configured: what BlueStore says of itself (`get_max_attr_name_length`).
const NAME_MAX: usize = 256;

/// As the store names an attribute.
pub(super) fn stored_name(name: &[u8]) -> ByteStr {
    let mut stored = Vec::with_capacity(name.len() + 1);
    stored.push(b'_');
    stored.extend_from_slice(name);
    stored.into()
}

/// The first `len` bytes of an operation's data and the rest; what is missing is `EINVAL`.
fn split(indata: &Bytes, len: u32) -> Step<(Bytes, Bytes)> {
    let len = len as usize;
    if len > indata.len() {
        return fail(EINVAL);
    }
    Ok((indata.slice(..len), indata.slice(len..)))
}

/// Whether `left op right` holds; `EINVAL` for an unknown comparison.
fn compare<T: Ord + ?Sized>(op: u8, left: &T, right: &T) -> Step<bool> {
    Ok(match op {
        cmp_op::EQ => left == right,
        cmp_op::NE => left != right,
        cmp_op::GT => left > right,
        cmp_op::GTE => left >= right,
        cmp_op::LT => left < right,
        cmp_op::LTE => left <= right,
        _ => return fail(EINVAL),
    })
}

impl Exec<'_> {
    /// The value of an attribute, by its stored name. A whiteout is an object without any.
    fn stored_attr(&self, stored: &ByteStr) -> Step<Bytes> {
        if !self.obj.exists {
            return fail(ENOENT);
        }
        match self.store_attr(&self.gobj, stored)? {
            Some(value) => Ok(value),
            None => fail(ENODATA),
        }
    }

    pub fn attr(&mut self, name: &[u8]) -> Step<Bytes> {
        self.num_read += 1;
        self.stats.num_rd += 1;
        let value = self.stored_attr(&stored_name(name))?;
        self.costs.read(value.len() as u64)?;
        self.stats.num_rd_kb += kb(value.len() as u64);
        Ok(value)
    }

    /// All attributes, by name.
    pub fn attrs(&mut self) -> Step<BTreeMap<ByteStr, Bytes>> {
        self.num_read += 1;
        self.stats.num_rd += 1;
        // An erasure coded pool answers from the object's context (18.2, `getattrs_maybe_cache`), which a missing object has, too.
        if !self.obj.exists && !self.ctx.pool.is_erasure() {
            return fail(ENOENT);
        }
        let attrs = self.attrs_from(&Base::Object, &[])?;
        let bytes = attrs.iter().map(|(name, value)| 8 + name.len() + value.len()).sum::<usize>() as u64;
        self.costs.read(bytes)?;
        self.stats.num_rd_kb += kb(bytes);
        Ok(attrs)
    }

    /// All attributes as the vector has left them so far.
    fn attrs_so_far(&self) -> Step<BTreeMap<ByteStr, Bytes>> {
        let (base, changes) = self.mods.since_base();
        self.attrs_from(&base, changes)
    }

    fn attrs_from(&self, base: &Base, changes: &[Mod]) -> Step<BTreeMap<ByteStr, Bytes>> {
        let stored = match base {
            Base::Object if self.obj.exists => self.store_attrs(&self.gobj)?,
            Base::Clone(clone) => self.store_attrs(clone)?,
            Base::Object | Base::Nothing => Vec::new(),
        };
        let user = |name: &ByteStr| (name.len() > 1 && name.as_slice()[0] == b'_').then(|| ByteStr::from(name.as_bytes().slice(1..)));
        let mut attrs: BTreeMap<ByteStr, Bytes> =
            stored.into_iter().filter_map(|(name, value)| user(&name).map(|name| (name, value))).collect();
        self.costs.steps(changes.len() as u64)?;
        for change in changes {
            match change {
                Mod::SetAttr(name, value) => drop(user(name).map(|name| attrs.insert(name, value.clone()))),
                Mod::RmAttr(name) => drop(user(name).map(|name| attrs.remove(&name))),
                _ => {}
            }
        }
        Ok(attrs)
    }

    /// `EFBIG` unless the attribute, and all of the object with it, are within what stores take. What is there already may be more.
    fn check_attr(&mut self, name: &ByteStr, len: usize) -> Step<()> {
        if planted(Bug::UnboundedAttrs) {
            return Ok(());
        }
        let (limits, max) = (self.ctx.limits, self.source.attrs_max());
        if len > max.one || (limits.attr_size_max > 0 && len as u64 > limits.attr_size_max) {
            return fail(EFBIG);
        }
        let mut sizes = match self.attr_sizes.take() {
            Some(sizes) => sizes,
            None => self.attrs_so_far()?.into_iter().map(|(name, value)| (name, value.len())).collect(),
        };
        let before = sizes.insert(name.clone(), len);
        self.costs.steps(sizes.len() as u64)?;
        let grows = before.is_none_or(|before| before < len);
        if grows && sizes.iter().map(|(name, len)| name.len() + len).sum::<usize>() > max.all {
            return fail(EFBIG);
        }
        self.attr_sizes = Some(sizes);
        Ok(())
    }

    pub fn set_attr(&mut self, name: &[u8], value: Bytes) -> Step<Answer> {
        self.num_write += 1;
        if name.len() > self.ctx.limits.attr_name_max.min(NAME_MAX) {
            return fail(ENAMETOOLONG);
        }
        self.check_attr(&name.into(), value.len())?;
        self.ensure_exists();
        let name = stored_name(name);
        self.txn.set_attr(&self.gobj, name.clone(), value.clone());
        self.mods.note(|| Mod::SetAttr(name, value));
        self.stats.num_wr += 1;
        done()
    }

    pub fn rm_attr(&mut self, name: &[u8]) -> Step<Answer> {
        self.num_write += 1;
        if !self.visible() {
            return fail(ENOENT);
        }
        if let Some(sizes) = &mut self.attr_sizes {
            sizes.remove(name);
        }
        let name = stored_name(name);
        self.txn.rm_attr(&self.gobj, name.clone());
        self.mods.note(|| Mod::RmAttr(name));
        self.stats.num_wr += 1;
        done()
    }

    pub fn op_getxattr(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        let (name, _) = split(indata, op.xattr().name_len)?;
        answer(self.attr(&name)?)
    }

    pub fn op_getxattrs(&mut self) -> Step<Answer> {
        let attrs = self.attrs()?;
        answer(denc::Denc::to_bytes(&attrs, 0))
    }

    pub fn op_setxattr(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        let args = op.xattr();
        let limits = self.ctx.limits;
        if limits.attr_size_max > 0 && u64::from(args.value_len) > limits.attr_size_max {
            return fail(EFBIG);
        }
        if args.name_len as usize > limits.attr_name_max {
            return fail(ENAMETOOLONG);
        }
        let (name, rest) = split(indata, args.name_len)?;
        let (value, _) = split(&rest, args.value_len)?;
        self.set_attr(&name, value)
    }

    pub fn op_rmxattr(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        let (name, _) = split(indata, op.xattr().name_len)?;
        self.rm_attr(&name)
    }

    /// CMPXATTR: 1 if the given value stands in the given relation to the attribute, `ECANCELED` if not. No attribute is an empty one.
    pub fn op_cmpxattr(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        let args = op.xattr();
        let (name, rest) = split(indata, args.name_len)?;
        let stored = match self.attr(&name) {
            Err(super::exec::Stop::Code(code)) if code == -ENODATA => Bytes::new(),
            other => other?,
        };
        let holds = match args.cmp_mode {
            cmp_mode::STRING => compare(args.cmp_op, &split(&rest, args.value_len)?.0[..], &stored[..])?,
            cmp_mode::U64 => {
                let given = match rest.get(..8) {
                    Some(bytes) => u64::from_le_bytes(bytes.try_into().expect("eight bytes")),
                    None => return fail(EINVAL),
                };
                compare(args.cmp_op, &given, &leading_number(&stored)?)?
            }
            _ => return fail(EINVAL),
        };
        if holds { Ok((1, Default::default())) } else { fail(ECANCELED) }
    }
}

/// The decimal number that an attribute starts with; 0 for an empty one.
fn leading_number(text: &[u8]) -> Step<u64> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.iter().take_while(|c| c.is_ascii_digit()).count();
    match std::str::from_utf8(&text[..digits]).ok().and_then(|digits| digits.parse().ok()) {
        Some(number) => Ok(number),
        None => fail(EINVAL),
    }
}
