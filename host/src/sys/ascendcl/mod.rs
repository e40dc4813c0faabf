//! The Ascend driver's virtual memory: the functions of `libascendcl.so`, loaded at run time, each typed with its error.
//!
//! All of them return 0 for success. Nothing of a device's memory is ever a reference here: addresses and handles are numbers that
//! the driver checks.

mod records;

use core::ffi::{CStr, c_void};
use core::fmt;
use core::ptr::NonNull;
use std::sync::OnceLock;

pub use records::{AccessDescription, MemLocation, MemoryAttribute, PhysicalProperties};

use super::dynamic_library::DynamicLibrary;

/// A call of the driver that failed. The numbers are lossy: one stands for several causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclError {
    /// The function.
    pub call: &'static str,
    /// What it returned.
    pub number: i32,
}

impl AclError {
    /// "Not supported here", the one number that has one meaning.
    pub const NOT_SUPPORTED: i32 = 207_000;
    /// What `aclInit` says when it was called before, by whomever.
    const INITIALISED_ALREADY: i32 = 100_002;
}

impl fmt::Display for AclError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, number } = self;
        write!(f, "{call}: the driver returned {number}")
    }
}

impl std::error::Error for AclError {}

/// Why the driver cannot be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// No library of these names.
    LibraryMissing,
    /// The library lacks this function.
    SymbolMissing(&'static str),
    /// It does not start.
    Acl(AclError),
}

/// A handle of physical memory: the driver's own, and opaque.
#[derive(Debug, PartialEq, Eq)]
pub struct PhysicalHandle(*mut c_void);

// SAFETY: the handle is a number to the driver, which may be called from any thread.
unsafe impl Send for PhysicalHandle {}
// SAFETY: as above.
unsafe impl Sync for PhysicalHandle {}

/// A device address, which this process's CPU never follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAddress(pub u64);

impl DeviceAddress {
    fn pointer(self) -> *mut c_void {
        core::ptr::without_provenance_mut(usize::try_from(self.0).unwrap_or(0))
    }

    fn of(pointer: *mut c_void) -> Self {
        Self(u64::try_from(pointer.addr()).unwrap_or(0))
    }
}

macro_rules! functions {
    ($($field:ident $symbol:literal ($($parameter:ty),*);)*) => {
        /// The driver's functions.
        #[derive(Clone, Copy)]
        struct Functions { $($field: unsafe extern "C" fn($($parameter),*) -> i32,)* }

        impl Functions {
            /// All of them, or the name of the first one that is missing.
            fn load(library: DynamicLibrary) -> Result<Self, LoadError> {
                Ok(Self { $($field: {
                    let name = CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes());
                    let address = name.ok().and_then(|name| library.symbol(name));
                    let address = address.ok_or(LoadError::SymbolMissing($symbol))?;
                    // SAFETY: the library's function of that name takes these parameters and returns int, which is what the
                    // driver's documented interface says; the library is never unloaded.
                    unsafe { core::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn($($parameter),*) -> i32>(address) }
                },)* })
            }
        }
    };
}

functions! {
    init "aclInit" (*const libc::c_char);
    set_device "aclrtSetDevice" (i32);
    granularity "aclrtMemGetAllocationGranularity" (*const PhysicalProperties, i32, *mut usize);
    malloc_physical "aclrtMallocPhysical" (*mut *mut c_void, usize, *const PhysicalProperties, u64);
    free_physical "aclrtFreePhysical" (*mut c_void);
    reserve "aclrtReserveMemAddress" (*mut *mut c_void, usize, usize, *mut c_void, u64);
    release "aclrtReleaseMemAddress" (*mut c_void);
    map "aclrtMapMem" (*mut c_void, usize, usize, *mut c_void, u64);
    unmap "aclrtUnmapMem" (*mut c_void);
    set_access "aclrtMemSetAccess" (*mut c_void, usize, *const AccessDescription, usize);
    export "aclrtMemExportToShareableHandle" (*mut c_void, i32, u64, *mut u64);
    import "aclrtMemImportFromShareableHandle" (u64, i32, *mut *mut c_void);
    set_pids "aclrtMemSetPidToShareableHandle" (u64, *const i32, usize);
    bare_tgid "aclrtDeviceGetBareTgid" (*mut i32);
    enable_peer_access "aclrtDeviceEnablePeerAccess" (i32, u32);
    malloc "aclrtMalloc" (*mut *mut c_void, usize, i32);
    free "aclrtFree" (*mut c_void);
    memcpy "aclrtMemcpy" (*mut c_void, usize, *const c_void, usize, i32);
}

/// The smallest granularity, and not the one that a driver recommends.
const GRANULARITY_MINIMUM: i32 = 0;
/// No whitelist: anyone may import.
const EXPORT_WITHOUT_WHITELIST: u64 = 1;
/// Memory for large allocations first, which is the driver's usual policy.
const MALLOC_HUGE_FIRST: i32 = 0;
const HOST_TO_DEVICE: i32 = 1;
const DEVICE_TO_HOST: i32 = 2;
const DEVICE_TO_DEVICE: i32 = 3;

/// The driver, loaded and initialised. It stays loaded for ever.
#[derive(Clone, Copy)]
pub struct AscendCl(Functions);

impl AscendCl {
    /// The names that are tried.
    pub const NAMES: &'static str = "libascendcl.so, libascendcl.so.1";

    /// Loads the driver that this machine has, once.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load() -> Result<Self, LoadError> {
        static DRIVER: OnceLock<Result<AscendCl, LoadError>> = OnceLock::new();
        *DRIVER.get_or_init(|| {
            // SAFETY: a driver is made to be loaded by programs like this one.
            let library = unsafe { DynamicLibrary::load(c"libascendcl.so") };
            // SAFETY: as above.
            let library = library.or_else(|| unsafe { DynamicLibrary::load(c"libascendcl.so.1") });
            let driver = Self(Functions::load(library.ok_or(LoadError::LibraryMissing)?)?);
            driver.initialise().map_err(LoadError::Acl)?;
            Ok(driver)
        })
    }

    /// Why no library of the first name is loaded, in the loader's words; `None` when one is. The loader tries again.
    #[must_use]
    pub fn complaint() -> Option<String> {
        // SAFETY: as in `load`.
        match unsafe { DynamicLibrary::load(c"libascendcl.so") } {
            Some(_) => None,
            None => DynamicLibrary::complaint(),
        }
    }

    fn initialise(&self) -> Result<(), AclError> {
        // SAFETY: NULL is the default configuration.
        let number = unsafe { (self.0.init)(core::ptr::null()) };
        match checked("aclInit", number) {
            Err(AclError { number: AclError::INITIALISED_ALREADY, .. }) => Ok(()),
            other => other,
        }
    }

    /// Makes a device, by its logical number, this thread's: before anything below.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn set_device(&self, device: i32) -> Result<(), AclError> {
        // SAFETY: it takes a number alone.
        checked("aclrtSetDevice", unsafe { (self.0.set_device)(device) })
    }

    /// What sizes must be a multiple of, at least.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn granularity(&self, properties: &PhysicalProperties) -> Result<u64, AclError> {
        let mut bytes = 0;
        // SAFETY: the properties are readable and `bytes` is writable during the call.
        let number = unsafe { (self.0.granularity)(properties, GRANULARITY_MINIMUM, &raw mut bytes) };
        checked("aclrtMemGetAllocationGranularity", number)?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// Makes physical memory.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn malloc_physical(
        &self,
        nbytes: usize,
        properties: &PhysicalProperties,
    ) -> Result<PhysicalHandle, AclError> {
        let mut handle = core::ptr::null_mut();
        // SAFETY: `handle` is writable and the properties are readable during the call.
        let number = unsafe { (self.0.malloc_physical)(&raw mut handle, nbytes, properties, 0) };
        checked("aclrtMallocPhysical", number)?;
        Ok(PhysicalHandle(handle))
    }

    /// Frees physical memory, made or imported, as soon as nothing is mapped.
    ///
    /// # Errors
    /// [`AclError`], and the handle.
    pub fn free_physical(&self, handle: PhysicalHandle) -> Result<(), (PhysicalHandle, AclError)> {
        // SAFETY: the handle is one that the driver gave, and it is given up.
        let number = unsafe { (self.0.free_physical)(handle.0) };
        checked("aclrtFreePhysical", number).map_err(|error| (handle, error))
    }

    /// Reserves device addresses, aligned as the driver likes.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn reserve(&self, nbytes: usize) -> Result<DeviceAddress, AclError> {
        let (mut base, none) = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: `base` is writable during the call; no address is asked for.
        let number = unsafe { (self.0.reserve)(&raw mut base, nbytes, 0, none, 0) };
        checked("aclrtReserveMemAddress", number)?;
        Ok(DeviceAddress::of(base))
    }

    /// Gives device addresses back, at which nothing may be mapped.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn release(&self, base: DeviceAddress) -> Result<(), AclError> {
        // SAFETY: no memory of this process is referred to by a device address.
        checked("aclrtReleaseMemAddress", unsafe { (self.0.release)(base.pointer()) })
    }

    /// Maps physical memory, all of its bytes, at reserved addresses.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn map(&self, base: DeviceAddress, nbytes: usize, handle: &PhysicalHandle) -> Result<(), AclError> {
        // SAFETY: the handle is one that the driver gave; no memory of this process is referred to by a device address.
        checked("aclrtMapMem", unsafe { (self.0.map)(base.pointer(), nbytes, 0, handle.0, 0) })
    }

    /// Takes out what is mapped.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn unmap(&self, base: DeviceAddress) -> Result<(), AclError> {
        // SAFETY: no memory of this process is referred to by a device address.
        checked("aclrtUnmapMem", unsafe { (self.0.unmap)(base.pointer()) })
    }

    /// Says what may be done with mapped memory.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn set_access(
        &self,
        base: DeviceAddress,
        nbytes: usize,
        access: &AccessDescription,
    ) -> Result<(), AclError> {
        // SAFETY: the description is readable during the call, and there is one.
        let number = unsafe { (self.0.set_access)(base.pointer(), nbytes, access, 1) };
        checked("aclrtMemSetAccess", number)
    }

    /// Gives physical memory a handle that other processes can import: those on its whitelist, or anyone. It may be 0.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn export(&self, handle: &PhysicalHandle, has_whitelist: bool) -> Result<u64, AclError> {
        let flags = if has_whitelist { 0 } else { EXPORT_WITHOUT_WHITELIST };
        let mut shareable = 0;
        // SAFETY: the handle is one that the driver gave; `shareable` is writable during the call.
        let number = unsafe { (self.0.export)(handle.0, 0, flags, &raw mut shareable) };
        checked("aclrtMemExportToShareableHandle", number)?;
        Ok(shareable)
    }

    /// Imports a handle for a device, by its logical number.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn import(&self, shareable: u64, device: i32) -> Result<PhysicalHandle, AclError> {
        let mut handle = core::ptr::null_mut();
        // SAFETY: `handle` is writable during the call.
        let number = unsafe { (self.0.import)(shareable, device, &raw mut handle) };
        checked("aclrtMemImportFromShareableHandle", number)?;
        Ok(PhysicalHandle(handle))
    }

    /// Puts processes, by their bare numbers, on a handle's whitelist.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn permit(&self, shareable: u64, bare_tgids: &[i32]) -> Result<(), AclError> {
        // SAFETY: the numbers are readable during the call, which takes the parameter as not const but only reads it.
        let number = unsafe { (self.0.set_pids)(shareable, bare_tgids.as_ptr(), bare_tgids.len()) };
        checked("aclrtMemSetPidToShareableHandle", number)
    }

    /// This process's number outside all containers.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn bare_tgid(&self) -> Result<i32, AclError> {
        let mut number = 0;
        // SAFETY: `number` is writable during the call.
        checked("aclrtDeviceGetBareTgid", unsafe { (self.0.bare_tgid)(&raw mut number) })?;
        Ok(number)
    }

    /// Lets this thread's device reach another one's memory.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn enable_peer_access(&self, peer: i32) -> Result<(), AclError> {
        // SAFETY: it takes numbers alone.
        checked("aclrtDeviceEnablePeerAccess", unsafe { (self.0.enable_peer_access)(peer, 0) })
    }

    /// Allocates memory of this thread's device.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn malloc(&self, nbytes: usize) -> Result<DeviceAddress, AclError> {
        let mut base = core::ptr::null_mut();
        // SAFETY: `base` is writable during the call.
        checked("aclrtMalloc", unsafe { (self.0.malloc)(&raw mut base, nbytes, MALLOC_HUGE_FIRST) })?;
        Ok(DeviceAddress::of(base))
    }

    /// Frees what [`malloc`](Self::malloc) gave.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn free(&self, base: DeviceAddress) -> Result<(), AclError> {
        // SAFETY: no memory of this process is referred to by a device address.
        checked("aclrtFree", unsafe { (self.0.free)(base.pointer()) })
    }

    /// Copies bytes to a device, where there are at least as many.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn copy_to_device(&self, to: DeviceAddress, bytes: &[u8]) -> Result<(), AclError> {
        let (from, length) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: `bytes` are readable; where they go is no memory that this process refers to.
        let number = unsafe { (self.0.memcpy)(to.pointer(), length, from, length, HOST_TO_DEVICE) };
        checked("aclrtMemcpy", number)
    }

    /// Copies bytes from a device, where there are at least as many.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn copy_from_device(&self, from: DeviceAddress, out: &mut [u8]) -> Result<(), AclError> {
        let (to, length) = (out.as_mut_ptr().cast(), out.len());
        // SAFETY: `out` is writable for as many bytes as are copied.
        let number = unsafe { (self.0.memcpy)(to, length, from.pointer(), length, DEVICE_TO_HOST) };
        checked("aclrtMemcpy", number)
    }

    /// Copies bytes within devices.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn copy_within_devices(
        &self,
        to: DeviceAddress,
        from: DeviceAddress,
        nbytes: usize,
    ) -> Result<(), AclError> {
        // SAFETY: neither is memory that this process refers to.
        let number =
            unsafe { (self.0.memcpy)(to.pointer(), nbytes, from.pointer(), nbytes, DEVICE_TO_DEVICE) };
        checked("aclrtMemcpy", number)
    }
}

impl fmt::Debug for AscendCl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AscendCl").finish_non_exhaustive()
    }
}

const fn checked(call: &'static str, number: i32) -> Result<(), AclError> {
    if number == 0 { Ok(()) } else { Err(AclError { call, number }) }
}
