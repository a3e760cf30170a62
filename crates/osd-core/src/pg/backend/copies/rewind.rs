//! Divergent entries: at the end of a log, of a history that does not count. Each was written in place, so what the object was before is gone
//! from this store; what remains to be said is which version of it is needed now.
//!
//! | the first divergent entry of an object | the object | afterwards |
//! |---|---|---|
//! | creates it (no prior version, or a clone) | | not missing, removed from the store |
//! | changes it | was missing, and the store has the prior version | not missing |
//! | changes it | was missing, the store has an older version or none | missing at the prior version |
//! | changes it | was not missing | missing at the prior version, removed from the store |
//!
//! Errors change nothing. What is behind the end of a backfill is not in the store and never missing. Entries that follow in the history that
//! does count are taken in afterwards, by [`Missing::next_event`].

use crate::pg::reconcile::missing::Missing;
use crate::planted::{Bug, planted};
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, HObject, LogOp, PgLogEntry};

/// What divergent entries say of one object.
struct Trace {
    /// Before the first of them.
    prior: EVersion,
    created: bool,
    /// By the last of them.
    deleted: bool,
}

/// Objects of which entries were divergent.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rewound {
    /// To be removed from the store, which may not have all of them.
    pub remove: Vec<HObject>,
    /// Every object whose missing item may be another one.
    pub touched: Vec<HObject>,
    /// To be put back as they were by what their entries say. Copies have none.
    pub undone: BTreeSet<HObject>,
}

/// Takes divergent entries, oldest first, out of what is missing.
pub fn rewind<'a>(entries: impl IntoIterator<Item = &'a PgLogEntry>, last_backfill: &HObject, missing: &mut Missing) -> Rewound {
    let mut traces: BTreeMap<&HObject, Trace> = BTreeMap::new();
    for e in entries.into_iter().filter(|e| !e.is_error() && e.soid <= *last_backfill) {
        let created = e.prior_version == EVersion::ZERO || e.op == LogOp::CLONE;
        let first = Trace { prior: e.prior_version, created, deleted: false };
        traces.entry(&e.soid).or_insert(first).deleted = e.is_delete();
    }
    let mut out = Rewound::default();
    for (obj, trace) in traces {
        out.touched.push(obj.clone());
        let item = missing.get(obj);
        let has_prior = item.as_ref().is_some_and(|item| item.have == trace.prior);
        let in_store = item.is_some() || !trace.deleted;
        if planted(Bug::KeepDivergent) && item.is_none() {
            continue;
        }
        match item {
            _ if trace.created => {
                missing.remove(obj);
                out.remove.extend(in_store.then(|| obj.clone()));
            }
            Some(_) if has_prior => {
                missing.remove(obj);
            }
            Some(_) => missing.revise_need(obj, trace.prior),
            None => {
                missing.revise_need(obj, trace.prior);
                out.remove.extend(in_store.then(|| obj.clone()));
            }
        }
    }
    out
}
