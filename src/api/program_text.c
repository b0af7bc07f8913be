// SPDX-License-Identifier: MIT
// A plan as tables and as JSON: steps with their costs, and memory over time. Decides nothing.
#include <limits.h>
#include <math.h>

#include "base/hash.h"
#include "base/integer.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/repeats.h"
#include "base/status.h"
#include "base/text.h"
#include "model/dtype.h"
#include "model/matrix.h"
#include "plan/program/program_memory.h"

// Bytes that each rank uses in each step, at [rank * step_count + step].
struct memory {
    int64_t *bytes, *device; // owned
    int64_t *nodes;          // owned: scratch for the sums of one step
};

static enum mmul_status memory_init(const struct mmul_program_plan *plan, struct memory *memory,
                                    struct mmul_error *err) {
    const int64_t count = (int64_t)plan->costs.size * plan->step_count;
    *memory = (struct memory){0};
    enum mmul_status status = MMUL_ALLOCATE(memory->bytes, count, "a table", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(memory->device, count, "a table", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(memory->nodes, plan->costs.node_count, "a table", err);
    for (int rank = 0; status == MMUL_OK && rank < plan->costs.size; rank++)
        mmul_program_rank_memory(plan, rank, memory->bytes + (int64_t)rank * plan->step_count,
                                 memory->device + (int64_t)rank * plan->step_count);
    return status;
}

static void memory_fini(struct memory *memory) {
    MMUL_FREE_ALL(memory->bytes, memory->device, memory->nodes);
}

// Returns the number of operands of the step and all its fused operations.
static int count_operands(const struct mmul_program_step *step) {
    return step->kind == MMUL_STEP_MOVE ? 1 : mmul_program_operand_count(step);
}

// ------------------------------------------------------------------------------------------ tables

// Returns the most memory that the ranks of one node use together in a step.
static int64_t max_node_memory(const struct mmul_program_plan *plan, const struct memory *memory,
                               int step) {
    const struct mmul_program_costs *c = &plan->costs;
    int64_t most = 0;
    for (int node = 0; node < c->node_count; node++)
        memory->nodes[node] = 0;
    for (int rank = 0; rank < c->size; rank++) {
        int64_t *node = &memory->nodes[c->rank_node[rank]];
        *node += memory->bytes[(int64_t)rank * plan->step_count + step];
        most = mmul_max(most, *node);
    }
    return most;
}

// Adds the operands with their placement and orientation.
static void add_operands(const struct mmul_program_plan *plan, const struct mmul_program_step *step,
                         struct mmul_text *text) {
    bool any = false;
    for (int i = 0; i < count_operands(step); i++) {
        const int place = mmul_program_step_operand(plan, step, i);
        if (place < 0)
            continue;
        mmul_text_add(text, "%s%s %s%s", any ? ", " : "", mmul_place_value(plan, place)->name,
                      mmul_placement_name(plan->places[place].placement.kind),
                      i < MMUL_FACTORS && step->transposed_factors[i] ? " transposed" : "");
        any = true;
    }
}

// A step and its repetitions at distance `length`: seconds and bytes are sums over all of them.
struct row {
    int first, length, times;
};

static void print_row(const struct mmul_program_plan *plan, const struct memory *memory,
                      const struct row *row, struct mmul_text *text) {
    const struct mmul_program_step *step = &plan->steps[row->first];
    char name[MMUL_STEP_NAME_BYTES], placement[96], bytes[32], used[32];
    double seconds = 0, network_bytes = 0;
    int64_t most = 0;
    for (int i = 0, at = row->first; i < row->times; i++, at += row->length) {
        seconds += plan->steps[at].seconds;
        network_bytes += plan->steps[at].network_bytes;
        most = mmul_max(most, max_node_memory(plan, memory, at));
    }
    mmul_text_add(text, "%d\t%s%s\t", row->first + 1, row->times > 1 ? "  " : "",
                  mmul_program_step_name(plan, step, name));
    for (int i = 0; i < mmul_program_result_count(step); i++)
        if (mmul_program_step_result(plan, step, i) >= 0)
            mmul_text_add(text, "%s%s", i > 0 ? ", " : "",
                          mmul_place_value(plan, mmul_program_step_result(plan, step, i))->name);
    mmul_text_add(text, "\t");
    add_operands(plan, step, text);
    mmul_text_add(text, "\t%s\t%s\t%.6f\t%s\n",
                  mmul_placement_format(&plan->places[step->result].placement, placement),
                  mmul_bytes_format((int64_t)(network_bytes + 0.5), bytes), seconds,
                  mmul_bytes_format(most, used));
}

// Returns a hash, equal for steps with the same operation, shapes, types and placements.
static uint64_t hash_step(const void *list, int index) {
    const struct mmul_program_plan *plan = list;
    const struct mmul_program_step *step = &plan->steps[index];
    const int results = mmul_program_result_count(step);
    struct mmul_text text = {0};
    char name[MMUL_STEP_NAME_BYTES], shape[96], placement[96];
    mmul_text_add(&text, "%s", mmul_program_step_name(plan, step, name));
    for (int i = -results; i < count_operands(step); i++) {
        const int place = i < 0 ? mmul_program_step_result(plan, step, i + results)
                                : mmul_program_step_operand(plan, step, i);
        if (place < 0)
            continue;
        const struct mmul_program_place *p = &plan->places[place];
        const struct mmul_value *value = &plan->program->values[p->value];
        mmul_text_add(&text, "\t%d %s %s %s", i, mmul_shape_format(value->shape, shape),
                      mmul_dtype_name(value->dtype),
                      mmul_placement_format(&p->placement, placement));
        if (i >= 0 && i < MMUL_FACTORS && step->transposed_factors[i])
            mmul_text_add(&text, " transposed");
    }
    const uint64_t mark = mmul_hash(mmul_text_get(&text), text.length);
    mmul_text_fini(&text);
    return mark;
}

static void print_steps(const struct mmul_program_plan *plan, const struct memory *memory,
                        bool verbose, FILE *stream) {
    struct mmul_text text = {0};
    struct mmul_repeated_block *repeats =
        verbose ? NULL : mmul_find_repeated_blocks(plan->step_count, hash_step, plan);
    mmul_text_add(&text, "step\toperation\tvalue\tfrom\tplacement\tnetwork\tseconds\tmemory\n");
    for (int i = 0; i < plan->step_count;) {
        const struct mmul_repeated_block block = mmul_repeated_block_at(repeats, i);
        if (block.times > 1)
            mmul_text_add(&text, "%d-%d\tx %d, sums of all:\n", i + 1,
                          i + block.length * block.times, block.times);
        for (int j = 0; j < block.length; j++)
            print_row(plan, memory, &(struct row){i + j, block.length, block.times}, &text);
        i += block.length * block.times;
    }
    mmul_text_print_narrow_table(mmul_text_get(&text), verbose ? INT_MAX : MMUL_TABLE_COLUMNS,
                                 stream);
    mmul_text_fini(&text);
    mmul_free(repeats);
}

// Returns the index of the largest entry.
static int find_peak(const int64_t *bytes, int count) {
    int peak = 0;
    for (int i = 1; i < count; i++)
        peak = bytes[i] > bytes[peak] ? i : peak;
    return peak;
}

static void print_peaks(const struct mmul_program_plan *plan, const struct memory *memory,
                        bool verbose, FILE *stream) {
    enum { RANKS_MOST = 64 };
    struct mmul_text text = {0};
    char used[32], tiles[32];
    mmul_text_add(&text, "rank\thost\tdevice\tmemory\tin step\tdevice memory\tin step\n");
    for (int rank = 0; rank < plan->costs.size && rank < RANKS_MOST; rank++) {
        const int64_t *bytes = memory->bytes + (int64_t)rank * plan->step_count;
        const int64_t *device = memory->device + (int64_t)rank * plan->step_count;
        const struct mmul_program_rank *is = &plan->ranks[rank];
        const int peak = find_peak(bytes, plan->step_count);
        const int busiest = find_peak(device, plan->step_count);
        mmul_text_add(&text, "%d\t%s\t%s\t%s\t%d\t", rank, is->host, is->device,
                      mmul_bytes_format(bytes[peak], used), peak + 1);
        if (is->host_memory || device[busiest] == 0)
            mmul_text_add(&text, "-\t-\n");
        else
            mmul_text_add(&text, "%s\t%d\n", mmul_bytes_format(device[busiest], tiles),
                          busiest + 1);
    }
    mmul_text_print_narrow_table(mmul_text_get(&text), verbose ? INT_MAX : MMUL_TABLE_COLUMNS,
                                 stream);
    mmul_text_fini(&text);
    if (plan->costs.size > RANKS_MOST)
        fprintf(stream, "and %d ranks more\n", plan->costs.size - RANKS_MOST);
}

// Returns the largest footprint of the run on any node, in bytes.
static int64_t max_run_room(const struct mmul_program_plan *plan) {
    int64_t most = 0;
    for (int node = 0; node < plan->costs.node_count; node++)
        most = mmul_max(most, mmul_program_node_footprint(plan, node));
    return most;
}

void mmul_program_plan_print(const struct mmul_program_plan *plan, bool verbose, FILE *stream) {
    struct mmul_error err;
    struct memory memory;
    char network[32], values[32], rooms[32], beside[64] = "";
    const int64_t most = max_run_room(plan);
    if (memory_init(plan, &memory, &err) == MMUL_OK && plan->step_count > 0) {
        print_steps(plan, &memory, verbose, stream);
        putc('\n', stream);
        print_peaks(plan, &memory, verbose, stream);
        putc('\n', stream);
    }
    memory_fini(&memory);
    if (most > 0) // 0: the plan has no figure
        snprintf(beside, sizeof beside, "the run itself %s, ", mmul_bytes_format(most, rooms));
    fprintf(stream,
            "%d rank%s on %d node%s: %s over the network,\nvalues take at most %s per node, %s"
            "predicted %.3f s\n",
            plan->costs.size, mmul_text_plural(plan->costs.size), plan->costs.node_count,
            mmul_text_plural(plan->costs.node_count),
            mmul_bytes_format((int64_t)(plan->network_bytes + 0.5), network),
            mmul_bytes_format(plan->node_bytes_most, values), beside, plan->seconds);
}

void mmul_program_plan_cost(const struct mmul_program_plan *plan, int begin, int end,
                            double *seconds, double *network_bytes) {
    *seconds = *network_bytes = 0;
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        const int result = mmul_step_operation(plan, step)->result,
                  original_value = result >= 0 ? plan->program->values[result].original_value : 0,
                  value = original_value > 0 ? original_value - 1 : result;
        if (value < begin || value >= end)
            continue;
        *seconds += step->seconds;
        *network_bytes += step->network_bytes;
    }
}

double mmul_program_plan_apart_seconds(const struct mmul_program_plan *plan, int begin, int end) {
    double seconds = 0;
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        const int value = mmul_step_operation(plan, step)->result;
        if (value < begin || value >= end)
            continue;
        seconds +=
            step->network_bytes == 0 ? step->seconds : fmin(step->seconds, step->compute_seconds);
    }
    return seconds;
}

void mmul_program_plan_mean_cost(const struct mmul_program_plan *plan, int value, double *seconds,
                                 double *network_bytes) {
    *seconds = mmul_program_move_seconds(&plan->costs, &plan->program->values[value],
                                         MMUL_PLACE_PARTIAL, MMUL_PLACE_REPLICATE, network_bytes);
}

// -------------------------------------------------------------------------------------------- JSON

static json_t *place_json(const struct mmul_program_plan *plan, int place) {
    char placement[96];
    return json_pack("{so ss}", "value", mmul_json_from_text(mmul_place_value(plan, place)->name),
                     "placement", mmul_placement_format(&plan->places[place].placement, placement));
}

static json_t *step_json(const struct mmul_program_plan *plan, const struct memory *memory,
                         int index) {
    const struct mmul_program_step *step = &plan->steps[index];
    const struct mmul_program_place *result = &plan->places[step->result];
    const struct mmul_shape shape = plan->program->values[result->value].shape;
    json_t *from = json_array(), *also = json_array(), *bytes = json_array(),
           *device = json_array();
    char placement[96], name[MMUL_STEP_NAME_BYTES];
    for (int i = 0; i < count_operands(step); i++)
        if (mmul_program_step_operand(plan, step, i) >= 0)
            json_array_append_new(from, place_json(plan, mmul_program_step_operand(plan, step, i)));
    for (int i = 1; i < mmul_program_result_count(step); i++)
        if (mmul_program_step_result(plan, step, i) >= 0)
            json_array_append_new(also, place_json(plan, mmul_program_step_result(plan, step, i)));
    for (int rank = 0; rank < plan->costs.size; rank++) {
        const int64_t at = (int64_t)rank * plan->step_count + index;
        json_array_append_new(bytes, json_integer((json_int_t)memory->bytes[at]));
        json_array_append_new(device, json_integer((json_int_t)memory->device[at]));
    }
    return json_pack("{ss so s[IIII] so so ss sI sf so so}", "operation",
                     mmul_program_step_name(plan, step, name), "value",
                     mmul_json_from_text(mmul_place_value(plan, step->result)->name), "shape",
                     (json_int_t)shape.batch, (json_int_t)shape.depth, (json_int_t)shape.rows,
                     (json_int_t)shape.cols, "also", also, "from", from, "placement",
                     mmul_placement_format(&result->placement, placement), "network_bytes",
                     (json_int_t)llround(step->network_bytes), "seconds", step->seconds,
                     "memory_bytes", bytes, "device_bytes", device);
}

enum mmul_status mmul_program_plan_json(const struct mmul_program_plan *plan, char **text,
                                        struct mmul_error *err) {
    struct memory memory;
    json_t *steps = json_array(), *ranks = json_array(), *nodes = json_array();
    enum mmul_status status = memory_init(plan, &memory, err);
    for (int i = 0; status == MMUL_OK && i < plan->step_count; i++)
        json_array_append_new(steps, step_json(plan, &memory, i));
    for (int rank = 0; rank < plan->costs.size; rank++)
        json_array_append_new(ranks,
                              json_pack("{si so so}", "rank", rank, "host",
                                        mmul_json_from_text(plan->ranks[rank].host), "device",
                                        mmul_json_from_text(plan->ranks[rank].device)));
    for (int node = 0; node < plan->costs.node_count; node++)
        json_array_append_new(
            nodes, json_pack("{sI sI}", "values_bytes",
                             (json_int_t)(plan->node_bytes[node] + plan->shard_bytes[node]),
                             "run_bytes", (json_int_t)mmul_program_node_footprint(plan, node)));
    json_t *all = json_pack(
        "{ss si ss sf sI sI so so so}", "schema", "mpimatmul-program-plan", "schema_version", 1,
        "version", MMUL_VERSION, "predicted_seconds", plan->seconds, "network_bytes",
        (json_int_t)llround(plan->network_bytes), "memory_bytes", (json_int_t)plan->node_bytes_most,
        "nodes", nodes, "ranks", ranks, "steps", steps);
    if (status == MMUL_OK)
        status = all != NULL ? mmul_json_format(all, text, err)
                             : mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a plan's JSON");
    json_decref(all);
    memory_fini(&memory);
    return status;
}
