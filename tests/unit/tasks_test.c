// SPDX-License-Identifier: MIT
// Tasks of a rank: they cover its block once for any cut, and the first ones are wide.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clusters.h"
#include "plan/lists/tasks.h"
#include "schedules.h"

static void an_extent_is_cut_into_parts(void **state) {
    (void)state;
    static const struct {
        int64_t extent;
        double share;
        int64_t least;
        int64_t ends[6]; // 0: end of the list
    } cases[] = {
        {8192, 0.4, 512, {4928, 6528, 8192}},
        {6144, 0.5, 512, {3072, 4608, 6144}},
        {1600, 0.5, 512, {832, 1600}}, // half of the remaining 768 would be too small
        {1000, 0.5, 512, {1000}},      // half of it would be too small
        {8192, 0, 1, {8192}},
        {2000, 0.05, 1, {1936, 2000}}, // no part is empty
        {47, 0.9, 1, {5, 26, 47}},
        {10, 0.5, 1, {5, 7, 10}},
        {2, 0.5, 1, {1, 2}},
        {1, 0.5, 1, {1}},
        {5, 0.1, 1, {5}},
        {0, 0.5, 1, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_range part = {0, 0};
        int64_t at = 0, count = 0;
        for (; mmul_tasks_cut_extent(cases[i].extent, cases[i].share, cases[i].least, count, &part);
             at = part.end) {
            assert_int_equal(part.begin, at);
            assert_int_equal(part.end, cases[i].ends[count++]);
        }
        assert_int_equal(at, cases[i].extent);
        assert_int_equal(count < 6 ? cases[i].ends[count] : 0, 0);
    }
}

// Checks that a list covers every element of every step once, in order.
static void assert_covers(const struct mmul_schedule *schedule, const struct mmul_tasks *tasks) {
    int64_t width = mmul_problem_result_width(&schedule->problem, schedule->axis);
    const struct mmul_schedule_rank *r = &mmul_schedule_ranks(schedule)[tasks->rank];
    struct mmul_task_cursor cursor = {0};
    double elements = 0;
    int64_t positions = 0, step = 0, line = 0, stretch = 0;
    for (int64_t i = 0; i < tasks->count; i++) {
        struct mmul_task task = mmul_tasks_at(tasks, i);
        int64_t lines = task.line_end - task.line_begin;
        assert_true(lines >= 0 && task.end > task.begin);
        if (task.pass.index != step || i == 0) {
            assert_true(i == 0 || task.pass.index > step);
            step = task.pass.index;
            line = task.line_begin;
            stretch = task.begin;
            assert_int_equal(line, 0);
            assert_int_equal(stretch, task.pass.begin);
        }
        assert_true(task.begin >= task.pass.begin && task.end <= task.pass.end);
        assert_true(task.line_begin == line && task.begin == stretch);
        if (task.end < task.pass.end || task.begin > task.pass.begin)
            stretch = task.end; // along the width
        else
            line = task.line_end;
        if (lines > 0) {
            mmul_tasks_seek(tasks, positions, &cursor);
            assert_int_equal(cursor.index, i);
            mmul_tasks_seek(tasks, positions + lines - 1, &cursor);
            assert_int_equal(cursor.index, i);
            assert_int_equal(cursor.position, positions);
        }
        double all = (double)lines * (double)(task.end - task.begin);
        double rest = mmul_tasks_elements(tasks, positions + lines / 2, positions + lines);
        assert_true(rest == (double)(lines - lines / 2) * (double)(task.end - task.begin));
        elements += all;
        positions += lines;
    }
    assert_int_equal(positions, tasks->positions);
    assert_true(elements == (double)(r->end - r->begin) * (double)width);
    assert_true(elements == mmul_tasks_elements(tasks, 0, positions));
}

static void lists_cover_every_block_once(void **state) {
    (void)state;
    static const int64_t sides[][3] = {{8000, 8000, 8000}, {10000, 300, 2000}, {7, 5, 3},
                                       {1, 1, 1},          {300, 9000, 100},   {20000, 2048, 512}};
    static const int64_t limits[] = {0, INT64_C(600) << 20, INT64_C(200) << 20};
    int joined = 0, by_lines = 0, cut = 0, sliced = 0, many = 0;
    for (int i = 0; i < 6 * 3 * 2 * 3 * 3; i++) {
        unsigned maps[8];
        struct mmul_problem problem =
            make_problem(sides[i % 6][0], sides[i % 6][1], sides[i % 6][2]);
        struct mmul_cluster *cluster = make_measured_cluster(4, i / 6 % 3 == 0 ? 2 : 4, maps);
        const int64_t slice = i / 18 % 2 == 0 ? 0 : 1500;
        struct mmul_schedule *schedule = NULL;
        struct mmul_error err;
        if (i / 36 % 3 == 1)
            maps[0] = 0;
        if (mmul_schedule_make(
                &(struct mmul_schedule_request){.problem = &problem,
                                                .cluster = cluster,
                                                .node_maps = maps,
                                                .panels = true,
                                                .split = i % 2 ? MMUL_SPLIT_ROWS : MMUL_SPLIT_COLS,
                                                .memory_limit_bytes = limits[i / 108 % 3],
                                                .tail = (enum mmul_tail)(i / 36 % 3),
                                                .tail_share = 0.7},
                &schedule, &err) != MMUL_OK)
            fail_msg("%s", err.text);
        for (int rank = 0; rank < schedule->size; rank++) {
            struct mmul_tasks tasks = mmul_tasks_of_schedule(schedule, rank, slice, false);
            assert_covers(schedule, &tasks);
            joined += tasks.joined;
            by_lines += tasks.by_lines && tasks.count > 1;
            cut += !tasks.by_lines && tasks.count > 1;
            sliced += tasks.slice > 0;
            many += tasks.count > 3;
        }
        mmul_schedule_free(schedule);
        mmul_cluster_destroy(cluster);
    }
    assert_true(joined > 10 && by_lines > 10 && cut > 10 && sliced > 10 && many > 10);
}

static double pack_a, pack_b; // measured times; 0: not measured

static struct mmul_schedule *plan_with_terms(int64_t m, int64_t n, int64_t k, enum mmul_tail tail,
                                             double share) {
    unsigned maps[8];
    struct mmul_problem problem = make_problem(m, n, k);
    struct mmul_cluster *cluster = make_cluster(2, 2);
    cluster->ranks[0].speed_flops = cluster->ranks[1].speed_flops = 1e11;
    cluster->ranks[0].device_index = cluster->ranks[1].device_index = -1;
    for (int rank = 0; rank < 2; rank++) {
        cluster->ranks[rank].speed.pack_a_seconds = pack_a;
        cluster->ranks[rank].speed.pack_b_seconds = pack_b;
    }
    cluster->nodes[0].memory_available_bytes = (int64_t)1 << 50;
    maps[0] = ALL;
    struct mmul_schedule *schedule =
        plan_or_die(&(struct mmul_schedule_request){.problem = &problem,
                                                    .cluster = cluster,
                                                    .node_maps = maps,
                                                    .panels = true,
                                                    .split = MMUL_SPLIT_ROWS,
                                                    .tail = tail,
                                                    .tail_share = share});
    mmul_cluster_destroy(cluster);
    return schedule;
}

static struct mmul_schedule *make_plan(int64_t m, int64_t n, enum mmul_tail tail, double share) {
    return plan_with_terms(m, n, 1000, tail, share);
}

// A block with long sums is one task, with slices of terms that cover the sums once.
static void long_sums_are_cut_instead_of_lines(void **state) {
    (void)state;
    static const struct {
        int64_t k;
        enum mmul_tail tail;
        bool in_order;
        int64_t sums, count;
    } cases[] = {
        {1000, MMUL_TAIL_AUTO, false, 1, 3},  {1024, MMUL_TAIL_AUTO, false, 2, 1},
        {2100, MMUL_TAIL_AUTO, false, 4, 1},  {8192, MMUL_TAIL_AUTO, false, 8, 1},
        {99999, MMUL_TAIL_AUTO, false, 8, 1}, {8192, MMUL_TAIL_AUTO, true, 1, 3},
        {8192, MMUL_TAIL_OFF, false, 1, 1},   {8192, MMUL_TAIL_SHARE, false, 1, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_schedule *schedule =
            plan_with_terms(8192, 8192, cases[i].k, cases[i].tail, 0.4);
        const struct mmul_tasks tasks = mmul_tasks_of_schedule(schedule, 0, 0, cases[i].in_order);
        assert_int_equal(tasks.sums, cases[i].sums);
        assert_int_equal(tasks.count, cases[i].count);
        assert_covers(schedule, &tasks);
        int64_t before = 0;
        for (int64_t s = 0; s < tasks.sums; s++) {
            const int64_t end = mmul_tasks_terms_end(&tasks, s);
            assert_true(end - before >= 448 || tasks.sums == 1);
            before = end;
        }
        assert_int_equal(before, cases[i].k);
        mmul_schedule_free(schedule);
    }
}

// Cuts by rows of C unless C has many more columns. The check of a cut block uses the whole
// operand, which is common to all its parts.
static void blocks_are_cut_where_repacking_costs_least(void **state) {
    (void)state;
    struct mmul_schedule *wide = make_plan(2048, 8192, MMUL_TAIL_AUTO, 0);
    struct mmul_schedule *tall = make_plan(8192, 8192, MMUL_TAIL_AUTO, 0);
    struct mmul_tasks tasks = mmul_tasks_of_schedule(wide, 0, 0, false);
    struct mmul_task first = mmul_tasks_at(&tasks, 0);
    assert_int_equal(tasks.count, 3);
    assert_false(mmul_schedule_nodes(wide)[0].checks_whole);
    assert_true(first.begin == 0 && first.end == 4928 && first.line_end == 1024);
    tasks = mmul_tasks_of_schedule(tall, 1, 0, false);
    first = mmul_tasks_at(&tasks, 0);
    assert_int_equal(tasks.count, 3);
    assert_true(mmul_schedule_nodes(tall)[0].checks_whole);
    assert_true(first.begin == 0 && first.end == 8192 && first.line_end == 2496);
    mmul_schedule_free(wide);
    mmul_schedule_free(tall);
}

// A measured cost of packing B decides: a high one cuts the width instead. If even a half does not
// pay off, there is one part.
static void measured_packing_decides_the_cut(void **state) {
    (void)state;
    static const struct {
        double a, b;
        bool by_lines;
        int64_t count, least;
    } cases[] = {{0, 0, true, 3, 280},
                 {0.5e-9, 1e-9, false, 3, 400},
                 {2.5e-9, 1e-9, true, 3, 800},
                 {5e-9, 1.5e-9, true, 2, 1200},
                 {3e-9, 5e-9, false, 2, 2400}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pack_a = cases[i].a;
        pack_b = cases[i].b;
        struct mmul_schedule *schedule = make_plan(8192, 8192, MMUL_TAIL_AUTO, 0);
        struct mmul_tasks tasks = mmul_tasks_of_schedule(schedule, 0, 0, false);
        assert_true(mmul_schedule_nodes(schedule)[0].checks_whole == cases[i].by_lines);
        assert_int_equal(tasks.count, cases[i].count);
        assert_int_equal(mmul_schedule_ranks(schedule)[0].steal_lines_least, cases[i].least);
        mmul_schedule_free(schedule);
    }
    pack_a = pack_b = 0;
}

static void the_claimable_share_is_an_option(void **state) {
    (void)state;
    static const struct {
        enum mmul_tail tail;
        double share, planned;
        int64_t count, first; // tasks, lines of the first one
    } cases[] = {{MMUL_TAIL_AUTO, 0, 0.4, 3, 2496},
                 {MMUL_TAIL_OFF, 0.5, 0, 1, 4096},
                 {MMUL_TAIL_SHARE, 0.25, 0.25, 3, 3072}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_schedule *schedule = make_plan(8192, 8192, cases[i].tail, cases[i].share);
        struct mmul_tasks tasks = mmul_tasks_of_schedule(schedule, 1, 0, false);
        assert_true(schedule->claim_share == cases[i].planned);
        assert_int_equal(tasks.count, cases[i].count);
        assert_int_equal(mmul_tasks_at(&tasks, 0).line_end, cases[i].first);
        assert_int_equal(mmul_schedule_ranks(schedule)[1].end,
                         schedule->total); // blocks cover everything
        mmul_schedule_free(schedule);
    }
}

// One word holds two positions.
static void blocks_too_long_for_a_word_are_not_claimed(void **state) {
    (void)state;
    struct mmul_schedule *schedule = make_plan(2 * MMUL_POSITIONS_MOST - 100, 1, MMUL_TAIL_AUTO, 0);
    assert_true(mmul_schedule_nodes(schedule)[0].claims);
    mmul_schedule_free(schedule);
    schedule = make_plan(2 * MMUL_POSITIONS_MOST + 4, 1, MMUL_TAIL_AUTO, 0);
    assert_false(mmul_schedule_nodes(schedule)[0].claims);
    mmul_schedule_free(schedule);
}

static void the_list_is_printed(void **state) {
    (void)state;
    static const char expected[] =
        "rank  task  round  rows       columns  elements  waits for\n"
        "   0     0      0  0-2496     0-8192   20447232  rounds loaded 1, passes loaded 1\n"
        "   0     1      0  2496-3264  0-8192    6291456  rounds loaded 1, passes loaded 1\n"
        "   0     2      0  3264-4096  0-8192    6815744  rounds loaded 1, passes loaded 1\n"
        "   1     0      0  0-2496     0-8192   20447232  rounds loaded 1, passes loaded 1\n"
        "   1     1      0  2496-3264  0-8192    6291456  rounds loaded 1, passes loaded 1\n"
        "   1     2      0  3264-4096  0-8192    6815744  rounds loaded 1, passes loaded 1\n";
    struct mmul_schedule *schedule = make_plan(8192, 8192, MMUL_TAIL_AUTO, 0);
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    mmul_tasks_print(schedule, stream);
    fclose(stream);
    assert_string_equal(text, expected);
    free(text);
    mmul_schedule_free(schedule);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_extent_is_cut_into_parts),
        cmocka_unit_test_teardown(lists_cover_every_block_once, assert_no_live_bytes),
        cmocka_unit_test_teardown(long_sums_are_cut_instead_of_lines, assert_no_live_bytes),
        cmocka_unit_test_teardown(blocks_are_cut_where_repacking_costs_least, assert_no_live_bytes),
        cmocka_unit_test_teardown(measured_packing_decides_the_cut, assert_no_live_bytes),
        cmocka_unit_test_teardown(the_claimable_share_is_an_option, assert_no_live_bytes),
        cmocka_unit_test_teardown(blocks_too_long_for_a_word_are_not_claimed, assert_no_live_bytes),
        cmocka_unit_test_teardown(the_list_is_printed, assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
