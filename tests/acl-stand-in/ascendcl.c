/* A stand-in for the Ascend driver's libascendcl.so, which no machine of ours has: the same C interface, with real memory
 * behind its handles, so that processes which load it share that memory. The tests build it; no program of ours links it.
 *
 * It is as strict as the driver is said to be, and where the driver is said to be lossy it gives the same numbers. It is told
 * what to do by the environment:
 *
 *   STAND_IN_DIR           the folder that holds the memory and the handles of all processes; without it nothing works
 *   STAND_IN_LOG           a file to which each call is appended, with its arguments and its result
 *   STAND_IN_FAIL          calls that fail: "aclrtMapMem=507899,aclrtFreePhysical:2=1": the first from the first call on,
 *                          the second at its second call only
 *   STAND_IN_FIRST_HANDLE  the first handle that is given out; 1 if it is not set
 *   STAND_IN_HANDLE        the handle of everything that is exported, which nobody can import then
 *   STAND_IN_BARE_TGID     what this process is called; its number if it is not set
 */
#define _GNU_SOURCE
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

#include "shared.h"

enum {
    OK = 0,
    BAD_PARAMETER = 107000,
    NO_DEVICE = 107002,
    HANDLE_GONE = 107017,
    INITIALISED_ALREADY = 100002,
    NOT_SUPPORTED = 207000,
    EXPORTED_OR_NO_MEMORY = 207001,
    WHITELIST_CONFLICT = 207006,
    REFUSED = 507899,
    DEVICES = 4,
    GRANULARITY = 2 << 20,
};

struct location { uint32_t id; int32_t kind; };
struct properties { int32_t handle_type, allocation_type, attribute; struct location location; uint64_t reserve; };
struct access { int32_t flags; struct location location; uint8_t reserved[12]; };
_Static_assert(sizeof(struct location) == 8, "location");
_Static_assert(sizeof(struct properties) == 32 && offsetof(struct properties, location) == 12, "properties");
_Static_assert(offsetof(struct properties, reserve) == 24, "properties");
_Static_assert(sizeof(struct access) == 24 && offsetof(struct access, reserved) == 12, "access");

/* Physical memory as this process has it. */
struct physical {
    int number;       /* for the log */
    int fd;
    size_t size;
    uint32_t device;
    int mappings;
    int is_free;      /* freed, and waiting for its mappings to go */
    int is_exported;
    int is_imported;
    uint64_t shareable;
    struct physical *next;
};

/* Reserved addresses. */
struct range {
    int number;
    char *base;
    size_t size;
    struct physical *mapped;
    int is_accessible;
    struct range *next;
};

/* Memory of aclrtMalloc. */
struct block {
    int number;
    char *base;
    size_t size;
    struct block *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct physical *physicals;
static struct range *ranges;
static struct block *blocks;
static int physical_count, range_count, block_count;
static int is_initialised;
static __thread int32_t device = -1;

/* ---- tables of this process, under the lock ---- */

static struct physical *find_physical(void *handle) {
    for (struct physical *p = physicals; p; p = p->next)
        if (p == handle && !p->is_free) return p;
    return NULL;
}

static struct range *find_range(void *base) {
    for (struct range *r = ranges; r; r = r->next)
        if (r->base == base) return r;
    return NULL;
}

static void destroy_if_unused(struct physical *gone) {
    if (!gone->is_free || gone->mappings) return;
    for (struct physical **p = &physicals; *p; p = &(*p)->next)
        if (*p == gone) { *p = gone->next; break; }
    close(gone->fd);
    free(gone);
}

static int number_of(void *handle) {
    struct physical *p = find_physical(handle);
    return p ? p->number : -1;
}

static int range_number_of(void *base) {
    struct range *r = find_range(base);
    return r ? r->number : -1;
}

static struct physical *add_physical(int fd, size_t size, uint32_t on) {
    struct physical *p = calloc(1, sizeof *p);
    if (!p) abort();
    *p = (struct physical){.number = ++physical_count, .fd = fd, .size = size, .device = on, .next = physicals};
    physicals = p;
    return p;
}

/* Bytes from `at` on that a copy may touch, or 0. */
static size_t room_at(const char *at) {
    for (struct range *r = ranges; r; r = r->next)
        if (r->mapped && r->is_accessible && at >= r->base && at < r->base + r->size)
            return (size_t)(r->base + r->size - at);
    for (struct block *b = blocks; b; b = b->next)
        if (at >= b->base && at < b->base + b->size) return (size_t)(b->base + b->size - at);
    return 0;
}

/* Leaves a call, saying what it was and what it returned. */
#define RETURN(result, format, ...) do { \
        int result_ = (result); \
        say("%s(" format ") = %d", __func__ __VA_OPT__(,) __VA_ARGS__, result_); \
        pthread_mutex_unlock(&lock); \
        return result_; \
    } while (0)

/* Every call but the first two needs a device. */
#define BEGIN() \
    pthread_mutex_lock(&lock); \
    int failure = scripted(__func__); \
    if (!failure && device < 0) failure = NO_DEVICE

/* ---- the interface ---- */

int aclInit(const char *configuration) {
    pthread_mutex_lock(&lock);
    int failure = scripted(__func__);
    if (!failure && is_initialised) failure = INITIALISED_ALREADY;
    if (!failure) is_initialised = 1;
    RETURN(failure, "%s", configuration ? configuration : "NULL");
}

int aclrtSetDevice(int32_t chosen) {
    pthread_mutex_lock(&lock);
    int failure = scripted(__func__);
    if (!failure && !is_initialised) failure = BAD_PARAMETER;
    if (!failure && (chosen < 0 || chosen >= DEVICES)) failure = BAD_PARAMETER;
    if (!failure) device = chosen;
    RETURN(failure, "%d", chosen);
}

int aclrtMemGetAllocationGranularity(const struct properties *p, int option, size_t *out) {
    BEGIN();
    if (!failure && (option < 0 || option > 1)) failure = BAD_PARAMETER;
    if (!failure) *out = GRANULARITY;
    RETURN(failure, "device %u, %d", p->location.id, option);
}

int aclrtMallocPhysical(void **out, size_t size, const struct properties *p, uint64_t flags) {
    BEGIN();
    int is_known = p->attribute == 4 || p->attribute == 5 || p->attribute == 10;
    if (!failure && (!is_known || p->handle_type || p->allocation_type || p->reserve || flags)) failure = BAD_PARAMETER;
    if (!failure && (p->location.kind != 1 || p->location.id >= DEVICES)) failure = BAD_PARAMETER;
    if (!failure && (!size || size % GRANULARITY)) failure = BAD_PARAMETER;
    if (!failure) {
        char path[300];
        snprintf(path, sizeof path, "%s/memory-%llu", folder(), (unsigned long long)next_number("next-memory", 0));
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || posix_fallocate(fd, 0, (off_t)size)) {
            failure = EXPORTED_OR_NO_MEMORY;
            if (fd >= 0) close(fd);
        } else {
            /* Device memory is not zero when one gets it. */
            char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (bytes == MAP_FAILED) abort();
            memset(bytes, 0xa5, size);
            munmap(bytes, size);
            *out = add_physical(fd, size, p->location.id);
        }
        /* Other processes get at it through the file of its handle. */
        unlink(path);
    }
    RETURN(failure, "%zu, device %u, attribute %d, %llu", size, p->location.id, p->attribute, (unsigned long long)flags);
}

int aclrtFreePhysical(void *handle) {
    BEGIN();
    int number = number_of(handle);
    struct physical *p = find_physical(handle);
    if (!failure && !p) failure = BAD_PARAMETER;
    if (!failure) {
        if (p->is_exported) {
            char path[300];
            handle_path(path, sizeof path, p->shareable);
            unlink(path);
            owner_path(path, sizeof path, p->shareable);
            unlink(path);
        }
        p->is_free = 1;
        destroy_if_unused(p);
    }
    RETURN(failure, "physical %d", number);
}

int aclrtReserveMemAddress(void **out, size_t size, size_t alignment, void *hint, uint64_t flags) {
    BEGIN();
    if (!failure && (alignment || hint || flags > 1 || !size || size % GRANULARITY)) failure = BAD_PARAMETER;
    if (!failure) {
        char *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) {
            failure = EXPORTED_OR_NO_MEMORY;
        } else {
            struct range *r = calloc(1, sizeof *r);
            if (!r) abort();
            *r = (struct range){.number = ++range_count, .base = base, .size = size, .next = ranges};
            ranges = r;
            *out = base;
        }
    }
    RETURN(failure, "%zu, %zu, %s, %llu", size, alignment, hint ? "hint" : "NULL", (unsigned long long)flags);
}

int aclrtReleaseMemAddress(void *base) {
    BEGIN();
    int number = range_number_of(base);
    struct range *r = find_range(base);
    if (!failure && (!r || r->mapped)) failure = BAD_PARAMETER;
    if (!failure) {
        for (struct range **link = &ranges; *link; link = &(*link)->next)
            if (*link == r) { *link = r->next; break; }
        munmap(r->base, r->size);
        free(r);
    }
    RETURN(failure, "range %d", number);
}

int aclrtMapMem(void *base, size_t size, size_t offset, void *handle, uint64_t flags) {
    BEGIN();
    struct range *r = find_range(base);
    struct physical *p = find_physical(handle);
    if (!failure && (!r || !p || r->mapped || offset || flags || size != p->size || size != r->size)) failure = BAD_PARAMETER;
    if (!failure) {
        if (mmap(base, size, PROT_NONE, MAP_SHARED | MAP_FIXED, p->fd, 0) == MAP_FAILED) abort();
        r->mapped = p;
        p->mappings++;
    }
    RETURN(failure, "range %d, %zu, %zu, physical %d, %llu", range_number_of(base), size, offset, number_of(handle),
           (unsigned long long)flags);
}

int aclrtUnmapMem(void *base) {
    BEGIN();
    struct range *r = find_range(base);
    if (!failure && (!r || !r->mapped)) failure = REFUSED;
    if (!failure) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        if (mmap(base, r->size, PROT_NONE, flags, -1, 0) == MAP_FAILED) abort();
        r->mapped->mappings--;
        destroy_if_unused(r->mapped);
        r->mapped = NULL;
        r->is_accessible = 0;
    }
    RETURN(failure, "range %d", range_number_of(base));
}

int aclrtMemSetAccess(void *base, size_t size, const struct access *access, size_t count) {
    BEGIN();
    struct range *r = find_range(base);
    if (!failure && (!r || !r->mapped || size != r->size || count != 1)) failure = BAD_PARAMETER;
    /* Read-only mappings do not exist. */
    if (!failure && access->flags != 3) failure = NOT_SUPPORTED;
    if (!failure && access->location.kind != 1) failure = BAD_PARAMETER;
    if (!failure) {
        if (mprotect(base, size, PROT_READ | PROT_WRITE)) abort();
        r->is_accessible = 1;
    }
    RETURN(failure, "range %d, %zu, flags %d, visible device %u, %zu", range_number_of(base), size, access->flags,
           access->location.id, count);
}

int aclrtMemExportToShareableHandle(void *handle, int type, uint64_t flags, uint64_t *out) {
    BEGIN();
    struct physical *p = find_physical(handle);
    if (!failure && (!p || type || flags > 1 || p->is_imported)) failure = BAD_PARAMETER;
    if (!failure && p->is_exported) failure = EXPORTED_OR_NO_MEMORY;
    uint64_t shareable = 0;
    const char *fixed = getenv("STAND_IN_HANDLE");
    if (!failure && fixed) {
        *out = shareable = strtoull(fixed, NULL, 10);
    } else if (!failure) {
        const char *first = getenv("STAND_IN_FIRST_HANDLE");
        shareable = next_number("next-handle", first ? strtoull(first, NULL, 10) : 1);
        char path[300], memory[300], fd_path[64];
        handle_path(path, sizeof path, shareable);
        FILE *file = fopen(path, "wxe");
        if (!file) abort();
        fprintf(file, "%zu %u %llu %d\n", p->size, p->device, (unsigned long long)flags, (int)getpid());
        fclose(file);
        owner_path(memory, sizeof memory, shareable);
        snprintf(fd_path, sizeof fd_path, "/proc/%d/fd/%d", (int)getpid(), p->fd);
        if (symlink(fd_path, memory)) abort();
        p->is_exported = 1;
        p->shareable = shareable;
        *out = shareable;
    }
    RETURN(failure, "physical %d, %d, %llu, handle %llu", number_of(handle), type, (unsigned long long)flags,
           (unsigned long long)shareable);
}

int aclrtMemSetPidToShareableHandle(uint64_t shareable, int32_t *pids, size_t count) {
    BEGIN();
    char path[300], line[128] = "";
    handle_path(path, sizeof path, shareable);
    FILE *file = fopen(path, "r+e");
    if (!failure && !file) failure = HANDLE_GONE;
    if (!failure && (!pids || !count)) failure = BAD_PARAMETER;
    if (!failure) {
        unsigned long long flags = 0;
        if (!fgets(line, sizeof line, file) || sscanf(line, "%*u %*u %llu", &flags) != 1) abort();
        if (flags) failure = WHITELIST_CONFLICT;
    }
    if (!failure) {
        fseek(file, 0, SEEK_END);
        for (size_t i = 0; i < count; i++) fprintf(file, "%d %llu\n", pids[i], (unsigned long long)now());
    }
    if (file) fclose(file);
    RETURN(failure, "handle %llu, %s, %zu", (unsigned long long)shareable, pids ? "pids" : "NULL", count);
}

int aclrtMemImportFromShareableHandle(uint64_t shareable, int32_t on, void **out) {
    BEGIN();
    char path[300], line[128];
    handle_path(path, sizeof path, shareable);
    FILE *file = fopen(path, "re");
    size_t size = 0;
    unsigned exporter_device = 0;
    unsigned long long flags = 0;
    int exporter = 0;
    if (!failure && !file) failure = HANDLE_GONE;
    if (!failure && (!fgets(line, sizeof line, file) ||
                     sscanf(line, "%zu %u %llu %d", &size, &exporter_device, &flags, &exporter) != 4)) abort();
    if (!failure && exporter == getpid() && exporter_device == (unsigned)on) failure = REFUSED;
    if (!failure && !flags) {
        int is_listed = 0, pid = 0;
        unsigned long long since = 0;
        while (fgets(line, sizeof line, file))
            if (sscanf(line, "%d %llu", &pid, &since) == 2 && pid == own_bare_tgid() && own_start() <= since) is_listed = 1;
        if (!is_listed) failure = REFUSED;
    }
    if (file) fclose(file);
    /* Imported once already. */
    for (struct physical *p = physicals; !failure && p; p = p->next)
        if (p->is_imported && p->shareable == shareable) failure = EXPORTED_OR_NO_MEMORY;
    if (!failure) {
        owner_path(path, sizeof path, shareable);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0) {
            failure = HANDLE_GONE;
        } else {
            struct physical *p = add_physical(fd, size, (uint32_t)on);
            p->is_imported = 1;
            p->shareable = shareable;
            *out = p;
        }
    }
    RETURN(failure, "handle %llu, device %d", (unsigned long long)shareable, on);
}

int aclrtDeviceGetBareTgid(int32_t *out) {
    BEGIN();
    if (!failure) *out = own_bare_tgid();
    RETURN(failure, "");
}

int aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags) {
    BEGIN();
    if (!failure && (peer < 0 || peer >= DEVICES || peer == device || flags)) failure = BAD_PARAMETER;
    RETURN(failure, "%d, %u", peer, flags);
}

int aclrtMalloc(void **out, size_t size, int policy) {
    BEGIN();
    if (!failure && !size) failure = BAD_PARAMETER;
    if (!failure) {
        struct block *b = calloc(1, sizeof *b);
        if (!b) abort();
        char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED) {
            free(b);
            failure = EXPORTED_OR_NO_MEMORY;
        } else {
            *b = (struct block){.number = ++block_count, .base = base, .size = size, .next = blocks};
            blocks = b;
            *out = base;
        }
    }
    RETURN(failure, "%zu, %d", size, policy);
}

int aclrtFree(void *base) {
    BEGIN();
    struct block **link = &blocks;
    while (*link && (*link)->base != base) link = &(*link)->next;
    int number = *link ? (*link)->number : -1;
    if (!failure && !*link) failure = BAD_PARAMETER;
    if (!failure) {
        struct block *gone = *link;
        *link = gone->next;
        munmap(gone->base, gone->size);
        free(gone);
    }
    RETURN(failure, "block %d", number);
}

int aclrtMemcpy(void *to, size_t room, const void *from, size_t count, int kind) {
    BEGIN();
    if (!failure && (count > room || kind < 1 || kind > 3)) failure = BAD_PARAMETER;
    if (!failure && (kind == 1 || kind == 3) && room_at(to) < count) failure = BAD_PARAMETER;
    if (!failure && (kind == 2 || kind == 3) && room_at(from) < count) failure = BAD_PARAMETER;
    if (!failure) memmove(to, from, count);
    RETURN(failure, "%zu, %zu, %d", room, count, kind);
}

/* What is left when the process ends by itself. */
__attribute__((destructor)) static void report(void) {
    int p = 0, r = 0, m = 0, b = 0;
    for (struct physical *i = physicals; i; i = i->next) p++;
    for (struct range *i = ranges; i; i = i->next) { r++; if (i->mapped) m++; }
    for (struct block *i = blocks; i; i = i->next) b++;
    say("at exit: %d physical, %d ranges, %d mapped, %d blocks", p, r, m, b);
}
