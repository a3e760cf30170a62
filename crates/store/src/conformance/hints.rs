//! Hints by chance: none of them changes an answer. Given in the midst of random transactions, whose checks against the model notice if one did.

use super::workload::name;
use super::{Subject, TRIES, ask};
use crate::{ObjectStore, ReadData, StoreError};
use base::Rng;
use std::time::Duration;
use types::{CollId, GHObject, HObject};

/// One hint, by chance. Objects and collections that are not there may be named, too.
pub fn give(rng: &mut Rng, store: &mut dyn ObjectStore, home: CollId) {
    match rng.below(5) {
        0 => {
            let names: Vec<HObject> = (0..rng.below(20)).map(|_| name(rng.below(40)).hobj).collect();
            store.soon(&mut names.iter().map(|name| (home, name)));
        }
        1 => {
            let compaction = store.compact();
            store.turn_end();
            store.is_compacted(compaction);
        }
        2 => {
            store.linger(Duration::ZERO);
            store.turn_end();
        }
        3 => store.limit_memory([64 << 10, 1 << 20, usize::MAX][rng.below(3) as usize]),
        _ => {
            let bytes: usize = store.memory().iter().map(|(_, bytes)| *bytes).sum();
            assert!(bytes < 1 << 40, "{bytes} bytes in memory");
        }
    }
}

/// A read that takes its bytes by its ticket, if it must wait and the store still has them: they are what asking again gives.
pub fn read(subject: &mut dyn Subject, store: &mut dyn ObjectStore, coll: CollId, obj: &GHObject, offset: u64, len: u64) -> ReadData {
    let given = match store.read(coll, obj, offset, len) {
        Err(StoreError::Wait(ticket)) => by_ticket(subject, store, ticket),
        _ => None,
    };
    let again = ask(subject, store, |s| s.read(coll, obj, offset, len)).expect("a read");
    if let Some(given) = given {
        assert!(given.flat() == again.flat(), "{obj}: {offset}~{len} by its ticket");
    }
    again
}

fn by_ticket(subject: &mut dyn Subject, store: &mut dyn ObjectStore, ticket: u64) -> Option<ReadData> {
    let mut tickets = Vec::new();
    for _ in 0..TRIES {
        subject.drive(store);
        store.take_ready(&mut tickets);
        if tickets.contains(&ticket) {
            return store.take_read(ticket);
        }
        tickets.clear();
    }
    panic!("ticket {ticket} never comes");
}
