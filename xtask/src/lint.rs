//! What cores must not use, as `clippy.toml` has it with the reasons: looked at by the compiler's eyes, so that no other name hides it.

use anyhow::{Context, Result};
use std::process::Command;
use suites::run::{must, root};

/// Crates that have clocks, threads, sockets or files. All others are cores.
const SHELLS: &[&str] = &["say", "disk", "net", "osd", "mon", "client", "lab", "cli"];

/// Fails where a core uses what it must not.
pub fn cores() -> Result<()> {
    let mut args: Vec<String> = ["clippy", "--quiet", "--lib", "--no-deps"].map(String::from).to_vec();
    for entry in std::fs::read_dir(root().join("crates")).context("the crates")? {
        let name = entry?.file_name().to_string_lossy().to_string();
        if !SHELLS.contains(&name.as_str()) {
            args.extend(["-p".to_string(), name]);
        }
    }
    args.extend(["--", "-A", "clippy::all", "-D", "clippy::disallowed_types", "-D", "clippy::disallowed_methods"].map(String::from));
    must(Command::new("cargo").current_dir(root()).args(args))
        .context("a core uses what clippy.toml bans (clippy is a component of rustup)")
}

/// Fails where an example no longer compiles. None is linked.
pub fn examples() -> Result<()> {
    must(Command::new("cargo").current_dir(root()).args(["check", "--quiet", "--workspace", "--examples"]))
}
