//! What clients may ask for: numbers beyond every bound are refused, and no request, however it is made, takes much time or memory of an
//! OSD or keeps others from their answers.

#[path = "../../base/tests/fuzzing/mod.rs"]
mod fuzzing;
mod world;

use base::Rng;
use bytes::Bytes;
use denc::Denc;
use disk::MemDisks;
use fuzzing::peak_of;
use messages::osd_client::backoff_op;
use messages::{InOp, MOSDAlive, MOSDBackoff, MOSDOpReply};
use std::collections::BTreeMap;
use std::time::Duration;
use store::{AttrsMax, ObjectStore};
use store_block::{BlockStore, Config};
use types::errno::*;
use types::osd_op::*;
use types::{ByteStr, CEPH_MAXSNAP, CEPH_NOSNAP, OsdOp, SnapContext};
use world::{Kind, POOL, World, watch, write_full};

const MAX: u64 = 128 << 20;
/// Requests that wait for a group to serve.
const WAITING_MAX: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Memory,
    Block,
}
const BOTH: [On; 2] = [On::Memory, On::Block];

fn world(on: On) -> World {
    let store: Box<dyn ObjectStore> = match on {
        On::Memory => Box::new(store_mem::MemStore::new(1 << 30)),
        On::Block => {
            let disks = MemDisks::new(&[256 << 20, 64 << 20, 128 << 20]);
            BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
            Box::new(BlockStore::open(Config { memory: 64 << 20, ..Config::default() }, Box::new(disks)).expect("it opens"))
        }
    };
    World::over(store, 1)
}

fn with(op: OsdOp, data: impl Into<Bytes>) -> InOp {
    InOp::new(op, data.into())
}
fn extent(code: OpCode, offset: u64, length: u64) -> InOp {
    with(OsdOp::range(code, offset, length), Bytes::new())
}
fn put(code: OpCode, offset: u64, data: &'static [u8]) -> InOp {
    with(OsdOp::range(code, offset, data.len() as u64), data)
}
fn truncating(code: OpCode, offset: u64, data: &'static [u8], truncate_size: u64, truncate_seq: u32) -> InOp {
    with(OsdOp::with_extent(code, Extent { offset, length: data.len() as u64, truncate_size, truncate_seq }), data)
}
fn xattr(code: OpCode, name: &[u8], value: &[u8]) -> InOp {
    let args = XattrArgs { name_len: name.len() as u32, value_len: value.len() as u32, cmp_op: 0, cmp_mode: 0 };
    with(OsdOp::with_xattr(code, args), [name, value].concat())
}
fn encoded(code: OpCode, value: &impl Denc) -> InOp {
    with(OsdOp::new(code), value.to_bytes(0))
}
fn may_fail(mut op: InOp) -> InOp {
    op.op.flags |= op_flag::FAILOK;
    op
}
fn call(class: &str, method: &str, input: &[u8]) -> InOp {
    let args = CallArgs { class_len: class.len() as u8, method_len: method.len() as u8, argc: 0, indata_len: input.len() as u32 };
    with(OsdOp::with_call(OpCode::CALL, args), [class.as_bytes(), method.as_bytes(), input].concat())
}

/// The answer to one request of the bad client, with a bound on what it takes.
fn bounded(w: &mut World, name: &str, ops: Vec<InOp>, bytes: usize) -> MOSDOpReply {
    let what = format!("{:?}", ops.iter().take(4).map(|o| o.op).collect::<Vec<_>>());
    let (peak, reply) = peak_of(|| w.one(name, ops));
    assert!(peak <= bytes, "{what} took {peak} bytes of memory");
    reply
}
/// A good client's: written and read as if there were no other.
fn good(w: &mut World, round: u64) {
    let data = [round as u8; 100];
    assert_eq!(w.write("good", &data).result, 0);
    assert_eq!(w.read("good").unwrap(), data);
}

#[test]
fn three_small_requests_that_hung_an_osd() {
    for on in BOTH {
        let mut w = world(on);
        assert_eq!(w.one("o", vec![put(OpCode::WRITE, 0, b"abcd")]).result, 0);
        let reply = bounded(&mut w, "o", vec![truncating(OpCode::WRITE, 0, b"A", 1 << 46, 5)], 1 << 20);
        assert_eq!(reply.result, -EFBIG, "{on:?}");
        let (peak, data) = peak_of(|| w.read("o").unwrap());
        assert_eq!((&data[..], peak < 1 << 20), (&b"abcd"[..], true), "{on:?}");
        // A truncate that makes it shorter, or longer within the bound, is heeded.
        assert_eq!(w.one("o", vec![truncating(OpCode::WRITE, 0, b"A", 2, 5)]).result, 0);
        assert_eq!(w.read("o").unwrap(), b"Ab");
        assert_eq!(w.one("o", vec![truncating(OpCode::WRITE, 0, b"B", MAX, 6)]).result, 0);
        let reply = w.one("o", vec![extent(OpCode::STAT, 0, 0)]);
        assert_eq!(u64::from_bytes(&reply.ops[0].outdata.slice(..8)), Ok(MAX), "{on:?}");
        good(&mut w, 1);
    }
}

/// One request each, on an object of four bytes: what it is answered.
#[test]
fn numbers_beyond_their_bounds() {
    let same =
        |offset, length, data_length| with(OsdOp::with_writesame(OpCode::WRITESAME, WriteSameArgs { offset, length, data_length }), "xy");
    let sum = |length, chunk_size| {
        with(
            OsdOp::with_checksum(OpCode::CHECKSUM, ChecksumArgs { offset: 0, length, chunk_size, kind: checksum_kind::CRC32C }),
            vec![0; 4],
        )
    };
    let named = |len: usize| xattr(OpCode::SETXATTR, &vec![b'n'; len], b"v");
    let keyed =
        |len: usize| BTreeMap::from([(ByteStr::from("a"), Bytes::new()), (ByteStr::from(vec![b'k'; len]), Bytes::from_static(b"v"))]);
    let lengths = XattrArgs { name_len: u32::MAX, value_len: u32::MAX, cmp_op: 1, cmp_mode: 1 };
    let notify = |timeout: u32, len: usize| {
        with(OsdOp::with_notify(OpCode::NOTIFY, NotifyArgs { cookie: 1 }), (0_u32, (timeout, Bytes::from(vec![0; len]))).to_bytes(0))
    };
    let cases: Vec<(&str, InOp, i32)> = vec![
        ("write at the end", put(OpCode::WRITE, MAX, b"x"), EFBIG),
        ("write over the end", put(OpCode::WRITE, MAX - 1, b"xy"), EFBIG),
        ("write to the end", put(OpCode::WRITE, MAX - 1, b"x"), 0),
        ("write at the end of numbers", put(OpCode::WRITE, u64::MAX, b"x"), EFBIG),
        ("a length that is not the data's", with(OsdOp::range(OpCode::WRITE, 0, u64::MAX), "x"), EINVAL),
        ("truncate_size of a write", truncating(OpCode::WRITE, 0, b"x", MAX + 1, 9), EFBIG),
        ("the largest truncate_size", truncating(OpCode::WRITE, 0, b"x", u64::MAX, u32::MAX), EFBIG),
        ("zero at the end of numbers", extent(OpCode::ZERO, u64::MAX, u64::MAX), EFBIG),
        ("zero of all numbers", extent(OpCode::ZERO, 0, u64::MAX), EFBIG),
        ("truncate", extent(OpCode::TRUNCATE, MAX, 0), EFBIG),
        ("truncate, another size", truncating(OpCode::TRUNCATE, 5, b"", 6, 3), EINVAL),
        ("trimtrunc", truncating(OpCode::TRIMTRUNC, 0, b"", 1 << 46, 3), EFBIG),
        ("writesame", same(0, MAX + 2, 2), EFBIG),
        ("writesame at the end of numbers", same(u64::MAX - 1, 2, 2), EFBIG),
        ("writesame of other data", same(0, u64::MAX, u64::MAX), EINVAL),
        ("append", put(OpCode::APPEND, 0, b"x"), 0),
        ("read of all numbers", extent(OpCode::READ, 0, u64::MAX), 0),
        ("read behind all numbers", extent(OpCode::READ, u64::MAX, u64::MAX), 0),
        ("sparse read", extent(OpCode::SPARSE_READ, 1, u64::MAX), 0),
        ("mapext", extent(OpCode::MAPEXT, 1, u64::MAX), 0),
        ("cmpext", with(OsdOp::range(OpCode::CMPEXT, 0, u64::MAX), "abcd"), 0),
        ("checksum of chunks of nothing", sum(0, 1), EINVAL),
        ("checksum in parts", sum(u64::MAX, 4), EINVAL),
        (
            "alloc hint",
            with(
                OsdOp::with_alloc_hint(
                    OpCode::SETALLOCHINT,
                    AllocHintArgs { expected_object_size: u64::MAX, expected_write_size: u64::MAX, flags: u32::MAX },
                ),
                "",
            ),
            0,
        ),
        ("an attribute's name", named(101), ENAMETOOLONG),
        ("an attribute's longest name", named(100), 0),
        ("an attribute", xattr(OpCode::SETXATTR, b"a", &vec![1; AttrsMax::default().one + 1]), EFBIG),
        ("the longest attribute", xattr(OpCode::SETXATTR, b"a", &vec![1; AttrsMax::default().one]), 0),
        ("lengths that are not there", with(OsdOp::with_xattr(OpCode::SETXATTR, lengths), "x"), ENAMETOOLONG),
        ("a name that is not there", with(OsdOp::with_xattr(OpCode::CMPXATTR, lengths), "x"), EINVAL),
        ("keys without end", encoded(OpCode::OMAPGETKEYS, &(ByteStr::new(), u64::MAX)), 0),
        ("values without end", encoded(OpCode::OMAPGETVALS, &(ByteStr::new(), (u64::MAX, ByteStr::new()))), 0),
        ("a count that is not there", encoded(OpCode::OMAPSETVALS, &u32::MAX), EINVAL),
        ("an omap key", encoded(OpCode::OMAPSETVALS, &keyed(4097)), EINVAL),
        ("the longest omap key", encoded(OpCode::OMAPSETVALS, &keyed(4096)), 0),
        ("an omap key of a class", call("numops", "add", &(ByteStr::from(vec![b'k'; 4097]), ByteStr::from("1")).to_bytes(0)), EINVAL),
        ("the longest omap key of a class", call("numops", "add", &(ByteStr::from(vec![b'k'; 4096]), ByteStr::from("1")).to_bytes(0)), 0),
        ("keys that are not there", encoded(OpCode::OMAPGETVALSBYKEYS, &u32::MAX), EINVAL),
        ("rollback", with(OsdOp::with_snap(OpCode::ROLLBACK, SnapArgs { snapid: u64::MAX }), ""), 0),
        ("a version", with(OsdOp::with_assert_ver(OpCode::ASSERT_VER, AssertVerArgs { unused: 0, ver: u64::MAX }), ""), EOVERFLOW),
        ("copy-get", encoded(OpCode::COPY_GET, &(types::CopyCursor::default(), u64::MAX)), 0),
        ("notify for ever", notify(u32::MAX, 1), 0),
        ("notify of much", notify(1, (8 << 20) + 1), EMSGSIZE),
        ("an object map", call("rbd", "object_map_resize", &(u64::MAX, 1_u8).to_bytes(0)), EINVAL),
        ("a queue", call("queue", "queue_init", &u64::MAX.to_bytes(0)), EINVAL),
        ("a unit of nothing", call("rbd", "sparsify", &(0_u64, false).to_bytes(0)), EINVAL),
    ];
    for on in BOTH {
        for (what, op, errno) in &cases {
            let mut w = world(on);
            assert_eq!(w.one("o", vec![put(OpCode::WRITE, 0, b"abcd")]).result, 0);
            let reply = bounded(&mut w, "o", vec![op.clone()], 40 << 20);
            assert_eq!(reply.result.min(0), -errno, "{what} on {on:?}");
            if *errno != 0 {
                assert_eq!(w.read("o").unwrap(), b"abcd", "{what} on {on:?}");
            }
            good(&mut w, 7);
        }
    }
}

#[test]
fn attributes_of_an_object_are_bounded_together() {
    for on in BOTH {
        let (mut w, max) = (world(on), AttrsMax::default());
        let value = vec![3; max.one];
        let name = |n: usize| format!("attr-{n}").into_bytes();
        let set: Vec<i32> =
            (0..max.all / max.one + 2).map(|n| w.one("o", vec![xattr(OpCode::SETXATTR, &name(n), &value)]).result).collect();
        let taken = set.iter().filter(|result| **result == 0).count();
        assert_eq!(taken, max.all / max.one - 1, "{on:?}: {set:?}");
        assert!(set[taken..].iter().all(|result| *result == -EFBIG));
        // One that is there may be written again; one that goes makes room, in the same request, too.
        assert_eq!(w.one("o", vec![xattr(OpCode::SETXATTR, &name(0), &value)]).result, 0);
        let ops = vec![xattr(OpCode::RMXATTR, &name(0), b""), xattr(OpCode::SETXATTR, &name(99), &value)];
        assert_eq!(w.one("o", ops).result, 0);
        let ops = vec![xattr(OpCode::SETXATTR, &name(100), &value[..9]), xattr(OpCode::SETXATTR, &name(101), &value)];
        assert_eq!(w.one("o", ops).result, -EFBIG);
        assert_eq!(w.one("o", vec![xattr(OpCode::GETXATTR, &name(100), b"")]).result, -ENODATA);
        let ops = vec![extent(OpCode::DELETE, 0, 0), xattr(OpCode::SETXATTR, &name(0), &value)];
        assert_eq!(w.one("o", ops).result, 0);
    }
}

#[test]
fn what_the_operations_of_one_message_cost_is_bounded_together() {
    for on in BOTH {
        let mut w = world(on);
        assert_eq!(w.write("o", &vec![1; 4 << 20]).result, 0);
        let many = |op: InOp, n| vec![may_fail(op); n];
        let read = extent(OpCode::READ, 0, 0);
        let sparse = extent(OpCode::SPARSE_READ, 0, 4 << 20);
        let whole = with(
            OsdOp::with_checksum(OpCode::CHECKSUM, ChecksumArgs { kind: checksum_kind::CRC32C, ..ChecksumArgs::default() }),
            vec![0; 4],
        );
        let same = with(OsdOp::with_writesame(OpCode::WRITESAME, WriteSameArgs { offset: 0, length: 4 << 20, data_length: 1 }), "x");
        let resize = call("rbd", "object_map_resize", &(256_000_000_u64, 1_u8).to_bytes(0));
        for (what, ops) in [
            ("reads", many(read, 1000)),
            ("sparse reads", many(sparse, 1000)),
            ("checksums", many(whole, 1000)),
            ("the same bytes", many(same, 1000)),
            ("object maps", many(resize, 1000)),
        ] {
            let reply = bounded(&mut w, "o", ops, 420 << 20);
            assert_eq!(reply.result, -EMSGSIZE, "{what} on {on:?}");
        }
        assert_eq!(w.read("o").unwrap(), vec![1; 4 << 20]);
        assert_eq!(w.one("o", many(watch(watch_op::PING, 1), 8193)).result, -E2BIG);
        good(&mut w, 3);
    }
}

/// Keys that a message sets and reads, over and over: what it reads was there before it, however much it changes, and each page is looked for
/// from its start.
#[test]
fn pages_beside_what_the_message_itself_set() {
    let mut w = world(On::Memory);
    let pairs: BTreeMap<ByteStr, Bytes> = (0..100_000).map(|n| (format!("{n:06}").into_bytes().into(), Bytes::new())).collect();
    let set = || encoded(OpCode::OMAPSETVALS, &pairs);
    assert_eq!(w.one("o", vec![set()]).result, 0);
    let page = || encoded(OpCode::OMAPGETKEYS, &(ByteStr::from("099990"), 1_u64));
    // What this machine needs to go through all keys, as each of the 4,000 once did: 400 million steps.
    let begun = cpu();
    let walked: usize = (0..50).map(|_| pairs.keys().map(|key| std::hint::black_box(key).len()).sum::<usize>()).sum();
    let walks_4000 = (cpu() - begun) * 80;
    assert_eq!(walked, 50 * 600_000);
    let ranges = (0..2_000).map(|_| encoded(OpCode::OMAPRMKEYRANGE, &(ByteStr::from("x"), ByteStr::from("y"))));
    let ops = std::iter::once(set()).chain(ranges).chain((0..4_000).map(|_| page())).collect();
    let begun = cpu();
    assert_eq!(w.one("o", ops).result, 0);
    let took = cpu() - begun;
    assert!(took <= walks_4000, "{took:?} of a processor, and {walks_4000:?} are allowed");
    good(&mut w, 3);
}

#[test]
fn large_values_come_in_pages() {
    for on in BOTH {
        let mut w = world(on);
        let value = Bytes::from(vec![7; 1 << 20]);
        for n in 0..20_u32 {
            let pairs = BTreeMap::from([(ByteStr::from(format!("key-{n:02}").into_bytes()), value.clone())]);
            assert_eq!(w.one("o", vec![encoded(OpCode::OMAPSETVALS, &pairs)]).result, 0);
        }
        let page = |after: &[u8]| encoded(OpCode::OMAPGETVALS, &(ByteStr::from(after), (1000_u64, ByteStr::new())));
        // Pages of some MiB: a store can't always have all of it in memory at a time.
        let (mut after, mut keys, mut pages) = (Vec::new(), 0, 0);
        loop {
            let reply = bounded(&mut w, "o", vec![page(&after)], 60 << 20);
            let out = &reply.ops[0].outdata;
            assert!(reply.result == 0 && out.len() < 6 << 20, "{on:?}");
            let pairs: BTreeMap<ByteStr, Bytes> = Denc::from_bytes(&out.slice(..out.len() - 1)).expect("pairs before the flag");
            (keys, pages) = (keys + pairs.len(), pages + 1);
            after = pairs.last_key_value().expect("each page has one").0.as_slice().to_vec();
            if out.last() == Some(&0) {
                break;
            }
        }
        assert_eq!((keys, pages), (20, 5), "{on:?}");
        // As many in one message as one answer may hold.
        let many: Vec<InOp> = (0..100).map(|_| page(b"")).collect();
        assert_eq!(bounded(&mut w, "o", many, 700 << 20).result, -EMSGSIZE, "{on:?}");
        good(&mut w, 1);
    }
}

#[test]
fn a_failed_request_leaves_no_data_in_the_log() {
    let mut w = world(On::Memory);
    assert_eq!(w.write("o", &vec![1; 4 << 20]).result, 0);
    let (held, result) = {
        let before = fuzzing::live();
        for _ in 0..20 {
            let args = XattrArgs { name_len: 1, value_len: 1, cmp_op: cmp_op::EQ, cmp_mode: cmp_mode::STRING };
            let wrong = with(OsdOp::with_xattr(OpCode::CMPXATTR, args), "nv");
            assert_eq!(w.one("o", vec![extent(OpCode::READ, 0, 0), put(OpCode::WRITE, 0, b"x"), wrong]).result, -ECANCELED);
        }
        w.out.clear();
        (fuzzing::live() - before, w.read("o").unwrap().len())
    };
    assert!(held < 2 << 20, "{held} bytes are kept");
    assert_eq!(result, 4 << 20);
}
#[test]
fn a_snapshot_context_has_numbers_of_snapshots() {
    for on in BOTH {
        let mut w = world(on);
        assert_eq!(w.write("o", b"1").result, 0);
        for seq in [CEPH_NOSNAP, u64::MAX] {
            let mut m = w.request("o", vec![write_full(b"2")]);
            m.snapc = SnapContext { seq, snaps: vec![seq] };
            assert_eq!(w.send(1, &m)[0].result, -EINVAL, "{seq:#x}");
        }
        let mut m = w.request("o", vec![write_full(b"2")]);
        m.snapc = SnapContext { seq: CEPH_MAXSNAP, snaps: (1..=70_000).rev().collect() };
        assert_eq!(w.send(1, &m)[0].result, -E2BIG);
        assert_eq!(w.read("o").unwrap(), b"1");
        let mut m = w.request("o", vec![write_full(b"2")]);
        m.snapc = SnapContext { seq: CEPH_MAXSNAP, snaps: vec![CEPH_MAXSNAP] };
        assert_eq!(w.send(1, &m)[0].result, 0);
        assert_eq!(w.read("o").unwrap(), b"2");
    }
}

#[test]
fn watchers_of_an_object_are_counted() {
    let mut w = world(On::Memory);
    assert_eq!(w.write("o", b"1").result, 0);
    let ops = |from: u64, n: u64| (from..from + n).map(|cookie| watch(watch_op::WATCH, cookie)).collect::<Vec<_>>();
    assert_eq!(w.one("o", ops(0, 4096)).result, 0);
    assert_eq!(w.one("o", ops(5000, 1)).result, -EUSERS);
    assert_eq!(w.one("o", ops(7, 1)).result, 0, "one that is there comes again");
    assert_eq!(w.one("o", vec![watch(watch_op::UNWATCH, 7), watch(watch_op::WATCH, 5000)]).result, 0);
}

/// A notify is answered at once and kept until its watchers have answered: what a client has under way is bounded, and others' still pass.
#[test]
fn notifies_under_way_are_bounded() {
    let mut w = world(On::Memory);
    assert_eq!(w.write("o", b"1").result, 0);
    assert_eq!(w.one("o", vec![watch(watch_op::WATCH, 7)]).result, 0);
    let notify = |len: usize| {
        with(OsdOp::with_notify(OpCode::NOTIFY, NotifyArgs { cookie: 1 }), (0_u32, (10_u32, Bytes::from(vec![0; len]))).to_bytes(0))
    };
    let many = |w: &mut World, len| -> usize {
        let result = |_| {
            let result = w.one("o", vec![notify(len)]).result;
            w.out.clear();
            result
        };
        let results: Vec<i32> = (0..200).map(result).collect();
        let taken = results.iter().filter(|result| **result == 0).count();
        assert!(results[taken..].iter().all(|result| *result == -EBUSY), "{results:?}");
        taken
    };
    let before = fuzzing::live();
    let taken = many(&mut w, 1 << 20);
    let held = fuzzing::live() - before;
    assert!((16..64).contains(&taken) && held < 80 << 20, "{taken} are under way and hold {held} bytes");
    // As many in one request come to the same.
    assert_eq!(w.one("o", vec![notify(1 << 20); 2]).result, -EBUSY);
    // Another's pass; and whatever is under way, some small ones.
    w.connect(2, 5002);
    for len in [4096, 1 << 20] {
        let m = w.request("o", vec![notify(len)]);
        assert_eq!(w.send(2, &m)[0].result, 0, "{len}");
    }
    good(&mut w, 1);
    // They end with their time.
    w.now_s += 11;
    w.feed(osd_core::Event::Tick);
    w.out.clear();
    assert_eq!(many(&mut w, 1 << 20), taken);
}

/// A number that lengths, counts and places are wrong with.
fn number(rng: &mut Rng) -> u64 {
    const EDGES: [u64; 16] =
        [0, 1, 2, 4, 4095, 4096, 65_536, 1 << 20, MAX - 1, MAX, MAX + 1, 1 << 32, 1 << 46, 1 << 62, i64::MAX as u64, u64::MAX];
    match rng.below(4) {
        0 => rng.below(64),
        1 => rng.u64(),
        _ => EDGES[rng.below(EDGES.len() as u64) as usize].wrapping_add(rng.below(3)).wrapping_sub(1),
    }
}

/// Calls of classes that clients made (`fixtures/classes`).
fn recorded() -> Vec<(String, String, Vec<u8>)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/classes/calls.txt");
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let read = |line: &str| {
        let mut words = line.split(' ');
        let (class, method, hex) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
        (class.to_string(), method.to_string(), hex.as_bytes().chunks(2).map(byte).collect())
    };
    std::fs::read_to_string(path).unwrap().lines().map(read).collect()
}

/// An operation of any code with any arguments.
fn drawn(rng: &mut Rng, calls: &[(String, String, Vec<u8>)]) -> InOp {
    let code = *fuzzing::pick(rng, OpCode::ALL);
    let key = |rng: &mut Rng| ByteStr::from(format!("k{}", rng.below(20)).into_bytes());
    let mut data = vec![0; rng.below(64) as usize];
    rng.fill(&mut data);
    let bytes: Bytes = data.into();
    let mut op = OsdOp::new(code);
    let mut indata = bytes.clone();
    match code {
        OpCode::CALL => {
            let (class, method, sample) = fuzzing::pick(rng, calls);
            let (_, _, other) = fuzzing::pick(rng, calls);
            let input = if rng.chance(1, 3) { sample.clone() } else { fuzzing::damaged(rng, sample, other) };
            return call(class, method, &input);
        }
        OpCode::SETXATTR | OpCode::GETXATTR | OpCode::CMPXATTR | OpCode::RMXATTR => {
            let wrong = rng.chance(1, 4);
            let (name, value) = if wrong { (number(rng) as u32, number(rng) as u32) } else { (2, indata.len() as u32) };
            let args = XattrArgs { name_len: name, value_len: value, cmp_op: rng.below(8) as u8, cmp_mode: rng.below(4) as u8 };
            op = OsdOp::with_xattr(code, args);
            indata = [key(rng).as_slice(), &bytes].concat().into();
        }
        OpCode::OMAPSETVALS => indata = BTreeMap::from([(key(rng), bytes.clone()), (key(rng), bytes.clone())]).to_bytes(0),
        OpCode::OMAPGETKEYS => indata = (key(rng), number(rng)).to_bytes(0),
        OpCode::OMAPGETVALS => indata = (key(rng), (number(rng), ByteStr::new())).to_bytes(0),
        OpCode::OMAPGETVALSBYKEYS | OpCode::OMAPRMKEYS => indata = vec![key(rng), key(rng)].to_bytes(0),
        OpCode::OMAPRMKEYRANGE => indata = (key(rng), key(rng)).to_bytes(0),
        OpCode::NOTIFY => indata = (0_u32, (number(rng) as u32, bytes.clone())).to_bytes(0),
        OpCode::WATCH => {
            let kind = *fuzzing::pick(rng, &[0, 1, 3, 5, 7]);
            let args = WatchArgs { cookie: rng.below(5), ver: 0, op: kind, generation: 0, timeout_s: number(rng) as u32 };
            op = OsdOp::with_watch(code, args);
        }
        OpCode::COPY_GET => indata = (types::CopyCursor::default(), number(rng)).to_bytes(0),
        OpCode::WRITESAME => {
            let n = if rng.chance(1, 4) { number(rng) } else { indata.len() as u64 };
            let length = if rng.chance(1, 2) { n.saturating_mul(1 + rng.below(1000)) } else { number(rng) };
            op = OsdOp::with_writesame(code, WriteSameArgs { offset: number(rng), length, data_length: n });
        }
        OpCode::CHECKSUM => {
            let args = ChecksumArgs { offset: number(rng), length: number(rng), chunk_size: number(rng) as u32, kind: rng.below(4) as u8 };
            op = OsdOp::with_checksum(code, args);
        }
        _ => {
            let length = if rng.chance(2, 3) { indata.len() as u64 } else { number(rng) };
            let (truncate_size, truncate_seq) = if rng.chance(1, 3) { (number(rng), number(rng) as u32) } else { (0, 0) };
            op = OsdOp::with_extent(code, Extent { offset: number(rng), length, truncate_size, truncate_seq });
        }
    }
    if rng.chance(1, 12) {
        rng.fill(&mut op.args);
    }
    if rng.chance(1, 8) {
        indata = fuzzing::damaged(rng, &indata, b"other").into();
    }
    op.flags = if rng.chance(1, 2) { op_flag::FAILOK } else { rng.u64() as u32 & 0x1ff };
    with(op, indata)
}

/// Processor time of this thread so far: what a busy machine does besides doesn't count.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}
/// A good client is answered within a second, whatever another has asked for before.
const ANSWERED: Duration = Duration::from_secs(1);

/// Any operation with any arguments, on both stores, in vectors; a good client's requests between them are answered at once.
#[test]
fn fuzz_the_operations() {
    let calls = recorded();
    let mut worlds = BOTH.map(|on| (on, world(on), 0_u64));
    let (mut round, mut succeeded, mut slowest) = (0, 0_u64, Duration::ZERO);
    fuzzing::run("operations", 2_500, |rng| {
        round += 1;
        for (on, w, requests) in &mut worlds {
            *requests += 1;
            // Objects grow to their limits: now and then one begins anew, and the store with them.
            if *requests % 400 == 0 {
                *w = world(*on);
            }
            let rng = &mut Rng::new(rng.clone().u64());
            let ops: Vec<InOp> = (0..1 + rng.below(6)).map(|_| drawn(rng, &calls)).collect();
            let name = format!("o{}", rng.below(4));
            let mut m = w.request(&name, ops);
            if rng.chance(1, 4) {
                let seq = number(rng);
                m.snapc = SnapContext { seq, snaps: if rng.chance(3, 4) { vec![seq] } else { vec![number(rng), number(rng)] } };
            }
            if rng.chance(1, 8) {
                m.hobj.snap = number(rng);
            }
            if rng.chance(1, 2) {
                m.flags |= osd_flag::FULL_TRY;
            }
            m.flags |= if rng.chance(1, 4) { osd_flag::RETURNVEC } else { 0 };
            let shown = format!("{on:?} {name}@{:x} {:?} {:?}", m.hobj.snap, m.snapc, m.ops);
            let begun = cpu();
            let (peak, replies) = peak_of(|| w.send(1, &m));
            w.out.clear();
            succeeded += u64::from(replies.first().is_some_and(|reply| reply.result >= 0));
            assert!(replies.len() <= 1, "{shown}");
            assert!(peak < 900 << 20, "{shown}: {peak} bytes of memory");
            good(w, round);
            let took = cpu() - begun;
            slowest = slowest.max(took);
            assert!(took < ANSWERED, "{shown}: {took:?}");
        }
    });
    println!("a good client waited {slowest:?} of processor time at most");
    // A fuzzer whose requests all fail at their first number says nothing.
    assert!(succeeded > round / 4, "{succeeded} of {round} rounds");
}

/// A group that peers for long keeps so many requests. The client of one more is asked to keep all of its own, and sends them when the group serves.
#[test]
fn what_waits_for_a_group_is_bounded() {
    let mut w = World::new(Kind::Memory, 1);
    w.connect(2, 4002);
    // Another interval, of which the monitor does not hear.
    w.publish(|m| m.pools.get_mut(&POOL).unwrap().size = 2);
    let append = |w: &mut World, n: usize| w.request("a", vec![put(OpCode::APPEND, 0, if n.is_multiple_of(2) { b"0" } else { b"1" })]);
    let first: Vec<_> = (0..WAITING_MAX).map(|n| append(&mut w, n)).collect();
    for m in &first[..WAITING_MAX - 1] {
        assert!(w.send(1, m).is_empty());
    }
    let second: Vec<_> = (0..3).map(|n| append(&mut w, n)).collect();
    // One of the second client's is within the bound.
    assert!(w.send(2, &second[0]).is_empty());
    assert!(w.sent::<MOSDBackoff>(1).is_empty() && w.sent::<MOSDBackoff>(2).is_empty());
    assert!(w.send(2, &second[1]).is_empty());
    let block = w.sent::<MOSDBackoff>(2);
    assert_eq!(block.iter().map(|b| (b.op, b.pgid)).collect::<Vec<_>>(), [(backoff_op::BLOCK, second[1].pgid)]);
    // There is room again, but not for what the second client sent before it heard of it.
    assert!(w.send(2, &second[2]).is_empty());
    assert!(w.send(1, &first[WAITING_MAX - 1]).is_empty());
    assert!(w.sent::<MOSDBackoff>(1).is_empty() && w.sent::<MOSDBackoff>(2).is_empty());
    let want = w.sent_to_mon::<MOSDAlive>().iter().map(|m| m.want).max().expect("it waits for the monitor");
    w.publish(|m| m.osd_info[0].up_thru = want);
    w.turn_end();
    let done: Vec<_> = w.sent::<MOSDOpReply>(1).iter().map(|r| (r.tid, r.result)).collect();
    assert_eq!(done, first.iter().map(|m| (m.tid, 0)).collect::<Vec<_>>());
    assert!(w.sent::<MOSDOpReply>(2).is_empty(), "the second client has its requests");
    let lifted = w.sent::<MOSDBackoff>(2);
    assert_eq!(lifted.iter().map(|b| (b.op, b.id)).collect::<Vec<_>>(), [(backoff_op::UNBLOCK, block[0].id)]);
    for m in &second {
        assert_eq!(w.send(2, m).iter().map(|r| r.result).collect::<Vec<_>>(), [0]);
    }
    assert_eq!(w.read("a").unwrap().len(), WAITING_MAX + second.len());
}
