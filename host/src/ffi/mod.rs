//! The host behind C's calling convention. C's side is `include/bufabi/bufabi.h`, and `bufabi.hpp` for C++.
//!
//! Each function answers with a [`Status`]: 0, or the frozen number of the first broken rule; [`bufabi_error_text`] says it in words.
//! Arguments from C are claims: NULL, misaligned, overlapping or impossible ones get a status of their own, numbers that are no
//! value of their enumeration too. What was made here is named by handles: numbers that this library keeps in tables, and
//! never addresses, so that one used after its release, twice, or for something else gets a status. Only what no program
//! can check is left to the caller and stated beside the function: that a pointer's bytes are there, and that nobody
//! writes them during the call.
//!
//! Any thread may call any function. Calls on one tracker, one task's arguments, one orchestrator, one region or one buffer wait for each
//! other, also for one that waits for something else; calls on one end of a queue for a try of each other, and never for a wait. All others
//! run side by side. Releasing what another thread is using is safe: that call ends first,
//! and what it used goes with it.
//!
//! Nothing unwinds into C: a panic, which would be a fault of this library, ends at the boundary as `internal`.

#[path = "../../../core/c-abi/argument.rs"]
mod argument;
mod boundary;
mod buffer;
#[path = "../../../core/c-abi/check.rs"]
mod check;
#[path = "../../../core/c-abi/chip.rs"]
mod chip;
mod consumer;
mod device;
mod endpoint;
mod handle;
mod heap;
mod kernel;
mod mapping;
#[path = "../../../core/c-abi/message.rs"]
mod message;
#[path = "../../../core/c-abi/number.rs"]
mod number;
mod orchestrator;
#[path = "../../../core/c-abi/parameter.rs"]
mod parameter;
mod queue;
#[cfg(test)]
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "a test calls as C does")]
mod queue_tests;
#[path = "../../../core/c-abi/record.rs"]
mod record;
mod region;
#[path = "../../../core/c-abi/relation.rs"]
mod relation;
#[path = "../../../core/c-abi/size.rs"]
mod size;
#[path = "../../../core/c-abi/status.rs"]
mod status;
mod task_args;
mod tracker;
mod vmm;
mod worker;

pub use boundary::bufabi_error_text;
pub use buffer::{
    BufferHandle, bufabi_buffer_abandon, bufabi_buffer_create, bufabi_buffer_create_shareable,
    bufabi_buffer_descriptor, bufabi_buffer_map, bufabi_buffer_release, bufabi_buffer_release_when_idle,
    bufabi_buffer_tensor, bufabi_buffer_wrap_device_malloc, bufabi_buffer_wrap_vmm_shareable,
    bufabi_buffer_wrap_vmm_window,
};
pub use check::{bufabi_blob_check, bufabi_descriptor_check, bufabi_tensor_check};
pub use chip::{Resolve, bufabi_blob_materialize, bufabi_chip_tensor_from};
pub use consumer::{
    ConsumerCounters, ConsumerHandle, RESOLUTION_ALREADY_MAPPED, RESOLUTION_INHERITED, RESOLUTION_MAPPED_NOW,
    RESOLUTION_OWN, bufabi_consumer_close, bufabi_consumer_counters, bufabi_consumer_create,
    bufabi_consumer_evict_unused, bufabi_consumer_forget, bufabi_consumer_import, bufabi_consumer_release,
    bufabi_survive_shrinking_objects,
};
pub use device::{
    DomainHandle, WindowPartFields, bufabi_device_copy_from, bufabi_device_copy_to,
    bufabi_device_create_shareable, bufabi_device_free, bufabi_device_live, bufabi_device_malloc,
    bufabi_device_permit, bufabi_domain_create, bufabi_domain_free,
};
pub use endpoint::{
    EndpointHandle, HoldHandle, bufabi_endpoint_create, bufabi_endpoint_hold, bufabi_endpoint_live,
    bufabi_endpoint_owner_instance_id, bufabi_endpoint_release, bufabi_hold_release,
};
pub use heap::{
    HeapHandle, InheritedHandle, SHARING_COPIED, SHARING_SHARED, bufabi_buffer_wrap_fork_inherited,
    bufabi_heap_alloc_shared, bufabi_heap_count, bufabi_heap_create, bufabi_heap_create_buffer,
    bufabi_heap_release, bufabi_inherited_create, bufabi_inherited_from, bufabi_inherited_map,
    bufabi_inherited_release,
};
pub use kernel::{OperandFields, RunKernel, bufabi_kernel_number};
pub use mapping::{
    MappingHandle, bufabi_mapping_address, bufabi_mapping_read, bufabi_mapping_release, bufabi_mapping_write,
};
pub use message::{Message, QUEUE_DATA, QUEUE_ERROR, QueueReservation};
pub use orchestrator::{
    FinishedFields, MemberFields, OrchestratorHandle, bufabi_orchestrator_create,
    bufabi_orchestrator_end_run, bufabi_orchestrator_find, bufabi_orchestrator_pid,
    bufabi_orchestrator_release, bufabi_orchestrator_release_imports, bufabi_orchestrator_submit,
    bufabi_orchestrator_wait,
};
pub use queue::{
    QueueHandle, bufabi_queue_abort, bufabi_queue_attach, bufabi_queue_bytes, bufabi_queue_cancel,
    bufabi_queue_commit, bufabi_queue_dequeue, bufabi_queue_detach, bufabi_queue_enqueue, bufabi_queue_peek,
    bufabi_queue_peer_aborted, bufabi_queue_poison, bufabi_queue_read, bufabi_queue_release,
    bufabi_queue_request_stop, bufabi_queue_reserve, bufabi_queue_scalars, bufabi_queue_write,
};
pub use record::{
    DescriptorFields, ViewFields, bufabi_blob_decode, bufabi_blob_encode, bufabi_blob_size,
    bufabi_descriptor_decode, bufabi_descriptor_encode, bufabi_dtype_size, bufabi_identity_equal,
    bufabi_tensor_decode, bufabi_tensor_encode, bufabi_view_row_major,
};
pub use region::{
    RegionHandle, bufabi_region_attach, bufabi_region_create, bufabi_region_create_shareable,
    bufabi_region_descriptors, bufabi_region_release, bufabi_region_scalars,
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
pub use task_args::{
    ArgumentFault, TaskArgsHandle, bufabi_task_args_add_scalar, bufabi_task_args_add_tensor,
    bufabi_task_args_check, bufabi_task_args_clear, bufabi_task_args_count, bufabi_task_args_create,
    bufabi_task_args_encode, bufabi_task_args_release, bufabi_task_args_set_tag,
};
pub use tracker::{
    EdgeFields, HAZARD_READ_AFTER_WRITE, HAZARD_WRITE_AFTER_READ, HAZARD_WRITE_AFTER_WRITE, POLICY_FULL,
    POLICY_PRODUCERS, TaskState, TrackedTask, TrackerCapacities, TrackerHandle, bufabi_tracker_count,
    bufabi_tracker_create, bufabi_tracker_fail, bufabi_tracker_finish, bufabi_tracker_forget,
    bufabi_tracker_release, bufabi_tracker_state, bufabi_tracker_submit,
};
pub use vmm::{
    ADMISSION_ANYONE, ADMISSION_LISTED, VmmHandle, bufabi_vmm_create, bufabi_vmm_peer_number,
    bufabi_vmm_permit, bufabi_vmm_release, bufabi_vmm_serve,
};
pub use worker::{WORKER_CHIP, WORKER_HOST, WORKER_QEMU_CHIP, WORKER_STAGED_CHIP, WORKER_SUB, WorkerFields};
