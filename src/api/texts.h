// SPDX-License-Identifier: MIT
//
// What nouns are as tables, as JSON and as pictures. Only turns them into text; where it is released with mmul_free,
// memory may fail (MMUL_ERR_SYSTEM).
#pragma once

#include "model/cluster.h"
#include "model/device_test.h"
#include "model/report.h"
#include "model/trace.h"

// Tables of ranks, nodes and devices, which fit 120 columns; `verbose`: with vendors, platforms and
// names in full. The same as JSON (text released with mmul_free).
void mmul_cluster_print(const struct mmul_cluster *cluster, bool verbose, FILE *stream);
enum mmul_status mmul_cluster_json(const struct mmul_cluster *cluster, char **text,
                                   struct mmul_error *err);

// A line about the kernels of each CPU rank, or of several in a row that have the same; `all`: also of those that are
// the library's choice and as wide as the processor.
void mmul_cluster_print_kernels(const struct mmul_cluster *cluster, bool all, FILE *stream);

// What was measured: tables of devices and links; the same as JSON (released with mmul_free).
void mmul_cluster_print_speeds(const struct mmul_cluster *cluster, FILE *stream);
enum mmul_status mmul_cluster_speeds_json(const struct mmul_cluster *cluster, char **text,
                                          struct mmul_error *err);

// Schema versions of the report, of what `run --json` prints (tensor/script_json.c), and of comparisons.
enum { MMUL_REPORT_VERSION = 5, MMUL_RUN_VERSION = 1, MMUL_COMPARE_VERSION = 1 };

// The results of all ranks as a table, with what failed and where it is remembered below it; the
// same as JSON (text released with mmul_free).
void mmul_device_tests_print(const struct mmul_cluster *cluster,
                             const struct mmul_device_test *tests, int count, FILE *stream);
enum mmul_status mmul_device_tests_json(const struct mmul_cluster *cluster,
                                        const struct mmul_device_test *tests, int count,
                                        char **text, struct mmul_error *err);

// Floating-point operations in a second of a run, and that over the sum of the ranks' measured speeds; 0: not known, or
// not all ranks with work were measured.
double mmul_report_rate(const struct mmul_report *report);
double mmul_report_efficiency(const struct mmul_report *report);

// Of one product: so many elements of C as rows (or columns).
double mmul_report_units(const struct mmul_report *report, int64_t elements);

// What a report has recorded as Chrome trace events in JSON: times in microseconds since the run's begin, a
// process per rank, a thread per lane that has spans, in order of time. Fails with MMUL_ERR_SYSTEM
// (memory); `text` is the caller's in any case.
enum mmul_status mmul_traces_format(const struct mmul_report *report, struct mmul_text *text,
                                    struct mmul_error *err);
