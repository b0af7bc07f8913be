// SPDX-License-Identifier: MIT
// The heap of the library. Every block carries its size in front, so that one counter holds the
// live bytes and another their peak. Tests compare the first with zero at the end, and the second
// with the plan's figures. Blocks start on 64 bytes, a cache line and the widest vector. The
// counters are mutable globals; base/guard.c and io/unfinished_files.c have others, for signal
// handlers. This file keeps and recycles no blocks: malloc does that.
#include "base/memory.h"

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "base/status.h"

enum { ALIGNMENT = 64 };

#define BLOCK_MARK UINT32_C(0x6d6d756c)

// Lies immediately before the aligned memory.
struct block {
    int64_t bytes; // including what precedes the memory
    uint32_t mark;
    uint32_t offset; // bytes from the beginning that malloc returned to the memory
};

// malloc aligns to max_align_t, so the next aligned byte with a header before it is at most
// ALIGNMENT away.
_Static_assert(sizeof(struct block) <= alignof(max_align_t), "a block header fits before memory");

static _Atomic int64_t live_bytes, peak_bytes;

bool mmul_multiply_sizes(int64_t a, int64_t b, int64_t *product) {
    int64_t result;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result))
        return false;
    *product = result;
    return true;
}

static void fail_memory(int64_t count, size_t bytes_each, const char *what,
                        struct mmul_error *err) {
    int64_t bytes;
    char text[32];
    if (mmul_multiply_sizes(count, (int64_t)bytes_each, &bytes))
        mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate %s for %s", mmul_bytes_format(bytes, text),
                  what);
    else
        mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate %lld x %zu bytes for %s", (long long)count,
                  bytes_each, what);
}

static struct block *header_of(void *memory) {
    return (struct block *)((char *)memory - sizeof(struct block));
}

static void update_peak(int64_t bytes) {
    int64_t seen = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
    while (bytes > seen &&
           !atomic_compare_exchange_weak_explicit(&peak_bytes, &seen, bytes, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

void *mmul_allocate_raw(int64_t count, size_t bytes_each, const char *what,
                        struct mmul_error *err) {
    int64_t bytes;
    char *start = NULL;
    // posix_memalign takes several times as long as malloc for a small block.
    if (mmul_multiply_sizes(count, (int64_t)bytes_each, &bytes) && bytes <= INT64_MAX - ALIGNMENT)
        start = malloc((size_t)bytes + ALIGNMENT);
    if (start == NULL) {
        fail_memory(count, bytes_each, what, err);
        return NULL;
    }
    const uint32_t offset = ALIGNMENT - (uint32_t)((uintptr_t)start % ALIGNMENT);
    char *memory = start + offset;
    bytes += ALIGNMENT;
    *header_of(memory) = (struct block){bytes, BLOCK_MARK, offset};
    update_peak(atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed) + bytes);
    return memory;
}

void *mmul_allocate(int64_t count, size_t bytes_each, const char *what, struct mmul_error *err) {
    void *memory = mmul_allocate_raw(count, bytes_each, what, err);
    if (memory != NULL)
        memset(memory, 0, (size_t)count * bytes_each); // the product fits: it was allocated
    return memory;
}

enum mmul_status mmul_allocate_all(const struct mmul_array_request *wanted, size_t count,
                                   const char *what, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (size_t i = 0; i < count; i++) {
        const struct mmul_array_request *w = &wanted[i];
        void *memory = NULL;
        if (status == MMUL_OK) {
            memory = mmul_allocate(w->count, w->bytes_each, what, err);
            status = memory != NULL ? MMUL_OK : err->status;
        }
        memcpy(w->pointer, &memory, sizeof memory); // the type of the target is unknown here
    }
    return status;
}

// Removes the block from the count and returns its beginning.
static void *uncount_block(void *memory) {
    struct block *block = header_of(memory);
    assert(block->mark == BLOCK_MARK);
    block->mark = 0;
    atomic_fetch_sub_explicit(&live_bytes, block->bytes, memory_order_relaxed);
    return (char *)memory - block->offset;
}

void mmul_free(void *memory) {
    if (memory != NULL)
        free(uncount_block(memory));
}

void mmul_free_all(void *const *blocks, size_t count) {
    for (size_t i = 0; i < count; i++)
        mmul_free(blocks[i]);
}

void mmul_abandon(void *memory) {
    if (memory == NULL)
        return;
    void *block = uncount_block(memory);
#ifdef __SANITIZE_ADDRESS__
    __lsan_ignore_object(block); // a deliberate leak
#endif
    (void)block;
}

int64_t mmul_live_bytes(void) {
    return atomic_load_explicit(&live_bytes, memory_order_relaxed);
}

int64_t mmul_peak_bytes(void) {
    return atomic_load_explicit(&peak_bytes, memory_order_relaxed);
}

void mmul_peak_bytes_reset(void) {
    atomic_store_explicit(&peak_bytes, mmul_live_bytes(), memory_order_relaxed);
}

enum mmul_status mmul_copy_text(const char *text, char **copy, struct mmul_error *err) {
    size_t bytes = strlen(text) + 1;
    char *fresh = mmul_allocate_raw((int64_t)bytes, 1, "a text", err);
    if (fresh == NULL)
        return err->status;
    memcpy(fresh, text, bytes);
    *copy = fresh;
    return MMUL_OK;
}
