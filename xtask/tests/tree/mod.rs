//! The repository's files, for the tests that read them.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Adds the Rust files of a folder, and of those in it, to `out`.
#[allow(dead_code, reason = "one of the tests reads no sources")]
pub fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}
