/* The host's end of a queue, beside a task that writes the frozen bytes by itself. */
#include "check.h"

#include <pthread.h>
#include <string.h>

/* Waits for an output as long as it takes; gives the status. */
static void *wait_for_output(void *queue) {
    static bufabi_queue_message_t message;
    return (void *)(intptr_t)bufabi_queue_peek(*(bufabi_queue_t *)queue, UINT64_MAX, &message);
}

/* While one thread waits, another one sends at once, and giving up ends the wait. */
static void a_wait_that_another_thread_ends(bufabi_region_t region) {
    bufabi_queue_t queue = {0};
    pthread_t receiver;
    void *status = NULL;
    OK(bufabi_queue_attach(region, 4, 128, 192, 0, &queue));
    CHECK(pthread_create(&receiver, NULL, wait_for_output, &queue) == 0);
    for (int i = 0; i < 4; i++)
        OK(bufabi_queue_enqueue(queue, BUFABI_QUEUE_DATA, NULL, 0, 0));
    REFUSED(TIMED_OUT, bufabi_queue_enqueue(queue, BUFABI_QUEUE_DATA, NULL, 0, 3000000));
    OK(bufabi_queue_abort(queue));
    CHECK(pthread_join(receiver, &status) == 0);
    REFUSED(QUEUE_ABORTED, (bufabi_status_t)(intptr_t)status);
    OK(bufabi_queue_detach(queue));
}

void regions_and_queues(void) {
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
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_queue_bytes(4, 128, 192, &payload_bytes, &payload_bytes));
    REFUSED(REGION_COUNTER, bufabi_region_create(endpoint, 576, 6, &region));
    REFUSED(NULL_POINTER, bufabi_region_create(endpoint, 576, 384, NULL));
    OK(bufabi_region_create(endpoint, 576, 384, &region));
    OK(bufabi_region_scalars(region, six));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_queue_scalars(six, 4, 128, 192, six));
    OK(bufabi_queue_scalars(six, 4, 128, 192, twelve));
    CHECK(twelve[6] == 0x4c33513200010001u && twelve[7] == 4 && twelve[10] == 576);
    bufabi_descriptor_t payload, counter;
    OK(bufabi_region_descriptors(region, &payload, &counter));
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_region_descriptors(region, &payload, &payload));
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
    char text[200];
    size_t needed = 0;
    OK(bufabi_error_text(text, sizeof text, &needed));
    CHECK(strstr(text, "found 2") != NULL);
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
    REFUSED(OVERLAPPING_ARGUMENTS, bufabi_queue_read(queue, 0, &nbytes, 8, &nbytes));
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
    REFUSED(RELEASED, bufabi_region_scalars(region, six));
    OK(bufabi_error_text(text, sizeof text, &needed));
    CHECK(strcmp(text, "region_scalars: the region was released, or is being released") == 0);
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
    a_wait_that_another_thread_ends(region);
    OK(bufabi_region_release(region, 0));
    OK(bufabi_vmm_release(vmm));
    uint32_t live = 9;
    OK(bufabi_endpoint_live(endpoint, &live));
    CHECK(live == 0);
    OK(bufabi_consumer_release(consumer));
    OK(bufabi_endpoint_release(endpoint));
}
