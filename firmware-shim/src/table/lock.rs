//! Who uses a table: with the feature `lock` one core at a time, which the others wait for; without it the caller sees to that.

#[cfg(feature = "lock")]
pub(super) struct Lock<T>(spin::mutex::SpinMutex<T>);

#[cfg(feature = "lock")]
impl<T> Lock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(spin::mutex::SpinMutex::new(value))
    }

    /// Waits until nobody else uses it, and does something with it.
    ///
    /// # Safety
    /// None; the lock without the feature has one.
    pub(super) unsafe fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.0.lock())
    }
}

#[cfg(not(feature = "lock"))]
pub(super) struct Lock<T>(core::cell::UnsafeCell<T>);

#[cfg(not(feature = "lock"))]
impl<T> Lock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Does something with it.
    ///
    /// # Safety
    /// Nobody else uses it meanwhile.
    pub(super) unsafe fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: nobody else has a reference to it: the caller's promise.
        work(unsafe { &mut *self.0.get() })
    }
}
