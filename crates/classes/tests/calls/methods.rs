//! The methods that stock's class objects register, by release: each is here, with the same flags.
//!
//! The tables were made by loading every `libcls_*.so` of the release under a program that has `cls_register` and `cls_register_cxx_method`,
//! and noting what they were called with: class, method, flags (1 reads, 2 writes, 8 promotes). Class `lua`, which no default list names, is
//! left out; `fifo`'s object does not load so, and its rows are from its source.

use classes::BUILTIN;
use std::collections::BTreeSet;

const OF_18_2: &str = include_str!("methods-18.2.txt");
const OF_20_2: &str = include_str!("methods-20.2.txt");

fn table(text: &str) -> impl Iterator<Item = (&str, &str, u8)> {
    text.lines().map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        [class, method, flags] => (class, method, flags.parse().unwrap()),
        _ => panic!("{line}"),
    })
}

#[test]
fn every_method_of_stocks_classes_is_here() {
    for (release, text) in [("18.2", OF_18_2), ("20.2", OF_20_2)] {
        let mut methods = 0;
        for (class, method, flags) in table(text) {
            let ours = BUILTIN.method(class.as_bytes(), method.as_bytes());
            assert_eq!(ours.map(|ours| ours.flags), Some(flags), "{class}.{method} of {release}");
            methods += 1;
        }
        assert!(methods > 270, "{methods}");
    }
}

#[test]
fn no_method_is_of_no_release() {
    let known: BTreeSet<(&str, &str)> = table(OF_18_2).chain(table(OF_20_2)).map(|(class, method, _)| (class, method)).collect();
    for class in BUILTIN.classes() {
        for method in class.families.iter().copied().flatten() {
            assert!(known.contains(&(class.name, method.name)), "{}.{}", class.name, method.name);
        }
    }
}
