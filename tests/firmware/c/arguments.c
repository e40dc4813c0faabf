/* Impossible arguments of the checks: NULL, misaligned, overlapping, past the end of all addresses, of the wrong length. */
#include "misuse.h"

#include <stddef.h>

#include "bufabi.h"

#define expect(found, expected) expected_number(&so_far, (found), (expected))

static _Alignas(8) unsigned char record[256];
static _Alignas(64) unsigned char chip_tensor[sizeof(bufabi_chip_tensor_t)];
static bufabi_chip_storage_task_args_t task_args;

static int same_text(const char *left, const char *right) {
    size_t i = 0;
    while (left[i] == right[i] && left[i] != '\0')
        i++;
    return left[i] == right[i];
}

static bufabi_status_t resolve(void *context, const void *tensor, uint64_t *base) {
    (void)context;
    (void)tensor;
    *base = 1;
    return BUFABI_STATUS_OK;
}

uint32_t misuse_of_arguments(void) {
    struct expectations so_far = {0, 0};
    int32_t counts[2] = {77, 78};
    unsigned char *misaligned = (unsigned char *)counts + 1;
    void *end = (void *)(UINTPTR_MAX - 7); /* eight bytes before the end of all addresses */
    for (size_t i = 0; i < sizeof record; i++)
        record[i] = 0;

    expect(bufabi_descriptor_check(NULL, sizeof(bufabi_descriptor_t)), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_descriptor_check(NULL, 0), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_descriptor_check(record, 0), BUFABI_STATUS_SIZE);
    expect(bufabi_descriptor_check(record, 87), BUFABI_STATUS_SIZE);
    expect(bufabi_descriptor_check(record, 89), BUFABI_STATUS_SIZE);
    expect(bufabi_descriptor_check(record, SIZE_MAX), BUFABI_STATUS_LENGTH);
    expect(bufabi_descriptor_check(end, 88), BUFABI_STATUS_LENGTH);
    expect(bufabi_descriptor_check(record + 1, 88), BUFABI_STATUS_MAGIC);

    expect(bufabi_tensor_check(NULL, sizeof(bufabi_tensor_t)), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_tensor_check(record, 143), BUFABI_STATUS_SIZE);
    expect(bufabi_tensor_check(record, 145), BUFABI_STATUS_SIZE);
    expect(bufabi_tensor_check(record, SIZE_MAX), BUFABI_STATUS_LENGTH);
    expect(bufabi_tensor_check(end, 144), BUFABI_STATUS_LENGTH);

    expect(bufabi_blob_check(NULL, 8, &counts[0], &counts[1]), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_blob_check(record, 8, NULL, &counts[1]), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_blob_check(record, 8, &counts[0], NULL), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_blob_check(record, 8, (int32_t *)(void *)misaligned, &counts[1]), BUFABI_STATUS_MISALIGNED);
    expect(bufabi_blob_check(record, 8, &counts[0], (int32_t *)(void *)misaligned), BUFABI_STATUS_MISALIGNED);
    expect(bufabi_blob_check(record, 8, &counts[0], &counts[0]), BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_blob_check(record, 8, (int32_t *)(void *)record, &counts[1]), BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_blob_check(record, 8, &counts[0], (int32_t *)(void *)(record + 4)),
           BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_blob_check(record, SIZE_MAX, &counts[0], &counts[1]), BUFABI_STATUS_LENGTH);
    expect(bufabi_blob_check(end, 9, &counts[0], &counts[1]), BUFABI_STATUS_LENGTH);
    expect(bufabi_blob_check(record, 7, &counts[0], &counts[1]), BUFABI_STATUS_SHORT);
    expect(counts[0] == 77 && counts[1] == 78, 1);
    /* An out-parameter right behind the bytes is no overlap. */
    expect(bufabi_blob_check(record, 8, (int32_t *)(void *)(record + 8), &counts[1]), BUFABI_STATUS_OK);
    expect(counts[1], 0);

    expect(bufabi_chip_tensor_from(NULL, 144, 0, chip_tensor), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_chip_tensor_from(record, 144, 0, NULL), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_chip_tensor_from(record, 144, 0, chip_tensor + 8), BUFABI_STATUS_MISALIGNED);
    expect(bufabi_chip_tensor_from(record, 144, 0, chip_tensor + 32), BUFABI_STATUS_MISALIGNED);
    expect(bufabi_chip_tensor_from(chip_tensor + 64, 144, 0, chip_tensor), BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_chip_tensor_from(record, 143, 0, chip_tensor), BUFABI_STATUS_SIZE);
    expect(bufabi_chip_tensor_from(record, SIZE_MAX, 0, chip_tensor), BUFABI_STATUS_LENGTH);
    expect(bufabi_chip_tensor_from(record, 144, 0, chip_tensor), BUFABI_STATUS_MAGIC);

    expect(bufabi_blob_materialize(NULL, 8, resolve, NULL, &task_args, counts), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_blob_materialize(record, 8, NULL, NULL, &task_args, counts), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_blob_materialize(record, 8, resolve, NULL, NULL, counts), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_blob_materialize(record, 8, resolve, NULL, &task_args, NULL), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_blob_materialize(record, 8, resolve, NULL, (unsigned char *)&task_args + 8, counts),
           BUFABI_STATUS_MISALIGNED);
    expect(bufabi_blob_materialize(&task_args, 8, resolve, NULL, &task_args, counts),
           BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_blob_materialize(record, 8, resolve, NULL, &task_args, &task_args.tensor_count),
           BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_blob_materialize(record, 8, resolve, NULL, &task_args, counts), BUFABI_STATUS_OK);
    expect(task_args.tensor_count == 0 && task_args.scalar_count == 0, 1);

    expect((int32_t)(bufabi_abi_version() >> 16), BUFABI_ABI_VERSION >> 16);
    expect((int32_t)bufabi_identity_size(), sizeof(bufabi_identity_t));
    expect((int32_t)bufabi_descriptor_size(), sizeof(bufabi_descriptor_t));
    expect((int32_t)bufabi_tensor_size(), sizeof(bufabi_tensor_t));
    expect((int32_t)bufabi_blob_header_size(), sizeof(bufabi_blob_header_t));
    expect((int32_t)bufabi_chip_tensor_size(), sizeof(bufabi_chip_tensor_t));
    expect((int32_t)bufabi_chip_storage_task_args_size(), sizeof(bufabi_chip_storage_task_args_t));
    expect(same_text(bufabi_status_name(0), "ok"), 1);
    expect(same_text(bufabi_status_name(-1), "unknown_status"), 1);
    expect(same_text(bufabi_status_name(INT32_MIN), "unknown_status"), 1);
    expect(same_text(bufabi_status_fault(BUFABI_STATUS_MAGIC), "sender"), 1);
    expect(same_text(bufabi_status_fault(BUFABI_STATUS_LENGTH), "caller"), 1);
    expect(same_text(bufabi_status_fault(INT32_MAX), "unknown_status"), 1);

    return so_far.wrong;
}
