// SPDX-License-Identifier: MIT
// Reads any bytes as the pickle of a PyTorch file.
#include "fuzz.h"

#include <string.h>

#include "io/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mmul_pickle pickle;
    struct mmul_error err;
    if (mmul_pickle_parse(data, size, "f", &pickle, &err) == MMUL_OK) {
        for (int64_t t = 0; t < pickle.count; t++) {
            const struct mmul_pickle_tensor *tensor = &pickle.tensors[t];
            FUZZ_EXPECT(strlen(tensor->name) < 2000 &&
                        tensor->dimensions <= MMUL_TENSOR_DIMENSIONS);
            FUZZ_EXPECT(tensor->storage == NULL ||
                        ((const uint8_t *)tensor->storage >= data &&
                         (const uint8_t *)tensor->storage + tensor->storage_length <= data + size));
            FUZZ_EXPECT(tensor->elements == NULL ||
                        (tensor->elements >= data &&
                         tensor->elements + tensor->elements_bytes <= data + size));
        }
        mmul_pickle_fini(&pickle);
    }
    FUZZ_EXPECT(mmul_live_bytes() == 0);
    return 0;
}
