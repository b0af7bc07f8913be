// SPDX-License-Identifier: MIT
//
// Nouns as tables, as JSON and as timelines. Functions that return a text to release with mmul_free
// can fail for lack of memory (MMUL_ERR_SYSTEM).
#pragma once

#include "model/cluster.h"
#include "model/device_test.h"
#include "model/report.h"
#include "model/trace.h"

// Print tables of ranks, nodes and devices, which fit 120 columns (`verbose`: with vendors,
// platforms and names in full), or format them as JSON (text released with mmul_free).
void mmul_cluster_print(const struct mmul_cluster *cluster, bool verbose, FILE *stream);
enum mmul_status mmul_cluster_json(const struct mmul_cluster *cluster, char **text,
                                   struct mmul_error *err);

// Prints a line about the kernels of each CPU rank, or of consecutive ranks with the same. `all`:
// also for kernels that are the library's choice and as wide as the processor.
void mmul_cluster_print_kernels(const struct mmul_cluster *cluster, bool all, FILE *stream);

// Print measured speeds as tables of devices and links, or format them as JSON (released with
// mmul_free).
void mmul_cluster_print_speeds(const struct mmul_cluster *cluster, FILE *stream);
enum mmul_status mmul_cluster_speeds_json(const struct mmul_cluster *cluster, char **text,
                                          struct mmul_error *err);

// Schema versions of the report, of the output of `run --json` (tensor/script_json.c), and of
// comparisons.
enum { MMUL_REPORT_VERSION = 5, MMUL_RUN_VERSION = 1, MMUL_COMPARE_VERSION = 1 };

// Print the test results of all ranks as a table, with failures and their stored files below it, or
// format them as JSON (text released with mmul_free).
void mmul_device_tests_print(const struct mmul_cluster *cluster,
                             const struct mmul_device_test *tests, int count, FILE *stream);
enum mmul_status mmul_device_tests_json(const struct mmul_cluster *cluster,
                                        const struct mmul_device_test *tests, int count,
                                        char **text, struct mmul_error *err);

// Return the floating-point operations per second of a run, and the ratio of that to the sum of the
// ranks' measured speeds. 0: not known, or some rank with work was not measured.
double mmul_report_rate(const struct mmul_report *report);
double mmul_report_efficiency(const struct mmul_report *report);

// Converts elements of C of one product to rows (or columns).
double mmul_report_units(const struct mmul_report *report, int64_t elements);

// Formats a report's record as Chrome trace events in JSON: times in microseconds since the run's
// begin, a process per rank, a thread per lane with spans, in order of time. Fails with
// MMUL_ERR_SYSTEM (memory); `text` is the caller's in any case.
enum mmul_status mmul_traces_format(const struct mmul_report *report, struct mmul_text *text,
                                    struct mmul_error *err);
