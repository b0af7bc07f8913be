// SPDX-License-Identifier: MIT
// The only heap of the library: sizes are checked for overflow, bytes are counted.
#pragma once

#include "mpimatmul_local.h"

// a * b (* c) in bytes or elements; false when it does not fit.
bool mmul_multiply_sizes(int64_t a, int64_t b, int64_t *product);

// Zeroed memory for `count` objects of `bytes_each`, 64-byte aligned; `what` names it in the error.
// count 0 gives a valid pointer. Released with mmul_free. NULL: failed, err says why
// (MMUL_ERR_SYSTEM).
void *mmul_allocate(int64_t count, size_t bytes_each, const char *what, struct mmul_error *err);

// Same, contents undefined (no first touch).
void *mmul_allocate_raw(int64_t count, size_t bytes_each, const char *what, struct mmul_error *err);

// `count` objects of what `pointer` points to, as a status: the pointer is NULL where it failed.
#define MMUL_ALLOCATE(pointer, count, what, err)                                        \
    (((pointer) = mmul_allocate(count, sizeof *(pointer), what, err)) != NULL ? MMUL_OK \
                                                                              : (err)->status)
#define MMUL_ALLOCATE_RAW(pointer, count, what, err)                                        \
    (((pointer) = mmul_allocate_raw(count, sizeof *(pointer), what, err)) != NULL ? MMUL_OK \
                                                                                  : (err)->status)

// Several at once, zeroed, each a MMUL_WANT(pointer, count); after the first that fails all are NULL:
//     MMUL_ALLOCATE_ALL("a plan", err, MMUL_WANT(plan->places, places), MMUL_WANT(plan->steps, steps))
struct mmul_wanted {
    void *pointer; // to a pointer
    int64_t count;
    size_t bytes_each;
};
enum mmul_status mmul_allocate_all(const struct mmul_wanted *wanted, size_t count, const char *what,
                                   struct mmul_error *err);
#define MMUL_WANT(pointer, count)              \
    (struct mmul_wanted) {                     \
        &(pointer), (count), sizeof *(pointer) \
    }
#define MMUL_ALLOCATE_ALL(what, err, ...)          \
    mmul_allocate_all(                             \
        (const struct mmul_wanted[]){__VA_ARGS__}, \
        sizeof((const struct mmul_wanted[]){__VA_ARGS__}) / sizeof(struct mmul_wanted), what, err)

// The most bytes that were held at a time (mmul_live_bytes) since the last reset, which makes it those of now.
int64_t mmul_peak_bytes(void);
void mmul_peak_bytes_reset(void);

// A heap copy of `text`.
enum mmul_status mmul_copy_text(const char *text, char **copy, struct mmul_error *err);

// Gives a block up without releasing it: a device that is out of control may still write to it. It
// is not counted any more. NULL is legal.
void mmul_abandon(void *memory);
