// SPDX-License-Identifier: MIT
// The interface of devices for the rest of the library. Each call goes to the device's table, or to
// the fallback of a missing entry. A device that failed once is marked as lost. Kinds of devices
// and their names are in registry.c.
#include "device/device.h"

#include <assert.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/map.h"
#include "device/matrix_sums.h"
#include "device/reference_map.h"

// ------------------------------------------------------------------------------ close and describe

void mmul_device_close(struct mmul_device *device) {
    if (device == NULL || atomic_load(&device->call) == MMUL_CALL_ABANDONED)
        return;
    device->table->close(device->self, device->lost);
    mmul_free(device);
}

void mmul_device_describe(const struct mmul_device *device, struct mmul_device_info *info) {
    device->table->describe(device->self, info);
    info->probed = info->probed || device->table->probe != NULL;
}

bool mmul_device_is_plain(const struct mmul_device *device) {
    return device->table->is_plain;
}

bool mmul_device_is_trusted(const struct mmul_device *device) {
    return device->table->is_trusted;
}

bool mmul_device_fails_like_fallback(const struct mmul_device *device) {
    return device->table->fails_like_fallback;
}

double mmul_device_now(const struct mmul_device *device) {
    return device->table->now != NULL ? device->table->now(device->self) : mmul_clock_now();
}

// ----------------------------------------------------------------------------------------- calls

static enum mmul_status fail_lost(const struct mmul_device *device, struct mmul_error *err) {
    struct mmul_device_info info;
    mmul_device_describe(device, &info);
    return mmul_fail(err, MMUL_ERR_UNAVAILABLE, "device '%s (%s)' failed earlier and is lost",
                     info.id, info.name);
}

// Marks the beginning of a device call that may block. Every such call passes here ...
static struct mmul_device *begin_call(struct mmul_device *device) {
    atomic_store(&device->begin_ns, (int64_t)(mmul_clock_now() * 1e9));
    atomic_store(&device->call, MMUL_CALL_IN_PROGRESS);
    return device;
}

// ... and here at its end. If another thread has abandoned the call, this thread stays here
// forever, because it no longer owns the memory that it works on. After a failed call the caller
// frees host memory, which transfers in flight still use: they are waited for.
static enum mmul_status end_call(struct mmul_device *device, enum mmul_status status) {
    int call = MMUL_CALL_IN_PROGRESS;
    struct mmul_error ignored;
    if (status != MMUL_OK && device->table->wait != NULL)
        device->table->wait(device->self, &ignored);
    if (!atomic_compare_exchange_strong(&device->call, &call, MMUL_CALL_NONE) &&
        call == MMUL_CALL_ABANDONED)
        for (;;)
            pause();
    if (status != MMUL_OK)
        device->lost = true;
    return status;
}

double mmul_device_call_seconds(const struct mmul_device *device) {
    if (atomic_load(&device->call) != MMUL_CALL_IN_PROGRESS)
        return 0;
    return mmul_clock_now() - (double)atomic_load(&device->begin_ns) * 1e-9;
}

// Process-wide, because abandoned threads affect the end of the process.
static atomic_bool has_abandoned_threads;

bool mmul_device_abandon(struct mmul_device *device) {
    int under_way = MMUL_CALL_IN_PROGRESS;
    if (mmul_device_can_borrow(device))
        return false;
    if (!atomic_compare_exchange_strong(&device->call, &under_way, MMUL_CALL_ABANDONED))
        return false;
    device->lost = true; // the abandoned thread does not reach end_call
    atomic_store(&has_abandoned_threads, true);
    return true;
}

bool mmul_process_has_abandoned_threads(void) {
    return atomic_load(&has_abandoned_threads);
}

enum mmul_status mmul_device_tune(struct mmul_device *device,
                                  const struct mmul_tuned_kernel *kernel, struct mmul_error *err) {
    if (device->lost)
        return fail_lost(device, err);
    if (device->table->tune == NULL) {
        return mmul_fail(err, MMUL_ERR_UNAVAILABLE, "device '%s' has no parameters to tune",
                         device->table->kind);
    }
    // a rejected parameter does not lose the device
    return device->table->tune(device->self, kernel, err);
}

static enum mmul_status fail_dtype(const struct mmul_device *device, enum mmul_dtype dtype,
                                   struct mmul_error *err) {
    struct mmul_device_info info;
    mmul_device_describe(device, &info);
    return mmul_fail(err, MMUL_ERR_UNAVAILABLE, "device '%s (%s)' does not support %s", info.id,
                     info.name, mmul_dtype_name(dtype));
}

bool mmul_device_has_dtype(const struct mmul_device *device, enum mmul_dtype dtype) {
    return device->table->has_dtype != NULL ? device->table->has_dtype(device->self, dtype)
                                            : dtype == MMUL_F32;
}

enum mmul_status mmul_device_warm_up(struct mmul_device *device, enum mmul_dtype dtype, double most,
                                     struct mmul_error *err) {
    if (device->lost)
        return fail_lost(device, err);
    if (!mmul_device_has_dtype(device, dtype))
        return fail_dtype(device, dtype, err);
    if (device->table->warm_up == NULL)
        return MMUL_OK;
    return end_call(device, begin_call(device)->table->warm_up(device->self, dtype, most, err));
}

int64_t mmul_device_gemm_temporary_bytes(const struct mmul_device *device, enum mmul_dtype dtype,
                                         int64_t m, int64_t n, int64_t k) {
    if (device->lost || device->table->gemm_temporary_bytes == NULL)
        return 0;
    return device->table->gemm_temporary_bytes(device->self, dtype, m, n, k);
}

bool mmul_device_can_borrow(const struct mmul_device *device) {
    const struct mmul_device_table *table = device->table;
    return table->buffer_borrow != NULL &&
           (table->can_borrow == NULL || table->can_borrow(device->self));
}

// ----------------------------------------------------------------------------- buffers and dtypes

static struct mmul_buffer_head *head_of(struct mmul_buffer *buffer) {
    return (struct mmul_buffer_head *)buffer;
}

enum mmul_status mmul_device_buffer_create(struct mmul_device *device, enum mmul_dtype dtype,
                                           int64_t count, struct mmul_buffer **buffer,
                                           struct mmul_error *err) {
    if (device->lost)
        return fail_lost(device, err);
    if (!mmul_device_has_dtype(device, dtype))
        return fail_dtype(device, dtype, err);
    enum mmul_status status = end_call(
        device, begin_call(device)->table->buffer_create(device->self, dtype, count, buffer, err));
    if (status == MMUL_OK)
        *head_of(*buffer) = (struct mmul_buffer_head){dtype, count};
    return status;
}

enum mmul_status mmul_device_buffer_borrow(struct mmul_device *device, enum mmul_dtype dtype,
                                           void *memory, int64_t count, struct mmul_buffer **buffer,
                                           struct mmul_error *err) {
    assert(mmul_device_can_borrow(device));
    if (device->lost)
        return fail_lost(device, err);
    if (!mmul_device_has_dtype(device, dtype))
        return fail_dtype(device, dtype, err);
    enum mmul_status status =
        end_call(device, begin_call(device)->table->buffer_borrow(device->self, dtype, memory,
                                                                  count, buffer, err));
    if (status == MMUL_OK)
        *head_of(*buffer) = (struct mmul_buffer_head){dtype, count};
    return status;
}

void mmul_device_buffer_destroy(struct mmul_device *device, struct mmul_buffer *buffer) {
    if (buffer != NULL)
        device->table->buffer_destroy(device->self, buffer, device->lost);
}

// Returns true for a rectangle of at least one element inside its buffer.
static bool is_inside(struct mmul_operand operand, int64_t rows, int64_t cols) {
    return rows >= 1 && cols >= 1 && operand.ld >= cols && operand.offset >= 0 &&
           operand.offset + (rows - 1) * operand.ld + cols <= head_of(operand.buffer)->count;
}

enum mmul_status mmul_device_upload(struct mmul_device *device, const struct mmul_upload *u,
                                    struct mmul_error *err) {
    const enum mmul_dtype here = head_of(u->to.buffer)->dtype;
    assert(u->host_ld >= u->cols && is_inside(u->to, u->rows, u->cols));
    if (device->lost)
        return fail_lost(device, err);
    if (u->dtype != here && (here != MMUL_F32 || u->dtype == MMUL_F64))
        return mmul_fail(err, MMUL_ERR_DATA, "cannot upload %s into a buffer of %s",
                         mmul_dtype_name(u->dtype), mmul_dtype_name(here));
    device->traffic.uploaded += u->rows * u->cols * (int64_t)mmul_dtype_bytes(u->dtype);
    return end_call(device, begin_call(device)->table->upload(device->self, u, err));
}

enum mmul_status mmul_device_download(struct mmul_device *device, const struct mmul_download *d,
                                      struct mmul_error *err) {
    const enum mmul_dtype here = head_of(d->from.buffer)->dtype;
    assert(d->host_ld >= d->cols && is_inside(d->from, d->rows, d->cols));
    if (device->lost)
        return fail_lost(device, err);
    if (d->dtype != here)
        return mmul_fail(err, MMUL_ERR_DATA, "cannot download a buffer of %s as %s",
                         mmul_dtype_name(here), mmul_dtype_name(d->dtype));
    device->traffic.downloaded += d->rows * d->cols * (int64_t)mmul_dtype_bytes(d->dtype);
    return end_call(device, begin_call(device)->table->download(device->self, d, err));
}

enum mmul_status mmul_device_gemm(struct mmul_device *device, const struct mmul_gemm *args,
                                  struct mmul_error *err) {
    const struct mmul_operand operands[] = {args->a, args->b, args->c};
    assert(args->alpha != 0 && is_inside(args->c, args->m, args->n));
    assert(args->transpose_a ? is_inside(args->a, args->k, args->m)
                             : is_inside(args->a, args->m, args->k));
    assert(args->transpose_b ? is_inside(args->b, args->n, args->k)
                             : is_inside(args->b, args->k, args->n));
    if (device->lost)
        return fail_lost(device, err);
    for (int i = 0; i < 3; i++) {
        const enum mmul_dtype here = head_of(operands[i].buffer)->dtype;
        if (here != args->dtype)
            return mmul_fail(err, MMUL_ERR_DATA, "cannot multiply in %s: %c is a buffer of %s",
                             mmul_dtype_name(args->dtype), "ABC"[i], mmul_dtype_name(here));
    }
    return end_call(device, begin_call(device)->table->gemm(device->self, args, err));
}

bool mmul_device_gemm_depends_on_cut(const struct mmul_device *device) {
    return device->table->gemm_depends_on_cut != NULL &&
           device->table->gemm_depends_on_cut(device->self);
}

bool mmul_device_can_map(const struct mmul_device *device) {
    return device->table->map != NULL || mmul_device_can_borrow(device);
}

enum mmul_status mmul_device_map(struct mmul_device *device, const struct mmul_map *args,
                                 struct mmul_error *err) {
    if (device->lost)
        return fail_lost(device, err);
    if (!mmul_device_can_borrow(device) && mmul_map_has_doubles(args))
        return mmul_fail(err, MMUL_ERR_DATA,
                         "cannot compute '%s' in float64 on a device with its own memory",
                         mmul_operation_row(args->kind)->name);
    if (device->table->map != NULL)
        return end_call(device, begin_call(device)->table->map(device->self, args, err));
    assert(mmul_device_can_borrow(device));
    return mmul_reference_map(NULL, args, err);
}

enum mmul_status mmul_device_map_fused(struct mmul_device *device, const struct mmul_map *maps,
                                       int count, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (!device->lost && device->table->map_fused != NULL)
        return end_call(device,
                        begin_call(device)->table->map_fused(device->self, maps, count, err));
    for (int i = 0; status == MMUL_OK && i < count; i++)
        status = mmul_device_map(device, &maps[i], err);
    return status;
}

enum mmul_status mmul_device_wait(struct mmul_device *device, struct mmul_error *err) {
    if (device->lost)
        return fail_lost(device, err);
    if (device->table->wait == NULL)
        return MMUL_OK;
    return end_call(device, begin_call(device)->table->wait(device->self, err));
}

enum mmul_status mmul_device_wait_buffer(struct mmul_device *device, struct mmul_buffer *buffer,
                                         struct mmul_error *err) {
    if (device->lost || device->table->wait_buffer == NULL)
        return mmul_device_wait(device, err);
    return end_call(device, begin_call(device)->table->wait_buffer(device->self, buffer, err));
}

// Downloads the matrix in pieces and sums them on the host.
static enum mmul_status project_on_host(struct mmul_device *device,
                                        const struct mmul_matrix_sums *args,
                                        struct mmul_error *err) {
    enum { AT_ONCE = 1 << 20 }; // elements
    const int64_t rows_most = mmul_max(1, AT_ONCE / args->cols);
    float *piece = NULL;
    enum mmul_status status =
        MMUL_ALLOCATE_RAW(piece, mmul_min(rows_most, args->rows) * args->cols, "sums", err);
    mmul_matrix_sums_clear(args);
    for (int64_t row = 0; status == MMUL_OK && row < args->rows; row += rows_most) {
        const int64_t rows = mmul_min(rows_most, args->rows - row);
        struct mmul_download d = {args->x, rows, args->cols, piece, args->cols, args->dtype};
        d.from.offset += row * args->x.ld;
        status = mmul_device_download(device, &d, err);
        if (status == MMUL_OK)
            status = mmul_device_wait_buffer(device, args->x.buffer, err);
        if (status == MMUL_OK)
            mmul_matrix_sums_add_rows(args, row, rows, piece, args->cols);
    }
    mmul_free(piece);
    return status;
}

enum mmul_status mmul_device_sum_matrix(struct mmul_device *device,
                                        const struct mmul_matrix_sums *args,
                                        struct mmul_error *err) {
    const enum mmul_dtype here = head_of(args->x.buffer)->dtype;
    assert(is_inside(args->x, args->rows, args->cols));
    if (device->lost)
        return fail_lost(device, err);
    if (args->dtype != here || here != MMUL_F32)
        return mmul_fail(err, MMUL_ERR_DATA, "cannot sum a buffer of %s as %s",
                         mmul_dtype_name(here), mmul_dtype_name(args->dtype));
    if (device->table->project == NULL)
        return project_on_host(device, args, err);
    return end_call(device, begin_call(device)->table->project(device->self, args, err));
}

void mmul_device_set_threads(struct mmul_device *device, int threads) {
    assert(threads >= 1);
    if (!device->lost && device->table->set_threads != NULL)
        device->table->set_threads(device->self, threads);
}
