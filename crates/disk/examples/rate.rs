//! What the disk layer costs: `rate FILE read|write|dsync DEPTH OPS`, 4 KiB at random places, woken by epoll as a reactor is.

use base::Rng;
use disk::{AlignedBuf, BLOCK_BYTES, Dev, Disks, Durability, FileDisks};
use std::time::Instant;

fn cpu_us() -> u64 {
    // SAFETY: a plain struct that the call fills in.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        ((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1_000_000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) as u64
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, path, kind, depth, ops] = &args[..] else { panic!("rate FILE read|write|dsync DEPTH OPS") };
    let (depth, ops): (usize, u64) = (depth.parse().expect("a depth"), ops.parse().expect("a count"));
    let mut disks = FileDisks::open(&[path.as_ref()]).expect("a disk");
    let blocks = disks.len_bytes(Dev(0)) / BLOCK_BYTES as u64;
    let fd = disks.event_fd().expect("a descriptor");
    // SAFETY: descriptors of ours.
    let epoll = unsafe {
        let epoll = libc::epoll_create1(0);
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
        libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event);
        epoll
    };
    let mut rng = Rng::new(1);
    let (mut queued, mut done, mut out) = (0, 0, Vec::new());
    let (start, cpu) = (Instant::now(), cpu_us());
    while done < ops {
        while disks.in_flight() < depth && queued < ops {
            // Each slot has its own part of the device, so that no two writes meet.
            let at = (rng.below(blocks / depth as u64) * depth as u64 + queued % depth as u64) * BLOCK_BYTES as u64;
            match kind.as_str() {
                "read" => disks.read(queued, Dev(0), at, BLOCK_BYTES),
                "write" => disks.write(queued, Dev(0), at, vec![AlignedBuf::padded(&[1]).freeze()], Durability::Volatile),
                _ => disks.write(queued, Dev(0), at, vec![AlignedBuf::padded(&[1]).freeze()], Durability::Durable),
            }
            queued += 1;
        }
        disks.kick();
        disks.poll(&mut out);
        if out.is_empty() {
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            // SAFETY: room for one event.
            unsafe { libc::epoll_wait(epoll, &mut event, 1, 1000) };
            disks.poll(&mut out);
        }
        done += out.len() as u64;
        for c in out.drain(..) {
            c.result.expect("a good device");
        }
    }
    let (us, cpu) = (start.elapsed().as_micros() as f64, (cpu_us() - cpu) as f64);
    let n = ops as f64;
    println!("{kind} depth {depth}: {:.0} ops/s, {:.1} us each, {:.2} us CPU each", n / us * 1e6, us * depth as f64 / n, cpu / n);
}
