/* The host library from C: what it does, and that whatever C gives it gets a status. Run with a memory checker on it. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bufabi/bufabi.h>

static int checks, failures;

static void check(int holds, const char *what, int line) {
    ++checks;
    if (holds) return;
    ++failures;
    char text[256];
    size_t needed = 0;
    bufabi_error_text(text, sizeof text, &needed);
    fprintf(stderr, "line %d: %s does not hold; the last refusal: %s\n", line, what, text);
}

#define CHECK(condition) check((condition), #condition, __LINE__)
#define OK(call) check((call) == BUFABI_STATUS_OK, #call, __LINE__)
#define REFUSED(status, call) check((call) == BUFABI_STATUS_##status, #call " is " #status, __LINE__)

enum { READ, WRITE, READWRITE };
enum { INPUT, OUTPUT, INOUT, OUTPUT_EXISTING, NO_DEP };
enum { FLOAT32 = 0, UINT8 = 5, INT64 = 7 };
enum { POSIX_SHM = 1, REMOTE_SIDECAR = 3, DEVICE_MALLOC = 4, FORK_COW = 5, VMM_SHAREABLE = 6 };

/* Nowhere: what must not be looked at is not there. */
#define MISALIGNED(type) ((type *)(uintptr_t)1)

static bufabi_descriptor_fields_t shm_fields(uint64_t id, const char *name) {
    bufabi_descriptor_fields_t fields;
    memset(&fields, 0, sizeof fields);
    memset(fields.identity.owner_instance_id, 0xa5, 8);
    fields.identity.buffer_id = id;
    fields.identity.generation = 1;
    fields.nbytes = 4096;
    fields.access = READWRITE;
    fields.backend_kind = POSIX_SHM;
    strcpy(fields.shm_name, name);
    return fields;
}

static bufabi_view_t dense(uint64_t byte_offset, int32_t dtype, uint32_t rows, uint32_t columns) {
    const uint32_t shape[2] = {rows, columns};
    bufabi_view_t view;
    memset(&view, 0, sizeof view);
    OK(bufabi_view_row_major(byte_offset, dtype, shape, 2, &view));
    return view;
}

static bufabi_tensor_t tensor_of(const bufabi_descriptor_t *descriptor, bufabi_view_t view) {
    bufabi_tensor_t tensor;
    memset(&tensor, 0, sizeof tensor);
    OK(bufabi_tensor_encode(descriptor, &view, &tensor));
    return tensor;
}

static bufabi_tensor_t some_tensor(uint64_t id, uint64_t byte_offset, uint32_t rows) {
    bufabi_descriptor_t descriptor;
    const bufabi_descriptor_fields_t fields = shm_fields(id, "somewhere");
    OK(bufabi_descriptor_encode(&fields, &descriptor));
    return tensor_of(&descriptor, dense(byte_offset, FLOAT32, rows, 4));
}

static void versions_and_words(void) {
    CHECK(bufabi_abi_version() == BUFABI_ABI_VERSION);
    CHECK(bufabi_identity_size() == sizeof(bufabi_identity_t));
    CHECK(bufabi_descriptor_size() == sizeof(bufabi_descriptor_t));
    CHECK(bufabi_tensor_size() == sizeof(bufabi_tensor_t));
    CHECK(bufabi_blob_header_size() == sizeof(bufabi_blob_header_t));
    CHECK(bufabi_chip_tensor_size() == sizeof(bufabi_chip_tensor_t));
    CHECK(bufabi_chip_storage_task_args_size() == sizeof(bufabi_chip_storage_task_args_t));
    CHECK(strcmp(bufabi_status_name(BUFABI_STATUS_OUT_OF_BOUNDS), "out_of_bounds") == 0);
    CHECK(strcmp(bufabi_status_fault(BUFABI_STATUS_INTERNAL), "library") == 0);
    CHECK(strcmp(bufabi_status_name(INT32_MIN), "unknown_status") == 0);
    char text[64];
    size_t needed = 99;
    REFUSED(NULL_POINTER, bufabi_error_text(NULL, 1, &needed));
    REFUSED(NULL_POINTER, bufabi_error_text(text, sizeof text, NULL));
    REFUSED(MISALIGNED, bufabi_error_text(text, sizeof text, MISALIGNED(size_t)));
    size_t both[4];
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_error_text((char *)both, sizeof both, &both[2]));
    REFUSED(DENIED, bufabi_rights_check(READ, OUTPUT));
    OK(bufabi_error_text(NULL, 0, &needed));
    OK(bufabi_error_text(text, sizeof text, &needed));
    CHECK(strlen(text) + 1 == needed && strstr(text, "READ") != NULL);
}

static void records(void) {
    bufabi_descriptor_fields_t fields = shm_fields(7, "name"), back;
    bufabi_descriptor_t descriptor;
    OK(bufabi_descriptor_encode(&fields, &descriptor));
    OK(bufabi_descriptor_check(&descriptor, sizeof descriptor));
    OK(bufabi_descriptor_decode(&descriptor, sizeof descriptor, &back));
    CHECK(memcmp(&fields, &back, sizeof back) == 0);
    for (int32_t number = -2; number < 12; ++number) {
        bufabi_descriptor_fields_t other = shm_fields(7, "name");
        other.access = number;
        CHECK(bufabi_descriptor_encode(&other, &descriptor) == (number < 0 || number > 2 ? BUFABI_STATUS_ACCESS : 0));
        other = shm_fields(7, "name");
        other.backend_kind = number;
        other.base = other.shareable_handle = other.mapping_bytes = 1 << 20;
        other.access = READ;
        CHECK(bufabi_descriptor_encode(&other, &descriptor) ==
              (number < 0 || number > 6 ? BUFABI_STATUS_BACKEND_KIND : 0));
        other.backend_kind = REMOTE_SIDECAR;
        other.address_space = number;
        CHECK(bufabi_descriptor_encode(&other, &descriptor) ==
              (number < 0 || number > 1 ? BUFABI_STATUS_ADDRESS_SPACE : 0));
    }
    bufabi_descriptor_fields_t wrong = fields;
    wrong.identity.generation = 0;
    REFUSED(GENERATION, bufabi_descriptor_encode(&wrong, &descriptor));
    wrong = shm_fields(7, "");
    REFUSED(BODY_SHM_NAME_EMPTY, bufabi_descriptor_encode(&wrong, &descriptor));
    wrong = shm_fields(7, "a/b");
    REFUSED(BODY_SHM_NAME_CHAR, bufabi_descriptor_encode(&wrong, &descriptor));
    memset(wrong.shm_name, 'x', sizeof wrong.shm_name);
    REFUSED(BODY_LEN, bufabi_descriptor_encode(&wrong, &descriptor));
    wrong = fields;
    wrong.backend_kind = DEVICE_MALLOC;
    REFUSED(BODY_NULL_BASE, bufabi_descriptor_encode(&wrong, &descriptor));
    wrong.backend_kind = VMM_SHAREABLE;
    REFUSED(BODY_SHAREABLE_HANDLE, bufabi_descriptor_encode(&wrong, &descriptor));
    wrong.shareable_handle = 1;
    REFUSED(BODY_SHAREABLE_MAPPING, bufabi_descriptor_encode(&wrong, &descriptor));
    wrong.backend_kind = FORK_COW;
    wrong.base = 1;
    REFUSED(FORK_COW_ACCESS, bufabi_descriptor_encode(&wrong, &descriptor));

    OK(bufabi_descriptor_encode(&fields, &descriptor));
    REFUSED(NULL_POINTER, bufabi_descriptor_encode(NULL, &descriptor));
    REFUSED(NULL_POINTER, bufabi_descriptor_encode(&fields, NULL));
    REFUSED(MISALIGNED, bufabi_descriptor_encode(MISALIGNED(bufabi_descriptor_fields_t), &descriptor));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_descriptor_encode(&fields, (bufabi_descriptor_t *)&fields.nbytes));
    REFUSED(NULL_POINTER, bufabi_descriptor_decode(NULL, 88, &back));
    REFUSED(SIZE, bufabi_descriptor_decode(&descriptor, 87, &back));
    REFUSED(LENGTH, bufabi_descriptor_decode(&descriptor, SIZE_MAX, &back));

    bufabi_tensor_t tensor = tensor_of(&descriptor, dense(16, FLOAT32, 3, 4));
    bufabi_descriptor_t part;
    bufabi_view_t view;
    OK(bufabi_tensor_decode(&tensor, sizeof tensor, &part, &view));
    CHECK(memcmp(&part, &descriptor, sizeof part) == 0);
    CHECK(view.ndims == 2 && view.strides[0] == 4 && view.strides[1] == 1 && view.byte_offset == 16);
    /* A record may lie at any address. */
    unsigned char *bytes = malloc(145);
    memcpy(bytes + 1, &tensor, sizeof tensor);
    OK(bufabi_tensor_check(bytes + 1, sizeof tensor));
    OK(bufabi_tensor_decode(bytes + 1, sizeof tensor, &part, &view));
    free(bytes);
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_tensor_decode(&tensor, sizeof tensor, &tensor.buffer, &view));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_tensor_decode(&tensor, sizeof tensor, (bufabi_descriptor_t *)&view, &view));
    for (int32_t number = -3; number < 20; ++number) {
        bufabi_view_t other = view;
        other.byte_offset = 0;
        other.dtype = number;
        CHECK(bufabi_tensor_encode(&descriptor, &other, &tensor) ==
              (number < 0 || number > 14 ? BUFABI_STATUS_DTYPE : 0));
        uint32_t nbytes = 0;
        CHECK(bufabi_dtype_size(number, &nbytes) == (number < 0 || number > 14 ? BUFABI_STATUS_DTYPE : 0));
    }
    view.ndims = 6;
    REFUSED(NDIMS, bufabi_tensor_encode(&descriptor, &view, &tensor));
    view.ndims = 2;
    view.byte_offset = 4096;
    REFUSED(OUT_OF_BOUNDS, bufabi_tensor_encode(&descriptor, &view, &tensor));
    const uint32_t shape[6] = {1, 1, 1, 1, 1, 1};
    REFUSED(NDIMS, bufabi_view_row_major(0, FLOAT32, shape, 6, &view));
    REFUSED(NDIMS, bufabi_view_row_major(0, FLOAT32, shape, UINT32_MAX, &view));
    REFUSED(NDIMS, bufabi_view_row_major(0, FLOAT32, NULL, 0, &view));
    REFUSED(NULL_POINTER, bufabi_view_row_major(0, FLOAT32, NULL, 2, &view));
    REFUSED(DTYPE, bufabi_view_row_major(0, 15, shape, 2, &view));

    int32_t equal = 9;
    bufabi_identity_t same = fields.identity;
    memset(same.padding, 0xff, sizeof same.padding);
    OK(bufabi_identity_equal(&fields.identity, &same, &equal));
    CHECK(equal == 1);
    same.buffer_id = 8;
    OK(bufabi_identity_equal(&fields.identity, &same, &equal));
    CHECK(equal == 0);
    same.generation = 0;
    REFUSED(GENERATION, bufabi_identity_equal(&fields.identity, &same, &equal));
}

static void blobs(void) {
    const bufabi_tensor_t tensors[2] = {some_tensor(1, 0, 4), some_tensor(2, 64, 2)};
    const uint64_t scalars[3] = {1, UINT64_MAX, 3};
    size_t nbytes = 0, tensor_count = 0, scalar_count = 0;
    OK(bufabi_blob_size(2, 3, &nbytes));
    CHECK(nbytes == 8 + 2 * 144 + 3 * 8);
    REFUSED(TOO_MANY_ARGUMENTS, bufabi_blob_size(SIZE_MAX, 0, &nbytes));
    REFUSED(TOO_MANY_ARGUMENTS, bufabi_blob_size((size_t)INT32_MAX + 1, 0, &nbytes));
    /* Exactly as large as it must be, so that a memory checker sees a byte too many. */
    unsigned char *blob = malloc(320);
    REFUSED(BUFFER_TOO_SMALL, bufabi_blob_encode(tensors, 2, scalars, 3, blob, 319, &nbytes));
    OK(bufabi_blob_encode(tensors, 2, scalars, 3, blob, 320, &nbytes));
    CHECK(nbytes == 320);
    bufabi_tensor_t tensors_back[2];
    uint64_t scalars_back[3];
    OK(bufabi_blob_decode(blob, 320, tensors_back, 2, scalars_back, 3, &tensor_count, &scalar_count));
    CHECK(tensor_count == 2 && scalar_count == 3);
    CHECK(memcmp(tensors, tensors_back, sizeof tensors) == 0 && memcmp(scalars, scalars_back, sizeof scalars) == 0);
    REFUSED(BUFFER_TOO_SMALL,
            bufabi_blob_decode(blob, 320, tensors_back, 1, scalars_back, 3, &tensor_count, &scalar_count));
    REFUSED(PAST_END, bufabi_blob_decode(blob, 319, tensors_back, 2, scalars_back, 3, &tensor_count, &scalar_count));
    REFUSED(SHORT, bufabi_blob_decode(blob, 7, tensors_back, 2, scalars_back, 3, &tensor_count, &scalar_count));
    REFUSED(NULL_POINTER, bufabi_blob_decode(NULL, 0, tensors_back, 2, scalars_back, 3, &tensor_count, &scalar_count));
    REFUSED(NULL_POINTER, bufabi_blob_decode(blob, 320, NULL, 2, scalars_back, 3, &tensor_count, &scalar_count));
    REFUSED(OVERLAPPING_ARGUMENTS,
            bufabi_blob_decode(blob, 320, tensors_back, 2, scalars_back, 3, &tensor_count, &tensor_count));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_blob_decode(blob, 320, tensors_back, 2, (uint64_t *)&tensors_back[1], 3,
                                                      &tensor_count, &scalar_count));
    OK(bufabi_blob_encode(NULL, 0, NULL, 0, blob, 320, &nbytes));
    CHECK(nbytes == 8);
    REFUSED(NULL_POINTER, bufabi_blob_encode(NULL, 1, NULL, 0, blob, 320, &nbytes));
    REFUSED(LENGTH, bufabi_blob_encode(tensors, SIZE_MAX / 8, NULL, 0, blob, 320, &nbytes));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_blob_encode(NULL, 0, scalars, 3, (void *)scalars, 24, &nbytes));
    bufabi_tensor_t illegal = tensors[0];
    illegal.ndims = 0;
    REFUSED(NDIMS, bufabi_blob_encode(&illegal, 1, NULL, 0, blob, 320, &nbytes));
    free(blob);
}

static void rights_and_overlaps(void) {
    static const int granted[3][5] = {{1, 0, 0, 0, 1}, {0, 1, 0, 1, 1}, {1, 1, 1, 1, 1}};
    for (int32_t access = 0; access < 3; ++access)
        for (int32_t tag = 0; tag < 5; ++tag)
            CHECK(bufabi_rights_check(access, tag) == (granted[access][tag] ? 0 : BUFABI_STATUS_DENIED));
    REFUSED(ACCESS, bufabi_rights_check(3, INPUT));
    REFUSED(ACCESS, bufabi_rights_check(-1, INPUT));
    REFUSED(TAG, bufabi_rights_check(READ, 5));
    REFUSED(TAG, bufabi_rights_check(READ, INT32_MIN));

    const bufabi_tensor_t whole = some_tensor(1, 0, 8), upper = some_tensor(1, 0, 4), lower = some_tensor(1, 64, 4),
                          other = some_tensor(2, 0, 8);
    int32_t relation = -1;
    uint64_t byte = 77;
    OK(bufabi_tensor_relate(&whole, &lower, &relation));
    CHECK(relation == BUFABI_RELATION_COVERING);
    OK(bufabi_tensor_relate(&lower, &whole, &relation));
    CHECK(relation == BUFABI_RELATION_OVERLAPPING);
    OK(bufabi_tensor_relate(&upper, &lower, &relation));
    CHECK(relation == BUFABI_RELATION_DISJOINT);
    OK(bufabi_tensor_relate(&whole, &other, &relation));
    CHECK(relation == BUFABI_RELATION_DISJOINT);
    OK(bufabi_tensor_first_common(&upper, &lower, &relation, &byte));
    CHECK(relation == BUFABI_RELATION_DISJOINT && byte == 77);
    OK(bufabi_tensor_first_common(&whole, &lower, &relation, &byte));
    CHECK(relation == BUFABI_RELATION_OVERLAPPING && byte == 64);
    OK(bufabi_tensor_relate(&whole, &whole, &relation));
    CHECK(relation == BUFABI_RELATION_COVERING);
    REFUSED(NULL_POINTER, bufabi_tensor_relate(&whole, NULL, &relation));
    REFUSED(MISALIGNED, bufabi_tensor_first_common(&whole, &lower, MISALIGNED(int32_t), &byte));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_tensor_first_common(&whole, &lower, (int32_t *)&byte, &byte));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_tensor_relate(&whole, &lower, (int32_t *)&lower));
    bufabi_tensor_t illegal = whole;
    illegal.buffer.magic = 0;
    REFUSED(MAGIC, bufabi_tensor_relate(&whole, &illegal, &relation));
}

static bufabi_task_args_t arguments(void) {
    bufabi_task_args_t arguments = {0};
    OK(bufabi_task_args_create(&arguments));
    return arguments;
}

static void add(bufabi_task_args_t arguments, bufabi_tensor_t tensor, int32_t tag) {
    uint32_t index;
    OK(bufabi_task_args_add_tensor(arguments, &tensor, tag, &index));
}

static void task_arguments(void) {
    const bufabi_task_args_t args = arguments();
    const bufabi_tensor_t upper = some_tensor(1, 0, 4), lower = some_tensor(1, 64, 4), across = some_tensor(1, 32, 4);
    uint32_t index = 9;
    size_t tensors = 9, scalars = 9;
    OK(bufabi_task_args_add_tensor(args, &upper, INPUT, &index));
    CHECK(index == 0);
    OK(bufabi_task_args_add_tensor(args, &lower, OUTPUT, &index));
    CHECK(index == 1);
    for (int32_t tag = -2; tag < 8; ++tag)
        if (tag < 0 || tag > 4) {
            REFUSED(TAG, bufabi_task_args_add_tensor(args, &lower, tag, &index));
            REFUSED(TAG, bufabi_task_args_set_tag(args, 0, tag));
        }
    OK(bufabi_task_args_add_scalar(args, 5, &index));
    CHECK(index == 0);
    REFUSED(TENSOR_AFTER_SCALAR, bufabi_task_args_add_tensor(args, &upper, INPUT, &index));
    REFUSED(NO_SUCH_TENSOR, bufabi_task_args_set_tag(args, 2, INPUT));
    OK(bufabi_task_args_count(args, &tensors, &scalars));
    CHECK(tensors == 2 && scalars == 1);
    bufabi_argument_fault_t fault;
    memset(&fault, 0x55, sizeof fault);
    OK(bufabi_task_args_check(args, &fault));
    CHECK(fault.first == 0x55555555);
    unsigned char *blob = malloc(8 + 2 * 144 + 8);
    size_t nbytes = 0;
    REFUSED(BUFFER_TOO_SMALL, bufabi_task_args_encode(args, blob, 8, &nbytes));
    OK(bufabi_task_args_encode(args, blob, 8 + 2 * 144 + 8, &nbytes));
    int32_t counts[2];
    OK(bufabi_blob_check(blob, nbytes, &counts[0], &counts[1]));
    CHECK(counts[0] == 2 && counts[1] == 1);
    free(blob);
    REFUSED(NULL_POINTER, bufabi_task_args_encode(args, NULL, 8, &nbytes));
    REFUSED(NULL_POINTER, bufabi_task_args_check(args, NULL));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_task_args_count(args, &tensors, &tensors));

    OK(bufabi_task_args_clear(args));
    add(args, upper, INPUT);
    add(args, across, OUTPUT_EXISTING);
    REFUSED(ARGUMENT_CLASH, bufabi_task_args_check(args, &fault));
    CHECK(fault.first == 0 && fault.second == 1 && fault.byte == 32 && fault.identity.buffer_id == 1);
    OK(bufabi_task_args_set_tag(args, 1, NO_DEP));
    OK(bufabi_task_args_check(args, &fault));
    OK(bufabi_task_args_clear(args));
    for (unsigned i = 0; i < 256; ++i) add(args, upper, INPUT);
    REFUSED(ARGUMENTS_FULL, bufabi_task_args_add_tensor(args, &upper, INPUT, &index));
    OK(bufabi_task_args_release(args));
    REFUSED(HANDLE_RELEASED, bufabi_task_args_release(args));
    REFUSED(HANDLE_RELEASED, bufabi_task_args_clear(args));
    REFUSED(HANDLE_RELEASED, bufabi_task_args_add_scalar(args, 1, &index));
}

static void dependencies(void) {
    bufabi_tracker_capacities_t capacities;
    memset(&capacities, 0, sizeof capacities);
    bufabi_tracker_t tracker = {0};
    REFUSED(OPTION_UNKNOWN, bufabi_tracker_create(&capacities, BUFABI_POLICY_FULL, &tracker));
    capacities.tasks = UINT32_MAX;
    REFUSED(OPTION_UNKNOWN, bufabi_tracker_create(&capacities, BUFABI_POLICY_FULL, &tracker));
    capacities.tasks = 4;
    for (int32_t policy = -2; policy < 5; ++policy)
        if (policy < 0 || policy > 1) REFUSED(OPTION_UNKNOWN, bufabi_tracker_create(&capacities, policy, &tracker));
    REFUSED(NULL_POINTER, bufabi_tracker_create(NULL, BUFABI_POLICY_FULL, &tracker));
    OK(bufabi_tracker_create(&capacities, BUFABI_POLICY_FULL, &tracker));

    const bufabi_task_args_t write = arguments(), read = arguments();
    add(write, some_tensor(1, 0, 4), OUTPUT);
    add(read, some_tensor(1, 32, 4), INPUT);
    bufabi_task_state_t states[3], ready[4];
    bufabi_edge_t edges[4];
    size_t count = 9;
    OK(bufabi_tracker_submit(tracker, 100, &write, 1, edges, 4, &count, &states[0]));
    CHECK(count == 0 && states[0].waiting == 0 && states[0].is_poisoned == 0 && states[0].task == 100);
    OK(bufabi_tracker_submit(tracker, 101, &read, 1, edges, 4, &count, &states[1]));
    CHECK(count == 1 && states[1].waiting == 1 && edges[0].task == 100 && edges[0].byte == 32);
    CHECK(edges[0].hazard == BUFABI_HAZARD_READ_AFTER_WRITE && edges[0].identity.buffer_id == 1);
    /* More edges than there is room for: the count is the true one. */
    OK(bufabi_tracker_submit(tracker, 102, &write, 1, edges, 1, &count, &states[2]));
    CHECK(count == 2 && states[2].waiting == 2);
    OK(bufabi_tracker_finish(tracker, states[0].handle, ready, 4, &count));
    CHECK(count == 1 && ready[0].task == 101);
    REFUSED(NOT_TRACKED, bufabi_tracker_finish(tracker, states[0].handle, ready, 4, &count));
    OK(bufabi_tracker_fail(tracker, states[1].handle, 42, ready, 4, &count));
    CHECK(count == 1 && ready[0].task == 102 && ready[0].cause_task == 101 && ready[0].cause_reason == 42);
    OK(bufabi_tracker_state(tracker, states[2].handle, &ready[1]));
    CHECK(ready[1].is_poisoned == 1 && ready[1].waiting == 1);
    bufabi_tracked_task_t forged = states[1].handle;
    forged.stamp += 1000;
    REFUSED(NOT_TRACKED, bufabi_tracker_state(tracker, forged, &ready[1]));
    forged.slot = UINT32_MAX;
    REFUSED(NOT_TRACKED, bufabi_tracker_fail(tracker, forged, 1, ready, 4, &count));
    /* A capacity that does not suffice changes nothing. */
    bufabi_task_state_t more;
    OK(bufabi_tracker_submit(tracker, 103, NULL, 0, edges, 4, &count, &more));
    OK(bufabi_tracker_submit(tracker, 104, NULL, 0, edges, 4, &count, &more));
    REFUSED(TRACKER_TASKS, bufabi_tracker_submit(tracker, 105, NULL, 0, edges, 4, &count, &more));
    uint32_t tasks = 0;
    uint64_t inexact = 9;
    OK(bufabi_tracker_count(tracker, &tasks, &inexact));
    CHECK(tasks == 4 && inexact == 0);
    const bufabi_identity_t identity = some_tensor(1, 0, 1).buffer.identity;
    OK(bufabi_tracker_forget(tracker, &identity));
    OK(bufabi_tracker_finish(tracker, states[1].handle, NULL, 0, &count));
    OK(bufabi_tracker_finish(tracker, states[2].handle, NULL, 0, &count));
    OK(bufabi_tracker_submit(tracker, 106, &write, 1, edges, 4, &count, &more));
    CHECK(count == 0);
    const bufabi_task_args_t wrong[2] = {write, {tracker.token}};
    REFUSED(HANDLE_KIND, bufabi_tracker_submit(tracker, 107, wrong, 2, edges, 4, &count, &more));
    REFUSED(NULL_POINTER, bufabi_tracker_submit(tracker, 107, NULL, 1, edges, 4, &count, &more));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_tracker_submit(tracker, 107, &write, 1, edges, 4, (size_t *)&edges[3], &more));
    OK(bufabi_task_args_release(write));
    OK(bufabi_task_args_release(read));
    OK(bufabi_tracker_release(tracker));
    REFUSED(HANDLE_RELEASED, bufabi_tracker_release(tracker));
}

static void owners_and_consumers(void) {
    bufabi_endpoint_t endpoint = {0};
    OK(bufabi_endpoint_create(8, &endpoint));
    uint8_t id[8];
    OK(bufabi_endpoint_owner_instance_id(endpoint, id));
    bufabi_buffer_t buffer = {0};
    REFUSED(NBYTES_ZERO, bufabi_buffer_create(endpoint, 0, READWRITE, &buffer));
    REFUSED(ACCESS, bufabi_buffer_create(endpoint, 64, 3, &buffer));
    REFUSED(NULL_POINTER, bufabi_buffer_create(endpoint, 64, READ, NULL));
    CHECK(bufabi_buffer_create(endpoint, UINT64_MAX, READ, &buffer) != BUFABI_STATUS_OK);
    uint32_t live = 9;
    OK(bufabi_endpoint_live(endpoint, &live));
    CHECK(live == 0);
    OK(bufabi_buffer_create(endpoint, 4096, READ, &buffer));
    bufabi_descriptor_t descriptor;
    OK(bufabi_buffer_descriptor(buffer, &descriptor));
    CHECK(memcmp(descriptor.identity.owner_instance_id, id, 8) == 0 && descriptor.nbytes == 4096);
    const bufabi_view_t view = dense(0, FLOAT32, 32, 32);
    bufabi_tensor_t tensor;
    OK(bufabi_buffer_tensor(buffer, &view, &tensor));
    OK(bufabi_tensor_check(&tensor, sizeof tensor));
    const bufabi_view_t too_large = dense(4, FLOAT32, 32, 32);
    REFUSED(OUT_OF_BOUNDS, bufabi_buffer_tensor(buffer, &too_large, &tensor));

    bufabi_mapping_t own = {0}, import = {0}, again = {0};
    void *address = NULL, *import_address = NULL;
    size_t nbytes = 0;
    int32_t access = -1, resolution = -1;
    OK(bufabi_buffer_map(buffer, &own));
    OK(bufabi_mapping_address(own, &address, &nbytes, &access));
    CHECK(nbytes == 4096 && access == READWRITE);
    for (size_t i = 0; i < nbytes; ++i) CHECK(((unsigned char *)address)[i] == 0);
    ((unsigned char *)address)[17] = 42;

    /* A consumer that knows nothing of the endpoint maps the object, once, for reading alone. */
    bufabi_consumer_t consumer = {0}, kin = {0};
    const bufabi_endpoint_t none = {0};
    const bufabi_vmm_t no_vmm = {0};
    OK(bufabi_consumer_create(none, no_vmm, 4, &consumer));
    OK(bufabi_consumer_import(consumer, &descriptor, &resolution, &import));
    CHECK(resolution == BUFABI_RESOLUTION_MAPPED_NOW);
    OK(bufabi_consumer_import(consumer, &descriptor, &resolution, &again));
    CHECK(resolution == BUFABI_RESOLUTION_ALREADY_MAPPED && again.token != import.token);
    OK(bufabi_mapping_address(import, &import_address, &nbytes, &access));
    CHECK(access == READ && import_address != address && ((unsigned char *)import_address)[17] == 42);
    unsigned char *bytes = malloc(10);
    OK(bufabi_mapping_read(import, 10, bytes, 10));
    CHECK(bytes[7] == 42);
    REFUSED(DENIED, bufabi_mapping_write(import, 0, bytes, 1));
    REFUSED(ADDRESS_NOT_MAPPED, bufabi_mapping_read(import, 4087, bytes, 10));
    REFUSED(ADDRESS_NOT_MAPPED, bufabi_mapping_read(import, SIZE_MAX, bytes, 10));
    REFUSED(ADDRESS_NOT_MAPPED, bufabi_mapping_write(own, 4096, bytes, 1));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_mapping_read(own, 0, (unsigned char *)address + 100, 10));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_mapping_write(own, 0, (unsigned char *)address + 100, 10));
    REFUSED(NULL_POINTER, bufabi_mapping_read(own, 0, NULL, 10));
    OK(bufabi_mapping_read(own, 4096, NULL, 0));
    OK(bufabi_mapping_write(own, 4086, bytes, 10));
    free(bytes);
    /* The same identity with another descriptor. */
    bufabi_descriptor_t forged = descriptor;
    forged.access = READWRITE;
    REFUSED(IMPORT_CONFLICT, bufabi_consumer_import(consumer, &forged, &resolution, &again));
    forged = descriptor;
    forged.identity.buffer_id += 5;
    forged.nbytes = 8192;
    REFUSED(SHM_TOO_SMALL, bufabi_consumer_import(consumer, &forged, &resolution, &again));
    forged.body[3] ^= 1;
    REFUSED(SHM_NOT_FOUND, bufabi_consumer_import(consumer, &forged, &resolution, &again));
    forged.magic = 0;
    REFUSED(MAGIC, bufabi_consumer_import(consumer, &forged, &resolution, &again));
    const bufabi_descriptor_fields_t device = {descriptor.identity, 64, 0, 0, READ, DEVICE_MALLOC, 4096, {0}, 0, 0, 0, 0};
    OK(bufabi_descriptor_encode(&device, &forged));
    forged.identity.buffer_id = 99;
    REFUSED(NOT_RESOLVABLE, bufabi_consumer_import(consumer, &forged, &resolution, &again));
    REFUSED(OVERLAPPING_ARGUMENTS,
            bufabi_consumer_import(consumer, &descriptor, (int32_t *)&again, &again));
    bufabi_consumer_counters_t counters;
    OK(bufabi_consumer_counters(consumer, &counters));
    CHECK(counters.live == 1 && counters.imports == 1 && counters.hits == 1 && counters.evictions == 0);
    REFUSED(VIEWS_ALIVE, bufabi_consumer_forget(consumer, &descriptor.identity));
    uint32_t kept = 9;

    /* One of the same process that knows the endpoint uses its mapping. */
    OK(bufabi_consumer_create(endpoint, no_vmm, 0, &kin));
    bufabi_mapping_t third = {0};
    OK(bufabi_consumer_import(kin, &descriptor, &resolution, &third));
    CHECK(resolution == BUFABI_RESOLUTION_OWN);
    OK(bufabi_mapping_address(third, &import_address, &nbytes, &access));
    CHECK(import_address == address && access == READ);
    OK(bufabi_mapping_release(third));

    /* Held by a task, held by a mapping, and then released for good. */
    bufabi_hold_t hold = {0};
    size_t index = 9;
    OK(bufabi_endpoint_hold(endpoint, &tensor, 1, &index, &hold));
    OK(bufabi_mapping_release(own));
    REFUSED(BUSY, bufabi_buffer_release(buffer));
    OK(bufabi_buffer_descriptor(buffer, &forged));
    OK(bufabi_hold_release(hold));
    REFUSED(HANDLE_RELEASED, bufabi_hold_release(hold));
    OK(bufabi_buffer_map(buffer, &own));
    REFUSED(VIEWS_ALIVE, bufabi_buffer_release(buffer));
    OK(bufabi_mapping_release(own));
    OK(bufabi_endpoint_hold(endpoint, &tensor, 1, &index, &hold));
    REFUSED(TIMED_OUT, bufabi_buffer_release_when_idle(buffer, 1000));
    REFUSED(CLOSING, bufabi_buffer_tensor(buffer, &view, &tensor));
    const bufabi_tensor_t two[2] = {some_tensor(1, 0, 4), tensor};
    bufabi_hold_t other = {0};
    REFUSED(CLOSING, bufabi_endpoint_hold(endpoint, two, 2, &index, &other));
    CHECK(index == 1);
    OK(bufabi_hold_release(hold));
    OK(bufabi_buffer_release_when_idle(buffer, 1000));
    REFUSED(HANDLE_RELEASED, bufabi_buffer_release(buffer));
    REFUSED(HANDLE_RELEASED, bufabi_buffer_tensor(buffer, &view, &tensor));
    REFUSED(HANDLE_RELEASED, bufabi_buffer_abandon(buffer));
    REFUSED(STALE, bufabi_endpoint_hold(endpoint, &tensor, 1, &index, &other));
    OK(bufabi_endpoint_live(endpoint, &live));
    CHECK(live == 0);

    /* Consumers keep what they have mapped until they are told. */
    OK(bufabi_mapping_release(import));
    REFUSED(HANDLE_RELEASED, bufabi_mapping_release(import));
    CHECK(bufabi_consumer_close(consumer, &kept) == BUFABI_STATUS_VIEWS_ALIVE && kept == 1);
    OK(bufabi_mapping_release(again));
    OK(bufabi_consumer_close(consumer, &kept));
    CHECK(kept == 0);
    REFUSED(RELEASED, bufabi_consumer_import(consumer, &descriptor, &resolution, &again));
    OK(bufabi_consumer_forget(consumer, &descriptor.identity));
    OK(bufabi_consumer_release(consumer));
    OK(bufabi_consumer_release(kin));

    /* Abandoned: the handle goes at once, the buffer with the last that holds it. */
    OK(bufabi_buffer_create(endpoint, 100, WRITE, &buffer));
    OK(bufabi_buffer_map(buffer, &own));
    OK(bufabi_mapping_address(own, &address, &nbytes, &access));
    OK(bufabi_buffer_abandon(buffer));
    ((unsigned char *)address)[99] = 1;
    OK(bufabi_mapping_release(own));
    OK(bufabi_endpoint_live(endpoint, &live));
    CHECK(live == 0);
    OK(bufabi_endpoint_release(endpoint));
    REFUSED(HANDLE_RELEASED, bufabi_endpoint_live(endpoint, &live));
    REFUSED(HANDLE_RELEASED, bufabi_buffer_create(endpoint, 1, READ, &buffer));
}

static void capacities(void) {
    bufabi_endpoint_t endpoint = {0};
    bufabi_buffer_t buffers[3] = {{0}, {0}, {0}};
    bufabi_consumer_t consumer = {0};
    const bufabi_endpoint_t none = {0};
    const bufabi_vmm_t no_vmm = {0};
    OK(bufabi_endpoint_create(2, &endpoint));
    OK(bufabi_consumer_create(none, no_vmm, 1, &consumer));
    OK(bufabi_buffer_create(endpoint, 64, READWRITE, &buffers[0]));
    OK(bufabi_buffer_create(endpoint, 64, READWRITE, &buffers[1]));
    REFUSED(OWNER_TABLE_FULL, bufabi_buffer_create(endpoint, 64, READWRITE, &buffers[2]));
    bufabi_descriptor_t descriptors[2];
    bufabi_mapping_t mappings[2];
    int32_t resolution = 0;
    for (int i = 0; i < 2; ++i) OK(bufabi_buffer_descriptor(buffers[i], &descriptors[i]));
    OK(bufabi_consumer_import(consumer, &descriptors[0], &resolution, &mappings[0]));
    REFUSED(IMPORT_TABLE_FULL, bufabi_consumer_import(consumer, &descriptors[1], &resolution, &mappings[1]));
    OK(bufabi_mapping_release(mappings[0]));
    OK(bufabi_consumer_import(consumer, &descriptors[1], &resolution, &mappings[1]));
    CHECK(resolution == BUFABI_RESOLUTION_MAPPED_NOW);
    bufabi_consumer_counters_t counters;
    OK(bufabi_consumer_counters(consumer, &counters));
    CHECK(counters.evictions == 1 && counters.live == 1);
    OK(bufabi_mapping_release(mappings[1]));
    uint32_t evicted = 0;
    OK(bufabi_consumer_evict_unused(consumer, &evicted));
    CHECK(evicted == 1);
    /* A slot that is used again has the next generation. */
    OK(bufabi_buffer_release(buffers[0]));
    OK(bufabi_buffer_create(endpoint, 64, READWRITE, &buffers[0]));
    bufabi_descriptor_t next;
    OK(bufabi_buffer_descriptor(buffers[0], &next));
    CHECK(next.identity.buffer_id == descriptors[0].identity.buffer_id && next.identity.generation == 2);
    OK(bufabi_buffer_release(buffers[0]));
    OK(bufabi_buffer_release(buffers[1]));
    OK(bufabi_consumer_release(consumer));
    OK(bufabi_endpoint_release(endpoint));
}

/* Some checkers of memory know no descriptors of processes, by which importers are permitted and workers are watched. */
static void shared_device_memory(int has_process_descriptors) {
    bufabi_endpoint_t endpoint = {0}, other = {0};
    bufabi_vmm_t vmm = {0}, other_vmm = {0};
    bufabi_buffer_t buffer = {0}, wrapped = {0};
    bufabi_consumer_t consumer = {0};
    bufabi_descriptor_t descriptor;
    bufabi_mapping_t mapping = {0};
    int32_t peer = 0, resolution = 0;
    OK(bufabi_endpoint_create(0, &endpoint));
    OK(bufabi_endpoint_create(0, &other));
    REFUSED(VMM_DEVICE_UNKNOWN, bufabi_vmm_create(endpoint, -1, 0, &vmm));
    OK(bufabi_vmm_create(endpoint, 3, 0, &vmm));
    OK(bufabi_vmm_create(other, 4, 10000000000, &other_vmm));
    OK(bufabi_vmm_serve(vmm));
    OK(bufabi_vmm_serve(vmm));
    REFUSED(OPTION_UNKNOWN, bufabi_buffer_create_shareable(endpoint, vmm, 5000, READWRITE, 2, &buffer));
    REFUSED(VMM_MISMATCH, bufabi_buffer_create_shareable(endpoint, other_vmm, 5000, READ, BUFABI_ADMISSION_LISTED, &buffer));
    OK(bufabi_buffer_create_shareable(endpoint, vmm, 5000, READWRITE, BUFABI_ADMISSION_LISTED, &buffer));
    OK(bufabi_buffer_descriptor(buffer, &descriptor));
    CHECK(descriptor.backend_kind == VMM_SHAREABLE && descriptor.nbytes == 5000);
    OK(bufabi_consumer_create(other, other_vmm, 4, &consumer));
    REFUSED(VMM_NOT_PERMITTED, bufabi_consumer_import(consumer, &descriptor, &resolution, &mapping));
    OK(bufabi_vmm_peer_number(other_vmm, &peer));
    REFUSED(OTHER_OWNER, bufabi_vmm_permit(other_vmm, &descriptor, &peer, 1));
    if (has_process_descriptors) {
        OK(bufabi_vmm_permit(vmm, &descriptor, &peer, 1));
    } else {
        OK(bufabi_buffer_release(buffer));
        OK(bufabi_buffer_create_shareable(endpoint, vmm, 5000, READWRITE, BUFABI_ADMISSION_ANYONE, &buffer));
        OK(bufabi_buffer_descriptor(buffer, &descriptor));
    }
    OK(bufabi_consumer_import(consumer, &descriptor, &resolution, &mapping));
    CHECK(resolution == BUFABI_RESOLUTION_MAPPED_NOW);
    OK(bufabi_mapping_write(mapping, 4996, "abcd", 4));
    bufabi_mapping_t own = {0};
    char found[4];
    OK(bufabi_buffer_map(buffer, &own));
    OK(bufabi_mapping_read(own, 4996, found, 4));
    CHECK(memcmp(found, "abcd", 4) == 0);
    OK(bufabi_mapping_release(own));

    /* A name for it in another endpoint, which frees nothing. */
    REFUSED(WRAP_OWN, bufabi_buffer_wrap_vmm_shareable(endpoint, &descriptor, &wrapped));
    OK(bufabi_buffer_wrap_vmm_shareable(other, &descriptor, &wrapped));
    bufabi_descriptor_t same;
    OK(bufabi_buffer_descriptor(wrapped, &same));
    CHECK(memcmp(&same, &descriptor, sizeof same) == 0);
    REFUSED(WRAPPED_ALREADY, bufabi_buffer_wrap_vmm_shareable(other, &descriptor, &buffer));
    OK(bufabi_buffer_release(wrapped));
    REFUSED(HANDLE_RELEASED, bufabi_buffer_release(wrapped));

    OK(bufabi_buffer_release(buffer));
    OK(bufabi_mapping_release(mapping));
    OK(bufabi_consumer_forget(consumer, &descriptor.identity));
    REFUSED(VMM_HANDLE_UNKNOWN, bufabi_consumer_import(consumer, &descriptor, &resolution, &mapping));
    OK(bufabi_vmm_release(vmm));
    REFUSED(VMM_OWNER_GONE, bufabi_consumer_import(consumer, &descriptor, &resolution, &mapping));
    OK(bufabi_consumer_release(consumer));
    OK(bufabi_vmm_release(other_vmm));
    OK(bufabi_endpoint_release(endpoint));
    OK(bufabi_endpoint_release(other));
}

static void inherited_memory(void) {
    bufabi_endpoint_t endpoint = {0}, other = {0};
    bufabi_heap_t heap = {0};
    bufabi_inherited_t region = {0}, copied = {0};
    bufabi_buffer_t slab = {0}, whole = {0}, wrapped = {0};
    bufabi_mapping_t mapping = {0};
    bufabi_descriptor_t descriptor;
    size_t live = 9, nbytes = 0;
    uint64_t largest = 0;
    void *address = NULL;
    int32_t access = -1;
    OK(bufabi_endpoint_create(0, &endpoint));
    OK(bufabi_endpoint_create(0, &other));
    REFUSED(NBYTES_ZERO, bufabi_heap_create(endpoint, 0, &heap));
    REFUSED(NBYTES_TOO_LARGE, bufabi_heap_create(endpoint, UINT64_MAX, &heap));
    OK(bufabi_heap_create(endpoint, 1 << 16, &heap));
    const bufabi_view_t shape = dense(0, FLOAT32, 10, 10);
    OK(bufabi_heap_alloc_shared(heap, &shape, &slab));
    OK(bufabi_buffer_descriptor(slab, &descriptor));
    CHECK(descriptor.backend_kind == 0 && descriptor.nbytes == 400);
    bufabi_view_t wrong = shape;
    wrong.ndims = 6;
    REFUSED(NDIMS, bufabi_heap_alloc_shared(heap, &wrong, &whole));
    wrong.ndims = 0;
    REFUSED(NDIMS, bufabi_heap_alloc_shared(heap, &wrong, &whole));
    REFUSED(SPACE_FULL, bufabi_heap_create_buffer(heap, 1 << 16, READ, &whole));
    REFUSED(ACCESS, bufabi_heap_create_buffer(heap, 8, 5, &whole));
    OK(bufabi_heap_count(heap, &live, &largest));
    CHECK(live == 1 && largest == (1 << 16) - 1024);
    OK(bufabi_buffer_map(slab, &mapping));
    OK(bufabi_mapping_address(mapping, &address, &nbytes, &access));
    CHECK((uintptr_t)address % 1024 == 0 && nbytes == 400);
    OK(bufabi_mapping_release(mapping));
    OK(bufabi_buffer_release(slab));
    /* With nothing live it serves all of it. */
    OK(bufabi_heap_create_buffer(heap, 1 << 16, READ, &whole));
    OK(bufabi_heap_release(heap));
    OK(bufabi_buffer_map(whole, &mapping));
    OK(bufabi_mapping_release(mapping));
    OK(bufabi_buffer_release(whole));

    for (int32_t sharing = -1; sharing < 4; ++sharing)
        if (sharing < 0 || sharing > 1) REFUSED(OPTION_UNKNOWN, bufabi_inherited_create(endpoint, 64, sharing, &region));
    OK(bufabi_inherited_create(endpoint, 64, BUFABI_SHARING_SHARED, &region));
    REFUSED(WRAP_RANGE, bufabi_buffer_wrap_fork_inherited(endpoint, region, 60, 5, READ, &wrapped));
    REFUSED(WRAP_RANGE, bufabi_buffer_wrap_fork_inherited(endpoint, region, UINT64_MAX, 5, READ, &wrapped));
    REFUSED(WRAP_OWNER, bufabi_buffer_wrap_fork_inherited(other, region, 0, 5, READ, &wrapped));
    OK(bufabi_buffer_wrap_fork_inherited(endpoint, region, 16, 32, WRITE, &wrapped));
    OK(bufabi_inherited_map(region, &mapping));
    OK(bufabi_mapping_write(mapping, 16, "x", 1));
    OK(bufabi_mapping_release(mapping));
    OK(bufabi_buffer_release(wrapped));
    OK(bufabi_inherited_release(region));
    char *memory = malloc(100);
    memset(memory, 7, 100);
    REFUSED(NULL_POINTER, bufabi_inherited_from(endpoint, NULL, 100, BUFABI_SHARING_COPIED, &copied));
    REFUSED(LENGTH, bufabi_inherited_from(endpoint, memory, SIZE_MAX, BUFABI_SHARING_COPIED, &copied));
    OK(bufabi_inherited_from(endpoint, memory, 100, BUFABI_SHARING_COPIED, &copied));
    REFUSED(FORK_COW_ACCESS, bufabi_buffer_wrap_fork_inherited(endpoint, copied, 0, 100, READWRITE, &wrapped));
    OK(bufabi_buffer_wrap_fork_inherited(endpoint, copied, 0, 100, READ, &wrapped));
    OK(bufabi_buffer_descriptor(wrapped, &descriptor));
    CHECK(descriptor.backend_kind == FORK_COW);
    OK(bufabi_buffer_release(wrapped));
    OK(bufabi_inherited_release(copied));
    free(memory);

    REFUSED(BODY_NULL_BASE, bufabi_buffer_wrap_device_malloc(endpoint, 0, 64, READ, &wrapped));
    REFUSED(ADDRESS_OVERFLOW, bufabi_buffer_wrap_vmm_window(endpoint, UINT64_MAX, 64, READ, &wrapped));
    OK(bufabi_buffer_wrap_device_malloc(endpoint, 4096, 64, READ, &wrapped));
    REFUSED(NOT_RESOLVABLE, bufabi_buffer_map(wrapped, &mapping));
    OK(bufabi_buffer_release(wrapped));
    OK(bufabi_buffer_wrap_vmm_window(endpoint, 4096, 64, READ, &wrapped));
    OK(bufabi_buffer_descriptor(wrapped, &descriptor));
    CHECK(descriptor.backend_kind == 2 && descriptor.address_space == 1);
    OK(bufabi_buffer_abandon(wrapped));
    OK(bufabi_endpoint_release(endpoint));
    OK(bufabi_endpoint_release(other));
}

enum { ADD_SCALAR = 1, OWN_NUMBER, A_STATUS, DIE, WAIT_FOR_FLAG };

/* Runs in a worker's process. */
static bufabi_status_t kernels(void *context, uint32_t kernel, const bufabi_operand_t *operands, size_t operand_count,
                               const uint64_t *scalars, size_t scalar_count) {
    if (*(int *)context != 31) return BUFABI_STATUS_INTERNAL;
    switch (kernel) {
    case ADD_SCALAR: {
        if (operand_count != 2 || scalar_count != 1) return BUFABI_STATUS_KERNEL_COUNTS;
        const unsigned char *in = operands[0].data;
        unsigned char *out = operands[1].data;
        for (uint32_t i = 0; i < operands[0].view.shapes[0]; ++i)
            out[i * operands[1].view.strides[0]] = (unsigned char)(in[i * operands[0].view.strides[0]] + scalars[0]);
        return 0;
    }
    case OWN_NUMBER: return 100777;
    case A_STATUS: return BUFABI_STATUS_KERNEL_SHAPE;
    case DIE: _exit(3);
    case WAIT_FOR_FLAG:
        while (!__atomic_load_n((unsigned char *)operands[0].data, __ATOMIC_ACQUIRE)) sched_yield();
        return 0;
    default: return BUFABI_STATUS_KERNEL_UNKNOWN;
    }
}

static bufabi_worker_t worker(const char *name, int32_t kind, int32_t parent) {
    bufabi_worker_t worker;
    memset(&worker, 0, sizeof worker);
    strcpy(worker.name, name);
    worker.kind = kind;
    worker.parent = parent;
    return worker;
}

static const uint64_t patience = UINT64_C(20000000000);

static uint64_t submit(bufabi_orchestrator_t tasks, bufabi_task_args_t args, uint32_t worker, uint32_t kernel) {
    const bufabi_member_t member = {args, worker, kernel};
    uint64_t task = UINT64_MAX;
    OK(bufabi_orchestrator_submit(tasks, &member, 1, &task));
    return task;
}

/* Memory that chips own, asked for from here: malloc, copies, windows, export, and what a task may name. */
static void device_memory(bufabi_orchestrator_t tasks, uint32_t chip, uint32_t sub) {
    bufabi_descriptor_t memory, exported;
    unsigned char bytes[16] = "0123456789abcde", found[16] = {0};
    size_t live = 9, kept = 9;
    REFUSED(NBYTES_ZERO, bufabi_device_malloc(tasks, chip, 0, READWRITE, patience, &memory));
    REFUSED(ACCESS, bufabi_device_malloc(tasks, chip, 64, 3, patience, &memory));
    CHECK(bufabi_device_malloc(tasks, sub, 64, READ, patience, &memory) != 0);
    REFUSED(WORKER_UNKNOWN, bufabi_device_malloc(tasks, 77, 64, READ, patience, &memory));
    OK(bufabi_device_malloc(tasks, chip, 64, READWRITE, patience, &memory));
    CHECK(memory.backend_kind == DEVICE_MALLOC && memory.nbytes == 64);
    const bufabi_identity_t name = memory.identity;
    OK(bufabi_device_copy_to(tasks, chip, &name, 48, bytes, 16, patience));
    OK(bufabi_device_copy_from(tasks, chip, &name, 48, found, 16, patience));
    CHECK(memcmp(bytes, found, 16) == 0);
    CHECK(bufabi_device_copy_to(tasks, chip, &name, 49, bytes, 16, patience) != 0);
    CHECK(bufabi_device_copy_from(tasks, chip, &name, UINT64_MAX, found, 16, patience) != 0);
    CHECK(bufabi_device_copy_from(tasks, chip, &name, 0, found, 0, patience) == 0);
    OK(bufabi_device_live(tasks, &live));
    CHECK(live == 1);

    /* A task on that chip may name it, and while it does the memory is not freed; a sub-worker cannot. */
    const uint32_t eight[1] = {8};
    bufabi_view_t view;
    OK(bufabi_view_row_major(48, UINT8, eight, 1, &view));
    const bufabi_tensor_t in = tensor_of(&memory, view);
    OK(bufabi_view_row_major(0, UINT8, eight, 1, &view));
    const bufabi_tensor_t out = tensor_of(&memory, view);
    const bufabi_task_args_t args = arguments();
    uint32_t index = 0;
    bufabi_finished_t finished;
    uint64_t task = 0;
    add(args, in, INPUT);
    add(args, out, OUTPUT);
    OK(bufabi_task_args_add_scalar(args, 1, &index));
    submit(tasks, args, chip, ADD_SCALAR);
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    CHECK(finished.status == 0);
    OK(bufabi_device_copy_from(tasks, chip, &name, 0, found, 8, patience));
    CHECK(memcmp(found, "12345678", 8) == 0);
    const bufabi_member_t elsewhere = {args, sub, ADD_SCALAR};
    CHECK(bufabi_orchestrator_submit(tasks, &elsewhere, 1, &task) != 0);

    OK(bufabi_device_free(tasks, chip, &name, patience, &kept));
    CHECK(kept == 0);
    REFUSED(STALE, bufabi_device_free(tasks, chip, &name, patience, &kept));
    CHECK(bufabi_device_copy_from(tasks, chip, &name, 0, found, 8, patience) != 0);
    const bufabi_member_t freed = {args, chip, ADD_SCALAR};
    CHECK(bufabi_orchestrator_submit(tasks, &freed, 1, &task) != 0);
    OK(bufabi_task_args_release(args));

    REFUSED(OPTION_UNKNOWN, bufabi_device_create_shareable(tasks, chip, 64, READWRITE, 2, patience, &exported));
    OK(bufabi_device_create_shareable(tasks, chip, 64, READWRITE, BUFABI_ADMISSION_LISTED, patience, &exported));
    CHECK(exported.backend_kind == VMM_SHAREABLE);
    OK(bufabi_device_permit(tasks, chip, &exported, &sub, 1, patience));
    OK(bufabi_device_free(tasks, chip, &exported.identity, patience, &kept));

    bufabi_descriptor_t window[2];
    bufabi_domain_t domain = {0};
    const bufabi_window_part_t parts[2] = {{100, READ, 0}, {200, READWRITE, 0}}, wrong[1] = {{100, 4, 0}};
    REFUSED(BUFFER_TOO_SMALL, bufabi_domain_create(tasks, &chip, 1, parts, 2, patience, window, 1, &domain));
    REFUSED(ACCESS, bufabi_domain_create(tasks, &chip, 1, wrong, 1, patience, window, 2, &domain));
    OK(bufabi_domain_create(tasks, &chip, 1, parts, 2, patience, window, 2, &domain));
    CHECK(window[0].backend_kind == 2 && window[0].nbytes == 100 && window[1].nbytes == 200);
    CHECK(bufabi_device_free(tasks, chip, &window[0].identity, patience, &kept) != 0);
    OK(bufabi_domain_free(tasks, domain, patience));
    REFUSED(HANDLE_RELEASED, bufabi_domain_free(tasks, domain, patience));
    OK(bufabi_device_live(tasks, &live));
    CHECK(live == 0);
}

static void *idle(void *barrier) {
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

static void worker_processes(void) {
    bufabi_endpoint_t endpoint = {0};
    bufabi_heap_t heap = {0};
    bufabi_orchestrator_t tasks = {0};
    int context = 31;
    OK(bufabi_endpoint_create(0, &endpoint));
    OK(bufabi_heap_create(endpoint, 1 << 16, &heap));
#define STARTED(...) \
    bufabi_orchestrator_create(endpoint, (bufabi_worker_t[]){__VA_ARGS__}, \
                               sizeof((bufabi_worker_t[]){__VA_ARGS__}) / sizeof(bufabi_worker_t), kernels, &context, \
                               UINT64_MAX, &tasks)
    for (int32_t kind = -2; kind < 9; ++kind)
        if (kind < 0 || kind > 4) REFUSED(OPTION_UNKNOWN, STARTED(worker("a", kind, -1)));
    REFUSED(WORKER_UNKNOWN, STARTED(worker("a", BUFABI_WORKER_SUB, 0)));
    REFUSED(WORKER_UNKNOWN, STARTED(worker("a", BUFABI_WORKER_SUB, -2)));
    REFUSED(WORKER_UNKNOWN, STARTED(worker("a", BUFABI_WORKER_SUB, -1), worker("b", BUFABI_WORKER_SUB, 0)));
    REFUSED(WORKER_UNKNOWN, STARTED(worker("a", BUFABI_WORKER_HOST, 1), worker("b", BUFABI_WORKER_SUB, 0)));
    REFUSED(TEXT_BROKEN, STARTED(worker("", BUFABI_WORKER_SUB, -1)));
    REFUSED(TEXT_BROKEN, STARTED(worker("a/b", BUFABI_WORKER_SUB, -1)));
    bufabi_worker_t endless = worker("", BUFABI_WORKER_SUB, -1);
    memset(endless.name, 'x', sizeof endless.name);
    REFUSED(TEXT_BROKEN, STARTED(endless));
    REFUSED(WORKER_NAME_TAKEN, STARTED(worker("a", BUFABI_WORKER_SUB, -1), worker("a", BUFABI_WORKER_CHIP, -1)));
    REFUSED(NULL_POINTER, bufabi_orchestrator_create(endpoint, NULL, 1, kernels, &context, 0, &tasks));
    pthread_t thread;
    pthread_barrier_t barrier;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0 && pthread_create(&thread, NULL, idle, &barrier) == 0);
    pthread_barrier_wait(&barrier);
    REFUSED(SEVERAL_THREADS, STARTED(worker("a", BUFABI_WORKER_SUB, -1)));
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0 && pthread_barrier_destroy(&barrier) == 0);
    OK(STARTED(worker("chip", BUFABI_WORKER_CHIP, -1), worker("l3", BUFABI_WORKER_HOST, -1),
               worker("sub", BUFABI_WORKER_SUB, 1), worker("other", BUFABI_WORKER_SUB, -1)));

    uint32_t chip = 9, sub = 9, other = 9, none = 9;
    int32_t pid = 0;
    OK(bufabi_orchestrator_find(tasks, "chip", 4, &chip));
    OK(bufabi_orchestrator_find(tasks, "l3/sub", 6, &sub));
    OK(bufabi_orchestrator_find(tasks, "other", 5, &other));
    REFUSED(WORKER_UNKNOWN, bufabi_orchestrator_find(tasks, "l3", 2, &none));
    REFUSED(WORKER_UNKNOWN, bufabi_orchestrator_find(tasks, NULL, 0, &none));
    REFUSED(TEXT_BROKEN, bufabi_orchestrator_find(tasks, "\xff", 1, &none));
    OK(bufabi_orchestrator_pid(tasks, sub, &pid));
    CHECK(pid > 0 && pid != getpid());
    REFUSED(WORKER_UNKNOWN, bufabi_orchestrator_pid(tasks, 3, &pid));

    /* From shared memory through a chip into inherited memory, and on through two hops into shared memory. */
    bufabi_buffer_t in = {0}, between = {0}, out = {0};
    bufabi_mapping_t mapping = {0};
    bufabi_tensor_t first, second, third, flag;
    const uint32_t eight[1] = {8};
    bufabi_view_t view;
    bufabi_finished_t finished;
    OK(bufabi_view_row_major(0, UINT8, eight, 1, &view));
    OK(bufabi_buffer_create(endpoint, 64, READ, &in));
    OK(bufabi_heap_create_buffer(heap, 64, READWRITE, &between));
    OK(bufabi_buffer_create(endpoint, 64, READWRITE, &out));
    OK(bufabi_buffer_tensor(between, &view, &second));
    view.strides[0] = 2;
    OK(bufabi_buffer_tensor(in, &view, &first));
    OK(bufabi_buffer_tensor(out, &view, &third));
    OK(bufabi_buffer_map(in, &mapping));
    OK(bufabi_mapping_write(mapping, 0, "0123456789abcdef", 16));
    OK(bufabi_mapping_release(mapping));
    const bufabi_task_args_t args = arguments();
    uint32_t index = 0;
    REFUSED(WORKER_IDLE, bufabi_orchestrator_wait(tasks, 0, &finished));
    add(args, first, INPUT);
    add(args, second, OUTPUT);
    OK(bufabi_task_args_add_scalar(args, 1, &index));
    CHECK(submit(tasks, args, chip, ADD_SCALAR) == 0);
    OK(bufabi_task_args_clear(args));
    add(args, second, INPUT);
    add(args, third, OUTPUT);
    OK(bufabi_task_args_add_scalar(args, 1, &index));
    CHECK(submit(tasks, args, sub, ADD_SCALAR) == 1);
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    CHECK(finished.task == 0 && finished.status == 0 && finished.hops == 0 && finished.resolution_count == 2);
    CHECK(finished.resolutions[0] == BUFABI_RESOLUTION_MAPPED_NOW);
    CHECK(finished.resolutions[1] == BUFABI_RESOLUTION_INHERITED);
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    CHECK(finished.task == 1 && finished.status == 0 && finished.hops == 1 && finished.text[0] == 0);
    OK(bufabi_buffer_map(out, &mapping));
    unsigned char found[16];
    OK(bufabi_mapping_read(mapping, 0, found, 16));
    CHECK(memcmp(found, "2\0004\0006\0008\0:\0c\0e\0g", 16) == 0);
    OK(bufabi_mapping_release(mapping));

    /* Refused at submit; then failures, and what depends on them. */
    uint64_t task = 77;
    bufabi_member_t member = {args, 3, ADD_SCALAR};
    REFUSED(WORKER_UNKNOWN, bufabi_orchestrator_submit(tasks, &member, 1, &task));
    REFUSED(TASK_EMPTY, bufabi_orchestrator_submit(tasks, NULL, 0, &task));
    member.worker = sub;
    OK(bufabi_task_args_set_tag(args, 0, INOUT));
    OK(bufabi_task_args_set_tag(args, 1, INPUT));
    const bufabi_member_t both[2] = {member, {{args.token ^ 1}, sub, ADD_SCALAR}};
    CHECK(bufabi_orchestrator_submit(tasks, both, 2, &task) != 0 && task == 77);
    CHECK(submit(tasks, args, sub, OWN_NUMBER) == 2);
    CHECK(submit(tasks, args, chip, ADD_SCALAR) == 3);
    for (int i = 0; i < 2; ++i) {
        OK(bufabi_orchestrator_wait(tasks, patience, &finished));
        CHECK(finished.status == BUFABI_STATUS_KERNEL_FAILED && finished.is_poisoned == (finished.task == 3));
        CHECK(finished.cause_task == 2 && finished.cause_worker == sub && strstr(finished.text, "100777") != NULL);
    }
    bufabi_status_t failure = 0;
    OK(bufabi_orchestrator_end_run(tasks, patience, &failure));
    CHECK(failure == BUFABI_STATUS_KERNEL_FAILED);
    submit(tasks, args, chip, A_STATUS);
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    CHECK(finished.status == BUFABI_STATUS_KERNEL_SHAPE && finished.is_poisoned == 0);
    OK(bufabi_orchestrator_end_run(tasks, patience, &failure));
    CHECK(failure == BUFABI_STATUS_KERNEL_SHAPE);
    OK(bufabi_orchestrator_end_run(tasks, patience, &failure));
    CHECK(failure == 0);

    /* While it runs, what it names is not released. */
    view.strides[0] = 1;
    OK(bufabi_buffer_map(between, &mapping));
    OK(bufabi_mapping_write(mapping, 0, "\0", 1));
    OK(bufabi_buffer_tensor(between, &view, &flag));
    OK(bufabi_task_args_clear(args));
    add(args, flag, INPUT);
    submit(tasks, args, other, WAIT_FOR_FLAG);
    REFUSED(TIMED_OUT, bufabi_orchestrator_wait(tasks, 1000000, &finished));
    REFUSED(BUSY, bufabi_buffer_release(between));
    OK(bufabi_mapping_write(mapping, 0, "\1", 1));
    OK(bufabi_mapping_release(mapping));
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    OK(bufabi_buffer_release(between));

    device_memory(tasks, chip, sub);

    /* A worker that ends takes its task with it, and no other. */
    OK(bufabi_task_args_clear(args));
    OK(bufabi_orchestrator_pid(tasks, other, &pid));
    submit(tasks, args, other, DIE);
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    CHECK(finished.status == BUFABI_STATUS_WORKER_DIED && strstr(finished.text, "other") != NULL);
    member.arguments = args;
    member.worker = other;
    REFUSED(WORKER_DIED, bufabi_orchestrator_submit(tasks, &member, 1, &task));

    bufabi_descriptor_t descriptor;
    size_t kept = 9;
    OK(bufabi_buffer_descriptor(in, &descriptor));
    OK(bufabi_buffer_release(in));
    OK(bufabi_orchestrator_release_imports(tasks, &descriptor.identity, patience, NULL, 0, &kept));
    CHECK(kept == 0);
    OK(bufabi_buffer_release(out));
    OK(bufabi_task_args_release(args));
    OK(bufabi_orchestrator_release(tasks));
    REFUSED(HANDLE_RELEASED, bufabi_orchestrator_wait(tasks, 0, &finished));

    uint32_t kernel = 0;
    OK(bufabi_kernel_number("matmul", 6, 1, &kernel));
    REFUSED(KERNEL_UNKNOWN, bufabi_kernel_number("mat", 3, 0, &kernel));
    REFUSED(NULL_POINTER, bufabi_kernel_number(NULL, 3, 0, &kernel));
    OK(bufabi_heap_release(heap));
    OK(bufabi_endpoint_release(endpoint));
}

/* Every handle of one kind, where one of another is due, forged, zero, and all bits set. */
/* The host's end of a queue, beside a task that writes the frozen bytes by itself. */
static void regions_and_queues(void) {
    const bufabi_endpoint_t none = {0};
    const bufabi_vmm_t no_vmm = {0};
    bufabi_endpoint_t endpoint = {0};
    bufabi_consumer_t consumer = {0};
    bufabi_region_t region = {0}, attached = {0};
    bufabi_queue_t queue = {0};
    uint64_t payload_bytes = 0, counter_bytes = 0, six[6], twelve[12];
    OK(bufabi_endpoint_create(8, &endpoint));
    OK(bufabi_consumer_create(none, no_vmm, 4, &consumer));
    OK(bufabi_queue_bytes(4, 128, 192, &payload_bytes, &counter_bytes));
    CHECK(payload_bytes == 576 && counter_bytes == 384);
    REFUSED(QUEUE_DEPTH, bufabi_queue_bytes(3, 128, 192, &payload_bytes, &counter_bytes));
    REFUSED(OVERLAPPING, bufabi_queue_bytes(4, 128, 192, &payload_bytes, &payload_bytes));
    REFUSED(REGION_COUNTER, bufabi_region_create(endpoint, 576, 6, &region));
    REFUSED(NULL_POINTER, bufabi_region_create(endpoint, 576, 384, NULL));
    OK(bufabi_region_create(endpoint, 576, 384, &region));
    OK(bufabi_region_scalars(region, six));
    REFUSED(OVERLAPPING, bufabi_queue_scalars(six, 4, 128, 192, six));
    OK(bufabi_queue_scalars(six, 4, 128, 192, twelve));
    CHECK(twelve[6] == 0x4c33513200010001u && twelve[7] == 4 && twelve[10] == 576);
    bufabi_descriptor_t payload, counter;
    OK(bufabi_region_descriptors(region, &payload, &counter));
    REFUSED(OVERLAPPING, bufabi_region_descriptors(region, &payload, &payload));
    REFUSED(REGION_PARTS, bufabi_region_attach(consumer, &counter, &payload, &attached));
    OK(bufabi_region_attach(consumer, &payload, &counter, &attached));
    REFUSED(OTHER_OWNER, bufabi_region_descriptors(attached, &payload, &counter));
    /* What the task sees: the same bytes, mapped a second time. */
    uint64_t there[6];
    OK(bufabi_region_scalars(attached, there));
    volatile uint64_t *slots = (volatile uint64_t *)(uintptr_t)there[2];
    volatile uint32_t *counters = (volatile uint32_t *)(uintptr_t)there[4];
    CHECK(there[2] != six[2]);
    REFUSED(QUEUE_SIZE, bufabi_queue_attach(region, 8, 128, 192, 0, &queue));
    OK(bufabi_queue_attach(region, 4, 128, 192, 0, &queue));
    OK(bufabi_queue_enqueue(queue, BUFABI_QUEUE_DATA, "twelve bytes", 12, 0));
    CHECK(counters[0] == 1 && slots[0] == 1 && slots[1] == 1 && slots[2] == 256 && slots[3] == 12);
    CHECK(memcmp((const void *)(uintptr_t)(there[2] + 256), "twelve bytes", 12) == 0);
    REFUSED(MESSAGE_TOO_LARGE, bufabi_queue_enqueue(queue, BUFABI_QUEUE_DATA, (const void *)(uintptr_t)six[2], 129, 0));
    REFUSED(OPTION_UNKNOWN, bufabi_queue_enqueue(queue, 2, NULL, 0, 0));
    REFUSED(NULL_POINTER, bufabi_queue_enqueue(queue, BUFABI_QUEUE_DATA, NULL, 1, 0));
    /* An output, as the task writes it: bytes, slot, tail. */
    bufabi_queue_message_t message;
    unsigned char out[8];
    uint64_t opcode = 0;
    size_t nbytes = 0;
    REFUSED(TIMED_OUT, bufabi_queue_peek(queue, 0, &message));
    memcpy((void *)(uintptr_t)(there[2] + 384), "answer", 6);
    slots[17] = 3, slots[18] = 384, slots[19] = 6, slots[16] = 1;
    __atomic_store_n(&counters[32], 1, __ATOMIC_RELEASE);
    OK(bufabi_queue_peek(queue, 1000000000, &message));
    CHECK(message.handle == 0 && message.nbytes == 6 && message.opcode == 3 && message.address == six[2] + 384);
    REFUSED(BUFFER_TOO_SMALL, bufabi_queue_read(queue, 0, out, 5, &nbytes));
    CHECK(nbytes == 6);
    REFUSED(OVERLAPPING, bufabi_queue_read(queue, 0, &nbytes, 8, &nbytes));
    OK(bufabi_queue_dequeue(queue, out, 8, 0, &opcode, &nbytes));
    CHECK(nbytes == 6 && opcode == 3 && memcmp(out, "answer", 6) == 0 && counters[48] == 1);
    bufabi_queue_reservation_t reservation;
    OK(bufabi_queue_reserve(queue, 40, 0, &reservation));
    memcpy((void *)(uintptr_t)reservation.address, "in place", 8);
    OK(bufabi_queue_write(queue, reservation.number, 8, "!", 1));
    OK(bufabi_queue_commit(queue, reservation.number, BUFABI_QUEUE_DATA, 9));
    CHECK(counters[0] == 2 && slots[7] == 9);
    OK(bufabi_queue_request_stop(queue, 0));
    REFUSED(QUEUE_STOPPED, bufabi_queue_enqueue(queue, BUFABI_QUEUE_DATA, NULL, 0, 0));
    int32_t aborted = 9;
    OK(bufabi_queue_peer_aborted(queue, &aborted));
    CHECK(aborted == 0);
    OK(bufabi_queue_poison(queue));
    /* The task's count goes back, which ends the queue and tells the task. */
    counters[32] = 0;
    REFUSED(QUEUE_COUNT, bufabi_queue_peek(queue, 0, &message));
    REFUSED(QUEUE_COUNT, bufabi_queue_poison(queue));
    REFUSED(QUEUE_COUNT, bufabi_queue_release(queue, 7));
    REFUSED(QUEUE_COUNT, bufabi_queue_cancel(queue, 7));
    CHECK(counters[64] == 1);
    OK(bufabi_queue_abort(queue));
    REFUSED(VIEWS_ALIVE, bufabi_region_release(region, 0));
    OK(bufabi_queue_detach(queue));
    REFUSED(HANDLE_RELEASED, bufabi_queue_detach(queue));
    REFUSED(HANDLE_KIND, bufabi_queue_poison((bufabi_queue_t){region.token}));
    OK(bufabi_region_release(attached, 0));
    OK(bufabi_region_release(region, 0));
    REFUSED(HANDLE_RELEASED, bufabi_region_release(region, 0));
    bufabi_vmm_t vmm = {0};
    OK(bufabi_vmm_create(endpoint, 0, 0, &vmm));
    REFUSED(OPTION_UNKNOWN, bufabi_region_create_shareable(endpoint, vmm, 576, 384, 2, &region));
    OK(bufabi_region_create_shareable(endpoint, vmm, 576, 384, BUFABI_ADMISSION_ANYONE, &region));
    OK(bufabi_region_release(region, 0));
    OK(bufabi_vmm_release(vmm));
    uint32_t live = 9;
    OK(bufabi_endpoint_live(endpoint, &live));
    CHECK(live == 0);
    OK(bufabi_consumer_release(consumer));
    OK(bufabi_endpoint_release(endpoint));
}

static void handles_of_the_wrong_kind(void) {
    bufabi_endpoint_t endpoint = {0};
    bufabi_consumer_t consumer = {0};
    bufabi_buffer_t buffer = {0};
    bufabi_mapping_t mapping = {0};
    bufabi_vmm_t vmm = {0};
    bufabi_hold_t hold = {0};
    bufabi_tracker_t tracker = {0};
    bufabi_tracker_capacities_t capacities;
    memset(&capacities, 0, sizeof capacities);
    capacities.tasks = 1;
    size_t index = 0;
    const bufabi_task_args_t args = arguments();
    OK(bufabi_endpoint_create(1, &endpoint));
    OK(bufabi_vmm_create(endpoint, 0, 0, &vmm));
    OK(bufabi_consumer_create(endpoint, vmm, 0, &consumer));
    OK(bufabi_buffer_create(endpoint, 1, READ, &buffer));
    OK(bufabi_buffer_map(buffer, &mapping));
    OK(bufabi_endpoint_hold(endpoint, NULL, 0, &index, &hold));
    OK(bufabi_tracker_create(&capacities, BUFABI_POLICY_PRODUCERS, &tracker));
    const uint64_t tokens[] = {args.token,    endpoint.token, vmm.token,     consumer.token, buffer.token,
                               mapping.token, hold.token,     tracker.token, 0,              UINT64_MAX};
    enum { COUNT = sizeof tokens / sizeof tokens[0] };
    for (int i = 0; i < COUNT; ++i) {
        const uint64_t token = tokens[i];
        const int32_t wrong = i < COUNT - 2 ? BUFABI_STATUS_HANDLE_KIND : BUFABI_STATUS_HANDLE_UNKNOWN;
#define WRONG(kind, call) if (token != kind.token) CHECK((call) == wrong)
        bufabi_descriptor_t descriptor;
        bufabi_mapping_t other_mapping;
        int32_t number = 0;
        uint32_t count = 0;
        WRONG(args, bufabi_task_args_clear((bufabi_task_args_t){token}));
        WRONG(args, bufabi_task_args_release((bufabi_task_args_t){token}));
        WRONG(endpoint, bufabi_endpoint_live((bufabi_endpoint_t){token}, &count));
        WRONG(endpoint, bufabi_endpoint_release((bufabi_endpoint_t){token}));
        WRONG(vmm, bufabi_vmm_serve((bufabi_vmm_t){token}));
        WRONG(vmm, bufabi_vmm_peer_number((bufabi_vmm_t){token}, &number));
        WRONG(vmm, bufabi_vmm_release((bufabi_vmm_t){token}));
        WRONG(consumer, bufabi_consumer_evict_unused((bufabi_consumer_t){token}, &count));
        WRONG(consumer, bufabi_consumer_release((bufabi_consumer_t){token}));
        WRONG(buffer, bufabi_buffer_descriptor((bufabi_buffer_t){token}, &descriptor));
        WRONG(buffer, bufabi_buffer_map((bufabi_buffer_t){token}, &other_mapping));
        WRONG(buffer, bufabi_buffer_release((bufabi_buffer_t){token}));
        WRONG(buffer, bufabi_buffer_release_when_idle((bufabi_buffer_t){token}, UINT64_MAX));
        WRONG(buffer, bufabi_buffer_abandon((bufabi_buffer_t){token}));
        WRONG(mapping, bufabi_mapping_write((bufabi_mapping_t){token}, 0, "x", 1));
        WRONG(mapping, bufabi_mapping_release((bufabi_mapping_t){token}));
        WRONG(hold, bufabi_hold_release((bufabi_hold_t){token}));
        WRONG(tracker, bufabi_tracker_release((bufabi_tracker_t){token}));
        bufabi_consumer_t made = {0};
        if (token != endpoint.token && token != 0)
            CHECK(bufabi_consumer_create((bufabi_endpoint_t){token}, vmm, 1, &made) == wrong);
        if (token != vmm.token && token != 0)
            CHECK(bufabi_consumer_create(endpoint, (bufabi_vmm_t){token}, 1, &made) == wrong);
        /* A bit that is off makes another number, which is none, or no more. */
        for (int bit = 0; bit < 56; ++bit) {
            const bufabi_status_t status = bufabi_hold_release((bufabi_hold_t){hold.token ^ UINT64_C(1) << bit});
            CHECK(status == BUFABI_STATUS_HANDLE_UNKNOWN || status == BUFABI_STATUS_HANDLE_RELEASED);
        }
    }
    OK(bufabi_task_args_release(args));
    OK(bufabi_mapping_release(mapping));
    OK(bufabi_hold_release(hold));
    OK(bufabi_buffer_release(buffer));
    OK(bufabi_consumer_release(consumer));
    OK(bufabi_vmm_release(vmm));
    OK(bufabi_endpoint_release(endpoint));
    OK(bufabi_tracker_release(tracker));
}

enum { THREADS = 4, ROUNDS = 50 };

struct race {
    bufabi_consumer_t consumer;
    bufabi_descriptor_t descriptor;
    bufabi_task_args_t args;
    pthread_barrier_t start;
};

static void *race(void *context) {
    struct race *race = context;
    bufabi_mapping_t mapping;
    int32_t resolution = -1;
    uint32_t index;
    uintptr_t bad = 0;
    pthread_barrier_wait(&race->start);
    bad += bufabi_consumer_import(race->consumer, &race->descriptor, &resolution, &mapping) != BUFABI_STATUS_OK;
    bad += bufabi_task_args_add_scalar(race->args, 1, &index) != BUFABI_STATUS_OK;
    bad += bufabi_mapping_release(mapping) != BUFABI_STATUS_OK;
    /* Some thread releases it first; the others are told. */
    const bufabi_status_t status = bufabi_task_args_release(race->args);
    bad += status != BUFABI_STATUS_OK && status != BUFABI_STATUS_HANDLE_RELEASED;
    return (void *)(bad << 1 | (status == BUFABI_STATUS_OK));
}

static void threads(void) {
    bufabi_endpoint_t endpoint = {0};
    const bufabi_endpoint_t none = {0};
    const bufabi_vmm_t no_vmm = {0};
    OK(bufabi_endpoint_create(0, &endpoint));
    for (int round = 0; round < ROUNDS; ++round) {
        struct race shared;
        bufabi_buffer_t buffer = {0};
        OK(bufabi_buffer_create(endpoint, 64, READWRITE, &buffer));
        OK(bufabi_buffer_descriptor(buffer, &shared.descriptor));
        OK(bufabi_consumer_create(none, no_vmm, 4, &shared.consumer));
        shared.args = arguments();
        pthread_t thread[THREADS];
        CHECK(pthread_barrier_init(&shared.start, NULL, THREADS) == 0);
        for (int i = 0; i < THREADS; ++i) CHECK(pthread_create(&thread[i], NULL, race, &shared) == 0);
        uintptr_t released = 0;
        for (int i = 0; i < THREADS; ++i) {
            void *result = NULL;
            CHECK(pthread_join(thread[i], &result) == 0);
            /* Adding to what another has released already is the one thing that may be refused. */
            CHECK((uintptr_t)result >> 1 <= 1);
            released += (uintptr_t)result & 1;
        }
        CHECK(released == 1);
        bufabi_consumer_counters_t counters;
        OK(bufabi_consumer_counters(shared.consumer, &counters));
        CHECK(counters.imports == 1 && counters.hits == THREADS - 1);
        pthread_barrier_destroy(&shared.start);
        OK(bufabi_consumer_release(shared.consumer));
        OK(bufabi_buffer_release(buffer));
    }
    OK(bufabi_endpoint_release(endpoint));
}

int main(int argc, char **argv) {
    const int has_process_descriptors = argc < 2 || strcmp(argv[1], "without-process-descriptors") != 0;
    versions_and_words();
    records();
    blobs();
    rights_and_overlaps();
    task_arguments();
    dependencies();
    owners_and_consumers();
    capacities();
    inherited_memory();
    /* Workers are started while there is one thread. */
    if (has_process_descriptors) worker_processes();
    shared_device_memory(has_process_descriptors);
    regions_and_queues();
    handles_of_the_wrong_kind();
    threads();
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
