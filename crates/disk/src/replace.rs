//! Small files that change while other programs read them: a reader finds the old content or the new, whole. So does the next start after a power
//! cut, a kill or a full disk.
//!
//! The content goes into a file beside it, `NAME.new`, which then takes the name. Not for large data: all of it is written each time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// Makes the file, or replaces it by a new one, with this mode (less the umask); durable, its name too. Returns it, open for more at its end.
pub fn replace_file(path: &Path, content: &[u8], mode: u32) -> io::Result<File> {
    replace(path, content, mode, |_| Ok(()))
}

/// Makes the file with this mode, or replaces its content, durably, if that is another. Its owner, group and mode stay; a link goes on to point to it.
pub fn update_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let old = match fs::read(&path) {
        Ok(is) if is == content => return Ok(()),
        Ok(_) => Some(fs::metadata(&path)?),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let as_before = |file: &File| {
        let Some(old) = &old else { return Ok(()) };
        let new = file.metadata()?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            fchown(file, Some(old.uid()), Some(old.gid()))?;
        }
        // After the owner: a change of owner may take bits away.
        file.set_permissions(old.permissions())
    };
    // Closed to others until it has the mode of the old one.
    replace(&path, content, if old.is_some() { 0o600 } else { mode }, as_before).map(drop)
}

fn replace(path: &Path, content: &[u8], mode: u32, settle: impl FnOnce(&File) -> io::Result<()>) -> io::Result<File> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    // One that an earlier run left behind.
    match fs::remove_file(&fresh) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let write = || -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
        settle(&file)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        Ok(file)
    };
    let file = write().inspect_err(|_| drop(fs::remove_file(&fresh)))?;
    crate::sync_dir(path.parent().unwrap_or(Path::new(".")))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("humboldt-replace-{name}-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        dir
    }
    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_reader_finds_one_content_or_the_other() {
        let dir = scratch("read");
        let (path, whole, end) = (dir.join("f"), [vec![b'a'; 9000], vec![b'b'; 5000]], AtomicBool::new(false));
        update_file(&path, &whole[0], 0o644).unwrap();
        std::thread::scope(|s| {
            let reader = s.spawn(|| {
                let mut looks = 0;
                while looks == 0 || !end.load(Ordering::Relaxed) {
                    let found = fs::read(&path).expect("it is always there");
                    assert!(whole.contains(&found), "{} bytes", found.len());
                    looks += 1;
                }
            });
            for turn in 0..200 {
                update_file(&path, &whole[turn % 2], 0o644).unwrap();
                replace_file(&path, &whole[turn % 2], 0o644).unwrap();
            }
            end.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing is left beside it");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_the_same_is_not_touched_and_what_others_set_stays() {
        let dir = scratch("same");
        let (path, link) = (dir.join("f"), dir.join("link"));
        update_file(&path, b"one", 0o600).unwrap();
        assert_eq!(mode(&path), 0o600);
        let inode = fs::metadata(&path).unwrap().ino();
        update_file(&path, b"one", 0o644).unwrap();
        assert_eq!((fs::metadata(&path).unwrap().ino(), mode(&path)), (inode, 0o600));

        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        fs::write(dir.join("f.new"), "left behind").unwrap();
        update_file(&link, b"two", 0o600).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o640));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());

        replace_file(&path, b"three", 0o600).unwrap().write_all(b" and more").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"three and more".to_vec(), 0o600));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_fails_leaves_the_old_content() {
        let dir = scratch("fails");
        let path = dir.join("f");
        update_file(&path, b"old", 0o644).unwrap();
        // Where the new file would be: a folder, which can't be removed as a file.
        fs::create_dir(dir.join("f.new")).unwrap();
        assert!(update_file(&path, b"new", 0o644).is_err() && replace_file(&path, b"new", 0o644).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        fs::remove_dir_all(&dir).unwrap();
    }
}
