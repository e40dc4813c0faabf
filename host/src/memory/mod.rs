//! Memory that other processes may write at any moment: mappings, and the views of tasks in them.

pub mod address_range;
pub mod inherited;
pub mod lines;
pub mod mapping;
pub mod operand;
pub(crate) mod shared;
pub mod strided;
pub mod typed;

pub use address_range::AddressRange;
pub use inherited::{InheritedRegion, Sharing};
pub use mapping::Mapping;
pub use operand::Operand;
pub use strided::Strided;
pub use typed::{Argument, Element, TypedError};
