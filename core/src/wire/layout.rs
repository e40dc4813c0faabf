//! Offset, width and name of every field, stated once beside the record: const assertions, C headers and the byte tables
//! of the documentation all come from that one statement.

use zerocopy::little_endian::{I32, U16, U32, U64};

/// What a field is in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// `uint8_t`
    U8,
    /// `uint16_t`
    U16,
    /// `uint32_t`
    U32,
    /// `int32_t`
    I32,
    /// `uint64_t`
    U64,
    /// A record of this file's kind, by its C name.
    Record(&'static str),
}

/// One field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, as the wire ABI spells it.
    pub name: &'static str,
    /// Bytes from the record's start.
    pub offset: usize,
    /// Bytes that it takes.
    pub width: usize,
    /// Its element's type.
    pub element: FieldType,
    /// Elements; `None` when it is no array.
    pub count: Option<usize>,
    /// One line for people: the first line of its documentation.
    pub about: &'static str,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its name in Rust, without `Raw`.
    pub name: &'static str,
    /// Its name in C, without `_t`.
    pub c_name: &'static str,
    /// Bytes.
    pub size: usize,
    /// The alignment that readers may rely on.
    pub align: usize,
    /// All fields, without a gap, in order of their offsets.
    pub fields: &'static [Field],
}

/// A Rust type that may stand in a record.
pub(crate) trait WireField {
    const ELEMENT: FieldType;
    const COUNT: Option<usize>;
}

macro_rules! wire_fields {
    ($($type:ty => $element:ident;)*) => {$(
        impl WireField for $type {
            const ELEMENT: FieldType = FieldType::$element;
            const COUNT: Option<usize> = None;
        }
    )*};
}
wire_fields! { u8 => U8; U16 => U16; U32 => U32; I32 => I32; U64 => U64; }

impl<T: WireField, const N: usize> WireField for [T; N] {
    const ELEMENT: FieldType = T::ELEMENT;
    const COUNT: Option<usize> = Some(N);
}

/// Each field starts where the one before ended, and the last one ends the record.
pub(crate) const fn has_no_gap(layout: &Layout) -> bool {
    let mut fields = layout.fields;
    let mut end: usize = 0;
    while let [field, rest @ ..] = fields {
        if field.offset != end {
            return false;
        }
        end = match end.checked_add(field.width) {
            Some(end) => end,
            None => return false,
        };
        fields = rest;
    }
    end == layout.size
}

/// Defines a record and states its bytes: offset, width, name and type of each field, without a gap.
macro_rules! wire_layout {
    (
        $(#[$meta:meta])*
        $vis:vis struct $type:ident as $name:literal, $c_name:literal: $size:literal bytes, align $align:literal {
            $($offset:literal, $width:literal, $field_vis:vis $field:ident: $field_type:ty, $about:literal;)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $type { $(#[doc = $about] $field_vis $field: $field_type,)* }

        impl $type {
            #[doc = concat!("Bytes of the record: ", stringify!($size), ".")]
            pub const SIZE: usize = $size;

            /// Where each field stands.
            pub const LAYOUT: $crate::wire::layout::Layout = $crate::wire::layout::Layout {
                name: $name,
                c_name: $c_name,
                size: $size,
                align: $align,
                fields: &[$($crate::wire::layout::Field {
                    name: stringify!($field),
                    offset: $offset,
                    width: $width,
                    element: <$field_type as $crate::wire::layout::WireField>::ELEMENT,
                    count: <$field_type as $crate::wire::layout::WireField>::COUNT,
                    about: $about,
                },)*],
            };
        }

        impl $crate::wire::layout::WireField for $type {
            const ELEMENT: $crate::wire::layout::FieldType = $crate::wire::layout::FieldType::Record($c_name);
            const COUNT: Option<usize> = None;
        }

        const _: () = {
            assert!(core::mem::size_of::<$type>() == $size);
            assert!(core::mem::align_of::<$type>() == $align);
            assert!($crate::wire::layout::has_no_gap(&$type::LAYOUT));
            $(
                assert!(core::mem::offset_of!($type, $field) == $offset);
                assert!(core::mem::size_of::<$field_type>() == $width);
            )*
        };
    };
}
pub(crate) use wire_layout;

/// Every record of the wire ABI, in the order in which one holds the other.
pub const RECORDS: &[Layout] = &[
    super::identity::RawIdentity::LAYOUT,
    super::body::RawShareableBody::LAYOUT,
    super::descriptor::RawDescriptor::LAYOUT,
    super::tensor::RawTensor::LAYOUT,
    super::blob::RawBlobHeader::LAYOUT,
    super::chip_tensor::ChipTensor::LAYOUT,
    super::chip_args::ChipStorageTaskArgs::LAYOUT,
    crate::queue::RawSlot::LAYOUT,
];
