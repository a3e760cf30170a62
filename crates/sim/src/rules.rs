//! What the monitor's maps may say, one after the other, by time and by what the maps before have said.
//!
//! | rule | |
//! |---|---|
//! | out | a down OSD is put out by the monitor itself when it has been down for `mon_osd_down_out_interval`, not before, and not while `noout` is set |
//! | blocklist | an entry goes when its time has come, not before: nobody removes one here |
//! | up_thru | is raised for OSDs that are up, to an epoch that there was; it never goes back in the same life |
//! | up, down | `up_from` and `down_at` are the epochs of the maps that say so first |
//! | pg_temp | is of groups that there are, by OSDs that there are, each once; in a cluster at rest none is left |
//!
//! No client is sent maps without end: a virtual second has few messages of them to one process. And a quiet cluster is quiet: a virtual minute at rest has few epochs, few messages and few other events of its daemons (timers, turns, devices), in
//! proportion to its OSDs and groups.

use crate::SEC;
use crate::cluster::Cluster;
use crate::net::Proc;
use base::Clock;
use maps::{OsdMap, map_flags, osd_state};
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, UTime};

/// The minute.
const MINUTE_NS: u64 = 60 * SEC;
/// After a cluster is healed operators have said everything.
const SAID_NS: u64 = 80 * SEC;
/// Of so many seeds one has it.
const QUIET_EVERY: u64 = 6;
/// Events of an OSD and of the monitor, beside those that come of messages, that each second of it may have.
const EVENTS_A_SECOND: u64 = 10;
/// Epochs that it may have: what operators said before may run out then.
const EPOCHS_MAX: u32 = 3;

/// Messages of maps to one process in a second: what lacks a thousand epochs has them in some dozens.
const MAPS_MAX: u32 = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The second, and how many messages of maps each process was sent in it.
    maps_sent: (u64, BTreeMap<Proc, u32>),
    /// How long an OSD is down at least before it is put out.
    pub out_after_ns: u64,
    down_since: BTreeMap<OsdId, u64>,
}

impl Rules {
    /// Holds a map against the one before.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn look(&mut self, before: &OsdMap, after: &OsdMap, now: Clock) -> Result<(), String> {
        let epoch = after.epoch;
        for osd in 0..after.max_osd {
            self.look_at_osd(osd, before, after, now).map_err(|what| format!("osd.{osd} {what} in epoch {epoch}"))?;
        }
        let gone = before.blocklist.iter().filter(|(addr, _)| !after.blocklist.contains_key(addr));
        if let Some((addr, until)) = gone.into_iter().find(|(_, until)| **until > UTime::from_wall_ns(now.wall_ns)) {
            return Err(format!("{addr} is blocklisted until {until:?}, and not any more in epoch {epoch}"));
        }
        for (pgid, osds) in &after.pg_temp {
            let is_there = after.pools.get(&pgid.pool).is_some_and(|pool| pgid.seed < pool.pg_num);
            let all: BTreeSet<OsdId> = osds.iter().copied().collect();
            if !is_there || all.len() != osds.len() || osds.is_empty() || osds.iter().any(|osd| *osd < 0 || *osd >= after.max_osd) {
                return Err(format!("the pg_temp of {pgid} is {osds:?} in epoch {epoch}"));
            }
        }
        Ok(())
    }
    /// The monitor sends a process maps.
    ///
    /// # Errors
    /// It does so all the time.
    pub fn maps_go(&mut self, to: Proc, now_ns: u64) -> Result<(), String> {
        if self.maps_sent.0 != now_ns / SEC {
            self.maps_sent = (now_ns / SEC, BTreeMap::new());
        }
        let sent = self.maps_sent.1.entry(to).or_default();
        *sent += 1;
        if *sent > MAPS_MAX { Err(format!("{to:?} is sent {sent} messages of maps in a second")) } else { Ok(()) }
    }
    fn look_at_osd(&mut self, osd: OsdId, before: &OsdMap, after: &OsdMap, now: Clock) -> Result<(), String> {
        let (i, was_up, is_up) = (osd as usize, before.is_up(osd), after.is_up(osd));
        if is_up || !after.exists(osd) {
            self.down_since.remove(&osd);
        } else {
            let since = *self.down_since.entry(osd).or_insert(now.mono.0);
            let is_auto = after.state(osd) & osd_state::AUTOOUT != 0 && before.state(osd) & osd_state::AUTOOUT == 0;
            let goes_out = before.is_in(osd) && !after.is_in(osd) && is_auto;
            if goes_out && before.has_flag(map_flags::NOOUT) {
                return Err("is put out while noout is set".into());
            }
            if goes_out && now.mono.0 - since < self.out_after_ns {
                let down_ms = (now.mono.0 - since) / 1_000_000;
                return Err(format!("is put out after {down_ms} ms, and {} s are demanded", self.out_after_ns / SEC));
            }
        }
        let Some(now_is) = after.osd_info.get(i) else { return Ok(()) };
        let Some(was) = before.osd_info.get(i) else { return Ok(()) };
        let is_same_life = was_up && is_up && was.up_from == now_is.up_from;
        if now_is.up_thru > was.up_thru && !(was_up && now_is.up_thru <= before.epoch) {
            return Err(format!("has up_thru {}, and had {} in epoch {}, up: {was_up}", now_is.up_thru, was.up_thru, before.epoch));
        }
        if is_same_life && now_is.up_thru < was.up_thru {
            return Err(format!("has up_thru {} after {}", now_is.up_thru, was.up_thru));
        }
        let is_one_step = before.epoch + 1 == after.epoch;
        if is_one_step && is_up && !was_up && now_is.up_from != after.epoch
            || is_one_step && was_up && !is_up && now_is.down_at != after.epoch
        {
            return Err(format!("changes, and is up from {} and down at {}", now_is.up_from, now_is.down_at));
        }
        Ok(())
    }
}

impl Cluster {
    /// What is left in the map of a cluster at rest.
    pub(crate) fn look_at_map(&self) -> Result<(), String> {
        let left = self.monitor.as_ref().and_then(|monitor| monitor.core().osd.map.pg_temp.iter().next());
        match left {
            Some((pgid, osds)) => Err(self.tell(&format!("rules: the pg_temp {osds:?} of {pgid} is left"), &[pgid.to_string()])),
            None => Ok(()),
        }
    }
    /// Nothing is to be done in a cluster at rest, and little is said.
    pub(crate) fn quiet_minute(&mut self) -> Result<(), String> {
        if !self.plan.seed.is_multiple_of(QUIET_EVERY) {
            return Ok(());
        }
        // What operators say some time after a cluster is healed is no part of it.
        let then = self.healed_ns + SAID_NS;
        self.until(2 * SAID_NS, "quiet", |c| c.net.now_ns >= then)?;
        self.stays_at_rest()?;
        let epoch = |c: &Self| c.monitor.as_ref().map_or(0, |monitor| monitor.core().osd.epoch());
        let (epochs, messages, events, then) = (epoch(self), self.messages, self.events, self.net.now_ns + MINUTE_NS);
        self.until(2 * MINUTE_NS, "quiet", |c| c.net.now_ns >= then)?;
        let (epochs, messages, events) = (epoch(self) - epochs, self.messages - messages, self.events - events);
        let budget = self.messages_max();
        let events_max = budget + (self.osds.len() as u64 + 1) * EVENTS_A_SECOND * MINUTE_NS / SEC;
        self.net.note(format!(
            "a quiet minute has {epochs} epochs, {messages} messages of {budget}, {events} other events of {events_max}, {} OSDs, {} groups",
            self.osds.len(),
            self.osds.iter().flatten().map(|osd| osd.core().pgs().count()).sum::<usize>()
        ));
        if epochs > EPOCHS_MAX {
            return Err(self.tell(&format!("rules: {epochs} epochs in a quiet minute"), &[]));
        }
        if events > events_max {
            return Err(self.tell(&format!("rules: {events} events beside messages in a quiet minute, more than {events_max}"), &[]));
        }
        match messages > budget {
            true => Err(self.tell(&format!("rules: {messages} messages in a quiet minute, more than {budget}"), &[])),
            false => Ok(()),
        }
    }
    /// Messages of a quiet minute: signs of life between OSDs, what each tells the monitor, and leases of groups with their acknowledgements.
    fn messages_max(&self) -> u64 {
        let osds = self.osds.len() as u64;
        let members: u64 = self.osds.iter().flatten().map(|osd| osd.core().pgs().count() as u64).sum();
        // A lease is renewed when half of it is over; it is so many percent of 20 s.
        let renewals = MINUTE_NS / (SEC * self.plan.lease_percent / 10);
        300 + osds * (osds - 1) * 80 + osds * 120 + members * (4 * renewals + 4)
    }
}
