//! The core's checks and what a chip reads, behind C's calling convention, for firmware and for device kernels.
//!
//! C's side is `include/bufabi.h`. Each function answers with a [`Status`]: 0, or the frozen number of the first broken rule.
//! Arguments from C are claims too: NULL, misaligned, overlapping or impossible ones get a status of their own, and only what no
//! program can check is left to the caller and stated beside the function: that a pointer's bytes are there, and that
//! nobody writes them during the call. Memory that another processor writes is copied first, then given to these functions.
//!
//! Nothing here allocates, keeps a state, or has a path to a panic, so every function may be called from any core and from an
//! interrupt.
//!
//! Features: `panic-handler` for images that have none; `defmt` or `semihosting`, never both, say why something was refused.
#![no_std]

#[cfg(all(feature = "defmt", feature = "semihosting"))]
compile_error!("choose one of the features `defmt` and `semihosting`: a refusal is said once");
#[cfg(all(feature = "semihosting", not(target_os = "none")))]
compile_error!("the feature `semihosting` needs a debugger's target: there is none on a hosted system");

#[path = "../../core/c-abi/argument.rs"]
mod argument;
mod boundary;
#[path = "../../core/c-abi/check.rs"]
mod check;
#[path = "../../core/c-abi/chip.rs"]
mod chip;
#[cfg(feature = "panic-handler")]
mod panic;
#[path = "../../core/c-abi/size.rs"]
mod size;
#[path = "../../core/c-abi/status.rs"]
mod status;

pub use check::{bufabi_blob_check, bufabi_descriptor_check, bufabi_tensor_check};
pub use chip::{Resolve, bufabi_blob_materialize, bufabi_chip_tensor_from};
pub use size::{
    ABI_VERSION, bufabi_abi_version, bufabi_blob_header_size, bufabi_chip_storage_task_args_size,
    bufabi_chip_tensor_size, bufabi_descriptor_size, bufabi_identity_size, bufabi_tensor_size,
};
pub use status::{Status, bufabi_status_fault, bufabi_status_name};
