//! Files through the ring: transfers, durability flags, limits, locks, and errors that a file can really give.

use bytes::Bytes;
use disk::{AlignedBuf, BLOCK_BYTES, Completion, Dev, DiskError, Disks, Durability, FileDisks, OpenError, create_zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

const D: Dev = Dev(0);
const BLOCK: u64 = BLOCK_BYTES as u64;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("humboldt-disk-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
    fn file(&self, name: &str, blocks: u64) -> PathBuf {
        let path = self.0.join(name);
        create_zeroed(&path, blocks * BLOCK, blocks * BLOCK).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> FileDisks {
    FileDisks::open(&[path]).expect("a disk")
}
fn buf(byte: u8, blocks: usize) -> Bytes {
    AlignedBuf::padded(&vec![byte; blocks * BLOCK_BYTES]).freeze()
}
/// Waits until nothing is under way.
fn all(disks: &mut FileDisks) -> Vec<Completion> {
    let mut out = Vec::new();
    while disks.in_flight() > 0 {
        disks.wait();
        disks.poll(&mut out);
    }
    out.sort_by_key(|c| c.token);
    out
}

#[test]
fn what_was_written_is_read_by_whatever_way() {
    let folder = Folder::new("rw");
    let paths = [folder.file("data", 64), folder.file("wal", 64)];
    let mut disks = FileDisks::open(&[&paths[0], &paths[1]]).expect("disks");
    disks.write(1, D, 0, vec![buf(1, 1)], Durability::Volatile);
    disks.write(2, D, 4 * BLOCK, vec![buf(2, 1), buf(3, 2), buf(4, 1)], Durability::Durable);
    disks.write(3, Dev(1), 63 * BLOCK, vec![buf(5, 1)], Durability::Durable);
    assert_eq!(disks.in_flight(), 3);
    let done = all(&mut disks);
    assert!(done.iter().all(|c| matches!(c.result, Ok(None))), "{done:?}");
    disks.flush(4, D);
    disks.read(5, D, 3 * BLOCK, 6 * BLOCK_BYTES);
    disks.read(6, Dev(1), 62 * BLOCK, 2 * BLOCK_BYTES);
    let mut done = all(&mut disks);
    let read = done.pop().expect("the second read").result.expect("a read").expect("bytes");
    assert_eq!([read[0], read[BLOCK_BYTES]], [0, 5]);
    let read = done.pop().expect("the first read").result.expect("a read").expect("bytes");
    let firsts: Vec<u8> = read.chunks(BLOCK_BYTES).map(|b| b[0]).collect();
    assert_eq!(firsts, [0, 2, 3, 3, 4, 0]);
    drop(disks);
    let stored = std::fs::read(&paths[0]).expect("the file");
    assert_eq!((stored.len(), stored[0], stored[4 * BLOCK_BYTES], stored[8 * BLOCK_BYTES]), (64 * BLOCK_BYTES, 1, 2, 0));
}

#[test]
fn more_operations_and_pieces_than_the_ring_takes_at_once() {
    let folder = Folder::new("many");
    let mut disks = open(&folder.file("data", 4000));
    for n in 0..2000 {
        disks.write(n, D, n * BLOCK, vec![buf(n as u8, 1)], Durability::Volatile);
    }
    // One write of more pieces than a call takes.
    disks.write(5000, D, 2000 * BLOCK, (0..1500).map(|n| buf(n as u8, 1)).collect(), Durability::Durable);
    assert_eq!(all(&mut disks).len(), 2001);
    for n in 0..3500 {
        disks.read(n, D, n * BLOCK, BLOCK_BYTES);
    }
    for done in all(&mut disks) {
        let expected = if done.token < 2000 { done.token } else { done.token - 2000 };
        assert_eq!(done.result.expect("a read").expect("bytes")[17], expected as u8, "block {}", done.token);
    }
}

/// An epoll of one descriptor, edge-triggered as the reactor's.
struct Epoll(OwnedFd);

impl Epoll {
    fn of(fd: RawFd) -> Self {
        // SAFETY: the calls get a descriptor that is open and an event of ours; the new descriptor is ours alone.
        unsafe {
            let epoll = OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC));
            let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
            assert_eq!(libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event), 0);
            Self(epoll)
        }
    }
    /// False if nothing comes in ten seconds.
    fn wait(&self) -> bool {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event, ours.
        unsafe { libc::epoll_wait(self.0.as_raw_fd(), &mut event, 1, 10_000) == 1 }
    }
}

#[test]
fn a_completion_wakes_who_polls_the_descriptor() {
    let folder = Folder::new("epoll");
    let mut disks = open(&folder.file("data", 16));
    let epoll = Epoll::of(disks.event_fd().expect("a descriptor"));
    let mut out = Vec::new();
    for round in 0..50 {
        disks.write(round, D, 0, vec![buf(round as u8, 4)], if round % 2 == 0 { Durability::Durable } else { Durability::Volatile });
        disks.read(1000 + round, D, 8 * BLOCK, BLOCK_BYTES);
        disks.kick();
        while out.len() < 2 {
            assert!(epoll.wait(), "round {round}: nobody is woken");
            disks.poll(&mut out);
        }
        out.clear();
    }
}

#[test]
fn who_lingers_gets_a_completion_and_who_polls_the_descriptor_the_others() {
    let folder = Folder::new("linger");
    let mut disks = open(&folder.file("data", 16));
    let epoll = Epoll::of(disks.event_fd().expect("a descriptor"));
    let long = std::time::Duration::from_secs(10);
    assert!(!disks.linger(long), "nothing is under way, so nobody waits");
    let mut out = Vec::new();
    for round in 0..200 {
        disks.read(round, D, 8 * BLOCK, BLOCK_BYTES);
        if round % 3 > 0 {
            disks.write(1000 + round, D, 0, vec![buf(round as u8, 4)], Durability::Durable);
        }
        let expected = disks.in_flight();
        disks.kick();
        if round % 3 < 2 {
            assert!(disks.linger(long), "round {round}: nothing came");
            disks.poll(&mut out);
            assert!(!out.is_empty(), "round {round}: what came is there");
        }
        while out.len() < expected {
            assert!(epoll.wait(), "round {round}: nobody is woken");
            disks.poll(&mut out);
        }
        out.clear();
    }
    assert!(!disks.linger(std::time::Duration::ZERO));
}

#[test]
fn a_set_moves_to_the_thread_that_uses_it_and_waits_for_its_buffers_when_dropped() {
    let folder = Folder::new("move");
    let path = folder.file("data", 512);
    let mut disks = open(&path);
    std::thread::spawn(move || {
        for n in 0..8 {
            disks.write(n, D, n * 64 * BLOCK, vec![buf(9, 64)], Durability::Volatile);
        }
        disks.kick();
    })
    .join()
    .expect("the thread");
    assert!(std::fs::read(&path).expect("the file").iter().all(|b| *b == 9), "what was started is finished");
}

#[test]
fn one_opener_at_a_time() {
    let folder = Folder::new("lock");
    let path = folder.file("data", 1);
    let first = open(&path);
    assert!(matches!(FileDisks::open(&[&path]), Err(OpenError::InUse(p)) if p == path));
    drop(first);
    open(&path);
    assert!(matches!(FileDisks::open(&[&folder.0]), Err(OpenError::Kind(_))));
    assert!(matches!(FileDisks::open(&[&folder.0.join("nothing")]), Err(OpenError::Io { .. })));
    assert!(matches!(create_zeroed(&path, BLOCK, 0), Err(OpenError::Io { .. })), "never over a file that is there");
}

#[test]
fn a_file_that_shrank_gives_short_reads() {
    let folder = Folder::new("errors");
    let path = folder.file("data", 16);
    let mut disks = open(&path);
    std::fs::OpenOptions::new().write(true).open(&path).and_then(|f| f.set_len(5 * BLOCK)).expect("a shorter file");
    disks.read(1, D, 4 * BLOCK, 4 * BLOCK_BYTES);
    disks.read(2, D, 9 * BLOCK, BLOCK_BYTES);
    let mut done = all(&mut disks);
    let short = |offset, len_bytes, done_bytes| Some(DiskError::Short { dev: D, offset, len_bytes, done_bytes });
    assert_eq!(done.pop().and_then(|c| c.result.err()), short(9 * BLOCK, BLOCK_BYTES, 0));
    assert_eq!(done.pop().and_then(|c| c.result.err()), short(4 * BLOCK, 4 * BLOCK_BYTES, BLOCK_BYTES));
}

#[test]
#[should_panic(expected = "not within the device")]
fn nothing_is_written_behind_the_end() {
    let folder = Folder::new("bounds");
    let mut disks = open(&folder.file("data", 4));
    disks.write(1, D, 3 * BLOCK, vec![buf(1, 2)], Durability::Volatile);
}

#[test]
#[should_panic(expected = "aligned blocks")]
fn what_is_not_aligned_is_refused() {
    let folder = Folder::new("aligned");
    let mut disks = open(&folder.file("data", 4));
    disks.write(1, D, 0, vec![buf(1, 2).slice(512..512 + BLOCK_BYTES)], Durability::Volatile);
}

#[test]
fn what_lies_in_known_memory_is_written_whatever_its_pieces_are() {
    let folder = Folder::new("known");
    let mut disks = open(&folder.file("data", 1024));
    let Some(memory) = disks.known_memory() else { return };
    let known = |first: u8, blocks: usize| {
        let mut buf = memory.take(blocks * BLOCK_BYTES).expect("there is some");
        buf.chunks_mut(BLOCK_BYTES).enumerate().for_each(|(n, block)| block.fill(first.wrapping_add(n as u8)));
        buf.freeze()
    };
    let block = |bytes: &Bytes, from: usize, to: usize| bytes.slice(from * BLOCK_BYTES..to * BLOCK_BYTES);
    let (a, b) = (known(0, 256), known(7, 16));
    disks.write(1, D, 0, vec![a.clone()], Durability::Durable);
    // Neighbours in memory, neighbours that are not in order, others, and what is not known at all.
    disks.write(
        2,
        D,
        256 * BLOCK,
        vec![block(&a, 0, 16), block(&a, 16, 32), b.clone(), block(&a, 5, 6), block(&a, 4, 5)],
        Durability::Durable,
    );
    disks.write(3, D, 512 * BLOCK, vec![block(&b, 3, 4), buf(99, 2), block(&b, 4, 16)], Durability::Volatile);
    let done = all(&mut disks);
    assert!(done.iter().all(|c| matches!(c.result, Ok(None))), "{done:?}");
    let mut read = |at: u64, blocks: usize| {
        disks.read(9, D, at * BLOCK, blocks * BLOCK_BYTES);
        let bytes = all(&mut disks).pop().expect("a read").result.expect("bytes").expect("bytes").freeze();
        bytes.chunks(BLOCK_BYTES).inspect(|b| assert!(b.iter().all(|x| x == &b[0]))).map(|b| b[0]).collect::<Vec<u8>>()
    };
    assert_eq!(read(0, 256), (0..=255).collect::<Vec<u8>>());
    assert_eq!(read(256, 50), (0..32).chain(7..23).chain([5, 4]).collect::<Vec<u8>>());
    assert_eq!(read(512, 15), [10, 99, 99].into_iter().chain(11..23).collect::<Vec<u8>>());
    // What was given back can be had again, and no more than there is.
    drop((a, b));
    let rows: Vec<_> = std::iter::from_fn(|| memory.take(1 << 20)).collect();
    assert!(!rows.is_empty() && memory.take(1 << 20).is_none(), "{rows:?}");
}

#[test]
fn windows_of_one_file_keep_out_of_each_other() {
    let path = std::env::temp_dir().join(format!("humboldt-windows-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    create_zeroed(&path, 64 << 10, 0).expect("a file");
    let window = |start: u64, len: u64| Some(disk::Window { start_bytes: start << 10, len_bytes: len << 10 });
    let open = |window| FileDisks::open_windows(&[(path.as_path(), window)]);
    let (mut first, second) = (open(window(0, 32)).expect("the first half"), open(window(32, 32)).expect("the second half"));
    assert_eq!((first.len_bytes(D), second.len_bytes(D)), (32 << 10, 32 << 10));
    for taken in [window(0, 64), window(16, 32), window(28, 8), None] {
        assert!(matches!(open(taken), Err(OpenError::InUse(_))), "{taken:?}");
    }
    assert!(matches!(open(window(64, 4)), Err(OpenError::Window { .. })));
    drop(second);
    let mut second = open(window(32, 32)).expect("it is free again");
    for (disks, byte) in [(&mut first, 1), (&mut second, 2)] {
        disks.write(1, D, BLOCK, vec![buf(byte, 1)], Durability::Durable);
        assert!(all(disks).iter().all(|done| done.result.is_ok()));
        disks.read(2, D, BLOCK, BLOCK_BYTES);
        assert!(matches!(&all(disks)[..], [Completion { result: Ok(Some(read)), .. }] if read.iter().all(|b| *b == byte)));
    }
    drop((first, second));
    let bytes = std::fs::read(&path).expect("it is there");
    let at = |kib: usize| bytes[kib << 10];
    assert_eq!([at(0), at(4), at(8), at(32), at(36), at(40)], [0, 1, 0, 0, 2, 0]);
    std::fs::remove_file(&path).expect("it goes");
}

/// Bytes that a file takes of its file system.
fn taken(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).expect("it is there").blocks() * 512
}

#[test]
fn what_is_discarded_of_a_file_is_a_hole() {
    let folder = Folder::new("discard");
    let path = folder.file("data", 1024);
    let mut disks = open(&path);
    disks.write(1, D, 0, vec![buf(1, 1024)], Durability::Durable);
    all(&mut disks);
    let before = taken(&path);
    disks.discard(2, D, 256 * BLOCK, 512 * BLOCK_BYTES);
    disks.discard(3, D, 1023 * BLOCK, BLOCK_BYTES);
    assert_eq!(disks.in_flight(), 2);
    let done = all(&mut disks);
    assert!(done.len() == 2 && done.iter().all(|c| matches!(c.result, Ok(None))), "{done:?}");
    assert_eq!(before - taken(&path), 513 * BLOCK);
    assert_eq!(disks.len_bytes(D), 1024 * BLOCK);
    for block in [0, 255, 256, 767, 768, 1022, 1023] {
        disks.read(block, D, block * BLOCK, BLOCK_BYTES);
    }
    let first = |c: Completion| c.result.expect("a read").expect("bytes")[0];
    assert_eq!(all(&mut disks).into_iter().map(first).collect::<Vec<_>>(), [1, 1, 0, 0, 1, 1, 0]);
    // One that is under way when the set goes is over when the file is free again.
    disks.discard(4, D, 0, BLOCK_BYTES);
    drop(disks);
    drop(open(&path));
}

#[test]
fn the_end_of_a_discard_signals_the_set() {
    let folder = Folder::new("discard-event");
    let path = folder.file("data", 64);
    let mut disks = open(&path);
    disks.discard(1, D, 0, BLOCK_BYTES);
    disks.kick();
    let mut poll = libc::pollfd { fd: disks.event_fd().expect("there is one"), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    assert_eq!(unsafe { libc::poll(&mut poll, 1, 10_000) }, 1);
    let mut out = Vec::new();
    disks.poll(&mut out);
    assert_eq!((out.len(), disks.in_flight()), (1, 0));
}
