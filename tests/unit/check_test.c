// SPDX-License-Identifier: MIT
//
// The result check finds the faults that it promises to find, in exactly the lines with a fault,
// and raises no alarm on correct products of all kinds. Lines are rows, and columns in panels.
#include "check_bench.h"

// -------------------------------------------------------------------------------------- finding

// C of a 1000^3 product, a copy to restore it, and C of another product.
struct faults {
    struct bench bench, other;
    float *right;
    float rms;
};

// Each fault spoils C at a place drawn from `seed` and marks the lines it touched.

static void mark_touched(const struct faults *faults, int64_t i, int64_t j,
                         unsigned char *touched) {
    touched[faults->bench.columns ? j : i] = 1;
}

static void fault_element(struct faults *faults, uint64_t seed, unsigned char *touched) {
    int64_t i = below(seed, 0, faults->bench.product.m),
            j = below(seed, 1, faults->bench.product.n);
    *c_at(&faults->bench, i, j) +=
        unit_at(seed, 2) < 0.5 ? 0.1F * faults->rms : -0.1F * faults->rms;
    mark_touched(faults, i, j, touched);
}

static void overwrite_block(struct faults *faults, uint64_t seed, bool stale,
                            unsigned char *touched) {
    enum { SIDE = 32 };
    int64_t i_begin = below(seed, 0, faults->bench.product.m - SIDE);
    int64_t j_begin = below(seed, 1, faults->bench.product.n - SIDE);
    for (int64_t i = i_begin; i < i_begin + SIDE; i++) {
        for (int64_t j = j_begin; j < j_begin + SIDE; j++) {
            *c_at(&faults->bench, i, j) = stale ? *c_at(&faults->other, i, j) : 0;
            mark_touched(faults, i, j, touched);
        }
    }
}

static void fault_zeroed_block(struct faults *faults, uint64_t seed, unsigned char *touched) {
    overwrite_block(faults, seed, false, touched);
}

static void fault_stale_block(struct faults *faults, uint64_t seed, unsigned char *touched) {
    overwrite_block(faults, seed, true, touched);
}

static void swap(float *x, float *y) {
    float kept = *x;
    *x = *y;
    *y = kept;
}

static void fault_swapped_rows(struct faults *faults, uint64_t seed, unsigned char *touched) {
    int64_t m = faults->bench.product.m, i = below(seed, 0, m);
    int64_t other = (i + 1 + below(seed, 1, m - 1)) % m;
    for (int64_t j = 0; j < faults->bench.product.n; j++) {
        swap(c_at(&faults->bench, i, j), c_at(&faults->bench, other, j));
        mark_touched(faults, i, j, touched);
        mark_touched(faults, other, j, touched);
    }
}

static void fault_swapped_columns(struct faults *faults, uint64_t seed, unsigned char *touched) {
    int64_t n = faults->bench.product.n, j = below(seed, 0, n);
    int64_t other = (j + 1 + below(seed, 1, n - 1)) % n;
    for (int64_t i = 0; i < faults->bench.product.m; i++) {
        swap(c_at(&faults->bench, i, j), c_at(&faults->bench, i, other));
        mark_touched(faults, i, j, touched);
        mark_touched(faults, i, other, touched);
    }
}

static void assert_found(struct faults *faults, uint64_t seed,
                         void (*spoil)(struct faults *, uint64_t, unsigned char *)) {
    int64_t lines = judged_product(&faults->bench).m, touched_count = 0, missed = 0;
    unsigned char *touched = calloc((size_t)lines, 1);
    spoil(faults, seed, touched);
    assert_true(count_wrong(&faults->bench, seed) > 0);
    for (int64_t line = 0; line < lines; line++) {
        assert_true(faults->bench.wrong[line] <= touched[line]);
        touched_count += touched[line];
        missed += touched[line] && !faults->bench.wrong[line];
    }
    // Many changed elements of a line may, rarely, cancel in the sum; the other lines still reveal
    // the fault.
    assert_true(missed <= touched_count / 3);
    memcpy(faults->bench.c, faults->right,
           (size_t)(faults->bench.product.m * faults->bench.product.ldc) * sizeof(float));
    free(touched);
}

// A quarter of the trials: for a fault in all lines the check inspects each line twice.
static void assert_all_found(struct faults *faults) {
    void (*const spoilers[])(struct faults *, uint64_t, unsigned char *) = {
        fault_element, fault_zeroed_block, fault_stale_block, fault_swapped_rows,
        fault_swapped_columns};
    for (int trial = 0; trial < (trials() + 3) / 4; trial++)
        for (size_t s = 0; s < sizeof spoilers / sizeof spoilers[0]; s++)
            assert_found(faults, (uint64_t)trial * 8 + s, spoilers[s]);
}

static void every_fault_is_found_in_exactly_its_lines(void **state) {
    (void)state;
    struct mmul_product shape = {.m = 1000, .n = 1000, .k = 1000, .alpha = 1};
    struct faults faults;
    setup(&faults.bench, shape, NORMAL, SIGNED, 1);
    setup(&faults.other, shape, NORMAL, SIGNED, 2);
    multiply(&faults.bench, BLAS);
    multiply(&faults.other, BLAS);
    size_t bytes = (size_t)(shape.m * faults.bench.product.ldc) * sizeof(float);
    faults.right = malloc(bytes);
    memcpy(faults.right, faults.bench.c, bytes);
    faults.rms = c_rms(&faults.bench, 0, shape.m, 0, shape.n);
    assert_all_found(&faults);
    judge_in_columns(&faults.bench, 130);
    assert_all_found(&faults);
    free(faults.right);
    mmul_check_destroy(faults.other.check);
    faults.other.check = NULL;
    teardown(&faults.bench);
    teardown(&faults.other);
}

// Multiplies element `cross` of the line by 1.1, at another place in each trial: the check finds
// this line and no other. Without the change it finds none.
static void assert_alone(struct bench *bench, int64_t line, int64_t length) {
    for (int trial = 0; trial < trials(); trial++) {
        uint64_t seed = (uint64_t)trial;
        assert_int_equal(count_wrong(bench, seed), 0);
        float *spoiled = line_at(bench, line, below(seed, 0, length)), right = *spoiled;
        *spoiled *= 1.1F;
        assert_int_equal(count_wrong(bench, seed), 1);
        assert_int_equal(bench->wrong[line], 1);
        *spoiled = right;
    }
}

// An error of 10 % of a small column's elements is found, whatever the size of other columns.
static void small_columns_are_guarded_like_large_ones(void **state) {
    (void)state;
    for (int columns = 0; columns < 2; columns++) {
        struct bench bench;
        struct mmul_product shape = {.m = 50, .n = 300, .k = 200, .alpha = 1};
        setup_lines(&bench, shape, NORMAL, columns ? ROW_SCALED : COL_SCALED, 3, columns);
        multiply(&bench, BLAS);
        for (int64_t cross = 0; cross < shape.n; cross++) {
            float *spoiled = line_at(&bench, cross % shape.m, cross), right = *spoiled;
            *spoiled += 0.1F * (columns ? c_rms(&bench, cross, cross + 1, 0, shape.m)
                                        : c_rms(&bench, 0, shape.m, cross, cross + 1));
            assert_int_equal(count_wrong(&bench, (uint64_t)cross), 1);
            assert_int_equal(bench.wrong[cross % shape.m], 1);
            *spoiled = right;
        }
        teardown(&bench);
    }
}

// Equal terms have equal rounding errors: each element's error is far beyond chance, and no fault.
static void equal_numbers_are_no_alarm_and_hide_no_fault(void **state) {
    (void)state;
    for (int columns = 0; columns < 2; columns++) {
        struct bench bench;
        struct mmul_product shape = {.m = 20, .n = 2000, .k = 1500, .alpha = 1};
        setup_lines(&bench, shape, CONSTANT, CONSTANT, 4, columns);
        multiply(&bench, SEQUENTIAL);
        assert_alone(&bench, 7, shape.n);
        teardown(&bench);
    }
}

// Data of one sign, in panels: the rounding errors of all lines have the same sign.
static void numbers_of_one_sign_are_no_alarm_and_hide_no_fault(void **state) {
    (void)state;
    for (int columns = 0; columns < 2; columns++) {
        struct bench bench;
        struct mmul_product shape = {.m = 20, .n = 700, .k = 3000, .alpha = 1};
        setup_lines(&bench, shape, UNIT, UNIT, 6, columns);
        multiply(&bench, SEQUENTIAL);
        assert_alone(&bench, 13, shape.n);
        teardown(&bench);
    }
}

// Two columns of the common operand round alike again and again, the others do not. A sample may
// miss these two.
static void a_few_rough_columns_are_no_alarm_and_hide_no_fault(void **state) {
    (void)state;
    for (int columns = 0; columns < 2; columns++) {
        struct bench bench;
        struct mmul_product shape = {.m = 20, .n = 300, .k = 4000, .alpha = 1};
        setup_lines(&bench, shape, CONSTANT, UNIT, 5, columns);
        bench.product.a = bench.a;
        bench.product.b = bench.b;
        for (int64_t p = 0; p < shape.k; p++) {
            *cross_at(&bench, p, 31) = 0.5F;
            *cross_at(&bench, p, 211) = 0.9F;
        }
        multiply(&bench, SEQUENTIAL);
        assert_alone(&bench, 11, shape.n);
        teardown(&bench);
    }
}

// ------------------------------------------------------------------------------ no false alarms

static int64_t draw_size(uint64_t seed, int64_t at, enum maker maker) {
    int64_t kind = below(seed, at, 10), bound = maker == BLAS ? 300 : 60;
    if (kind == 0)
        return 1;
    if (kind == 1)
        return 1 + below(seed, at + 1, 5);
    return 1 + below(seed, at + 1, bound);
}

// The seed determines all properties of the product.
static void draw_product(uint64_t seed, struct bench *bench, enum maker maker) {
    static const float alphas[] = {1, 1, -2.5F, 1e-3F}, betas[] = {0, 0, 1, -0.5F};
    struct mmul_product shape = {
        .m = draw_size(seed, 0, maker),
        .n = draw_size(seed, 2, maker),
        .k = seed % 50 == 0 ? 5000 + below(seed, 4, 15000) : draw_size(seed, 4, maker),
        .transpose_a = below(seed, 6, 2) != 0,
        .transpose_b = below(seed, 7, 2) != 0,
        .alpha = alphas[below(seed, 8, 4)],
        .beta = betas[below(seed, 9, 4)],
        .a_dtype = below(seed, 10, 2) != 0 ? MMUL_F32 : (enum mmul_dtype)below(seed, 11, 3),
        .b_dtype = below(seed, 12, 2) != 0 ? MMUL_F32 : (enum mmul_dtype)below(seed, 13, 3),
    };
    enum kind kind_a = (enum kind)below(seed, 14, KIND_COUNT);
    enum kind kind_b = below(seed, 15, 2) != 0 ? kind_a : (enum kind)below(seed, 16, KIND_COUNT);
    setup(bench, shape, kind_a, kind_b, 1000 + 100 * seed);
    multiply(bench, maker);
}

static void assert_no_alarm(uint64_t number) {
    enum maker maker = number % 5 == 3 ? SEQUENTIAL : number % 5 == 4 ? DOUBLE : BLAS;
    struct bench bench;
    draw_product(number, &bench, maker);
    for (uint64_t again = 0; again < 8; again++) {
        if (again == 4)
            judge_in_columns(&bench, 1 + below(number, 17, bench.product.n));
        int64_t count = count_wrong(&bench, 4 * number + again % 4);
        if (count != 0)
            print_message("# product %d, x %d\n", (int)number, (int)again);
        assert_int_equal(count, 0);
    }
    teardown(&bench);
}

static void right_products_give_no_alarm(void **state) {
    (void)state;
    for (int number = 0; number < 10 * trials(); number++)
        assert_no_alarm((uint64_t)number);
    // Past false alarms: few columns outweigh the rest, or a kernel rounds remainder columns
    // differently.
    static const uint64_t once_alarms[] = {1332, 4296, 10756, 43692, 45887, 53577};
    for (size_t i = 0; i < sizeof once_alarms / sizeof once_alarms[0]; i++)
        assert_no_alarm(once_alarms[i]);
}

static void every_orientation_and_type_is_checked(void **state) {
    (void)state;
    static const struct mmul_product shapes[] = {
        {.m = 521, .n = 33, .k = 1031, .alpha = -1.5F, .beta = 0.5F},
        {.m = 5, .n = 1029, .k = 67, .alpha = 1},
    };
    for (int64_t variant = 0; variant < 2 * 4 * 9 * 2; variant++) {
        struct bench bench;
        struct mmul_product shape = shapes[variant % 2];
        shape.transpose_a = variant / 2 % 2 != 0;
        shape.transpose_b = variant / 4 % 2 != 0;
        shape.a_dtype = (enum mmul_dtype)(variant / 8 % 3);
        shape.b_dtype = (enum mmul_dtype)(variant / 24 % 3);
        setup_lines(&bench, shape, NORMAL, NORMAL, (uint64_t)variant, variant / 72 != 0);
        multiply(&bench, BLAS);
        assert_int_equal(count_wrong(&bench, 5), 0);
        int64_t i = below(6, variant, shape.m), j = below(7, variant, shape.n);
        *line_at(&bench, i, j) += 0.1F * c_rms(&bench, 0, bench.product.m, 0, bench.product.n);
        assert_int_equal(count_wrong(&bench, 8), 1);
        assert_int_equal(bench.wrong[i], 1);
        unsigned char part[2] = {2, 2};
        const struct mmul_product judged = judged_product(&bench);
        assert_int_equal(mmul_check_rows(bench.check, &judged, i, i + 1, part), 1);
        assert_int_equal(mmul_check_rows(bench.check, &judged, i, i, part + 1), 0);
        assert_int_equal(part[0], 1);
        assert_int_equal(part[1], 2);
        teardown(&bench);
    }
}

// A result stored in 16 bits: its own rounding raises no alarm, the same fault is found, and
// float16 overflow is Inf.
static void a_result_rounded_to_16_bits_is_judged_by_its_own_unit(void **state) {
    (void)state;
    static const enum mmul_dtype types[] = {MMUL_F16, MMUL_BF16};
    for (int variant = 0; variant < 2 * 2 * KIND_COUNT; variant++) {
        struct bench bench;
        bool columns = variant >= 2 * KIND_COUNT;
        enum kind kind = (enum kind)(variant / 2 % KIND_COUNT);
        struct mmul_product shape = {.m = 41, .n = 53, .k = 67, .alpha = 1};
        uint16_t half[41 * 60];
        setup(&bench, shape, kind, kind == LARGE ? SIGNED : kind, (uint64_t)variant);
        if (columns)
            judge_in_columns(&bench, 20);
        multiply(&bench, DOUBLE);
        int64_t count = (shape.m - 1) * bench.product.ldc + shape.n, line = 7;
        assert_true(count <= 41 * 60);
        mmul_dtype_narrow(types[variant % 2], bench.product.c, count, half);
        mmul_dtype_widen(types[variant % 2], half, count, bench.product.c);
        bench.product.c_dtype = types[variant % 2];
        assert_int_equal(count_wrong(&bench, 5), 0);
        float *c = line_at(&bench, line, 3);
        if (isfinite(*c) && fabsf(*c) > 1e-3F) {
            *c += columns ? c_rms(&bench, 0, shape.m, line, line + 1)
                          : c_rms(&bench, line, line + 1, 0, shape.n);
            assert_int_equal(count_wrong(&bench, 5), 1);
            *c = INFINITY;
            assert_int_equal(count_wrong(&bench, 5), 1);
        }
        teardown(&bench);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_rounded_to_16_bits_is_judged_by_its_own_unit),
        cmocka_unit_test(every_fault_is_found_in_exactly_its_lines),
        cmocka_unit_test(small_columns_are_guarded_like_large_ones),
        cmocka_unit_test(equal_numbers_are_no_alarm_and_hide_no_fault),
        cmocka_unit_test(numbers_of_one_sign_are_no_alarm_and_hide_no_fault),
        cmocka_unit_test(a_few_rough_columns_are_no_alarm_and_hide_no_fault),
        cmocka_unit_test(right_products_give_no_alarm),
        cmocka_unit_test(every_orientation_and_type_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
