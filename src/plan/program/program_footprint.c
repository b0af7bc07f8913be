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
        if (step->kind != MMUL_STEP_COMPUTE || mmul_step_operation(plan, step)->kind != MMUL_MATMUL)
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
    return step->kind == MMUL_STEP_COMPUTE && !step->is_product &&
           (kind == MMUL_MATMUL || kind == MMUL_FUSED_TOPK);
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

enum mmul_segment_user mmul_program_segment_user(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step) {
    if (step->is_product)
        return MMUL_SEGMENT_PRODUCT;
    return mmul_program_is_early(plan, step) && mmul_program_sums(plan, step).rounds > 0
               ? MMUL_SEGMENT_EARLY
               : MMUL_SEGMENT_OTHER;
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
static struct mmul_check_need block_check_need(const struct mmul_program_plan *plan,
                                               const struct mmul_program_step *step, int rank) {
    const struct mmul_block_sizes s = mmul_program_block_sizes(plan, step, rank);
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

struct mmul_check_need mmul_program_check_need(const struct mmul_program_plan *plan,
                                               const struct mmul_program_step *step, int rank) {
    const struct mmul_schedule *product = step->schedule;
    if (plan->options.no_verify ||
        (step->is_product && (product == NULL || mmul_schedule_lines_most(product, rank) == 0)))
        return (struct mmul_check_need){0};
    if (!step->is_product)
        return block_check_need(plan, step, rank);
    const bool rows = product->axis == MMUL_ROWS;
    const int split = step->operands[rows ? 0 : 1], whole = step->operands[rows ? 1 : 0];
    return mmul_schedule_check_need(
        product, rank, !step->relays_whole && mmul_program_is_shared_operand(plan, whole),
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

// ------------------------------------------------------------------------------------ all of a run

int64_t mmul_program_segment_bytes(const struct mmul_program_plan *plan, int node) {
    struct mmul_segment_size size = {0};
    int leader;
    const int ranks = mmul_program_node_ranks(plan, node, &leader);
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        // The step runs in the stage of the one before.
        if (step->stage < size.stages)
            continue;
        const struct mmul_sums sums = mmul_program_sums(plan, step);
        mmul_segment_size_add(
            &size, mmul_program_segment_user(plan, step),
            !step->is_product ? mmul_sums_bytes(&sums, ranks)
            : step->schedule != NULL
                ? mmul_schedule_lanes_bytes(&mmul_schedule_nodes(step->schedule)[node])
                : 0);
    }
    return mmul_segment_size_bytes(&size, ranks, NULL);
}

// Private memory of a rank for all steps: the largest need of any of them.
struct own {
    struct mmul_check_size check;
    struct mmul_channels_size channels;
    int64_t grid, fused, staging, device, loan, step; // step: memory during one step
};

// Returns the bytes of results in flight from a device with its own memory; on other devices, of
// widened 16-bit operands of a product.
static int64_t staging_bytes(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step, int rank) {
    const struct mmul_program_place *made = &plan->places[step->result];
    const bool is_host = plan->ranks[rank].host_memory;
    int64_t of_tile = 0;
    if (step->schedule != NULL) {
        const struct mmul_problem *p = &step->schedule->problem;
        const struct mmul_tile t = mmul_schedule_ranks(step->schedule)[rank].tile;
        const bool a = mmul_dtype_bytes(p->a_dtype) < sizeof(float),
                   b = mmul_dtype_bytes(p->b_dtype) < sizeof(float);
        if (is_host)
            return ((a ? t.m : 0) + (b ? t.n : 0)) * t.k * (int64_t)sizeof(float);
        of_tile = t.m * t.n * bytes_each(plan, step);
    }
    if (is_host)
        return 0;
    if (step->schedule == NULL) {
        const struct mmul_block_sizes s = mmul_program_block_sizes(plan, step, rank);
        of_tile = s.m * s.n * bytes_each(plan, step);
    }
    const int64_t part =
        made->placement.kind == MMUL_PLACE_FILE ? 0 : mmul_program_place_bytes(plan, made, rank);
    return 2 * mmul_min(MMUL_STAGING_BUFFER_BYTES, mmul_max(of_tile, part));
}

// Returns the bytes of operands and temporaries of a product on a CPU through OpenCL. Values that
// it caches from step to step do not count.
static int64_t device_copy_bytes(const struct mmul_program_plan *plan,
                                 const struct mmul_program_step *step, int rank) {
    const int64_t most = plan->ranks[rank].device_bytes;
    if (!plan->ranks[rank].copies_on_host)
        return 0;
    if (step->schedule != NULL)
        return mmul_schedule_ranks(step->schedule)[rank].tile.device_bytes;
    const struct mmul_block_sizes s = mmul_program_block_sizes(plan, step, rank);
    const double m = (double)s.m, n = (double)s.n, k = (double)s.k;
    const double all = 2 * (double)bytes_each(plan, step) * (m * k + k * n + m * n);
    return all < (double)most ? (int64_t)all : most;
}

// Returns the bytes of samples of a device's result, recomputed by plain loops in double. If only
// the device has the result, the positions of the samples and their values count too.
static int64_t sample_bytes(const struct mmul_program_plan *plan,
                            const struct mmul_program_step *step, int rank) {
    const struct mmul_program_rank *is = &plan->ranks[rank];
    const bool maps = !step->is_product || step->fused_count > 0;
    if (plan->options.no_verify || !is->is_sampled || !maps)
        return 0;
    const int64_t most =
                      mmul_max(MMUL_SAMPLE_WORK, mmul_place_value(plan, step->result)->shape.cols),
                  each = is->host_memory ? sizeof(double) : 4 * sizeof(double);
    return most * each;
}

static void add_compute(const struct mmul_program_plan *plan, const struct mmul_program_step *step,
                        int rank, struct own *own) {
    const struct mmul_check_need need = mmul_program_check_need(plan, step, rank);
    const struct mmul_fusion_size fused = mmul_program_fusion_size(plan, step, rank);
    const int64_t each = bytes_each(plan, step);
    struct mmul_grid_part grid;
    int64_t search = 0;
    if (need.piece_units > 0)
        mmul_check_size_add(&own->check, &need);
    if (!plan->options.no_verify && is_blockwise_product(plan, step) && is_on_grid(plan, step)) {
        (void)mmul_program_grid_part(plan, step, rank, &grid);
        const int64_t most = mmul_grid_part_largest_panel(&grid);
        own->grid = mmul_max(own->grid, mmul_check_bytes(most, most));
    }
    if (is_blockwise_product(plan, step) &&
        mmul_step_operation(plan, step)->kind == MMUL_FUSED_TOPK) {
        const struct mmul_block_sizes s = mmul_program_block_sizes(plan, step, rank);
        const struct mmul_search_size is = mmul_program_search_size(plan, step, s.m);
        search = s.m > 0 ? (is.product + is.best + is.merged) * each : 0;
    }
    own->fused = mmul_max(own->fused, plan->ranks[rank].tile_threads * fused.tiles *
                                          MMUL_PLACE_ALIGN(fused.tile * each));
    own->staging = mmul_max(own->staging, staging_bytes(plan, step, rank));
    own->device = mmul_max(own->device, device_copy_bytes(plan, step, rank));
    own->step = mmul_max(own->step, search + sample_bytes(plan, step, rank));
    if (step->schedule != NULL && !plan->steals_nothing)
        own->loan = mmul_max(own->loan, mmul_schedule_stolen_bytes_most(step->schedule, rank));
}

// A rank holds one piece, then the sums of its lines.
static void add_move(const struct mmul_program_plan *plan, const struct mmul_program_step *step,
                     int rank, bool is_leader, struct own *own) {
    const struct mmul_move move = mmul_program_step_move(plan, step);
    const bool adds_up = mmul_program_sums(plan, step).rounds > 0;
    const int64_t found =
        adds_up ? 2 * mmul_program_sum_lines(&move).length * (int64_t)sizeof(double) : 0;
    const struct mmul_move_set moving = {.plan = plan, .steps = {step}, .count = 1, .panels = 1};
    if (is_leader)
        mmul_channels_size_add_moves(&own->channels, &moving, plan->costs.rank_node[rank]);
    own->step = mmul_max(own->step, mmul_max(MMUL_PART_BYTES, found));
}

int64_t mmul_program_rank_private_bytes(const struct mmul_program_plan *plan, int rank) {
    struct own own = {.grid = 0};
    const int node = plan->costs.rank_node[rank];
    int leader = rank;
    (void)mmul_program_node_ranks(plan, node, &leader);
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        if (step->kind == MMUL_STEP_MOVE)
            add_move(plan, step, rank, rank == leader, &own);
        else
            add_compute(plan, step, rank, &own);
        if (rank == leader && step->schedule != NULL && step->same == NULL)
            mmul_channels_size_add(&own.channels, step->schedule, node);
    }
    return mmul_check_size_bytes(&own.check) + mmul_channels_size_bytes(&own.channels, rank == 0) +
           own.grid + own.fused + own.staging + own.device + own.loan + own.step;
}
