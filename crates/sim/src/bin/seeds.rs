//! Runs seeds: `seeds --from N --count N`, or one: `seeds --seed N [--trace] [--shrink] [--only BUG]`, with a planted bug if one is named, or the planted bugs: `seeds --bugs [--only WORD,WORD]`.
//! `--theme WORD` leaves the seeds with other themes out; `hostile`, `balanced`, `vanish`, `crowd`, `barred` and `watching` are words for it, too. With `--wires` all links of all seeds are real connections.
//! With `--late` each OSD's shard answers its Control late.
//! `seeds --figure memory|block --count N` runs the plan by which speed is measured. `seeds --traces --from N --count N` prints what each seed's history
//! hashes to, with every byte of every message and every effect: a change that is to behave as before leaves all of these lines as they are.
//! `cargo xtask sim` calls it.

use sim::plan::{StoreKind, Wire};
use sim::planted::ALL;
use sim::{Plan, Planted, Report, Rest, Seen, run, run_deep};
use std::collections::BTreeMap;
use std::process::ExitCode;

const FLAGS: [&str; 12] =
    ["--from", "--count", "--seed", "--trace", "--traces", "--shrink", "--bugs", "--only", "--theme", "--wires", "--late", "--figure"];

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(word) = args.iter().find(|a| a.starts_with("--") && !FLAGS.contains(&a.as_str())) {
        eprintln!("{word} is none of {}", FLAGS.join(" "));
        return ExitCode::FAILURE;
    }
    let value = |name: &str| args.iter().position(|a| a == name).and_then(|i| number(args.get(i + 1)?));
    let flag = |name: &str| args.iter().any(|a| a == name);
    let word = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1)).map_or("", String::as_str);
    if let Some(seed) = value("--seed") {
        return one(seed, flag("--trace"), flag("--shrink"), word("--only"));
    }
    if flag("--bugs") {
        return bugs(value("--from").unwrap_or(0), value("--count").unwrap_or(1000), word("--only"), word("--theme"));
    }
    let (from, count) = (value("--from").unwrap_or(0), value("--count").unwrap_or(100));
    if flag("--traces") {
        return traces((from..from + count).filter(|seed| is_about(&plan_of(*seed), word("--theme"))));
    }
    if flag("--figure") {
        return match word("--figure") {
            "memory" => figure(StoreKind::Ideal, from, count),
            "block" => figure(StoreKind::Block, from, count),
            other => {
                eprintln!("--figure memory or --figure block, not {other:?}");
                ExitCode::FAILURE
            }
        };
    }
    let mut seen = Seen::default();
    let (mut failed, mut hours, mut calls, mut faults) = (Vec::new(), 0.0, 0, 0);
    let (mut forged, mut served) = (0, 0);
    let (mut replaced, mut added, mut behind, mut trimmed) = (0, 0, 0, 0);
    let (mut vanished, mut swaps) = (0, 0);
    let mut others = Others::default();
    let (mut without_one, mut unfound, mut beyond) = (Vec::new(), Vec::new(), Vec::new());
    for seed in (from..from + count).filter(|seed| is_about(&plan_of(*seed), word("--theme"))) {
        let report = run_caught(&plan_of(seed), None, false);
        seen.add(&report.seen);
        hours += report.virtual_s / 3600.0;
        calls += report.answered;
        faults += report.faults;
        (forged, served) = (forged + report.forged, served + report.served);
        (replaced, added) = (replaced + report.replaced, added + report.added);
        (vanished, swaps) = (vanished + report.vanished, swaps + report.swaps);
        others.add(&report);
        (behind, trimmed) = (behind + report.behind, trimmed + u32::from(report.trimmed > 0));
        match report.rest {
            Some(Rest::WithoutOne) => without_one.push(format!("{seed:#x}")),
            Some(Rest::Unfound) => unfound.push(format!("{seed:#x}")),
            Some(Rest::Beyond) => beyond.push(format!("{seed:#x}")),
            Some(Rest::Whole) | None => {}
        }
        if let Some(why) = &report.failure {
            println!("FAILED {}", why.lines().next().unwrap_or_default());
            println!("  cargo xtask sim --seed {seed:#x}");
            failed.push(seed);
        }
    }
    println!(
        "{count} seeds from {from:#x}, {hours:.1} virtual hours, {calls} operations answered, {faults} faults: {} failed; others from {:#x} on",
        failed.len(),
        from + count
    );
    println!("{forged} messages of clients that want harm; {served} reads were answered by members that were asked straight");
    println!("{replaced} devices were replaced by empty ones, {added} OSDs were added");
    println!("{vanished} stores vanished or failed, {swaps} times two were swapped");
    println!("maps were trimmed in {trimmed} of them; {behind} times an OSD came back whose newest map was trimmed");
    others.tell();
    for (seeds, what) in [
        (without_one, "an OSD does not start any more, its log or its metadata have rotted"),
        (unfound, "an object is not found whose write is open"),
        (beyond, "devices rotted beyond the promise"),
    ] {
        println!("{} come to rest though {what}: {}", seeds.len(), seeds.join(" "));
    }
    seen.lines().iter().for_each(|line| println!("{line}"));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What clients beside those that work by chance met, and groups that were exchanged.
#[derive(Default)]
struct Others {
    barred: [u64; 2],
    gaps: [u32; 2],
    exchanged: [u32; 2],
    notifies: [u64; 3],
}

impl Others {
    fn add(&mut self, report: &Report) {
        fn add<T: std::ops::AddAssign + Copy, const N: usize>(sums: &mut [T; N], more: [T; N]) {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        add(&mut self.barred, report.barred);
        add(&mut self.gaps, report.gaps);
        add(&mut self.exchanged, report.exchanged);
        add(&mut self.notifies, report.notifies);
    }
    fn tell(&self) {
        let Self { barred, gaps, exchanged, notifies } = self;
        println!("{} objects were taken over from clients that were shut out, which heard so {} times", barred[0], barred[1]);
        println!("{} clients and {} OSDs lacked maps that were trimmed", gaps[0], gaps[1]);
        println!(
            "{} and {} times all old members of a group died at an acknowledgement of theirs, and of a new one",
            exchanged[0], exchanged[1]
        );
        println!("{} notifies ended, {} of them timed out; watches heard of one {} times", notifies[0], notifies[1], notifies[2]);
    }
}

/// What a seed draws, with real connections if the command line wants them.
fn plan_of(seed: u64) -> Plan {
    let plan = Plan::of(seed);
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    let plan = if has("--late") { plan.with_late_answers() } else { plan };
    if plan.wire == Wire::Messages && has("--wires") { plan.with_wires() } else { plan }
}

/// True if a plan has this theme, or clients that want harm (`hostile`), or reads that members serve (`balanced`), or stores that vanish (`vanish`) or fill (`crowd`); every plan is about anything.
fn is_about(plan: &Plan, theme: &str) -> bool {
    theme.is_empty()
        || theme == "hostile" && plan.hostile > 0
        || theme == "balanced" && plan.balanced > 0
        || theme == "crowd" && plan.small_bytes > 0
        || theme == "barred" && plan.bar > 0
        || theme == "watching" && plan.watchers > 0
        || theme == "vanish" && plan.vanish_store + plan.swap_stores > 0
        || format!("{:?}", plan.theme).eq_ignore_ascii_case(theme)
}

/// What each seed's history hashes to, a line each.
fn traces(seeds: impl Iterator<Item = u64>) -> ExitCode {
    let mut is_right = true;
    for seed in seeds {
        let report = caught(seed, || run_deep(&plan_of(seed)));
        let verdict = report.failure.as_deref().map_or("right", |why| why.lines().next().unwrap_or_default());
        println!("{seed:#x} {:#018x} {} events: {verdict}", report.trace, report.events);
        is_right &= report.failure.is_none();
    }
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Seeds of the plan by which speed is measured: what they were. How long they took is the caller's to say.
fn figure(store: StoreKind, from: u64, count: u64) -> ExitCode {
    let (mut failed, mut minutes, mut answered, mut faults, mut events) = (0, 0.0, 0, 0, 0);
    for seed in from..from + count {
        let report = run_caught(&Plan::figure(seed, store), None, false);
        if let Some(why) = &report.failure {
            println!("FAILED {}", why.lines().next().unwrap_or_default());
            failed += 1;
        }
        (minutes, answered, faults) = (minutes + report.virtual_s / 60.0, answered + report.answered, faults + report.faults);
        events += report.events;
    }
    let each = |sum: f64| sum / count.max(1) as f64;
    println!(
        "{count} seeds of the figure: each {:.1} virtual minutes, {:.0} operations, {:.0} faults, {:.0} events",
        each(minutes),
        each(answered as f64),
        each(f64::from(faults)),
        each(events as f64)
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Seeds without any bug: what each is, as far as it was asked for.
#[derive(Default)]
struct Clean(BTreeMap<u64, (u64, Option<String>)>);

impl Clean {
    /// The trace, and what is wrong.
    fn of(&mut self, seed: u64) -> &(u64, Option<String>) {
        self.0.entry(seed).or_insert_with(|| {
            let report = run_caught(&plan_of(seed), None, false);
            (report.trace, report.failure)
        })
    }
}

/// Each planted bug whose name has one of these words in it: the first seed that a checker finds wrong, and that is right without the bug.
fn bugs(from: u64, count: u64, only: &str, theme: &str) -> ExitCode {
    let seeds = || (from..from + count).filter(|seed| is_about(&plan_of(*seed), theme));
    let mut missed = 0;
    let mut clean = Clean::default();
    // Most are noticed by an assertion or a checker that panics.
    std::panic::set_hook(Box::new(|_| {}));
    println!("{:<22} {:>6} {:>6}  checker: what it says", "bug", "first", "seeds");
    for planted in ALL.iter().filter(|bug| only.split(',').any(|word| bug.name().contains(word))) {
        // Of runs that come out right: other histories, those that came to where the bug matters, and how often.
        let (mut others, mut reached, mut times) = (0, 0, 0);
        let found = seeds().find_map(|seed| {
            let report = run_caught(&plan_of(seed), Some(*planted), false);
            match report.failure {
                Some(why) => clean.of(seed).1.is_none().then_some((seed, why)),
                None => {
                    others += u64::from(clean.of(seed).0 != report.trace);
                    (reached, times) = (reached + u64::from(report.reached > 0), times + report.reached);
                    None
                }
            }
        });
        match found {
            Some((seed, why)) => println!("{:<22} {:>#6x} {:>6}  {}", planted.name(), seed, seed - from + 1, checker(&why)),
            None => {
                missed += 1;
                println!(
                    "{:<22} {:>6} {:>6}  not found; {others} other histories, {reached} come to it, {times} times",
                    planted.name(),
                    "",
                    format!(">{count}")
                );
            }
        }
    }
    let wrong: Vec<&String> = clean.0.values().filter_map(|(_, failure)| failure.as_ref()).collect();
    wrong.iter().for_each(|why| println!("FAILED without any bug: {}", why.lines().next().unwrap_or_default()));
    if missed == 0 && wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
/// The first line of what a checker says, without the seed.
fn checker(why: &str) -> String {
    let line = why.lines().next().unwrap_or_default();
    let text = line.split_once(": ").map_or(line, |(_, text)| text);
    text.chars().take(110).collect()
}

/// A broken invariant of a core is a failure of its seed, not of the run.
fn run_caught(plan: &Plan, planted: Option<Planted>, loud: bool) -> Report {
    caught(plan.seed, || run(plan, planted, loud))
}
fn caught(seed: u64, run: impl FnOnce() -> Report + std::panic::UnwindSafe) -> Report {
    std::panic::catch_unwind(run).unwrap_or_else(|why| {
        let text = why.downcast_ref::<String>().cloned().or_else(|| why.downcast_ref::<&str>().map(|s| s.to_string()));
        Report {
            seed,
            trace: 0,
            events: 0,
            calls: 0,
            answered: 0,
            virtual_s: 0.0,
            faults: 0,
            forged: 0,
            served: 0,
            wild: 0,
            replaced: 0,
            added: 0,
            vanished: 0,
            swaps: 0,
            barred: [0; 2],
            gaps: [0; 2],
            exchanged: [0; 2],
            notifies: [0; 3],
            behind: 0,
            trimmed: 0,
            reached: 0,
            rest: None,
            seen: Seen::default(),
            failure: Some(format!("seed {seed:#x}: assertion: {}", text.unwrap_or_default())),
        }
    })
}

fn one(seed: u64, loud: bool, shrink: bool, bug: &str) -> ExitCode {
    let planted = ALL.iter().copied().find(|planted| planted.name() == bug);
    let mut plan = plan_of(seed);
    if shrink {
        plan = shrunk(plan);
    }
    println!("{plan:?}");
    let report = run_caught(&plan, planted, loud);
    println!("{:#018x} is the hash of its {} events in {:.1} virtual seconds", report.trace, report.events, report.virtual_s);
    match report.failure {
        Some(why) => {
            println!("FAILED {why}");
            ExitCode::FAILURE
        }
        None => {
            println!(
                "{} of {} calls answered, {} faults, {} objects too wild to judge: right",
                report.answered, report.calls, report.faults, report.wild
            );
            ExitCode::SUCCESS
        }
    }
}

/// The same seed with as few kinds of faults, clients and operations as it still fails with.
fn shrunk(mut plan: Plan) -> Plan {
    let fails = |plan: &Plan| run_caught(plan, None, false).failure.is_some();
    if !fails(&plan) {
        return plan;
    }
    for n in 0..plan.faults().len() {
        let mut less = plan.clone();
        *less.faults()[n].2 = 0;
        if less != plan && fails(&less) {
            plan = less;
        }
    }
    let less = Plan { kill_at_ack: 0, ..plan.clone() };
    if less != plan && fails(&less) {
        plan = less;
    }
    for shrink in [|p: &mut Plan| p.clients /= 2, |p: &mut Plan| p.objects /= 2, |p: &mut Plan| p.ops /= 2, |p: &mut Plan| p.depth /= 2] {
        loop {
            let mut less = plan.clone();
            shrink(&mut less);
            if less.clients == 0 || less.objects == 0 || less.ops < 10 || less.depth == 0 || !fails(&less) {
                break;
            }
            plan = less;
        }
    }
    plan
}
