// SPDX-License-Identifier: MIT
// Operations on the cpu device that should cost no more than moving their bytes, alternated with a
// plain copy (memcpy) by as many threads, in memory that has been used before. Or attention, once
// after a warm-up, with its memory beside its operands. Uses the device layer directly, without
// files or MPI.
#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "device/map.h"
#include "exec/threads/compute_thread.h"
#include "model/dtype.h"
#include "peer.h"

enum { RUNS_MAX = 1000 };

static const char usage[] = "rows float32|float64 ROWS COLS THREADS RUNS [OPERATION...] | rows "
                            "attention float32|float64 ROWS HEADS DEPTH "
                            "THREADS";

enum layout { PLAIN, TURNED, VECTOR, NUMBER };

// Operands beside the first, and their layout.
static const struct subject {
    const char *name, *operation;
    enum layout layouts[3];
    int operands;
} subjects[] = {
    {"neg", "neg", {PLAIN}, 1},
    {"exp", "exp", {PLAIN}, 1},
    {"tanh", "tanh", {PLAIN}, 1},
    {"silu", "silu", {PLAIN}, 1},
    {"gelu", "gelu", {PLAIN}, 1},
    {"gelu_tanh", "gelu_tanh", {PLAIN}, 1},
    {"multiply by a number", "multiply", {PLAIN, NUMBER}, 2},
    {"power of a number", "power", {PLAIN, NUMBER}, 2},
    {"add", "add", {PLAIN, PLAIN}, 2},
    {"add a row to all", "add", {PLAIN, VECTOR}, 2},
    {"add a transpose", "add", {PLAIN, TURNED}, 2},
    {"where", "where", {PLAIN, NUMBER, PLAIN}, 3},
    {"copy of a transpose", "permute", {TURNED}, 1},
    {"remainder", "remainder", {PLAIN, NUMBER}, 2},
    {"softmax", "softmax", {PLAIN}, 1},
    {"softmax of a transpose", "softmax", {TURNED}, 1},
    {"layer_norm", "layer_norm", {PLAIN, VECTOR, VECTOR}, 3},
    {"rms_norm", "rms_norm", {PLAIN, VECTOR}, 2},
    {"normalize", "normalize", {PLAIN}, 1},
    {"rope", "rope", {PLAIN}, 1},
    {"topk", "topk", {PLAIN}, 1},
    {"argmax", "argmax", {PLAIN}, 1},
    {"sum of rows", "sum", {PLAIN}, 1},
    {"sum of columns", "sum", {TURNED}, 1},
    {"max of rows", "max", {PLAIN}, 1},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

struct bench {
    enum mmul_dtype dtype;
    int64_t rows, cols;
    int threads;
    struct mmul_device *device;
    void *matrices[4]; // the last one is the result
    struct mmul_buffer *buffers[4], *one_and_half;
};

static void end_if(enum mmul_status status, const struct mmul_error *err) {
    if (status == MMUL_OK)
        return;
    fprintf(stderr, "rows: %s\n", err->text);
    exit(1);
}

static void copy_part(void *context, int part) {
    const struct bench *b = context;
    const int64_t count = b->rows * b->cols;
    const int64_t begin = count * part / b->threads, end = count * (part + 1) / b->threads;
    memcpy(mmul_dtype_advance(b->dtype, b->matrices[3], begin),
           mmul_dtype_advance(b->dtype, b->matrices[0], begin),
           (size_t)(end - begin) * mmul_dtype_bytes(b->dtype));
}

static double copy_once(struct bench *b) {
    const double begin = peer_now();
    mmul_helper_threads_run(b->threads, copy_part, b);
    return peer_now() - begin;
}

static struct mmul_map_operand operand_of(const struct bench *b, enum layout layout, int which) {
    struct mmul_map_operand o = {.rows = b->rows, .cols = b->cols, .number = 1.5f};
    if (layout == NUMBER) { // float64 is in memory
        o.buffer = b->dtype == MMUL_F64 ? b->one_and_half : NULL;
        return o;
    }
    o.buffer = b->buffers[which];
    o.row_step = layout == PLAIN ? b->cols : layout == TURNED ? 1 : 0;
    o.col_step = layout == TURNED ? b->rows : 1;
    return o;
}

// Whole operands and the whole result; `bytes` is the size of both.
static struct mmul_map map_of(const struct bench *b, const struct subject *s,
                              struct mmul_parameters *with, double *bytes) {
    struct mmul_map map = {.with = with,
                           .rows = b->rows,
                           .cols = b->cols,
                           .operand_count = s->operands,
                           .parallel = {b->threads, mmul_helper_threads_run}};
    const struct mmul_operation_row *row = mmul_operation_find(s->operation, &map.kind);
    *with = (struct mmul_parameters){.axis = -1, .count = 8, .epsilon = 1e-5, .base = 10000};
    const double each = (double)mmul_dtype_bytes(b->dtype);
    *bytes = 0;
    for (int i = 0; i < s->operands; i++) {
        map.operands[i] = operand_of(b, s->layouts[i], i);
        *bytes += s->layouts[i] <= TURNED ? each * (double)b->rows * (double)b->cols : 0;
    }
    if (row->class == MMUL_CLASS_REDUCE || map.kind == MMUL_ARGMAX)
        map.cols = 1;
    if (map.kind == MMUL_TOPK)
        map.cols = 2 * with->count;
    map.shape = (struct mmul_shape){1, 1, map.rows, map.cols};
    map.matrices = 1;
    map.result = (struct mmul_operand){b->buffers[3], 0, map.cols};
    *bytes += each * (double)map.rows * (double)map.cols;
    return map;
}

static double map_once(const struct bench *b, const struct mmul_map *map) {
    struct mmul_error err;
    const double begin = peer_now();
    end_if(mmul_device_map(b->device, map, &err), &err);
    return peer_now() - begin;
}

// A warm-up, and the counted runs.
static void measure(struct bench *b, const struct subject *s, int runs, bool is_first) {
    static double copies[RUNS_MAX], maps[RUNS_MAX];
    struct mmul_parameters with;
    double bytes;
    const struct mmul_map map = map_of(b, s, &with, &bytes);
    for (int r = -1; r < runs; r++) {
        const double copy = copy_once(b), made = map_once(b, &map);
        if (r >= 0) {
            copies[r] = copy;
            maps[r] = made;
        }
    }
    printf("%s{\"operation\": \"%s\", \"bytes\": %.0f, \"copy\": {\"bytes\": %.0f, ",
           is_first ? "" : ", ", s->name, bytes,
           2 * (double)mmul_dtype_bytes(b->dtype) * (double)b->rows * (double)b->cols);
    peer_print_seconds(copies, runs);
    printf("}, ");
    peer_print_seconds(maps, runs);
    printf("}");
}

static bool is_asked(const struct subject *s, int argc, char **argv) {
    for (int i = 6; i < argc; i++)
        if (strcmp(argv[i], s->name) == 0)
            return true;
    return argc <= 6;
}

static void *allocate(enum mmul_dtype dtype, int64_t count) {
    return peer_allocate((size_t)count * mmul_dtype_bytes(dtype) / sizeof(float));
}

static void fill(enum mmul_dtype dtype, void *matrix, int64_t count) {
    for (int64_t e = 0; e < count; e++)
        mmul_dtype_set_real(dtype, matrix, e, (double)(e * 7919 % 1009) / 256 - 2);
}

static enum mmul_dtype type_of(int argc, char **argv, int place) {
    enum mmul_dtype dtype = MMUL_F16;
    struct mmul_error err;
    if (place < argc && mmul_dtype_parse(argv[place], &dtype, &err) == MMUL_OK &&
        (dtype == MMUL_F32 || dtype == MMUL_F64))
        return dtype;
    fprintf(stderr, "usage: %s\n", usage);
    exit(64);
}

static void attend(int argc, char **argv) {
    const int rows = peer_number(argc, argv, 3, 1, usage);
    const int heads = peer_number(argc, argv, 4, 1, usage);
    const int depth = peer_number(argc, argv, 5, 1, usage);
    const int threads = peer_number(argc, argv, 6, 1, usage);
    const enum mmul_dtype dtype = type_of(argc, argv, 2);
    const int64_t count = (int64_t)rows * depth;
    const struct mmul_parameters with = {.scale = 1 / sqrt((double)depth)};
    struct mmul_device *device;
    struct mmul_error err;
    struct mmul_map map = {.kind = MMUL_ATTENTION,
                           .with = &with,
                           .rows = rows,
                           .cols = depth,
                           .shape = {1, heads, rows, depth},
                           .matrices = heads,
                           .result_step = count,
                           .operand_count = 3,
                           .parallel = {threads, mmul_helper_threads_run}};
    end_if(mmul_device_open("cpu", &device, &err), &err);
    mmul_device_set_threads(device, threads);
    for (int i = 0; i < 4; i++) {
        void *matrix = allocate(dtype, heads * count);
        fill(dtype, matrix, heads * count);
        map.operands[i] = (struct mmul_map_operand){
            .row_step = depth, .col_step = 1, .rows = rows, .cols = depth, .stack = {0, count, 1}};
        end_if(mmul_device_buffer_borrow(device, dtype, matrix, heads * count,
                                         &map.operands[i].buffer, &err),
               &err);
    }
    map.result = (struct mmul_operand){map.operands[3].buffer, 0, depth};
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    double seconds = 0;
    for (int run = 0; run < 2; run++) {
        const double begin = peer_now();
        end_if(mmul_device_map(device, &map, &err), &err);
        seconds = peer_now() - begin;
    }
    getrusage(RUSAGE_SELF, &after);
    printf("{\"peer\": \"rows\", \"counted\": \"attention in memory\", \"held_bytes\": %lld, ",
           (long long)(after.ru_maxrss - before.ru_maxrss) * 1024);
    peer_print_seconds(&seconds, 1);
    printf("}\n");
}

int main(int argc, char **argv) {
    struct mmul_error err;
    if (argc > 1 && strcmp(argv[1], "attention") == 0) {
        attend(argc, argv);
        return 0;
    }
    struct bench b = {.dtype = type_of(argc, argv, 1),
                      .rows = peer_number(argc, argv, 2, 1, usage),
                      .cols = peer_number(argc, argv, 3, 1, usage),
                      .threads = peer_number(argc, argv, 4, 1, usage)};
    const int runs = peer_number(argc, argv, 5, 1, usage);
    double one_and_half = 1.5;
    if (runs > RUNS_MAX)
        return 64;
    end_if(mmul_device_open("cpu", &b.device, &err), &err);
    for (int i = 0; i < 4; i++) {
        b.matrices[i] = allocate(b.dtype, b.rows * b.cols);
        fill(b.dtype, b.matrices[i], b.rows * b.cols);
        end_if(mmul_device_buffer_borrow(b.device, b.dtype, b.matrices[i], b.rows * b.cols,
                                         &b.buffers[i], &err),
               &err);
    }
    end_if(mmul_device_buffer_borrow(b.device, MMUL_F64, &one_and_half, 1, &b.one_and_half, &err),
           &err);
    printf("{\"peer\": \"rows\", \"counted\": \"operations in memory\", \"rows\": %lld, \"cols\": "
           "%lld, "
           "\"threads\": %d, \"operations\": [",
           (long long)b.rows, (long long)b.cols, b.threads);
    bool is_first = true;
    for (int s = 0; s < SUBJECTS; s++)
        if (is_asked(&subjects[s], argc, argv)) {
            measure(&b, &subjects[s], runs, is_first);
            is_first = false;
        }
    printf("]}\n");
    return 0;
}
