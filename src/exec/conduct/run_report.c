// SPDX-License-Identifier: MIT
// From what each rank measured to the report: ranks tell root, root adds it up.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "exec/conduct/run.h"
#include "exec/conduct/run_trace.h"
#include "exec/products/product.h"

// What this rank knows of itself.
static void describe_self(struct mmul_run *run) {
    const struct mmul_context *context = run->site.context;
    const struct mmul_rank_info *info = &context->cluster->ranks[context->comm->rank];
    struct mmul_report_rank *r = &run->site.mine;
    const struct mmul_stage *stage = &run->stages[0];
    const struct mmul_works *works = &stage->product->works;
    const struct mmul_verifier *verifier = &stage->verifier;
    int64_t width = mmul_problem_result_width(&stage->is.plan->problem, stage->is.plan->axis);
    int64_t elements = works->own_elements + works->claimed_elements;
    mmul_text_copy(r->host, sizeof r->host, info->host);
    mmul_text_copy(r->device, sizeof r->device, info->device_name);
    mmul_text_copy(r->device_name, sizeof r->device_name, info->device.name);
    mmul_text_copy(r->cores, sizeof r->cores, info->cores);
    mmul_text_copy(r->kernels, sizeof r->kernels, info->device.kernels);
    mmul_text_copy(r->kernels_setting, sizeof r->kernels_setting, info->device.kernels_setting);
    mmul_text_copy(r->kernels_lack, sizeof r->kernels_lack, info->device.kernels_lack);
    if (context->replacements > run->site.deadline.replacements_before)
        snprintf(r->note, sizeof r->note, "replaced by %.100s", context->device_name);
    else
        mmul_text_copy(r->note, sizeof r->note, info->note);
    mmul_text_copy(r->why, sizeof r->why, stage->product->me->why);
    r->threads = info->threads;
    r->begin = stage->product->me->begin;
    r->end = stage->product->me->end;
    r->claims = works->claims;
    r->claimed_elements = works->claimed_elements;
    r->given_elements = (r->end - r->begin) * width - works->own_elements;
    r->share = (double)elements / ((double)stage->is.plan->total * (double)width);
    r->flops = 2.0 * (double)elements * (double)stage->is.plan->problem.k;
    if (context->comm->node_rank == 0) {
        const struct mmul_views *views = &stage->product->views;
        r->mapped_bytes = views->a.bytes + views->b.bytes + views->c_in.bytes + views->c.bytes;
        r->segment_bytes = run->site.segment.bytes;
    }
    r->warm_up_seconds = context->warm_up_seconds;
    r->products = run->site.worker.products;
    r->fallback_products = run->site.worker.fallback_products;
    r->device_replacements = context->replacements - run->site.deadline.replacements_before;
    r->lines_checked = verifier->lines_checked;
    r->lines_wrong = verifier->lines_wrong;
    r->lines_recomputed = verifier->lines_recomputed;
    r->blocks_recomputed = verifier->blocks_recomputed;
    const enum mmul_dtype dtype = mmul_problem_result_dtype(&stage->is.plan->problem);
    r->speed_flops = mmul_rank_flops(info, dtype);
    r->speed_unstable = mmul_speed_is_unstable(&info->speed, dtype);
}

static int64_t stack_bytes(struct mmul_shape shape, enum mmul_dtype dtype) {
    return mmul_shape_matrices(shape) * shape.rows * shape.cols * (int64_t)mmul_dtype_bytes(dtype);
}

// What the ranks of a node used where it lies.
static int64_t bytes_read_in_place(const struct mmul_report *report, const struct mmul_plan *plan,
                                   int node) {
    const struct mmul_problem *p = &plan->problem;
    unsigned maps = mmul_plan_nodes(plan)[node].maps;
    bool rows = plan->axis == MMUL_ROWS;
    int64_t units = 0, bytes = 0;
    for (int i = 0; i < plan->size; i++)
        if (mmul_plan_ranks(plan)[i].node == node)
            units += report->ranks[i].end - report->ranks[i].begin;
    if (units == 0)
        return 0;
    if (p->alpha != 0 && (maps & mmul_maps_split(plan->axis)))
        bytes += mmul_smaller(
            units * p->k * (int64_t)mmul_dtype_bytes(mmul_problem_split_dtype(p, plan->axis)),
            rows ? stack_bytes(p->a, p->a_dtype) : stack_bytes(p->b, p->b_dtype));
    if (p->alpha != 0 && (maps & mmul_maps_whole(plan->axis)))
        bytes += rows ? stack_bytes(p->b, p->b_dtype) : stack_bytes(p->a, p->a_dtype);
    if (p->beta != 0 && (maps & MMUL_MAPS_C_IN))
        bytes += units * mmul_problem_result_width(p, plan->axis) * mmul_problem_result_each(p);
    return bytes;
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
}

// Bytes that crossed the network: every node but root's.
static int64_t network_bytes(const struct mmul_plan *plan) {
    int64_t bytes = 0;
    for (int i = 0; i < plan->node_count; i++)
        bytes += mmul_plan_nodes(plan)[i].network_bytes;
    return bytes;
}

static void list_unused(const struct mmul_cluster *cluster, struct mmul_text *unused) {
    for (int i = 0; i < cluster->device_count; i++) {
        const struct mmul_device_entry *d = &cluster->devices[i];
        if (d->used_by < 0)
            mmul_text_add(unused, "unused: %s %s (%s): %s\n", cluster->nodes[d->node].host,
                          d->info.id, d->info.name, d->info.reason);
    }
}

// What a run did in less time than that says little about a device.
static const double TELLING_SECONDS = 0.05;

// On all ranks alike: later runs of the context know better how fast a rank is.
static void correct_speeds(struct mmul_cluster *cluster, enum mmul_dtype dtype,
                           const struct mmul_report *report) {
    for (int i = 0; i < report->size; i++) {
        const struct mmul_report_rank *r = &report->ranks[i];
        if (r->compute_seconds >= TELLING_SECONDS && r->device_replacements == 0)
            mmul_cluster_raise_speed(cluster, i, dtype, r->flops / r->compute_seconds);
    }
}

enum mmul_status mmul_run_report(struct mmul_run *run, struct mmul_report **report,
                                 struct mmul_error *err) {
    struct mmul_context *context = run->site.context;
    const struct mmul_stage *stage = &run->stages[0];
    const struct mmul_plan *plan = stage->is.plan;
    struct mmul_report *made = NULL;
    describe_self(run);
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "the report", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->ranks, plan->size, "the report", err);
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_share(context->comm, &run->site.mine, sizeof run->site.mine, made->ranks,
                                 err);
    if (status == MMUL_OK)
        status = mmul_context_collect_warnings(context, &made->warnings, &made->warning_lines,
                                               &made->warning_count, err);
    if (status != MMUL_OK) {
        mmul_report_destroy(made);
        return status;
    }
    made->problem = plan->problem;
    made->axis = plan->axis;
    made->total = plan->total;
    made->size = plan->size;
    made->node_count = plan->node_count;
    made->verified = !run->site.options->no_verify;
    made->verify_seed = run->site.options->verify_seed;
    made->startup = context->startup;
    context->startup = (struct mmul_startup){0};
    made->predicted_seconds = plan->predicted_seconds;
    made->bytes_read = stage->product->files.bytes_read;
    for (int node = 0; node < plan->node_count; node++)
        made->bytes_read += bytes_read_in_place(made, plan, node);
    if (context->comm->rank == 0)
        made->bytes_written = stage->product->files.done_bytes /
                              mmul_problem_result_each(&plan->problem) *
                              (int64_t)mmul_dtype_bytes(mmul_output_dtype(stage->is.files.output));
    made->network_bytes = network_bytes(plan);
    mmul_text_copy(made->faster, sizeof made->faster, plan->faster);
    add_ranks(made);
    correct_speeds(context->cluster, mmul_problem_result_dtype(&plan->problem), made);
    list_unused(context->cluster, &made->unused);
    status = mmul_run_collect_trace(&run->site, made, err);
    if (status == MMUL_OK)
        *report = made;
    else
        mmul_report_destroy(made);
    return status;
}

void mmul_run_end_report(double begin, double committing, struct mmul_report *report) {
    double now = mmul_clock_now();
    report->wall_seconds = now - begin;
    mmul_traces_set_commit(report->traces, committing, now);
    for (int i = 0; i < report->size; i++) {
        struct mmul_report_rank *r = &report->ranks[i];
        double busy = r->setup_seconds + r->scatter_seconds + r->compute_seconds +
                      r->verify_seconds + r->gather_seconds;
        // Clocks of ranks start within a message of each other.
        r->idle_seconds = fmax(committing - begin - busy, 0);
        r->commit_seconds = now - committing;
        if (r->idle_seconds < report->ranks[report->last_rank].idle_seconds)
            report->last_rank = i;
    }
}
