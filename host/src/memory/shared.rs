//! Copies out of memory that others may write at that very moment, and into it: the one place where such bytes cross.
//!
//! In Rust's model a plain load or store that meets another thread's store without an order between them is undefined behaviour, and so
//! are atomics of different widths that do; atomics of one byte each are not, and are slow. So the bytes are carried by the machine's own
//! loads and stores, in `asm!` blocks, which the compiler looks into no more than into a system call that has the kernel copy. What a block
//! does is what a relaxed atomic load or store of each byte does, in any order: every byte of a copy is one that somebody stored there,
//! and those of one copy need not be of one moment. That the machine gives that much beside whatever others do, in whatever width, is what all
//! memory between processes rests on.
//!
//! Where there is no `asm!` for it, on other machines and under Miri, it is those atomics of one byte themselves: Miri then sees for itself
//! that nothing here is undefined. With `--cfg bufabi_shows_races` the copies are plain ones: under ThreadSanitizer, which then sees whose data
//! meet without an order, since in such a build they race.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Reads as many bytes as `out` has, each of them there at some time during the call.
///
/// # Safety
/// Those bytes from `from` on are mapped for loads during the call. Nobody refers to them as memory that they alone write.
#[inline]
pub(crate) unsafe fn read(from: *const u8, out: &mut [u8]) {
    #[cfg(bufabi_shows_races)]
    // SAFETY: the caller says that the bytes are mapped; `out` is borrowed for writing alone, so they do not meet.
    unsafe {
        core::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len());
    }
    #[cfg(not(bufabi_shows_races))]
    // SAFETY: as many bytes at `from`, by this function's own promise, as there are in `out`, which is borrowed for writing alone.
    unsafe {
        machine::read(from, out);
    }
}

/// Writes `bytes` to the place from `to` on, each at some time during the call.
///
/// # Safety
/// So many bytes from `to` on are mapped for stores during the call. Nobody refers to them as memory that nobody else writes.
#[inline]
pub(crate) unsafe fn write(to: *mut u8, bytes: &[u8]) {
    #[cfg(bufabi_shows_races)]
    // SAFETY: the caller says that the place is mapped; nobody writes `bytes` while they are borrowed, so they do not meet.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
    }
    #[cfg(not(bufabi_shows_races))]
    // SAFETY: as many bytes at `to`, by this function's own promise, as there are in `bytes`.
    unsafe {
        machine::write(to, bytes);
    }
}

/// As [`read`], of one element, at any alignment.
///
/// # Safety
/// As for [`read`].
#[inline(always)]
pub(crate) unsafe fn read_element<T: FromBytes + IntoBytes>(from: *const T, slot: &mut T) {
    // The size is known where this is compiled: one load, without a question.
    // SAFETY: as the caller promises.
    unsafe { read(from.cast(), slot.as_mut_bytes()) };
}

/// As [`write`], of one element, at any alignment.
///
/// # Safety
/// As for [`write`].
#[inline(always)]
pub(crate) unsafe fn write_element<T: IntoBytes + Immutable>(to: *mut T, value: &T) {
    // SAFETY: as the caller promises.
    unsafe { write(to.cast(), value.as_bytes()) };
}

/// By the machine's own instructions: no wider ones than every machine of its kind has.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri), not(bufabi_shows_races)))]
mod machine {
    use core::arch::asm;

    #[inline(always)]
    pub(super) unsafe fn read(from: *const u8, out: &mut [u8]) {
        // SAFETY: as the caller promises, and `out` are as many bytes that can be written, apart from those.
        unsafe { copy(from, out.as_mut_ptr(), out.len()) };
    }

    #[inline(always)]
    pub(super) unsafe fn write(to: *mut u8, bytes: &[u8]) {
        // SAFETY: as the caller promises, and `bytes` are as many bytes that can be read, apart from those.
        unsafe { copy(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Copies `nbytes` bytes, in pieces of powers of two from 64 down.
    ///
    /// # Safety
    /// So many bytes from `from` on can be loaded and from `to` on stored, and they do not overlap.
    #[inline(always)]
    unsafe fn copy(mut from: *const u8, mut to: *mut u8, nbytes: usize) {
        macro_rules! piece {
            ($copy:ident, $size:literal) => {
                // SAFETY: the pieces before and this one are no more than `nbytes`.
                unsafe { $copy(from, to) };
                from = from.wrapping_add($size);
                to = to.wrapping_add($size);
            };
        }
        for _ in 0..nbytes / 64 {
            piece!(copy_64, 64);
        }
        if nbytes & 32 != 0 {
            piece!(copy_16, 16);
            piece!(copy_16, 16);
        }
        if nbytes & 16 != 0 {
            piece!(copy_16, 16);
        }
        if nbytes & 8 != 0 {
            piece!(copy_8, 8);
        }
        if nbytes & 4 != 0 {
            piece!(copy_4, 4);
        }
        if nbytes & 2 != 0 {
            piece!(copy_2, 2);
        }
        if nbytes & 1 != 0 {
            // SAFETY: as above.
            unsafe { copy_1(from, to) };
        }
    }

    /// A function that copies a number of bytes, which its name says, by those instructions.
    macro_rules! copies {
        ($($name:ident: $($instruction:literal)* by $($register:ident: $class:ident)*;)*) => { $(
            /// # Safety
            /// Its number of bytes can be loaded at `from` and stored at `to`, and they do not overlap.
            #[inline(always)]
            unsafe fn $name(from: *const u8, to: *mut u8) {
                // SAFETY: the instructions load that many bytes at `from` and store them at `to`, at any alignment, as the caller allows,
                // and change nothing else but the registers that are named.
                unsafe {
                    asm!(
                        $($instruction,)*
                        from = in(reg) from,
                        to = in(reg) to,
                        $($register = out($class) _,)*
                        options(nostack, preserves_flags),
                    );
                }
            }
        )* };
    }

    #[cfg(target_arch = "x86_64")]
    copies! {
        copy_64:
            "movdqu {a}, [{from}]" "movdqu {b}, [{from} + 16]" "movdqu {c}, [{from} + 32]" "movdqu {d}, [{from} + 48]"
            "movdqu [{to}], {a}" "movdqu [{to} + 16], {b}" "movdqu [{to} + 32], {c}" "movdqu [{to} + 48], {d}"
            by a: xmm_reg b: xmm_reg c: xmm_reg d: xmm_reg;
        copy_16: "movdqu {a}, [{from}]" "movdqu [{to}], {a}" by a: xmm_reg;
        copy_8: "mov {a}, [{from}]" "mov [{to}], {a}" by a: reg;
        copy_4: "mov {a:e}, [{from}]" "mov [{to}], {a:e}" by a: reg;
        copy_2: "movzx {a:e}, word ptr [{from}]" "mov [{to}], {a:x}" by a: reg;
        copy_1: "movzx {a:e}, byte ptr [{from}]" "mov [{to}], {a:l}" by a: reg;
    }

    #[cfg(target_arch = "aarch64")]
    copies! {
        copy_64:
            "ldp {a:q}, {b:q}, [{from}]" "ldp {c:q}, {d:q}, [{from}, #32]"
            "stp {a:q}, {b:q}, [{to}]" "stp {c:q}, {d:q}, [{to}, #32]"
            by a: vreg b: vreg c: vreg d: vreg;
        copy_16: "ldr {a:q}, [{from}]" "str {a:q}, [{to}]" by a: vreg;
        copy_8: "ldr {a}, [{from}]" "str {a}, [{to}]" by a: reg;
        copy_4: "ldr {a:w}, [{from}]" "str {a:w}, [{to}]" by a: reg;
        copy_2: "ldrh {a:w}, [{from}]" "strh {a:w}, [{to}]" by a: reg;
        copy_1: "ldrb {a:w}, [{from}]" "strb {a:w}, [{to}]" by a: reg;
    }
}

/// By an atomic for each byte.
#[cfg(all(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri), not(bufabi_shows_races)))]
mod machine {
    use std::sync::atomic::{AtomicU8, Ordering};

    pub(super) unsafe fn read(from: *const u8, out: &mut [u8]) {
        for (index, out) in out.iter_mut().enumerate() {
            // SAFETY: the caller says that the byte is mapped for loads and nobody's alone; no store is made through this.
            *out = unsafe { AtomicU8::from_ptr(from.wrapping_add(index).cast_mut()) }.load(Ordering::Relaxed);
        }
    }

    pub(super) unsafe fn write(to: *mut u8, bytes: &[u8]) {
        for (index, byte) in bytes.iter().enumerate() {
            // SAFETY: the caller says that the byte is mapped for stores and nobody's alone.
            unsafe { AtomicU8::from_ptr(to.wrapping_add(index)) }.store(*byte, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use bufabi_core::{DType, View};

    use super::*;
    use crate::memory::{Mapping, Strided};

    #[test]
    fn copies_of_every_length_and_alignment_are_exact() {
        let (most, step) = if cfg!(miri) { (140, 23) } else { (300, 1) };
        let source: Vec<u8> = (0..=u8::MAX).cycle().take(most + 32).collect();
        for length in (0..most).step_by(step) {
            for start in 0..17 {
                let mut out = vec![0xee; length];
                // SAFETY: so many bytes lie from `start` on, and no other thread knows them.
                unsafe { read(source.as_ptr().wrapping_add(start), &mut out) };
                assert_eq!(out, source[start..][..length], "{start}, {length}");
                let mut place = vec![0xee; most + 32];
                // SAFETY: as above.
                unsafe { write(place.as_mut_ptr().wrapping_add(start), &source[..length]) };
                let (before, rest) = place.split_at(start);
                let (copied, behind) = rest.split_at(length);
                assert_eq!(copied, &source[..length], "{start}, {length}");
                assert!(before.iter().chain(behind).all(|&byte| byte == 0xee), "{start}, {length}");
            }
        }
    }

    #[test]
    fn threads_that_meet_in_all_widths_without_an_order_find_bytes_that_were_stored() {
        let rounds = if cfg!(miri) { 2 } else { 2000 };
        let mapping = Mapping::copied(256).unwrap();
        let elements = |dtype: DType, step: u32| {
            let count = 128 / (step * dtype.size());
            mapping.operand(View::new(8, dtype, &[count], &[step], 256).unwrap()).unwrap()
        };
        let bytes =
            |seen: &[u8]| assert!(seen.iter().all(|byte| [0, 0x11, 0x22].contains(byte)), "{seen:x?}");
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..rounds {
                    Strided::<u32>::new(&elements(DType::Float32, 1)).unwrap().store(
                        0,
                        1,
                        &[0x1111_1111; 32],
                    );
                    Strided::<u64>::new(&elements(DType::Int64, 2)).unwrap().store(0, 2, &[0; 8]);
                }
            });
            scope.spawn(|| {
                for _ in 0..rounds {
                    mapping.write(13, &[0x22; 77]).unwrap();
                    Strided::<u16>::new(&elements(DType::Uint16, 3)).unwrap().store(1, 3, &[0x2222; 8]);
                    mapping.clear(31, 50).unwrap();
                }
            });
            for _ in 0..rounds {
                let mut line = [0; 16];
                Strided::<u64>::new(&elements(DType::Int64, 1)).unwrap().load(0, 1, &mut line);
                bytes(line.as_bytes());
                let mut line = [0; 8];
                Strided::<u32>::new(&elements(DType::Int32, 4)).unwrap().load(1, 3, &mut line);
                bytes(line.as_bytes());
                let mut all = [0; 256];
                mapping.read(0, &mut all).unwrap();
                bytes(&all);
            }
        });
    }
}
