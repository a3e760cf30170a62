//! What of the cores a run reached: kinds of messages, states of groups and the steps between them. What no seed reached is listed with its reason.

use base::Stamp;
use osd_core::pg::members::peering::{EDGES, State};
use std::collections::BTreeSet;

/// See the module.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    kinds: BTreeSet<u16>,
    edges: BTreeSet<(String, String)>,
    /// What of the protocol below, where links were real.
    wire: BTreeSet<String>,
}

/// Kinds of messages that OSDs, monitors and clients have, and that this cluster does not: each with its reason.
const ABSENT: &[(&str, &str)] = &[
    ("MAuth", "sessions open without a handshake"),
    ("MOSDFailure of a still-alive OSD, MOSDMarkMeDown", "no OSD is shut down in order"),
    ("MMgr*", "no stock manager lives here; reports go to the monitor's endpoint"),
];

/// What may happen to a session over a byte pipe: what a second socket leads to, and in which state one is lost.
const WIRE: &[&str] = &[
    "Proceed",
    "Replace",
    "TakeOver",
    "Told",
    "Idle cut",
    "Banner cut",
    "Hello cut",
    "Auth cut",
    "AuthSign cut",
    "Compression cut",
    "Session cut",
    "Ready cut",
    "Wait cut",
    "remote reset",
    "timeout",
];

impl Seen {
    pub fn message(&mut self, kind: u16) {
        self.kinds.insert(kind);
    }
    /// A group's last states, oldest first.
    pub fn states(&mut self, history: &[(State, Stamp)]) {
        for two in history.windows(2) {
            self.edges.insert((format!("{:?}", two[0].0), format!("{:?}", two[1].0)));
        }
    }
    pub fn with_wire(self, wire: BTreeSet<String>) -> Self {
        Self { wire, ..self }
    }
    pub fn add(&mut self, other: &Self) {
        self.kinds.extend(&other.kinds);
        self.edges.extend(other.edges.iter().cloned());
        self.wire.extend(other.wire.iter().cloned());
    }
    /// Lines for a report: what was reached, and what was not.
    pub fn lines(&self) -> Vec<String> {
        let kinds: Vec<String> = self.kinds.iter().map(|kind| messages::kind_name(*kind).to_string()).collect();
        let has = |from: &State, to: &State| self.edges.contains(&(format!("{from:?}"), format!("{to:?}")));
        let missed: Vec<String> =
            EDGES.iter().filter(|(from, to)| !has(from, to)).map(|(from, to)| format!("{from:?} -> {to:?}")).collect();
        let mut lines = vec![format!("{} kinds of messages were delivered: {}", kinds.len(), kinds.join(", "))];
        lines.push(match missed.is_empty() {
            true => format!("all {} steps between states of groups were taken", EDGES.len()),
            false => format!("steps between states of groups that were not seen: {}", missed.join(", ")),
        });
        if !self.wire.is_empty() {
            lines.push(format!("of sessions over byte pipes: {}", self.wire.iter().cloned().collect::<Vec<_>>().join(", ")));
            let missed: Vec<&str> = WIRE.iter().copied().filter(|what| !self.wire.contains(*what)).collect();
            lines.push(format!("of sessions over byte pipes not seen: {}", missed.join(", ")));
        }
        lines.extend(ABSENT.iter().map(|(what, why)| format!("absent: {what}: {why}")));
        lines
    }
}
