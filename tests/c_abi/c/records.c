/* Records, and what follows from them alone. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

void versions_and_words(void) {
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

void records(void) {
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

void blobs(void) {
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

void rights_and_overlaps(void) {
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
