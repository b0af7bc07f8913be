// SPDX-License-Identifier: MIT
// Operations except products on an OpenCL device: kernels/map*.cl, which all take the same
// arguments. Kernels are built on first use, file by file. Work runs asynchronously on the compute
// queue. One call computes one matrix of a block; sums of few long lines take two. The caller
// decides where an operation runs.
#include <math.h>
#include <stdio.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/map.h"
#include "device/opencl_device.h"
#include "device/opencl_error.h"
#include "device/opencl_program.h"
#include "kernels.h"

enum { GROUP = 64 }; // work-items of a group, in all kernels

// Kernels in addition to one per operation: copy_turned for a transposed operand, topk_many.
enum { TRANSPOSED_COPY = MMUL_OPENCL_MAP_KERNELS - 1, TOPK_MANY = MMUL_OPENCL_MAP_KERNELS - 2 };

// ----------------------------------------------------------------------------------------- kernels

static const char *const FILES[] = {mmul_kernel_map_elements, mmul_kernel_map_rows,
                                    mmul_kernel_map_reduce, mmul_kernel_map_attention};

// Kernels of attention, in the order of their operations. Each is a program of its own, because
// some devices reserve local memory for all kernels of a program.
enum { ATTENTION_FILE = 3 };
static const char *const KERNELS_OF_ATTENTION[] = {
    "#define ATTENTION\n",  "#define SUMS\n",       "#define BACKWARD_Q\n",
    "#define BACKWARD_K\n", "#define BACKWARD_V\n", "#define BACKWARD_MASK\n"};

static int find_file(const struct mmul_map *map) {
    switch (mmul_operation_row(map->kind)->class) {
    case MMUL_CLASS_ROWS:
        return 1;
    case MMUL_CLASS_REDUCE:
        return 2;
    case MMUL_CLASS_ATTENTION:
        return ATTENTION_FILE + (int)(map->kind - MMUL_ATTENTION);
    default:
        return 0;
    }
}

// Limit of k for map_topk, which reads a row once per element and once more. map_topk_many reads it
// once per digit until the last element is distinguished (five or six times for random values), and
// once to collect.
enum { TOPK_FEW = 4 };

// Returns the index of the operation's kernel and its name after "map_".
static int name_kernel(const struct mmul_map *map, const char **name) {
    const struct mmul_map_operand *x = &map->operands[0];
    const struct mmul_operation_row *row = mmul_operation_row(map->kind);
    bool is_turned = row->class == MMUL_CLASS_COPY && x->row_step > 0 && x->row_step < x->col_step;
    const bool are_many = map->kind == MMUL_TOPK && map->with->count > TOPK_FEW;
    *name = is_turned                       ? "copy_turned"
            : are_many                      ? "topk_many"
            : row->class == MMUL_CLASS_COPY ? "copy"
            : map->kind == MMUL_MEAN        ? "sum"
                                            : row->name;
    return is_turned ? TRANSPOSED_COPY : are_many ? TOPK_MANY : (int)map->kind;
}

static enum mmul_status find_kernel(struct mmul_opencl *opencl, const struct mmul_map *map,
                                    cl_kernel *kernel, struct mmul_error *err) {
    const char *name = NULL;
    char text[64];
    cl_kernel *place = &opencl->maps.kernels[name_kernel(map, &name)];
    const int file = find_file(map);
    cl_program *program = &opencl->maps.programs[file];
    const char *const texts[MMUL_OPENCL_TEXTS] = {
        file < ATTENTION_FILE ? "\n" : KERNELS_OF_ATTENTION[file - ATTENTION_FILE],
        mmul_kernel_mix_bits, mmul_kernel_map, FILES[mmul_min(file, ATTENTION_FILE)]};
    enum mmul_status status = MMUL_OK;
    if (*program == NULL)
        status = mmul_opencl_program_create(opencl->context, opencl->device, opencl->label, texts,
                                            program, err);
    snprintf(text, sizeof text, "map_%s", name);
    if (status == MMUL_OK && *place == NULL)
        status = mmul_opencl_kernel_create(*program, opencl->label, text, place, err);
    *kernel = *place;
    return status;
}

void mmul_opencl_map_kernels_fini(struct mmul_opencl_map_kernels *maps) {
    for (int i = 0; i < MMUL_OPENCL_MAP_KERNELS; i++)
        if (maps->kernels[i] != NULL)
            clReleaseKernel(maps->kernels[i]);
    for (int i = 0; i < MMUL_OPENCL_MAP_PROGRAMS; i++)
        if (maps->programs[i] != NULL)
            clReleaseProgram(maps->programs[i]);
    if (maps->carried != NULL)
        clReleaseMemObject(maps->carried);
}

// --------------------------------------------------------------------------------------- arguments

// An operand as kernels take it: offset, steps and a mark. Mark 1: a number. Mark 2: missing.
struct argument {
    cl_mem memory;
    cl_uint at[4];
    cl_float number;
};

// Arguments of one kernel launch. `uses` are those of the operands; NULL: no dependency.
struct launch {
    const struct mmul_map *all; // this launch computes its t-th matrix
    int64_t t;
    cl_kernel kernel;
    cl_uint rows, cols;
    struct argument operands[MMUL_OPERANDS];
    struct mmul_opencl_buffer_events *uses[MMUL_OPERANDS], *result_use;
    cl_mem result;
    cl_uint result_at[2];
    cl_int whole[4];
    cl_float real[4];
    size_t groups[2];
    cl_mem carried;
    cl_uint carrying[4]; // flag, first element, position in `carried`
};

static cl_int set_arguments(const struct launch *l) {
    cl_int code = clSetKernelArg(l->kernel, 0, sizeof l->rows, &l->rows);
    cl_uint n = 1;
    code = code == CL_SUCCESS ? clSetKernelArg(l->kernel, n++, sizeof l->cols, &l->cols) : code;
    for (int i = 0; code == CL_SUCCESS && i < MMUL_OPERANDS; i++) {
        const struct argument *o = &l->operands[i];
        // Some drivers require a buffer even where none is read.
        const cl_mem *memory = o->memory != NULL ? &o->memory : &l->result;
        code = clSetKernelArg(l->kernel, n++, sizeof *memory, memory);
        code = code == CL_SUCCESS ? clSetKernelArg(l->kernel, n++, sizeof o->at, o->at) : code;
        code = code == CL_SUCCESS ? clSetKernelArg(l->kernel, n++, sizeof o->number, &o->number)
                                  : code;
    }
    const struct {
        size_t bytes;
        const void *value;
    } rest[] = {{sizeof l->result, &l->result},
                {sizeof l->result_at, l->result_at},
                {sizeof l->whole, l->whole},
                {sizeof l->real, l->real},
                {sizeof l->carried, l->carried != NULL ? &l->carried : &l->result},
                {sizeof l->carrying, l->carrying}};
    for (int i = 0; code == CL_SUCCESS && i < 6; i++)
        code = clSetKernelArg(l->kernel, n++, rest[i].bytes, rest[i].value);
    return code;
}

// Allocates the checksums of all matrices' groups and sets the kernel's arguments for them.
static cl_int prepare_checksum(struct mmul_opencl *opencl, struct launch *l) {
    const struct mmul_map *map = l->all;
    struct mmul_opencl_map_kernels *maps = &opencl->maps;
    const int64_t groups = (int64_t)(l->groups[0] * l->groups[1]);
    const int64_t wanted = map->matrices * groups;
    cl_int code = CL_SUCCESS;
    if (map->carried == NULL)
        return CL_SUCCESS;
    if (maps->carried_room < wanted) {
        if (maps->carried != NULL)
            clReleaseMemObject(maps->carried);
        maps->carried_room = 0;
        maps->carried = clCreateBuffer(opencl->context, CL_MEM_READ_WRITE,
                                       (size_t)wanted * sizeof(cl_uint), NULL, &code);
    }
    if (code != CL_SUCCESS) {
        maps->carried = NULL;
        return code;
    }
    maps->carried_room = mmul_max(maps->carried_room, wanted);
    maps->carried_count = wanted;
    l->carried = maps->carried;
    l->carrying[0] = 1;
    l->carrying[1] = (cl_uint)(l->t * map->rows * map->cols);
    l->carrying[2] = (cl_uint)(l->t * groups);
    return CL_SUCCESS;
}

static cl_int enqueue_kernel(struct mmul_opencl *opencl, struct launch *l) {
    const enum mmul_opencl_queue compute = MMUL_QUEUE_COMPUTE;
    struct mmul_opencl_dependencies waits = {.count = 0};
    cl_event event = NULL;
    cl_int code = prepare_checksum(opencl, l);
    code = code == CL_SUCCESS ? set_arguments(l) : code;
    for (int i = 0; i < MMUL_OPERANDS; i++)
        if (l->uses[i] != NULL)
            mmul_opencl_add_read_dependencies(&waits, l->uses[i], compute);
    if (l->result_use != NULL)
        mmul_opencl_add_write_dependencies(&waits, l->result_use, compute);
    const size_t local[2] = {GROUP, 1}, global[2] = {l->groups[0] * GROUP, l->groups[1]};
    if (code == CL_SUCCESS)
        code =
            clEnqueueNDRangeKernel(opencl->order.queues[compute], l->kernel, 2, NULL, global, local,
                                   waits.count, mmul_opencl_dependency_list(&waits), &event);
    if (code != CL_SUCCESS)
        return code;
    for (int i = 0; i < MMUL_OPERANDS; i++)
        if (l->uses[i] != NULL)
            mmul_opencl_record_read(l->uses[i], compute, event);
    if (l->result_use != NULL)
        mmul_opencl_record_write(l->result_use, compute, event);
    return mmul_opencl_submit(&opencl->order, compute, event);
}

static enum mmul_status read_checksum(struct mmul_opencl *opencl, uint32_t *carried,
                                      struct mmul_error *err) {
    const struct mmul_opencl_map_kernels *maps = &opencl->maps;
    cl_uint *sums = NULL;
    enum mmul_status status = MMUL_ALLOCATE_RAW(sums, maps->carried_count, "sums", err);
    if (status != MMUL_OK)
        return status;
    const cl_int code =
        clEnqueueReadBuffer(opencl->order.queues[MMUL_QUEUE_COMPUTE], maps->carried, CL_TRUE, 0,
                            (size_t)maps->carried_count * sizeof *sums, sums, 0, NULL, NULL);
    *carried = 0;
    for (int64_t i = 0; code == CL_SUCCESS && i < maps->carried_count; i++)
        *carried += sums[i];
    mmul_free(sums);
    return code == CL_SUCCESS ? MMUL_OK
                              : mmul_opencl_fail(err, code, "cannot copy from '%s'", opencl->label);
}

static struct launch init_launch(const struct mmul_map *map) {
    struct launch l = {.rows = (cl_uint)map->rows,
                       .cols = (cl_uint)map->cols,
                       .result = map->result.buffer->memory,
                       .result_use = &map->result.buffer->use,
                       .result_at = {(cl_uint)map->result.offset, (cl_uint)map->result.ld},
                       .groups = {1, 1}};
    for (int i = 0; i < MMUL_OPERANDS; i++) {
        const struct mmul_map_operand *o = &map->operands[i];
        struct argument *a = &l.operands[i];
        a->at[3] = i >= map->operand_count ? 2 : o->buffer == NULL ? 1 : 0;
        if (a->at[3] == 1)
            a->number = o->number;
        if (a->at[3] != 0)
            continue;
        a->memory = o->buffer->memory;
        a->at[0] = (cl_uint)o->offset;
        a->at[1] = (cl_uint)o->row_step;
        a->at[2] = (cl_uint)o->col_step;
        l.uses[i] = &o->buffer->use;
    }
    return l;
}

static size_t groups_for(int64_t count, int64_t each) {
    return (size_t)mmul_divide_up(count, each);
}

// ------------------------------------------------------------------------------------- reductions

// Reduces along an axis. A few long lines are cut into slabs, so that a large device has enough
// groups. The slabs' sums go to a temporary buffer, and the same kernel adds them up.
static enum mmul_status launch_reduction(struct mmul_opencl *opencl, const struct mmul_map *map,
                                         struct launch *l, struct mmul_error *err, cl_int *code) {
    enum { GROUPS_ENOUGH = 1024, SLAB_LEAST = 1024, WIDE = 16 };
    const bool down = map->with->axis == -2;
    const struct mmul_map_operand *x = &map->operands[0];
    const int64_t outputs = down ? map->cols : map->rows, count = down ? x->rows : x->cols;
    const int64_t across = down ? x->col_step : x->row_step;
    const int64_t along = down ? x->row_step : x->col_step;
    const int64_t wide = across < along || count < GROUP ? WIDE : 1;
    const int64_t groups = mmul_divide_up(outputs, wide);
    const int64_t slabs =
        mmul_max(1, mmul_min(mmul_divide_up(GROUPS_ENOUGH, groups), count / (SLAB_LEAST)));
    const cl_float divisor = map->kind == MMUL_MEAN ? (cl_float)count : 1;
    const cl_uint result_at[] = {(cl_uint)map->result.offset, (cl_uint)(down ? 1 : map->result.ld)};
    l->rows = (cl_uint)outputs;
    l->cols = (cl_uint)count;
    l->operands[0].at[1] = (cl_uint)across;
    l->operands[0].at[2] = (cl_uint)along;
    l->whole[0] = (cl_int)wide;
    l->whole[1] = (cl_int)mmul_divide_up(count, slabs);
    l->real[0] = divisor;
    l->groups[0] = (size_t)groups;
    l->result_at[0] = result_at[0];
    l->result_at[1] = result_at[1];
    if (slabs == 1) {
        *code = enqueue_kernel(opencl, l);
        return MMUL_OK;
    }
    const int64_t parts = mmul_divide_up(count, l->whole[1]);
    cl_mem sums = NULL;
    enum mmul_status status =
        mmul_opencl_allocate(opencl, parts * outputs, sizeof(cl_float), "sums", &sums, err);
    if (status != MMUL_OK)
        return status;
    struct launch first = *l, second = *l;
    first.result = sums;
    first.result_use = NULL; // the queue is in order
    first.result_at[0] = 0;
    first.result_at[1] = 1;
    first.real[0] = 1;
    first.groups[1] = (size_t)parts;
    second.cols = (cl_uint)parts;
    second.operands[0] = (struct argument){.memory = sums, .at = {0, 1, (cl_uint)outputs, 0}};
    second.uses[0] = NULL;
    second.whole[0] = WIDE;
    second.whole[1] = (cl_int)parts;
    second.groups[0] = groups_for(outputs, WIDE);
    *code = enqueue_kernel(opencl, &first);
    if (*code == CL_SUCCESS)
        *code = enqueue_kernel(opencl, &second);
    clReleaseMemObject(sums); // OpenCL keeps it until both launches are done
    return MMUL_OK;
}

// -------------------------------------------------------------------------------------------- rope

// Makes the fraction of a circle by which one position rotates each pair: base^(-2 p / cols) / (2
// pi), without whole circles, in units of 2^-64.
static enum mmul_status upload_angles(struct mmul_opencl *opencl, const struct mmul_map *map,
                                      cl_mem *memory, struct mmul_error *err) {
    const int64_t pairs = map->cols / 2;
    cl_ulong *turns = NULL;
    enum mmul_status status = MMUL_ALLOCATE_RAW(turns, pairs, "positions", err);
    if (status != MMUL_OK)
        return status;
    for (int64_t p = 0; p < pairs; p++) {
        double turn = pow(map->with->base, -2.0 * (double)p / (double)map->cols) / (2 * acos(-1));
        turn = map->with->scale < 0 ? -turn : turn;
        turns[p] = (cl_ulong)ldexp(turn - floor(turn), 64);
    }
    cl_int code = CL_SUCCESS;
    *memory = clCreateBuffer(opencl->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                             (size_t)pairs * sizeof *turns, turns, &code);
    mmul_free(turns);
    return code == CL_SUCCESS
               ? MMUL_OK
               : mmul_opencl_fail(err, code, "cannot allocate positions on '%s'", opencl->label);
}

static enum mmul_status launch_rope(struct mmul_opencl *opencl, const struct mmul_map *map,
                                    struct launch *l, struct mmul_error *err, cl_int *code) {
    enum mmul_status status = upload_angles(opencl, map, &l->operands[3].memory, err);
    if (status != MMUL_OK)
        return status;
    l->whole[1] = (cl_int)map->row;
    l->whole[2] = map->with->interleaved;
    l->groups[0] = groups_for(map->rows * (map->cols / 2), GROUP);
    *code = enqueue_kernel(opencl, l);
    clReleaseMemObject(l->operands[3].memory);
    return MMUL_OK;
}

// ------------------------------------------------------------------------------------- all of them

// Returns the number of keys, or columns, that take part in the block's first row.
static cl_int first_count(const struct mmul_map *map, int64_t all) {
    return (cl_int)(map->row + 1 + all - map->shape.rows);
}

// Sets the parameters of kernels by rows.
static void describe_rows(const struct mmul_map *map, struct launch *l) {
    l->whole[0] = (cl_int)map->operands[0].cols;
    l->whole[1] = map->kind == MMUL_TOPK      ? (cl_int)map->with->count
                  : map->kind == MMUL_SOFTMAX ? map->with->causal
                                              : map->with->descending;
    l->whole[2] = first_count(map, map->operands[0].cols);
    l->whole[3] = (map->operand_count > 1 ? 1 : 0) | (map->operand_count > 2 ? 2 : 0);
    l->real[0] = (cl_float)map->with->epsilon;
}

// Sets the parameters of attention kernels. Rows of the result are queries that loop over keys, or
// the reverse. In gradients that are not causal all of them take part.
static void describe_attention(const struct mmul_map *map, struct launch *l) {
    const bool by_key = mmul_operation_row(map->kind)->parts[0] == 'a';
    const int64_t others = map->operands[by_key ? 0 : 1].rows;
    l->whole[0] = (cl_int)map->operands[0].cols;
    l->whole[1] = map->kind == MMUL_ATTENTION ? map->with->causal : (cl_int)map->operands[2].cols;
    l->whole[2] = by_key ? (cl_int)(map->row - map->shape.rows + others) : first_count(map, others);
    if (!map->with->causal && map->kind != MMUL_ATTENTION)
        l->whole[2] = (cl_int)(by_key ? -map->rows : others);
    l->whole[3] = (cl_int)others;
    l->real[0] = (cl_float)map->with->scale;
}

// Sums rows with equal index.
static cl_int launch_sum_at(struct mmul_opencl *opencl, const struct mmul_map *map,
                            struct launch *l) {
    l->whole[0] = (cl_int)map->row;
    l->whole[1] = (cl_int)map->operands[0].rows;
    l->groups[0] = groups_for(map->cols, GROUP);
    return enqueue_kernel(opencl, l);
}

static enum mmul_status launch_operation(struct mmul_opencl *opencl, const struct mmul_map *map,
                                         struct launch *l, struct mmul_error *err, cl_int *code) {
    enum { TILE = 16, QUERIES = 16, DEPTH = 64 }; // as in map_elements.cl and map_attention.cl
    const enum mmul_operation_class class = mmul_operation_row(map->kind)->class;
    if (map->kind == MMUL_SUM_AT) {
        *code = launch_sum_at(opencl, map, l);
        return MMUL_OK;
    }
    if (class == MMUL_CLASS_REDUCE)
        return launch_reduction(opencl, map, l, err, code);
    if (map->kind == MMUL_ROPE)
        return launch_rope(opencl, map, l, err, code);
    l->groups[0] = groups_for(map->rows * map->cols, GROUP);
    if (l->kernel == opencl->maps.kernels[TRANSPOSED_COPY]) {
        l->groups[0] = groups_for(map->cols, TILE);
        l->groups[1] = groups_for(map->rows, TILE);
    }
    if (class == MMUL_CLASS_ROWS) {
        describe_rows(map, l);
        l->groups[0] = (size_t)map->rows;
    }
    if (class == MMUL_CLASS_ATTENTION) {
        describe_attention(map, l);
        l->groups[0] = groups_for(map->rows, QUERIES);
        l->groups[1] = groups_for(map->cols, DEPTH);
    }
    *code = enqueue_kernel(opencl, l);
    return MMUL_OK;
}

static enum mmul_status make_matrix(struct mmul_opencl *opencl, const struct mmul_map *all,
                                    int64_t t, struct mmul_error *err) {
    const struct mmul_map one = mmul_map_matrix(all, t), *map = &one;
    struct launch l = init_launch(map);
    l.all = all;
    l.t = t;
    cl_int code = CL_SUCCESS;
    enum mmul_status status = find_kernel(opencl, map, &l.kernel, err);
    if (status == MMUL_OK)
        status = launch_operation(opencl, map, &l, err, &code);
    if (status == MMUL_OK && code != CL_SUCCESS)
        return mmul_opencl_fail(err, code, "cannot compute %s of %lld x %lld on '%s'",
                                mmul_operation_row(map->kind)->name, (long long)map->rows,
                                (long long)map->cols, opencl->label);
    return status;
}

enum mmul_status mmul_opencl_map(void *self, const struct mmul_map *map, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int64_t t = 0; status == MMUL_OK && t < map->matrices; t++)
        status = make_matrix(self, map, t, err);
    return status == MMUL_OK && map->carried != NULL ? read_checksum(self, map->carried, err)
                                                     : status;
}
