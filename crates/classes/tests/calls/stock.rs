//! `rgw` beside a stock OSD's: the calls that `fixtures/rgw` has, with the same answers.

use crate::object::Object;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::path::Path;

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
    let (mut object, mut calls) = (Object::default(), 0);
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["object"] => object = Object::default(),
            ["header", header] => object.state.get_or_insert_default().header = bytes(header),
            ["entry", key, value] => {
                object.state.get_or_insert_default().omap.insert(bytes(key).into(), bytes(value));
            }
            ["call", method, input, errno, answer] => {
                let got = object.call("rgw", method, bytes(input)).map(|reply| reply.data);
                let expected = if errno == "0" { Ok(bytes(answer)) } else { Err(errno.parse().unwrap()) };
                assert_eq!(got, expected, "line {number}, {method}");
                calls += 1;
            }
            _ => panic!("line {number}"),
        }
    }
    assert!(calls > 500, "{calls}");
}
