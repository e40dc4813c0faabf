//! Files that have no name until they are whole.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::error::{OsError, retry};

/// A file in that folder without a name: it goes with its last descriptor, however its process ends.
///
/// # Errors
/// [`OsError`]: EOPNOTSUPP or EISDIR where there is no such thing, ENOENT, ENOTDIR, EACCES.
pub fn create_unnamed(folder: &Path) -> Result<File, OsError> {
    let file = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).mode(0o666).open(folder);
    file.map_err(|error| OsError::from_io("open(O_TMPFILE)", &error))
}

/// Gives such a file a name in its file system, which nobody has yet.
///
/// # Errors
/// [`OsError`]: EEXIST, and those of a path.
pub fn give_name(file: BorrowedFd<'_>, path: &Path) -> Result<(), OsError> {
    let call = "linkat";
    let invalid = |_| OsError { call, errno: libc::EINVAL };
    let name = CString::new(path.as_os_str().as_bytes()).map_err(invalid)?;
    let source = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(invalid)?;
    let (source, name) = (source.as_ptr(), name.as_ptr());
    // SAFETY: both paths end in a NUL and outlive the call.
    retry(call, || unsafe {
        libc::linkat(libc::AT_FDCWD, source, libc::AT_FDCWD, name, libc::AT_SYMLINK_FOLLOW)
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_appears_whole_under_a_name_that_is_free() {
        let folder = std::env::temp_dir().join(format!("bufabi-file-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let mut file = create_unnamed(&folder).unwrap();
        file.write_all(b"whole").unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        let path = folder.join("name");
        assert_eq!(give_name(file.as_fd(), &path), Ok(()));
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        let taken = give_name(file.as_fd(), &path).unwrap_err();
        assert_eq!(taken, OsError { call: "linkat", errno: libc::EEXIST });
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(create_unnamed(&folder).unwrap_err().errno, libc::ENOENT);
    }
}
