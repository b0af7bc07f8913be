// SPDX-License-Identifier: MIT
//
// The first noun of several operations: values, and the operations that make them, in the order in
// which they were added. Plain data; shapes are checked when an operation is added. A value is made
// once and never changes.
#pragma once

#include "model/operation.h"

enum { MMUL_VALUE_NAME_BYTES = 128, MMUL_ORIGIN_BYTES = 96, MMUL_KEPT_NAME_BYTES = 256 };

struct mmul_value {
    char name[MMUL_VALUE_NAME_BYTES];
    struct mmul_shape shape;
    enum mmul_dtype dtype; // of its elements: float32, float64
    bool is_open;          // made of what fits both alone: mmul_program_types chooses its type
    bool is_exact;         // elements fit both types: they are no reason for either
    bool is_rounded;       // float64 of which an operation needs float32
    bool is_integer;       // whole numbers
    bool is_bool;   // 0 and 1 alone: a comparison, a file of bools, and what keeps these elements
    int team;       // where it is made (model/teams.h)
    bool is_placed; // there because that was asked for
    int backward_team; // where gradients go through what makes it; 0: there, too
    int stands_for; // of what was added when the program was complete: that value + 1; 0: it is its own
    bool stops_gradient;   // gradients do not go through it to what it is made of
    int64_t integers_from; // topk's: the column from which on it is whole numbers; 0: not so
    int last_use; // index of the last operation that reads it; of the one that makes it: nobody
};

// A product as alpha op(A) op(B) + beta C_in, where C_in is the third operand, if there is one. It goes from files to a
// file: it brings its operands itself.
struct mmul_scale {
    bool is_given;             // else alpha is 1
    bool turned[MMUL_FACTORS]; // factors that are the other way round in their files
    double alpha, beta;
};

struct mmul_operation {
    enum mmul_operation_kind kind;
    int operands[MMUL_OPERANDS]; // values; MMUL_NUMBER: with.numbers
    int operand_count;
    int result; // a value; -1: none
    struct mmul_parameters with;
    struct mmul_scale scale; // matmul
    struct mmul_shape shape; // load and generate: of the result
    bool is_integer;         // load and generate: the result is whole numbers
    bool is_bool;            // load and kept: the result is 0 and 1, of bools
    enum mmul_dtype
        dtype; // load and kept: of the file, or the set; keep: as a later program wants it
    bool is_open, is_exact;        // kept: of the value (struct mmul_value)
    enum mmul_generator generator; // generate
    uint64_t seed;                 // generate
    // max, min: the last one of those that reduce all axes of a value, one axis after another: that value + 1; else 0
    int reduces;
    // place; kept: rows, cols, or, what is held, replicate, partial; MMUL_PLACE_FILE: any, of what is handed on
    enum mmul_placement_kind wish;
    int team;                   // place, kept: asked for; 0: none
    bool is_placed;             // the same: it was asked for by the program, or what is held was
    int kept;                   // kept and keep: which set of the program
    struct mmul_matrix *matrix; // load: root's, borrowed
    struct mmul_output *output; // save: root's, borrowed; NULL: there is none yet, or no more
    char origin[MMUL_ORIGIN_BYTES]; // for errors of a run: "attention.py:3:9"; "": not known
};

// A set of shards, or a value that is held in memory, that the program reads or makes. What one that is read is like,
// the ranks know when they have found it: NULL until then.
struct mmul_kept {
    char name[MMUL_KEPT_NAME_BYTES];
    bool is_made;            // else read
    int64_t held;            // in memory of the ranks instead, under that number; 0: it is not
    bool stays_open;         // made and held: what fits both types still does when it is loaded
    bool no_sync;            // made: it may be lost in a power cut
    struct mmul_shape shape; // read: of the whole
    uint64_t description;    // read: checksum of its description, as root had it
    int parts;
    int64_t *offsets; // owned, parts + 1, in units of its placement; NULL: whole on every node
    double *weights;  // owned, parts: of the ranks that have kept it
    bool has_weights; // else nobody knows them: it was made by a split
};

// Ranks that values are on (model/teams.h): team t of a program is entry t - MMUL_TEAM_ALL - 1 of its table; 0: none
// yet.
enum { MMUL_TEAM_RANKS = 1024, MMUL_TEAM_ALL = 1 };
struct mmul_team {
    uint64_t ranks[MMUL_TEAM_RANKS / 64]; // a bit each
};

struct mmul_program {
    bool only_float32;                          // float64 is read as float32
    int value_count, operation_count, capacity; // capacity: of both arrays
    struct mmul_value *values;                  // owned
    struct mmul_operation *operations;          // owned
    struct mmul_kept *kept;                     // owned, kept_count of them
    int kept_count;
    struct mmul_team *teams; // owned, team_count of them
    int team_count;
    int team; // of what is appended, whatever its operands; 0: by these
    // Called now and then while it is planned: for how many of the operations a rule was chosen. NULL: nobody asks.
    void (*planning)(void *context, int64_t done, int64_t total);
    void *planning_context;
};

// Adds `request`, of which result is filled in here. name: of the result; NULL: "value 3".
// value: its index, when there is one; may be NULL.
// Fails with MMUL_ERR_DATA (shapes), MMUL_ERR_USAGE (no such value), MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_append(struct mmul_program *program,
                                     const struct mmul_operation *request, const char *name,
                                     int *value, struct mmul_error *err);

// "NAME takes 1 to 3 operands, not 4": MMUL_ERR_USAGE.
enum mmul_status mmul_program_fail_count(const char *name, int least, int most, int count,
                                         struct mmul_error *err);

// Adds a set to the table; *kept is its place there. Fails with MMUL_ERR_USAGE (a second set of that name that is
// made), MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_add_kept(struct mmul_program *program, const struct mmul_kept *set,
                                       int *kept, struct mmul_error *err);

// Names of an operation's operands and shapes as it sees them, in `operands`, and all that was asked of it.
struct mmul_operation_call mmul_program_call(const struct mmul_program *program,
                                             const struct mmul_operation *operation,
                                             struct mmul_operand_info operands[MMUL_OPERANDS]);

// Floating-point operations of one of its operations.
double mmul_program_flops(const struct mmul_program *program,
                          const struct mmul_operation *operation);

// Those of all operations that calculate: no copies, look-ups, changes of type, generated numbers.
double mmul_program_calculated(const struct mmul_program *program);

// A copy of a program that is to take its place: its values, room for `capacity` values and operations, no operation
// yet. end: the program is what was made of it, with last uses. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_begin_copy(const struct mmul_program *program, int capacity,
                                         struct mmul_program *made, struct mmul_error *err);
void mmul_program_end_copy(struct mmul_program *program, struct mmul_program *made);

// Another value like one that there is, which it stands for. There is room.
int mmul_program_add_like(struct mmul_program *program, int value);

// Of every value the operation that makes it, or the last one that reads it.
void mmul_program_find_last_uses(struct mmul_program *program);

// Which types the operations that read a value want of it: a bit each.
enum { MMUL_WANTS_F32 = 1, MMUL_WANTS_F64 = 2 };

// Gives every value its type. wants: of every value, bits that are wanted beside those that the program itself wants,
// which are added.
void mmul_program_choose_types(struct mmul_program *program, unsigned char *wants);

// The last operation holds a value (mmul_program_hold). If that fits both types, it does so still where it is loaded;
// it is held in float64 where is_double says so, or its program wants it.
void mmul_program_hold_open(struct mmul_program *program, bool is_double);

// The save that was appended last wants its value in float64, if that fits both types.
void mmul_program_save_double(struct mmul_program *program);

// Gives every value its type and puts casts where types meet: then all operands and the result of an operation
// have one type, but for casts and what is saved. Values keep their indices; others come after them. Fails with
// MMUL_ERR_SYSTEM (memory); the program is as before then.
enum mmul_status mmul_program_types(struct mmul_program *program, struct mmul_error *err);

// Makes one product, with reshapes around it, of each of a stack by one matrix. Values keep their indices; others
// come after them. Fails with MMUL_ERR_SYSTEM (memory); the program is as before then.
enum mmul_status mmul_program_fold(struct mmul_program *program, struct mmul_error *err);

// Makes one operation, MMUL_SEARCH, of a product in float32 and of topk of it, where nothing else reads the product and
// that is larger than its operands. Its value has no operation that makes it then. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_search(struct mmul_program *program, struct mmul_error *err);

// Shape of the result, or of what is saved.
struct mmul_shape mmul_program_shape(const struct mmul_program *program,
                                     const struct mmul_operation *operation);
