// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Values that outlive their program: a kept value is a leaf of the next program, with any placement
// and any shares; results equal plain loops. Steps that run as programs of their own are planned
// once and leak no memory. A released value is gone.
#include "base/memory.h"
#include "operation_loops.h"
#include "persistent_values.h"
#include "weightings.h"

static const struct mmul_shape TALL = {1, 1, 23, 9}, SQUARE = {1, 1, 9, 9}, STACK = {2, 3, 8, 9};

// Keeps a value in this placement, directly and with a transposed reader; then reads it with other
// shares, moves it and multiplies it.
static bool reads_value_held_as(struct mmul_context *context, struct mmul_shape shape,
                                enum mmul_placement_kind kind, enum weighting then) {
    struct trial first, second;
    char weights[64];
    begin_trial(&first);
    int x = load(&first, shape), w = generate(&first, SQUARE);
    int y = place(&first, relu(&first, matmul(&first, x, w)), kind), z = transpose(&first, y);
    int64_t numbers[] = {hold_value(&first, y), hold_value(&first, z), hold_value(&first, w)};
    save(&first, y);
    bool right = holds_on_all_ranks(run_trial(context, &first, "equal"));
    begin_trial(&second);
    int a = load_held(context, &second, numbers[0], &first.known[y]);
    int b = load_held(context, &second, numbers[1], &first.known[z]);
    int c = load_held(context, &second, numbers[2], &first.known[w]);
    save(&second, add(&second, a, transpose(&second, b)));
    save(&second, matmul(&second, b, a));
    save(&second, matmul(&second, a, c));
    save(&second, place(&second, a, MMUL_PLACE_REPLICATE));
    save(&second, b);
    right = holds_on_all_ranks(right && run_trial(context, &second, weights_text(then, weights)));
    for (int i = 0; i < 3; i++)
        release_value(context, numbers[i]);
    end_trial(&first);
    end_trial(&second);
    return right;
}

static void test_placements(struct mmul_context *context, int nodes) {
    static const enum mmul_placement_kind kinds[] = {MMUL_PLACE_ROWS, MMUL_PLACE_COLS,
                                                     MMUL_PLACE_REPLICATE, MMUL_PLACE_GRID};
    for (int k = 0; k < 4; k++) {
        bool right = true;
        char what[160];
        for (int then = 0; then < WEIGHTINGS; then++) {
            right = reads_value_held_as(context, TALL, kinds[k], (enum weighting)then) && right;
            right = reads_value_held_as(context, STACK, kinds[k], (enum weighting)then) && right;
        }
        snprintf(what, sizeof what, "%d nodes: a value kept as %s is read with other shares", nodes,
                 mmul_placement_name(kinds[k]));
        tap_ok(right, what);
    }
}

// One turn: x := relu(x w + s), with another number s each turn, and x := x with elements dropped.
// All turns have the same structure. *bytes: root's live bytes after the turn.
static bool run_turn(struct mmul_context *context, struct trial *before, int *x, int64_t *number,
                     int64_t *bytes) {
    struct trial now;
    int64_t last = *number;
    begin_trial(&now);
    int held =
        before->count > 0 ? load_held(context, &now, last, &before->known[*x]) : load(&now, TALL);
    int w = generate(&now, SQUARE), s = load(&now, (struct mmul_shape){1, 1, 1, 9});
    // Limits the elements again, so that all arithmetic stays exact.
    const struct mmul_call smaller = {
        .operation = "minimum",
        .operands = {add(&now, matmul(&now, held, w), s), MMUL_NUMBER},
        .operand_count = 2,
        .with = {.numbers = {0, 5}}};
    int y = add_known(&now, TALL), value = -1;
    for (int64_t e = 0; e < elements(TALL); e++)
        now.known[y].at[e] = fmin(now.known[smaller.operands[0]].at[e], 5);
    now.is_read[smaller.operands[0]] = true;
    enum mmul_status status =
        rank == 0 ? mmul_program_apply(now.program, &smaller, NULL, &value, &now.err) : MMUL_OK;
    check_built(&now, status, value, y);
    *x = relu(&now, y);
    *number = hold_value(&now, *x);
    const struct mmul_call half = {.operation = "dropout",
                                   .operands = {*x, MMUL_NUMBER, MMUL_NUMBER, MMUL_NUMBER},
                                   .operand_count = 4,
                                   .with = {.numbers = {0, 0.5, 1, (double)last}}};
    save(&now, apply(&now, &half));
    save(&now, *x);
    bool right = holds_on_all_ranks(run_trial(context, &now, "equal"));
    release_value(context, last);
    *bytes = mmul_live_bytes();
    end_trial(before);
    *before = now;
    return right;
}

static void test_turns(struct mmul_context *context, int nodes) {
    struct trial trial;
    bool right = true;
    int x = 0;
    int64_t number = 0, bytes = 0, early = 0;
    char what[160];
    begin_trial(&trial);
    for (int i = 0; i < 40; i++) {
        right = run_turn(context, &trial, &x, &number, &bytes) && right;
        early = i == 4 ? bytes : early;
    }
    release_value(context, number);
    end_trial(&trial);
    snprintf(what, sizeof what,
             "%d nodes: forty programs each read the value kept by the previous one", nodes);
    tap_ok(right, what);
    snprintf(what, sizeof what, "%d nodes: forty programs need two plans",
             nodes); // the first turn, later turns
    tap_ok(context->plan_count == 2, what);
    snprintf(what, sizeof what,
             "%d nodes: memory after the last program equals that after the fifth", nodes);
    tap_ok(bytes == early, what);
}

// Refused: a released value, a number never given out, and a plan that reads a value released
// before it runs.
static void test_released(struct mmul_context *context) {
    struct trial first, second, third;
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct mmul_error err = {.text = ""};
    int value = -1;
    begin_trial(&first);
    int x = load(&first, TALL);
    int64_t number = hold_value(&first, x);
    bool right = run_trial(context, &first, "equal");
    begin_trial(&second);
    int y = load_held(context, &second, number, &first.known[x]);
    save(&second, y);
    enum mmul_status status =
        mmul_program_plan_create(context, second.program, NULL, &plan, &second.err);
    release_value(context, number);
    if (rank == 0) {
        right = right && status == MMUL_OK;
        status = mmul_program_load_held(second.program, context, number, "x", &value, &err);
        char line[96];
        snprintf(line, sizeof line, "no value is held under %lld", (long long)number);
        right = right && status == MMUL_ERR_USAGE && strcmp(err.text, line) == 0;
        release_value(context, number);
        release_value(context, 123456);
    }
    tap_ok(right, "a released value cannot be read");
    begin_trial(&third);
    save(&third, load(&third, SQUARE));
    right = run_trial(context, &third, "equal"); // this run releases the value
    status = mmul_program_run(context, plan, &values, &err);
    tap_ok(right && status == MMUL_ERR_USAGE && strstr(err.text, " is no longer held") != NULL,
           "a plan that reads a released value is refused");
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    end_trial(&first);
    end_trial(&second);
    end_trial(&third);
}

enum { SIDE = 9, ELEMENTS = SIDE * SIDE };

static bool run_program(struct mmul_context *context, const struct mmul_program *program) {
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct mmul_error err = {.text = ""};
    enum mmul_status status = mmul_program_plan_create(context, program, NULL, &plan, &err);
    if (status == MMUL_OK)
        status = mmul_program_run(context, plan, &values, &err);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    return status == MMUL_OK;
}

// Root only: builds x, which is loaded, times a number, and keeps the result.
static bool build_program(struct mmul_program **program, struct mmul_matrix *x, int *loaded,
                          int *made, int64_t *held) {
    struct mmul_error err = {.text = ""};
    struct mmul_call call = {.operation = "multiply",
                             .operands = {0, MMUL_NUMBER},
                             .operand_count = 2,
                             .with = {.numbers = {0, 2}}};
    bool right = mmul_program_create(program, &err) == MMUL_OK &&
                 mmul_program_load(*program, x, loaded, &err) == MMUL_OK;
    call.operands[0] = *loaded;
    return right && mmul_program_apply(*program, &call, NULL, made, &err) == MMUL_OK &&
           mmul_program_hold(*program, *made, held, &err) == MMUL_OK;
}

// Root only: copies the kept values to memory.
static bool read_held(struct mmul_context *context, struct mmul_program **program,
                      const int64_t held[2], float found[2][ELEMENTS]) {
    struct mmul_error err = {.text = ""};
    bool right = mmul_program_create(program, &err) == MMUL_OK;
    for (int i = 0; right && i < 2; i++) {
        struct mmul_output *output = NULL;
        int value = -1;
        right =
            mmul_program_load_held(*program, context, held[i], "held", &value, &err) == MMUL_OK &&
            mmul_output_borrow(found[i], SQUARE, MMUL_F32, &output, &err) == MMUL_OK &&
            mmul_program_save(*program, value, output, &err) == MMUL_OK;
    }
    return right;
}

// A program runs again with another leaf and another number, and keeps its result under another
// number. A change that does not fit has no effect.
static void test_changed(struct mmul_context *context) {
    float elements[2][ELEMENTS], found[2][ELEMENTS];
    struct mmul_matrix *matrices[2] = {NULL, NULL}, *small = NULL;
    struct mmul_program *program = NULL, *reader = NULL;
    struct mmul_error err = {.text = ""};
    int64_t held[2] = {0, 0};
    int loaded = -1, made = -1;
    bool right = true, is_done = true;
    for (int e = 0; e < ELEMENTS; e++) {
        elements[0][e] = (float)(e % 7 - 3);
        elements[1][e] = (float)(e % 5 - 1);
    }
    for (int i = 0; rank == 0 && i < 2; i++)
        right = right && mmul_matrix_borrow(elements[i], SQUARE, MMUL_F32, "x", &matrices[i],
                                            &err) == MMUL_OK;
    if (rank == 0)
        right = right && build_program(&program, matrices[0], &loaded, &made, &held[0]) &&
                mmul_matrix_borrow(elements[0], (struct mmul_shape){1, 1, 1, SIDE}, MMUL_F32, "x",
                                   &small, &err) == MMUL_OK;
    right = holds_on_all_ranks(right) && run_program(context, program);
    struct mmul_number_change number = {.value = made, .operand = 0, .number = 3};
    struct mmul_matrix_change matrix = {.value = loaded, .matrix = small};
    const struct mmul_program_changes changes = {.struct_bytes = sizeof changes,
                                                 .numbers = &number,
                                                 .number_count = 1,
                                                 .matrices = &matrix,
                                                 .matrix_count = 1,
                                                 .hold_count = 1,
                                                 .holds = &held[1]};
    for (int i = 0; rank == 0 && i < 2; i++) { // no number there, a matrix of another shape
        right = right &&
                mmul_program_change(program, context, &changes, &is_done, &err) == MMUL_OK &&
                !is_done && held[1] == 0;
        number.operand = 1;
    }
    matrix.matrix = matrices[1];
    if (rank == 0)
        right = right &&
                mmul_program_change(program, context, &changes, &is_done, &err) == MMUL_OK &&
                is_done && held[1] != held[0];
    right = holds_on_all_ranks(right) && run_program(context, program);
    if (rank == 0)
        right = right && read_held(context, &reader, held, found);
    right = holds_on_all_ranks(right) && run_program(context, reader);
    for (int e = 0; rank == 0 && right && e < ELEMENTS; e++)
        right = found[0][e] == 2 * elements[0][e] && found[1][e] == 3 * elements[1][e];
    tap_ok(right, "a program runs again with another leaf and number; a misfit changes nothing");
    release_value(context, held[0]);
    release_value(context, held[1]);
    mmul_program_destroy(program);
    mmul_program_destroy(reader);
    for (int i = 0; i < 2; i++)
        mmul_matrix_close(matrices[i]);
    mmul_matrix_close(small);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int nodes = 1; nodes <= 3 && nodes <= size; nodes++) {
        const struct mmul_context_options options = {.device = "cpu"};
        struct mmul_context *context = make_context(nodes, &options);
        test_turns(context, nodes);
        test_placements(context, nodes);
        test_released(context);
        test_changed(context);
        mmul_context_destroy(context);
        tap_ok(mmul_live_bytes() == 0, "the library has freed all memory");
    }
    int status = tap_end();
    MPI_Finalize();
    return status;
}
