//! Who may log in: entities with their keys and capabilities, rotating secrets, and numbers for sessions.
//!
//! Holds the database and the endpoints of the monitor and of the manager. What a capability allows is `cephx::caps`' to say.

mod login;

pub use login::{Endpoint, Handshake, Login, Step};

use crate::kv::{Batch, Snapshot};
use cephx::rotating::TicketLife;
use cephx::{AuthDb, CryptoKey, EntityAuth, Entropy, KeyType, Keyring, RotatingSecrets, RotatingTable};
use denc::Denc;
use std::collections::BTreeMap;
use types::{EntityKind, EntityText, UTime};

/// Numbers of sessions are reserved in the store by so many at a time: what is left of them when the process dies is never given again.
const GLOBAL_IDS_PER_RESERVATION: u64 = 1000;
/// Where numbers start: Ceph's start here too, so that a client is easily told from an OSD.
const FIRST_GLOBAL_ID: u64 = 4096;

/// The auth database.
#[derive(Debug, Clone)]
pub struct AuthService {
    pub entities: BTreeMap<EntityText, EntityAuth>,
    rotating: RotatingTable,
    next_global_id: u64,
    reserved_until: u64,
    /// Counts changes: the version that answers carry.
    pub version: u64,
    /// As configured (`auth_mon_ticket_ttl`, `auth_service_ticket_ttl`).
    pub life: TicketLife,
    /// The type of new keys, unless another is asked for.
    pub preferred: KeyType,
    /// A daemon came whose kind's secrets may be of a type that it can't read.
    recheck: bool,
    /// Entities that have another key now, or none, since this was last looked at: what their old key opened is over.
    pub(crate) ended: Vec<EntityText>,
}

impl Default for AuthService {
    fn default() -> Self {
        Self {
            entities: BTreeMap::new(),
            rotating: RotatingTable::default(),
            next_global_id: 0,
            reserved_until: 0,
            version: 0,
            life: TicketLife::default(),
            preferred: KeyType::AES,
            recheck: false,
            ended: Vec::new(),
        }
    }
}

/// The type that a service's rotating secrets are to have.
///
/// Only the monitor reads tickets for itself. A daemon whose key is `aes256k` knows the type, and one with an `aes` key may be of a
/// release that doesn't: where there is one of those, or none at all yet, tickets stay `aes`.
fn secret_kind(entities: &BTreeMap<EntityText, EntityAuth>, service: EntityKind) -> KeyType {
    if service == EntityKind::AUTH || service == EntityKind::MON {
        return KeyType::AES256K;
    }
    let mut daemons = entities.iter().filter(|(name, _)| name.kind == service).map(|(_, e)| e.key.kind).peekable();
    if daemons.peek().is_some() && daemons.all(|kind| kind == KeyType::AES256K) { KeyType::AES256K } else { KeyType::AES }
}

impl AuthDb for AuthService {
    fn ticket_life(&self) -> TicketLife {
        self.life
    }
    fn entity(&self, name: &EntityText) -> Option<&EntityAuth> {
        self.entities.get(name)
    }
    fn rotating(&self, service: u32) -> Option<&RotatingSecrets> {
        self.rotating.services.get(&service)
    }
}

impl AuthService {
    pub fn load(snapshot: &Snapshot) -> Self {
        let mut auth = Self::default();
        for (name, value) in snapshot.below("auth/entity/") {
            // What we wrote ourselves is readable; a store that was damaged is refused by redb before it comes here.
            let name = EntityText::parse(name).expect("an entity's name in the store is kind.id");
            auth.entities.insert(name, EntityAuth::from_bytes(value).expect("an entity's record in the store is readable"));
        }
        if let Some(bytes) = snapshot.get("auth/rotating") {
            auth.rotating = RotatingTable::from_bytes(bytes).expect("the rotating secrets in the store are readable");
        }
        auth.reserved_until = snapshot.number("auth/global-ids").unwrap_or(FIRST_GLOBAL_ID);
        auth.next_global_id = auth.reserved_until;
        auth.version = snapshot.number("auth/version").unwrap_or(1);
        auth.preferred = snapshot.text("auth/key-type").and_then(|name| KeyType::parse(&name)).unwrap_or(KeyType::AES);
        auth
    }

    fn bump(&mut self, batch: &mut Batch) {
        self.version += 1;
        batch.put_text("auth/version", &self.version.to_string());
    }
    /// Adds or replaces an entity.
    pub fn put(&mut self, name: EntityText, entity: EntityAuth, batch: &mut Batch) {
        self.recheck |= name.kind != EntityKind::CLIENT && entity.key.kind != KeyType::AES256K;
        batch.put(format!("auth/entity/{name}"), entity.to_bytes(0));
        let (key, pending) = (entity.key.clone(), entity.pending_key.clone());
        if let Some(old) = self.entities.insert(name.clone(), entity)
            && ![&old.key, &old.pending_key].contains(&&key)
            && old.key != pending
        {
            self.ended.push(name);
        }
        self.bump(batch);
    }
    /// Removes an entity; false if there was none.
    pub fn remove(&mut self, name: &EntityText, batch: &mut Batch) -> bool {
        batch.remove(format!("auth/entity/{name}"));
        let was_there = self.entities.remove(name).is_some();
        if was_there {
            self.ended.push(name.clone());
            self.bump(batch);
        }
        was_there
    }
    /// A new entity with a key of its own.
    pub fn create(
        &mut self,
        name: EntityText,
        caps: BTreeMap<String, String>,
        now: UTime,
        entropy: &mut dyn Entropy,
        batch: &mut Batch,
    ) -> &EntityAuth {
        let entity = EntityAuth { key: CryptoKey::generate_of(self.preferred, now, entropy), caps, pending_key: CryptoKey::default() };
        self.put(name.clone(), entity, batch);
        &self.entities[&name]
    }
    /// Makes keys for `osd.0` up to `osds`, where there are none: what [`crate::mkfs`] does for a new cluster.
    pub fn add_osds(&mut self, osds: u32, now: UTime, entropy: &mut dyn Entropy) -> Batch {
        let mut batch = Batch::default();
        for osd in 0..osds {
            let name = EntityText::new(EntityKind::OSD, osd.to_string());
            if !self.entities.contains_key(&name) {
                let caps = crate::OSD_CAPS.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
                self.create(name, caps, now, entropy, &mut batch);
            }
        }
        batch
    }
    /// Makes a pending key the key: its holder has used it.
    fn commit_pending(&mut self, name: &EntityText, batch: &mut Batch) {
        if let Some(mut entity) = self.entities.get(name).cloned().filter(|e| !e.pending_key.is_empty()) {
            entity.key = std::mem::take(&mut entity.pending_key);
            self.put(name.clone(), entity, batch);
        }
    }

    /// Entities as a keyring: one, or all.
    pub fn keyring(&self, only: Option<&EntityText>) -> Keyring {
        let entities = self.entities.iter().filter(|(name, _)| only.is_none_or(|o| o == *name));
        Keyring { entities: entities.map(|(n, e)| (n.clone(), e.clone())).collect() }
    }

    /// A number for a client in our own process.
    pub fn fresh_id(&mut self, batch: &mut Batch) -> u64 {
        self.global_id(batch)
    }
    /// A number that no session ever had.
    fn global_id(&mut self, batch: &mut Batch) -> u64 {
        if self.next_global_id >= self.reserved_until {
            self.reserved_until = self.next_global_id + GLOBAL_IDS_PER_RESERVATION;
            batch.put_text("auth/global-ids", &self.reserved_until.to_string());
        }
        self.next_global_id += 1;
        self.next_global_id
    }

    /// The type of tickets for a service: that of its daemons' keys, by `secret_kind`.
    pub fn ticket_kind(&self, service: EntityKind) -> KeyType {
        secret_kind(&self.entities, service)
    }
    /// The secrets that services share with the monitor now.
    pub fn secrets(&self) -> &RotatingTable {
        &self.rotating
    }
    /// The type of new keys from now on.
    pub fn prefer(&mut self, kind: KeyType, batch: &mut Batch) {
        self.preferred = kind;
        batch.put_text("auth/key-type", kind.name());
    }
    /// Changes secrets that have run out, or that a new daemon couldn't read.
    pub fn tick(&mut self, now: UTime, entropy: &mut dyn Entropy, batch: &mut Batch) {
        self.recheck = false;
        if self.rotating.rotate(now, &self.life, |service| secret_kind(&self.entities, service), entropy) {
            batch.put("auth/rotating", self.rotating.to_bytes(0));
        }
    }
    /// True if [`AuthService::tick`] must come before the next ticket.
    pub fn is_due(&self) -> bool {
        self.recheck
    }
    /// Makes all services' secrets anew; every ticket is void (`auth wipe-rotating-service-keys`).
    pub fn wipe_rotating(&mut self, now: UTime, entropy: &mut dyn Entropy, batch: &mut Batch) {
        self.rotating.services.values_mut().for_each(|r| r.secrets.clear());
        self.tick(now, entropy, batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    #[test]
    fn no_number_is_given_twice_over_a_restart() {
        let (mut snapshot, mut rng) = (Snapshot::default(), Rng::new(3));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let mut auth = AuthService::load(&snapshot);
            let mut batch = Batch::default();
            auth.tick(UTime { sec: 1000, nsec: 0 }, &mut rng, &mut batch);
            for _ in 0..1500 {
                assert!(seen.insert(auth.global_id(&mut batch)));
            }
            snapshot.apply(&batch);
        }
    }

    #[test]
    fn entities_come_back() {
        let (mut auth, mut batch, mut rng) = (AuthService::default(), Batch::default(), Rng::new(3));
        let name = EntityText::parse("client.a b").unwrap();
        auth.create(name.clone(), [("mon".to_string(), "allow r".to_string())].into(), UTime::ZERO, &mut rng, &mut batch);
        let mut snapshot = Snapshot::default();
        snapshot.apply(&batch);
        let again = AuthService::load(&snapshot);
        assert_eq!(again.entities, auth.entities);
        assert_eq!(again.version, auth.version);
    }
}
