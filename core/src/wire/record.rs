//! Where a checked record's bytes are: in the value itself, or behind a reference.

/// Something that holds the bytes of a record and always gives the same ones: the record or a reference to it. Sealed, since
/// a checked record relies on that.
pub trait Holds<R>: Copy + sealed::Sealed<R> {
    /// The bytes.
    fn record(&self) -> &R;
}

impl<R: Copy> Holds<R> for R {
    #[inline]
    fn record(&self) -> &R {
        self
    }
}

impl<R> Holds<R> for &R {
    #[inline]
    fn record(&self) -> &R {
        self
    }
}

mod sealed {
    pub trait Sealed<R> {}
    impl<R: Copy> Sealed<R> for R {}
    impl<R> Sealed<R> for &R {}
}
