// SPDX-License-Identifier: MIT
// Grants, pieces and blocks of C at root. Words are answered at once; what carries bytes waits in
// line for a buffer. Runs in root's main thread between everything else it does.
#include "exec/tail_root.h"

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "plan/cost.h"

enum { BUFFERS = 2 }; // in either direction

// Of what a rank's rate entitles it to: few claims, for each packs the whole operand anew, and yet
// small ones at the end.
static const double CLAIMED_PART = 0.75;

// One rank's word that waits for a buffer.
struct word {
    int rank;
    int64_t words[MMUL_TAIL_WORDS];
};

// A grant on its way out, or a block of C coming in.
struct buffer {
    bool busy, is_block;
    struct mmul_range range;
    int node;
    char *data; // owned; NULL: nothing travels
    int64_t words[MMUL_TAIL_WORDS];
    MPI_Request request;
    struct mmul_message message;
};

struct claimant {
    double rate;     // units per second; 0: has not asked yet
    int64_t pending; // units that it was granted and has not computed yet
    bool is_out;     // was told that nothing is left
};

struct mmul_tail_root {
    struct mmul_tail *tail; // borrowed
    int64_t next;           // first unit that nobody has
    int64_t words[MMUL_TAIL_WORDS];
    MPI_Request request; // the word that comes next
    struct word *line;   // owned: MMUL_CLAIMS * 2 per rank
    int line_count;
    struct buffer grants[BUFFERS], blocks[BUFFERS];
    struct claimant *claimants; // owned, per rank
    int open_claims;            // told neither "nothing is left" nor ever asked
    int blocks_left;            // granted and not yet in the file
    bool failed;                // somebody said so: nothing more is granted
};

// ------------------------------------------------------------------------------------ start, end

static enum mmul_status buffer_init(struct buffer *buffer, int64_t bytes, struct mmul_error *err) {
    buffer->request = MPI_REQUEST_NULL;
    return bytes > 0 ? MMUL_ALLOCATE_RAW(buffer->data, bytes, "claims", err) : MMUL_OK;
}

// The most that a claim of any node moves.
static void claim_bytes(const struct mmul_tail *tail, int64_t *in, int64_t *out) {
    const struct mmul_plan *plan = tail->run->plan;
    *in = *out = 0;
    for (int node = 0; node < plan->node_count; node++) {
        *in = mmul_larger(*in, mmul_claim_piece_bytes(plan, node, tail->most_units) +
                                   mmul_claim_c_in_bytes(plan, node, tail->most_units));
        *out = mmul_larger(*out, mmul_claim_c_bytes(plan, node, tail->most_units));
    }
}

static void listen(struct mmul_tail_root *root) {
    MPI_Irecv(root->words, MMUL_TAIL_WORDS, MPI_INT64_T, MPI_ANY_SOURCE, MMUL_TAG_TO_ROOT,
              root->tail->mpi, &root->request);
}

enum mmul_status mmul_tail_root_create(struct mmul_tail *tail, struct mmul_error *err) {
    const struct mmul_plan *plan = tail->run->plan;
    struct mmul_tail_root *root = NULL;
    int64_t in, out;
    claim_bytes(tail, &in, &out);
    enum mmul_status status = MMUL_ALLOCATE(root, 1, "claims", err);
    if (status != MMUL_OK)
        return status;
    tail->root = root;
    root->tail = tail;
    root->next = plan->tail_begin;
    root->request = MPI_REQUEST_NULL;
    status = MMUL_ALLOCATE(root->line, 2 * MMUL_CLAIMS * (int64_t)plan->size, "claims", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(root->claimants, plan->size, "claims", err);
    for (int i = 0; status == MMUL_OK && i < BUFFERS; i++) {
        status = buffer_init(&root->grants[i], in, err);
        if (status == MMUL_OK)
            status = buffer_init(&root->blocks[i], out, err);
    }
    for (int rank = 0; rank < plan->size; rank++) {
        const struct mmul_plan_rank *r = &mmul_plan_ranks(plan)[rank];
        int depth = mmul_claim_c_bytes(plan, r->node, 1) > 0 ? MMUL_CLAIMS : 1;
        root->open_claims += mmul_schedule_claims(plan, rank) ? depth : 0;
    }
    if (status == MMUL_OK && root->open_claims > 0)
        listen(root);
    return status;
}

void mmul_tail_root_destroy(struct mmul_tail_root *root) {
    if (root == NULL)
        return;
    for (int i = 0; i < BUFFERS; i++) {
        mmul_free(root->grants[i].data);
        mmul_free(root->blocks[i].data);
    }
    mmul_free(root->line);
    mmul_free(root->claimants);
    mmul_free(root);
}

// --------------------------------------------------------------------------------------- sharing

int64_t mmul_tail_size(int64_t left, double rate, double rates, int64_t least, int64_t most) {
    double part = rates > 0 ? CLAIMED_PART * (double)left * rate / rates : (double)left;
    int64_t size = part < (double)most ? (int64_t)part : most;
    size = (size + least - 1) / least * least;
    size = mmul_larger(least, mmul_smaller(size, most));
    return left - size < least ? mmul_smaller(left, mmul_larger(size, most)) : size;
}

// A rank that has not asked yet is at best as fast as if it asked now.
static double all_rates(const struct mmul_tail_root *root) {
    const struct mmul_run *run = root->tail->run;
    double elapsed = mmul_clock_now() - run->begin, rates = 0;
    for (int rank = 0; rank < run->plan->size; rank++) {
        const struct mmul_plan_rank *r = &mmul_plan_ranks(run->plan)[rank];
        const struct claimant *c = &root->claimants[rank];
        if (c->is_out || !mmul_schedule_claims(run->plan, rank))
            continue;
        rates += c->rate > 0 ? c->rate : (double)(r->end - r->begin) / (elapsed + 1e-6);
    }
    return rates;
}

bool mmul_tail_is_worth(double units, double rate, double travel_seconds, double others_units,
                        double others_rate) {
    return !(others_rate > 0) || units / rate + travel_seconds < others_units / others_rate;
}

// Seconds of a claim's bytes to the rank and back.
static double travel_seconds(const struct mmul_run *run, int rank, int64_t units) {
    int node = mmul_plan_ranks(run->plan)[rank].node;
    struct mmul_link link = mmul_cost_root_link(run->context->cluster, node);
    int64_t bytes = mmul_claim_piece_bytes(run->plan, node, units) +
                    mmul_claim_c_in_bytes(run->plan, node, units) +
                    mmul_claim_c_bytes(run->plan, node, units);
    if (node == mmul_plan_ranks(run->plan)[0].node)
        return 0;
    return (double)bytes / link.bytes_per_second + 2 * link.latency_seconds;
}

// Against those who are at the tail already and have not been told that nothing is left.
static bool is_worth(const struct mmul_tail_root *root, int rank, int64_t units) {
    const struct mmul_run *run = root->tail->run;
    const struct claimant *own = &root->claimants[rank];
    double others = (double)(run->plan->total - root->next), rates = 0;
    for (int i = 0; i < run->plan->size; i++) {
        const struct claimant *c = &root->claimants[i];
        if (i == rank || c->is_out || !(c->rate > 0))
            continue;
        others += (double)c->pending;
        rates += c->rate;
    }
    return mmul_tail_is_worth((double)(own->pending + units), own->rate,
                              travel_seconds(run, rank, units), others, rates);
}

static struct mmul_range next_range(struct mmul_tail_root *root, int rank, double rate) {
    const struct mmul_plan *plan = root->tail->run->plan;
    struct mmul_range range = {root->next, root->next};
    struct claimant *claimant = &root->claimants[rank];
    int64_t left = plan->total - root->next;
    claimant->rate = rate;
    if (!root->failed && left > 0 && !claimant->is_out) {
        int64_t units =
            mmul_tail_size(left, rate, all_rates(root), plan->tail_least, plan->tail_most);
        range.end += is_worth(root, rank, units) ? units : 0;
    }
    root->next = range.end;
    claimant->pending += range.end - range.begin;
    claimant->is_out |= range.end == range.begin;
    return range;
}

// ----------------------------------------------------------------------------------------- words

static void keep_first(struct mmul_tail_root *root, const struct mmul_error *err) {
    struct mmul_run *run = root->tail->run;
    mmul_failure_keep(&run->failure, err);
    root->failed = true;
}

static bool test(struct mmul_tail_root *root, MPI_Request *request, MPI_Status *from) {
    struct mmul_error err;
    int over = 1;
    if (mmul_comm_check(MPI_Test(request, &over, from), "claim", &err) != MMUL_OK)
        keep_first(root, &err);
    return over != 0;
}

static struct buffer *find_free(struct buffer *buffers) {
    for (int i = 0; i < BUFFERS; i++)
        if (!buffers[i].busy)
            return &buffers[i];
    return NULL;
}

// The pieces of a grant, out of the files.
static void read_pieces(struct mmul_tail_root *root, struct buffer *b, int rank, int64_t pieces,
                        int64_t c_in) {
    struct mmul_files *files = &root->tail->run->files;
    struct mmul_error err;
    enum mmul_status status = MMUL_OK;
    if (!root->failed && pieces > 0)
        status = mmul_range_read(files, MMUL_CONTENT_PIECES, b->range, b->data, &err);
    if (!root->failed && status == MMUL_OK && c_in > 0)
        status = mmul_range_read(files, MMUL_CONTENT_C_IN, b->range, b->data + pieces, &err);
    if (status != MMUL_OK)
        keep_first(root, &err);
    if (root->failed)
        mmul_failure_void(&root->tail->run->failure);
    mmul_message_send(&root->tail->run->transport.talk, rank, MMUL_TAG_PIECES, b->data,
                      pieces + c_in, &b->message);
}

static void grant(struct mmul_tail_root *root, struct buffer *b, const struct word *word) {
    const struct mmul_plan *plan = root->tail->run->plan;
    struct mmul_error err;
    int node = mmul_plan_ranks(plan)[word->rank].node;
    double rate = mmul_larger(word->words[MMUL_WORD_RATE], 1) / 1000.0;
    *b = (struct buffer){.busy = true, .data = b->data, .node = node};
    b->range = next_range(root, word->rank, rate);
    int64_t units = b->range.end - b->range.begin;
    root->open_claims -= units == 0;
    root->blocks_left += units > 0;
    b->words[MMUL_WORD_BEGIN] = b->range.begin;
    b->words[MMUL_WORD_END] = b->range.end;
    b->words[MMUL_WORD_FAILED] = root->failed;
    int code = MPI_Isend(b->words, MMUL_TAIL_WORDS, MPI_INT64_T, word->rank, MMUL_TAG_FROM_ROOT,
                         root->tail->mpi, &b->request);
    if (mmul_comm_check(code, "claim", &err) != MMUL_OK)
        keep_first(root, &err);
    int64_t pieces = mmul_claim_piece_bytes(plan, node, units);
    int64_t c_in = mmul_claim_c_in_bytes(plan, node, units);
    if (node != mmul_plan_ranks(plan)[0].node)
        root->tail->run->tail_network_bytes +=
            pieces + c_in + mmul_claim_c_bytes(plan, node, units);
    if (pieces + c_in > 0)
        read_pieces(root, b, word->rank, pieces, c_in);
}

static void receive_block(struct mmul_tail_root *root, struct buffer *b, const struct word *word) {
    const struct mmul_plan *plan = root->tail->run->plan;
    int node = mmul_plan_ranks(plan)[word->rank].node;
    *b = (struct buffer){.busy = true, .is_block = true, .data = b->data, .node = node};
    b->request = MPI_REQUEST_NULL;
    b->range = (struct mmul_range){word->words[MMUL_WORD_BEGIN], word->words[MMUL_WORD_END]};
    root->claimants[word->rank].pending -= b->range.end - b->range.begin;
    int64_t bytes = mmul_claim_c_bytes(plan, node, b->range.end - b->range.begin);
    if (bytes == 0)
        return;
    mmul_message_receive(&root->tail->run->transport.talk, word->rank, MMUL_TAG_BLOCK, b->data,
                         bytes, &b->message);
}

// A block is here, or lies in the mapped file already.
static void store_block(struct mmul_tail_root *root, struct buffer *b) {
    struct mmul_run *run = root->tail->run;
    struct mmul_error err;
    int64_t units = b->range.end - b->range.begin;
    root->blocks_left--;
    if (root->failed)
        return;
    if (mmul_claim_c_bytes(run->plan, b->node, units) > 0) {
        if (mmul_range_write(&run->files, b->range, b->data, &err) != MMUL_OK)
            keep_first(root, &err);
        return;
    }
    mmul_files_count(&run->files,
                     units * (int64_t)sizeof(float) *
                         mmul_problem_result_width(&run->plan->problem, run->plan->axis));
}

static bool end_buffer(struct mmul_tail_root *root, struct buffer *b) {
    if (!b->busy || !test(root, &b->request, MPI_STATUS_IGNORE) ||
        !mmul_message_is_over(&root->tail->run->transport.talk, &b->message))
        return false;
    root->failed |= mmul_failure_is_void(&root->tail->run->failure);
    if (b->is_block)
        store_block(root, b);
    b->busy = false;
    return true;
}

// Serves the first word in line whose kind finds a free buffer.
static bool serve_line(struct mmul_tail_root *root) {
    for (int i = 0; i < root->line_count; i++) {
        const struct word word = root->line[i];
        bool asks = word.words[MMUL_WORD_KIND] == MMUL_TAIL_ASK;
        struct buffer *b = find_free(asks ? root->grants : root->blocks);
        if (b == NULL)
            continue;
        root->line_count--;
        for (int j = i; j < root->line_count; j++)
            root->line[j] = root->line[j + 1];
        if (asks)
            grant(root, b, &word);
        else
            receive_block(root, b, &word);
        return true;
    }
    return false;
}

static bool hear(struct mmul_tail_root *root) {
    MPI_Status from;
    if (root->request == MPI_REQUEST_NULL || !test(root, &root->request, &from))
        return false;
    struct word *word = &root->line[root->line_count++];
    word->rank = from.MPI_SOURCE;
    for (int i = 0; i < MMUL_TAIL_WORDS; i++)
        word->words[i] = root->words[i];
    root->failed |= word->words[MMUL_WORD_FAILED] != 0;
    listen(root);
    return true;
}

bool mmul_tail_root_advance(struct mmul_tail_root *root) {
    bool moved = hear(root);
    moved |= serve_line(root);
    for (int i = 0; i < BUFFERS; i++) {
        moved |= end_buffer(root, &root->grants[i]);
        moved |= end_buffer(root, &root->blocks[i]);
    }
    if (mmul_tail_root_is_finished(root) && root->request != MPI_REQUEST_NULL) {
        MPI_Cancel(&root->request); // nobody speaks any more
        MPI_Wait(&root->request, MPI_STATUS_IGNORE);
    }
    return moved;
}

bool mmul_tail_root_is_finished(const struct mmul_tail_root *root) {
    bool busy = false;
    for (int i = 0; i < BUFFERS; i++)
        busy |= root->grants[i].busy || root->blocks[i].busy;
    return root->open_claims == 0 && root->blocks_left == 0 && !busy && root->line_count == 0;
}
