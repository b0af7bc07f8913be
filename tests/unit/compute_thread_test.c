// SPDX-License-Identifier: MIT
//
// Parts of work on several threads: each is done once, whichever thread calls. In the compute
// thread of a run the same helper threads serve successive pieces of work.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "exec/threads/compute_thread.h"

enum { PARTS = 3, MANY = 100, ROUNDS = 300 };

struct counts {
    int done[MANY];
    long threads[MANY]; // thread that did each part
};

static void count_part(void *context, int part) {
    struct counts *counts = context;
    counts->done[part]++;
    counts->threads[part] = syscall(SYS_gettid);
}

static void test_each_part_is_done_once(void **state) {
    static const int sizes[] = {1, 2, PARTS, 65, 66, MANY};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct counts counts = {{0}, {0}};
        mmul_helper_threads_run(sizes[i], count_part, &counts);
        for (int part = 0; part < MANY; part++)
            assert_int_equal(counts.done[part], part < sizes[i]);
    }
}

struct run {
    struct counts first, all;
    int strangers; // parts done by threads that had none the first time
    struct counts nested[PARTS];
    _Atomic bool is_over;
};

static void share_again(void *context, int part) {
    struct run *run = context;
    mmul_helper_threads_run(PARTS, count_part, &run->nested[part]);
}

static void compute(void *context) {
    struct run *run = context;
    mmul_helper_threads_run(PARTS, count_part, &run->first);
    for (int round = 0; round < ROUNDS; round++) {
        mmul_helper_threads_run(1 + round % PARTS, count_part, &run->all);
        for (int part = 0; part <= round % PARTS; part++)
            run->strangers += run->all.threads[part] != run->first.threads[part];
    }
    mmul_helper_threads_run(PARTS, share_again, run);
    atomic_store(&run->is_over, true);
}

static enum mmul_poll_result finish_when_over(void *context) {
    struct run *run = context;
    return atomic_load(&run->is_over) ? MMUL_POLL_FINISHED : MMUL_POLL_IDLE;
}

static void cancel(void *context) {
    struct run *run = context;
    atomic_store(&run->is_over, true);
}

static void test_helper_threads_stay_for_the_whole_run(void **state) {
    struct run run = {.strangers = 0};
    struct mmul_error err;
    (void)state;
    const struct mmul_compute_thread pipeline = {
        .cancel = cancel, .compute = compute, .attend = finish_when_over, .context = &run};
    assert_int_equal(mmul_compute_thread_run(&pipeline, &err), MMUL_OK);
    assert_int_equal(run.strangers, 0);
    for (int part = 0; part < PARTS; part++) {
        assert_int_equal(run.all.done[part], ROUNDS / PARTS * (PARTS - part));
        for (int inner = 0; inner < PARTS; inner++)
            assert_int_equal(run.nested[part].done[inner], 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_part_is_done_once),
        cmocka_unit_test(test_helper_threads_stay_for_the_whole_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
