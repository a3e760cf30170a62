//! Placement groups as a grid: a letter each, in the order of their numbers.
//!
//! | letter | what |
//! |---|---|
//! | `c` | active and clean |
//! | `s` | the same, being scrubbed or trimmed |
//! | `m` | served, on its way to other OSDs |
//! | `r` | served, copies are being made |
//! | `d` | served, with fewer copies than wanted |
//! | `p` | about to be served: peering, activating, being made |
//! | `x` | served, and damaged |
//! | `i` | not served: down, incomplete, stale, or with too few copies |
//! | `u` | unheard of |

use crate::view::View;
use serde_json::{Value, json};
use types::PgId;
use types::pg_stat::pg_state::*;

/// The letter of a state.
pub(super) fn letter(state: u64) -> char {
    let has = |bits: u64| state & bits != 0;
    match () {
        () if state == 0 => 'u',
        () if has(STALE | DOWN | INCOMPLETE) => 'i',
        () if has(INCONSISTENT | RECOVERY_UNFOUND | BACKFILL_UNFOUND | SNAPTRIM_ERROR | FAILED_REPAIR) => 'x',
        () if has(PEERING | ACTIVATING | CREATING | WAIT | PREMERGE) => 'p',
        () if !has(ACTIVE) => 'i',
        () if has(RECOVERING | RECOVERY_WAIT | BACKFILLING | BACKFILL_WAIT | REPAIR) && has(DEGRADED | UNDERSIZED) => 'r',
        () if has(DEGRADED | UNDERSIZED | RECOVERY_TOOFULL | BACKFILL_TOOFULL) => 'd',
        () if has(RECOVERING | RECOVERY_WAIT) => 'r',
        () if has(REMAPPED | BACKFILLING | BACKFILL_WAIT) => 'm',
        () if has(SCRUBBING | DEEP_SCRUB | SNAPTRIM | SNAPTRIM_WAIT) => 's',
        () if has(CLEAN) => 'c',
        () => 'r',
    }
}

impl View<'_> {
    pub(super) fn groups_view(&self) -> Value {
        let (map, pgs) = (&self.osd.map, &self.manager.pgs);
        let states: Vec<Value> = pgs.states().into_iter().map(|(text, n)| json!({"state": text, "count": n})).collect();
        let grid: Vec<Value> = map
            .pools
            .keys()
            .map(|id| {
                let cells: String =
                    pgs.pgs.range(PgId::new(*id, 0)..=PgId::new(*id, u32::MAX)).map(|(_, stat)| letter(stat.state)).collect();
                json!({"pool": id, "name": map.pool_name(*id).unwrap_or_default(), "cells": cells})
            })
            .collect();
        json!({"count": pgs.num_pgs(), "states": states, "grid": grid})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_a_state_is_its_letter() {
        for (state, wanted) in [
            (0, 'u'),
            (ACTIVE | CLEAN, 'c'),
            (ACTIVE | CLEAN | SCRUBBING | DEEP_SCRUB, 's'),
            (ACTIVE | CLEAN | INCONSISTENT, 'x'),
            (ACTIVE | UNDERSIZED | DEGRADED, 'd'),
            (ACTIVE | RECOVERING | DEGRADED, 'r'),
            (ACTIVE | CLEAN | REMAPPED, 'm'),
            (ACTIVE | REMAPPED | BACKFILLING, 'm'),
            (PEERING, 'p'),
            (DOWN | PEERING, 'i'),
            (PEERED | UNDERSIZED | DEGRADED, 'i'),
            (STALE | ACTIVE | CLEAN, 'i'),
        ] {
            assert_eq!(letter(state), wanted, "{}", to_text(state));
        }
    }
}
