// SPDX-License-Identifier: MIT
//
// Commands as data: a command is a row and a function, a call is one use of it.
//
// Commands return a status and fill the error; only main prints errors and exits.
#pragma once

#include "cli/options.h"

struct mmul_context;
struct progress;
struct call;

struct option_refusal {
    const char *name, *why; // "split", "is of one product"
};

struct command {
    const char *name;
    const char *operands; // shown in the usage line: "A B"
    int operands_min, operands_max;
    const char *summary; // one line of `mpimatmul --help`
    const char *notes;   // text of its own --help, below the options
    const char *doing;   // shown by the progress display: "comparing"; NULL for "setting up"
    const enum option_id *options;
    // Options of other commands with the reason why they do not apply, up to a NULL name. NULL for
    // none.
    const struct option_refusal *refused;
    bool needs_mpi; // runs on every rank as a collective call; otherwise on root only
    // Also lists unused devices, so drivers are queried even if cached answers exist.
    bool queries_all_devices;
    // Prints what follows the notes in --help. NULL: nothing.
    void (*print_more)(FILE *stream);
    // Checks combinations of options and operands before MPI starts, without touching files. NULL
    // for no check. Fails with MMUL_ERR_USAGE.
    enum mmul_status (*check)(const struct call *call, struct mmul_error *err);
    // Runs the command. If needs_mpi, all ranks return after the same collective call. A failure is
    // then either known to all ranks or happened on root after that call; main agrees on it at the
    // end.
    enum mmul_status (*run)(const struct call *call, struct mmul_error *err);
};

struct call {
    const struct command *command; // NULL if the first word is no command
    struct options options;
    char *const *operands; // borrowed from argv
    int operand_count;
    bool is_root;                 // rank 0 of MPI, or alone: opens files and prints
    int ranks;                    // number of ranks, once MPI has started
    double begin_seconds;         // start of the process on the monotonic clock
    struct mmul_context *context; // only for commands that need MPI
    struct progress *progress;    // borrowed; active while the command runs, if it has --progress
};

// Returns all commands in the order of --help; *count is their number.
const struct command *const *mmul_commands(int *count);

// Finds a command. Fails with MMUL_ERR_USAGE, naming the nearest command.
enum mmul_status mmul_command_find(const char *word, const struct command **command,
                                   struct mmul_error *err);

// Parses the arguments of main. Fails with MMUL_ERR_USAGE; call->command is set if it was
// recognized.
enum mmul_status mmul_call_parse(int argc, char **argv, struct call *call, struct mmul_error *err);

extern const struct command mmul_command_mul, mmul_command_gen, mmul_command_info,
    mmul_command_convert, mmul_command_diff, mmul_command_verify, mmul_command_split,
    mmul_command_join, mmul_command_devices, mmul_command_plan, mmul_command_bench,
    mmul_command_calibrate, mmul_command_tune, mmul_command_doctor, mmul_command_run,
    mmul_command_add, mmul_command_sub, mmul_command_transpose, mmul_command_map,
    mmul_command_reduce, mmul_command_topk, mmul_command_kept, mmul_command_report,
    mmul_command_compare, mmul_command_top, mmul_command_retry;
