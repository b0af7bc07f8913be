// SPDX-License-Identifier: MIT
// Reads any bytes as the text of a program: it is read to the end or refused with a line, and no
// memory leaks. Files of the text are looked up in a folder that does not exist.
#include <stdlib.h>
#include <unistd.h>

#include "mpimatmul_local.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mmul_error err = {.status = MMUL_OK};
    struct mmul_script *script = NULL;
    const struct mmul_script_request request = {
        .path = "text", .text = (const char *)data, .text_bytes = size, .only_checked = true};
    if (size == 0)
        return 0;
    close(STDIN_FILENO);
    if (mmul_script_create(&request, &script, &err) != MMUL_OK && err.text[0] == '\0')
        abort();
    mmul_script_destroy(script);
    if (mmul_live_bytes() != 0)
        abort();
    return 0;
}
