// SPDX-License-Identifier: MIT
// Cost of moving bytes: memcpy by some threads, half of the bytes read and half written.
#include <string.h>

#include "threads.h"

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
    const struct peer_rounds rounds = peer_read_rounds(argc, argv, 2, "copy", usage);
    const int threads = rounds.threads, runs = rounds.runs;
    static double seconds[PEER_RUNS_MAX];
    static struct copier copiers[PEER_THREADS_MAX];
    float *from = peer_allocate(half), *to = peer_allocate(half);
    memset(from, 1, half * sizeof *from);
    memset(to, 2, half * sizeof *to);
    for (int t = 0; t < threads; t++) {
        const size_t begin = half * (size_t)t / (size_t)threads;
        copiers[t].from = from + begin;
        copiers[t].to = to + begin;
        copiers[t].count = half * ((size_t)t + 1) / (size_t)threads - begin;
    }
    for (int r = -rounds.warmup; r < runs; r++) {
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
