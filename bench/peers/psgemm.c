// SPDX-License-Identifier: MIT
// ScaLAPACK's psgemm on all ranks, in one of two ways:
//   in-place    operands and result are block-cyclic on the ranks: only the call itself is timed
//   from-root   A, B and C are whole on rank 0: the distribution and the collection by ScaLAPACK's
//               psgemr2d are timed, too
// Times are taken between barriers, on rank 0's clock. Column-major, as ScaLAPACK is.
#include <mpi.h>

#include "peer.h"

enum { RUNS_MAX = 1000, DESCRIPTOR = 9 };

static const char usage[] = "psgemm in-place|from-root M K N [RUNS [WARMUP [BLOCK [GRID_ROWS]]]]";

// ScaLAPACK and the BLACS have no header.
void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int cols);
void Cblacs_gridinfo(int context, int *rows, int *cols, int *row, int *col);
void Cblacs_gridexit(int context);
void Cblacs_exit(int keep_mpi);
int numroc_(const int *n, const int *block, const int *place, const int *first, const int *places);
void descinit_(int *descriptor, const int *m, const int *n, const int *row_block,
               const int *col_block, const int *first_row, const int *first_col, const int *context,
               const int *ld, int *info);
void psgemm_(const char *op_a, const char *op_b, const int *m, const int *n, const int *k,
             const float *alpha, const float *a, const int *ia, const int *ja, const int *desc_a,
             const float *b, const int *ib, const int *jb, const int *desc_b, const float *beta,
             float *c, const int *ic, const int *jc, const int *desc_c);
void Cpsgemr2d(int m, int n, const float *from, int i, int j, const int *from_descriptor, float *to,
               int ti, int tj, const int *to_descriptor, int all);

struct grid {
    int context, rows, cols, row, col; // row -1: this rank is not on it
};

struct matrix {
    int rows, cols, local_rows, local_cols;
    int descriptor[DESCRIPTOR];
    float *data; // (local_rows, local_cols), column-major
};

struct job {
    int m, k, n, block;
    bool is_from_root;
    struct grid all, root;
    struct matrix a, b, c;                // on all ranks
    struct matrix root_a, root_b, root_c; // whole, on rank 0
};

static struct grid make_grid(int rows, int cols) {
    struct grid grid = {.row = -1};
    Cblacs_get(-1, 0, &grid.context);
    Cblacs_gridinit(&grid.context, "Row", rows, cols);
    if (grid.context >= 0)
        Cblacs_gridinfo(grid.context, &grid.rows, &grid.cols, &grid.row, &grid.col);
    return grid;
}

// Returns the rows of a grid of so many ranks, as near to a square as possible.
static int square_rows(int ranks) {
    int rows = 1;
    for (int r = 2; r * r <= ranks; r++)
        if (ranks % r == 0)
            rows = r;
    return rows;
}

static struct matrix make_matrix(const struct grid *grid, int rows, int cols, int row_block,
                                 int col_block) {
    struct matrix matrix = {.rows = rows, .cols = cols, .descriptor = {[1] = -1}};
    if (grid->row < 0)
        return matrix;
    const int zero = 0;
    matrix.local_rows = numroc_(&rows, &row_block, &grid->row, &zero, &grid->rows);
    matrix.local_cols = numroc_(&cols, &col_block, &grid->col, &zero, &grid->cols);
    int ld = matrix.local_rows > 1 ? matrix.local_rows : 1, info;
    descinit_(matrix.descriptor, &rows, &cols, &row_block, &col_block, &zero, &zero, &grid->context,
              &ld, &info);
    matrix.data = peer_allocate((size_t)ld * (size_t)matrix.local_cols);
    return matrix;
}

// Converts a local index to the matrix's own.
static int64_t whole_index(int local, int block, int place, int places) {
    return ((int64_t)(local / block) * places + place) * block + local % block;
}

static void fill(struct matrix *matrix, const struct grid *grid, uint64_t seed) {
    const int row_block = matrix->descriptor[4], col_block = matrix->descriptor[5];
    for (int j = 0; j < matrix->local_cols; j++) {
        const int64_t col = whole_index(j, col_block, grid->col, grid->cols);
        for (int i = 0; i < matrix->local_rows; i++) {
            const int64_t row = whole_index(i, row_block, grid->row, grid->rows);
            matrix->data[(size_t)j * (size_t)matrix->local_rows + (size_t)i] =
                peer_element(seed, row, col);
        }
    }
}

static void make_matrices(struct job *job) {
    job->a = make_matrix(&job->all, job->m, job->k, job->block, job->block);
    job->b = make_matrix(&job->all, job->k, job->n, job->block, job->block);
    job->c = make_matrix(&job->all, job->m, job->n, job->block, job->block);
    if (!job->is_from_root) {
        fill(&job->a, &job->all, 1);
        fill(&job->b, &job->all, 2);
        return;
    }
    job->root_a = make_matrix(&job->root, job->m, job->k, job->m, job->k);
    job->root_b = make_matrix(&job->root, job->k, job->n, job->k, job->n);
    job->root_c = make_matrix(&job->root, job->m, job->n, job->m, job->n);
    if (job->root.row >= 0) {
        fill(&job->root_a, &job->root, 1);
        fill(&job->root_b, &job->root, 2);
    }
}

static void redistribute(const struct job *job, const struct matrix *from, struct matrix *to) {
    Cpsgemr2d(from->rows, from->cols, from->data, 1, 1, from->descriptor, to->data, 1, 1,
              to->descriptor, job->all.context);
}

static double multiply(struct job *job) {
    const int one = 1;
    const float alpha = 1, beta = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = peer_now();
    if (job->is_from_root) {
        redistribute(job, &job->root_a, &job->a);
        redistribute(job, &job->root_b, &job->b);
    }
    psgemm_("N", "N", &job->m, &job->n, &job->k, &alpha, job->a.data, &one, &one, job->a.descriptor,
            job->b.data, &one, &one, job->b.descriptor, &beta, job->c.data, &one, &one,
            job->c.descriptor);
    if (job->is_from_root)
        redistribute(job, &job->c, &job->root_c);
    MPI_Barrier(MPI_COMM_WORLD);
    return peer_now() - begin;
}

// Checks this rank's last element of C (rank 0: of the whole C), on all ranks.
static bool is_right(const struct job *job) {
    const struct matrix *c = job->is_from_root ? &job->root_c : &job->c;
    const struct grid *grid = job->is_from_root ? &job->root : &job->all;
    int right = 1, all = 0;
    if (grid->row >= 0 && c->local_rows > 0 && c->local_cols > 0) {
        const int64_t i = whole_index(c->local_rows - 1, c->descriptor[4], grid->row, grid->rows);
        const int64_t j = whole_index(c->local_cols - 1, c->descriptor[5], grid->col, grid->cols);
        const size_t last = (size_t)c->local_rows * (size_t)c->local_cols - 1;
        right = c->data[last] == peer_product(i, j, job->k);
    }
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all != 0;
}

static void print(const struct job *job, const double *seconds, int runs, bool right) {
    printf("{\"peer\": \"ScaLAPACK psgemm\", \"counted\": \"%s\", ",
           job->is_from_root ? "from root's memory to root's memory"
                             : "compute only, operands in place");
    printf("\"m\": %d, \"k\": %d, \"n\": %d, \"grid\": [%d, %d], \"block\": %d, \"right\": %s, ",
           job->m, job->k, job->n, job->all.rows, job->all.cols, job->block,
           right ? "true" : "false");
    peer_print_seconds(seconds, runs);
    printf("}\n");
}

static void destroy(struct job *job) {
    struct matrix *all[] = {&job->a, &job->b, &job->c, &job->root_a, &job->root_b, &job->root_c};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
    if (job->root.row >= 0)
        Cblacs_gridexit(job->root.context);
    Cblacs_gridexit(job->all.context);
}

int main(int argc, char **argv) {
    static double seconds[RUNS_MAX];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct job job = {
        .is_from_root = argc > 1 && argv[1][0] == 'f',
        .m = peer_number(argc, argv, 2, 1, usage),
        .k = peer_number(argc, argv, 3, 1, usage),
        .n = peer_number(argc, argv, 4, 1, usage),
    };
    int runs = argc > 5 ? peer_number(argc, argv, 5, 1, usage) : 5;
    const int warmup = argc > 6 ? peer_number(argc, argv, 6, 0, usage) : 1;
    runs = runs < RUNS_MAX ? runs : RUNS_MAX;
    job.block = argc > 7 ? peer_number(argc, argv, 7, 1, usage) : 256;
    const int rows = argc > 8 ? peer_number(argc, argv, 8, 1, usage) : square_rows(ranks);
    if (ranks % rows != 0) {
        fprintf(stderr, "psgemm: %d rows do not make a grid of %d ranks\n", rows, ranks);
        return 64;
    }
    job.all = make_grid(rows, ranks / rows);
    job.root = make_grid(1, 1);
    make_matrices(&job);
    for (int r = -warmup; r < runs; r++) {
        double once = multiply(&job);
        if (r >= 0)
            seconds[r] = once;
    }
    const bool right = is_right(&job);
    if (rank == 0)
        print(&job, seconds, runs, right);
    destroy(&job);
    MPI_Finalize();
    return right ? 0 : 79;
}
