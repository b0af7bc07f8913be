// SPDX-License-Identifier: MIT
// gen: a matrix from a seed. Elements come from the library; this file says where they go.
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cli/failure.h"
#include "cli/print.h"

enum { CHUNK_ELEMENTS = 1 << 18 };

static bool is_npy(const char *path) {
    size_t length = strlen(path);
    return length >= 4 && strcmp(path + length - 4, ".npy") == 0;
}

// Version 1, which is what is written without being asked for, holds float32 only.
static enum mmul_status check_version(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    enum mmul_dtype dtype = (enum mmul_dtype)values[OPT_GEN_DTYPE].number;
    if (values[OPT_BIN_VERSION].text == NULL)
        return MMUL_OK;
    if (is_npy(call->operands[0]))
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "--bin-version is for .bin files, not for '%s'",
                             call->operands[0]);
    if (values[OPT_BIN_VERSION].number == 2 || dtype == MMUL_F32)
        return MMUL_OK;
    mmul_cli_fail(err, MMUL_ERR_USAGE, "--bin-version 1 holds float32 only, not %s",
                  mmul_dtype_name(dtype));
    return mmul_cli_hint(err, "give --bin-version 2, or leave it out");
}

static enum mmul_status check(const struct call *call, struct mmul_error *err) {
    const char *dims = call->options.values[OPT_DIMS].text;
    struct mmul_shape shape;
    if (dims == NULL) {
        mmul_cli_fail(err, MMUL_ERR_USAGE, "gen: --dims is missing");
        return mmul_cli_hint(err, "give --dims ROWSxCOLS, as in --dims 512x256");
    }
    enum mmul_status status = mmul_shape_parse(dims, &shape, err);
    return status == MMUL_OK ? check_version(call, err) : status;
}

// Without --seed a fresh one, short enough to be typed again.
static enum mmul_status choose_seed(const struct call *call, uint64_t *seed,
                                    struct mmul_error *err) {
    uint32_t fresh = 0;
    if (call->options.values[OPT_SEED].text != NULL)
        *seed = (uint64_t)call->options.values[OPT_SEED].number;
    else if (getentropy(&fresh, sizeof fresh) == 0)
        *seed = fresh;
    else
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "the system has no random numbers");
    return MMUL_OK;
}

struct source {
    enum mmul_generator kind;
    uint64_t seed;
    struct mmul_shape shape;
    float *chunk; // CHUNK_ELEMENTS
};

static enum mmul_status write_matrix(const struct source *source, int64_t matrix,
                                     struct mmul_output *output, struct mmul_error *err) {
    const int64_t count = source->shape.rows * source->shape.cols;
    const struct mmul_region whole = {
        .matrix = matrix, .row_end = source->shape.rows, .col_end = source->shape.cols};
    enum mmul_status status = MMUL_OK;
    for (int64_t begin = 0; begin < count && status == MMUL_OK; begin += CHUNK_ELEMENTS) {
        int64_t end = count - begin < CHUNK_ELEMENTS ? count : begin + CHUNK_ELEMENTS;
        mmul_generate(source->kind, source->seed, source->shape, matrix * count + begin,
                      matrix * count + end, source->chunk);
        status = mmul_output_write_float(output, whole, begin, end, source->chunk, err);
    }
    return status;
}

static enum mmul_status write_file(const struct call *call, const struct source *source,
                                   struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    enum mmul_dtype dtype = (enum mmul_dtype)values[OPT_GEN_DTYPE].number;
    struct mmul_output *output = NULL;
    bool is_version2 = values[OPT_BIN_VERSION].number == 2;
    enum mmul_status status =
        is_version2
            ? mmul_output_create_version2(call->operands[0], source->shape, dtype, NULL, 0, &output,
                                          err)
            : mmul_output_create(call->operands[0], source->shape, dtype, NULL, 0, &output, err);
    if (status != MMUL_OK)
        return status;
    int64_t matrices = mmul_shape_matrices(source->shape);
    for (int64_t matrix = 0; matrix < matrices && status == MMUL_OK; matrix++)
        status = write_matrix(source, matrix, output, err);
    if (status == MMUL_OK)
        return mmul_output_commit(output, err);
    mmul_output_destroy(output);
    return status;
}

static enum mmul_status run(const struct call *call, struct mmul_error *err) {
    static const enum mmul_generator kinds[] = {MMUL_GENERATE_UNIFORM, MMUL_GENERATE_NORMAL,
                                                MMUL_GENERATE_INTEGER, MMUL_GENERATE_IDENTITY};
    const struct option_value *values = call->options.values;
    struct source source = {.kind = kinds[values[OPT_KIND].number]};
    enum mmul_status status = mmul_shape_parse(values[OPT_DIMS].text, &source.shape, err);
    if (status == MMUL_OK)
        status = choose_seed(call, &source.seed, err);
    if (status != MMUL_OK)
        return status;
    source.chunk = malloc(CHUNK_ELEMENTS * sizeof *source.chunk);
    if (source.chunk == NULL)
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate %zu bytes",
                             CHUNK_ELEMENTS * sizeof *source.chunk);
    status = write_file(call, &source, err);
    free(source.chunk);
    bool is_random = source.kind != MMUL_GENERATE_IDENTITY;
    if (status == MMUL_OK && is_random && values[OPT_SEED].text == NULL)
        mmul_print_remark(call, "seed %llu", (unsigned long long)source.seed);
    return status;
}

static const enum option_id options[] = {
    OPT_DIMS,  OPT_KIND,    OPT_SEED, OPT_GEN_DTYPE, OPT_BIN_VERSION,
    OPT_QUIET, OPT_VERBOSE, OPT_HELP, OPT_END,
};

const struct command mmul_command_gen = {
    .name = "gen",
    .operands = "OUT",
    .operands_least = 1,
    .operands_most = 1,
    .summary = "a matrix from a seed",
    .notes = "uniform: [-1, 1); normal: mean 0, deviation 1; integer: -4 .. 4; identity.\n"
             "\n"
             "  mpimatmul gen A.bin --dims 4096x1024 --seed 7\n",
    .options = options,
    .check = check,
    .run = run,
};
