// SPDX-License-Identifier: MIT
// Blocks dealt by weight: each block has one owner, and every range of last blocks is shared as
// evenly as whole blocks allow, found by trying all numbers of blocks of each part.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "plan/parts/deal.h"

enum { PARTS_MOST = 6, BLOCKS_MOST = 40 };

struct deal {
    int parts;
    double weights[PARTS_MOST];
};

static const struct deal DEALS[] = {{1, {3}},
                                    {2, {1, 1}},
                                    {2, {2, 1}},
                                    {3, {0, 1, 0}},
                                    {3, {1, 3, 2}},
                                    {4, {1, 3, 0, 2}},
                                    {4, {0.1, 7, 7, 13}},
                                    {5, {1, 1, 1, 1, 1}},
                                    {6, {9, 0, 1, 0, 4, 0.5}}};

static void deal_and_find_owners(const struct deal *d, int64_t count, int owners[BLOCKS_MOST]) {
    int64_t first[PARTS_MOST + 1], blocks[BLOCKS_MOST];
    struct mmul_error err;
    assert_int_equal(mmul_deal_blocks(count, d->parts, d->weights, first, blocks, &err), MMUL_OK);
    for (int64_t block = 0; block < count; block++)
        owners[block] = -1;
    assert_int_equal(first[0], 0);
    assert_int_equal(first[d->parts], count);
    for (int part = 0; part < d->parts; part++)
        for (int64_t i = first[part]; i < first[part + 1]; i++) {
            assert_true(i == first[part] || blocks[i] > blocks[i - 1]);
            assert_true(blocks[i] >= 0 && blocks[i] < count);
            assert_int_equal(owners[blocks[i]], -1);
            assert_true(d->weights[part] > 0);
            owners[blocks[i]] = part;
        }
}

// Returns the least time in which the parts can do `count` blocks together: that of some number of
// blocks of one of them, after which all parts have time for enough blocks.
static double find_least_time(const struct deal *d, int64_t count) {
    double least = INFINITY;
    for (int part = 0; part < d->parts; part++)
        for (int64_t n = 1; n <= count && d->weights[part] > 0; n++) {
            const double time = (double)n / d->weights[part];
            int64_t done = 0;
            for (int other = 0; other < d->parts; other++)
                done += (int64_t)floor(d->weights[other] * time + 1e-9);
            if (done >= count)
                least = fmin(least, time);
        }
    return least;
}

static void every_range_of_last_blocks_is_balanced(void **state) {
    (void)state;
    int owners[BLOCKS_MOST];
    for (size_t i = 0; i < sizeof DEALS / sizeof *DEALS; i++)
        for (int64_t count = 1; count <= BLOCKS_MOST; count++) {
            const struct deal *d = &DEALS[i];
            int64_t held[PARTS_MOST] = {0};
            deal_and_find_owners(d, count, owners);
            for (int64_t block = count - 1; block >= 0; block--) {
                double time = 0;
                held[owners[block]]++;
                for (int part = 0; part < d->parts; part++)
                    if (held[part] > 0)
                        time = fmax(time, (double)held[part] / d->weights[part]);
                assert_true(fabs(time - find_least_time(d, count - block)) < 1e-9);
            }
        }
}

static void blocks_are_dealt_from_the_last_to_the_first(void **state) {
    (void)state;
    static const int expected[] = {0, 1, 0, 0, 1, 0, 0}, in_turn[] = {0, 2, 1, 0, 2, 1, 0};
    const struct deal by_speed = {2, {2, 1}}, equal = {3, {1, 1, 1}};
    int owners[BLOCKS_MOST];
    deal_and_find_owners(&by_speed, 7, owners);
    assert_memory_equal(owners, expected, sizeof expected);
    deal_and_find_owners(&equal, 7, owners);
    assert_memory_equal(owners, in_turn, sizeof in_turn);
}

static void no_blocks_are_dealt_to_all_parts(void **state) {
    (void)state;
    int64_t first[4] = {1, 1, 1, 1}, blocks[1];
    const double weights[] = {1, 2, 0};
    struct mmul_error err;
    assert_int_equal(mmul_deal_blocks(0, 3, weights, first, blocks, &err), MMUL_OK);
    for (int part = 0; part <= 3; part++)
        assert_int_equal(first[part], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_range_of_last_blocks_is_balanced),
        cmocka_unit_test(blocks_are_dealt_from_the_last_to_the_first),
        cmocka_unit_test(no_blocks_are_dealt_to_all_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
