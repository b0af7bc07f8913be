// SPDX-License-Identifier: MIT
// The word: front in its upper half, back in its lower half, so that one compare-and-swap decides
// which rank owns a line. Also computes the number of lines to take, keep or claim.
#include "exec/memory/stealing.h"

#include "base/integer.h"

static uint64_t pack(struct mmul_range range) {
    return (uint64_t)range.begin << 32 | (uint64_t)range.end;
}

void mmul_unstarted_set(mmul_unstarted *unstarted, struct mmul_range left) {
    atomic_store(unstarted, pack(left));
}

struct mmul_range mmul_unstarted_get(const mmul_unstarted *unstarted) {
    const uint64_t word = atomic_load(unstarted);
    return (struct mmul_range){(int64_t)(word >> 32), (int64_t)(word & UINT32_MAX)};
}

bool mmul_unstarted_take_front(mmul_unstarted *unstarted, struct mmul_range seen, int64_t count) {
    uint64_t word = pack(seen);
    seen.begin += count;
    return atomic_compare_exchange_strong(unstarted, &word, pack(seen));
}

bool mmul_unstarted_steal_back(mmul_unstarted *unstarted, struct mmul_range seen, int64_t count) {
    uint64_t word = pack(seen);
    seen.end -= count;
    return atomic_compare_exchange_strong(unstarted, &word, pack(seen));
}

// ---------------------------------------------------------------------------------- number of rows

double mmul_pace_common_finish(const struct mmul_pace *paces, int count) {
    double level = 0, left = 0;
    for (int i = 0; i < count; i++) {
        level = paces[i].until > level ? paces[i].until : level;
        left += paces[i].left;
    }
    // The level falls until every rank that is busy beyond it has been left out.
    for (bool settled = false; !settled;) {
        double rates = 0, work = left;
        for (int i = 0; i < count; i++) {
            if (paces[i].until > level)
                continue;
            rates += paces[i].rate;
            work += paces[i].until * paces[i].rate;
        }
        double next = work / rates;
        settled = !(next < level);
        level = rates > 0 ? next : level;
    }
    return level;
}

static int64_t lines_within(double seconds, double rate, struct mmul_remaining_lines rest) {
    const double few = (double)rest.full / 32; // fewer lines are not left over
    double lines = seconds * rate / rest.width;
    if (lines >= (double)rest.lines - few)
        return rest.lines;
    return mmul_min(rest.lines, mmul_max((int64_t)lines, mmul_divide_up(rest.full, 8)));
}

int64_t mmul_pace_lines_to_begin(double level, double worth, double rate,
                                 struct mmul_remaining_lines rest) {
    double end = (double)rest.lines * rest.width / rate;
    return end - level <= worth ? rest.lines : lines_within(level, rate, rest);
}

int64_t mmul_pace_lines_to_keep(double level, double worth, double rate,
                                struct mmul_remaining_lines rest) {
    double line = rest.width / rate, end = (double)rest.lines * line;
    int64_t keep = end - level > worth ? (int64_t)(level / line) : rest.lines;
    return rest.lines - keep >= mmul_divide_up(rest.full, 8) ? keep : rest.lines;
}

int64_t mmul_pace_lines_to_steal(double level, double worth, double rate,
                                 const struct mmul_pace *owner, struct mmul_remaining_lines rest) {
    double end = owner->until + owner->left / owner->rate;
    int64_t lines = end - level > worth ? lines_within(level, rate, rest) : 0;
    return (double)lines * rest.width / rate < end ? lines : 0;
}
