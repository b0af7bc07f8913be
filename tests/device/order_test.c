// SPDX-License-Identifier: MIT
//
// Conformance test of a device, part 3, order: `order_test NAME`. Calls do not wait unless their
// contract says so. Operations on one buffer happen in the order of their calls, whatever else is
// in flight on other buffers. Expected values come from loops in this file.
#include "base/random.h"
#include "tap.h"

enum { SIDE = 160, ELEMENTS = SIDE * SIDE };

static struct mmul_operand whole_buffer(struct mmul_buffer *buffer, int64_t side) {
    return (struct mmul_operand){.buffer = buffer, .offset = 0, .ld = side};
}

static void upload_square(struct mmul_device *device, struct mmul_buffer *to, const float *from,
                          int64_t side) {
    struct mmul_error err;
    must_succeed(mmul_device_upload(device,
                                    &(struct mmul_upload){whole_buffer(to, side), side, side, from,
                                                          side, MMUL_F32},
                                    &err),
                 &err);
}

static void download_square(struct mmul_device *device, struct mmul_buffer *from, float *to,
                            int64_t side) {
    struct mmul_error err;
    must_succeed(mmul_device_download(device,
                                      &(struct mmul_download){whole_buffer(from, side), side, side,
                                                              to, side, MMUL_F32},
                                      &err),
                 &err);
}

// Queues c := alpha a b + beta c.
static void multiply(struct mmul_device *device, struct mmul_buffer *a, struct mmul_buffer *b,
                     struct mmul_buffer *c, float alpha, float beta, int64_t side) {
    struct mmul_error err;
    const struct mmul_gemm args = {.m = side,
                                   .n = side,
                                   .k = side,
                                   .alpha = alpha,
                                   .beta = beta,
                                   .a = whole_buffer(a, side),
                                   .b = whole_buffer(b, side),
                                   .c = whole_buffer(c, side)};
    must_succeed(mmul_device_gemm(device, &args, &err), &err);
}

static void wait_all(struct mmul_device *device) {
    struct mmul_error err;
    must_succeed(mmul_device_wait(device, &err), &err);
}

static float *make_constant(int64_t count, float value) {
    float *values = must_allocate(count, sizeof *values);
    for (int64_t e = 0; e < count; e++)
        values[e] = value;
    return values;
}

static bool is_constant(const float *values, int64_t count, float value) {
    bool ok = true;
    for (int64_t e = 0; e < count; e++)
        ok = ok && values[e] == value;
    return ok;
}

// Buffers and host memory of the tests below; everything is SIDE x SIDE.
struct bench {
    struct mmul_device *device;
    struct mmul_buffer *a, *b, *c, *d;
    float *ones, *twos, *found, *found_too;
};

static void setup(struct bench *bench, struct mmul_device *device) {
    struct mmul_buffer **buffers[] = {&bench->a, &bench->b, &bench->c, &bench->d};
    struct mmul_error err;
    bench->device = device;
    bench->ones = make_constant(ELEMENTS, 1);
    bench->twos = make_constant(ELEMENTS, 2);
    bench->found = make_constant(ELEMENTS, -1);
    bench->found_too = make_constant(ELEMENTS, -1);
    for (int i = 0; i < 4; i++) {
        must_succeed(mmul_device_buffer_create(device, MMUL_F32, ELEMENTS, buffers[i], &err), &err);
        upload_square(device, *buffers[i], bench->ones, SIDE);
    }
    wait_all(device);
}

static void teardown(struct bench *bench, bool ok, const char *name) {
    wait_all(bench->device);
    mmul_device_buffer_destroy(bench->device, bench->a);
    mmul_device_buffer_destroy(bench->device, bench->b);
    mmul_device_buffer_destroy(bench->device, bench->c);
    mmul_device_buffer_destroy(bench->device, bench->d);
    free(bench->ones);
    free(bench->twos);
    free(bench->found);
    free(bench->found_too);
    report_point(ok, name, "elements differ");
}

// ---------------------------------------------------------------------------- one hazard at a time

// Ten products in a row must still read the ones.
static void test_upload_after_product(struct mmul_device *device) {
    struct bench t;
    setup(&t, device);
    for (int i = 0; i < 10; i++)
        multiply(device, t.a, t.b, t.c, 1, i == 0 ? 0 : 1, SIDE);
    upload_square(device, t.a, t.twos, SIDE);
    download_square(device, t.a, t.found_too, SIDE);
    download_square(device, t.c, t.found, SIDE);
    wait_all(device);
    bool ok = is_constant(t.found, ELEMENTS, 10 * SIDE) && is_constant(t.found_too, ELEMENTS, 2);
    for (int i = 0; i < 10; i++)
        multiply(device, t.a, t.b, t.d, 1, i == 0 ? 0 : 1, SIDE);
    upload_square(device, t.b, t.twos, SIDE);
    download_square(device, t.d, t.found, SIDE);
    wait_all(device);
    teardown(&t, ok && is_constant(t.found, ELEMENTS, 20 * SIDE),
             "an upload waits for the products that read its buffer");
}

static void test_product_after_upload(struct mmul_device *device) {
    struct bench t;
    setup(&t, device);
    upload_square(device, t.a, t.twos, SIDE);
    upload_square(device, t.c, t.twos, SIDE);
    multiply(device, t.a, t.b, t.c, 1, 1, SIDE);
    download_square(device, t.c, t.found, SIDE);
    wait_all(device);
    teardown(&t, is_constant(t.found, ELEMENTS, 2 * SIDE + 2), "a product waits for its uploads");
}

// The download delivers the product, not the data that overwrites it later.
static void test_writes_after_download(struct mmul_device *device) {
    struct bench t;
    setup(&t, device);
    multiply(device, t.a, t.b, t.c, 1, 0, SIDE);
    multiply(device, t.a, t.b, t.d, 1, 0, SIDE);
    download_square(device, t.c, t.found, SIDE);
    download_square(device, t.d, t.found_too, SIDE);
    upload_square(device, t.c, t.twos, SIDE);
    multiply(device, t.a, t.b, t.d, 5, 0, SIDE);
    wait_all(device);
    teardown(&t, is_constant(t.found, ELEMENTS, SIDE) && is_constant(t.found_too, ELEMENTS, SIDE),
             "uploads and products wait for the download that reads their buffer");
}

// Downloads from one buffer while the other one is filled and multiplied, round after round.
static void test_alternating_buffers(struct mmul_device *device) {
    enum { ROUNDS = 12 };
    struct bench t;
    setup(&t, device);
    float *up_host = must_allocate(ROUNDS * ELEMENTS, sizeof(float));
    float *down_host = must_allocate(ROUNDS * ELEMENTS, sizeof(float));
    for (int round = 0; round < ROUNDS; round++) {
        struct mmul_buffer *input = round % 2 == 0 ? t.a : t.c;
        struct mmul_buffer *output = round % 2 == 0 ? t.b : t.d;
        float *values = up_host + round * ELEMENTS;
        for (int e = 0; e < ELEMENTS; e++)
            values[e] = (float)(e / SIDE == e % SIDE ? round + 1 : 0);
        upload_square(device, input, values, SIDE);
        multiply(device, input, input, output, 1, 0, SIDE); // a diagonal matrix, squared
        download_square(device, output, down_host + round * ELEMENTS, SIDE);
    }
    wait_all(device);
    bool ok = true;
    for (int e = 0; e < ROUNDS * ELEMENTS; e++) {
        int round = e / ELEMENTS, i = e % ELEMENTS / SIDE, j = e % SIDE;
        ok = ok && down_host[e] == (float)(i == j ? (round + 1) * (round + 1) : 0);
    }
    free(up_host);
    free(down_host);
    teardown(&t, ok, "two alternating sets of buffers keep their contents");
}

// Other queued operations may still be in flight when the wait for this buffer returns.
static void test_wait_for_one_buffer(struct mmul_device *device) {
    struct bench t;
    struct mmul_error err;
    setup(&t, device);
    bool ok = true;
    for (int round = 1; round <= 10; round++) {
        multiply(device, t.a, t.b, t.c, (float)round, 0, SIDE);
        download_square(device, t.c, t.found, SIDE);
        multiply(device, t.a, t.b, t.d, 1, 0, SIDE);
        must_succeed(mmul_device_wait_buffer(device, t.c, &err), &err);
        ok = ok && is_constant(t.found, ELEMENTS, (float)(round * SIDE));
        t.found[round] = -1;
    }
    must_succeed(mmul_device_wait_buffer(device, t.a, &err), &err);
    teardown(&t, ok, "waiting for one buffer ends its downloads");
}

// ----------------------------------------------------------------------- many operations at random

enum { SMALL = 48, VALUES = SMALL * SMALL, BUFFERS = 5, OPERATIONS = 400 };

// The device's buffers, their expected contents, and the host memory that each operation borrows.
struct model {
    struct mmul_device *device;
    struct mmul_buffer *buffers[BUFFERS],
        *swap; // `swap`: the permutation matrix that reverses the order of rows
    float *now[BUFFERS];
    float *borrowed[OPERATIONS], *expected[OPERATIONS]; // `expected`: NULL unless downloaded
};

static int draw(uint64_t *at, int count) {
    return (int)(mmul_random_at(77, (*at)++) % (uint64_t)count);
}

// Uploads float32, or small whole numbers in 16 bits.
static void model_upload(struct model *model, int operation, int x, uint64_t *at) {
    struct mmul_error err;
    bool is_half = draw(at, 3) == 0;
    uint16_t *halves = must_allocate(VALUES, sizeof(float));
    for (int e = 0; e < VALUES; e++) {
        float value = (float)(draw(at, 9) - 4);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        model->now[x][e] = value;
        halves[e] = (uint16_t)(bits >> 16); // bfloat16: exact for these numbers
    }
    if (!is_half)
        memcpy(halves, model->now[x], VALUES * sizeof(float));
    model->borrowed[operation] = (float *)(void *)halves;
    must_succeed(mmul_device_upload(model->device,
                                    &(struct mmul_upload){whole_buffer(model->buffers[x], SMALL),
                                                          SMALL, SMALL, halves, SMALL,
                                                          is_half ? MMUL_BF16 : MMUL_F32},
                                    &err),
                 &err);
}

static void model_download(struct model *model, int operation, int x) {
    model->borrowed[operation] = make_constant(VALUES, NAN);
    model->expected[operation] = must_allocate(VALUES, sizeof(float));
    memcpy(model->expected[operation], model->now[x], VALUES * sizeof(float));
    download_square(model->device, model->buffers[x], model->borrowed[operation], SMALL);
}

// y := -(rows of x in reverse order)
static void model_multiply(struct model *model, int x, int y) {
    multiply(model->device, model->swap, model->buffers[x], model->buffers[y], -1, 0, SMALL);
    for (int e = 0; e < VALUES; e++)
        model->now[y][e] = -model->now[x][(SMALL - 1 - e / SMALL) * SMALL + e % SMALL];
}

static void model_init(struct model *model, struct mmul_device *device) {
    struct mmul_error err;
    float *zeros = make_constant(VALUES, 0), *swap = make_constant(VALUES, 0);
    *model = (struct model){.device = device};
    for (int i = 0; i < SMALL; i++)
        swap[i * SMALL + SMALL - 1 - i] = 1;
    must_succeed(mmul_device_buffer_create(device, MMUL_F32, VALUES, &model->swap, &err), &err);
    upload_square(device, model->swap, swap, SMALL);
    for (int x = 0; x < BUFFERS; x++) {
        must_succeed(mmul_device_buffer_create(device, MMUL_F32, VALUES, &model->buffers[x], &err),
                     &err);
        model->now[x] = make_constant(VALUES, 0);
        upload_square(device, model->buffers[x], zeros, SMALL);
    }
    wait_all(device);
    free(zeros);
    free(swap);
}

// Returns true if every download delivered the expected values; frees everything.
static bool model_fini(struct model *model) {
    bool ok = true;
    wait_all(model->device);
    for (int o = 0; o < OPERATIONS; o++) {
        for (int e = 0; ok && model->expected[o] != NULL && e < VALUES; e++) {
            ok = model->borrowed[o][e] == model->expected[o][e];
            if (!ok) {
                printf("# operation %d, element %d: %g, expected %g\n", o, e,
                       (double)model->borrowed[o][e], (double)model->expected[o][e]);
            }
        }
        free(model->borrowed[o]);
        free(model->expected[o]);
    }
    for (int x = 0; x < BUFFERS; x++) {
        mmul_device_buffer_destroy(model->device, model->buffers[x]);
        free(model->now[x]);
    }
    mmul_device_buffer_destroy(model->device, model->swap);
    return ok;
}

// More operations than a device keeps track of, without a wait before the end.
static void test_many(struct mmul_device *device) {
    struct model model;
    struct mmul_error err;
    uint64_t at = 0;
    model_init(&model, device);
    for (int operation = 0; operation < OPERATIONS; operation++) {
        int x = draw(&at, BUFFERS), y = (x + 1 + draw(&at, BUFFERS - 1)) % BUFFERS;
        switch (draw(&at, 8)) {
        case 0:
        case 1:
            model_upload(&model, operation, x, &at);
            break;
        case 2:
        case 3:
            model_download(&model, operation, x);
            break;
        case 4:
            must_succeed(mmul_device_wait_buffer(device, model.buffers[x], &err), &err);
            break;
        default:
            model_multiply(&model, x, y);
        }
    }
    report_point(model_fini(&model), "many operations on a few buffers keep their order",
                 "a download brought other values");
}

int main(int argc, char **argv) {
    struct mmul_device *device = open_device(argc, argv);
    test_upload_after_product(device);
    test_product_after_upload(device);
    test_writes_after_download(device);
    test_alternating_buffers(device);
    test_wait_for_one_buffer(device);
    test_many(device);
    return close_device(device);
}
