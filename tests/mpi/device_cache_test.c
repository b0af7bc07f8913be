// np: 1 3
// SPDX-License-Identifier: MIT
//
// Values of a program that a device with memory of its own caches: on PoCL, and on a CPU with
// buffers separate from host memory. The test counts every upload through the device's table.
// Results are equal element by element.
#include <unistd.h>

#include "base/memory.h"
#include "device/device.h"
#include "operation_loops.h"

static struct mmul_device_table counting;
static enum mmul_status (*upload)(void *self, const struct mmul_upload *u, struct mmul_error *err);
static int64_t uploaded; // bytes uploaded by this rank

static enum mmul_status count_upload(void *self, const struct mmul_upload *u,
                                     struct mmul_error *err) {
    uploaded += u->rows * u->cols * (int64_t)sizeof(float);
    return upload(self, u, err);
}

// Puts each rank on a node of its own, so that ranks claim no work of others.
static struct mmul_context *make_counting_context(const struct mmul_context_options *options) {
    struct mmul_context *context = make_context(size, options);
    counting = *context->device->table;
    upload = counting.upload;
    counting.upload = count_upload;
    context->device->table = &counting;
    return context;
}

static int64_t bytes_of(const struct trial *t, int value) {
    return elements(t->known[value].shape) * (int64_t)sizeof(float);
}

// Adds a product with left operand and result split by rows, for any number of ranks.
static int multiply_rows(struct trial *t, int x, int w) {
    return place(t, matmul(t, x, w), MMUL_PLACE_ROWS);
}

// Collective. Returns true if the result is right, `split` bytes were uploaded once in parts, and
// `whole` bytes once per rank.
static bool is_uploaded_once(struct mmul_context *context, struct trial *t, const char *what,
                             int64_t split, int64_t whole) {
    uploaded = 0;
    bool right = run_trial(context, t, "equal");
    int64_t all = 0, expected = split + size * whole;
    MPI_Allreduce(&uploaded, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("# %s: %lld bytes uploaded, expected %lld\n", what, (long long)all,
               (long long)expected);
    return right && all == expected;
}

// y = x w1 w2 w3: intermediate values are not uploaded.
static bool chain_uploads_inputs_only(struct mmul_context *context) {
    static const int64_t widths[] = {90, 50, 110};
    struct trial t;
    int64_t weights = 0, cols = 70;
    begin_trial(&t);
    int x = place(&t, load(&t, (struct mmul_shape){1, 1, 301, cols}), MMUL_PLACE_ROWS), y = x;
    for (int i = 0; i < 3; cols = widths[i++]) {
        int w = load(&t, (struct mmul_shape){1, 1, cols, widths[i]});
        y = multiply_rows(&t, y, w);
        weights += bytes_of(&t, w);
    }
    save(&t, y);
    bool right =
        is_uploaded_once(context, &t, "a chain of three products", bytes_of(&t, x), weights);
    end_trial(&t);
    return right;
}

// Weights and values that are used repeatedly, as either operand and transposed, also by other
// operations.
static bool reused_values_are_uploaded_once(struct mmul_context *context) {
    struct trial t;
    begin_trial(&t);
    int x = place(&t, load(&t, (struct mmul_shape){1, 1, 301, 70}), MMUL_PLACE_ROWS);
    int w = place(&t, load(&t, (struct mmul_shape){1, 1, 70, 70}), MMUL_PLACE_REPLICATE);
    int y = multiply_rows(&t, x, w), z = multiply_rows(&t, y, w);
    save(&t, z);
    save(&t, multiply_rows(&t, y, transpose(&t, w)));
    save(&t, place(&t, matmul(&t, transpose(&t, x), z), MMUL_PLACE_PARTIAL));
    int bias = place(&t, generate(&t, (struct mmul_shape){1, 1, 1, 70}), MMUL_PLACE_REPLICATE);
    int u = place(&t, relu(&t, add(&t, y, bias)), MMUL_PLACE_ROWS);
    save(&t, multiply_rows(&t, u, w));
    bool right = is_uploaded_once(context, &t, "five products, and a sum between", bytes_of(&t, x),
                                  bytes_of(&t, w) + bytes_of(&t, bias));
    end_trial(&t);
    return right;
}

// The first product cuts C into rows; the second one, with a wide C, into columns.
static bool parts_of_cached_values_are_used(struct mmul_context *context) {
    struct trial t;
    begin_trial(&t);
    int x = place(&t, load(&t, (struct mmul_shape){1, 1, 2048 * size, 24}), MMUL_PLACE_ROWS);
    int v = load(&t, (struct mmul_shape){1, 1, 24, 32});
    int w = load(&t, (struct mmul_shape){1, 1, 32, 2112});
    save(&t, multiply_rows(&t, multiply_rows(&t, x, v), w));
    bool right = is_uploaded_once(context, &t, "tiles of other sides", bytes_of(&t, x),
                                  bytes_of(&t, v) + bytes_of(&t, w));
    end_trial(&t);
    return right;
}

static int apply_along(struct trial *t, const char *operation, int x, int axis) {
    return apply(t, &(struct mmul_call){.operation = operation,
                                        .operands = {x},
                                        .operand_count = 1,
                                        .with = {.axis = axis}});
}

// y = relu(x w) with C in tiles, then operations on y by rows, over all elements, and transposed.
// Only x and w are uploaded, once each.
static bool results_of_operations_stay(struct mmul_context *context) {
    struct trial t;
    begin_trial(&t);
    int x = place(&t, load(&t, (struct mmul_shape){1, 1, 2048 * size, 24}), MMUL_PLACE_ROWS);
    int w = load(&t, (struct mmul_shape){1, 1, 24, 40}),
        v = load(&t, (struct mmul_shape){1, 1, 40, 16});
    int y = place(&t, relu(&t, multiply_rows(&t, x, w)), MMUL_PLACE_ROWS);
    save(&t, y);
    save(&t, place(&t, apply_along(&t, "max", y, -1), MMUL_PLACE_ROWS));
    save(&t, multiply_rows(&t, place(&t, apply_along(&t, "neg", y, 0), MMUL_PLACE_ROWS), v));
    save(&t, place(&t, apply_along(&t, "neg", transpose(&t, y), 0), MMUL_PLACE_COLS));
    bool right = is_uploaded_once(context, &t, "operations of a product's result", bytes_of(&t, x),
                                  bytes_of(&t, w) + bytes_of(&t, v));
    end_trial(&t);
    return right;
}

// Values larger than the device's memory pass through it in chunks of rows.
static bool large_values_are_uploaded_in_chunks(struct mmul_context *context) {
    struct mmul_device_info *device = &context->cluster->ranks[rank].device;
    const int64_t memory = device->memory_bytes;
    struct trial t;
    begin_trial(&t);
    int x = place(&t, load(&t, (struct mmul_shape){1, 1, 301 * size, 70}), MMUL_PLACE_ROWS);
    int bias = place(&t, load(&t, (struct mmul_shape){1, 1, 1, 70}), MMUL_PLACE_REPLICATE);
    save(&t, place(&t, add(&t, x, bias), MMUL_PLACE_ROWS));
    device->memory_bytes = 40000; // 4000 elements of it for values
    bool right =
        is_uploaded_once(context, &t, "chunks of rows", bytes_of(&t, x), bytes_of(&t, bias));
    device->memory_bytes = memory;
    end_trial(&t);
    return right;
}

// Runs all cases, with operands from files directly and with operands loaded as values first.
static void test_device(const struct mmul_context_options *options) {
    struct mmul_context *context = make_counting_context(options);
    char what[160];
    for (int turn = 0; turn < 2; turn++) {
        keeps = turn > 0;
        const char *where = keeps ? ", all of it values" : "";
        snprintf(what, sizeof what, "%s: results of products are not uploaded%s", options->device,
                 where);
        tap_ok(chain_uploads_inputs_only(context), what);
        snprintf(what, sizeof what, "%s: reused operands are uploaded once%s", options->device,
                 where);
        tap_ok(reused_values_are_uploaded_once(context), what);
    }
    snprintf(what, sizeof what, "%s: parts of cached values are used", options->device);
    tap_ok(parts_of_cached_values_are_used(context), what);
    snprintf(what, sizeof what, "%s: results of operations are not uploaded", options->device);
    tap_ok(results_of_operations_stay(context), what);
    snprintf(what, sizeof what, "%s: values too large are uploaded in chunks, each once",
             options->device);
    tap_ok(large_values_are_uploaded_in_chunks(context), what);
    tap_ok(context->replacements == 0, "the device was not replaced");
    mmul_context_destroy(context);
}

// The last rank's device fails or errs at each of the products in turn. Its cached values are lost
// with it.
static void test_devices_that_fail(void) {
    static const char *const rules[] = {"fail", "corrupt", "garble", "fail-upload",
                                        "fail-download"};
    bool right = true;
    keeps = true;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (int call = 1; call <= 5; call++) {
            char device[64];
            snprintf(device, sizeof device, "faulty:hang=1000000,%s=%d:cpu", rules[i], call);
            const struct mmul_context_options options = {.device =
                                                             rank == size - 1 ? device : "cpu"};
            struct mmul_context *context = make_context(size, &options);
            struct trial t;
            begin_trial(&t);
            int x = load(&t, (struct mmul_shape){1, 1, 31, 20});
            int w = load(&t, (struct mmul_shape){1, 1, 20, 20});
            for (int j = 0; j < 4; j++)
                x = matmul(&t, x, w);
            save(&t, x);
            right = run_trial(context, &t, "equal") && right;
            end_trial(&t);
            mmul_context_destroy(context);
        }
    tap_ok(right, "a device that is lost or errs is replaced");
}

// One rank compiles the kernels, and the driver caches them for the others, which sleep meanwhile.
static void warm_up_kernel_cache(void) {
    struct mmul_device *device = NULL;
    struct mmul_error err;
    MPI_Request all_are_here;
    int is_over = 0;
    if (rank == 0 && mmul_device_open("0:0", &device, &err) == MMUL_OK) {
        mmul_device_warm_up(device, MMUL_F32, INFINITY, &err);
        mmul_device_close(device);
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &all_are_here);
    while (MPI_Test(&all_are_here, &is_over, MPI_STATUS_IGNORE) == MPI_SUCCESS && !is_over)
        usleep(10000);
}

int main(int argc, char **argv) {
    int provided, count = 0, least = 0;
    struct mmul_probe *probe = NULL;
    struct mmul_error err;
    const struct mmul_device_info *devices;
    const struct mmul_probe_options ask = {.limit_seconds = 60};
    if (mmul_probe_create(&ask, &probe, &err) != MMUL_OK)
        return 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    count = mmul_probe_devices(probe, &devices);
    MPI_Allreduce(&count, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    test_device(&(struct mmul_context_options){.device = "faulty:hang=1000000:cpu"});
    test_devices_that_fail();
    if (least > 0) {
        warm_up_kernel_cache();
        test_device(&(struct mmul_context_options){.device = "0:0", .probe = probe});
    } else if (rank == 0) {
        printf("ok %d - values on OpenCL # SKIP opencl: no device\n", tap_points + 1);
    }
    tap_points += least == 0;
    mmul_probe_destroy(probe);
    int status = tap_end();
    MPI_Finalize();
    return status;
}
