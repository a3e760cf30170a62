//! The configuration that the cluster keeps for its daemons and clients: `ceph config set WHO NAME VALUE`.
//!
//! Holds the entries, their history and which entries apply to which daemon or client. A session with a `config` subscription gets what applies to it, and
//! again whenever that changes.
//!
//! To find an option's value takes steps in proportion to the logarithm of how many options are set, and one for each section in which this
//! one is; to say all that applies to an entity, one for each entry.

use crate::kv::{Batch, Snapshot};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityKind, EntityText, UTime};

/// Who an entry is for: `global`, a kind of daemon, or one entity, narrowed by a mask.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Section {
    /// `global`, `osd`, `osd.3`, `client.rbd`.
    pub who: String,
    /// `class:ssd` or `host:a`, or empty.
    pub mask: String,
}

impl Section {
    /// Parses `osd/class:ssd`, `host:foo/osd`, `global`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut section = Section::default();
        for part in text.split('/') {
            match part.split_once(':') {
                Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                    section.mask = format!("{}{}{key}:{value}", section.mask, if section.mask.is_empty() { "" } else { "/" });
                }
                Some(_) => return None,
                None if section.who.is_empty() => section.who = part.into(),
                None => return None,
            }
        }
        if section.who.is_empty() {
            section.who = "global".into();
        }
        let kind = section.who.split('.').next().unwrap_or_default();
        (section.who == "global" || EntityKind::parse(kind).is_some()).then_some(section)
    }
    fn applies_to(&self, entity: &EntityText, host: &str, class: &str) -> bool {
        let name = entity.to_string();
        let who = self.who == "global"
            || self.who == entity.kind.name()
            || self.who == name
            || (self.who.contains('.') && name.starts_with(&self.who) && name[self.who.len()..].starts_with('.'));
        who && self.mask.split('/').filter(|m| !m.is_empty()).all(|m| match m.split_once(':') {
            Some(("host", h)) => h == host,
            Some(("class", c)) => c == class,
            _ => false,
        })
    }
    /// Narrower sections win: by how exactly they name a daemon or client, then by their masks.
    fn precision(&self) -> (usize, usize) {
        let depth = if self.who == "global" { 0 } else { 1 + self.who.matches('.').count() };
        (depth, self.mask.split('/').filter(|m| !m.is_empty()).count())
    }
    pub fn text(&self) -> String {
        if self.mask.is_empty() { self.who.clone() } else { format!("{}/{}", self.who, self.mask) }
    }
}

/// Section and name out of a key of the store. A section's masks have slashes between them, and so have names of modules' options
/// (`mgr/x/y`): a mask is told by its colon.
fn split_key(key: &str) -> Option<(Section, &str)> {
    let mut at = key.find('/')?;
    while let Some(end) = key[at + 1..].find('/').map(|n| at + 1 + n)
        && key[at + 1..end].contains(':')
    {
        at = end;
    }
    Some((Section::parse(&key[..at])?, &key[at + 1..]))
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub version: u64,
    pub stamp: UTime,
    /// What was done, for `config log`.
    pub name: String,
    /// (key, old value, new value)
    pub diff: Vec<(String, Option<String>, Option<String>)>,
}

/// All entries.
#[derive(Debug, Clone, Default)]
pub struct ConfigDb {
    pub entries: BTreeMap<(Section, String), String>,
    /// The same by option.
    by_option: BTreeMap<String, BTreeMap<Section, String>>,
    /// Entries that were looked at for a value.
    #[cfg(test)]
    steps: std::cell::Cell<u64>,
    pub version: u64,
    pub history: Vec<Change>,
    /// What this monitor was told to go by itself (`ceph tell mon.a config set`); gone with the process.
    pub overrides: BTreeMap<String, String>,
}

/// Changes kept for `config log`.
const HISTORY_MAX: usize = 50;

impl ConfigDb {
    pub fn load(snapshot: &Snapshot) -> Self {
        let mut db = Self { version: snapshot.number("config-version").unwrap_or(0), ..Self::default() };
        for (key, value) in snapshot.below("config/") {
            if let Some((section, name)) = split_key(key) {
                db.set(section, name.into(), Some(String::from_utf8_lossy(value).into_owned()));
            }
        }
        db
    }

    fn set(&mut self, section: Section, name: String, value: Option<String>) {
        let sections = self.by_option.entry(name.clone()).or_default();
        match value {
            Some(value) => {
                sections.insert(section.clone(), value.clone());
                self.entries.insert((section, name), value);
            }
            None => {
                sections.remove(&section);
                if sections.is_empty() {
                    self.by_option.remove(&name);
                }
                self.entries.remove(&(section, name));
            }
        }
    }
    /// Sets (Some) or removes (None) an entry; true if that changed anything.
    pub fn change(&mut self, section: Section, name: &str, value: Option<String>, now: UTime, batch: &mut Batch) -> bool {
        let key = format!("{}/{name}", section.text());
        let slot = (section, name.to_string());
        let old = self.entries.get(&slot).cloned();
        if old == value {
            return false;
        }
        match &value {
            Some(v) => batch.put_text(format!("config/{key}"), v),
            None => batch.remove(format!("config/{key}")),
        }
        self.set(slot.0, slot.1, value.clone());
        self.version += 1;
        batch.put_text("config-version", &self.version.to_string());
        self.history.push(Change { version: self.version, stamp: now, name: String::new(), diff: vec![(key, old, value)] });
        if self.history.len() > HISTORY_MAX {
            self.history.remove(0);
        }
        true
    }

    /// What applies to an entity, by name, with the section each value is from.
    pub fn resolve(&self, entity: &EntityText, host: &str, class: &str) -> BTreeMap<&str, (&Section, &str)> {
        let mut best: BTreeMap<&str, (&Section, &str)> = BTreeMap::new();
        for ((section, name), value) in &self.entries {
            if !section.applies_to(entity, host, class) {
                continue;
            }
            let better = best.get(name.as_str()).is_none_or(|(old, _)| old.precision() <= section.precision());
            if better {
                best.insert(name, (section, value));
            }
        }
        best
    }

    /// The value of `name` for the monitor itself or for the daemon that its own services act for, or the option's default.
    pub fn value(&self, entity: &EntityText, name: &str) -> &str {
        let sections = self.by_option.get(name).into_iter().flatten().inspect(|_| self.step());
        match sections.filter(|(section, _)| section.applies_to(entity, "", "")).max_by_key(|(section, _)| section.precision()) {
            Some((_, value)) => value,
            None => options::find(name).map(|o| o.default).unwrap_or_default(),
        }
    }
    #[cfg(test)]
    fn step(&self) {
        self.steps.set(self.steps.get() + 1);
    }
    #[cfg(not(test))]
    fn step(&self) {}
    /// [`ConfigDb::value`] for the monitor.
    pub fn mon_value(&self, name: &str) -> &str {
        match self.overrides.get(name) {
            Some(value) => value,
            None => self.value(&EntityText::new(EntityKind::MON, "a"), name),
        }
    }
    pub fn mon_bool(&self, name: &str) -> bool {
        matches!(self.mon_value(name), "true" | "1")
    }
    /// A number that the monitor goes by, always finite.
    pub fn mon_number(&self, name: &str) -> f64 {
        options::number(self.mon_value(name)).unwrap_or(0.0)
    }
    /// A span that the monitor goes by, of at least so many seconds; at most thirty years, so that it can be added to any time.
    pub fn mon_span(&self, name: &str, least_s: f64) -> Duration {
        const MOST_S: f64 = 1e9;
        Duration::from_secs_f64(self.mon_number(name).clamp(least_s, MOST_S))
    }
    /// Groups that one pool may have: `mon_max_pool_pg_num`, and a million at most.
    pub fn max_pool_pg_num(&self) -> u32 {
        self.mon_number("mon_max_pool_pg_num").clamp(1.0, 1_048_576.0) as u32
    }
    /// A number that the manager goes by.
    pub fn mgr_number(&self, name: &str) -> f64 {
        options::number(self.value(&EntityText::new(EntityKind::MGR, crate::mgr::NAME), name)).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(db: &mut ConfigDb, who: &str, name: &str, value: &str) {
        let mut batch = Batch::default();
        assert!(db.change(Section::parse(who).unwrap(), name, Some(value.into()), UTime::ZERO, &mut batch));
    }

    #[test]
    fn what_is_kept_is_found_again() {
        let (mut db, mut batch) = (ConfigDb::default(), Batch::default());
        for (who, name) in
            [("mgr", "mgr/x/y"), ("mgr.x", "mgr/x/y"), ("osd/class:ssd", "debug_ms"), ("global/host:a/class:b", "a"), ("global", "a")]
        {
            db.change(Section::parse(who).unwrap(), name, Some("1".into()), UTime::ZERO, &mut batch);
        }
        let mut store = Snapshot::default();
        store.apply(&batch);
        assert_eq!((ConfigDb::load(&store).entries, db.entries.len()), (db.entries.clone(), 5));
    }

    #[test]
    fn the_narrowest_section_wins() {
        let mut db = ConfigDb::default();
        set(&mut db, "osd.1", "a", "one");
        set(&mut db, "global", "a", "all");
        set(&mut db, "osd/class:ssd", "a", "ssd");
        set(&mut db, "osd", "a", "osds");
        let who = |id: &str| EntityText::new(EntityKind::OSD, id);
        assert_eq!(db.resolve(&who("1"), "", "ssd")["a"].1, "one");
        assert_eq!(db.resolve(&who("2"), "", "ssd")["a"].1, "ssd");
        assert_eq!(db.resolve(&who("2"), "", "hdd")["a"].1, "osds");
        assert_eq!(db.value(&EntityText::new(EntityKind::CLIENT, "x"), "a"), "all");
        assert_eq!(db.value(&EntityText::new(EntityKind::CLIENT, "x"), "rbd_cache"), "true");
        assert!(Section::parse("nobody").is_none());
    }

    /// Options of many daemons are set: one that is not among them is found as soon.
    #[test]
    fn an_option_is_found_among_many() {
        let steps = |daemons: u64| {
            let mut db = ConfigDb::default();
            (0..daemons).for_each(|n| set(&mut db, &format!("osd.{n}"), "osd_max_backfills", "3"));
            set(&mut db, "mon", "mon_osd_report_timeout", "77");
            db.steps.set(0);
            assert_eq!((db.mon_number("mon_osd_report_timeout"), db.mon_number("mon_max_pg_per_osd")), (77.0, 250.0));
            let steps = db.steps.get();
            (0..daemons).for_each(|n| {
                let section = Section::parse(&format!("osd.{n}")).unwrap();
                assert!(db.change(section, "osd_max_backfills", None, UTime::ZERO, &mut Batch::default()));
            });
            assert_eq!((db.entries.len(), db.by_option.len()), (1, 1));
            steps
        };
        assert_eq!((steps(100), steps(1000)), (1, 1));
    }

    #[test]
    fn comes_back_from_the_store() {
        let (mut db, mut batch, mut snapshot) = (ConfigDb::default(), Batch::default(), Snapshot::default());
        db.change(Section::parse("osd/class:ssd").unwrap(), "x", Some("1".into()), UTime::ZERO, &mut batch);
        db.change(Section::parse("global").unwrap(), "y", Some("2".into()), UTime::ZERO, &mut batch);
        snapshot.apply(&batch);
        let again = ConfigDb::load(&snapshot);
        assert_eq!((again.entries, again.version), (db.entries, 2));
    }
}
