/* Handles where others are due, forged, and used by several threads at once. */
#include "check.h"

#include <pthread.h>
#include <string.h>

/* Every handle of one kind, where one of another is due, forged, zero, and all bits set. */
void handles_of_the_wrong_kind(void) {
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

void threads(void) {
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
