//! Surviving a peer that shrinks a shared-memory object under its mapping: the page reads as zeros, and the loss is on record.
//!
//! A load or store past a shared object's end raises SIGBUS. The handler here puts a page of zeros there if the address lies in a
//! mapping that was registered, and marks that mapping as damaged; any other SIGBUS goes where it would have gone without it.
//! Everything that the handler reads is atomic, and it makes no call but `mmap`, which is a bare system call on Linux.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::error::{OsError, retry};
use super::memory::{Protection, page_size};

/// Mappings that can be registered at once: four times as many as Linux lets a process have unless it is told otherwise. Slots that
/// were never in use take no memory.
const CAPACITY: usize = 1 << 18;

/// A registered mapping. It is empty while `base` is 0.
struct Slot {
    base: AtomicUsize,
    nbytes: AtomicUsize,
    is_writable: AtomicBool,
    is_damaged: AtomicBool,
}

static SLOTS: [Slot; CAPACITY] = [const {
    Slot {
        base: AtomicUsize::new(0),
        nbytes: AtomicUsize::new(0),
        is_writable: AtomicBool::new(false),
        is_damaged: AtomicBool::new(false),
    }
}; CAPACITY];

/// The first slot that was never in use: it and those behind it are empty.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Slots that were in use and are empty again. The handler does not look at it.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// Pages that were replaced.
static REPLACED: AtomicU64 = AtomicU64::new(0);
/// The size of a page, asked for before the handler needs it.
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(4096);
/// What was to happen on SIGBUS before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once. Worker processes of ours do it at their start; another program that embeds this library
/// may, before it installs a handler for SIGBUS of its own.
///
/// # Errors
/// [`OsError`].
pub fn survive_shrinking_objects() -> Result<(), OsError> {
    /// It is installed. The lock is held until it is, so that nobody goes on before.
    static IS_INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut is_installed = IS_INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if *is_installed {
        return Ok(());
    }
    PAGE_SIZE.store(page_size(), Ordering::Relaxed);
    // SAFETY: all zero bits are a legal action: the default one, with an empty mask.
    let mut previous: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: `previous` is writable; no action is set.
    retry("sigaction", || unsafe { libc::sigaction(libc::SIGBUS, core::ptr::null(), &raw mut previous) })?;
    let mut action = *PREVIOUS.get_or_init(|| previous);
    action.sa_sigaction = handler_address(on_bus_error);
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: `action` is readable, and its handler makes no call that a handler must not make.
    retry("sigaction", || unsafe {
        libc::sigaction(libc::SIGBUS, &raw const action, core::ptr::null_mut())
    })?;
    *is_installed = true;
    Ok(())
}

/// Pages of zeros that the handler has put in the place of ones that were gone.
#[must_use]
pub fn replaced_pages() -> u64 {
    REPLACED.load(Ordering::Relaxed)
}

/// A mapping's place among those that the handler looks after; it is given back when this is dropped.
#[derive(Debug)]
pub struct Registration(usize);

impl Registration {
    /// Registers a mapping; `None` when there are too many.
    pub(crate) fn new(base: NonNull<u8>, nbytes: usize, protection: Protection) -> Option<Self> {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let index = match free {
            Some(index) => index,
            None => NEXT.fetch_update(Ordering::AcqRel, Ordering::Relaxed, after).ok()?,
        };
        let slot = SLOTS.get(index)?;
        slot.nbytes.store(nbytes, Ordering::Relaxed);
        slot.is_writable.store(protection == Protection::ReadWrite, Ordering::Relaxed);
        slot.is_damaged.store(false, Ordering::Relaxed);
        // Release: a handler that reads this base reads those values too. A handler that runs because of a load or store
        // in this mapping runs in a thread to which the mapping was handed after this.
        slot.base.store(base.addr().get(), Ordering::Release);
        Some(Self(index))
    }

    /// The handler looks after it no longer: it is about to be unmapped, and something else may lie there at once.
    pub(crate) fn suspend(&self) {
        self.set_base(0);
    }

    /// The handler looks after it again: it was not unmapped.
    pub(crate) fn resume(&self, base: NonNull<u8>) {
        self.set_base(base.addr().get());
    }

    fn set_base(&self, base: usize) {
        if let Some(slot) = SLOTS.get(self.0) {
            slot.base.store(base, Ordering::Release);
        }
    }

    /// A page of the mapping was gone and reads as zeros since.
    #[must_use]
    #[inline]
    pub fn is_damaged(&self) -> bool {
        SLOTS.get(self.0).is_some_and(|slot| slot.is_damaged.load(Ordering::Relaxed))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.suspend();
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

/// The slot behind `index`, if `index` is one.
const fn after(index: usize) -> Option<usize> {
    if index < CAPACITY { index.checked_add(1) } else { None }
}

#[expect(clippy::as_conversions, reason = "the operating system takes a handler's address as a number")]
fn handler_address(handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void)) -> usize {
    handler as *const () as usize
}

extern "C" fn on_bus_error(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands a handler of this kind a readable answer.
    let info_value = unsafe { *info };
    // SAFETY: SIGBUS comes with an address.
    let address = unsafe { info_value.si_addr() }.addr();
    if !replace_page(address) {
        go_where_it_would_have_gone(signal, info, context);
    }
}

/// Puts a page of zeros at an address of a registered mapping; says whether it did.
fn replace_page(address: usize) -> bool {
    let count = NEXT.load(Ordering::Acquire);
    let holds = |slot: &&Slot| {
        let base = slot.base.load(Ordering::Acquire);
        base != 0
            && address.checked_sub(base).is_some_and(|offset| offset < slot.nbytes.load(Ordering::Relaxed))
    };
    let Some(slot) = SLOTS.iter().take(count).find(holds) else { return false };
    let page_size = PAGE_SIZE.load(Ordering::Relaxed);
    let page = address & !page_size.wrapping_sub(1);
    let protection =
        if slot.is_writable.load(Ordering::Relaxed) { Protection::ReadWrite } else { Protection::Read };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let at = core::ptr::without_provenance_mut(page);
    slot.is_damaged.store(true, Ordering::Relaxed);
    // SAFETY: the page lies in a mapping of ours, whose bytes there no longer exist: nothing is lost that could be read.
    let base = unsafe { libc::mmap(at, page_size, protection.flags(), flags, -1, 0) };
    REPLACED.fetch_add(1, Ordering::Relaxed);
    base != libc::MAP_FAILED
}

/// Hands a SIGBUS that is not ours to whoever would have had it; if that is nobody, the process dies of it.
fn go_where_it_would_have_gone(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(previous) = PREVIOUS.get() else { return };
    let address = previous.sa_sigaction;
    // SAFETY: the kernel hands a handler of this kind a readable answer.
    let was_sent = unsafe { info.read() }.si_code <= 0;
    if address == libc::SIG_IGN && was_sent {
        return;
    }
    if address == libc::SIG_DFL || address == libc::SIG_IGN {
        // SAFETY: all zero bits are a legal action: the default one.
        let default: libc::sigaction = unsafe { core::mem::zeroed() };
        // SAFETY: `default` is readable. On return the load or store is made again, and ends the process.
        unsafe { libc::sigaction(signal, &raw const default, core::ptr::null_mut()) };
        if was_sent {
            // SAFETY: it takes a number alone. Nothing is made again on return, so the signal is.
            unsafe { libc::raise(signal) };
        }
    } else if previous.sa_flags & libc::SA_SIGINFO != 0 {
        let handler = core::ptr::with_exposed_provenance::<()>(address);
        // SAFETY: the flag says that the address is that of a function of three arguments.
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { core::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        let handler = core::ptr::with_exposed_provenance::<()>(address);
        // SAFETY: without the flag the address is that of a function of one argument.
        let handler: extern "C" fn(i32) = unsafe { core::mem::transmute(handler) };
        handler(signal);
    }
}
