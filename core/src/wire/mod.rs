//! The frozen bytes: one file for each record, all of one shape.
//!
//! A `Raw...` type is unchecked bytes: any bit pattern is one, it has alignment 1, and it is the same on every target. The
//! checked type beside it has private fields and one way in; holding one proves that every rule held. All integers
//! are little-endian.

pub(crate) mod agreement;
pub(crate) mod verdict;
pub(crate) mod wire_enum;

pub mod backend;
pub mod blob;
pub mod body;
pub mod chip_args;
pub mod chip_tensor;
pub mod descriptor;
pub mod dtype;
pub mod identity;
pub mod layout;
pub mod layout_text;
pub mod record;
pub mod tensor;
