// SPDX-License-Identifier: MIT
//
// Panels of the whole operand on their way from leader to leader: root reads them from its file,
// every other member receives them into its slots and passes them on. They go in packets, each
// passed on as soon as it is there, so a long chain delays a panel by packets, not by panels.
//
// Nothing here blocks, and failures travel as everywhere (comm/failure.h).
#pragma once

#include "comm/message.h"
#include "exec/run.h"
#include "plan/panels.h"

struct mmul_packet {
    struct mmul_message receive, send;
    int to;    // member; -1: it ends here
    bool ends; // the last packet of its panel
};

struct mmul_chain {
    struct mmul_run *run; // borrowed
    struct mmul_packet packets[MMUL_PACKETS_AHEAD];
    char *lanes;                           // root: a packet each, owned
    int64_t packet_bytes;                  // at most
    int64_t begun, received, ended;        // packets: sent off or awaited, here, passed on
    int64_t next;                          // panel: root's step, or a member's load ...
    int64_t at;                            // ... of which so many bytes are begun
    int from, to;                          // members that it comes from and goes to
    int64_t panels_received, panels_ended; // whole panels
    struct mmul_channel channel;
};

// Local. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_chain_init(struct mmul_chain *chain, struct mmul_run *run,
                                 struct mmul_error *err);
void mmul_chain_fini(struct mmul_chain *chain);

// Begins and ends what it can; true when something happened. `may_begin`: root may send, or a
// member has a free slot for, the panel of `next`. Local.
bool mmul_chain_advance(struct mmul_chain *chain, bool may_begin);

// Every panel has come and gone.
bool mmul_chain_is_over(const struct mmul_chain *chain);
