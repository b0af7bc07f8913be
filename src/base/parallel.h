// SPDX-License-Identifier: MIT
//
// Work in parts that several threads may share. Threads are made in exec/setup/pipeline.c alone; the
// layers below are given this.
#pragma once

// Does one part.
typedef void mmul_work(void *context, int part);

struct mmul_parallel {
    int threads; // at most so many parts are worth while; 0 and 1: alone

    // Calls work(context, part) once for each part of [0, parts), some of them at the same time;
    // returns when all are done. Cannot fail. Not called, and may be NULL, with fewer than two
    // threads.
    void (*run)(int parts, mmul_work *work, void *context);
};
