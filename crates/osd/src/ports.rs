//! The ports of an OSD's last run, kept in a small file: four numbers, in the order of its networks.
//!
//! Holds no decision but which port is tried first. A file that lacks or can't be read means no preference.

use anyhow::{Context, Result};
use std::path::Path;

/// Public, cluster, heartbeats in front and at the back.
pub const SIDES: usize = 4;

/// The ports of the last run; `None` each where there is none.
pub fn load(path: &Path) -> [Option<u16>; SIDES] {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut words = text.split_whitespace().map(|w| w.parse().ok().filter(|port| *port > 0));
    std::array::from_fn(|_| words.next().flatten())
}

/// Keeps these, if they are others than were kept.
pub fn store(path: &Path, ports: [u16; SIDES]) -> Result<()> {
    let text = format!("{}\n", ports.map(|p| p.to_string()).join(" "));
    disk::update_file(path, text.as_bytes(), 0o644).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_and_nonsense_is_no_preference() {
        let path = std::env::temp_dir().join(format!("humboldt-ports-{}", std::process::id()));
        assert_eq!(load(&path), [None; SIDES]);
        store(&path, [1, 2, 3, 65535]).unwrap();
        assert_eq!(load(&path), [Some(1), Some(2), Some(3), Some(65535)]);
        std::fs::write(&path, "0 x 70000 4 5").unwrap();
        assert_eq!(load(&path), [None, None, None, Some(4)]);
        std::fs::remove_file(&path).unwrap();
    }
}
