// SPDX-License-Identifier: MIT
// Creates the trace recorders of a run and builds the report. Each rank measures and records, sends
// the figures to root, and root adds them up. Every run has a report, and so has a program that
// computes nothing. The report contains what each rank did in each operation if the job asks for a
// record.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "comm/clocks.h"
#include "exec/conduct/rank_status.h"
#include "exec/conduct/run.h"
#include "exec/status/device_usage.h"
#include "exec/steps/product.h"
#include "exec/tasks/work.h"
#include "io/output_file.h"
#include "model/trace.h"
#include "plan/program/program_memory.h"

// ------------------------------------------------------------------------------------------- ranks

// Uses only facts that all ranks know.
static void describe_rank(const struct mmul_rank_info *info, struct mmul_report_rank *r) {
    mmul_text_copy(r->host, sizeof r->host, info->host);
    mmul_text_copy(r->device, sizeof r->device, info->device_name);
    mmul_text_copy(r->device_name, sizeof r->device_name, info->device.name);
    mmul_text_copy(r->cores, sizeof r->cores, info->cores);
    mmul_text_copy(r->kernels, sizeof r->kernels, info->device.kernels);
    mmul_text_copy(r->kernels_setting, sizeof r->kernels_setting, info->device.kernels_setting);
    mmul_text_copy(r->kernels_unused_vectors, sizeof r->kernels_unused_vectors,
                   info->device.kernels_unused_vectors);
    mmul_text_copy(r->note, sizeof r->note, info->note);
    r->node = info->node;
    r->threads = info->threads;
}

// Describes this rank's part of the product, for a run that is one product. `claims` is set by the
// caller.
static void describe_product(const struct mmul_stage *stage, struct mmul_report_rank *r) {
    const struct mmul_works *works = stage->works;
    const struct mmul_problem *problem = &stage->schedule->problem;
    const int64_t width = mmul_problem_result_width(problem, stage->schedule->axis),
                  elements = works->own_elements + works->elements_stolen;
    mmul_text_copy(r->why, sizeof r->why, stage->product->me->why);
    r->begin = stage->product->me->begin;
    r->end = stage->product->me->end;
    r->elements_stolen = works->elements_stolen;
    r->elements_stolen_from_it = (r->end - r->begin) * width - works->own_elements;
    r->share = (double)elements / ((double)stage->schedule->total * (double)width);
    r->flops = 2.0 * (double)elements * (double)problem->k;
}

// Returns the result type of the first product; MMUL_F32 if there is none.
static enum mmul_dtype result_dtype_of(const struct mmul_run *run) {
    const struct mmul_program_plan *plan = run->rank_resources.values->plan;
    return plan->product_count > 0
               ? mmul_problem_result_dtype(&plan->steps[plan->products[0]].schedule->problem)
               : MMUL_F32;
}

// Fills in this rank's own figures.
static void describe_self(struct mmul_run *run, bool is_product) {
    struct mmul_context *context = run->rank_resources.context;
    const struct mmul_rank_info *info = &context->cluster->ranks[context->comm->rank];
    struct mmul_report_rank *r = &run->rank_resources.mine;
    describe_rank(info, r);
    r->device_replacements =
        context->replacements - run->rank_resources.watchdog.replacements_before;
    if (r->device_replacements > 0)
        snprintf(r->note, sizeof r->note, "replaced by %.100s", context->device_name);
    r->warm_up_seconds = context->warm_up_seconds;
    r->joules = mmul_device_usage_joules(context);
    if (!isnan(r->joules))
        mmul_text_copy(r->joules_source, sizeof r->joules_source,
                       context->device_usage->sensors.source);
    r->products = run->rank_resources.worker.products;
    r->fallback_products = run->rank_resources.worker.fallback_products;
    r->speed_flops = mmul_rank_flops(info, result_dtype_of(run));
    r->speed_unstable = mmul_speed_is_unstable(&info->speed, result_dtype_of(run));
    if (context->comm->node_rank == 0)
        r->segment_bytes = run->rank_resources.segment.bytes;
    for (int i = 0; i < run->stage_count; i++) {
        const struct mmul_stage *stage = &run->stages[i];
        r->lines_checked += stage->verifier.lines_checked;
        r->lines_wrong += stage->verifier.lines_wrong;
        r->lines_recomputed += stage->verifier.lines_recomputed;
        r->blocks_recomputed += stage->verifier.blocks_recomputed;
        r->claims += stage->works != NULL ? stage->works->claims : 0;
    }
    if (is_product)
        describe_product(&run->stages[0], r);
}

static void add_ranks(struct mmul_report *report) {
    for (int i = 0; i < report->size; i++) {
        const struct mmul_report_rank *r = &report->ranks[i];
        report->lines_checked += r->lines_checked;
        report->lines_wrong += r->lines_wrong;
        report->lines_recomputed += r->lines_recomputed;
        report->blocks_recomputed += r->blocks_recomputed;
        report->fallback_products += r->fallback_products;
        report->mapped_bytes += r->mapped_bytes;
        report->segment_bytes += r->segment_bytes;
    }
    mmul_report_assign_joules(report);
}

enum mmul_status mmul_report_create(const struct mmul_context *context,
                                    const struct mmul_program_plan *plan,
                                    struct mmul_report **report, struct mmul_error *err) {
    struct mmul_report *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "the report", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->ranks, context->comm->size, "the report", err);
    if (status != MMUL_OK) {
        mmul_report_destroy(made);
        return status;
    }
    made->size = context->comm->size;
    made->node_count = context->comm->node_count;
    for (int i = 0; i < made->size; i++)
        describe_rank(&context->cluster->ranks[i], &made->ranks[i]);
    made->verified = !plan->options.no_verify;
    made->verify_seed = plan->options.verify_seed;
    made->step_count = plan->step_count;
    made->flops = mmul_program_calculation_flops(plan->program);
    made->predicted_seconds = plan->seconds;
    made->memory_bytes = plan->node_bytes_most;
    made->network_bytes = llround(plan->network_bytes);
    for (int i = 0; i < context->cluster->device_count; i++) {
        const struct mmul_device_entry *d = &context->cluster->devices[i];
        if (d->used_by < 0)
            mmul_text_add(&made->unused, "unused: %s %s (%s): %s\n",
                          context->cluster->nodes[d->node].host, d->info.id, d->info.name,
                          d->info.reason);
    }
    *report = made;
    return MMUL_OK;
}

// Collects on root the bytes that each node sent to each other node. Collective.
static enum mmul_status collect_sent(const struct mmul_run *run, struct mmul_report *report,
                                     struct mmul_error *err) {
    const struct mmul_comm *comm = run->rank_resources.context->comm;
    const int64_t nodes = comm->node_count;
    int64_t *sizes = NULL, *all = NULL;
    enum mmul_status status = MMUL_ALLOCATE(sizes, comm->size, "the report", err);
    for (int rank = 0; status == MMUL_OK && rank < comm->size; rank++)
        sizes[rank] = nodes * (int64_t)sizeof *all;
    if (status == MMUL_OK && comm->rank == 0)
        status = MMUL_ALLOCATE_ALL("the report", err, MMUL_ARRAY(all, comm->size * nodes),
                                   MMUL_ARRAY(report->sent_bytes, nodes * nodes));
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_gather(comm, run->rank_resources.transport.sent_bytes, sizes, all, err);
    for (int64_t i = 0; status == MMUL_OK && comm->rank == 0 && i < comm->size * nodes; i++)
        report->sent_bytes[comm->rank_node[i / nodes] * nodes + i % nodes] += all[i];
    mmul_free(sizes);
    mmul_free(all);
    return status;
}

// ------------------------------------------------------------------------------------- one product

// Returns the bytes that the ranks of a node read from files without copying them.
static int64_t bytes_read_in_place(const struct mmul_report *report,
                                   const struct mmul_schedule *schedule, int node) {
    const struct mmul_problem *p = &schedule->problem;
    unsigned maps = mmul_schedule_nodes(schedule)[node].maps;
    // A split along the other axis would make the split operand the whole one.
    const enum mmul_axis axis = schedule->axis, other = axis == MMUL_ROWS ? MMUL_COLS : MMUL_ROWS;
    int64_t units = 0, bytes = 0;
    for (int i = 0; i < schedule->size; i++)
        if (mmul_schedule_ranks(schedule)[i].node == node)
            units += report->ranks[i].end - report->ranks[i].begin;
    if (units == 0)
        return 0;
    if (maps & mmul_maps_split_operand(axis))
        bytes += mmul_min(units * mmul_problem_split_unit_bytes(p, axis),
                          mmul_problem_whole_bytes(p, other));
    if (maps & mmul_maps_whole_operand(axis))
        bytes += mmul_problem_whole_bytes(p, axis);
    if (p->beta != 0 && (maps & MMUL_MAPS_C_IN))
        bytes += units * mmul_problem_result_unit_bytes(p, axis);
    return bytes;
}

// Compute times below this say little about a device.
static const double TELLING_SECONDS = 0.05;

// Raises the known speeds by what was measured, alike on all ranks, for later runs of the context.
static void correct_speeds(struct mmul_cluster *cluster, enum mmul_dtype dtype,
                           const struct mmul_report *report) {
    for (int i = 0; i < report->size; i++) {
        const struct mmul_report_rank *r = &report->ranks[i];
        if (r->compute_seconds >= TELLING_SECONDS && r->device_replacements == 0)
            mmul_cluster_raise_speed(cluster, i, dtype, r->flops / r->compute_seconds);
    }
}

static void add_product(const struct mmul_run *run, struct mmul_report *report) {
    const struct mmul_stage *stage = &run->stages[0];
    const struct mmul_schedule *schedule = stage->schedule;
    report->is_product = true;
    report->problem = schedule->problem;
    report->axis = schedule->axis;
    report->total = schedule->total;
    report->predicted_seconds = schedule->predicted_seconds;
    mmul_text_copy(report->speed_hint, sizeof report->speed_hint, schedule->speed_hint);
    // Facts about files, beside the figures that ranks report
    if (run->rank_resources.context->comm->rank == 0) {
        report->bytes_read = stage->product->bytes_read;
        for (int node = 0; node < schedule->node_count; node++)
            report->bytes_read += bytes_read_in_place(report, schedule, node);
        const struct mmul_output *output = stage->files.output;
        if (output != NULL) {
            report->bytes_written = stage->product->done_bytes /
                                    mmul_problem_result_each(&schedule->problem) *
                                    (int64_t)mmul_dtype_bytes(mmul_output_dtype(output));
            report->resumed_lines = output->resumed_lines;
            report->resumed_complete = output->resumed_complete;
            report->resumed_total = output->resumed_total;
        }
    }
    correct_speeds(run->rank_resources.context->cluster,
                   mmul_problem_result_dtype(&schedule->problem), report);
}

// ------------------------------------------------------------------------------------------ traces

// Number of trace events per rank, 40 bytes each. Root has room for those of all ranks together.
static const int64_t LEAST_EVENTS = 1 << 10, MOST_EVENTS = 1 << 16, EVENTS_OF_ALL = 1 << 22;

enum mmul_status mmul_run_create_trace(struct mmul_rank_resources *rank_resources,
                                       struct mmul_error *err) {
    int64_t share = EVENTS_OF_ALL / rank_resources->context->comm->size;
    enum mmul_status status = MMUL_OK;
    if (rank_resources->options->records)
        status = mmul_trace_create(mmul_max(LEAST_EVENTS, mmul_min(share, MOST_EVENTS)),
                                   &rank_resources->trace, err);
    return mmul_comm_agree(rank_resources->context->comm, status, err);
}

static enum mmul_status collect_events(struct mmul_rank_resources *rank_resources,
                                       struct mmul_traces *traces, struct mmul_error *err) {
    const struct mmul_comm *comm = rank_resources->context->comm;
    int64_t *sizes = NULL, kept = 0;
    enum mmul_status status = MMUL_ALLOCATE(sizes, comm->size, "a trace", err);
    for (int i = 0; status == MMUL_OK && i < comm->size; i++) {
        kept += traces->ranks[i].kept;
        sizes[i] = traces->ranks[i].kept * (int64_t)sizeof *traces->events;
    }
    if (status == MMUL_OK && comm->rank == 0)
        status = MMUL_ALLOCATE(traces->events, kept, "a trace", err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_gather(comm, rank_resources->trace->events, sizes, traces->events, err);
    mmul_free(sizes);
    return status;
}

// Collects the events of all ranks in root's `report`, in a run with recorders. Root adds a last
// event for the commit that follows. Collective.
static enum mmul_status collect_trace(struct mmul_rank_resources *rank_resources,
                                      struct mmul_report *report, struct mmul_error *err) {
    const struct mmul_comm *comm = rank_resources->context->comm;
    struct mmul_traces *traces = NULL;
    struct mmul_trace_rank mine = {0};
    if (comm->rank == 0) // the event's times are set later
        mmul_trace_add(rank_resources->trace, MMUL_TRACE_COMMIT, mmul_clock_now(), 0, 0);
    mine.kept = mmul_trace_event_count(rank_resources->trace);
    mine.dropped = mmul_trace_dropped(rank_resources->trace);
    enum mmul_status status = MMUL_ALLOCATE(traces, 1, "a trace", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(traces->ranks, comm->size, "a trace", err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_clocks_measure_offset(comm, &mine.clock_lead_seconds, err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather(comm, &mine, sizeof mine, traces->ranks, err);
    if (status == MMUL_OK)
        status = collect_events(rank_resources, traces, err);
    if (status == MMUL_OK && comm->rank == 0) {
        traces->size = comm->size;
        traces->begin = rank_resources->begin;
        status = mmul_traces_cut_waits(traces, err);
    }
    status = mmul_comm_agree(comm, status, err);
    if (status != MMUL_OK || comm->rank != 0) {
        mmul_traces_destroy(traces);
        return status;
    }
    report->traces = traces;
    return MMUL_OK;
}

// -------------------------------------------------------------------------------------- operations

// Holds the run's sums so far in the fields where the differences will be stored.
struct mmul_report_part mmul_run_begin_record(struct mmul_run *run) {
    const struct mmul_report_rank *mine = &run->rank_resources.mine;
    const struct mmul_device_traffic traffic = mmul_worker_traffic(&run->rank_resources.worker);
    return (struct mmul_report_part){.begin = mmul_clock_now(),
                                     .wait_seconds = mine->scatter_seconds + mine->gather_seconds,
                                     .check_seconds = mine->verify_seconds,
                                     .joules =
                                         mmul_device_usage_joules(run->rank_resources.context),
                                     .uploaded_bytes = traffic.uploaded,
                                     .downloaded_bytes = traffic.downloaded};
}

void mmul_run_end_record(struct mmul_run *run, int stage, struct mmul_report_part *part) {
    const struct mmul_report_rank *mine = &run->rank_resources.mine;
    const struct mmul_device_traffic traffic = mmul_worker_traffic(&run->rank_resources.worker);
    const double now = mmul_clock_now(),
                 waited = mine->scatter_seconds + mine->gather_seconds - part->wait_seconds,
                 checked = mine->verify_seconds - part->check_seconds;
    run->parts[stage] = (struct mmul_report_part){
        .begin = part->begin,
        .end = now,
        .wait_seconds = waited,
        .work_seconds = fmax(now - part->begin - waited - checked, 0),
        .check_seconds = checked,
        .joules = mmul_device_usage_joules(run->rank_resources.context) - part->joules,
        .uploaded_bytes = mmul_max(0, traffic.uploaded - part->uploaded_bytes),
        .downloaded_bytes = mmul_max(0, traffic.downloaded - part->downloaded_bytes)};
    *part = mmul_run_begin_record(run);
}

static void describe_operation(const struct mmul_program_plan *plan, int step_index,
                               struct mmul_report_operation *operation) {
    const struct mmul_program_step *step = &plan->steps[step_index];
    const struct mmul_program_place *place = &plan->places[step->result];
    const struct mmul_value *value = &plan->program->values[place->value];
    _Static_assert(sizeof operation->name == MMUL_STEP_NAME_BYTES, "names of steps");
    mmul_program_step_name(plan, step, operation->name);
    mmul_text_copy(operation->value, sizeof operation->value, value->name);
    mmul_shape_format(value->shape, operation->shape);
    mmul_placement_format(&place->placement, operation->placement);
    operation->is_move = step->kind == MMUL_STEP_MOVE;
    operation->predicted_seconds = step->seconds;
    operation->network_bytes = llround(step->network_bytes);
}

static int64_t result_bytes(const struct mmul_program_plan *plan, int step, int rank) {
    int64_t bytes = 0;
    for (int i = 0; i < mmul_program_result_count(&plan->steps[step]); i++) {
        const int result = mmul_program_step_result(plan, &plan->steps[step], i);
        if (result < 0 || mmul_place_is_file(plan, result))
            continue;
        const struct mmul_program_place *place = &plan->places[result];
        const struct mmul_value *value = &plan->program->values[place->value];
        bytes += mmul_placement_part(&place->placement, value->shape, rank).elements *
                 (int64_t)mmul_dtype_bytes(value->dtype);
    }
    return bytes;
}

// Fills in the memory that this rank uses during each of its stages.
static enum mmul_status describe_memory(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_program_plan *plan = run->rank_resources.values->plan;
    int64_t *bytes = NULL, *device = NULL;
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "a record", err, MMUL_ARRAY(bytes, plan->step_count), MMUL_ARRAY(device, plan->step_count));
    if (status == MMUL_OK)
        mmul_program_rank_memory(plan, run->rank_resources.context->comm->rank, bytes, device);
    for (int i = 0; status == MMUL_OK && i < run->stage_count; i++) {
        run->parts[i].memory_bytes = bytes[run->stages[i].is.index];
        run->parts[i].device_bytes = device[run->stages[i].is.index];
    }
    mmul_free(bytes);
    mmul_free(device);
    return status;
}

// Collects on root what all ranks did in each operation, in times of root's clock. Collective.
static enum mmul_status collect_parts(struct mmul_run *run, struct mmul_report *report,
                                      struct mmul_error *err) {
    const struct mmul_comm *comm = run->rank_resources.context->comm;
    const struct mmul_program_plan *plan = run->rank_resources.values->plan;
    const int64_t count = run->stage_count;
    int64_t *sizes = NULL;
    enum mmul_status status = MMUL_ALLOCATE(sizes, comm->size, "a record", err);
    if (status == MMUL_OK && comm->rank == 0)
        status = MMUL_ALLOCATE_ALL("a record", err, MMUL_ARRAY(report->operations, count),
                                   MMUL_ARRAY(report->parts, comm->size * count));
    if (status == MMUL_OK)
        status = describe_memory(run, err);
    status = mmul_comm_agree(comm, status, err);
    for (int rank = 0; status == MMUL_OK && rank < comm->size; rank++)
        sizes[rank] = count * (int64_t)sizeof *run->parts;
    for (int i = 0; i < count; i++)
        run->parts[i].result_bytes = result_bytes(plan, run->stages[i].is.index, comm->rank);
    if (status == MMUL_OK)
        status = mmul_comm_gather(comm, run->parts, sizes, report->parts, err);
    mmul_free(sizes);
    if (status == MMUL_OK)
        status = collect_trace(&run->rank_resources, report, err);
    if (status != MMUL_OK || comm->rank != 0)
        return status;
    report->operation_count = run->stage_count;
    for (int i = 0; i < count; i++)
        describe_operation(plan, run->stages[i].is.index, &report->operations[i]);
    for (int64_t i = 0; i < comm->size * count; i++) {
        const double zero =
            run->rank_resources.begin + report->traces->ranks[i / count].clock_lead_seconds;
        report->parts[i].begin -= zero;
        report->parts[i].end -= zero;
    }
    return MMUL_OK;
}

// ------------------------------------------------------------------------------------------ report

// Warns about a row with NaN in which the largest or smallest elements were searched. The result is
// a valid position all the same, so nothing else shows it.
static void warn_of_nan(const struct mmul_run *run) {
    for (int i = 0; i < run->stage_count; i++) {
        const struct mmul_operation *o = atomic_load(&run->stages[i].nan_operation);
        if (o == NULL)
            continue;
        const enum mmul_operation_kind kind = o->kind == MMUL_FUSED_TOPK ? MMUL_TOPK : o->kind;
        mmul_context_warn(run->rank_resources.context, "%s%s%s of a row that holds NaN", o->origin,
                          o->origin[0] != '\0' ? ": " : "", mmul_operation_row(kind)->name);
    }
}

enum mmul_status mmul_run_fill_report(struct mmul_run *run, struct mmul_report *report,
                                      struct mmul_error *err) {
    struct mmul_context *context = run->rank_resources.context;
    const bool is_product = mmul_run_is_product(run);
    describe_self(run, is_product);
    warn_of_nan(run);
    enum mmul_status status =
        mmul_comm_allgather(context->comm, &run->rank_resources.mine,
                            sizeof run->rank_resources.mine, report->ranks, err);
    if (status == MMUL_OK)
        status = mmul_context_collect_warnings(context, &report->warnings, &report->warning_lines,
                                               &report->warning_count, err);
    if (status == MMUL_OK && context->comm->node_count > 1)
        status = collect_sent(run, report, err);
    if (status != MMUL_OK)
        return status;
    add_ranks(report);
    if (is_product)
        add_product(run, report);
    return run->parts != NULL ? collect_parts(run, report, err) : MMUL_OK;
}

void mmul_report_finish(struct mmul_report *report, double begin, double committing) {
    double now = mmul_clock_now();
    report->wall_seconds = now - begin;
    mmul_traces_set_commit(report->traces, committing, now);
    for (int i = 0; i < report->size; i++) {
        struct mmul_report_rank *r = &report->ranks[i];
        double busy = r->setup_seconds + r->scatter_seconds + r->compute_seconds + r->copy_seconds +
                      r->verify_seconds + r->gather_seconds;
        // The clocks of the ranks start within one message of each other. Setup time before the
        // start of root's clock is not part of the wall time.
        const double left = committing - begin - busy;
        r->idle_seconds = fmax(left, 0);
        r->setup_seconds = fmax(r->setup_seconds + fmin(left, 0), 0);
        r->commit_seconds = now - committing;
        if (r->idle_seconds < report->ranks[report->last_rank].idle_seconds)
            report->last_rank = i;
    }
}
