// SPDX-License-Identifier: MIT
//
// A command is a row of data and a function; a call is one use of it.
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
    const char *operands; // as shown: "A B"
    int operands_least, operands_most;
    const char *summary; // one line of `mpimatmul --help`
    const char *notes;   // what its own --help adds below the options
    const char *doing;   // what is to be seen of a long one: "comparing"; NULL: "setting up"
    const enum option_id *options;
    const struct option_refusal
        *refused;       // options of others, and why not here, to a name of NULL; NULL: none
    bool needs_mpi;     // run on every rank, as a collective call; else on root alone
    bool shows_devices; // unused ones, too: drivers are asked, whatever is known of them
    // What options and operands say together, before MPI starts and without touching files; NULL:
    // nothing to check. Fails with MMUL_ERR_USAGE.
    enum mmul_status (*check)(const struct call *call, struct mmul_error *err);
    // Of a command that needs MPI: all ranks return at the same place, and a failure is either
    // everybody's already or root's alone after the last collective call: main agrees at the end.
    enum mmul_status (*run)(const struct call *call, struct mmul_error *err);
};

struct call {
    const struct command *command; // NULL when the word on the command line is none
    struct options options;
    char *const *operands; // borrowed from argv
    int operand_count;
    bool is_root;                 // of MPI, or alone: opens files and prints
    int ranks;                    // of the job, when MPI is there
    double begin_seconds;         // of the process, on the monotonic clock
    struct mmul_context *context; // of commands that need MPI
    struct progress *progress;    // borrowed; moves while the command runs, where it has --progress
};

// All commands in the order of --help; *count of them.
const struct command *const *mmul_commands(int *count);

// Fails with MMUL_ERR_USAGE, and the nearest one.
enum mmul_status mmul_command_find(const char *word, const struct command **command,
                                   struct mmul_error *err);

// argv of main to call. Fails with MMUL_ERR_USAGE, call->command being set as far as it is known.
enum mmul_status mmul_call_parse(int argc, char **argv, struct call *call, struct mmul_error *err);

extern const struct command mmul_command_mul, mmul_command_gen, mmul_command_info,
    mmul_command_convert, mmul_command_diff, mmul_command_verify, mmul_command_split,
    mmul_command_join, mmul_command_devices, mmul_command_plan, mmul_command_bench,
    mmul_command_calibrate, mmul_command_tune, mmul_command_doctor, mmul_command_run,
    mmul_command_add, mmul_command_sub, mmul_command_transpose, mmul_command_map,
    mmul_command_reduce, mmul_command_topk, mmul_command_kept, mmul_command_report,
    mmul_command_compare, mmul_command_top;
