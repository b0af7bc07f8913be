// SPDX-License-Identifier: MIT
// Measures the cost of traffic for computing. One thread multiplies squares while the main one
// moves packets as in a run, with equal naps and checksums. The time of a product with traffic,
// compared to the time without, gives the share of computing time that traffic takes. That share of
// the elapsed time, per byte, is the cost. The neighbour's other work is constant, so it cancels
// out. Last, both ends send at once, to compare a packet each way with a packet one way.
#include "exec/setup/traffic_cost.h"

#include "base/integer.h"
#include "base/median.h"
#include "base/memory.h"
#include "comm/message.h"
#include "exec/setup/measure.h"
#include "exec/threads/compute_thread.h"
#include "plan/parts/panels.h"

// PACKETS, PRODUCTS: least number of them in a window
enum { TAG = 73, LEAST_BYTES = 64 << 10, PACKETS = 4, PRODUCTS = 8 };

enum phase { BEGINNING, QUIET, SENDING, RECEIVING, BOTH, OVER };

// Sums of one phase over all its turns, with the first SAMPLES products that began and ended in it.
enum { SAMPLES = 256 };
struct phase_sums {
    double products[SAMPLES], begin, seconds;
    int count;
    int64_t bytes;
};

struct meter {
    struct mmul_device *device;
    struct mmul_peers peers;
    int peer;
    bool sends_first;
    double window_seconds;
    int turns; // turns left
    int64_t side, packet_bytes;
    char *packet; // borrowed: two packets; the first byte is 1 in the last packet of a direction
    struct mmul_message *message, *back; // borrowed; back: the received one in phase BOTH
    bool last;                           // last packet of this direction, whatever arrives
    atomic_int phase;
    // set by the compute thread: the first product is over; no product will follow
    atomic_bool multiplies, done;
    int phase_before; // phase in which the compute thread began its product
    struct phase_sums sums[OVER];
};

// ------------------------------------------------------------------------------ the compute thread

static bool count_product(void *argument, double seconds) {
    struct meter *m = argument;
    int phase = atomic_load(&m->phase);
    atomic_store(&m->multiplies, true);
    if (phase != OVER && phase == m->phase_before && m->sums[phase].count < SAMPLES)
        m->sums[phase].products[m->sums[phase].count++] = seconds;
    m->phase_before = phase;
    return phase != OVER;
}

static void multiply_until_over(void *context) {
    struct meter *m = context;
    struct mmul_error ignored;
    if (!atomic_load(&m->done) && mmul_device_can_borrow(m->device))
        mmul_measure_repeatedly(m->device, m->side, count_product, m, &ignored);
    atomic_store(&m->done, true);
}

static void cancel_products(void *context) {
    struct meter *m = context;
    atomic_store(&m->done, true);
}

// --------------------------------------------------------------------------------- the main thread

// Sends a packet. Only the mark in a packet ends a direction, so both ends agree on its end. A
// message that MPI failed to begin is the last one, because the next would fail too.
static void send_packet(struct meter *m, double now) {
    m->last =
        now - m->sums[SENDING].begin >= m->window_seconds || mmul_failure_is_void(m->peers.failure);
    m->packet[0] = m->last;
    mmul_message_send(&m->peers, m->peer, TAG, m->packet, m->packet_bytes, m->message);
    m->last = m->last || !m->message->active;
}

static void receive_packet(struct meter *m) {
    mmul_message_receive(&m->peers, m->peer, TAG, m->packet, m->packet_bytes, m->message);
    m->last = !m->message->active;
}

// Exchanges one packet each way. The end with sends_first marks the last one.
static void exchange_packets(struct meter *m, double now) {
    m->last = m->sends_first && now - m->sums[BOTH].begin >= m->window_seconds;
    m->packet[0] = m->last;
    mmul_message_receive(&m->peers, m->peer, TAG, m->packet + m->packet_bytes, m->packet_bytes,
                         m->back);
    mmul_message_send(&m->peers, m->peer, TAG, m->packet, m->packet_bytes, m->message);
    m->last = m->last || !m->message->active || !m->back->active;
}

static void begin_packet(struct meter *m, enum phase phase, double now) {
    if (phase == SENDING)
        send_packet(m, now);
    else if (phase == RECEIVING)
        receive_packet(m);
    else if (phase == BOTH)
        exchange_packets(m, now);
}

static void end_phase(struct meter *m, enum phase phase) {
    const enum phase first = m->sends_first ? SENDING : RECEIVING;
    const enum phase second = m->sends_first ? RECEIVING : SENDING;
    m->sums[phase].seconds += mmul_clock_now() - m->sums[phase].begin;
    m->turns -= phase == BOTH;
    const enum phase next = phase == QUIET    ? first
                            : phase == first  ? second
                            : phase == second ? BOTH
                            : m->turns > 0    ? QUIET
                                              : OVER;
    const double now = mmul_clock_now();
    if (next < OVER)
        m->sums[next].begin = now;
    begin_packet(m, next, now);
    atomic_store(&m->phase, next);
}

static enum mmul_poll_result attend_packet(struct meter *m, enum phase phase) {
    bool over = mmul_message_is_over(&m->peers, m->message);
    if (phase == BOTH)
        over = mmul_message_is_over(&m->peers, m->back) && over;
    if (!over)
        return MMUL_POLL_IDLE;
    m->sums[phase].bytes += m->packet_bytes;
    if (m->last || (phase == RECEIVING && m->packet[0] != 0) ||
        (phase == BOTH && m->packet[m->packet_bytes] != 0))
        end_phase(m, phase);
    else
        begin_packet(m, phase, mmul_clock_now());
    return MMUL_POLL_PROGRESSED;
}

static enum mmul_poll_result attend_meter(void *context) {
    struct meter *m = context;
    enum phase phase = (enum phase)atomic_load(&m->phase);
    if (phase == SENDING || phase == RECEIVING || phase == BOTH)
        return attend_packet(m, phase);
    if (phase == OVER && atomic_load(&m->done))
        return MMUL_POLL_FINISHED;
    if ((phase == BEGINNING && (atomic_load(&m->multiplies) || atomic_load(&m->done))) ||
        (phase == QUIET && mmul_clock_now() - m->sums[QUIET].begin >= m->window_seconds))
        end_phase(m, phase);
    return MMUL_POLL_IDLE;
}

// -------------------------------------------------------------------------------------- one leader

// Returns the cost per byte: 0 if nothing was measured, else positive. Medians exclude stalls of
// the machine.
static double compute_cost(struct meter *m, enum phase phase) {
    const double least = 1e-12;
    struct phase_sums *quiet = &m->sums[QUIET], *busy = &m->sums[phase];
    if (quiet->count == 0 || busy->count == 0 || busy->bytes == 0)
        return 0;
    double alone = mmul_median(quiet->products, quiet->count);
    double beside = mmul_median(busy->products, busy->count);
    double cost = (1 - alone / beside) * busy->seconds / (double)busy->bytes;
    return cost > least ? cost : least;
}

// Returns the time of a packet one way over that of a packet each way. 0: nothing was measured.
static double compute_duplex(const struct meter *m) {
    const struct phase_sums *out = &m->sums[SENDING], *in = &m->sums[RECEIVING],
                            *both = &m->sums[BOTH];
    if (out->bytes == 0 || in->bytes == 0 || both->bytes == 0)
        return 0;
    double one = out->seconds / (double)out->bytes + in->seconds / (double)in->bytes;
    double two = both->seconds / (double)both->bytes;
    return one / 2 < two ? one / 2 / two : 1;
}

// Returns the largest square size of which at least PRODUCTS products fit in a window.
static int64_t choose_side(const struct mmul_speed *speed, double window_seconds) {
    int point = MMUL_SPEED_POINTS - 1;
    for (; point > 0; point--) {
        double n = (double)(MMUL_SPEED_SMALLEST << point);
        double flops = speed->flops[point] > 0 ? speed->flops[point] : speed->double_flops[point];
        if (PRODUCTS * 2 * n * n * n <= window_seconds * flops)
            break;
    }
    return (int64_t)MMUL_SPEED_SMALLEST << point;
}

static int64_t choose_packet(const struct mmul_link *link, double window_seconds) {
    double bytes = link->bytes_per_second * window_seconds / PACKETS;
    return bytes < MMUL_PACKET_BYTES ? mmul_max(LEAST_BYTES, (int64_t)bytes) : MMUL_PACKET_BYTES;
}

struct side {
    const struct mmul_context *context;
    struct mmul_peers peers;
    struct mmul_failure failure;
    int *nodes;   // owned
    char *packet; // packet and messages are owned, but belong to MPI after an alarm
    struct mmul_message *messages;
    bool thorough;
};

// Measures with a neighbouring leader. The neighbour waits for this rank, so this rank takes part
// even after a local failure.
static enum mmul_status measure_with_peer(struct side *side, int peer, struct mmul_speed *speed,
                                          struct mmul_error *err) {
    const int lower = (int)mmul_min(side->peers.rank, peer);
    const struct mmul_link *link = &side->context->cluster->nodes[lower].ring_link;
    const double window_seconds = side->thorough ? 0.1 : 0.02;
    struct meter m = {.device = side->context->device,
                      .peers = side->peers,
                      .peer = peer,
                      .sends_first = side->peers.rank == lower,
                      .window_seconds = window_seconds,
                      .turns = side->thorough ? 5 : 1,
                      .side = choose_side(speed, window_seconds),
                      .packet_bytes = choose_packet(link, window_seconds),
                      .packet = side->packet,
                      .message = &side->messages[0],
                      .back = &side->messages[1],
                      .phase_before = OVER};
    const struct mmul_compute_thread pipeline = {.cancel = cancel_products,
                                                 .compute = multiply_until_over,
                                                 .attend = attend_meter,
                                                 .context = &m};
    enum mmul_status status = mmul_compute_thread_run(&pipeline, err);
    speed->send_seconds_per_byte = compute_cost(&m, SENDING);
    speed->receive_seconds_per_byte = compute_cost(&m, RECEIVING);
    speed->duplex = compute_duplex(&m);
    return status;
}

// Measures all pairs of neighbours at once. If their number is odd, the last node then measures
// with the one before it.
static void measure_pairs(struct side *side, int count, struct mmul_speed *speed) {
    const int own = side->peers.rank, peer = own % 2 == 0 ? own + 1 : own - 1;
    struct mmul_error err;
    if (peer < count && measure_with_peer(side, peer, speed, &err) != MMUL_OK)
        mmul_failure_keep(&side->failure, &err);
    struct mmul_speed again = *speed;
    if (count % 2 != 0 && own >= count - 2 &&
        measure_with_peer(side, own == count - 1 ? own - 1 : own + 1,
                          own == count - 1 ? speed : &again, &err) != MMUL_OK)
        mmul_failure_keep(&side->failure, &err);
}

enum mmul_status mmul_traffic_cost_measure(const struct mmul_context *context, bool thorough,
                                           struct mmul_speed *speed, struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    const int count = context->cluster->node_count;
    struct side side = {.context = context, .thorough = thorough};
    if (comm->node_rank != 0 || count == 1)
        return MMUL_OK;
    err->status = MMUL_ALLOCATE_ALL("packets", err, MMUL_ARRAY(side.packet, 2 * MMUL_PACKET_BYTES),
                                    MMUL_ARRAY(side.messages, 2), MMUL_ARRAY(side.nodes, count));
    for (int i = 0; err->status == MMUL_OK && i < count; i++)
        side.nodes[i] = i;
    side.peers = (struct mmul_peers){.mpi = comm->leaders,
                                     .failure = &side.failure,
                                     .nodes = side.nodes,
                                     .rank = comm->node_index,
                                     .alarm = comm->alarm};
    enum mmul_status status = mmul_comm_agree_over(comm->leaders, err);
    if (status == MMUL_OK)
        measure_pairs(&side, count, speed);
    // after a failure MPI may still use the buffers
    void (*release)(void *) = mmul_comm_is_broken(comm) ? mmul_abandon : mmul_free;
    release(side.packet);
    release(side.messages);
    mmul_free(side.nodes);
    if (status == MMUL_OK && side.failure.err.status != MMUL_OK) {
        *err = side.failure.err;
        status = err->status;
    }
    return status;
}
