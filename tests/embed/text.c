// SPDX-License-Identifier: MIT
// A text with a loop, run from another program: text TEXT TURNS. Root prints the lines of the text
// with the iteration before them. A callback ends the run at iteration TURNS. Each rank prints the
// failure.
#include <mpimatmul.h>
#include <stdlib.h>
#include <string.h>

static enum mmul_status stop_late(void *context, const struct mmul_script_state *state,
                                  struct mmul_error *err) {
    struct mmul_script_turn turn;
    if (!mmul_script_turn(state->script, &turn) || turn.at < *(const int *)context)
        return MMUL_OK;
    snprintf(err->text, sizeof err->text, "iteration %d is too late", (int)turn.at);
    return err->status = MMUL_ERR_DATA;
}

static void print_lines(void *context, const struct mmul_script_state *state) {
    struct mmul_script_turn turn;
    (void)context;
    if (mmul_script_turn(state->script, &turn))
        printf("%d of %d: ", (int)turn.at, (int)turn.end);
    mmul_script_print(state->script, state->plan, stdout, NULL);
}

int main(int argc, char **argv) {
    int provided, turns = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    struct mmul_context *context = NULL;
    struct mmul_script_state state = {.script = NULL};
    struct mmul_error err = {.status = MMUL_OK};
    const struct mmul_context_options options = {.device = "cpu"};
    const struct mmul_script_request request = {
        .path = "text", .text = argv[1], .text_bytes = argc > 2 ? strlen(argv[1]) : 0};
    const struct mmul_script_callbacks callbacks = {
        .context = &turns, .before = stop_late, .lines = print_lines};
    if (mmul_context_create(MPI_COMM_WORLD, &options, &context, &err) == MMUL_OK)
        mmul_script_run(context, &request, NULL, &callbacks, &state, &err);
    if (err.status != MMUL_OK)
        printf("%d %s\n", (int)err.status, err.text);
    else if (mmul_context_rank(context) == 0)
        printf("%d programs before the last one\n", (int)state.before.programs);
    mmul_script_state_fini(&state);
    mmul_context_destroy(context);
    MPI_Finalize();
    return err.status;
}
