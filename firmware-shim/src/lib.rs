//! The core's checks and tables, what a chip reads, and a task's end of the message queue, behind C's calling convention, for firmware
//! and for device kernels.
//!
//! C's side is `include/bufabi.h`. Each function answers with a [`Status`]: 0, or the frozen number of the first broken rule.
//! Arguments from C are claims too: NULL, misaligned, overlapping or impossible ones get a status of their own, and only what no
//! program can check is left to the caller and stated beside the function: that a pointer's bytes are there, and that
//! nobody writes them during the call. Memory that another processor writes is copied first, then given to these functions.
//!
//! Nothing here allocates, keeps a state of its own, or has a path to a panic, so every function may be called from any core and from
//! an interrupt. The end of a message queue and the tables of owners and imports are states, in storage that the caller lends: one
//! caller at a time uses each, which the feature `lock` sees to for tables.
//!
//! Features: `panic-handler` for images that have none; `defmt` or `semihosting`, never both, say why something was refused; `lock`
//! for tables that several cores share.
#![no_std]

#[cfg(all(feature = "defmt", feature = "semihosting"))]
compile_error!("choose one of the features `defmt` and `semihosting`: a refusal is said once");
#[cfg(all(feature = "semihosting", not(target_os = "none")))]
compile_error!("the feature `semihosting` needs a debugger's target: there is none on a hosted system");

#[cfg(all(feature = "lock", not(target_has_atomic = "8")))]
compile_error!("the feature `lock` needs compare-and-swap, which this target does not have");

#[path = "../../core/c-abi/argument.rs"]
mod argument;
mod boundary;
#[path = "../../core/c-abi/check.rs"]
mod check;
#[path = "../../core/c-abi/chip.rs"]
mod chip;
#[path = "../../core/c-abi/message.rs"]
mod message;
#[path = "../../core/c-abi/number.rs"]
mod number;
#[cfg(feature = "panic-handler")]
mod panic;
#[path = "../../core/c-abi/parameter.rs"]
#[expect(dead_code, reason = "the host library uses all of it")]
mod parameter;
mod queue;
#[path = "../../core/c-abi/record.rs"]
mod record;
#[path = "../../core/c-abi/relation.rs"]
mod relation;
#[path = "../../core/c-abi/size.rs"]
mod size;
#[path = "../../core/c-abi/status.rs"]
mod status;
mod table;

pub use check::{bufabi_blob_check, bufabi_descriptor_check, bufabi_tensor_check};
pub use chip::{Resolve, bufabi_blob_materialize, bufabi_chip_tensor_from};
pub use message::{Message, QUEUE_DATA, QUEUE_ERROR, QueueReservation};
pub use queue::{
    Machine, Queue, QueueWindow, bufabi_queue_abort, bufabi_queue_attach, bufabi_queue_cancel,
    bufabi_queue_commit, bufabi_queue_detach, bufabi_queue_is_drained, bufabi_queue_peer_aborted,
    bufabi_queue_poison, bufabi_queue_read, bufabi_queue_receive, bufabi_queue_release, bufabi_queue_reserve,
    bufabi_queue_send, bufabi_queue_size, bufabi_queue_write,
};
pub use record::{
    DescriptorFields, ViewFields, bufabi_blob_decode, bufabi_blob_encode, bufabi_blob_size,
    bufabi_descriptor_decode, bufabi_descriptor_encode, bufabi_dtype_size, bufabi_identity_equal,
    bufabi_tensor_decode, bufabi_tensor_encode, bufabi_view_row_major,
};
pub use relation::{
    RELATION_COVERING, RELATION_DISJOINT, RELATION_MAY_OVERLAP, RELATION_OVERLAPPING, bufabi_rights_check,
    bufabi_tensor_first_common, bufabi_tensor_relate,
};
pub use size::{
    ABI_VERSION, bufabi_abi_version, bufabi_blob_header_size, bufabi_chip_storage_task_args_size,
    bufabi_chip_tensor_size, bufabi_descriptor_size, bufabi_identity_size, bufabi_tensor_size,
};
pub use status::{Status, bufabi_status_fault, bufabi_status_name};
pub use table::TABLE_ALIGNMENT;
pub use table::import::{
    IMPORT_TABLE_BASE, IMPORT_TABLE_PER_SLOT, ImportTable, bufabi_import_table_count,
    bufabi_import_table_create, bufabi_import_table_evict, bufabi_import_table_find,
    bufabi_import_table_insert, bufabi_import_table_pin, bufabi_import_table_release,
    bufabi_import_table_remove, bufabi_import_table_unpin,
};
pub use table::owner::{
    OWNER_TABLE_BASE, OWNER_TABLE_PER_SLOT, OwnerTable, bufabi_owner_table_begin_release,
    bufabi_owner_table_count, bufabi_owner_table_create, bufabi_owner_table_finish_release,
    bufabi_owner_table_get, bufabi_owner_table_hold, bufabi_owner_table_insert,
    bufabi_owner_table_insert_pair, bufabi_owner_table_release, bufabi_owner_table_unhold,
};
