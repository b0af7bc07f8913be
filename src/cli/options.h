// SPDX-License-Identifier: MIT
//
// Options as data. One table (option_table.c) has a row per option; it drives the parser, the
// environment, --help and the text that must agree between ranks. A command lists the rows it takes.
//
// A value comes from the command line, else from MPIMATMUL_<NAME> in the environment (rows that
// allow it; empty counts as not set), else from the row's default.
#pragma once

#include "mpimatmul_local.h"

// Two rows may share a name where commands mean different defaults by it; no command takes both.
enum option_id {
    OPT_END, // ends a command's list
    OPT_OUTPUT,
    OPT_JOIN_OUTPUT,
    OPT_LINE_OUTPUT,
    OPT_DIMS,
    OPT_KIND,
    OPT_SEED,
    OPT_TRANSPOSE_A,
    OPT_TRANSPOSE_B,
    OPT_ALPHA,
    OPT_BETA,
    OPT_C_IN,
    OPT_BIAS,
    OPT_ACTIVATION,
    OPT_RESIDUAL,
    OPT_TOPK,
    OPT_DTYPE,
    OPT_COMPUTED,
    OPT_GEN_DTYPE,
    OPT_CONVERT_DTYPE,
    OPT_BIN_VERSION,
    OPT_MATRIX_FORMAT,
    OPT_TOLERANCE,
    OPT_RELATIVE,
    OPT_WEIGHTS,
    OPT_PARTS,
    OPT_PART_WEIGHTS,
    OPT_AXIS,
    OPT_DEVICE,
    OPT_SPLIT,
    OPT_SPLIT_RULE,
    OPT_IO,
    OPT_TAIL,
    OPT_REPRODUCIBLE,
    OPT_MEMORY,
    OPT_DEVICE_MEMORY,
    OPT_VERIFY,
    OPT_VERIFY_SEED,
    OPT_SYNC,
    OPT_MISSING,
    OPT_NO_FALLBACK,
    OPT_DEVICE_TIMEOUT,
    OPT_SHARD_DIR,
    OPT_KEEP,
    OPT_REMOVE,
    OPT_CHECK,
    OPT_LOG,
    OPT_METRICS,
    OPT_ON_NAN,
    OPT_PLACEMENT,
    OPT_REDUCED,
    OPT_COUNT_K,
    OPT_INDICES,
    OPT_NORMALIZE_ROWS,
    OPT_REPORT,
    OPT_TRACE,
    OPT_HTML,
    OPT_COMPARE_HTML,
    OPT_PAGE_OUTPUT,
    OPT_PROGRESS,
    OPT_THREADS,
    OPT_BIND,
    OPT_SIZES,
    OPT_RUNS,
    OPT_WARMUP,
    OPT_BASELINE,
    OPT_FORMAT,
    OPT_TABLE_OUTPUT,
    OPT_TUNE_DEVICE,
    OPT_TUNE_LIMIT,
    OPT_TUNE_SIZE,
    OPT_TUNE_FRACTION,
    OPT_FORCE,
    OPT_QUICK,
    OPT_SIMULATE,
    OPT_TEST,
    OPT_HOSTFILE,
    OPT_MPI_TUNE,
    OPT_FOLDER,
    OPT_TIMEOUT,
    OPT_PROBE,
    OPT_ONCE,
    OPT_STEPS,
    OPT_JSON,
    OPT_DRY_RUN,
    OPT_QUIET,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_COUNT
};

// In a list: what a command that multiplies takes of the check.
#define OPT_VERIFYING OPT_VERIFY, OPT_VERIFY_SEED

enum option_kind {
    OPTION_FLAG,       // --name, or --name=on|off to undo the environment
    OPTION_TEXT,       // anything but empty
    OPTION_CHOICE,     // one of the words of `argument`, separated by '|'
    OPTION_INTEGER,    // from least to most
    OPTION_REAL,       // from least to most
    OPTION_SIZE,       // 512MiB
    OPTION_DTYPE,      // an element type of results
    OPTION_FILE_DTYPE, // one that files can hold as well
    OPTION_FORMAT,     // a file format that is written
    OPTION_SHARE,      // auto, off or a number from least to most
    OPTION_WEIGHTS,    // auto, equal, @FILE or a list of numbers
};

// Where an option may differ from rank to rank, and where it may come from.
enum option_traits {
    OPTION_ENVIRONMENT = 1, // MPIMATMUL_<NAME> is read
    OPTION_PER_RANK = 2,    // ranks may differ
};

struct option_row {
    const char *name;
    char letter; // of the short form, 0: none
    enum option_kind kind;
    unsigned traits;      // enum option_traits
    const char *argument; // as shown by --help; the words of a choice; NULL for a flag
    const char *initial;  // default, parsed like a given value; NULL: the value stays 0
    const char *shown;    // default in words where `initial` is NULL
    const char *help;
    double least, most; // OPTION_INTEGER, OPTION_REAL
};

enum option_source { OPTION_DEFAULT, OPTION_FROM_ENVIRONMENT, OPTION_FROM_COMMAND_LINE };

struct option_value {
    enum option_source source;
    const char *text; // borrowed from argv, the environment or the table; NULL: default in words
    int64_t number; // flag 0 or 1, place of a choice, integer, bytes, enum mmul_dtype, mmul_format
    double real;
};

struct options {
    const enum option_id *accepted; // borrowed from the command
    struct option_value values[OPT_COUNT];
};

// The row of an option other than OPT_END.
const struct option_row *mmul_option_row(enum option_id id);

// "MPIMATMUL_TRANSPOSE_A" for "transpose-a". Returns `text`.
char *mmul_option_environment(const struct option_row *row, char text[static 64]);

// Parses argv[1] ... argv[argc - 1]; argv[0] is the command's name. Operands are moved to the end
// of argv, the first of them is at *first_operand. Every accepted option has a value afterwards.
// Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_options_parse(struct options *options, const enum option_id *accepted,
                                    int argc, char **argv, int *first_operand,
                                    struct mmul_error *err);

// Lines `name=value` of the options that must agree between ranks, after `heading`, in one
// spelling however they were given. Freed by the caller with free(); NULL without memory.
char *mmul_options_agreed(const struct options *options, const char *heading);

// One line per option that the command line or the environment gives: its value, and which of them.
void mmul_options_print(const struct options *options, FILE *stream);

// Is `name`, "MPIMATMUL_...", the variable of an option (of any command)? When not, `nearest` is the one that may be
// meant, or "".
bool mmul_option_is_variable(const char *name, char nearest[static 64]);
