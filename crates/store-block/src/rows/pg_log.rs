//! A range of a group's log, out of its rows. Holds no row's layout (`pg_row`) and no key's (`key`).
//! One step for each entry that is asked for, wherever in the log it is.

use crate::rows::codec::Corrupt;
use crate::rows::key;
use crate::rows::meta::Row;
use crate::rows::pg_row::PgRow;
use crate::state::{Core, ask};
use std::ops::ControlFlow;
use store::{StoreError, StoreResult};
use types::{CollId, EVersion, PgLogEntry, SpgId};

/// Leaves that are asked for together: with each wait the range is read from its beginning again.
const LEAVES_AHEAD: usize = 64;

impl Core {
    /// Entries above `after`, ascending, the first `max` of them.
    pub fn pg_log(&mut self, id: SpgId, after: EVersion, max: usize) -> StoreResult<Vec<PgLogEntry>> {
        let (mut found, mut bad) = (Vec::new(), None);
        if max == 0 || self.groups.get(id).is_none() {
            return Ok(found);
        }
        // A scan gives its first key too: the one of `after` is passed over.
        let (first, last) = (key::log(id, after), key::pg_end(key::LOG, id));
        self.rows_ahead(&first, &last, LEAVES_AHEAD, CollId::Pg(id), &mut ask(), &mut |_, row| {
            let Row::Bytes(row) = row else { return ControlFlow::Continue(()) };
            match PgRow::decode(key::LOG, row) {
                Ok(PgRow::Log(entry)) if entry.version > after => found.push(entry),
                Ok(PgRow::Log(_)) => {}
                Ok(_) => bad = Some(Corrupt("a row of a group's log is another's")),
                Err(e) => bad = Some(e),
            }
            if bad.is_some() || found.len() == max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match bad {
            Some(e) => Err(StoreError::Damaged { coll: CollId::Pg(id), what: format!("the log of group {id}: {e}") }),
            None => Ok(found),
        }
    }
}
