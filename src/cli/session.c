// SPDX-License-Identifier: MIT
// Starts and ends MPI around a command. Options are parsed before. A rank with wrong options still
// joins, because the other ranks would wait for it forever.
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "mpimatmul.h"

static const double probe_limit_seconds = 10;

static void print_waiting(void *context, const char *what) {
    mmul_print_remark(context, "waiting for %s, at most %g s", what, probe_limit_seconds);
}

// Queries only the devices that the command uses or shows.
static enum mmul_status probe_devices(struct session *session, struct call *call,
                                      struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const char *device = values[OPT_DEVICE].text != NULL ? values[OPT_DEVICE].text : "cpu";
    bool shows = call->command->queries_all_devices || values[OPT_VERBOSE].number != 0;
    const struct mmul_probe_options options = {
        .limit_seconds = probe_limit_seconds,
        .ask_again = call->command->queries_all_devices,
        .device = shows && strcmp(device, "auto") == 0 ? NULL : device,
        .waiting = print_waiting,
        .context = call};
    call->is_root = session->launcher->is_first; // MPI may later decide otherwise
    return mmul_probe_create(&options, &session->probe, err);
}

static enum mmul_status start_mpi(bool is_alone, struct call *call, struct mmul_error *err) {
    struct mpi_settings settings;
    int provided = MPI_THREAD_SINGLE, rank = 0;
    mmul_mpi_settings_apply(&settings, is_alone);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    mmul_mpi_settings_restore(&settings);
    mmul_launcher_disable_send_delay();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &call->ranks);
    call->is_root = rank == 0;
    if (err->status == MMUL_OK && provided < MPI_THREAD_FUNNELED)
        mmul_cli_fail(err, MMUL_ERR_SYSTEM, "this MPI lacks thread support (level %d of %d)",
                      provided, MPI_THREAD_FUNNELED);
    return mmul_agree(MPI_COMM_WORLD, err);
}

// Builds the text that must be equal on all ranks: command, operands and options.
static char *agreed_text(const struct call *call) {
    char *heading = NULL, *agreed = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&heading, &length);
    if (stream == NULL)
        return NULL;
    fprintf(stream, "command=%s\n", call->command->name);
    for (int i = 0; i < call->operand_count; i++)
        fprintf(stream, "operand %d=%s\n", i + 1, call->operands[i]);
    if (fclose(stream) == 0)
        agreed = mmul_options_format_agreed(&call->options, heading);
    free(heading);
    return agreed;
}

static enum mmul_status create_context(const struct session *session, struct call *call,
                                       struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    char *agreed = agreed_text(call);
    if (agreed == NULL)
        mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate memory for the options");
    enum mmul_status status = mmul_agree(MPI_COMM_WORLD, err);
    if (status == MMUL_OK) {
        // A rank without a device binds no cores.
        const bool needs_mpi = call->command->needs_mpi && values[OPT_DEVICE].text != NULL;
        const struct mmul_context_options options = {
            .device = needs_mpi ? values[OPT_DEVICE].text : "cpu",
            .threads = (int)values[OPT_THREADS].number,
            .no_bind = !needs_mpi || values[OPT_BIND].number != 0,
            .probe = session->probe,
            .launch_seconds = mmul_progress_now() - call->begin_seconds,
            .agreed_options = agreed,
            .shard_folder = values[OPT_SHARD_DIR].text,
        };
        status = mmul_context_create(MPI_COMM_WORLD, &options, &call->context, err);
    }
    free(agreed);
    return status;
}

enum mmul_status mmul_session_begin(struct session *session, struct call *call,
                                    struct mmul_error *err) {
    if (err->status == MMUL_OK && call->command->needs_mpi) // local commands open no device
        err->status = probe_devices(session, call, err);
    enum mmul_status status = start_mpi(!session->launcher->is_present, call, err);
    if (status == MMUL_OK)
        status = create_context(session, call, err);
    if (status != MMUL_OK)
        return status;
    const char *const *warnings = NULL;
    int count = call->is_root ? mmul_context_warnings(call->context, &warnings) : 0;
    mmul_print_warnings(call, warnings, count);
    mmul_print_options(call);
    return MMUL_OK;
}

enum mmul_status mmul_session_agree(struct mmul_error *err) {
    return mmul_agree(MPI_COMM_WORLD, err);
}

void mmul_session_end(struct session *session, struct call *call) {
    mmul_context_destroy(call->context);
    call->context = NULL;
    mmul_probe_destroy(session->probe);
    session->probe = NULL;
    MPI_Finalize();
}
