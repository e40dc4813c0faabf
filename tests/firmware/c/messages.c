/* A task's end of a message queue in static memory, whose other side is written here byte by byte: used rightly, and wrongly. */
#include "misuse.h"

#include <stddef.h>

#include "measure.h"

#define expect(found, expected) expected_number(&so_far, (found), (expected))

enum { DEPTH = 4, ARENA = 64, INPUT_ARENA = 64 * DEPTH, OUTPUT_RING = 32 * DEPTH, PAYLOAD = INPUT_ARENA + 2 * ARENA };
static _Alignas(64) unsigned char payload[PAYLOAD];
static _Alignas(64) volatile uint32_t counters[96];
static bufabi_queue_t queue;
static uint64_t marks[DEPTH];
static bufabi_queue_window_t window[2];
static uint64_t scalars[12];

static void set_scalars(void) {
    const uint64_t legal[12] = {
        0x4c334c3200030000, 1, (uintptr_t)payload, PAYLOAD, (uintptr_t)counters, 384,
        0x4c33513200010001, DEPTH, ARENA, ARENA, PAYLOAD, 384,
    };
    for (int i = 0; i < 12; i++)
        scalars[i] = legal[i];
}

/* The host sends input number `index`, whose bytes lie at the arena's start: its slot, then the tail. */
static void host_sends(uint64_t index, uint64_t opcode, uint64_t nbytes) {
    volatile uint64_t *slot = (volatile uint64_t *)(void *)(payload + 32 * (index % DEPTH));
    slot[1] = opcode;
    slot[2] = nbytes == 0 ? 0 : INPUT_ARENA;
    slot[3] = nbytes;
    slot[0] = index + 1;
    __asm__ volatile("" ::: "memory");
    counters[0] = (uint32_t)index + 1;
}

static bufabi_status_t attach(void) {
    return bufabi_queue_attach(scalars, NULL, marks, DEPTH, window, 2, &queue);
}

static void misuse(struct expectations *expectations) {
    struct expectations so_far = *expectations;
    bufabi_queue_message_t message;
    void *odd = (unsigned char *)scalars + 1;
    expect(bufabi_queue_receive(&queue, 0, &message), BUFABI_STATUS_QUEUE_DETACHED);
    expect(bufabi_queue_detach(&queue), BUFABI_STATUS_QUEUE_DETACHED);
    expect(bufabi_queue_detach(NULL), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_queue_attach(NULL, NULL, marks, DEPTH, window, 2, &queue), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_queue_attach(odd, NULL, marks, DEPTH, window, 2, &queue), BUFABI_STATUS_MISALIGNED);
    expect(bufabi_queue_attach(scalars, NULL, NULL, DEPTH, window, 2, &queue), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_queue_attach(scalars, NULL, marks, SIZE_MAX, window, 2, &queue), BUFABI_STATUS_LENGTH);
    expect(bufabi_queue_attach(scalars, NULL, scalars, DEPTH, window, 2, &queue), BUFABI_STATUS_OVERLAPPING_ARGUMENTS);
    expect(bufabi_queue_attach(scalars, NULL, marks, DEPTH, window, 2, NULL), BUFABI_STATUS_NULL_POINTER);
    expect(bufabi_queue_attach(scalars, NULL, marks, DEPTH - 1, window, 2, &queue), BUFABI_STATUS_QUEUE_STORAGE);
    scalars[0] = 0;
    expect(attach(), BUFABI_STATUS_REGION_MAGIC);
    set_scalars();
    scalars[7] = 3;
    expect(attach(), BUFABI_STATUS_QUEUE_DEPTH);
    set_scalars();
    *expectations = so_far;
}

static void sends(struct expectations *expectations) {
    struct expectations so_far = *expectations;
    bufabi_queue_reservation_t reservation;
    expect(MEASURED(queue_send, bufabi_queue_send(&queue, BUFABI_QUEUE_DATA, "12345678", 8, 0)), BUFABI_STATUS_OK);
    expect(counters[32], 1);
    expect(payload[INPUT_ARENA + ARENA] == '1' && payload[INPUT_ARENA + ARENA + 7] == '8', 1);
    expect(bufabi_queue_send(&queue, BUFABI_QUEUE_DATA, payload, ARENA + 1, 0), BUFABI_STATUS_MESSAGE_TOO_LARGE);
    expect(bufabi_queue_send(&queue, BUFABI_QUEUE_DATA, NULL, 1, 0), BUFABI_STATUS_NULL_POINTER);
    expect(MEASURED(queue_reserve, bufabi_queue_reserve(&queue, 16, 0, &reservation)), BUFABI_STATUS_OK);
    expect(bufabi_queue_send(&queue, BUFABI_QUEUE_DATA, "1", 1, 0), BUFABI_STATUS_QUEUE_RESERVED);
    expect(MEASURED(queue_write, bufabi_queue_write(&queue, reservation.number, 0, "abc", 3)), BUFABI_STATUS_OK);
    expect(bufabi_queue_write(&queue, reservation.number, 15, "abc", 3), BUFABI_STATUS_REGION_RANGE);
    expect(MEASURED(queue_commit, bufabi_queue_commit(&queue, reservation.number, BUFABI_QUEUE_DATA, 3)),
           BUFABI_STATUS_OK);
    expect(counters[32], 2);
    expect(bufabi_queue_reserve(&queue, 16, 0, &reservation), BUFABI_STATUS_OK);
    expect(MEASURED(queue_cancel, bufabi_queue_cancel(&queue, reservation.number)), BUFABI_STATUS_OK);
    expect(counters[32], 2);
    *expectations = so_far;
}

static void receives(struct expectations *expectations) {
    struct expectations so_far = *expectations;
    bufabi_queue_message_t message;
    unsigned char bytes[8] = {0};
    size_t nbytes = 0;
    int32_t answer = -1;
    expect(MEASURED(queue_receive, bufabi_queue_receive(&queue, 0, &message)), BUFABI_STATUS_QUEUE_EMPTY);
    for (int i = 0; i < 5; i++)
        payload[INPUT_ARENA + i] = (unsigned char)(i + 1);
    host_sends(0, 1, 5);
    expect(MEASURED(queue_receive, bufabi_queue_receive(&queue, 0, &message)), BUFABI_STATUS_OK);
    expect(message.opcode == 1 && message.nbytes == 5 && message.address == (uintptr_t)payload + INPUT_ARENA, 1);
    expect(bufabi_queue_read(&queue, message.handle, bytes, 4, &nbytes), BUFABI_STATUS_BUFFER_TOO_SMALL);
    expect(MEASURED(queue_read, bufabi_queue_read(&queue, message.handle, bytes, sizeof bytes, &nbytes)),
           BUFABI_STATUS_OK);
    expect(nbytes == 5 && bytes[0] == 1 && bytes[4] == 5 && bytes[5] == 0, 1);
    expect(MEASURED(queue_release, bufabi_queue_release(&queue, message.handle)), BUFABI_STATUS_OK);
    expect(counters[16], 1);
    host_sends(1, 2, 0); /* STOP */
    expect(bufabi_queue_receive(&queue, 0, &message), BUFABI_STATUS_OK);
    expect((int64_t)message.opcode, 2);
    expect(bufabi_queue_release(&queue, message.handle), BUFABI_STATUS_OK);
    expect(MEASURED(queue_is_drained, bufabi_queue_is_drained(&queue, &answer)), BUFABI_STATUS_OK);
    expect(answer, 1);
    expect(MEASURED(queue_peer_aborted, bufabi_queue_peer_aborted(&queue, &answer)), BUFABI_STATUS_OK);
    expect(answer, 0);
    *expectations = so_far;
}

uint32_t use_of_queue(void) {
    struct expectations so_far = {0, 0};
    bufabi_queue_t none = {{0}};
    queue = none;
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = 0;
    for (size_t i = 0; i < 96; i++)
        counters[i] = 0;
    set_scalars();
    misuse(&so_far);
    expect(MEASURED(queue_attach, attach()), BUFABI_STATUS_OK);
    sends(&so_far);
    receives(&so_far);
    /* A handle that is not current ends the queue, and the first cause stays. */
    expect(MEASURED(queue_poison, bufabi_queue_poison(&queue)), BUFABI_STATUS_OK);
    expect(bufabi_queue_release(&queue, 99), BUFABI_STATUS_QUEUE_HANDLE);
    expect(bufabi_queue_send(&queue, BUFABI_QUEUE_DATA, "1", 1, 0), BUFABI_STATUS_QUEUE_HANDLE);
    expect(bufabi_queue_poison(&queue), BUFABI_STATUS_QUEUE_HANDLE);
    expect(counters[80] != 0, 1); /* the host is told */
    expect(MEASURED(queue_detach, bufabi_queue_detach(&queue)), BUFABI_STATUS_OK);
    expect(bufabi_queue_detach(&queue), BUFABI_STATUS_QUEUE_DETACHED);
    for (size_t i = 0; i < 96; i++)
        counters[i] = 0;
    expect(attach(), BUFABI_STATUS_OK);
    expect(MEASURED(queue_abort, bufabi_queue_abort(&queue)), BUFABI_STATUS_OK);
    expect(bufabi_queue_poison(&queue), BUFABI_STATUS_QUEUE_ABORTED);
    expect(bufabi_queue_detach(&queue), BUFABI_STATUS_OK);
    return so_far.wrong;
}
