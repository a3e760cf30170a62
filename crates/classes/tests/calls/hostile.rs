//! No input and no content of an object makes a method panic or take much memory; what a method may do, its flags say.

use crate::fuzzing::{self, bounded, damaged, pick};
use crate::object::{Object, State};
use base::Rng;
use bytes::Bytes;
use classes::{BUILTIN, METHOD_WR, Method, ObjectView};
use std::collections::BTreeMap;
use std::path::Path;

/// Calls that clients' own tests made (`fixtures/classes`, whose README says where they are from): class, method, input.
fn recorded() -> Vec<(String, String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/classes/calls.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let call = |line: &str| {
        let mut words = line.split(' ');
        let (class, method, hex) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
        (class.into(), method.into(), hex.as_bytes().chunks(2).map(byte).collect())
    };
    text.lines().map(call).chain(of_rgw()).collect()
}

/// The calls of `rgw` that a stock OSD was asked for, and some of the classes beside it.
fn of_rgw() -> Vec<(String, String, Vec<u8>)> {
    let own = |(class, method, input): (&str, &str, Bytes)| (class.into(), method.into(), input.to_vec());
    let of_stock = crate::stock::inputs().into_iter().map(|(method, input)| ("rgw".into(), method, input.to_vec()));
    of_stock.chain(crate::rgw_rest::samples().into_iter().map(own)).collect()
}

fn methods() -> Vec<(&'static str, &'static Method)> {
    BUILTIN.classes().iter().flat_map(|c| c.families.iter().copied().flatten().map(|m| (c.name, m))).collect()
}

/// One value of the object's, damaged.
fn spoil(rng: &mut Rng, state: &mut State) {
    let other = state.data.clone();
    let mut values: Vec<&mut Bytes> = state.attrs.values_mut().chain(state.omap.values_mut()).chain([&mut state.header]).collect();
    match values.len() as u64 {
        n if rng.chance(2, 3) => {
            let value = &mut values[rng.below(n) as usize];
            **value = damaged(rng, value, &other).into();
        }
        _ => {
            state.data = damaged(rng, &other, &other);
            state.data.truncate(1 << 16);
        }
    }
}

/// Objects that grow under recorded calls, now and then damaged; what comes next is damaged, too.
#[test]
fn fuzz_the_methods() {
    let recorded = recorded();
    let mut of_class: BTreeMap<&str, Vec<&(String, String, Vec<u8>)>> = BTreeMap::new();
    for call in &recorded {
        of_class.entry(&call.0).or_default().push(call);
    }
    let classes: Vec<&str> = of_class.keys().copied().collect();
    let methods = methods();
    fuzzing::run("classes", 3_000, |rng| {
        let class: &str = classes[rng.below(classes.len() as u64) as usize];
        let mut object = Object::default();
        for _ in 0..rng.below(30) {
            let (_, method, sample) = *pick(rng, &of_class[class]);
            let (_, _, other) = pick(rng, &recorded);
            let input = if rng.chance(1, 2) { sample.clone() } else { damaged(rng, sample, other) };
            // Some methods get another's input.
            let method = if rng.chance(1, 8) { pick(rng, &methods).1.name } else { method };
            let Some(found) = BUILTIN.method(class.as_bytes(), method.as_bytes()) else { continue };
            let held = object.state.as_ref().map_or(0, |s| {
                let value = |(key, value): (&types::ByteStr, &Bytes)| key.len() + value.len() + 100;
                s.data.len() + s.attrs.iter().chain(&s.omap).map(value).sum::<usize>()
            });
            // Queues and appends write where they were told to: an object in memory has its holes, too.
            let what = format!("{class}.{method}");
            bounded(&what, input.len() + held + (8 << 20), 60, || drop(object.call(class, found.name, input)));
            if let Some(state) = object.state.as_mut()
                && rng.chance(1, 4)
            {
                spoil(rng, state);
            }
        }
    });
}

/// Methods that may not write, don't: on any object that recorded calls make.
#[test]
fn methods_that_only_read_write_nothing() {
    let mut objects: BTreeMap<String, Object> = BTreeMap::new();
    let mut calls = 0;
    for (class, method, input) in recorded() {
        let object = objects.entry(class.clone()).or_default();
        let found = BUILTIN.method(class.as_bytes(), method.as_bytes()).unwrap_or_else(|| panic!("{class}.{method}"));
        let writes_before = object.writes;
        let _ = object.call(&class, &method, input);
        // One of them is there to break its word.
        if found.flags & METHOD_WR == 0 && found.name != "bad_writer" {
            assert_eq!(object.writes, writes_before, "{class}.{method}");
            calls += 1;
        }
    }
    assert!(calls > 100);
}

#[test]
fn names_are_unique_and_flags_say_something() {
    let mut seen = std::collections::BTreeSet::new();
    for (class, method) in methods() {
        assert!(seen.insert((class, method.name)), "{class}.{} twice", method.name);
        assert!(method.flags != 0, "{class}.{}", method.name);
    }
    assert!(Object::default().stat().is_err());
}
