// SPDX-License-Identifier: MIT
// Converts between the file formats and makes files from a seed. What is asked for and cannot be
// had is an error; what is not asked for follows the input as far as the format can hold it.
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/copy.h"
#include "io/output_file.h"
#include "model/matrix.h"

static enum mmul_status check_options(const char *out, const struct mmul_convert_options *options,
                                      struct mmul_error *err) {
    if (options->bin_version < 0 || options->bin_version > 2) {
        return mmul_fail(err, MMUL_ERR_USAGE, ".bin version %d: expected 1 or 2",
                         options->bin_version);
    }
    if (!options->has_dtype)
        return MMUL_OK;
    if (options->dtype == MMUL_F64) {
        return mmul_fail(err, MMUL_ERR_USAGE,
                         "cannot write '%s' as float64: float32, float16 and bfloat16 are written",
                         out);
    }
    if (options->dtype == MMUL_BF16 && mmul_path_is_npy(out)) {
        return mmul_fail(err, MMUL_ERR_USAGE,
                         "cannot write '%s' as bfloat16: .npy has no such type", out);
    }
    return MMUL_OK;
}

// Version 1 forced and no type asked for: 16-bit values become float32.
static enum mmul_dtype choose_dtype(const struct mmul_matrix *in,
                                    const struct mmul_convert_options *options) {
    if (options->has_dtype)
        return options->dtype;
    if (options->bin_version == 1)
        return MMUL_F32;
    return mmul_matrix_info(in).delivered;
}

enum mmul_status mmul_convert(const char *in, const char *out,
                              const struct mmul_convert_options *options, struct mmul_error *err) {
    struct mmul_matrix *matrix = NULL;
    struct mmul_output *output = NULL;
    enum mmul_status status = check_options(out, options, err);
    if (status == MMUL_OK)
        status = mmul_matrix_open(in, &matrix, err);
    if (status != MMUL_OK)
        return status;
    struct mmul_output_request request = {
        .path = out,
        .shape = mmul_matrix_info(matrix).shape,
        .dtype = choose_dtype(matrix, options),
        .bin_version = options->bin_version,
        .inputs = &matrix,
        .input_count = 1,
    };
    status = mmul_output_open(&request, &output, err);
    if (status != MMUL_OK)
        goto out;
    status = mmul_copy_stack(matrix, output, err);
    if (status != MMUL_OK)
        goto out;
    status = mmul_output_commit(output, err);
    output = NULL;
out:
    mmul_output_destroy(output);
    mmul_matrix_close(matrix);
    return status;
}

// Elements of the whole stack [begin, end), which may cross matrices.
static enum mmul_status write_stack(struct mmul_output *output, int64_t begin, int64_t end,
                                    const float *src, struct mmul_error *err) {
    int64_t each = output->shape.rows * output->shape.cols;
    for (int64_t e = begin; e < end;) {
        int64_t matrix = e / each, stop = (matrix + 1) * each;
        if (stop > end)
            stop = end;
        enum mmul_status status = mmul_output_write_float(
            output, mmul_region_whole(output->shape, matrix), e - matrix * each,
            stop - matrix * each, src + (e - begin), err);
        if (status != MMUL_OK)
            return status;
        e = stop;
    }
    return MMUL_OK;
}

static enum mmul_status write_generated(struct mmul_output *output, enum mmul_generator kind,
                                        uint64_t seed, struct mmul_error *err) {
    enum { BUFFER_ELEMENTS = 1 << 18 };
    int64_t count = 0;
    float *buffer = NULL;
    if (!mmul_shape_count(output->shape, &count))
        return mmul_fail(err, MMUL_ERR_INTERNAL, "the size of '%s' was not checked", output->name);
    enum mmul_status status = MMUL_ALLOCATE_RAW(
        buffer, count < BUFFER_ELEMENTS ? count : BUFFER_ELEMENTS, "a generator buffer", err);
    for (int64_t begin = 0; begin < count && status == MMUL_OK; begin += BUFFER_ELEMENTS) {
        int64_t end = begin + BUFFER_ELEMENTS < count ? begin + BUFFER_ELEMENTS : count;
        mmul_generate(kind, seed, output->shape, begin, end, buffer);
        status = write_stack(output, begin, end, buffer, err);
    }
    mmul_free(buffer);
    return status;
}

enum mmul_status mmul_generate_file(const char *path, enum mmul_generator kind, uint64_t seed,
                                    struct mmul_shape shape, enum mmul_dtype dtype,
                                    struct mmul_error *err) {
    struct mmul_output *output = NULL;
    struct mmul_convert_options options = {.has_dtype = true, .dtype = dtype};
    enum mmul_status status = check_options(path, &options, err);
    if (status == MMUL_OK)
        status = mmul_output_create(path, shape, dtype, NULL, 0, &output, err);
    if (status != MMUL_OK)
        return status;
    status = write_generated(output, kind, seed, err);
    if (status == MMUL_OK)
        return mmul_output_commit(output, err);
    mmul_output_destroy(output);
    return status;
}
