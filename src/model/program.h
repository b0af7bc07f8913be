// SPDX-License-Identifier: MIT
//
// Programs, the first noun of several operations: values, and the operations that make them, in the
// order in which they were added. Plain data; shapes are checked when an operation is added. A
// value is made once and never changes.
#pragma once

#include "model/operation.h"

enum { MMUL_VALUE_NAME_BYTES = 128, MMUL_ORIGIN_BYTES = 96, MMUL_PERSISTENT_NAME_BYTES = 256 };

struct mmul_value {
    char name[MMUL_VALUE_NAME_BYTES];
    struct mmul_shape shape;
    enum mmul_dtype dtype; // type of its elements: float32, float64
    // made only of values exact in both types: mmul_program_assign_types chooses its type
    bool has_open_type;
    // elements are exact in both types, so they do not determine the type of a result
    bool is_exact_in_both_types;
    bool is_rounded;         // a float64 value that an operation needs as float32
    bool is_integer;         // whole numbers
    bool is_bool;            // 0 and 1 alone: a comparison, a file of bools, or elements of these
    int rank_group;          // ranks that make it (model/rank_groups.h)
    bool group_is_requested; // its group was requested
    int backward_group;      // Group on which gradients pass through its operation; 0: the same.
    // Value + 1 of the complete program that this later one represents; 0: itself.
    int original_value;
    bool stops_gradient;   // gradients do not pass to its operands
    int64_t integers_from; // first column of whole numbers in topk's result; 0: none
    int last_use;          // Index of the last operation that reads it, or of its own if none does.
};

// A product as alpha op(A) op(B) + beta C_in, with C_in as an optional third operand. It goes from
// files to a file and loads its operands itself.
struct mmul_scale {
    bool is_given;                         // else alpha is 1
    bool transposed_factors[MMUL_FACTORS]; // factors that are transposed in their files
    double alpha, beta;
};

struct mmul_operation {
    enum mmul_operation_kind kind;
    int operands[MMUL_OPERANDS]; // values; MMUL_NUMBER: with.numbers
    int operand_count;
    int result; // a value; -1: none
    struct mmul_parameters with;
    struct mmul_scale scale; // matmul
    struct mmul_shape shape; // load, generate and scaled product: shape of the result
    bool is_integer;         // load and generate: the result is whole numbers
    bool is_bool;            // load and kept: the result is 0 and 1, of bools
    // load and kept: type of the file or the set; keep: type for a later program
    enum mmul_dtype dtype;
    bool has_open_type, is_exact_in_both_types; // kept: properties of the value (struct mmul_value)
    enum mmul_generator generator;              // generate
    uint64_t seed;                              // generate
    // max, min: for the last of several reductions over all axes of a value, that value + 1; else
    // 0.
    int reduces;
    // place; kept: rows, cols, or for held values replicate, partial. MMUL_PLACE_FILE: no choice,
    // for values handed on.
    enum mmul_placement_kind requested_placement;
    int rank_group; // place, kept: requested group; 0: none
    // place, kept: the program requested the group, or the held value had a requested one
    bool group_is_requested;
    int kept;                   // kept and keep: index of the set in the program
    struct mmul_matrix *matrix; // load: root's, borrowed
    struct mmul_output *output; // save: root's, borrowed; NULL: not yet or no longer there
    // position for run-time errors: "attention.py:3:9"; "": not known
    char origin[MMUL_ORIGIN_BYTES];
};

// A set of shards, or a value held in memory, that the program reads or makes. Its offsets and
// weights are NULL until the ranks have found a set that is read.
struct mmul_persistent_value {
    char name[MMUL_PERSISTENT_NAME_BYTES];
    bool is_made; // the program makes it; otherwise reads it
    int64_t held; // number of a value held in memory of the ranks; 0: a set of shards
    bool stays_exact_in_both_types; // made and held: exact in both types, and still so when loaded
    bool no_sync;                   // made: may be lost in a power cut
    struct mmul_shape shape;        // read: shape of the whole
    uint64_t description;           // read: checksum of its description, as found by root
    int parts;
    int64_t *offsets; // Owned, parts + 1, in units of its placement; NULL: whole on every node.
    double *weights;  // owned, parts: weights of the ranks that have kept it
    bool has_weights; // false: not known, because a split made it
};

// Ranks of a value (model/rank_groups.h): group t of a program is entry t - MMUL_GROUP_ALL - 1 of
// its table; 0: no group yet.
enum { MMUL_GROUP_RANKS_MOST = 1024, MMUL_GROUP_ALL = 1 };
struct mmul_rank_group {
    uint64_t ranks[MMUL_GROUP_RANKS_MOST / 64]; // a bit per rank
};

struct mmul_program {
    bool only_float32;                          // float64 is read as float32
    int value_count, operation_count, capacity; // capacity of both arrays
    struct mmul_value *values;                  // owned
    struct mmul_operation *operations;          // owned
    struct mmul_persistent_value *kept;         // owned, persistent_count of them
    int persistent_count;
    struct mmul_rank_group *rank_groups; // owned, rank_group_count of them
    int rank_group_count;
    // group of appended operations, regardless of their operands; 0: by the operands
    int rank_group;
    // Called at intervals during planning with the number of operations for which a rule is chosen.
    // NULL: none.
    void (*planning)(void *context, int64_t done, int64_t total);
    void *planning_context;
};

// Adds `request`, setting its result. name: of the result; NULL: "value 3". value: index of the
// result, if there is one; may be NULL. Fails with MMUL_ERR_DATA (shapes), MMUL_ERR_USAGE (no such
// value), MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_append(struct mmul_program *program,
                                     const struct mmul_operation *request, const char *name,
                                     int *value, struct mmul_error *err);

// Fails with "NAME takes 1 to 3 operands, not 4", MMUL_ERR_USAGE.
enum mmul_status mmul_program_fail_operand_count(const char *name, int least, int most, int count,
                                                 struct mmul_error *err);

// Adds a set to the table; *kept is its index there. Fails with MMUL_ERR_USAGE (a second set of
// that name that is made), MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_add_persistent(struct mmul_program *program,
                                             const struct mmul_persistent_value *set, int *kept,
                                             struct mmul_error *err);

// Fills `operands` with the names and shapes of an operation's operands, and returns its call.
struct mmul_operation_call mmul_program_describe_call(
    const struct mmul_program *program, const struct mmul_operation *operation,
    struct mmul_operand_info operands[MMUL_OPERANDS]);

// Returns the floating-point operations of one of its operations.
double mmul_program_flops(const struct mmul_program *program,
                          const struct mmul_operation *operation);

// Returns those of all operations that calculate: no copies, look-ups, type conversions, generated
// numbers.
double mmul_program_calculation_flops(const struct mmul_program *program);

// Copy a program to replace it: begin copies its values, with room for `capacity` values and
// operations, and no operation yet. end replaces the program by the copy and finds last uses. Fails
// with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_begin_copy(const struct mmul_program *program, int capacity,
                                         struct mmul_program *made, struct mmul_error *err);
void mmul_program_end_copy(struct mmul_program *program, struct mmul_program *made);

// Returns the operation that makes a value; NULL: none.
struct mmul_operation *mmul_program_find_maker(const struct mmul_program *program, int value);

// Adds a value like an existing one, which it represents. The caller has reserved room.
int mmul_program_copy_value(struct mmul_program *program, int value);

// Finds last_use of every value.
void mmul_program_find_last_uses(struct mmul_program *program);

// Types that the operations reading a value require: a bit each.
enum { MMUL_WANTS_F32 = 1, MMUL_WANTS_F64 = 2 };

// Chooses the type of every value. wants: for every value, required types beside those of the
// program itself, which are added.
void mmul_program_choose_types(struct mmul_program *program, unsigned char *wants);

// For the last operation, which holds a value (mmul_program_hold): a value exact in both types
// stays so when it is loaded. It is held in float64 if is_double, or if its program needs that.
void mmul_program_hold_exact(struct mmul_program *program, bool is_double);

// Makes the last appended save request float64 for a value that is exact in both types.
void mmul_program_save_double(struct mmul_program *program);

// Chooses the type of every value and adds casts between types. Then all operands and the result of
// an operation have one type, except for casts and saved values. Values keep their indices; new
// ones come after them. Fails with MMUL_ERR_SYSTEM (memory), and then leaves the program unchanged.
enum mmul_status mmul_program_assign_types(struct mmul_program *program, struct mmul_error *err);

// Turns each product of a stack by one matrix into one product, with reshapes around it. Values
// keep their indices; new ones come after them. Fails with MMUL_ERR_SYSTEM (memory), and then
// leaves the program unchanged.
enum mmul_status mmul_program_fold_stacks(struct mmul_program *program, struct mmul_error *err);

// Fuses a float32 product and topk of it into MMUL_FUSED_TOPK, if nothing else reads the product
// and it is larger than its operands. Then no operation makes the product's value. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_fuse_topk(struct mmul_program *program, struct mmul_error *err);

// Returns the shape of the result, or of the saved value.
struct mmul_shape mmul_program_shape(const struct mmul_program *program,
                                     const struct mmul_operation *operation);
