//! Who may say what: for each kind of message, by whom an OSD, a monitor and the manager endpoint take it, and where that is asked.
//!
//! One table ([`senders`]). What a peer calls itself in HELLO and in its ident is compared with its ticket before any message
//! (`msgr/src/handshake.rs`), so a name here is one that was proven, except without authentication. Holds no capability: those are `cephx`'s.

/// By whom a kind is taken. What comes from any other is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// By none: the daemon has no use for it.
    Nobody,
    /// By any session: it concerns nothing but the session itself.
    Anyone,
    /// By any session, as far as its capabilities allow what is asked.
    Capable,
    /// By the daemon that it is about, whose name the ticket has.
    Itself,
    /// By the server of a file system or the manager that it is about: the key has its name, and the session or the map its number.
    Namesake,
    /// By an OSD, on the OSDs' own network, from the address that the map has for its number. Sent by a map that is not here, it waits for that.
    PeerOsd,
    /// By an OSD, on a network of heartbeats. It needs no address of the map: one that the map has down pings, too.
    Pinger,
    /// By an OSD that was asked, on the clients' network. A client's only acknowledges.
    AskedOsd,
    /// By an OSD at an address that the map has for its number, step by step and not far ahead of the monitor; and by our own monitor.
    MapHolder,
    /// By the monitor, over the session that was dialled and whose keys both have.
    OwnMonitor,
    /// By the manager, over the session that was dialled.
    OwnManager,
    /// By either.
    OwnMonitorOrManager,
}

impl By {
    /// Where that is asked: a file below `crates`, and the function.
    pub const fn asked_in(self, at: At) -> Option<(&'static str, &'static str)> {
        let osd = "osd-core/src/osd.rs";
        Some(match (self, at) {
            (Self::Nobody | Self::Anyone, _) => return None,
            (Self::Capable, At::Osd) => ("osd-core/src/pg/requests/admit.rs", "admit"),
            (Self::Capable, At::Mon | At::Mgr) => ("mon-core/src/mon.rs", "may"),
            (Self::Itself, At::Mgr) => ("mon-core/src/mgr/endpoint.rs", "daemon_name"),
            (Self::Itself, _) => ("mon-core/src/osd/boot.rs", "dispatch_osd"),
            (Self::Namesake, _) => ("mon-core/src/fs/beacon.rs", "is_mds"),
            (Self::PeerOsd, _) => ("osd-core/src/shard/peers.rs", "is_where_it_says"),
            (Self::Pinger, _) => (osd, "heartbeat"),
            (Self::AskedOsd, _) => (osd, "message"),
            (Self::MapHolder, _) => ("osd-core/src/control/maps.rs", "peer_maps_came"),
            (Self::OwnMonitor | Self::OwnManager | Self::OwnMonitorOrManager, At::Osd) => ("osd-core/src/daemon/mod.rs", "message"),
            (Self::OwnMonitor | Self::OwnManager | Self::OwnMonitorOrManager, _) => ("mon/src/run.rs", "on_message"),
        })
    }
}

/// A daemon that takes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    Osd,
    Mon,
    /// The manager endpoint.
    Mgr,
}

/// A row: by whom each daemon takes a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Senders {
    pub osd: By,
    pub mon: By,
    pub mgr: By,
}

impl Senders {
    pub const fn at(self, at: At) -> By {
        match at {
            At::Osd => self.osd,
            At::Mon => self.mon,
            At::Mgr => self.mgr,
        }
    }
}

/// The row of a kind; `None` for a number that is no kind's.
pub const fn senders(kind: u16) -> Option<Senders> {
    use By::{
        Anyone, AskedOsd, Capable, Itself, MapHolder, Namesake, Nobody, OwnManager, OwnMonitor, OwnMonitorOrManager, PeerOsd, Pinger,
    };
    let (osd, mon, mgr) = match kind {
        // Of a session with a monitor.
        2 | 5 | 17 => (Nobody, Anyone, Nobody),
        4 | 16 | 18 | 20 | 48 | 51 | 53 | 59 | 14 => (OwnMonitor, Nobody, Nobody),
        62 | 77 | 120 | 1796 => (OwnMonitor, Nobody, Nobody),
        6 | 13 | 15 | 19 | 49 | 50 | 52 | 58 | 63 | 76 => (Nobody, Capable, Nobody),
        // Daemons about themselves.
        71 | 72 | 73 | 75 | 78 | 79 | 116 | 122 | 123 => (Nobody, Itself, Nobody),
        // The monitor's answer has the same kind.
        74 => (OwnMonitor, Itself, Nobody),
        100 | 522 | 1795 | 1798 => (Nobody, Namesake, Nobody),
        87 | 1792 | 1794 | 1800 | 1803 => (Nobody, Nobody, Itself),
        // Of a session with a manager.
        88 | 151 | 1793 => (OwnManager, Nobody, Nobody),
        121 => (OwnMonitorOrManager, Nobody, Nobody),
        98 | 1802 => (Nobody, OwnManager, Nobody),
        // Requests and commands.
        42 => (Capable, Nobody, Nobody),
        97 => (Capable, Capable, Capable),
        1801 => (Nobody, Nobody, Capable),
        43 | 61 => (AskedOsd, Nobody, Nobody),
        // Between OSDs.
        41 => (MapHolder, Nobody, Nobody),
        70 => (Pinger, Nobody, Nobody),
        83 | 84 | 92 | 93 | 94 | 95 | 96 | 99 => (PeerOsd, Nobody, Nobody),
        105 | 106 | 107 | 112 | 113 | 114 | 115 | 117 | 118 | 119 => (PeerOsd, Nobody, Nobody),
        130 | 131 | 132 | 133 | 134 | 136 | 150 => (PeerOsd, Nobody, Nobody),
        // What older or newer OSDs say, and what erasure codes need.
        80 | 81 | 85 | 86 | 90 | 108 | 109 | 110 | 111 => (Nobody, Nobody, Nobody),
        // Clients hear these, and servers of file systems.
        1 | 21 | 44 | 45 | 103 | 1799 => (Nobody, Nobody, Nobody),
        // Monitors among each other, and monitors to managers.
        46 | 47 | 54 | 60 | 64 | 65 | 66 | 67 | 68 | 69 | 140 | 141 => (Nobody, Nobody, Nobody),
        1536 | 1537 | 1544 | 1545 | 1797 => (Nobody, Nobody, Nobody),
        // Clients and servers of file systems, with each other.
        22 | 23 | 24 | 25 | 26 | 27 | 28 | 29 | 101 | 102 | 135 => (Nobody, Nobody, Nobody),
        512..=516 | 518..=521 | 524..=530 | 768 | 769 | 784..=788 => (Nobody, Nobody, Nobody),
        1097 | 1104..=1107 | 1110..=1113 | 1120 | 1136..=1138 | 1280..=1283 => (Nobody, Nobody, Nobody),
        _ => return None,
    };
    Some(Senders { osd, mon, mgr })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind_name;
    use std::path::{Path, PathBuf};

    fn crates() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
    }

    #[test]
    fn every_kind_has_a_row_and_every_row_is_a_kinds() {
        for kind in 0..=u16::MAX {
            assert_eq!(senders(kind).is_some(), kind_name(kind) != "unknown", "{kind} {}", kind_name(kind));
        }
    }
    #[test]
    fn every_message_of_this_crate_has_a_row() {
        let mut found = 0;
        for file in std::fs::read_dir(crates().join("messages/src")).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let by_hand = text.lines().filter_map(|line| line.split_once("const KIND: u16 = ")?.1.strip_suffix(';'));
            let by_macro = text.lines().filter_map(|line| Some(line.split_once(" = ")?.1.split_once(", v ")?.0));
            for kind in by_hand.chain(by_macro).filter_map(|number| number.parse().ok()) {
                assert!(senders(kind).is_some(), "{kind}");
                found += 1;
            }
        }
        assert!(found > 70, "{found}");
    }
    #[test]
    fn what_is_taken_is_asked_somewhere() {
        let mut seen = std::collections::BTreeSet::new();
        for senders in (0..2048).filter_map(senders) {
            for at in [At::Osd, At::Mon, At::Mgr] {
                let by = senders.at(at);
                let Some((file, function)) = by.asked_in(at) else {
                    assert!(matches!(by, By::Nobody | By::Anyone));
                    continue;
                };
                if seen.insert((file, function)) {
                    let text = std::fs::read_to_string(crates().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
                    assert!(text.contains(&format!("fn {function}(")), "{file} has no {function}");
                }
            }
        }
        assert!(seen.len() >= 9, "{seen:?}");
    }
}
