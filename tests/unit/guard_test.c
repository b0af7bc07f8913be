// SPDX-License-Identifier: MIT
// Mapped files that are truncated: guarded ranges read as zeros and are marked, on any thread.
// Other ranges keep their bytes; other faults kill the process or reach the previously installed
// handler.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/guard.h"
#include "folder.h"

enum { PAGES = 8, GUARDS = 4096 };

struct mapped {
    int fd;
    size_t bytes;
    volatile unsigned char *data;
};

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

// Maps a nameless file of 8 pages of `fill`, shared.
static struct mapped map_file(unsigned char fill) {
    struct mapped mapped = {.fd = memfd_create("guard", 0), .bytes = PAGES * page_bytes()};
    assert_true(mapped.fd >= 0);
    assert_int_equal(ftruncate(mapped.fd, (off_t)mapped.bytes), 0);
    void *data = mmap(NULL, mapped.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mapped.fd, 0);
    assert_true(data != MAP_FAILED);
    memset(data, fill, mapped.bytes);
    mapped.data = data;
    return mapped;
}

static void unmap_file(struct mapped *mapped) {
    assert_int_equal(munmap((void *)mapped->data, mapped->bytes), 0);
    close(mapped->fd);
}

static struct mmul_guard *guard(const struct mapped *mapped) {
    struct mmul_guard *made = NULL;
    struct mmul_error err = {.text = ""};
    assert_int_equal(mmul_guard_create((void *)mapped->data, (int64_t)mapped->bytes, &made, &err),
                     MMUL_OK);
    return made;
}

static void truncate_file(const struct mapped *mapped, size_t kept) {
    assert_int_equal(ftruncate(mapped->fd, (off_t)(kept * page_bytes())), 0);
}

static void a_truncated_file_reads_as_zeros(void **state) {
    (void)state;
    struct mapped file = map_file(7), other = map_file(9);
    struct mmul_guard *guarded = guard(&file), *untouched = guard(&other);
    assert_int_equal(file.data[file.bytes - 1], 7);
    truncate_file(&file, 3);
    assert_int_equal(file.data[2 * page_bytes()], 7);
    assert_false(mmul_guard_has_failed(guarded));
    assert_int_equal(file.data[3 * page_bytes()], 0);
    assert_true(mmul_guard_has_failed(guarded));
    assert_int_equal(file.data[file.bytes - 1], 0);
    file.data[file.bytes - 1] = 5; // may be written to; the byte is lost
    assert_int_equal(file.data[file.bytes - 1], 5);
    assert_int_equal(other.data[other.bytes - 1], 9);
    assert_false(mmul_guard_has_failed(untouched));
    mmul_guard_destroy(guarded);
    mmul_guard_destroy(untouched);
    unmap_file(&file);
    unmap_file(&other);
}

static void writes_to_a_truncated_file_are_lost(void **state) {
    (void)state;
    struct mapped file = map_file(1);
    struct mmul_guard *guarded = guard(&file);
    truncate_file(&file, 1);
    file.data[5 * page_bytes() + 17] = 3;
    assert_true(mmul_guard_has_failed(guarded));
    assert_int_equal(file.data[5 * page_bytes() + 17], 3);
    mmul_guard_destroy(guarded);
    unmap_file(&file);
}

static void *read_all(void *argument) {
    const struct mapped *file = argument;
    uintptr_t sum = 0;
    for (size_t i = 0; i < file->bytes; i += 64)
        sum += file->data[i];
    return (void *)sum; // NOLINT: a number in a pointer
}

static void other_threads_are_guarded(void **state) {
    (void)state;
    struct mapped file = map_file(0);
    struct mmul_guard *guarded = guard(&file);
    truncate_file(&file, 0);
    pthread_t threads[4];
    void *sum;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &file), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &sum), 0);
        assert_null(sum);
    }
    assert_true(mmul_guard_has_failed(guarded));
    mmul_guard_destroy(guarded);
    unmap_file(&file);
}

// --------------------------------------------------------------------------------- other faults

// Runs `body` in a child and returns how the child ended.
static int end_of_child(void (*body)(void)) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGBUS, SIG_DFL); // cmocka installs its own
        body();
        _exit(0);
    }
    int end;
    assert_int_equal(waitpid(child, &end, 0), child);
    return end;
}

static void fault_beside_a_guard(void) {
    struct mapped file = map_file(1), other = map_file(2);
    guard(&file);
    truncate_file(&other, 0);
    (void)other.data[0];
}

static void fault_after_the_guard(void) {
    struct mapped file = map_file(1);
    mmul_guard_destroy(guard(&file));
    truncate_file(&file, 0);
    (void)file.data[0];
}

static void sent_signal(void) {
    struct mapped file = map_file(1);
    guard(&file);
    kill(getpid(), SIGBUS);
    pause();
}

static void exit_on_signal(int number) {
    (void)number;
    _exit(42);
}

static void own_handler(void) {
    signal(SIGBUS, exit_on_signal);
    fault_beside_a_guard();
}

static void own_handler_is_back(void) {
    signal(SIGBUS, exit_on_signal);
    fault_after_the_guard();
}

static void ignored_signal(void) {
    struct mapped file = map_file(1);
    signal(SIGBUS, SIG_IGN);
    guard(&file);
    raise(SIGBUS);
    _exit(43);
}

// A handler installed later that passes signals on keeps ours in its chain, for later guards too.
static struct sigaction below;

static void pass_signal_down(int number, siginfo_t *info, void *context) {
    below.sa_sigaction(number, info, context);
}

static void handler_above(void) {
    struct mapped file = map_file(1);
    struct sigaction above = {.sa_sigaction = pass_signal_down, .sa_flags = SA_SIGINFO};
    struct mmul_guard *first = guard(&file);
    sigaction(SIGBUS, &above, &below);
    mmul_guard_destroy(first);
    struct mmul_guard *second = guard(&file);
    truncate_file(&file, 0);
    if (file.data[0] == 0 && mmul_guard_has_failed(second))
        _exit(44);
}

static void other_faults_reach_the_previous_handler(void **state) {
    (void)state;
    static void (*const deadly[])(void) = {fault_beside_a_guard, fault_after_the_guard,
                                           sent_signal};
    for (int i = 0; i < 3; i++) {
        int end = end_of_child(deadly[i]);
        assert_true(WIFSIGNALED(end));
        assert_int_equal(WTERMSIG(end), SIGBUS);
    }
    static const struct {
        void (*body)(void);
        int code;
    } handled[] = {
        {own_handler, 42}, {own_handler_is_back, 42}, {ignored_signal, 43}, {handler_above, 44}};
    for (int i = 0; i < 4; i++) {
        int end = end_of_child(handled[i].body);
        assert_true(WIFEXITED(end));
        assert_int_equal(WEXITSTATUS(end), handled[i].code);
    }
}

static void the_number_of_guarded_ranges_is_limited(void **state) {
    (void)state;
    struct mapped file = map_file(1);
    struct mmul_guard *guards[GUARDS], *one_more = NULL;
    struct mmul_error err = {.text = ""};
    struct sigaction before, after;
    sigaction(SIGBUS, NULL, &before);
    for (int i = 0; i < GUARDS; i++)
        assert_int_equal(
            mmul_guard_create((char *)file.data + (size_t)i * file.bytes, 1, &guards[i], &err),
            MMUL_OK);
    assert_failure(mmul_guard_create((char *)file.data + GUARDS * file.bytes, 1, &one_more, &err),
                   MMUL_ERR_SYSTEM, err, "cannot guard more than 4096 mapped files");
    mmul_guard_destroy(guards[20]);
    assert_int_equal(mmul_guard_create((void *)file.data, 1, &guards[20], &err), MMUL_OK);
    for (int i = 0; i < GUARDS; i++)
        mmul_guard_destroy(guards[i]);
    mmul_guard_destroy(NULL);
    sigaction(SIGBUS, NULL, &after);
    assert_true(before.sa_handler == after.sa_handler);
    unmap_file(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_truncated_file_reads_as_zeros),
        cmocka_unit_test(writes_to_a_truncated_file_are_lost),
        cmocka_unit_test(other_threads_are_guarded),
        cmocka_unit_test(other_faults_reach_the_previous_handler),
        cmocka_unit_test(the_number_of_guarded_ranges_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
