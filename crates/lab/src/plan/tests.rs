//! Plans of small studies.

use super::{Machine, Plan};
use crate::study::Study;
use crate::value::Filter;

fn cells(text: &str, quick: bool) -> Vec<String> {
    let study = Study::parse("t", text).unwrap();
    let machine = Machine { memory_bytes: 1 << 40, lacks: Box::new(|_, _, _| None) };
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
