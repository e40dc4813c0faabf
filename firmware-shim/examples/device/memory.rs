//! The heap that the host gives out, as kernels reach it: copies of elements at any address, and a count of them for the host.
//!
//! The host writes this memory too, before a request that names it and after the reply: the queue's counters are what orders the
//! two. The memory system is off, so every access goes to memory itself.

use core::ptr;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU32, Ordering};

use bufabi_core::region::Part;
use bufabi_core::{Access, View};
use bufabi_device::kernel::{Bits, Elements, Geometry, Operand};
use bufabi_device::mailbox::PROGRESS;
use bufabi_device::tasks::Memory;

use super::board::place;

/// The heap.
pub(crate) struct Ram {
    heap: Part,
}

impl Ram {
    /// # Safety
    /// The heap is memory of this machine that this program does not use in another way.
    pub(crate) const unsafe fn new(heap: Part) -> Self {
        Self { heap }
    }
}

impl Memory for Ram {
    type Operand = RamOperand;

    fn operand(&self, address: u64, view: View, access: Access) -> Option<RamOperand> {
        let offset = address.checked_sub(self.heap.base)?;
        let room = self.heap.nbytes.checked_sub(offset)?;
        (view.end() <= room).then_some(RamOperand { address, view, access })
    }
}

/// A view of the heap: all of it lies there.
pub(crate) struct RamOperand {
    address: u64,
    view: View,
    access: Access,
}

impl Operand for RamOperand {
    type Elements<T: Bits> = RamElements<T>;

    fn view(&self) -> &View {
        &self.view
    }

    fn access(&self) -> Access {
        self.access
    }

    fn elements<T: Bits>(&self) -> Option<RamElements<T>> {
        let geometry = Geometry::new(&self.view, self.access, size_of::<T>())?;
        let first = self.address.checked_add(self.view.byte_offset())?;
        Some(RamElements { first: with_exposed_provenance_mut(place(first)), geometry })
    }
}

/// The elements of a view.
pub(crate) struct RamElements<T> {
    /// The first one, at any alignment. All within the geometry's reach lie in the heap.
    first: *mut T,
    geometry: Geometry,
}

impl<T: Bits> Elements<T> for RamElements<T> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn load(&self, start: usize, step: usize, line: &mut [T]) {
        advance();
        let there = self.geometry.readable(start, step, line.len());
        let line = line.get_mut(..there).unwrap_or_default();
        let mut from = self.first.wrapping_add(start);
        if step == 1 {
            // SAFETY: elements `start` to `start + there` lie within the reach, which is heap; the line lies on this program's stack, so
            // they do not meet. Both are counted in bytes, which have no alignment.
            unsafe {
                ptr::copy_nonoverlapping(from.cast::<u8>(), line.as_mut_ptr().cast(), size_of_val(line))
            };
            return;
        }
        for slot in line {
            // SAFETY: the element is one of the `there` that lie within the reach, which is heap; any bits are a `T`.
            *slot = unsafe { from.read_unaligned() };
            from = from.wrapping_add(step);
        }
    }

    fn store(&self, start: usize, step: usize, line: &[T]) {
        advance();
        let there = self.geometry.writable(start, step, line.len());
        let line = line.get(..there).unwrap_or_default();
        let mut to = self.first.wrapping_add(start);
        if step == 1 {
            // SAFETY: as for loads, the other way round.
            unsafe { ptr::copy_nonoverlapping(line.as_ptr().cast::<u8>(), to.cast(), size_of_val(line)) };
            return;
        }
        for &value in line {
            // SAFETY: the element is one of the `there` that lie within the reach, which is heap.
            unsafe { to.write_unaligned(value) };
            to = to.wrapping_add(step);
        }
    }
}

/// Counts a line, so that the host sees that the device is at work. This program alone writes the count.
fn advance() {
    // SAFETY: the report's page is memory of this machine; the host reads the word by atomics too.
    let progress = unsafe { AtomicU32::from_ptr(with_exposed_provenance_mut(place(PROGRESS))) };
    progress.store(progress.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}
