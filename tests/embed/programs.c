// SPDX-License-Identifier: MIT
// The library in another program: runs the texts p0.py, p1.py, ... of the current folder in one
// process per rank. Prints a line for each failure, and at the end the bytes that the library still
// holds. Lines printed by a text go to p0.py.txt, p1.py.txt, ...
//
//     programs COUNT DEVICE     runs the texts
//     programs -COUNT           reads m0.py, m1.py, ..., which may be malformed, and runs nothing
#include <mpimatmul.h>
#include <stdlib.h>
#include <string.h>

static void print_lines(void *lines, const struct mmul_script_state *state) {
    mmul_script_print(state->script, state->plan, lines, NULL);
}

static int run_one(struct mmul_context *context, int rank, const char *path,
                   struct mmul_error *err) {
    const struct mmul_script_request request = {.path = path, .no_sync = true};
    struct mmul_script_callbacks callbacks = {.lines = print_lines};
    struct mmul_script_state state;
    char lines[40];
    snprintf(lines, sizeof lines, "%s.txt", path);
    if (rank == 0)
        callbacks.context = fopen(lines, "w");
    mmul_script_run(context, &request, NULL, &callbacks, &state, err);
    bool is_rounded = false;
    for (int i = 0; rank == 0 && err->status == MMUL_OK;
         i++) // `mpimatmul run` queries the inputs at its end, too
        if (mmul_script_input(state.script, i, &is_rounded) == NULL)
            break;
    mmul_script_state_fini(&state);
    if (callbacks.context != NULL)
        fclose(callbacks.context);
    return err->status;
}

static int run_all(int count, int rank, struct mmul_context *context) {
    int failed = 0;
    for (int i = 0; i < count; i++) {
        struct mmul_error err = {.status = MMUL_OK};
        char path[32];
        snprintf(path, sizeof path, "p%d.py", i);
        failed += run_one(context, rank, path, &err) != MMUL_OK;
        if (rank == 0 && err.status != MMUL_OK)
            printf("%d %s\n", (int)err.status, err.text);
    }
    return failed;
}

// A refused text gives a place. The texts that are still valid programs are not known here.
static int read_all(int count) {
    int refused = 0, mute = 0;
    for (int i = 0; i < count; i++) {
        struct mmul_error err = {.status = MMUL_OK};
        struct mmul_script *script = NULL;
        char path[32], begin[40];
        snprintf(path, sizeof path, "m%d.py", i);
        const struct mmul_script_request request = {.path = path, .only_checked = true};
        if (mmul_script_create(&request, &script, &err) != MMUL_OK) {
            snprintf(begin, sizeof begin, "%s:", path);
            refused++;
            mute += strncmp(err.text, begin, strlen(begin)) != 0 || strlen(err.text) < 12;
        }
        mmul_script_destroy(script);
    }
    printf("%d of %d refused, %d without a place\n", refused, count, mute);
    return mute;
}

int main(int argc, char **argv) {
    struct mmul_context *context = NULL;
    struct mmul_error err = {.status = MMUL_OK};
    int rank, provided, failed = 1, count = argc > 1 ? atoi(argv[1]) : 0;
    if (count < 0) {
        failed = read_all(-count);
        printf("%lld bytes are left\n", (long long)mmul_live_bytes());
        return failed != 0 || mmul_live_bytes() != 0;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct mmul_probe *probe = NULL;
    const struct mmul_probe_options asked = {.limit_seconds = 20,
                                             .device = argc > 2 ? argv[2] : "cpu"};
    mmul_probe_create(&asked, &probe, &err);
    const struct mmul_context_options options = {.device = asked.device, .probe = probe};
    mmul_agree(MPI_COMM_WORLD, &err);
    if (err.status == MMUL_OK &&
        mmul_context_create(MPI_COMM_WORLD, &options, &context, &err) == MMUL_OK)
        failed = run_all(count, rank, context);
    else if (rank == 0)
        printf("%s\n", err.text);
    mmul_context_destroy(context);
    mmul_probe_destroy(probe);
    if (rank == 0)
        printf("%d failed, %lld bytes are left\n", failed, (long long)mmul_live_bytes());
    MPI_Finalize();
    return failed != 0;
}
