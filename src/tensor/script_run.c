// SPDX-License-Identifier: MIT
// Runs a text on all ranks of a context. Only root reads the text. A text with loops is several
// programs, one after the other. Root announces each program while it reads, and all ranks plan and
// run it. A failure of root between two programs ends the reading, and the other ranks learn it
// with the last announcement.
#include "base/options.h"
#include "mpimatmul.h"
#include "tensor/loop_states.h"
#include "tensor/script.h"

// Announcements of root: a program to run, the nodes' capacity to query, local programs of nodes to
// run. Then one of: the last program, the only program of a checked text, no program is left.
enum announcement { PART, NODES, APART, LAST, CHECKED, OVER };

struct run {
    struct mmul_context *context;
    bool is_root;
    struct mmul_program_options options;
    struct mmul_script_callbacks calls;
    struct mmul_script_state *state; // the caller's
};

static enum mmul_status announce(const struct run *run, enum announcement *word,
                                 struct mmul_error *err) {
    int sent = (int)*word;
    enum mmul_status status =
        mmul_context_broadcast(run->context, &sent, (int64_t)sizeof sent, err);
    *word = (enum announcement)sent;
    return status;
}

// Returns the status of a callback; MMUL_OK without one.
static enum mmul_status invoke(const struct run *run,
                               enum mmul_status (*callback)(void *context,
                                                            const struct mmul_script_state *state,
                                                            struct mmul_error *err),
                               struct mmul_error *err) {
    return callback != NULL ? callback(run->calls.context, run->state, err) : MMUL_OK;
}

static void print_lines(const struct run *run) {
    struct mmul_script_state *state = run->state;
    if (!mmul_script_is_due(state->script))
        return;
    if (run->calls.lines != NULL)
        run->calls.lines(run->calls.context, state);
    else
        mmul_script_print(state->script, state->plan, NULL, NULL);
}

static void receive_value(void *context, const struct mmul_output *output) {
    const struct run *run = context;
    mmul_script_arrive(run->state->script, output);
    print_lines(run);
}

static struct mmul_program_options options_of(struct run *run) {
    struct mmul_program_options options = run->options;
    struct mmul_script_turn turn;
    if (run->is_root && mmul_script_turn(run->state->script, &turn))
        options.progress = NULL;
    options.arrived = receive_value;
    options.arrived_context = run;
    options.accept = mmul_script_accept;
    options.accept_context = run->state->script;
    return options;
}

static enum mmul_status plan_program(struct run *run, struct mmul_error *err) {
    struct mmul_script_state *state = run->state;
    const struct mmul_program_options options = options_of(run);
    return mmul_program_plan_create(run->context,
                                    run->is_root ? mmul_script_program(state->script) : NULL,
                                    &options, &state->plan, err);
}

static enum mmul_status run_program(struct run *run, struct mmul_error *err) {
    struct mmul_script_state *state = run->state;
    if (run->is_root) {
        mmul_script_release_outputs(state->script);
        print_lines(run);
    }
    enum mmul_status status = mmul_program_run(run->context, state->plan, &state->values, err);
    return status == MMUL_OK && run->is_root ? invoke(run, run->calls.after, err) : status;
}

static void end_program(struct mmul_script_state *state) {
    mmul_values_destroy(state->values);
    mmul_program_plan_destroy(state->plan);
    state->values = NULL;
    state->plan = NULL;
}

// Plans and runs a program that is not the last one. Collective.
static enum mmul_status run_part(struct run *run, struct mmul_error *err) {
    enum mmul_status status = plan_program(run, err);
    if (status == MMUL_OK)
        status = run_program(run, err);
    if (run->state->values != NULL)
        mmul_programs_add(&run->state->before, run->state->values);
    end_program(run->state);
    return status;
}

// Prints and checks lines that need no program. Root only.
static enum mmul_status print_alone(const struct run *run, struct mmul_error *err) {
    print_lines(run);
    return mmul_script_accept(run->state->script, err);
}

// Called on root while it reads the text.
static enum mmul_status run_script_part(void *context, struct mmul_script *script,
                                        struct mmul_error *err) {
    struct run *run = context;
    struct mmul_script_turn turn;
    enum announcement word = PART;
    run->state->script = script;
    if (invoke(run, run->calls.before, err) != MMUL_OK)
        return err->status;
    if (mmul_script_is_over(script))
        return print_alone(run, err);
    mmul_context_publish_turn(run->context, mmul_script_turn(script, &turn) ? &turn : NULL);
    enum mmul_status status = announce(run, &word, err);
    return status == MMUL_OK ? run_part(run, err) : status;
}

// Runs local programs of nodes, or queries the nodes' capacity. Collective.
static enum mmul_status run_apart(struct run *run, enum announcement word,
                                  const struct mmul_program *const *programs,
                                  struct mmul_apart_node *nodes, struct mmul_error *err) {
    const struct mmul_program_options options = options_of(run);
    return word == NODES ? mmul_apart_begin(run->context, &options, nodes, err)
                         : mmul_apart_run(run->context, programs, &options, err);
}

// Called on root while it reads the text.
static enum mmul_status run_script_apart(void *context, struct mmul_script *script,
                                         const struct mmul_program *const *programs,
                                         struct mmul_apart_node *nodes, struct mmul_error *err) {
    struct run *run = context;
    enum announcement word = nodes != NULL ? NODES : APART;
    run->state->script = script;
    enum mmul_status status = announce(run, &word, err);
    return status == MMUL_OK ? run_apart(run, word, programs, nodes, err) : status;
}

// Reads the text and runs all programs but the last one. Root only.
static enum announcement read_text(struct run *run, const struct mmul_script_request *request,
                                   struct mmul_error *err) {
    struct mmul_script_state *state = run->state;
    const struct mmul_script_runner runner = {.context = run->context,
                                              .run_context = run,
                                              .run = run_script_part,
                                              .apart = run_script_apart};
    enum mmul_status status = mmul_script_read(request, &runner, &state->script, err);
    mmul_context_publish_turn(run->context, NULL);
    if (status != MMUL_OK) {
        state->script = NULL; // the failed call destroyed it
        return LAST;
    }
    state->is_last = true;
    invoke(run, run->calls.before, err);
    return mmul_script_is_over(state->script) ? OVER : state->script->only_checked ? CHECKED : LAST;
}

// Reads the text on root; the other ranks run what root announces. Collective.
static enum announcement run_parts(struct run *run, const struct mmul_script_request *request,
                                   struct mmul_error *err) {
    struct mmul_error broken = {.status = MMUL_OK};
    enum announcement word = run->is_root ? read_text(run, request, err) : LAST;
    enum mmul_status status = announce(run, &word, &broken);
    while (status == MMUL_OK && !run->is_root && word < LAST) {
        // A failure in a part is known to all ranks, and root announces the end next.
        (void)(word == PART ? run_part(run, err) : run_apart(run, word, NULL, NULL, err));
        status = announce(run, &word, &broken);
    }
    if (status != MMUL_OK)
        *err = broken;
    run->state->is_last = true;
    return word;
}

enum mmul_status mmul_script_run(struct mmul_context *context,
                                 const struct mmul_script_request *request,
                                 const struct mmul_program_options *options,
                                 const struct mmul_script_callbacks *callbacks,
                                 struct mmul_script_state *state, struct mmul_error *err) {
    struct run run = {
        .context = context, .is_root = mmul_context_rank(context) == 0, .state = state};
    *state = (struct mmul_script_state){.script = NULL};
    if (err->status == MMUL_OK && options != NULL)
        MMUL_OPTIONS_COPY(mmul_program_options, options, &run.options, err);
    if (err->status == MMUL_OK && callbacks != NULL)
        MMUL_OPTIONS_COPY(mmul_script_callbacks, callbacks, &run.calls, err);
    if (mmul_context_agree(context, err) != MMUL_OK)
        return err->status;
    const enum announcement word = run_parts(&run, request, err);
    enum mmul_status status = mmul_context_agree(context, err);
    if (status == MMUL_OK && word != OVER)
        status = plan_program(&run, err);
    if (status == MMUL_OK)
        status = invoke(&run, run.calls.planned, err);
    if (status != MMUL_OK || word == CHECKED)
        return status;
    if (word != OVER)
        run_program(&run, err);
    else if (run.is_root)
        print_alone(&run, err);
    status = mmul_context_agree(context, err);
    if (status == MMUL_OK && run.is_root)
        mmul_loop_states_remove(state->script->states);
    return status;
}

void mmul_script_state_fini(struct mmul_script_state *state) {
    end_program(state);
    mmul_script_destroy(state->script);
    *state = (struct mmul_script_state){.script = NULL};
}
