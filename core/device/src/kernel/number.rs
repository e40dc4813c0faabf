//! The arithmetic of each element type: what it widens to, and how it comes back.

use half::{bf16, f16};

use super::operand::Bits;

/// An element that moves by its bits: the lowest of a scalar are its value.
pub trait Element: Bits {
    /// The value in a scalar's lowest bits.
    fn from_scalar(bits: u64) -> Self;
}

/// An element that kernels compute with.
pub trait Number: Element {
    /// What it computes in.
    type Wide: Bits;
    /// As what it computes in; exact.
    fn widen(self) -> Self::Wide;
    /// The nearest element to a result, even when two are equally near.
    fn round(wide: Self::Wide) -> Self;
    /// The sum.
    fn add(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// The product.
    fn mul(a: Self::Wide, b: Self::Wide) -> Self::Wide;
}

macro_rules! integers {
    ($($type:ty: $bytes:literal),*) => {$(
        impl Element for $type {
            #[inline]
            fn from_scalar(bits: u64) -> Self {
                Self::from_le_bytes(lowest::<$bytes>(bits))
            }
        }

        impl Number for $type {
            type Wide = Self;
            #[inline]
            fn widen(self) -> Self {
                self
            }
            #[inline]
            fn round(wide: Self) -> Self {
                wide
            }
            #[inline]
            fn add(a: Self, b: Self) -> Self {
                a.wrapping_add(b)
            }
            #[inline]
            fn mul(a: Self, b: Self) -> Self {
                a.wrapping_mul(b)
            }
        }
    )*};
}
integers!(i8: 1, i16: 2, i32: 4, i64: 8, u8: 1, u16: 2, u32: 4, u64: 8);

macro_rules! floats {
    ($($type:ty: $bytes:literal, $widen:expr, $round:expr;)*) => {$(
        impl Element for $type {
            #[inline]
            fn from_scalar(bits: u64) -> Self {
                Self::from_le_bytes(lowest::<$bytes>(bits))
            }
        }

        impl Number for $type {
            type Wide = f32;
            #[inline]
            fn widen(self) -> f32 {
                $widen(self)
            }
            #[inline]
            fn round(wide: f32) -> Self {
                $round(wide)
            }
            #[inline]
            fn add(a: f32, b: f32) -> f32 {
                a + b
            }
            #[inline]
            fn mul(a: f32, b: f32) -> f32 {
                a * b
            }
        }
    )*};
}
floats! {
    f32: 4, core::convert::identity, core::convert::identity;
    f16: 2, Self::to_f32, Self::from_f32;
    bf16: 2, Self::to_f32, Self::from_f32;
}

/// The lowest bytes of a scalar.
fn lowest<const N: usize>(bits: u64) -> [u8; N] {
    let mut lowest = [0; N];
    lowest.iter_mut().zip(bits.to_le_bytes()).for_each(|(slot, byte)| *slot = byte);
    lowest
}
