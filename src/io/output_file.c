// SPDX-License-Identifier: MIT
// Creates, commits and discards outputs. A file grows under a temporary name and appears under its
// own in one step, so that nobody ever meets half a result and an older one survives every failure.
// Elements are written by output_write.c, the file system's side is output_path.c.
#include "io/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/bin_header.h"
#include "io/npy.h"
#include "io/output_path.h"
#include "io/transfer.h"
#include "io/unfinished.h"
#include "model/matrix.h"

bool mmul_path_is_npy(const char *path) {
    size_t length = strlen(path);
    return length >= 4 && strcmp(path + length - 4, ".npy") == 0;
}

static enum mmul_status check_request(const struct mmul_output_request *request,
                                      struct mmul_error *err) {
    struct mmul_shape shape = request->shape;
    int64_t least = request->empty_allowed ? 0 : 1;
    char text[96];
    if (shape.batch < 1 || shape.depth < 1 || shape.rows < least || shape.cols < least) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "cannot write '%s': sizes %s, expected at least 1 each", request->path,
                         mmul_shape_format(shape, text));
    }
    if (request->bin_version != 0 && mmul_path_is_npy(request->path)) {
        return mmul_fail(err, MMUL_ERR_USAGE,
                         "cannot write '%s' as version %d: versions are of .bin files",
                         request->path, request->bin_version);
    }
    bool is_16_bit = request->dtype == MMUL_F16 || request->dtype == MMUL_BF16;
    if (request->bin_version == 1 && is_16_bit) {
        return mmul_fail(err, MMUL_ERR_USAGE,
                         "cannot write '%s' as version 1: it holds float32, not %s", request->path,
                         mmul_dtype_name(request->dtype));
    }
    return MMUL_OK;
}

// float64 is not written yet, and .npy has no bfloat16: both become float32.
static enum mmul_dtype written_dtype(const struct mmul_output_request *request) {
    if (request->dtype == MMUL_F16)
        return MMUL_F16;
    if (request->dtype == MMUL_BF16 && !mmul_path_is_npy(request->path))
        return MMUL_BF16;
    return MMUL_F32;
}

static enum mmul_status format_header(const struct mmul_output_request *request,
                                      enum mmul_dtype dtype,
                                      unsigned char bytes[static MMUL_NPY_WRITTEN_MAX],
                                      size_t *length, struct mmul_error *err) {
    if (mmul_path_is_npy(request->path)) {
        *length = mmul_npy_format(request->shape, dtype, bytes);
        return MMUL_OK;
    }
    int version = request->bin_version;
    if (version == 0)
        version = dtype == MMUL_F32 ? 1 : 2;
    *length = MMUL_BIN_HEADER_BYTES;
    return mmul_bin_header_format(request->shape, dtype, version, request->path, bytes, err);
}

static enum mmul_status start_file(struct mmul_output *output,
                                   const struct mmul_output_request *request,
                                   const unsigned char *header, struct mmul_error *err) {
    int64_t bytes = 0, total;
    enum mmul_status status = mmul_shape_bytes(output->shape, output->dtype, &bytes, err);
    if (status != MMUL_OK)
        return mmul_fail(err, status, "cannot write '%s': %s", request->path, err->text);
    if (__builtin_add_overflow(bytes, output->data_offset, &total))
        return mmul_fail(err, MMUL_ERR_DATA, "cannot write '%s': too large", request->path);
    status = mmul_output_name(output, request->path, err);
    if (status != MMUL_OK)
        return status;
    status = mmul_output_open_part(output, request->inputs, request->input_count, err);
    if (status != MMUL_OK)
        return status;
    status = mmul_output_reserve(output, total, err);
    if (status != MMUL_OK)
        return status;
    int errnum = mmul_pwrite_all(output->fd, header, (size_t)output->data_offset, 0);
    if (errnum == 0)
        return MMUL_OK;
    return mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", output->name);
}

static enum mmul_status output_allocate(struct mmul_shape shape, enum mmul_dtype dtype,
                                        struct mmul_output **output, struct mmul_error *err) {
    struct mmul_output *made = mmul_allocate(1, sizeof *made, "an output", err);
    if (made == NULL)
        return err->status;
    made->shape = shape;
    made->dtype = dtype;
    made->fd = -1;
    *output = made;
    return MMUL_OK;
}

enum mmul_status mmul_output_open(const struct mmul_output_request *request,
                                  struct mmul_output **output, struct mmul_error *err) {
    unsigned char header[MMUL_NPY_WRITTEN_MAX];
    size_t header_bytes = 0;
    struct mmul_output *opened = NULL;
    enum mmul_dtype dtype = written_dtype(request);
    enum mmul_status status = check_request(request, err);
    if (status == MMUL_OK)
        status = format_header(request, dtype, header, &header_bytes, err);
    if (status == MMUL_OK)
        status = output_allocate(request->shape, dtype, &opened, err);
    if (status != MMUL_OK)
        return status;
    opened->data_offset = (int64_t)header_bytes;
    status = start_file(opened, request, header, err);
    if (status != MMUL_OK) {
        mmul_output_destroy(opened);
        return status;
    }
    *output = opened;
    return MMUL_OK;
}

enum mmul_status mmul_output_create(const char *path, struct mmul_shape shape,
                                    enum mmul_dtype dtype, struct mmul_matrix *const *inputs,
                                    int input_count, struct mmul_output **output,
                                    struct mmul_error *err) {
    struct mmul_output_request request = {
        .path = path,
        .shape = shape,
        .dtype = dtype,
        .inputs = inputs,
        .input_count = input_count,
    };
    return mmul_output_open(&request, output, err);
}

enum mmul_status mmul_output_create_version2(const char *path, struct mmul_shape shape,
                                             enum mmul_dtype dtype,
                                             struct mmul_matrix *const *inputs, int input_count,
                                             struct mmul_output **output, struct mmul_error *err) {
    struct mmul_output_request request = {
        .path = path,
        .shape = shape,
        .dtype = dtype,
        .bin_version = 2,
        .inputs = inputs,
        .input_count = input_count,
    };
    return mmul_output_open(&request, output, err);
}

enum mmul_status mmul_output_borrow(void *data, struct mmul_shape shape, enum mmul_dtype dtype,
                                    struct mmul_output **output, struct mmul_error *err) {
    int64_t bytes;
    enum mmul_status status = mmul_shape_bytes(shape, dtype, &bytes, err);
    if (status == MMUL_OK)
        status = output_allocate(shape, dtype, output, err);
    if (status != MMUL_OK)
        return status;
    (*output)->memory = data;
    return MMUL_OK;
}

enum mmul_dtype mmul_output_dtype(const struct mmul_output *output) {
    return output->dtype;
}

struct mmul_shape mmul_output_shape(const struct mmul_output *output) {
    return output->shape;
}

void mmul_output_set_sync(struct mmul_output *output, bool sync) {
    output->no_sync = !sync;
}

static enum mmul_status publish(struct mmul_output *output, struct mmul_error *err) {
    if (!output->no_sync && fsync(output->fd) != 0)
        return mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot write '%s'", output->name);
    if (!mmul_unfinished_end(output->unfinished, true)) {
        output->has_part = false;
        return mmul_fail(err, MMUL_ERR_STOPPED, "'%s' is not written: a signal has stopped it",
                         output->name);
    }
    output->unfinished = -1;
    if (rename(output->part, output->path) != 0)
        return mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot write '%s'", output->name);
    output->has_part = false;
    return output->no_sync ? MMUL_OK : mmul_output_sync_folder(output, err);
}

enum mmul_status mmul_output_commit(struct mmul_output *output, struct mmul_error *err) {
    enum mmul_status status = output->fd >= 0 ? publish(output, err) : MMUL_OK;
    mmul_output_destroy(output);
    return status;
}

void mmul_output_destroy(struct mmul_output *output) {
    if (output == NULL)
        return;
    if (output->has_part && mmul_unfinished_end(output->unfinished, false))
        (void)unlink(output->part); // still locked, so it is ours
    if (output->fd >= 0)
        close(output->fd); // after fsync, or of no worth: no failure can count
    mmul_free(output->name);
    mmul_free(output->path);
    mmul_free(output->part);
    mmul_free(output);
}
