//! `cargo xtask package`: a .deb and a tarball, made of the program, what it says of itself (manual pages, completions) and `packaging/`.
//!
//! Holds what goes where. dpkg-deb makes the archive; the case `package_installs` tries it in fresh Debian systems. Both depend on their
//! content alone.

use crate::arch::Arch;
use crate::licences;
use crate::sbom::sbom_with;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use suites::cluster::{Build, binary, build, take};
use suites::oci::system::{Packages, System};
use suites::oci::tree;
use suites::run::{must, quietly, root, run};

/// Files of `packaging/` that go into the package, with their places and modes.
const FILES: [(&str, &str); 3] = [
    ("humboldt.service", "lib/systemd/system/humboldt.service"),
    ("humboldt-osd@.service", "lib/systemd/system/humboldt-osd@.service"),
    ("default", "etc/default/humboldt"),
];
/// The licences of all crates that are linked.
pub const LICENCES: &str = "licences-of-crates.txt";
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
const DOCS: [&str; 5] = ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// The package, and the folder with all its files at their places.
pub struct Made {
    pub deb: PathBuf,
    pub tree: PathBuf,
}

/// Makes both of the program under test, a release build unless `HUMBOLDT_BINARY` names another; gives the .deb.
pub fn package() -> Result<PathBuf> {
    take(Build::Shipped);
    build()?;
    let out = root().join("target/package");
    let _ = fs::remove_dir_all(&out);
    Ok(both(Arch::Amd64, &binary(), &out, commit_time()?)?.deb)
}

/// Seconds since 1970 at which the commit was made, or what SOURCE_DATE_EPOCH says.
pub fn commit_time() -> Result<u64> {
    let said = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => run(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()), Duration::from_secs(30))?.stdout,
    };
    said.trim().parse().context("no commit tells its time: set SOURCE_DATE_EPOCH to seconds since 1970")
}

/// Makes both of that program in `out`.
pub fn both(arch: Arch, program: &Path, out: &Path, time: u64) -> Result<Made> {
    let version = env!("CARGO_PKG_VERSION");
    let tree = out.join("root");
    install(arch, program, &tree)?;
    let deb = out.join(format!("humboldt_{version}_{}.deb", arch.debian()));
    control(arch, &tree, version)?;
    tree::even(&tree, time)?;
    let mut archive = Command::new("dpkg-deb");
    archive.args(["--root-owner-group", "-Zgzip", "--build"]).arg(&tree).arg(&deb).env("SOURCE_DATE_EPOCH", time.to_string());
    quietly(&mut archive).context("dpkg-deb makes the package (apt install dpkg)")?;
    fs::remove_dir_all(tree.join("DEBIAN"))?;
    let tarball = out.join(format!("humboldt-{version}-linux-{}.tar", arch.debian()));
    tree::pack(&tree, time, &tarball)?;
    let tarball = tree::squeeze(&tarball)?;
    for made in [&deb, &tarball] {
        println!("{} ({} KiB)", made.strip_prefix(root()).unwrap_or(made).display(), fs::metadata(made)?.len() >> 10);
    }
    match glibc(arch, &tree.join("usr/bin/humboldt"))? {
        Some(libc) => println!("the program needs glibc {libc} or later"),
        None => println!("the program needs no libc of the system"),
    }
    Ok(Made { deb, tree })
}

fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(to.parent().context("a folder")?)?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(fs::set_permissions(to, PermissionsExt::from_mode(mode))?)
}

/// All files at their places below `tree`.
fn install(arch: Arch, built: &Path, tree: &Path) -> Result<()> {
    let program = tree.join("usr/bin/humboldt");
    put(built, &program, 0o755)?;
    must(arch.tool("strip").arg(&program)).context("strip is in the package binutils")?;
    for (name, place) in FILES {
        put(&root().join("packaging").join(name), &tree.join(place), 0o644)?;
    }
    fs::create_dir_all(tree.join("usr/share/doc/humboldt"))?;
    let linked = linked_packages(arch, &program)?;
    fs::write(tree.join("usr/share/doc/humboldt/sbom.cdx.json"), sbom_with(arch, &linked)?)?;
    fs::write(tree.join("usr/share/doc/humboldt").join(LICENCES), licences::texts(arch, &linked)?)?;
    for name in DOCS {
        put(&root().join(name), &tree.join("usr/share/doc/humboldt").join(name), 0o644)?;
    }
    let says = |args: &[&str]| -> Result<String> {
        let out = run(arch.command(&program).args(args), Duration::from_secs(30))?;
        ensure!(out.ok(), "humboldt {args:?}: {out:?}");
        Ok(out.stdout)
    };
    for (shell, place) in [
        ("bash", "usr/share/bash-completion/completions/humboldt"),
        ("zsh", "usr/share/zsh/vendor-completions/_humboldt"),
        ("fish", "usr/share/fish/vendor_completions.d/humboldt.fish"),
    ] {
        let path = tree.join(place);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(&path, says(&["completions", shell])?)?;
    }
    let man = tree.join("usr/share/man/man1");
    fs::create_dir_all(&man)?;
    says(&["man-pages", &man.display().to_string()])?;
    for page in fs::read_dir(&man)? {
        quietly(Command::new("gzip").args(["-9n"]).arg(page?.path()))?;
    }
    Ok(())
}

/// The package's own files.
fn control(arch: Arch, tree: &Path, version: &str) -> Result<()> {
    let debian = tree.join("DEBIAN");
    fs::create_dir_all(&debian)?;
    let libraries = glibc(arch, &tree.join("usr/bin/humboldt"))?.map_or(String::new(), |libc| format!(", libc6 (>= {libc}), libgcc-s1"));
    let text = fs::read_to_string(root().join("packaging/control"))?;
    let text = text.replace("@VERSION@", version).replace("@ARCH@", arch.debian()).replace("@DEPENDS@", &libraries);
    fs::write(debian.join("control"), text)?;
    fs::write(debian.join("conffiles"), "/etc/default/humboldt\n")?;
    for name in SCRIPTS {
        put(&root().join("packaging").join(name), &debian.join(name), 0o755)?;
    }
    Ok(())
}

/// Packages of this machine whose libraries are in the program: that of glibc in a static one.
pub fn linked_packages(arch: Arch, program: &Path) -> Result<Packages> {
    if glibc(arch, program)?.is_some() {
        return Ok(Packages::new());
    }
    System(None).packages(&[arch.libc().to_string()]).context("the package of the libc that is linked")
}

/// The newest version of glibc that the program asks for; none of one that is static.
fn glibc(arch: Arch, program: &Path) -> Result<Option<String>> {
    let out = run(arch.tool("objdump").arg("-T").arg(program), Duration::from_secs(60)).context("objdump is in the package binutils")?;
    let versions = out.stdout.split("GLIBC_").skip(1).filter_map(|rest| {
        let text: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let parts: Vec<u32> = text.split('.').filter_map(|n| n.parse().ok()).collect();
        (parts.len() >= 2).then_some((parts, text))
    });
    Ok(versions.max().map(|(_, text)| text))
}
