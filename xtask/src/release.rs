//! `cargo xtask release`: all that a release consists of, from one build: tarball, Debian package, images, bills of materials, licences,
//! checksums.
//!
//! The program is linked statically: it needs no libc of the system that it comes to. All of it depends on the commit alone, so that two
//! builds are equal byte for byte. Absent: what goes into a package ([`crate::package`]) and into an image ([`suites::oci`]).

use crate::arch::Arch;
use crate::package::{self, commit_time};
use crate::sbom;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use suites::cluster::target;
use suites::oci::{self, NAMES, SIZE_MAX, Source, tree};
use suites::run::{must, root};

/// The time that C sources write into their program (mimalloc does), in seconds since 1970. It is the same for each commit: cargo does not
/// compile them again for another one.
const C_TIME: &str = "0";

/// Makes a release in `target/dist-ARCH`. `again`: makes a second one elsewhere, builds included, and compares.
pub fn release(arch: Arch, again: bool) -> Result<()> {
    arch.install()?;
    let time = commit_time()?;
    let place = |suffix: &str| root().join(format!("target/dist-{}{suffix}", arch.debian()));
    let out = place("");
    let sums = artefacts(arch, &program(arch, "static")?, &out, time)?;
    print!("{sums}");
    if again {
        let other = artefacts(arch, &program(arch, "static-again")?, &place("-again"), time)?;
        ensure!(other == sums, "a second build differs:\n{other}");
        println!("a second build is equal");
    }
    println!("the release is in {}", out.strip_prefix(root()).unwrap_or(&out).display());
    Ok(())
}

/// The program: `HUMBOLDT_BINARY` if that is set, a static build in a folder of that name otherwise.
pub fn program(arch: Arch, folder: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HUMBOLDT_BINARY") {
        return Ok(path.into());
    }
    let into = target().join(folder);
    // Places of this machine, and the names that stand for them in messages and tables of lines.
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).context("HOME is not set")?;
    let places = [(root(), "/humboldt"), (home, "/cargo"), (into.clone(), "/target")];
    let mapped = |option: &str| places.iter().map(|(from, to)| format!("{option}={}={to}", from.display())).collect::<Vec<_>>();
    let flags = [vec!["-Ctarget-feature=+crt-static".to_string()], mapped("--remap-path-prefix")].concat();
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).args(["build", "--profile", "release", "--locked", "--quiet", "--package", "cli"]);
    arch.prepare(&mut cargo);
    cargo.env("CARGO_TARGET_DIR", &into).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    cargo.env("CFLAGS", mapped("-ffile-prefix-map").join(" ")).env("SOURCE_DATE_EPOCH", C_TIME);
    must(&mut cargo)?;
    Ok(into.join(arch.triple()).join("release/humboldt"))
}

/// Makes everything of that program in `out`; the checksums, a line for each file.
fn artefacts(arch: Arch, program: &Path, out: &Path, time: u64) -> Result<String> {
    let _ = fs::remove_dir_all(out);
    let version = env!("CARGO_PKG_VERSION");
    let tree = package::both(arch, program, out, time)?.tree;
    let linked = package::linked_packages(arch, &tree.join("usr/bin/humboldt"))?;
    let docs = tree.join("usr/share/doc/humboldt");
    // The gateway of the other image is a stock program of this machine's kind.
    let names = if arch == Arch::Amd64 { &NAMES[..] } else { &NAMES[..1] };
    for name in names {
        let debian = arch.debian();
        let source = Source { program: &tree.join("usr/bin/humboldt"), arch: debian, version, time, docs: Some(&docs), work: out };
        let made = oci::make(name, &source)?;
        let mib = made.bytes >> 20;
        ensure!(*name != NAMES[0] || made.bytes <= SIZE_MAX, "image {name} has {mib} MiB, {} are its bound", SIZE_MAX >> 20);
        println!("image {name}: {mib} MiB unpacked");
        tree::pack(&made.layout, time, &out.join(format!("{name}-{version}-linux-{debian}.oci.tar")))?;
        fs::remove_dir_all(&made.layout)?;
        let packages = linked.clone().into_iter().chain(made.packages).collect();
        fs::write(out.join(format!("{name}-{version}-linux-{debian}.cdx.json")), sbom::sbom_with(arch, &packages)?)?;
    }
    fs::copy(docs.join(package::LICENCES), out.join(package::LICENCES))?;
    fs::remove_dir_all(&tree)?;
    sums(out)
}

/// Writes `SHA256SUMS`, as `sha256sum --check` reads it.
fn sums(dir: &Path) -> Result<String> {
    let mut names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<Result<Vec<_>>>()?;
    names.sort();
    let lines = names.iter().map(|name| Ok(format!("{}  {name}\n", tree::digest(&dir.join(name))?))).collect::<Result<String>>()?;
    fs::write(dir.join("SHA256SUMS"), &lines)?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_that_sha256sum_checks() {
        let dir = std::env::temp_dir().join(format!("humboldt-sums-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("b"), "two").unwrap();
        fs::write(dir.join("a"), "one").unwrap();
        let lines = sums(&dir).unwrap();
        assert_eq!(lines.lines().map(|line| &line[64..]).collect::<Vec<_>>(), ["  a", "  b"]);
        let check = Command::new("sha256sum").args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(&dir).status().unwrap();
        assert!(check.success());
        fs::remove_dir_all(&dir).unwrap();
    }
}
