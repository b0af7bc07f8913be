// SPDX-License-Identifier: MIT
// Attribution of energy to ranks: a counter counts once, even if several ranks' devices share it.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/report.h"

enum { RANKS = 5 };

struct rank {
    const char *host, *source; // "": not measured
    double joules;
    int expected; // the rank that reports it; -1: unknown
};

struct sharing {
    int count;
    struct rank ranks[RANKS];
    double all; // NAN: one is unknown
};

static const struct sharing sharings[] = {
    {1, {{"a", "packages 0", 3, 0}}, 3},
    {1, {{"a", "", 0, -1}}, NAN},
    {3, {{"a", "packages 0", 3, 0}, {"a", "packages 0", 4, 0}, {"b", "packages 0", 5, 2}}, 8},
    {2, {{"a", "packages 0", 3, 0}, {"a", "packages 1", 4, 1}}, 7},
    {2, {{"a", "packages 1", 3, 0}, {"a", "packages 10,11", 4, 1}}, 7},
    // One rank's counter covers those of the others.
    {4,
     {{"a", "packages 0", 1, 1},
      {"a", "packages 0,1", 4, 1},
      {"a", "packages 1", 2, 1},
      {"a", "packages 0,1", 5, 1}},
     4},
    // No rank's counter covers all of it.
    {3,
     {{"a", "packages 0,1", 4, -1}, {"a", "packages 1,2", 4, -1}, {"b", "packages 1", 2, 2}},
     NAN},
    {4,
     {{"a", "packages 0", 4, -1},
      {"a", "packages 0,1", 4, -1},
      {"a", "packages 1,2", 4, -1},
      {"a", "packages 3", 2, 3}},
     NAN},
    {4,
     {{"a", "0000:65:00.0", 7, 0},
      {"a", "packages 0", 2, 1},
      {"a", "0000:65:00.0", 8, 0},
      {"a", "0000:66:00.0", 9, 3}},
     18},
    {2, {{"a", "", 0, -1}, {"a", "packages 0", 3, 1}}, NAN},
};

static void each_counter_is_reported_once(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof sharings / sizeof *sharings; s++) {
        const struct sharing *sharing = &sharings[s];
        struct mmul_report_rank ranks[RANKS];
        struct mmul_report report = {.size = sharing->count, .ranks = ranks};
        memset(ranks, 0, sizeof ranks);
        for (int i = 0; i < sharing->count; i++) {
            snprintf(ranks[i].host, sizeof ranks[i].host, "%s", sharing->ranks[i].host);
            snprintf(ranks[i].joules_source, sizeof ranks[i].joules_source, "%s",
                     sharing->ranks[i].source);
            ranks[i].joules = sharing->ranks[i].joules;
        }
        mmul_report_assign_joules(&report);
        for (int i = 0; i < sharing->count; i++) {
            const int expected = sharing->ranks[i].expected;
            const bool is_known = ranks[i].joules_source[0] != '\0';
            if (is_known != (expected >= 0) || (is_known && ranks[i].joules_rank != expected) ||
                mmul_report_owns_joules(&report, i) != (expected == i))
                fail_msg("sharing %zu, rank %d", s, i);
        }
        const double all = mmul_report_joules(&report);
        if (isnan(all) != isnan(sharing->all) || (!isnan(all) && all != sharing->all))
            fail_msg("sharing %zu: %g", s, all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_counter_is_reported_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
