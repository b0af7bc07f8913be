// SPDX-License-Identifier: MIT
//
// The state of one script: its text, the current program, the files it reads and writes, and the
// output for the user. Shared by the files of this folder; callers outside see only the opaque type
// of the public header. script.c creates and prints a script, jobs.c splits it into jobs, and
// script_run.c runs them on all ranks.
#pragma once

#include "tensor/held_types.h"

// A matrix that the text loads. Each path has one entry, however often the text loads it.
struct mmul_script_file {
    const char *path;
    struct mmul_matrix *matrix; // owned; NULL for a persistent set of shards
    int value, axes, job;       // `value` belongs to the program of job `job`
    bool is_rounded;            // a program converted its float64 elements to float32
    bool is_borrowed;           // the script `later` of a first reading owns the matrix
    struct mmul_script_file *next;
};

// A file, or a persistent set of shards, that receives a value.
struct mmul_script_output {
    // `path` as the user spelled it, `file` the real path, `tensor` the name inside the file
    // ("": the file holds one matrix).
    const char *path, *file, *tensor;
    struct mmul_object matrix;
    int line;
    struct mmul_output *output; // owned until the run takes it; NULL for a persistent set
    bool is_deferred;           // deferred to the last job (tensor/jobs.h)
    bool is_checkpoint;         // a checkpoint, which may be overwritten
    int64_t turn;               // iteration stored in a checkpoint
    struct mmul_script_output *next;
};

enum { MMUL_CORNER_ROWS = 4, MMUL_CORNER_COLS = 6, MMUL_STATISTICS = 3 };

enum mmul_script_part_kind {
    MMUL_PART_TEXT,
    MMUL_PART_NUMBER,
    MMUL_PART_MATRIX,
    MMUL_PART_LETTERS // decode(ids, text)
};

// One part of a printed line. Only small values are sent to root.
struct mmul_script_part {
    enum mmul_script_part_kind kind;
    const char *text;   // source text of the matrix or number
    const char *format; // format of a number; NULL for six digits
    double number;      // value of a number
    bool is_whole;      // the number is an integer, such as an index
    struct mmul_object matrix;
    double *corner; // upper left corner of the matrix, rows x cols elements
    int rows, cols;
    double statistics[MMUL_STATISTICS];   // minimum, maximum, mean
    const struct mmul_token_text *tokens; // vocabulary for MMUL_PART_LETTERS
    double *ids;                          // token ids for MMUL_PART_LETTERS
    int64_t id_count;
    struct mmul_script_part *next;
};

// A text of tokens. Ids come from the array `ids`, or, if `ids` is NULL, from the mapped file as
// numbers of `width` bytes.
struct mmul_token_text {
    const char *path;         // in the script's arena
    void *mapped;             // owned mapping of `bytes` bytes
    struct mmul_guard *guard; // owned; protects against a file that is truncated while mapped
    int64_t bytes;
    int32_t *ids; // owned
    // Owned; code point of each id, ascending. NULL if a token is a byte or a 16-bit number.
    int32_t *points;
    int width;      // bytes per number
    int64_t count;  // number of tokens
    int vocabulary; // exclusive upper bound of all ids
    struct mmul_token_text *next;
};

// A matrix that only the current program reads, either from a file or from numbers in memory.
struct mmul_script_temporary {
    struct mmul_matrix *matrix; // owned
    void *numbers;              // owned; NULL if the matrix comes from a file
    struct mmul_script_temporary *next;
};

// A value on its way to root's memory.
struct mmul_script_pending_value {
    struct mmul_output *output; // owned until the run takes it; NULL once the value has arrived
    struct mmul_script_pending_value *next;
};

// The record of one gradient that may be non-finite in a local iteration on a node. Used if the
// script skips steps with non-finite gradients.
struct mmul_skipped_step {
    struct mmul_span at;         // position in the text
    const char *text;            // source text of the gradient
    struct mmul_object gradient; // a matrix, or nested tuples of matrices
    int64_t turn;
    // Shape 1 x n, on all nodes: 1 for each matrix of `gradient` that is not finite, else 0.
    struct mmul_object marks;
    struct mmul_skipped_step *next;
};

// An entry of the output queue: a printed line, the number for a condition, an assert_close, or a
// check that gradients are finite.
enum mmul_script_view_kind {
    MMUL_VIEW_LINE,
    MMUL_VIEW_NUMBER,
    MMUL_VIEW_CLOSE,
    MMUL_VIEW_GRADIENT,
    MMUL_VIEW_SKIPPED_STEPS // optimizer steps that nodes skipped inside apart()
};
struct mmul_script_view {
    enum mmul_script_view_kind kind;
    struct mmul_script_part *parts;
    const char *end;                           // text after the parts of a printed line
    struct mmul_script_pending_value *awaited; // values still missing; NULL if all have arrived
    // assert_close: the largest difference found, and the largest one allowed.
    double difference, tolerance;
    struct mmul_object gradient; // a matrix, or nested tuples of matrices
    const char *text;            // source text of the gradient
    double *sums;                // one number per matrix, finite if and only if the matrix is
    // MMUL_VIEW_SKIPPED_STEPS: the records that belong to the marks in `sums`, one row per node.
    const struct mmul_skipped_step *skipped_steps;
    struct mmul_span at; // position in the text
    struct mmul_script_view *next;
};

// A warning about a position of the text. Each position is reported once.
struct mmul_script_warning {
    const char *line;
    int begin; // start of the position
    bool is_told;
    struct mmul_script_warning *next;
};

struct mmul_script_note {
    const char *text;
    struct mmul_script_note *next;
};

// Runs the programs of a text while it is read (script_run.c). All zeros if the text is only read.
struct mmul_script_runner {
    struct mmul_context *context; // borrowed
    void *run_context;            // first argument of the callbacks
    // Plans and runs mmul_script_program on all ranks. Called with each program but the last one.
    enum mmul_status (*run)(void *run_context, struct mmul_script *script, struct mmul_error *err);
    // Runs local programs of nodes. nodes not NULL: only queries the nodes' capacity.
    enum mmul_status (*apart)(void *run_context, struct mmul_script *script,
                              const struct mmul_program *const *programs,
                              struct mmul_apart_node *nodes, struct mmul_error *err);
};

struct mmul_script {
    struct mmul_source source;
    char *text;                   // owned
    struct mmul_arena arena;      // owned; holds everything below except files and the program
    struct mmul_program *program; // owned
    struct mmul_inputs *inputs;   // owned; opens each input file once
    struct mmul_script_file *files;
    struct mmul_script_output *outputs;
    struct mmul_script_warning *warnings; // in the order of the run
    struct mmul_script_view *views, *last_view;
    struct mmul_script_view *next_view; // first one not printed yet; NULL if all are printed
    const char *shard_folder;           // borrowed; NULL for the default folder
    struct mmul_script_runner runner;
    // Local training (apart), all in the arena: the participating nodes, their shares of the
    // compute power, and the windows each has seen. NULL before the first call.
    struct mmul_apart_node *nodes;
    double *node_shares;
    int64_t *node_windows;
    int node_count;
    int node_jobs;   // number of node programs so far
    int64_t windows; // windows taken by batch() so far
    int last_loop;   // end of the last statement that contains a loop; -1 if there is none
    bool use_float32;
    struct mmul_placements *placements; // borrowed; NULL for none
    struct mmul_token_text *texts;      // owned
    struct mmul_script_temporary *lent; // owned; freed together with the program that reads them
    // Owned, held_count entries: values that the ranks hold for this script (tensor/jobs.h).
    int64_t *held;
    int held_count;
    struct mmul_script_turn turn; // iteration of the outermost loop; `end` is 0 outside of loops
    // Only filled for --check, in the order of the text.
    struct mmul_loop_cost *loops;
    struct mmul_unplanned_block *unplanned;
    struct mmul_local_training_cost *aparts;
    struct mmul_mean_cost *means; // latest first
    double begun_seconds;         // start, on the monotonic clock
    struct json_t *printed;       // owned JSON array of lines that went to no stream; NULL for none
    bool is_over;                 // nothing is left to run
    bool is_line_open;            // the last printed text did not end in a newline
    // Types found by the first reading, or being collected by it (is_first_reading, on behalf of
    // the script `later`). Borrowed while the text is read. NULL if no first reading is needed.
    struct mmul_held_types *foreseen;
    struct mmul_script *later;
    bool is_first_reading;
    struct mmul_script_note *notes;  // notes about types that change
    struct mmul_loop_states *states; // owned; NULL without --resume
    // Absolute path of the checkpoint that the text restores; NULL for none.
    const char *restored_file;
    // Message with the restored iteration; NULL after it is printed or without a restored file.
    const char *restored_line;
    bool only_checked, no_sync, common_types, is_owned_by_run, writes_stdout, skips_nan;
    enum mmul_dtype narrow; // 16-bit output type of the request
};

// -------------------------------------------------------------------------------------- script.c

// Reads a text as mmul_script_create does, and runs all its programs but the last one.
enum mmul_status mmul_script_read(const struct mmul_script_request *request,
                                  const struct mmul_script_runner *runner,
                                  struct mmul_script **script, struct mmul_error *err);

// Called before mmul_program_run, which takes the ownership of the outputs.
void mmul_script_release_outputs(struct mmul_script *script);

// For the program's `arrived`: a value is in root's memory.
void mmul_script_arrive(struct mmul_script *script, const struct mmul_output *output);

// Skips the entries of the output queue that print nothing, up to the first that has not arrived.
// Returns true if a line can be printed.
bool mmul_script_is_due(struct mmul_script *script);

// For the program's `accept`. Fails with MMUL_ERR_WRONG if values asserted to be close are not, or
// if a gradient is not finite. `script` is a struct mmul_script.
enum mmul_status mmul_script_accept(void *script, struct mmul_error *err);

enum { MMUL_PART_NUMBER_BYTES = 4096 };

// Formats the number of `part` as it is printed. Returns `text`.
const char *mmul_script_part_number(const struct mmul_script_part *part,
                                    char text[static MMUL_PART_NUMBER_BYTES]);

// ------------------------------------------------------------------------------- builtins_data.c

// Converts an id to a UTF-8 character, or to the raw byte for texts of bytes. Returns U+FFFD for an
// unknown id. The result is `letter` or a static string.
const char *mmul_script_letter(const struct mmul_token_text *text, double id,
                               char letter[static 5]);

void mmul_script_token_texts_free(struct mmul_script *script);
void mmul_script_temporaries_free(struct mmul_script *script);

// Opens a tensor of a file, for the current program alone. The file stays open until that ends.
enum mmul_status mmul_script_open_tensor(struct mmul_evaluator *e, const struct mmul_node *at,
                                         const char *file, const char *tensor,
                                         struct mmul_matrix **matrix);

// ------------------------------------------------------------------------------------ settings.c

// Applies a setting "NAME=VALUE": replaces the literal in the first top-level line that assigns a
// number or string to NAME. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_setting_apply(struct mmul_tree *tree, const char *text,
                                    struct mmul_error *err);

// --------------------------------------------------------------------------------- script_json.c

// Appends a printed line to the JSON that mmul_script_json returns.
void mmul_script_collect_json(struct mmul_script *script, const struct mmul_script_view *view,
                              const struct mmul_program_plan *plan);

// Writes one line of JSON per value of a printed line.
void mmul_script_write_metrics(const struct mmul_script *script,
                               const struct mmul_script_view *view, FILE *metrics);
