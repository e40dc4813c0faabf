//! Files of the host, by semihosting: an emulator or debugger takes the call. No path to a panic, which an image must not have.

use core::arch::asm;
use core::ffi::CStr;

/// The host did not do what it was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused;

/// A file of the host, open as long as the program runs.
pub(crate) struct File {
    handle: usize,
}

impl File {
    /// Opens a file for reading, from its start.
    pub(crate) fn open(name: &CStr) -> Result<Self, Refused> {
        Self::open_as(name, 1)
    }

    /// Makes a file anew, for writing.
    pub(crate) fn create(name: &CStr) -> Result<Self, Refused> {
        Self::open_as(name, 5)
    }

    fn open_as(name: &CStr, mode: usize) -> Result<Self, Refused> {
        // SAFETY: SYS_OPEN reads the name, whose bytes and length are those of a CStr that is alive.
        let handle = unsafe { call(0x01, &[name.as_ptr().expose_provenance(), mode, name.count_bytes()]) };
        if handle == usize::MAX { Err(Refused) } else { Ok(Self { handle }) }
    }

    /// Reads some bytes; 0 at the end.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Refused> {
        // SAFETY: SYS_READ writes at most as many bytes as the slice has, which is alive and lent to it alone.
        let missing =
            unsafe { call(0x06, &[self.handle, bytes.as_mut_ptr().expose_provenance(), bytes.len()]) };
        bytes.len().checked_sub(missing).ok_or(Refused)
    }

    /// Appends all bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        // SAFETY: SYS_WRITE reads the bytes of a slice that is alive.
        let missing = unsafe { call(0x05, &[self.handle, bytes.as_ptr().expose_provenance(), bytes.len()]) };
        if missing == 0 { Ok(()) } else { Err(Refused) }
    }
}

/// Ends the emulator, whose exit code it is.
pub(crate) fn exit(code: usize) -> ! {
    loop {
        // SAFETY: SYS_EXIT reads the reason, an application's exit, and the code, and touches no memory of ours.
        unsafe { call(0x18, &[0x20026, code, 0]) };
    }
}

/// One semihosting call, whose arguments lie in a block of words.
///
/// # Safety
/// The operation's arguments are right, and memory that they name is there for it to read or write.
unsafe fn call(operation: usize, arguments: &[usize; 3]) -> usize {
    let answer;
    // SAFETY: the instruction traps to the host, which does what the caller of this function answers for; it changes no
    // register but x0, and no stack.
    unsafe {
        asm!("hlt #0xf000", inlateout("x0") operation => answer, in("x1") arguments.as_ptr(), options(nostack));
    }
    answer
}
