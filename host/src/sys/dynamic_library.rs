//! Libraries loaded while the program runs, for drivers that a machine may or may not have. One that is loaded stays for ever.

use core::ffi::{CStr, c_void};
use core::ptr::NonNull;

/// A library that is loaded, and never unloaded: addresses in it are good for as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct DynamicLibrary(NonNull<c_void>);

// SAFETY: the handle is a number to the loader, which may be asked from any thread.
unsafe impl Send for DynamicLibrary {}
// SAFETY: as above.
unsafe impl Sync for DynamicLibrary {}

impl DynamicLibrary {
    /// Loads a library, every symbol of it now, and none of them for other libraries to find. `None` when it cannot be.
    ///
    /// # Safety
    /// The library's initialisers are sound to run in this process.
    #[must_use]
    pub unsafe fn load(name: &CStr) -> Option<Self> {
        // SAFETY: the name ends in a NUL and outlives the call; the caller vouches for the initialisers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Self)
    }

    /// Why the last library that this thread tried was not loaded, in the loader's words; `None` when it was, or that was told.
    #[must_use]
    pub fn complaint() -> Option<String> {
        // SAFETY: it takes nothing.
        let words = NonNull::new(unsafe { libc::dlerror() })?;
        // SAFETY: the loader's words end in a NUL, and stay until this thread calls the loader again.
        let words = unsafe { CStr::from_ptr(words.as_ptr()) };
        Some(words.to_string_lossy().into_owned())
    }

    /// The address of a function in it.
    #[must_use]
    pub fn symbol(self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is of a library that is never unloaded; the name ends in a NUL and outlives the call.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_found_and_a_missing_one_is_not() {
        // SAFETY: it is loaded already, so nothing of it runs.
        let library = unsafe { DynamicLibrary::load(c"libc.so.6") }.unwrap();
        assert!(library.symbol(c"getpid").is_some());
        assert!(library.symbol(c"no_function_has_this_name").is_none());
        // SAFETY: there is no such library, so nothing of it runs.
        assert!(unsafe { DynamicLibrary::load(c"libno-library-has-this-name.so") }.is_none());
        let complaint = DynamicLibrary::complaint().unwrap();
        assert!(complaint.starts_with("libno-library-has-this-name.so: "), "{complaint}");
        assert_eq!(DynamicLibrary::complaint(), None);
    }
}
