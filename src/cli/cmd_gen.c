// SPDX-License-Identifier: MIT
// gen: writes a matrix generated from a seed. The library generates the elements.
#include <string.h>
#include <sys/random.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/print.h"

static enum mmul_status check_gen(const struct call *call, struct mmul_error *err) {
    const char *dims = call->options.values[OPT_DIMS].text;
    struct mmul_shape shape;
    if (dims == NULL) {
        mmul_cli_fail(err, MMUL_ERR_USAGE, "gen: --dims is missing");
        return mmul_cli_hint(err, "give --dims ROWSxCOLS, as in --dims 512x256");
    }
    enum mmul_status status = mmul_shape_parse(dims, &shape, err);
    return status == MMUL_OK ? mmul_files_check_output(call, call->operands[0], err) : status;
}

// Chooses a random seed if --seed is missing, short enough to be typed again.
static enum mmul_status choose_seed(const struct call *call, uint64_t *seed,
                                    struct mmul_error *err) {
    uint32_t fresh = 0;
    if (call->options.values[OPT_SEED].text != NULL)
        *seed = (uint64_t)call->options.values[OPT_SEED].number;
    else if (getentropy(&fresh, sizeof fresh) == 0)
        *seed = fresh;
    else
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "the system provides no random numbers");
    return MMUL_OK;
}

static enum mmul_status run_gen(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    // Same order as the enum.
    const enum mmul_generator kind = (enum mmul_generator)values[OPT_KIND].number;
    uint64_t seed = 0;
    struct mmul_output_request request = {
        .path = call->operands[0],
        .format = (enum mmul_format)values[OPT_MATRIX_FORMAT].number,
        .dtype = (enum mmul_dtype)values[OPT_GEN_DTYPE].number,
        .bin_version = (int)values[OPT_BIN_VERSION].number,
        .dimensions = 1,
    };
    for (const char *x = values[OPT_DIMS].text; (x = strchr(x, 'x')) != NULL; x++)
        request.dimensions++; // one axis per 'x' and one more
    enum mmul_status status = mmul_shape_parse(values[OPT_DIMS].text, &request.shape, err);
    if (status == MMUL_OK)
        status = choose_seed(call, &seed, err);
    if (status == MMUL_OK)
        status = mmul_generate_file(kind, seed, &request, err);
    const bool is_random =
        kind != MMUL_GENERATE_IDENTITY && kind != MMUL_GENERATE_ZEROS && kind != MMUL_GENERATE_ONES;
    if (status == MMUL_OK && is_random && values[OPT_SEED].text == NULL)
        mmul_print_remark(call, "seed %llu", (unsigned long long)seed);
    return status;
}

static const enum option_id options[] = {
    OPT_DIMS,  OPT_KIND,     OPT_SEED,    OPT_GEN_DTYPE, OPT_MATRIX_FORMAT, OPT_BIN_VERSION,
    OPT_QUIET, OPT_PROGRESS, OPT_VERBOSE, OPT_HELP,      OPT_END,
};

const struct command mmul_command_gen = {
    .name = "gen",
    .operands = "OUT",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "a matrix from a seed",
    .notes =
        "uniform: [-1, 1); normal: mean 0, deviation 1; integer: -4 .. 4; identity, zeros, ones;\n"
        "rand: [0, 1).\n"
        "The ending of OUT chooses the format, without one it is .bin; - is standard output.\n"
        "\n"
        "  mpimatmul gen A.bin --dims 4096x1024 --seed 7\n",
    .doing = "generating",
    .options = options,
    .check = check_gen,
    .run = run_gen,
};
