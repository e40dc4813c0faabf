//! Enumerations as C gives them: numbers, each of which may be none of the values.

use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::{Access, Code, DType, Tag};

/// The value with that number on the wire.
fn value<T>(number: i32, from_wire: fn(u8) -> Option<T>, unknown: Code) -> Result<T, Code> {
    u8::try_from(number).ok().and_then(from_wire).ok_or(unknown)
}

pub(super) fn access(number: i32) -> Result<Access, Code> {
    value(number, Access::from_wire, Code::Access)
}

pub(super) fn address_space(number: i32) -> Result<AddressSpace, Code> {
    value(number, AddressSpace::from_wire, Code::AddressSpace)
}

pub(super) fn backend_kind(number: i32) -> Result<BackendKind, Code> {
    value(number, BackendKind::from_wire, Code::BackendKind)
}

pub(super) fn dtype(number: i32) -> Result<DType, Code> {
    value(number, DType::from_wire, Code::Dtype)
}

pub(super) fn tag(number: i32) -> Result<Tag, Code> {
    value(number, Tag::from_wire, Code::TagUnknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_that_is_no_value_is_refused() {
        for number in (-300..600).chain([i32::MIN, i32::MAX, 1 << 16, 1 << 24]) {
            let known = |count| (0..count).contains(&number);
            assert_eq!(access(number).is_ok(), known(3));
            assert_eq!(address_space(number).is_ok(), known(2));
            assert_eq!(backend_kind(number).is_ok(), known(7));
            assert_eq!(dtype(number).is_ok(), known(15));
            assert_eq!(tag(number).is_ok(), known(5));
        }
        assert_eq!(access(3), Err(Code::Access));
        assert_eq!(tag(-1), Err(Code::TagUnknown));
    }
}
