// SPDX-License-Identifier: MIT
//
// The fifth noun: what happened, of a program as of one product, which is a program of one operation. Filled in by
// exec/conduct/run_report.c on root; tables, log, picture and JSON are made in api (the schema is
// include/mpimatmul_report.schema.json; its version goes up when a field changes meaning).
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
    char kernels[32], kernels_setting[96], kernels_lack[16]; // as in mmul_device_info
    int node, threads;
    double warm_up_seconds;
    // What it did or waited for while the clock ran; they add up to the wall time.
    double setup_seconds;   // shared memory, mapped files and work space
    double scatter_seconds; // waiting for operands
    double compute_seconds; // computing, and what is done between operations
    double copy_seconds;    // moving values within its node
    double verify_seconds;  // checking, and computing again what was wrong
    double gather_seconds;  // waiting for its node's results to leave
    double idle_seconds;    // waiting for the other ranks to end
    double commit_seconds;  // waiting until the outputs are complete under their names
    // Of one product:
    int64_t begin, end; // part of the split range
    double share; // of the work, 0 .. 1: its part, less what others computed of it, and claims
    double flops; // floating-point operations of that
    // Elements of C: of others' parts that it computed, in so many claims; of its own that others did.
    int64_t claimed_elements, claims, given_elements;
    int64_t products, fallback_products, device_replacements;
    int64_t lines_checked, lines_wrong, lines_recomputed; // columns or rows of its blocks of C
    int64_t blocks_recomputed;                            // those with wrong lines
    double speed_flops;                  // measured before the run; 0: not measured
    bool speed_unstable;                 // and that measurement did not repeat itself
    int64_t mapped_bytes, segment_bytes; // of its node, on leaders
    // What its device used while the run went on, and whose counters those are ("packages 0,1", a card's address);
    // "": not measured. joules_rank says it for all ranks of the machine that have a part of them.
    char joules_source[64];
    double joules;
    int joules_rank;
};

// What came before the clock of a run, as root saw it; a later run of the same context has no
// launch and no discovery any more.
struct mmul_startup {
    double launch_seconds;   // before the context was asked for: drivers probed, MPI started
    double discover_seconds; // who is there, and with which devices
    double files_seconds;    // files opened, their headers read, room for the result taken
    double plan_seconds;     // the plan made and sent
    double measure_seconds;  // devices and links
    double warm_up_seconds;  // until the last rank's kernels were built
};

double mmul_startup_seconds(const struct mmul_startup *startup);

// An operation of a run with all that is done to its result, or a move.
struct mmul_report_operation {
    char name[160], value[MMUL_VALUE_NAME_BYTES]; // "matmul + add + gelu"; what it makes
    char shape[96], placement[96];                // of that
    bool is_move;
    double predicted_seconds;
    int64_t network_bytes;
};

// What a rank did of it. Plain data: sent as bytes. The three phases add up to end - begin.
struct mmul_report_part {
    double begin, end; // mmul_clock_now of the rank's host; on root of root's, from the run's begin
    double wait_seconds; // for operands, memory, or results to leave
    double work_seconds; // computing; of a move copying
    double check_seconds;
    double joules;        // what the counters of its device counted meanwhile; NAN: not measured
    int64_t result_bytes; // of its part of the result; of what is whole on the node all of it
    int64_t uploaded_bytes, downloaded_bytes; // of its device, where that has memory of its own
    int64_t memory_bytes, device_bytes; // that it has meanwhile, by the plan, which sizes all of it
};

struct mmul_report {
    // Of one product of which nothing else is made; else is_product is false and these are nothing.
    bool is_product;
    struct mmul_problem problem;
    enum mmul_axis axis;
    int64_t total;
    char faster[160];                  // of its plan
    int64_t bytes_read, bytes_written; // of files

    int size, node_count;
    struct mmul_report_rank *ranks; // size, owned; complete on root only
    // Where a record was asked for: operations and moves in the order in which they were carried out, and what each
    // rank did of them, rank after rank. Owned, root's; NULL: nobody asked.
    int operation_count;
    struct mmul_report_operation *operations;
    struct mmul_report_part *parts;
    int step_count; // how many there were
    double flops;   // of what is calculated: copies and look-ups have none
    bool verified;
    uint64_t verify_seed; // of its random numbers
    struct mmul_startup startup;
    double wall_seconds;                 // from the first byte read to the renamed output file
    int last_rank;                       // that ended last: who idled least
    double predicted_seconds;            // 0: no prediction
    int64_t memory_bytes;                // of values, on the node that has most of them
    int64_t mapped_bytes, segment_bytes; // all nodes
    int64_t network_bytes;               // by the plan
    int64_t *sent_bytes; // owned, root's: what each node sent to each node, from * node_count + to
    int64_t lines_checked, lines_wrong, lines_recomputed, fallback_products;
    int64_t blocks_recomputed;
    struct mmul_text unused;    // owned: a line per device that nobody used
    struct mmul_text warnings;  // owned
    const char **warning_lines; // owned, into warnings
    int warning_count;
    struct mmul_traces *traces;          // owned; NULL: none were asked for, or not root
    int64_t overflows;                   // elements of outputs, finite before they were narrowed
    struct mmul_programs_summary before; // of the same text
    char text_name[128];                 // file of the text; "": a product, or a caller's program
};

// Who states what several ranks' devices used: of ranks with the same counters the first, else the one that has all of
// them. Where none has, nobody's are known.
void mmul_report_share_joules(struct mmul_report *report);

// Does rank i state joules, of its own and for others?
bool mmul_report_states_joules(const struct mmul_report *report, int i);

// Of all ranks' devices, each once; NAN: one is not measured.
double mmul_report_joules(const struct mmul_report *report);

json_t *mmul_programs_json(const struct mmul_programs_summary *programs);

// Of one rank.
static inline const struct mmul_report_part *mmul_report_parts(const struct mmul_report *report,
                                                               int rank) {
    return report->parts + (int64_t)rank * report->operation_count;
}
