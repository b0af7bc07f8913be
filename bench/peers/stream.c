// SPDX-License-Identifier: MIT
// Cost of reading: the sum of all bytes of A, B and C of one size, in memory, by some threads.
#include <string.h>

#include "threads.h"

static const char usage[] = "stream M K N THREADS [RUNS [WARMUP]]";

// A thread's part of each matrix.
struct reader {
    const float *begin[3], *end[3];
    uint64_t sum;
};

static void *read_all(void *argument) {
    struct reader *reader = argument;
    uint64_t sum = 0;
    for (int i = 0; i < 3; i++)
        for (const float *at = reader->begin[i]; at + 2 <= reader->end[i]; at += 2) {
            uint64_t word;
            memcpy(&word, at, sizeof word);
            sum += word;
        }
    reader->sum = sum;
    return NULL;
}

int main(int argc, char **argv) {
    const int m = peer_number(argc, argv, 1, 1, usage), k = peer_number(argc, argv, 2, 1, usage);
    const int n = peer_number(argc, argv, 3, 1, usage);
    const struct peer_rounds rounds = peer_read_rounds(argc, argv, 4, "stream", usage);
    const int threads = rounds.threads, runs = rounds.runs;
    static double seconds[PEER_RUNS_MAX];
    static struct reader readers[PEER_THREADS_MAX];
    float *matrices[] = {peer_matrix(m, k, 1), peer_matrix(k, n, 2), peer_matrix(m, n, 3)};
    const size_t counts[] = {(size_t)m * (size_t)k, (size_t)k * (size_t)n, (size_t)m * (size_t)n};
    for (int t = 0; t < threads; t++)
        for (int i = 0; i < 3; i++) {
            readers[t].begin[i] = matrices[i] + counts[i] / 2 * (size_t)t / (size_t)threads * 2;
            readers[t].end[i] = matrices[i] + counts[i] / 2 * ((size_t)t + 1) / (size_t)threads * 2;
        }
    uint64_t sum = 0;
    for (int r = -rounds.warmup; r < runs; r++) {
        double once = peer_time_parts(read_all, readers, sizeof *readers, threads);
        for (int t = 0; t < threads; t++)
            sum += readers[t].sum;
        if (r >= 0)
            seconds[r] = once;
    }
    printf("{\"peer\": \"stream\", \"counted\": \"reading only\", \"m\": %d, \"k\": %d, \"n\": %d, "
           "\"threads\": %d, \"sum\": \"%016llx\", ",
           m, k, n, threads, (unsigned long long)sum);
    peer_print_seconds(seconds, runs);
    printf("}\n");
    for (int i = 0; i < 3; i++)
        free(matrices[i]);
    return 0;
}
