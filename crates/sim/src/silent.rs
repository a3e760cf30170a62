//! One member's copy of an object is other than the others', and each checksum of its device is right: what a fault of an OSD, or of what lies below it, may
//! leave behind. A deep scrub finds it, and a repair restores it from the other members; that it is restored the last comparison of all copies shows.
//!
//! Done to a cluster at rest, in a share of the seeds, where groups have three members: two have what is right.

use crate::SEC;
use crate::client::POOL;
use crate::cluster::Cluster;
use base::Rng;
use bytes::Bytes;
use store::{ObjectStore, StoreError, StoreResult};
use types::{CollId, GHObject, PgId, SpgId, Transaction, UTime};

/// Of so many seeds one has it.
const EVERY: u64 = 4;
/// How long a scrub or a repair may take, how often it is asked for, and how long it is waited for each time.
const SCRUB_NS: u64 = 120 * SEC;
const ASKED_MAX: u32 = 8;
/// Objects of a group that one is chosen of.
const LISTED: usize = 200;
/// Turns that a store may take.
const TURNS: u32 = 100_000;

/// Asks until the store need not fetch any more.
fn ask<T>(store: &mut dyn ObjectStore, f: impl Fn(&dyn ObjectStore) -> StoreResult<T>) -> Option<T> {
    for _ in 0..TURNS {
        match f(store) {
            Err(StoreError::Wait(_)) => {
                store.turn_end();
                store.take_ready(&mut Vec::new());
            }
            done => return done.ok(),
        }
    }
    None
}

/// Changes an object of this group: told what. `None`: there is none.
fn change(store: &mut dyn ObjectStore, pgid: SpgId, rng: &mut Rng) -> Option<String> {
    let coll = CollId::Pg(pgid);
    let all = ask(store, |s| s.list(coll, &GHObject::min(), &GHObject::max(), LISTED))?.objects;
    let heads: Vec<GHObject> = all.into_iter().filter(|o| o.hobj.is_head() && o.hobj.oid.as_slice().starts_with(b"o")).collect();
    let name = heads.get(rng.below(heads.len().max(1) as u64) as usize)?;
    let size = ask(store, |s| s.stat(coll, name))?.size;
    let mut txn = Transaction::new(coll);
    let what = match rng.below(3) {
        0 if size > 0 => {
            let at = rng.below(size);
            let byte = ask(store, |s| s.read(coll, name, at, 1))?.flat().first().copied().unwrap_or(0);
            txn.write(name, at, Bytes::copy_from_slice(&[byte ^ 0x20]), 0);
            format!("byte {at}")
        }
        1 if ask(store, |s| s.omap_get(coll, name, &[b"k0".to_vec().into()]))?.len() == 1 => {
            txn.omap_set_keys(name, vec![(b"k0".to_vec().into(), Bytes::from_static(b"other"))]);
            "a key".into()
        }
        _ => {
            txn.set_attr(name, b"_k9".to_vec(), Bytes::from_static(b"nobody set it"));
            "an attribute".into()
        }
    };
    store.submit(txn, None, 0).ok()?;
    let mut tokens = Vec::new();
    for _ in 0..TURNS {
        store.turn_end();
        store.take_commits(&mut tokens);
        if !tokens.is_empty() {
            return Some(format!("{what} of {name}"));
        }
    }
    None
}

impl Cluster {
    /// See the module.
    pub(crate) fn change_one_copy(&mut self) -> Result<(), String> {
        if self.plan.size < 3 || !self.harm.rotten.is_empty() || self.plan.seed % EVERY != 1 {
            return Ok(());
        }
        let Some((pgid, osd)) = self.some_member() else { return Ok(()) };
        self.kill_osd(osd, false);
        let mut rng = Rng::new(self.plan.seed);
        let changed = self.drives[osd].change(&mut rng, |store, rng| change(store, SpgId::whole(pgid), rng))?;
        let back = |c: &Self| c.osds[osd].is_some() && c.is_settled();
        self.until(self.plan.rest_ns, "at rest again", back)?;
        let Some(what) = changed else { return Ok(()) };
        self.net.note(format!("{what} is another one on osd.{osd}, in {pgid}"));
        let errors = self.scrub_one(pgid, "deep-scrub")?;
        if errors == 0 {
            return Err(
                self.tell(&format!("scrub: {what} is another one on osd.{osd}, and no error is found in {pgid}"), &[pgid.to_string()])
            );
        }
        // The one finds and mends, the other sees that all is well.
        self.scrub_one(pgid, "repair")?;
        match self.scrub_one(pgid, "deep-scrub")? {
            0 => Ok(()),
            left => Err(self.tell(&format!("scrub: {pgid} is repaired, and has {left} errors"), &[pgid.to_string()])),
        }
    }
    /// A group of the clients' pool, and a member of it, by chance.
    fn some_member(&mut self) -> Option<(PgId, usize)> {
        let pgid = self.any_group()?;
        let map = &self.monitor.as_ref()?.core().osd.map;
        let acting = map.pg_to_up_acting(pgid, &mut maps::Placement::default()).acting;
        map.pool_by_name(POOL).filter(|_| acting.len() > 2)?;
        let nth = self.net.rng.below(acting.len() as u64) as usize;
        Some((pgid, acting[nth] as usize))
    }
    /// Scrubs a group, or repairs it, and waits for that: how many errors it has then.
    fn scrub_one(&mut self, pgid: PgId, verb: &str) -> Result<i64, String> {
        let of = |c: &Self| c.scrubbed().into_iter().find(|(group, ..)| group.pgid == pgid).map(|(_, at, errors)| (at, errors));
        let before: Option<UTime> = of(self).map(|(at, _)| at);
        for _ in 0..ASKED_MAX {
            self.say(format!(r#"{{"prefix":"pg {verb}","pgid":"{pgid}"}}"#));
            self.until(SCRUB_NS, "", move |c| of(c).is_some_and(|(at, _)| Some(at) != before) && c.is_settled())?;
            if let Some((at, errors)) = of(self).filter(|(at, _)| Some(*at) != before) {
                let _ = at;
                return Ok(errors);
            }
        }
        Err(self.tell(&format!("scrub: {pgid} is not scrubbed, {ASKED_MAX} times asked"), &[pgid.to_string()]))
    }
}
