//! One statement of the rules, compiled twice: once for the bare fact at full speed, and once, out of line, for the error with
//! its operands.
//!
//! A check that builds its errors where it finds them spends most of its time on making room for them. So the rules
//! are generic over what becomes of a broken one. The fast instance only says that there is one; the slow instance then
//! runs the same rules over the same bytes and says which.

/// What becomes of a broken rule whose error is `E`.
pub(crate) trait Verdict<E>: Sized {
    /// Makes the verdict; only one that wants the operands calls `error`.
    fn of(error: impl FnOnce() -> E) -> Self;
}

/// Some rule is broken.
pub(crate) struct Broken;

impl<E> Verdict<E> for Broken {
    #[inline]
    fn of(_: impl FnOnce() -> E) -> Self {
        Self
    }
}

/// The error itself, with its operands.
pub(crate) struct First<E>(pub(crate) E);

impl<E, F: Into<E>> Verdict<F> for First<E> {
    fn of(error: impl FnOnce() -> F) -> Self {
        Self(error().into())
    }
}
