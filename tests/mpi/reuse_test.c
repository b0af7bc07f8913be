// np: 1 3 4 6
// SPDX-License-Identifier: MIT
//
// Programs with values that reuse each other's memory: long and random ones, with one slow rank, so
// that ranks are far apart in progress. Values that no later step reads, and saved values, equal
// plain loops.
#include "base/random.h"
#include "trial.h"

enum { TURN_BYTES = 6800 }; // two operations, with the steps of slices among their parameters

static uint64_t chance, drawn;

static int draw(int most) {
    return (int)(mmul_random_at(chance, drawn++) % (uint64_t)most);
}

// Returns the largest absolute value of an element, at least 1.
static double largest(const struct trial *t, int value) {
    double most = 1;
    for (int64_t e = 0; e < elements(t->known[value].shape); e++) {
        double x = t->known[value].at[e];
        most = x > most ? x : -x > most ? -x : most;
    }
    return most;
}

static bool may_multiply(const struct trial *t, int x, int y) {
    static const double exact = 1 << 22;
    const struct mmul_shape a = t->known[x].shape, b = t->known[y].shape;
    return a.cols == b.rows && a.depth == b.depth &&
           largest(t, x) * largest(t, y) * (double)a.cols < exact;
}

static bool may_add(const struct trial *t, int x, int y) {
    static const double exact = 1 << 22;
    const struct mmul_shape a = t->known[x].shape, b = t->known[y].shape;
    return a.rows == b.rows && a.cols == b.cols && a.depth == b.depth &&
           largest(t, x) + largest(t, y) < exact;
}

static int draw_input(struct trial *t) {
    static const int64_t sides[] = {4, 9, 14};
    const struct mmul_shape s = {1, 1 + draw(2), sides[draw(3)], sides[draw(3)]};
    return draw(2) == 0 ? load(t, s) : generate(t, s);
}

// Adds a value from random operands, recent ones more often than old ones.
static void draw_value(struct trial *t) {
    int window = draw(3) == 0 ? t->count : t->count < 6 ? t->count : 6;
    int x = t->count - 1 - draw(window), y = t->count - 1 - draw(window);
    switch (draw(8)) {
    case 0:
        draw_input(t);
        return;
    case 1:
        relu(t, x);
        return;
    case 2:
        transpose(t, x);
        return;
    case 3:
    case 4:
        place(t, x, (enum mmul_placement_kind)(MMUL_PLACE_ROWS + draw(KINDS - MMUL_PLACE_ROWS)));
        return;
    case 5:
        if (may_add(t, x, y))
            add(t, x, y);
        return;
    default:
        if (may_multiply(t, x, y))
            matmul(t, x, y);
    }
}

// Collective.
static bool random_program_is_right(struct mmul_context *context, uint64_t seed) {
    char weights[64] = "";
    struct trial t;
    chance = seed;
    drawn = 0;
    begin_trial(&t);
    for (int i = 0; i < 3; i++)
        draw_input(&t);
    for (int i = 0; i < 40; i++) {
        draw_value(&t);
        if (draw(6) == 0)
            save(&t, t.count - 1);
    }
    for (int i = 0; i < size; i++)
        sprintf(weights + strlen(weights), "%s%d", i > 0 ? "," : "", i == 0 ? 2 : draw(3));
    bool right = run_trial(context, &t, weights);
    if (!right && rank == 0)
        fprintf(stderr, "# seed %llu\n", (unsigned long long)seed);
    end_trial(&t);
    return right;
}

// x = relu(x w) many times, with w by rows, by columns and whole in turn.
static bool loop_is_right(struct mmul_context *context, int turns) {
    struct trial t;
    begin_trial(&t);
    int x = load(&t, (struct mmul_shape){1, 1, 37, 9});
    int w = generate(&t, (struct mmul_shape){1, 1, 9, 9});
    for (int i = 0; i < turns; i++) {
        if (largest(&t, x) * 9 * 4 >= 1 << 22)
            x = load(&t, (struct mmul_shape){1, 1, 37, 9});
        x = relu(&t, matmul(&t, x, w));
    }
    bool right = run_trial(context, &t, "equal");
    end_trial(&t);
    return right;
}

static void note_memory(void *context, const struct mmul_progress *progress) {
    int64_t *most = context;
    if (strcmp(progress->phase, "run") != 0) // the search for a plan frees its memory again
        return;
    *most = mmul_live_bytes() > *most ? mmul_live_bytes() : *most;
}

// Collective. Returns root's peak memory in a loop of products and other operations, beyond the
// memory in use before, such as cached plans. 0 on failure.
static int64_t measure_memory_of_loop(struct mmul_context *context, int turns) {
    const struct mmul_generated identity = {MMUL_GENERATE_IDENTITY, 0, {1, 1, 96, 96}};
    struct mmul_program *program = NULL;
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct mmul_error err;
    const int64_t before = mmul_live_bytes();
    int64_t most = 0;
    int x = 0, w = 0;
    if (rank == 0) {
        mmul_program_create(&program, &err);
        mmul_program_generate(program, identity, NULL, &w, &err);
        x = w;
        for (int i = 0; i < turns; i++) {
            mmul_program_matmul(program, x, w, NULL, &x, &err);
            mmul_program_relu(program, x, NULL, &x, &err);
        }
    }
    const struct mmul_program_options options = {
        .weights = "equal", .notice_context = &most, .progress = note_memory};
    enum mmul_status status = mmul_program_plan_create(context, program, &options, &plan, &err);
    if (status == MMUL_OK)
        status = mmul_program_run(context, plan, &values, &err);
    if (status != MMUL_OK)
        fprintf(stderr, "# rank %d: %s\n", rank, err.text);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(program);
    return status == MMUL_OK ? most - before : 0;
}

// Each turn adds only its description: operations, steps and stages, and no working memory.
static void test_memory_of_a_loop(struct mmul_context *context, const char *what) {
    const int64_t few = measure_memory_of_loop(context, 50),
                  many = measure_memory_of_loop(context, 400);
    char text[224];
    snprintf(text, sizeof text, "%s: a turn of a loop adds %lld bytes", what,
             (long long)(many - few) / 350);
    tap_ok(rank != 0 || (few > 0 && many > few && many - few < 350 * TURN_BYTES), text);
}

static void test_nodes(int nodes, const char *device, const char *slow) {
    const struct mmul_context_options options = {.device = rank == size - 1 ? slow : device};
    struct mmul_context *context = make_context(nodes, &options);
    bool right = true;
    char what[160];
    for (uint64_t seed = 1; seed <= 6; seed++)
        right = random_program_is_right(context, seed + 100 * (uint64_t)(size + nodes)) && right;
    snprintf(what, sizeof what, "%d nodes, %s and %s: random programs are right", nodes, device,
             slow);
    tap_ok(right, what);
    snprintf(what, sizeof what, "%d nodes, %s and %s: a loop is right", nodes, device, slow);
    tap_ok(loop_is_right(context, 20), what);
    tap_ok(context->replacements == 0, "no device was replaced");
    if (strcmp(device, "cpu") == 0) {
        snprintf(what, sizeof what, "%d nodes", nodes);
        test_memory_of_a_loop(context, what);
    }
    mmul_context_destroy(context);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int nodes = 1; nodes <= 3 && nodes <= size; nodes += 2)
        test_nodes(nodes, "cpu", "faulty:delay=1ms:cpu");
    test_nodes(size > 1 ? 2 : 1, "faulty:hang=1000000:cpu", "faulty:hang=1000000,delay=1ms:cpu");
    int status = tap_end();
    MPI_Finalize();
    return status;
}
