//! Plans of small studies.

use super::{Machine, Mode, Plan, Times};
use crate::run::folder::Line;
use crate::run::judge::State;
use crate::run::visit::{Stat, Took};
use crate::study::Study;
use crate::value::Filter;

fn cells(text: &str, quick: bool) -> Vec<String> {
    let study = Study::parse("t", text).unwrap();
    let machine = Machine::with_everything();
    let plan = Plan::new(&study, quick, &Filter::default(), &machine);
    plan.rows.iter().map(|row| crate::value::show(&row.point)).collect()
}

#[test]
fn the_short_form_leaves_out_what_its_rules_exclude() {
    let text = "lab = 1\nname = \"t\"\n[axes]\nop = [\"write\", \"read\"]\ndepth = [1, 16]\n[[target]]\nname = \"a\"\nkind = \"humboldt\"\n\
        [[load]]\ntool = \"humboldt bench\"\n[rules]\nquick = { rounds = 3, seconds = 1.0, exclude = [{ op = \"read\", depth = 16 }, {}] }\n";
    assert_eq!(cells(text, false).len(), 4);
    assert_eq!(cells(text, true), ["depth=1, op=write", "depth=1, op=read", "depth=16, op=write"]);
}

#[test]
fn the_short_form_may_leave_out_a_target_or_a_load() {
    let study = |exclude: &str| {
        format!(
            "lab = 1\nname = \"t\"\n[axes]\ndepth = [1, 16]\n[[target]]\nname = \"a\"\nkind = \"humboldt\"\n[[target]]\nname = \"b\"\n\
            kind = \"null\"\n[[load]]\nname = \"l\"\ntool = \"humboldt bench\"\n[rules]\nquick = {{ rounds = 3, seconds = 1.0, exclude = [{exclude}] }}\n"
        )
    };
    let targets = |exclude: &str| {
        let study = Study::parse("t", &study(exclude)).unwrap();
        let machine = Machine::with_everything();
        let plan = Plan::new(&study, true, &Filter::default(), &machine);
        plan.cells.iter().map(|c| format!("{}{}", c.setup.target, c.work.depth)).collect::<Vec<_>>()
    };
    assert_eq!(targets("{ target = \"b\" }"), ["a1", "a16"]);
    assert_eq!(targets("{ target = \"a\", load = \"l\", depth = 16 }"), ["a1", "b1", "b16"]);
    assert!(Study::parse("t", &study("{ target = \"c\" }")).is_err_and(|e| e.to_string().contains("no target is called c")));
    assert!(Study::parse("t", &study("{ load = \"m\" }")).is_err_and(|e| e.to_string().contains("no load is called m")));
}

/// On a machine that has everything.
#[test]
fn no_shipped_study_asks_for_what_this_version_lacks() {
    for (name, text) in crate::study::shipped::ALL {
        let study = Study::parse(name, text).unwrap();
        let machine = Machine::with_everything();
        let plan = Plan::new(&study, false, &Filter::default(), &machine);
        let skipped: Vec<_> = plan.skipped().map(|(cell, why)| format!("{} {}: {why}", cell.setup.show(), cell.work.show())).collect();
        assert!(skipped.is_empty(), "{name}: {skipped:?}");
    }
}

/// By what was run: a machine on which everything runs at a time, and one on which targets start anew in each round.
#[test]
fn each_short_form_fits_into_twenty_minutes() {
    for (memory_bytes, name) in
        [1 << 40, 1 << 30].into_iter().flat_map(|m| ["releases", "vm", "caches", "placement", "stores"].map(|n| (m, n)))
    {
        let study = Study::parse(name, crate::study::shipped::find(name).unwrap()).unwrap();
        let plan = Plan::new(&study, true, &Filter::default(), &Machine { memory_bytes, lacks: Box::new(|_, _, _| None) });
        let minutes = plan.seconds(&study, &Times::default()) / 60.0;
        assert!(minutes <= 18.0, "{name}: {minutes:.1} minutes");
    }
}

#[test]
fn what_a_run_took_is_what_the_next_is_planned_by() {
    let text = |rounds: u32| {
        format!(
            "lab = 1\nname = \"t\"\n[[target]]\nname = \"a\"\nkind = \"humboldt\"\n[[load]]\ntool = \"humboldt bench\"\n\
            [rules]\nfull = {{ rounds = {rounds}, seconds = 2.0, warm_s = 1.0, prolong = 1 }}\n"
        )
    };
    let machine = Machine::with_everything;
    let study = |rounds| Study::parse("t", &text(rounds)).unwrap();
    let plan = |rounds| Plan::new(&study(rounds), false, &Filter::default(), &machine());
    let mut times = Times::default();
    let guessed = plan(4).seconds(&study(4), &times);
    let first = plan(2);
    let line = |round, attempt, last| {
        let cell = first.cells[0].hash.clone();
        Line { round, cell, mode: Mode::Figures, attempt, last, sha256: String::new() }
    };
    let stat =
        |start_s, beyond_s, asked_s| Stat { state: Some(State::Valid), took: Took { start_s, beyond_s, asked_s }, ..Stat::default() };
    // Two visits, the second of them made again.
    let attempts = [
        (line(0, 0, true), stat(Some(20.0), 5.0, 2.0)),
        (line(1, 0, false), stat(None, 6.0, 2.0)),
        (line(1, 1, true), stat(None, 7.0, 4.0)),
    ];
    times.learn(&first, &attempts);
    // A start that came to its limit says nothing of the next.
    let failed = Stat { state: Some(State::Failed("it does not answer".into())), ..stat(Some(300.0), 60.0, 2.0) };
    times.learn(&first, &[(line(0, 0, true), failed)]);
    // A start; four visits of 6 s beyond warming up and measuring; and two of those again, which measure for twice as long.
    assert_eq!(plan(4).seconds(&study(4), &times), 20.0 + 4.0 * (6.0 + 3.0) + 2.0 * (6.0 + 1.0 + 4.0) + 3.0);
    assert_ne!(plan(4).seconds(&study(4), &times), guessed);
    // What it does not know is guessed.
    let mut other = study(4);
    other.targets[0].get_mut().osds = Some(3);
    let plan = Plan::new(&other, false, &Filter::default(), &machine());
    assert_eq!(plan.seconds(&other, &times), plan.seconds(&other, &Times::default()));
}
