// SPDX-License-Identifier: MIT
//
// The state of a program that is carried out (tensor/evaluate.h), and what its parts and the functions of the language
// do with it: fail at a place of the text, name values, add operations to the program. Nothing here evaluates a node.
#pragma once

#include "tensor/object.h"

enum {
    MMUL_STEPS_MOST = 2000000,    // expressions and statements, as often as they are carried out
    MMUL_OPERATIONS_MOST = 65536, // of the program
    MMUL_ARGUMENTS_MOST = 32,
    MMUL_TUPLE_MOST = 64,
    MMUL_STRING_MOST = 4096,
};

// Names of a function, or of the program.
struct mmul_binding {
    const char *name;
    struct mmul_object object;
    struct mmul_binding *next;
};

struct mmul_frame {
    struct mmul_binding *bindings;    // of the arena
    const struct mmul_node *function; // NULL: the program's
    struct mmul_frame *caller;
};

// A value that has no name, which jobs hold like those of names.
struct mmul_pin {
    struct mmul_object *object; // borrowed
    struct mmul_pin *outer;     // borrowed; NULL: none
};

// Where statements go on: with the next one, behind the innermost loop, or with its next turn.
enum mmul_flow { MMUL_FLOW_ON, MMUL_FLOW_BREAK, MMUL_FLOW_CONTINUE };

struct mmul_evaluator {
    const struct mmul_source *source; // borrowed
    struct mmul_arena *arena;         // borrowed
    struct mmul_program *program;     // borrowed
    struct mmul_script *script;       // borrowed: files, and what is to be seen
    struct mmul_frame *frame, *top;
    const struct mmul_tree *tree; // borrowed
    int64_t steps;
    int operations, depth;
    enum mmul_flow flow;
    // Jobs (tensor/jobs.h): the program's number, values that were made in it, how many loops there are around, where
    // the outermost `for` around these begins, the turn of the innermost one, what is a leaf already, memory of this
    // job and of the next one.
    int job, uses, loops, loop_begin;
    int64_t turn;
    struct mmul_job_leaf *leaves;
    struct mmul_arena arenas[2], *next_arena; // owned
    struct mmul_pin *pins;                    // borrowed, the innermost one; NULL: none
    // What nodes do apart (tensor/apart.h): the one at hand, NULL: none; where its programs run, else all.
    struct mmul_apart *apart;
    struct mmul_left_out *left_out;     // of the turns so far
    const struct mmul_context *context; // borrowed
    // Calls a function of the text (calls.c).
    enum mmul_status (*call)(struct mmul_evaluator *e, const struct mmul_node *at,
                             const struct mmul_object *function,
                             const struct mmul_object *arguments, struct mmul_object *result);
    const struct mmul_node *named; // an expression whose value gets the name ...
    const char *name;              // ... that it is assigned to
    // The last result of clip_grad_norm, and a row with the sum of the scaled squares of each gradient that it got.
    struct mmul_object clipped, squares;
    struct mmul_error *err; // borrowed
};

// An argument of a call as it was found; node NULL: not given, then object is None.
struct mmul_argument {
    const struct mmul_node *node;
    struct mmul_object object;
};

enum mmul_status mmul_evaluator_fail(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const char *format, ...) __attribute__((format(printf, 3, 4)));

// A warning with its place, which the script keeps; the second one of a place is left out.
enum mmul_status mmul_evaluator_warn(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const char *format, ...) __attribute__((format(printf, 3, 4)));

// Of the library's error: says where in the text, and that the text is wrong. Returns the status.
enum mmul_status mmul_evaluator_locate(struct mmul_evaluator *e, const struct mmul_node *at);

// What the value of an expression is called: as it is assigned to, else as it is written.
const char *mmul_evaluator_name(const struct mmul_evaluator *e, const struct mmul_node *node,
                                char text[static 48]);

// A function of the text, by its name.
enum mmul_status mmul_evaluator_read_function(struct mmul_evaluator *e,
                                              const struct mmul_node *node,
                                              struct mmul_object *result);

// A tuple of copies of `count` objects.
enum mmul_status mmul_evaluator_tuple(struct mmul_evaluator *e, const struct mmul_object *items,
                                      int count, struct mmul_object *tuple);

enum mmul_status mmul_evaluator_copy_text(struct mmul_evaluator *e, const char *text,
                                          const char **copy);

// Is it the name that is assigned to, or one of several?
bool mmul_target_has(const struct mmul_node *target, const char *name);

// Is a name assigned to anywhere inside of statements?
bool mmul_node_assigns(const struct mmul_node *node, const char *name);

// One more step, at `node`, unless it is one too many.
enum mmul_status mmul_evaluator_step(struct mmul_evaluator *e, const struct mmul_node *node);

// ---------------------------------------------------------------------------------------- names.c

enum mmul_status mmul_evaluator_bind(struct mmul_evaluator *e, const char *name,
                                     const struct mmul_object *object);

// The value of a name.
enum mmul_status mmul_evaluator_read(struct mmul_evaluator *e, const struct mmul_node *node,
                                     struct mmul_object *result);

// -------------------------------------------------------------------------------------- strings.c

// Appends a number, a string or None to a string of the program's, which may not get too long. spec: Python's format
// (tensor/number_format.h), "": as str().
enum mmul_status mmul_string_append(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct mmul_object *piece, const char *spec,
                                    char text[static MMUL_STRING_MOST + 1]);

// An f-string: strings and numbers side by side are one string; a matrix of one element stands between them.
struct mmul_format_string {
    struct mmul_object pieces[MMUL_TUPLE_MOST];
    int count;
    char text[MMUL_STRING_MOST + 1]; // after the last matrix
};

enum mmul_status mmul_format_string_add(struct mmul_evaluator *e, const struct mmul_node *at,
                                        const struct mmul_object *piece, const char *spec,
                                        struct mmul_format_string *format);

// A string, or MMUL_OBJECT_FORMAT.
enum mmul_status mmul_format_string_end(struct mmul_evaluator *e, struct mmul_format_string *format,
                                        struct mmul_object *result);

// ------------------------------------------------------------------------------------ operations.c

// One operation of the engine; operands are matrices or, where the engine takes them, numbers. `axes`: of the result.
enum mmul_status mmul_apply(struct mmul_evaluator *e, const struct mmul_node *at,
                            struct mmul_call *call, const struct mmul_object *operands,
                            struct mmul_object *result);

// A value of the program that is there, as an object.
struct mmul_object mmul_matrix_object(struct mmul_evaluator *e, int value, int axes);

// x without axes of size 1; what has one axis left is a row (1 x n) here, what has none 1 x 1.
enum mmul_status mmul_drop_axes(struct mmul_evaluator *e, const struct mmul_node *at,
                                const struct mmul_object *x,
                                const bool is_dropped[static MMUL_AXES_MOST],
                                struct mmul_object *result);

// x OPERATOR y, at least one of them a matrix.
enum mmul_status mmul_apply_operator(struct mmul_evaluator *e, const struct mmul_node *node,
                                     const struct mmul_argument operands[2],
                                     struct mmul_object *result);

// Element by element, of up to three operands of which at least one is a matrix. verb: for errors.
enum mmul_status mmul_apply_elements(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const char *operation, const struct mmul_argument *operands,
                                     int count, struct mmul_object *result);

enum mmul_status mmul_apply_matmul(struct mmul_evaluator *e, const struct mmul_node *at,
                                   const struct mmul_argument operands[2],
                                   struct mmul_object *result);

// ------------------------------------------------------------------------------------ arguments.c

// Each fails unless the argument is of this kind; `what`: its parameter's name, which the error says.
enum mmul_status mmul_take_matrix(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                  const char *what);
// Of indices, whose result has an axis more: three axes at most.
enum mmul_status mmul_take_ids(struct mmul_evaluator *e, const struct mmul_argument *argument);
enum mmul_status mmul_take_whole(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                 const char *what, int64_t *number);
enum mmul_status mmul_take_real(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                const char *what, double otherwise, double *number);
// True, False, 1 or 0; False where it is not given.
enum mmul_status mmul_take_bool(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                const char *what, bool *is_true);
enum mmul_status mmul_take_text(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                const char *what, const char *otherwise, const char **text);
// A tuple of whole numbers, or one number, which counts as one of them.
enum mmul_status mmul_take_sizes(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                 const char *what, int64_t sizes[static MMUL_AXES_MOST],
                                 int *count);
// Axis number, from 0, of `axes`; negative ones count from the end.
enum mmul_status mmul_take_axis(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                int axes, int *axis);

// Which word of a list it is, with the nearest one in the error.
enum mmul_status mmul_take_choice(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                  const char *what, const char *const *words, int *choice);
