//! What a run was made on: kernel, CPU, memory, devices, versions; and the ceilings that the machine sets to everything.

use crate::load::runner::chore;
use crate::run::Options;
use crate::run::folder::sha256;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().trim().into()
}

/// The folder's file system, by its longest mount point.
fn file_system(dir: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let of = |l: &str| {
        let words: Vec<&str> = l.split(' ').collect();
        (dir.starts_with(words.get(1)?)).then(|| (words[1].len(), format!("{} {}", words[2], words[3])))
    };
    mounts.lines().filter_map(of).max().map(|(_, fs)| fs).unwrap_or_default()
}

/// What the kernel tells of a block device, by its number: a partition has the queue of its disk. Null for what is no block device.
pub fn disk(dev: u64) -> Value {
    let node = format!("/sys/dev/block/{}:{}", libc::major(dev), libc::minor(dev));
    let Ok(own) = fs::canonicalize(node) else { return Value::Null };
    let whole = if own.join("queue").exists() { own.clone() } else { own.parent().unwrap_or(&own).into() };
    let of = |name: &str| line(&whole.join(name).display().to_string());
    json!({
        "name": own.file_name().unwrap_or_default().to_string_lossy(),
        "model": of("device/model"),
        "cache": of("queue/write_cache"),
        "rotational": of("queue/rotational") == "1",
        "scheduler": of("queue/scheduler"),
    })
}

/// What must be as it was for rounds to stand side by side, and what it is called in an error.
const SAME: [(&str, &str); 4] = [("cpu", "CPU"), ("cpus", "number of CPUs"), ("kernel", "kernel"), ("program_sha256", "build of humboldt")];

/// How the machine and the program differ from those of a former description, if they do.
pub fn differs(former: &Value, now: &Value) -> Option<String> {
    let (key, called) = SAME.iter().find(|(key, _)| former[key] != now[key])?;
    Some(format!("another {called}: {} then, {} now", former[key], now[key]))
}

/// Everything that a reader needs in order to judge the figures; `dir` holds the results.
pub fn describe(dir: &Path, options: &Options) -> Value {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = |key: &str| info.lines().find(|l| l.starts_with(key)).and_then(|l| l.split_once(':')).map(|(_, v)| v.trim().to_string());
    let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let os = os.lines().find_map(|l| l.strip_prefix("PRETTY_NAME=")).unwrap_or_default().trim_matches('"').to_string();
    let fio = chore(Command::new("fio").arg("--version"), Duration::from_secs(10)).unwrap_or_default();
    json!({
        "kernel": line("/proc/sys/kernel/osrelease"),
        "os": os,
        "cpu": cpu("model name"),
        "virtual": info.contains("hypervisor"),
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "memory_bytes": crate::sample::memory().1,
        "governor": line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "file_system": file_system(&fs::canonicalize(dir).unwrap_or_else(|_| dir.into())),
        "disk": fs::metadata(dir).map_or(Value::Null, |m| disk(m.dev())),
        "humboldt": env!("CARGO_PKG_VERSION"),
        "commit": options.commit,
        "program_sha256": fs::read(&options.program).map_or(String::new(), |bytes| sha256(&bytes)),
        "build": if cfg!(debug_assertions) { "dev" } else { "release" },
        "fio": fio.trim(),
        "load_average": line("/proc/loadavg"),
    })
}

/// How long each ceiling is measured.
const LOOK: Duration = Duration::from_millis(400);

/// Mean microseconds of what `work` does, again and again.
fn mean_us(mut work: impl FnMut() -> std::io::Result<()>) -> Option<f64> {
    let (start, mut n) = (Instant::now(), 0u32);
    while start.elapsed() < LOOK {
        work().ok()?;
        n += 1;
    }
    Some(start.elapsed().as_secs_f64() * 1e6 / f64::from(n))
}

/// What no target can beat here: a durable write of 4 KiB, a round trip over loopback, a copy in memory.
pub fn ceilings(dir: &Path) -> Value {
    let path = dir.join("ceiling");
    let dsync = fs::OpenOptions::new().create(true).truncate(true).write(true).custom_flags(libc::O_DSYNC).open(&path).ok();
    // Blocks that were written before: the file system has nothing to commit then.
    let dsync = dsync.and_then(|mut file| {
        use std::os::unix::fs::FileExt;
        file.write_all(&[1; 1 << 20]).ok()?;
        let mut at = 0;
        mean_us(|| {
            at = (at + 4096) % (1 << 20);
            file.write_all_at(&[2; 4096], at)
        })
    });
    let _ = fs::remove_file(&path);
    let ping = TcpListener::bind(("127.0.0.1", 0)).ok().and_then(|listener| {
        let addr = listener.local_addr().ok()?;
        let echo = std::thread::spawn(move || {
            let Ok((mut peer, _)) = listener.accept() else { return };
            let _ = peer.set_nodelay(true);
            let mut byte = [0; 64];
            while peer.read_exact(&mut byte).is_ok() && peer.write_all(&byte).is_ok() {}
        });
        let mut stream = TcpStream::connect(addr).ok()?;
        stream.set_nodelay(true).ok()?;
        let mut bytes = [0; 64];
        let mean = mean_us(|| stream.write_all(&bytes).and_then(|()| stream.read_exact(&mut bytes)));
        drop(stream);
        let _ = echo.join();
        mean
    });
    let (from, mut to) = (vec![7u8; 4 << 20], vec![0u8; 4 << 20]);
    let copy = mean_us(|| {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        Ok(())
    });
    json!({
        "dsync_4k_write_us": dsync,
        "loopback_round_trip_us": ping,
        "memory_copy_gb_s": copy.map(|us| (4 << 20) as f64 / us / 1e3),
    })
}
