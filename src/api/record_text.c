// SPDX-License-Identifier: MIT
// A record as a log (a line per stage, rank and phase), as Chrome trace events, and as a report in JSON.
#include <math.h>
#include <stdlib.h>

#include "api/texts.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "exec/memory/program_record.h"

enum { PHASES = 3 };

// What a stage is about.
struct topic {
    const char *value;
    char operation[MMUL_STEP_NAME_BYTES], shape[96], placement[96];
    bool moves;
    const struct mmul_program_step *step;
    int64_t network_bytes;
};

static struct topic topic_of(const struct mmul_values *values, int stage) {
    const struct mmul_program_plan *plan = values->plan;
    const struct mmul_program_step *step = &plan->steps[values->record->steps[stage]];
    const struct mmul_program_place *place = &plan->places[step->result];
    const struct mmul_value *value = &plan->program->values[place->value];
    struct topic topic = {.value = value->name,
                          .step = step,
                          .moves = step->kind == MMUL_STEP_MOVE,
                          .network_bytes = llround(step->network_bytes)};
    mmul_program_step_name(plan, step, topic.operation);
    mmul_shape_format(value->shape, topic.shape);
    mmul_placement_format(&place->placement, topic.placement);
    return topic;
}

// Of a rank's part of the result; of what is whole on the node all of it.
static int64_t part_bytes(const struct mmul_values *values, const struct topic *topic, int rank) {
    const struct mmul_program_place *place = &values->plan->places[topic->step->result];
    const struct mmul_value *value = &values->plan->program->values[place->value];
    if (place->placement.kind == MMUL_PLACE_FILE)
        return 0;
    return mmul_placement_part(&place->placement, value->shape, rank).elements *
           (int64_t)mmul_dtype_bytes(value->dtype);
}

static const struct mmul_stage_record *record_of(const struct mmul_values *values, int rank,
                                                 int stage) {
    return &values->record->all[rank * values->record->stage_count + stage];
}

static double phase_seconds(const struct mmul_stage_record *r, int phase) {
    const double seconds[PHASES] = {r->waiting, r->working, r->checking};
    return seconds[phase];
}

static const char *phase_name(const struct topic *topic, int phase) {
    const char *const names[PHASES] = {"wait", topic->moves ? "copy" : "compute", "check"};
    return names[phase];
}

static enum mmul_status store(const char *path, struct mmul_text *text, struct mmul_error *err) {
    enum mmul_status status = text->failed
                                  ? mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate '%s'", path)
                                  : mmul_text_store(path, mmul_text_get(text), err);
    mmul_text_fini(text);
    return status;
}

static enum mmul_status check(const struct mmul_values *values, struct mmul_error *err) {
    if (values->record != NULL)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_USAGE, "no record of the run was asked for");
}

enum mmul_status mmul_values_store_log(const struct mmul_values *values, const char *path,
                                       struct mmul_error *err) {
    struct mmul_text text = {0};
    if (check(values, err) != MMUL_OK)
        return err->status;
    mmul_text_add(&text, "begin\tend\tseconds\trank\tphase\toperation\tvalue\tshape\tplacement\t"
                         "part_bytes\tnetwork_bytes\n");
    for (int stage = 0; stage < values->record->stage_count; stage++) {
        const struct topic topic = topic_of(values, stage);
        for (int i = 0; i < values->record->size * PHASES; i++) {
            const int rank = i / PHASES, phase = i % PHASES;
            const struct mmul_stage_record *r = record_of(values, rank, stage);
            if (phase != 1 && phase_seconds(r, phase) < 5e-7)
                continue; // nothing of it
            mmul_text_add(&text, "%.6f\t%.6f\t%.6f\t%d\t%s\t%s\t%s\t%s\t%s\t%lld\t%lld\n", r->begin,
                          r->end, phase_seconds(r, phase), rank, phase_name(&topic, phase),
                          topic.operation, topic.value, topic.shape, topic.placement,
                          (long long)part_bytes(values, &topic, rank),
                          (long long)topic.network_bytes);
        }
    }
    return store(path, &text, err);
}

// ----------------------------------------------------------------------------------------- picture

static void add_quoted(struct mmul_text *text, const char *word) {
    json_t *string = mmul_json_text(word);
    char *quoted = json_dumps(string, JSON_ENCODE_ANY);
    mmul_text_add(text, "%s", quoted != NULL ? quoted : "\"\"");
    free(quoted); // jansson's
    json_decref(string);
}

static void add_event(struct mmul_text *text, const struct mmul_values *values, int rank,
                      int stage) {
    const struct topic topic = topic_of(values, stage);
    const struct mmul_stage_record *r = record_of(values, rank, stage);
    char name[MMUL_STEP_NAME_BYTES + MMUL_VALUE_NAME_BYTES];
    snprintf(name, sizeof name, "%s %s", topic.operation, topic.value);
    mmul_text_add(text, ",\n{\"ph\":\"X\",\"name\":");
    add_quoted(text, name);
    mmul_text_add(text, ",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"dur\":%.3f,\"args\":{", rank,
                  fmax(r->begin, 0) * 1e6, (r->end - r->begin) * 1e6);
    for (int phase = 0; phase < PHASES; phase++)
        mmul_text_add(text, "\"%s_us\":%.3f,", phase_name(&topic, phase),
                      phase_seconds(r, phase) * 1e6);
    mmul_text_add(text, "\"shape\":\"%s\",\"placement\":\"%s\",\"part_bytes\":%lld}}", topic.shape,
                  topic.placement, (long long)part_bytes(values, &topic, rank));
}

struct naming {
    const struct mmul_values *values;
    char name[MMUL_STEP_NAME_BYTES + MMUL_VALUE_NAME_BYTES];
};

static const char *name_stage(void *context, int stage) {
    struct naming *naming = context;
    const struct topic topic = topic_of(naming->values, stage);
    snprintf(naming->name, sizeof naming->name, "%s %s", topic.operation, topic.value);
    return naming->name;
}

enum mmul_status mmul_values_store_trace(const struct mmul_values *values, const char *path,
                                         struct mmul_error *err) {
    struct mmul_text text = {0};
    struct naming naming = {.values = values};
    if (check(values, err) != MMUL_OK)
        return err->status;
    mmul_text_add(&text, "{\"traceEvents\":[");
    for (int rank = 0; rank < values->record->size; rank++) {
        char name[256];
        snprintf(name, sizeof name, "rank %d on %s", rank, values->record->names[rank]);
        mmul_text_add(&text,
                      "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,"
                      "\"args\":{\"name\":",
                      rank > 0 ? "," : "", rank);
        add_quoted(&text, name);
        mmul_text_add(&text,
                      "}},\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":0,"
                      "\"args\":{\"name\":\"operations\"}}",
                      rank);
        for (int stage = 0; stage < values->record->stage_count; stage++)
            add_event(&text, values, rank, stage);
        if (values->record->traces != NULL)
            mmul_traces_add_transfers(values->record->traces, rank,
                                      (struct mmul_trace_stages){name_stage, &naming}, &text);
    }
    int64_t dropped = 0;
    for (int rank = 0; values->record->traces != NULL && rank < values->record->size; rank++)
        dropped += values->record->traces->ranks[rank].dropped;
    mmul_text_add(&text,
                  "\n],\n\"displayTimeUnit\":\"ms\",\"otherData\":{\"version\":\"%s\","
                  "\"dropped_events\":%lld}}\n",
                  MMUL_VERSION, (long long)dropped);
    return store(path, &text, err);
}

// ------------------------------------------------------------------------------------------ report

static json_t *stage_json(const struct mmul_values *values, int stage) {
    const struct topic topic = topic_of(values, stage);
    json_t *ranks = json_array();
    for (int rank = 0; rank < values->record->size; rank++) {
        const struct mmul_stage_record *r = record_of(values, rank, stage);
        json_array_append_new(ranks,
                              json_pack("{sf sf sf sf sf sI sI sI}", "begin_seconds", r->begin,
                                        "end_seconds", r->end, "wait_seconds", r->waiting,
                                        "work_seconds", r->working, "check_seconds", r->checking,
                                        "part_bytes", (json_int_t)part_bytes(values, &topic, rank),
                                        "uploaded_bytes", (json_int_t)r->traffic.uploaded,
                                        "downloaded_bytes", (json_int_t)r->traffic.downloaded));
    }
    return json_pack("{ss so ss ss sf sI so}", "operation", topic.operation, "value",
                     mmul_json_text(topic.value), "shape", topic.shape, "placement",
                     topic.placement, "predicted_seconds", topic.step->seconds, "network_bytes",
                     (json_int_t)topic.network_bytes, "ranks", ranks);
}

// Seconds of a rank add up to the wall time: the rest is set-up, waiting for others to end, and outputs.
static json_t *rank_json(const struct mmul_values *values, int rank) {
    double sums[PHASES + 1] = {0}, rest = values->summary.wall_seconds;
    for (int stage = 0; stage < values->record->stage_count; stage++) {
        const struct topic topic = topic_of(values, stage);
        const struct mmul_stage_record *r = record_of(values, rank, stage);
        for (int phase = 0; phase < PHASES; phase++) {
            sums[phase == 1 && topic.moves ? PHASES : phase] += phase_seconds(r, phase);
            rest -= phase_seconds(r, phase);
        }
    }
    const struct mmul_device_info *device = &values->record->devices[rank];
    return json_pack(
        "{si so so so so sf sf sf sf sf}", "rank", rank, "name",
        mmul_json_text(values->record->names[rank]), "kernels", mmul_json_text(device->kernels),
        "kernels_setting", mmul_json_text(device->kernels_setting), "kernels_lack",
        mmul_json_text(device->kernels_lack), "wait_seconds", sums[0], "compute_seconds", sums[1],
        "check_seconds", sums[2], "copy_seconds", sums[PHASES], "other_seconds", fmax(rest, 0));
}

enum mmul_status mmul_values_store_report(const struct mmul_values *values, const char *path,
                                          struct mmul_error *err) {
    char *text = NULL;
    if (check(values, err) != MMUL_OK)
        return err->status;
    json_t *stages = json_array(), *ranks = json_array();
    for (int rank = 0; rank < values->record->size; rank++)
        json_array_append_new(ranks, rank_json(values, rank));
    for (int stage = 0; stage < values->record->stage_count; stage++)
        json_array_append_new(stages, stage_json(values, stage));
    json_t *all = json_pack(
        "{ss si ss sf sf sI sI sI so so}", "schema", "mpimatmul-program", "schema_version", 1,
        "version", MMUL_VERSION, "wall_seconds", values->summary.wall_seconds, "predicted_seconds",
        values->plan->seconds, "network_bytes", (json_int_t)llround(values->plan->network_bytes),
        "memory_bytes", (json_int_t)values->plan->node_bytes_most, "verify_seed",
        (json_int_t)values->plan->options.verify_seed, "ranks", ranks, "operations", stages);
    enum mmul_status status = all != NULL
                                  ? mmul_json_format(all, &text, err)
                                  : mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the report");
    json_decref(all);
    if (status == MMUL_OK)
        status = mmul_text_store(path, text, err);
    mmul_free(text);
    return status;
}
