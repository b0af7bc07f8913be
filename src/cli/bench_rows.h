// SPDX-License-Identifier: MIT
// What bench measured, and the table of it. Every row says what its seconds count.
#pragma once

#include <stdio.h>

#include "cli/bench_sizes.h"
#include "mpimatmul_local.h"

enum bench_what {
    BENCH_BASELINE, // compute only
    BENCH_MUL       // files in to file out
};

struct bench_row {
    enum bench_what what;
    struct bench_size size;
    double *seconds;            // count, in order; owned
    struct mmul_phases *phases; // count; owned; BENCH_BASELINE has none
    int count;
    int ranks, threads;      // threads: of a baseline
    double baseline_seconds; // median of the baseline of this size; 0: not measured
};

enum bench_format { BENCH_MARKDOWN, BENCH_CSV, BENCH_JSON }; // the order of --format

// The table and what is said about it.
struct bench_table {
    struct bench_row *rows; // owned
    int count;
    int runs, warmup;
    bool verbose; // Markdown: with phases, and what is counted in each row
    const char *dtype;
    const char *cluster; // JSON of the ranks and devices; borrowed
};

// Median of `count` values, which stay in their order. NaN without memory.
double mmul_bench_median(const double *values, int count);

void mmul_bench_table_print(const struct bench_table *table, enum bench_format format,
                            FILE *stream);

// Rows and what they own.
void mmul_bench_table_fini(struct bench_table *table);
