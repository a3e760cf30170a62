//! QEMU with an RBD image as its disk: a small Linux boots from it, writes, restarts and finds what it wrote.
//!
//! The Linux is made of Debian's packages: the cloud kernel, busybox, a boot loader. No KVM: the emulator runs everywhere.

use super::Case;
use crate::clients::{CACHE, Release::Pacific, apt};
use crate::cluster::Cluster;
use crate::run::{quietly, run};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "qemu_boots_from_an_image", needs: &[Pacific], run: boots }];

/// Packages that the case needs, each with a file that tells that it is here.
const PACKAGES: [(&str, &str); 9] = [
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
    ("qemu-utils", "/usr/bin/qemu-img"),
    ("qemu-block-extra", "/usr/lib/x86_64-linux-gnu/qemu/block-rbd.so"),
    ("busybox-static", "/bin/busybox"),
    ("syslinux", "/usr/bin/syslinux"),
    ("syslinux-common", "/usr/lib/syslinux/mbr/mbr.bin"),
    ("mtools", "/usr/bin/mcopy"),
    ("dosfstools", "/usr/sbin/mkfs.vfat"),
    ("cpio", "/usr/bin/cpio"),
];

/// Modules of the disk; the guest tries them until each has found its symbols. Its ext4 and serial console are built in.
const MODULES: [&str; 6] = ["virtio", "virtio_ring", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk"];

/// The guest's only program. The first boot writes and restarts; the second compares and powers off.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin; export PATH=/bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
for pass in 1 2 3; do for m in MODULES; do insmod /lib/$m.ko 2>/dev/null; done; done
i=0; while [ ! -b /dev/vda2 ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done
mount -t ext4 /dev/vda2 /mnt || { echo GUEST: no disk; poweroff -f; }
cd /mnt
if [ -f sum ]; then
  sha256sum -c sum && echo GUEST: found what it wrote || echo GUEST: DIFFERS
  cd /; umount /mnt; sync; poweroff -f
else
  dd if=/dev/urandom of=data bs=1M count=16 && sha256sum data > sum
  cd /; umount /mnt; sync; echo GUEST: wrote; reboot -f
fi
"#;

const SYSLINUX: &str =
    "SERIAL 0 115200\nDEFAULT l\nPROMPT 0\nLABEL l\n KERNEL vmlinuz\n INITRD initrd\n APPEND console=ttyS0 quiet panic=1\n";

/// Two partitions: where the boot loader finds the kernel, and the guest's own.
const TABLE: &str = "label: dos\n2048,131072,c,*\n133120,129024,83\n";

fn boots() -> Result<()> {
    let missing: Vec<&str> = PACKAGES.iter().filter(|(_, file)| !Path::new(file).exists()).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        apt(&[&["install", "-y", "-q", "--no-install-recommends", "fdisk", "e2fsprogs"], &missing[..]].concat())?;
    }
    let c = Cluster::start("qemu", &[])?;
    c.must(Pacific, "ceph osd pool create rbd 16")?;
    c.must(Pacific, "rbd pool init rbd")?;
    let disk = disk(&c.dir)?;
    let image = format!("rbd:rbd/boot:id=admin:conf={}", c.conf.display());
    let convert = |from: &str, to: &str| quietly(Command::new("qemu-img").args(["convert", "-f", "raw", "-O", "raw", from, to]));
    let (disk, back) = (disk.display().to_string(), c.dir.join("back.raw").display().to_string());
    convert(&disk, &image)?;
    convert(&image, &back)?;
    quietly(Command::new("cmp").args([&disk, &back])).context("qemu-img convert to an image and back")?;

    let boot = || {
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-accel", "tcg", "-m", "256", "-nodefaults", "-display", "none", "-serial", "stdio", "-drive"]);
        run(qemu.arg(format!("file={image},format=raw,if=virtio,cache=writeback")), Duration::from_secs(180))
    };
    let first = boot()?;
    for line in ["GUEST: wrote", "GUEST: found what it wrote"] {
        ensure!(first.stdout.contains(line), "no `{line}` ({}): {}{}", first.code, first.stdout, first.stderr);
    }
    // Another QEMU, and what it reads is what `rbd` reads.
    let second = boot()?;
    let found = second.stdout.contains("GUEST: found what it wrote") && !second.stdout.contains("GUEST: wrote");
    ensure!(found, "the second QEMU does not find it ({}): {}{}", second.code, second.stdout, second.stderr);
    convert(&image, &back)?;
    let exported = c.dir.join("exported.raw").display().to_string();
    c.must(Pacific, &format!("rbd export boot {exported} --no-progress"))?;
    quietly(Command::new("cmp").args([&back, &exported])).context("qemu-img and rbd read the same image")?;
    c.stop()
}

/// A raw disk that boots: made of files alone, no loop device and no mount.
fn disk(dir: &Path) -> Result<PathBuf> {
    let at = |name: &str| dir.join(name);
    let shell = |line: &str| quietly(Command::new("sh").arg("-ec").arg(line).current_dir(dir));
    let kernel = kernel()?;
    for folder in ["bin", "proc", "sys", "dev", "mnt", "lib"] {
        std::fs::create_dir_all(at("i").join(folder))?;
    }
    std::fs::copy("/bin/busybox", at("i/bin/busybox"))?;
    for module in MODULES {
        shell(&format!("cp $(find '{}/lib/modules' -name {module}.ko) i/lib/", kernel.display()))?;
    }
    std::fs::write(at("i/init"), INIT.replace("MODULES", &MODULES.join(" ")))?;
    std::fs::write(at("syslinux.cfg"), SYSLINUX)?;
    std::fs::write(at("table"), TABLE)?;
    shell("chmod +x i/init; (cd i && find . | cpio -o -H newc --quiet | gzip -1) > initrd")?;
    shell(
        "truncate -s 128M disk.raw; sfdisk -q disk.raw < table; dd if=/usr/lib/syslinux/mbr/mbr.bin of=disk.raw conv=notrunc status=none",
    )?;
    shell("truncate -s 64M fat; PATH=$PATH:/usr/sbin mkfs.vfat -h 2048 fat >/dev/null")?;
    shell(&format!(
        "mcopy -i fat '{}'/boot/vmlinuz-* ::vmlinuz; mcopy -i fat initrd syslinux.cfg ::; syslinux --install fat",
        kernel.display()
    ))?;
    shell("dd if=fat of=disk.raw bs=1M seek=1 conv=notrunc status=none")?;
    shell(
        "truncate -s 63M ext; PATH=$PATH:/usr/sbin mkfs.ext4 -q -F ext; dd if=ext of=disk.raw bs=1M seek=65 conv=notrunc,sparse status=none",
    )?;
    Ok(at("disk.raw"))
}

/// The cloud kernel's package, unpacked where stock clients are kept, and kept: it is not installed.
pub fn kernel() -> Result<PathBuf> {
    // Two cases may ask for it at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().expect("no holder panics");
    let kept = Path::new(CACHE).join("kernel");
    if !kept.join("boot").exists() {
        let unpacking = Path::new(CACHE).join(format!("kernel.{}", std::process::id()));
        std::fs::create_dir_all(&unpacking)?;
        quietly(Command::new("apt-get").args(["update", "-q"]))?;
        let depends = run(Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]), Duration::from_secs(60))?.stdout;
        let Some(package) = depends.lines().find_map(|l| l.trim().strip_prefix("Depends: ").filter(|p| p.starts_with("linux-image-")))
        else {
            bail!("apt knows no linux-image-cloud-amd64: {depends}");
        };
        quietly(Command::new("apt-get").args(["download", "-q", package]).current_dir(&unpacking))?;
        quietly(Command::new("sh").arg("-ec").arg("dpkg-deb -x linux-image-*.deb .; rm linux-image-*.deb").current_dir(&unpacking))?;
        std::fs::rename(unpacking, &kept)?;
    }
    Ok(kept)
}
