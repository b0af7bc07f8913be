// SPDX-License-Identifier: MIT
// Finds the owner of each block, then lists the blocks by owner.
#include "plan/parts/deal.h"

#include "base/memory.h"

// Returns the part that finishes first with one more block. held: number of blocks of each part.
static int find_next_part(int parts, const double *weights, const int64_t *held) {
    int best = 0;
    for (int part = 1; part < parts; part++)
        if (weights[part] * (double)(held[best] + 1) > weights[best] * (double)(held[part] + 1))
            best = part;
    return best;
}

enum mmul_status mmul_deal_blocks(int64_t count, int parts, const double *weights, int64_t *first,
                                  int64_t *blocks, struct mmul_error *err) {
    int *owners = NULL;
    int64_t *held = NULL;
    enum mmul_status status = MMUL_ALLOCATE_ALL("blocks of columns", err, MMUL_ARRAY(owners, count),
                                                MMUL_ARRAY(held, parts));
    for (int64_t block = count - 1; status == MMUL_OK && block >= 0; block--) {
        owners[block] = find_next_part(parts, weights, held);
        held[owners[block]]++;
    }
    if (status == MMUL_OK) {
        first[0] = 0;
        for (int part = 0; part < parts; part++) {
            first[part + 1] = first[part] + held[part];
            held[part] = first[part]; // from here on the position of the part's next block
        }
        for (int64_t block = 0; block < count; block++)
            blocks[held[owners[block]]++] = block;
    }
    MMUL_FREE_ALL(owners, held);
    return status;
}
