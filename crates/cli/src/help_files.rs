//! What the program says of itself for packages: completions of shells and manual pages, made of the same types that parse its arguments.

use crate::args::Args;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::path::Path;

/// Completions, on standard output.
pub fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "humboldt", &mut text);
    std::io::Write::write_all(&mut std::io::stdout(), &text).context("standard output")
}

/// `humboldt.1`, `humboldt-up.1` and so on.
pub fn man_pages(dir: &Path) -> Result<()> {
    disk::create_dirs(dir).with_context(|| format!("making the folder {}", dir.display()))?;
    clap_mangen::generate_to(Args::command(), dir).with_context(|| format!("writing into {}", dir.display()))
}
