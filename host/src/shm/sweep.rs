//! What lies in the file system of shared memory under our names, whose it is, and removing what a crash left there.

use std::collections::HashMap;
use std::fs;
use std::io;
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

/// All that has a name of ours.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The objects, by name.
    pub objects: Vec<Entry>,
    /// What is no object: links, folders, pipes and the like, which nobody who keeps to our names has made. By name.
    pub strangers: Vec<ShmName>,
}

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
        // Who is dead stays dead, however long ago that was found out, and nobody else draws that name.
        if self.maker != Liveness::Dead {
            return Ok(false);
        }
        let name = self.shm_name();
        match os::unlink(&name) {
            Err(error) if error.errno != libc::ENOENT => Err(ShmError::of_call(name, 0, error)),
            Ok(()) | Err(_) => Ok(true),
        }
    }
}

/// All that has a name of ours in the file system of shared memory. What goes away meanwhile is left out.
///
/// # Errors
/// [`OsError`] when the folder or a process cannot be looked at.
pub fn list() -> Result<Listing, OsError> {
    list_in(Path::new(FOLDER))
}

fn list_in(folder: &Path) -> Result<Listing, OsError> {
    let failed = |call| move |error: io::Error| OsError::from_io(call, &error);
    let mut listing = Listing::default();
    // Few processes make many objects.
    let mut makers = HashMap::new();
    for file in fs::read_dir(folder).map_err(failed("opendir"))? {
        let file = file.map_err(failed("readdir"))?;
        let Some(name) = file.file_name().to_str().and_then(ObjectName::parse) else { continue };
        // The entry itself, not what a link leads to.
        let status = match file.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            status => status.map_err(failed("lstat"))?,
        };
        if !status.is_file() {
            listing.strangers.push(name.encode());
            continue;
        }
        let maker = match makers.get(&name.maker) {
            Some(&maker) => maker,
            None => {
                let maker = name.maker.liveness()?;
                makers.insert(name.maker, maker);
                maker
            }
        };
        listing.objects.push(Entry { name, nbytes: status.len(), uid: status.uid(), maker });
    }
    listing.objects.sort_by_cached_key(|entry| entry.shm_name().as_str().to_owned());
    listing.strangers.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    Ok(listing)
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

        let entry =
            |name: ShmName| list().unwrap().objects.into_iter().find(|entry| entry.shm_name() == name);
        let live = entry(owned.name()).unwrap();
        assert_eq!((live.nbytes, live.maker, live.sweep()), (100, Liveness::Live, Ok(false)));
        let unseen = entry(unknown.name()).unwrap();
        assert_eq!((unseen.nbytes, unseen.maker, unseen.sweep()), (300, Liveness::Unknown, Ok(false)));
        let dead = entry(orphan.name()).unwrap();
        assert_eq!((dead.nbytes, dead.maker, dead.sweep()), (200, Liveness::Dead, Ok(true)));
        assert!(entry(orphan.name()).is_none());
        assert!(entry(owned.name()).is_some() && entry(unknown.name()).is_some());
    }

    #[test]
    fn what_has_our_name_and_is_no_object_is_told_apart_and_another_name_is_not_looked_at() {
        let folder = std::env::temp_dir().join(format!("bufabi-sweep-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let [object, link, dangling, nested] =
            [0; 4].map(|_| ObjectName::draw().unwrap().encode().as_str().to_owned());
        fs::write(folder.join(&object), [7; 9]).unwrap();
        fs::write(folder.join("bufabi-other"), [7; 9]).unwrap();
        std::os::unix::fs::symlink(&object, folder.join(&link)).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.join(&dangling)).unwrap();
        fs::create_dir(folder.join(&nested)).unwrap();
        let listing = list_in(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let objects: Vec<_> =
            listing.objects.iter().map(|entry| (entry.shm_name().to_string(), entry.nbytes)).collect();
        assert_eq!(objects, [(object, 9)]);
        let mut strangers = [link, dangling, nested];
        strangers.sort();
        let found: Vec<_> = listing.strangers.iter().map(ToString::to_string).collect();
        assert_eq!(found, strangers);
        assert_eq!(list_in(&folder).unwrap_err().errno, libc::ENOENT);
    }
}
