/* How much stack each function of the library takes, at most, over all calls that were measured. Bare C only. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>

#include "bufabi.h"

#define MEASURED_FUNCTIONS(each)                                                                               \
    each(descriptor_check) each(tensor_check) each(blob_check) each(chip_tensor_from) each(blob_materialize)   \
    each(tensor_relate) each(tensor_first_common) each(rights_check) each(identity_equal) each(dtype_size)     \
    each(descriptor_encode) each(descriptor_decode) each(view_row_major) each(tensor_encode)                   \
    each(tensor_decode) each(blob_size) each(blob_encode) each(blob_decode)                                    \
    each(owner_table_create) each(owner_table_insert) each(owner_table_insert_pair) each(owner_table_get)      \
    each(owner_table_hold) each(owner_table_unhold) each(owner_table_begin_release)                            \
    each(owner_table_finish_release) each(owner_table_count) each(owner_table_release)                         \
    each(import_table_create) each(import_table_find) each(import_table_insert) each(import_table_pin)         \
    each(import_table_unpin) each(import_table_remove) each(import_table_evict) each(import_table_count)       \
    each(import_table_release)                                                                                 \
    each(queue_attach) each(queue_detach) each(queue_abort) each(queue_peer_aborted) each(queue_poison)        \
    each(queue_receive) each(queue_read) each(queue_release) each(queue_is_drained) each(queue_send)           \
    each(queue_reserve) each(queue_write) each(queue_commit) each(queue_cancel)

#define MEASURED_INDEX(name) MEASURED_##name,
enum { MEASURED_FUNCTIONS(MEASURED_INDEX) FUNCTIONS };

extern const char *const measured_names[FUNCTIONS];
extern uint32_t measured_stack[FUNCTIONS];

#if __STDC_HOSTED__
#define MEASURED(function, call) (call)
#else
/* The bytes below the stack pointer are painted before the call; afterwards the lowest that lost its paint tells the depth. */
enum { PROBE = 4096, DEEP_PROBE = 32768, PAINT = 0xa5 };

static inline __attribute__((always_inline)) uintptr_t stack_pointer(void) {
    uintptr_t pointer;
    __asm__ volatile("mov %0, sp" : "=r"(pointer));
    return pointer;
}

static inline __attribute__((always_inline)) void paint_stack(uintptr_t probe) {
    uintptr_t top = stack_pointer();
    for (uintptr_t at = top - probe; at < top; at++)
        *(volatile unsigned char *)at = PAINT;
}

static inline __attribute__((always_inline)) uint32_t painted_over(uintptr_t probe) {
    uintptr_t top = stack_pointer(), at = top - probe;
    while (at < top && *(volatile unsigned char *)at == PAINT)
        at++;
    return (uint32_t)(top - at);
}

#define MEASURED(function, call)                                                                               \
    __extension__({                                                                                            \
        int is_deep = MEASURED_##function == MEASURED_tensor_relate                                            \
                      || MEASURED_##function == MEASURED_tensor_first_common;                                  \
        uintptr_t probe = is_deep ? DEEP_PROBE : PROBE;                                                        \
        paint_stack(probe);                                                                                    \
        bufabi_status_t measured = (call);                                                                     \
        uint32_t depth = painted_over(probe);                                                                  \
        if (depth > measured_stack[MEASURED_##function])                                                       \
            measured_stack[MEASURED_##function] = depth;                                                       \
        measured;                                                                                              \
    })
#endif

#endif
