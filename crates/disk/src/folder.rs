//! Folders whose names a power cut does not take: each is synced into the one that it was made in.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Makes what lacks of the folders down to `path`, and makes the name of each durable in its parent.
pub fn create_dirs(path: &Path) -> io::Result<()> {
    create_dirs_with(path, sync_dir)
}

fn create_dirs_with(path: &Path, mut sync: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let parent = |of: &Path| of.parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
    let new: Vec<PathBuf> =
        path.ancestors().filter(|p| !p.as_os_str().is_empty()).take_while(|p| !p.exists()).map(Path::to_path_buf).collect();
    std::fs::create_dir_all(path)?;
    for folder in new.iter().rev() {
        sync(&parent(folder))?;
    }
    Ok(())
}

/// Makes the names in a folder durable; the empty path is the folder that we are in.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_new_name_is_synced_into_the_folder_that_was_there() {
        let base = std::env::temp_dir().join(format!("humboldt-create-dirs-{}", std::process::id()));
        std::fs::create_dir(&base).unwrap();
        let mut synced = Vec::new();
        let mut note = |p: &Path| {
            synced.push(p.to_path_buf());
            Ok(())
        };
        create_dirs_with(&base.join("a/b/c"), &mut note).unwrap();
        create_dirs_with(&base.join("a/b/c"), &mut note).unwrap();
        assert_eq!(synced, [base.clone(), base.join("a"), base.join("a/b")]);
        assert!(base.join("a/b/c").is_dir());
        create_dirs(&base.join("d/e")).unwrap();
        assert!(base.join("d/e").is_dir());
        std::fs::remove_dir_all(&base).unwrap();
    }
}
