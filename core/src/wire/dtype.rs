//! Element types.

use super::wire_enum::wire_enum;

wire_enum! {
    /// The type of an element.
    pub enum DType {
        /// IEEE binary32.
        Float32 = 0, "FLOAT32";
        /// IEEE binary16.
        Float16 = 1, "FLOAT16";
        /// 32 bits, signed.
        Int32 = 2, "INT32";
        /// 16 bits, signed.
        Int16 = 3, "INT16";
        /// 8 bits, signed.
        Int8 = 4, "INT8";
        /// 8 bits, unsigned.
        Uint8 = 5, "UINT8";
        /// The upper half of a binary32.
        Bfloat16 = 6, "BFLOAT16";
        /// 64 bits, signed.
        Int64 = 7, "INT64";
        /// 64 bits, unsigned.
        Uint64 = 8, "UINT64";
        /// 16 bits, unsigned.
        Uint16 = 9, "UINT16";
        /// 32 bits, unsigned.
        Uint32 = 10, "UINT32";
        /// One byte; any value but 0 is true.
        Bool = 11, "BOOL";
        /// 8-bit float: 4 bits exponent, 3 bits mantissa, finite.
        Fp8E4M3Fn = 12, "FP8E4M3FN";
        /// 8-bit scale: 8 bits exponent.
        Fp8E8M0 = 13, "FP8E8M0";
        /// Two 4-bit floats in a byte, counted as one element.
        Fp4E2M1 = 14, "FP4E2M1";
    }
}

impl DType {
    /// Bytes of one element: 1, 2, 4 or 8.
    #[must_use]
    #[inline]
    pub const fn size(self) -> u32 {
        1 << self.size_log2()
    }

    /// The logarithm to base 2 of [`size`](Self::size).
    #[must_use]
    #[inline]
    pub(crate) const fn size_log2(self) -> u32 {
        Self::size_log2_of(self.to_wire())
    }

    /// The same for the byte of a type in a checked record.
    #[inline]
    #[expect(clippy::as_conversions, reason = "widening, and From is not const")]
    pub(crate) const fn size_log2_of(wire: u8) -> u32 {
        // Two bits for each type in one constant: cheaper than a table in memory.
        Self::SIZES_LOG2.wrapping_shr((wire as u32) << 1) & 3
    }

    const SIZES_LOG2: u32 = {
        let mut types = Self::ALL;
        let mut sizes = 0;
        while let [dtype, rest @ ..] = types {
            sizes |= dtype.size_log2_stated() << (dtype.to_wire() << 1);
            types = rest;
        }
        sizes
    };

    const fn size_log2_stated(self) -> u32 {
        match self {
            Self::Int8 | Self::Uint8 | Self::Bool | Self::Fp8E4M3Fn | Self::Fp8E8M0 | Self::Fp4E2M1 => 0,
            Self::Float16 | Self::Int16 | Self::Bfloat16 | Self::Uint16 => 1,
            Self::Float32 | Self::Int32 | Self::Uint32 => 2,
            Self::Int64 | Self::Uint64 => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_wire_abi() {
        let sizes = [4, 2, 4, 2, 1, 1, 2, 8, 8, 2, 4, 1, 1, 1, 1];
        for (dtype, size) in DType::ALL.iter().zip(sizes) {
            assert_eq!(dtype.size(), size, "{dtype}");
        }
    }
}
