// SPDX-License-Identifier: MIT
// Walks a rank's blocks and takes the largest need of its steps. Allocates no work space.
#include "plan/program/program_footprint.h"

#include "base/integer.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/check.h"
#include "model/dtype.h"
#include "model/matrix.h"
#include "plan/parts/panels.h"

static int64_t bytes_each(const struct mmul_program_plan *plan,
                          const struct mmul_program_step *step) {
    return (int64_t)mmul_dtype_bytes(mmul_place_value(plan, step->result)->dtype);
}

// -------------------------------------------------------------------------------------- beforehand

static enum mmul_status count_products(struct mmul_program_plan *plan, struct mmul_error *err) {
    enum mmul_status status = MMUL_ALLOCATE(plan->multiplied, plan->place_count, "a plan", err);
    for (int i = 0; status == MMUL_OK && i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        if (step->kind == MMUL_STEP_MOVE || mmul_step_operation(plan, step)->kind != MMUL_MATMUL)
            continue;
        for (int f = 0; f < MMUL_FACTORS; f++)
            if (step->operands[f] >= 0)
                plan->shared_operand_count +=
                    ++plan->multiplied[mmul_program_base_place(plan, step->operands[f])] == 2;
    }
    return status;
}

enum mmul_status mmul_program_footprint_prepare(struct mmul_program_plan *plan,
                                                const struct mmul_cluster *cluster,
                                                struct mmul_error *err) {
    // In host memory all tiles of a step's fused operations fit the second-level caches of the
    // rank's cores. On a CPU each core takes its own tiles through all of them. A device with its
    // own memory keeps one larger tile there between fused operations. That tile is such a part of
    // its memory that operands and results of one operation stay small.
    enum { MOST = 1 << 26, PART_OF_MEMORY = 16 };
    enum mmul_status status = MMUL_ALLOCATE(plan->ranks, cluster->size, "a plan", err);
    for (int rank = 0; status == MMUL_OK && rank < cluster->size; rank++) {
        const struct mmul_rank_info *info = &cluster->ranks[rank];
        struct mmul_program_rank *r = &plan->ranks[rank];
        mmul_text_copy(r->host, sizeof r->host, info->host);
        mmul_text_copy(r->device, sizeof r->device, info->device.name);
        r->host_memory = info->host_memory;
        r->is_sampled = !info->is_trusted;
        r->copies_on_host = info->device.type == MMUL_DEVICE_CPU && !info->host_memory;
        r->device_bytes = mmul_rank_device_bytes(cluster, rank, plan->options.device_memory_bytes);
        r->tile_threads =
            info->host_memory && info->is_trusted ? (int)mmul_max(1, info->threads) : 1;
        r->fused_tile_bytes = info->host_memory
                                  ? info->threads * info->cache_bytes / r->tile_threads
                                  : mmul_min(MOST, r->device_bytes / PART_OF_MEMORY);
    }
    return status == MMUL_OK ? count_products(plan, err) : status;
}

// ------------------------------------------------------------------------------- values read again

bool mmul_program_is_shared_operand(const struct mmul_program_plan *plan, int place) {
    return place >= 0 && !mmul_place_is_file(plan, place) && !plan->caches_no_sums &&
           plan->multiplied[mmul_program_base_place(plan, place)] > 1;
}

// --------------------------------------------------------------------------------- sums of vectors

static bool is_on_grid(const struct mmul_program_plan *plan, const struct mmul_program_step *step) {
    return plan->places[step->result].placement.kind == MMUL_PLACE_GRID;
}

static bool is_blockwise_product(const struct mmul_program_plan *plan,
                                 const struct mmul_program_step *step) {
    const enum mmul_operation_kind kind = mmul_step_operation(plan, step)->kind;
    return step->kind == MMUL_STEP_COMPUTE && (kind == MMUL_MATMUL || kind == MMUL_FUSED_TOPK);
}

struct mmul_sum_lines mmul_program_sum_lines(const struct mmul_move *move) {
    const struct mmul_placement *to = &move->to;
    struct mmul_sum_lines l = {.matrices = mmul_shape_matrices(move->shape), .parts = 1};
    const bool has_rows_apart =
        to->kind == MMUL_PLACE_COLS && to->col_parts * move->shape.rows < move->shape.cols;
    l.by_cols = to->col_offsets != NULL && !has_rows_apart;
    l.length = l.by_cols ? move->shape.cols : move->shape.rows;
    if (has_rows_apart)
        l.parts = to->col_parts;
    else if (l.by_cols && to->row_offsets != NULL)
        l.parts = to->row_parts;
    l.count = l.parts * l.matrices * l.length;
    return l;
}

struct mmul_sums mmul_program_sums(const struct mmul_program_plan *plan,
                                   const struct mmul_program_step *step) {
    struct mmul_sums sums = {0};
    struct mmul_grid_part g;
    if (plan->options.no_verify)
        return sums;
    if (step->kind == MMUL_STEP_MOVE) {
        const struct mmul_move move = mmul_program_step_move(plan, step);
        if (move.from.kind == MMUL_PLACE_PARTIAL && move.to.kind != MMUL_PLACE_PARTIAL)
            sums = (struct mmul_sums){1, {2 * mmul_program_sum_lines(&move).count}};
        return sums;
    }
    if (!is_blockwise_product(plan, step) || !is_on_grid(plan, step))
        return sums;
    // Sizes are those of the whole product.
    (void)mmul_program_grid_part(plan, step, 0, &g);
    const int64_t rounds[MMUL_SUMS_ROUNDS] = {g.n, g.k + g.n, 2 * g.m};
    int64_t end = 0;
    sums.rounds = MMUL_SUMS_ROUNDS;
    for (int i = 0; i < MMUL_SUMS_ROUNDS; i++)
        sums.ends[i] = end += g.matrices * rounds[i];
    return sums;
}

int64_t mmul_sums_bytes(const struct mmul_sums *sums, int ranks) {
    const int64_t line = 64, count = sums->rounds > 0 ? sums->ends[sums->rounds - 1] : 0;
    return mmul_divide_up(ranks * count * (int64_t)sizeof(double), line) * line;
}

bool mmul_program_grid_part(const struct mmul_program_plan *plan,
                            const struct mmul_program_step *step, int rank,
                            struct mmul_grid_part *part) {
    const struct mmul_mesh *mesh = &plan->costs.mesh;
    const int row = rank / mesh->cols, col = rank % mesh->cols;
    const struct mmul_shape c = mmul_place_value(plan, step->result)->shape;
    const int64_t *offsets = plan->places[step->result].placement.col_offsets;
    const int64_t k = mmul_place_value(plan, step->operands[0])->shape.cols;
    *part =
        (struct mmul_grid_part){.matrices = mmul_shape_matrices(c), .m = c.rows, .n = c.cols, k};
    if (row >= mesh->rows)
        return false;
    part->col = col;
    part->cols = (struct mmul_panel){offsets[col], offsets[col + 1]};
    part->b_rows = (struct mmul_panel){mmul_mesh_begin(mesh->row_shares, row, k),
                                       mmul_mesh_begin(mesh->row_shares, row + 1, k)};
    part->a_cols = (struct mmul_panel){mmul_mesh_begin(mesh->col_shares, col, k),
                                       mmul_mesh_begin(mesh->col_shares, col + 1, k)};
    return true;
}

int64_t mmul_grid_part_largest_panel(const struct mmul_grid_part *part) {
    const struct mmul_grid_part *p = part;
    return mmul_max(mmul_max(1, p->cols.end - p->cols.begin),
                    mmul_max(p->b_rows.end - p->b_rows.begin, p->a_cols.end - p->a_cols.begin));
}

// ---------------------------------------------------------------------------------------- products

struct mmul_search_size mmul_program_search_size(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step,
                                                 int64_t rows_most) {
    // A tile is at least k wide. A tile of 1024 rows and 4096 columns of floats, with an inner size
    // of 384, takes 130 operations per byte moved, and more with a larger inner size. No processor
    // needs as many to stay busy (10 to 60), so larger tiles would only need more memory.
    enum { TILE_COLS = 4096, TILE_ELEMENTS = 1 << 22 };
    const struct mmul_operation *o = mmul_step_operation(plan, step);
    const int64_t k = o->with.count, all = plan->program->values[o->operands[1]].shape.cols;
    const int64_t cols = mmul_min(all, mmul_max(k, TILE_COLS)),
                  rows = mmul_min(rows_most, mmul_max(1, TILE_ELEMENTS / cols));
    return (struct mmul_search_size){rows, cols, rows * cols, rows * 2 * k, 2 * k};
}

struct mmul_block_sizes mmul_program_block_sizes(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step, int rank) {
    struct mmul_block_sizes sizes = {0};
    struct mmul_block block;
    if (!is_blockwise_product(plan, step))
        return sizes;
    struct mmul_block_walk walk = mmul_step_blocks(plan, step, rank);
    while (mmul_blocks_next(&walk, &block)) {
        (void)mmul_blocks_skip_alike(&walk, &block);
        if (mmul_region_count(block.at) == 0)
            continue;
        sizes.m = mmul_max(sizes.m, block.at.row_end - block.at.row_begin);
        sizes.n = mmul_max(sizes.n, block.at.col_end - block.at.col_begin);
        sizes.k = mmul_max(sizes.k, block.inner_end - block.inner_begin);
    }
    if (mmul_step_operation(plan, step)->kind == MMUL_FUSED_TOPK && sizes.m > 0) {
        const struct mmul_search_size search = mmul_program_search_size(plan, step, sizes.m);
        sizes.m = search.rows;
        sizes.n = search.cols;
    }
    return sizes;
}

// The check projects the second operand if other products read it too, and it is larger or they do
// not read the first one.
struct mmul_check_need mmul_program_block_check_need(const struct mmul_program_plan *plan,
                                                     const struct mmul_program_step *step,
                                                     struct mmul_block_sizes s) {
    if (plan->options.no_verify)
        return (struct mmul_check_need){0};
    const bool may_last =
        mmul_step_operation(plan, step)->kind == MMUL_MATMUL && !is_on_grid(plan, step);
    const bool first = may_last && mmul_program_is_shared_operand(plan, step->operands[0]),
               second = may_last && mmul_program_is_shared_operand(plan, step->operands[1]);
    const bool columns = second && (s.n > s.m || !first);
    return (struct mmul_check_need){.axis = columns ? MMUL_COLS : MMUL_ROWS,
                                    .piece_units = columns ? s.n : s.m,
                                    .panel_units = columns ? s.m : s.n,
                                    .k = s.k,
                                    .saved = first || second ? plan->shared_operand_count : 0};
}

struct mmul_check_need mmul_program_product_check_need(const struct mmul_program_plan *plan,
                                                       const struct mmul_program_step *step,
                                                       int rank) {
    const bool rows = step->schedule->axis == MMUL_ROWS;
    const int split = step->operands[rows ? 0 : 1], whole = step->operands[rows ? 1 : 0];
    if (plan->options.no_verify || mmul_schedule_lines_most(step->schedule, rank) == 0)
        return (struct mmul_check_need){0};
    return mmul_schedule_check_need(
        step->schedule, rank, !step->relays_whole && mmul_program_is_shared_operand(plan, whole),
        mmul_program_is_shared_operand(plan, split), plan->shared_operand_count);
}

// -------------------------------------------------------------------------------- fused operations

bool mmul_program_next_fused_part(struct mmul_block_walk *walk, struct mmul_region *part) {
    const struct mmul_program_step *step = walk->step;
    const int64_t rows = mmul_place_value(walk->plan, step->made)->shape.rows;
    struct mmul_block block;
    if (!mmul_blocks_next(walk, &block))
        return false;
    *part = block.at;
    if (!step->by_rows)
        return true;
    part->matrix = 0;
    part->row_begin += block.at.matrix * rows;
    do {
        const int64_t last = block.at.matrix + mmul_blocks_skip_alike(walk, &block);
        part->row_end = last * rows + block.at.row_end;
    } while (mmul_blocks_next(walk, &block));
    return true;
}

// Like mmul_program_next_fused_part, for `count` equal parts of successive matrices; by rows there
// is one.
static bool next_fused_alike(struct mmul_block_walk *walk, struct mmul_region *part,
                             int64_t *count) {
    struct mmul_block block;
    *count = 1;
    if (walk->step->by_rows)
        return mmul_program_next_fused_part(walk, part);
    if (!mmul_blocks_next(walk, &block))
        return false;
    *part = block.at;
    *count += mmul_blocks_skip_alike(walk, &block);
    return true;
}

// Returns the number of tiles of values that fused operations read or make, in memory or not. These
// should share the caches.
static int64_t tiles_at_once(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step) {
    const double all = mmul_shape_elements(mmul_place_value(plan, step->result)->shape);
    int64_t tiles = step->tile_count;
    for (int i = 0; i < mmul_program_result_count(step); i++)
        tiles += mmul_program_step_result(plan, step, i) >= 0;
    const bool is_all = mmul_program_head_is_fused(plan, step);
    for (int i = is_all ? 0 : MMUL_OPERANDS; i < mmul_program_operand_count(step); i++) {
        const int place = mmul_program_step_operand(plan, step, i);
        tiles += place >= 0 && mmul_shape_elements(mmul_place_value(plan, place)->shape) == all;
    }
    return mmul_max(tiles, 1);
}

// Returns the number of elements of a tile. If all fused operations work on elements, threads take
// tiles one by one (device/device.h). Only the work space then holds tiles, so tiles are larger.
// Each thread still gets several, so that a late thread takes fewer.
static int64_t tile_elements(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step, int rank, int64_t largest) {
    enum { CLAIMS_EACH = 8 };
    const struct mmul_program_rank *r = &plan->ranks[rank];
    const int64_t all = r->fused_tile_bytes / bytes_each(plan, step);
    const int64_t tile = all / (r->host_memory ? tiles_at_once(plan, step) : 1);
    bool is_elements = r->host_memory && !r->is_sampled;
    for (int i = 0; i < step->fused_count; i++) {
        const struct mmul_operation *fused = mmul_step_fused_operation(plan, step, i);
        is_elements &= mmul_operation_row(fused->kind)->class == MMUL_CLASS_ELEMENTS;
    }
    if (!is_elements)
        return tile;
    const int64_t rooms = step->tile_count + mmul_program_needs_result_tile(plan, step);
    return mmul_max(tile,
                    mmul_min(all / mmul_max(1, rooms), largest / (CLAIMS_EACH * r->tile_threads)));
}

struct mmul_fusion_size mmul_program_fusion_size(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step, int rank) {
    struct mmul_program_step blocks = *step;
    struct mmul_fusion_size size = {0};
    struct mmul_region block;
    int64_t largest = 0, widest = 0, alike;
    if (step->fused_count == 0)
        return size;
    blocks.made = step->result;
    struct mmul_block_walk walk = mmul_step_blocks(plan, &blocks, rank);
    while (next_fused_alike(&walk, &block, &alike)) {
        if (mmul_region_count(block) == 0)
            continue;
        size.all += alike * mmul_region_count(block);
        largest = mmul_max(largest, mmul_region_count(block));
        widest = mmul_max(widest, block.col_end - block.col_begin);
    }
    size.tile = mmul_max(widest, mmul_min(tile_elements(plan, step, rank, largest), largest));
    size.tiles = step->tile_count + mmul_program_needs_result_tile(plan, step);
    return size;
}

// -------------------------------------------------------------------------------- kinds of steps

// Private memory of a rank for all steps: the largest need of any of them.
struct own {
    const struct mmul_program_plan *plan;
    int rank, node;
    bool is_leader;
    struct mmul_check_size check;
    struct mmul_channels_size channels;
    int64_t grid, fused, staging, device, loan, step; // step: memory during one step
};

static void raise_need(int64_t *most, int64_t bytes) {
    *most = mmul_max(*most, bytes);
}

// Adds a result in flight from a device with its own memory.
static void add_staging(struct own *own, int64_t bytes) {
    if (!own->plan->ranks[own->rank].host_memory)
        raise_need(&own->staging, 2 * mmul_min(MMUL_STAGING_BUFFER_BYTES, bytes));
}

// Adds samples of a device's result, recomputed by plain loops in double, and other memory of the
// step. If only the device has the result, positions and values of the samples count too.
static void add_samples(struct own *own, const struct mmul_program_step *step, int64_t other) {
    const struct mmul_program_plan *plan = own->plan;
    const struct mmul_program_rank *is = &plan->ranks[own->rank];
    const int64_t cols = mmul_place_value(plan, step->result)->shape.cols,
                  each = is->host_memory ? sizeof(double) : 4 * sizeof(double);
    const bool any = !plan->options.no_verify && is->is_sampled;
    raise_need(&own->step, other + (any ? mmul_max(MMUL_SAMPLE_WORK, cols) * each : 0));
}

// Adds the needs of any result. No others of an unscheduled product are known.
static void add_result(struct own *own, const struct mmul_program_step *step) {
    const struct mmul_program_plan *plan = own->plan;
    const struct mmul_fusion_size size = mmul_program_fusion_size(plan, step, own->rank);
    raise_need(&own->fused, plan->ranks[own->rank].tile_threads * size.tiles *
                                MMUL_PLACE_ALIGN(size.tile * bytes_each(plan, step)));
    if (step->fused_count > 0)
        add_samples(own, step, 0);
    if (!mmul_place_is_file(plan, step->result))
        add_staging(own, mmul_program_place_bytes(plan, &plan->places[step->result], own->rank));
}

// Operands and temporaries of blocks on a CPU through OpenCL count. Values that it caches from step
// to step do not.
static void add_blocks(struct own *own, const struct mmul_program_step *step) {
    const struct mmul_program_plan *plan = own->plan;
    const struct mmul_program_rank *is = &plan->ranks[own->rank];
    const struct mmul_block_sizes s = mmul_program_block_sizes(plan, step, own->rank);
    const struct mmul_check_need need = mmul_program_block_check_need(plan, step, s);
    const int64_t each = bytes_each(plan, step);
    const double m = (double)s.m, n = (double)s.n, k = (double)s.k,
                 operands = 2 * (double)each * (m * k + k * n + m * n);
    int64_t search = 0;
    if (need.piece_units > 0)
        mmul_check_size_add(&own->check, &need);
    if (mmul_program_sums(plan, step).rounds > 0) { // the check of a product on the mesh
        struct mmul_grid_part grid;
        (void)mmul_program_grid_part(plan, step, own->rank, &grid);
        const int64_t most = mmul_grid_part_largest_panel(&grid);
        raise_need(&own->grid, mmul_check_bytes(most, most));
    }
    if (s.m > 0 && mmul_step_operation(plan, step)->kind == MMUL_FUSED_TOPK) {
        const struct mmul_search_size size = mmul_program_search_size(plan, step, s.m);
        search = (size.product + size.best + size.merged) * each;
    }
    add_result(own, step);
    add_staging(own, s.m * s.n * each);
    add_samples(own, step, search);
    if (is->copies_on_host)
        raise_need(&own->device,
                   operands < (double)is->device_bytes ? (int64_t)operands : is->device_bytes);
}

// A device in host memory widens 16-bit operands.
static void add_product(struct own *own, const struct mmul_program_step *step) {
    const struct mmul_schedule *schedule = step->schedule;
    const struct mmul_problem *p = &schedule->problem;
    const struct mmul_tile t = mmul_schedule_ranks(schedule)[own->rank].tile;
    const struct mmul_program_rank *is = &own->plan->ranks[own->rank];
    const struct mmul_check_need need = mmul_program_product_check_need(own->plan, step, own->rank);
    const bool a = mmul_dtype_bytes(p->a_dtype) < sizeof(float),
               b = mmul_dtype_bytes(p->b_dtype) < sizeof(float);
    if (need.piece_units > 0)
        mmul_check_size_add(&own->check, &need);
    add_result(own, step);
    add_staging(own, t.m * t.n * bytes_each(own->plan, step));
    if (is->host_memory)
        raise_need(&own->staging, ((a ? t.m : 0) + (b ? t.n : 0)) * t.k * (int64_t)sizeof(float));
    if (is->copies_on_host)
        raise_need(&own->device, t.device_bytes);
    if (!own->plan->steals_nothing)
        raise_need(&own->loan, mmul_schedule_stolen_bytes_most(schedule, own->rank));
    if (own->is_leader && step->same == NULL)
        mmul_channels_size_add(&own->channels, schedule, own->node);
}

// A rank holds one piece, then the sums of its lines.
static void add_move(struct own *own, const struct mmul_program_step *step) {
    const struct mmul_move move = mmul_program_step_move(own->plan, step);
    const struct mmul_move_set moving = {
        .plan = own->plan, .steps = {step}, .count = 1, .panels = 1};
    if (own->is_leader)
        mmul_channels_size_add_moves(&own->channels, &moving, own->node);
    raise_need(&own->step, MMUL_PART_BYTES);
    if (mmul_program_sums(own->plan, step).rounds > 0)
        raise_need(&own->step, 2 * mmul_program_sum_lines(&move).length * (int64_t)sizeof(double));
}

static int64_t vectors_bytes(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step, int node, int ranks) {
    const struct mmul_sums sums = mmul_program_sums(plan, step);
    (void)node;
    return mmul_sums_bytes(&sums, ranks);
}

static int64_t lanes_bytes(const struct mmul_program_plan *plan,
                           const struct mmul_program_step *step, int node, int ranks) {
    (void)plan, (void)ranks;
    return mmul_schedule_lanes_bytes(&mmul_schedule_nodes(step->schedule)[node]);
}

// By kind of step: segment of a node with `ranks` ranks, private memory of a rank.
static const struct {
    enum mmul_segment_user user;
    int64_t (*segment_bytes)(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step, int node, int ranks);
    void (*add)(struct own *own, const struct mmul_program_step *step);
} kinds[] = {[MMUL_STEP_MOVE] = {MMUL_SEGMENT_OTHER, vectors_bytes, add_move},
             [MMUL_STEP_COMPUTE] = {MMUL_SEGMENT_OTHER, vectors_bytes, add_blocks},
             [MMUL_STEP_UNSCHEDULED] = {MMUL_SEGMENT_PRODUCT, vectors_bytes, add_result},
             [MMUL_STEP_PRODUCT] = {MMUL_SEGMENT_PRODUCT, lanes_bytes, add_product}};

// ------------------------------------------------------------------------------------ all of a run

enum mmul_segment_user mmul_program_segment_user(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step) {
    return mmul_program_is_early(plan, step) && mmul_program_sums(plan, step).rounds > 0
               ? MMUL_SEGMENT_EARLY
               : kinds[step->kind].user;
}

int64_t mmul_program_segment_bytes(const struct mmul_program_plan *plan, int node) {
    struct mmul_segment_size size = {0};
    int leader;
    const int ranks = mmul_program_node_ranks(plan, node, &leader);
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        // Else the step runs in the stage of the one before.
        if (step->stage >= size.stages)
            mmul_segment_size_add(&size, mmul_program_segment_user(plan, step),
                                  kinds[step->kind].segment_bytes(plan, step, node, ranks));
    }
    return mmul_segment_size_bytes(&size, ranks, NULL);
}

int64_t mmul_program_rank_private_bytes(const struct mmul_program_plan *plan, int rank) {
    struct own own = {.plan = plan, .rank = rank, .node = plan->costs.rank_node[rank]};
    int leader = rank;
    (void)mmul_program_node_ranks(plan, own.node, &leader);
    own.is_leader = rank == leader;
    for (int i = 0; i < plan->step_count; i++)
        kinds[plan->steps[i].kind].add(&own, &plan->steps[i]);
    return mmul_check_size_bytes(&own.check) + mmul_channels_size_bytes(&own.channels, rank == 0) +
           own.grid + own.fused + own.staging + own.device + own.loan + own.step;
}
