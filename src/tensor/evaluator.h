// SPDX-License-Identifier: MIT
//
// The state of an evaluation (tensor/evaluate.h), with the operations on it that expressions,
// statements and built-in functions share: error reports with positions, bindings of names, new
// operations of the program. Nothing here evaluates a node.
#pragma once

#include "tensor/object.h"

enum {
    MMUL_STEPS_MOST = 2000000,    // evaluated expressions and statements
    MMUL_OPERATIONS_MOST = 65536, // operations in one program
    MMUL_ARGUMENTS_MOST = 32,
    MMUL_TUPLE_MOST = 64,
    MMUL_STRING_MOST = 4096,
};

// A variable of a function or of the program.
struct mmul_binding {
    const char *name;
    struct mmul_object object;
    struct mmul_binding *next;
};

struct mmul_frame {
    struct mmul_binding *bindings;    // in the arena
    const struct mmul_node *function; // NULL for the program's top level
    struct mmul_frame *caller;
};

// A value without a name that must survive the current job, as named values do.
struct mmul_pinned_object {
    struct mmul_object *object;       // borrowed
    struct mmul_pinned_object *outer; // borrowed; NULL for none
};

// Control flow after a statement: the next one, the end of the loop, or its next iteration.
enum mmul_flow { MMUL_FLOW_ON, MMUL_FLOW_BREAK, MMUL_FLOW_CONTINUE };

struct mmul_evaluator {
    const struct mmul_source *source; // borrowed
    struct mmul_arena *arena;         // borrowed
    struct mmul_program *program;     // borrowed
    struct mmul_script *script;       // borrowed; files and output
    struct mmul_frame *frame, *top;
    const struct mmul_tree *tree; // borrowed
    int64_t steps;
    int operations, depth;
    enum mmul_flow flow;
    // State of the jobs (tensor/jobs.h). `job` numbers the current program, `uses` counts the
    // values made in it, `loops` is the nesting depth. `loop_begin` is the position of the
    // outermost `for`, `turn` the iteration of the innermost loop. `leaves` lists held values that
    // the program already loaded.
    int job, uses, loops, loop_begin;
    int64_t turn;
    struct mmul_loaded_value *leaves;
    // Memory of the current and of the next job; owned.
    struct mmul_arena arenas[2], *next_arena;
    struct mmul_pinned_object *pinned_objects; // borrowed, innermost first; NULL for none
    // Local training (tensor/local_training.h): the node being evaluated, NULL outside. `context`
    // is that of the node's program, else the context of all ranks.
    struct mmul_local_node *apart;
    struct mmul_skipped_step *skipped_steps; // possibly skipped steps of the iterations so far
    const struct mmul_context *context;      // borrowed
    // Calls a function of the text (calls.c).
    enum mmul_status (*call)(struct mmul_evaluator *e, const struct mmul_node *at,
                             const struct mmul_object *function,
                             const struct mmul_object *arguments, struct mmul_object *result);
    const struct mmul_node *named; // expression that is being assigned
    const char *name;              // name it is assigned to
    // The last result of clip_grad_norm, and a row with the scaled sum of squares of each of its
    // gradients.
    struct mmul_object clipped, squares;
    struct mmul_error *err; // borrowed
};

// An evaluated argument of a call. An omitted argument has `node` NULL and the object None.
struct mmul_argument {
    const struct mmul_node *node;
    struct mmul_object object;
};

enum mmul_status mmul_evaluator_fail(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const char *format, ...) __attribute__((format(printf, 3, 4)));

// Adds a warning to the script. Only the first warning per position is kept.
enum mmul_status mmul_evaluator_warn(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const char *format, ...) __attribute__((format(printf, 3, 4)));

// Prepends the position to an error of the library and turns a usage error into MMUL_ERR_DATA.
// Returns the status.
enum mmul_status mmul_evaluator_locate(struct mmul_evaluator *e, const struct mmul_node *at);

// Returns the display name of a value: the name it is assigned to, else its source text.
const char *mmul_evaluator_name(const struct mmul_evaluator *e, const struct mmul_node *node,
                                char text[static 48]);

// Looks up a function of the text by name.
enum mmul_status mmul_evaluator_read_function(struct mmul_evaluator *e,
                                              const struct mmul_node *node,
                                              struct mmul_object *result);

// Makes a tuple from copies of `count` objects.
enum mmul_status mmul_evaluator_tuple(struct mmul_evaluator *e, const struct mmul_object *items,
                                      int count, struct mmul_object *tuple);

enum mmul_status mmul_evaluator_copy_text(struct mmul_evaluator *e, const char *text,
                                          const char **copy);

// Returns true if the assignment target is this name, or a tuple that contains it.
bool mmul_assignment_has_name(const struct mmul_node *target, const char *name);

// Returns true if any statement inside `node` assigns to the name.
bool mmul_node_assigns(const struct mmul_node *node, const char *name);

// Counts one step at `node`. Fails above the limit.
enum mmul_status mmul_evaluator_step(struct mmul_evaluator *e, const struct mmul_node *node);

// ---------------------------------------------------------------------------------------- names.c

enum mmul_status mmul_evaluator_bind(struct mmul_evaluator *e, const char *name,
                                     const struct mmul_object *object);

// Reads the value of a name.
enum mmul_status mmul_evaluator_read(struct mmul_evaluator *e, const struct mmul_node *node,
                                     struct mmul_object *result);

// -------------------------------------------------------------------------------------- strings.c

// Appends a number, a string or None to `text`. Fails if the string becomes too long. spec: a
// format of Python (tensor/number_format.h), or "" for str().
enum mmul_status mmul_string_append(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct mmul_object *piece, const char *spec,
                                    char text[static MMUL_STRING_MOST + 1]);

// An f-string under construction. Adjacent strings and numbers are merged; a matrix with one
// element stays a piece of its own.
struct mmul_format_string {
    struct mmul_object pieces[MMUL_TUPLE_MOST];
    int count;
    char text[MMUL_STRING_MOST + 1]; // text after the last matrix
};

enum mmul_status mmul_format_string_add(struct mmul_evaluator *e, const struct mmul_node *at,
                                        const struct mmul_object *piece, const char *spec,
                                        struct mmul_format_string *format);

// Returns a string, or MMUL_OBJECT_FORMAT if the f-string contains a matrix.
enum mmul_status mmul_format_string_end(struct mmul_evaluator *e, struct mmul_format_string *format,
                                        struct mmul_object *result);

// ------------------------------------------------------------------------------------ operations.c

// Adds one operation of the engine. Operands are matrices or, where the engine accepts them,
// numbers. result->axes holds the number of axes of the result on entry.
enum mmul_status mmul_apply_operation(struct mmul_evaluator *e, const struct mmul_node *at,
                                      struct mmul_call *call, const struct mmul_object *operands,
                                      struct mmul_object *result);

// Wraps an existing value of the program as an object.
struct mmul_object mmul_matrix_object(struct mmul_evaluator *e, int value, int axes);

// Removes axes of size 1. A result with one axis stays a row (1 x n), one without axes becomes 1 x
// 1.
enum mmul_status mmul_drop_axes(struct mmul_evaluator *e, const struct mmul_node *at,
                                const struct mmul_object *x,
                                const bool is_dropped[static MMUL_AXES_MOST],
                                struct mmul_object *result);

// Computes x OPERATOR y; at least one operand is a matrix.
enum mmul_status mmul_apply_operator(struct mmul_evaluator *e, const struct mmul_node *node,
                                     const struct mmul_argument operands[2],
                                     struct mmul_object *result);

// Applies an elementwise operation to up to three operands, at least one of them a matrix.
enum mmul_status mmul_apply_elements(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const char *operation, const struct mmul_argument *operands,
                                     int count, struct mmul_object *result);

enum mmul_status mmul_apply_matmul(struct mmul_evaluator *e, const struct mmul_node *at,
                                   const struct mmul_argument operands[2],
                                   struct mmul_object *result);

// ------------------------------------------------------------------------------------ arguments.c

// Each function fails if the argument has another kind. The error quotes `what`, the parameter's
// name.
enum mmul_status mmul_argument_check_matrix(struct mmul_evaluator *e,
                                            const struct mmul_argument *argument, const char *what);
// Copies the matrices of the first `count` arguments, named so in errors.
enum mmul_status mmul_argument_get_matrices(struct mmul_evaluator *e,
                                            const struct mmul_argument *arguments,
                                            const char *const names[], int count,
                                            struct mmul_object *matrices);
// Checks indices. The result has one more axis, so three axes are the maximum.
enum mmul_status mmul_argument_check_ids(struct mmul_evaluator *e,
                                         const struct mmul_argument *argument);
enum mmul_status mmul_argument_get_integer(struct mmul_evaluator *e,
                                           const struct mmul_argument *argument, const char *what,
                                           int64_t *number);
enum mmul_status mmul_argument_get_real(struct mmul_evaluator *e,
                                        const struct mmul_argument *argument, const char *what,
                                        double otherwise, double *number);
// Accepts True, False, 1 or 0; an omitted argument is False.
enum mmul_status mmul_argument_get_bool(struct mmul_evaluator *e,
                                        const struct mmul_argument *argument, const char *what,
                                        bool *is_true);
enum mmul_status mmul_argument_get_text(struct mmul_evaluator *e,
                                        const struct mmul_argument *argument, const char *what,
                                        const char *otherwise, const char **text);
// Accepts a tuple of integers, or one integer, which counts as a tuple of one.
enum mmul_status mmul_argument_get_sizes(struct mmul_evaluator *e,
                                         const struct mmul_argument *argument, const char *what,
                                         int64_t sizes[static MMUL_AXES_MOST], int *count);
// Reads an axis in [0, axes); negative values count from the end.
enum mmul_status mmul_argument_get_axis(struct mmul_evaluator *e,
                                        const struct mmul_argument *argument, int axes, int *axis);

// Finds the argument in a list of words. The error names the nearest one.
enum mmul_status mmul_argument_get_choice(struct mmul_evaluator *e,
                                          const struct mmul_argument *argument, const char *what,
                                          const char *const *words, int *choice);
