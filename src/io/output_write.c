// SPDX-License-Identifier: MIT
// Writes regions of an output as contiguous runs: straight from the caller's memory if nothing has
// to be narrowed, else through a small buffer on the stack. Several threads may write different
// regions. Nothing is buffered across calls.
#include <assert.h>
#include <string.h>

#include "base/status.h"
#include "io/output_file.h"
#include "io/region_runs.h"
#include "io/selection.h"
#include "io/transfer.h"
#include "model/dtype.h"
#include "model/matrix.h"

enum { BUFFER_BYTES = 32 << 10 };

// Stores elements [first, first + count) of the stack, given in the output's dtype.
static enum mmul_status write_run(struct mmul_output *output, int64_t first, int64_t count,
                                  const void *src, struct mmul_error *err) {
    int64_t bytes_each = (int64_t)mmul_dtype_bytes(output->dtype);
    size_t bytes = (size_t)(count * bytes_each);
    if (mmul_output_is_planned(output))
        return mmul_fail(err, MMUL_ERR_IO, "cannot write an output that exists only for planning");
    if (output->fd < 0) {
        memcpy(output->memory + first * bytes_each, src, bytes);
        return MMUL_OK;
    }
    int errnum = mmul_pwrite_all(output->fd, src, bytes, output->data_offset + first * bytes_each);
    if (errnum == 0)
        return MMUL_OK;
    return mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", output->name);
}

// Refuses values, float32 or float64, that an output of whole numbers cannot hold.
static enum mmul_status check_fits(const struct mmul_output *output, enum mmul_dtype dtype,
                                   int64_t count, const void *src, struct mmul_error *err) {
    if (!mmul_dtype_is_integer(output->dtype))
        return MMUL_OK;
    for (int64_t e = 0; e < count; e++) {
        const double value = mmul_dtype_get_real(dtype, src, e);
        if (!mmul_dtype_holds(output->dtype, value))
            return mmul_fail(err, MMUL_ERR_DATA, "cannot write '%s': %.17g is not a valid %s",
                             output->name != NULL ? output->name : "memory", value,
                             mmul_dtype_name(output->dtype));
    }
    return MMUL_OK;
}

static enum mmul_status write_narrowed_floats(struct mmul_output *output, int64_t first,
                                              int64_t count, const void *values,
                                              struct mmul_error *err) {
    const float *src = values;
    uint64_t buffer[BUFFER_BYTES / sizeof(uint64_t)];
    int64_t capacity = BUFFER_BYTES / (int64_t)mmul_dtype_bytes(output->dtype);
    for (int64_t done = 0; done < count;) {
        int64_t now = count - done < capacity ? count - done : capacity;
        enum mmul_status status = check_fits(output, MMUL_F32, now, src + done, err);
        mmul_dtype_narrow(output->dtype, src + done, now, buffer);
        __atomic_fetch_add(&output->overflows, mmul_dtype_overflows(output->dtype, src + done, now),
                           __ATOMIC_RELAXED);
        if (status == MMUL_OK)
            status = write_run(output, first + done, now, buffer, err);
        if (status != MMUL_OK)
            return status;
        done += now;
    }
    return MMUL_OK;
}

static enum mmul_status write_narrowed_doubles(struct mmul_output *output, int64_t first,
                                               int64_t count, const void *values,
                                               struct mmul_error *err) {
    const double *src = values;
    uint64_t buffer[BUFFER_BYTES / sizeof(uint64_t)];
    const int64_t capacity = BUFFER_BYTES / (int64_t)sizeof(double);
    enum mmul_status status = MMUL_OK;
    for (int64_t done = 0, now; status == MMUL_OK && done < count; done += now) {
        now = count - done < capacity ? count - done : capacity;
        mmul_dtype_narrow_double(output->dtype, src + done, now, buffer);
        __atomic_fetch_add(&output->overflows,
                           mmul_dtype_overflows64(output->dtype, src + done, now),
                           __ATOMIC_RELAXED);
        status = check_fits(output, MMUL_F64, now, src + done, err);
        if (status == MMUL_OK)
            status = write_run(output, first + done, now, buffer, err);
    }
    return status;
}

// Values in memory, and the function that stores `count` of them from element `first` of the stored
// stack on.
struct source {
    const void *values;
    size_t each;
    enum mmul_status (*store)(struct mmul_output *output, int64_t first, int64_t count,
                              const void *values, struct mmul_error *err);
};

// Walks the contiguous runs of the region in the file.
static enum mmul_status write_region(struct mmul_output *output, struct mmul_region region,
                                     int64_t begin, int64_t end, struct source from,
                                     struct mmul_error *err) {
    const struct mmul_shape stored = mmul_output_stored_shape(output);
    enum mmul_status status = MMUL_OK;
    assert(begin >= end || mmul_region_fits(output->shape, region, begin, end));
    for (int64_t p = begin; status == MMUL_OK && p < end;) {
        const struct mmul_selected_piece piece =
            mmul_selection_piece_at(output->selection, region, p, end);
        const struct mmul_run run =
            mmul_region_run_at(stored, piece.region, piece.begin, piece.end);
        status = from.store(output, run.element, run.count,
                            (const char *)from.values + (size_t)(p - begin) * from.each, err);
        p += run.count;
    }
    return status;
}

enum mmul_status mmul_output_write(struct mmul_output *output, struct mmul_region region,
                                   int64_t begin, int64_t end, const void *src,
                                   struct mmul_error *err) {
    const struct source from = {src, mmul_dtype_bytes(output->dtype), write_run};
    return write_region(output, region, begin, end, from, err);
}

enum mmul_status mmul_output_write_float(struct mmul_output *output, struct mmul_region region,
                                         int64_t begin, int64_t end, const float *src,
                                         struct mmul_error *err) {
    const struct source from = {src, sizeof *src,
                                output->dtype == MMUL_F32 ? write_run : write_narrowed_floats};
    return write_region(output, region, begin, end, from, err);
}

enum mmul_status mmul_output_write_double(struct mmul_output *output, struct mmul_region region,
                                          int64_t begin, int64_t end, const double *src,
                                          struct mmul_error *err) {
    const struct source from = {src, sizeof *src,
                                output->dtype == MMUL_F64 ? write_run : write_narrowed_doubles};
    return write_region(output, region, begin, end, from, err);
}
