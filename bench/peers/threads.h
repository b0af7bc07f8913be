// SPDX-License-Identifier: MIT
// Helpers of the programs here that time several threads at once.
#pragma once

#include <pthread.h>

#include "peer.h"

enum { PEER_THREADS_MAX = 1024, PEER_RUNS_MAX = 1000 };

struct peer_rounds {
    int threads, runs, warmup;
};

// Reads THREADS [RUNS [WARMUP]], arguments from that one on.
static inline struct peer_rounds peer_read_rounds(int argc, char **argv, int at, const char *name,
                                                  const char *usage) {
    const struct peer_rounds found = {
        .threads = peer_number(argc, argv, at, 1, usage),
        .runs = argc > at + 1 ? peer_number(argc, argv, at + 1, 1, usage) : 5,
        .warmup = argc > at + 2 ? peer_number(argc, argv, at + 2, 0, usage) : 1};
    if (found.runs <= PEER_RUNS_MAX && found.threads <= PEER_THREADS_MAX)
        return found;
    fprintf(stderr, "%s: more than %d runs or %d threads\n", name, PEER_RUNS_MAX, PEER_THREADS_MAX);
    exit(64);
}

// Returns the seconds of work(part) for all parts of `bytes_each`, one per thread. The caller's
// thread does the first.
static inline double peer_time_parts(void *(*work)(void *), void *parts, size_t bytes_each,
                                     int threads) {
    static pthread_t started[PEER_THREADS_MAX];
    double begin = peer_now();
    for (int t = 1; t < threads; t++)
        if (pthread_create(&started[t], NULL, work, (char *)parts + (size_t)t * bytes_each) != 0)
            exit(71);
    work(parts);
    for (int t = 1; t < threads; t++)
        pthread_join(started[t], NULL);
    return peer_now() - begin;
}
