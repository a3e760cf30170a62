//! Folders of files for applications to keep: new ones and changed ones in each round, the same ones in each run.

use crate::run::quietly;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Bytes of the files of one step, from nothing to what takes several objects.
const SIZES: [usize; 12] = [0, 1, 100, 4095, 4096, 20_000, 65_537, 200_000, 1 << 20, 3_000_000, 5 << 20, 9_000_001];

/// Adds one step's files to the folder, and changes one of an earlier step.
pub fn grow(folder: &Path, step: usize) -> Result<()> {
    let own = folder.join(format!("step {step}"));
    std::fs::create_dir_all(own.join("below"))?;
    for (n, size) in SIZES.into_iter().enumerate() {
        let at = if n % 3 == 0 { own.join("below") } else { own.clone() };
        std::fs::write(at.join(format!("file-{n}")), bytes(size, (step * SIZES.len() + n) as u64))?;
    }
    if step > 0 {
        std::fs::write(folder.join(format!("step {}/file-7", step - 1)), bytes(150_000, step as u64))?;
    }
    Ok(())
}

/// Bytes that do not compress, the same for the same seed (splitmix64).
fn bytes(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut out = Vec::with_capacity(size + 8);
    while out.len() < size {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        out.extend_from_slice(&(z ^ (z >> 27)).to_le_bytes());
    }
    out.truncate(size);
    out
}

/// An error unless both folders hold the same.
pub fn same(a: &Path, b: &Path) -> Result<()> {
    quietly(Command::new("diff").arg("-r").arg(a).arg(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_seen() {
        let at = std::env::temp_dir().join(format!("humboldt-tree-{}", std::process::id()));
        let (a, b) = (at.join("a"), at.join("b"));
        for folder in [&a, &b] {
            (0..2).for_each(|step| grow(folder, step).expect("room"));
        }
        same(&a, &b).expect("the same in each run");
        std::fs::write(b.join("step 0/file-7"), bytes(150_000, 2)).expect("room");
        assert!(same(&a, &b).is_err(), "a file of another step");
        std::fs::remove_dir_all(&at).expect("it is there");
    }
}
