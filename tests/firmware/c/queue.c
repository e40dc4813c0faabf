/* A task that talks with its host while it runs: the L2 end of a message queue, in freestanding C.
 *
 * The request is 13 numbers of 64 bits: what to do, and the queue's twelve scalars. It receives until STOP:
 *
 *   0  each input is the one that its number says, byte by byte, and goes back
 *   1  each input goes back as it is
 *   2  inputs are taken, a window at a time; one of kind ERROR is answered with an empty output when all before it are taken
 *
 * The answer is a line: `ok INPUTS`, or what went wrong. */
#include "platform.h"

#include "bufabi.h"

#define DEPTH 1024
#define WINDOW 16
#define LARGEST 65536

static uint64_t request[13];
static bufabi_queue_t queue;
static uint64_t marks[DEPTH];
static bufabi_queue_window_t window[WINDOW];
static _Alignas(8) unsigned char bytes[LARGEST];

static const uint64_t limit = 30000000000u;

static uint64_t now(void *context) {
    (void)context;
    uint64_t ticks, frequency;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks));
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
    return ticks / frequency * 1000000000u + ticks % frequency * 1000000000u / frequency;
}

static void pause(void *context, uint64_t nanoseconds) {
    (void)context, (void)nanoseconds;
    __asm__ volatile("yield");
}

static void say(const char *text) {
    size_t len = 0;
    while (text[len] != '\0')
        len++;
    platform_write(text, len);
}

static void say_number(uint64_t number) {
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    platform_write(digits + first, sizeof digits - first);
}

/* The same numbers as the host's, SplitMix64. */
static uint64_t random_next(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The bytes are those of message `number`. */
static int is_message(uint64_t number, const unsigned char *found, size_t nbytes) {
    uint64_t random = number;
    size_t expected = random_next(&random) % 64 == 0 ? random_next(&random) % 1025 : random_next(&random) % 64;
    if (nbytes != expected)
        return 0;
    for (size_t at = 0; at < nbytes; at += 8) {
        uint64_t word = random_next(&random);
        for (size_t i = 0; i < 8 && at + i < nbytes; i++)
            if (found[at + i] != (unsigned char)(word >> (8 * i)))
                return 0;
    }
    return 1;
}

static bufabi_status_t converse(uint64_t *inputs) {
    uint64_t what = request[0];
    uint64_t held[WINDOW];
    size_t holds = 0;
    for (int32_t drained = 0; !drained;) {
        bufabi_queue_message_t message;
        /* While it holds some it does not wait: the host may need them back. */
        bufabi_status_t status = bufabi_queue_receive(&queue, holds > 0 ? 0 : limit, &message);
        if (holds > 0 && (status == BUFABI_STATUS_QUEUE_EMPTY || status == BUFABI_STATUS_WINDOW_FULL)) {
            /* The front last: the host is told once. */
            while (holds > 0)
                if ((status = bufabi_queue_release(&queue, held[--holds])) != 0)
                    return status;
            continue;
        }
        if (status != 0)
            return status;
        size_t nbytes = 0;
        if ((status = bufabi_queue_read(&queue, message.handle, bytes, sizeof bytes, &nbytes)) != 0)
            return status;
        if (message.opcode == 2) {
            while (holds > 0)
                if ((status = bufabi_queue_release(&queue, held[--holds])) != 0)
                    return status;
            if ((status = bufabi_queue_release(&queue, message.handle)) != 0 ||
                (status = bufabi_queue_is_drained(&queue, &drained)) != 0)
                return status;
            continue;
        }
        if (what == 0 && !is_message(*inputs, bytes, nbytes)) {
            say("input ");
            say_number(*inputs);
            say(" is another: ");
            bufabi_queue_abort(&queue);
            return BUFABI_STATUS_QUEUE_ABORTED;
        }
        *inputs += 1;
        if (what == 2) {
            held[holds++] = message.handle;
            if (message.opcode == 3) {
                while (holds > 0)
                    if ((status = bufabi_queue_release(&queue, held[--holds])) != 0)
                        return status;
                if ((status = bufabi_queue_send(&queue, BUFABI_QUEUE_DATA, NULL, 0, limit)) != 0)
                    return status;
            }
            continue;
        }
        if ((status = bufabi_queue_send(&queue, BUFABI_QUEUE_DATA, bytes, nbytes, limit)) != 0 ||
            (status = bufabi_queue_release(&queue, message.handle)) != 0)
            return status;
    }
    return 0;
}

void conversation(void) {
    size_t filled = 0, read;
    while (filled < sizeof request &&
           (read = platform_read((unsigned char *)request + filled, sizeof request - filled)) > 0)
        filled += read;
    const bufabi_queue_machine_t machine = {.now = now, .pause = pause};
    uint64_t inputs = 0;
    bufabi_status_t status =
        bufabi_queue_attach(request + 1, &machine, marks, DEPTH, window, WINDOW, &queue);
    if (status == 0)
        status = converse(&inputs);
    say(bufabi_status_name(status));
    say(" ");
    say_number(inputs);
    say("\n");
}
