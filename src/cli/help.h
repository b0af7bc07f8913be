// SPDX-License-Identifier: MIT
// The output of --help and --version, generated from the tables of commands and options.
#pragma once

#include "cli/command.h"

void mmul_help_print_program(FILE *stream);
void mmul_help_print_command(const struct command *command, FILE *stream);
