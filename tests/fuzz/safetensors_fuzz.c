// SPDX-License-Identifier: MIT
// Reads any bytes as a .safetensors file: its header, its tensors, and one tensor by address.
#include "fuzz.h"

#include <string.h>

#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mmul_tensors *tensors = NULL;
    struct mmul_error err;
    const struct mmul_tensor_entry *entry;
    struct mmul_axis_range range;
    size_t json_bytes = 0;
    if (mmul_safetensors_json_bytes(data, size, (int64_t)size, "f", &json_bytes, &err) != MMUL_OK ||
        mmul_safetensors_parse((const char *)data + 8, json_bytes, (int64_t)size, "f", &tensors,
                               &err) != MMUL_OK)
        return 0;
    for (int64_t t = 0; t < tensors->count; t++) {
        const struct mmul_tensor_entry *e = &tensors->all[t];
        FUZZ_EXPECT(e->offset >= 8 && e->bytes >= 0 && e->offset + e->bytes <= (int64_t)size);
        FUZZ_EXPECT(!e->is_readable ||
                    mmul_tensors_find(tensors, "f", e->name, &entry, &range, &err) == MMUL_OK);
    }
    mmul_tensors_find(tensors, "f", "weight[1:2]", &entry, &range, &err);
    mmul_tensors_close(tensors);
    FUZZ_EXPECT(mmul_live_bytes() == 0);
    return 0;
}
