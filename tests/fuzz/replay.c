// SPDX-License-Identifier: MIT
// Runs a fuzz target without a fuzzer: passes it every named file, in memory of exactly the file's
// length. Prints the number of files.
#include <stdio.h>
#include <sys/stat.h>

#include "fuzz.h"

static int replay(const char *path) {
    struct stat found;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fstat(fileno(file), &found) != 0)
        return -1;
    size_t size = (size_t)found.st_size;
    uint8_t *bytes = malloc(size);
    int rc = (bytes == NULL && size > 0) || fread(bytes, 1, size, file) != size ? -1 : 0;
    fclose(file); // read only: nothing can be lost
    if (rc == 0)
        LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
    return rc;
}

int main(int count, char **paths) {
    for (int p = 1; p < count; p++) {
        if (replay(paths[p]) != 0) {
            fprintf(stderr, "cannot read '%s'\n", paths[p]);
            return 1;
        }
    }
    printf("%d inputs\n", count - 1);
    return 0;
}
