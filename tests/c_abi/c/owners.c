/* Owners and consumers of shared memory, of device memory that is shared by handle, and of memory that is inherited. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

void owners_and_consumers(void) {
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

void capacities(void) {
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

void shared_device_memory(int has_process_descriptors) {
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

void inherited_memory(void) {
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
