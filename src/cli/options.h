// SPDX-License-Identifier: MIT
//
// Options as data. One table (option_table.c) has a row per option. The table drives the parser,
// the environment variables, --help and the text that must agree between ranks. A command lists its
// rows.
//
// A value comes from the command line, else from MPIMATMUL_<NAME> in the environment, else from the
// row's default. The environment counts if the row allows it and the variable is not empty.
#pragma once

#include "mpimatmul_local.h"

// Two rows may share a name if commands need different defaults; no command takes both.
enum option_id {
    OPT_END, // ends the list of a command
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
    OPT_RESUME,
    OPT_JOURNAL,
    OPT_JOURNAL_SECONDS,
    OPT_MISSING,
    OPT_NO_FALLBACK,
    OPT_DEVICE_TIMEOUT,
    OPT_STALL_TIMEOUT,
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
    OPT_TRIES,
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

// Options about verification, for the lists of commands that multiply.
#define OPT_VERIFYING OPT_VERIFY, OPT_VERIFY_SEED

enum option_kind {
    OPTION_FLAG,       // --name, or --name=on|off to override the environment
    OPTION_TEXT,       // any text except ""
    OPTION_CHOICE,     // one of the words of `argument`, separated by '|'
    OPTION_INTEGER,    // between `least` and `most`
    OPTION_REAL,       // between `least` and `most`
    OPTION_SIZE,       // 512MiB
    OPTION_DTYPE,      // an element type of results
    OPTION_FILE_DTYPE, // an element type that files can hold
    OPTION_FORMAT,     // a format for output files
    OPTION_SHARE,      // auto, off or a number between `least` and `most`
    OPTION_WEIGHTS,    // auto, equal, @FILE or a list of numbers
};

// Sources and scope of an option.
enum option_traits {
    OPTION_ENVIRONMENT = 1, // MPIMATMUL_<NAME> is read
    OPTION_PER_RANK = 2,    // may differ between ranks
};

struct option_row {
    const char *name;
    char letter; // short form; 0 for none
    enum option_kind kind;
    unsigned traits;      // enum option_traits
    const char *argument; // placeholder in --help, or the words of a choice; NULL for a flag
    const char *initial;  // default, parsed like a given value; NULL leaves 0
    const char *shown;    // description of the default if `initial` is NULL
    const char *help;
    double least, most; // bounds for OPTION_INTEGER and OPTION_REAL
};

enum option_source { OPTION_DEFAULT, OPTION_FROM_ENVIRONMENT, OPTION_FROM_COMMAND_LINE };

struct option_value {
    enum option_source source;
    const char *text; // borrowed from argv, environment or table; NULL for a default without text
    // Flag (0 or 1), index of a choice, integer, bytes, enum mmul_dtype or mmul_format.
    int64_t number;
    double real;
};

struct options {
    const enum option_id *accepted; // borrowed from the command
    struct option_value values[OPT_COUNT];
};

// Returns the row of an option other than OPT_END.
const struct option_row *mmul_option_row(enum option_id id);

// Converts "transpose-a" to "MPIMATMUL_TRANSPOSE_A". Returns `text`.
char *mmul_option_environment(const struct option_row *row, char text[static 64]);

// Parses argv[1] to argv[argc - 1]; argv[0] is the command's name. Moves operands to the end of
// argv, with the first one at *first_operand. Every accepted option has a value afterwards. Fails
// with MMUL_ERR_USAGE.
enum mmul_status mmul_options_parse(struct options *options, const enum option_id *accepted,
                                    int argc, char **argv, int *first_operand,
                                    struct mmul_error *err);

// Returns `heading` and a line `name=value` for each option that must agree between ranks. Equal
// values have equal spelling. Freed by the caller with free(); NULL if memory runs out.
char *mmul_options_format_agreed(const struct options *options, const char *heading);

// Prints a line for each option from the command line or the environment, with its value and
// source.
void mmul_options_print(const struct options *options, FILE *stream);

// Returns true if `name`, "MPIMATMUL_...", is the variable of an option of any command. Otherwise
// `nearest` is a similar variable, or "".
bool mmul_option_check_variable(const char *name, char nearest[static 64]);
