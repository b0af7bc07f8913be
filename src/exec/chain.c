// SPDX-License-Identifier: MIT
// A ring of packets with three counters: begun, received, ended. Knows the order of the members and
// of the panels, not when a slot is free.
#include "exec/chain.h"

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"

static bool is_root(const struct mmul_chain *c) {
    return c->run->team.rank == 0;
}

static struct mmul_packet *packet_of(struct mmul_chain *c, int64_t packet) {
    return &c->packets[packet % MMUL_PACKETS_AHEAD];
}

// Panels that pass through here, counted as `next` is.
static int64_t panel_count(const struct mmul_chain *c) {
    return is_root(c) ? c->run->layout.steps : c->run->layout.loads;
}

static struct mmul_step next_step(const struct mmul_chain *c) {
    const struct mmul_layout *l = &c->run->layout;
    return mmul_schedule_step(c->run->plan, is_root(c) ? c->next : l->load_step[c->next]);
}

// ----------------------------------------------------------------------------------- neighbours

// Where a member stands; root is first.
static int place_of(const struct mmul_chain *c, int member) {
    return member == 0 ? 0 : mmul_plan_nodes(c->run->plan)[c->run->team.nodes[member]].chain_place;
}

// Who the panel of a step comes from and goes to.
static void find_neighbours(struct mmul_chain *c, struct mmul_step step) {
    const struct mmul_team *team = &c->run->team;
    int mine = place_of(c, team->rank);
    c->from = 0;
    c->to = -1;
    for (int member = 1; member < team->size; member++) {
        int place = place_of(c, member);
        if (member == team->rank || !mmul_schedule_loads(c->run->plan, team->nodes[member], step))
            continue;
        if (place < mine && place > place_of(c, c->from))
            c->from = member;
        if (place > mine && (c->to < 0 || place < place_of(c, c->to)))
            c->to = member;
    }
}

// ------------------------------------------------------------------------------------- one packet

// Root: bytes [c->at, end) of the panel, from the file into a lane and off.
static void begin_sending(struct mmul_chain *c, struct mmul_packet *p, struct mmul_step step,
                          int64_t end) {
    const struct mmul_stream stream = {
        .files = &c->run->files, .kind = MMUL_STREAM_PANEL, .step = step};
    char *lane = c->lanes + c->begun % MMUL_PACKETS_AHEAD * c->packet_bytes;
    struct mmul_error err;
    if (!mmul_failure_is_void(c->channel.failure) &&
        mmul_stream_read(&stream, -1, c->at, end, lane, &err) != MMUL_OK)
        mmul_failure_keep(c->channel.failure, &err);
    mmul_message_send(&c->channel, p->to, 0, lane, end - c->at, &p->send);
}

static void begin_receiving(struct mmul_chain *c, struct mmul_packet *p, struct mmul_step step,
                            int64_t end) {
    char *slot = c->run->segment.data + mmul_layout_panel(&c->run->layout, step.index);
    mmul_message_receive(&c->channel, c->from, 0, slot + c->at, end - c->at, &p->receive);
}

// The next packet; root passes over panels that nobody else loads.
static void begin(struct mmul_chain *c) {
    struct mmul_step step = next_step(c);
    int64_t bytes = mmul_schedule_panel_bytes(c->run->plan, step);
    int64_t end = mmul_smaller(c->at + c->packet_bytes, bytes);
    if (c->at == 0)
        find_neighbours(c, step);
    if (!is_root(c) || c->to >= 0) {
        struct mmul_packet *p = packet_of(c, c->begun);
        *p = (struct mmul_packet){.to = c->to, .ends = end == bytes};
        if (is_root(c))
            begin_sending(c, p, step, end);
        else
            begin_receiving(c, p, step, end);
        c->begun++;
        c->at = end == bytes ? 0 : end;
    }
    c->next += c->at == 0;
}

// The oldest packet that is still coming: when it is here, it is passed on.
static bool end_receiving(struct mmul_chain *c) {
    struct mmul_packet *p = packet_of(c, c->received);
    if (!mmul_message_is_over(&c->channel, &p->receive))
        return false;
    c->received++;
    c->panels_received += p->ends;
    if (!is_root(c) && p->to >= 0)
        mmul_message_send(&c->channel, p->to, 0, p->receive.data, p->receive.bytes, &p->send);
    return true;
}

static bool end_sending(struct mmul_chain *c) {
    struct mmul_packet *p = packet_of(c, c->ended);
    bool done = mmul_message_is_over(&c->channel, &p->send);
    c->ended += done;
    c->panels_ended += done && p->ends;
    return done;
}

bool mmul_chain_advance(struct mmul_chain *chain, bool may_begin) {
    struct mmul_chain *c = chain;
    bool moved = false;
    if (c->begun - c->ended < MMUL_PACKETS_AHEAD && c->next < panel_count(c) &&
        (c->at > 0 || may_begin)) {
        begin(c);
        moved = true;
    }
    if (c->received < c->begun)
        moved |= end_receiving(c);
    if (c->ended < c->received)
        moved |= end_sending(c);
    return moved;
}

bool mmul_chain_is_over(const struct mmul_chain *chain) {
    return chain->next == panel_count(chain) && chain->ended == chain->begun;
}

// ------------------------------------------------------------------------------------ start, end

enum mmul_status mmul_chain_init(struct mmul_chain *chain, struct mmul_run *run,
                                 struct mmul_error *err) {
    *chain = (struct mmul_chain){
        .run = run,
        .packet_bytes = mmul_smaller(MMUL_PACKET_BYTES, run->plan->round_bytes),
        .channel = {run->team.chain, &run->failure, run->team.nodes, run->team.rank}};
    if (!is_root(chain))
        return MMUL_OK;
    return MMUL_ALLOCATE_RAW(chain->lanes, MMUL_PACKETS_AHEAD * chain->packet_bytes, "traffic",
                             err);
}

void mmul_chain_fini(struct mmul_chain *chain) {
    mmul_free(chain->lanes);
    *chain = (struct mmul_chain){0};
}
