/* The conversation as an ordinary program: `PROGRAM REQUESTS ANSWERS`. */
#include "platform.h"

#include <stdio.h>

static FILE *requests, *answers;

size_t platform_read(void *bytes, size_t capacity) {
    return fread(bytes, 1, capacity, requests);
}

void platform_write(const void *bytes, size_t len) {
    fwrite(bytes, 1, len, answers);
}

int main(int argc, char **argv) {
    if (argc != 3 || !(requests = fopen(argv[1], "rb")) || !(answers = fopen(argv[2], "wb"))) {
        fprintf(stderr, "usage: conversation REQUESTS ANSWERS\n");
        return 2;
    }
    conversation();
    fclose(requests);
    return fclose(answers) == 0 ? 0 : 3;
}
