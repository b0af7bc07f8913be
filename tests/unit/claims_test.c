// SPDX-License-Identifier: MIT
// Work stealing on a node: one atomic word decides the owner of each line, and pace estimates
// decide the number of lines so that all ranks end together.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exec/memory/stealing.h"

// --------------------------------------------------------------------------- the atomic word

// The owner takes up to `count` positions, or all that are left.
static struct mmul_range take_positions(mmul_unstarted *unstarted, int64_t count) {
    for (;;) {
        struct mmul_range left = mmul_unstarted_get(unstarted);
        int64_t most = left.end - left.begin < count ? left.end - left.begin : count;
        if (mmul_unstarted_take_front(unstarted, left, most))
            return (struct mmul_range){left.begin, left.begin + most};
    }
}

static void assert_left(const mmul_unstarted *unstarted, int64_t begin, int64_t end) {
    struct mmul_range left = mmul_unstarted_get(unstarted);
    assert_int_equal(left.begin, begin);
    assert_int_equal(left.end, end);
}

static void a_claim_fails_if_the_word_has_changed(void **state) {
    (void)state;
    mmul_unstarted unstarted;
    mmul_unstarted_set(&unstarted, (struct mmul_range){0, 100});
    assert_left(&unstarted, 0, 100);
    struct mmul_range taken = take_positions(&unstarted, 40);
    assert_true(taken.begin == 0 && taken.end == 40);
    struct mmul_range seen = mmul_unstarted_get(&unstarted);
    assert_true(mmul_unstarted_steal_back(&unstarted, seen, 25));
    assert_left(&unstarted, 40, 75);
    assert_false(
        mmul_unstarted_steal_back(&unstarted, seen, 25)); // the word had changed since it was read
    assert_false(mmul_unstarted_take_front(&unstarted, seen, 5));
    assert_left(&unstarted, 40, 75);
    seen = mmul_unstarted_get(&unstarted);
    taken = take_positions(&unstarted, 5);
    assert_true(taken.begin == 40 && taken.end == 45);
    assert_false(
        mmul_unstarted_steal_back(&unstarted, seen, 1)); // the owner took positions meanwhile
    taken = take_positions(&unstarted, 1000);
    assert_true(taken.begin == 45 && taken.end == 75); // all that is left
    taken = take_positions(&unstarted, 1000);
    assert_int_equal(taken.begin, taken.end);
    assert_left(&unstarted, 75, 75);
}

static void positions_fill_the_word(void **state) {
    (void)state;
    mmul_unstarted unstarted;
    mmul_unstarted_set(&unstarted, (struct mmul_range){0, MMUL_POSITIONS_MOST});
    struct mmul_range taken = take_positions(&unstarted, MMUL_POSITIONS_MOST - 2);
    assert_int_equal(taken.end, MMUL_POSITIONS_MOST - 2);
    assert_true(mmul_unstarted_steal_back(&unstarted, mmul_unstarted_get(&unstarted), 1));
    assert_left(&unstarted, MMUL_POSITIONS_MOST - 2, MMUL_POSITIONS_MOST - 1);
}

enum { POSITIONS = 1 << 20, THIEVES = 2 };

struct race {
    mmul_unstarted unstarted;
    unsigned char *begun; // by position: number of takers
    int64_t taken, claimed[THIEVES];
    _Atomic int started;
};

struct thief {
    struct race *race;
    int index;
};

static void *claim_all(void *argument) {
    const struct thief *thief = argument;
    struct race *race = thief->race;
    race->started++;
    for (int64_t i = 0;; i++) {
        struct mmul_range seen = mmul_unstarted_get(&race->unstarted);
        int64_t count = 1 + i % 3;
        if (seen.end - seen.begin < count)
            count = seen.end - seen.begin;
        if (count == 0)
            return NULL;
        if (!mmul_unstarted_steal_back(&race->unstarted, seen, count))
            continue;
        for (int64_t at = seen.end - count; at < seen.end; at++)
            race->begun[at]++;
        race->claimed[thief->index] += count;
    }
}

// The owner and two thieves run concurrently: every position is taken once.
static void concurrent_takers_get_every_position_once(void **state) {
    (void)state;
    struct race race = {.begun = calloc(POSITIONS, 1)};
    pthread_t threads[THIEVES];
    struct thief thieves[THIEVES];
    mmul_unstarted_set(&race.unstarted, (struct mmul_range){0, POSITIONS});
    for (int i = 0; i < THIEVES; i++) {
        thieves[i] = (struct thief){&race, i};
        assert_int_equal(pthread_create(&threads[i], NULL, claim_all, &thieves[i]), 0);
    }
    while (race.started < THIEVES)
        ;
    for (int64_t i = 0;; i++) {
        struct mmul_range taken = take_positions(&race.unstarted, 1 + i % 5);
        if (taken.begin == taken.end)
            break;
        for (int64_t at = taken.begin; at < taken.end; at++)
            race.begun[at]++;
        race.taken += taken.end - taken.begin;
    }
    for (int i = 0; i < THIEVES; i++)
        pthread_join(threads[i], NULL);
    for (int64_t at = 0; at < POSITIONS; at++)
        if (race.begun[at] != 1)
            fail_msg("position %lld was begun %d times", (long long)at, race.begun[at]);
    assert_int_equal(race.taken + race.claimed[0] + race.claimed[1], POSITIONS);
    free(race.begun);
}

// ------------------------------------------------------------------------------ number of lines

static void the_level_is_the_common_end_time(void **state) {
    (void)state;
    static const struct {
        struct mmul_pace paces[3];
        double level;
    } cases[] = {
        {{{0, 100, 10}, {0, 100, 10}, {0, 100, 10}}, 10},
        {{{0, 0, 10}, {0, 100, 10}, {0, 0, 30}}, 2},
        {{{0, 0, 10}, {2, 100, 10}, {0, 0, 5}}, 4.8},
        // the second rank is busy for longer than that
        {{{0, 0, 10}, {50, 100, 10}, {0, 0, 10}}, 5},
        {{{3, 0, 1}, {7, 0, 1}, {0, 0, 1}}, 0}, // no work is left
        {{{50, 10, 1}, {50, 0, 1}, {60, 0, 1}}, 55},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(fabs(mmul_pace_common_finish(cases[i].paces, 3) - cases[i].level) < 1e-9);
}

static void an_owner_takes_all_lines_unless_others_would_wait(void **state) {
    (void)state;
    // 1000 lines of 10 elements at 100 elements per second: 100 s
    assert_int_equal(
        mmul_pace_lines_to_begin(100, 1, 100, (struct mmul_remaining_lines){1000, 1000, 10}), 1000);
    assert_int_equal(
        mmul_pace_lines_to_begin(99.5, 1, 100, (struct mmul_remaining_lines){1000, 1000, 10}),
        1000); // not worth another call
    assert_int_equal(
        mmul_pace_lines_to_begin(60, 1, 100, (struct mmul_remaining_lines){1000, 1000, 10}), 600);
    assert_int_equal(
        mmul_pace_lines_to_begin(2, 1, 100, (struct mmul_remaining_lines){1000, 1000, 10}),
        125); // at least an eighth is taken
    assert_int_equal(
        mmul_pace_lines_to_begin(2, 1, 100, (struct mmul_remaining_lines){70, 1000, 10}), 70);
}

static void an_owner_gives_up_lines_only_if_others_end_sooner(void **state) {
    (void)state;
    const struct mmul_remaining_lines rest = {1000, 1000, 100}; // 10 s at a rate of 1e4
    assert_int_equal(mmul_pace_lines_to_keep(10, 0.1, 1e4, rest), 1000);
    assert_int_equal(mmul_pace_lines_to_keep(9.95, 0.1, 1e4, rest), 1000); // not worth a call
    assert_int_equal(mmul_pace_lines_to_keep(8, 0.1, 1e4, rest), 800);
    assert_int_equal(mmul_pace_lines_to_keep(8.75, 0.1, 1e4, rest), 875);
    assert_int_equal(mmul_pace_lines_to_keep(8.8, 0.1, 1e4, rest), 1000); // fewer than an eighth
    assert_int_equal(mmul_pace_lines_to_keep(0, 0.1, 1e4, rest), 0);
    // With a tenth of the terms left, an eighth of the lines takes less time.
    assert_int_equal(
        mmul_pace_lines_to_keep(0.8, 0.1, 1e4, (struct mmul_remaining_lines){1000, 1000, 10}), 800);
    // Lines given up earlier count; the limit may leave none.
    assert_int_equal(
        mmul_pace_lines_to_keep(4, 0.1, 1e4, (struct mmul_remaining_lines){500, 1000, 100}), 500);
    assert_int_equal(
        mmul_pace_lines_to_keep(3, 0.1, 1e4, (struct mmul_remaining_lines){500, 1000, 100}), 300);
    assert_int_equal(
        mmul_pace_lines_to_keep(3, 0.1, 1e4, (struct mmul_remaining_lines){0, 1000, 100}), 0);
}

static void claims_are_worth_their_call(void **state) {
    (void)state;
    const struct mmul_pace slow = {10, 9000, 100}; // done after 100 s
    assert_int_equal(
        mmul_pace_lines_to_steal(50, 1, 150, &slow, (struct mmul_remaining_lines){1000, 1000, 10}),
        750);
    assert_int_equal(
        mmul_pace_lines_to_steal(50, 1, 150, &slow, (struct mmul_remaining_lines){400, 1000, 10}),
        400); // all lines that are left
    assert_int_equal(
        mmul_pace_lines_to_steal(50, 1, 1, &slow, (struct mmul_remaining_lines){1000, 1000, 10}),
        0); // the thief would be slower
    assert_int_equal(mmul_pace_lines_to_steal(99.5, 1, 150, &slow,
                                              (struct mmul_remaining_lines){1000, 1000, 10}),
                     0); // saves nothing
    assert_int_equal(
        mmul_pace_lines_to_steal(2, 1, 150, &slow, (struct mmul_remaining_lines){1000, 1000, 10}),
        125);
}

// Simulates a node event by event. The plan believed all ranks to be equal. Blocks have these
// elements, in parts of a half and two quarters.
enum { LINES = 4096, RANKS_MOST = 4, PARTS = 3 };
static const int64_t widths[PARTS] = {4096, 2048, 2048};

struct player {
    double rate, free_at; // elements per second; time at which its current lines are done
    double begun, elements;
    double known; // recently measured rate
    mmul_unstarted unstarted;
};

static double elements_of(int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t part = 0; part < PARTS; part++) {
        double from = fmax((double)begin, (double)(part * LINES));
        double to = fmin((double)end, (double)((part + 1) * LINES));
        sum += fmax(0, to - from) * (double)widths[part];
    }
    return sum;
}

static void estimate_paces(const struct player *players, int count, double now,
                           struct mmul_pace *paces) {
    for (int i = 0; i < count; i++) {
        struct mmul_range left = mmul_unstarted_get(&players[i].unstarted);
        paces[i] = (struct mmul_pace){0, elements_of(left.begin, left.end), players[i].known};
        if (players[i].free_at <= now)
            continue;
        double elapsed = now - players[i].begun + 1e-9;
        paces[i].rate = fmin(paces[i].rate, players[i].elements / elapsed);
        paces[i].until = players[i].elements / paces[i].rate - elapsed;
    }
}

// Returns the elements of the lines that player `me` takes now; 0: none.
static double begin_lines(struct player *players, int count, int me, double now) {
    struct mmul_pace paces[RANKS_MOST];
    struct player *own = &players[me];
    estimate_paces(players, count, now, paces);
    double level = mmul_pace_common_finish(paces, count), worth = 0.01 * now;
    struct mmul_range left = mmul_unstarted_get(&own->unstarted);
    if (left.begin < left.end) {
        int64_t part = left.begin / LINES, end = (part + 1) * LINES;
        int64_t lines = (end < left.end ? end : left.end) - left.begin;
        lines = mmul_pace_lines_to_begin(level, worth, own->known,
                                         (struct mmul_remaining_lines){lines, LINES, widths[part]});
        left = take_positions(&own->unstarted, lines);
        return elements_of(left.begin, left.end);
    }
    int owner = -1;
    double last = 0;
    for (int i = 0; i < count; i++)
        if (paces[i].left > 0 && paces[i].until + paces[i].left / paces[i].rate > last) {
            last = paces[i].until + paces[i].left / paces[i].rate;
            owner = i;
        }
    if (owner < 0)
        return 0;
    left = mmul_unstarted_get(&players[owner].unstarted);
    int64_t part = (left.end - 1) / LINES, first = part * LINES;
    first = first > left.begin ? first : left.begin;
    int64_t lines = mmul_pace_lines_to_steal(
        level, worth, own->known, &paces[owner],
        (struct mmul_remaining_lines){left.end - first, LINES, widths[part]});
    assert_true(lines == 0 || mmul_unstarted_steal_back(&players[owner].unstarted, left, lines));
    return elements_of(left.end - lines, left.end);
}

// Returns the seconds until all is done, divided by those at the sum of all rates.
static double simulate(const double *rates, int count) {
    struct player players[RANKS_MOST];
    double sum = 0, now = 0, end = 0;
    for (int i = 0; i < count; i++) {
        players[i] = (struct player){.rate = rates[i], .known = 1e6};
        mmul_unstarted_set(&players[i].unstarted, (struct mmul_range){0, PARTS * LINES});
        sum += rates[i];
    }
    const double step = 1e-3;
    for (bool left = true; left; now += step) {
        left = false;
        for (int i = 0; i < count; i++) {
            struct player *p = &players[i];
            struct mmul_range range = mmul_unstarted_get(&p->unstarted);
            left = left || range.begin < range.end || p->free_at > now;
            if (p->free_at > now)
                continue;
            if (p->elements > 0)
                p->known = p->rate;
            p->begun = now;
            p->elements = begin_lines(players, count, i, now);
            p->free_at = now + p->elements / p->rate;
            end = fmax(end, p->free_at);
        }
    }
    return end / (count * (double)LINES * 8192 / sum);
}

static void ranks_end_together_with_wrong_speeds_in_the_plan(void **state) {
    (void)state;
    static const struct {
        double rates[RANKS_MOST];
        int count;
        double most;
    } cases[] = {
        {{1e6, 1e6}, 2, 1.001},          {{1e6, 0.97e6}, 2, 1.03},
        {{1e6, 0.6e6}, 2, 1.05},         {{2.6e6, 1e6}, 2, 1.06},
        {{1e6, 4e6}, 2, 1.26}, // half of the block takes as long as that
        {{4e6, 3e6, 2e6, 2e6}, 4, 1.06}, {{1e6, 1e6, 1e6, 0.8e6}, 4, 1.06},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double ratio = simulate(cases[i].rates, cases[i].count);
        assert_true(ratio >= 0.999 && ratio <= cases[i].most);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_fails_if_the_word_has_changed),
        cmocka_unit_test(positions_fill_the_word),
        cmocka_unit_test(concurrent_takers_get_every_position_once),
        cmocka_unit_test(the_level_is_the_common_end_time),
        cmocka_unit_test(an_owner_takes_all_lines_unless_others_would_wait),
        cmocka_unit_test(an_owner_gives_up_lines_only_if_others_end_sooner),
        cmocka_unit_test(claims_are_worth_their_call),
        cmocka_unit_test(ranks_end_together_with_wrong_speeds_in_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
