// SPDX-License-Identifier: MIT
//
// A look at machines: what each says about itself, and which reaches which. Plain facts, judged in
// judge.h.
#pragma once

#include "doctor/conversation.h"
#include "doctor/hostfile.h"
#include "doctor/settings.h"
#include "host/reach.h"

enum mmul_visit_end {
    MMUL_VISIT_ANSWERED,
    MMUL_VISIT_SILENT, // not within the limit
    MMUL_VISIT_ENDED,  // what was to start the program there ended, with `detail`
    MMUL_VISIT_LEFT,   // it answered once, and not any more
};

struct mmul_machine {
    char name[MMUL_HOST_LENGTH]; // by which mpirun calls it, the first machine its own
    int place;                   // in the hostfile, from 0; -1: not in it
    int line;                    // where it stands there
    int slots;                   // 0: not given
    enum mmul_visit_end end;
    int detail;                      // exit code or signal
    char words[200];                 // the last thing it said, when it did not answer
    json_t *facts;                   // facts.h; NULL unless it answered; owned
    double clock_difference_seconds; // its clock less the first machine's, to a tenth
};

// One machine to an address of another; what the network between two nodes does is struct mmul_link.
struct mmul_connection {
    int from, to;               // machines
    struct mmul_address target; // of `to`
    bool is_common;             // `from` is in the network of that address
    bool tested;
    int errnum; // 0: reached and sent
    bool received;
    double connect_seconds;
    double bytes_per_second; // 0: too few came to tell
    char interface[16];      // of `from`
};

struct mmul_visit {
    struct mmul_agent agent;
    struct mmul_machine *machines; // the first one is this one; owned
    int machine_count;
    struct mmul_connection *links; // owned
    int link_count;
};

// What to look at.
struct mmul_visit_order {
    struct mmul_host *hosts; // NULL: this machine alone; their machines are set
    int host_count;
    const struct mmul_settings *settings;
    const char *program; // as it is called on other machines
    const char *folder;
    double limit_seconds; // for a machine to answer
};

// Asks all machines at the same time, then lets them connect to each other: every pair up to 16
// machines, of more each with the first one and the next one. A machine that does not answer costs
// its limit and no more. Fails with MMUL_ERR_SYSTEM (memory, processes).
enum mmul_status mmul_visit_make(const struct mmul_visit_order *order, struct mmul_visit *visit,
                                 struct mmul_error *err);

void mmul_visit_fini(struct mmul_visit *visit);
