// SPDX-License-Identifier: MIT
//
// The fifth noun: what happened. Filled in by exec/conduct/run on root; tables and JSON (the schema is
// include/mpimatmul_report.schema.json; its version goes up when a field changes meaning).
#pragma once

#include "base/text.h"
#include "model/cluster.h"
#include "model/problem.h"
#include "model/trace.h"

// One rank of a run. Plain data: sent as bytes.
struct mmul_report_rank {
    char host[64], device[128], device_name[128], cores[64], note[128], why[64];
    char kernels[32], kernels_setting[96], kernels_lack[16]; // as in mmul_device_info
    int threads;
    int64_t begin, end; // part of the split range
    double share; // of the work, 0 .. 1: its part, less what others computed of it, and claims
    double flops; // floating-point operations of that
    double warm_up_seconds;
    // What it did or waited for while the clock ran; they add up to the wall time.
    double setup_seconds;   // shared memory, mapped files and work space
    double scatter_seconds; // waiting for operands
    double compute_seconds; // multiplying, and what is done between products
    double verify_seconds;  // checking, and multiplying again what was wrong
    double gather_seconds;  // waiting for its node's results to leave
    double idle_seconds;    // waiting for the other ranks to end
    double commit_seconds;  // waiting until root's output file is complete under its name
    // Elements of C: of others' parts that it computed, in so many claims; of its own that others did.
    int64_t claimed_elements, claims, given_elements;
    int64_t products, fallback_products, device_replacements;
    int64_t lines_checked, lines_wrong, lines_recomputed; // columns or rows of its blocks of C
    int64_t blocks_recomputed;                            // those with wrong lines
    double speed_flops;                  // measured before the run; 0: not measured
    bool speed_unstable;                 // and that measurement did not repeat itself
    int64_t mapped_bytes, segment_bytes; // of its node, on leaders
};

// What came before the clock of a run, as root saw it; a later run of the same context has no
// launch and no discovery any more.
struct mmul_startup {
    double launch_seconds;   // before the context was asked for: drivers probed, MPI started
    double discover_seconds; // who is there, and with which devices
    double plan_seconds;     // files opened, their headers read, the plan made
    double measure_seconds;  // devices and links
    double warm_up_seconds;  // until the last rank's kernels were built
};

double mmul_startup_seconds(const struct mmul_startup *startup);

struct mmul_report {
    struct mmul_problem problem;
    enum mmul_axis axis;
    int64_t total;
    int size, node_count;
    struct mmul_report_rank *ranks; // size, owned; on root only
    bool verified;
    uint64_t verify_seed; // of its random numbers
    struct mmul_startup startup;
    double wall_seconds;                 // from the first byte read to the renamed output file
    int last_rank;                       // that ended last: who idled least
    double predicted_seconds;            // 0: no prediction
    char faster[160];                    // of the plan
    int64_t mapped_bytes, segment_bytes; // all nodes
    int64_t bytes_read, bytes_written, network_bytes;
    int64_t lines_checked, lines_wrong, lines_recomputed, fallback_products;
    int64_t blocks_recomputed;
    struct mmul_text unused;    // owned: a line per device that nobody used
    struct mmul_text warnings;  // owned
    const char **warning_lines; // owned, into warnings
    int warning_count;
    struct mmul_traces *traces; // owned; NULL: none were asked for, or not root
    int64_t overflows;          // elements of C, finite before they were narrowed
};
