//! Listing a placement group: PGLS and PGNLS, in the order of `hobject_t`, page by page.
//!
//! A page's cursor is the name of the first object that it does not hold; a client that lists goes from group to group by it. Each page looks at one row
//! at least, whatever is asked for: a client that goes on by the cursor gets to the end. What all pages of a request look at is bounded ([`ListCosts`]).
//!
//! Source of the facts: Ceph 18.2 `src/osd/PrimaryLogPG.cc` (`do_pg_op`), `osd_types.h` (`pg_nls_response_t`, `pg_ls_response_t`).

use super::costs::ListCosts;
use super::plan::{Limits, OpResult, Plan, PlanKind, PlanStop};
use super::source::Source;
use crate::pg::backend::name::first_of;
use crate::pg::range::pg_end;
use crate::planted::{Bug, planted};
use classes::InodeTag;
use denc::{Decoder, Encoder};
use maps::PgPool;
use messages::{InOp, MOSDOp};
use store::StoreError;
use types::errno::{EINVAL, EMSGSIZE};
use types::osd_op::OpCode;
use types::{Bytes, CEPH_NOSNAP, EVersion, GHObject, HObject, ObjectStatSum, PgId, SpgId, Transaction};

/// The namespace by which clients ask for objects of all namespaces.
const ALL_NAMESPACES: &[u8] = b"\x01";
/// Where hit sets lie (`osd_hit_set_namespace`): not for users.
const INTERNAL_NAMESPACE: &[u8] = b".ceph-internal";

/// Plans a request of listing operations: reads the group's objects as they are now. `pool` is the group's, with its present pg_num.
/// `found`: a page of what the last scrub found, or an errno.
pub fn plan_pg(
    source: Source<'_>,
    pgid: SpgId,
    pool: &PgPool,
    limits: &Limits,
    m: &MOSDOp,
    found: &dyn Fn(&Bytes) -> Result<Bytes, i32>,
) -> Result<Plan, PlanStop> {
    let list = List { source, pgid: pgid.pgid, pool, limits, m, found, costs: ListCosts::new(limits) };
    let mut ops = Vec::with_capacity(m.ops.len());
    let mut result = 0;
    let mut left = super::costs::answer_max(limits);
    for op in &m.ops {
        let (rval, out) = match list.op(op) {
            Ok((_, out)) if out.len() as u64 > left => return Err(PlanStop::Reply(EMSGSIZE)),
            Ok((rval, out)) => (rval, out),
            Err(Failure::Errno(errno)) => (-errno, Bytes::new()),
            Err(Failure::Plan(stop)) => return Err(stop),
        };
        result = rval;
        left -= out.len() as u64;
        // Per-op results stay 0: only the overall one says that the end is reached.
        ops.push(OpResult { rval: 0, out: out.into() });
        if rval < 0 {
            ops.resize_with(m.ops.len(), OpResult::default);
            break;
        }
    }
    Ok(Plan {
        kind: PlanKind::Read,
        result,
        ops: ops.into(),
        reply_version: EVersion::ZERO,
        reply_user_version: 0,
        data_off: 0,
        txn: Transaction::new(source.coll()),
        log: Vec::new(),
        changed: Default::default(),
        snap_index: Vec::new(),
        stats: ObjectStatSum::default(),
        effects: Vec::new(),
    })
}

enum Failure {
    Errno(i32),
    Plan(PlanStop),
}

struct List<'a> {
    source: Source<'a>,
    pgid: PgId,
    pool: &'a PgPool,
    limits: &'a Limits,
    m: &'a MOSDOp,
    found: &'a dyn Fn(&Bytes) -> Result<Bytes, i32>,
    costs: ListCosts,
}

/// Which objects a filtered listing shows.
enum Filter {
    /// Those with this value in this attribute.
    Attribute {
        attr: Bytes,
        value: Bytes,
    },
    InodeTag(InodeTag),
}

impl List<'_> {
    fn op(&self, InOp { op, indata, .. }: &InOp) -> Result<(i32, Bytes), Failure> {
        let mut d = Decoder::new(indata.clone());
        let filter = match op.code {
            OpCode::PGLS_FILTER | OpCode::PGNLS_FILTER => Some(decode_filter(&mut d)?),
            OpCode::PGLS | OpCode::PGNLS => None,
            OpCode::PG_HITSET_LS => return Ok((0, Bytes::from_static(&[0; 4]))),
            OpCode::PG_HITSET_GET => return Err(Failure::Errno(types::errno::ENOENT)),
            OpCode::SCRUBLS => {
                // An empty page would say that there is no more.
                self.costs.page(0).ok_or(Failure::Plan(PlanStop::Reply(EMSGSIZE)))?;
                return (self.found)(indata).map(|page| (0, page)).map_err(Failure::Errno);
            }
            _ => return Err(Failure::Errno(EINVAL)),
        };
        if self.m.hobj.snap != CEPH_NOSNAP {
            return Err(Failure::Errno(EINVAL));
        }
        if self.pool.raw_pg_to_pg(self.m.raw_pg()) != self.pgid {
            return Ok((0, Bytes::new()));
        }
        let cursor: HObject = d.get().map_err(|_| Failure::Errno(EINVAL))?;
        let max = self.limits.list_max.min(op.pgls().count) as usize;
        let max = if planted(Bug::EmptyPages) { max } else { max.max(1) };
        let with_namespaces = matches!(op.code, OpCode::PGNLS | OpCode::PGNLS_FILTER);
        let end = pg_end(self.pgid, self.pool.pg_num);
        if with_namespaces {
            let beyond = !cursor.max && cursor >= end;
            if beyond || (!cursor.is_min() && cursor < HObject::pgmeta(self.pgid)) {
                return Err(Failure::Errno(EINVAL));
            }
        }
        let (names, next) = self.page(cursor, max, with_namespaces, filter.as_ref()).map_err(Failure::Plan)?;
        let done = next.max;
        let mut e = Encoder::new(0);
        if with_namespaces {
            e.frame(1, 1, |e| {
                e.put(if done { &end } else { &next });
                e.count(names.len());
                for name in &names {
                    e.put(&name.nspace);
                    e.put(&name.oid);
                    e.put(&name.key);
                }
            });
        } else {
            e.u8(1);
            e.put(&next);
            e.count(names.len());
            for name in &names {
                e.put(&name.oid);
                e.put(&name.key);
            }
        }
        Ok((i32::from(done), e.finish()))
    }

    /// Up to `max` objects, fewer where the store gives fewer or the request has looked at enough, from `cursor` on, less those that are not for this
    /// client; and the next page's cursor.
    fn page(
        &self,
        cursor: HObject,
        max: usize,
        internal_hidden: bool,
        filter: Option<&Filter>,
    ) -> Result<(Vec<HObject>, HObject), PlanStop> {
        // What is before the group's own record is being built.
        let cursor = cursor.max(HObject::pgmeta(self.pgid));
        let mut from = first_of(self.source.coll(), cursor);
        let mut found = Vec::new();
        let mut names = Vec::new();
        let wanted = self.m.hobj.nspace.as_slice();
        // One page of the store's: it may hold fewer, and what is asked for behind it would drive its leaves out.
        while found.is_empty() && !from.max {
            let Some(rows) = self.costs.page(max).filter(|rows| *rows > 0) else { break };
            let page = self.source.list(&from, rows)?;
            self.costs.looked_at(page.objects.len());
            found.extend(page.objects.into_iter().filter(|o| !o.hobj.oid.is_empty() && o.hobj.pool >= 0).map(|o| o.hobj));
            from = page.next.unwrap_or_else(GHObject::max);
        }
        for hobj in found {
            let shown = hobj.is_head()
                && !(internal_hidden && hobj.nspace.as_slice() == INTERNAL_NAMESPACE)
                && (hobj.nspace.as_slice() == wanted || (internal_hidden && wanted == ALL_NAMESPACES));
            if shown && self.passes(&hobj, filter)? {
                names.push(hobj);
            }
        }
        Ok((names, from.hobj))
    }

    fn passes(&self, hobj: &HObject, filter: Option<&Filter>) -> Result<bool, PlanStop> {
        let Some(filter) = filter else { return Ok(true) };
        self.costs.looked_at(1);
        let attr = match filter {
            Filter::Attribute { attr, .. } => &attr[..],
            Filter::InodeTag(_) => InodeTag::ATTRIBUTE,
        };
        match self.source.attr(&self.source.name(hobj.clone()), attr) {
            Ok(found) => Ok(match filter {
                Filter::Attribute { value, .. } => found.is_some_and(|found| found == *value),
                Filter::InodeTag(filter) => filter.shows(hobj.oid.as_slice(), found.as_ref()),
            }),
            Err(StoreError::NoObject(..)) => Ok(false),
            Err(other) => Err(other.into()),
        }
    }
}

/// Class and method (not looked at), the filter's kind, and what it needs: `plain` and those of classes an attribute and its value, but for
/// cephfs's, which has a record of its own.
fn decode_filter(d: &mut Decoder) -> Result<Filter, Failure> {
    let mut text = || d.blob().map_err(|_| Failure::Errno(EINVAL));
    let (_class, _method, kind) = (text()?, text()?, text()?);
    if &kind[..] == InodeTag::NAME {
        let filter = d.get().map_err(|_| Failure::Errno(EINVAL))?;
        return Ok(Filter::InodeTag(filter));
    }
    let mut text = || d.blob().map_err(|_| Failure::Errno(EINVAL));
    if &kind[..] != b"plain" && !classes::ATTRIBUTE_FILTERS.contains(&&kind[..]) {
        return Err(Failure::Errno(EINVAL));
    }
    Ok(Filter::Attribute { attr: text()?, value: text()? })
}
