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

// A running text, on all ranks.
struct job {
    struct mmul_context *context;
    struct mmul_script *script;     // root only
    struct mmul_program_plan *plan; // plan of the current program
    FILE *lines;                    // root only: the lines that the text prints
};

// Root's announcement while it reads a text: a program of a loop follows, the last program follows,
// or none is left.
enum word { PART, LAST, OVER };

static void print_lines(struct job *job) {
    if (mmul_script_is_due(job->script))
        mmul_script_print(job->script, job->plan, job->lines, NULL);
}

static void pass_value_to_script(void *context, const struct mmul_output *output) {
    struct job *job = context;
    mmul_script_arrive(job->script, output);
    print_lines(job);
}

// Collective. Plans and runs the script's current program.
static enum mmul_status run_program(struct job *job, bool is_root, struct mmul_error *err) {
    const struct mmul_program_options options = {.accept = mmul_script_accept,
                                                 .accept_context = job->script,
                                                 .arrived = pass_value_to_script,
                                                 .arrived_context = job};
    struct mmul_values *values = NULL;
    if (mmul_program_plan_create(job->context, is_root ? mmul_script_program(job->script) : NULL,
                                 &options, &job->plan, err) == MMUL_OK) {
        if (is_root) {
            mmul_script_hand_over(job->script);
            print_lines(job);
        }
        mmul_program_run(job->context, job->plan, &values, err);
    }
    mmul_values_destroy(values);
    mmul_program_plan_destroy(job->plan);
    job->plan = NULL;
    return err->status;
}

static enum word announce(enum word word) {
    int said = (int)word;
    MPI_Bcast(&said, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return (enum word)said;
}

static enum mmul_status print_alone(struct job *job, struct mmul_error *err) {
    print_lines(job);
    return mmul_script_accept(job->script, err);
}

// Root only: runs a part of a text with loops while the text is read.
static enum mmul_status run_part(void *context, struct mmul_script *script,
                                 struct mmul_error *err) {
    struct job *job = context;
    job->script = script;
    if (mmul_script_is_over(script))
        return print_alone(job, err);
    announce(PART);
    return run_program(job, true, err);
}

static enum word read_text(struct job *job, bool is_root, const char *path,
                           struct mmul_error *err) {
    const struct mmul_script_request request = {.path = path,
                                                .no_sync = true,
                                                .run = run_part,
                                                .run_context = job,
                                                .context = job->context};
    enum word word = LAST;
    if (is_root) {
        if (mmul_script_create(&request, &job->script, err) != MMUL_OK)
            job->script = NULL;
        else if (mmul_script_is_over(job->script))
            word = OVER;
        return announce(word);
    }
    while ((word = announce(word)) == PART)
        run_program(job, false, err);
    return word;
}

static int run_one(struct mmul_context *context, int rank, const char *path,
                   struct mmul_error *err) {
    const bool is_root = rank == 0;
    struct job job = {.context = context};
    char lines[40];
    snprintf(lines, sizeof lines, "%s.txt", path);
    if (is_root)
        job.lines = fopen(lines, "w");
    const enum word word = read_text(&job, is_root, path, err);
    if (mmul_agree(MPI_COMM_WORLD, err) == MMUL_OK && word == LAST)
        run_program(&job, is_root, err);
    else if (err->status == MMUL_OK && is_root)
        print_alone(&job, err);
    bool is_rounded = false;
    // `mpimatmul run` queries the inputs at its end, too
    for (int i = 0; is_root && err->status == MMUL_OK; i++)
        if (mmul_script_input(job.script, i, &is_rounded) == NULL)
            break;
    mmul_script_destroy(job.script);
    if (job.lines != NULL)
        fclose(job.lines);
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

// Counts the refused texts and those without a place in the message. Valid texts are not told apart
// here.
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
