// SPDX-License-Identifier: MIT
//
// The report, the fifth noun: results of a run, of a program or of one product, which is a program
// of one operation. exec/conduct/run_report.c fills it in on root. Tables, log, timeline and JSON
// are made in api. The schema is include/mpimatmul_report.schema.json; its version goes up when a
// field changes meaning.
//
// To add a field: here, its measurement in exec/conduct/run_report.c, its output in
// api/report_json.c and api/report_text.c, and the schema in include/. The output of `run --json`
// is made in api/program_api.c and tensor/script_json.c, with a schema of its own.
#pragma once

#include "base/json.h"
#include "base/text.h"
#include "model/cluster.h"
#include "model/problem.h"
#include "model/program.h"
#include "model/trace.h"

// One rank of a run. Plain data: sent as bytes.
struct mmul_report_rank {
    char host[64], device[128], device_name[128], cores[64], note[128], why[64];
    char kernels[32], kernels_setting[96], kernels_unused_vectors[16]; // as in mmul_device_info
    int node, threads;
    double warm_up_seconds;
    // Seconds of work and waiting on the run's clock; they add up to the wall time.
    double setup_seconds;   // shared memory, mapped files and work space
    double scatter_seconds; // waiting for operands
    double compute_seconds; // computing, and the work between operations
    double copy_seconds;    // moving values within its node
    double verify_seconds;  // checking, and recomputing wrong results
    double gather_seconds;  // waiting for its node's results to leave
    double idle_seconds;    // waiting for the other ranks to end
    double commit_seconds;  // waiting until the outputs are complete under their names
    // For one product:
    int64_t begin, end; // part of the split range
    double share; // fraction of the work, 0 .. 1: its part, minus stolen and plus claimed work
    double flops; // floating-point operations of that fraction
    // Elements of C that it claimed from others, in `claims` claims; elements of its own that
    // others computed.
    int64_t elements_stolen, claims, elements_stolen_from_it;
    int64_t products, fallback_products, device_replacements;
    int64_t lines_checked, lines_wrong, lines_recomputed; // columns or rows of its blocks of C
    int64_t blocks_recomputed;                            // blocks with wrong lines
    double speed_flops;                  // measured before the run; 0: not measured
    bool speed_unstable;                 // repetitions of that measurement did not agree
    int64_t mapped_bytes, segment_bytes; // bytes of its node, on leaders
    // Energy of its device during the run, and the counters it comes from ("packages 0,1", a card's
    // address); "": not measured. joules_rank reports it for all ranks of the machine that share
    // the counters.
    char joules_source[64];
    double joules;
    int joules_rank;
};

// Seconds before the clock of a run, as seen by root; a later run of the same context has no launch
// and no discovery.
struct mmul_startup {
    double launch_seconds;   // before the creation of the context: drivers probed, MPI started
    double discover_seconds; // discovery of ranks and devices
    double files_seconds;    // opening files, reading their headers, reserving space for the result
    double plan_seconds;     // making and sending the plan
    double measure_seconds;  // measuring devices and links
    double warm_up_seconds;  // until the last rank's kernels were built
};

double mmul_startup_seconds(const struct mmul_startup *startup);

// An operation of a run with everything fused to it, or a move.
struct mmul_report_operation {
    char name[160], value[MMUL_VALUE_NAME_BYTES]; // "matmul + add + gelu"; name of its result
    char shape[96], placement[96];                // shape and placement of the result
    bool is_move;
    double predicted_seconds;
    int64_t network_bytes;
};

// A rank's part in an operation. Plain data: sent as bytes. The three phases add up to end - begin.
struct mmul_report_part {
    // mmul_clock_now of the rank's host; on root converted to root's clock, from the run's begin
    double begin, end;
    double wait_seconds; // for operands, memory, or results to leave
    double work_seconds; // computing; copying for a move
    double check_seconds;
    double joules;        // energy counted by its device's counters meanwhile; NAN: not measured
    int64_t result_bytes; // bytes of its part of the result; all of it if whole on the node
    // transfers of its device, if that has memory of its own
    int64_t uploaded_bytes, downloaded_bytes;
    // memory in use meanwhile, by the plan, which determines all sizes
    int64_t memory_bytes, device_bytes;
};

struct mmul_report {
    // For one product alone; otherwise is_product is false and these fields are unused.
    bool is_product;
    struct mmul_problem problem;
    enum mmul_axis axis;
    int64_t total;
    char speed_hint[160];              // hint from its plan
    int64_t bytes_read, bytes_written; // bytes of files
    // Lines of the result that an earlier run had completed, of all. NULL: the output has no
    // journal.
    const char *resumed_lines;
    int64_t resumed_complete, resumed_total;

    int size, node_count;
    struct mmul_report_rank *ranks; // size, owned; complete on root only
    // If recording was requested: operations and moves in execution order, and each rank's parts in
    // them, rank after rank. Owned, root's; NULL: not requested.
    int operation_count;
    struct mmul_report_operation *operations;
    struct mmul_report_part *parts;
    int step_count; // number of steps
    double flops;   // copies and look-ups count none
    bool verified;
    uint64_t verify_seed; // seed of the check's random numbers
    struct mmul_startup startup;
    double wall_seconds;                 // from the first byte read to the renamed output file
    int last_rank;                       // rank that ended last, with the least idle time
    double predicted_seconds;            // 0: no prediction
    int64_t memory_bytes;                // bytes of values, on the node that has most
    int64_t mapped_bytes, segment_bytes; // sum over all nodes
    int64_t network_bytes;               // from the plan
    int64_t *sent_bytes; // Owned, root's: bytes sent from node to node, at from * node_count + to.
    int64_t lines_checked, lines_wrong, lines_recomputed, fallback_products;
    int64_t blocks_recomputed;
    struct mmul_text unused;    // owned: a line per unused device
    struct mmul_text warnings;  // owned
    const char **warning_lines; // owned, into warnings
    int warning_count;
    struct mmul_traces *traces;          // owned; NULL: not requested, or not root
    int64_t overflows;                   // elements of outputs, finite before they were narrowed
    struct mmul_programs_summary before; // preceding programs of the same text
    char text_name[128];                 // file of the text; "": a product, or a caller's program
};

// Sets joules_rank: for ranks with the same counters the first, else the one that has all of them.
// If none has all, their energy is unknown.
void mmul_report_assign_joules(struct mmul_report *report);

// Returns true if rank i reports energy, for itself and others.
bool mmul_report_owns_joules(const struct mmul_report *report, int i);

// Returns the energy of all ranks' devices, each once; NAN: one is not measured.
double mmul_report_joules(const struct mmul_report *report);

json_t *mmul_programs_json(const struct mmul_programs_summary *programs);

// Returns the parts of one rank.
static inline const struct mmul_report_part *mmul_report_parts(const struct mmul_report *report,
                                                               int rank) {
    return report->parts + (int64_t)rank * report->operation_count;
}
