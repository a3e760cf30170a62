//! The kinds of machine that a release is for: their names in Rust, Debian and images, and the programs that make and run theirs here.
//!
//! A foreign kind is compiled by Debian's cross compiler and runs under QEMU's emulation of a user's program. Absent: the build
//! ([`crate::release`]) and what is tried ([`crate::arm64`]).

use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use suites::clients::{apt, is_root};
use suites::run::must;

/// A kind of machine, by Debian's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Arch {
    Amd64,
    Arm64,
}

/// Runs a program of [`Arch::Arm64`].
const EMULATOR: &str = "qemu-aarch64-static";
/// Where Debian puts the libraries of a foreign kind: what is not linked statically asks for them.
const FOREIGN_ROOT: &str = "/usr/aarch64-linux-gnu";
/// Packages of Debian that compile and run it.
const FOREIGN: [&str; 3] = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user-static"];

impl Arch {
    /// Rust's name. glibc has a static half wherever C is compiled, and the program asks it for no names of hosts or users, which would
    /// load more.
    pub const fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Debian's name, which is that of images, too.
    pub const fn debian(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The static half of glibc on the machine that builds.
    pub const fn libc(self) -> &'static str {
        match self {
            Self::Amd64 => "/usr/lib/x86_64-linux-gnu/libc.a",
            Self::Arm64 => "/usr/aarch64-linux-gnu/lib/libc.a",
        }
    }

    /// A program of binutils or the compiler that works on files of this kind.
    pub fn tool(self, name: &str) -> Command {
        match self {
            Self::Amd64 => Command::new(name),
            Self::Arm64 => Command::new(format!("aarch64-linux-gnu-{name}")),
        }
    }

    /// Starts a program of this kind.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Self::Amd64 => Command::new(program),
            Self::Arm64 => {
                let mut command = Command::new(EMULATOR);
                command.arg(program);
                command
            }
        }
    }

    /// Cargo builds for this kind, and runs tests of it.
    pub fn prepare(self, cargo: &mut Command) {
        cargo.args(["--target", self.triple()]);
        if self == Self::Arm64 {
            cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
            cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{EMULATOR} -L {FOREIGN_ROOT}"));
        }
    }

    /// Installs the compilers and the emulator of a foreign kind, or says which are missing.
    pub fn install(self) -> Result<()> {
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", self.triple()]);
        let out = rustc.output().context("starting rustc")?;
        let libraries = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim());
        if !libraries.is_dir() {
            let mut rustup = Command::new("rustup");
            rustup.args(["target", "add", self.triple()]);
            must(&mut rustup)
                .with_context(|| format!("Rust's standard library for {} is not there, and rustup can't add it", self.triple()))?;
        }
        let is_there =
            |program: &str| std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|d| d.join(program).is_file());
        if self == Self::Arm64 && !(is_there("aarch64-linux-gnu-gcc") && is_there(EMULATOR) && Path::new(self.libc()).exists()) {
            ensure!(is_root(), "packages are missing: apt install {}", FOREIGN.join(" "));
            apt(&[&["install", "-y", "-q", "--no-install-recommends"][..], &FOREIGN].concat())?;
        }
        Ok(())
    }
}
