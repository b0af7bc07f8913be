// SPDX-License-Identifier: MIT
// XXH3 of xxHash, in one call or in pieces. No other file calls xxHash.
#include "base/hash.h"

#define XXH_STATIC_LINKING_ONLY // exposes the size of the state, so that it lives in counted memory
#include <xxhash.h>

#include "base/memory.h"
#include "base/status.h"

struct mmul_hasher {
    XXH3_state_t state;
};

uint64_t mmul_hash(const void *bytes, size_t count) {
    return XXH3_64bits(bytes, count);
}

enum mmul_status mmul_hasher_create(struct mmul_hasher **hasher, struct mmul_error *err) {
    struct mmul_hasher *made = mmul_allocate(1, sizeof *made, "a checksum", err);
    if (made == NULL)
        return err->status;
    if (XXH3_64bits_reset(&made->state) != XXH_OK) {
        mmul_free(made);
        return mmul_fail(err, MMUL_ERR_INTERNAL, "cannot start a checksum");
    }
    *hasher = made;
    return MMUL_OK;
}

void mmul_hasher_add(struct mmul_hasher *hasher, const void *bytes, size_t count) {
    (void)XXH3_64bits_update(&hasher->state, bytes, count); // fails for a NULL pointer only
}

uint64_t mmul_hasher_value(const struct mmul_hasher *hasher) {
    return XXH3_64bits_digest(&hasher->state);
}

void mmul_hasher_destroy(struct mmul_hasher *hasher) {
    mmul_free(hasher);
}
