//! A small Linux in QEMU that does what it is told: its kernel is Debian's, its only other program busybox, its network a tap.
//!
//! Holds the guest and how a line reaches it; what its kernel must do with images is [`super::kernel_client`]'s. No KVM: the emulator runs everywhere.

use super::qemu::kernel;
use crate::clients::apt;
use crate::netns::{Net, Tap};
use crate::run::quietly;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Packages that it needs, each with a file that tells that it is here.
const PACKAGES: [(&str, &str); 5] = [
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
    ("busybox-static", "/bin/busybox"),
    ("cpio", "/usr/bin/cpio"),
    ("e2fsprogs", "/usr/sbin/mkfs.ext4"),
    ("iproute2", "/usr/sbin/ip"),
];

/// Modules of network, checksums, ciphers and images; the guest tries them until each has found its symbols. Those that a kernel does not have as files
/// are built in.
const MODULES: [&str; 19] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "crc32c_generic",
    "libcrc32c",
    "gf128mul",
    "ghash-generic",
    "ctr",
    "gcm",
    "cbc",
    "ccm",
    "dns_resolver",
    "libceph",
    "rbd",
];

/// Reads lines from its second serial port, runs each, and says how it ended. `map` prints the number of the device that it made.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin; export PATH=/bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tmpfs t /tmp
for pass in 1 2 3 4; do for m in MODULES; do insmod /lib/$m.ko 2>/dev/null; done; done
i=0; while [ ! -e /sys/class/net/eth0 ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done
ip link set lo up; ip link set eth0 up; ip addr add GUEST/24 dev eth0
map() { # USER SECRET OPTIONS IMAGE [SNAP]
  echo "$MON name=$1,secret=$2,$3 rbd $4 ${5:--}" > /sys/bus/rbd/add_single_major || return 1
  for d in /sys/bus/rbd/devices/*; do
    if [ "$(cat $d/name)" = "$4" ] && [ "$(cat $d/current_snap)" = "${5:--}" ]; then basename $d; fi
  done
}
unmap() { echo $1 > /sys/bus/rbd/remove_single_major; }
cold() { echo 3 > /proc/sys/vm/drop_caches; }
stty -F /dev/ttyS1 raw -echo
exec < /dev/ttyS1 > /dev/ttyS1 2>&1
echo READY
while read -r line; do eval "$line"; echo "END $?"; done
"#;

pub struct Guest {
    qemu: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    console: PathBuf,
}

impl Guest {
    /// Boots it, with its files in that folder and its network on that tap.
    pub fn boot(dir: &Path, tap: &Tap) -> Result<Self> {
        let missing: Vec<&str> = PACKAGES.iter().filter(|(_, file)| !Path::new(file).exists()).map(|(name, _)| *name).collect();
        if !missing.is_empty() {
            apt(&[&["install", "-y", "-q", "--no-install-recommends"], &missing[..]].concat())?;
        }
        let (kernel, console) = (kernel()?, dir.join("console.log"));
        initramfs(dir, &kernel)?;
        let image = std::fs::read_dir(kernel.join("boot"))?.flatten().map(|e| e.path());
        let image = { image }.find(|p| p.display().to_string().contains("vmlinuz")).context("a kernel in its package")?;
        let mut qemu = Command::new("qemu-system-x86_64");
        // QEMU 7.2 emulates cmpxchg16b in a way that breaks the guest.
        qemu.args(["-accel", "tcg", "-cpu", "max,-cx16", "-m", "512", "-nodefaults", "-display", "none", "-no-reboot"]);
        qemu.args(["-append", "console=ttyS0 quiet panic=1", "-serial", &format!("file:{}", console.display()), "-serial", "stdio"]);
        qemu.arg("-kernel").arg(image).arg("-initrd").arg(dir.join("initrd"));
        qemu.args(["-netdev", &format!("tap,id=n,ifname={},script=no,downscript=no", Tap::DEVICE), "-device", "virtio-net-pci,netdev=n"]);
        let log = std::fs::File::create(dir.join("qemu.log"))?;
        let mut qemu = Net::inside(&tap.namespace.name, &qemu)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("starting QEMU")?;
        let (stdin, stdout) = (qemu.stdin.take().context("piped")?, qemu.stdout.take().context("piped")?);
        let (send, lines) = channel();
        std::thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut guest = Self { qemu, stdin, lines, console };
        guest.read_to(Duration::from_secs(120), |line| line == "READY")?;
        Ok(guest)
    }
    /// What it prints up to the line that is good, without it; and that line.
    fn read_to(&mut self, limit: Duration, good: impl Fn(&str) -> bool) -> Result<(String, String)> {
        let (end, mut text) = (Instant::now() + limit, String::new());
        loop {
            let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) else {
                let console = std::fs::read_to_string(&self.console).unwrap_or_default();
                let tail: Vec<&str> = console.lines().rev().take(40).collect();
                bail!(
                    "the guest says nothing more after:\n{text}--- its console\n{}",
                    tail.into_iter().rev().collect::<Vec<_>>().join("\n")
                );
            };
            let line = line.trim_end_matches('\r').to_string();
            if good(&line) {
                return Ok((text, line));
            }
            text.push_str(&line);
            text.push('\n');
        }
    }
    /// Runs a line of shell in it: its exit code and what it printed.
    pub fn run(&mut self, line: &str) -> Result<(i32, String)> {
        writeln!(self.stdin, "{line}").context("the guest's serial port")?;
        let (text, end) = self.read_to(Duration::from_secs(120), |line| line.starts_with("END ")).with_context(|| line.to_string())?;
        Ok((end[4..].parse().with_context(|| end.clone())?, text.trim().to_string()))
    }
    /// The same, and it must succeed; gives what it printed.
    pub fn must(&mut self, line: &str) -> Result<String> {
        let (code, text) = self.run(line)?;
        ensure!(code == 0, "`{line}` ended with {code} in the guest:\n{text}");
        Ok(text)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Everything that the guest has of files.
fn initramfs(dir: &Path, kernel: &Path) -> Result<()> {
    let root = dir.join("guest");
    for folder in ["bin", "proc", "sys", "dev", "mnt", "lib", "tmp"] {
        std::fs::create_dir_all(root.join(folder))?;
    }
    std::fs::copy("/bin/busybox", root.join("bin/busybox"))?;
    let shell = |line: &str| quietly(Command::new("sh").arg("-ec").arg(line).current_dir(dir));
    for module in MODULES {
        shell(&format!(
            "f=$(find '{}' -name {module}.ko | head -1); [ -z \"$f\" ] || cp \"$f\" guest/lib/",
            kernel.join("lib/modules").display()
        ))?;
    }
    ensure!(root.join("lib/rbd.ko").exists(), "the kernel's package in {} has no rbd.ko", kernel.display());
    std::fs::write(root.join("init"), INIT.replace("MODULES", &MODULES.join(" ")).replace("GUEST", Tap::GUEST))?;
    shell("chmod +x guest/init; (cd guest && find . | cpio -o -H newc --quiet | gzip -1) > initrd")
}
