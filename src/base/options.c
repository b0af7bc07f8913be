// SPDX-License-Identifier: MIT
// One rule for all option structs. The fields are interpreted by their readers.
#include "base/options.h"

#include <string.h>

#include "base/status.h"

enum mmul_status mmul_options_copy(const void *given, size_t bytes, const char *name, void *mine,
                                   struct mmul_error *err) {
    size_t has = 0;
    memset(mine, 0, bytes);
    memcpy(&has, given, sizeof has);
    has = has == 0 ? bytes : has;
    if (has > bytes) {
        mmul_fail(err, MMUL_ERR_USAGE,
                  "%s is said to have %zu bytes, this library (" MMUL_VERSION ") knows %zu", name,
                  has, bytes);
        mmul_hint(err, "the program was compiled for a newer mpimatmul than it runs with");
        return MMUL_ERR_USAGE;
    }
    if (has < sizeof has)
        return mmul_fail(err, MMUL_ERR_USAGE,
                         "%s has a size of %zu bytes, but its first field alone has %zu", name, has,
                         sizeof has);
    memcpy(mine, given, has);
    memcpy(mine, &bytes, sizeof bytes);
    return MMUL_OK;
}
