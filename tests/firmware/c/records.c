/* Records made and taken apart, numbers that are no value of their enumeration, and relations. */
#include "misuse.h"

#include <stddef.h>

#include "measure.h"

#define expect(found, expected) expected_number(&so_far, (found), (expected))

static bufabi_descriptor_fields_t fields, fields_again;
static bufabi_descriptor_t descriptor, descriptor_again;
static bufabi_view_t view, view_again;
static bufabi_tensor_t tensors[2], tensors_again[2];
static uint64_t scalars[1], scalars_again[1];
static _Alignas(8) unsigned char blob[512];

static int same_bytes(const void *left, const void *right, size_t len) {
    const unsigned char *one = left, *other = right;
    for (size_t i = 0; i < len; i++)
        if (one[i] != other[i])
            return 0;
    return 1;
}

static void set_fields(void) {
    static const unsigned char owner[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    bufabi_descriptor_fields_t none = {0};
    fields = none;
    for (int i = 0; i < 8; i++)
        fields.identity.owner_instance_id[i] = owner[i];
    fields.identity.buffer_id = 1;
    fields.identity.generation = 1;
    fields.nbytes = 4096;
    fields.access = 2;
    fields.backend_kind = 4; /* DEVICE_MALLOC */
    fields.base = 0x1000;
}

/* The status of making a descriptor of fields with one of them changed. */
#define WITH(change) (set_fields(), (change), bufabi_descriptor_encode(&fields, &descriptor_again))

static void enumerations(struct expectations *expectations) {
    struct expectations so_far = *expectations;
    static const int32_t none[] = {-1, 99, INT32_MIN, INT32_MAX, 256, 65536};
    uint32_t nbytes = 7;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        int32_t number = none[i];
        expect(bufabi_rights_check(number, 0), BUFABI_STATUS_ACCESS);
        expect(bufabi_rights_check(0, number), BUFABI_STATUS_TAG);
        expect(bufabi_dtype_size(number, &nbytes), BUFABI_STATUS_DTYPE);
        expect(bufabi_view_row_major(0, number, view.shapes, 1, &view_again), BUFABI_STATUS_DTYPE);
        expect(WITH(fields.access = number), BUFABI_STATUS_ACCESS);
        expect(WITH(fields.backend_kind = number), BUFABI_STATUS_BACKEND_KIND);
        expect(WITH((fields.backend_kind = 3, fields.address_space = number)), BUFABI_STATUS_ADDRESS_SPACE);
    }
    expect(nbytes, 7);
    /* Of each enumeration, every value that it has, and the first that it has not. */
    for (int32_t dtype = 0; dtype <= 15; dtype++)
        expect(MEASURED(dtype_size, bufabi_dtype_size(dtype, &nbytes)), dtype < 15 ? BUFABI_STATUS_OK : BUFABI_STATUS_DTYPE);
    for (int32_t tag = 0; tag <= 5; tag++)
        expect(MEASURED(rights_check, bufabi_rights_check(2, tag)), tag < 5 ? BUFABI_STATUS_OK : BUFABI_STATUS_TAG);
    for (int32_t access = 0; access <= 3; access++)
        expect(WITH(fields.access = access), access < 3 ? BUFABI_STATUS_OK : BUFABI_STATUS_ACCESS);
    expect(bufabi_rights_check(0, 1), BUFABI_STATUS_DENIED);
    *expectations = so_far;
}

static void pointers(struct expectations *expectations) {
    struct expectations so_far = *expectations;
    int32_t relation = -7;
    uint64_t byte = 9;
    size_t counts[2] = {5, 6}, nbytes = 3;
    void *odd = (unsigned char *)&relation + 1;
    expect(bufabi_descriptor_encode(NULL, &descriptor), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_descriptor_encode(&fields, NULL), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_descriptor_encode(&fields, (void *)&fields), BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_descriptor_decode(&descriptor, 87, &fields_again), BUFABI_STATUS_SIZE);
    expect(bufabi_descriptor_decode(NULL, 88, &fields_again), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_view_row_major(0, 0, NULL, 1, &view_again), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_view_row_major(0, 0, view.shapes, 6, &view_again), BUFABI_STATUS_NDIMS);
    expect(bufabi_view_row_major(0, 0, view.shapes, 0, &view_again), BUFABI_STATUS_NDIMS);
    expect(bufabi_view_row_major(0, 0, view.shapes, 1, &view), BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_tensor_encode(&descriptor, NULL, &tensors[0]), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_tensor_encode(&tensors[0].buffer, &view, &tensors[0]), BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_tensor_decode(&tensors[0], 143, &descriptor_again, &view_again), BUFABI_STATUS_SIZE);
    expect(bufabi_tensor_relate(&tensors[0], NULL, &relation), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_tensor_relate(&tensors[0], &tensors[1], odd), BUFABI_STATUS_MISALIGNED);
    expect(bufabi_tensor_relate(&tensors[0], &tensors[1], (void *)&tensors[1]), BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_tensor_first_common(&tensors[0], &tensors[1], (void *)&byte, &byte),
           BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_blob_encode(NULL, 1, scalars, 1, blob, sizeof blob, &nbytes), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_blob_encode(tensors, 2, scalars, 1, blob, 303, &nbytes), BUFABI_STATUS_BUFFER_TOO_SMALL);
    expect(bufabi_blob_encode(tensors, SIZE_MAX, scalars, 1, blob, sizeof blob, &nbytes), BUFABI_STATUS_LENGTH);
    expect(bufabi_blob_encode(tensors, 2, scalars, 1, &tensors[1], 304, &nbytes), BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_blob_decode(blob, 304, tensors_again, 1, scalars_again, 1, &counts[0], &counts[1]),
           BUFABI_STATUS_BUFFER_TOO_SMALL);
    expect(counts[0] == 2 && counts[1] == 1, 1); /* known, so said */
    expect(relation == -7 && byte == 9 && nbytes == 3, 1);
    *expectations = so_far;
}

uint32_t use_of_records(void) {
    struct expectations so_far = {0, 0};
    static const uint32_t shape[2] = {8, 16};
    int32_t equal = -1, relation = -1;
    uint64_t byte = 0;
    size_t nbytes = 0, tensor_count = 0, scalar_count = 0;

    set_fields();
    expect(MEASURED(descriptor_encode, bufabi_descriptor_encode(&fields, &descriptor)), BUFABI_STATUS_OK);
    expect(bufabi_descriptor_check(&descriptor, sizeof descriptor), BUFABI_STATUS_OK);
    expect(MEASURED(descriptor_decode, bufabi_descriptor_decode(&descriptor, sizeof descriptor, &fields_again)),
           BUFABI_STATUS_OK);
    expect(fields_again.nbytes == 4096 && fields_again.base == 0x1000 && fields_again.backend_kind == 4, 1);
    expect(MEASURED(identity_equal, bufabi_identity_equal(&fields.identity, &descriptor.identity, &equal)),
           BUFABI_STATUS_OK);
    expect(equal, 1);
    expect(WITH(fields.base = 0), BUFABI_STATUS_BODY_NULL_BASE);
    expect(WITH(fields.identity.generation = 0), BUFABI_STATUS_GENERATION);
    expect(WITH((fields.backend_kind = 5, fields.access = 2)), BUFABI_STATUS_FORK_COW_ACCESS);
    set_fields();

    expect(MEASURED(view_row_major, bufabi_view_row_major(0, 0, shape, 2, &view)), BUFABI_STATUS_OK);
    expect(view.strides[0] == 16 && view.strides[1] == 1 && view.strides[2] == 0, 1);
    expect(MEASURED(tensor_encode, bufabi_tensor_encode(&descriptor, &view, &tensors[0])), BUFABI_STATUS_OK);
    view.byte_offset = 256;
    expect(bufabi_tensor_encode(&descriptor, &view, &tensors[1]), BUFABI_STATUS_OK);
    view.byte_offset = 4096;
    expect(bufabi_tensor_encode(&descriptor, &view, &tensors_again[0]), BUFABI_STATUS_OUT_OF_BOUNDS);
    view.byte_offset = 0;
    expect(MEASURED(tensor_decode, bufabi_tensor_decode(&tensors[1], sizeof tensors[1], &descriptor_again, &view_again)),
           BUFABI_STATUS_OK);
    expect(same_bytes(&descriptor, &descriptor_again, sizeof descriptor) && view_again.byte_offset == 256, 1);
    expect(MEASURED(tensor_relate, bufabi_tensor_relate(&tensors[0], &tensors[1], &relation)), BUFABI_STATUS_OK);
    expect(relation, BUFABI_RELATION_OVERLAPPING);
    expect(MEASURED(tensor_first_common, bufabi_tensor_first_common(&tensors[0], &tensors[1], &relation, &byte)),
           BUFABI_STATUS_OK);
    expect(relation == BUFABI_RELATION_OVERLAPPING && byte == 256, 1);

    scalars[0] = 0x0123456789abcdef;
    expect(MEASURED(blob_size, bufabi_blob_size(2, 1, &nbytes)), BUFABI_STATUS_OK);
    expect((int64_t)nbytes, 304);
    expect(bufabi_blob_size(SIZE_MAX, 1, &nbytes), BUFABI_STATUS_TOO_MANY_ARGUMENTS);
    nbytes = 0;
    expect(MEASURED(blob_encode, bufabi_blob_encode(tensors, 2, scalars, 1, blob + 1, sizeof blob - 1, &nbytes)),
           BUFABI_STATUS_OK);
    expect((int64_t)nbytes, 304);
    expect(MEASURED(blob_decode, bufabi_blob_decode(blob + 1, nbytes, tensors_again, 2, scalars_again, 1, &tensor_count,
                                                    &scalar_count)),
           BUFABI_STATUS_OK);
    expect(tensor_count == 2 && scalar_count == 1 && scalars_again[0] == scalars[0], 1);
    expect(same_bytes(tensors, tensors_again, sizeof tensors), 1);
    expect(bufabi_blob_encode(tensors, 2, scalars, 1, blob, sizeof blob, &nbytes), BUFABI_STATUS_OK);

    enumerations(&so_far);
    set_fields();
    pointers(&so_far);
    return so_far.wrong;
}
