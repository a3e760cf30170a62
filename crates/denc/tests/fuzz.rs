//! The reader itself, driven at random over noise and over nested frames: lengths and counts are held to what there is.

#[path = "../../base/tests/fuzzing/mod.rs"]
mod fuzzing;

use base::Rng;
use denc::{ByteStr, Bytes, Decoder, Denc, DencError, Encoder};
use std::collections::{BTreeMap, BTreeSet};

/// Reads at random until something is refused, a few frames deep. What is read lies within the input.
fn wander(d: &mut Decoder, rng: &mut Rng, depth: u32) -> Result<(), DencError> {
    for _ in 0..rng.below(12) {
        let (at, left) = (d.position(), d.remaining());
        match rng.below(16) {
            0 => drop(d.u8()?),
            1 => drop(d.u32()?),
            2 => drop(d.u64()?),
            3 => assert!(d.blob()?.len() <= left),
            4 => drop(d.string()?),
            5 => drop(d.bytestr()?),
            6 => drop(d.get::<Vec<u64>>()?),
            7 => drop(d.get::<Vec<ByteStr>>()?),
            8 => drop(d.get::<BTreeMap<ByteStr, Bytes>>()?),
            9 => drop(d.get::<BTreeSet<u32>>()?),
            10 => drop(d.get::<Option<u64>>()?),
            11 => drop(d.get::<Vec<Vec<u8>>>()?),
            12 => d.skip(rng.u64() as usize >> rng.below(64))?,
            13 => drop(d.raw(rng.u64() as usize >> rng.below(64))?),
            _ if depth < 8 => d.frame("a frame", 3, |d, _| wander(d, rng, depth + 1))?,
            _ => d.sized(|d| wander(d, rng, 8))?,
        }
        assert!(d.position() >= at && d.position() - at + d.remaining() == left, "the reader left its bounds");
    }
    Ok(())
}

fn sample(e: &mut Encoder, rng: &mut Rng, depth: u32) {
    for _ in 0..rng.below(5) {
        match rng.below(6) {
            0 => e.u64(rng.u64()),
            1 => e.blob(b"a blob of bytes"),
            2 => vec![1u64, 2, 3].encode(e),
            3 => vec![ByteStr::from(Bytes::from_static(b"x")); 3].encode(e),
            _ if depth < 5 => e.frame(2, 1, |e| sample(e, rng, depth + 1)),
            _ => e.u8(1),
        }
    }
}

#[test]
fn fuzz_the_reader() {
    fuzzing::run("denc", 20_000, |rng| {
        let mut e = Encoder::new(0);
        sample(&mut e, rng, 0);
        let mut noise = vec![0; rng.below(100) as usize];
        rng.fill(&mut noise);
        let bytes = Bytes::from(fuzzing::damaged(rng, &e.finish(), &noise));
        let mut d = Decoder::new(bytes.clone());
        let _ = fuzzing::bounded("the reader", bytes.len(), 200, || wander(&mut d, rng, 0));
    });
}
