// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Matrices used in place: every rank sees the file's numbers, written data end up in the output
// file, and a file that changes meanwhile is an error on all ranks. Communicators split one machine
// into two nodes: even ranks are root's node, odd ranks the other one.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/memory/mappings.h"
#include "tap.h"

enum { ROWS = 600, INNER = 37, COLS = 41, INPUTS = MMUL_MAPS_A | MMUL_MAPS_B };

static const struct mmul_shape a_shape = {1, 1, ROWS, INNER}, b_shape = {2, 1, INNER, COLS};
static const struct mmul_shape c_shape = {2, 1, ROWS, COLS};

static int rank, size;
static char folder[256], a_path[280], b_path[280], c_path[280], c_in_path[280];

// ---------------------------------------------------------------------------------------- nodes

static struct mmul_comm *make_comm(bool two_nodes) {
    struct mmul_comm *comm = NULL;
    struct mmul_error err;
    if (mmul_comm_create(MPI_COMM_WORLD, &comm, &err) != MMUL_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (!two_nodes || size == 1)
        return comm;
    MPI_Comm_free(&comm->node);
    if (comm->leaders != MPI_COMM_NULL)
        MPI_Comm_free(&comm->leaders);
    MPI_Comm_split(comm->world, rank % 2, rank, &comm->node);
    MPI_Comm_rank(comm->node, &comm->node_rank);
    MPI_Comm_size(comm->node, &comm->node_size);
    MPI_Comm_split(comm->world, rank < 2 ? 0 : MPI_UNDEFINED, rank, &comm->leaders);
    comm->node_index = rank % 2;
    comm->node_count = 2;
    for (int i = 0; i < size; i++)
        comm->rank_node[i] = i % 2;
    return comm;
}

// --------------------------------------------------------------------------------------- one job

struct job {
    struct mmul_context context;
    struct mmul_product_files files;
    struct mmul_mappings views;
    unsigned maps[5];
    struct mmul_error err;
    float *memory; // memory of operands that are not files
};

static void generate(const char *path, uint64_t seed, struct mmul_shape shape,
                     enum mmul_dtype dtype) {
    const struct mmul_output_request request = {.path = path, .shape = shape, .dtype = dtype};
    struct mmul_error err;
    if (mmul_generate_file(MMUL_GENERATE_INTEGER, seed, &request, &err) != MMUL_OK)
        fprintf(stderr, "# %s\n", err.text);
}

static void open_files(struct job *job, const char *a, const char *c) {
    struct mmul_product_files *files = &job->files;
    const struct mmul_output_request request = {.path = c, .shape = c_shape, .dtype = MMUL_F32};
    struct mmul_error err = {.text = ""};
    if (mmul_matrix_open(a, &files->a, &err) != MMUL_OK ||
        mmul_matrix_open(b_path, &files->b, &err) != MMUL_OK ||
        mmul_matrix_open(c_in_path, &files->c_in, &err) != MMUL_OK ||
        mmul_output_create(&request, &files->output, &err) != MMUL_OK)
        fprintf(stderr, "# %s\n", err.text);
}

// Collective. A is float32 .bin, B float16 .npy, C_in and C float32.
static void begin_job(struct job *job, bool two_nodes) {
    *job = (struct job){.files = {.dtype = MMUL_F32}};
    job->context.comm = make_comm(two_nodes);
    if (rank == 0) {
        generate(a_path, 1, a_shape, MMUL_F32);
        generate(b_path, 2, b_shape, MMUL_F16);
        generate(c_in_path, 3, c_shape, MMUL_F32);
        open_files(job, a_path, c_path);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void end_job(struct job *job) {
    mmul_mappings_close(&job->views);
    mmul_matrix_close(job->files.a);
    mmul_matrix_close(job->files.b);
    mmul_matrix_close(job->files.c_in);
    mmul_output_destroy(job->files.output);
    mmul_comm_destroy(job->context.comm);
    free(job->memory);
}

static enum mmul_status find_maps(struct job *job, enum mmul_io io) {
    memset(job->maps, 0xff, sizeof job->maps);
    return mmul_mappings_find(&job->context, &job->files, io, job->maps, &job->err);
}

static enum mmul_status open_views(struct job *job) {
    return mmul_mappings_open(&job->context, &job->files, job->maps, &job->views, &job->err);
}

static bool failed_with(const struct job *job, enum mmul_status status, enum mmul_status expected,
                        const char *text) {
    bool right = status == expected && strstr(job->err.text, text) != NULL;
    if (!right)
        fprintf(stderr, "# rank %d: status %d: %s\n", rank, (int)status, job->err.text);
    return right;
}

// ------------------------------------------------------------------------------------- contents

// Returns the number of elements of a view that differ from the file generated with `seed`.
static int64_t count_wrong(const struct mmul_shared *view, uint64_t seed, struct mmul_shape shape,
                           bool half) {
    static const uint16_t f16[] = {0xC400, 0xC200, 0xC000, 0xBC00, 0x0000,
                                   0x3C00, 0x4000, 0x4200, 0x4400}; // -4 ... 4
    int64_t count = shape.batch * shape.rows * shape.cols, wrong = 0;
    float *values = malloc((size_t)count * sizeof *values);
    mmul_generate(MMUL_GENERATE_INTEGER, seed, shape, 0, count, values);
    if (view->data == NULL || view->bytes != count * (half ? 2 : 4))
        wrong = count;
    for (int64_t i = 0; wrong < count && i < count; i++) {
        uint16_t bits = f16[(int)values[i] + 4];
        wrong += half ? memcmp(view->data + 2 * i, &bits, 2) != 0
                      : memcmp(view->data + 4 * i, &values[i], 4) != 0;
    }
    free(values);
    return wrong;
}

static bool sees_inputs(const struct job *job) {
    return count_wrong(&job->views.a, 1, a_shape, false) == 0 &&
           count_wrong(&job->views.b, 2, b_shape, true) == 0 &&
           count_wrong(&job->views.c_in, 3, c_shape, false) == 0;
}

// Each rank of root's node writes its share of the elements: their indices, interleaved over the
// ranks.
static void write_part(const struct job *job) {
    const struct mmul_comm *comm = job->context.comm;
    float *c = (float *)(void *)job->views.c.data;
    for (int64_t i = comm->node_rank; c != NULL && i < job->views.c.bytes / 4; i += comm->node_size)
        c[i] = (float)i;
}

// Root only: returns true if the committed file contains its elements' indices.
static bool is_written(void) {
    struct mmul_matrix *matrix = NULL;
    struct mmul_error err = {.text = ""};
    bool right = mmul_matrix_open(c_path, &matrix, &err) == MMUL_OK;
    for (int64_t m = 0; right && m < 2; m++) {
        float read[ROWS * COLS];
        struct mmul_region whole = {m, 0, ROWS, 0, COLS};
        right = mmul_matrix_read(matrix, whole, 0, ROWS * COLS, read, &err) == MMUL_OK;
        for (int64_t i = 0; right && i < ROWS * COLS; i++)
            right = read[i] == (float)(m * ROWS * COLS + i);
    }
    mmul_matrix_close(matrix);
    return right;
}

// ---------------------------------------------------------------------------------------- tests

static void test_files(bool two_nodes) {
    struct job job;
    begin_job(&job, two_nodes);
    bool here = job.context.comm->node_index == 0;
    tap_ok(find_maps(&job, MMUL_IO_AUTO) == MMUL_OK && job.maps[0] == 15,
           "root's node maps all files");
    if (job.context.comm->node_count == 2)
        tap_ok(job.maps[1] == (INPUTS | MMUL_MAPS_C_IN), "another node maps the inputs");
    tap_ok(open_views(&job) == MMUL_OK, "views are opened");
    tap_ok(sees_inputs(&job), "every rank sees the numbers of the files");
    tap_ok((job.views.c.data != NULL) == here, "C is mapped on root's node");
    write_part(&job);
    tap_ok(mmul_mappings_check(&job.views, &job.err) == MMUL_OK, "no page of a view was missing");
    MPI_Barrier(MPI_COMM_WORLD);
    bool written = true;
    if (rank == 0) {
        written = mmul_output_commit(job.files.output, &job.err) == MMUL_OK;
        job.files.output = NULL;
    }
    mmul_mappings_close(&job.views);
    tap_ok(written && (rank != 0 || is_written()), "what all ranks wrote is in the output file");
    end_job(&job);
}

// Root's C_in becomes one in memory; the job's own file stays open.
static void borrow_c_in(struct job *job, struct mmul_shape shape, enum mmul_dtype dtype) {
    static const float zeros[1 << 16];
    struct mmul_error err = {.text = ""};
    job->files.c_in = NULL;
    if (rank == 0 &&
        mmul_matrix_borrow(zeros, shape, dtype, "C_in", &job->files.c_in, &err) != MMUL_OK)
        fprintf(stderr, "# %s\n", err.text);
}

// Files that are not requested, or cannot be mapped, are not mapped.
static void test_choices(void) {
    struct job job;
    begin_job(&job, true);
    bool two = job.context.comm->node_count == 2;
    tap_ok(find_maps(&job, MMUL_IO_ROOT) == MMUL_OK && job.maps[0] == 15 &&
               (!two || job.maps[1] == 0),
           "--io root maps files on root's node only");
    tap_ok(find_maps(&job, MMUL_IO_SHARED) == MMUL_OK && (!two || job.maps[1] == 7),
           "--io shared maps files that all ranks see");
    struct mmul_matrix *c_in = job.files.c_in;
    borrow_c_in(&job, c_shape, MMUL_F16);
    tap_ok(find_maps(&job, MMUL_IO_AUTO) == MMUL_OK && job.maps[0] == 11,
           "a 16-bit C_in is not mapped");
    mmul_matrix_close(job.files.c_in);
    borrow_c_in(&job, (struct mmul_shape){1, 1, 1, c_shape.cols}, MMUL_F32);
    job.files.c_in_is_broadcast = true;
    tap_ok(find_maps(&job, MMUL_IO_AUTO) == MMUL_OK && job.maps[0] == 11,
           "a C_in that repeats is not mapped");
    mmul_matrix_close(job.files.c_in);
    struct mmul_matrix *a = job.files.a, *b = job.files.b;
    job.files.c_in = c_in;
    job.files.c_in_is_broadcast = false;
    job.files.a = job.files.b = NULL;
    tap_ok(find_maps(&job, MMUL_IO_AUTO) == MMUL_OK && job.maps[0] == 12,
           "A and B are not mapped if they are not read");
    job.files.a = a;
    job.files.b = b;
    job.files.c_in = NULL;
    tap_ok(find_maps(&job, MMUL_IO_AUTO) == MMUL_OK && job.maps[0] == 11,
           "C_in is not mapped if it is not read");
    tap_ok(open_views(&job) == MMUL_OK && job.views.c_in.data == NULL,
           "C_in is not opened if it is not read");
    mmul_mappings_close(&job.views);
    job.maps[0] = job.maps[1] = MMUL_MAPS_B;
    tap_ok(open_views(&job) == MMUL_OK && job.views.a.data == NULL &&
               count_wrong(&job.views.b, 2, b_shape, true) == 0,
           "fewer files than can be mapped may be opened");
    mmul_mappings_close(&job.views);
    job.maps[0] = job.maps[1] = MMUL_MAPS_C_IN;
    tap_ok(failed_with(&job, open_views(&job), MMUL_ERR_SYSTEM, "as the plan requires"),
           "a file that cannot be mapped is refused on all ranks");
    job.files.c_in = c_in;
    end_job(&job);
}

// The caller's memory is used in place by a rank that is alone on root's node.
static void test_memory(bool two_nodes) {
    struct job job;
    begin_job(&job, two_nodes);
    bool alone = size == 1 || (two_nodes && size == 2);
    int64_t count = ROWS * INNER;
    job.memory = malloc((size_t)(count + 2 * ROWS * COLS) * sizeof(float));
    if (rank == 0) {
        mmul_generate(MMUL_GENERATE_INTEGER, 1, a_shape, 0, count, job.memory);
        mmul_matrix_close(job.files.a);
        mmul_output_destroy(job.files.output);
        mmul_matrix_borrow(job.memory, a_shape, MMUL_F32, "A", &job.files.a, &job.err);
        mmul_output_borrow(job.memory + count, c_shape, MMUL_F32, &job.files.output, &job.err);
    }
    unsigned expected = alone ? 15 : MMUL_MAPS_B | MMUL_MAPS_C_IN;
    tap_ok(find_maps(&job, MMUL_IO_SHARED) == MMUL_OK && job.maps[0] == expected,
           alone ? "memory is used by a rank alone" : "memory is not shared by ranks");
    if (job.context.comm->node_count == 2)
        tap_ok(job.maps[1] == (MMUL_MAPS_B | MMUL_MAPS_C_IN), "memory is not shared by nodes");
    tap_ok(open_views(&job) == MMUL_OK, "views of memory and files are opened");
    bool right = !alone || rank != 0 ||
                 (job.views.a.data == (char *)job.memory &&
                  job.views.c.data == (char *)(job.memory + count) && sees_inputs(&job));
    tap_ok(right && mmul_mappings_check(&job.views, &job.err) == MMUL_OK,
           "memory is used in place");
    end_job(&job);
}

// The other node lacks the file, or has another file under the same name.
static void test_file_not_seen(bool missing) {
    struct job job;
    begin_job(&job, true);
    if (rank == 0) {
        unlink(a_path);
        if (!missing)
            generate(a_path, 77, a_shape, MMUL_F32);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    bool two = job.context.comm->node_count == 2;
    unsigned others = MMUL_MAPS_B | MMUL_MAPS_C_IN;
    tap_ok(find_maps(&job, MMUL_IO_AUTO) == MMUL_OK && job.maps[0] == 15 &&
               (!two || job.maps[1] == others),
           missing ? "a file missing on the other node is not mapped there"
                   : "another file of that name is not mapped there");
    tap_ok(open_views(&job) == MMUL_OK &&
               (job.context.comm->node_index == 1 ? job.views.a.data == NULL : sees_inputs(&job)),
           "the file is used on root's node alone");
    mmul_mappings_close(&job.views);
    if (two) {
        job.maps[1] |= MMUL_MAPS_A;
        const char *text = missing ? "A.bin': No such file" : "is not the file that root reads";
        tap_ok(failed_with(&job, open_views(&job), MMUL_ERR_NO_INPUT, text),
               "the file is an error if it disappears later");
        tap_ok(failed_with(&job, find_maps(&job, MMUL_IO_SHARED), MMUL_ERR_NO_INPUT, text) &&
                   strncmp(job.err.text, "rank 1 on ", 10) == 0 &&
                   strstr(job.err.hint, "--io shared") != NULL,
               "the file is an error with --io shared");
    }
    end_job(&job);
}

// A relative path that only root's folder resolves: the file is found under its full path.
static void test_relative_path(void) {
    struct job job;
    char before[256];
    begin_job(&job, true);
    if (rank == 0 && getcwd(before, sizeof before) != NULL && chdir(folder) == 0) {
        mmul_matrix_close(job.files.a);
        mmul_matrix_open("A.bin", &job.files.a, &job.err);
    }
    tap_ok(find_maps(&job, MMUL_IO_SHARED) == MMUL_OK && open_views(&job) == MMUL_OK &&
               sees_inputs(&job),
           "a relative path is found under its full path");
    if (rank == 0 && chdir(before) != 0)
        fprintf(stderr, "# cannot go back\n");
    end_job(&job);
}

// A mapped file is truncated. With one byte less no page is missing, and only the length tells.
static void test_shrunken(const char *path, int64_t lost_bytes, enum mmul_status expected,
                          const char *text) {
    struct job job;
    struct stat found;
    char what[128];
    volatile float sum = 0;
    begin_job(&job, true);
    find_maps(&job, MMUL_IO_AUTO);
    bool opened = open_views(&job) == MMUL_OK;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && (stat(path, &found) != 0 || truncate(path, found.st_size - lost_bytes) != 0))
        opened = false;
    MPI_Barrier(MPI_COMM_WORLD);
    const struct mmul_shared *all[] = {&job.views.a, &job.views.b, &job.views.c_in};
    for (int v = 0; v < 3; v++)
        for (int64_t i = 0; opened && i < all[v]->bytes; i += 64)
            sum = sum + (float)all[v]->data[i];
    write_part(&job);
    enum mmul_status status =
        mmul_comm_agree(job.context.comm, mmul_mappings_check(&job.views, &job.err), &job.err);
    snprintf(what, sizeof what, "%s: losing %lld bytes while mapped is an error",
             path + strlen(folder) + 1, (long long)lost_bytes);
    tap_ok(opened && failed_with(&job, status, expected, text), what);
    end_job(&job);
}

static void make_folder(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.200s/mpimatmul-test-XXXXXX",
             parent != NULL ? parent : "/tmp");
    if (rank == 0 && mkdtemp(folder) == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Bcast(folder, sizeof folder, MPI_BYTE, 0, MPI_COMM_WORLD);
    snprintf(a_path, sizeof a_path, "%s/A.bin", folder);
    snprintf(b_path, sizeof b_path, "%s/B.npy", folder);
    snprintf(c_path, sizeof c_path, "%s/C.bin", folder);
    snprintf(c_in_path, sizeof c_in_path, "%s/D.bin", folder);
}

static void remove_folder(void) {
    if (rank != 0)
        return;
    unlink(a_path);
    unlink(b_path);
    unlink(c_path);
    unlink(c_in_path);
    rmdir(folder);
}

int main(int argc, char **argv) {
    int provided;
    char part_path[300];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    make_folder();
    snprintf(part_path, sizeof part_path, "%s.part", c_path);
    test_files(false);
    test_files(true);
    test_choices();
    test_memory(false);
    test_memory(true);
    test_file_not_seen(true);
    test_file_not_seen(false);
    test_relative_path();
    test_shrunken(a_path, 1, MMUL_ERR_DATA, "A.bin' has become shorter than its header says");
    test_shrunken(a_path, 50000, MMUL_ERR_DATA, "it ends at byte 38820, expected 88820");
    test_shrunken(b_path, 5000, MMUL_ERR_DATA, "B.npy' has become shorter");
    test_shrunken(c_in_path, 196820, MMUL_ERR_DATA, "D.bin' has become shorter");
    test_shrunken(part_path, 8192, MMUL_ERR_IO, "C.bin': its temporary file has become shorter");
    remove_folder();
    int status = tap_end();
    MPI_Finalize();
    return status;
}
