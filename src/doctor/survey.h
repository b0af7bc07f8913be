// SPDX-License-Identifier: MIT
// Collects facts about machines and the connections between them. findings.h judges them.
#pragma once

#include "doctor/hostfile.h"
#include "doctor/remote_session.h"
#include "doctor/settings.h"
#include "host/network_probe.h"

enum mmul_survey_end {
    MMUL_SURVEY_ANSWERED,
    MMUL_SURVEY_TIMED_OUT, // not within the limit
    MMUL_SURVEY_ENDED,     // the start command ended, see `detail`
    MMUL_SURVEY_DROPPED,   // answered once, then stopped
};

struct mmul_machine {
    char name[MMUL_HOST_LENGTH]; // as mpirun calls it; the first machine's own name
    int place;                   // index in the hostfile; -1: not in it
    int line;                    // line in the hostfile
    int slots;                   // 0: not given
    enum mmul_survey_end end;
    int detail;                      // exit code or signal
    char words[200];                 // last output, if it did not answer
    json_t *facts;                   // machine_info.h; NULL if it did not answer; owned
    double clock_difference_seconds; // machine's clock minus the first one's, to a tenth
};

// A connection from one machine to an address of another. struct mmul_link is the network between
// two nodes.
struct mmul_connection {
    int from, to;               // machines
    struct mmul_address target; // address of `to`
    bool is_common;             // `from` is in the network of that address
    bool tested;
    int errnum; // 0: connected and sent
    bool received;
    double connect_seconds;
    double bytes_per_second; // 0: too few bytes arrived to measure
    char interface[16];      // interface of `from`
};

// Returns true if the test of the connection succeeded.
static inline bool mmul_connection_is_good(const struct mmul_connection *link) {
    return link->tested && link->errnum == 0 && link->received;
}

struct mmul_survey {
    struct mmul_rsh_agent agent;
    struct mmul_machine *machines; // the first one is this one; owned
    int machine_count;
    struct mmul_connection *links; // owned
    int link_count;
};

// Input of a visit.
struct mmul_survey_request {
    // Lines of the hostfile. Their `machine` fields are set. NULL: only this machine.
    struct mmul_host *hosts;
    int host_count;
    const struct mmul_settings *settings;
    const char *program; // path of the program on other machines
    const char *folder;
    double limit_seconds;   // for a machine's answer
    bool skips_connections; // asks the machines, but lets none connect to another
};

// Asks all machines at the same time, then lets them connect to each other. Up to 16 machines
// connect every pair. With more, each connects to the first and to the next one. A machine that
// does not answer costs only its time limit. Fails with MMUL_ERR_SYSTEM (memory, processes).
enum mmul_status mmul_survey_run(const struct mmul_survey_request *order, struct mmul_survey *visit,
                                 struct mmul_error *err);

void mmul_survey_fini(struct mmul_survey *visit);
