//! Memory that other processes may write at any moment: mappings, and the views of tasks in them.

pub mod operand;

pub use operand::Operand;
