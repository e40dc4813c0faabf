//! Files that appear under their names when they are whole, or not at all.
//!
//! Until then a file has no name, so whoever is killed leaves nothing. Only a file that takes another one's place needs a hidden name, for
//! the moment between a link and a rename: the system gives what has no name no name that is taken. It says who made it, and whoever
//! replaces a file in that folder next removes what the dead left.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bufabi_host::shm::ObjectName;
use bufabi_host::sys::OsError;
use bufabi_host::sys::file::{create_unnamed, give_name};
use bufabi_host::sys::process_mark::Liveness;

/// What hidden names begin with; the name of an object of this process's follows, which nobody else draws.
const HIDDEN: &str = ".";

/// For so long a hidden file is left alone, whoever made it: a process on another machine that shares the folder looks dead from here.
const REST: Duration = Duration::from_secs(60);

/// A file at `path` that `fill` has filled, in the place of one that is there.
pub(crate) fn write_whole(path: &Path, fill: impl FnOnce(File) -> io::Result<File>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    match create_unnamed(folder) {
        Ok(file) => {
            let file = fill(file)?;
            match give_name(file.as_fd(), path) {
                Err(OsError { errno: libc::EEXIST, .. }) => replace(&file, folder, path),
                named => named.map_err(from_os),
            }
        }
        // A file system that knows no files without a name.
        Err(OsError { errno: libc::EOPNOTSUPP | libc::EISDIR, .. }) => {
            let hidden = hidden_name(folder)?;
            let file = File::create_new(&hidden)?;
            rename(&hidden, path, fill(file).map(|file| sweep(folder, &file)))
        }
        Err(error) => Err(from_os(error)),
    }
}

/// Puts a file that has no name in the place of the one at `path`.
fn replace(file: &File, folder: &Path, path: &Path) -> io::Result<()> {
    sweep(folder, file);
    let hidden = hidden_name(folder)?;
    rename(&hidden, path, give_name(file.as_fd(), &hidden).map_err(from_os))
}

/// Gives a hidden file its name if it is `ready`.
fn rename(hidden: &Path, path: &Path, ready: io::Result<()>) -> io::Result<()> {
    ready.and_then(|()| fs::rename(hidden, path)).inspect_err(|_| {
        // The first error is the one to tell.
        let _ = fs::remove_file(hidden);
    })
}

/// A name that nobody has, short whatever the file will be called.
fn hidden_name(folder: &Path) -> io::Result<PathBuf> {
    let name = ObjectName::draw().map_err(from_os)?;
    Ok(folder.join(format!("{HIDDEN}{name}")))
}

/// Removes the hidden files of dead processes in a folder, but for those that are hardly older than `file`, which was written just now.
fn sweep(folder: &Path, file: &File) {
    let changed = |found: io::Result<fs::Metadata>| found.and_then(|found| found.modified()).ok();
    let (Ok(entries), Some(now)) = (fs::read_dir(folder), changed(file.metadata())) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let object = name.to_str().and_then(|name| name.strip_prefix(HIDDEN)).and_then(ObjectName::parse);
        let is_old = || changed(entry.metadata()).and_then(|then| now.duration_since(then).ok()) > Some(REST);
        if object.is_some_and(|object| object.maker.liveness() == Ok(Liveness::Dead)) && is_old() {
            // What is in nobody's way is no reason not to write a file.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn from_os(error: OsError) -> io::Error {
    io::Error::from_raw_os_error(error.errno)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::SystemTime;

    use super::*;

    fn put(path: &Path, text: &str) {
        let written = write_whole(path, |mut file| file.write_all(text.as_bytes()).map(|()| file));
        written.unwrap();
    }

    #[test]
    fn whoever_replaces_a_file_removes_what_the_dead_left_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("bufabi-whole-file-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("c.npy");
        put(&path, "first");
        let here = ObjectName::draw().unwrap();
        let dead = |random| {
            let mut name = ObjectName { random, ..here };
            name.maker.boot ^= 1;
            name
        };
        let (old, young) = (SystemTime::now() - 2 * REST, SystemTime::now());
        let left = [(here, old), (dead(1), old), (dead(2), young), (dead(3), old)];
        let left = left.map(|(name, modified)| {
            let path = folder.join(format!(".{name}"));
            File::create(&path).unwrap().set_modified(modified).unwrap();
            path
        });
        fs::write(folder.join(".bufabi-notes"), "a person's").unwrap();
        put(&path, "second");
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(left.map(|path| path.exists()), [true, false, true, false]);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
        fs::remove_dir_all(&folder).unwrap();
    }
}
