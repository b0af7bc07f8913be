// SPDX-License-Identifier: MIT
// The list of commands, and the translation of a command line into a call. Each command interprets
// its own operands and options.
#include "cli/command.h"

#include <string.h>

#include "cli/failure.h"

static const struct command *const commands[] = {
    &mmul_command_mul,     &mmul_command_gen,       &mmul_command_info,   &mmul_command_convert,
    &mmul_command_diff,    &mmul_command_verify,    &mmul_command_split,  &mmul_command_join,
    &mmul_command_devices, &mmul_command_plan,      &mmul_command_bench,  &mmul_command_calibrate,
    &mmul_command_tune,    &mmul_command_doctor,    &mmul_command_run,    &mmul_command_add,
    &mmul_command_sub,     &mmul_command_transpose, &mmul_command_map,    &mmul_command_reduce,
    &mmul_command_topk,    &mmul_command_kept,      &mmul_command_report, &mmul_command_compare,
    &mmul_command_top,     &mmul_command_retry,
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

const struct command *const *mmul_commands(int *count) {
    *count = COMMAND_COUNT;
    return commands;
}

// Suggests the nearest command by spelling, or one with a common prefix ("multiply", "benchmark").
static enum mmul_status fail_unknown(const char *word, struct mmul_error *err) {
    const char *names[COMMAND_COUNT + 5] = {"--help", "--version", "help", "version", NULL};
    const char *nearest = strcmp(word, "matmul") == 0 ? "mul" : NULL;
    bool is_option = word[0] == '-';
    const char *what = is_option ? "option" : "command";
    for (int c = 0; c < COMMAND_COUNT; c++) {
        size_t length = strlen(commands[c]->name), given = strlen(word);
        names[c + 4] = commands[c]->name;
        if (nearest == NULL && given >= 3 &&
            strncmp(word, names[c + 4], given < length ? given : length) == 0)
            nearest = names[c + 4];
    }
    if (nearest == NULL)
        nearest = mmul_nearest(word, names);
    if (nearest != NULL)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "unknown %s '%s', did you mean '%s'?", what, word,
                             nearest);
    mmul_cli_fail(err, MMUL_ERR_USAGE, "unknown %s '%s'", what, word);
    return mmul_cli_hint(err, "%smpimatmul --help lists the commands",
                         is_option ? "options follow the command; " : "");
}

enum mmul_status mmul_command_find(const char *word, const struct command **command,
                                   struct mmul_error *err) {
    for (int c = 0; c < COMMAND_COUNT; c++) {
        if (strcmp(commands[c]->name, word) == 0) {
            *command = commands[c];
            return MMUL_OK;
        }
    }
    return fail_unknown(word, err);
}

// Hints at the usage line. Operands that were given replace their placeholders, if a shell would
// accept them unquoted.
static enum mmul_status hint_usage(const struct call *call, struct mmul_error *err) {
    const struct command *command = call->command;
    const char *missing = command->operands;
    char given[128] = "";
    size_t length = 0;
    if (command->operands_min == command->operands_max &&
        call->operand_count < command->operands_min)
        for (int i = 0; i < call->operand_count; i++) {
            const char *name = call->operands[i];
            if (length + strlen(name) + 2 > sizeof given ||
                strpbrk(name, " \t\n'\"\\$`*?&|;<>()") != NULL) {
                given[0] = '\0';
                missing = command->operands;
                break;
            }
            length += (size_t)snprintf(given + length, sizeof given - length, " %s", name);
            missing += strcspn(missing, " ");
            missing += *missing == ' ';
        }
    return mmul_cli_hint(err, "mpimatmul %s%s%s%s [options]", command->name, given,
                         missing[0] ? " " : "", missing);
}

static enum mmul_status check_operands(const struct call *call, struct mmul_error *err) {
    const struct command *command = call->command;
    int count = call->operand_count;
    if (count < command->operands_min || count > command->operands_max) {
        const char *bound = "";
        if (command->operands_min != command->operands_max)
            bound = count < command->operands_min ? "at least " : "at most ";
        int expected =
            count < command->operands_min ? command->operands_min : command->operands_max;
        mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: expected %s%d operand%s, found %d", command->name,
                      bound, expected, expected == 1 ? "" : "s", count);
        return hint_usage(call, err);
    }
    for (int i = 0; i < count; i++) {
        if (call->operands[i][0] == '\0')
            return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: operand %d is empty", command->name,
                                 i + 1);
    }
    return MMUL_OK;
}

// Refuses an option of another command with the reason why it does not apply.
static enum mmul_status refuse_options(const struct command *command, int argc, char **argv,
                                       struct mmul_error *err) {
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const size_t length = strcspn(argv[i], "=");
        for (const struct option_refusal *r = command->refused; r != NULL && r->name != NULL; r++)
            if (strncmp(argv[i], "--", 2) == 0 && strlen(r->name) + 2 == length &&
                memcmp(argv[i] + 2, r->name, length - 2) == 0)
                return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: --%s %s", command->name, r->name,
                                     r->why);
    }
    return MMUL_OK;
}

enum mmul_status mmul_call_parse(int argc, char **argv, struct call *call, struct mmul_error *err) {
    if (argc < 2) {
        mmul_cli_fail(err, MMUL_ERR_USAGE, "no command is given");
        return mmul_cli_hint(err, "mpimatmul --help lists the commands");
    }
    int first_operand = 0;
    enum mmul_status status = mmul_command_find(argv[1], &call->command, err);
    if (status == MMUL_OK)
        status = refuse_options(call->command, argc, argv, err);
    if (status == MMUL_OK)
        status = mmul_options_parse(&call->options, call->command->options, argc - 1, argv + 1,
                                    &first_operand, err);
    if (status != MMUL_OK)
        return status;
    call->operands = argv + 1 + first_operand;
    call->operand_count = argc - 1 - first_operand;
    status = check_operands(call, err);
    if (status == MMUL_OK && call->command->check != NULL)
        status = call->command->check(call, err);
    return status;
}
