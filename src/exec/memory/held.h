// SPDX-License-Identifier: MIT
//
// Values that stay in memory when their program has run, for later programs of the same context. A
// held value is whole on every node, or split by rows or columns. All held values that one run
// makes share one segment per node. Root gives each a number, by which all ranks know it. Root
// releases held values by number. All ranks drop them when the next program is planned. A segment
// is freed with the last value in it, once no values of a run use it any more.
#pragma once

#include "exec/memory/values.h"

struct mmul_held;         // a held value
struct mmul_held_segment; // the memory that holds the values of one run

// Returns a number that no value has had. Local, on any thread.
int64_t mmul_held_next_number(void);

// Returns the held value of that number; NULL: none, or released. In the context of the whole
// cluster it also finds values that each node holds separately, and those that root holds alone. In
// the context of a node or of root alone it also finds replicated values of the whole
// (exec/setup/node_context.h).
const struct mmul_held *mmul_held_find(const struct mmul_context *context, int64_t number);

// Returns the held value of that number if root alone holds it. NULL: root does not hold it, or all
// ranks hold it too. context: the context of all ranks. data: the elements of such a value,
// row-major in its type.
const struct mmul_held *mmul_held_find_on_root(const struct mmul_context *context, int64_t number);
const void *mmul_held_data(const struct mmul_held *held);

// Description of a held value for a program that reads it. Values that nodes hold separately are
// summands in the context of the whole: each rank's summand is the value on its node.
struct mmul_held_info {
    struct mmul_shape shape;
    enum mmul_dtype dtype;
    enum mmul_placement_kind kind;
    bool is_integer, is_bool;
    bool group_is_requested; // the program asked for this placement
    // Flags of struct mmul_value; false unless the program that made the value asked to keep its
    // type open.
    bool has_open_type, is_exact_in_both_types;
    // Ranks that have the value, borrowed from the held value; NULL: all ranks.
    const struct mmul_rank_group *rank_group;
};
struct mmul_held_info mmul_held_info(const struct mmul_context *context,
                                     const struct mmul_held *held);

// Completes the description of a held value that a program reads. Local; agree afterwards. Fails
// with MMUL_ERR_USAGE (it was released), MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_held_complete(const struct mmul_context *context,
                                    struct mmul_persistent_value *kept, struct mmul_error *err);

// Allocates the held values that the program makes and finds those that it reads. Collective over
// world; agree over it afterwards. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_held_open(struct mmul_context *context, struct mmul_values *values,
                                struct mmul_error *err);

// Registers the held values that the program has made. Call it when the program has run. Local;
// agree afterwards. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_held_commit(struct mmul_context *context, struct mmul_values *values,
                                  struct mmul_error *err);

// Releases the values' use of the segments. Values that were not committed go. Local.
void mmul_held_close(struct mmul_values *values);

// Marks a value as released; it is dropped when the next program is planned. Ignores unknown
// numbers. Root.
void mmul_held_release(struct mmul_context *context, int64_t number);

// Returns the numbers of all released values; the caller owns the list. Root. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_held_list_released(const struct mmul_context *context, int64_t **numbers,
                                         int64_t *count, struct mmul_error *err);

// Drops on all ranks what root has released since the last call. Collective over world. Fails with
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_held_drop_released(struct mmul_context *context, struct mmul_error *err);

// Drops all held values. Local.
void mmul_held_destroy(struct mmul_context *context);
