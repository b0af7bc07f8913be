// SPDX-License-Identifier: MIT
//
// Values that stay where they lie when their program has run, for programs that come after it in the same context:
// whole on every node, or rows or columns of the ranks, in a segment of the node that all held values of a run share.
// Each has a number, root's, which all ranks know it by. What root releases goes, on all ranks, when the next program
// is planned; its memory when the last of its segment has gone, and nothing that was made of it is there any more.
#pragma once

#include "exec/memory/values.h"

struct mmul_held;         // one of them
struct mmul_held_segment; // the memory of those of a run

// A number that no value has had. Local, by any thread.
int64_t mmul_held_next_number(void);

// NULL: there is none of that number, or no more. Of the whole also what its nodes have apart, and of a node's what the
// whole has on every node (exec/setup/node_context.h).
const struct mmul_held *mmul_held_find(const struct mmul_context *context, int64_t number);

// What a program that reads it has to know. What nodes have apart are summands of the whole's: of each rank what its
// node has.
struct mmul_held_info {
    struct mmul_shape shape;
    enum mmul_dtype dtype;
    enum mmul_placement_kind kind;
    bool is_integer, is_bool;
    bool is_placed; // where that was asked for
    bool is_open,
        is_exact; // as of struct mmul_value, where the program that made it wanted that to go on
    const struct mmul_team *team; // that has it, borrowed of the held value; NULL: all ranks
};
struct mmul_held_info mmul_held_info(const struct mmul_context *context,
                                     const struct mmul_held *held);

// Local; agree afterwards. Completes a set that is held and read. Fails with MMUL_ERR_USAGE (it was released),
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_held_take(const struct mmul_context *context, struct mmul_kept *kept,
                                struct mmul_error *err);

// Collective over world; agree over it afterwards. Memory of those that the program makes, and where those are
// that it reads. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_held_open(struct mmul_context *context, struct mmul_values *values,
                                struct mmul_error *err);

// Local; agree afterwards. The program has run: what it has made is held from now on. Fails with MMUL_ERR_SYSTEM
// (memory).
enum mmul_status mmul_held_commit(struct mmul_context *context, struct mmul_values *values,
                                  struct mmul_error *err);

// Local. What was made and not committed goes; what was read may go.
void mmul_held_close(struct mmul_values *values);

// Root. They go when the next program is planned. Numbers of none are passed by.
void mmul_held_release(struct mmul_context *context, int64_t number);

// Root. Those numbers, owned by the caller. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_held_released(const struct mmul_context *context, int64_t **numbers,
                                    int64_t *count, struct mmul_error *err);

// Collective over world: what root has released since the last call goes. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_held_sweep(struct mmul_context *context, struct mmul_error *err);

// Local. All of them.
void mmul_held_destroy(struct mmul_context *context);
