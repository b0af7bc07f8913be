// SPDX-License-Identifier: MIT
// For the programs here that time what several threads do at once.
#pragma once

#include <pthread.h>

#include "peer.h"

enum { PEER_THREADS_MAX = 1024 };

// Seconds of work(part) for all parts of `bytes_each`, one for each thread; the caller's does the first.
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
