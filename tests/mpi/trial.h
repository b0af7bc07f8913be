// SPDX-License-Identifier: MIT
// Programs with a reference: every builder function of the library has a counterpart here that also
// computes the expected value by plain loops in double. Integers keep it exact.
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nodes.h"

enum { VALUES = 128, KINDS = MMUL_PLACE_CYCLIC + 1 };

// ------------------------------------------------------------------------------------ reference

struct known {
    struct mmul_shape shape;
    double *at;
};

// One program on all ranks: the expected value of every operation, and root's inputs and outputs.
struct trial {
    struct mmul_program *program; // root only
    struct known known[VALUES];
    int count;
    struct mmul_matrix *matrices[VALUES];
    float *memory[VALUES], *outputs[VALUES];
    int saved[VALUES];
    enum mmul_placement_kind wanted[VALUES]; // required placement of a value; file: any placement
    bool is_read[VALUES]; // read by a later operation: the value may be gone at the end
    int inputs, saves;
    struct mmul_error err;
};

static int64_t elements(struct mmul_shape s) {
    return s.batch * s.depth * s.rows * s.cols;
}

static int add_known(struct trial *t, struct mmul_shape shape) {
    t->known[t->count] = (struct known){shape, calloc((size_t)elements(shape), sizeof(double))};
    return t->count++;
}

static double *known_element(const struct known *k, int64_t batch, int64_t depth, int64_t i,
                             int64_t j) {
    const struct mmul_shape s = k->shape;
    int64_t b = s.batch == 1 ? 0 : batch, d = s.depth == 1 ? 0 : depth;
    int64_t row = s.rows == 1 ? 0 : i, col = s.cols == 1 ? 0 : j;
    return &k->at[((b * s.depth + d) * s.rows + row) * s.cols + col];
}

typedef double element(const struct trial *t, const int *operands, const int64_t index[4]);

static int compute_known(struct trial *t, struct mmul_shape s, element *f, int x, int y) {
    int made = add_known(t, s), operands[] = {x, y};
    t->is_read[x] = t->is_read[y] = true;
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t d = 0; d < s.depth; d++)
            for (int64_t i = 0; i < s.rows; i++)
                for (int64_t j = 0; j < s.cols; j++)
                    *known_element(&t->known[made], b, d, i, j) =
                        f(t, operands, (const int64_t[]){b, d, i, j});
    return made;
}

static double product_element(const struct trial *t, const int *o, const int64_t n[4]) {
    double sum = 0;
    const struct known *x = &t->known[o[0]], *y = &t->known[o[1]];
    for (int64_t p = 0; p < x->shape.cols; p++)
        sum +=
            x->shape.cols == 1
                ? *known_element(x, n[0], n[1], n[2], 0) * *known_element(y, n[0], n[1], 0, n[3])
                : *known_element(x, n[0], n[1], n[2], p) * *known_element(y, n[0], n[1], p, n[3]);
    return sum;
}

static double sum_element(const struct trial *t, const int *o, const int64_t n[4]) {
    return *known_element(&t->known[o[0]], n[0], n[1], n[2], n[3]) +
           *known_element(&t->known[o[1]], n[0], n[1], n[2], n[3]);
}

static double transposed_element(const struct trial *t, const int *o, const int64_t n[4]) {
    return *known_element(&t->known[o[0]], n[0], n[1], n[3], n[2]);
}

static double relu_element(const struct trial *t, const int *o, const int64_t n[4]) {
    double x = *known_element(&t->known[o[0]], n[0], n[1], n[2], n[3]);
    return x > 0 ? x : 0;
}

static double same_element(const struct trial *t, const int *o, const int64_t n[4]) {
    return *known_element(&t->known[o[0]], n[0], n[1], n[2], n[3]);
}

// ----------------------------------------------------------------------- the program, beside it

// Root: checks the builder's result. Other ranks count values.
static int check_built(struct trial *t, enum mmul_status status, int value, int expected) {
    if (rank == 0 && (status != MMUL_OK || value != expected)) {
        fprintf(stderr, "# value %d, expected %d: %s\n", value, expected, t->err.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return expected;
}

// Loads a matrix of root's with these elements; the trial takes ownership of them.
static int load_data(struct trial *t, struct mmul_shape shape, float *data) {
    int made = add_known(t, shape), value = -1;
    enum mmul_status status = MMUL_OK;
    t->memory[t->inputs] = data;
    for (int64_t i = 0; i < elements(shape); i++)
        t->known[made].at[i] = (double)data[i];
    if (rank == 0)
        status = mmul_matrix_borrow(data, shape, MMUL_F32, "X", &t->matrices[t->inputs], &t->err);
    if (rank == 0 && status == MMUL_OK)
        status = mmul_program_load(t->program, t->matrices[t->inputs], &value, &t->err);
    t->inputs++;
    return check_built(t, status, value, made);
}

static int load(struct trial *t, struct mmul_shape shape) {
    float *data = malloc((size_t)elements(shape) * sizeof(float));
    mmul_generate(MMUL_GENERATE_INTEGER, (uint64_t)t->count + 1, shape, 0, elements(shape), data);
    return load_data(t, shape, data);
}

static int generate(struct trial *t, struct mmul_shape shape) {
    int made = add_known(t, shape), value = -1;
    int64_t count = elements(shape);
    float *data = malloc((size_t)count * sizeof(float));
    mmul_generate(MMUL_GENERATE_INTEGER, (uint64_t)made, shape, 0, count, data);
    for (int64_t i = 0; i < count; i++)
        t->known[made].at[i] = (double)data[i];
    free(data);
    const struct mmul_generated g = {MMUL_GENERATE_INTEGER, (uint64_t)made, shape};
    enum mmul_status status =
        rank == 0 ? mmul_program_generate(t->program, g, NULL, &value, &t->err) : MMUL_OK;
    return check_built(t, status, value, made);
}

static int matmul(struct trial *t, int a, int b) {
    const struct mmul_shape x = t->known[a].shape, y = t->known[b].shape;
    const struct mmul_shape s = {x.batch > y.batch ? x.batch : y.batch,
                                 x.depth > y.depth ? x.depth : y.depth, x.rows, y.cols};
    int made = compute_known(t, s, product_element, a, b), value = -1;
    enum mmul_status status =
        rank == 0 ? mmul_program_matmul(t->program, a, b, NULL, &value, &t->err) : MMUL_OK;
    return check_built(t, status, value, made);
}

static int add(struct trial *t, int a, int b) {
    const struct mmul_shape x = t->known[a].shape, y = t->known[b].shape;
    const struct mmul_shape s = {
        x.batch > y.batch ? x.batch : y.batch, x.depth > y.depth ? x.depth : y.depth,
        x.rows > y.rows ? x.rows : y.rows, x.cols > y.cols ? x.cols : y.cols};
    int made = compute_known(t, s, sum_element, a, b), value = -1;
    enum mmul_status status =
        rank == 0 ? mmul_program_add(t->program, a, b, NULL, &value, &t->err) : MMUL_OK;
    return check_built(t, status, value, made);
}

static int transpose(struct trial *t, int x) {
    struct mmul_shape s = t->known[x].shape;
    const struct mmul_shape to = {s.batch, s.depth, s.cols, s.rows};
    int made = compute_known(t, to, transposed_element, x, x), value = -1;
    enum mmul_status status =
        rank == 0 ? mmul_program_transpose(t->program, x, NULL, &value, &t->err) : MMUL_OK;
    return check_built(t, status, value, made);
}

static int relu(struct trial *t, int x) {
    int made = compute_known(t, t->known[x].shape, relu_element, x, x), value = -1;
    enum mmul_status status =
        rank == 0 ? mmul_program_relu(t->program, x, NULL, &value, &t->err) : MMUL_OK;
    return check_built(t, status, value, made);
}

static int place(struct trial *t, int x, enum mmul_placement_kind kind) {
    int made = compute_known(t, t->known[x].shape, same_element, x, x), value = -1;
    const struct mmul_placement_request request = {.kind = kind,
                                                   .block_cols = kind == MMUL_PLACE_CYCLIC ? 2 : 0};
    enum mmul_status status =
        rank == 0 ? mmul_program_place_as(t->program, x, &request, NULL, &value, &t->err) : MMUL_OK;
    return check_built(t, status, value, made);
}

static void save(struct trial *t, int x) {
    struct mmul_shape s = t->known[x].shape;
    struct mmul_output *output = NULL;
    if (rank == 0) {
        t->outputs[t->saves] = calloc((size_t)elements(s), sizeof(float));
        enum mmul_status status =
            mmul_output_borrow(t->outputs[t->saves], s, MMUL_F32, &output, &t->err);
        if (status == MMUL_OK)
            status = mmul_program_save(t->program, x, output, &t->err);
        check_built(t, status, 0, 0);
    }
    t->is_read[x] = true;
    t->saved[t->saves++] = x;
}

static void begin_trial(struct trial *t) {
    *t = (struct trial){0};
    if (rank == 0)
        mmul_program_create(&t->program, &t->err);
}

static void end_trial(struct trial *t) {
    for (int i = 0; i < t->inputs; i++) {
        mmul_matrix_close(t->matrices[i]);
        free(t->memory[i]);
    }
    for (int i = 0; i < t->saves; i++)
        free(t->outputs[i]);
    for (int i = 0; i < t->count; i++)
        free(t->known[i].at);
    mmul_program_destroy(t->program);
}

// ------------------------------------------------------------------------------ expected results

static bool keeps;       // the values outlive their programs
static double tolerance; // relative to a value or to 1; 0: integers, compared for equality

static bool differs(double found, double expected) {
    if (isnan(found) || isnan(expected))
        return isnan(found) != isnan(expected);
    if (found == expected)
        return false;
    return !(fabs(found - expected) <= tolerance * fmax(1, fabs(expected)));
}

// Collective. Compares the ranks' parts of a value with the loops.
static bool is_right(const struct trial *t, const struct mmul_values *values, int value) {
    const struct known *k = &t->known[value];
    const struct mmul_shape s = k->shape;
    enum mmul_placement_kind kind;
    char text[96];
    int64_t count = elements(s), wrong = 0, held = 0;
    double *mine = calloc((size_t)(2 * count), sizeof *mine), *holders = mine + count;
    mmul_values_placement(values, value, &kind, text);
    for (int64_t p = 0; p < mmul_values_part_count(values, value); p++) {
        const struct mmul_value_part part = mmul_values_part(values, value, p);
        const struct mmul_region r = part.region;
        for (int64_t i = r.row_begin; i < r.row_end; i++)
            for (int64_t j = r.col_begin; j < r.col_end; j++, held++) {
                int64_t e = (r.matrix * s.rows + i) * s.cols + j;
                mine[e] = (double)part.data[(i - r.row_begin) * part.row_step +
                                            (j - r.col_begin) * part.col_step];
                holders[e]++;
                wrong += kind != MMUL_PLACE_PARTIAL && differs(mine[e], k->at[e]);
            }
    }
    MPI_Allreduce(MPI_IN_PLACE, mine, (int)(2 * count), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double holders_of_any = 0;
    for (int64_t e = 0; e < count; e++)
        holders_of_any += holders[e];
    const bool is_let_go = !keeps && t->is_read[value] && holders_of_any == 0;
    for (int64_t e = 0; kind == MMUL_PLACE_PARTIAL && !is_let_go && e < count; e++)
        wrong += differs(mine[e], k->at[e]);
    // Every element has the same number of holders: all ranks, one rank, or one per group of a
    // grid's rows or columns.
    bool whole = kind == MMUL_PLACE_REPLICATE || kind == MMUL_PLACE_PARTIAL;
    bool copies = kind == MMUL_PLACE_GRID_ROWS || kind == MMUL_PLACE_GRID_COLS;
    bool even = true;
    for (int64_t e = 0; e < count; e++)
        even = even && (whole    ? holders[e] == size
                        : copies ? holders[e] == holders[0] && holders[e] > 0
                                 : holders[e] == 1);
    free(mine);
    if (t->wanted[value] != MMUL_PLACE_FILE && t->wanted[value] != kind) {
        fprintf(stderr, "# value %d is %s\n", value, text);
        return false;
    }
    if (kind == MMUL_PLACE_FILE || is_let_go)
        return true; // unread, so its memory may have been reused
    if (wrong > 0 || !even)
        fprintf(stderr, "# rank %d: value %d, %s: %lld of %lld elements differ\n", rank, value,
                text, (long long)wrong, (long long)held);
    return wrong == 0 && even;
}

static double device_timeout; // seconds; 0: the library's default
static enum mmul_io io;       // mode of input and output of the products

// Root: the rank with a device that computed wrong columns, from the report; -1: none, -2: several
static int wrong_rank;

static void find_wrong_rank(const struct mmul_values *values) {
    const char *const *lines = NULL;
    const int count = mmul_report_warnings(mmul_values_report(values), &lines);
    for (int i = 0; rank == 0 && i < count; i++) {
        int which = -2;
        if (strstr(lines[i], " wrong column") == NULL)
            continue;
        (void)sscanf(lines[i], "rank %d:", &which);
        wrong_rank = wrong_rank == -1 || wrong_rank == which ? which : -2;
    }
}

// Collective. Runs the program; returns true if every value and every output is right.
static bool run_trial(struct mmul_context *context, struct trial *t, const char *weights) {
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    const struct mmul_program_options options = {.weights = weights,
                                                 .keep_values = keeps,
                                                 .io = io,
                                                 .device_timeout_seconds = device_timeout,
                                                 .verify_seed = 7};
    enum mmul_status status =
        mmul_program_plan_create(context, t->program, &options, &plan, &t->err);
    if (status == MMUL_OK)
        status = mmul_program_run(context, plan, &values, &t->err);
    bool right = status == MMUL_OK;
    if (!right)
        fprintf(stderr, "# rank %d: %s\n", rank, t->err.text);
    if (right)
        find_wrong_rank(values);
    for (int i = 0; right && i < t->count; i++)
        right = is_right(t, values, i) && right;
    for (int i = 0; rank == 0 && right && i < t->saves; i++) {
        const struct known *k = &t->known[t->saved[i]];
        for (int64_t e = 0; e < elements(k->shape); e++)
            right = right && !differs((double)t->outputs[i][e], k->at[e]);
        if (!right)
            fprintf(stderr, "# output %d differs\n", i);
    }
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    return right;
}
