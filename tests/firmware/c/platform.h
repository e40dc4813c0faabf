/* What the conversation needs of the machine it runs on: one stream in, one out. */
#ifndef PLATFORM_H
#define PLATFORM_H

#include <stddef.h>

/* Reads up to `capacity` bytes of the requests; 0 at their end. */
size_t platform_read(void *bytes, size_t capacity);

/* Appends to the answers. */
void platform_write(const void *bytes, size_t len);

/* Answers every request. */
void conversation(void);

#endif
