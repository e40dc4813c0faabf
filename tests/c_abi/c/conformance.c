/* The host library from C: what it does, and that whatever C gives it gets a status. Run with a memory checker on it. */
#include "check.h"

#include <stdio.h>
#include <string.h>

static int checks, failures;

void check(int holds, const char *what, int line) {
    ++checks;
    if (holds) return;
    ++failures;
    char text[256];
    size_t needed = 0;
    bufabi_error_text(text, sizeof text, &needed);
    fprintf(stderr, "line %d: %s does not hold; the last refusal: %s\n", line, what, text);
}

bufabi_descriptor_fields_t shm_fields(uint64_t id, const char *name) {
    bufabi_descriptor_fields_t fields;
    memset(&fields, 0, sizeof fields);
    memset(fields.identity.owner_instance_id, 0xa5, 8);
    fields.identity.buffer_id = id;
    fields.identity.generation = 1;
    fields.nbytes = 4096;
    fields.access = READWRITE;
    fields.backend_kind = POSIX_SHM;
    strcpy(fields.shm_name, name);
    return fields;
}

bufabi_view_t dense(uint64_t byte_offset, int32_t dtype, uint32_t rows, uint32_t columns) {
    const uint32_t shape[2] = {rows, columns};
    bufabi_view_t view;
    memset(&view, 0, sizeof view);
    OK(bufabi_view_row_major(byte_offset, dtype, shape, 2, &view));
    return view;
}

bufabi_tensor_t tensor_of(const bufabi_descriptor_t *descriptor, bufabi_view_t view) {
    bufabi_tensor_t tensor;
    memset(&tensor, 0, sizeof tensor);
    OK(bufabi_tensor_encode(descriptor, &view, &tensor));
    return tensor;
}

bufabi_tensor_t some_tensor(uint64_t id, uint64_t byte_offset, uint32_t rows) {
    bufabi_descriptor_t descriptor;
    const bufabi_descriptor_fields_t fields = shm_fields(id, "somewhere");
    OK(bufabi_descriptor_encode(&fields, &descriptor));
    return tensor_of(&descriptor, dense(byte_offset, FLOAT32, rows, 4));
}

bufabi_task_args_t arguments(void) {
    bufabi_task_args_t arguments = {0};
    OK(bufabi_task_args_create(&arguments));
    return arguments;
}

void add(bufabi_task_args_t arguments, bufabi_tensor_t tensor, int32_t tag) {
    uint32_t index;
    OK(bufabi_task_args_add_tensor(arguments, &tensor, tag, &index));
}

int main(int argc, char **argv) {
    const int has_process_descriptors = argc < 2 || strcmp(argv[1], "without-process-descriptors") != 0;
    versions_and_words();
    records();
    blobs();
    rights_and_overlaps();
    task_arguments();
    dependencies();
    owners_and_consumers();
    capacities();
    inherited_memory();
    /* Workers are started while there is one thread. */
    if (has_process_descriptors) worker_processes();
    shared_device_memory(has_process_descriptors);
    regions_and_queues();
    handles_of_the_wrong_kind();
    threads();
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
