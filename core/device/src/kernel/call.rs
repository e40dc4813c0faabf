//! Which kernels there are, by name and by number, and what each takes: checked on views and scalars alone.

use bufabi_core::overlap::may_overlap_itself;
use bufabi_core::{Access, DType, View};

use super::error::KernelError;

/// What a task computes. Inputs come first, the output last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Nothing, on any operands.
    None,
    /// C is a scalar everywhere.
    Fill,
    /// C is A.
    Copy,
    /// C is A + B, element by element.
    Add,
    /// C is A * B, element by element.
    Mul,
    /// C is A times a scalar.
    Scale,
    /// C\[m, n\] is the matrix product of A\[m, k\] and B\[k, n\].
    MatMul,
    /// C\[m\] is the sum of each row of A\[m, n\].
    SumRows,
}

impl Kernel {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] =
        [Self::None, Self::Fill, Self::Copy, Self::Add, Self::Mul, Self::Scale, Self::MatMul, Self::SumRows];

    /// Its name, as graph files spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fill => "fill",
            Self::Copy => "copy",
            Self::Add => "add",
            Self::Mul => "mul",
            Self::Scale => "scale",
            Self::MatMul => "matmul",
            Self::SumRows => "sum_rows",
        }
    }

    /// The kernel of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == name)
    }

    /// Operands that it takes; `None` is any number.
    #[must_use]
    pub const fn operands(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Fill => Some(1),
            Self::Copy | Self::Scale | Self::SumRows => Some(2),
            Self::Add | Self::Mul | Self::MatMul => Some(3),
        }
    }

    /// Scalars that it reads; further ones are ignored.
    #[must_use]
    pub const fn scalars(self) -> usize {
        match self {
            Self::Fill | Self::Scale => 1,
            Self::None | Self::Copy | Self::Add | Self::Mul | Self::MatMul | Self::SumRows => 0,
        }
    }

    /// It can add its result to what the output holds.
    #[must_use]
    pub const fn accumulates(self) -> bool {
        matches!(self, Self::MatMul | Self::SumRows)
    }

    /// It computes with its elements, and does not just carry their bits.
    const fn computes(self) -> bool {
        matches!(self, Self::Add | Self::Mul | Self::Scale | Self::MatMul | Self::SumRows)
    }
}

/// A kernel, and whether its result is added to what the output holds: what an INOUT output asks of those that can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The kernel.
    pub kernel: Kernel,
    /// The result is added to the output.
    pub accumulate: bool,
}

/// The bit of a call's number that says accumulate.
const ACCUMULATE: u32 = 0x100;

impl Call {
    /// The number by which a worker is told. A call that cannot accumulate has the number of one that does not.
    #[must_use]
    pub fn number(self) -> u32 {
        let index = Kernel::ALL.into_iter().position(|kernel| kernel == self.kernel).unwrap_or(0);
        let number = u32::try_from(index).unwrap_or(0);
        if self.accumulate && self.kernel.accumulates() { number | ACCUMULATE } else { number }
    }

    /// The call with that number, or `None` when there is none.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        let kernel = *Kernel::ALL.get(usize::try_from(number & !ACCUMULATE).ok()?)?;
        let call = Self { kernel, accumulate: number & ACCUMULATE != 0 };
        (call.number() == number).then_some(call)
    }

    /// What it does with operand number `operand` of `count`.
    #[must_use]
    pub const fn needs(self, operand: usize, count: usize) -> Option<Access> {
        if matches!(self.kernel, Kernel::None) {
            None
        } else if operand.saturating_add(1) < count {
            Some(Access::Read)
        } else if self.accumulate && self.kernel.accumulates() {
            Some(Access::ReadWrite)
        } else {
            Some(Access::Write)
        }
    }

    /// Checks views and scalars: all that can be known before anything is mapped. Rights are not looked at.
    ///
    /// # Errors
    /// The first thing that the kernel does not take.
    pub fn check<'v>(
        self,
        views: impl ExactSizeIterator<Item = &'v View> + Clone,
        scalars: &[u64],
    ) -> Result<(), KernelError> {
        let Self { kernel, .. } = self;
        let count = views.len();
        let operands = kernel.operands().unwrap_or(count);
        if count != operands || scalars.len() < kernel.scalars() {
            return Err(KernelError::Counts {
                operands,
                found_operands: count,
                scalars: kernel.scalars(),
                found_scalars: scalars.len(),
            });
        }
        let mut first = None;
        if kernel == Kernel::None {
            return Ok(());
        }
        for (operand, view) in views.clone().enumerate() {
            let found = view.dtype();
            let expected = *first.get_or_insert(found);
            if found != expected {
                return Err(KernelError::DtypeDiffers { operand, expected, found });
            }
            if kernel.computes() && !is_number(found) {
                return Err(KernelError::DtypeUnsupported { operand, found });
            }
        }
        let mut views_in_order = views.clone();
        let (a, b, c) = (views_in_order.next(), views_in_order.next(), views_in_order.next());
        match (kernel, a, b, c) {
            (Kernel::MatMul, Some(a), Some(b), Some(c)) => {
                let (m, k) = matrix_shape(0, a)?;
                let (inner, n) = matrix_shape(1, b)?;
                fits(1, 0, k, inner)?;
                let (rows, columns) = matrix_shape(2, c)?;
                fits(2, 0, m, rows)?;
                fits(2, 1, n, columns)?;
            }
            (Kernel::SumRows, Some(a), Some(c), _) => {
                let (m, _) = matrix_shape(0, a)?;
                has_rank(1, 1, c)?;
                fits(1, 0, m, c.shapes().first().copied().unwrap_or(0))?;
            }
            (_, Some(a), ..) => {
                for (operand, view) in views.clone().enumerate() {
                    has_rank(operand, a.ndims(), view)?;
                    for (dim, (&expected, &found)) in (0..).zip(a.shapes().iter().zip(view.shapes())) {
                        fits(operand, dim, expected, found)?;
                    }
                }
            }
            (_, None, ..) => {}
        }
        if kernel.computes()
            && let Some((operand, output)) = views.enumerate().last()
            && may_overlap_itself(output)
        {
            return Err(KernelError::SelfOverlap { operand });
        }
        if let (1.., Some(&found), Some(dtype)) = (kernel.scalars(), scalars.first(), first)
            && !is_value(dtype, found)
        {
            return Err(KernelError::ScalarRange { scalar: 0, dtype, found });
        }
        Ok(())
    }
}

fn fits(operand: usize, dim: u8, expected: u32, found: u32) -> Result<(), KernelError> {
    if expected == found { Ok(()) } else { Err(KernelError::Shape { operand, dim, expected, found }) }
}

fn has_rank(operand: usize, expected: u8, view: &View) -> Result<(), KernelError> {
    let found = view.ndims();
    if expected == found { Ok(()) } else { Err(KernelError::Ndims { operand, expected, found }) }
}

fn matrix_shape(operand: usize, view: &View) -> Result<(u32, u32), KernelError> {
    has_rank(operand, 2, view)?;
    match *view.shapes() {
        [rows, columns] => Ok((rows, columns)),
        _ => Err(KernelError::Ndims { operand, expected: 2, found: view.ndims() }),
    }
}

/// Kernels compute with it; others they only carry.
#[must_use]
pub const fn is_number(dtype: DType) -> bool {
    !matches!(dtype, DType::Bool | DType::Fp8E4M3Fn | DType::Fp8E8M0 | DType::Fp4E2M1)
}

/// 64 bits of a scalar are a value of the type: those past its size repeat the sign of a signed integer, or are 0.
#[must_use]
pub const fn is_value(dtype: DType, bits: u64) -> bool {
    let unused = 64_u32.saturating_sub(dtype.size().saturating_mul(8));
    let kept = bits << unused;
    let signed = matches!(dtype, DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64);
    // The cast back and forth keeps the bits; the shift between repeats the sign.
    kept >> unused == bits || (signed && (kept.cast_signed() >> unused).cast_unsigned() == bits)
}
