// SPDX-License-Identifier: MIT
//
// A text and what it has made: a program, the files that it reads and writes, and what it wants to be seen.
#pragma once

#include "tensor/foreseen.h"

// A matrix that was loaded, once however often the text asks for it.
struct mmul_script_file {
    const char *path;
    struct mmul_matrix *matrix; // owned; NULL: a kept set
    int value, axes, job;       // value: of that job's program
    bool is_rounded;            // a program has read its float64 as float32
    bool is_borrowed;           // the matrix is of the script that reads the text for good
    struct mmul_script_file *next;
};

// A file, or a set that is kept, where a value goes.
struct mmul_script_output {
    const char *path, *file,
        *tensor; // as it is spelled; the file itself; which of its tensors, "": its only one
    struct mmul_object matrix;
    int line;
    struct mmul_output *output; // owned until the run has it; NULL: a set that is kept
    bool is_waiting;            // for the last job (tensor/jobs.h)
    bool is_checkpoint;         // which may be written again
    int64_t turn;               // of a checkpoint
    struct mmul_script_output *next;
};

enum { MMUL_CORNER_ROWS = 4, MMUL_CORNER_COLS = 6, MMUL_STATISTICS = 3 };

enum mmul_script_part_kind {
    MMUL_PART_TEXT,
    MMUL_PART_NUMBER,
    MMUL_PART_MATRIX,
    MMUL_PART_LETTERS // decode(ids, text)
};

// Of a line that is printed. Values that come to root are small.
struct mmul_script_part {
    enum mmul_script_part_kind kind;
    const char *text;   // of a matrix, also one with one element, what the source calls it
    const char *format; // of that one; NULL: six digits
    double number;      // of that one
    bool is_whole;      // that is an index, or the like
    struct mmul_object matrix;
    double *corner; // of its first matrix: rows x cols
    int rows, cols;
    double statistics[MMUL_STATISTICS];    // least, largest, mean
    const struct mmul_script_text *tokens; // letters: the text that numbers them ...
    double *ids;                           // ... and their numbers
    int64_t id_count;
    struct mmul_script_part *next;
};

// A text of tokens: ids, or, NULL, numbers of so many bytes where the file is mapped.
struct mmul_script_text {
    const char *path;         // in the script's arena
    void *mapped;             // owned, `bytes` of it
    struct mmul_guard *guard; // owned: the file may become shorter
    int64_t bytes;
    int32_t *ids;    // owned
    int32_t *points; // owned: the code point of each id, rising; NULL: a number is a byte, or two
    int width;       // of a number
    int64_t count;   // tokens
    int vocabulary;  // all are below
    struct mmul_script_text *next;
};

// A matrix that the program at hand reads, of a file or of numbers.
struct mmul_script_lent {
    struct mmul_matrix *matrix; // owned
    void *numbers;              // owned; NULL: of a file
    struct mmul_script_lent *next;
};

// A value that comes to root's memory.
struct mmul_script_awaited {
    struct mmul_output *output; // owned until the run has it; NULL: it is here
    struct mmul_script_awaited *next;
};

// Where steps with gradients that are not finite are left out: what says so of an optimiser's gradient in a turn.
struct mmul_left_out {
    struct mmul_span at;         // in the text
    const char *text;            // what the source calls the gradient
    struct mmul_object gradient; // a matrix, or tuples of them
    int64_t turn;
    struct mmul_object
        marks; // 1 x n: of each of its matrices 1, where it is not finite, or 0; held by all nodes
    struct mmul_left_out *next;
};

// A line to be seen, a number that decides, values to be close, or gradients to be finite.
enum mmul_script_view_kind {
    MMUL_VIEW_LINE,
    MMUL_VIEW_NUMBER,
    MMUL_VIEW_CLOSE,
    MMUL_VIEW_GRADIENT,
    MMUL_VIEW_LEFT_OUT // steps that nodes have left out apart
};
struct mmul_script_view {
    enum mmul_script_view_kind kind;
    struct mmul_script_part *parts;
    const char *end;                     // of a line: behind its parts
    struct mmul_script_awaited *awaited; // NULL: all of it is here
    double difference,
        tolerance;               // of what is close: the largest one that there is, and that may be
    struct mmul_object gradient; // a matrix, or tuples of them
    const char *text;            // what the source calls it
    double *sums;                // of each of its matrices one number, finite as they are
    const struct mmul_left_out
        *left_out;       // the marks of all of them are `sums`, a row for each node
    struct mmul_span at; // in the text
    struct mmul_script_view *next;
};

// A line about a place of the text, each place once.
struct mmul_script_warning {
    const char *line;
    int begin; // of the place
    bool is_told;
    struct mmul_script_warning *next;
};

struct mmul_script_note {
    const char *text;
    struct mmul_script_note *next;
};

struct mmul_script {
    struct mmul_source source;
    char *text;                   // owned
    struct mmul_arena arena;      // owned: what follows, but for files and the program
    struct mmul_program *program; // owned
    struct mmul_inputs *inputs;   // owned: every file that the text reads is opened once
    struct mmul_script_file *files;
    struct mmul_script_output *outputs;
    struct mmul_script_warning *warnings; // in the order of the run
    struct mmul_script_view *views, *last_view;
    struct mmul_script_view *next_view; // the first that has not been printed; NULL: all have been
    const char *shard_folder;           // borrowed; NULL: the standard one
    enum mmul_status (*run)(void *run_context, struct mmul_script *script, struct mmul_error *err);
    void *run_context;
    void (*measured)(void *run_context, const char *name, double value);
    struct mmul_context *context; // borrowed, of the request
    enum mmul_status (*apart)(void *run_context, struct mmul_script *script,
                              const struct mmul_program *const *programs,
                              struct mmul_apart_node *nodes, struct mmul_error *err);
    // Of the arena: nodes that do things apart, NULL: none has yet; their shares, and windows that they have seen.
    struct mmul_apart_node *nodes;
    double *node_shares;
    int64_t *node_windows;
    int node_count;
    int node_jobs;   // programs of nodes so far
    int64_t windows; // that batches have taken
    int last_loop;   // where the last statement that has a loop in it ends; -1: there is none
    bool use_float32;
    struct mmul_placements *placements; // borrowed; NULL: none
    struct mmul_script_text *texts;     // owned
    struct mmul_script_lent *lent;      // owned: gone with the program that reads it
    int64_t *held; // owned, held_count of them: values that the ranks hold for it (tensor/jobs.h)
    int held_count;
    struct mmul_script_turn turn; // of the outermost loop; end 0: there is none at hand
    // Of a text that is only checked, in its order.
    struct mmul_script_loop *loops;
    struct mmul_script_apart *aparts;
    struct mmul_script_mean *means; // the last one first
    double begun_seconds;           // by the clock
    struct json_t *printed;         // owned, an array: what no stream has got; NULL: nothing
    bool is_over;                   // nothing is left to be run
    bool is_line_open;              // what was printed last has no end of a line
    // Borrowed while the text is read: what its first reading has found, or is finding (is_first_reading, for the
    // script `later`). NULL: it needs none.
    struct mmul_foreseen *foreseen;
    struct mmul_script *later;
    bool is_first_reading;
    struct mmul_script_note *notes; // of types that change
    const char
        *restored_file; // the checkpoint that the text restores, an absolute path; NULL: none
    const char *
        restored_line; // that says from which turn on; NULL: from the first one, or it has been printed
    bool only_checked, no_sync, common_types, is_handed_over, writes_stdout, skips_nan;
    enum mmul_dtype narrow; // as of the request
};

// -------------------------------------------------------------------------------------- script.c

enum { MMUL_PART_NUMBER_BYTES = 4096 };

// A part's number, as it is printed. Returns `text`.
const char *mmul_script_part_number(const struct mmul_script_part *part,
                                    char text[static MMUL_PART_NUMBER_BYTES]);

// ------------------------------------------------------------------------------- builtins_data.c

// The letter of an id, as UTF-8, or the byte that it is; U+FFFD of what is none. Stands in `letter`, or for ever.
const char *mmul_script_letter(const struct mmul_script_text *text, double id,
                               char letter[static 5]);

void mmul_script_texts_free(struct mmul_script *script);
void mmul_script_lent_free(struct mmul_script *script);

// ------------------------------------------------------------------------------------ settings.c

// Gives `text`, "NAME=VALUE", to the first line at the top that assigns a number or string to NAME. Fails with
// MMUL_ERR_USAGE.
enum mmul_status mmul_setting_apply(struct mmul_tree *tree, const char *text,
                                    struct mmul_error *err);

// --------------------------------------------------------------------------------- script_json.c

// Keeps a line that is printed for mmul_script_json.
void mmul_script_collect(struct mmul_script *script, const struct mmul_script_view *view,
                         const struct mmul_program_plan *plan);

// A line of JSON for each value of a line that is printed.
void mmul_script_measure(const struct mmul_script *script, const struct mmul_script_view *view,
                         FILE *metrics);
