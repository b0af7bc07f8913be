// SPDX-License-Identifier: MIT
// Judges connections between machines: reachability and rate. Open MPI uses every network that two
// machines share, and waits for each. A blocked network makes a job hang silently, a slow one slows
// down the whole job. The remedy often is to use only a network that works.
#include "doctor/findings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "base/memory.h"
#include "doctor/machine_info.h"

// A network slower than the best by this factor is not worth using. One as fast as this always is,
// and a short measurement of it is inaccurate.
static const double SLOWER = 4, FAST_BYTES_PER_SECOND = 1e9;

// ---------------------------------------------------------------------------------------- networks

double mmul_survey_network_rate(const struct mmul_survey *visit, const char *network) {
    double *rates = calloc((size_t)visit->link_count + 1, sizeof *rates), rate = 0.0;
    int count = 0;
    for (int l = 0; rates != NULL && l < visit->link_count; l++) {
        const struct mmul_connection *link = &visit->links[l];
        char text[24];
        bool counts =
            mmul_connection_is_good(link) && link->is_common && link->bytes_per_second > 0.0;
        if (counts && strcmp(mmul_address_network(&link->target, text), network) == 0)
            rates[count++] = link->bytes_per_second;
    }
    if (count > 0)
        rate = mmul_median(rates, count);
    free(rates);
    return rate;
}

// Finds the network with the highest median rate, as "10.0.0.0/24", and its rate. Returns false if
// nothing was measured.
static bool find_best_network(const struct mmul_survey *visit, char text[static 24], double *rate) {
    *rate = 0.0;
    for (int l = 0; l < visit->link_count; l++) {
        char network[24];
        double found =
            mmul_survey_network_rate(visit, mmul_address_network(&visit->links[l].target, network));
        if (found > *rate) {
            *rate = found;
            mmul_text_copy(text, 24, network);
        }
    }
    return *rate > 0.0;
}

bool mmul_survey_network_is_repeated(const struct mmul_survey *visit, int at, const char *network) {
    char earlier[24];
    for (int l = 0; l < at; l++)
        if (strcmp(mmul_address_network(&visit->links[l].target, earlier), network) == 0)
            return true;
    return false;
}

static void judge_slow(struct mmul_findings *judgement) {
    const struct mmul_survey *visit = judgement->visit;
    char best[24], network[24], slow_text[32], best_text[32];
    double best_rate;
    if (!find_best_network(visit, best, &best_rate))
        return;
    for (int l = 0; l < visit->link_count; l++) {
        const struct mmul_connection *link = &visit->links[l];
        double rate = mmul_survey_network_rate(visit, mmul_address_network(&link->target, network));
        if (rate <= 0.0 || rate * SLOWER >= best_rate || rate >= FAST_BYTES_PER_SECOND ||
            mmul_survey_network_is_repeated(visit, l, network))
            continue;
        mmul_findings_add(
            judgement, NULL,
            "network %s (%s on %s) carries %s/s where %s carries %s/s, and Open MPI uses both",
            network, link->target.interface, visit->machines[link->to].name,
            mmul_bytes_format((int64_t)rate, slow_text), best,
            mmul_bytes_format((int64_t)best_rate, best_text));
        mmul_findings_add_fix(judgement, "export OMPI_MCA_btl_tcp_if_include=%s", best);
    }
}

// -------------------------------------------------------------------------------- the same address

// Returns true for one machine under two names that mpirun takes for two machines.
static bool is_same_machine(const struct mmul_machine *machine, const struct mmul_machine *other) {
    return machine->place >= 0 && other->place >= 0 &&
           strcmp(mmul_json_get_text(machine->facts, "host"),
                  mmul_json_get_text(other->facts, "host")) == 0 &&
           json_equal(json_object_get(machine->facts, "addresses"),
                      json_object_get(other->facts, "addresses")) != 0;
}

// Reports an address that two machines share, such as a bridge for containers: Open MPI would
// connect to itself.
static void judge_shared_address(struct mmul_findings *judgement, int machine,
                                 const struct mmul_address *address) {
    const struct mmul_survey *visit = judgement->visit;
    struct mmul_address other;
    char best[24];
    double rate;
    for (int m = 0; m < machine; m++)
        if (mmul_machine_info_find_address(visit->machines[m].facts, address->bits, &other))
            return; // reported already
    for (int m = machine + 1; m < visit->machine_count; m++) {
        if (!mmul_machine_info_find_address(visit->machines[m].facts, address->bits, &other) ||
            is_same_machine(&visit->machines[machine], &visit->machines[m]))
            continue;
        mmul_findings_add(judgement, NULL, "%s is an address of both %s (%s) and %s (%s)",
                          address->text, visit->machines[machine].name, address->interface,
                          visit->machines[m].name, other.interface);
        if (find_best_network(visit, best, &rate))
            mmul_findings_add_fix(judgement,
                                  "export OMPI_MCA_btl_tcp_if_include=%s "
                                  "OMPI_MCA_oob_tcp_if_include=%s",
                                  best, best);
        else
            mmul_findings_add_fix(judgement,
                                  "export OMPI_MCA_btl_tcp_if_exclude=lo,%s "
                                  "OMPI_MCA_oob_tcp_if_exclude=lo,%s",
                                  address->interface, address->interface);
        return;
    }
}

static void judge_same_machines(struct mmul_findings *judgement) {
    const struct mmul_machine *machines = judgement->visit->machines;
    for (int m = 1; m < judgement->visit->machine_count; m++) {
        int first = 0;
        while (first < m && !is_same_machine(&machines[first], &machines[m]))
            first++;
        if (first == m)
            continue;
        mmul_findings_add(judgement, NULL, "'%s' line %d: '%s' is the machine '%s' of line %d",
                          judgement->hostfile, machines[m].line, machines[m].name,
                          machines[first].name, machines[first].line);
        mmul_findings_add_fix(judgement,
                              "sed -i %dd '%s'   # one name, with all slots of the machine",
                              machines[m].line, judgement->hostfile);
    }
}

static void judge_shared_addresses(struct mmul_findings *judgement) {
    for (int m = 0; m < judgement->visit->machine_count; m++) {
        struct mmul_address address;
        size_t at;
        json_t *entry;
        json_array_foreach(json_object_get(judgement->visit->machines[m].facts, "addresses"), at,
                           entry) {
            if (mmul_machine_info_parse_address(entry, &address) &&
                mmul_settings_allow_address(judgement->settings, &address))
                judge_shared_address(judgement, m, &address);
        }
    }
}

// ------------------------------------------------------------------------------------------- pairs

// The links between two machines.
struct pair {
    const struct mmul_machine *a, *b;
    const struct mmul_connection *worst; // most informative failure; NULL: none
    const struct mmul_connection *good;  // NULL: none
    int tested, failed;
    struct mmul_text text; // "node1 to 10.0.0.2: no answer within 3 s; ..."
};

// Returns true if the failure is more informative: an error of the connecting machine beats a
// timeout.
static bool is_more_informative(const struct mmul_connection *link,
                                const struct mmul_connection *than) {
    return than == NULL || (than->errnum == ETIMEDOUT && link->errnum != ETIMEDOUT);
}

static const char *describe_failure(const struct mmul_connection *link) {
    switch (link->errnum) {
    case 0:
        return "another program answered";
    case ETIMEDOUT:
        return link->connect_seconds > 0.0 ? "connected, but no data arrived" : "no answer";
    case EINVAL:
        return "discarded by a blackhole route on the connecting machine";
    case EACCES:
    case EPERM:
        return "prohibited by a route or firewall on the connecting machine";
    default:
        return strerror(link->errnum);
    }
}

static void add_link(const struct mmul_survey *visit, const struct mmul_connection *link,
                     struct pair *pair) {
    if (!link->tested)
        return;
    pair->tested++;
    if (mmul_connection_is_good(link)) {
        pair->good = pair->good == NULL ? link : pair->good;
        return;
    }
    mmul_text_add(&pair->text, "%s%s to %s (%s): %s", pair->failed > 0 ? "; " : "",
                  visit->machines[link->from].name, link->target.text,
                  visit->machines[link->to].name, describe_failure(link));
    pair->failed++;
    pair->worst = is_more_informative(link, pair->worst) ? link : pair->worst;
}

// Returns the address that the link would start from: one in the same network, else the machine's
// name.
static const char *find_source_address(const struct mmul_survey *visit,
                                       const struct mmul_connection *link,
                                       struct mmul_address *source) {
    if (mmul_machine_info_find_network(visit->machines[link->from].facts, &link->target, source))
        return source->text;
    return visit->machines[link->from].name;
}

static void fix_link(struct mmul_findings *judgement, const struct mmul_connection *link) {
    const struct mmul_survey *visit = judgement->visit;
    const struct mmul_machine *from = &visit->machines[link->from],
                              *to = &visit->machines[link->to];
    struct mmul_address source;
    const char *by = find_source_address(visit, link, &source);
    const char *firewall = mmul_json_get_text(to->facts, "firewall");
    char there[1024], here[1024];
    mmul_findings_command_prefix(judgement, to, there);
    mmul_findings_command_prefix(judgement, from, here);
    if (link->errnum == EINVAL)
        mmul_findings_add_fix(judgement,
                              "%ssudo ip route del blackhole %s   # '%sip route' shows it", here,
                              link->target.text, here);
    else if (link->errnum != ETIMEDOUT && link->errnum != ECONNREFUSED && link->errnum != 0)
        mmul_findings_add_fix(judgement, "%sip route get %s   # correct the route it shows", here,
                              link->target.text);
    else if (link->connect_seconds > 0.0)
        mmul_findings_add_fix(judgement,
                              "%ssudo ip link set %s mtu 1500   # the same on all machines", here,
                              link->interface);
    else if (strcmp(firewall, "ufw") == 0)
        mmul_findings_add_fix(judgement, "%ssudo ufw allow from %s proto tcp", there, by);
    else if (strcmp(firewall, "firewall-cmd") == 0)
        mmul_findings_add_fix(judgement, "%ssudo firewall-cmd --zone=trusted --add-source=%s",
                              there, by);
    else
        mmul_findings_add_fix(judgement, "%ssudo iptables -I INPUT -p tcp -s %s -j ACCEPT", there,
                              by);
}

static void judge_pair(struct mmul_findings *judgement, int a, int b) {
    const struct mmul_survey *visit = judgement->visit;
    struct pair pair = {.a = &visit->machines[a], .b = &visit->machines[b]};
    char network[24];
    for (int l = 0; l < visit->link_count; l++) {
        const struct mmul_connection *link = &visit->links[l];
        if ((link->from == a && link->to == b) || (link->from == b && link->to == a))
            add_link(visit, link, &pair);
    }
    if (pair.failed > 0) {
        const char *some = pair.good != NULL ? "cannot reach each other in every direction"
                                             : "do not reach each other";
        mmul_findings_add(judgement, NULL, "%s and %s %s: %s", pair.a->name, pair.b->name, some,
                          mmul_text_get(&pair.text));
        bool other_network = pair.good != NULL &&
                             !mmul_address_same_network(&pair.good->target, &pair.worst->target);
        if (other_network)
            mmul_findings_add_fix(judgement,
                                  "export OMPI_MCA_btl_tcp_if_include=%s "
                                  "OMPI_MCA_oob_tcp_if_include=%s",
                                  mmul_address_network(&pair.good->target, network), network);
        else
            fix_link(judgement, pair.worst);
    }
    mmul_text_fini(&pair.text);
}

// Reports two machines that answered but have no address for each other.
static void judge_unconnected(struct mmul_findings *judgement, int a, int b) {
    const struct mmul_survey *visit = judgement->visit;
    const struct mmul_machine *one = &visit->machines[a], *other = &visit->machines[b];
    char on[1024];
    if (one->facts == NULL || other->facts == NULL)
        return;
    for (int l = 0; l < visit->link_count; l++) {
        const struct mmul_connection *link = &visit->links[l];
        if ((link->from == a && link->to == b) || (link->from == b && link->to == a))
            return;
    }
    mmul_findings_add(judgement, NULL, "%s and %s have no IPv4 address to reach each other%s",
                      one->name, other->name,
                      judgement->settings->include[0] ? ": btl_tcp_if_include leaves none" : "");
    if (judgement->settings->include[0] != '\0')
        mmul_findings_add_fix(judgement, "unset OMPI_MCA_btl_tcp_if_include");
    else
        mmul_findings_add_fix(judgement, "%sip -4 address   # plug in and set up a network",
                              mmul_findings_command_prefix(judgement, other, on));
}

void mmul_findings_derive_network(struct mmul_findings *judgement) {
    int count = judgement->visit->machine_count;
    for (int a = 0; a < count; a++)
        for (int b = a + 1; b < count; b++)
            judge_pair(judgement, a, b);
    for (int b = 1; b < count; b++)
        judge_unconnected(judgement, 0, b);
    judge_same_machines(judgement);
    judge_shared_addresses(judgement);
    judge_slow(judgement);
}
