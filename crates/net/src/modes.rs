//! Which connections are encrypted: Ceph's six options `ms_…_mode`, and which of them counts between two kinds of peers.
//!
//! A list has `crc`, `secure` or both, best first. Who dials offers its list, who is dialled takes the first of those that its own list has; a list of
//! `secure` alone demands encryption. Absent: where the options are set.

use msgr::ConMode;
use std::cell::RefCell;
use std::rc::Rc;
use types::EntityKind;

/// The six lists, as one daemon or client goes by them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modes {
    /// Between OSDs and metadata servers: `ms_cluster_mode`.
    pub cluster: Vec<ConMode>,
    /// Of OSDs and metadata servers for clients: `ms_service_mode`.
    pub service: Vec<ConMode>,
    /// Of clients towards those: `ms_client_mode`.
    pub client: Vec<ConMode>,
    /// Between daemons and monitors or managers: `ms_mon_cluster_mode`.
    pub mon_cluster: Vec<ConMode>,
    /// Of monitors and managers for all but each other: `ms_mon_service_mode`.
    pub mon_service: Vec<ConMode>,
    /// Of clients towards monitors and managers: `ms_mon_client_mode`.
    pub mon_client: Vec<ConMode>,
}

/// The names of the options, in the order of the fields.
pub const NAMES: [&str; 6] = options::MODE_OPTIONS;

/// Modes that may change while connections are made.
pub type SharedModes = Rc<RefCell<Modes>>;

/// Ceph's: both, plain first but where a monitor or manager takes part.
impl Default for Modes {
    fn default() -> Self {
        let (plain, secure) = (vec![ConMode::CRC, ConMode::SECURE], vec![ConMode::SECURE, ConMode::CRC]);
        Self {
            cluster: plain.clone(),
            service: plain.clone(),
            client: plain,
            mon_cluster: secure.clone(),
            mon_service: secure.clone(),
            mon_client: secure,
        }
    }
}

impl Modes {
    /// What options say; `get` has the value of one, if it is set. An error says which can't be meant and what may stand there.
    pub fn of(get: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut modes = Self::default();
        for (name, list) in NAMES.into_iter().zip(modes.lists_mut()) {
            if let Some(text) = get(name) {
                *list = parse(name, &text)?;
            }
        }
        Ok(modes)
    }
    /// All connections in these modes: for what speaks to one peer.
    pub fn all(modes: &[ConMode]) -> Self {
        let mut all = Self::default();
        all.lists_mut().into_iter().for_each(|list| *list = modes.to_vec());
        all
    }
    fn lists_mut(&mut self) -> [&mut Vec<ConMode>; 6] {
        let Self { cluster, service, client, mon_cluster, mon_service, mon_client } = self;
        [cluster, service, client, mon_cluster, mon_service, mon_client]
    }
    pub fn shared(self) -> SharedModes {
        Rc::new(RefCell::new(self))
    }

    /// What one of the kind `us` offers and takes in connections with the kind `peer`, whoever dials.
    pub fn between(&self, us: EntityKind, peer: EntityKind) -> &[ConMode] {
        let is_head = |kind| kind == EntityKind::MON || kind == EntityKind::MGR;
        match us {
            EntityKind::CLIENT if is_head(peer) => &self.mon_client,
            EntityKind::CLIENT => &self.client,
            _ if is_head(peer) => &self.mon_cluster,
            _ if is_head(us) => &self.mon_service,
            _ if peer == EntityKind::OSD || peer == EntityKind::MDS => &self.cluster,
            _ => &self.service,
        }
    }
    /// The first option that demands encryption: without keys no connection could meet it.
    pub fn demands(&self) -> Option<&'static str> {
        let Self { cluster, service, client, mon_cluster, mon_service, mon_client } = self;
        let lists = [cluster, service, client, mon_cluster, mon_service, mon_client];
        NAMES.into_iter().zip(lists).find(|(_, list)| !list.contains(&ConMode::CRC)).map(|(name, _)| name)
    }
}

/// `secure crc` and the like, best first.
fn parse(name: &str, text: &str) -> Result<Vec<ConMode>, String> {
    let wrong = || format!("{name} = {text}: `crc`, `secure` or both are wanted, the better one first");
    let words = text.split([' ', ',', ';', '\t']).filter(|word| !word.is_empty());
    let mode = |word| match word {
        "crc" => Ok(ConMode::CRC),
        "secure" => Ok(ConMode::SECURE),
        _ => Err(wrong()),
    };
    let modes = words.map(mode).collect::<Result<Vec<_>, _>>()?;
    if modes.is_empty() { Err(wrong()) } else { Ok(modes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_say_what_is_offered_and_what_they_say_wrongly_is_an_error() {
        let set = |name: &'static str, value: &'static str| Modes::of(move |asked| (asked == name).then(|| value.to_string()));
        assert_eq!(set("ms_service_mode", "secure").unwrap(), Modes { service: vec![ConMode::SECURE], ..Modes::default() });
        assert_eq!(set("ms_mon_client_mode", " crc,secure").unwrap().mon_client, [ConMode::CRC, ConMode::SECURE]);
        for name in NAMES {
            let modes = set(name, "secure").unwrap();
            assert_eq!(modes.demands(), Some(name));
            for bad in ["", " ", "sekure", "secure crcs"] {
                assert!(set(name, bad).unwrap_err().contains(&format!("{name} = {bad}: `crc`, `secure` or both")), "{bad}");
            }
        }
        assert_eq!(Modes::default().demands(), None);
        for info in NAMES.map(|name| options::find(name).unwrap()) {
            assert_eq!(set(info.name, info.default).unwrap(), Modes::default(), "the defaults are 18.2's");
        }
    }

    /// Facts of 18.2's `AuthRegistry::get_supported_methods`.
    #[test]
    fn the_option_that_counts_is_the_one_that_counts_in_ceph() {
        const CLIENT: EntityKind = EntityKind::CLIENT;
        const MON: EntityKind = EntityKind::MON;
        const MGR: EntityKind = EntityKind::MGR;
        const OSD: EntityKind = EntityKind::OSD;
        const MDS: EntityKind = EntityKind::MDS;
        let rows: [(&str, &[(EntityKind, EntityKind)]); 6] = [
            ("ms_client_mode", &[(CLIENT, OSD), (CLIENT, MDS)]),
            ("ms_mon_client_mode", &[(CLIENT, MON), (CLIENT, MGR)]),
            ("ms_mon_cluster_mode", &[(MON, MGR), (MGR, MON), (OSD, MON), (OSD, MGR), (MDS, MON)]),
            ("ms_mon_service_mode", &[(MON, CLIENT), (MON, OSD), (MON, MDS), (MGR, CLIENT), (MGR, OSD)]),
            ("ms_cluster_mode", &[(OSD, OSD), (OSD, MDS), (MDS, OSD)]),
            ("ms_service_mode", &[(OSD, CLIENT)]),
        ];
        for (name, pairs) in rows {
            let modes = Modes::of(|asked| Some(if asked == name { "secure" } else { "crc" }.to_string())).unwrap();
            for (us, peer) in pairs {
                assert_eq!(modes.between(*us, *peer), [ConMode::SECURE], "{} and {}", us.name(), peer.name());
            }
            let all = rows.iter().flat_map(|(_, pairs)| *pairs);
            let met = all.filter(|(us, peer)| modes.between(*us, *peer) == [ConMode::SECURE]).count();
            assert_eq!(met, pairs.len(), "{name} counts nowhere else");
        }
    }
}
