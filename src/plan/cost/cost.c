// SPDX-License-Identifier: MIT
// Computes the cost of links and passes, and the sums from which shares are solved. balance.c finds
// the shares with which all ranks finish together; replay.c predicts the time of every event.
#include "plan/cost/cost.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

// ---------------------------------------------------------------------------------------- creating

struct mmul_link mmul_cost_root_link(const struct mmul_cluster *cluster, int node) {
    struct mmul_link link = cluster->nodes[node].root_link;
    if (!(link.bytes_per_second > 0))
        link.bytes_per_second = MMUL_LINK_BYTES_PER_SECOND;
    if (!(link.latency_seconds > 0))
        link.latency_seconds = MMUL_LINK_LATENCY_SECONDS;
    return link;
}

int mmul_cost_link_class(const struct mmul_cluster *cluster, int node) {
    return (int)lround(log(mmul_cost_root_link(cluster, node).bytes_per_second) / log(1.25));
}

static unsigned maps_of(const struct mmul_cost *cost, int node) {
    return cost->request.node_maps ? cost->request.node_maps[node] : 0;
}

static bool maps_whole_operand(const struct mmul_cost *cost, int node) {
    return maps_of(cost, node) & mmul_maps_whole_operand(cost->request.axis);
}

// Returns the seconds per byte of root's file. It runs beside the link; the slower one counts.
static double file_seconds_per_byte(const struct mmul_cost *cost) {
    unsigned maps = maps_of(cost, cost->root_node), all = MMUL_MAPS_A | MMUL_MAPS_B | MMUL_MAPS_C;
    return (maps & all) == all ? MMUL_FIRST_TOUCH_SECONDS_PER_BYTE : 1 / MMUL_FILE_BYTES_PER_SECOND;
}

// Sets the seconds per byte of traffic that the computation of a leader loses, spread over its
// threads: CPU seconds as measured, else as assumed. Root also loses the cost of files, because the
// same threads read the bytes that leave and write the bytes that return.
static void set_traffic_losses(struct mmul_cost *cost, int index) {
    struct mmul_cost_node *node = &cost->nodes[index];
    const struct mmul_node_info *info = &cost->request.cluster->nodes[index];
    const struct mmul_rank_info *leader = &cost->request.cluster->ranks[info->leader];
    const struct mmul_speed *speed = &leader->speed;
    bool has_idle_cores = info->cores_allowed > 0 && node->cpu_threads < info->cores_allowed;
    double share = leader->host_memory && !has_idle_cores ? 1 : 0;
    node->share = share /= leader->threads > 1 ? leader->threads : 1;
    node->duplex = speed->duplex > 0 ? speed->duplex : 1;
    node->sending = node->receiving = share * MMUL_NETWORK_CPU_SECONDS_PER_BYTE;
    if (speed->send_seconds_per_byte > 0 && speed->receive_seconds_per_byte > 0) {
        node->sending = speed->send_seconds_per_byte;
        node->receiving = speed->receive_seconds_per_byte;
    }
    if (index == cost->root_node) {
        node->sending += share * file_seconds_per_byte(cost);
        node->receiving += share * file_seconds_per_byte(cost);
    }
}

struct place {
    int class, node; // faster links have a higher class
};

static int compare_by_link(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->class != y->class)
        return x->class > y->class ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

// Orders nodes by class, fastest first. Within a class neighbours stay neighbours.
static enum mmul_status order_chain(struct mmul_cost *cost, struct mmul_error *err) {
    struct place *places = NULL;
    int count = 0;
    enum mmul_status status = MMUL_ALLOCATE(places, cost->node_count, "the chain", err);
    if (status != MMUL_OK)
        return status;
    for (int i = 0; i < cost->node_count; i++)
        if (i != cost->root_node)
            places[count++] = (struct place){mmul_cost_link_class(cost->request.cluster, i), i};
    qsort(places, (size_t)count, sizeof *places, compare_by_link);
    for (int i = 0; i < count; i++)
        cost->chain[i] = places[i].node;
    mmul_free(places);
    return MMUL_OK;
}

static void fill_nodes(struct mmul_cost *cost) {
    const struct mmul_cluster *cluster = cost->request.cluster;
    for (int rank = 0; rank < cost->size; rank++) {
        const struct mmul_rank_info *info = &cluster->ranks[rank];
        cost->ranks[rank].node = info->node;
        if (info->host_memory)
            cost->nodes[info->node].cpu_threads += info->threads > 1 ? info->threads : 1;
    }
    for (int i = 0; i < cost->node_count; i++)
        set_traffic_losses(cost, i);
}

static void fill_bytes(struct mmul_cost *cost) {
    const struct mmul_problem *p = cost->request.problem;
    enum mmul_axis axis = cost->request.axis;
    cost->result_bytes = (double)mmul_problem_result_unit_bytes(p, axis);
    cost->piece_bytes =
        (p->beta != 0 ? cost->result_bytes : 0) + (double)mmul_problem_split_unit_bytes(p, axis);
}

enum mmul_status mmul_cost_create(const struct mmul_cost_request *request, struct mmul_cost **cost,
                                  struct mmul_error *err) {
    struct mmul_cost *made = NULL;
    int size = request->cluster->size, nodes = request->cluster->node_count;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "the cost model", err);
    if (status != MMUL_OK)
        return status;
    *made = (struct mmul_cost){.request = *request,
                               .size = size,
                               .node_count = nodes,
                               .root_node = request->cluster->ranks[0].node};
    status = MMUL_ALLOCATE_ALL("the cost model", err, MMUL_ARRAY(made->ranks, size),
                               MMUL_ARRAY(made->nodes, nodes), MMUL_ARRAY(made->chain, nodes));
    if (status == MMUL_OK)
        status = order_chain(made, err);
    if (status == MMUL_OK) {
        fill_nodes(made);
        fill_bytes(made);
        *cost = made;
    } else {
        mmul_cost_destroy(made);
    }
    return status;
}

void mmul_cost_destroy(struct mmul_cost *cost) {
    if (cost == NULL)
        return;
    MMUL_FREE_ALL(cost->ranks, cost->nodes, cost->chain, cost);
}

// ----------------------------------------------------------------------------------------- setting

struct mmul_pass_cost mmul_cost_pass(const struct mmul_cost *cost, int rank, int file_ranks) {
    const struct mmul_cost_request *r = &cost->request;
    const struct mmul_pass_request pass = {.problem = r->problem,
                                           .axis = r->axis,
                                           .cut = &cost->cut,
                                           .rank = &r->cluster->ranks[rank],
                                           .assumed_flops = r->assumed ? r->assumed[rank] : 0,
                                           .maps = maps_of(cost, cost->ranks[rank].node),
                                           .value_maps = r->value_maps,
                                           .file_ranks = file_ranks};
    return mmul_pass_cost(&pass);
}

static void set_ranks(struct mmul_cost *cost, const bool *in) {
    int file_ranks = 0;
    for (int rank = 0; rank < cost->size; rank++)
        file_ranks += (in == NULL || in[rank]) && cost->ranks[rank].node == cost->root_node;
    for (int rank = 0; rank < cost->size; rank++) {
        struct mmul_cost_rank *own = &cost->ranks[rank];
        int shared = own->node == cost->root_node ? file_ranks : 0;
        own->in = in == NULL || in[rank];
        own->pass = own->in ? mmul_cost_pass(cost, rank, shared) : (struct mmul_pass_cost){0};
        own->in = own->pass.knots > 0;
        own->from = own->traffic_cpu_seconds = 0;
        own->to = 1;
        cost->nodes[own->node].in |= own->in;
    }
}

// Returns the link between two successive nodes of the chain.
static struct mmul_link link_between(const struct mmul_cost *cost, int from, int to) {
    const struct mmul_cluster *cluster = cost->request.cluster;
    struct mmul_link link = mmul_cost_root_link(cluster, to), other;
    if (from == cost->root_node)
        return link;
    other = cluster->nodes[from].ring_link;
    if (other.bytes_per_second > 0 && (from + 1) % cost->node_count == to)
        return other;
    // Through one switch the slower link counts.
    other = mmul_cost_root_link(cluster, from);
    if (other.bytes_per_second < link.bytes_per_second)
        link.bytes_per_second = other.bytes_per_second;
    if (other.latency_seconds > link.latency_seconds)
        link.latency_seconds = other.latency_seconds;
    return link;
}

// Returns the seconds of a panel on a hop. Root may have to read it first.
static double panel_hop_seconds(const struct mmul_cost *cost, int from, struct mmul_link link) {
    double each = 1 / link.bytes_per_second;
    if (from == cost->root_node && !maps_whole_operand(cost, from) &&
        each < 1 / MMUL_FILE_BYTES_PER_SECOND)
        each = 1 / MMUL_FILE_BYTES_PER_SECOND;
    return cost->panel_bytes * each;
}

static void set_chain(struct mmul_cost *cost) {
    int from = cost->root_node, place = 0;
    double packets = cost->panel_bytes / MMUL_PACKET_BYTES, passed = 0, gap = 0;
    packets = packets > 1 ? packets : 1;
    cost->last_in_chain = -1;
    for (int i = 0; i < cost->node_count - 1; i++) {
        struct mmul_cost_node *node = &cost->nodes[cost->chain[i]];
        if (!node->takes_panels)
            continue;
        struct mmul_link link = link_between(cost, from, cost->chain[i]);
        double seconds = panel_hop_seconds(cost, from, link);
        node->begins = passed + link.latency_seconds;
        passed += seconds / packets + link.latency_seconds;
        node->gap = gap = seconds > gap ? seconds : gap;
        node->first = passed + gap - gap / packets;
        node->chain_place = ++place;
        cost->last_in_chain = from = cost->chain[i];
    }
}

static void set_nodes(struct mmul_cost *cost) {
    double file = file_seconds_per_byte(cost);
    for (int i = 0; i < cost->node_count; i++) {
        struct mmul_cost_node *node = &cost->nodes[i];
        node->link = 1 / mmul_cost_root_link(cost->request.cluster, i).bytes_per_second;
        node->link = node->link > file ? node->link : file;
        node->remote = i != cost->root_node;
        node->takes_pieces = node->in && node->remote &&
                             !(maps_of(cost, i) & mmul_maps_split_operand(cost->request.axis));
        node->takes_panels =
            node->in && node->remote && cost->panel_bytes > 0 && !maps_whole_operand(cost, i);
        node->returns = node->in && node->remote && !(maps_of(cost, i) & MMUL_MAPS_C);
        node->first = node->gap = node->begins = 0;
        node->chain_place = 0;
        if (!node->remote && !maps_whole_operand(cost, i))
            node->first = node->gap = cost->panel_bytes / MMUL_FILE_BYTES_PER_SECOND;
    }
    set_chain(cost);
}

void mmul_cost_set(struct mmul_cost *cost, const bool *in, const struct mmul_cut *cut) {
    const struct mmul_problem *p = cost->request.problem;
    enum mmul_axis axis = cost->request.axis;
    double matrices = (double)mmul_problem_whole_matrices(p, axis);
    cost->cut = *cut;
    cost->rounds = (double)cut->rounds;
    cost->passes = cost->rounds * (double)cut->panels;
    cost->panel_sends = cut->whole_stays ? (double)cut->panels : cost->passes;
    cost->passes_after = cut->rounds > 1 && cut->whole_stays ? (double)cut->panels : 1;
    cost->panel_bytes = matrices * (double)mmul_problem_result_width(p, axis) *
                        (double)mmul_problem_whole_unit_bytes(p, axis) / (double)cut->panels;
    for (int i = 0; i < cost->node_count; i++)
        cost->nodes[i].in = false;
    set_ranks(cost, in);
    set_nodes(cost);
    cost->taking = cost->returning = 0;
    for (int i = 0; i < cost->node_count; i++) {
        cost->taking = cost->nodes[i].takes_pieces ? 1 : cost->taking;
        cost->returning = cost->nodes[i].returns ? 1 : cost->returning;
    }
}

// ---------------------------------------------------------------------------------------- coupling

static void couple_links(struct mmul_cost *cost) {
    double all = 0, taking = 0, returning = 0;
    cost->root_out_bytes = cost->last_in_chain >= 0 ? cost->panel_bytes * cost->panel_sends : 0;
    cost->root_in_bytes = 0;
    for (int i = 0; i < cost->node_count; i++) {
        const struct mmul_cost_node *node = &cost->nodes[i];
        double s = node->remote ? node->units * node->link : 0;
        all += s;
        taking += node->takes_pieces ? s : 0;
        returning += node->returns ? s : 0;
        cost->root_out_bytes += node->takes_pieces ? node->units * cost->piece_bytes : 0;
        cost->root_in_bytes += node->returns ? node->units * cost->result_bytes : 0;
    }
    if (all > 0) {
        cost->taking = taking / all;
        cost->returning = returning / all;
    }
}

static void couple_cpu(struct mmul_cost *cost) {
    const struct mmul_cluster *cluster = cost->request.cluster;
    double panels = cost->panel_bytes * cost->panel_sends;
    for (int i = 0; i < cost->node_count; i++) {
        const struct mmul_cost_node *node = &cost->nodes[i];
        bool relays = node->takes_panels && i != cost->last_in_chain;
        double in = (node->takes_pieces ? node->units * cost->piece_bytes : 0) +
                    (node->takes_panels ? panels : 0);
        double out = (node->returns ? node->units * cost->result_bytes : 0) + (relays ? panels : 0);
        if (i == cost->root_node) {
            in = cost->root_in_bytes;
            out = cost->root_out_bytes;
        }
        cost->ranks[cluster->nodes[i].leader].traffic_cpu_seconds =
            node->sending * out + node->receiving * in;
    }
}

static void couple_order(struct mmul_cost *cost, const double *units) {
    double all = 0, before = 0;
    if (mmul_problem_whole_matrices(cost->request.problem, cost->request.axis) == 1)
        return;
    for (int rank = 0; rank < cost->size; rank++)
        all += units[rank];
    for (int rank = 0; all > 0 && rank < cost->size; rank++) {
        cost->ranks[rank].from = before / all;
        cost->ranks[rank].to = (before += units[rank]) / all;
    }
}

void mmul_cost_couple(struct mmul_cost *cost, const double *units) {
    for (int i = 0; i < cost->node_count; i++)
        cost->nodes[i].units = 0;
    for (int rank = 0; rank < cost->size; rank++)
        cost->nodes[cost->ranks[rank].node].units += units[rank];
    couple_links(cost);
    couple_cpu(cost);
    couple_order(cost, units);
}

// ---------------------------------------------------------------------------------------- one rank

struct mmul_cost_links mmul_cost_links(const struct mmul_cost *cost, double s) {
    double result = cost->returning * s * cost->result_bytes;
    return (struct mmul_cost_links){.pieces = cost->taking * s * cost->piece_bytes,
                                    .result = result,
                                    .last_blocks = result / cost->passes};
}

struct mmul_cost_arrival mmul_cost_arrival(const struct mmul_cost *cost, int rank,
                                           struct mmul_cost_links links) {
    const struct mmul_cost_rank *r = &cost->ranks[rank];
    const struct mmul_cost_node *node = &cost->nodes[r->node];
    double pieces = node->takes_pieces || node->takes_panels ? links.pieces : 0;
    double last = r->to * cost->panel_sends > 1 ? r->to * cost->panel_sends - 1 : 0;
    double first = r->from * ((double)cost->cut.panels - 1);
    return (struct mmul_cost_arrival){.first =
                                          pieces / cost->rounds + node->first + first * node->gap,
                                      .last = pieces + node->first + last * node->gap};
}

// Returns the time when a rank with `units` ends, G included.
static double finish_of(const struct mmul_cost *cost, int rank, struct mmul_cost_links links,
                        double units) {
    const struct mmul_cost_rank *r = &cost->ranks[rank];
    struct mmul_cost_arrival arrival = mmul_cost_arrival(cost, rank, links);
    double tau = mmul_pass_seconds(&r->pass, units / cost->rounds);
    double steady = arrival.first + cost->passes * tau;
    double late = arrival.last + cost->passes_after * tau;
    return (steady > late ? steady : late) + r->traffic_cpu_seconds +
           (cost->nodes[r->node].returns ? links.last_blocks : 0);
}

double mmul_cost_units(const struct mmul_cost *cost, int rank, struct mmul_cost_links links,
                       double seconds) {
    const struct mmul_cost_rank *r = &cost->ranks[rank];
    struct mmul_cost_arrival arrival = mmul_cost_arrival(cost, rank, links);
    double left =
        seconds - r->traffic_cpu_seconds - (cost->nodes[r->node].returns ? links.last_blocks : 0);
    double steady = (left - arrival.first) / cost->passes;
    double late = (left - arrival.last) / cost->passes_after;
    return cost->rounds * mmul_pass_units(&r->pass, steady < late ? steady : late);
}

// ----------------------------------------------------------------------------------- the whole run

double mmul_cost_first_block(const struct mmul_cost *cost, const double *units, double part,
                             struct mmul_cost_links links) {
    double first = INFINITY;
    for (int rank = 0; rank < cost->size; rank++) {
        const struct mmul_cost_rank *r = &cost->ranks[rank];
        const double own = units[rank] * part;
        if (!(own > 0) || !cost->nodes[r->node].returns)
            continue;
        first = fmin(first, mmul_cost_arrival(cost, rank, links).first +
                                mmul_pass_seconds(&r->pass, own / cost->rounds));
    }
    return first;
}

double mmul_cost_evaluate(struct mmul_cost *cost, const double *units) {
    double s = 0;
    mmul_cost_couple(cost, units);
    for (int i = 0; i < cost->node_count; i++)
        s += cost->nodes[i].remote ? cost->nodes[i].units * cost->nodes[i].link : 0;
    struct mmul_cost_links links = mmul_cost_links(cost, s);
    double received = mmul_cost_first_block(cost, units, 1, links) + links.result;
    cost->seconds = 0;
    for (int rank = 0; rank < cost->size; rank++) {
        struct mmul_cost_rank *r = &cost->ranks[rank];
        r->finish = 0;
        if (!(units[rank] > 0) || !r->in)
            continue;
        r->finish = finish_of(cost, rank, links, units[rank]);
        if (cost->nodes[r->node].returns && received > r->finish)
            r->finish = received;
        cost->seconds = r->finish > cost->seconds ? r->finish : cost->seconds;
    }
    return cost->seconds;
}
