use super::*;
use std::collections::BTreeMap;

#[derive(Debug, PartialEq, Default)]
struct Sample {
    a: u32,
    b: String,
    c: u64,
}
denc_struct!(Sample, v 2, compat 1, { a, b, [since 2] c });

#[test]
fn a_frame_has_version_compat_and_length() {
    let bytes = Sample { a: 7, b: "xy".into(), c: 9 }.to_bytes(0);
    assert_eq!(bytes[..], [2, 1, 18, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, b'x', b'y', 9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Sample::from_bytes(&bytes).unwrap(), Sample { a: 7, b: "xy".into(), c: 9 });
}

#[test]
fn an_older_frame_takes_defaults_and_a_newer_tail_is_skipped() {
    let mut e = Encoder::new(0);
    e.frame(1, 1, |e| {
        e.u32(7);
        e.blob(b"xy");
    });
    e.frame(3, 1, |e| {
        e.u32(7);
        e.blob(b"xy");
        e.u64(9);
        e.u64(10);
    });
    e.u8(42);
    let mut d = Decoder::new(e.finish());
    assert_eq!(d.get::<Sample>().unwrap().c, 0);
    assert_eq!(d.get::<Sample>().unwrap().c, 9);
    assert_eq!(d.u8().unwrap(), 42);
}

#[test]
fn what_only_a_newer_release_can_read_is_refused() {
    let mut e = Encoder::new(0);
    e.frame(9, 3, |_| {});
    assert_eq!(Sample::from_bytes(&e.finish()), Err(DencError::Incompatible { what: "Sample", compat: 3, known: 2 }));
}

#[test]
fn a_frame_bounds_its_body() {
    // struct_len 0 and then bytes that a careless reader would take for the fields.
    let bytes = Bytes::from_static(&[2, 1, 0, 0, 0, 0, 7, 0, 0, 0]);
    assert!(matches!(Sample::from_bytes(&bytes), Err(DencError::Short { left: 0, .. })));
    // struct_len beyond the buffer.
    let bytes = Bytes::from_static(&[2, 1, 255, 255, 255, 255, 7, 0, 0, 0]);
    assert!(matches!(Sample::from_bytes(&bytes), Err(DencError::Short { .. })));
}

#[test]
fn a_huge_count_is_refused_before_anything_is_reserved() {
    let bytes = Bytes::from_static(&[255, 255, 255, 255, 1, 2]);
    assert!(matches!(Vec::<u64>::from_bytes(&bytes), Err(DencError::Count { count: 0xffff_ffff, left: 2, .. })));
    assert!(matches!(BTreeMap::<u64, u8>::from_bytes(&bytes), Err(DencError::Count { .. })));
}

#[test]
fn errors_name_the_place_in_the_outermost_buffer() {
    let bytes = Bytes::from_static(&[2, 1, 6, 0, 0, 0, 7, 0, 0, 0, 2, 0]);
    assert_eq!(Sample::from_bytes(&bytes), Err(DencError::Short { at: 10, want: 4, left: 2 }));
}
