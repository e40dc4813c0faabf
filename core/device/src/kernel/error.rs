//! Why a kernel does not run on its arguments.

use core::fmt;

use bufabi_core::{Access, Code, DType};

/// Why a kernel does not run on its arguments. Operands and scalars are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelError {
    /// No kernel has that number.
    Unknown {
        /// The number that came.
        kernel: u32,
    },
    /// Another number of operands or scalars than the kernel takes.
    Counts {
        /// Operands that it takes.
        operands: usize,
        /// Operands that came.
        found_operands: usize,
        /// Scalars that it takes.
        scalars: usize,
        /// Scalars that came.
        found_scalars: usize,
    },
    /// The owner does not grant what the kernel does with an operand.
    Denied {
        /// Which operand.
        operand: usize,
        /// What the owner grants.
        granted: Access,
        /// What the kernel does.
        needed: Access,
    },
    /// An element type that the kernel does not know.
    DtypeUnsupported {
        /// Which operand.
        operand: usize,
        /// Its type.
        found: DType,
    },
    /// All operands of a kernel have one element type.
    DtypeDiffers {
        /// Which operand.
        operand: usize,
        /// The first operand's type.
        expected: DType,
        /// Its type.
        found: DType,
    },
    /// Another rank than the kernel takes.
    Ndims {
        /// Which operand.
        operand: usize,
        /// The rank that it takes.
        expected: u8,
        /// The operand's rank.
        found: u8,
    },
    /// A dimension that does not fit those of the other operands.
    Shape {
        /// Which operand.
        operand: usize,
        /// Which dimension.
        dim: u8,
        /// The elements that fit.
        expected: u32,
        /// The elements that it has.
        found: u32,
    },
    /// A view that is written has two indices for one byte.
    SelfOverlap {
        /// Which operand.
        operand: usize,
    },
    /// A scalar whose bits are no value of the element type.
    ScalarRange {
        /// Which scalar.
        scalar: usize,
        /// The element type.
        dtype: DType,
        /// Its 64 bits.
        found: u64,
    },
    /// Less memory to compute in than the kernel takes.
    Scratch {
        /// Words that it takes.
        expected: usize,
        /// Words that came.
        found: usize,
    },
    /// A kernel that is not ours says that it failed.
    Failed {
        /// What it says: the number of a code, or one of its own. Not 0.
        number: i32,
    },
}

impl KernelError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Unknown { .. } => Code::KernelUnknown,
            Self::Counts { .. } => Code::KernelCounts,
            Self::Denied { .. } => Code::Denied,
            Self::DtypeUnsupported { .. } | Self::DtypeDiffers { .. } => Code::KernelDtype,
            Self::Ndims { .. } | Self::Shape { .. } => Code::KernelShape,
            Self::SelfOverlap { .. } => Code::SelfOverlap,
            Self::ScalarRange { .. } => Code::KernelScalar,
            Self::Scratch { .. } => Code::BufferTooSmall,
            Self::Failed { number } => match Code::from_number(number) {
                Some(Code::Ok) | None => Code::KernelFailed,
                Some(code) => code,
            },
        }
    }

    /// The operand that it is about, from 0.
    #[must_use]
    pub const fn operand(self) -> Option<usize> {
        match self {
            Self::Denied { operand, .. }
            | Self::DtypeUnsupported { operand, .. }
            | Self::DtypeDiffers { operand, .. }
            | Self::Ndims { operand, .. }
            | Self::Shape { operand, .. }
            | Self::SelfOverlap { operand } => Some(operand),
            Self::Unknown { .. }
            | Self::Counts { .. }
            | Self::ScalarRange { .. }
            | Self::Scratch { .. }
            | Self::Failed { .. } => None,
        }
    }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operand) = self.operand() {
            write!(f, "operand {operand}: ")?;
        }
        Detail(*self).fmt(f)
    }
}

/// What an error says without the operand, for whoever names the operand in another way.
#[derive(Clone, Copy, Debug)]
pub struct Detail(pub KernelError);

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use KernelError as E;
        match self.0 {
            E::Unknown { kernel } => write!(f, "no kernel has number {kernel}"),
            E::Counts { operands, found_operands, scalars, found_scalars } => write!(
                f,
                "the kernel takes {operands} operands and {scalars} scalars, found {found_operands} and {found_scalars}"
            ),
            E::Denied { granted, needed, .. } => {
                write!(f, "the kernel needs {needed}, but the owner grants {granted}")
            }
            E::DtypeUnsupported { found, .. } => {
                write!(f, "the kernel does not know {found}")
            }
            E::DtypeDiffers { expected, found, .. } => {
                write!(f, "its type is {found}, that of the first one {expected}: all must be one type")
            }
            E::Ndims { expected, found, .. } => {
                write!(f, "it has {found} dimensions, the kernel takes {expected}")
            }
            E::Shape { dim, expected, found, .. } => {
                write!(f, "it has {found} elements in dimension {dim}, {expected} would fit")
            }
            E::SelfOverlap { .. } => f.write_str("it is written and overlaps itself"),
            E::ScalarRange { scalar, dtype, found } => {
                write!(f, "scalar {scalar} has the bits {found:#x}, which are no {dtype}")
            }
            E::Scratch { expected, found } => {
                write!(f, "the kernel computes in {expected} words of memory, found {found}")
            }
            E::Failed { number } => write!(f, "the kernel says that it failed: {number}"),
        }
    }
}

impl core::error::Error for KernelError {}
