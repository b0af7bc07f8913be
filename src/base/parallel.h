// SPDX-License-Identifier: MIT
// An interface for work in parts that several threads share. Only exec/threads/compute_thread.c
// creates threads and passes this struct to the layers below.
#pragma once

// Does one part.
typedef void mmul_work(void *context, int part);

struct mmul_parallel {
    int threads; // upper bound of useful parts; 0 and 1: the caller works alone

    // Calls work(context, part) once for each part of [0, parts), some of them concurrently.
    // Returns when all are done. Cannot fail. Not called with fewer than two threads, and may be
    // NULL then.
    void (*run)(int parts, mmul_work *work, void *context);
};
