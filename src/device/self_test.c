// SPDX-License-Identifier: MIT
// Compares a device with plain loops, element by element. Of large products it compares some rows
// by element and all rows by their sum. Operands are packed, or rectangles of wider matrices.
// Numbers of float64 products are large enough that no float32 holds their sums. Much shorter than
// the conformance tests, because a user waits for it.
#include "device/self_test.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "model/dtype.h"

// One product to test: op(A) (m, k) times op(B) (k, n).
struct product {
    int64_t m, n, k;
    int way;               // bit 0 transposes A, bit 1 B; alpha and beta depend on it
    int64_t pad;           // columns on the right of every operand, and elements before it
    enum mmul_dtype dtype; // type of A and B as they are uploaded
};

// The buffers of one product. Rows have the same length on host and device.
struct trial {
    struct mmul_device *device;
    const struct product *product;
    struct mmul_gemm gemm;
    double *a, *b, *c;
    void *sent[3]; // A, B and C in their own types, during the upload
    void *found;   // result, in the type of gemm
};

enum { SMALL_PRODUCT = 4000000, ROWS_COMPARED = 24 };

static const double untouched = 12345;

static void trial_fini(struct trial *t) {
    mmul_device_buffer_destroy(t->device, t->gemm.a.buffer);
    mmul_device_buffer_destroy(t->device, t->gemm.b.buffer);
    mmul_device_buffer_destroy(t->device, t->gemm.c.buffer);
    for (int i = 0; i < 3; i++)
        mmul_free(t->sent[i]);
    mmul_free(t->a);
    mmul_free(t->b);
    mmul_free(t->c);
    mmul_free(t->found);
}

// A rectangle of rows x cols.
struct rectangle {
    int64_t rows, cols;
    uint64_t seed;
    enum mmul_dtype dtype;
};

// Returns the type of buffers and sums.
static enum mmul_dtype computed(const struct product *p) {
    return p->dtype == MMUL_F64 ? MMUL_F64 : MMUL_F32;
}

// Fills a rectangle with whole numbers from -4 to 4, for float64 from -2^14 to 2^14, and starts its
// upload. With this range the sum of a whole row of any product here is below 2^53.
static enum mmul_status upload_rectangle(struct trial *t, const struct rectangle *r, double **host,
                                         void **sent, struct mmul_operand *operand,
                                         struct mmul_error *err) {
    const int64_t pad = t->product->pad, ld = r->cols + pad, count = r->rows * ld;
    const int64_t largest = r->dtype == MMUL_F64 ? 1 << 14 : 4;
    struct mmul_operand to = {.offset = pad, .ld = ld};
    enum mmul_status status = MMUL_ALLOCATE_RAW(*host, count, "a self-test", err);
    if (status == MMUL_OK) {
        *sent = mmul_allocate_raw(count, mmul_dtype_bytes(r->dtype), "a self-test", err);
        status = *sent != NULL ? MMUL_OK : err->status;
    }
    if (status == MMUL_OK)
        status = mmul_device_buffer_create(t->device, computed(t->product), pad + count, &to.buffer,
                                           err);
    *operand = to;
    if (status != MMUL_OK)
        return status;
    for (int64_t e = 0; e < count; e++)
        (*host)[e] =
            (double)((int64_t)(mmul_random_at(r->seed, (uint64_t)e) % (uint64_t)(2 * largest + 1)) -
                     largest);
    mmul_dtype_narrow_double(r->dtype, *host, count, *sent);
    const struct mmul_upload upload = {to, r->rows, r->cols, *sent, ld, r->dtype};
    return mmul_device_upload(t->device, &upload, err);
}

static enum mmul_status send_operands(struct trial *t, struct mmul_error *err) {
    struct mmul_gemm *g = &t->gemm;
    const enum mmul_dtype dtype = t->product->dtype;
    const struct rectangle a = {g->transpose_a ? g->k : g->m, g->transpose_a ? g->m : g->k, 1,
                                dtype};
    const struct rectangle b = {g->transpose_b ? g->n : g->k, g->transpose_b ? g->k : g->n, 2,
                                dtype};
    const struct rectangle c = {g->m, g->n, 3, g->dtype};
    enum mmul_status status = upload_rectangle(t, &a, &t->a, &t->sent[0], &g->a, err);
    if (status == MMUL_OK)
        status = upload_rectangle(t, &b, &t->b, &t->sent[1], &g->b, err);
    return status == MMUL_OK ? upload_rectangle(t, &c, &t->c, &t->sent[2], &g->c, err) : status;
}

static enum mmul_status trial_init(struct trial *t, struct mmul_device *device,
                                   const struct product *p, struct mmul_error *err) {
    *t = (struct trial){.device = device,
                        .product = p,
                        .gemm = {.dtype = computed(p),
                                 .transpose_a = (p->way & 1) != 0,
                                 .transpose_b = (p->way & 2) != 0,
                                 .m = p->m,
                                 .n = p->n,
                                 .k = p->k,
                                 .alpha = p->way < 2 ? 1 : -2,
                                 .beta = p->way % 3 == 0 ? 0 : 3}};
    enum mmul_status status = send_operands(t, err);
    const int64_t count = p->m * (p->n + p->pad);
    if (status == MMUL_OK)
        t->found = mmul_allocate_raw(count, mmul_dtype_bytes(t->gemm.dtype), "a self-test", err);
    if (status == MMUL_OK && t->found == NULL)
        status = err->status;
    for (int64_t e = 0; status == MMUL_OK && e < count; e++)
        mmul_dtype_narrow_double(t->gemm.dtype, &untouched, 1,
                                 mmul_dtype_advance(t->gemm.dtype, t->found, e));
    return status;
}

static double found_at(const struct trial *t, int64_t i, int64_t j) {
    return mmul_dtype_get_real(t->gemm.dtype, t->found, i * t->gemm.c.ld + j);
}

static double expected(const struct trial *t, int64_t i, int64_t j) {
    const struct mmul_gemm *g = &t->gemm;
    double sum = 0;
    for (int64_t p = 0; p < g->k; p++) {
        sum += t->a[g->transpose_a ? p * g->a.ld + i : i * g->a.ld + p] *
               t->b[g->transpose_b ? j * g->b.ld + p : p * g->b.ld + j];
    }
    return g->alpha * sum + g->beta * t->c[i * g->c.ld + j];
}

static enum mmul_status fail_element(const struct trial *t, int64_t i, int64_t j, double value,
                                     struct mmul_error *err) {
    const struct product *p = t->product;
    return mmul_fail(err, MMUL_ERR_WRONG,
                     "self-test: %lld x %lld x %lld, transposed %d %d%s%s%s: element (%lld, %lld) "
                     "is %g, expected %g",
                     (long long)p->m, (long long)p->n, (long long)p->k, t->gemm.transpose_a,
                     t->gemm.transpose_b, p->pad > 0 ? ", in rectangles" : "",
                     p->dtype != MMUL_F32 ? ", of " : "",
                     p->dtype != MMUL_F32 ? mmul_dtype_name(p->dtype) : "", (long long)i,
                     (long long)j, found_at(t, i, j), value);
}

// Compares a row of C. Elements beside the rectangle on the host must be unchanged.
static enum mmul_status compare_row(const struct trial *t, int64_t i, struct mmul_error *err) {
    const int64_t n = t->gemm.n, ld = t->gemm.c.ld;
    for (int64_t j = 0; j < ld; j++) {
        double value = j < n ? expected(t, i, j) : untouched;
        if (found_at(t, i, j) != value)
            return fail_element(t, i, j, value, err);
    }
    return MMUL_OK;
}

// Returns true if row i of C has the expected sum, A (B 1); a double holds these whole numbers
// exactly.
static bool has_sum(const struct trial *t, const double *b_sums, int64_t i) {
    const struct mmul_gemm *g = &t->gemm;
    double product = 0, old = 0, found = 0;
    for (int64_t p = 0; p < g->k; p++)
        product += t->a[g->transpose_a ? p * g->a.ld + i : i * g->a.ld + p] * b_sums[p];
    for (int64_t j = 0; j < g->n; j++) {
        old += t->c[i * g->c.ld + j];
        found += found_at(t, i, j);
    }
    return found == g->alpha * product + g->beta * old;
}

// Compares C. Of a large product it compares elements only in sampled rows and in rows with a wrong
// sum.
static enum mmul_status compare_result(const struct trial *t, struct mmul_error *err) {
    const struct mmul_gemm *g = &t->gemm;
    const bool is_large = g->m * g->n * g->k > SMALL_PRODUCT && g->m > ROWS_COMPARED;
    const int64_t step = is_large ? g->m / ROWS_COMPARED : 1;
    double *b_sums = NULL; // sums of the rows of op(B)
    enum mmul_status status = MMUL_ALLOCATE(b_sums, g->k, "a self-test", err);
    for (int64_t p = 0; status == MMUL_OK && p < g->k; p++)
        for (int64_t j = 0; j < g->n; j++)
            b_sums[p] += t->b[g->transpose_b ? j * g->b.ld + p : p * g->b.ld + j];
    for (int64_t i = 0; i < g->m && status == MMUL_OK; i++)
        if (i % step == 0 || i == g->m - 1 || !has_sum(t, b_sums, i))
            status = compare_row(t, i, err);
    mmul_free(b_sums);
    return status;
}

static enum mmul_status start_product(struct trial *t, struct mmul_device *device,
                                      const struct product *p, struct mmul_error *err) {
    enum mmul_status status = trial_init(t, device, p, err);
    if (status == MMUL_OK)
        status = mmul_device_gemm(device, &t->gemm, err);
    const struct mmul_download all = {t->gemm.c, p->m, p->n, t->found, t->gemm.c.ld, t->gemm.dtype};
    return status == MMUL_OK ? mmul_device_download(device, &all, err) : status;
}

// Starts all products before it waits for any.
static enum mmul_status test_at_once(struct mmul_device *device, const struct product *products,
                                     int count, struct mmul_error *err) {
    enum { MOST = 2 };
    struct trial trials[MOST];
    int begun = 0;
    enum mmul_status status = MMUL_OK;
    while (begun < count && status == MMUL_OK) {
        status = start_product(&trials[begun], device, &products[begun], err);
        begun++;
    }
    if (status == MMUL_OK)
        status = mmul_device_wait(device, err);
    for (int i = 0; i < begun && status == MMUL_OK; i++)
        status = compare_result(&trials[i], err);
    // transfers to and from host memory may still be in flight
    if (status != MMUL_OK && !device->lost) {
        struct mmul_error ignored;
        mmul_device_wait(device, &ignored);
    }
    for (int i = 0; i < begun; i++)
        trial_fini(&trials[i]);
    return status;
}

// Returns the side from which the device needs temporary memory and so uses another algorithm; 0:
// none found.
static int64_t find_switch(const struct mmul_device *device, enum mmul_dtype dtype) {
    const int64_t base = mmul_device_gemm_temporary_bytes(device, dtype, 1, 1, 1);
    const int64_t matrices = 3 * (int64_t)mmul_dtype_bytes(dtype);
    for (int64_t s = 32; s <= 1024; s += 32)
        if (mmul_device_gemm_temporary_bytes(device, dtype, s, s, s) >= base + matrices * s * s)
            return s;
    return 0;
}

// Tests odd sizes, sizes of whole tiles, and both sides of the size where the device changes its
// algorithm, with all transposes.
static enum mmul_status test_sizes(struct mmul_device *device, enum mmul_dtype dtype, int64_t s,
                                   struct mmul_error *err) {
    const int64_t sizes[][3] = {
        {1, 1, 1},     {5, 1, 9},       {31, 67, 41},           {64, 128, 32},
        {127, 61, 97}, {131, 137, 139}, {s + 31, s + 3, s + 9}, {s + 128, s + 64, s + 32},
    };
    int count = s > 0 ? 8 : 6;
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < 4 * count && status == MMUL_OK; i++) {
        const int64_t *size = sizes[i / 4];
        const struct product p = {size[0], size[1], size[2], i % 4, 0, dtype};
        status = test_at_once(device, &p, 1, err);
    }
    return status;
}

// Tests inputs of one type, packed and in rectangles.
static enum mmul_status test_inputs(struct mmul_device *device, enum mmul_dtype dtype, int64_t s,
                                    struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < 8 && status == MMUL_OK; i++) {
        const struct product p = {i % 8 > 3 ? s + 17 : 45, 37, 53, i % 4, i / 4 * 7, dtype};
        status = test_at_once(device, &p, 1, err);
    }
    return status;
}

// Tests two products on separate buffers. The second starts while the first may be running. Both
// need the device's temporary memory, which is large enough for one.
static enum mmul_status test_pairs(struct mmul_device *device, enum mmul_dtype dtype, int64_t s,
                                   struct mmul_error *err) {
    const enum mmul_dtype other = dtype == MMUL_F32 ? MMUL_F16 : MMUL_F32;
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < 4 && status == MMUL_OK; i++) {
        const struct product pair[] = {{s + 95, s + 33, s + 65, i, 0, dtype},
                                       {s + 67, s + 91, s + 29, 3 - i, 3, other}};
        status = test_at_once(device, pair, 2, err);
    }
    return status;
}

enum mmul_status mmul_device_self_test(struct mmul_device *device, enum mmul_dtype dtype,
                                       struct mmul_error *err) {
    const int64_t s = find_switch(device, dtype);
    enum mmul_status status = test_sizes(device, dtype, s, err);
    if (status == MMUL_OK)
        status = test_inputs(device, dtype, s, err);
    if (status == MMUL_OK && dtype == MMUL_F32)
        status = test_inputs(device, MMUL_F16, s, err);
    if (status == MMUL_OK && dtype == MMUL_F32)
        status = test_inputs(device, MMUL_BF16, s, err);
    return status == MMUL_OK ? test_pairs(device, dtype, s, err) : status;
}

enum mmul_status mmul_device_time_product(struct mmul_device *device, int64_t side, double *flops,
                                          struct mmul_error *err) {
    const struct product cube = {side, side, side, 0, 0, MMUL_F32};
    struct trial t;
    double least = 0;
    enum mmul_status status = trial_init(&t, device, &cube, err);
    for (int i = 0; i < 4 && status == MMUL_OK; i++) {
        status = mmul_device_wait(device, err);
        double begin = mmul_clock_now();
        if (status == MMUL_OK)
            status = mmul_device_gemm(device, &t.gemm, err);
        if (status == MMUL_OK)
            status = mmul_device_wait(device, err);
        double seconds = mmul_clock_now() - begin;
        least = i <= 1 || seconds < least ? seconds : least;
    }
    double s = (double)side;
    *flops = 2 * s * s * s / (least > 1e-9 ? least : 1e-9);
    trial_fini(&t);
    return status;
}
