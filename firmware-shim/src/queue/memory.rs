//! A region's memory as firmware reaches it: by addresses, with the cache maintenance that its caller brings.

use core::ffi::c_void;
use core::hint::spin_loop;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;

use bufabi_core::Code;
use bufabi_core::region::{AccessError, Clock, Part, Place, RegionAccess, RegionView, Watch};

/// What only the firmware knows of its machine. Each function may be NULL, and gets `context`; none of them calls this library with
/// the queue that calls it, and each returns.
///
/// Counters are loaded and stored by plain 32-bit accesses, each after or before what it announces, in the order of the processor's
/// memory barriers. Where both sides see each other's stores by that alone, `publish` and `observe` are NULL. Where they
/// do not, `publish` writes the bytes back to where the other side reads them, and has done so when it returns; `observe`
/// drops what is cached of them. Both are called for counters too: before a load, after a store.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Machine {
    /// Handed to every function.
    pub context: *mut c_void,
    /// Bytes that `publish` writes back together, at a multiple of their number: a divisor of 64. 0 and 1 are the same.
    pub line: u64,
    /// Writes back what is cached of the bytes at an address; of no bytes, only the order counts.
    pub publish: Option<unsafe extern "C" fn(context: *mut c_void, address: u64, nbytes: u64)>,
    /// Drops what is cached of the bytes at an address; of no bytes, only the order counts.
    pub observe: Option<unsafe extern "C" fn(context: *mut c_void, address: u64, nbytes: u64)>,
    /// Nanoseconds since some moment that stays the same, never fewer than before. Without it nothing can be waited for.
    pub now: Option<unsafe extern "C" fn(context: *mut c_void) -> u64>,
    /// Lets time pass, at most about so many nanoseconds: a turn of a loop, a yield, a short sleep.
    pub pause: Option<unsafe extern "C" fn(context: *mut c_void, nanoseconds: u64)>,
}

impl Machine {
    /// Coherent memory, and no time.
    pub(super) const NONE: Self = Self {
        context: core::ptr::null_mut(),
        line: 1,
        publish: None,
        observe: None,
        now: None,
        pause: None,
    };
}

/// Both parts of a region, at addresses. Whoever made one promised that they are there as long as it is used.
pub(super) struct Memory {
    payload: Part,
    counter: Part,
    machine: Machine,
}

/// What is copied at once: as many bytes as a register has.
const WORD: usize = size_of::<usize>();

impl Memory {
    /// # Safety
    /// Both parts of the view are memory at these addresses, readable and writable as long as this is used; whoever else
    /// reaches it keeps to the protocol, or is at least another processor. The functions of `machine` do what they say.
    pub(super) const unsafe fn new(view: RegionView, machine: Machine) -> Self {
        Self { payload: view.payload(), counter: view.counter(), machine }
    }

    /// Where a place of PAYLOAD starts.
    pub(super) const fn address(&self, place: Place) -> u64 {
        // Inside the part, which does not wrap.
        self.payload.base.wrapping_add(place.offset)
    }

    /// Where `nbytes` bytes lie that start at `offset` of a part, if they lie within it.
    #[inline]
    fn at(part: Part, offset: u64, nbytes: usize) -> Result<usize, AccessError> {
        let room = part.nbytes.checked_sub(offset);
        let fits = u64::try_from(nbytes).is_ok_and(|nbytes| room.is_some_and(|room| nbytes <= room));
        let address = usize::try_from(part.base.saturating_add(offset));
        match address {
            Ok(address) if fits => Ok(address),
            Ok(_) | Err(_) => Err(AccessError::new(Code::RegionRange, 0)),
        }
    }

    fn publish_at(&self, address: u64, nbytes: u64) {
        fence(Ordering::Release);
        if let Some(publish) = self.machine.publish {
            // SAFETY: the function does what it says: whoever made `self` promised it.
            unsafe { publish(self.machine.context, address, nbytes) };
        }
    }

    fn observe_at(&self, address: u64, nbytes: u64) {
        if let Some(observe) = self.machine.observe {
            // SAFETY: as for `publish`.
            unsafe { observe(self.machine.context, address, nbytes) };
        }
        fence(Ordering::Acquire);
    }
}

/// Bytes up to the first word, in words, and behind the last one.
#[inline]
fn split(address: usize, nbytes: usize) -> (usize, usize) {
    let head = address.wrapping_neg() & WORD.wrapping_sub(1);
    let head = head.min(nbytes);
    let words = nbytes.wrapping_sub(head) & !WORD.wrapping_sub(1);
    (head, words)
}

impl RegionAccess for Memory {
    fn line(&self) -> u64 {
        self.machine.line.max(1)
    }

    #[inline]
    fn payload_bytes(&self) -> u64 {
        self.payload.nbytes
    }

    #[inline]
    fn counter_bytes(&self) -> u64 {
        self.counter.nbytes
    }

    #[expect(clippy::host_endian_bytes, reason = "a copy keeps the order in which the bytes lie")]
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        let mut at = Self::at(self.payload, offset, out.len())?;
        let (head, words) = split(at, out.len());
        let Some((head, rest)) = out.split_at_mut_checked(head) else { return Ok(()) };
        let Some((words, tail)) = rest.split_at_mut_checked(words) else { return Ok(()) };
        for byte in head {
            // SAFETY: the byte lies within PAYLOAD, which is readable: whoever made `self` promised it. Volatile, since another
            // processor may write it.
            *byte = unsafe { with_exposed_provenance_mut::<u8>(at).read_volatile() };
            at = at.wrapping_add(1);
        }
        for word in words.as_chunks_mut::<WORD>().0 {
            // SAFETY: as above; the address is a multiple of the word's size, since `head` ended at one.
            *word = unsafe { with_exposed_provenance_mut::<usize>(at).read_volatile() }.to_ne_bytes();
            at = at.wrapping_add(WORD);
        }
        for byte in tail {
            // SAFETY: as for the first bytes.
            *byte = unsafe { with_exposed_provenance_mut::<u8>(at).read_volatile() };
            at = at.wrapping_add(1);
        }
        Ok(())
    }

    #[expect(clippy::host_endian_bytes, reason = "a copy keeps the order in which the bytes lie")]
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let mut at = Self::at(self.payload, offset, bytes.len())?;
        let (head, words) = split(at, bytes.len());
        let Some((head, rest)) = bytes.split_at_checked(head) else { return Ok(()) };
        let Some((words, tail)) = rest.split_at_checked(words) else { return Ok(()) };
        for byte in head {
            // SAFETY: the byte lies within PAYLOAD, which is writable: whoever made `self` promised it.
            unsafe { with_exposed_provenance_mut::<u8>(at).write_volatile(*byte) };
            at = at.wrapping_add(1);
        }
        for word in words.as_chunks::<WORD>().0 {
            // SAFETY: as above; the address is a multiple of the word's size, since `head` ended at one.
            unsafe { with_exposed_provenance_mut::<usize>(at).write_volatile(usize::from_ne_bytes(*word)) };
            at = at.wrapping_add(WORD);
        }
        for byte in tail {
            // SAFETY: as for the first bytes.
            unsafe { with_exposed_provenance_mut::<u8>(at).write_volatile(*byte) };
            at = at.wrapping_add(1);
        }
        Ok(())
    }

    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        let at = Self::at(self.counter, offset, 4)?;
        if self.machine.observe.is_some() {
            self.observe_at(self.counter.base.wrapping_add(offset), 4);
        }
        // SAFETY: the counter lies within COUNTER, which is readable: whoever made `self` promised it. Its offset is one of the
        // layout's, a multiple of 4 as COUNTER's base is, so this is one access.
        Ok(u32::from_le(unsafe { with_exposed_provenance_mut::<u32>(at).read_volatile() }))
    }

    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        let at = Self::at(self.counter, offset, 4)?;
        // SAFETY: as for a load; COUNTER is writable, and this line has no other writer.
        unsafe { with_exposed_provenance_mut::<u32>(at).write_volatile(value.to_le()) };
        if self.machine.publish.is_some() {
            self.publish_at(self.counter.base.wrapping_add(offset), 4);
        }
        Ok(())
    }

    fn publish(&self, place: Place) -> Result<(), AccessError> {
        self.publish_at(self.address(place), place.nbytes);
        Ok(())
    }

    fn observe(&self, place: Place) -> Result<(), AccessError> {
        self.observe_at(self.address(place), place.nbytes);
        Ok(())
    }
}

impl Clock for Machine {
    fn now(&mut self) -> Duration {
        // Without a clock nothing is waited for.
        let Some(now) = self.now else { return Duration::ZERO };
        // SAFETY: the function does what it says: whoever attached promised it.
        Duration::from_nanos(unsafe { now(self.context) })
    }

    fn pause(&mut self, _: Watch, left: Duration) {
        let Some(pause) = self.pause else {
            spin_loop();
            return;
        };
        let nanoseconds = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: as for `now`.
        unsafe { pause(self.context, nanoseconds) };
    }
}
