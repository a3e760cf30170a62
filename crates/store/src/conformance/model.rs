//! The model: every object a plain vector of bytes and three maps. Written to be read, shares nothing with any store.

use super::{Subject, ask, list_all};
use crate::{ObjectStore, OmapFrom, OmapQuery};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use types::{ByteStr, CollId, GHObject, Transaction, TxKind, TxOp};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelObject {
    pub data: Vec<u8>,
    pub attrs: BTreeMap<ByteStr, Bytes>,
    pub header: Bytes,
    pub omap: BTreeMap<ByteStr, Bytes>,
    pub hint: (u64, u64, u32),
}

#[derive(Debug, Clone, Default)]
pub struct ModelColl {
    pub bits: u32,
    /// Copies of a model share the objects that did not change.
    pub objects: BTreeMap<GHObject, Rc<ModelObject>>,
}

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub colls: BTreeMap<CollId, ModelColl>,
}

fn put(data: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    data.resize(data.len().max(at + bytes.len()), 0);
    data[at..at + bytes.len()].copy_from_slice(bytes);
}

impl Model {
    /// Applies a transaction that is known to be a valid one.
    pub fn apply(&mut self, txn: &Transaction) {
        self.apply_some(txn, txn.ops());
    }
    /// Applies the last change only.
    pub fn apply_last(&mut self, txn: &Transaction) {
        self.apply_some(txn, &txn.ops()[txn.len() - 1..]);
    }
    fn apply_some(&mut self, txn: &Transaction, ops: &[TxOp]) {
        for op in ops {
            let id = txn.coll(op.coll);
            let object = || txn.object(op.obj).clone();
            if let TxKind::MkColl { bits } = op.kind {
                self.colls.insert(id, ModelColl { bits, ..ModelColl::default() });
                continue;
            }
            let coll = self.colls.get_mut(&id).expect("the collection is there");
            match &op.kind {
                TxKind::Nop | TxKind::CollHint { .. } | TxKind::MkColl { .. } => {}
                TxKind::Create | TxKind::Touch => drop(coll.entry(object())),
                TxKind::Write { offset, data } => put(&mut coll.entry(object()).data, *offset as usize, data),
                TxKind::Zero { offset, len } => put(&mut coll.entry(object()).data, *offset as usize, &vec![0; *len as usize]),
                TxKind::Truncate { size } => {
                    if let Some(o) = coll.objects.get_mut(&object()) {
                        Rc::make_mut(o).data.resize(*size as usize, 0);
                    }
                }
                TxKind::Remove => drop(coll.objects.remove(&object())),
                TxKind::SetAttr { name, value } => drop(coll.object(object()).attrs.insert(name.clone(), value.clone())),
                TxKind::SetAttrs(attrs) => coll.object(object()).attrs.extend(attrs.iter().cloned()),
                TxKind::RmAttr { name } => drop(coll.object(object()).attrs.remove(name)),
                TxKind::RmAttrs => coll.object(object()).attrs.clear(),
                TxKind::Clone { to } => {
                    let copy = coll.objects[&object()].clone();
                    coll.objects.insert(txn.object(*to).clone(), copy);
                }
                TxKind::CloneRange { to, src_offset, len, dst_offset } => {
                    let source = &coll.object(object()).data;
                    let from = source.len().min(*src_offset as usize);
                    let part = source[from..source.len().min((src_offset + len) as usize)].to_vec();
                    put(&mut coll.entry(txn.object(*to).clone()).data, *dst_offset as usize, &part);
                }
                TxKind::OmapClear => {
                    let o = coll.object(object());
                    (o.header, o.omap) = Default::default();
                }
                TxKind::OmapSetKeys(keys) => coll.object(object()).omap.extend(keys.iter().cloned()),
                TxKind::OmapRmKeys(keys) => coll.object(object()).omap.retain(|k, _| !keys.contains(k)),
                TxKind::OmapRmKeyRange { first, last } => coll.object(object()).omap.retain(|k, _| k < first || k >= last),
                TxKind::OmapSetHeader(header) => coll.object(object()).header = header.clone(),
                TxKind::SetAllocHint { object_size, write_size, flags } => {
                    coll.entry(object()).hint = (*object_size, *write_size, *flags);
                }
                TxKind::MoveRename { to_coll, to } => {
                    let moved = coll.objects.remove(&object()).expect("what moves is there");
                    let target = self.colls.get_mut(&txn.coll(*to_coll)).expect("the target is there");
                    target.objects.insert(txn.object(*to).clone(), moved);
                }
                TxKind::TryRename { to } => {
                    if let Some(moved) = coll.objects.remove(&object()) {
                        coll.objects.insert(txn.object(*to).clone(), moved);
                    }
                }
                TxKind::RmColl => {
                    assert!(coll.objects.is_empty());
                    self.colls.remove(&id);
                }
                TxKind::SplitColl { to, bits, rem } => {
                    coll.bits = *bits;
                    let (go, stay) =
                        std::mem::take(&mut coll.objects).into_iter().partition(|(o, _)| o.hobj.hash & ((1 << bits) - 1) == *rem);
                    coll.objects = stay;
                    let target = self.colls.get_mut(&txn.coll(*to)).expect("the target is there");
                    target.bits = *bits;
                    target.objects.extend::<BTreeMap<_, _>>(go);
                }
                TxKind::MergeColl { to, bits } => {
                    let go = self.colls.remove(&id).expect("it is there").objects;
                    let target = self.colls.get_mut(&txn.coll(*to)).expect("the target is there");
                    target.bits = *bits;
                    target.objects.extend(go);
                }
                TxKind::CollSetBits { bits } => coll.bits = *bits,
            }
        }
    }

    /// Asserts that the store has the same as the model in this collection.
    pub fn check_coll(&self, subject: &mut dyn Subject, store: &mut dyn ObjectStore, id: CollId) {
        let coll = &self.colls[&id];
        assert_eq!(ask(subject, store, |s| s.collection_bits(id)), Ok(Some(coll.bits)));
        let names: Vec<_> = coll.objects.keys().cloned().collect();
        for max in [usize::MAX, 3] {
            assert_eq!(list_all(subject, store, id, max).as_ref(), Ok(&names), "by pages of {max}");
        }
        for name in &names {
            self.check_object(subject, store, id, name);
        }
    }

    /// Asserts that the store has the same as the model in this object, or that it has none.
    pub fn check_object(&self, subject: &mut dyn Subject, store: &mut dyn ObjectStore, id: CollId, name: &GHObject) {
        let Some(o) = self.colls[&id].objects.get(name) else {
            assert_eq!(ask(subject, store, |s| s.exists(id, name)), Ok(false));
            assert_eq!(ask(subject, store, |s| s.stat(id, name)), Err(crate::StoreError::NoObject(id)));
            return;
        };
        let stat = ask(subject, store, |s| s.stat(id, name)).expect("a stat");
        assert_eq!(stat.size, o.data.len() as u64, "{name}");
        assert_eq!((stat.expected_object_size, stat.expected_write_size, stat.alloc_hint_flags), o.hint);
        let data = ask(subject, store, |s| s.read(id, name, 0, u64::MAX)).expect("a read");
        assert_eq!(data.len(), o.data.len());
        assert!(data.flat() == o.data[..], "{name}: data differ");
        let extents = ask(subject, store, |s| s.extents(id, name, 0, u64::MAX)).expect("extents");
        assert!(extents.end().unwrap_or(0) <= stat.size);
        let mut holes = types::IntervalSet::of(0, stat.size);
        holes.subtract(&extents);
        for (at, len) in holes.iter() {
            assert!(o.data[at as usize..(at + len) as usize].iter().all(|b| *b == 0), "{name}: data in a hole");
        }
        let attrs = ask(subject, store, |s| s.attrs(id, name)).expect("attributes");
        assert_eq!(attrs, o.attrs.clone().into_iter().collect::<Vec<_>>());
        for (key, value) in &o.attrs {
            assert_eq!(ask(subject, store, |s| s.attr(id, name, key.as_slice())), Ok(Some(value.clone())));
        }
        assert_eq!(ask(subject, store, |s| s.attr(id, name, b"no such attribute")), Ok(None));
        let (first, last) = (o.attrs.first_key_value(), o.attrs.last_key_value());
        let names = [first.map_or(&b"none"[..], |(k, _)| k.as_slice()), last.map_or(&b"none"[..], |(k, _)| k.as_slice())];
        let both = ask(subject, store, |s| s.two_attrs(id, name, names));
        assert_eq!(both, Ok([first.map(|(_, v)| v.clone()), last.map(|(_, v)| v.clone())]));
        self.check_omap(subject, store, id, name, o);
    }

    fn check_omap(&self, subject: &mut dyn Subject, store: &mut dyn ObjectStore, id: CollId, name: &GHObject, o: &ModelObject) {
        assert_eq!(ask(subject, store, |s| s.omap_header(id, name)), Ok(o.header.clone()));
        let all: Vec<_> = o.omap.clone().into_iter().collect();
        let page = ask(subject, store, |s| s.omap_list(id, name, &OmapQuery::default())).expect("a page");
        assert_eq!((page.entries, page.more), (all.clone(), false));
        let Some((middle, _)) = all.get(all.len() / 2).cloned() else { return };
        let wish = [middle.clone(), "no such key".into()];
        assert_eq!(ask(subject, store, |s| s.omap_get(id, name, &wish)).expect("keys")[..], all[all.len() / 2..][..1]);
        for (from, first) in [(OmapFrom::At(middle.as_slice()), all.len() / 2), (OmapFrom::After(middle.as_slice()), all.len() / 2 + 1)] {
            let seen = ask(subject, store, |s| {
                let mut seen = Vec::new();
                s.omap_scan(id, name, from, &mut |k, v| {
                    seen.push((k.clone(), v.clone()));
                    ControlFlow::Continue(())
                })?;
                Ok(seen)
            });
            assert_eq!(seen.expect("a scan"), all[first..]);
        }
        let query = OmapQuery { start_after: middle.as_slice(), prefix: b"k", entries_max: 2, ..OmapQuery::default() };
        let page = ask(subject, store, |s| s.omap_list(id, name, &query)).expect("a page");
        let rest: Vec<_> = all.iter().filter(|(k, _)| *k > middle && k.as_slice().starts_with(b"k")).cloned().collect();
        assert_eq!(page.entries[..], rest[..rest.len().min(2)]);
        assert_eq!(page.more, rest.len() > 2);
    }

    /// Asserts that the store has the same as the model.
    pub fn check(&self, subject: &mut dyn Subject, store: &mut dyn ObjectStore) {
        let ids: Vec<_> = self.colls.keys().copied().collect();
        assert_eq!(ask(subject, store, |s| s.collections()), Ok(ids.clone()));
        for id in ids {
            self.check_coll(subject, store, id);
        }
    }
}

impl ModelColl {
    fn entry(&mut self, name: GHObject) -> &mut ModelObject {
        Rc::make_mut(self.objects.entry(name).or_default())
    }
    fn object(&mut self, name: GHObject) -> &mut ModelObject {
        Rc::make_mut(self.objects.get_mut(&name).expect("the object is there"))
    }
}
