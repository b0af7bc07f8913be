// SPDX-License-Identifier: MIT
// The check's sums on an OpenCL device with kernels/project.cl, in double if the device has it,
// else in pairs of floats. The kernels run on the compute queue. Their result vectors, small
// against the matrix, are downloaded at once. Partial sums of blocks are added on the device.
#include "base/integer.h"
#include "base/memory.h"
#include "device/matrix_sums.h"
#include "device/opencl_device.h"
#include "device/opencl_error.h"
#include "device/opencl_program.h"
#include "kernels.h"

enum { SIDE = 64 };
// bits of `wanted` in project.cl
enum { ROW_SUMS = 1, ROW_SQUARES = 2, COL_SUMS = 4, COL_SQUARES = 8, BITS = 16 };

// A number as kernels hold it: a double, or the sum of two floats.
union number {
    cl_double whole;
    cl_float pair[2];
};

static double number_at(const union number *from, int64_t at, bool pairs) {
    return pairs ? (double)from[at].pair[0] + (double)from[at].pair[1] : from[at].whole;
}

// ----------------------------------------------------------------------------------------- kernels

static enum mmul_status prepare_kernels(struct mmul_opencl *opencl, struct mmul_error *err) {
    struct mmul_opencl_sums_state *p = &opencl->projects;
    if (p->add != NULL)
        return MMUL_OK;
    p->pairs = !opencl->info.has_double;
    const char *const texts[] = {p->pairs ? "#define PAIRS 1\n" : "#define PAIRS 0\n",
                                 mmul_kernel_mix_bits, mmul_kernel_project, NULL};
    enum mmul_status status = MMUL_OK;
    if (p->program == NULL)
        status = mmul_opencl_program_create(opencl->context, opencl->device, opencl->label, texts,
                                            &p->program, err);
    if (status == MMUL_OK && p->project == NULL)
        status = mmul_opencl_kernel_create(p->program, opencl->label, "project", &p->project, err);
    if (status == MMUL_OK)
        status = mmul_opencl_kernel_create(p->program, opencl->label, "project_add", &p->add, err);
    return status;
}

void mmul_opencl_sums_state_fini(struct mmul_opencl_sums_state *projects) {
    if (projects->project != NULL)
        clReleaseKernel(projects->project);
    if (projects->add != NULL)
        clReleaseKernel(projects->add);
    if (projects->program != NULL)
        clReleaseProgram(projects->program);
    for (int i = 0; i < MMUL_OPENCL_PROJECT_VECTORS; i++)
        if (projects->vectors[i] != NULL)
            clReleaseMemObject(projects->vectors[i]);
}

// ------------------------------------------------------------------------------------------- slabs

// Rows of the matrix that one call sums.
struct slab {
    struct mmul_opencl *opencl;
    const struct mmul_matrix_sums *args;
    int64_t row, rows, strips, tiles, blocks;
    unsigned wanted;
};

enum vector { ALONG, ACROSS, ROW_PARTS, COL_PARTS, ROW_RESULTS, COL_RESULTS, BIT_PARTS };

static const cl_mem *vector_of(const struct slab *s, enum vector which) {
    return &s->opencl->projects.vectors[which];
}

// Chooses strips as wide as possible that still give a large device enough groups.
static struct slab make_slab(struct mmul_opencl *opencl, const struct mmul_matrix_sums *args,
                             int64_t row, int64_t rows) {
    enum { GROUPS_ENOUGH = 1024 };
    struct slab s = {.opencl = opencl,
                     .args = args,
                     .row = row,
                     .rows = rows,
                     .wanted = (args->row_sums != NULL ? ROW_SUMS : 0u) |
                               (args->row_squares != NULL ? ROW_SQUARES : 0u) |
                               (args->col_sums != NULL ? COL_SUMS : 0u) |
                               (args->col_squares != NULL ? COL_SQUARES : 0u) |
                               (args->bits != NULL ? BITS : 0u),
                     .blocks = mmul_divide_up(rows, SIDE)};
    const int64_t across = mmul_divide_up(args->cols, SIDE);
    s.strips = mmul_min(across, mmul_divide_up(GROUPS_ENOUGH, s.blocks));
    s.tiles = mmul_divide_up(across, s.strips);
    s.strips = mmul_divide_up(across, s.tiles);
    return s;
}

// Ensures room for `count` numbers. Growing discards the old content.
static enum mmul_status reserve_numbers(struct mmul_opencl *opencl, enum vector which,
                                        int64_t count, struct mmul_error *err) {
    enum { LEAST = 1 << 14 };
    struct mmul_opencl_sums_state *p = &opencl->projects;
    if (count <= p->counts[which])
        return MMUL_OK;
    if (p->vectors[which] != NULL)
        clReleaseMemObject(p->vectors[which]);
    p->vectors[which] = NULL;
    p->counts[which] = 0;
    enum mmul_status status = mmul_opencl_allocate(
        opencl, mmul_max(count, LEAST), sizeof(union number), "sums", &p->vectors[which], err);
    if (status == MMUL_OK)
        p->counts[which] = mmul_max(count, LEAST);
    return status;
}

static enum mmul_status upload_numbers(struct mmul_opencl *opencl, enum vector which, int64_t count,
                                       const double *values, union number *room,
                                       struct mmul_error *err) {
    for (int64_t i = 0; i < count; i++) {
        room[i].whole = values[i];
        if (opencl->projects.pairs) {
            const cl_float high = (cl_float)values[i];
            room[i].pair[0] = high;
            room[i].pair[1] = (cl_float)(values[i] - (double)high);
        }
    }
    const cl_int code = clEnqueueWriteBuffer(opencl->order.queues[MMUL_QUEUE_COMPUTE],
                                             opencl->projects.vectors[which], CL_TRUE, 0,
                                             (size_t)count * sizeof *room, room, 0, NULL, NULL);
    return code == CL_SUCCESS ? MMUL_OK
                              : mmul_opencl_fail(err, code, "cannot copy to '%s'", opencl->label);
}

static enum mmul_status slab_init(const struct slab *s, union number *room,
                                  struct mmul_error *err) {
    const struct mmul_matrix_sums *args = s->args;
    const int64_t cols = args->cols;
    const struct {
        enum vector which;
        int64_t count;
        const double *values;
    } vectors[] = {{ALONG, cols, args->row_sums != NULL ? args->along : NULL},
                   {ACROSS, s->rows, args->col_sums != NULL ? args->across + s->row : NULL},
                   {ROW_PARTS, 2 * s->rows * s->strips, NULL},
                   {COL_PARTS, 2 * cols * s->blocks, NULL},
                   {ROW_RESULTS, 2 * s->rows, NULL},
                   {COL_RESULTS, 2 * cols, NULL},
                   {BIT_PARTS, s->strips * s->blocks, NULL}};
    enum mmul_status status = MMUL_OK;
    for (size_t i = 0; status == MMUL_OK && i < sizeof vectors / sizeof *vectors; i++) {
        status = reserve_numbers(s->opencl, vectors[i].which, vectors[i].count, err);
        if (status == MMUL_OK && vectors[i].values != NULL)
            status = upload_numbers(s->opencl, vectors[i].which, vectors[i].count,
                                    vectors[i].values, room, err);
    }
    return status;
}

struct argument {
    size_t bytes;
    const void *value;
};

// `use`: of the matrix that is read; NULL: none.
static cl_int enqueue_kernel(struct mmul_opencl *opencl, cl_kernel kernel,
                             const struct argument *arguments, cl_uint count,
                             const size_t groups[2], struct mmul_opencl_buffer_events *use) {
    const enum mmul_opencl_queue compute = MMUL_QUEUE_COMPUTE;
    const size_t local[2] = {SIDE, 1}, global[2] = {groups[0] * SIDE, groups[1]};
    struct mmul_opencl_dependencies waits = {.count = 0};
    cl_event event = NULL;
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; code == CL_SUCCESS && i < count; i++)
        code = clSetKernelArg(kernel, i, arguments[i].bytes, arguments[i].value);
    if (use != NULL)
        mmul_opencl_add_read_dependencies(&waits, use, compute);
    if (code == CL_SUCCESS)
        code = clEnqueueNDRangeKernel(opencl->order.queues[compute], kernel, 2, NULL, global, local,
                                      waits.count, mmul_opencl_dependency_list(&waits), &event);
    if (code != CL_SUCCESS)
        return code;
    if (use != NULL)
        mmul_opencl_record_read(use, compute, event);
    return mmul_opencl_submit(&opencl->order, compute, event);
}

static cl_int begin_sums(const struct slab *s) {
    const struct mmul_matrix_sums *args = s->args;
    const cl_uint rows = (cl_uint)s->rows, cols = (cl_uint)args->cols, wanted = s->wanted;
    const cl_uint tiles = (cl_uint)s->tiles, index = (cl_uint)(s->row * args->cols);
    const cl_uint at[2] = {(cl_uint)(args->x.offset + s->row * args->x.ld), (cl_uint)args->x.ld};
    const struct argument arguments[] = {{sizeof rows, &rows},
                                         {sizeof cols, &cols},
                                         {sizeof(cl_mem), &args->x.buffer->memory},
                                         {sizeof at, at},
                                         {sizeof(cl_mem), vector_of(s, ALONG)},
                                         {sizeof(cl_mem), vector_of(s, ACROSS)},
                                         {sizeof wanted, &wanted},
                                         {sizeof tiles, &tiles},
                                         {sizeof index, &index},
                                         {sizeof(cl_mem), vector_of(s, ROW_PARTS)},
                                         {sizeof(cl_mem), vector_of(s, COL_PARTS)},
                                         {sizeof(cl_mem), vector_of(s, BIT_PARTS)}};
    return enqueue_kernel(
        s->opencl, s->opencl->projects.project, arguments, sizeof arguments / sizeof *arguments,
        (const size_t[]){(size_t)s->strips, (size_t)s->blocks}, &args->x.buffer->use);
}

static cl_int begin_adding(const struct slab *s, int64_t parts, int64_t count, enum vector from,
                           enum vector to) {
    const cl_uint how_many = (cl_uint)parts, numbers = (cl_uint)count;
    const struct argument arguments[] = {{sizeof how_many, &how_many},
                                         {sizeof numbers, &numbers},
                                         {sizeof(cl_mem), vector_of(s, from)},
                                         {sizeof(cl_mem), vector_of(s, to)}};
    return enqueue_kernel(s->opencl, s->opencl->projects.add, arguments, 4,
                          (const size_t[]){(size_t)mmul_divide_up(count, SIDE), 1}, NULL);
}

static cl_int read_back(const struct slab *s, enum vector from, size_t bytes, void *to) {
    return clEnqueueReadBuffer(s->opencl->order.queues[MMUL_QUEUE_COMPUTE], *vector_of(s, from),
                               CL_TRUE, 0, bytes, to, 0, NULL, NULL);
}

// ----------------------------------------------------------------------------------------- results

// Adds `count` sums, and the `count` squares that follow them, to the wanted outputs.
static cl_int read_vector(const struct slab *s, enum vector from, int64_t count, double *sums,
                          double *squares, union number *room) {
    const bool pairs = s->opencl->projects.pairs;
    if (sums == NULL && squares == NULL)
        return CL_SUCCESS;
    cl_int code = read_back(s, from, 2 * (size_t)count * sizeof *room, room);
    for (int64_t i = 0; code == CL_SUCCESS && i < count; i++) {
        if (sums != NULL)
            sums[i] += number_at(room, i, pairs);
        if (squares != NULL)
            squares[i] += number_at(room, count + i, pairs);
    }
    return code;
}

static cl_int read_bits(const struct slab *s, union number *room) {
    const int64_t count = s->strips * s->blocks;
    cl_uint *parts = (cl_uint *)room;
    if (s->args->bits == NULL)
        return CL_SUCCESS;
    cl_int code = read_back(s, BIT_PARTS, (size_t)count * sizeof *parts, parts);
    for (int64_t i = 0; code == CL_SUCCESS && i < count; i++)
        *s->args->bits += parts[i];
    return code;
}

static cl_int sum_slab(const struct slab *s, union number *room) {
    const struct mmul_matrix_sums *args = s->args;
    double *row_sums = args->row_sums != NULL ? args->row_sums + s->row : NULL;
    double *row_squares = args->row_squares != NULL ? args->row_squares + s->row : NULL;
    cl_int code = begin_sums(s);
    if (code == CL_SUCCESS && (s->wanted & (ROW_SUMS | ROW_SQUARES)) != 0)
        code = begin_adding(s, s->strips, 2 * s->rows, ROW_PARTS, ROW_RESULTS);
    if (code == CL_SUCCESS && (s->wanted & (COL_SUMS | COL_SQUARES)) != 0)
        code = begin_adding(s, s->blocks, 2 * args->cols, COL_PARTS, COL_RESULTS);
    if (code == CL_SUCCESS)
        code = read_vector(s, ROW_RESULTS, s->rows, row_sums, row_squares, room);
    if (code == CL_SUCCESS)
        code = read_vector(s, COL_RESULTS, args->cols, args->col_sums, args->col_squares, room);
    return code == CL_SUCCESS ? read_bits(s, room) : code;
}

enum mmul_status mmul_opencl_sum_matrix(void *self, const struct mmul_matrix_sums *args,
                                        struct mmul_error *err) {
    enum { AT_ONCE = 1 << 27 }; // elements: partial sums of columns then take 32 MiB
    struct mmul_opencl *opencl = self;
    const int64_t rows_most =
        mmul_min(args->rows, mmul_divide_up(mmul_max(AT_ONCE / args->cols, 1), SIDE) * SIDE);
    union number *room = NULL;
    const int64_t count =
        mmul_max(2 * mmul_max(rows_most, args->cols),
                 mmul_divide_up(rows_most, SIDE) * mmul_divide_up(args->cols, SIDE));
    enum mmul_status status = prepare_kernels(opencl, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_RAW(room, count, "sums", err);
    mmul_matrix_sums_clear(args);
    for (int64_t row = 0; status == MMUL_OK && row < args->rows; row += rows_most) {
        const struct slab s = make_slab(opencl, args, row, mmul_min(rows_most, args->rows - row));
        status = slab_init(&s, room, err);
        cl_int code = status == MMUL_OK ? sum_slab(&s, room) : CL_SUCCESS;
        if (code != CL_SUCCESS)
            status = mmul_opencl_fail(err, code, "cannot sum %lld x %lld on '%s'",
                                      (long long)args->rows, (long long)args->cols, opencl->label);
    }
    mmul_free(room);
    return status;
}
