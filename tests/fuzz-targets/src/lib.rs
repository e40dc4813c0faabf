//! What each fuzz target holds true of any input. A target is one call of a function here, so that the kept inputs are also
//! replayed by `cargo test`, with no fuzzer and on any toolchain.

mod pair;
mod queue;
mod record;
mod rules;
mod sequence;
mod view;

pub use pair::overlap;
pub use queue::queue;
pub use record::{blob, descriptor, tensor};
pub use sequence::dependencies;
pub use view::{VIEW_BYTES, decode_view, encode_view};
