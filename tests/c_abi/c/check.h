/* What the programs in C of this folder share: counting what holds, and making records. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>

#include <bufabi/bufabi.h>

/* Counts one thing that should hold, and says it when it does not. */
void check(int holds, const char *what, int line);

#define CHECK(condition) check((condition), #condition, __LINE__)
#define OK(call) check((call) == BUFABI_STATUS_OK, #call, __LINE__)
#define REFUSED(status, call) check((call) == BUFABI_STATUS_##status, #call " is " #status, __LINE__)

enum { READ, WRITE, READWRITE };
enum { INPUT, OUTPUT, INOUT, OUTPUT_EXISTING, NO_DEP };
enum { FLOAT32 = 0, UINT8 = 5, INT64 = 7 };
enum { POSIX_SHM = 1, REMOTE_SIDECAR = 3, DEVICE_MALLOC = 4, FORK_COW = 5, VMM_SHAREABLE = 6 };

/* Nowhere: what must not be looked at is not there. */
#define MISALIGNED(type) ((type *)(uintptr_t)1)

/* The fields of a descriptor of 4,096 bytes of shared memory. */
bufabi_descriptor_fields_t shm_fields(uint64_t id, const char *name);
/* A dense view of a matrix. */
bufabi_view_t dense(uint64_t byte_offset, int32_t dtype, uint32_t rows, uint32_t columns);
bufabi_tensor_t tensor_of(const bufabi_descriptor_t *descriptor, bufabi_view_t view);
/* Rows of four float32 somewhere in buffer number `id`. */
bufabi_tensor_t some_tensor(uint64_t id, uint64_t byte_offset, uint32_t rows);
bufabi_task_args_t arguments(void);
void add(bufabi_task_args_t arguments, bufabi_tensor_t tensor, int32_t tag);

/* The sections, in order. Some checkers of memory know no descriptors of processes, by which importers are permitted and workers are
 * watched. */
void versions_and_words(void);
void records(void);
void blobs(void);
void rights_and_overlaps(void);
void task_arguments(void);
void dependencies(void);
void owners_and_consumers(void);
void capacities(void);
void shared_device_memory(int has_process_descriptors);
void inherited_memory(void);
void worker_processes(void);
void regions_and_queues(void);
void handles_of_the_wrong_kind(void);
void threads(void);

#endif
