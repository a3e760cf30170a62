//! Secrets that services share with the monitor and that change: three of each, the previous, the current and the next.
//!
//! A ticket is sealed with the current one and outlives it by at most one change, so a service that knows all three can read
//! every ticket that is still good.

use crate::proto::versioned;
use crate::{CryptoKey, Entropy, KeyType};
use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityKind, UTime};

/// Secrets that are kept of one service.
const KEPT: usize = 3;

/// Services that have rotating secrets.
pub const SERVICES: [EntityKind; 5] = [EntityKind::AUTH, EntityKind::MON, EntityKind::OSD, EntityKind::MDS, EntityKind::MGR];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpiringKey {
    pub key: CryptoKey,
    pub expiration: UTime,
}
versioned!(ExpiringKey, 1, { key, expiration });

/// The secrets of one service, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RotatingSecrets {
    pub secrets: BTreeMap<u64, ExpiringKey>,
    /// The highest number given so far.
    pub max_ver: u64,
}
versioned!(RotatingSecrets, 1, { secrets, max_ver });

impl RotatingSecrets {
    pub fn get(&self, secret_id: u64) -> Option<&CryptoKey> {
        self.secrets.get(&secret_id).map(|k| &k.key)
    }
    /// The second oldest: what the middle one of three is called.
    fn current(&self) -> Option<&ExpiringKey> {
        self.secrets.values().nth(1)
    }
    /// True if the current secret has run out at `now`, or there are fewer than three.
    pub fn need_new(&self, now: UTime) -> bool {
        self.secrets.len() < KEPT || self.current().is_none_or(|k| k.expiration <= now)
    }
    /// Adds secrets of type `kind` until none is needed; says how many. `ttl` is the life of a ticket of this service.
    ///
    /// Where `aes` is wanted, a daemon of the service can read nothing newer: secrets of another type are dropped at once, and with them
    /// the tickets that they seal. The other way new secrets are of the better type and old ones run out in their time.
    pub fn rotate(&mut self, now: UTime, ttl: Duration, kind: KeyType, entropy: &mut dyn Entropy) -> usize {
        let mut added = 0;
        if kind == KeyType::AES {
            self.secrets.retain(|_, k| k.key.kind == KeyType::AES);
        }
        while self.need_new(now) {
            let base = match self.secrets.values().next_back() {
                None => now,
                Some(next) => add(now, ttl).max(next.expiration),
            };
            self.max_ver += 1;
            let key = ExpiringKey { key: CryptoKey::generate_of(kind, now, entropy), expiration: add(base, ttl) };
            self.secrets.insert(self.max_ver, key);
            while self.secrets.len() > KEPT {
                self.secrets.pop_first();
            }
            added += 1;
        }
        added
    }
    /// What a ticket is to be sealed with now, and how long the ticket may live.
    pub fn for_new_ticket(&self, now: UTime, ttl: Duration) -> Option<(u64, &CryptoKey, Duration)> {
        let mut from = self.secrets.iter().skip(usize::from(self.secrets.len() > 1));
        let (id, key) = from.find(|(_, k)| k.expiration >= now)?;
        let last = self.secrets.values().next_back()?.expiration;
        let left = Duration::from_nanos(last.wall_ns().saturating_sub(now.wall_ns()));
        Some((*id, &key.key, ttl.min(left)))
    }
}

/// `t` and then `d`.
pub(crate) fn add(t: UTime, d: Duration) -> UTime {
    UTime::from_wall_ns(t.wall_ns().saturating_add(d.as_nanos() as u64))
}

/// The secrets of all services: what the monitor keeps and replicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RotatingTable {
    pub version: u64,
    /// By the bit of the service's kind.
    pub services: BTreeMap<u32, RotatingSecrets>,
}
versioned!(RotatingTable, 1, { version, services });

/// How long tickets live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TicketLife {
    /// The monitor's own ticket (`auth_mon_ticket_ttl`, 72 hours).
    pub auth: Duration,
    /// Tickets for services (`auth_service_ticket_ttl`, one hour).
    pub service: Duration,
}
impl Default for TicketLife {
    fn default() -> Self {
        Self { auth: Duration::from_secs(72 * 3600), service: Duration::from_secs(3600) }
    }
}
impl TicketLife {
    pub fn of(&self, service: u32) -> Duration {
        if service == u32::from(EntityKind::AUTH.0) { self.auth } else { self.service }
    }
}

impl RotatingTable {
    /// Changes what has run out; true if anything did. To be called at start and then every few seconds.
    pub fn rotate(&mut self, now: UTime, life: &TicketLife, kinds: impl Fn(EntityKind) -> KeyType, entropy: &mut dyn Entropy) -> bool {
        let mut added = 0;
        for service in SERVICES {
            let (kind, service) = (kinds(service), u32::from(service.0));
            added += self.services.entry(service).or_default().rotate(now, life.of(service), kind, entropy);
        }
        self.version += u64::from(added > 0);
        added > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    #[test]
    fn three_secrets_and_one_change_per_life() {
        let ttl = Duration::from_secs(100);
        let at = |sec| UTime { sec, nsec: 0 };
        let (mut r, mut rng) = (RotatingSecrets::default(), Rng::new(1));
        assert_eq!(r.rotate(at(1000), ttl, KeyType::AES, &mut rng), 3);
        let expirations: Vec<u32> = r.secrets.values().map(|k| k.expiration.sec).collect();
        assert_eq!(expirations, [1100, 1200, 1300]);
        assert_eq!(r.for_new_ticket(at(1000), ttl).unwrap().0, 2);
        assert_eq!(r.rotate(at(1199), ttl, KeyType::AES, &mut rng), 0);
        assert_eq!(r.rotate(at(1200), ttl, KeyType::AES, &mut rng), 1);
        assert_eq!(r.for_new_ticket(at(1200), ttl).unwrap().0, 3);
        assert_eq!(r.secrets.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
        // After a long sleep all three are new.
        assert_eq!(r.rotate(at(9000), ttl, KeyType::AES, &mut rng), 2);
        assert!(r.for_new_ticket(at(9000), ttl).is_some());
        assert_eq!(RotatingSecrets::from_bytes(&r.to_bytes(0)).unwrap(), r);
    }

    #[test]
    fn a_daemon_that_reads_aes_only_gets_nothing_else() {
        let ttl = Duration::from_secs(100);
        let at = |sec| UTime { sec, nsec: 0 };
        let (mut r, mut rng) = (RotatingSecrets::default(), Rng::new(1));
        r.rotate(at(1000), ttl, KeyType::AES256K, &mut rng);
        let kinds = |r: &RotatingSecrets| r.secrets.values().map(|k| k.key.kind.0).collect::<Vec<_>>();
        assert_eq!(kinds(&r), [2, 2, 2]);
        assert_eq!(r.rotate(at(1001), ttl, KeyType::AES, &mut rng), 3);
        assert_eq!((kinds(&r), r.max_ver), (vec![1, 1, 1], 6));
        // The better type comes as secrets run out.
        assert_eq!(r.rotate(at(1002), ttl, KeyType::AES256K, &mut rng), 0);
        r.rotate(at(1250), ttl, KeyType::AES256K, &mut rng);
        assert_eq!(kinds(&r), [1, 1, 2]);
    }
}
