// SPDX-License-Identifier: MIT
// Reads /proc/self/cmdline, which also covers programs that use the library and Python scripts.
#include "base/command_line.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

void mmul_command_line(char *command, size_t capacity) {
    char line[4096];
    FILE *file = fopen("/proc/self/cmdline", "re");
    const size_t length = file != NULL ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    line[length] = '\0';
    const char *slash = strrchr(line, '/'), *begin = slash != NULL ? slash + 1 : line;
    for (size_t i = 0; length > 0 && i < length - 1; i++)
        line[i] = line[i] != '\0' ? line[i] : ' ';
    mmul_text_copy_shortened(command, capacity, begin);
    mmul_make_printable(command);
}
