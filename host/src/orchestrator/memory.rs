//! Where a tracker's slots lie on a host: on the heap.

use core::fmt;

use bufabi_core::dependencies::{Allocate, Memory};

/// Boxed slices.
#[derive(Clone, Copy, Debug)]
pub struct TrackerMemory;

impl Memory for TrackerMemory {
    type Of<T: Clone + fmt::Debug + 'static> = Box<[T]>;
}

impl Allocate for TrackerMemory {
    fn filled<T: Clone + fmt::Debug + 'static>(value: T, len: usize) -> Box<[T]> {
        vec![value; len].into()
    }
}
