//! Device memory that real processes share, over both drivers: software memory, and the Ascend driver's calls answered by a
//! stand-in library.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test cannot do fails it")]

mod acl;
mod ascend;
mod conformance;
mod limits;
mod peer;
mod region;
mod stand_in;
