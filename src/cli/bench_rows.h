// SPDX-License-Identifier: MIT
// The measurements of bench and the table that shows them. Every row states which work its seconds
// include.
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
    double *seconds;            // `count` values in order; owned
    struct mmul_phases *phases; // `count` values, owned; NULL for BENCH_BASELINE
    int count;
    int ranks, threads;      // `threads` only for a baseline
    double baseline_seconds; // median of the baseline for this size; 0 if not measured
};

enum bench_format { BENCH_MARKDOWN, BENCH_CSV, BENCH_JSON }; // order of --format

// The table and its settings.
struct bench_table {
    struct bench_row *rows; // owned
    int count;
    int runs, warmup;
    bool verbose; // Markdown: adds phases and the work included in each row
    const char *dtype;
    const char *cluster; // JSON of the ranks and devices; borrowed
};

// Returns the median of `count` values without reordering them. NaN if memory runs out.
double mmul_bench_median(const double *values, int count);

void mmul_bench_table_print(const struct bench_table *table, enum bench_format format,
                            FILE *stream);

// Frees the rows and their arrays.
void mmul_bench_table_fini(struct bench_table *table);
