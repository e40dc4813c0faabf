/* A task's arguments, and which tasks must wait for which. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

void task_arguments(void) {
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

void dependencies(void) {
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
