//! The kernels of devices and of sub-workers: plain arithmetic on strided views of any element type.
//!
//! Floats compute in float32: 16-bit ones are widened, and rounded once, to the nearest and to even when two are equally near.
//! Sums add in the order of their index, one element at a time, so that a result depends neither on how the work is cut nor on
//! the processor that does it; the bits of a NaN alone are the processor's. Integers wrap.

mod call;
mod compute;
mod elementwise;
mod error;
mod lines;
mod matrix;
pub mod number;
mod operand;

pub use call::{Call, Kernel, is_number, is_value};
pub use error::{Detail, KernelError};
pub use lines::{LINE, Line, for_each_line};
pub use matrix::SCRATCH_WORDS;
pub use operand::{Bits, Elements, Geometry, Operand};
