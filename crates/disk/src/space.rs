//! What a file system has left.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that may be written to the file system of `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut stat = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and the call writes no more than the structure.
    if unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it filled the structure.
    let stat = unsafe { stat.assume_init() };
    Ok(stat.f_bavail * stat.f_frsize)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_file_system_has_something_left() {
        assert!(super::free_bytes(std::path::Path::new("/")).unwrap() > 0);
        assert!(super::free_bytes(std::path::Path::new("/no/such/folder")).is_err());
    }
}
