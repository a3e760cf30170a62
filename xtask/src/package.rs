//! `cargo xtask package`: a .deb and a tarball, made of the program, what it says of itself (manual pages, completions) and `packaging/`.
//!
//! Holds what goes where. dpkg-deb makes the archive; the case `package_installs` tries it in fresh Debian systems.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use suites::cluster::{Build, binary, build, take};
use suites::run::{must, quietly, root, run};

/// Files of `packaging/` that go into the package, with their places and modes.
const FILES: [(&str, &str); 3] = [
    ("humboldt.service", "lib/systemd/system/humboldt.service"),
    ("humboldt-osd@.service", "lib/systemd/system/humboldt-osd@.service"),
    ("default", "etc/default/humboldt"),
];
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
const DOCS: [&str; 5] = ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Makes both of the program under test, a release build unless `HUMBOLDT_BINARY` names another; gives the .deb.
pub fn package() -> Result<PathBuf> {
    take(Build::Shipped);
    build()?;
    let version = env!("CARGO_PKG_VERSION");
    let out = root().join("target/package");
    let tree = out.join("root");
    let _ = fs::remove_dir_all(&out);
    install(&tree)?;
    let deb = out.join(format!("humboldt_{version}_amd64.deb"));
    control(&tree, version)?;
    quietly(Command::new("dpkg-deb").args(["--root-owner-group", "-Zgzip", "--build"]).arg(&tree).arg(&deb))
        .context("dpkg-deb makes the package (apt install dpkg)")?;
    fs::remove_dir_all(tree.join("DEBIAN"))?;
    let tarball = out.join(format!("humboldt-{version}-linux-amd64.tar.gz"));
    quietly(Command::new("tar").arg("-C").arg(&tree).args(["--owner=0", "--group=0", "-czf"]).arg(&tarball).arg("."))?;
    for made in [&deb, &tarball] {
        println!("{} ({} KiB)", made.strip_prefix(root()).unwrap_or(made).display(), fs::metadata(made)?.len() >> 10);
    }
    Ok(deb)
}

fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(to.parent().context("a folder")?)?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(fs::set_permissions(to, PermissionsExt::from_mode(mode))?)
}

/// All files at their places below `tree`.
fn install(tree: &Path) -> Result<()> {
    let program = tree.join("usr/bin/humboldt");
    put(&binary(), &program, 0o755)?;
    must(Command::new("strip").arg(&program)).context("strip is in the package binutils")?;
    for (name, place) in FILES {
        put(&root().join("packaging").join(name), &tree.join(place), 0o644)?;
    }
    fs::create_dir_all(tree.join("usr/share/doc/humboldt"))?;
    fs::write(tree.join("usr/share/doc/humboldt/sbom.cdx.json"), crate::sbom::sbom()?)?;
    for name in DOCS {
        put(&root().join(name), &tree.join("usr/share/doc/humboldt").join(name), 0o644)?;
    }
    let says = |args: &[&str]| -> Result<String> {
        let out = run(Command::new(&program).args(args), Duration::from_secs(30))?;
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
fn control(tree: &Path, version: &str) -> Result<()> {
    let debian = tree.join("DEBIAN");
    fs::create_dir_all(&debian)?;
    let libc = glibc(&tree.join("usr/bin/humboldt"))?;
    let text = fs::read_to_string(root().join("packaging/control"))?;
    let text = text.replace("@VERSION@", version).replace("@DEPENDS@", &format!("libc6 (>= {libc}), libgcc-s1"));
    fs::write(debian.join("control"), text)?;
    fs::write(debian.join("conffiles"), "/etc/default/humboldt\n")?;
    for name in SCRIPTS {
        put(&root().join("packaging").join(name), &debian.join(name), 0o755)?;
    }
    Ok(())
}

/// The newest version of glibc that the program asks for.
fn glibc(program: &Path) -> Result<String> {
    let out = run(Command::new("objdump").arg("-T").arg(program), Duration::from_secs(60)).context("objdump is in the package binutils")?;
    let versions = out.stdout.split("GLIBC_").skip(1).filter_map(|rest| {
        let text: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let parts: Vec<u32> = text.split('.').filter_map(|n| n.parse().ok()).collect();
        (parts.len() >= 2).then_some((parts, text))
    });
    Ok(versions.max().context("the program asks for no glibc")?.1)
}
