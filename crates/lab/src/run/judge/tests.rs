use super::*;
use crate::load::{Op, Tool};
use crate::stats::Latency;
use std::collections::BTreeMap;

fn work() -> Work {
    Work {
        name: "w".into(),
        tool: Tool::HumboldtBench,
        op: Op::Write,
        block: 4096,
        depth: 4,
        jobs: 1,
        size: 1 << 20,
        cache: false,
        under: None,
        base: None,
        options: BTreeMap::new(),
    }
}

/// A round that is right: 4 at a time of 1 ms each, 3 s long.
fn round() -> (Told, Seen) {
    let latency = Latency::of([(1_000_000, 12_000)]);
    let told = Told {
        ops: 12_000,
        seconds: 3.0,
        mean_ns: 1e6,
        latency: Some(latency),
        slots: vec![400; 30],
        slot_ms: 100,
        write_share: 1.0,
        ..Told::default()
    };
    let bytes = 12_000 * 4096;
    let used = Used { seconds: 3.01, real_seconds: 3.01, written_bytes: Some(bytes), ..Used::default() };
    let counted = Some(Counted { ops: 12_000, bytes_in: bytes, bytes_out: 0 });
    (
        told,
        Seen {
            used,
            wanted_s: 3.0,
            there: None,
            counted,
            counted_s: None,
            durable: true,
            copies: 1,
            target_died: false,
            marked: true,
            code: 0,
            ledger: None,
        },
    )
}

fn says(change: impl Fn(&mut Told, &mut Seen)) -> State {
    let (mut told, mut seen) = round();
    change(&mut told, &mut seen);
    judge(&work(), &Ok(told), &seen)
}

fn invalid(state: &State, word: &str) -> bool {
    matches!(state, State::Invalid(why) if why.contains(word))
}

#[test]
fn a_right_round_is_valid() {
    assert_eq!(says(|_, _| ()), State::Valid);
    // Targets that don't count, and stores in memory, are not asked.
    assert_eq!(says(|_, s| (s.counted, s.durable, s.used.written_bytes) = (None, false, Some(0))), State::Valid);
}

#[test]
fn each_lie_is_called_by_its_name() {
    assert!(invalid(&says(|t, _| t.errors = 1), "failed"));
    assert!(invalid(&says(|t, _| (t.ops, t.latency) = (0, None)), "not one"));
    assert!(invalid(&says(|t, _| t.ops = 12_001), "latencies of 12000"));
    assert!(invalid(&says(|t, _| t.mean_ns = 2e6), "don't fit"));
    assert!(invalid(&says(|t, _| t.seconds = 1.5), "ended early"));
    assert!(invalid(&says(|_, s| (s.used.seconds, s.used.real_seconds) = (1.5, 1.5)), "ran for"));
    assert!(invalid(&says(|t, _| t.seconds = 6.0), "ran for"));
    assert!(invalid(&says(|_, s| s.used.real_seconds = 63.0), "clock jumped"));
    assert!(invalid(&says(|_, s| s.used.real_seconds = -3.0), "clock jumped"));
    assert!(invalid(&says(|_, s| s.counted = Some(Counted::default())), "reach"));
    assert!(invalid(&says(|_, s| s.used.written_bytes = Some(4096)), "without storing"));
    // One copy on the disk where three are due.
    assert!(invalid(&says(|_, s| s.copies = 3), "3 copies of each"));
    assert!(invalid(&says(|_, s| s.marked = false), "began and ended"));
    // What a drill lost.
    assert!(invalid(&says(|_, s| s.ledger = Some((40, 1))), "1 of 40 writes that were acknowledged are gone"));
    assert_eq!(says(|_, s| s.ledger = Some((40, 0))), State::Valid);
}

#[test]
fn reads_are_reached_by_what_the_target_gave() {
    let reads = |bytes_out| {
        says(move |t, s| {
            t.write_share = 0.0;
            s.counted = Some(Counted { ops: 12_000, bytes_in: 0, bytes_out });
            s.used.written_bytes = Some(0);
        })
    };
    assert_eq!(reads(12_000 * 4096), State::Valid);
    assert!(invalid(&reads(6_000 * 4096), "reach"));
}

#[test]
fn a_reader_in_order_ends_when_it_has_read_everything_and_no_sooner() {
    let early = |seconds: f64, there: Option<u64>| {
        let (mut told, mut seen) = round();
        (told.seconds, seen.used.seconds, seen.used.real_seconds, told.write_share) = (seconds, seconds, seconds, 0.0);
        (told.ops, told.latency) = (500, None);
        seen.counted = Some(Counted { ops: 500, bytes_in: 0, bytes_out: 500 * 4096 });
        seen.there = there;
        judge(&Work { tool: Tool::RadosBench, op: Op::Read, ..work() }, &Ok(told), &seen)
    };
    assert_eq!(early(0.7, Some(500)), State::Valid);
    assert!(invalid(&early(0.7, Some(501)), "ended early") && invalid(&early(2.0, None), "ended early"));
}

#[test]
fn what_gives_no_figures_failed() {
    let (_, seen) = round();
    let of = |bad| judge(&work(), &Err(bad), &seen);
    assert!(matches!(of(BadOutput::Full("ENOSPC".into())), State::Failed(why) if why.contains("full")));
    assert!(invalid(&of(BadOutput::CutOff("x".into())), "cut off"));
    assert!(matches!(says(|_, s| s.target_died = true), State::Failed(_)));
    assert!(matches!(says(|_, s| s.code = 124), State::Failed(_)));
}

#[test]
fn marks_say_what_disturbed() {
    let (told, seen) = round();
    assert!(marks(&work(), &told, &seen.used, 0.1).is_empty());
    let busy = Used { foreign: 0.3, ..seen.used.clone() };
    assert!(marks(&work(), &told, &busy, 0.1)[0].contains("disturbed"));
    let cached = Told { mean_ns: 8_000.0, latency: None, ..told.clone() };
    assert!(marks(&work(), &cached, &seen.used, 0.1)[0].contains("operations took 1 % of the time"));
    let falling = Told { slots: (0..30).map(|n| 400 - 10 * n).collect(), ..told };
    assert!(marks(&work(), &falling, &seen.used, 0.1)[0].contains("not steady"));
}

#[test]
fn what_the_tool_did_before_our_first_look_is_not_asked_for() {
    // A look that came 0.25 s late, at a time when the load was four times as fast as later.
    let (mut told, mut seen) = round();
    told.slots = [1600, 1600, 1600].into_iter().chain(std::iter::repeat_n(267, 27)).collect();
    told.ops = told.slots.iter().sum();
    told.latency = Some(Latency::of([(900_000, told.ops)]));
    told.mean_ns = 9e5;
    (seen.used.seconds, seen.used.real_seconds) = (2.75, 2.75);
    let counted = (told.ops - 4000) * 4096;
    seen.counted = Some(Counted { ops: 0, bytes_in: counted, bytes_out: 0 });
    seen.used.written_bytes = Some(counted);
    assert_eq!(judge(&work(), &Ok(told.clone()), &seen), State::Valid);
    assert!((seen_ops(&told, &seen.used) - (told.ops - 4000) as f64).abs() < 1.0);
    seen.counted = Some(Counted { ops: 0, bytes_in: counted / 2, bytes_out: 0 });
    assert!(invalid(&judge(&work(), &Ok(told.clone()), &seen), "reach"));
    // Our samples came later still than the question: what was counted meanwhile is no excuse for a load that counts failed operations.
    (seen.used.seconds, seen.used.real_seconds) = (2.46, 2.46);
    seen.counted = Some(Counted { ops: 0, bytes_in: 6220 * 4096, bytes_out: 0 });
    assert_eq!(judge(&work(), &Ok(told.clone()), &seen), State::Valid);
    seen.counted_s = Some(2.75);
    assert!(invalid(&judge(&work(), &Ok(told), &seen), "reach"));
}
