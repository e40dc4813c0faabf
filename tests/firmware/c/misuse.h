/* The library used rightly and in every wrong way: a status each. Each answers with the number of the first call whose status is
 * not the expected one, or 0. */
#ifndef MISUSE_H
#define MISUSE_H

#include <stdint.h>

/* Every impossible argument of the checks gets its status, and nothing is written. */
uint32_t misuse_of_arguments(void);

/* Records made and taken apart, numbers that are no value of their enumeration, and relations. */
uint32_t use_of_records(void);

/* Tables of owners and imports, and storage that is none, not any more, or of the other kind. */
uint32_t use_of_tables(void);

/* A task's end of a message queue, whose other side is written by hand. */
uint32_t use_of_queue(void);

/* ---- For those that use it ---- */

struct expectations {
    uint32_t calls, wrong;
};

static inline void expected_number(struct expectations *so_far, int64_t found, int64_t expected) {
    so_far->calls++;
    if (found != expected && so_far->wrong == 0)
        so_far->wrong = so_far->calls;
}

#endif
