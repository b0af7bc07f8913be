// SPDX-License-Identifier: MIT
// What moving costs: memcpy of so many bytes, half of them read and half written, by some threads.
#include <string.h>

#include "threads.h"

enum { RUNS_MAX = 1000 };

static const char usage[] = "copy ELEMENTS THREADS [RUNS [WARMUP]]";

struct copier {
    const float *from;
    float *to;
    size_t count;
};

static void *copy(void *argument) {
    struct copier *copier = argument;
    memcpy(copier->to, copier->from, copier->count * sizeof *copier->to);
    return NULL;
}

int main(int argc, char **argv) {
    const size_t half = (size_t)peer_number(argc, argv, 1, 2, usage) / 2;
    const int threads = peer_number(argc, argv, 2, 1, usage);
    const int runs = argc > 3 ? peer_number(argc, argv, 3, 1, usage) : 5;
    const int warmup = argc > 4 ? peer_number(argc, argv, 4, 0, usage) : 1;
    static double seconds[RUNS_MAX];
    static struct copier copiers[PEER_THREADS_MAX];
    if (runs > RUNS_MAX || threads > PEER_THREADS_MAX) {
        fprintf(stderr, "copy: more than %d runs or %d threads\n", RUNS_MAX, PEER_THREADS_MAX);
        return 64;
    }
    float *from = peer_allocate(half), *to = peer_allocate(half);
    memset(from, 1, half * sizeof *from);
    memset(to, 2, half * sizeof *to);
    for (int t = 0; t < threads; t++) {
        const size_t begin = half * (size_t)t / (size_t)threads;
        copiers[t].from = from + begin;
        copiers[t].to = to + begin;
        copiers[t].count = half * ((size_t)t + 1) / (size_t)threads - begin;
    }
    for (int r = -warmup; r < runs; r++) {
        double once = peer_time_parts(copy, copiers, sizeof *copiers, threads);
        if (r >= 0)
            seconds[r] = once;
    }
    if (memcmp(from, to, half * sizeof *from) != 0)
        return 79;
    printf("{\"peer\": \"copy\", \"counted\": \"memcpy\", \"bytes\": %zu, \"threads\": %d, ",
           2 * half * sizeof *from, threads);
    peer_print_seconds(seconds, runs);
    printf("}\n");
    free(from);
    free(to);
    return 0;
}
