// SPDX-License-Identifier: MIT
// What --help and --version print; made from the tables of commands and options.
#pragma once

#include "cli/command.h"

void mmul_help_print_program(FILE *stream);
void mmul_help_print_command(const struct command *command, FILE *stream);
