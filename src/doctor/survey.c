// SPDX-License-Identifier: MIT
// Runs a visit: opens a conversation with every machine, waits for hello, asks for facts, then lets
// pairs of machines connect. A link occupies both its machines, so as many links are tested at once
// as there are free pairs. A machine that stops answering is left out from then on. Does not judge.
#include "doctor/survey.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "doctor/machine_info.h"

// Time limits: starting the program there, on top of reaching the machine; an OpenCL probe, in
// which a driver may hang; one connection; and the whole test of a pair.
static const double START_SECONDS = 3, FACTS_SECONDS = 45, CONNECT_SECONDS = 3, LINK_SECONDS = 20;

enum { ALL_PAIRS = 16 };

// State of a running visit.
struct visit_state {
    const struct mmul_survey_request *order;
    struct mmul_survey *visit;
    struct mmul_remote_session *conversations; // one per machine; owned
    // entries of `conversations` that are open, else NULL; owned
    struct mmul_remote_session **active;
    bool *has_answered; // per machine: has answered the last question; owned
};

// ---------------------------------------------------------------------------------------- machines

// Returns the machine that mpirun calls by this name. machine_count: none yet.
static int find_machine(const struct mmul_survey *visit, const char *name) {
    int m = 1;
    while (m < visit->machine_count &&
           strcmp(mmul_host_without_user(visit->machines[m].name), name) != 0)
        m++;
    return m;
}

// Returns true if mpirun mistakes one host for another: it calls "node.a.lan" and "node.b.lan" both
// "node". Names of this machine are no mistake.
static bool is_merged_by_mpirun(const struct mmul_host *host, const struct mmul_host *first) {
    char called[2][MMUL_HOST_LENGTH];
    mmul_host_mpirun_name(host, false, called[0]);
    mmul_host_mpirun_name(first, false, called[1]);
    return strcmp(mmul_host_without_user(called[0]), mmul_host_without_user(called[1])) == 0 &&
           strcmp(mmul_host_without_user(host->name), mmul_host_without_user(first->name)) != 0 &&
           !mmul_address_is_own(mmul_host_without_user(host->name));
}

// Counts slots as mpirun does. A line without a number gives one slot per core if it is the only
// line of its host, else one slot.
static void add_line(struct mmul_machine *machine, struct mmul_host *hosts, int at) {
    if (machine->place < 0) {
        machine->place = at;
        machine->line = hosts[at].line;
        machine->slots = hosts[at].slots;
        return;
    }
    hosts[at].is_merged_by_mpirun = is_merged_by_mpirun(&hosts[at], &hosts[machine->place]);
    if (!hosts[at].is_merged_by_mpirun)
        machine->slots += (machine->slots == 0) + (hosts[at].slots > 0 ? hosts[at].slots : 1);
}

static enum mmul_status list_machines(struct visit_state *state, struct mmul_error *err) {
    const struct mmul_survey_request *order = state->order;
    struct mmul_survey *visit = state->visit;
    enum mmul_status status =
        MMUL_ALLOCATE(visit->machines, order->host_count + 1, "a list of machines", err);
    if (status != MMUL_OK)
        return status;
    struct mmul_machine *first = &visit->machines[0];
    gethostname(first->name, sizeof first->name - 1);
    first->place = -1;
    visit->machine_count = 1;
    struct mmul_host own = {.slots = 0};
    char own_called[MMUL_HOST_LENGTH];
    mmul_text_copy(own.name, sizeof own.name, first->name);
    mmul_host_mpirun_name(&own, order->settings->keeps_domains, own_called);
    for (int h = 0; h < order->host_count; h++) {
        struct mmul_host *host = &order->hosts[h];
        char called[MMUL_HOST_LENGTH];
        mmul_host_mpirun_name(host, order->settings->keeps_domains, called);
        const char *name = mmul_host_without_user(called);
        host->is_own = strcmp(name, own_called) == 0 || mmul_address_is_own(name);
        host->machine = host->is_own ? 0 : find_machine(visit, name);
        struct mmul_machine *machine = &visit->machines[host->machine];
        if (host->machine == visit->machine_count) {
            visit->machine_count++;
            mmul_text_copy(machine->name, sizeof machine->name, called);
            machine->place = -1;
        }
        add_line(machine, order->hosts, h);
    }
    return MMUL_OK;
}

static void close_conversation(struct visit_state *state, int at, enum mmul_survey_end end) {
    struct mmul_machine *machine = &state->visit->machines[at];
    struct mmul_remote_session *conversation = &state->conversations[at];
    if (state->active[at] == NULL)
        return;
    mmul_remote_session_close(conversation, end == MMUL_SURVEY_TIMED_OUT ? 0.0 : 1.0);
    mmul_remote_session_last_line(conversation, machine->words);
    machine->end = end;
    machine->detail = conversation->detail;
    state->active[at] = NULL;
}

// Returns true if an open conversation's output has ended.
static bool has_ended(const struct visit_state *state, int at) {
    return state->active[at] != NULL && state->conversations[at].ended;
}

static enum mmul_status open_conversations(struct visit_state *state, struct mmul_error *err) {
    struct mmul_survey *visit = state->visit;
    int count = visit->machine_count;
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("a list of conversations", err, MMUL_ARRAY(state->conversations, count),
                          MMUL_ARRAY(state->active, count));
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(state->has_answered, count, "a list of answers", err);
    for (int m = 0; m < count && status == MMUL_OK; m++) {
        visit->machines[m].end = MMUL_SURVEY_ENDED;
        if (m > 0 && visit->agent.count == 0)
            continue;
        status = mmul_remote_session_open(&visit->agent, m == 0 ? NULL : visit->machines[m].name,
                                          state->order->program, &state->conversations[m], err);
        state->active[m] = status == MMUL_OK ? &state->conversations[m] : NULL;
    }
    return status;
}

// Waits up to `seconds` for one answer from every open machine. `take` gets ownership of each
// answer. A machine without an answer is left out.
static void collect_answers(struct visit_state *state, double seconds,
                            void (*take)(struct mmul_machine *, json_t *)) {
    double deadline = mmul_clock_now() + seconds;
    int count = state->visit->machine_count, missing;
    bool *has_answered = state->has_answered;
    memset(has_answered, 0, (size_t)count * sizeof *has_answered);
    do {
        missing = 0;
        for (int m = 0; m < count; m++) {
            json_t *answer = state->active[m] == NULL || has_answered[m]
                                 ? NULL
                                 : mmul_remote_session_next_answer(&state->conversations[m]);
            has_answered[m] = has_answered[m] || answer != NULL;
            if (answer != NULL)
                take(&state->visit->machines[m], answer);
            if (!has_answered[m] && has_ended(state, m))
                close_conversation(state, m, MMUL_SURVEY_ENDED);
            missing += state->active[m] != NULL && !has_answered[m];
        }
        if (missing > 0)
            mmul_remote_sessions_wait(state->active, count, deadline);
    } while (missing > 0 && mmul_clock_now() < deadline);
    for (int m = 0; m < count; m++)
        if (!has_answered[m])
            close_conversation(state, m, MMUL_SURVEY_TIMED_OUT);
}

static void store_hello(struct mmul_machine *machine, json_t *answer) {
    machine->end = MMUL_SURVEY_ANSWERED;
    json_decref(answer);
}

static void store_facts(struct mmul_machine *machine, json_t *answer) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    machine->facts = answer;
    machine->clock_difference_seconds = mmul_machine_info_number(answer, "time_seconds") -
                                        ((double)now.tv_sec + (double)now.tv_nsec * 1e-9);
}

static void collect_facts(struct visit_state *state) {
    for (int m = 0; m < state->visit->machine_count; m++)
        if (state->active[m] != NULL)
            mmul_remote_session_ask(state->active[m], "facts %s", state->order->folder);
    collect_answers(state, FACTS_SECONDS, store_facts);
}

// ------------------------------------------------------------------------------------------- links

// Lists links from one machine to the addresses of another: those in a shared network, else all. An
// address that both machines have (a bridge for containers) is skipped. `links` NULL: only counts.
static int list_pair(const struct mmul_survey_request *order, const struct mmul_machine *machines,
                     int from, int to, struct mmul_connection *links) {
    int counts[2] = {0, 0}; // not shared, shared
    for (int common = 1; common >= 0 && counts[1] == 0; common--) {
        struct mmul_address target, own;
        size_t at;
        json_t *entry;
        json_array_foreach(json_object_get(machines[to].facts, "addresses"), at, entry) {
            if (!mmul_machine_info_parse_address(entry, &target) ||
                !mmul_settings_allow_address(order->settings, &target) ||
                mmul_machine_info_find_address(machines[from].facts, target.bits, &own) ||
                mmul_machine_info_find_network(machines[from].facts, &target, &own) !=
                    (common == 1))
                continue;
            if (links != NULL)
                links[counts[common]] = (struct mmul_connection){
                    .from = from, .to = to, .target = target, .is_common = common == 1};
            counts[common]++;
        }
    }
    return counts[0] + counts[1];
}

static bool is_pair(int count, int a, int b) {
    bool is_next = a - b == 1 || b - a == 1;
    return a != b && (count <= ALL_PAIRS || a == 0 || b == 0 || is_next);
}

static enum mmul_status list_links(struct visit_state *state, struct mmul_error *err) {
    struct mmul_survey *visit = state->visit;
    for (int pass = 0; pass < 2; pass++) { // count, then fill
        int count = 0;
        for (int from = 0; from < visit->machine_count; from++)
            for (int to = 0; to < visit->machine_count; to++)
                if (is_pair(visit->machine_count, from, to) && state->active[from] != NULL &&
                    state->active[to] != NULL)
                    count += list_pair(state->order, visit->machines, from, to,
                                       pass == 0 ? NULL : visit->links + count);
        if (pass == 0 && MMUL_ALLOCATE(visit->links, count, "a list of links", err) != MMUL_OK)
            return err->status;
        visit->link_count = count;
    }
    return MMUL_OK;
}

// A link being tested.
struct trial {
    struct mmul_connection *link; // NULL: none
    char token[MMUL_TOKEN_LENGTH + 1];
    double deadline;
    // The connector was asked, the connector has answered, the listener has answered.
    bool connecting, connected, received;
};

static double connect_seconds(const struct visit_state *state) {
    double limit = state->order->limit_seconds;
    return limit < CONNECT_SECONDS ? limit : CONNECT_SECONDS;
}

static struct mmul_connection *find_free_link(const struct visit_state *state,
                                              struct trial *const *busy) {
    for (int l = 0; l < state->visit->link_count; l++) {
        struct mmul_connection *link = &state->visit->links[l];
        if (!link->tested && state->active[link->from] != NULL && state->active[link->to] != NULL &&
            busy[link->from] == NULL && busy[link->to] == NULL)
            return link;
    }
    return NULL;
}

static void start_trial(struct visit_state *state, struct mmul_connection *link,
                        struct trial *trial) {
    *trial = (struct trial){.link = link, .deadline = mmul_clock_now() + LINK_SECONDS};
    snprintf(trial->token, sizeof trial->token, "%016llx", (unsigned long long)mmul_random_seed());
    link->tested = true;
    link->errnum = ETIMEDOUT;
    mmul_remote_session_ask(state->active[link->to], "listen %s %g", trial->token,
                            connect_seconds(state) + 1);
}

static void apply_answer(struct visit_state *state, struct trial *trial, int machine,
                         const json_t *answer) {
    struct mmul_connection *link = trial->link;
    if (strcmp(mmul_json_get_text(answer, "token"), trial->token) != 0)
        return; // answer to an earlier trial that was given up
    if (machine == link->from) {
        link->errnum = (int)mmul_machine_info_number(answer, "errno");
        link->connect_seconds = mmul_machine_info_number(answer, "connect_seconds");
        mmul_text_copy(link->interface, sizeof link->interface,
                       mmul_json_get_text(answer, "interface"));
        trial->connected = true;
        if (link->connect_seconds == 0.0)
            // tell the listener not to wait
            mmul_remote_session_ask(state->active[link->to], "%s", "");
    } else if (!trial->connecting) {
        mmul_remote_session_ask(state->active[link->from], "connect %s %d %s %g", trial->token,
                                (int)mmul_machine_info_number(answer, "port"), link->target.text,
                                connect_seconds(state));
        trial->connecting = true;
    } else {
        link->received = mmul_machine_info_is_true(answer, "received");
        link->bytes_per_second = mmul_machine_info_number(answer, "bytes_per_second");
        trial->received = true;
    }
}

// Ends the trial of a machine and frees both its machines.
static void end_trial(struct trial **busy, int machine) {
    struct trial *trial = busy[machine];
    busy[trial->link->from] = NULL;
    busy[trial->link->to] = NULL;
    trial->link = NULL;
}

// Returns the machine that the trial waits for.
static int awaited_machine(const struct trial *trial) {
    return trial->connecting && !trial->connected ? trial->link->from : trial->link->to;
}

static void follow_trial(struct visit_state *state, struct trial **busy, int machine) {
    json_t *answer;
    while (busy[machine] != NULL && state->active[machine] != NULL &&
           (answer = mmul_remote_session_next_answer(state->active[machine])) != NULL) {
        apply_answer(state, busy[machine], machine, answer);
        json_decref(answer);
        if (busy[machine]->connected && busy[machine]->received)
            end_trial(busy, machine);
    }
    bool is_late = busy[machine] != NULL && mmul_clock_now() > busy[machine]->deadline &&
                   awaited_machine(busy[machine]) == machine;
    if (!is_late && !has_ended(state, machine))
        return;
    if (busy[machine] != NULL) {
        busy[machine]->link->tested = false;
        end_trial(busy, machine);
    }
    close_conversation(state, machine, MMUL_SURVEY_DROPPED);
}

static enum mmul_status test_links(struct visit_state *state, struct mmul_error *err) {
    int count = state->visit->machine_count;
    // trials is indexed by link.to, busy by machine.
    struct trial *trials = NULL, **busy = NULL;
    enum mmul_status status = MMUL_ALLOCATE_ALL("a list of connections", err,
                                                MMUL_ARRAY(trials, count), MMUL_ARRAY(busy, count));
    for (bool is_done = status != MMUL_OK; !is_done;) {
        struct mmul_connection *link;
        while ((link = find_free_link(state, busy)) != NULL) {
            busy[link->from] = busy[link->to] = &trials[link->to];
            start_trial(state, link, &trials[link->to]);
        }
        is_done = true;
        for (int m = 0; m < count; m++)
            is_done = is_done && busy[m] == NULL;
        if (!is_done)
            mmul_remote_sessions_wait(state->active, count, mmul_clock_now() + 1.0);
        for (int m = 0; m < count; m++)
            follow_trial(state, busy, m);
    }
    mmul_free(busy);
    mmul_free(trials);
    return status;
}

// ------------------------------------------------------------------------------------------- visit

enum mmul_status mmul_survey_run(const struct mmul_survey_request *order, struct mmul_survey *visit,
                                 struct mmul_error *err) {
    struct visit_state state = {.order = order, .visit = visit};
    *visit = (struct mmul_survey){.machine_count = 0};
    mmul_rsh_agent_choose(order->settings->agent, order->limit_seconds, &visit->agent);
    enum mmul_status status = list_machines(&state, err);
    if (status == MMUL_OK)
        status = open_conversations(&state, err);
    if (status == MMUL_OK) {
        collect_answers(&state, order->limit_seconds + START_SECONDS, store_hello);
        collect_facts(&state);
    }
    if (status == MMUL_OK && !order->skips_connections)
        status = list_links(&state, err);
    if (status == MMUL_OK && !order->skips_connections)
        status = test_links(&state, err);
    for (int m = 0; state.conversations != NULL && m < visit->machine_count; m++) {
        if (state.active != NULL)
            close_conversation(&state, m, visit->machines[m].end);
        mmul_remote_session_fini(&state.conversations[m]);
    }
    MMUL_FREE_ALL(state.conversations, state.active, state.has_answered);
    if (status != MMUL_OK)
        mmul_survey_fini(visit);
    return status;
}

void mmul_survey_fini(struct mmul_survey *visit) {
    for (int m = 0; m < visit->machine_count; m++)
        json_decref(visit->machines[m].facts);
    mmul_free(visit->machines);
    mmul_free(visit->links);
    *visit = (struct mmul_survey){.machine_count = 0};
}
