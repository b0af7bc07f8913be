// SPDX-License-Identifier: MIT
// Times one device. The first time does not count, because it includes first touch and kernel
// selection. Then times are taken until the two shortest agree. A brief measurement uses their
// mean, because other load on the machine only makes times longer. A thorough one uses the median,
// because a run takes about as long. Each time is the mean of as many operations as fill a span. A
// process that gets only part of its cores (a cgroup quota, other programs) runs at full speed for
// milliseconds, but not for long.
#include "exec/setup/measure.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/median.h"
#include "base/memory.h"
#include "base/random.h"
#include "device/map.h"
#include "model/check.h"
#include "model/dtype.h"

enum { REPEATS_MOST = 10, TRANSFER_COLS = 1024, TRANSFER_ROWS = 256, TRANSFER_ROWS_MOST = 16384 };

// Limits of a measurement.
// `patience`: times beyond `repeats` are taken only within it, and a size is timed again only
// within three times it. `enough`: a time this long stands out from launch overhead and clock
// resolution. `most`: no size is tried that is expected to take longer.
// `enough_host_seconds`: `enough` for a device in host memory, which is nearly as fast at any size.
// Some OpenBLAS kernels are half as fast again from 2048 on, so it is larger for long jobs.
static const struct depth {
    int repeats, repeats_most;
    double patience_seconds;
    double span_seconds;
    double enough_seconds, enough_host_seconds, most_seconds;
    double enough_transfer_seconds;
    bool takes_median;
} brief = {3, 6, 0.5, 0.01, 0.02, 0.002, 0.1, 0.005, false},
  for_long = {3, 6, 0.5, 0.01, 0.02, 0.02, 0.3, 0.005, false},
  thorough = {3, REPEATS_MOST, 5, 0.05, 1e9, 1e9, 1, 0.02, true};

// Largest ratio of times that agree, and least rate of a size relative to the next smaller one.
static const double AGREEMENT = 1.1, LARGEST_DROP = 0.85;

// Longest span of a mean, as part of the waiting job, and its lower limit. A dozen means are usual.
static const double SPAN_PART = 1.0 / 400, SPAN_LEAST_SECONDS = 0.001;

// Timed operation: a product of squares of side n, or of some rows of A or columns of B, or a
// transfer of rows x TRANSFER_COLS.
struct work {
    struct mmul_device *device;
    enum mmul_dtype dtype;
    struct mmul_buffer *a, *b, *c; // b and c of products only
    int64_t n, rows, cols;         // rows, cols: of the product
    double job_flops;              // work of the coming job; 0: not known
    void *host;                    // owned, written to
    struct mmul_parallel parallel; // threads for work on the host
    struct mmul_check *check;      // borrowed
};

static enum mmul_status multiply(const struct work *w, struct mmul_error *err) {
    const struct mmul_gemm args = {.dtype = w->dtype,
                                   .m = w->rows,
                                   .n = w->cols,
                                   .k = w->n,
                                   .alpha = 1,
                                   .a = {.buffer = w->a, .ld = w->n},
                                   .b = {.buffer = w->b, .ld = w->n},
                                   .c = {.buffer = w->c, .ld = w->n}};
    return mmul_device_gemm(w->device, &args, err);
}

static enum mmul_status upload(const struct work *w, struct mmul_error *err) {
    const struct mmul_operand to = {.buffer = w->a, .ld = TRANSFER_COLS};
    return mmul_device_upload(
        w->device,
        &(struct mmul_upload){to, w->rows, TRANSFER_COLS, w->host, TRANSFER_COLS, MMUL_F32}, err);
}

static enum mmul_status download(const struct work *w, struct mmul_error *err) {
    const struct mmul_operand from = {.buffer = w->a, .ld = TRANSFER_COLS};
    return mmul_device_download(
        w->device,
        &(struct mmul_download){from, w->rows, TRANSFER_COLS, w->host, TRANSFER_COLS, MMUL_F32},
        err);
}

// c := a + b, of squares.
static enum mmul_status add_squares(const struct work *w, struct mmul_error *err) {
    struct mmul_parameters with = {.axis = 0};
    const struct mmul_map_operand a = {.buffer = w->a,
                                       .row_step = w->n,
                                       .col_step = 1,
                                       .rows = w->n,
                                       .cols = w->n,
                                       .stack = {0, 0, 1}};
    struct mmul_map_operand b = a;
    b.buffer = w->b;
    return mmul_device_map(w->device,
                           &(struct mmul_map){.kind = MMUL_ADD,
                                              .with = &with,
                                              .rows = w->n,
                                              .cols = w->n,
                                              .shape = {1, 1, w->n, w->n},
                                              .matrices = 1,
                                              .operands = {a, b},
                                              .operand_count = 2,
                                              .result = {w->c, 0, w->n},
                                              .parallel = w->parallel},
                           err);
}

// Checks 0 = 0 b. All three squares are in `host`, one after the other.
static enum mmul_status check_product(const struct work *w, struct mmul_error *err) {
    unsigned char wrong[MMUL_SPEED_SMALLEST << (MMUL_SPEED_POINTS - 1)];
    const float *host = w->host;
    const int64_t square = w->n * w->n;
    const struct mmul_product product = {.m = w->n,
                                         .n = w->n,
                                         .k = w->n,
                                         .alpha = 1,
                                         .a = host,
                                         .lda = w->n,
                                         .b = host + square,
                                         .ldb = w->n,
                                         .c = (float *)w->host + 2 * square,
                                         .ldc = w->n};
    enum mmul_status status = mmul_check_begin(w->check, &product, 1, err);
    if (status == MMUL_OK)
        mmul_check_rows(w->check, &product, 0, w->n, wrong);
    return status;
}

typedef enum mmul_status (*timed_operation)(const struct work *w, struct mmul_error *err);

// Times `operation`: the mean of as many calls, one after the other, as take `span_seconds`.
static enum mmul_status time_span(const struct work *w, double span_seconds,
                                  timed_operation operation, double *seconds,
                                  struct mmul_error *err) {
    double begin = mmul_device_now(w->device), elapsed = 0;
    int64_t count = 0;
    do {
        enum mmul_status status = operation(w, err);
        if (status == MMUL_OK)
            status = mmul_device_wait(w->device, err);
        if (status != MMUL_OK)
            return status;
        elapsed = mmul_device_now(w->device) - begin;
        count++;
    } while (elapsed < span_seconds);
    *seconds = elapsed / (double)count;
    return MMUL_OK;
}

// Returns a span that suits the job, if one product takes `seconds`.
static double choose_span(const struct work *w, const struct depth *depth, double seconds) {
    const double flop = 2.0 * (double)w->rows * (double)w->cols * (double)w->n,
                 job_seconds = w->job_flops / flop * seconds;
    return depth->takes_median || !(w->job_flops > 0)
               ? depth->span_seconds
               : fmin(depth->span_seconds, fmax(SPAN_PART * job_seconds, SPAN_LEAST_SECONDS));
}

// Times an operation. Takes the mean of the two shortest times once they agree. Otherwise, and in a
// thorough measurement, takes the median.
static enum mmul_status time_operation(const struct work *w, const struct depth *depth,
                                       timed_operation operation, double *taken, bool *unstable,
                                       struct mmul_error *err) {
    double seconds[REPEATS_MOST], first = 0, second = 0;
    bool agree = false;
    enum mmul_status status = time_span(w, 0, operation, &seconds[0], err);
    int count = 0;
    double late = mmul_device_now(w->device) + depth->patience_seconds;
    while (status == MMUL_OK && (count < depth->repeats || (!agree && count < depth->repeats_most &&
                                                            mmul_device_now(w->device) < late))) {
        double now = 0;
        status = time_span(w, choose_span(w, depth, count > 0 ? first : seconds[0]), operation,
                           &now, err);
        seconds[count++] = now;
        if (count == 1 || now < first) {
            second = count == 1 ? now : first;
            first = now;
        } else if (count == 2 || now < second) {
            second = now;
        }
        agree = second <= AGREEMENT * first;
    }
    if (status != MMUL_OK)
        return status;
    *taken = agree && !depth->takes_median ? (first + second) / 2 : mmul_median(seconds, count);
    *unstable = *unstable || !agree;
    if (!(*taken > 1e-9)) // resolution of the clock
        *taken = 1e-9;
    return MMUL_OK;
}

// Fills `host` with numbers in [-0.5, 0.5). They repeat, because drawing all of them would take
// longer than multiplying.
static void fill_random(enum mmul_dtype dtype, void *host, int64_t count) {
    enum { PERIOD = 1 << 16 };
    for (int64_t i = 0; i < mmul_min(count, PERIOD); i++) {
        const float x = (float)(mmul_random_at(1, (uint64_t)i) >> 40) * 0x1p-24f - 0.5f;
        mmul_dtype_set_real(dtype, host, i, x);
    }
    for (int64_t at = PERIOD; at < count; at += PERIOD)
        memcpy(mmul_dtype_advance(dtype, host, at), host,
               (size_t)mmul_min(PERIOD, count - at) * mmul_dtype_bytes(dtype));
}

static enum mmul_status allocate_host(struct work *w, int64_t count, struct mmul_error *err) {
    w->host = mmul_allocate_raw(count, mmul_dtype_bytes(w->dtype), "calibration", err);
    if (w->host == NULL)
        return err->status;
    fill_random(w->dtype, w->host, count);
    return MMUL_OK;
}

static void work_fini(struct work *w) {
    mmul_device_buffer_destroy(w->device, w->c);
    mmul_device_buffer_destroy(w->device, w->b);
    mmul_device_buffer_destroy(w->device, w->a);
    mmul_free(w->host);
}

// --------------------------------------------------------------------------------------- products

static enum mmul_status create_squares(struct work *w, struct mmul_error *err) {
    struct mmul_buffer **buffers[] = {&w->a, &w->b, &w->c};
    enum mmul_status status = allocate_host(w, w->n * w->n, err);
    for (int i = 0; status == MMUL_OK && i < 3; i++) {
        status = mmul_device_buffer_create(w->device, w->dtype, w->n * w->n, buffers[i], err);
        const struct mmul_operand to = {.buffer = *buffers[i], .ld = w->n};
        if (status == MMUL_OK)
            status = mmul_device_upload(
                w->device, &(struct mmul_upload){to, w->n, w->n, w->host, w->n, w->dtype}, err);
    }
    return status == MMUL_OK ? mmul_device_wait(w->device, err) : status;
}

// Times products of side w->n.
static enum mmul_status time_squares(struct work w, const struct depth *depth, double *seconds,
                                     bool *unstable, struct mmul_error *err) {
    w.rows = w.cols = w.n;
    enum mmul_status status = create_squares(&w, err);
    if (status == MMUL_OK)
        status = time_operation(&w, depth, multiply, seconds, unstable, err);
    work_fini(&w);
    return status;
}

// Returns true if three squares fit on the device and four in the host's share (one of them fills
// the others). At most half of the device's memory is used.
static bool squares_fit(const struct work *w, int64_t memory_bytes) {
    struct mmul_device_info info;
    const int64_t n = w->n, square_bytes = n * n * (int64_t)mmul_dtype_bytes(w->dtype);
    mmul_device_describe(w->device, &info);
    return 4 * square_bytes <= memory_bytes && square_bytes <= info.max_allocation_bytes &&
           3 * square_bytes + mmul_device_gemm_temporary_bytes(w->device, w->dtype, n, n, n) <=
               info.memory_bytes / 2;
}

// Times one size over whole periods of a quota. Time spent early in a period is missing later in
// it, so only whole periods count. Over three periods the phase of the span matters little. No size
// gets a higher rate than this one, because none is faster in the long run.
static enum mmul_status measure_with_quota(struct work w, const struct depth *depth,
                                           double period_seconds, struct mmul_speed *speed,
                                           struct mmul_error *err) {
    const struct depth whole = {.repeats = 1, .span_seconds = 3 * period_seconds};
    double seconds;
    w.n = (int64_t)MMUL_SPEED_SMALLEST << (speed->measured_points - 1);
    w.job_flops = 0;
    bool alone = false; // ignored: one time agrees with none
    if (!(whole.span_seconds > depth->span_seconds))
        return MMUL_OK;
    enum mmul_status status = time_squares(w, &whole, &seconds, &alone, err);
    if (status != MMUL_OK)
        return status;
    double flops = 2.0 * (double)w.n * (double)w.n * (double)w.n / seconds;
    for (int i = 0; i < MMUL_SPEED_POINTS; i++)
        if (i >= speed->measured_points - 1 || speed->flops[i] > flops)
            speed->flops[i] = flops;
    speed->unstable = 0; // the quota caused it, and is measured now
    return MMUL_OK;
}

// Times one size and sets flops[point]. A larger size is hardly ever slower. If it seems so, it is
// timed again, and the shortest time counts.
static enum mmul_status measure_size(const struct work *w, int point, const struct depth *depth,
                                     struct mmul_speed *speed, double *seconds,
                                     struct mmul_error *err) {
    enum { TIMES = 3 };
    const double flop = 2.0 * (double)w->n * (double)w->n * (double)w->n;
    bool drops = true, unstable = false;
    double late = mmul_device_now(w->device) + TIMES * depth->patience_seconds;
    for (int i = 0; i == 0 || (drops && i < TIMES && mmul_device_now(w->device) < late); i++) {
        double now = 0;
        bool now_unstable = false;
        enum mmul_status status = time_squares(*w, depth, &now, &now_unstable, err);
        if (status != MMUL_OK)
            return status;
        if (i == 0 || now < *seconds) {
            *seconds = now;
            unstable = now_unstable;
        }
        drops = point > 0 && flop / *seconds < LARGEST_DROP * speed->flops[point - 1];
    }
    speed->flops[point] = flop / *seconds;
    if (drops || unstable)
        speed->unstable |= 1U << point;
    return MMUL_OK;
}

static enum mmul_status measure_products(struct work w, const struct depth *depth,
                                         int64_t memory_bytes, struct mmul_speed *speed,
                                         struct mmul_error *err) {
    const double enough = mmul_device_can_borrow(w.device) ? depth->enough_host_seconds
                                                           : depth->enough_seconds,
                 most = w.dtype == MMUL_F64 ? brief.most_seconds : depth->most_seconds;
    double seconds = 0;
    int points = 0;
    do {
        w.n = (int64_t)MMUL_SPEED_SMALLEST << points;
        if (points > 0 && !squares_fit(&w, memory_bytes))
            break;
        enum mmul_status status = measure_size(&w, points, depth, speed, &seconds, err);
        if (status != MMUL_OK)
            return status;
        points++;
    } while (points < MMUL_SPEED_POINTS && seconds < enough && 8 * seconds <= most);
    speed->measured_points = points;
    for (int i = points; i < MMUL_SPEED_POINTS; i++)
        speed->flops[i] = speed->flops[points - 1];
    return MMUL_OK;
}

// --------------------------------------------------------------------------------------- packing

// Measures packing. A product of few rows of A takes the time to pack B plus a time per row. Two
// row counts give the time for no rows. Few columns of B give the time to pack A.
static enum mmul_status measure_packing(struct mmul_device *device, const struct depth *depth,
                                        struct mmul_speed *speed, struct mmul_error *err) {
    enum { FEW = 64 };
    const int64_t n = (int64_t)MMUL_SPEED_SMALLEST << (speed->measured_points - 1);
    const double least = 1e-12;
    struct work w = {.device = device, .n = n};
    double *seconds[] = {&speed->pack_b_seconds, &speed->pack_a_seconds};
    bool ignored = false;
    enum mmul_status status = create_squares(&w, err);
    for (int i = 0; status == MMUL_OK && i < 2; i++) {
        double once = 0, twice = 0;
        w.rows = i == 0 ? FEW : n;
        w.cols = i == 0 ? n : FEW;
        status = time_operation(&w, depth, multiply, &once, &ignored, err);
        *(i == 0 ? &w.rows : &w.cols) = 2 * FEW;
        if (status == MMUL_OK)
            status = time_operation(&w, depth, multiply, &twice, &ignored, err);
        double each = (2 * once - twice) / ((double)n * (double)n);
        *seconds[i] = each > least ? each : least;
    }
    work_fini(&w);
    return status;
}

// ----------------------------------------------------------------------------------------- memory

// Measures the bytes per second that an addition and the check read and write, for squares in host
// memory.
static enum mmul_status measure_memory(struct mmul_device *device,
                                       const struct mmul_measure_request *request,
                                       const struct depth *depth, struct mmul_speed *speed,
                                       struct mmul_error *err) {
    const int64_t n = (int64_t)MMUL_SPEED_SMALLEST << (speed->measured_points - 1), square = n * n;
    struct work w = {.device = device, .n = n, .parallel = request->parallel};
    struct mmul_buffer **buffers[] = {&w.a, &w.b, &w.c};
    double adding = 1, checking = 1;
    bool ignored = false;
    w.host = mmul_allocate(3 * square, sizeof(float), "calibration", err);
    enum mmul_status status = w.host != NULL ? mmul_check_create(n, n, &w.check, err) : err->status;
    if (status == MMUL_OK) {
        fill_random(MMUL_F32, (float *)w.host + square, square);
        mmul_check_set_parallel(w.check, request->parallel);
        status = time_operation(&w, depth, check_product, &checking, &ignored, err);
    }
    for (int i = 0; status == MMUL_OK && i < 3; i++)
        status = mmul_device_buffer_borrow(device, MMUL_F32, (float *)w.host + i * square, square,
                                           buffers[i], err);
    if (status == MMUL_OK)
        status = time_operation(&w, depth, add_squares, &adding, &ignored, err);
    const double bytes = 3 * (double)square * sizeof(float);
    speed->map_bytes_per_second = bytes / adding;
    speed->check_bytes_per_second = bytes / checking;
    mmul_check_destroy(w.check);
    work_fini(&w);
    return status;
}

// -------------------------------------------------------------------------------------- transfers

static enum mmul_status time_transfers(struct mmul_device *device, int64_t rows,
                                       const struct depth *depth, struct mmul_speed *speed,
                                       struct mmul_error *err) {
    const double bytes = (double)rows * TRANSFER_COLS * sizeof(float);
    struct work w = {.device = device, .rows = rows};
    double up = 1, down = 1;
    bool unstable = false;
    enum mmul_status status = allocate_host(&w, rows * TRANSFER_COLS, err);
    if (status == MMUL_OK)
        status = mmul_device_buffer_create(device, MMUL_F32, rows * TRANSFER_COLS, &w.a, err);
    if (status == MMUL_OK)
        status = time_operation(&w, depth, upload, &up, &unstable, err);
    if (status == MMUL_OK)
        status = time_operation(&w, depth, download, &down, &unstable, err);
    work_fini(&w);
    speed->upload_bytes_per_second = bytes / up;
    speed->download_bytes_per_second = bytes / down;
    speed->unstable &= ~MMUL_UNSTABLE_TRANSFERS;
    speed->unstable |= unstable ? MMUL_UNSTABLE_TRANSFERS : 0;
    return status;
}

// Transfers blocks of growing size until both ways together take long enough.
static enum mmul_status measure_transfers(struct mmul_device *device, const struct depth *depth,
                                          int64_t memory_bytes, struct mmul_speed *speed,
                                          struct mmul_error *err) {
    struct mmul_device_info info;
    const int64_t row_bytes = TRANSFER_COLS * sizeof(float);
    mmul_device_describe(device, &info);
    int64_t most =
        mmul_min(memory_bytes, mmul_min(info.max_allocation_bytes, info.memory_bytes / 2)) /
        row_bytes;
    bool is_enough = false;
    for (int64_t rows = TRANSFER_ROWS;
         rows == TRANSFER_ROWS || (rows <= TRANSFER_ROWS_MOST && rows <= most && !is_enough);
         rows *= 4) {
        const double bytes = (double)(rows * row_bytes);
        enum mmul_status status = time_transfers(device, rows, depth, speed, err);
        if (status != MMUL_OK)
            return status;
        is_enough =
            bytes / speed->upload_bytes_per_second + bytes / speed->download_bytes_per_second >=
            2 * depth->enough_transfer_seconds;
    }
    return MMUL_OK;
}

// Copies the results of one type into the known speeds.
static void merge_speed(struct mmul_speed *speed, const struct mmul_speed *measured,
                        const struct mmul_measure_request *request) {
    const bool is_double = request->dtype == MMUL_F64;
    const unsigned sizes = (1U << MMUL_SPEED_POINTS) - 1;
    const int place = is_double ? MMUL_UNSTABLE_DOUBLES : 0;
    memcpy(is_double ? speed->double_flops : speed->flops, measured->flops, sizeof measured->flops);
    *(is_double ? &speed->double_points : &speed->measured_points) = measured->measured_points;
    speed->unstable &= ~(sizes << place);
    speed->unstable |= (measured->unstable & sizes) << place;
    if (!request->has_transfers) {
        speed->unstable &= ~MMUL_UNSTABLE_TRANSFERS;
        speed->unstable |= measured->unstable & MMUL_UNSTABLE_TRANSFERS;
        speed->upload_bytes_per_second = measured->upload_bytes_per_second;
        speed->download_bytes_per_second = measured->download_bytes_per_second;
    }
    if (is_double)
        return;
    speed->pack_a_seconds = measured->pack_a_seconds;
    speed->pack_b_seconds = measured->pack_b_seconds;
    speed->map_bytes_per_second = measured->map_bytes_per_second;
    speed->check_bytes_per_second = measured->check_bytes_per_second;
}

enum mmul_status mmul_measure_device(struct mmul_device *device,
                                     const struct mmul_measure_request *request,
                                     struct mmul_speed *speed, struct mmul_error *err) {
    const struct depth *depth = request->thorough  ? &thorough
                                : request->is_long ? &for_long
                                                   : &brief;
    const bool is_double = request->dtype == MMUL_F64;
    const struct work work = {
        .device = device, .dtype = request->dtype, .job_flops = request->job_flops};
    struct mmul_speed measured = {.measured_points = 0};
    enum mmul_status status = measure_products(work, depth, request->memory_bytes, &measured, err);
    if (status == MMUL_OK && request->period_seconds > 0)
        status = measure_with_quota(work, depth, request->period_seconds, &measured, err);
    const bool is_host = request->thorough && !is_double && mmul_device_can_borrow(device);
    if (status == MMUL_OK && is_host)
        status = measure_packing(device, depth, &measured, err);
    if (status == MMUL_OK && is_host)
        status = measure_memory(device, request, depth, &measured, err);
    if (status == MMUL_OK && !mmul_device_can_borrow(device) && !request->has_transfers)
        status = measure_transfers(device, depth, request->memory_bytes, &measured, err);
    if (status == MMUL_OK)
        merge_speed(speed, &measured, request);
    return status;
}

enum mmul_status mmul_measure_square(struct mmul_device *device, int64_t n, int64_t memory_bytes,
                                     double *seconds, bool *unstable, struct mmul_error *err) {
    const struct depth depth = {.takes_median = true,
                                .repeats = 3,
                                .repeats_most = 6,
                                .patience_seconds = thorough.patience_seconds,
                                .span_seconds = thorough.span_seconds};
    *seconds = 0;
    *unstable = false;
    const struct work w = {.device = device, .n = n};
    return squares_fit(&w, memory_bytes) ? time_squares(w, &depth, seconds, unstable, err)
                                         : MMUL_OK;
}

enum mmul_status mmul_measure_repeatedly(struct mmul_device *device, int64_t n,
                                         bool (*again)(void *argument, double seconds),
                                         void *argument, struct mmul_error *err) {
    struct work w = {.device = device, .n = n, .rows = n, .cols = n};
    double seconds = 0;
    enum mmul_status status = create_squares(&w, err);
    do {
        if (status == MMUL_OK)
            status = time_span(&w, 0, multiply, &seconds, err);
    } while (status == MMUL_OK && again(argument, seconds));
    work_fini(&w);
    return status;
}

enum mmul_status mmul_measure_transfers(struct mmul_device *device, int64_t memory_bytes,
                                        struct mmul_speed *speed, struct mmul_error *err) {
    return measure_transfers(device, &thorough, memory_bytes, speed, err);
}
