/* Every status. Generated from the error table of bufabi-core; not to be edited.
 *
 * Numbers are frozen: a new one is added, an old one never moves. */
#ifndef BUFABI_STATUS_H
#define BUFABI_STATUS_H

#define BUFABI_STATUS_OK 0 /* fault of: nobody */
#define BUFABI_STATUS_SIZE 1 /* fault of: sender */
#define BUFABI_STATUS_MAGIC 2 /* fault of: sender */
#define BUFABI_STATUS_ADDRESS_SPACE 3 /* fault of: sender */
#define BUFABI_STATUS_ACCESS 4 /* fault of: sender */
#define BUFABI_STATUS_BACKEND_KIND 5 /* fault of: sender */
#define BUFABI_STATUS_BODY_LEN 6 /* fault of: sender */
#define BUFABI_STATUS_GENERATION 7 /* fault of: sender */
#define BUFABI_STATUS_CAPABILITY 8 /* fault of: sender */
#define BUFABI_STATUS_FORK_COW_ACCESS 9 /* fault of: sender */
#define BUFABI_STATUS_BODY_ADDRESS_LEN 10 /* fault of: sender */
#define BUFABI_STATUS_BODY_NULL_BASE 11 /* fault of: sender */
#define BUFABI_STATUS_BODY_SHM_NAME_EMPTY 12 /* fault of: sender */
#define BUFABI_STATUS_BODY_SHM_NAME_CHAR 13 /* fault of: sender */
#define BUFABI_STATUS_BODY_SHAREABLE_LEN 14 /* fault of: sender */
#define BUFABI_STATUS_BODY_SHAREABLE_HANDLE 15 /* fault of: sender */
#define BUFABI_STATUS_BODY_SHAREABLE_RESERVED 16 /* fault of: sender */
#define BUFABI_STATUS_BODY_SHAREABLE_MAPPING 17 /* fault of: sender */
#define BUFABI_STATUS_BODY_REMOTE_NOT_EMPTY 18 /* fault of: sender */
#define BUFABI_STATUS_BODY_TAIL 19 /* fault of: sender */
#define BUFABI_STATUS_NDIMS 32 /* fault of: sender */
#define BUFABI_STATUS_DTYPE 33 /* fault of: sender */
#define BUFABI_STATUS_BYTE_OFFSET_ALIGNMENT 34 /* fault of: sender */
#define BUFABI_STATUS_SHAPE_ZERO 35 /* fault of: sender */
#define BUFABI_STATUS_STRIDE_ZERO 36 /* fault of: sender */
#define BUFABI_STATUS_INACTIVE_DIMS 37 /* fault of: sender */
#define BUFABI_STATUS_EXTENT_OVERFLOW 38 /* fault of: sender */
#define BUFABI_STATUS_OUT_OF_BOUNDS 39 /* fault of: sender */
#define BUFABI_STATUS_SHORT 48 /* fault of: sender */
#define BUFABI_STATUS_NEGATIVE 49 /* fault of: sender */
#define BUFABI_STATUS_PAST_END 50 /* fault of: sender */
#define BUFABI_STATUS_ADDRESS_OVERFLOW 64 /* fault of: sender */
#define BUFABI_STATUS_TOO_MANY_ARGUMENTS 65 /* fault of: sender */
#define BUFABI_STATUS_TAG 80 /* fault of: caller */
#define BUFABI_STATUS_DENIED 81 /* fault of: caller */
#define BUFABI_STATUS_BUFFER_TOO_SMALL 96 /* fault of: caller */
#define BUFABI_STATUS_NULL_POINTER 256 /* fault of: caller */
#define BUFABI_STATUS_MISALIGNED 257 /* fault of: caller */
#define BUFABI_STATUS_OVERLAPPING_ARGUMENTS 258 /* fault of: caller */
#define BUFABI_STATUS_LENGTH 259 /* fault of: caller */

#endif /* BUFABI_STATUS_H */
