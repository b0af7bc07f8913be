// SPDX-License-Identifier: MIT
// The only heap of the library: sizes are checked for overflow, bytes are counted.
#pragma once

#include "mpimatmul_local.h"

// Multiplies bytes or elements. Returns false if the product overflows or a factor is negative.
bool mmul_multiply_sizes(int64_t a, int64_t b, int64_t *product);

// Allocates zeroed memory for `count` objects of `bytes_each`, 64-byte aligned. `what` names it in
// error texts. count 0 gives a valid pointer. Released with mmul_free. Returns NULL on failure with
// the reason in err (MMUL_ERR_SYSTEM).
void *mmul_allocate(int64_t count, size_t bytes_each, const char *what, struct mmul_error *err);

// Same, with undefined contents (no first touch).
void *mmul_allocate_raw(int64_t count, size_t bytes_each, const char *what, struct mmul_error *err);

// Allocates `count` objects of the pointer's type and yields a status. On failure the pointer is
// NULL.
#define MMUL_ALLOCATE(pointer, count, what, err)                                        \
    (((pointer) = mmul_allocate(count, sizeof *(pointer), what, err)) != NULL ? MMUL_OK \
                                                                              : (err)->status)
#define MMUL_ALLOCATE_RAW(pointer, count, what, err)                                        \
    (((pointer) = mmul_allocate_raw(count, sizeof *(pointer), what, err)) != NULL ? MMUL_OK \
                                                                                  : (err)->status)

// Allocates several zeroed arrays, each given as MMUL_ARRAY(pointer, count). After the first
// failure the remaining pointers are NULL:
//   MMUL_ALLOCATE_ALL("a plan", err, MMUL_ARRAY(plan->places, places),
//                     MMUL_ARRAY(plan->steps, steps))
struct mmul_array_request {
    void *pointer; // address of a pointer
    int64_t count;
    size_t bytes_each;
};
enum mmul_status mmul_allocate_all(const struct mmul_array_request *wanted, size_t count,
                                   const char *what, struct mmul_error *err);
#define MMUL_ARRAY(pointer, count)             \
    (struct mmul_array_request) {              \
        &(pointer), (count), sizeof *(pointer) \
    }
#define MMUL_ALLOCATE_ALL(what, err, ...)                                        \
    mmul_allocate_all((const struct mmul_array_request[]){__VA_ARGS__},          \
                      sizeof((const struct mmul_array_request[]){__VA_ARGS__}) / \
                          sizeof(struct mmul_array_request),                     \
                      what, err)

// Releases several blocks; NULL is legal: MMUL_FREE_ALL(plan->places, plan->steps)
void mmul_free_all(void *const *blocks, size_t count);
#define MMUL_FREE_ALL(...)                      \
    mmul_free_all((void *const[]){__VA_ARGS__}, \
                  sizeof((void *const[]){__VA_ARGS__}) / sizeof(void *))

// Returns the peak of mmul_live_bytes since the last reset. A reset sets it to the present value.
int64_t mmul_peak_bytes(void);
void mmul_peak_bytes_reset(void);

// Copies `text` to the heap.
enum mmul_status mmul_copy_text(const char *text, char **copy, struct mmul_error *err);

// Gives up a block without releasing it, because a device out of control may still write to it. The
// block is no longer counted. NULL is legal.
void mmul_abandon(void *memory);
