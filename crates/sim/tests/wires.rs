//! Links that are real connections: a seed is one history, it differs from that of messages, and broken promises of sessions are noticed.

mod share;

use sim::plan::Wire;
use sim::planted::WireBug;
use sim::{Plan, Planted, run};
use std::panic::catch_unwind;

fn plan(seed: u64) -> Plan {
    Plan::of(seed).with_wires()
}

#[test]
fn a_seed_with_real_connections_is_the_same_history_twice() {
    for seed in [2, 5] {
        let (a, b) = (run(&plan(seed), None, false), run(&plan(seed), None, false));
        assert_eq!((a.trace, a.events, a.calls, &a.failure), (b.trace, b.events, b.calls, &None), "seed {seed:#x}");
        let messages = run(&Plan { wire: Wire::Messages, ..plan(seed) }, None, false);
        assert_ne!(a.trace, messages.trace, "seed {seed:#x}");
    }
}

#[test]
fn one_seed_of_eight_has_real_connections_and_some_of_them_are_encrypted() {
    let count = |wire| (0..800).filter(|seed| Plan::of(*seed).wire == wire).count();
    let (crc, secure) = (count(Wire::Crc), count(Wire::Secure));
    assert!((70..130).contains(&(crc + secure)) && secure > 15 && crc > secure, "{crc} and {secure}");
}

#[test]
fn broken_promises_of_sessions_are_noticed() {
    let all = [
        WireBug::ReplayTooLate,
        WireBug::KeepDuplicate,
        WireBug::IgnoreAck,
        WireBug::TakeSentForReceived,
        WireBug::ForgetToKeep,
        WireBug::CountAnew,
    ];
    for bug in share::of(all).filter(|_| cfg!(debug_assertions)) {
        let fails = |seed, planted| catch_unwind(|| run(&plan(seed), planted, false)).map_or(true, |report| report.failure.is_some());
        let seed = (0..20).find(|seed| fails(*seed, Some(Planted::Wire(bug))) && !fails(*seed, None));
        println!("{bug:?}: noticed by seed {seed:?}");
        assert!(seed.is_some(), "{bug:?} is not noticed");
    }
}
