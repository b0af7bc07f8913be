// SPDX-License-Identifier: MIT
// Converts between file formats, and generates files from a seed. A requested type or version that
// the format cannot hold is an error. Without a request the output follows the input as far as the
// format can hold it.
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "io/formats.h"
#include "io/matrix_copy.h"
#include "io/matrix_file.h"
#include "io/tensors.h"
#include "model/matrix.h"

static enum mmul_status check_options(const char *out, const struct mmul_convert_options *options,
                                      struct mmul_error *err) {
    if (options->bin_version < 0 || options->bin_version > 2) {
        return mmul_fail(err, MMUL_ERR_USAGE, ".bin version %d: expected 1 or 2",
                         options->bin_version);
    }
    return options->has_dtype ? mmul_format_check_dtype(out, options->format, options->dtype, err)
                              : MMUL_OK;
}

// Returns the output's dtype. With version 1 and no requested type, 16-bit values become float32.
static enum mmul_dtype choose_dtype(enum mmul_dtype stored,
                                    const struct mmul_convert_options *options) {
    if (options->has_dtype)
        return options->dtype;
    if (options->bin_version == 1)
        return MMUL_F32;
    return stored;
}

enum mmul_status mmul_convert(struct mmul_matrix *in, const char *out,
                              const struct mmul_convert_options *options, int64_t *overflows,
                              struct mmul_error *err) {
    struct mmul_output *output = NULL;
    struct mmul_convert_options taken;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_convert_options, options, &taken, err);
    if (status != MMUL_OK)
        return status;
    options = &taken;
    status = check_options(out, options, err);
    if (status != MMUL_OK)
        return status;
    const struct mmul_output_request request = {
        .path = out,
        .format = options->format,
        .shape = mmul_matrix_info(in).shape,
        .dtype = choose_dtype(mmul_matrix_info(in).stored, options),
        .bin_version = options->bin_version,
        .inputs = &in,
        .input_count = 1,
        .dimensions = mmul_matrix_info(in).dimensions,
    };
    int64_t before = mmul_matrix_overflows(in);
    status = mmul_output_create(&request, &output, err);
    if (status == MMUL_OK)
        status = mmul_copy_stack(in, output, err);
    if (status != MMUL_OK) {
        mmul_output_destroy(output);
        return status;
    }
    *overflows = mmul_matrix_overflows(in) - before + mmul_output_overflows(output);
    return mmul_output_commit(output, err);
}

// ------------------------------------------------------------------------------------- all tensors

// Outputs of one file, indexed by tensor. NULL: left out, or not created yet.
struct outputs {
    const char *out;
    const struct mmul_convert_options *options;
    struct mmul_matrix *in; // the file itself, which must not be the output
    struct mmul_output *first, **all;
    int64_t overflows;
};

static enum mmul_status create_output(struct outputs *outputs, const struct mmul_tensors *tensors,
                                      int64_t t, struct mmul_error *err) {
    const struct mmul_tensor_entry *entry = &tensors->all[t];
    struct mmul_output_request request = {
        .path = outputs->out,
        .tensor = entry->name,
        .format = outputs->options->format,
        .dtype = choose_dtype(entry->dtype, outputs->options),
        .bin_version = outputs->options->bin_version,
        .inputs = &outputs->in,
        .input_count = 1,
        .dimensions = entry->dimensions,
        .beside = outputs->first,
    };
    for (int64_t other = 0; other < t; other++)
        if (outputs->all[other] != NULL && strcmp(tensors->all[other].name, entry->name) == 0)
            return mmul_fail(err, MMUL_ERR_DATA, "'%s' holds two tensors '%s'", tensors->file->path,
                             entry->name);
    enum mmul_status status =
        mmul_shape_from_sizes(entry->sizes, entry->dimensions, entry->name,
                              mmul_format_name(tensors->format), &request.shape, err);
    if (status == MMUL_OK)
        status = mmul_output_create(&request, &outputs->all[t], err);
    if (status == MMUL_OK && outputs->first == NULL)
        outputs->first = outputs->all[t];
    return status;
}

// Creates all outputs before any element is written: the second one moves the elements of the
// first.
static enum mmul_status create_outputs(struct outputs *outputs, const struct mmul_tensors *tensors,
                                       struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int64_t t = 0; status == MMUL_OK && t < tensors->count; t++) {
        const struct mmul_tensor tensor = mmul_tensors_get(tensors, t);
        if (mmul_tensor_is_matrix(&tensor))
            status = create_output(outputs, tensors, t, err);
    }
    // The first tensor of a type that is not read tells the reason.
    for (int64_t t = 0; status == MMUL_OK && outputs->first == NULL && t < tensors->count; t++)
        status = mmul_tensor_check_type(&tensors->all[t], tensors->file->path, err);
    if (status == MMUL_OK && outputs->first == NULL)
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' holds no tensor that can be converted",
                         tensors->file->path);
    return status;
}

static enum mmul_status write_outputs(struct outputs *outputs, const struct mmul_tensors *tensors,
                                      struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int64_t t = 0; status == MMUL_OK && t < tensors->count; t++) {
        struct mmul_matrix *in = NULL;
        if (outputs->all[t] == NULL)
            continue;
        status = mmul_tensors_open_matrix(tensors, t, &in, err);
        if (status == MMUL_OK)
            status = mmul_copy_stack(in, outputs->all[t], err);
        if (status == MMUL_OK)
            outputs->overflows +=
                mmul_matrix_overflows(in) + mmul_output_overflows(outputs->all[t]);
        mmul_matrix_close(in); // frees elements decoded for it
    }
    return status;
}

enum mmul_status mmul_convert_tensors(const struct mmul_tensors *tensors, const char *out,
                                      const struct mmul_convert_options *options,
                                      int64_t *overflows, struct mmul_error *err) {
    struct mmul_convert_options taken;
    struct outputs outputs = {.out = out, .options = &taken};
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_convert_options, options, &taken, err);
    if (status == MMUL_OK)
        status = check_options(out, &taken, err);
    if (status == MMUL_OK)
        status = mmul_tensors_check(tensors, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(outputs.all, tensors->count + 1, "a list of outputs", err);
    if (status == MMUL_OK)
        status = mmul_matrix_create(tensors->file->path, &outputs.in, err);
    if (status == MMUL_OK) {
        mmul_matrix_attach_file(outputs.in, mmul_input_file_retain(tensors->file));
        status = create_outputs(&outputs, tensors, err);
    }
    if (status == MMUL_OK)
        status = write_outputs(&outputs, tensors, err);
    for (int64_t t = 0; outputs.all != NULL && t < tensors->count; t++)
        if (outputs.all[t] != NULL && status == MMUL_OK)
            status = mmul_output_commit(outputs.all[t], err);
        else
            mmul_output_destroy(outputs.all[t]);
    mmul_matrix_close(outputs.in);
    mmul_free(outputs.all);
    if (status == MMUL_OK)
        *overflows = outputs.overflows;
    return status;
}

// -------------------------------------------------------------------------------------- generating

// Writes elements [begin, end) of the whole stack, which may cross matrices.
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

enum mmul_status mmul_generate_file(enum mmul_generator kind, uint64_t seed,
                                    const struct mmul_output_request *request,
                                    struct mmul_error *err) {
    struct mmul_output *output = NULL;
    struct mmul_output_request taken;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_output_request, request, &taken, err);
    if (status != MMUL_OK)
        return status;
    request = &taken;
    status = mmul_format_check_dtype(request->path, request->format, request->dtype, err);
    if (status == MMUL_OK)
        status = mmul_output_create(request, &output, err);
    if (status != MMUL_OK)
        return status;
    status = write_generated(output, kind, seed, err);
    if (status == MMUL_OK)
        return mmul_output_commit(output, err);
    mmul_output_destroy(output);
    return status;
}
