// SPDX-License-Identifier: MIT
// Work that threads claim in pieces, so that a thread that starts late or has a slow core does
// less.
#include "device/cpu_map_loops.h"

#include <stdatomic.h>

#include "base/integer.h"

// Least work of a part, in copied elements. Waking a thread takes 5 to 50 us, in which a running
// one copies up to some 100,000 elements (16 GB/s and less, read and written). A part is worth
// more, so that an additional thread never costs more than it can gain.
static const double PART_LEAST = 1 << 17;

int mmul_cpu_count_parts(const struct mmul_map *map, int64_t units, double cost) {
    const int64_t all = map->matrices * units;
    const double worth = (double)all * cost / PART_LEAST;
    const int64_t most = mmul_min(map->parallel.threads, all);
    const int64_t parts = worth < (double)most ? (int64_t)worth : most;
    return parts > 1 ? (int)parts : 1;
}

struct claims {
    mmul_cpu_work *work;
    void *context;
    int64_t units, all, each; // units of a matrix; of all matrices; of one claim
    _Atomic int64_t next;
};

static void claim_units(void *context, int part) {
    struct claims *claims = context;
    const int64_t units = claims->units;
    int64_t begin;
    while ((begin = atomic_fetch_add(&claims->next, claims->each)) < claims->all)
        for (int64_t end = mmul_min(claims->all, begin + claims->each), n; begin < end;
             begin += n) {
            const int64_t first = begin % units;
            n = mmul_min(end - begin, units - first);
            claims->work(claims->context, part, begin / units, first, first + n);
        }
}

void mmul_cpu_run_parts(const struct mmul_map *map, int parts, int64_t units, mmul_cpu_work *work,
                        void *context) {
    enum { CLAIMS_EACH = 16 };
    struct claims claims = {
        .work = work, .context = context, .units = units, .all = map->matrices * units};
    claims.each = parts > 1 ? mmul_max(1, claims.all / ((int64_t)parts * CLAIMS_EACH)) : claims.all;
    if (parts > 1)
        map->parallel.run(parts, claim_units, &claims);
    else
        claim_units(&claims, 0);
}
