// SPDX-License-Identifier: MIT
// A product task after task: waits for pieces and panel, multiplies, checks, and tells of what is done.
#include "exec/products/product.h"

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/products/operands.h"
#include "exec/products/write_back.h"
#include "exec/steps/site.h"
#include "exec/steps/stage_work.h"
#include "io/matrix_file.h"
#include "model/dtype.h"

// ------------------------------------------------------------------------------------- computing

// Pieces and panel are there, and the slot for C is free.
static bool wait_for_step(struct mmul_stage *stage, struct mmul_step step) {
    struct mmul_report_rank *mine = &stage->site->mine;
    struct mmul_need needs[MMUL_NEEDS];
    bool ready = true;
    mmul_works_needs(stage, step, needs);
    for (int i = 0; ready && i < MMUL_NEEDS; i++)
        ready = mmul_stage_wait(
            stage, MMUL_TRAFFIC, needs[i].counter, needs[i].goal,
            i == MMUL_NEEDS_SLOT ? &mine->gather_seconds : &mine->scatter_seconds, step.index);
    return ready;
}

// Lines [begin, end) of a stretch's product, and the task's range of its width.
static struct mmul_product block_of(const struct mmul_stage *stage,
                                    const struct mmul_product *product,
                                    const struct mmul_task *task, int64_t begin, int64_t end) {
    const struct mmul_range wide = {task->begin - task->step.begin, task->end - task->step.begin};
    const struct mmul_range lines = {begin, end};
    bool rows = stage->is.plan->axis == MMUL_ROWS;
    const struct mmul_range m = rows ? lines : wide, n = rows ? wide : lines;
    struct mmul_product block = mmul_product_rows(product, m.begin, m.end);
    block = mmul_product_transpose(&block);
    block = mmul_product_rows(&block, n.begin, n.end);
    return mmul_product_transpose(&block);
}

// Terms that another rank's device has added may be wrong: this one's is not to blame.
static enum mmul_status check_block(struct mmul_stage *stage, const struct mmul_product *block,
                                    const char *place, struct mmul_error *err) {
    const struct mmul_work *work = &stage->product->works.at_hand;
    const int64_t recomputed = stage->verifier.blocks_recomputed;
    bool excused = work->begin > 0 && work->owner != stage->site->context->comm->node_rank;
    stage->verifier.is_excused = excused;
    const struct mmul_verifier_block all = {.product = block, .place = place};
    enum mmul_status status = mmul_stage_check(stage, &all, err);
    if (excused && stage->verifier.blocks_recomputed > recomputed)
        mmul_context_warn(stage->site->context,
                          "%s were wrong as rank %d had begun them: computed again", place,
                          work->rank);
    return status;
}

// What is at hand of it: terms that are added to those before, or all of them; after the last it is checked. A
// device that was replaced, or given up, may have left a part of some in C.
static enum mmul_status compute_block(struct mmul_stage *stage, const struct mmul_product *block,
                                      const char *place, struct mmul_error *err) {
    const struct mmul_work *work = &stage->product->works.at_hand;
    const int64_t replaced = stage->site->worker.fallback_products;
    int64_t begin = stage->product->works.is_again ? 0 : work->begin;
    struct mmul_product terms = mmul_product_terms(block, begin, work->end);
    const bool is_mine = work->owner == stage->site->context->comm->node_rank;
    stage->site->worker.beside_bytes =
        is_mine && terms.k == block->k ? mmul_epilogue_takes(stage, block->m, block->n) : 0;
    enum mmul_status status = mmul_stage_multiply(stage, &terms, err);
    stage->site->worker.beside_bytes = 0;
    if (status == MMUL_OK && begin > 0 && stage->site->worker.fallback_products != replaced) {
        terms = mmul_product_terms(block, 0, work->end);
        status = mmul_stage_multiply(stage, &terms, err);
    }
    if (status != MMUL_OK || work->end < block->k || stage->site->options->no_verify)
        return status;
    return check_block(stage, block, place, err);
}

// What is at hand of a stretch, [begin, end) of whose lines, in slices where these go to the disk.
static enum mmul_status compute_stretch(struct mmul_stage *stage,
                                        const struct mmul_product *product,
                                        struct mmul_stretch stretch, int64_t begin, int64_t end,
                                        struct mmul_error *err) {
    const struct mmul_work *work = &stage->product->works.at_hand;
    int64_t slice = mmul_write_back_slice(stage);
    char place[96];
    enum mmul_status status = MMUL_OK;
    if (slice == 0 || end - begin < 2 * slice)
        slice = end - begin;
    for (int64_t next; status == MMUL_OK && begin < end; begin = next) {
        next = mmul_smaller(begin + slice, end);
        struct mmul_stretch s = {stretch.matrix, stretch.begin + begin, stretch.begin + next};
        const struct mmul_product block = block_of(stage, product, &work->task, begin, next);
        snprintf(place, sizeof place, "%s %lld-%lld of matrix %lld",
                 stage->is.plan->axis == MMUL_ROWS ? "rows" : "columns", (long long)s.begin,
                 (long long)s.end, (long long)s.matrix);
        struct mmul_step step = work->task.step;
        step.begin = work->task.begin;
        step.end = work->task.end;
        do {
            stage->site->worker.is_to_repeat = false;
            status = compute_block(stage, &block, place, err);
            if (status != MMUL_OK || work->end < block.k ||
                work->owner != stage->site->context->comm->node_rank)
                continue;
            mmul_write_back_tell(stage, &work->task, s);
            status = mmul_epilogue_make_part(stage, mmul_step_result(stage->is.plan, step, s), err);
        } while (status == MMUL_ERR_STOPPED && stage->site->worker.is_to_repeat);
        mmul_worker_release(&stage->site->worker, NULL);
    }
    return status;
}

// Buffers of the stage may hold other numbers than when they were last looked at.
static void forget_buffers(struct mmul_stage *stage, struct mmul_step step) {
    const struct mmul_plan_node *node = stage->product->layout.node;
    bool new_pieces = step.round != stage->product->pieces_round;
    bool new_panel = node->whole_slots > 0 && !node->whole_stays;
    stage->product->pieces_round = step.round;
    if (new_pieces || new_panel)
        mmul_worker_forget(&stage->site->worker);
    if (node->checks_whole ? new_panel : new_pieces)
        mmul_verifier_forget(&stage->verifier);
}

static enum mmul_status compute_at_hand(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_work *work = &stage->product->works.at_hand;
    const struct mmul_step step = work->task.step;
    const struct mmul_part part = mmul_stage_part(stage, work->rank, step);
    struct mmul_walk walk = mmul_schedule_walk(stage->is.plan, part.range, step);
    struct mmul_stretch s;
    int64_t offset = 0; // lines of the step before the stretch
    enum mmul_status status = MMUL_OK;
    forget_buffers(stage, step);
    while (status == MMUL_OK && mmul_schedule_next(&walk, &s)) {
        int64_t lines = s.end - s.begin;
        int64_t begin = mmul_larger(0, work->line_begin - offset);
        int64_t end = mmul_smaller(lines, work->line_end - offset);
        const struct mmul_product product = mmul_part_product(stage, &part, step, s, offset);
        if (begin < end)
            status = compute_stretch(stage, &product, s, begin, end, err);
        offset += lines;
    }
    return status;
}

// Its own tasks, then what it can claim; what was at hand when a device was given up is begun again.
static enum mmul_status compute_tasks(struct mmul_stage *stage, struct mmul_error *err) {
    struct mmul_works *works = &stage->product->works;
    int mine = stage->site->context->comm->node_rank;
    enum mmul_status status = MMUL_OK;
    works->is_again = works->is_under_way;
    while (works->is_under_way || (works->is_under_way = mmul_works_next(stage))) {
        mmul_stopwatch_enter(&stage->site->watch, &stage->site->mine.compute_seconds);
        if (mmul_stage_is_cancelled(stage) ||
            (works->at_hand.owner == mine && !wait_for_step(stage, works->at_hand.task.step)))
            break;
        mmul_works_begin(stage);
        status = compute_at_hand(stage, err);
        if (status != MMUL_OK)
            break;
        mmul_works_end(stage);
        works->is_under_way = works->is_again = false;
    }
    return status;
}

static enum mmul_status compute(struct mmul_stage *stage, struct mmul_error *err) {
    const int rank = stage->site->context->comm->node_rank;
    enum mmul_status status = compute_tasks(stage, err);
    if (status != MMUL_OK || !mmul_stage_wait(stage, rank, &stage->progress->ranks[rank].steps_done,
                                              stage->product->layout.steps, NULL, -1))
        return status; // or another failure has ended the run
    return mmul_epilogue_make(stage, err);
}

// ---------------------------------------------------------------------------------- sizes, views

// Has a value, which is -1 where a file is read, more products that read it?
static bool is_read_again(const struct mmul_stage *stage, int place) {
    return place >= 0 && mmul_program_is_read_again(stage->site->values->plan, place);
}

static enum mmul_status create_verifier(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_stage_places *places = &stage->is.places;
    const struct mmul_check_need need = mmul_plan_check_need(
        stage->is.plan, stage->site->context->comm->rank, is_read_again(stage, places->whole),
        is_read_again(stage, places->split), stage->site->values->plan->read_again_count);
    return mmul_stage_create_verifier(stage, &need, stage->site->options->verify_seed, err);
}

static void borrow_files(struct mmul_stage *stage) {
    const struct mmul_product_files *files = &stage->is.files;
    bool rows = stage->is.plan->axis == MMUL_ROWS;
    stage->product->files = (struct mmul_files){.plan = stage->is.plan,
                                                .split = rows ? files->a : files->b,
                                                .whole = rows ? files->b : files->a,
                                                .c_in = files->c_in,
                                                .output = files->output,
                                                .values = stage->site->values,
                                                .spread = stage->is.places.spread};
    stage->product->files.result_bytes =
        stage->is.plan->total * mmul_problem_result_each(&stage->is.plan->problem) *
        mmul_problem_result_width(&stage->is.plan->problem, stage->is.plan->axis);
}

// Values do not change; what comes in pieces, panels or slots makes room for others.
static unsigned find_lasting(const struct mmul_stage *stage) {
    const struct mmul_stage_places *at = &stage->is.places;
    const bool rows = stage->is.plan->axis == MMUL_ROWS;
    return ((rows ? at->split : at->whole) >= 0 ? MMUL_LASTING_A : 0) |
           ((rows ? at->whole : at->split) >= 0 ? MMUL_LASTING_B : 0) |
           (at->c >= 0 ? MMUL_LASTING_C : 0);
}

static enum mmul_status init(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_comm *comm = stage->site->context->comm;
    const struct mmul_plan *plan = stage->is.plan;
    const int rank = comm->rank, spread = stage->is.places.spread;
    enum mmul_status status = MMUL_ALLOCATE(stage->product, 1, "a product", err);
    if (status != MMUL_OK)
        return status;
    *stage->product = (struct mmul_product_stage){
        .me = &mmul_plan_ranks(plan)[rank],
        .spread_needs = spread >= 0 ? mmul_stage_maker(stage, spread) : 0,
        .lines_most = mmul_plan_lines_most(plan, rank)};
    stage->work.lasting = find_lasting(stage);
    stage->work.a_dtype = plan->problem.a_dtype;
    stage->work.b_dtype = plan->problem.b_dtype;
    if (plan->problem.alpha != 0)
        stage->work.tile = stage->product->me->tile;
    borrow_files(stage);
    status = mmul_layout_init(&stage->product->layout, plan, comm->node_index, err);
    stage->bytes = stage->product->layout.bytes;
    if (status != MMUL_OK || stage->site->options->no_verify || stage->product->lines_most == 0)
        return status;
    return create_verifier(stage, err);
}

// Which matrices of the product are values, as enum mmul_maps.
static unsigned values_of(const struct mmul_stage *stage) {
    const struct mmul_stage_places *places = &stage->is.places;
    enum mmul_axis axis = stage->is.plan->axis;
    return (places->split >= 0 ? mmul_maps_split(axis) : 0) |
           (places->whole >= 0 ? mmul_maps_whole(axis) : 0) | (places->c >= 0 ? MMUL_MAPS_C : 0);
}

static enum mmul_status open_views(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_comm *comm = stage->site->context->comm;
    unsigned *maps = NULL;
    bool rows = stage->is.plan->axis == MMUL_ROWS;
    enum mmul_status status = MMUL_ALLOCATE(maps, stage->is.plan->node_count, "nodes", err);
    status = mmul_comm_agree(comm, status, err);
    for (int i = 0; status == MMUL_OK && i < stage->is.plan->node_count; i++)
        maps[i] = mmul_plan_nodes(stage->is.plan)[i].maps & ~values_of(stage);
    if (status == MMUL_OK)
        status = mmul_views_open(stage->site->context, &stage->is.files, maps,
                                 &stage->product->views, err);
    mmul_free(maps);
    const struct mmul_views *v = &stage->product->views;
    stage->product->mapped = (struct mmul_mapped){.split = rows ? v->a.data : v->b.data,
                                                  .whole = rows ? v->b.data : v->a.data,
                                                  .c_in = v->c_in.data,
                                                  .c = v->c.data};
    return status;
}

static enum mmul_status check_views(const struct mmul_stage *stage, struct mmul_error *err) {
    return mmul_views_check(&stage->product->views, err);
}

static enum mmul_status look(const struct mmul_stage *stage, struct mmul_error *err) {
    return mmul_views_check_same(&stage->product->views, err);
}

static void fini(struct mmul_stage *stage) {
    if (stage->product == NULL)
        return;
    mmul_works_fini(&stage->product->works);
    // A lost device's driver, or MPI, may still read them.
    if (!stage->site->watchdog.has_abandoned && !mmul_comm_is_broken(stage->site->context->comm))
        mmul_views_close(&stage->product->views);
    mmul_layout_fini(&stage->product->layout);
    mmul_free(stage->product);
}

// --------------------------------------------------------------------------------- what is known

// Root, whose node computes into the mapped file.
static void count_mapped(struct mmul_stage *stage) {
    int64_t bytes = 0, each = mmul_problem_result_each(&stage->is.plan->problem);
    for (int i = 0; i < stage->site->context->comm->node_size; i++)
        bytes += each * atomic_load(&stage->progress->ranks[i].elements_done);
    if (bytes > stage->product->mapped_bytes)
        mmul_files_count(&stage->product->files, bytes - stage->product->mapped_bytes);
    stage->product->mapped_bytes = bytes;
}

static bool is_computed(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    bool computed = true;
    for (int i = 0; computed && i < stage->site->context->comm->node_size; i++)
        computed =
            reach(context, i, &stage->progress->ranks[i].steps_done, stage->product->layout.steps);
    return computed;
}

static bool is_over(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    return is_computed(stage, reach, context) &&
           reach(context, MMUL_TRAFFIC, &stage->progress->has_left, 1) &&
           (stage->epilogue.step == NULL || mmul_stage_is_done(stage, reach, context));
}

static bool has_reached(void *context, int rank, const _Atomic int64_t *counter, int64_t goal) {
    (void)context, (void)rank;
    return atomic_load(counter) >= goal;
}

static bool has_left(const struct mmul_stage *stage) {
    return stage->product->layout.node->result_bytes == 0 || stage->is.places.c >= 0 ||
           atomic_load(&stage->progress->results_stored) >= stage->product->layout.steps;
}

static bool note_computed(struct mmul_stage *stage) {
    const bool computed = is_computed(stage, has_reached, NULL);
    if (stage->product->mapped.c != NULL && stage->site->context->comm->rank == 0)
        count_mapped(stage);
    return computed;
}

// Root. All blocks were right, each for the numbers it was made from: whether those were the same for
// all, nobody can tell.
static void warn_of_writers(struct mmul_stage *stage) {
    const struct mmul_product_files *files = &stage->is.files;
    const struct mmul_matrix *inputs[] = {files->a, files->b, files->c_in};
    for (int i = 0; i < 3; i++)
        if (inputs[i] != NULL && mmul_matrix_was_written(inputs[i]))
            mmul_context_warn(stage->site->context,
                              "'%s' was written to while it was used: the result may be partly "
                              "of its old and partly of its new numbers",
                              mmul_matrix_name(inputs[i]));
}

const struct mmul_stage_kind mmul_product_kind = {.init = init,
                                                  .open = open_views,
                                                  .prepare = mmul_works_init,
                                                  .begin = mmul_works_enter,
                                                  .compute = compute,
                                                  .is_over = is_over,
                                                  .note_computed = note_computed,
                                                  .has_left = has_left,
                                                  .look = look,
                                                  .check = check_views,
                                                  .end = warn_of_writers,
                                                  .fini = fini};
