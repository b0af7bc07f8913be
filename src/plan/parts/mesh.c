// SPDX-License-Identifier: MIT
// Computes the shares of the rows and columns of a mesh, and the load of each node that follows
// from them. The caller, which knows the product, decides which mesh is best.
#include "plan/parts/mesh.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

enum { TURNS = 3, BEGINNINGS = 7 };

enum mmul_status mmul_mesh_init(struct mmul_mesh *mesh, const struct mmul_mesh_request *request,
                                struct mmul_error *err) {
    struct mmul_mesh made = {0};
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "a mesh", err, MMUL_ARRAY(made.row_shares, request->size),
        MMUL_ARRAY(made.col_shares, request->size), MMUL_ARRAY(made.row_scratch, request->size),
        MMUL_ARRAY(made.col_scratch, request->size), MMUL_ARRAY(made.nodes, request->node_count),
        MMUL_ARRAY(made.last_row, request->node_count),
        MMUL_ARRAY(made.last_col, request->node_count));
    if (status == MMUL_OK) {
        mmul_mesh_set(&made, request, 1, request->size, 0);
        *mesh = made;
    } else {
        mmul_mesh_fini(&made);
    }
    return status;
}

void mmul_mesh_fini(struct mmul_mesh *mesh) {
    MMUL_FREE_ALL(mesh->row_shares, mesh->col_shares, mesh->row_scratch, mesh->col_scratch,
                  mesh->nodes, mesh->last_row, mesh->last_col);
    *mesh = (struct mmul_mesh){0};
}

bool mmul_mesh_is_candidate(int size, int rows) {
    int cols = size / rows;
    bool nearly_square = rows <= 2 * cols && cols <= 2 * rows;
    return rows * cols == size || (nearly_square && 4 * rows * cols >= 3 * size);
}

int64_t mmul_mesh_begin(const double *shares, int line, int64_t total) {
    double before = 0;
    for (int i = 0; i < line; i++)
        before += shares[i];
    return (int64_t)llround((double)total * before);
}

// ------------------------------------------------------------------------------------------ shares

// Computes the best shares of lines (rows, or columns) for given shares across them. Returns false
// if all are 0.
static bool fit_line_shares(const struct mmul_mesh *mesh, const double *rates, bool by_rows,
                            const double *across, double *shares) {
    int lines = by_rows ? mesh->rows : mesh->cols, places = by_rows ? mesh->cols : mesh->rows;
    double sum = 0;
    for (int line = 0; line < lines; line++) {
        double least = INFINITY;
        for (int place = 0; place < places; place++) {
            int rank = by_rows ? line * mesh->cols + place : place * mesh->cols + line;
            least = across[place] > 0 ? fmin(least, rates[rank] / across[place]) : least;
        }
        shares[line] = isfinite(least) ? least : 0;
        sum += shares[line];
    }
    for (int line = 0; line < lines; line++)
        shares[line] = sum > 0 ? shares[line] / sum : 0;
    return sum > 0;
}

static double slowest_rank_seconds(const struct mmul_mesh *mesh, const double *rates,
                                   const double *rows, const double *cols) {
    double most = 0;
    for (int i = 0; i < mesh->rows; i++)
        for (int j = 0; j < mesh->cols; j++)
            if (rows[i] > 0 && cols[j] > 0)
                most = fmax(most, rows[i] * cols[j] / rates[i * mesh->cols + j]);
    return most;
}

// Starts with the rates of one row as shares of the columns. The rows used are spread over the
// mesh; beginning 0 uses the sums over all rows.
static void start_columns(const struct mmul_mesh *mesh, const double *rates, int beginning,
                          double *cols) {
    int only =
        beginning == 0 ? -1 : (int)((int64_t)(beginning - 1) * mesh->rows / (BEGINNINGS - 1));
    memset(cols, 0, (size_t)mesh->cols * sizeof *cols);
    for (int i = 0; i < mesh->rows; i++)
        for (int j = 0; j < mesh->cols && (only < 0 || only == i); j++)
            cols[j] += rates[i * mesh->cols + j];
}

static bool balance_shares(struct mmul_mesh *mesh, const double *rates) {
    double best = INFINITY;
    for (int beginning = 0; beginning < BEGINNINGS; beginning++) {
        double *rows = mesh->row_scratch, *cols = mesh->col_scratch;
        bool valid = true;
        start_columns(mesh, rates, beginning, cols);
        for (int turn = 0; valid && turn < TURNS; turn++)
            valid = fit_line_shares(mesh, rates, true, cols, rows) &&
                    fit_line_shares(mesh, rates, false, rows, cols);
        double seconds = valid ? slowest_rank_seconds(mesh, rates, rows, cols) : INFINITY;
        if (seconds >= best)
            continue;
        best = seconds;
        memcpy(mesh->row_shares, rows, (size_t)mesh->rows * sizeof *rows);
        memcpy(mesh->col_shares, cols, (size_t)mesh->cols * sizeof *cols);
    }
    return isfinite(best);
}

// A line without a share stays without one.
static void even_out_shares(double *shares, int count, double evenness) {
    double sum = 0;
    for (int i = 0; i < count; i++) {
        shares[i] = shares[i] > 0 ? pow(shares[i], 1 - evenness) : 0;
        sum += shares[i];
    }
    for (int i = 0; i < count; i++)
        shares[i] /= sum;
}

// ------------------------------------------------------------------------------------------- nodes

// Walks the lines of the mesh (rows, or columns). A node of a line holds the whole line once,
// regardless of its number of ranks in it. Each block goes to all nodes of the line except its own.
static void add_line_loads(struct mmul_mesh *mesh, const struct mmul_mesh_request *r,
                           bool by_rows) {
    int lines = by_rows ? mesh->rows : mesh->cols, places = by_rows ? mesh->cols : mesh->rows;
    int *last = by_rows ? mesh->last_row : mesh->last_col;
    for (int node = 0; node < r->node_count; node++)
        last[node] = -1;
    int *most = by_rows ? &mesh->row_nodes : &mesh->col_nodes;
    *most = 0;
    for (int line = 0; line < lines; line++) {
        double share = by_rows ? mesh->row_shares[line] : mesh->col_shares[line];
        int nodes = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int place = 0; place < places; place++) {
                int i = by_rows ? line : place, j = by_rows ? place : line;
                int at = r->rank_node[i * mesh->cols + j];
                struct mmul_mesh_node *node = &mesh->nodes[at];
                double block = mesh->row_shares[i] * mesh->col_shares[j];
                if (pass == 1)
                    *(by_rows ? &node->row_sends : &node->col_sends) += block * (nodes - 1);
                if (pass == 1 || last[at] == line)
                    continue;
                last[at] = line;
                nodes++;
                *(by_rows ? &node->rows : &node->cols) += share;
            }
        *most = nodes > *most ? nodes : *most;
    }
}

bool mmul_mesh_set(struct mmul_mesh *mesh, const struct mmul_mesh_request *request, int rows,
                   int cols, double evenness) {
    mesh->rows = rows;
    mesh->cols = cols;
    if (!balance_shares(mesh, request->rates))
        return false;
    even_out_shares(mesh->row_shares, rows, evenness);
    even_out_shares(mesh->col_shares, cols, evenness);
    memset(mesh->nodes, 0, (size_t)request->node_count * sizeof *mesh->nodes);
    add_line_loads(mesh, request, true);
    add_line_loads(mesh, request, false);
    mesh->block_most = 0;
    for (int rank = 0; rank < rows * cols; rank++) {
        double block = mesh->row_shares[rank / cols] * mesh->col_shares[rank % cols];
        mesh->nodes[request->rank_node[rank]].block += block;
        mesh->block_most = fmax(mesh->block_most, block);
    }
    return true;
}
