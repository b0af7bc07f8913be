// SPDX-License-Identifier: MIT
// Counters by which the ranks of a node follow each other during a run. They lie at the front of
// the shared segment: those of the run, then those of each stage. A counter of the traffic has one
// writer and only grows, except for rows_complete when a product is computed again.
//
// A waiting thread polls for a short while and then sleeps on an eventcount until the counter's
// writer notifies it. Each rank has one for the counters of its own work, whichever rank raises
// them; the traffic has one. A leader's main thread has one of its own: it naps between MPI calls,
// since MPI cannot wake it, and is woken by progress on its node. All are notified when the run is
// cancelled.
//
// A product with a journal can be continued: api/resume.c finds the missing lines, completed.h has
// the finished regions of a run, exec/conduct/recorder.h records them. Loops are continued by
// tensor/loop_states.h. To add a journal of the values of one program, change these.
//
//     values             memory/values.h: a value lies in memory only. persistent.c can write it as
//                        a set of shards, which fits only the ranks that made it.
//     their memory       plan/program/program_memory.c: other values get it after the last reader.
//                        Recording must count as a reader.
//     identity           the header of the journal: api/resume.c, tensor/loop_states.c.
//     steps to skip      exec/job/program_run.c; plan/program/program_make.c.
//     finished regions   tasks/computing.c, write_back.c, traffic/streams.c, move.c;
//                        completed.h, recorder.c and create_completed in conduct/run.c know a
//                        single output.
//     fused products     api/resume.c continues one product that is saved as it is.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/eventcount.h"
#include "exec/memory/stealing.h"
#include "plan/lists/footprint.h"

// Counters of one rank in one stage; most are for products only.
struct mmul_stage_progress_rank {
    _Atomic int64_t passes_done; // passes finished in this rank's part
    // Rows of this rank's part of C that are complete in the mapped file, and rows that root has
    // handed over to the disk. Used while exec/tasks/write_back follows the stage.
    _Atomic int64_t rows_complete, rows_flushed;
    mmul_unstarted unstarted;         // positions of its tasks not begun; exec/tasks/work.h
    _Atomic int64_t lines_unfinished; // positions not finished yet
    _Atomic int64_t elements_done;    // elements of C computed by this rank, in any block
    // Current work: its begin in nanoseconds (0: none) and its elements of C; recent elements per
    // second (0: not known).
    _Atomic int64_t begun, elements, rate;
    _Atomic int64_t
        sums_contributed; // rounds of exec/steps/sums with this rank's contribution stored
    // For a rank that adds its terms in slices (plan/lists/tasks.h): slices not begun, beyond which
    // no rank needs to wait for lines; number of terms that its lines not yet begun already
    // contain.
    _Atomic int64_t slices_unstarted, terms_added;
    _Atomic int64_t lines_lent;         // set by the leader: lines lent to ranks of other nodes
    _Atomic int64_t checksums_compared; // 1: this rank has compared the checksums of a move
    _Atomic int64_t elements_planned;   // elements of C in its own block; 0: not known yet
    char padding[8];                    // gives each rank its own cache lines
};

struct mmul_stage_progress {
    // Set by the leader: rounds with all pieces loaded; passes with their panels loaded; passes
    // with their blocks of C sent from their slots.
    _Atomic int64_t rounds_loaded, passes_loaded, results_stored;
    // Set by the leader: all traffic of a product has left; number of a move's panels that have
    // arrived from other nodes.
    _Atomic int64_t has_left, has_arrived;
    _Atomic int64_t sums_finished; // set by the leader: rounds of exec/steps/sums added up
    // Set by the leader: speed of the node that borrowed lines, elements of C per second (0: none);
    // time when it will have finished them, nanoseconds.
    _Atomic int64_t borrower_rate, borrowed_until;
    struct mmul_stage_progress_rank ranks[]; // one per rank of the node
};

struct mmul_run_progress_rank {
    _Atomic int64_t stages_done; // stages in which this rank has done its part
    // Rings when stages_done or a stage's counter of this rank has grown.
    struct mmul_eventcount counted;
    struct mmul_eventcount main_thread_eventcount; // wakes its main thread
    char padding[40];
};

struct mmul_run_progress {
    _Atomic int cancelled; // set by any rank: something failed, and no more needs to be computed
    int rank_count;
    struct mmul_eventcount moved; // notified when a counter of the traffic has grown
    // Set by the leader: a rank that has done this many stages, or raises a counter in the last of
    // them, wakes the leader's main thread.
    _Atomic int64_t wake_from_stage;
    char padding[40];
    struct mmul_run_progress_rank ranks[]; // one per rank of the node
};

_Static_assert(sizeof(struct mmul_run_progress) == MMUL_RUN_COUNTERS, "as plans count them");
_Static_assert(sizeof(struct mmul_run_progress_rank) == MMUL_RUN_COUNTERS_EACH, "the same");
_Static_assert(sizeof(struct mmul_stage_progress) == MMUL_STAGE_COUNTERS, "the same");
_Static_assert(sizeof(struct mmul_stage_progress_rank) == MMUL_STAGE_COUNTERS_EACH, "the same");

static inline int64_t mmul_stage_progress_bytes(int ranks) {
    return (int64_t)sizeof(struct mmul_stage_progress) +
           ranks * (int64_t)sizeof(struct mmul_stage_progress_rank);
}

// ----------------------------------------------------------------------------------------- waiting

enum { MMUL_TRAFFIC = -1 }; // used as a rank: the counters of the leader's main thread

// Statistics of a thread's waits: number of counters not there at the first look, and number of
// sleeps. is_waiting_for_traffic: it is waiting for the traffic at the moment.
struct mmul_waits {
    int64_t count, sleeps;
    _Atomic bool is_waiting_for_traffic;
    // For a run on a single thread: moves the traffic and returns true if anything moved. NULL:
    // another thread moves it.
    bool (*poll_traffic)(void *context);
    void *context;
};

// Waits until *counter, of a node rank or of the traffic, is at least `goal`. False: the run was
// cancelled.
bool mmul_progress_wait(struct mmul_run_progress *progress, int rank,
                        const _Atomic int64_t *counter, int64_t goal, struct mmul_waits *waits);

// Raises *counter to `value` and wakes the threads that wait for it; does nothing if it is as high
// already. stages: number of stages up to the one that owns the counter. Wakes the leader's main
// thread if that has asked for it (wake_from_stage).
void mmul_progress_raise(struct mmul_run_progress *progress, int rank, _Atomic int64_t *counter,
                         int64_t value, int64_t stages);

// Wakes all sleeping threads, so that they notice that the run was cancelled.
void mmul_progress_wake_all(struct mmul_run_progress *progress);
