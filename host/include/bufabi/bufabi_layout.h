/* The records of the wire ABI. Generated from the layout tables of bufabi-core by `bufabi layout --c`; not to be edited.
 *
 * All integers are little-endian. A record may lie at any address unless its size is followed by an alignment: copy it
 * into a struct before reading its fields. */
#ifndef BUFABI_LAYOUT_H
#define BUFABI_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define BUFABI_ASSERT(condition, what) static_assert(condition, what)
#define BUFABI_ALIGNAS(bytes) alignas(bytes)
#define BUFABI_ALIGNOF(type) alignof(type)
#else
#define BUFABI_ASSERT(condition, what) _Static_assert(condition, what)
#define BUFABI_ALIGNAS(bytes) _Alignas(bytes)
#define BUFABI_ALIGNOF(type) _Alignof(type)
#endif

/* CanonicalIdentity: 32 bytes */
typedef struct bufabi_identity {
    uint8_t owner_instance_id[8]; /* opaque nonce of one endpoint incarnation, compared byte by byte */
    uint64_t buffer_id; /* unique within the incarnation */
    uint32_t generation; /* 1 at first, one more whenever the id's slot is used again; never 0 */
    uint8_t padding[12]; /* written as zero, ignored on reading */
} bufabi_identity_t;
BUFABI_ASSERT(sizeof(bufabi_identity_t) == 32, "bufabi_identity: size");
BUFABI_ASSERT(offsetof(bufabi_identity_t, owner_instance_id) == 0, "bufabi_identity.owner_instance_id: offset");
BUFABI_ASSERT(sizeof(((bufabi_identity_t *)0)->owner_instance_id) == 8, "bufabi_identity.owner_instance_id: width");
BUFABI_ASSERT(offsetof(bufabi_identity_t, buffer_id) == 8, "bufabi_identity.buffer_id: offset");
BUFABI_ASSERT(sizeof(((bufabi_identity_t *)0)->buffer_id) == 8, "bufabi_identity.buffer_id: width");
BUFABI_ASSERT(offsetof(bufabi_identity_t, generation) == 16, "bufabi_identity.generation: offset");
BUFABI_ASSERT(sizeof(((bufabi_identity_t *)0)->generation) == 4, "bufabi_identity.generation: width");
BUFABI_ASSERT(offsetof(bufabi_identity_t, padding) == 20, "bufabi_identity.padding: offset");
BUFABI_ASSERT(sizeof(((bufabi_identity_t *)0)->padding) == 12, "bufabi_identity.padding: width");

/* ShareableBody: 24 bytes */
typedef struct bufabi_shareable_body {
    int32_t device_id; /* the exporter's device; only the importer can check it */
    uint32_t reserved0; /* zero */
    uint64_t shareable_handle; /* the driver's handle, not zero */
    uint64_t mapping_bytes; /* bytes to map, at least nbytes */
} bufabi_shareable_body_t;
BUFABI_ASSERT(sizeof(bufabi_shareable_body_t) == 24, "bufabi_shareable_body: size");
BUFABI_ASSERT(offsetof(bufabi_shareable_body_t, device_id) == 0, "bufabi_shareable_body.device_id: offset");
BUFABI_ASSERT(sizeof(((bufabi_shareable_body_t *)0)->device_id) == 4, "bufabi_shareable_body.device_id: width");
BUFABI_ASSERT(offsetof(bufabi_shareable_body_t, reserved0) == 4, "bufabi_shareable_body.reserved0: offset");
BUFABI_ASSERT(sizeof(((bufabi_shareable_body_t *)0)->reserved0) == 4, "bufabi_shareable_body.reserved0: width");
BUFABI_ASSERT(offsetof(bufabi_shareable_body_t, shareable_handle) == 8, "bufabi_shareable_body.shareable_handle: offset");
BUFABI_ASSERT(sizeof(((bufabi_shareable_body_t *)0)->shareable_handle) == 8, "bufabi_shareable_body.shareable_handle: width");
BUFABI_ASSERT(offsetof(bufabi_shareable_body_t, mapping_bytes) == 16, "bufabi_shareable_body.mapping_bytes: offset");
BUFABI_ASSERT(sizeof(((bufabi_shareable_body_t *)0)->mapping_bytes) == 8, "bufabi_shareable_body.mapping_bytes: width");

/* BufferDescriptor: 88 bytes */
typedef struct bufabi_descriptor {
    uint16_t magic; /* 0x5342 */
    uint8_t address_space; /* HOST 0, DEVICE 1 */
    uint8_t access; /* what the owner grants: READ 0, WRITE 1, READWRITE 2 */
    uint8_t backend_kind; /* how the backing is reached */
    uint8_t padding0[3]; /* written as zero, ignored on reading */
    bufabi_identity_t identity; /* the allocation's name */
    uint64_t nbytes; /* bytes of the backing */
    uint32_t owner_worker_path_id; /* for people reading logs; 0 is none */
    uint16_t body_len; /* bytes of the body in use, at most 32 */
    uint8_t padding1[2]; /* written as zero, ignored on reading */
    uint8_t body[32]; /* by backend; every byte past body_len is zero */
} bufabi_descriptor_t;
BUFABI_ASSERT(sizeof(bufabi_descriptor_t) == 88, "bufabi_descriptor: size");
BUFABI_ASSERT(offsetof(bufabi_descriptor_t, magic) == 0, "bufabi_descriptor.magic: offset");
BUFABI_ASSERT(sizeof(((bufabi_descriptor_t *)0)->magic) == 2, "bufabi_descriptor.magic: width");
BUFABI_ASSERT(offsetof(bufabi_descriptor_t, address_space) == 2, "bufabi_descriptor.address_space: offset");
BUFABI_ASSERT(sizeof(((bufabi_descriptor_t *)0)->address_space) == 1, "bufabi_descriptor.address_space: width");
BUFABI_ASSERT(offsetof(bufabi_descriptor_t, access) == 3, "bufabi_descriptor.access: offset");
BUFABI_ASSERT(sizeof(((bufabi_descriptor_t *)0)->access) == 1, "bufabi_descriptor.access: width");
BUFABI_ASSERT(offsetof(bufabi_descriptor_t, backend_kind) == 4, "bufabi_descriptor.backend_kind: offset");
BUFABI_ASSERT(sizeof(((bufabi_descriptor_t *)0)->backend_kind) == 1, "bufabi_descriptor.backend_kind: width");
BUFABI_ASSERT(offsetof(bufabi_descriptor_t, padding0) == 5, "bufabi_descriptor.padding0: offset");
BUFABI_ASSERT(sizeof(((bufabi_descriptor_t *)0)->padding0) == 3, "bufabi_descriptor.padding0: width");
BUFABI_ASSERT(offsetof(bufabi_descriptor_t, identity) == 8, "bufabi_descriptor.identity: offset");
BUFABI_ASSERT(sizeof(((bufabi_descriptor_t *)0)->identity) == 32, "bufabi_descriptor.identity: width");
BUFABI_ASSERT(offsetof(bufabi_descriptor_t, nbytes) == 40, "bufabi_descriptor.nbytes: offset");
BUFABI_ASSERT(sizeof(((bufabi_descriptor_t *)0)->nbytes) == 8, "bufabi_descriptor.nbytes: width");
BUFABI_ASSERT(offsetof(bufabi_descriptor_t, owner_worker_path_id) == 48, "bufabi_descriptor.owner_worker_path_id: offset");
BUFABI_ASSERT(sizeof(((bufabi_descriptor_t *)0)->owner_worker_path_id) == 4, "bufabi_descriptor.owner_worker_path_id: width");
BUFABI_ASSERT(offsetof(bufabi_descriptor_t, body_len) == 52, "bufabi_descriptor.body_len: offset");
BUFABI_ASSERT(sizeof(((bufabi_descriptor_t *)0)->body_len) == 2, "bufabi_descriptor.body_len: width");
BUFABI_ASSERT(offsetof(bufabi_descriptor_t, padding1) == 54, "bufabi_descriptor.padding1: offset");
BUFABI_ASSERT(sizeof(((bufabi_descriptor_t *)0)->padding1) == 2, "bufabi_descriptor.padding1: width");
BUFABI_ASSERT(offsetof(bufabi_descriptor_t, body) == 56, "bufabi_descriptor.body: offset");
BUFABI_ASSERT(sizeof(((bufabi_descriptor_t *)0)->body) == 32, "bufabi_descriptor.body: width");

/* Tensor: 144 bytes */
typedef struct bufabi_tensor {
    bufabi_descriptor_t buffer; /* the backing */
    uint64_t byte_offset; /* bytes from the backing's start to the first element */
    uint32_t ndims; /* 1 to 5 */
    uint32_t shapes[5]; /* elements of each dimension; 0 past ndims */
    uint32_t strides[5]; /* elements from one index to the next, never 0; 0 past ndims */
    uint8_t dtype; /* the elements' type */
    uint8_t padding[3]; /* written as zero, ignored on reading */
} bufabi_tensor_t;
BUFABI_ASSERT(sizeof(bufabi_tensor_t) == 144, "bufabi_tensor: size");
BUFABI_ASSERT(offsetof(bufabi_tensor_t, buffer) == 0, "bufabi_tensor.buffer: offset");
BUFABI_ASSERT(sizeof(((bufabi_tensor_t *)0)->buffer) == 88, "bufabi_tensor.buffer: width");
BUFABI_ASSERT(offsetof(bufabi_tensor_t, byte_offset) == 88, "bufabi_tensor.byte_offset: offset");
BUFABI_ASSERT(sizeof(((bufabi_tensor_t *)0)->byte_offset) == 8, "bufabi_tensor.byte_offset: width");
BUFABI_ASSERT(offsetof(bufabi_tensor_t, ndims) == 96, "bufabi_tensor.ndims: offset");
BUFABI_ASSERT(sizeof(((bufabi_tensor_t *)0)->ndims) == 4, "bufabi_tensor.ndims: width");
BUFABI_ASSERT(offsetof(bufabi_tensor_t, shapes) == 100, "bufabi_tensor.shapes: offset");
BUFABI_ASSERT(sizeof(((bufabi_tensor_t *)0)->shapes) == 20, "bufabi_tensor.shapes: width");
BUFABI_ASSERT(offsetof(bufabi_tensor_t, strides) == 120, "bufabi_tensor.strides: offset");
BUFABI_ASSERT(sizeof(((bufabi_tensor_t *)0)->strides) == 20, "bufabi_tensor.strides: width");
BUFABI_ASSERT(offsetof(bufabi_tensor_t, dtype) == 140, "bufabi_tensor.dtype: offset");
BUFABI_ASSERT(sizeof(((bufabi_tensor_t *)0)->dtype) == 1, "bufabi_tensor.dtype: width");
BUFABI_ASSERT(offsetof(bufabi_tensor_t, padding) == 141, "bufabi_tensor.padding: offset");
BUFABI_ASSERT(sizeof(((bufabi_tensor_t *)0)->padding) == 3, "bufabi_tensor.padding: width");

/* TaskArgs blob header: 8 bytes */
typedef struct bufabi_blob_header {
    int32_t tensor_count; /* tensors that follow, 144 bytes each */
    int32_t scalar_count; /* scalars behind them, u64 each */
} bufabi_blob_header_t;
BUFABI_ASSERT(sizeof(bufabi_blob_header_t) == 8, "bufabi_blob_header: size");
BUFABI_ASSERT(offsetof(bufabi_blob_header_t, tensor_count) == 0, "bufabi_blob_header.tensor_count: offset");
BUFABI_ASSERT(sizeof(((bufabi_blob_header_t *)0)->tensor_count) == 4, "bufabi_blob_header.tensor_count: width");
BUFABI_ASSERT(offsetof(bufabi_blob_header_t, scalar_count) == 4, "bufabi_blob_header.scalar_count: offset");
BUFABI_ASSERT(sizeof(((bufabi_blob_header_t *)0)->scalar_count) == 4, "bufabi_blob_header.scalar_count: width");

/* ChipTensor: 128 bytes, aligned to 64 */
typedef struct bufabi_chip_tensor {
    BUFABI_ALIGNAS(64) uint64_t addr; /* base + byte_offset */
    uint64_t size; /* extent in bytes */
    uint64_t owner_task_id; /* 2^64-1 is none; otherwise ring id << 32 | local id */
    uint64_t start_offset; /* elements; 0, since addr holds the offset already */
    int32_t version; /* 0 */
    uint32_t ndims; /* 1 to 5 */
    uint8_t dtype; /* the elements' type */
    uint8_t manual_dep; /* bool; false */
    uint8_t is_contiguous; /* bool; strides are exactly the row-major ones of shapes */
    uint8_t address_space; /* HOST 0, DEVICE 1 */
    uint32_t shapes[5]; /* elements of each dimension; 0 past ndims */
    uint64_t extent_elem; /* 1 + sum of (shape-1)*stride */
    uint32_t strides[5]; /* elements from one index to the next; 0 past ndims */
    uint8_t padding[36]; /* zero */
} bufabi_chip_tensor_t;
BUFABI_ASSERT(sizeof(bufabi_chip_tensor_t) == 128, "bufabi_chip_tensor: size");
BUFABI_ASSERT(BUFABI_ALIGNOF(bufabi_chip_tensor_t) == 64, "bufabi_chip_tensor: alignment");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, addr) == 0, "bufabi_chip_tensor.addr: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->addr) == 8, "bufabi_chip_tensor.addr: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, size) == 8, "bufabi_chip_tensor.size: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->size) == 8, "bufabi_chip_tensor.size: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, owner_task_id) == 16, "bufabi_chip_tensor.owner_task_id: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->owner_task_id) == 8, "bufabi_chip_tensor.owner_task_id: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, start_offset) == 24, "bufabi_chip_tensor.start_offset: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->start_offset) == 8, "bufabi_chip_tensor.start_offset: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, version) == 32, "bufabi_chip_tensor.version: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->version) == 4, "bufabi_chip_tensor.version: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, ndims) == 36, "bufabi_chip_tensor.ndims: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->ndims) == 4, "bufabi_chip_tensor.ndims: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, dtype) == 40, "bufabi_chip_tensor.dtype: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->dtype) == 1, "bufabi_chip_tensor.dtype: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, manual_dep) == 41, "bufabi_chip_tensor.manual_dep: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->manual_dep) == 1, "bufabi_chip_tensor.manual_dep: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, is_contiguous) == 42, "bufabi_chip_tensor.is_contiguous: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->is_contiguous) == 1, "bufabi_chip_tensor.is_contiguous: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, address_space) == 43, "bufabi_chip_tensor.address_space: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->address_space) == 1, "bufabi_chip_tensor.address_space: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, shapes) == 44, "bufabi_chip_tensor.shapes: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->shapes) == 20, "bufabi_chip_tensor.shapes: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, extent_elem) == 64, "bufabi_chip_tensor.extent_elem: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->extent_elem) == 8, "bufabi_chip_tensor.extent_elem: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, strides) == 72, "bufabi_chip_tensor.strides: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->strides) == 20, "bufabi_chip_tensor.strides: width");
BUFABI_ASSERT(offsetof(bufabi_chip_tensor_t, padding) == 92, "bufabi_chip_tensor.padding: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_tensor_t *)0)->padding) == 36, "bufabi_chip_tensor.padding: width");

/* ChipStorageTaskArgs: 33856 bytes, aligned to 64 */
typedef struct bufabi_chip_storage_task_args {
    BUFABI_ALIGNAS(64) bufabi_chip_tensor_t tensors[256]; /* as many as tensor_count says */
    uint64_t scalars[128]; /* as many as scalar_count says */
    int32_t tensor_count; /* 0 to 256 */
    int32_t scalar_count; /* 0 to 128 */
    uint8_t padding[56]; /* zero */
} bufabi_chip_storage_task_args_t;
BUFABI_ASSERT(sizeof(bufabi_chip_storage_task_args_t) == 33856, "bufabi_chip_storage_task_args: size");
BUFABI_ASSERT(BUFABI_ALIGNOF(bufabi_chip_storage_task_args_t) == 64, "bufabi_chip_storage_task_args: alignment");
BUFABI_ASSERT(offsetof(bufabi_chip_storage_task_args_t, tensors) == 0, "bufabi_chip_storage_task_args.tensors: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_storage_task_args_t *)0)->tensors) == 32768, "bufabi_chip_storage_task_args.tensors: width");
BUFABI_ASSERT(offsetof(bufabi_chip_storage_task_args_t, scalars) == 32768, "bufabi_chip_storage_task_args.scalars: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_storage_task_args_t *)0)->scalars) == 1024, "bufabi_chip_storage_task_args.scalars: width");
BUFABI_ASSERT(offsetof(bufabi_chip_storage_task_args_t, tensor_count) == 33792, "bufabi_chip_storage_task_args.tensor_count: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_storage_task_args_t *)0)->tensor_count) == 4, "bufabi_chip_storage_task_args.tensor_count: width");
BUFABI_ASSERT(offsetof(bufabi_chip_storage_task_args_t, scalar_count) == 33796, "bufabi_chip_storage_task_args.scalar_count: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_storage_task_args_t *)0)->scalar_count) == 4, "bufabi_chip_storage_task_args.scalar_count: width");
BUFABI_ASSERT(offsetof(bufabi_chip_storage_task_args_t, padding) == 33800, "bufabi_chip_storage_task_args.padding: offset");
BUFABI_ASSERT(sizeof(((bufabi_chip_storage_task_args_t *)0)->padding) == 56, "bufabi_chip_storage_task_args.padding: width");

/* QueueSlot: 32 bytes */
typedef struct bufabi_queue_slot {
    uint64_t seq; /* index of the message + 1 */
    uint64_t opcode; /* DATA 1, STOP 2, ERROR 3 */
    uint64_t payload_offset; /* from the payload's start; 0 for a message of no bytes */
    uint64_t payload_nbytes; /* bytes of the message */
} bufabi_queue_slot_t;
BUFABI_ASSERT(sizeof(bufabi_queue_slot_t) == 32, "bufabi_queue_slot: size");
BUFABI_ASSERT(offsetof(bufabi_queue_slot_t, seq) == 0, "bufabi_queue_slot.seq: offset");
BUFABI_ASSERT(sizeof(((bufabi_queue_slot_t *)0)->seq) == 8, "bufabi_queue_slot.seq: width");
BUFABI_ASSERT(offsetof(bufabi_queue_slot_t, opcode) == 8, "bufabi_queue_slot.opcode: offset");
BUFABI_ASSERT(sizeof(((bufabi_queue_slot_t *)0)->opcode) == 8, "bufabi_queue_slot.opcode: width");
BUFABI_ASSERT(offsetof(bufabi_queue_slot_t, payload_offset) == 16, "bufabi_queue_slot.payload_offset: offset");
BUFABI_ASSERT(sizeof(((bufabi_queue_slot_t *)0)->payload_offset) == 8, "bufabi_queue_slot.payload_offset: width");
BUFABI_ASSERT(offsetof(bufabi_queue_slot_t, payload_nbytes) == 24, "bufabi_queue_slot.payload_nbytes: offset");
BUFABI_ASSERT(sizeof(((bufabi_queue_slot_t *)0)->payload_nbytes) == 8, "bufabi_queue_slot.payload_nbytes: width");

#endif /* BUFABI_LAYOUT_H */
