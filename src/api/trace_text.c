// SPDX-License-Identifier: MIT
// Timelines of all ranks as Chrome trace events: a process per rank with a lane for its operations
// and one for each concurrent or nested activity.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/texts.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/report.h"

static const char *const lanes[MMUL_TRACE_LANES] = {"operations",
                                                    "device",
                                                    "copies",
                                                    "scatter",
                                                    "relay",
                                                    "gather",
                                                    "pieces from files",
                                                    "panels from files",
                                                    "results to files",
                                                    "write-back",
                                                    "send",
                                                    "receive"};

// Name, lane and numbers of each kind of span.
static const struct {
    const char *name;
    enum mmul_trace_lane lane;
    const char *numbers[2];
} kinds[MMUL_TRACE_KINDS] = {
    [MMUL_TRACE_SET_UP] = {"set up", MMUL_LANE_DEVICE, {NULL}},
    [MMUL_TRACE_WAIT_OPERANDS] = {"wait for operands", MMUL_LANE_DEVICE, {"step"}},
    [MMUL_TRACE_WAIT_RESULTS] = {"wait for results to leave", MMUL_LANE_DEVICE, {"step"}},
    [MMUL_TRACE_MULTIPLY] = {"multiply", MMUL_LANE_DEVICE, {"rows", "cols"}},
    [MMUL_TRACE_CHECK] = {"check", MMUL_LANE_DEVICE, {"rows", "cols"}},
    [MMUL_TRACE_UPLOAD] = {"upload", MMUL_LANE_COPIES, {"bytes"}},
    [MMUL_TRACE_DOWNLOAD] = {"download", MMUL_LANE_COPIES, {"bytes"}},
    [MMUL_TRACE_PIECES] = {"pieces", MMUL_LANE_SCATTER, {"round", "bytes"}},
    [MMUL_TRACE_C_IN] = {"C_in", MMUL_LANE_SCATTER, {"round", "bytes"}},
    [MMUL_TRACE_PANEL] = {"panel", MMUL_LANE_RELAY, {"step", "bytes"}},
    [MMUL_TRACE_BLOCK] = {"block of C", MMUL_LANE_GATHER, {"step", "bytes"}},
    [MMUL_TRACE_READ_PIECES] = {"read pieces", MMUL_LANE_READ, {"round", "bytes"}},
    [MMUL_TRACE_READ_C_IN] = {"read C_in", MMUL_LANE_READ, {"round", "bytes"}},
    [MMUL_TRACE_READ_PANEL] = {"read panel", MMUL_LANE_LOAD, {"step", "bytes"}},
    [MMUL_TRACE_WRITE_BLOCK] = {"write block of C", MMUL_LANE_STORE, {"step", "bytes"}},
    [MMUL_TRACE_COMMIT] = {"commit", MMUL_LANE_STORE, {NULL}},
    [MMUL_TRACE_WRITE_BACK] = {"write back", MMUL_LANE_WRITE_BACK, {"rows", "bytes"}},
    [MMUL_TRACE_SEND] = {"send", MMUL_LANE_SEND, {"to_rank", "bytes"}},
    [MMUL_TRACE_RECEIVE] = {"receive", MMUL_LANE_RECEIVE, {"from_rank", "bytes"}},
    [MMUL_TRACE_READ_PART] = {"read", MMUL_LANE_READ, {"bytes"}},
    [MMUL_TRACE_WRITE_PART] = {"write", MMUL_LANE_STORE, {"bytes"}},
};

static int lane_of(const struct mmul_trace_event *event) {
    return (int)kinds[event->kind].lane;
}

// Orders by lane, then by time; an enclosing span comes first.
static int compare_events(const void *x, const void *y) {
    const struct mmul_trace_event *a = x, *b = y;
    int lane = lane_of(a) - lane_of(b);
    if (lane != 0)
        return lane;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end < b->end) - (a->end > b->end);
}

// Adds a JSON string.
static void add_quoted(struct mmul_text *text, const char *word) {
    json_t *string = mmul_json_from_text(word);
    char *quoted = json_dumps(string, JSON_ENCODE_ANY);
    mmul_text_add(text, "%s", quoted != NULL ? quoted : "\"\"");
    free(quoted); // allocated by jansson
    json_decref(string);
}

static void begin_record(struct mmul_text *text, const char *phase, const char *name, int rank,
                         int lane) {
    const char *so_far = mmul_text_get(text);
    bool is_first = text->length == 0 || so_far[text->length - 1] == '[';
    mmul_text_add(text, "%s\n{\"ph\":\"%s\",\"name\":", is_first ? "" : ",", phase);
    add_quoted(text, name);
    mmul_text_add(text, ",\"pid\":%d,\"tid\":%d,", rank, lane);
}

// Names a process or a thread and sets its position among the others.
static void add_name(struct mmul_text *text, bool is_process, int rank, int lane,
                     const char *name) {
    begin_record(text, "M", is_process ? "process_name" : "thread_name", rank, lane);
    mmul_text_add(text, "\"args\":{\"name\":");
    add_quoted(text, name);
    mmul_text_add(text, "}}");
    begin_record(text, "M", is_process ? "process_sort_index" : "thread_sort_index", rank, lane);
    mmul_text_add(text, "\"args\":{\"sort_index\":%d}}", is_process ? rank : lane);
}

// Adds microseconds to the nanosecond, independent of the locale's decimal point.
static void add_time(struct mmul_text *text, const char *key, int64_t nanoseconds) {
    mmul_text_add(text, "\"%s\":%s%lld.%03lld,", key, nanoseconds < 0 ? "-" : "",
                  llabs((long long)nanoseconds) / 1000, llabs((long long)nanoseconds) % 1000);
}

static void add_word(struct mmul_text *text, const char *key, const char *word) {
    mmul_text_add(text, ",\"%s\":", key);
    add_quoted(text, word);
}

enum { TITLE_BYTES = sizeof((struct mmul_report_operation *)NULL)->name + MMUL_VALUE_NAME_BYTES };

// "matmul + relu y". Returns `title`.
static const char *title_of(const struct mmul_report_operation *o, char title[static TITLE_BYTES]) {
    snprintf(title, TITLE_BYTES, "%s %s", o->name, o->value);
    return title;
}

// Times before 0 become 0: a rank can leave the agreement that starts the clock a moment before
// root.
static int64_t nanoseconds(double seconds) {
    return llround(fmax(seconds, 0) * 1e9);
}

static void add_span(struct mmul_text *text, double begin, double end) {
    add_time(text, "ts", nanoseconds(begin));
    add_time(text, "dur", nanoseconds(end) - nanoseconds(begin));
}

static void add_event(struct mmul_text *text, const struct mmul_report *report, int rank,
                      const struct mmul_trace_event *event) {
    const double zero = report->traces->begin + report->traces->ranks[rank].clock_lead_seconds;
    char title[TITLE_BYTES];
    begin_record(text, "X", kinds[event->kind].name, rank, lane_of(event));
    add_span(text, event->begin - zero, event->end - zero);
    mmul_text_add(text, "\"args\":{");
    for (int i = 0; i < 2 && kinds[event->kind].numbers[i] != NULL; i++)
        mmul_text_add(text, "%s\"%s\":%lld", i > 0 ? "," : "", kinds[event->kind].numbers[i],
                      (long long)event->numbers[i]);
    if (event->stage < report->operation_count && kinds[event->kind].numbers[0] != NULL)
        add_word(text, "stage", title_of(&report->operations[event->stage], title));
    mmul_text_add(text, "}}");
}

// Adds the rank's memory from that time on, as a counter track.
static void add_memory(struct mmul_text *text, int rank, const struct mmul_report_part *part) {
    begin_record(text, "C", "memory", rank, MMUL_LANE_OPERATIONS);
    add_time(text, "ts", nanoseconds(part->begin));
    mmul_text_add(text, "\"args\":{\"host_bytes\":%lld,\"device_bytes\":%lld}}",
                  (long long)part->memory_bytes, (long long)part->device_bytes);
}

static void add_operations(struct mmul_text *text, const struct mmul_report *report, int rank) {
    char title[TITLE_BYTES];
    if (report->operation_count > 0)
        add_name(text, false, rank, MMUL_LANE_OPERATIONS, lanes[MMUL_LANE_OPERATIONS]);
    for (int i = 0; i < report->operation_count; i++) {
        const struct mmul_report_operation *o = &report->operations[i];
        const struct mmul_report_part *p = &mmul_report_parts(report, rank)[i];
        begin_record(text, "X", title_of(o, title), rank, MMUL_LANE_OPERATIONS);
        add_span(text, p->begin, p->end);
        mmul_text_add(text, "\"args\":{\"wait_us\":%.3f,\"%s_us\":%.3f,\"check_us\":%.3f",
                      1e6 * p->wait_seconds, o->is_move ? "copy" : "compute", 1e6 * p->work_seconds,
                      1e6 * p->check_seconds);
        add_word(text, "shape", o->shape);
        add_word(text, "placement", o->placement);
        mmul_text_add(text, ",\"part_bytes\":%lld}}", (long long)p->result_bytes);
        add_memory(text, rank, p);
    }
}

static void add_rank(struct mmul_text *text, const struct mmul_report *report, int rank,
                     struct mmul_trace_event *events) {
    const struct mmul_trace_rank *r = &report->traces->ranks[rank];
    const struct mmul_report_rank *who = &report->ranks[rank];
    char name[256];
    int lane = -1;
    qsort(events, (size_t)r->kept, sizeof *events, compare_events);
    snprintf(name, sizeof name, "rank %d on %.60s: %.120s", rank, who->host, who->device);
    add_name(text, true, rank, 0, name);
    add_operations(text, report, rank);
    for (int64_t i = 0; i < r->kept; i++) {
        if (lane_of(&events[i]) != lane) {
            lane = lane_of(&events[i]);
            add_name(text, false, rank, lane, lanes[lane]);
        }
        add_event(text, report, rank, &events[i]);
    }
}

enum mmul_status mmul_traces_format(const struct mmul_report *report, struct mmul_text *text,
                                    struct mmul_error *err) {
    const struct mmul_traces *traces = report->traces;
    struct mmul_trace_event *events = traces->events;
    mmul_text_add(text, "{\"traceEvents\":[");
    for (int rank = 0; rank < traces->size; rank++) {
        add_rank(text, report, rank, events);
        events += traces->ranks[rank].kept;
    }
    mmul_text_add(text,
                  "\n],\n\"displayTimeUnit\":\"ms\",\"otherData\":{\"version\":\"%s\","
                  "\"dropped_events\":%lld,\"clocks_ahead_ns\":[",
                  MMUL_VERSION, (long long)mmul_report_dropped_events(report));
    for (int rank = 0; rank < traces->size; rank++)
        mmul_text_add(text, "%s%lld", rank > 0 ? "," : "",
                      llround(traces->ranks[rank].clock_lead_seconds * 1e9));
    mmul_text_add(text, "]}}\n");
    return text->failed ? mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the trace") : MMUL_OK;
}

enum mmul_status mmul_report_store_trace(const struct mmul_report *report, const char *path,
                                         struct mmul_error *err) {
    struct mmul_text text = {0};
    if (report->traces == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "the run recorded no trace");
    enum mmul_status status = mmul_traces_format(report, &text, err);
    if (status == MMUL_OK)
        status = mmul_text_store(path, mmul_text_get(&text), err);
    mmul_text_fini(&text);
    return status;
}
