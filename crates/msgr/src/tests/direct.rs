//! Large data with memory of their own: the same messages as by the buffer, wherever reads end and whatever was expected.

use super::*;
use crate::direct::{DIRECT_MAX, DIRECT_MIN, ENDS_MAX};
use base::Rng;
use std::cell::{Cell, RefCell};

/// Gives receive buffers, but not always.
#[derive(Default)]
struct Giver {
    rng: RefCell<Option<Rng>>,
    held: Rc<Cell<usize>>,
    frozen: Rc<Cell<usize>>,
    /// Where the last one that was frozen begins.
    base: Rc<Cell<usize>>,
}
struct Held {
    bytes: Vec<u8>,
    held: Rc<Cell<usize>>,
    frozen: Rc<Cell<usize>>,
    base: Rc<Cell<usize>>,
}

impl ReceiveBuffers for Giver {
    fn sizes(&self) -> std::ops::RangeInclusive<usize> {
        DIRECT_MIN..=DIRECT_MAX
    }
    fn take(&self, len: usize) -> Option<Box<dyn ReceiveBuffer>> {
        assert!((DIRECT_MIN..=DIRECT_MAX).contains(&len));
        if self.rng.borrow_mut().as_mut().is_some_and(|rng| rng.chance(1, 4)) {
            return None;
        }
        self.held.set(self.held.get() + 1);
        Some(Box::new(Held { bytes: vec![0xee; len], held: self.held.clone(), frozen: self.frozen.clone(), base: self.base.clone() }))
    }
}
impl ReceiveBuffer for Held {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn freeze(mut self: Box<Self>) -> Bytes {
        self.frozen.set(self.frozen.get() + 1);
        self.base.set(self.bytes.as_ptr() as usize);
        std::mem::take(&mut self.bytes).into()
    }
}
impl Drop for Held {
    fn drop(&mut self) {
        self.held.set(self.held.get() - 1);
    }
}

fn ready(mode: ConMode, rng: Option<Rng>) -> (Connection, Connection, Rc<Giver>) {
    let policy = |_| Policy::stateless_server();
    let giver = Rc::new(Giver { rng: RefCell::new(rng), ..Giver::default() });
    let mut server = keyed_local(EntityKind::OSD, 2, mode, policy);
    server.receive_buffers = Some(giver.clone());
    let (mut a, mut b) = pair(keyed_local(EntityKind::CLIENT, 1, mode, policy), server, Policy::lossy_client());
    settle(&mut a, &mut b, usize::MAX).unwrap();
    (a, b, giver)
}

/// One read of at most `max` bytes, as a socket's; how many fitted.
fn read(c: &mut Connection, buf: &mut BytesMut, bytes: &[u8], max: usize) -> usize {
    let bytes = &bytes[..bytes.len().min(max)];
    let Some(target) = c.read_target(buf) else {
        buf.extend_from_slice(bytes);
        return bytes.len();
    };
    assert!(target.head + target.tail <= ENDS_MAX);
    let n = bytes.len().min(target.head + target.data.len() + target.tail);
    let (head, rest) = bytes[..n].split_at(n.min(target.head));
    let (data, tail) = rest.split_at(rest.len().min(target.data.len()));
    target.data[..data.len()].copy_from_slice(data);
    let landed = data.len();
    buf.extend_from_slice(head);
    buf.extend_from_slice(tail);
    c.received(landed);
    n
}

fn receive(c: &mut Connection, buf: &mut BytesMut, bytes: &[u8], mut max: impl FnMut() -> usize) -> Result<Vec<Up>, MsgrError> {
    let (mut at, mut ups) = (0, Vec::new());
    while at < bytes.len() {
        at += read(c, buf, &bytes[at..], max());
        while let Some(up) = c.next(buf)? {
            ups.push(up);
        }
    }
    Ok(ups)
}

/// Messages of which many are large and like the one before.
fn some(rng: &mut Rng, n: u64) -> Vec<RawMessage> {
    let mut shape = (300, 0, 65536, 0);
    let mut one = |tid| {
        if rng.chance(1, 3) {
            let len = [0, 1, 4096, DIRECT_MIN - 1, DIRECT_MIN, 40_000, 65_536, 1 << 20, (1 << 20) + 1, 200_000, 3 << 20];
            let middle = if rng.chance(1, 5) { rng.below(4000) as usize } else { 0 };
            shape = (rng.below(400) as usize, middle, len[rng.below(11) as usize], rng.below(3) as u16 * 1500);
        }
        RawMessage { data_off: shape.3, ..message(tid, shape.0, shape.1, &[shape.2]) }
    };
    (0..n).map(&mut one).collect()
}

#[test]
fn the_same_messages_arrive_wherever_reads_end() {
    let mut landed = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mode = if seed % 5 == 0 { ConMode::SECURE } else { ConMode::CRC };
        let (mut a, mut b, giver) = ready(mode, (seed % 2 == 0).then(|| Rng::new(seed + 1000)));
        let sent = some(&mut rng, 30);
        let mut bytes = Vec::new();
        for (n, message) in sent.iter().enumerate() {
            a.send(message.clone());
            if n % 7 == 3 {
                a.keepalive(1, 2);
            }
            bytes.extend(a.out().take_flat());
        }
        let step = [2000, 9000, 70_000, 1 << 20][rng.below(4) as usize];
        let mut buf = BytesMut::new();
        let got = receive(&mut b, &mut buf, &bytes, || 1 + rng.below(step) as usize).unwrap();
        assert_eq!(got.len(), sent.len(), "seed {seed}");
        for (up, sent) in got.iter().zip(&sent) {
            let Up::Message(got) = up else { panic!("{up:?}") };
            assert!(got.tid == sent.tid && got.front == sent.front && got.middle == sent.middle, "seed {seed}");
            assert!(got.data_flat() == sent.data_flat(), "seed {seed}, message {}", sent.tid);
        }
        assert!(buf.is_empty() && giver.held.get() == 0, "seed {seed}: a receive buffer is held for nothing");
        assert!(mode == ConMode::CRC || giver.frozen.get() == 0);
        landed += giver.frozen.get();
    }
    assert!(landed > 200, "{landed} of them had receive buffers");
}

#[test]
fn what_is_like_the_last_needs_no_copy_and_whoever_waits_holds_nothing() {
    let (mut a, mut b, giver) = ready(ConMode::CRC, None);
    let mut buf = BytesMut::new();
    for tid in 0..10 {
        a.send(message(tid, 300, 0, &[65536]));
        let bytes = a.out().take_flat();
        let ups = receive(&mut b, &mut buf, &bytes, || usize::MAX).unwrap();
        assert_eq!(ups.len(), 1);
        // The first came whole by the buffer; each of the others needs one read.
        assert_eq!((giver.frozen.get(), giver.held.get()), (tid as usize, 0));
        assert!(buf.capacity() < 200_000);
    }
    a.send(message(10, 300, 0, &[65536]));
    let bytes = a.out().take_flat();
    receive(&mut b, &mut buf, &bytes[..200], || usize::MAX).unwrap();
    assert_eq!(giver.held.get(), 0, "only the head is here");
    receive(&mut b, &mut buf, &bytes[200..5000], || usize::MAX).unwrap();
    assert_eq!(giver.held.get(), 1);
    b.close();
    assert_eq!(giver.held.get(), 0);
}

#[test]
fn a_flipped_bit_is_an_error_there_too() {
    let mut rng = Rng::new(5);
    for _ in 0..300 {
        let (mut a, mut b, _) = ready(ConMode::CRC, None);
        let mut bytes = Vec::new();
        for tid in 0..3 {
            a.send(message(tid, 300, 0, &[20_000]));
            bytes.extend(a.out().take_flat());
        }
        let one = bytes.len() / 3;
        let at = one + rng.below(2 * one as u64) as usize;
        bytes[at] ^= 1 << rng.below(4);
        let got = receive(&mut b, &mut BytesMut::new(), &bytes, || 1 + rng.below(30_000) as usize);
        assert!(matches!(got, Err(MsgrError::Crc { .. } | MsgrError::LateStatus(_))), "byte {at} of {}: {got:?}", bytes.len());
    }
}

#[test]
fn frames_that_wait_together_have_a_receive_buffer_each() {
    let (mut a, mut b, giver) = ready(ConMode::CRC, None);
    let mut buf = BytesMut::new();
    a.send(message(0, 300, 0, &[65536]));
    let first = a.out().take_flat();
    receive(&mut b, &mut buf, &first, || usize::MAX).unwrap();
    let mut bytes = Vec::new();
    for tid in 1..20 {
        a.send(message(tid, 300, 0, &[65536]));
        bytes.extend(a.out().take_flat());
    }
    let ups = receive(&mut b, &mut buf, &bytes, || usize::MAX).unwrap();
    assert_eq!((ups.len(), giver.frozen.get()), (19, 19));
    // Of lengths that change all the time, too.
    bytes.clear();
    for tid in 20..40 {
        a.send(message(tid, 300, 0, &[65536 * (1 + tid as usize * 7 % 16)]));
        bytes.extend(a.out().take_flat());
    }
    let ups = receive(&mut b, &mut buf, &bytes, || usize::MAX).unwrap();
    assert_eq!((ups.len(), giver.frozen.get()), (20, 39));
}

#[test]
fn data_lie_where_their_sender_says() {
    let offs = [0, 4082, 4082, 512, 512, 0, 0x5000, 0x5123];
    // What comes in one read is taken to belong where the last one did; of what comes bit by bit, its own header is known first.
    let foreseen = [0, 0, 4082, 4082, 512, 512, 0, 0];
    for (step, leads) in [(usize::MAX, foreseen), (200, offs.map(|off| usize::from(off) % 4096))] {
        let (mut a, mut b, giver) = ready(ConMode::CRC, None);
        let mut buf = BytesMut::new();
        a.send(message(0, 300, 0, &[66_000]));
        receive(&mut b, &mut buf, &a.out().take_flat(), || usize::MAX).unwrap();
        for (tid, (data_off, lead)) in offs.into_iter().zip(leads).enumerate() {
            let sent = RawMessage { data_off, ..message(tid as u64, 300, 0, &[66_000]) };
            a.send(sent.clone());
            let ups = receive(&mut b, &mut buf, &a.out().take_flat(), || step).unwrap();
            let [Up::Message(got)] = &ups[..] else { panic!("{ups:?}") };
            assert!(got.data_flat() == sent.data_flat() && got.data_off == data_off, "message {tid}");
            assert_eq!(got.data[0].as_ptr() as usize - giver.base.get(), lead, "message {tid} by {step}");
        }
        assert_eq!((giver.frozen.get(), giver.held.get()), (offs.len(), 0));
    }
}

/// Gives receive buffers for the largest alone.
struct Large(Rc<Giver>);

impl ReceiveBuffers for Large {
    fn sizes(&self) -> std::ops::RangeInclusive<usize> {
        2 << 20..=DIRECT_MAX
    }
    fn take(&self, len: usize) -> Option<Box<dyn ReceiveBuffer>> {
        assert!(self.sizes().contains(&len));
        self.0.take(len)
    }
}

#[test]
fn a_giver_is_asked_for_its_sizes_only_and_the_largest_are_not_foreseen() {
    let giver = Rc::new(Giver::default());
    let policy = |_| Policy::stateless_server();
    let mut server = keyed_local(EntityKind::OSD, 2, ConMode::CRC, policy);
    server.receive_buffers = Some(Rc::new(Large(giver.clone())));
    let (mut a, mut b) = pair(keyed_local(EntityKind::CLIENT, 1, ConMode::CRC, policy), server, Policy::lossy_client());
    settle(&mut a, &mut b, usize::MAX).unwrap();
    let mut buf = BytesMut::new();
    let mut landed = 0;
    for (tid, len) in [65_536, 65_536, 4 << 20, 4 << 20, 300, DIRECT_MAX, 300, DIRECT_MAX + 1, 4 << 20].into_iter().enumerate() {
        a.send(message(tid as u64, 300, 0, &[len]));
        let bytes = a.out().take_flat();
        assert!(b.read_target(&mut buf).is_none(), "what comes next is not known");
        // A socket gives as much as the buffer has room for.
        let ups = receive(&mut b, &mut buf, &bytes, || 65_536).unwrap();
        assert_eq!(ups.len(), 1);
        landed += usize::from((4 << 20..=DIRECT_MAX).contains(&len));
        assert_eq!((giver.frozen.get(), giver.held.get()), (landed, 0), "message {tid}");
    }
}
