// SPDX-License-Identifier: MIT
//
// What the files of a simulation share; nobody else includes this.
#pragma once

#include "plan/lists/tasks.h"
#include "plan/replay/replay.h"

// What is under way.
struct mmul_replay_activity {
    bool is_on;
    double begin, left; // seconds, at full rate
    double load;        // of its node's leader, CPU seconds per second
};

// A channel at a node.
struct mmul_replay_channel {
    int stage, stage_on;           // of the next transfer, of what is under way
    int64_t position, position_on; // in the list
    struct mmul_transfers list;
    bool has_next;
    struct mmul_transfer next, on;        // the next one, the one under way
    struct mmul_replay_activity activity; // scatter, gather: only root's runs down
};

struct mmul_replay_node {
    struct mmul_replay_channel channels[MMUL_ROUTES];
    double rate; // at which its leader computes
};

struct mmul_replay_computer {
    int stage;
    int64_t index; // of the task that is next, or under way
    struct mmul_tasks tasks;
    struct mmul_task task;
    struct mmul_replay_activity activity;
    double compute_seconds, end;
    double later; // by so much, for the rounds that are left out
};

// A block of C on its way: when the one before it was in the result, and from when until when it went.
struct mmul_replay_delivery {
    double before, begin, end;
};

// Of a product: what its lists count, and when.
struct mmul_replay_stage {
    struct mmul_schedule *schedule; // folded; NULL: it has none, and nothing of all this
    const struct mmul_cost *cost;
    double panel_seconds_per_byte;      // of the slowest hop
    int64_t (*counters)[MMUL_COUNTERS]; // by node
    int64_t positions;                  // of the relay's lists
    double *begun, *ended;    // by node and position: it moves, is there; INFINITY: not yet
    struct mmul_count *frees; // by node and position: when it has gone on
    struct mmul_replay_delivery *last; // by node: of its last block
    int64_t *passes_done;              // by rank
    double *element_seconds;           // by rank
    double left_out; // rounds, for each of the second half of those that are walked
    int before;      // the product but one before it; -1: none
};

struct mmul_replay_simulation {
    const struct mmul_replay_request *request;
    struct mmul_rank_classes classes;
    struct mmul_replay_stage *stages;
    struct mmul_replay_node *nodes;
    struct mmul_replay_computer *ranks;
    int64_t *bytes; // by node: of the exchange that begins
    struct mmul_replay *result;
    double now;
};

static inline void mmul_replay_raise(struct mmul_replay_stage *stage, int node,
                                     struct mmul_count count) {
    int64_t *own = &stage->counters[node][count.counter];
    if (count.counter != MMUL_NOTHING && *own < count.value)
        *own = count.value;
}

// The lists of one schedule, folded, before anything has happened. Fails with MMUL_ERR_SYSTEM (memory); fini
// also then.
enum mmul_status mmul_replay_stage_init(const struct mmul_replay_simulation *simulation,
                                        const struct mmul_stage_plan *whole,
                                        struct mmul_replay_stage *stage, struct mmul_error *err);
void mmul_replay_stage_fini(struct mmul_replay_stage *stage);
