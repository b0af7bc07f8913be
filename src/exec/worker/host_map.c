// SPDX-License-Identifier: MIT
// A device that works in host memory borrows operands in place. To a device with memory of its own,
// operands are uploaded unless cached, and results stay cached for the next product or operation.
// An operand that is cached in parts, such as tiles of a product, is assembled on the device.
// Results are downloaded all the same, for the check and for a successor.
#include "exec/worker/host_map.h"

#include <math.h>

#include "base/integer.h"
#include "base/status.h"
#include "model/dtype.h"
#include "plan/program/program_footprint.h"

// ------------------------------------------------------------------------------------------- parts

static enum mmul_operation_class class_of(const struct mmul_host_map *host) {
    return mmul_operation_row(host->map.kind)->class;
}

struct mmul_host_map mmul_host_map_part(const struct mmul_host_map *host, int64_t row, int64_t rows,
                                        int64_t col, int64_t cols) {
    struct mmul_host_map part = *host;
    part.map.rows = rows;
    part.map.cols = cols;
    part.map.row += row;
    part.map.col += col;
    part.result = mmul_dtype_advance(host->dtype, part.result, row * host->ld + col);
    for (int i = 0; i < part.map.operand_count; i++) {
        struct mmul_host_operand *o = &part.operands[i];
        const struct mmul_map_part of =
            mmul_map_operand_part(&host->map, i, (struct mmul_map_part){row, rows, col, cols});
        if (o->at != NULL)
            o->at =
                mmul_dtype_advance(o->dtype, o->at, of.row * o->row_step + of.col * o->col_step);
        o->rows = of.rows < 0 ? o->rows : of.rows;
        o->cols = of.cols < 0 ? o->cols : of.cols;
    }
    return part;
}

struct mmul_host_map mmul_host_map_matrix(const struct mmul_host_map *host, int64_t t) {
    struct mmul_host_map one = *host;
    for (int i = 0; i < one.map.operand_count; i++) {
        struct mmul_host_operand *o = &one.operands[i];
        if (o->at != NULL)
            o->at = mmul_dtype_advance(o->dtype, o->at, mmul_stack_offset(&host->map, o->stack, t));
    }
    one.result = mmul_dtype_advance(host->dtype, one.result, t * host->map.result_step);
    one.map.matrix += t;
    one.map.matrices = 1;
    return one;
}

// Returns the work for one matrix.
static double work_each(const struct mmul_host_map *host) {
    const struct mmul_host_operand *o = host->operands;
    const enum mmul_operation_kind kind = host->map.kind;
    const double rows = (double)host->map.rows, cols = (double)host->map.cols;
    const double each = kind == MMUL_TOPK                           ? (double)host->map.with->count
                        : kind == MMUL_SORT || kind == MMUL_ARGSORT ? log2((double)o[0].cols) + 2
                                                                    : 2;
    switch (class_of(host)) {
    case MMUL_CLASS_ATTENTION:
        return rows * (double)o[mmul_operation_row(host->map.kind)->parts[0] == 'r'].rows *
               ((double)o[0].cols + (double)o[2].cols);
    case MMUL_CLASS_REDUCE:
        return (double)o[0].rows * (double)o[0].cols;
    case MMUL_CLASS_ROWS:
        return rows * (double)o[0].cols * each;
    default:
        return rows * cols * (1 + host->map.operand_count);
    }
}

double mmul_host_map_work(const struct mmul_host_map *host) {
    return work_each(host) * (double)host->map.matrices;
}

// ------------------------------------------------------------------------------------------ stacks

// Returns true if row i of the result depends on rows i of the operands only, and not on i itself.
static bool is_by_rows(const struct mmul_host_map *host) {
    const struct mmul_map *map = &host->map;
    switch (class_of(host)) {
    case MMUL_CLASS_ROWS:
        return map->kind != MMUL_ROPE && (map->kind != MMUL_SOFTMAX || !map->with->causal);
    case MMUL_CLASS_REDUCE:
        return !mmul_map_reduces_columns(&host->map);
    case MMUL_CLASS_ATTENTION:
        return false;
    default:
        return true;
    }
}

// Returns true if consecutive matrices of an operand are `each` elements apart.
static bool has_stack_step(const struct mmul_host_map *host, int i, int64_t each) {
    for (int64_t t = 1; t < host->map.matrices; t++)
        if (mmul_stack_offset(&host->map, host->operands[i].stack, t) != t * each)
            return false;
    return true;
}

// Turns the rows of all matrices into rows of one. Returns false if their memory layout does not
// allow it. A lookup has its indices in a row.
static bool flatten_operand(const struct mmul_host_map *host, int i, struct mmul_host_operand *o) {
    const enum mmul_operation_class class = class_of(host);
    const int64_t matrices = host->map.matrices;
    if (o->at == NULL)
        o->rows *= matrices;
    if (o->at == NULL ||
        (class == MMUL_CLASS_ROWS && i >= mmul_operation_row(host->map.kind)->by_row) ||
        (class == MMUL_CLASS_LOOKUP && i == 0))
        return o->at == NULL || has_stack_step(host, i, 0);
    int64_t *step = class == MMUL_CLASS_LOOKUP ? &o->col_step : &o->row_step;
    int64_t *count = class == MMUL_CLASS_LOOKUP ? &o->cols : &o->rows;
    if (*count == 1)
        *step = mmul_stack_offset(&host->map, o->stack, 1);
    const bool is_flat = *step >= 0 && has_stack_step(host, i, *count * *step);
    *count *= matrices;
    o->stack = (struct mmul_stack){0, 0, 1};
    return is_flat;
}

struct mmul_host_map mmul_host_map_flatten(const struct mmul_host_map *host) {
    struct mmul_host_map flat = *host;
    struct mmul_map *map = &flat.map;
    const int64_t matrices = map->matrices;
    if (matrices == 1 || !is_by_rows(host))
        return *host;
    if (map->rows == 1)
        flat.ld = map->result_step;
    if (map->result_step != map->rows * flat.ld)
        return *host;
    for (int i = 0; i < map->operand_count; i++)
        if (!flatten_operand(host, i, &flat.operands[i]))
            return *host;
    map->rows *= matrices;
    map->shape = (struct mmul_shape){1, 1, map->rows, map->shape.cols};
    map->row = map->matrix = 0;
    map->matrices = 1;
    return flat;
}

// ---------------------------------------------------------------------------------- in host memory

// Borrows the memory that an operand spans. The first matrix need not have the lowest address.
static enum mmul_status borrow_operand(struct mmul_device *device, const struct mmul_map *map,
                                       const struct mmul_host_operand *from,
                                       struct mmul_map_operand *to, struct mmul_error *err) {
    int64_t least = 0, most = 0;
    for (int64_t t = 1; t < map->matrices; t++) {
        least = mmul_min(least, mmul_stack_offset(map, from->stack, t));
        most = mmul_max(most, mmul_stack_offset(map, from->stack, t));
    }
    // A slice may have negative steps.
    const int64_t down = (from->rows - 1) * from->row_step,
                  along = (from->cols - 1) * from->col_step;
    least += mmul_min(down, 0) + mmul_min(along, 0);
    most += mmul_max(down, 0) + mmul_max(along, 0);
    *to = (struct mmul_map_operand){.number = from->number,
                                    .offset = -least,
                                    .row_step = from->row_step,
                                    .col_step = from->col_step,
                                    .rows = from->rows,
                                    .cols = from->cols,
                                    .stack = from->stack};
    if (from->at == NULL)
        return MMUL_OK;
    return mmul_device_buffer_borrow(device, from->dtype,
                                     mmul_dtype_advance(from->dtype, from->at, least),
                                     most - least + 1, &to->buffer, err);
}

// Borrows all operands and the result. The caller must give them back, also after a failure.
static enum mmul_status borrow_all(struct mmul_device *device, const struct mmul_host_map *host,
                                   struct mmul_map *map, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    *map = host->map;
    map->result = (struct mmul_operand){NULL, 0, host->ld};
    map->carried = NULL;
    for (int i = 0; i < map->operand_count; i++)
        map->operands[i].buffer = NULL;
    for (int i = 0; status == MMUL_OK && i < map->operand_count; i++)
        status = borrow_operand(device, &host->map, &host->operands[i], &map->operands[i], err);
    if (status == MMUL_OK)
        status = mmul_device_buffer_borrow(device, host->dtype, host->result,
                                           (map->matrices - 1) * map->result_step +
                                               (map->rows - 1) * host->ld + map->cols,
                                           &map->result.buffer, err);
    return status;
}

static void give_back(struct mmul_device *device, const struct mmul_map *map) {
    for (int i = 0; i < map->operand_count; i++)
        mmul_device_buffer_destroy(device, map->operands[i].buffer);
    mmul_device_buffer_destroy(device, map->result.buffer);
}

enum mmul_status mmul_host_map_make(const struct mmul_host_map *host, struct mmul_device *device,
                                    struct mmul_error *err) {
    struct mmul_map map;
    enum mmul_status status = borrow_all(device, host, &map, err);
    if (status == MMUL_OK)
        status = mmul_device_map(device, &map, err);
    give_back(device, &map);
    return status;
}

enum mmul_status mmul_host_map_make_together(const struct mmul_host_map *hosts, int count,
                                             struct mmul_device *device, struct mmul_error *err) {
    struct mmul_map maps[MMUL_FUSED_MAPS_MAX];
    enum mmul_status status = MMUL_OK;
    int borrowed = 0;
    do {
        status = borrow_all(device, &hosts[borrowed], &maps[borrowed], err);
        borrowed++;
    } while (status == MMUL_OK && borrowed < count);
    if (status == MMUL_OK)
        status = mmul_device_map_fused(device, maps, count, err);
    for (int i = 0; i < borrowed; i++)
        give_back(device, &maps[i]);
    return status;
}

// ------------------------------------------------------------------------------------------- tiles

// The memory of an operand, row by row; `is_transposed`: rows of the operand are columns in memory.
struct stored {
    struct mmul_host_tile tile;
    int64_t pitch; // distance between matrices
    bool is_transposed;
};

// Describes the memory of one matrix. Returns false if neither its rows nor its columns are
// contiguous.
static bool find_stored_matrix(const struct mmul_host_operand *o, struct stored *stored) {
    const int64_t rows = o->row_step == 0 ? 1 : o->rows, cols = o->col_step == 0 ? 1 : o->cols;
    const bool plain = o->col_step == 1 || cols == 1, is_transposed = o->row_step == 1 || rows == 1;
    if (plain && (rows == 1 || o->row_step >= cols))
        *stored =
            (struct stored){.tile = {o->at, rows, cols, mmul_max(o->row_step, cols), o->dtype}};
    else if (is_transposed && (cols == 1 || o->col_step >= rows))
        *stored =
            (struct stored){.tile = {o->at, cols, rows, mmul_max(o->col_step, rows), o->dtype},
                            .is_transposed = true};
    else
        return false;
    stored->pitch = stored->tile.rows * stored->tile.ld;
    return true;
}

// Describes the memory of all matrices, one below the other. Returns false if their layout differs,
// or the first matrix is not the first in memory.
static bool find_stored(const struct mmul_host_map *host, int operand, struct stored *stored) {
    const struct mmul_host_operand *o = &host->operands[operand];
    int64_t count = 1;
    if (!find_stored_matrix(o, stored))
        return false;
    const int64_t next = mmul_stack_offset(&host->map, o->stack, host->map.matrices > 1);
    if (stored->tile.rows == 1 && next >= stored->tile.cols)
        stored->pitch = stored->tile.ld = next;
    for (int64_t t = 1; t < host->map.matrices; t++) {
        const int64_t offset = mmul_stack_offset(&host->map, o->stack, t);
        if (offset < 0 || offset % stored->pitch != 0)
            return false;
        count = mmul_max(count, offset / stored->pitch + 1);
    }
    stored->tile.rows *= count;
    return count <= host->map.matrices;
}

// Copies from one buffer on the device to another.
static enum mmul_status copy_on_device(struct mmul_device *device, struct mmul_operand from,
                                       struct mmul_operand to, int64_t rows, int64_t cols,
                                       struct mmul_error *err) {
    static const struct mmul_parameters none;
    const struct mmul_map copy = {.kind = MMUL_SLICE,
                                  .with = &none,
                                  .rows = rows,
                                  .cols = cols,
                                  .shape = {1, 1, rows, cols},
                                  .matrices = 1,
                                  .operands = {{.buffer = from.buffer,
                                                .offset = from.offset,
                                                .row_step = from.ld,
                                                .col_step = 1,
                                                .rows = rows,
                                                .cols = cols}},
                                  .operand_count = 1,
                                  .result = to};
    return mmul_device_map(device, &copy, err);
}

// Copies or uploads a part of a tile into the assembled tile.
static enum mmul_status load_part(struct mmul_worker *worker, const struct mmul_host_tile *part,
                                  struct mmul_operand to, struct mmul_error *err) {
    struct mmul_device *device = worker->context->device;
    int64_t offset = 0;
    const struct mmul_cached_tile *entry = mmul_tile_cache_find_entry(&worker->kept, part, &offset);
    if (entry !=
        NULL) // does not pin the source after the copy: there may be as many parts as entries
        return copy_on_device(device,
                              (struct mmul_operand){entry->buffer, offset, entry->holds.cols}, to,
                              part->rows, part->cols, err);
    worker->kept.uploads++;
    return mmul_device_upload(
        device, &(struct mmul_upload){to, part->rows, part->cols, part->at, part->ld, part->dtype},
        err);
}

// Assembles a tile that is cached in parts: copies these on the device, and uploads the rest.
static enum mmul_status assemble(struct mmul_worker *worker, const struct mmul_host_tile *tile,
                                 struct mmul_operand *operand, struct mmul_error *err) {
    struct mmul_tile_cache *kept = &worker->kept;
    struct mmul_cached_tile *entry = NULL;
    enum mmul_status status = mmul_tile_cache_reserve_result(
        kept, worker->context->device, tile->dtype, tile->rows * tile->cols, &entry, err);
    if (status != MMUL_OK)
        return status;
    *operand = (struct mmul_operand){entry->buffer, 0, tile->cols};
    for (int64_t row = 0, row_end; status == MMUL_OK && row < tile->rows; row = row_end) {
        row_end = mmul_tile_cache_find_boundary(kept, tile, true, row, tile->rows);
        for (int64_t col = 0, col_end; status == MMUL_OK && col < tile->cols; col = col_end) {
            col_end = mmul_tile_cache_find_boundary(kept, tile, false, col, tile->cols);
            const struct mmul_host_tile part = {(const float *)tile->at + row * tile->ld + col,
                                                row_end - row, col_end - col, tile->ld, MMUL_F32};
            const struct mmul_operand to = {entry->buffer, row * tile->cols + col, tile->cols};
            status = load_part(worker, &part, to, err);
        }
    }
    mmul_tile_cache_return_result(entry, status == MMUL_OK ? tile : NULL);
    return status;
}

static enum mmul_status load_operand(struct mmul_worker *worker, const struct mmul_host_map *host,
                                     int operand, struct mmul_map_operand *to,
                                     struct mmul_error *err) {
    const struct mmul_host_operand *from = &host->operands[operand];
    struct mmul_tile_cache *kept = &worker->kept;
    struct mmul_operand at = {0};
    struct stored s;
    *to = (struct mmul_map_operand){.number = from->number, .rows = from->rows, .cols = from->cols};
    if (from->at == NULL)
        return MMUL_OK;
    (void)find_stored(host, operand, &s); // cannot fail: the caller has checked the layout
    const int64_t uploads = kept->uploads;
    const double begin = mmul_trace_now(worker->options.trace);
    const bool in_parts =
        mmul_tile_cache_find_boundary(kept, &s.tile, true, 0, s.tile.rows) < s.tile.rows ||
        mmul_tile_cache_find_boundary(kept, &s.tile, false, 0, s.tile.cols) < s.tile.cols;
    enum mmul_status status =
        in_parts && !mmul_tile_cache_find(kept, &s.tile, &at)
            ? assemble(worker, &s.tile, &at, err)
            : mmul_tile_cache_load(kept, worker->context->device, &s.tile, &at, err);
    if (kept->uploads > uploads)
        mmul_trace_add(worker->options.trace, MMUL_TRACE_UPLOAD, begin,
                       s.tile.rows * s.tile.cols * (int64_t)sizeof(float), 0);
    to->buffer = at.buffer;
    to->offset = at.offset;
    to->row_step = from->row_step == 0 ? 0 : s.is_transposed ? 1 : at.ld;
    to->col_step = from->col_step == 0 ? 0 : s.is_transposed ? at.ld : 1;
    const int64_t pitch = s.pitch / s.tile.ld * at.ld;
    to->stack = (struct mmul_stack){from->stack.batch_step / s.pitch * pitch,
                                    from->stack.depth_step / s.pitch * pitch, from->stack.shared};
    return status;
}

// ------------------------------------------------------------------------------------- on a device

// Returns true if an operand exists on the device only.
static bool reads_absent(struct mmul_worker *worker, const struct mmul_host_map *host) {
    struct stored s;
    bool reads = false;
    for (int i = 0; i < host->map.operand_count; i++)
        reads |= host->operands[i].at != NULL && find_stored(host, i, &s) &&
                 mmul_worker_is_absent(worker, &s.tile);
    return reads;
}

// Returns true if the block fits into the device's memory beside the absent results, and each
// operand into one allocation.
static bool fits_device_memory(struct mmul_worker *worker, const struct mmul_host_map *host) {
    struct mmul_device_info info;
    mmul_device_describe(worker->context->device, &info);
    int64_t single = INT32_MAX, largest = host->map.matrices * host->map.rows * host->map.cols;
    int64_t all = largest;
    for (int i = 0; i < MMUL_ABSENT_RESULTS && worker->absent[i] != NULL; i++)
        all += worker->absent[i]->capacity;
    if (info.max_allocation_bytes > 0)
        single = mmul_min(single, info.max_allocation_bytes / (int64_t)sizeof(float));
    for (int i = 0; i < host->map.operand_count; i++) {
        struct stored s;
        if (host->operands[i].at == NULL || !find_stored(host, i, &s) ||
            mmul_worker_is_absent(worker, &s.tile))
            continue;
        all += s.tile.rows * s.tile.cols;
        largest = mmul_max(largest, s.tile.rows * s.tile.cols);
    }
    return largest <= single && all * (int64_t)sizeof(float) <= worker->kept.max_bytes;
}

// Returns true if an operand or the result is of float64: such blocks are made in host memory.
static bool has_doubles(const struct mmul_host_map *host) {
    bool has = host->dtype == MMUL_F64;
    for (int i = 0; i < host->map.operand_count; i++)
        has |= host->operands[i].at != NULL && host->operands[i].dtype == MMUL_F64;
    return has;
}

// Returns true if a stack of matrices need not be split: the device takes all of it, or none.
static bool needs_no_split(struct mmul_worker *worker, const struct mmul_host_map *host) {
    const struct mmul_map *map = &host->map;
    struct stored s;
    if (map->matrices == 1 || has_doubles(host) || worker->kept.max_bytes == 0 ||
        !mmul_device_can_map(worker->context->device))
        return true;
    for (int i = 0; i < map->operand_count; i++)
        if (host->operands[i].at != NULL && !find_stored(host, i, &s))
            return false;
    return map->result_step == map->rows * host->ld && fits_device_memory(worker, host);
}

// Returns the number of rows per chunk that fit into the device's memory. 0: the CPU makes the
// block, or not even one row fits. The CPU also makes lookups in a table that is not cached, copies
// of a few elements, and blocks with operands scattered in host memory.
static int64_t rows_for_device(struct mmul_worker *worker, const struct mmul_host_map *host) {
    enum { COPIED_LEAST = 1024 };
    const enum mmul_operation_class class = mmul_operation_row(host->map.kind)->class;
    struct mmul_operand at;
    struct stored s;
    if (worker->kept.max_bytes == 0 || !mmul_device_can_map(worker->context->device) ||
        has_doubles(host))
        return 0;
    for (int i = 0; i < host->map.operand_count; i++)
        if (host->operands[i].at != NULL && !find_stored(host, i, &s))
            return 0;
    if (class == MMUL_CLASS_LOOKUP &&
        (!find_stored(host, 0, &s) || !mmul_tile_cache_find(&worker->kept, &s.tile, &at)))
        return 0;
    if (class == MMUL_CLASS_COPY && host->map.rows * host->map.cols < COPIED_LEAST)
        return 0;
    for (int64_t rows = host->map.rows;; rows = (rows + 1) / 2) {
        const struct mmul_host_map part = mmul_host_map_part(host, 0, rows, 0, host->map.cols);
        if (fits_device_memory(worker, &part))
            return rows;
        if (rows == 1)
            return 0;
    }
}

// Makes a chunk, and compares the sum of the bits that the kernel has written with that of those
// that arrive. Reductions carry no such sum. The device adds up the bits of those too large to be
// checked whole, before the download.
static enum mmul_status make_chunk(struct mmul_worker *worker, const struct mmul_host_map *host,
                                   struct mmul_error *err) {
    struct mmul_device *device = worker->context->device;
    struct mmul_cached_tile *entry = NULL;
    struct mmul_map map = host->map;
    uint32_t carried = 0;
    const bool has_sum = mmul_map_supports_checksum(map.kind);
    const bool carries =
        map.carried != NULL &&
        (has_sum || (!host->may_stay_on_device && mmul_host_map_work(host) > MMUL_SAMPLE_WORK));
    enum mmul_status status = MMUL_OK;
    map.carried = carries && has_sum ? &carried : NULL;
    mmul_tile_cache_pin(&worker->kept);
    for (int i = 0; status == MMUL_OK && i < map.operand_count; i++)
        status = load_operand(worker, host, i, &map.operands[i], err);
    const int64_t rows = map.matrices * map.rows; // rows of all matrices, one below the other
    if (status == MMUL_OK)
        status = mmul_tile_cache_reserve_result(&worker->kept, device, MMUL_F32, rows * map.cols,
                                                &entry, err);
    if (status != MMUL_OK)
        return status;
    map.result = (struct mmul_operand){entry->buffer, 0, map.cols};
    map.result_step = map.rows * map.cols;
    status = mmul_device_map(device, &map, err);
    const struct mmul_host_tile made = {host->result, rows, map.cols, host->ld, MMUL_F32};
    uint32_t arrived = 0;
    if (status == MMUL_OK && carries && !has_sum)
        status = mmul_worker_sum_device_bits(worker, map.result, &made, &carried, err);
    if (status == MMUL_OK && !host->may_stay_on_device)
        status = mmul_worker_download(worker, map.result, &made, err);
    if (status == MMUL_OK && carries && host->may_stay_on_device)
        status = mmul_worker_sum_device_bits(worker, map.result, &made, &arrived, err);
    else if (status == MMUL_OK && carries)
        arrived = mmul_worker_sum_host_bits(&made);
    const bool is_same = status == MMUL_OK && carries && arrived == carried;
    if (status == MMUL_OK && carries)
        worker->download_errors += !is_same;
    if (status == MMUL_OK && host->may_stay_on_device)
        mmul_worker_mark_absent(worker, entry, &made);
    else
        mmul_tile_cache_return_result(entry, status == MMUL_OK ? &made : NULL);
    entry->is_sound = is_same;
    entry->bits = carried;
    entry->asked = is_same;
    return status;
}

static enum mmul_status make_on_device(struct mmul_worker *worker, const struct mmul_host_map *host,
                                       int64_t rows_each, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int64_t row = 0; status == MMUL_OK && row < host->map.rows; row += rows_each) {
        const int64_t rows = mmul_min(rows_each, host->map.rows - row);
        struct mmul_host_map chunk = mmul_host_map_part(host, row, rows, 0, host->map.cols);
        chunk.may_stay_on_device &= rows == host->map.rows;
        status = make_chunk(worker, &chunk, err);
    }
    return status;
}

static enum mmul_status make_on_host(struct mmul_worker *worker, const struct mmul_host_map *host,
                                     struct mmul_error *err) {
    enum mmul_status status =
        reads_absent(worker, host) ? mmul_worker_download_absent(worker, err) : MMUL_OK;
    if (status == MMUL_OK && worker->host == NULL)
        status = mmul_device_open("cpu", &worker->host, err);
    return status == MMUL_OK ? mmul_host_map_make(host, worker->host, err) : status;
}

static enum mmul_status make_matrices(struct mmul_worker *worker, const struct mmul_host_map *host,
                                      struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int64_t t = 0; status == MMUL_OK && t < host->map.matrices; t++) {
        const struct mmul_host_map one = mmul_host_map_matrix(host, t);
        status = mmul_worker_map(worker, &one, err);
    }
    return status;
}

enum mmul_status mmul_worker_map(struct mmul_worker *worker, const struct mmul_host_map *host,
                                 struct mmul_error *err) {
    const struct mmul_host_map flat = mmul_host_map_flatten(host);
    for (;;) {
        const bool in_place =
            mmul_worker_uses_in_place(worker, MMUL_F32) &&
            (!has_doubles(&flat) || mmul_device_has_dtype(worker->context->device, MMUL_F64));
        if (!in_place && !needs_no_split(worker, &flat))
            return make_matrices(worker, &flat, err);
        const int64_t rows = in_place ? 0 : rows_for_device(worker, &flat);
        if (!in_place && rows == 0)
            return make_on_host(worker, &flat, err);
        enum mmul_status status = in_place ? mmul_host_map_make(&flat, worker->context->device, err)
                                           : make_on_device(worker, &flat, rows, err);
        if (status == MMUL_OK)
            return MMUL_OK;
        worker->fallback_products++;
        status = mmul_worker_fall_back(worker, err);
        if (status == MMUL_OK)
            status = mmul_worker_check_lost_results(worker, err);
        if (status != MMUL_OK)
            return status;
    }
}
