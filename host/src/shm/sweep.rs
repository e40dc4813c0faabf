//! What lies in the file system of shared memory under our names, whose it is, and removing what a crash left there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bufabi_core::wire::body::ShmName;

use super::error::ShmError;
use super::name::ObjectName;
use crate::sys::OsError;
use crate::sys::process_mark::Liveness;
use crate::sys::shm as os;

/// Where Linux keeps shared-memory objects.
pub const FOLDER: &str = "/dev/shm";

/// An object whose name is one of ours.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What its name says.
    pub name: ObjectName,
    /// Its size, bytes.
    pub nbytes: u64,
    /// Its user's number.
    pub uid: u32,
    /// Whether the process that made it still runs.
    pub maker: Liveness,
}

impl Entry {
    /// The name as an object has it.
    #[must_use]
    pub fn shm_name(&self) -> ShmName {
        self.name.encode()
    }

    /// Removes it, if its maker is provably dead. Says whether it was removed; that somebody else removed it counts.
    ///
    /// # Errors
    /// [`ShmError`], such as [`ShmError::NotPermitted`] for another user's.
    pub fn sweep(&self) -> Result<bool, ShmError> {
        let is_dead = || self.name.maker.liveness().map(|maker| maker == Liveness::Dead);
        if self.maker != Liveness::Dead || !is_dead().map_err(ShmError::Os)? {
            return Ok(false);
        }
        let name = self.shm_name();
        match os::unlink(&name) {
            Err(error) if error.errno != libc::ENOENT => Err(ShmError::of_call(name, 0, error)),
            Ok(()) | Err(_) => Ok(true),
        }
    }
}

/// Every regular file there whose name is one of ours, by name. What goes away meanwhile is left out.
///
/// # Errors
/// [`OsError`] when the folder cannot be read.
pub fn entries() -> Result<Vec<Entry>, OsError> {
    entries_in(Path::new(FOLDER))
}

fn entries_in(folder: &Path) -> Result<Vec<Entry>, OsError> {
    let failed = |error| OsError::from_io("readdir", &error);
    let mut entries = Vec::new();
    for file in fs::read_dir(folder).map_err(failed)? {
        let file = file.map_err(failed)?;
        let Some(name) = file.file_name().to_str().and_then(ObjectName::parse) else { continue };
        // The entry itself, not what a link leads to.
        let Ok(status) = file.metadata() else { continue };
        if status.is_file() {
            let maker = name.maker.liveness()?;
            entries.push(Entry { name, nbytes: status.len(), uid: status.uid(), maker });
        }
    }
    entries.sort_by_key(|entry| entry.name.encode().as_str().to_owned());
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm;

    #[test]
    fn a_living_owners_object_is_listed_and_stays_and_a_dead_ones_goes() {
        let (owned, _mapping) = shm::create(100).unwrap();
        let mut dead = ObjectName::parse(owned.name().as_str()).unwrap();
        dead.maker.start_ticks /= 2;
        let (orphan, _mapping) = shm::create_named(dead.encode(), 200).unwrap();
        let mut elsewhere = ObjectName::parse(owned.name().as_str()).unwrap();
        elsewhere.maker.pid_namespace ^= 1;
        let (unknown, _mapping) = shm::create_named(elsewhere.encode(), 300).unwrap();

        let entry = |name: ShmName| entries().unwrap().into_iter().find(|entry| entry.shm_name() == name);
        let live = entry(owned.name()).unwrap();
        assert_eq!((live.nbytes, live.maker, live.sweep()), (100, Liveness::Live, Ok(false)));
        let unseen = entry(unknown.name()).unwrap();
        assert_eq!((unseen.nbytes, unseen.maker, unseen.sweep()), (300, Liveness::Unknown, Ok(false)));
        let dead = entry(orphan.name()).unwrap();
        assert_eq!((dead.nbytes, dead.maker, dead.sweep()), (200, Liveness::Dead, Ok(true)));
        assert!(entry(orphan.name()).is_none());
        assert!(entry(owned.name()).is_some() && entry(unknown.name()).is_some());
    }
}
