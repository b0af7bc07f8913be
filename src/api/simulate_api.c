// SPDX-License-Identifier: MIT
// Simulations of the public header: reads the file and the weights; plan does the rest.
#include "mpimatmul.h"

#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "io/weights_file.h"
#include "plan/simulate/simulate.h"

// Reads weights; leaves them NULL if shares are to be balanced.
static enum mmul_status read_weights(const char *text, int size, double **weights,
                                     struct mmul_error *err) {
    if (text == NULL || strcmp(text, "auto") == 0)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(*weights, size, "weights", err);
    return status == MMUL_OK ? mmul_weights_parse_for_ranks(text, size, *weights, err) : status;
}

enum mmul_status mmul_simulation_create(const char *path, const struct mmul_matmul *args,
                                        struct mmul_simulation **simulation,
                                        struct mmul_error *err) {
    const struct mmul_matmul defaults = {.split = MMUL_SPLIT_AUTO};
    struct mmul_description *description = NULL;
    struct mmul_schedule_request request = {.panels = true};
    double *weights = NULL;
    json_t *value = NULL;
    struct mmul_matmul taken;
    enum mmul_status status =
        MMUL_OPTIONS_COPY(mmul_matmul, args != NULL ? args : &defaults, &taken, err);
    if (status != MMUL_OK)
        return status;
    args = &taken;
    status = mmul_json_load(path, &value, err);
    if (status == MMUL_OK)
        status = mmul_description_create(value, path, &description, err);
    json_decref(value);
    if (status == MMUL_OK)
        status = read_weights(args->weights, description->cluster->size, &weights, err);
    request.weights = weights;
    request.tail = weights == NULL ? MMUL_TAIL_AUTO : MMUL_TAIL_OFF; // given shares apply exactly
    request.split = args->split;
    request.rule = args->split_rule;
    request.memory_limit_bytes = args->memory_limit_bytes;
    request.device_memory_limit_bytes = args->device_memory_limit_bytes;
    if (status == MMUL_OK)
        status = mmul_simulation_make(description, &request, simulation, err);
    else
        mmul_description_destroy(description);
    mmul_free(weights);
    return status;
}
