//! How a region's bytes are reached: mapped by a host, local to firmware, or copied by a driver.

use core::fmt;

use crate::code::Code;

/// Bytes of the PAYLOAD part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Bytes from the part's start.
    pub offset: u64,
    /// Bytes that it takes.
    pub nbytes: u64,
}

impl Place {
    /// No bytes at all: what is published or observed where only the order counts.
    pub const NOTHING: Self = Self { offset: 0, nbytes: 0 };
}

/// Both parts of a region, as one side reaches them.
///
/// Counters are 32-bit words at multiples of 4. An implementation owes their users this:
///
/// - [`load`](Self::load) and [`store`](Self::store) are each one indivisible access to memory, never to a stale copy of it,
///   and the values that one side loads from one counter are in the order in which the other side stored them.
/// - **Release.** Whatever this side read or wrote before a call of [`publish`](Self::publish) has happened before a later
///   `store`, as the other side sees it: its bytes within the published place are in memory, its reads are done.
/// - **Acquire.** A call of [`observe`](Self::observe) after a `load` that returned such a store's value makes the observed place
///   readable as it was published, and no read or write that follows in program order happens before that load.
///
/// Where the memory is coherent, a release fence and an acquire fence will do; so will nothing at all when `store` itself
/// releases and `load` itself acquires. Where it is not, `publish` also writes cached lines back and `observe` drops them.
///
/// Offsets and lengths that are passed in lie within the part, as [`payload_bytes`](Self::payload_bytes) and
/// [`counter_bytes`](Self::counter_bytes) tell its size; an implementation that cannot rely on its caller refuses others.
pub trait RegionAccess {
    /// Bytes that `publish` writes back together, at a multiple of their number, even if this side wrote only some of them; 1 where
    /// memory is coherent. A line with two writers would lose the bytes of one.
    fn line(&self) -> u64 {
        1
    }

    /// Bytes of PAYLOAD.
    fn payload_bytes(&self) -> u64;

    /// Bytes of COUNTER.
    fn counter_bytes(&self) -> u64;

    /// Copies bytes of PAYLOAD from `offset` on into `out`.
    ///
    /// # Errors
    /// What the memory's driver said; `out` is then of no use.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError>;

    /// Copies `bytes` into PAYLOAD from `offset` on.
    ///
    /// # Errors
    /// What the memory's driver said; any of the bytes may have been written.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError>;

    /// The counter at `offset` as it is now.
    ///
    /// # Errors
    /// What the memory's driver said.
    fn load(&self, offset: u64) -> Result<u32, AccessError>;

    /// Sets the counter at `offset`.
    ///
    /// # Errors
    /// What the memory's driver said; the counter may have been set.
    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError>;

    /// Puts what this side did before, and its bytes in `place`, before every later `store`.
    ///
    /// # Errors
    /// What the memory's driver said.
    fn publish(&self, place: Place) -> Result<(), AccessError>;

    /// Puts an earlier `load` before whatever this side does next, and makes the bytes in `place` readable.
    ///
    /// # Errors
    /// What the memory's driver said.
    fn observe(&self, place: Place) -> Result<(), AccessError>;

    /// This side is about to write to PAYLOAD at `offset`, and its caches may be told: a hint, which needs no right to the bytes and
    /// changes none. The default does nothing.
    fn will_write(&self, offset: u64) {
        let _ = offset;
    }

    /// This side is about to read PAYLOAD at `offset`: as [`will_write`](Self::will_write).
    fn will_read(&self, offset: u64) {
        let _ = offset;
    }

    /// Called after each store of a counter that the other side may wait for. If the byte of COUNTER at `sleep_flag` says that it
    /// sleeps, and sleepers can be woken, it wakes them. The default does nothing, which costs a sleeper at most its 1 ms.
    fn wake(&self, counter: u64, sleep_flag: u64) {
        let _ = (counter, sleep_flag);
    }

    /// Called when a look at the other side's counters found nothing new. Whoever gets an error looks once more, at what came before, and
    /// then gives up. The default knows nothing of the other side.
    ///
    /// # Errors
    /// Nothing can come any more: the other side, or the memory, is known to be gone.
    fn check_peer(&self) -> Result<(), AccessError> {
        Ok(())
    }
}

impl<A: RegionAccess> RegionAccess for &A {
    fn line(&self) -> u64 {
        A::line(self)
    }

    #[inline]
    fn payload_bytes(&self) -> u64 {
        A::payload_bytes(self)
    }

    #[inline]
    fn counter_bytes(&self) -> u64 {
        A::counter_bytes(self)
    }

    #[inline]
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        A::read(self, offset, out)
    }

    #[inline]
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        A::write(self, offset, bytes)
    }

    #[inline]
    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        A::load(self, offset)
    }

    #[inline]
    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        A::store(self, offset, value)
    }

    #[inline]
    fn publish(&self, place: Place) -> Result<(), AccessError> {
        A::publish(self, place)
    }

    #[inline]
    fn observe(&self, place: Place) -> Result<(), AccessError> {
        A::observe(self, place)
    }

    #[inline]
    fn will_write(&self, offset: u64) {
        A::will_write(self, offset);
    }

    #[inline]
    fn will_read(&self, offset: u64) {
        A::will_read(self, offset);
    }

    #[inline]
    fn wake(&self, counter: u64, sleep_flag: u64) {
        A::wake(self, counter, sleep_flag);
    }

    #[inline]
    fn check_peer(&self) -> Result<(), AccessError> {
        A::check_peer(self)
    }
}

/// The memory could not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccessError {
    code: Code,
    number: i64,
}

impl AccessError {
    /// A failure that has a code of its own, and the number that the operating system or the driver gave for it.
    #[must_use]
    pub const fn new(code: Code, number: i64) -> Self {
        Self { code, number }
    }

    /// A failure of which there is only the driver's number.
    #[must_use]
    pub const fn driver(number: i64) -> Self {
        Self::new(Code::RegionAccess, number)
    }

    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        self.code
    }

    /// What the operating system or the driver said; of a side that has ended, its process's number.
    #[must_use]
    pub const fn number(self) -> i64 {
        self.number
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.code == Code::WorkerDied {
            return write!(f, "the other side of the region, process {}, has ended", self.number);
        }
        if self.code == Code::Released {
            return f.write_str("the region was released, or is being released");
        }
        write!(f, "the region's memory could not be reached: {}, number {}", self.code, self.number)
    }
}

impl core::error::Error for AccessError {}
