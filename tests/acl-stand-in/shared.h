/* What processes that load the stand-in share: what the environment tells them, and files in its folder for each handle. */
#ifndef STAND_IN_SHARED_H
#define STAND_IN_SHARED_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- what the environment says ---- */

static void say(const char *format, ...) {
    const char *path = getenv("STAND_IN_LOG");
    if (!path) return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    line[length++] = '\n';
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length) abort();
    close(fd);
}

/* The number with which this call is to fail, or 0. */
static int scripted(const char *call) {
    static struct { char name[64]; int count; } seen[32];
    int count = 0;
    for (int i = 0; i < 32; i++) {
        if (!seen[i].name[0]) strcpy(seen[i].name, call);
        if (!strcmp(seen[i].name, call)) { count = ++seen[i].count; break; }
    }
    const char *script = getenv("STAND_IN_FAIL");
    for (const char *item = script; item && *item; item = strchr(item, ',') ? strchr(item, ',') + 1 : "") {
        size_t length = strlen(call);
        if (strncmp(item, call, length)) continue;
        int nth = 0, number = 0;
        if (sscanf(item + length, ":%d=%d", &nth, &number) == 2 && nth == count) return number;
        if (sscanf(item + length, "=%d", &number) == 1) return number;
    }
    return 0;
}

static const char *folder(void) {
    const char *path = getenv("STAND_IN_DIR");
    if (!path) { fprintf(stderr, "stand-in: STAND_IN_DIR is not set\n"); abort(); }
    return path;
}

static int32_t own_bare_tgid(void) {
    const char *text = getenv("STAND_IN_BARE_TGID");
    return text ? atoi(text) : (int32_t)getpid();
}

/* ---- what processes share: two files for each handle ---- */

/* A handle's file: a line that says what it is, and one for each process on its whitelist. */
static void handle_path(char *path, size_t size, uint64_t handle) {
    snprintf(path, size, "%s/handle-%llu", folder(), (unsigned long long)handle);
}

/* A handle's memory: a link to its owner's descriptor, so it ends with its owner. */
static void owner_path(char *path, size_t size, uint64_t handle) {
    snprintf(path, size, "%s/memory-of-%llu", folder(), (unsigned long long)handle);
}

/* The next number of a counter that all processes share. */
static uint64_t next_number(const char *counter, uint64_t first) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder(), counter);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) abort();
    flock(fd, LOCK_EX);
    uint64_t number = first;
    if (pread(fd, &number, sizeof number, 0) != sizeof number) number = first;
    uint64_t next = number + 1;
    if (pwrite(fd, &next, sizeof next, 0) != sizeof next) abort();
    close(fd);
    return number;
}

/* Nanoseconds since boot. */
static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* When this process started, in nanoseconds since boot, to 10 ms. */
static uint64_t own_start(void) {
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    char *field = strrchr(text, ')');
    for (int i = 2; field && i < 22; i++) field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) * 10000000u : 0;
}

#endif
