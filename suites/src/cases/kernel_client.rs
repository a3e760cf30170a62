//! Images mapped by a Linux kernel (krbd), without any program of Ceph's in the guest: eleven things that its users do.
//!
//! The guest maps, reads and writes; stock tools on the other side see the same bytes. [`super::kernel_guest`] is the guest.

use super::Case;
use super::kernel_guest::Guest;
use crate::clients::Release::Pacific;
use crate::cluster::Cluster;
use crate::netns::Tap;
use crate::run::{quietly, run, until};
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[Case { name: "linux_kernel_client", needs: &[Pacific], run: kernel_client }];

/// What the guest writes at once: eight objects' worth of an image of sixteen.
const DATA_MIB: usize = 8;
const CRC: &str = "ms_mode=crc";
const SECURE: &str = "ms_mode=secure";

type Step = fn(&mut World) -> Result<()>;
const STEPS: [(&str, Step); 11] = [
    ("map in crc mode", |w| mapped(w, "crc", CRC)),
    ("map in secure mode", |w| mapped(w, "secure", SECURE)),
    ("reads from any copy", any_copy),
    ("ext4", ext4),
    ("discard", discard),
    ("snapshot", snapshot),
    ("clone", clone),
    ("lock hand-over", hand_over),
    ("capabilities", capabilities),
    ("a split under load", split),
    ("kill -9 under writes", killed),
];

fn kernel_client() -> Result<()> {
    let tap = Tap::new()?;
    let c = Cluster::start_inside("kernel-client", &tap.namespace.name, &["--listen", Tap::HOST, "--osds", "3", "--size", "2G"])?;
    c.must(Pacific, "ceph osd pool create rbd 8 8")?;
    c.must(Pacific, "rbd pool init rbd")?;
    let key = c.must(Pacific, "ceph auth get-key client.admin")?.trim().to_string();
    let guest = Guest::boot(&c.dir, &tap)?;
    let mut w = World { c, guest, key };
    w.guest.must(&format!("MON={}:{}; dd if=/dev/urandom of=/tmp/data bs=1M count={DATA_MIB} 2>/dev/null", Tap::HOST, w.c.port()?))?;
    for (name, step) in STEPS {
        let started = Instant::now();
        step(&mut w).context(name)?;
        println!("  {name} ({:.1} s)", started.elapsed().as_secs_f64());
    }
    let release = w.guest.must("uname -r")?;
    println!("  kernel {release}");
    drop(w.guest);
    w.c.stop()
}

struct World {
    c: Cluster,
    guest: Guest,
    /// Of client.admin.
    key: String,
}

impl World {
    fn rbd(&self, line: &str) -> Result<String> {
        self.c.must(Pacific, &format!("rbd {line}"))
    }
    /// An image of 16 MiB.
    fn image(&self, name: &str) -> Result<()> {
        self.rbd(&format!("create --size 16M --object-size 1M {name}")).map(drop)
    }
    /// Maps an image, or a snapshot of it (`image snap`), as the administrator: the device's number.
    fn map(&mut self, options: &str, image: &str) -> Result<String> {
        let line = format!("map admin {} {options} {image}", self.key);
        let device = self.guest.must(&line)?;
        ensure!(device.parse::<u32>().is_ok(), "`{line}` prints {device}");
        Ok(device)
    }
    fn unmap(&mut self, device: &str) -> Result<()> {
        self.guest.must(&format!("unmap {device}")).map(drop)
    }
    /// The sum of what a shell line of the guest prints.
    fn sum(&mut self, line: &str) -> Result<String> {
        let text = self.guest.must(&format!("{{ {line}; }} | md5sum"))?;
        Ok(text.split(' ').next().unwrap_or_default().to_string())
    }
    /// The sum of a whole device as the cluster has it, not the guest's memory.
    fn device_sum(&mut self, device: &str) -> Result<String> {
        self.sum(&format!("cold; cat /dev/rbd{device}"))
    }
    /// The sum of an image, or snapshot, as stock's `rbd` reads it.
    fn exported(&self, image: &str) -> Result<String> {
        let file = self.c.dir.join("export.raw");
        let _ = std::fs::remove_file(&file);
        self.rbd(&format!("export --no-progress {image} {}", file.display()))?;
        let out = run(Command::new("md5sum").arg(&file), Duration::from_secs(60))?;
        Ok(out.stdout.split(' ').next().unwrap_or_default().to_string())
    }
    /// Guest and stock's `rbd` read the same, and that is the sum.
    fn same(&mut self, device: &str, image: &str, want: &str) -> Result<()> {
        let (guest, stock) = (self.device_sum(device)?, self.exported(image)?);
        ensure!(guest == want && stock == want, "{image}: written {want}, the guest reads {guest}, stock's rbd {stock}");
        Ok(())
    }
    /// Writes the guest's data to a device from that MiB on.
    fn write(&mut self, device: &str, mib: usize) -> Result<()> {
        self.guest.must(&format!("dd if=/tmp/data of=/dev/rbd{device} bs=1M seek={mib} conv=notrunc,fsync 2>/dev/null")).map(drop)
    }
    /// What 16 MiB are that hold the data from there on and zeros elsewhere.
    fn sum_with_data_at(&mut self, mib: usize) -> Result<String> {
        let zeros = |n: usize| format!("dd if=/dev/zero bs=1M count={n} 2>/dev/null");
        self.sum(&format!("{}; cat /tmp/data; {}", zeros(mib), zeros(16 - DATA_MIB - mib)))
    }
}

fn mapped(w: &mut World, image: &str, mode: &str) -> Result<()> {
    w.image(image)?;
    let device = w.map(mode, image)?;
    let size = w.guest.must(&format!("cat /sys/bus/rbd/devices/{device}/size"))?;
    ensure!(size == (16 << 20).to_string(), "its size is {size}");
    w.write(&device, 3)?;
    let want = w.sum_with_data_at(3)?;
    w.same(&device, image, &want)?;
    let watchers = w.rbd(&format!("status {image}"))?;
    ensure!(watchers.contains(Tap::GUEST), "no watcher of {}: {watchers}", Tap::GUEST);
    w.unmap(&device)?;
    let watchers = w.rbd(&format!("status {image}"))?;
    ensure!(watchers.contains("Watchers: none"), "a watcher stays: {watchers}");
    Ok(())
}

/// The kernel asks any member of a group, or the nearest one, and each read has its answer.
fn any_copy(w: &mut World) -> Result<()> {
    w.image("copies")?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    let near = format!("localize,crush_location=host:{}", host.trim().split('.').next().unwrap_or_default());
    for (mib, policy) in ["balance", &near].into_iter().enumerate() {
        let device = w.map(&format!("{CRC},read_from_replica={policy}"), "copies")?;
        w.guest.must(&format!("dd if=/dev/zero of=/dev/rbd{device} bs=1M count=16 conv=notrunc,fsync 2>/dev/null"))?;
        w.write(&device, mib)?;
        let want = w.sum_with_data_at(mib)?;
        w.same(&device, "copies", &want).with_context(|| policy.to_string())?;
        w.unmap(&device)?;
    }
    Ok(())
}

fn ext4(w: &mut World) -> Result<()> {
    let file = w.c.dir.join("ext4.raw").display().to_string();
    quietly(Command::new("sh").arg("-ec").arg(format!("truncate -s 48M {file}; PATH=$PATH:/usr/sbin mkfs.ext4 -q -F {file}")))?;
    w.rbd(&format!("import --no-progress {file} ext"))?;
    let device = w.map(CRC, "ext")?;
    w.guest.must(&format!("mount -t ext4 /dev/rbd{device} /mnt && mkdir /mnt/d && cp /tmp/data /mnt/data && cp /tmp/data /mnt/gone"))?;
    w.guest.must("i=0; while [ $i -lt 200 ]; do echo file $i > /mnt/d/$i || break; i=$((i+1)); done; rm /mnt/gone; umount /mnt; cold")?;
    w.guest.must(&format!("mount -t ext4 -o ro /dev/rbd{device} /mnt"))?;
    let (want, found) = (w.sum("cat /tmp/data")?, w.sum("cat /mnt/data")?);
    ensure!(want == found, "a file changed: {want}, {found}");
    let files = w.guest.must("ls /mnt/d | wc -l; cat /mnt/d/199; umount /mnt")?;
    ensure!(files.split_whitespace().collect::<Vec<_>>() == ["200", "file", "199"], "{files}");
    w.unmap(&device)?;
    w.exported("ext")?;
    quietly(Command::new("/usr/sbin/e2fsck").args(["-f", "-n"]).arg(w.c.dir.join("export.raw"))).context("what stock's rbd exports")
}

fn discard(w: &mut World) -> Result<()> {
    w.image("discarded")?;
    let info: serde_json::Value = serde_json::from_str(&w.rbd("info discarded --format json")?)?;
    let prefix = info["block_name_prefix"].as_str().context("its objects' prefix")?.to_string();
    let objects =
        |w: &World| -> Result<usize> { Ok(w.c.must(Pacific, "rados -p rbd ls")?.lines().filter(|l| l.starts_with(&prefix)).count()) };
    let device = w.map(CRC, "discarded")?;
    w.write(&device, 0)?;
    ensure!(objects(w)? == DATA_MIB, "{} objects before", objects(w)?);
    // Five whole objects, half of another, and the rest of the data stays.
    w.guest.must(&format!("blkdiscard -o 0 -l {} /dev/rbd{device}", 5 << 20))?;
    w.guest.must(&format!("blkdiscard -o {} -l {} /dev/rbd{device}", 5 << 20, 512 << 10))?;
    ensure!(objects(w)? == DATA_MIB - 5, "{} objects behind", objects(w)?);
    let want = w.sum(&format!(
        "dd if=/dev/zero bs=512k count=11 2>/dev/null; dd if=/tmp/data bs=512k skip=11 2>/dev/null; dd if=/dev/zero bs=1M count={} 2>/dev/null",
        16 - DATA_MIB
    ))?;
    w.same(&device, "discarded", &want)?;
    w.unmap(&device)
}

fn snapshot(w: &mut World) -> Result<()> {
    w.image("snapped")?;
    let device = w.map(CRC, "snapped")?;
    w.write(&device, 0)?;
    let old = w.sum_with_data_at(0)?;
    w.rbd("snap create --no-progress snapped@s")?;
    w.guest.must(&format!("dd if=/dev/zero of=/dev/rbd{device} bs=1M count=6 seek=1 conv=notrunc,fsync 2>/dev/null"))?;
    let snap = w.map(CRC, "snapped s")?;
    w.same(&snap, "snapped@s", &old)?;
    let new = w.device_sum(&device)?;
    ensure!(new != old, "the head did not change");
    ensure!(w.exported("snapped")? == new, "stock's rbd reads another head");
    let (code, said) = w.guest.run(&format!("dd if=/tmp/data of=/dev/rbd{snap} bs=4k count=1 conv=fsync"))?;
    ensure!(code != 0, "a snapshot was written: {said}");
    w.unmap(&snap)?;
    w.unmap(&device)?;
    w.rbd("snap rollback --no-progress snapped@s")?;
    ensure!(w.exported("snapped")? == old, "rolled back");
    Ok(())
}

fn clone(w: &mut World) -> Result<()> {
    w.rbd("snap protect snapped@s")?;
    w.rbd("clone snapped@s child")?;
    let parent = w.exported("snapped@s")?;
    let device = w.map(SECURE, "child")?;
    w.same(&device, "child", &parent)?;
    // Into an object of the parent's, which is copied first, and to where the parent has none.
    w.guest.must(&format!("dd if=/dev/zero of=/dev/rbd{device} bs=4k count=3 seek=600 conv=notrunc,fsync 2>/dev/null"))?;
    w.write(&device, DATA_MIB)?;
    let want = w.sum(
        "dd if=/tmp/data bs=4k count=600 2>/dev/null; dd if=/dev/zero bs=4k count=3 2>/dev/null; dd if=/tmp/data bs=4k skip=603 2>/dev/null; cat /tmp/data",
    )?;
    w.same(&device, "child", &want)?;
    w.rbd("flatten --no-progress child")?;
    w.same(&device, "child", &want)?;
    ensure!(w.exported("snapped@s")? == parent, "the parent changed");
    w.unmap(&device)
}

/// The lock goes to stock's `rbd` when it writes, and comes back when the guest does.
fn hand_over(w: &mut World) -> Result<()> {
    w.image("handed")?;
    let device = w.map(CRC, "handed")?;
    for turn in 0..2 {
        w.write(&device, turn * 4)?;
        let lock = w.rbd("lock ls handed")?;
        ensure!(lock.contains(Tap::GUEST), "turn {turn}: the guest wrote and has no lock: {lock}");
        w.rbd("bench handed --io-type write --io-size 4096 --io-total 64K --io-threads 1")?;
        let lock = w.rbd("lock ls handed")?;
        ensure!(!lock.contains(Tap::GUEST), "turn {turn}: the guest kept the lock: {lock}");
    }
    let stock = w.exported("handed")?;
    w.same(&device, "handed", &stock)?;
    w.unmap(&device)
}

fn capabilities(w: &mut World) -> Result<()> {
    let key = |w: &World, name: &str, osd: &str| -> Result<String> {
        w.c.must(Pacific, &format!("ceph auth add client.{name} mon 'profile rbd' osd '{osd}'"))?;
        Ok(w.c.must(Pacific, &format!("ceph auth get-key client.{name}"))?.trim().to_string())
    };
    let (reader, stranger) = (key(w, "reader", "profile rbd-read-only pool=rbd")?, key(w, "stranger", "profile rbd pool=other")?);
    let admin = w.key.clone();
    for (who, secret, options, error) in [
        ("reader", &reader, CRC, "not permitted"),
        ("stranger", &stranger, CRC, "not permitted"),
        ("stranger", &stranger, "ms_mode=secure,ro", "not permitted"),
        // Another's key.
        ("admin", &reader, CRC, "ermi"),
    ] {
        let (code, said) = w.guest.run(&format!("map {who} {secret} {options} crc"))?;
        ensure!(code != 0 && said.contains(error), "client.{who} maps with {options}: {code}, {said}");
    }
    let want = w.exported("crc")?;
    let device = w.guest.must(&format!("map reader {reader} {CRC},ro crc"))?;
    w.same(&device, "crc", &want)?;
    let (code, said) = w.guest.run(&format!("dd if=/tmp/data of=/dev/rbd{device} bs=4k count=1 conv=fsync"))?;
    ensure!(code != 0, "client.reader writes: {said}");
    w.unmap(&device)?;
    ensure!(w.key == admin && w.exported("crc")? == want, "the image changed");
    Ok(())
}

/// A writer in the guest: each pass writes its number and the data, and is on the device when it counts.
struct Load {
    device: String,
    image: &'static str,
}

impl Load {
    fn start(w: &mut World, image: &'static str) -> Result<Self> {
        w.image(image)?;
        let device = w.map(CRC, image)?;
        w.guest.must(&format!(
            "rm -f /tmp/stop; echo 0 > /tmp/passes; ( n=0; while [ ! -f /tmp/stop ]; do n=$((n+1)); {{ echo pass $n; cat /tmp/data; }} > /tmp/next; \
             dd if=/tmp/next of=/dev/rbd{device} bs=64k conv=notrunc,fsync 2>/dev/null || break; echo $n > /tmp/passes.new; \
             mv /tmp/passes.new /tmp/passes; done; touch /tmp/ended ) > /dev/null 2>&1 < /dev/null &"
        ))?;
        let load = Self { device, image };
        load.passes_more(w, 1)?;
        Ok(load)
    }
    fn passes(w: &mut World) -> Result<u32> {
        w.guest.must("cat /tmp/passes")?.parse().context("a count")
    }
    /// Waits for so many passes more.
    fn passes_more(&self, w: &mut World, more: u32) -> Result<()> {
        let want = Self::passes(w)? + more;
        let came = until(Duration::from_secs(90), || Self::passes(w).is_ok_and(|n| n >= want));
        ensure!(came, "the writer stands still after {} passes:\n{}", Self::passes(w)?, w.c.log());
        Ok(())
    }
    /// Ends it; the last pass is there, whole.
    fn end(self, w: &mut World) -> Result<()> {
        w.guest.must("touch /tmp/stop; while [ ! -f /tmp/ended ]; do sleep 0.1; done; rm /tmp/ended; sync")?;
        let passes = Self::passes(w)?;
        // Its line and the data end between two blocks.
        let want = w.sum(&format!("echo pass {passes}; cat /tmp/data"))?;
        let length = DATA_MIB << 20;
        let line = format!("pass {passes}\n").len();
        let found = w.sum(&format!("cold; head -c {} /dev/rbd{}", length + line, self.device))?;
        ensure!(found == want, "pass {passes} was written as {want} and is read as {found}");
        let guest = w.device_sum(&self.device)?;
        w.same(&self.device, self.image, &guest)?;
        w.unmap(&self.device)
    }
}

fn split(w: &mut World) -> Result<()> {
    let load = Load::start(w, "split")?;
    w.c.must(Pacific, "ceph osd pool set rbd pg_num 32")?;
    let done = || w.c.must(Pacific, "ceph pg stat").is_ok_and(|text| text.trim_start().starts_with("32 pgs: 32 active+clean;"));
    ensure!(until(Duration::from_secs(60), done), "no 32 clean groups: {}", w.c.must(Pacific, "ceph pg stat")?);
    load.passes_more(w, 2)?;
    load.end(w)
}

fn killed(w: &mut World) -> Result<()> {
    let load = Load::start(w, "killed")?;
    for _ in 0..2 {
        load.passes_more(w, 1)?;
        w.c.kill_and_restart(&["--listen", Tap::HOST])?;
        load.passes_more(w, 2)?;
    }
    load.end(w)
}
