// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Every operation except products, by each of its rules, over one and several nodes. Operands are
// placed as the rule requires, and the result must have the rule's placement. Integers equal plain
// loops element by element, other results within float32 rounding. Then chains of operations, and
// failures in their middle.
#include "model/operation.h"
#include "operation_loops.h"
#include "plan/lists/program_plan.h"
#include "plan/program/program_planning.h"
#include "weightings.h"

static const struct mmul_shape STACK = {2, 3, 4, 6}, MATRIX = {1, 1, 7, 6}, VECTOR = {1, 1, 1, 6};
static const double CLOSE = 2e-6;
static const struct mmul_parameters NONE = {.axis = 0};

struct example {
    const char *operation;
    struct mmul_shape shapes[MMUL_OPERANDS]; // rows 0: a number
    int operand_count;
    struct mmul_parameters with;
    double tolerance;
    // The last operand (second or only one) holds whole numbers below this; 0: ordinary elements.
    int64_t ids;
};

// --------------------------------------------------------------------------------------- rules

static int load_ids(struct trial *t, struct mmul_shape shape, int64_t below) {
    float *data = malloc((size_t)elements(shape) * sizeof *data);
    for (int64_t i = 0; i < elements(shape); i++)
        data[i] = (float)((i * 7 + 2) % below);
    return load_data(t, shape, data);
}

static int load_operand(struct trial *t, const struct example *e, int operand) {
    const struct mmul_shape s = e->shapes[operand];
    if (e->ids == 0 || (operand != 1 && e->operand_count > 1))
        return load(t, s);
    return load_ids(t, s, e->ids);
}

// Applies the operation to operands with the rule's placements. Requests without a rule are tested
// elsewhere.
static int apply_by_rule(struct trial *t, const struct example *e, const int *loaded,
                         const struct mmul_rule *rule) {
    struct mmul_call call = {
        .operation = e->operation, .operand_count = e->operand_count, .with = e->with};
    for (int i = 0; i < e->operand_count; i++)
        call.operands[i] = loaded[i] == MMUL_NUMBER || rule->operands[i] == MMUL_PLACE_FILE
                               ? loaded[i]
                               : place(t, loaded[i], rule->operands[i]);
    int made = apply(t, &call);
    save(t, rule->result == MMUL_PLACE_FILE ? made : place(t, made, rule->result));
    return made;
}

// Returns true if the rule applies to these sizes and to the program's groups. If so, no operand
// has to move, and the result must have the rule's placement.
static bool rule_applies(const struct trial *t, const struct example *e,
                         enum mmul_operation_kind kind, const struct mmul_rule *rule, int made) {
    struct mmul_operand_info operands[MMUL_OPERANDS];
    const struct mmul_operation_call call = {operands, e->operand_count, &e->with};
    struct mmul_error err;
    int64_t groups = 1;
    if (rank == 0)
        mmul_program_find_groups(t->program, size, &groups, &err);
    MPI_Bcast(&groups, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    for (int i = 0; i < e->operand_count; i++) {
        operands[i] = (struct mmul_operand_info){.shape = e->shapes[i]};
        operands[i].is_number = e->shapes[i].rows == 0;
        if (operands[i].is_number)
            operands[i].shape = (struct mmul_shape){1, 1, 1, 1};
    }
    // Sums down the columns of a stack are whole on the ranks with the matrix's rows: an
    // alternative to partial sums.
    bool is_either = rule->result == MMUL_PLACE_PARTIAL && groups > 1;
    return !is_either && mmul_rule_fits(kind, rule, &call, t->known[made].shape, groups);
}

static const struct mmul_operation_row *find_row(const char *name, enum mmul_operation_kind *kind) {
    char text[32];
    snprintf(text, sizeof text, "%s", name);
    if (strstr(text, "_rows") != NULL) // as in operation_loops.h
        *strstr(text, "_rows") = '\0';
    return mmul_operation_find(text, kind);
}

static bool every_rule(struct mmul_context *context, const struct example *e, const char *weights) {
    enum mmul_operation_kind kind;
    const struct mmul_operation_row *row = find_row(e->operation, &kind);
    const bool by_rule = strncmp(weights, "1,1", 3) == 0 && context->cluster->node_count > 1;
    int loaded[MMUL_OPERANDS], made[16];
    struct trial t;
    begin_trial(&t);
    for (int i = 0; i < e->operand_count; i++)
        loaded[i] = e->shapes[i].rows > 0 ? load_operand(&t, e, i) : MMUL_NUMBER;
    for (int i = 0; i < row->rule_count; i++)
        made[i] = apply_by_rule(&t, e, loaded, &row->rules[i]);
    for (int i = 0; by_rule && i < row->rule_count; i++)
        if (rule_applies(&t, e, kind, &row->rules[i], made[i]))
            t.wanted[made[i]] = row->rules[i].result;
    tolerance = e->tolerance;
    bool right = run_trial(context, &t, weights);
    tolerance = 0;
    end_trial(&t);
    if (!right && rank == 0)
        fprintf(stderr, "# %s\n", e->operation);
    return right;
}

// A composite has no rules of its own: its operands are in files, or all have the same placement.
static bool every_placement(struct mmul_context *context, const struct example *e,
                            const char *weights) {
    static const enum mmul_placement_kind places[] = {
        MMUL_PLACE_FILE, MMUL_PLACE_ROWS, MMUL_PLACE_COLS, MMUL_PLACE_GRID, MMUL_PLACE_REPLICATE};
    int loaded[MMUL_OPERANDS];
    struct trial t;
    begin_trial(&t);
    for (int i = 0; i < e->operand_count; i++)
        loaded[i] = e->shapes[i].rows > 0 ? load_operand(&t, e, i) : MMUL_NUMBER;
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        struct mmul_call call = {
            .operation = e->operation, .operand_count = e->operand_count, .with = e->with};
        for (int i = 0; i < e->operand_count; i++)
            call.operands[i] = loaded[i] == MMUL_NUMBER || places[p] == MMUL_PLACE_FILE
                                   ? loaded[i]
                                   : place(&t, loaded[i], places[p]);
        save(&t, apply(&t, &call));
    }
    tolerance = e->tolerance;
    bool right = run_trial(context, &t, weights);
    tolerance = 0;
    end_trial(&t);
    if (!right && rank == 0)
        fprintf(stderr, "# %s\n", e->operation);
    return right;
}

// ------------------------------------------------------------------------------------- examples

// The elementwise operations of the table. Results without rounding errors (0 ulps) are compared
// for equality.
struct element {
    const char *name;
    double ulps;
};
static const struct element of_one[] = {
#define FUNCTION(KIND, NAME, FLOPS, ACCURACY, ULPS, ...) {#NAME, ULPS},
#define UNARY                                            FUNCTION
#include "model/operations.def"
};
static const struct element of_two[] = {
#define BINARY(KIND, NAME, COUNT, FLOPS, ACCURACY, ULPS, ...) {#NAME, ULPS},
#define BINARY_OWN                                            BINARY
#include "model/operations.def"
};

static bool unary_operations_are_right(struct mmul_context *context, const char *weights) {
    const struct example normalize = {"normalize", {MATRIX}, 1, NONE, CLOSE, 0};
    bool right = every_rule(context, &normalize, weights);
    for (size_t i = 0; i < sizeof of_one / sizeof *of_one; i++) {
        const double bound = of_one[i].ulps > 0 ? CLOSE : 0;
        const struct example e = {of_one[i].name, {bound == 0 ? STACK : MATRIX}, 1, NONE, bound, 0};
        right = every_rule(context, &e, weights) && right;
    }
    return right;
}

// Operands that repeat, on either side, and numbers.
static bool binary_operations_are_right(struct mmul_context *context, const char *weights) {
    static const struct mmul_shape shapes[][2] = {
        {{2, 3, 4, 6}, {2, 3, 4, 6}}, {{2, 3, 4, 6}, {1, 1, 1, 6}}, {{2, 3, 4, 1}, {2, 3, 4, 6}},
        {{2, 3, 1, 6}, {2, 1, 4, 6}}, {{2, 3, 4, 6}, {0}},          {{0}, {1, 1, 1, 1}}};
    enum { COUNT = sizeof shapes / sizeof *shapes };
    bool right = true;
    for (size_t i = 0; i < sizeof of_two / sizeof *of_two; i++)
        for (size_t j = i % 2; j < COUNT; j += 2) {
            const struct example e = {of_two[i].name,       {shapes[j][0], shapes[j][1]},   2,
                                      {.numbers = {3, -2}}, of_two[i].ulps > 0 ? CLOSE : 0, 0};
            right = every_rule(context, &e, weights) && right;
        }
    return right;
}

static bool all_examples(struct mmul_context *context, const struct example *examples, size_t count,
                         const char *weights) {
    bool right = true;
    for (size_t i = 0; i < count; i++)
        right = every_rule(context, &examples[i], weights) && right;
    return right;
}
#define ALL(examples) all_examples(context, examples, sizeof examples / sizeof *examples, weights)

static bool row_operations_are_right(struct mmul_context *context, const char *weights) {
    const struct example examples[] = {
        {"where", {{2, 3, 4, 6}, {1, 1, 4, 1}, {0}}, 3, {.numbers = {0, 0, -1}}, 0, 0},
        {"where", {{2, 3, 4, 6}, {2, 3, 4, 6}, {2, 3, 4, 6}}, 3, NONE, 0, 0},
        {"where", {{2, 1, 4, 1}, {0}, {1, 3, 1, 6}}, 3, {.numbers = {0, 5}}, 0, 0},
        {"softmax", {STACK}, 1, NONE, CLOSE, 0},
        {"softmax", {STACK}, 1, {.causal = true}, CLOSE, 0},
        {"rms_norm", {STACK, VECTOR}, 2, {.epsilon = 1e-5}, CLOSE, 0},
        {"layer_norm", {MATRIX}, 1, {.epsilon = 1e-5}, 2e-5, 0},
        {"layer_norm", {STACK, VECTOR, VECTOR}, 3, {.epsilon = 1e-5}, 2e-5, 0},
        {"topk", {STACK}, 1, {.count = 4}, 0, 0},
        {"argmax", {STACK}, 1, NONE, 0, 0},
        {"argmin", {STACK}, 1, NONE, 0, 0},
        {"sort", {STACK}, 1, NONE, 0, 0},
        {"sort", {MATRIX}, 1, {.descending = true}, 0, 0},
        {"argsort", {STACK}, 1, {.descending = true}, 0, 0},
        {"argsort", {MATRIX}, 1, NONE, 0, 0},
        {"sort_backward", {STACK, STACK}, 2, NONE, 0, 6},
        {"sort_backward", {MATRIX, MATRIX}, 2, NONE, 0, 6},
        {"rope", {STACK}, 1, {.base = 10, .scale = -1}, CLOSE, 0},
        {"rope", {STACK}, 1, {.base = 10}, CLOSE, 0},
        {"rope", {MATRIX}, 1, {.base = 100, .interleaved = true}, CLOSE, 0},
        {"sum", {STACK}, 1, {.axis = -1}, 0, 0},
        {"mean", {MATRIX}, 1, {.axis = -1}, CLOSE, 0},
        {"max", {STACK}, 1, {.axis = -1}, 0, 0},
        {"sum", {STACK}, 1, {.axis = -2}, 0, 0},
        {"sum", {{1, 1, 64, 6}}, 1, {.axis = -2}, 0, 0},
        {"mean", {STACK}, 1, {.axis = -2}, CLOSE, 0},
        {"mean", {MATRIX}, 1, {.axis = -2}, CLOSE, 0},
        {"max", {MATRIX}, 1, {.axis = -2}, 0, 0},
        {"min", {STACK}, 1, {.axis = -2}, 0, 0}};
    return ALL(examples);
}

static bool losses_are_right(struct mmul_context *context, const char *weights) {
    const struct mmul_shape column = {2, 3, 4, 1}, beside = {1, 1, 7, 1}, tall = {1, 1, 64, 6};
    const struct example examples[] = {
        {"cumsum", {STACK}, 1, {.axis = -1}, 0, 0},
        {"one_hot_rows", {column}, 1, {.count = 6}, 0, 6},
        {"cross_entropy_rows", {STACK, column}, 2, NONE, CLOSE, 6},
        {"cross_entropy_rows", {MATRIX, beside}, 2, NONE, CLOSE, 6},
        {"cross_entropy_backward", {STACK, column, column}, 3, NONE, CLOSE, 6},
        {"cross_entropy_backward", {MATRIX, beside, beside}, 3, NONE, CLOSE, 6},
        {"softmax_backward", {STACK, STACK}, 2, NONE, 0, 0},
        {"rms_norm_backward", {STACK, STACK}, 2, {.epsilon = 1e-5}, 2e-5, 0},
        {"rms_norm_backward", {MATRIX, MATRIX, VECTOR}, 3, {.epsilon = 1e-5}, 2e-5, 0},
        {"layer_norm_backward", {MATRIX, MATRIX}, 2, {.epsilon = 1e-5}, 2e-5, 0},
        {"layer_norm_backward", {STACK, STACK, VECTOR}, 3, {.epsilon = 1e-5}, 2e-5, 0},
        {"sum_at", {MATRIX, beside}, 2, {.axis = -2, .count = 5}, 0, 5},
        {"sum_at", {MATRIX, beside}, 2, {.axis = -2, .count = 23}, 0, 11},
        {"sum_at", {tall, {1, 1, 64, 1}}, 2, {.axis = -2, .count = 3}, 0, 3}};
    return ALL(examples);
}

static bool composites_are_right(struct mmul_context *context, const char *weights) {
    static const char *const reductions[] = {"sum", "mean", "max", "min", "var", "std"};
    const struct mmul_shape ids = {1, 2, 3, 4}, column = {2, 3, 4, 1}, table = {1, 1, 11, 6};
    const struct example examples[] = {
        {"cumsum", {STACK}, 1, {.axis = -2}, 0, 0},
        {"cumsum", {STACK}, 1, {.axis = -3}, 0, 0},
        {"cumsum", {STACK}, 1, {.axis = -4}, 0, 0},
        {"sort", {MATRIX}, 1, {.axis = -2}, 0, 0},
        {"sort", {STACK}, 1, {.axis = -4, .descending = true}, 0, 0},
        {"argsort", {STACK}, 1, {.axis = -2, .descending = true}, 0, 0},
        {"argsort", {STACK}, 1, {.axis = -3}, 0, 0},
        {"one_hot", {{1, 1, 7, 3}}, 1, {.count = 5}, 0, 5},
        {"one_hot", {ids}, 1, {.count = 9}, 0, 7},
        {"cross_entropy", {STACK, ids}, 2, NONE, CLOSE, 6},
        {"cross_entropy", {STACK, column}, 2, NONE, CLOSE, 6},
        {"cross_entropy", {MATRIX, {1, 1, 1, 7}}, 2, NONE, CLOSE, 6},
        {"add_at", {table, {1, 1, 1, 7}, MATRIX}, 3, NONE, 0, 11},
        {"add_at", {table, ids, STACK}, 3, NONE, 0, 11},
        {"add_at", {table, column, STACK}, 3, NONE, 0, 11},
        {"mse", {STACK, STACK}, 2, NONE, CLOSE, 0},
        {"mse", {MATRIX, MATRIX}, 2, NONE, CLOSE, 0},
        {"binary_cross_entropy", {STACK, STACK}, 2, NONE, CLOSE, 0},
        {"stop_gradient", {STACK}, 1, NONE, 0, 0},
        {"dropout", {STACK}, 4, {.numbers = {0, 0.75, 3, 5}}, 0, 0},
        {"dropout", {MATRIX}, 4, {.numbers = {0, 0.5, 1, 70000}}, 0, 0}};
    bool right = true;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        right = every_placement(context, &examples[i], weights) && right;
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        for (int axis = i < 4 ? -3 : -1; axis >= -5; axis--) { // -5: all of them
            const struct example e = {
                reductions[i], {STACK}, 1, {.axis = axis % 5}, i == 1 || i > 3 ? CLOSE : 0, 0};
            right = every_placement(context, &e, weights) && right;
        }
    return right;
}

static bool lookups_are_right(struct mmul_context *context, const char *weights) {
    const struct example examples[] = {
        {"slice", {STACK}, 1, {.begin = {1, 1, 0, 0}, .end = {2, 3, 4, 6}}, 0, 0},
        {"slice", {STACK}, 1, {.begin = {0, 0, 1, 2}, .end = {2, 3, 3, 5}}, 0, 0},
        {"slice", {STACK}, 1, {.begin = {0, 0, 0, 3}, .end = {2, 3, 4, 6}}, 0, 0},
        {"slice", {MATRIX}, 1, {.begin = {0, 0, 2, 0}, .end = {1, 1, 6, 6}}, 0, 0},
        {"slice",
         {STACK},
         1,
         {.begin = {1, 2, 3, 5}, .end = {-1, -1, -1, -1}, .step = {-1, -2, -1, -3}},
         0,
         0},
        {"slice",
         {STACK},
         1,
         {.begin = {0, 0, 1, 0}, .end = {2, 3, 4, 6}, .step = {1, 2, 2, 4}},
         0,
         0},
        {"slice",
         {MATRIX},
         1,
         {.begin = {0, 0, 6, 0}, .end = {1, 1, 0, 6}, .step = {0, 0, -2, 0}},
         0,
         0},
        {"slice",
         {MATRIX},
         1,
         {.begin = {0, 0, 0, 5}, .end = {1, 1, 7, -1}, .step = {0, 0, 0, -1}},
         0,
         0},
        {"reshape", {STACK}, 1, {.shape = {1, 1, 24, 6}}, 0, 0},
        {"reshape", {STACK}, 1, {.shape = {1, 6, 2, 12}}, 0, 0},
        {"reshape", {STACK}, 1, {.shape = {1, 1, 9, 16}}, 0, 0},
        {"reshape", {MATRIX}, 1, {.shape = {1, 7, 2, 3}}, 0, 0},
        {"permute", {STACK}, 1, {.axes = {0, 2, 1, 3}}, 0, 0},
        {"permute", {STACK}, 1, {.axes = {0, 1, 3, 2}}, 0, 0},
        {"permute", {STACK}, 1, {.axes = {3, 1, 0, 2}}, 0, 0},
        {"permute", {{1, 6, 4, 2}}, 1, {.axes = {1, 0, 2, 3}}, 0, 0},
        {"concat", {STACK, STACK}, 2, {.axis = -1}, 0, 0},
        {"concat", {STACK, {2, 3, 5, 6}}, 2, {.axis = -2}, 0, 0},
        {"concat", {STACK, {2, 1, 4, 6}}, 2, {.axis = -3}, 0, 0},
        {"concat", {STACK, {3, 3, 4, 6}}, 2, {.axis = -4}, 0, 0},
        {"take", {MATRIX, {1, 1, 1, 11}}, 2, NONE, 0, 7},
        {"take", {MATRIX, {1, 1, 4, 3}}, 2, NONE, 0, 7},
        {"take", {MATRIX, {1, 2, 4, 3}}, 2, NONE, 0, 7}};
    return ALL(examples);
}

static bool attention_is_right(struct mmul_context *context, const char *weights) {
    const struct mmul_shape q = {2, 4, 5, 6}, k = {2, 2, 7, 6}, v = {2, 2, 7, 3};
    const struct mmul_shape one = {1, 1, 5, 6}, mask = {2, 1, 1, 7}, all = {2, 4, 5, 7};
    const struct mmul_parameters with = {.scale = 0.25}, causal = {.scale = 0.25, .causal = true};
    const struct example examples[] = {
        {"attention", {q, k, v}, 3, with, CLOSE, 0},
        {"attention", {q, k, v}, 3, causal, CLOSE, 0},
        {"attention", {q, k, v, mask}, 4, with, CLOSE, 0},
        {"attention", {q, k, v, all}, 4, causal, CLOSE, 0},
        {"attention", {{1, 10, 5, 6}, {1, 5, 7, 6}, {1, 5, 7, 2}}, 3, with, CLOSE, 0},
        {"attention", {one, one, one}, 3, causal, CLOSE, 0}};
    return ALL(examples);
}

// Selects weightings: many ranks try one weighting per group, each group another one; up to three
// ranks try all.
static bool is_in_turn(int w, int i, int nodes) {
    return size <= WEIGHTINGS || (w + i + nodes) % WEIGHTINGS == 0;
}

static void test_rules(struct mmul_context *context, int nodes) {
    static const struct {
        bool (*run)(struct mmul_context *, const char *);
        const char *what;
    } groups[] = {{unary_operations_are_right, "elementwise operations on one value are right"},
                  {binary_operations_are_right, "elementwise operations on two values are right"},
                  {row_operations_are_right, "operations on rows and axes are right"},
                  {losses_are_right, "prefix sums, losses and their gradients are right"},
                  {composites_are_right, "composites are right"},
                  {lookups_are_right, "copies and lookups are right"},
                  {attention_is_right, "attention is right"}};
    for (int w = 0; w < (size > 1 ? (int)WEIGHTINGS : 1); w++)
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
            char weights[64], what[160];
            if (!is_in_turn(w, (int)i, nodes))
                continue;
            bool right = groups[i].run(context, weights_text((enum weighting)w, weights));
            snprintf(what, sizeof what, "%d nodes, weights %s: %s", nodes, weights, groups[i].what);
            tap_ok(right, what);
        }
}

// --------------------------------------------------------------------------------------- chains

static int apply_unary(struct trial *t, const char *operation, int x, struct mmul_parameters with) {
    return apply(t, &(struct mmul_call){
                        .operation = operation, .operands = {x}, .operand_count = 1, .with = with});
}

static int apply_binary(struct trial *t, const char *operation, int x, int y) {
    return apply(
        t, &(struct mmul_call){.operation = operation, .operands = {x, y}, .operand_count = 2});
}

static int scaled(struct trial *t, int x, double by) {
    return apply(t, &(struct mmul_call){.operation = "multiply",
                                        .operands = {x, MMUL_NUMBER},
                                        .operand_count = 2,
                                        .with = {.numbers = {0, by}}});
}

static int load_weights(struct trial *t, int64_t rows, int64_t cols) {
    return scaled(t, load(t, (struct mmul_shape){1, 1, rows, cols}), 0.125);
}

// Splits attention heads per text: (texts, words, width) to (texts, heads, words, width / heads).
enum { TEXTS = 6, WORDS = 3, HEADS = 2, WIDTH = 8 };
static int split_heads(struct trial *t, int x) {
    const struct mmul_parameters apart = {.shape = {TEXTS, WORDS, HEADS, WIDTH / HEADS}},
                                 swap = {.axes = {0, 2, 1, 3}};
    return apply_unary(t, "permute", apply_unary(t, "reshape", x, apart), swap);
}

// A layer of a sentence model that ends in a vector of length 1 for each text.
static bool layer_is_right(struct mmul_context *context, const char *weights) {
    const struct mmul_parameters flat = {.shape = {1, 1, TEXTS * WORDS, WIDTH}},
                                 texts = {.shape = {1, TEXTS, WORDS, WIDTH}},
                                 swap = {.axes = {0, 2, 1, 3}};
    struct trial t;
    begin_trial(&t);
    int ids = load_ids(&t, (struct mmul_shape){1, 1, TEXTS, WORDS}, 11);
    int words = load_weights(&t, 11, WIDTH), places = load_weights(&t, WORDS, WIDTH);
    int x = apply_unary(&t, "layer_norm",
                        apply_binary(&t, "add", apply_binary(&t, "take", words, ids), places),
                        (struct mmul_parameters){.epsilon = 1e-5});
    int rows = apply_unary(&t, "reshape", x, flat), heads[3];
    for (int i = 0; i < 3; i++)
        heads[i] = split_heads(&t, matmul(&t, rows, load_weights(&t, WIDTH, WIDTH)));
    int y = apply(&t, &(struct mmul_call){.operation = "attention",
                                          .operands = {heads[0], heads[1], heads[2]},
                                          .operand_count = 3,
                                          .with = {.scale = 0.5}});
    y = apply_unary(&t, "reshape", apply_unary(&t, "permute", y, swap), flat);
    y = add(&t, matmul(&t, y, load_weights(&t, WIDTH, WIDTH)), rows);
    y = apply_unary(&t, "gelu", y, NONE);
    y = apply_unary(&t, "mean", apply_unary(&t, "reshape", y, texts),
                    (struct mmul_parameters){.axis = -2});
    save(&t, apply_unary(&t, "normalize", y, NONE));
    bool right = run_trial(context, &t, weights);
    end_trial(&t);
    return right;
}

// Stacked products, attention scores step by step, transposed reads, and sums of partial sums.
static bool stacks_are_right(struct mmul_context *context, const char *weights) {
    const struct mmul_shape s = {2, 5, 4, 6};
    struct trial t;
    begin_trial(&t);
    int q = scaled(&t, load(&t, s), 0.25), k = generate(&t, s), v = load(&t, s);
    q = place(&t, q, MMUL_PLACE_ROWS);
    k = place(&t, k, MMUL_PLACE_ROWS);
    int scores = matmul(&t, q, transpose(&t, k));
    int y = matmul(&t, apply_unary(&t, "softmax", scores, (struct mmul_parameters){.causal = true}),
                   place(&t, v, MMUL_PLACE_ROWS));
    save(&t, y);
    save(&t, matmul(&t, transpose(&t, y), y));
    int w = load_weights(&t, 6, 7);
    save(&t, matmul(&t, y, w));
    save(&t, matmul(&t, transpose(&t, y), load_weights(&t, 4, 3)));
    save(&t, matmul(&t, load(&t, s), w));
    const struct mmul_parameters flat = {.shape = {1, 1, 40, 6}}, down = {.axis = -2};
    int transposed = apply_unary(&t, "reshape", transpose(&t, y), flat);
    save(&t, transposed);
    int sum = place(&t, apply_unary(&t, "sum", apply_unary(&t, "reshape", k, flat), down),
                    MMUL_PLACE_PARTIAL);
    int mean = place(&t, apply_unary(&t, "mean", transposed, down), MMUL_PLACE_PARTIAL);
    save(&t, apply_binary(&t, "subtract", place(&t, add(&t, sum, mean), MMUL_PLACE_PARTIAL), mean));
    save(&t, apply_unary(&t, "max", place(&t, transposed, MMUL_PLACE_ROWS), down));
    bool right = run_trial(context, &t, weights);
    end_trial(&t);
    return right;
}

static void test_chains(struct mmul_context *context, int nodes) {
    for (int w = 0; w < (size > 1 ? (int)WEIGHTINGS : 1); w++) {
        char weights[64], what[160];
        weights_text((enum weighting)w, weights);
        tolerance = 2e-5;
        for (int turn = 0; turn < 2; turn++) {
            if (!is_in_turn(w, turn, nodes))
                continue;
            keeps = turn > 0;
            bool layer = layer_is_right(context, weights),
                 rest = stacks_are_right(context, weights);
            snprintf(what, sizeof what, "%d nodes, weights %s, %s: a model's layer is right", nodes,
                     weights, keeps ? "all kept" : "results alone");
            tap_ok(layer, what);
            snprintf(what, sizeof what, "%d nodes, weights %s, %s: stacks are right", nodes,
                     weights, keeps ? "all kept" : "results alone");
            tap_ok(rest, what);
        }
        keeps = false;
        tolerance = 0;
    }
}

// Collective. Returns true if every rank has root's error text and this status.
static bool fails_on_all_ranks(enum mmul_status status, enum mmul_status expected,
                               const struct mmul_error *err, const char *text) {
    char words[sizeof err->text];
    memcpy(words, err->text, sizeof words);
    MPI_Bcast(words, sizeof words, MPI_CHAR, 0, MPI_COMM_WORLD);
    const char *said = strstr(words, text); // behind the rank that reports the error
    bool good = status == expected && strcmp(words, err->text) == 0 && said != NULL &&
                strcmp(said, text) == 0 && strchr(words, '\n') == NULL;
    if (!good)
        fprintf(stderr, "# rank %d: status %d: %s\n", rank, (int)status, err->text);
    return good;
}

// The last index is outside of its table. Only one rank sees this, with operations before and
// after. Indices and table are in files, or both on the ranks.
static void test_an_index_outside(struct mmul_context *context, int nodes, bool in_files) {
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    char what[96];
    struct trial t;
    begin_trial(&t);
    int table = load(&t, (struct mmul_shape){1, 1, 11, 4});
    table = in_files ? table : relu(&t, table);
    int ids = load_ids(&t, (struct mmul_shape){1, 1, 1, 40}, 11);
    t.memory[t.inputs - 1][39] = 11;
    int value = -1;
    ids = in_files ? ids : place(&t, ids, MMUL_PLACE_COLS);
    if (rank == 0)
        mmul_program_apply(
            t.program,
            &(struct mmul_call){.operation = "take", .operands = {table, ids}, .operand_count = 2},
            "rows", &value, &t.err);
    if (rank == 0)
        mmul_program_relu(t.program, value, NULL, NULL, &t.err);
    const struct mmul_program_options options = {.weights = "equal"};
    enum mmul_status status = mmul_program_plan_create(context, t.program, &options, &plan, &t.err);
    if (status == MMUL_OK)
        status = mmul_program_run(context, plan, &values, &t.err);
    snprintf(what, sizeof what, "%d nodes: an index outside its table fails on all ranks", nodes);
    tap_ok(fails_on_all_ranks(status, MMUL_ERR_DATA, &t.err,
                              in_files ? "cannot read row 11 of 'X', which has 11 rows"
                                       : "cannot read row 11 of 'value 1', which has 11 rows"),
           what);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    end_trial(&t);
}

// As above, for operations that count or select by indices within their rows.
static void test_an_index_beside(struct mmul_context *context, int nodes, const char *operation) {
    const struct mmul_shape rows = {1, 1, 40, 11}, column = {1, 1, 40, 1};
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    char what[96], line[96];
    struct trial t;
    begin_trial(&t);
    int x = place(&t, load(&t, rows), MMUL_PLACE_ROWS);
    int ids = load_ids(&t, column, 11);
    t.memory[t.inputs - 1][39] = 11;
    ids = place(&t, ids, MMUL_PLACE_ROWS);
    const struct mmul_call call = {.operation = operation,
                                   .operands = {x, ids},
                                   .operand_count = 2,
                                   .with = {.axis = -2, .count = 11}};
    int value = -1;
    if (rank == 0)
        append(&t, &call, &value);
    if (rank == 0)
        mmul_program_relu(t.program, value, NULL, NULL, &t.err);
    const struct mmul_program_options options = {.weights = "equal"};
    enum mmul_status status = mmul_program_plan_create(context, t.program, &options, &plan, &t.err);
    if (status == MMUL_OK)
        status = mmul_program_run(context, plan, &values, &t.err);
    snprintf(what, sizeof what, "%d nodes: %s with too large an index fails on all ranks", nodes,
             operation);
    snprintf(line, sizeof line,
             "'value 3' contains 11, but %s needs whole numbers from 0 to 10 as indices",
             operation);
    tap_ok(fails_on_all_ranks(status, MMUL_ERR_DATA, &t.err, line), what);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    end_trial(&t);
}

// One rank with a device that has memory of its own: PoCL, and a CPU with buffers separate from
// host memory.
static void test_devices(struct mmul_probe *probe) {
    const char *devices[] = {"faulty:hang=1000000:cpu", "0:0"};
    const struct mmul_device_info *infos;
    int count = mmul_probe_devices(probe, &infos);
    for (int i = 0; i < 2; i++) {
        const struct mmul_context_options options = {.device = devices[i], .probe = probe};
        if (i == 1 && count == 0) {
            printf("ok %d - operations on OpenCL # SKIP opencl: no device\n", ++tap_points);
            continue;
        }
        char what[64];
        printf("# on %s\n", devices[i]);
        struct mmul_context *context = make_context(1, &options);
        test_rules(context, 1);
        test_chains(context, 1);
        snprintf(what, sizeof what, "%s computed every result itself", devices[i]);
        tap_ok(context->replacements == 0, what);
        mmul_context_destroy(context);
    }
}

// Elementwise operations on a product follow its panels one by one. A slow link to slow devices
// makes the plan choose many panels.
static bool chains_of_panels_are_right(struct mmul_context *context) {
    const struct mmul_link link = {1e8, 1e-5};
    const struct mmul_shape tall = {1, 1, 700, 256}, wide = {1, 1, 256, 700},
                            square = {1, 1, 256, 256};
    struct trial t;
    begin_trial(&t);
    for (int i = 0; i < size; i++) {
        struct mmul_rank_info *info = &context->cluster->ranks[i];
        info->speed_flops = 1e8;
        for (int j = 0; j < MMUL_SPEED_POINTS; j++)
            info->speed.flops[j] = info->speed_flops;
    }
    for (int i = 0; i < context->cluster->node_count; i++)
        context->cluster->nodes[i].root_link = context->cluster->nodes[i].ring_link = link;
    int x = place(&t, load(&t, tall), MMUL_PLACE_ROWS);
    int more = place(&t, load(&t, tall), MMUL_PLACE_ROWS);
    int shift = load(&t, (struct mmul_shape){1, 1, 1, 256});
    int made = matmul(&t, x, load(&t, square));
    save(&t, place(&t, relu(&t, add(&t, add(&t, made, shift), more)), MMUL_PLACE_ROWS));
    x = place(&t, load(&t, wide), MMUL_PLACE_COLS);
    more = place(&t, load(&t, wide), MMUL_PLACE_COLS);
    shift = load(&t, (struct mmul_shape){1, 1, 256, 1});
    made = matmul(&t, load(&t, square), x);
    save(&t, place(&t, relu(&t, add(&t, add(&t, made, shift), more)), MMUL_PLACE_COLS));
    io = MMUL_IO_ROOT;
    bool right = run_trial(context, &t, "equal");
    io = MMUL_IO_AUTO;
    end_trial(&t);
    return right;
}

// The last rank's device fails or errs in the middle.
static void test_chains_of_panels(void) {
    static const char *const devices[] = {"cpu", "faulty:fail=2:cpu", "faulty:corrupt=3:cpu"};
    for (int i = 0; i < 3; i++) {
        const struct mmul_context_options options = {.device =
                                                         rank == size - 1 ? devices[i] : "cpu"};
        struct mmul_context *context = make_context(size, &options);
        char what[96];
        snprintf(what, sizeof what, "%s: chains on products in panels are right", devices[i]);
        tap_ok(chains_of_panels_are_right(context), what);
        mmul_context_destroy(context);
    }
}

int main(int argc, char **argv) {
    const struct mmul_context_options cpu = {.device = "cpu"};
    const struct mmul_probe_options ask = {.limit_seconds = 60};
    struct mmul_probe *probe = NULL;
    struct mmul_error err;
    int provided;
    if (mmul_probe_create(&ask, &probe, &err) != MMUL_OK)
        return 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int nodes = 1; nodes <= size; nodes += size > 1 ? size - 1 : 1) {
        struct mmul_context *context = make_context(nodes, &cpu);
        test_rules(context, nodes);
        test_chains(context, nodes);
        test_an_index_outside(context, nodes, false);
        test_an_index_outside(context, nodes, true);
        test_an_index_beside(context, nodes, "cross_entropy");
        test_an_index_beside(context, nodes, "sum_at");
        mmul_context_destroy(context);
    }
    if (size == 1)
        test_devices(probe);
    else
        test_chains_of_panels();
    mmul_probe_destroy(probe);
    int status = tap_end();
    MPI_Finalize();
    return status;
}
