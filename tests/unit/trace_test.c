// SPDX-License-Identifier: MIT
// Traces: recorded events come out in order, on root's clock and in their lane. Events beyond the
// capacity are counted, also with several recording threads. A trace that is off costs nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/texts.h"
#include "base/json.h"
#include "base/memory.h"
#include "exec/threads/compute_thread.h"
#include "model/report.h"

static struct mmul_trace *make_trace(int64_t capacity) {
    struct mmul_trace *trace;
    struct mmul_error err;
    assert_int_equal(mmul_trace_create(capacity, &trace, &err), MMUL_OK);
    return trace;
}

static void test_a_trace_that_is_off_records_nothing(void **state) {
    (void)state;
    assert_true(mmul_trace_now(NULL) == 0);
    mmul_trace_add(NULL, MMUL_TRACE_CHECK, 0, 1, 2);
    mmul_trace_destroy(NULL);
    mmul_traces_destroy(NULL);
    mmul_traces_set_commit(NULL, 0, 1);
    struct mmul_report report = {.size = 1};
    struct mmul_error err;
    assert_int_equal(mmul_report_dropped_events(&report), 0);
    assert_int_equal(mmul_report_store_trace(&report, "nowhere", &err), MMUL_ERR_USAGE);
    assert_string_equal(err.text, "the run recorded no trace");
}

static void test_events_beyond_the_capacity_are_counted(void **state) {
    (void)state;
    struct mmul_trace *trace = make_trace(3);
    double begin = mmul_trace_now(trace);
    for (int i = 0; i < 5; i++)
        mmul_trace_add(trace, MMUL_TRACE_UPLOAD, begin, 100 + i, 0);
    assert_int_equal(mmul_trace_event_count(trace), 3);
    assert_int_equal(mmul_trace_dropped(trace), 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trace->events[i].numbers[0], 100 + i);
        assert_true(trace->events[i].begin == begin && trace->events[i].end >= begin);
    }
    mmul_trace_destroy(trace);
    assert_int_equal(mmul_live_bytes(), 0);
}

enum { PARTS = 4, EACH = 1000, CAPACITY = 3500 };

static void record_events(void *context, int part) {
    for (int i = 0; i < EACH; i++)
        mmul_trace_add(context, MMUL_TRACE_UPLOAD, mmul_trace_now(context), part, i);
}

static void test_threads_share_a_recorder(void **state) {
    (void)state;
    struct mmul_trace *trace = make_trace(CAPACITY);
    int64_t next[PARTS] = {0};
    mmul_helper_threads_run(PARTS, record_events, trace);
    assert_int_equal(mmul_trace_event_count(trace), CAPACITY);
    assert_int_equal(mmul_trace_dropped(trace), PARTS * EACH - CAPACITY);
    for (int i = 0; i < CAPACITY; i++) { // none twice, none torn, each thread's in order
        const struct mmul_trace_event *event = &trace->events[i];
        assert_int_equal(event->kind, MMUL_TRACE_UPLOAD);
        assert_in_range(event->numbers[0], 0, PARTS - 1);
        assert_true(event->numbers[1] >= next[event->numbers[0]]);
        next[event->numbers[0]] = event->numbers[1] + 1;
    }
    mmul_trace_destroy(trace);
}

// Rank 1's clock is 100 s ahead; it sends block 0 at 5 s and block 1 at 8 s. Root has posted its
// receives at 1 s. Root sends panel 0 at 2 s, which rank 1 has waited for since 1 s.
static void test_waits_are_cut_off_transfers(void **state) {
    (void)state;
    struct mmul_trace_event events[] = {
        {.begin = 1, .end = 6, .numbers = {0}, .kind = MMUL_TRACE_BLOCK},
        {.begin = 6, .end = 9, .numbers = {1}, .kind = MMUL_TRACE_BLOCK},
        {.begin = 1, .end = 9, .numbers = {1}, .kind = MMUL_TRACE_BLOCK, .stage = 1},
        {.begin = 2, .end = 3, .numbers = {0}, .kind = MMUL_TRACE_PANEL},
        {.begin = 0, .end = 1, .numbers = {0}, .kind = MMUL_TRACE_CHECK},
        {.begin = 108, .end = 109, .numbers = {1}, .kind = MMUL_TRACE_BLOCK},
        {.begin = 105, .end = 106, .numbers = {0}, .kind = MMUL_TRACE_BLOCK},
        {.begin = 101, .end = 103, .numbers = {0}, .kind = MMUL_TRACE_PANEL},
    };
    static const double begins[] = {5, 8, 1, 2, 0, 108, 105, 102};
    struct mmul_trace_rank ranks[] = {{.kept = 5}, {.kept = 3, .clock_lead_seconds = 100}};
    struct mmul_traces traces = {.size = 2, .ranks = ranks, .events = events};
    struct mmul_error err;
    assert_int_equal(mmul_traces_cut_waits(&traces, &err), MMUL_OK);
    for (int i = 0; i < 8; i++)
        assert_true(events[i].begin == begins[i]);
    assert_int_equal(mmul_live_bytes(), 0);
}

// --------------------------------------------------------------------------------------- writing

// Two ranks; the clock of the second is 1,000 s ahead. Events are in no order.
static struct mmul_trace_event events[] = {
    {.begin = 52.5, .end = 53, .numbers = {7, 9}, .kind = MMUL_TRACE_CHECK},
    {.begin = 50.25, .end = 52.5, .numbers = {7, 9}, .kind = MMUL_TRACE_MULTIPLY},
    {.begin = 54, .end = 54, .kind = MMUL_TRACE_COMMIT},
    {.begin = 1051, .end = 1051.000001234, .numbers = {3, 4096}, .kind = MMUL_TRACE_PANEL},
    {.begin = 1050.5, .end = 1052, .numbers = {1}, .kind = MMUL_TRACE_WAIT_OPERANDS},
};
static struct mmul_trace_rank trace_ranks[] = {
    {.kept = 3, .dropped = 1}, {.kept = 2, .dropped = 4, .clock_lead_seconds = 1000}};
static struct mmul_report_rank ranks[] = {{.host = "here", .device = "cpu"},
                                          {.host = "th\"ere", .device = "0:0"}};
static struct mmul_traces traces = {.size = 2, .ranks = trace_ranks, .events = events, .begin = 50};
static const struct mmul_report report = {.size = 2, .ranks = ranks, .traces = &traces};

static const char *text_of(const json_t *event, const char *key) {
    const char *text = json_string_value(json_object_get(event, key));
    assert_non_null(text);
    return text;
}

static int64_t number_of(const json_t *event, const char *key) {
    return json_integer_value(json_object_get(event, key));
}

// A line per event: "1.4 panel 1.0 +1.2 {"step":3,"bytes":4096}".
static void describe(const json_t *event, struct mmul_text *text) {
    char *args = json_dumps(json_object_get(event, "args"), JSON_COMPACT);
    mmul_text_add(text, "%lld.%lld %s", (long long)number_of(event, "pid"),
                  (long long)number_of(event, "tid"), text_of(event, "name"));
    if (strcmp(text_of(event, "ph"), "X") == 0)
        mmul_text_add(text, " %.3f +%.3f", json_number_value(json_object_get(event, "ts")),
                      json_number_value(json_object_get(event, "dur")));
    mmul_text_add(text, " %s\n", args);
    free(args);
}

static void test_events_come_in_order(void **state) {
    (void)state;
    static const char expected[] = "0.0 process_name {\"name\":\"rank 0 on here: cpu\"}\n"
                                   "0.0 process_sort_index {\"sort_index\":0}\n"
                                   "0.1 thread_name {\"name\":\"device\"}\n"
                                   "0.1 thread_sort_index {\"sort_index\":1}\n"
                                   "0.1 multiply 250000.000 +2250000.000 {\"rows\":7,\"cols\":9}\n"
                                   "0.1 check 2500000.000 +500000.000 {\"rows\":7,\"cols\":9}\n"
                                   "0.8 thread_name {\"name\":\"results to files\"}\n"
                                   "0.8 thread_sort_index {\"sort_index\":8}\n"
                                   "0.8 commit 3500000.000 +250000.000 {}\n"
                                   "1.0 process_name {\"name\":\"rank 1 on th\\\"ere: 0:0\"}\n"
                                   "1.0 process_sort_index {\"sort_index\":1}\n"
                                   "1.1 thread_name {\"name\":\"device\"}\n"
                                   "1.1 thread_sort_index {\"sort_index\":1}\n"
                                   "1.1 wait for operands 500000.000 +1500000.000 {\"step\":1}\n"
                                   "1.4 thread_name {\"name\":\"relay\"}\n"
                                   "1.4 thread_sort_index {\"sort_index\":4}\n"
                                   "1.4 panel 1000000.000 +1.234 {\"step\":3,\"bytes\":4096}\n";
    struct mmul_text text = {0}, found = {0};
    struct mmul_error err;
    mmul_traces_set_commit(&traces, 53.5, 53.75);
    assert_int_equal(mmul_traces_format(&report, &text, &err), MMUL_OK);
    json_t *root = json_loads(mmul_text_get(&text), JSON_REJECT_DUPLICATES, NULL), *event;
    size_t i;
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) describe(event, &found);
    assert_string_equal(mmul_text_get(&found), expected);
    const json_t *other = json_object_get(root, "otherData");
    assert_int_equal(number_of(other, "dropped_events"), 5);
    assert_int_equal(
        json_integer_value(json_array_get(json_object_get(other, "clocks_ahead_ns"), 1)),
        1000000000000);
    assert_int_equal(mmul_report_dropped_events(&report), 5);
    json_decref(root);
    mmul_text_fini(&found);
    mmul_text_fini(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_trace_that_is_off_records_nothing),
        cmocka_unit_test(test_events_beyond_the_capacity_are_counted),
        cmocka_unit_test(test_threads_share_a_recorder),
        cmocka_unit_test(test_waits_are_cut_off_transfers),
        cmocka_unit_test(test_events_come_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
