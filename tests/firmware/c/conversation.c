/* Reads requests, asks the library, writes its answers: in freestanding C, for any board. */
#include "measure.h"
#include "misuse.h"
#include "platform.h"

#define MAX_RECORD 40960 /* more than a blob of 257 tensors and 129 scalars */

/* One request, read into storage that never moves. */
static char line[2 * MAX_RECORD + 64];
static _Alignas(8) unsigned char record[MAX_RECORD];
static bufabi_tensor_t pair[2];
static _Alignas(64) unsigned char chip_tensor[sizeof(bufabi_chip_tensor_t)];
static bufabi_chip_storage_task_args_t task_args;

/* ---- Text ---- */

static size_t text_len(const char *text) {
    size_t len = 0;
    while (text[len] != '\0')
        len++;
    return len;
}

static int same_text(const char *left, const char *right) {
    size_t i = 0;
    while (left[i] == right[i] && left[i] != '\0')
        i++;
    return left[i] == right[i];
}

static void say(const char *text) {
    platform_write(text, text_len(text));
}

static void say_number(uint32_t number) {
    char digits[10];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    platform_write(digits + first, sizeof digits - first);
}

static void say_hex(const void *bytes, size_t len) {
    static const char digits[] = "0123456789abcdef";
    char text[2 * 64];
    const unsigned char *from = bytes;
    while (len > 0) {
        size_t part = len < 64 ? len : 64;
        for (size_t i = 0; i < part; i++) {
            text[2 * i] = digits[from[i] >> 4];
            text[2 * i + 1] = digits[from[i] & 15];
        }
        platform_write(text, 2 * part);
        from += part;
        len -= part;
    }
}

static int digit_value(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The next word of the line, closed with a NUL in place; an empty one at its end. */
static char *next_word(char **rest) {
    char *word = *rest, *end = word;
    while (*end != ' ' && *end != '\0')
        end++;
    *rest = *end == ' ' ? end + 1 : end;
    *end = '\0';
    return word;
}

static uint64_t parse(const char *digits, uint64_t radix) {
    uint64_t number = 0;
    for (; *digits != '\0'; digits++)
        number = number * radix + (uint64_t)digit_value(*digits);
    return number;
}

/* Hex into `record`; the number of bytes. The host wrote it: what it wrote fits and is hex. */
static size_t unhex(const char *text) {
    size_t len = 0;
    if (same_text(text, "-"))
        return 0;
    for (; text[0] != '\0' && text[1] != '\0' && len < sizeof record; text += 2)
        record[len++] = (unsigned char)(digit_value(text[0]) << 4 | digit_value(text[1]));
    return len;
}

/* The record of a request that names how much of it is at hand. */
static size_t unhex_readable(char **rest) {
    uint64_t readable = parse(next_word(rest), 10);
    size_t len = unhex(next_word(rest));
    return readable < len ? (size_t)readable : len;
}

/* ---- The requests ---- */

static void say_status(bufabi_status_t status) {
    say(bufabi_status_name(status));
}

static void say_bad_tensor(int32_t index, bufabi_status_t status) {
    say("tensor ");
    say_number((uint32_t)index);
    say(" ");
    say_status(status);
}

static void answer_blob(size_t readable) {
    int32_t tensors = -1, scalars = -1;
    bufabi_status_t status =
        MEASURED(blob_check, bufabi_blob_check(record, readable, &tensors, &scalars));
    if (status == BUFABI_STATUS_OK) {
        say("ok ");
        say_number((uint32_t)tensors);
        say(" ");
        say_number((uint32_t)scalars);
    } else if (tensors >= 0) {
        say_bad_tensor(tensors, status);
    } else {
        say_status(status);
    }
}

static void answer_chip(size_t len, uint64_t base) {
    bufabi_status_t status =
        MEASURED(chip_tensor_from, bufabi_chip_tensor_from(record, len, base, chip_tensor));
    if (status == BUFABI_STATUS_OK)
        say_hex(chip_tensor, sizeof chip_tensor);
    else
        say_status(status);
}

/* Where this device finds a backing: at the address in the body, if it is one of the device's. */
static bufabi_status_t resolve(void *context, const void *tensor, uint64_t *base) {
    const unsigned char *bytes = tensor; /* at any alignment: no pointer to a struct */
    const size_t kind = offsetof(bufabi_tensor_t, buffer) + offsetof(bufabi_descriptor_t, backend_kind);
    const size_t body = offsetof(bufabi_tensor_t, buffer) + offsetof(bufabi_descriptor_t, body);
    (void)context;
    if (bytes[kind] != 2 && bytes[kind] != 4) /* VMM_WINDOW, DEVICE_MALLOC */
        return BUFABI_STATUS_CAPABILITY;
    *base = 0;
    for (size_t i = 8; i > 0; i--)
        *base = *base << 8 | bytes[body + i - 1];
    return BUFABI_STATUS_OK;
}

static void answer_task(size_t readable) {
    int32_t index = -1;
    bufabi_status_t status = MEASURED(
        blob_materialize, bufabi_blob_materialize(record, readable, resolve, NULL, &task_args, &index));
    if (status != BUFABI_STATUS_OK) {
        if (index >= 0)
            say_bad_tensor(index, status);
        else
            say_status(status);
        return;
    }
    say("ok");
    for (int32_t i = 0; i < task_args.tensor_count; i++) {
        say(" ");
        say_hex(&task_args.tensors[i], sizeof task_args.tensors[i]);
    }
    for (int32_t i = 0; i < task_args.scalar_count; i++) {
        say(" ");
        say_hex(&task_args.scalars[i], sizeof task_args.scalars[i]);
    }
}

/* Whether some byte belongs to both, and whether every byte of the second belongs to the first. */
static void answer_overlap(char **rest) {
    int32_t relation = -1;
    for (int i = 0; i < 2; i++) {
        size_t len = unhex(next_word(rest));
        unsigned char *tensor = (unsigned char *)&pair[i];
        for (size_t at = 0; at < sizeof pair[i]; at++)
            tensor[at] = at < len ? record[at] : 0;
    }
    bufabi_status_t status = MEASURED(tensor_relate, bufabi_tensor_relate(&pair[0], &pair[1], &relation));
    if (status != BUFABI_STATUS_OK)
        say_status(status);
    else
        say(relation == BUFABI_RELATION_DISJOINT      ? "0 0"
            : relation == BUFABI_RELATION_OVERLAPPING ? "1 0"
            : relation == BUFABI_RELATION_COVERING    ? "1 1"
                                                      : "not known");
}

static void answer_stack(void) {
    for (int i = 0; i < FUNCTIONS; i++) {
        if (i > 0)
            say(" ");
        say(measured_names[i]);
        say(" ");
        say_number(measured_stack[i]);
    }
}

static void answer_misuse(uint32_t wrong) {
    if (wrong == 0) {
        say("ok");
    } else {
        say("wrong status of call ");
        say_number(wrong);
    }
}

static void answer_request(char *rest) {
    const char *request = next_word(&rest);
    if (same_text(request, "descriptor")) {
        size_t len = unhex(next_word(&rest));
        say_status(MEASURED(descriptor_check, bufabi_descriptor_check(record, len)));
    } else if (same_text(request, "tensor")) {
        size_t len = unhex(next_word(&rest));
        say_status(MEASURED(tensor_check, bufabi_tensor_check(record, len)));
    } else if (same_text(request, "blob")) {
        answer_blob(unhex_readable(&rest));
    } else if (same_text(request, "chip")) {
        size_t len = unhex(next_word(&rest));
        answer_chip(len, parse(next_word(&rest), 16));
    } else if (same_text(request, "task")) {
        answer_task(unhex_readable(&rest));
    } else if (same_text(request, "overlap")) {
        answer_overlap(&rest);
    } else if (same_text(request, "arguments")) {
        answer_misuse(misuse_of_arguments());
    } else if (same_text(request, "tables")) {
        answer_misuse(use_of_tables());
    } else if (same_text(request, "records")) {
        answer_misuse(use_of_records());
    } else if (same_text(request, "messages")) {
        answer_misuse(use_of_queue());
    } else if (same_text(request, "stack")) {
        answer_stack();
    } else {
        say("unknown request");
    }
    say("\n");
}

void conversation(void) {
    static char part[4096];
    size_t filled = 0, got;
    while ((got = platform_read(part, sizeof part)) > 0) {
        for (size_t i = 0; i < got; i++) {
            if (part[i] == '\n') {
                line[filled] = '\0';
                answer_request(line);
                filled = 0;
            } else if (filled < sizeof line - 1) {
                line[filled++] = part[i];
            }
        }
    }
}
