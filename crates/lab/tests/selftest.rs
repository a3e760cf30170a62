//! The self-test's parts that need processes, on the fakes' own program.

use lab::selftest::{instrument, kills, lies};
use std::path::Path;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_lab-fake"))
}

#[test]
fn a_known_target_is_measured_as_it_is() {
    println!("{}", instrument::prove(program()).unwrap());
}

#[test]
fn lies_are_noticed_and_the_study_goes_on() {
    println!("{}", lies::prove(program()).unwrap());
}

#[test]
fn a_killed_lab_goes_on_and_leaves_nothing() {
    println!("{}", kills::prove(program(), 2).unwrap());
}
