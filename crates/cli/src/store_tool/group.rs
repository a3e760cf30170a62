//! What a store remembers of one placement group: where its log stands, duplicates, entries, and what is missing.

use super::Offline;
use anyhow::{Context, Result};
use store::ObjectStore;
use types::{PgId, SpgId};

/// Prints the log, a line each: duplicates first, then entries, oldest first.
pub fn log(store: &mut Offline, name: &str) -> Result<()> {
    let pgid = PgId::parse(name).with_context(|| format!("{name:?} is no placement group: give one such as 2.1f"))?;
    let pg = SpgId::whole(pgid);
    let record =
        store.ask(|s| s.load_pg(pg))?.with_context(|| format!("this store has nothing of group {name}; `list` shows collections"))?;
    let (info, history) = (&record.info, &record.info.history);
    say::println!(
        "group {pg}, as of map {}: log ({}, {}], complete to {}",
        record.epoch,
        info.log_tail,
        info.last_update,
        info.last_complete
    );
    say::println!(
        "last epoch started {}, interval since {}, backfilled to {}",
        info.last_epoch_started,
        history.same_interval_since,
        info.last_backfill
    );
    for d in &record.dups {
        say::println!("duplicate {} {} answered {}", d.version, d.reqid, d.return_code);
    }
    for e in &record.log {
        say::println!("entry {} {} {:?} {} prior {} answered {}", e.version, e.reqid, e.op, e.soid, e.prior_version, e.return_code);
    }
    for (object, item) in &record.missing {
        say::println!("missing {object} of {}, here {}", item.need, item.have);
    }
    Ok(())
}
