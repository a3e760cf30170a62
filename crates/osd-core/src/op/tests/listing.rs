//! Listings whose counts are at their ends, and requests of many listings.

use super::bench::{Bench, POOL, put};
use crate::op::plan_pg;
use crate::planted::{Bug, is_noticed};
use denc::{Decoder, Encoder};
use messages::InOp;
use types::osd_op::PglsArgs;
use types::{ByteStr, Bytes, HObject, OpCode, OsdOp};

const ALL: [OpCode; 4] = [OpCode::PGLS, OpCode::PGNLS, OpCode::PGLS_FILTER, OpCode::PGNLS_FILTER];

fn listing(code: OpCode, count: u64, cursor: &HObject) -> InOp {
    let mut e = Encoder::new(0);
    if matches!(code, OpCode::PGLS_FILTER | OpCode::PGNLS_FILTER) {
        for text in ["", "", "plain", "_kind", "v"] {
            e.blob(text.as_bytes());
        }
    }
    e.put(cursor);
    InOp::new(OsdOp::with_pgls(code, PglsArgs { count, start_epoch: 0 }), e.finish())
}

/// An answer's cursor and names.
fn page(code: OpCode, out: &Bytes) -> (HObject, Vec<String>) {
    let mut d = Decoder::new(out.clone());
    if matches!(code, OpCode::PGLS | OpCode::PGLS_FILTER) {
        assert_eq!(d.u8(), Ok(1));
        let (next, names): (HObject, Vec<(ByteStr, ByteStr)>) = d.get().unwrap();
        return (next, names.into_iter().map(|(oid, _)| oid.to_string()).collect());
    }
    type Page = (HObject, Vec<((ByteStr, ByteStr), ByteStr)>);
    let (next, names): Page = d.frame("page", 1, |d, _| d.get()).unwrap();
    (next, names.into_iter().map(|((_, oid), _)| oid.to_string()).collect())
}

/// The overall result, and what each operation answered.
fn list(b: &Bench, nspace: &str, ops: Vec<InOp>) -> (i32, Vec<(HObject, Vec<String>)>) {
    let codes: Vec<OpCode> = ops.iter().map(|op| op.op.code).collect();
    let mut m = b.message("", ops);
    m.hobj.nspace = nspace.into();
    let plan = plan_pg(b.source(), b.pgid, &b.pool, &b.limits, &m, &|_| Err(types::errno::ENOENT)).unwrap();
    (plan.result, codes.iter().zip(&plan.ops).map(|(code, op)| page(*code, &op.out.flat())).collect())
}

fn with_objects(count: usize) -> Bench {
    let mut b = Bench::new();
    for n in 0..count {
        let op = super::bench::xattr(OpCode::SETXATTR, "kind", b"v");
        assert_eq!(b.run(&format!("o{n:05}"), vec![put(OpCode::WRITEFULL, 0, b"x"), op]), 0);
    }
    b
}

fn a_client_that_asks_for_nothing_gets_to_the_end() {
    let b = with_objects(5);
    for code in ALL {
        let (mut cursor, mut names) = (HObject::min(), Vec::new());
        for step in 0.. {
            assert!(step < 20, "{code:?} leads nowhere");
            let (result, pages) = list(&b, "", vec![listing(code, 0, &cursor)]);
            let (next, some) = &pages[0];
            assert!(some.len() <= 1, "a page of one row at most");
            names.extend(some.iter().cloned());
            cursor = next.clone();
            if result == 1 {
                break;
            }
        }
        assert_eq!(names, ["o00000", "o00001", "o00002", "o00003", "o00004"], "{code:?}");
    }
}

#[test]
fn a_listing_of_no_rows_goes_on() {
    a_client_that_asks_for_nothing_gets_to_the_end();
    assert!(is_noticed(Bug::EmptyPages, a_client_that_asks_for_nothing_gets_to_the_end));
}

#[test]
fn a_request_of_many_listings_looks_at_a_few_pages() {
    let mut b = with_objects(300);
    b.limits.list_max = 100;
    for (code, most) in ALL.into_iter().zip([400, 400, 300, 300]) {
        let (result, pages) = list(&b, "", vec![listing(code, u64::MAX, &HObject::min()); 500]);
        let count: usize = pages.iter().map(|(_, names)| names.len()).sum();
        assert!(result == 0 && (200..=most).contains(&count), "{code:?}: {count} names, {result}");
        // The first pages are whole, the last ones say that nothing of them was looked at.
        assert_eq!(pages[0].1.len(), 100);
        let (next, names) = pages.last().expect("as many as asked for");
        assert!(names.is_empty() && *next == HObject::pgmeta(b.pgid.pgid), "{next:?}");
        // A client that goes on by what it was told misses nothing.
        let (_, more) = list(&b, "", vec![listing(code, 1, next)]);
        let (_, more) = list(&b, "", vec![listing(code, 1, &more[0].0)]);
        assert!(!more[0].1.is_empty() || more[0].0.hash == b.pgid.pgid.seed && more[0].0.pool == POOL);
    }
    // What is looked at counts, be it nothing for this client.
    let one = |b: &Bench, nspace: &str| list(b, nspace, vec![listing(OpCode::PGNLS, 100, &HObject::min()); 500]).1;
    assert!(one(&b, "foreign").iter().all(|(_, names)| names.is_empty()));
    let moved = |pages: &[(HObject, Vec<String>)]| pages.iter().filter(|(next, _)| *next != HObject::pgmeta(b.pgid.pgid)).count();
    assert!((1..=8).contains(&moved(&one(&b, "foreign"))));
}

/// The smallest pages that an operator may set, and numbers at their ends.
#[test]
fn a_listing_gets_on_whatever_the_limit_is() {
    let mut b = with_objects(3);
    for list_max in [0, 1, 2, u64::MAX] {
        b.limits.list_max = list_max;
        for count in [0, 1, u64::MAX] {
            let (mut cursor, mut names) = (HObject::min(), Vec::new());
            for step in 0.. {
                assert!(step < 20, "{list_max} {count}: leads nowhere");
                let (result, pages) = list(&b, "", vec![listing(OpCode::PGNLS, count, &cursor)]);
                names.extend(pages[0].1.iter().cloned());
                cursor = pages[0].0.clone();
                if result == 1 {
                    break;
                }
            }
            assert_eq!(names, ["o00000", "o00001", "o00002"], "{list_max} {count}");
        }
    }
}
