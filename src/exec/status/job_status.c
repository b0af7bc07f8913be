// SPDX-License-Identifier: MIT
// State of a job as other processes see it, kept between runs, and the file it is written to. A
// curve that is full is thinned out: every other point is dropped, and the sampling stride doubles.
#include "exec/status/job_status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/command_line.h"
#include "base/memory.h"
#include "base/text.h"
#include "exec/setup/context.h"
#include "io/job_file.h"

// Interval between two writes of the file: POST_SECONDS, or size / CROWD seconds with more ranks.
static const double POST_SECONDS = 0.5, CROWD = 500;

struct mmul_job_status {
    struct mmul_job_state job; // with its ranks
    struct mmul_job_file file;
    double loop_begin;                 // clock: begin of the current loop
    int64_t first_turn, first_windows; // turn and windows at its begin
    int64_t printed;                   // values of the curve that were printed so far
    int64_t every; // sampling stride: one printed value in `every` becomes a point
    bool is_loss;  // the curve's name contains "loss"
};

// Returns true on root. A node context publishes nothing, because the context that it is part of
// does.
static bool publishes_status(const struct mmul_context *context) {
    return context->comm->rank == 0 && context->whole == NULL;
}

static void describe_ranks(const struct mmul_cluster *cluster, struct mmul_job_state *job) {
    for (int i = 0; i < job->rank_count; i++) {
        const struct mmul_rank_info *info = &cluster->ranks[i];
        struct mmul_job_rank *r = &job->ranks[i];
        *r = (struct mmul_job_rank){.share = NAN,
                                    .done = NAN,
                                    .flops_per_second = NAN,
                                    .memory_bytes = NAN,
                                    .celsius = NAN,
                                    .watts = NAN};
        mmul_text_copy(r->host, sizeof r->host, info->host);
        mmul_text_copy(r->device, sizeof r->device, info->device_name);
        mmul_text_copy(r->device_name, sizeof r->device_name, info->device.name);
    }
}

static struct mmul_job_status *get_or_create_board(struct mmul_context *context) {
    struct mmul_error ignored;
    if (context->job_status != NULL || !publishes_status(context) ||
        isinf(context->status_written_at))
        return context->job_status;
    if (MMUL_ALLOCATE(context->job_status, 1, "a board", &ignored) != MMUL_OK)
        return NULL;
    struct mmul_job_status *job_status = context->job_status;
    struct mmul_job_state *job = &job_status->job;
    const int size = context->cluster->size;
    if (MMUL_ALLOCATE(job->ranks, size, "a board", &ignored) != MMUL_OK) {
        mmul_job_status_destroy(context);
        return NULL;
    }
    job->rank_count = size;
    job->share = job->left_seconds = job->flops_per_second = NAN;
    job->turns_per_second = job->windows_per_second = NAN;
    mmul_text_copy(job->phase, sizeof job->phase, "set up");
    job_status->every = 1;
    mmul_command_line(job->command, sizeof job->command);
    describe_ranks(context->cluster, job);
    return job_status;
}

bool mmul_job_status_is_due(const struct mmul_context *context, double now) {
    const double crowd = context->comm->size / CROWD;
    return publishes_status(context) &&
           now - context->status_written_at >= fmax(POST_SECONDS, crowd);
}

struct mmul_job_state *mmul_job_status_get(struct mmul_context *context) {
    struct mmul_job_status *job_status = get_or_create_board(context);
    return job_status != NULL ? &job_status->job : NULL;
}

// Opens the job file, and removes the files of jobs that were killed.
static enum mmul_status open_job_file(struct mmul_job_status *job_status, double begin,
                                      struct mmul_error *err) {
    struct mmul_jobs *others = NULL;
    struct mmul_error ignored;
    const enum mmul_status status = mmul_job_file_choose_path(&job_status->file, begin, err);
    if (status == MMUL_OK && mmul_jobs_find(&others, &ignored) == MMUL_OK)
        mmul_jobs_destroy(others);
    return status;
}

void mmul_job_status_write(struct mmul_context *context, double now) {
    struct mmul_error ignored;
    struct mmul_job_status *job_status = get_or_create_board(context);
    context->status_written_at = now;
    if (job_status == NULL ||
        (job_status->file.path[0] == '\0' &&
         open_job_file(job_status, context->created_at, &ignored) != MMUL_OK) ||
        mmul_job_file_store(&job_status->file, &job_status->job, now, &ignored) != MMUL_OK) {
        context->status_written_at = INFINITY; // no further attempts
        mmul_job_status_destroy(context);
    }
}

void mmul_job_status_set_phase(struct mmul_context *context, const char *phase) {
    const double now = mmul_clock_now();
    if (!mmul_job_status_is_due(context, now))
        return;
    struct mmul_job_state *job = mmul_job_status_get(context);
    if (job != NULL && job->end_turn == 0) {
        mmul_text_copy(job->phase, sizeof job->phase, phase);
        job->share = job->left_seconds = NAN;
    }
    mmul_job_status_write(context, now);
}

void mmul_job_status_set_iteration(struct mmul_context *context,
                                   const struct mmul_script_turn *turn) {
    struct mmul_job_status *job_status =
        turn != NULL ? get_or_create_board(context) : context->job_status;
    if (job_status == NULL)
        return;
    struct mmul_job_state *job = &job_status->job;
    const double now = mmul_clock_now();
    if (turn == NULL) {
        job->end_turn = 0;
        return;
    }
    if (turn->at == turn->first || job->end_turn == 0) {
        job_status->loop_begin = now;
        job_status->first_turn = turn->at;
        job_status->first_windows = turn->windows;
    }
    const double over = (double)(turn->at - job_status->first_turn),
                 seconds = now - job_status->loop_begin;
    const int64_t windows = turn->windows - job_status->first_windows;
    mmul_text_copy(job->phase, sizeof job->phase, "run");
    job->turn = turn->at;
    job->end_turn = turn->end;
    job->share = (double)(turn->at - turn->first) / (double)(turn->end - turn->first);
    job->turns_per_second = over > 0 ? over / seconds : NAN;
    job->windows_per_second = over > 0 && windows > 0 ? (double)windows / seconds : NAN;
    job->left_seconds = over > 0 ? (double)(turn->end - turn->at) * seconds / over : NAN;
}

// -------------------------------------------------------------------------------------- the curve

static bool is_loss_name(const char *name) {
    return strcasestr(name, "loss") != NULL;
}

static void thin_out(struct mmul_job_status *job_status) {
    struct mmul_job_state *job = &job_status->job;
    for (int i = 0; 2 * i < job->curve_count; i++) {
        job->curve_turns[i] = job->curve_turns[2 * i];
        job->curve_values[i] = job->curve_values[2 * i];
    }
    job->curve_count = (job->curve_count + 1) / 2;
    job_status->every *= 2;
}

static void add_point(struct mmul_job_status *job_status, const char *name, double value) {
    struct mmul_job_state *job = &job_status->job;
    const bool begins = job->curve_count == 0 || (!job_status->is_loss && is_loss_name(name));
    if (begins) {
        mmul_text_copy(job->curve_name, sizeof job->curve_name, name);
        job_status->is_loss = is_loss_name(name);
        job_status->printed = job->curve_count = 0;
        job_status->every = 1;
    }
    if (strncmp(job->curve_name, name, sizeof job->curve_name - 1) != 0)
        return;
    if (job_status->printed % job_status->every == 0 && job->curve_count == MMUL_JOB_POINTS)
        thin_out(job_status);
    if (job_status->printed % job_status->every == 0) {
        job->curve_turns[job->curve_count] =
            job->end_turn > 0 ? (double)job->turn : (double)job_status->printed;
        job->curve_values[job->curve_count++] = value;
    }
    job_status->printed++;
}

void mmul_job_status_add_number(struct mmul_context *context, const char *name, double value) {
    struct mmul_job_status *job_status = get_or_create_board(context);
    if (job_status == NULL)
        return;
    struct mmul_job_state *job = &job_status->job;
    int at = 0;
    while (at < job->number_count &&
           strncmp(job->numbers[at].name, name, sizeof job->numbers[at].name - 1) != 0)
        at++;
    if (at == MMUL_JOB_NUMBERS) { // drop the oldest number
        memmove(job->numbers, job->numbers + 1, (MMUL_JOB_NUMBERS - 1) * sizeof *job->numbers);
        at--;
    } else if (at == job->number_count) {
        job->number_count++;
    }
    mmul_text_copy(job->numbers[at].name, sizeof job->numbers[at].name, name);
    job->numbers[at].value = value;
    add_point(job_status, name, value);
}

void mmul_job_status_destroy(struct mmul_context *context) {
    struct mmul_job_status *job_status = context->job_status;
    if (job_status == NULL)
        return;
    mmul_job_file_remove(&job_status->file);
    mmul_free(job_status->job.ranks);
    mmul_free(job_status);
    context->job_status = NULL;
}
