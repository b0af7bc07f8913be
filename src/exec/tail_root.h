// SPDX-License-Identifier: MIT
// Root's side of the dynamic tail: who gets how much, out of the files and back into them.
#pragma once

#include "exec/tail.h"

// Words of the protocol: kind, begin, end, rate or 0, failed.
enum mmul_tail_word {
    MMUL_WORD_KIND,
    MMUL_WORD_BEGIN,
    MMUL_WORD_END,
    MMUL_WORD_RATE,
    MMUL_WORD_FAILED
};
enum mmul_tail_kind { MMUL_TAIL_ASK, MMUL_TAIL_DONE };
enum { MMUL_TAG_TO_ROOT = 1, MMUL_TAG_FROM_ROOT = 2, MMUL_TAG_PIECES = 4, MMUL_TAG_BLOCK = 6 };

// Root only, local. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_tail_root_create(struct mmul_tail *tail, struct mmul_error *err);
void mmul_tail_root_destroy(struct mmul_tail_root *root);

// Answers what has come; true when something happened. Local.
bool mmul_tail_root_advance(struct mmul_tail_root *root);

// Everybody was told that nothing is left, and every block is in the file.
bool mmul_tail_root_is_finished(const struct mmul_tail_root *root);

// Units for a rank of rate `rate` when `left` units are left and all ranks together have `rates`:
// three quarters of its fair share, so that claims shrink towards the end (guided self-scheduling:
// Polychronopoulos and Kuck 1987), in [least, most], and never more than is left.
int64_t mmul_tail_size(int64_t left, double rate, double rates, int64_t least, int64_t most);

// Whether a claim is worth it for a rank that would have `units` to do then, at `rate`, and whose
// claim travels for so long: not when the others, at the tail already, would be done before with
// theirs and all that is left, `others_units` at `others_rate` together. Rate 0: there are none.
bool mmul_tail_is_worth(double units, double rate, double travel_seconds, double others_units,
                        double others_rate);
