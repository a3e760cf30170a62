//! `rgw` beside a stock OSD's: the calls that `fixtures/rgw` has, with the same answers.

use crate::object::Object;
use bytes::Bytes;
use classes::{BUILTIN, METHOD_WR};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use types::errno::{EIO, ENOENT};

fn bytes(hex: &str) -> Bytes {
    let digits = if hex == "-" { "" } else { hex };
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.as_bytes().chunks(2).map(byte).collect()
}

fn recorded() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/rgw/answers.txt")).unwrap()
}

/// Methods and their inputs, each input once.
pub fn inputs() -> BTreeSet<(String, Bytes)> {
    let call = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0] == "call").then(|| (words[1].to_string(), bytes(words[2])))
    };
    recorded().lines().filter_map(call).collect()
}

/// Keys and values of an index that a stock radosgw made.
pub fn entries() -> Vec<(Bytes, Bytes)> {
    let entry = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0] == "entry").then(|| (bytes(words[1]), bytes(words[2])))
    };
    recorded().lines().filter_map(entry).collect()
}

#[test]
fn an_index_is_read_and_written_as_by_stock() {
    let text = recorded();
    let (mut object, mut calls, mut stacked) = (Object::default(), 0, 0);
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["object"] => object = Object::default(),
            ["header", header] => object.state.get_or_insert_default().header = bytes(header),
            ["entry", key, value] => {
                object.state.get_or_insert_default().omap.insert(bytes(key).into(), bytes(value));
            }
            ["call", method, input, errno, answer] => {
                let before = object.clone();
                let got = object.call("rgw", method, bytes(input)).map(|reply| reply.data);
                calls += 1;
                if (method, errno, &got) == ("bucket_link_olh", "2", &Ok(Bytes::new())) {
                    // A delete marker on another: 18.2, which was recorded, refuses it, 20.2 does not.
                    (object, stacked) = (before, stacked + 1);
                    continue;
                }
                let expected = if errno == "0" { Ok(bytes(answer)) } else { Err(errno.parse().unwrap()) };
                assert_eq!(got, expected, "line {number}, {method}");
            }
            _ => panic!("line {number}"),
        }
    }
    assert!(calls > 500 && (1..10).contains(&stacked), "{calls} {stacked}");
}

/// An object that calls which make no sense are tried on, by its lines in `refused.txt`.
fn prepared(lines: &[&str]) -> Object {
    let mut object = Object::default();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["object"] => drop(object.state.get_or_insert_default()),
            ["header", header] => object.state.get_or_insert_default().header = bytes(header),
            ["entry", key, value] => {
                object.state.get_or_insert_default().omap.insert(bytes(key).into(), bytes(value));
            }
            ["do", method, input] => drop(object.call("rgw", method, bytes(input)).expect("it was answered with success")),
            _ => panic!("{line}"),
        }
    }
    object
}

/// What was recorded is 18.2's. 20.2's methods, as ours, look at an index' header first, to see whether it moves: where that is garbage, they say so.
const LOOKS_AT_THE_HEADER: [&str; 3] = ["bucket_prepare_op", "bucket_link_olh", "bucket_unlink_instance"];

#[test]
fn calls_that_make_no_sense_are_refused_as_by_stock() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/rgw/refused.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let (calls, states): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("call "));
    let kinds: BTreeMap<&str, Object> = states
        .chunk_by(|_, next| !next.starts_with("state "))
        .map(|lines| (lines[0].strip_prefix("state ").unwrap(), prepared(&lines[1..])))
        .collect();
    let mut refused = 0;
    for line in calls {
        let [_, kind, class, method, input, errno] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if (kind, class) == ("none", "rgw_gc") {
            // A queue's head is read; where there is no object an OSD gives no bytes of it, and the object of these tests an error.
            continue;
        }
        let mut object = kinds[kind].clone();
        // An OSD does not call what only reads where there is no object.
        let writes = BUILTIN.method(class.as_bytes(), method.as_bytes()).is_some_and(|m| m.flags & METHOD_WR != 0);
        let got = match object.state {
            None if !writes => ENOENT,
            _ => object.call(class, method, bytes(input)).map(|_| 0).unwrap_or_else(|errno| errno),
        };
        let looks_first = kind == "garbage" && LOOKS_AT_THE_HEADER.contains(&method) && got == EIO;
        assert!(looks_first || got == errno.parse::<i32>().unwrap(), "{line}: {got}");
        if got != 0 {
            assert_eq!(object.state, kinds[kind].state, "{line}");
            refused += 1;
        }
    }
    assert!(refused > 2000 && kinds.len() == 4, "{refused}");
}
