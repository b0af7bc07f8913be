// SPDX-License-Identifier: MIT
// A program (mmul_program_run) of the project's library, by its public header alone, on all ranks:
//   chain X W... OUT     reads files of root's, multiplies one after the other, writes root's file
//   resident M K N [RUNS [WARMUP [PLACE]]]
//                        makes A and B in place, by rows (or cols, grid); then the same with their
//                        product in the same placement: the difference is the product's time
// Only the run is timed, between barriers, on rank 0's clock. Context and plan have fields of their
// own. Prints the plan on standard error.
#include <mpimatmul.h>
#include <string.h>

#include "peer.h"

enum { RUNS_MAX = 1000, MATRICES_MAX = 64 };

static const char usage[] =
    "program chain X W... OUT | program resident M K N [RUNS [WARMUP [rows|cols|grid]]]";

// A program, and the seconds of its preparation and its run.
struct job {
    struct mmul_program *program; // on root only
    struct mmul_program_plan *plan;
    int result;
    double plan_seconds;
    double seconds[RUNS_MAX];
};

struct peer {
    struct mmul_context *context;
    double context_seconds;
    int rank;
};

static void end_if(const struct mmul_error *err, const struct peer *peer) {
    if (err->status == MMUL_OK)
        return;
    if (peer->rank == 0)
        fprintf(stderr, "program: %s\n", err->text);
    MPI_Abort(MPI_COMM_WORLD, err->status);
}

static double together(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    return peer_now();
}

static void make_context(struct peer *peer) {
    const struct mmul_context_options options = {.device = "cpu"};
    struct mmul_error err = {.status = MMUL_OK};
    const double begin = together();
    mmul_context_create(MPI_COMM_WORLD, &options, &peer->context, &err);
    end_if(&err, peer);
    peer->context_seconds = together() - begin;
}

// Files are root's alone, also if other hosts could see them. Values that are checked stay.
static void make_plan(const struct peer *peer, struct job *job, bool keeps) {
    const struct mmul_program_options options = {.io = MMUL_IO_ROOT, .keep_values = keeps};
    struct mmul_error err = {.status = MMUL_OK};
    const double begin = together();
    mmul_program_plan_create(peer->context, job->program, &options, &job->plan, &err);
    end_if(&err, peer);
    job->plan_seconds = together() - begin;
    if (peer->rank == 0)
        mmul_program_plan_print(job->plan, true, stderr);
}

// The caller owns the values.
static struct mmul_values *run_once(const struct peer *peer, struct job *job, double *seconds) {
    struct mmul_values *values = NULL;
    struct mmul_error err = {.status = MMUL_OK};
    const double begin = together();
    mmul_program_run(peer->context, job->plan, &values, &err);
    end_if(&err, peer);
    *seconds = together() - begin;
    return values;
}

static void destroy_job(struct job *job) {
    mmul_program_plan_destroy(job->plan);
    mmul_program_destroy(job->program);
}

// ------------------------------------------------------------------------------------------- chain

static void add_chain(const struct peer *peer, struct job *job, char **files, int count,
                      struct mmul_matrix **matrices) {
    struct mmul_error err = {.status = MMUL_OK};
    struct mmul_output *output = NULL;
    mmul_program_create(&job->program, &err);
    for (int i = 0; i < count - 1; i++) {
        int value;
        if (mmul_matrix_open(files[i], &matrices[i], &err) != MMUL_OK ||
            mmul_program_load(job->program, matrices[i], &value, &err) != MMUL_OK)
            break;
        if (i == 0)
            job->result = value;
        else if (mmul_program_matmul(job->program, job->result, value, NULL, &job->result, &err) !=
                 MMUL_OK)
            break;
    }
    end_if(&err, peer);
    const struct mmul_shape first = mmul_matrix_info(matrices[0]).shape;
    const struct mmul_shape last = mmul_matrix_info(matrices[count - 2]).shape;
    const struct mmul_output_request request = {.path = files[count - 1],
                                                .shape = {1, 1, first.rows, last.cols},
                                                .inputs = matrices,
                                                .input_count = count - 1};
    if (mmul_output_create(&request, &output, &err) == MMUL_OK)
        mmul_program_save(job->program, job->result, output, &err);
    end_if(&err, peer);
}

static void run_chain(struct peer *peer, int count, char **files) {
    static struct job job;
    struct mmul_matrix *matrices[MATRICES_MAX] = {NULL};
    if (count < 3 || count > MATRICES_MAX) {
        fprintf(stderr, "usage: %s\n", usage);
        exit(64);
    }
    make_context(peer);
    if (peer->rank == 0)
        add_chain(peer, &job, files, count, matrices);
    make_plan(peer, &job, false);
    mmul_values_destroy(run_once(peer, &job, job.seconds));
    if (peer->rank == 0) {
        printf("{\"peer\": \"program\", \"counted\": \"files of root's to a file of root's, launch "
               "apart\", \"products\": %d, \"context_seconds\": %.9f, \"plan_seconds\": %.9f, ",
               count - 2, peer->context_seconds, job.plan_seconds);
        peer_print_seconds(job.seconds, 1);
        printf("}\n");
    }
    destroy_job(&job);
    for (int i = 0; i < count - 1; i++)
        mmul_matrix_close(matrices[i]);
}

// ---------------------------------------------------------------------------------------- resident

static const struct {
    const char *name;
    enum mmul_placement_kind kind;
} places[] = {{"rows", MMUL_PLACE_ROWS}, {"cols", MMUL_PLACE_COLS}, {"grid", MMUL_PLACE_GRID}};

static enum mmul_placement_kind find_place(const char *name) {
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(places[i].name, name) == 0)
            return places[i].kind;
    fprintf(stderr, "usage: %s\n", usage);
    exit(64);
}

static struct mmul_generated operand(int which, int rows, int cols) {
    return (struct mmul_generated){MMUL_GENERATE_INTEGER, (uint64_t)which, {1, 1, rows, cols}};
}

static void add_resident(const struct peer *peer, struct job *job, const int sides[3],
                         enum mmul_placement_kind place, bool has_product) {
    struct mmul_error err = {.status = MMUL_OK};
    int a, b;
    if (mmul_program_create(&job->program, &err) == MMUL_OK &&
        mmul_program_generate(job->program, operand(1, sides[0], sides[1]), NULL, &a, &err) ==
            MMUL_OK &&
        mmul_program_place(job->program, a, place, "A", &a, &err) == MMUL_OK &&
        mmul_program_generate(job->program, operand(2, sides[1], sides[2]), NULL, &b, &err) ==
            MMUL_OK &&
        mmul_program_place(job->program, b, place, "B", &b, &err) == MMUL_OK && has_product &&
        mmul_program_matmul(job->program, a, b, NULL, &job->result, &err) == MMUL_OK)
        mmul_program_place(job->program, job->result, place, "C", &job->result, &err);
    end_if(&err, peer);
}

// Returns element (i, j) of C by the operands' own formula.
static float element_of_product(const int sides[3], int64_t i, int64_t j) {
    const struct mmul_generated a = operand(1, sides[0], sides[1]);
    const struct mmul_generated b = operand(2, sides[1], sides[2]);
    double sum = 0;
    for (int64_t p = 0; p < sides[1]; p++) {
        const int64_t x = i * sides[1] + p, y = p * sides[2] + j;
        float left, right;
        mmul_generate(a.kind, a.seed, a.shape, x, x + 1, &left);
        mmul_generate(b.kind, b.seed, b.shape, y, y + 1, &right);
        sum += (double)left * (double)right;
    }
    return (float)sum;
}

// Checks the first and the last element of every part of this rank, on all ranks.
static bool is_right(const struct mmul_values *values, int result, const int sides[3]) {
    int right = 1, all = 0;
    for (int64_t p = 0; p < mmul_values_part_count(values, result); p++) {
        const struct mmul_value_part part = mmul_values_part(values, result, p);
        const struct mmul_region r = part.region;
        if (r.row_begin == r.row_end || r.col_begin == r.col_end)
            continue;
        const int64_t down = r.row_end - 1 - r.row_begin, along = r.col_end - 1 - r.col_begin;
        right &= part.data[0] == element_of_product(sides, r.row_begin, r.col_begin) &&
                 part.data[down * part.row_step + along * part.col_step] ==
                     element_of_product(sides, r.row_end - 1, r.col_end - 1);
    }
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all != 0;
}

static void print_resident(const struct peer *peer, const struct job *whole,
                           const struct job *operands, int runs, const char *place) {
    printf("{\"peer\": \"program\", \"counted\": \"A and B made in place, and their product\", "
           "\"context_seconds\": %.9f, \"plan_seconds\": %.9f, \"result\": \"%s\", ",
           peer->context_seconds, whole->plan_seconds, place);
    peer_print_seconds(whole->seconds, runs);
    printf(", \"operands\": {");
    peer_print_seconds(operands->seconds, runs);
    printf("}}\n");
}

static bool run_resident(struct peer *peer, int argc, char **argv) {
    static struct job whole, operands;
    int sides[3], runs = argc > 5 ? peer_number(argc, argv, 5, 1, usage) : 5;
    const int warmup = argc > 6 ? peer_number(argc, argv, 6, 0, usage) : 1;
    const enum mmul_placement_kind place = find_place(argc > 7 ? argv[7] : "rows");
    enum mmul_placement_kind kind;
    bool right = true;
    char text[96] = "";
    for (int i = 0; i < 3; i++)
        sides[i] = peer_number(argc, argv, 2 + i, 1, usage);
    runs = runs < RUNS_MAX ? runs : RUNS_MAX;
    make_context(peer);
    if (peer->rank == 0) {
        add_resident(peer, &operands, sides, place, false);
        add_resident(peer, &whole, sides, place, true);
    }
    MPI_Bcast(&whole.result, 1, MPI_INT, 0, MPI_COMM_WORLD);
    make_plan(peer, &operands, true);
    make_plan(peer, &whole, true);
    for (int r = -warmup; r < runs; r++) {
        double without, with;
        mmul_values_destroy(run_once(peer, &operands, &without));
        struct mmul_values *values = run_once(peer, &whole, &with);
        right = right && is_right(values, whole.result, sides);
        mmul_values_placement(values, whole.result, &kind, text);
        mmul_values_destroy(values);
        if (r >= 0)
            operands.seconds[r] = without, whole.seconds[r] = with;
    }
    if (peer->rank == 0)
        print_resident(peer, &whole, &operands, runs, text);
    destroy_job(&whole);
    destroy_job(&operands);
    return right;
}

int main(int argc, char **argv) {
    struct peer peer = {.rank = 0};
    int provided;
    bool right = true;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
    if (argc > 1 && strcmp(argv[1], "chain") == 0)
        run_chain(&peer, argc - 2, argv + 2);
    else if (argc > 1 && strcmp(argv[1], "resident") == 0)
        right = run_resident(&peer, argc, argv);
    else
        peer_number(0, NULL, 1, 0, usage);
    mmul_context_destroy(peer.context);
    MPI_Finalize();
    return right ? 0 : 79;
}
