// SPDX-License-Identifier: MIT
// Repeated blocks of a list: those printed once with a count, and those printed in full.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "base/repeats.h"

static uint64_t letter(const void *list, int index) {
    return (uint64_t)((const char *)list)[index];
}

// "ab3(cde)f": the printed form of a list of letters.
static void check_shown(const char *list, const char *expected) {
    char shown[128] = "";
    const int count = (int)strlen(list);
    struct mmul_repeated_block *repeats = mmul_find_repeated_blocks(count, letter, list);
    assert_non_null(repeats);
    for (int i = 0; i < count;) {
        const struct mmul_repeated_block r = mmul_repeated_block_at(repeats, i);
        char *end = shown + strlen(shown);
        if (r.times > 1)
            snprintf(end, sizeof shown - strlen(shown), "%d(%.*s)", r.times, r.length, list + i);
        else
            snprintf(end, sizeof shown - strlen(shown), "%c", list[i]);
        for (int j = 0; j < r.length * r.times; j++) // the repeats are equal
            assert_int_equal(list[i + j], list[i + j % r.length]);
        i += r.length * r.times;
    }
    assert_string_equal(shown, expected);
    mmul_free(repeats);
}

static void repeated_blocks_are_found_and_printed_once(void **state) {
    (void)state;
    check_shown("", "");
    check_shown("a", "a");
    check_shown("abcabc", "abcabc"); // twice is no loop
    check_shown("aaa", "aaa");       // would save little
    check_shown("aaaaa", "5(a)");
    check_shown("xababababy", "x4(ab)y");
    check_shown("abcabcabc", "3(abc)");
    check_shown("aabcabcabc", "a3(abc)"); // not two of `a` with the rest rotated
    check_shown("abcabcabcab", "3(abc)ab");
    check_shown("xaabaabaabaaby", "x4(aab)y");
    check_shown("aaaaabbbbbb", "5(a)6(b)");
    check_shown("abcdefg", "abcdefg");
}

static void long_lists_and_missing_memory_are_handled(void **state) {
    (void)state;
    const struct mmul_repeated_block alone = mmul_repeated_block_at(NULL, 7);
    assert_true(alone.length == 1 && alone.times == 1);
    enum { ROUNDS = 700, EACH = 30 };
    struct mmul_error err;
    char *list = mmul_allocate_raw(ROUNDS * EACH, 1, "a list", &err);
    assert_non_null(list);
    for (int i = 0; i < ROUNDS * EACH; i++)
        list[i] = (char)('a' + i % EACH);
    struct mmul_repeated_block *repeats = mmul_find_repeated_blocks(ROUNDS * EACH, letter, list);
    assert_true(repeats[0].length == EACH && repeats[0].times == ROUNDS);
    mmul_free(repeats);
    mmul_free(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_blocks_are_found_and_printed_once),
        cmocka_unit_test(long_lists_and_missing_memory_are_handled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
