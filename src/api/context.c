// SPDX-License-Identifier: MIT
// Contexts: communicators, handshake, discovery. Implements the context half of mpimatmul.h.
#include "exec/setup/context.h"

#include "api/persistent_list.h"
#include "api/texts.h"
#include "base/memory.h"
#include "base/options.h"
#include "comm/handshake.h"
#include "exec/conduct/lost_ranks.h"
#include "exec/job/node_programs.h"
#include "exec/job/plan_cache.h"
#include "exec/job/rebalance.h"
#include "exec/memory/held.h"
#include "exec/memory/persistent.h"
#include "exec/memory/segment_cache.h"
#include "exec/setup/calibrate.h"
#include "exec/setup/device_test.h"
#include "exec/setup/discover.h"
#include "exec/setup/node_context.h"
#include "exec/status/device_usage.h"
#include "exec/status/job_status.h"
#include "mpimatmul.h"

enum mmul_status mmul_agree(MPI_Comm comm, struct mmul_error *err) {
    return mmul_comm_agree_over(comm, err);
}

static enum mmul_status discover(struct mmul_context *context,
                                 const struct mmul_context_options *options,
                                 struct mmul_error *err) {
    struct mmul_discover_options wishes = {
        .device = options->device, .threads = options->threads, .no_bind = options->no_bind};
    if (options->probe != NULL) {
        wishes.device_count = mmul_probe_devices(options->probe, &wishes.devices);
        wishes.warning_count = mmul_probe_warnings(options->probe, &wishes.warnings);
    }
    return mmul_discover(context, &wishes, err);
}

enum mmul_status mmul_context_create(MPI_Comm comm, const struct mmul_context_options *options,
                                     struct mmul_context **context, struct mmul_error *err) {
    struct mmul_context *made = NULL;
    struct mmul_error local = {.status = MMUL_OK};
    struct mmul_context_options taken;
    if (MMUL_OPTIONS_COPY(mmul_context_options, options, &taken, &local) == MMUL_OK)
        MMUL_ALLOCATE(made, 1, "a context", &local);
    if (local.status == MMUL_OK)
        MMUL_ALLOCATE(made->device_usage, 1, "a context", &local);
    if (local.status == MMUL_OK) {
        char folder[64];
        mmul_copy_text(taken.shard_folder != NULL ? taken.shard_folder : mmul_shard_folder(folder),
                       &made->shard_folder, &local);
    }
    enum mmul_status status = mmul_comm_agree_over(comm, &local);
    if (status != MMUL_OK) {
        *err = local;
        if (made != NULL) {
            mmul_free(made->shard_folder);
            mmul_device_usage_destroy(made->device_usage);
        }
        mmul_free(made);
        return status;
    }
    options = &taken;
    made->created_at = made->status_written_at = mmul_clock_now();
    made->startup.launch_seconds = options->launch_seconds;
    mmul_stopwatch_enter(&made->watch, &made->startup.discover_seconds);
    status = mmul_comm_create(comm, &made->comm, err);
    if (status == MMUL_OK)
        status = mmul_handshake(made->comm, MMUL_VERSION, options->agreed_options, err);
    if (status == MMUL_OK)
        status = discover(made, options, err);
    if (status == MMUL_OK)
        status = mmul_context_collect_warnings(made, &made->all_warnings, &made->warning_lines,
                                               &made->warning_count, err);
    mmul_stopwatch_enter(&made->watch, &made->startup.files_seconds);
    if (status == MMUL_OK) {
        mmul_lost_ranks_begin(made);
        *context = made;
    } else {
        mmul_context_destroy(made);
    }
    return status;
}

// Drops the cached state of earlier programs.
static void drop_programs(struct mmul_context *context) {
    mmul_plan_cache_destroy(context);
    mmul_rebalance_destroy(context);
    mmul_held_destroy(context);
    mmul_segment_cache_clear(context);
}

void mmul_context_destroy(struct mmul_context *context) {
    if (context == NULL)
        return;
    mmul_lost_ranks_end(context);
    mmul_node_programs_close(context);
    if (context->node != NULL)
        drop_programs(context->node);
    mmul_node_context_destroy(context->node);
    if (context->alone != NULL)
        drop_programs(context->alone);
    mmul_node_context_destroy(context->alone);
    drop_programs(context);
    mmul_job_status_destroy(context);
    mmul_device_usage_destroy(context->device_usage);
    mmul_device_close(context->device);
    mmul_cluster_destroy(context->cluster);
    mmul_comm_destroy(context->comm);
    MMUL_FREE_ALL(context->tests, context->shard_folder, context->shard_folders);
    mmul_text_fini(&context->warnings);
    mmul_text_fini(&context->all_warnings);
    mmul_free(context->warning_lines);
    mmul_free(context);
}

void mmul_context_publish_turn(struct mmul_context *context, const struct mmul_script_turn *turn) {
    mmul_job_status_set_iteration(context, turn);
}

void mmul_context_publish_number(struct mmul_context *context, const char *name, double value) {
    mmul_job_status_add_number(context, name, value);
}

int mmul_context_rank(const struct mmul_context *context) {
    return context->comm->rank;
}

enum mmul_status mmul_context_agree(struct mmul_context *context, struct mmul_error *err) {
    return mmul_comm_agree_over(context->comm->world, err);
}

enum mmul_status mmul_context_broadcast(struct mmul_context *context, void *data, int64_t bytes,
                                        struct mmul_error *err) {
    return mmul_comm_broadcast(context->comm, data, bytes, err);
}

void mmul_context_print(const struct mmul_context *context, bool verbose, FILE *stream) {
    mmul_cluster_print(context->cluster, verbose, stream);
}

enum mmul_status mmul_context_json(const struct mmul_context *context, char **text,
                                   struct mmul_error *err) {
    return mmul_cluster_json(context->cluster, text, err);
}

int mmul_context_warnings(const struct mmul_context *context, const char *const **warnings) {
    *warnings = context->warning_lines;
    return context->warning_count;
}

enum mmul_status mmul_context_update_warnings(struct mmul_context *context,
                                              struct mmul_error *err) {
    mmul_free(context->warning_lines);
    mmul_text_fini(&context->all_warnings);
    return mmul_context_collect_warnings(context, &context->all_warnings, &context->warning_lines,
                                         &context->warning_count, err);
}

enum mmul_status mmul_context_calibrate(struct mmul_context *context, struct mmul_error *err) {
    const struct mmul_calibrate_options options = {.depth = MMUL_CALIBRATE_THOROUGH,
                                                   .types = 1U << MMUL_F32 | 1U << MMUL_F64};
    mmul_stopwatch_enter(&context->watch, &context->startup.measure_seconds);
    enum mmul_status status = mmul_calibrate(context, &options, err);
    mmul_stopwatch_enter(&context->watch, &context->startup.files_seconds);
    return status;
}

enum mmul_status mmul_context_test(struct mmul_context *context, double device_timeout_seconds,
                                   int *failed, int *tested, struct mmul_error *err) {
    enum mmul_status status = mmul_test_devices(context, device_timeout_seconds, err);
    *failed = 0;
    *tested = status == MMUL_OK ? context->test_count : 0;
    for (int i = 0; i < *tested; i++)
        *failed += !context->tests[i].passed;
    return status;
}

void mmul_context_print_tests(const struct mmul_context *context, FILE *stream) {
    mmul_device_tests_print(context->cluster, context->tests, context->test_count, stream);
}

enum mmul_status mmul_context_tests_json(const struct mmul_context *context, char **text,
                                         struct mmul_error *err) {
    return mmul_device_tests_json(context->cluster, context->tests, context->test_count, text, err);
}

void mmul_context_print_speeds(const struct mmul_context *context, FILE *stream) {
    mmul_cluster_print_speeds(context->cluster, stream);
}

enum mmul_status mmul_context_speeds_json(const struct mmul_context *context, char **text,
                                          struct mmul_error *err) {
    return mmul_cluster_speeds_json(context->cluster, text, err);
}

char *mmul_context_speed_origin(const struct mmul_context *context, char text[static 96]) {
    return mmul_cluster_speed_origin(context->cluster, text);
}

const char *mmul_context_speed_unused(const struct mmul_context *context, int rank) {
    const struct mmul_cluster *cluster = context->cluster;
    return rank >= 0 && rank < cluster->size ? cluster->ranks[rank].speed_unused : NULL;
}

enum mmul_status mmul_keep_part(struct mmul_context *context, const char *name,
                                const struct mmul_local_part *part, struct mmul_error *err) {
    struct mmul_local_part mine;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_local_part, part, &mine, err);
    status = mmul_comm_agree(context->comm, status, err);
    return status == MMUL_OK ? mmul_persistent_make_set(context, name, &mine, err) : status;
}

enum mmul_status mmul_context_list_kept(struct mmul_context *context, const char *const *names,
                                        int count, bool json, char **text, struct mmul_error *err) {
    return mmul_persistent_list(context, names, count, json, text, err);
}

enum mmul_status mmul_context_remove_kept(struct mmul_context *context, const char *const *names,
                                          int count, struct mmul_error *err) {
    return mmul_persistent_remove(context, names, count, err);
}
