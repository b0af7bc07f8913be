// SPDX-License-Identifier: MIT
// Help texts. Every option line ends with its default and, if it has one, its environment variable.
#include "cli/help.h"

#include <string.h>

static const char exit_codes[] =
    "Exit codes:\n"
    "   0  done and verified\n"
    "  64  unknown command or option, invalid value, or options that differ between ranks\n"
    "  65  a file is not a valid matrix, or shapes do not fit\n"
    "  66  input missing, unreadable, a directory or a FIFO\n"
    "  69  a device asked for by name is absent, or failed under --no-fallback\n"
    "  70  internal error\n"
    "  71  memory, a limit (ulimit), system or MPI failure, versions of ranks differ\n"
    "  73  output cannot be created, or is one of the inputs\n"
    "  74  write error or no space\n"
    "  75  stopped part-way: SIGINT, SIGTERM, SIGHUP\n"
    "  78  doctor found a problem\n"
    "  79  the result or a device is wrong, or diff or verify found a difference\n";

void mmul_help_print_program(FILE *stream) {
    int count;
    const struct command *const *commands = mmul_commands(&count);
    fputs("Usage: mpimatmul COMMAND [options]\n"
          "\n"
          "Multiplies matrices on mixed machines. Alone it uses the best device of this machine,\n"
          "under mpirun or srun one rank per GPU or CPU.\n"
          "\n"
          "Commands:\n",
          stream);
    for (int c = 0; c < count; c++) {
        char usage[64];
        snprintf(usage, sizeof usage, "%s %s", commands[c]->name, commands[c]->operands);
        fprintf(stream, "  %-24s %s\n", usage, commands[c]->summary);
    }
    fputs(
        "\n"
        "  mpimatmul help COMMAND     options of a command, with their defaults (COMMAND --help)\n"
        "  mpimatmul version          print the version (--version)\n"
        "\n",
        stream);
    fputs(exit_codes, stream);
    fputs(
        "\n"
        "Environment:\n"
        "  MPIMATMUL_<OPTION>   default of an option, where its --help line names it. The command\n"
        "                       line wins; --transpose-a=off undoes MPIMATMUL_TRANSPOSE_A=on\n"
        "  With mpirun on several hosts, mpirun -x NAME takes a variable along.\n"
        "\n"
        "Files: .bin (4D, little-endian), .npy, .npz, .safetensors, .csv, .tsv, .mtx, and to be "
        "read .pt\n"
        "and .gguf; FILE:TENSOR is one of a file's tensors, FILE:TENSOR[10:20] a range of its "
        "first "
        "axis,\n"
        "kept:NAME what a job has left on the ranks; - is standard input or output. Results go to "
        "stdout,\n"
        "all else to stderr.\n",
        stream);
}

// Returns the placeholder after an option's name. A long list of choices is shown in the help
// column instead.
static const char *argument_of(const struct option_row *row) {
    enum { WORDS_MOST = 32 };
    bool is_long = row->kind == OPTION_CHOICE && strlen(row->argument) > WORDS_MOST;
    return is_long ? "NAME" : row->argument;
}

static void print_option(const struct option_row *row, int width, FILE *stream) {
    char left[80], environment[64];
    const char *argument = argument_of(row);
    bool is_words = row->kind == OPTION_CHOICE && argument == row->argument;
    const char *help =
        is_words || row->kind != OPTION_CHOICE || row->help[0] ? row->help : row->argument;
    snprintf(left, sizeof left, "--%s%s%s", row->name, argument ? " " : "",
             argument ? argument : "");
    if (row->letter != 0)
        fprintf(stream, "  -%c, %-*s", row->letter, width, left);
    else
        fprintf(stream, "      %-*s", width, left);
    fprintf(stream, "  %s%s[default: %s", help, help[0] ? " " : "",
            row->initial ? row->initial : row->shown);
    if (row->traits & OPTION_ENVIRONMENT)
        fprintf(stream, "; %s", mmul_option_environment(row, environment));
    fputs("]\n", stream);
}

void mmul_help_print_command(const struct command *command, FILE *stream) {
    int width = 0;
    fprintf(stream, "Usage: mpimatmul %s%s%s [options]\n\n%s\n\nOptions:\n", command->name,
            command->operands[0] ? " " : "", command->operands, command->summary);
    for (const enum option_id *id = command->options; *id != OPT_END; id++) {
        const struct option_row *row = mmul_option_row(*id);
        const char *argument = argument_of(row);
        int length = (int)strlen(row->name) + (argument ? (int)strlen(argument) + 3 : 2);
        width = length > width ? length : width;
    }
    for (const enum option_id *id = command->options; *id != OPT_END; id++)
        print_option(mmul_option_row(*id), width, stream);
    if (command->notes[0] != '\0')
        fprintf(stream, "\n%s", command->notes);
    if (command->print_more != NULL)
        command->print_more(stream);
}
