/* The conversation's streams on a bare board: the files `requests` and `answers` of the host, by semihosting. */
#include "platform.h"

#include <stdint.h>

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT = 0x18 };
enum { OPEN_READ_BINARY = 1, OPEN_WRITE_BINARY = 5 };

static uintptr_t semihosting(uintptr_t operation, const void *argument) {
#if defined(__aarch64__)
    register uintptr_t x0 __asm__("x0") = operation;
    register const void *x1 __asm__("x1") = argument;
    __asm__ volatile("hlt #0xf000" : "+r"(x0) : "r"(x1) : "memory");
    return x0;
#else
    register uintptr_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
#endif
}

__attribute__((noreturn)) static void leave(int status) {
#if defined(__aarch64__)
    const uintptr_t block[] = {0x20026, (uintptr_t)status};
    semihosting(SYS_EXIT, block);
#else
    /* 32 bits carry no number: the run ended well, or with a run-time error. */
    semihosting(SYS_EXIT, (const void *)(uintptr_t)(status == 0 ? 0x20026 : 0x20023));
#endif
    for (;;) {
    }
}

static uintptr_t requests, answers;
static char written[4096];
static size_t waiting;

static void flush(void) {
    const uintptr_t block[] = {answers, (uintptr_t)written, waiting};
    if (waiting > 0 && semihosting(SYS_WRITE, block) != 0)
        leave(3);
    waiting = 0;
}

size_t platform_read(void *bytes, size_t capacity) {
    const uintptr_t block[] = {requests, (uintptr_t)bytes, capacity};
    /* It answers with the bytes that it did not read. */
    return capacity - semihosting(SYS_READ, block);
}

void platform_write(const void *bytes, size_t len) {
    const char *from = bytes;
    for (size_t i = 0; i < len; i++) {
        if (waiting == sizeof written)
            flush();
        written[waiting++] = from[i];
    }
}

static uintptr_t open_file(const char *name, uintptr_t mode) {
    size_t len = 0;
    while (name[len] != '\0')
        len++;
    const uintptr_t block[] = {(uintptr_t)name, mode, len};
    uintptr_t handle = semihosting(SYS_OPEN, block);
    if (handle == UINTPTR_MAX)
        leave(2);
    return handle;
}

/* Where the start code jumps to. */
__attribute__((noreturn)) void board_main(void);

void board_main(void) {
    requests = open_file("requests", OPEN_READ_BINARY);
    answers = open_file("answers", OPEN_WRITE_BINARY);
    conversation();
    flush();
    semihosting(SYS_CLOSE, &answers);
    semihosting(SYS_CLOSE, &requests);
    leave(0);
}
