// SPDX-License-Identifier: MIT
//
// Counters and wake-ups between threads and processes: no wake-up is late or lost (a lost one takes
// an hour here), and a condition that already holds is not waited for.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "exec/memory/progress.h"

enum { ROUNDS = 20000, RANKS = 2 };

static const double HOUR_SECONDS = 3600;

// Shared with the child processes.
struct memory {
    struct mmul_eventcount bells[RANKS];
    _Atomic int64_t turns[RANKS];
    struct mmul_run_progress progress;
    struct mmul_run_progress_rank ranks[RANKS]; // ranks of the progress
};

static struct memory *create_memory(void) {
    struct memory *m =
        mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(m != MAP_FAILED);
    m->progress.rank_count = RANKS;
    return m;
}

static void destroy_memory(struct memory *m) {
    munmap(m, sizeof *m);
}

static void join_child(pid_t child) {
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void sleep_until(struct mmul_eventcount *eventcount, const _Atomic int64_t *turn,
                        int64_t goal) {
    for (;;) {
        const uint32_t seen = mmul_eventcount_read(eventcount);
        if (atomic_load(turn) >= goal)
            return;
        mmul_eventcount_wait(eventcount, seen, HOUR_SECONDS);
    }
}

// Each process sleeps until the other one has had its turn, without checking first.
static void take_turns(struct memory *m, int mine) {
    for (int64_t i = 1; i <= ROUNDS; i++) {
        if (mine == 1)
            sleep_until(&m->bells[0], &m->turns[0], i);
        atomic_store(&m->turns[mine], i);
        mmul_eventcount_notify(&m->bells[mine]);
        if (mine == 0)
            sleep_until(&m->bells[1], &m->turns[1], i);
    }
}

static void test_no_wake_up_is_lost(void **state) {
    (void)state;
    struct memory *m = create_memory();
    const pid_t child = fork();
    if (child == 0) {
        take_turns(m, 1);
        _exit(0);
    }
    take_turns(m, 0);
    join_child(child);
    assert_int_equal(atomic_load(&m->bells[0].sleepers), 0);
    assert_int_equal(atomic_load(&m->bells[1].sleepers), 0);
    destroy_memory(m);
}

static void test_an_earlier_wake_up_ends_the_sleep(void **state) {
    (void)state;
    struct mmul_eventcount eventcount = {0};
    const uint32_t seen = mmul_eventcount_read(&eventcount);
    mmul_eventcount_notify(&eventcount);
    mmul_eventcount_wait(&eventcount, seen, HOUR_SECONDS);
    mmul_eventcount_wait(&eventcount, mmul_eventcount_read(&eventcount),
                         1e-6); // times out without a wake-up
}

static void test_a_raised_counter_wakes_waiting_ranks(void **state) {
    (void)state;
    struct memory *m = create_memory();
    struct mmul_waits waits = {0};
    _Atomic int64_t *mine = &m->progress.ranks[0].stages_done,
                    *other = &m->progress.ranks[1].stages_done;
    const pid_t child = fork();
    for (int64_t i = 1; i <= ROUNDS; i++) {
        mmul_progress_raise(&m->progress, child == 0, child == 0 ? other : mine, i, 0);
        if (!mmul_progress_wait(&m->progress, child != 0, child == 0 ? mine : other, i, &waits))
            abort();
    }
    if (child == 0)
        _exit(0);
    join_child(child);
    assert_true(waits.count <= ROUNDS);
    destroy_memory(m);
}

static void test_a_reached_count_is_not_waited_for(void **state) {
    (void)state;
    struct memory *m = create_memory();
    struct mmul_waits waits = {0};
    _Atomic int64_t *counter = &m->progress.ranks[0].stages_done;
    mmul_progress_raise(&m->progress, 0, counter, 3, 3);
    assert_true(mmul_progress_wait(&m->progress, 0, counter, 3, &waits));
    assert_int_equal(waits.count, 0);
    assert_int_equal(waits.sleeps, 0);
    mmul_progress_raise(&m->progress, 0, counter, 2, 2); // the counter only grows
    assert_int_equal(atomic_load(counter), 3);
    destroy_memory(m);
}

static void test_the_leader_is_woken_at_the_requested_count(void **state) {
    (void)state;
    struct memory *m = create_memory();
    atomic_store(&m->progress.wake_from_stage, 5);
    for (int64_t i = 1; i <= 6; i++) {
        mmul_progress_raise(&m->progress, 1, &m->progress.ranks[1].stages_done, i, i);
        assert_int_equal(mmul_eventcount_read(&m->progress.ranks[0].main_thread_eventcount),
                         i < 5 ? 0 : i - 4);
        assert_int_equal(mmul_eventcount_read(&m->progress.ranks[1].counted), i);
    }
    destroy_memory(m);
}

static void test_a_cancelled_run_wakes_all(void **state) {
    (void)state;
    struct memory *m = create_memory();
    const int ranks[] = {0, 1, MMUL_TRAFFIC};
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        if (children[i] > 0)
            continue;
        struct mmul_waits waits = {0};
        _exit(mmul_progress_wait(&m->progress, ranks[i], &m->turns[0], 1, &waits));
    }
    while (atomic_load(&m->progress.moved.sleepers) +
               atomic_load(&m->progress.ranks[0].counted.sleepers) +
               atomic_load(&m->progress.ranks[1].counted.sleepers) <
           3)
        usleep(100);
    atomic_store(&m->progress.cancelled, 1);
    mmul_progress_wake_all(&m->progress);
    for (int i = 0; i < 3; i++)
        join_child(children[i]);
    destroy_memory(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_wake_up_is_lost),
        cmocka_unit_test(test_an_earlier_wake_up_ends_the_sleep),
        cmocka_unit_test(test_a_raised_counter_wakes_waiting_ranks),
        cmocka_unit_test(test_a_reached_count_is_not_waited_for),
        cmocka_unit_test(test_the_leader_is_woken_at_the_requested_count),
        cmocka_unit_test(test_a_cancelled_run_wakes_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
