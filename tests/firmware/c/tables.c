/* Tables of owners and imports in static storage, as firmware has them: used rightly, and named wrongly. */
#include "misuse.h"

#include <stddef.h>

#include "measure.h"

#define expect(found, expected) expected_number(&so_far, (found), (expected))

enum { SLOTS = 4 };
static _Alignas(BUFABI_TABLE_ALIGNMENT) unsigned char owned[BUFABI_OWNER_TABLE_BASE + SLOTS * BUFABI_OWNER_TABLE_PER_SLOT];
static _Alignas(BUFABI_TABLE_ALIGNMENT) unsigned char
    imported[BUFABI_IMPORT_TABLE_BASE + SLOTS * BUFABI_IMPORT_TABLE_PER_SLOT];
static const uint8_t incarnation[8] = {9, 8, 7, 6, 5, 4, 3, 2};
static const uint64_t seed[2] = {0x0123456789abcdef, 0xfedcba9876543210};

static bufabi_status_t describe(const bufabi_identity_t *identity, uint64_t nbytes, bufabi_descriptor_t *descriptor) {
    bufabi_descriptor_fields_t fields = {0};
    fields.identity = *identity;
    fields.nbytes = nbytes;
    fields.backend_kind = 4; /* DEVICE_MALLOC */
    fields.base = 0x2000;
    return bufabi_descriptor_encode(&fields, descriptor);
}

static void owners(struct expectations *expectations, bufabi_owner_table_t *table) {
    struct expectations so_far = *expectations;
    bufabi_identity_t first, pair[2], none = {0};
    uint64_t value = 0;
    const uint64_t values[2] = {21, 22};
    uint32_t holds = 9, live = 9, capacity = 9;
    expect(MEASURED(owner_table_insert, bufabi_owner_table_insert(table, 11, &first)), BUFABI_STATUS_OK);
    expect(MEASURED(owner_table_insert_pair, bufabi_owner_table_insert_pair(table, &values, &pair)), BUFABI_STATUS_OK);
    expect(pair[1].buffer_id == pair[0].buffer_id + 1 && first.generation == 1, 1);
    expect(MEASURED(owner_table_get, bufabi_owner_table_get(table, &pair[1], &value)), BUFABI_STATUS_OK);
    expect((int64_t)value, 22);
    expect(MEASURED(owner_table_hold, bufabi_owner_table_hold(table, &first, &holds)), BUFABI_STATUS_OK);
    expect(bufabi_owner_table_begin_release(table, &first, &value), BUFABI_STATUS_BUSY);
    expect(MEASURED(owner_table_unhold, bufabi_owner_table_unhold(table, &first, &holds)), BUFABI_STATUS_OK);
    expect(holds, 0);
    expect(bufabi_owner_table_finish_release(table, &first, &value), BUFABI_STATUS_NOT_CLOSING);
    expect(MEASURED(owner_table_begin_release, bufabi_owner_table_begin_release(table, &first, &value)),
           BUFABI_STATUS_OK);
    expect(bufabi_owner_table_get(table, &first, &value), BUFABI_STATUS_CLOSING);
    expect(MEASURED(owner_table_finish_release, bufabi_owner_table_finish_release(table, &first, &value)),
           BUFABI_STATUS_OK);
    expect((int64_t)value, 11);
    expect(bufabi_owner_table_get(table, &first, &value), BUFABI_STATUS_STALE);
    expect(bufabi_owner_table_get(table, &none, &value), BUFABI_STATUS_GENERATION);
    none.generation = 1;
    expect(bufabi_owner_table_get(table, &none, &value), BUFABI_STATUS_OTHER_OWNER);
    first.buffer_id = 99;
    expect(bufabi_owner_table_get(table, &first, &value), BUFABI_STATUS_NEVER_EXISTED);
    expect(MEASURED(owner_table_count, bufabi_owner_table_count(table, &live, &capacity)), BUFABI_STATUS_OK);
    expect(live == 2 && capacity == SLOTS, 1);
    *expectations = so_far;
}

static void imports(struct expectations *expectations, bufabi_import_table_t *table) {
    struct expectations so_far = *expectations;
    bufabi_identity_t identity = {{1, 2, 3}, 1, 1, {0}}, evicted;
    bufabi_descriptor_t descriptor, other;
    uint64_t value = 0;
    uint32_t pins = 9, count = 9, capacity = 9;
    expect(describe(&identity, 64, &descriptor), BUFABI_STATUS_OK);
    expect(describe(&identity, 65, &other), BUFABI_STATUS_OK);
    expect(bufabi_import_table_find(table, &descriptor, &value), BUFABI_STATUS_NOT_IMPORTED);
    expect(MEASURED(import_table_insert, bufabi_import_table_insert(table, &descriptor, 31)), BUFABI_STATUS_OK);
    expect(bufabi_import_table_insert(table, &descriptor, 32), BUFABI_STATUS_ALREADY_IMPORTED);
    expect(bufabi_import_table_insert(table, &other, 32), BUFABI_STATUS_IMPORT_CONFLICT);
    expect(bufabi_import_table_find(table, &other, &value), BUFABI_STATUS_IMPORT_CONFLICT);
    expect(MEASURED(import_table_find, bufabi_import_table_find(table, &descriptor, &value)), BUFABI_STATUS_OK);
    expect((int64_t)value, 31);
    expect(MEASURED(import_table_pin, bufabi_import_table_pin(table, &identity, &pins)), BUFABI_STATUS_OK);
    expect(bufabi_import_table_remove(table, &identity, &value), BUFABI_STATUS_VIEWS_ALIVE);
    expect(bufabi_import_table_evict(table, &evicted, &value), BUFABI_STATUS_NOT_IMPORTED);
    expect(MEASURED(import_table_unpin, bufabi_import_table_unpin(table, &identity, &pins)), BUFABI_STATUS_OK);
    expect(MEASURED(import_table_remove, bufabi_import_table_remove(table, &identity, &value)), BUFABI_STATUS_OK);
    for (uint64_t id = 1; id <= SLOTS + 1; id++) {
        identity.buffer_id = id;
        expect(describe(&identity, 64, &descriptor), BUFABI_STATUS_OK);
        expect(bufabi_import_table_insert(table, &descriptor, 40 + id),
               id <= SLOTS ? BUFABI_STATUS_OK : BUFABI_STATUS_IMPORT_TABLE_FULL);
    }
    expect(MEASURED(import_table_evict, bufabi_import_table_evict(table, &evicted, &value)), BUFABI_STATUS_OK);
    expect(value == 41 && evicted.buffer_id == 1, 1);
    expect(MEASURED(import_table_count, bufabi_import_table_count(table, &count, &capacity)), BUFABI_STATUS_OK);
    expect(count == SLOTS - 1 && capacity == SLOTS, 1);
    *expectations = so_far;
}

uint32_t use_of_tables(void) {
    struct expectations so_far = {0, 0};
    bufabi_owner_table_t *owner = NULL;
    bufabi_import_table_t *import = NULL;
    bufabi_identity_t identity = {{0}, 1, 1, {0}};
    uint64_t value = 7;
    for (size_t i = 0; i < sizeof owned; i++)
        owned[i] = 0;

    expect(bufabi_owner_table_get((void *)owned, &identity, &value), BUFABI_STATUS_HANDLE_UNKNOWN);
    expect(bufabi_owner_table_get(NULL, &identity, &value), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_owner_table_get((void *)(owned + 4), &identity, &value), BUFABI_STATUS_MISALIGNED);
    expect(bufabi_owner_table_create(owned + 8, sizeof owned - 8, &incarnation, &owner), BUFABI_STATUS_MISALIGNED);
    expect(bufabi_owner_table_create(owned, BUFABI_OWNER_TABLE_BASE, &incarnation, &owner),
           BUFABI_STATUS_BUFFER_TOO_SMALL);
    expect(bufabi_owner_table_create(owned, SIZE_MAX, &incarnation, &owner), BUFABI_STATUS_LENGTH);
    expect(bufabi_owner_table_create(owned, sizeof owned, NULL, &owner), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_owner_table_create(owned, sizeof owned, &incarnation, (void *)owned),
           BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(owner == NULL && value == 7, 1);

    expect(MEASURED(owner_table_create, bufabi_owner_table_create(owned, sizeof owned, &incarnation, &owner)),
           BUFABI_STATUS_OK);
    expect(MEASURED(import_table_create, bufabi_import_table_create(imported, sizeof imported, &seed, &import)),
           BUFABI_STATUS_OK);
    owners(&so_far, owner);
    imports(&so_far, import);

    expect(bufabi_owner_table_get(owner, &identity, (void *)owned), BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_owner_table_get(owner, &identity, (void *)&identity), BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_import_table_release((void *)owner), BUFABI_STATUS_HANDLE_KIND);
    expect(bufabi_owner_table_release((void *)import), BUFABI_STATUS_HANDLE_KIND);
    expect(MEASURED(owner_table_release, bufabi_owner_table_release(owner)), BUFABI_STATUS_OK);
    expect(bufabi_owner_table_release(owner), BUFABI_STATUS_HANDLE_RELEASED);
    expect(bufabi_owner_table_get(owner, &identity, &value), BUFABI_STATUS_HANDLE_RELEASED);
    expect(MEASURED(import_table_release, bufabi_import_table_release(import)), BUFABI_STATUS_OK);
    expect(bufabi_import_table_release(import), BUFABI_STATUS_HANDLE_RELEASED);
    return so_far.wrong;
}
