/* Worker processes with kernels in C, the tasks that run on them, and the memory of chips. */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum { ADD_SCALAR = 1, OWN_NUMBER, A_STATUS, DIE, WAIT_FOR_FLAG };

/* Runs in a worker's process. */
static bufabi_status_t kernels(void *context, uint32_t kernel, const bufabi_operand_t *operands, size_t operand_count,
                               const uint64_t *scalars, size_t scalar_count) {
    if (*(int *)context != 31) return BUFABI_STATUS_INTERNAL;
    switch (kernel) {
    case ADD_SCALAR: {
        if (operand_count != 2 || scalar_count != 1) return BUFABI_STATUS_KERNEL_COUNTS;
        const unsigned char *in = operands[0].data;
        unsigned char *out = operands[1].data;
        for (uint32_t i = 0; i < operands[0].view.shapes[0]; ++i)
            out[i * operands[1].view.strides[0]] = (unsigned char)(in[i * operands[0].view.strides[0]] + scalars[0]);
        return 0;
    }
    case OWN_NUMBER: return 100777;
    case A_STATUS: return BUFABI_STATUS_KERNEL_SHAPE;
    case DIE: _exit(3);
    case WAIT_FOR_FLAG:
        while (!__atomic_load_n((unsigned char *)operands[0].data, __ATOMIC_ACQUIRE)) sched_yield();
        return 0;
    default: return BUFABI_STATUS_KERNEL_UNKNOWN;
    }
}

static bufabi_worker_t worker(const char *name, int32_t kind, int32_t parent) {
    bufabi_worker_t worker;
    memset(&worker, 0, sizeof worker);
    strcpy(worker.name, name);
    worker.kind = kind;
    worker.parent = parent;
    return worker;
}

static const uint64_t patience = UINT64_C(20000000000);

static uint64_t submit(bufabi_orchestrator_t tasks, bufabi_task_args_t args, uint32_t worker, uint32_t kernel) {
    const bufabi_member_t member = {args, worker, kernel};
    uint64_t task = UINT64_MAX;
    OK(bufabi_orchestrator_submit(tasks, &member, 1, &task));
    return task;
}

/* Memory that chips own, asked for from here: malloc, copies, windows, export, and what a task may name. */
static void device_memory(bufabi_orchestrator_t tasks, uint32_t chip, uint32_t sub) {
    bufabi_descriptor_t memory, exported;
    unsigned char bytes[16] = "0123456789abcde", found[16] = {0};
    size_t live = 9, kept = 9;
    REFUSED(NBYTES_ZERO, bufabi_device_malloc(tasks, chip, 0, READWRITE, patience, &memory));
    REFUSED(ACCESS, bufabi_device_malloc(tasks, chip, 64, 3, patience, &memory));
    CHECK(bufabi_device_malloc(tasks, sub, 64, READ, patience, &memory) != 0);
    REFUSED(WORKER_UNKNOWN, bufabi_device_malloc(tasks, 77, 64, READ, patience, &memory));
    OK(bufabi_device_malloc(tasks, chip, 64, READWRITE, patience, &memory));
    CHECK(memory.backend_kind == DEVICE_MALLOC && memory.nbytes == 64);
    const bufabi_identity_t name = memory.identity;
    OK(bufabi_device_copy_to(tasks, chip, &name, 48, bytes, 16, patience));
    OK(bufabi_device_copy_from(tasks, chip, &name, 48, found, 16, patience));
    CHECK(memcmp(bytes, found, 16) == 0);
    CHECK(bufabi_device_copy_to(tasks, chip, &name, 49, bytes, 16, patience) != 0);
    CHECK(bufabi_device_copy_from(tasks, chip, &name, UINT64_MAX, found, 16, patience) != 0);
    CHECK(bufabi_device_copy_from(tasks, chip, &name, 0, found, 0, patience) == 0);
    OK(bufabi_device_live(tasks, &live));
    CHECK(live == 1);

    /* A task on that chip may name it, and while it does the memory is not freed; a sub-worker cannot. */
    const uint32_t eight[1] = {8};
    bufabi_view_t view;
    OK(bufabi_view_row_major(48, UINT8, eight, 1, &view));
    const bufabi_tensor_t in = tensor_of(&memory, view);
    OK(bufabi_view_row_major(0, UINT8, eight, 1, &view));
    const bufabi_tensor_t out = tensor_of(&memory, view);
    const bufabi_task_args_t args = arguments();
    uint32_t index = 0;
    bufabi_finished_t finished;
    uint64_t task = 0;
    add(args, in, INPUT);
    add(args, out, OUTPUT);
    OK(bufabi_task_args_add_scalar(args, 1, &index));
    submit(tasks, args, chip, ADD_SCALAR);
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    CHECK(finished.status == 0);
    OK(bufabi_device_copy_from(tasks, chip, &name, 0, found, 8, patience));
    CHECK(memcmp(found, "12345678", 8) == 0);
    const bufabi_member_t elsewhere = {args, sub, ADD_SCALAR};
    CHECK(bufabi_orchestrator_submit(tasks, &elsewhere, 1, &task) != 0);

    OK(bufabi_device_free(tasks, chip, &name, patience, &kept));
    CHECK(kept == 0);
    REFUSED(STALE, bufabi_device_free(tasks, chip, &name, patience, &kept));
    CHECK(bufabi_device_copy_from(tasks, chip, &name, 0, found, 8, patience) != 0);
    const bufabi_member_t freed = {args, chip, ADD_SCALAR};
    CHECK(bufabi_orchestrator_submit(tasks, &freed, 1, &task) != 0);
    OK(bufabi_task_args_release(args));

    REFUSED(OPTION_UNKNOWN, bufabi_device_create_shareable(tasks, chip, 64, READWRITE, 2, patience, &exported));
    OK(bufabi_device_create_shareable(tasks, chip, 64, READWRITE, BUFABI_ADMISSION_LISTED, patience, &exported));
    CHECK(exported.backend_kind == VMM_SHAREABLE);
    OK(bufabi_device_permit(tasks, chip, &exported, &sub, 1, patience));
    OK(bufabi_device_free(tasks, chip, &exported.identity, patience, &kept));

    bufabi_descriptor_t window[2];
    bufabi_domain_t domain = {0};
    const bufabi_window_part_t parts[2] = {{100, READ, 0}, {200, READWRITE, 0}}, wrong[1] = {{100, 4, 0}};
    REFUSED(BUFFER_TOO_SMALL, bufabi_domain_create(tasks, &chip, 1, parts, 2, patience, window, 1, &domain));
    REFUSED(ACCESS, bufabi_domain_create(tasks, &chip, 1, wrong, 1, patience, window, 2, &domain));
    OK(bufabi_domain_create(tasks, &chip, 1, parts, 2, patience, window, 2, &domain));
    CHECK(window[0].backend_kind == 2 && window[0].nbytes == 100 && window[1].nbytes == 200);
    CHECK(bufabi_device_free(tasks, chip, &window[0].identity, patience, &kept) != 0);
    OK(bufabi_domain_free(tasks, domain, patience));
    REFUSED(HANDLE_RELEASED, bufabi_domain_free(tasks, domain, patience));
    OK(bufabi_device_live(tasks, &live));
    CHECK(live == 0);
}

static void *idle(void *barrier) {
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

void worker_processes(void) {
    bufabi_endpoint_t endpoint = {0};
    bufabi_heap_t heap = {0};
    bufabi_orchestrator_t tasks = {0};
    int context = 31;
    OK(bufabi_endpoint_create(0, &endpoint));
    OK(bufabi_heap_create(endpoint, 1 << 16, &heap));
#define STARTED(...) \
    bufabi_orchestrator_create(endpoint, (bufabi_worker_t[]){__VA_ARGS__}, \
                               sizeof((bufabi_worker_t[]){__VA_ARGS__}) / sizeof(bufabi_worker_t), kernels, &context, \
                               UINT64_MAX, &tasks)
    for (int32_t kind = -2; kind < 9; ++kind)
        if (kind < 0 || kind > 4) REFUSED(OPTION_UNKNOWN, STARTED(worker("a", kind, -1)));
    REFUSED(WORKER_UNKNOWN, STARTED(worker("a", BUFABI_WORKER_SUB, 0)));
    REFUSED(WORKER_UNKNOWN, STARTED(worker("a", BUFABI_WORKER_SUB, -2)));
    REFUSED(WORKER_UNKNOWN, STARTED(worker("a", BUFABI_WORKER_SUB, -1), worker("b", BUFABI_WORKER_SUB, 0)));
    REFUSED(WORKER_UNKNOWN, STARTED(worker("a", BUFABI_WORKER_HOST, 1), worker("b", BUFABI_WORKER_SUB, 0)));
    REFUSED(TEXT_BROKEN, STARTED(worker("", BUFABI_WORKER_SUB, -1)));
    REFUSED(TEXT_BROKEN, STARTED(worker("a/b", BUFABI_WORKER_SUB, -1)));
    bufabi_worker_t endless = worker("", BUFABI_WORKER_SUB, -1);
    memset(endless.name, 'x', sizeof endless.name);
    REFUSED(TEXT_BROKEN, STARTED(endless));
    REFUSED(WORKER_NAME_TAKEN, STARTED(worker("a", BUFABI_WORKER_SUB, -1), worker("a", BUFABI_WORKER_CHIP, -1)));
    REFUSED(NULL_POINTER, bufabi_orchestrator_create(endpoint, NULL, 1, kernels, &context, 0, &tasks));
    pthread_t thread;
    pthread_barrier_t barrier;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0 && pthread_create(&thread, NULL, idle, &barrier) == 0);
    pthread_barrier_wait(&barrier);
    REFUSED(SEVERAL_THREADS, STARTED(worker("a", BUFABI_WORKER_SUB, -1)));
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0 && pthread_barrier_destroy(&barrier) == 0);
    OK(STARTED(worker("chip", BUFABI_WORKER_CHIP, -1), worker("l3", BUFABI_WORKER_HOST, -1),
               worker("sub", BUFABI_WORKER_SUB, 1), worker("other", BUFABI_WORKER_SUB, -1)));

    uint32_t chip = 9, sub = 9, other = 9, none = 9;
    int32_t pid = 0;
    OK(bufabi_orchestrator_find(tasks, "chip", 4, &chip));
    OK(bufabi_orchestrator_find(tasks, "l3/sub", 6, &sub));
    OK(bufabi_orchestrator_find(tasks, "other", 5, &other));
    REFUSED(WORKER_UNKNOWN, bufabi_orchestrator_find(tasks, "l3", 2, &none));
    REFUSED(WORKER_UNKNOWN, bufabi_orchestrator_find(tasks, NULL, 0, &none));
    REFUSED(TEXT_BROKEN, bufabi_orchestrator_find(tasks, "\xff", 1, &none));
    OK(bufabi_orchestrator_pid(tasks, sub, &pid));
    CHECK(pid > 0 && pid != getpid());
    REFUSED(WORKER_UNKNOWN, bufabi_orchestrator_pid(tasks, 3, &pid));

    /* From shared memory through a chip into inherited memory, and on through two hops into shared memory. */
    bufabi_buffer_t in = {0}, between = {0}, out = {0};
    bufabi_mapping_t mapping = {0};
    bufabi_tensor_t first, second, third, flag;
    const uint32_t eight[1] = {8};
    bufabi_view_t view;
    bufabi_finished_t finished;
    OK(bufabi_view_row_major(0, UINT8, eight, 1, &view));
    OK(bufabi_buffer_create(endpoint, 64, READ, &in));
    OK(bufabi_heap_create_buffer(heap, 64, READWRITE, &between));
    OK(bufabi_buffer_create(endpoint, 64, READWRITE, &out));
    OK(bufabi_buffer_tensor(between, &view, &second));
    view.strides[0] = 2;
    OK(bufabi_buffer_tensor(in, &view, &first));
    OK(bufabi_buffer_tensor(out, &view, &third));
    OK(bufabi_buffer_map(in, &mapping));
    OK(bufabi_mapping_write(mapping, 0, "0123456789abcdef", 16));
    OK(bufabi_mapping_release(mapping));
    const bufabi_task_args_t args = arguments();
    uint32_t index = 0;
    REFUSED(WORKER_IDLE, bufabi_orchestrator_wait(tasks, 0, &finished));
    add(args, first, INPUT);
    add(args, second, OUTPUT);
    OK(bufabi_task_args_add_scalar(args, 1, &index));
    CHECK(submit(tasks, args, chip, ADD_SCALAR) == 0);
    OK(bufabi_task_args_clear(args));
    add(args, second, INPUT);
    add(args, third, OUTPUT);
    OK(bufabi_task_args_add_scalar(args, 1, &index));
    CHECK(submit(tasks, args, sub, ADD_SCALAR) == 1);
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    CHECK(finished.task == 0 && finished.status == 0 && finished.hops == 0 && finished.resolution_count == 2);
    CHECK(finished.resolutions[0] == BUFABI_RESOLUTION_MAPPED_NOW);
    CHECK(finished.resolutions[1] == BUFABI_RESOLUTION_INHERITED);
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    CHECK(finished.task == 1 && finished.status == 0 && finished.hops == 1 && finished.text[0] == 0);
    OK(bufabi_buffer_map(out, &mapping));
    unsigned char found[16];
    OK(bufabi_mapping_read(mapping, 0, found, 16));
    CHECK(memcmp(found, "2\0004\0006\0008\0:\0c\0e\0g", 16) == 0);
    OK(bufabi_mapping_release(mapping));

    /* Refused at submit; then failures, and what depends on them. */
    uint64_t task = 77;
    bufabi_member_t member = {args, 3, ADD_SCALAR};
    REFUSED(WORKER_UNKNOWN, bufabi_orchestrator_submit(tasks, &member, 1, &task));
    REFUSED(TASK_EMPTY, bufabi_orchestrator_submit(tasks, NULL, 0, &task));
    member.worker = sub;
    OK(bufabi_task_args_set_tag(args, 0, INOUT));
    OK(bufabi_task_args_set_tag(args, 1, INPUT));
    const bufabi_member_t both[2] = {member, {{args.token ^ 1}, sub, ADD_SCALAR}};
    CHECK(bufabi_orchestrator_submit(tasks, both, 2, &task) != 0 && task == 77);
    CHECK(submit(tasks, args, sub, OWN_NUMBER) == 2);
    CHECK(submit(tasks, args, chip, ADD_SCALAR) == 3);
    for (int i = 0; i < 2; ++i) {
        OK(bufabi_orchestrator_wait(tasks, patience, &finished));
        CHECK(finished.status == BUFABI_STATUS_KERNEL_FAILED && finished.is_poisoned == (finished.task == 3));
        CHECK(finished.cause_task == 2 && finished.cause_worker == sub && strstr(finished.text, "100777") != NULL);
    }
    bufabi_status_t failure = 0;
    OK(bufabi_orchestrator_end_run(tasks, patience, &failure));
    CHECK(failure == BUFABI_STATUS_KERNEL_FAILED);
    submit(tasks, args, chip, A_STATUS);
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    CHECK(finished.status == BUFABI_STATUS_KERNEL_SHAPE && finished.is_poisoned == 0);
    OK(bufabi_orchestrator_end_run(tasks, patience, &failure));
    CHECK(failure == BUFABI_STATUS_KERNEL_SHAPE);
    OK(bufabi_orchestrator_end_run(tasks, patience, &failure));
    CHECK(failure == 0);

    /* While it runs, what it names is not released. */
    view.strides[0] = 1;
    OK(bufabi_buffer_map(between, &mapping));
    OK(bufabi_mapping_write(mapping, 0, "\0", 1));
    OK(bufabi_buffer_tensor(between, &view, &flag));
    OK(bufabi_task_args_clear(args));
    add(args, flag, INPUT);
    submit(tasks, args, other, WAIT_FOR_FLAG);
    REFUSED(TIMED_OUT, bufabi_orchestrator_wait(tasks, 1000000, &finished));
    REFUSED(BUSY, bufabi_buffer_release(between));
    OK(bufabi_mapping_write(mapping, 0, "\1", 1));
    OK(bufabi_mapping_release(mapping));
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    OK(bufabi_buffer_release(between));

    device_memory(tasks, chip, sub);

    /* A worker that ends takes its task with it, and no other. */
    OK(bufabi_task_args_clear(args));
    OK(bufabi_orchestrator_pid(tasks, other, &pid));
    submit(tasks, args, other, DIE);
    OK(bufabi_orchestrator_wait(tasks, patience, &finished));
    CHECK(finished.status == BUFABI_STATUS_WORKER_DIED && strstr(finished.text, "other") != NULL);
    member.arguments = args;
    member.worker = other;
    REFUSED(WORKER_DIED, bufabi_orchestrator_submit(tasks, &member, 1, &task));

    bufabi_descriptor_t descriptor;
    size_t kept = 9;
    OK(bufabi_buffer_descriptor(in, &descriptor));
    OK(bufabi_buffer_release(in));
    OK(bufabi_orchestrator_release_imports(tasks, &descriptor.identity, patience, NULL, 0, &kept));
    CHECK(kept == 0);
    OK(bufabi_buffer_release(out));
    OK(bufabi_task_args_release(args));
    OK(bufabi_orchestrator_release(tasks));
    REFUSED(HANDLE_RELEASED, bufabi_orchestrator_wait(tasks, 0, &finished));

    uint32_t kernel = 0;
    OK(bufabi_kernel_number("matmul", 6, 1, &kernel));
    REFUSED(KERNEL_UNKNOWN, bufabi_kernel_number("mat", 3, 0, &kernel));
    REFUSED(NULL_POINTER, bufabi_kernel_number(NULL, 3, 0, &kernel));
    OK(bufabi_heap_release(heap));
    OK(bufabi_endpoint_release(endpoint));
}
