//! The imports of one process: one for each identity, however many use it.

use core::ops::Deref;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bufabi_core::wire::record::Holds;
use bufabi_core::{Descriptor, Identity, RawDescriptor};

use super::{ImportedMapping, Shareable, VmmDriver, VmmError};

/// What one process has imported through a driver. A driver refuses a second import of a handle, or counts it; here an identity is
/// imported once, and unmapped when the last one who uses it lets go.
#[derive(Debug)]
pub struct Imports<D: VmmDriver> {
    driver: Arc<D>,
    places: Mutex<HashMap<Identity, Arc<Place<D>>>>,
}

/// The place of one identity. Whoever imports or unmaps it holds the lock, so that others wait for that and for nothing else.
#[derive(Debug)]
struct Place<D: VmmDriver>(Mutex<Option<Live<D>>>);

/// A mapping in use.
#[derive(Debug)]
struct Live<D: VmmDriver> {
    mapping: Arc<ImportedMapping<D>>,
    users: usize,
}

/// One use of a mapping.
#[derive(Debug)]
pub struct Import<D: VmmDriver> {
    // Dropped in this order: the last to hold the mapping is its place, which unmaps it under its lock.
    mapping: Arc<ImportedMapping<D>>,
    user: User<D>,
}

/// Counts as a user of a place.
#[derive(Debug)]
struct User<D: VmmDriver>(Arc<Place<D>>);

impl<D: VmmDriver> Imports<D> {
    /// No imports yet.
    #[must_use]
    pub fn new(driver: Arc<D>) -> Self {
        Self { driver, places: Mutex::default() }
    }

    /// The mapping of what a descriptor names: the one that is there, or one that is made now.
    ///
    /// # Errors
    /// [`VmmError::DescriptorDiffers`] when the identity is imported under another descriptor, which stays; else as
    /// [`ImportedMapping::import`].
    pub fn import<H: Holds<RawDescriptor>>(&self, descriptor: &Descriptor<H>) -> Result<Import<D>, VmmError> {
        let place = self.place(Shareable::from_descriptor(descriptor)?.identity);
        let mut state = place.lock();
        let mapping = match &mut *state {
            Some(live) => {
                check_same(&live.mapping, descriptor)?;
                live.users = live.users.saturating_add(1);
                Arc::clone(&live.mapping)
            }
            None => {
                let mapping = Arc::new(ImportedMapping::import(&self.driver, descriptor)?);
                *state = Some(Live { mapping: Arc::clone(&mapping), users: 1 });
                mapping
            }
        };
        drop(state);
        Ok(Import { mapping, user: User(place) })
    }

    /// Identities that are imported now.
    #[must_use]
    pub fn count(&self) -> usize {
        let places: Vec<_> = self.places().values().map(Arc::clone).collect();
        places.iter().filter(|place| place.lock().is_some()).count()
    }

    fn places(&self) -> MutexGuard<'_, HashMap<Identity, Arc<Place<D>>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of an identity. Places that nobody uses are cleared away when the table would have to grow.
    fn place(&self, identity: Identity) -> Arc<Place<D>> {
        let mut places = self.places();
        if places.len() == places.capacity() {
            // Whoever uses a mapping, or is about to, holds its place.
            places.retain(|_, place| Arc::strong_count(place) > 1);
        }
        Arc::clone(places.entry(identity).or_insert_with(|| Arc::new(Place(Mutex::new(None)))))
    }
}

impl<D: VmmDriver> Place<D> {
    fn lock(&self) -> MutexGuard<'_, Option<Live<D>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: VmmDriver> Import<D> {
    /// Users of the mapping, this one included.
    #[must_use]
    pub fn users(&self) -> usize {
        self.user.0.lock().as_ref().map_or(0, |live| live.users)
    }
}

impl<D: VmmDriver> Deref for Import<D> {
    type Target = ImportedMapping<D>;

    fn deref(&self) -> &ImportedMapping<D> {
        &self.mapping
    }
}

impl<D: VmmDriver> Drop for User<D> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if let Some(live) = &mut *state {
            live.users = live.users.saturating_sub(1);
            if live.users == 0 {
                *state = None;
            }
        }
    }
}

/// The descriptor says what the one said under which the mapping was made.
fn check_same<D: VmmDriver, H: Holds<RawDescriptor>>(
    mapping: &ImportedMapping<D>,
    descriptor: &Descriptor<H>,
) -> Result<(), VmmError> {
    match mapping.shareable().descriptor(0).map(|first| first.differences(descriptor)) {
        Ok(fields) if !fields.is_empty() => Err(VmmError::DescriptorDiffers { fields }),
        // It was made from a descriptor, so it makes one.
        Ok(_) | Err(_) => Ok(()),
    }
}
